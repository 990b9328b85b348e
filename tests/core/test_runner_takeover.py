"""What a runner finds that another one left, and what signals do to one."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from meshtui.core import identity
from meshtui.core.calls import Call, EndReason, new_call_id
from meshtui.core.clock import SystemClock, iso
from meshtui.core.engines.base import EngineRequest
from meshtui.core.engines.fake import FakeReply
from meshtui.core.lane.index import list_records
from meshtui.core.models.names import RECOVERED, RETRY
from meshtui.core.models.result import make_result
from meshtui.core.snapshot import take_snapshot
from meshtui.core.storage import OsLock
from tests.support.runners import LaneBox, MakeBox, alive, by_id, dump, finished, lane_config, load, pid_in
from tests.support.waiting import wait_until

HANG = FakeReply(hang=True)


def until(note: Path, words: str = "echo done") -> str:
    """A command that waits for a file."""
    return f"until [ -e {note} ]; do sleep 0.02; done; {words}"


def left_running(box: LaneBox, envelope_id: str = "a") -> Call:
    """A call whose runner ended without it."""
    runner = box.start()
    call = box.active_call(envelope_id)
    runner.runner.request_hand_over()
    assert runner.join().state == "handed over"
    assert call.state() == "running"
    return call


class TestKilledRunner:
    def test_its_call_is_adopted(self, box: LaneBox) -> None:
        note = box.work / "go"
        box.enqueue("a", engine="command", deadline_seconds=60, story_id="S")
        child = box.start_process(until(note, "echo MESHTUI_SESSION=s1; echo done"))
        call = box.active_call("a")
        before = box.record("active", "a")
        child.kill()
        child.wait(10)
        assert take_snapshot(box.root, SystemClock()).as_json()["lane"]["state"] == "dead"
        assert call.state() == "running"
        runner = box.start(until_idle=True)
        wait_until(lambda: box.events("phase_adopted"))
        assert box.record("active", "a") == before
        assert box.status()["state"] == "running"
        note.touch()
        outcome = runner.join()
        assert (outcome.completed, outcome.bad) == (1, False)
        result = box.result("a")
        assert (result["status"], result["output"], result["call"]) == ("done", "done\n", call.call_id)
        assert result["engine"] == "command"
        assert result["started_at"] == (call.about() or {})["started_at"]
        record = box.record("claimed", "a")
        assert (record["attempt"], record["deadline_at_ms"]) == (1, before["deadline_at_ms"])
        assert box.sessions() == {"S\0command": "s1"}
        assert box.starts() == []
        assert len(box.calls()) == 1

    def test_a_reply_that_came_meanwhile_is_used(self, box: LaneBox) -> None:
        note = box.work / "go"
        box.enqueue("a", engine="command")
        child = box.start_process(until(note))
        call = box.active_call("a")
        child.kill()
        child.wait(10)
        note.touch()
        assert call.wait(20)
        assert box.run().completed == 1
        assert box.result("a")["output"] == "done\n"
        assert box.starts() == []

    def test_the_same_deadline_holds(self, make_box: MakeBox) -> None:
        box = make_box(by_id(a=HANG))
        box.enqueue("a", deadline_seconds=1.0)
        call = left_running(box)
        deadline = box.record("active", "a")["deadline_at_ms"]
        runner = box.start()
        wait_until(lambda: call.state() == "ended")
        done = call.exit()
        assert done is not None
        # The end is known to a hundredth of a second.
        assert deadline - 20 <= done.ended_at_ms
        wait_until(lambda: box.stalls())
        runner.stop()
        assert box.stalls()[0]["attempt"] == 1

    def test_found_running_past_its_deadline_it_counts_as_a_stall(self, make_box: MakeBox) -> None:
        box: LaneBox = make_box(lambda request: HANG if len(box.engine.requests) == 1 else FakeReply("ok"))
        box.enqueue("a")
        call = left_running(box)
        (path,) = box.paths.active.iterdir()
        dump(path, {**load(path), "deadline_at_ms": SystemClock().now_ms() - 1000})
        box.run()
        assert load(call.ending_path)["reason"] == "deadline"
        assert [stall["attempt"] for stall in box.stalls()] == [1]
        assert box.record("claimed", "a")["attempt"] == 2

    def test_a_second_attempt_stays_the_second(self, make_box: MakeBox) -> None:
        box = make_box(by_id(a=HANG))
        box.enqueue("a", deadline_seconds=0.4)
        runner = box.start()
        wait_until(lambda: len(box.calls()) == 2)
        box.active_call("a")
        runner.runner.request_hand_over()
        runner.join()
        outcome = box.run()
        assert outcome.state == "parked"
        assert [stall["attempt"] for stall in box.stalls()] == [1, 2]
        assert len(box.calls()) == 2

    def test_the_fallback_is_made_by_the_next_one(self, make_box: MakeBox) -> None:
        def script(request: EngineRequest) -> FakeReply:
            if request.session_id:
                return FakeReply(exit_code=75, delay_seconds=0.4)
            return FakeReply("ok", session_id="s")

        box = make_box(script)
        box.enqueue("one", story_id="S")
        box.run()
        box.enqueue("two", story_id="S")
        call = left_running(box, "two")
        assert call.wait(20)
        box.run()
        assert box.starts() == [("one", None), ("two", "s"), ("two", None)]
        assert box.result("two")["fresh_fallback"] is True


class TestSignals:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_ends_runner_and_call_and_puts_the_record_back(
        self, number: signal.Signals, box: LaneBox
    ) -> None:
        note = box.work / "pid"
        box.enqueue("a", engine="command")
        (name,) = list_records(box.paths.pending)
        child = box.start_process(f"echo $$ > {note}; exec sleep 600")
        call = box.active_call("a")
        pid = pid_in(note)
        child.send_signal(number)
        code, out, err = finished(child)
        assert (code, err) == (130, "")
        assert json.loads(out) == {
            "lane_id": "lane-1",
            "state": "aborted",
            "completed": 0,
            "parked": False,
            "ended_badly": False,
        }
        assert not alive(pid)
        assert load(call.ending_path)["reason"] == "stopped"
        assert list_records(box.paths.pending) == [name]
        assert box.record("pending", "a")["attempt"] == 1
        assert box.status()["state"] == "waiting"
        assert not box.paths.runner_lock.exists()

    def test_sighup_leaves_the_call(self, box: LaneBox) -> None:
        note = box.work / "go"
        box.enqueue("a", engine="command")
        child = box.start_process(until(note))
        call = box.active_call("a")
        child.send_signal(signal.SIGHUP)
        code, out, err = finished(child)
        assert (code, err) == (130, "")
        assert json.loads(out)["state"] == "handed over"
        assert call.state() == "running"
        assert not call.ending_path.exists()
        assert box.ids("active") == ["a"]
        assert not box.paths.runner_lock.exists()
        note.touch()
        assert box.run().completed == 1
        assert box.result("a")["output"] == "done\n"

    def test_a_call_that_ignores_sigterm(self, box: LaneBox) -> None:
        """Five seconds are its to end in; then it is killed."""
        note = box.work / "pid"
        box.enqueue("a", engine="command")
        child = box.start_process(f"trap '' TERM; echo $$ > {note}; while :; do sleep 0.05; done")
        box.active_call("a")
        pid = pid_in(note)
        child.terminate()
        code, _, _ = finished(child)
        assert code == 130
        assert not alive(pid)
        assert box.ids("pending") == ["a"]


class TestEndings:
    """Whoever takes over carries out what ``ending.json`` says."""

    @pytest.mark.parametrize("running", [True, False])
    @pytest.mark.parametrize(
        ("reason", "error"),
        [
            ("killed", "killed by operator"),
            ("output", "output limit"),
            ("budget", "ended: budget"),
            ("limit", "ended: limit"),
        ],
    )
    def test_it_failed(self, reason: EndReason, error: str, running: bool, make_box: MakeBox) -> None:
        box = make_box(by_id(a=HANG))
        box.enqueue("a")
        box.enqueue("b")
        call = left_running(box)
        if running:
            call.request_end(reason, "somebody")
        else:
            call.end(reason, "somebody")
        outcome = box.run()
        assert call.state() == "ended"
        assert load(call.ending_path)["reason"] == reason
        assert (outcome.completed, outcome.bad) == (2, True)
        assert (box.result("a")["status"], box.result("a")["error"]) == ("failed", error)
        assert box.ids("claimed") == ["a", "b"]

    @pytest.mark.parametrize("running", [True, False])
    def test_a_deadline_is_a_stall(self, running: bool, make_box: MakeBox) -> None:
        box: LaneBox = make_box(lambda request: HANG if len(box.engine.requests) == 1 else FakeReply("ok"))
        box.enqueue("a")
        call = left_running(box)
        if running:
            call.request_end("deadline", "runner")
        else:
            call.end("deadline", "runner")
        box.run()
        assert [stall["attempt"] for stall in box.stalls()] == [1]
        assert (box.result("a")["status"], box.record("claimed", "a")["attempt"]) == ("done", 2)
        (name,) = list_records(box.paths.claimed)
        assert name.startswith(RETRY)

    @pytest.mark.parametrize("running", [True, False])
    def test_a_stop_puts_the_record_back_and_the_new_runner_works_on(
        self, running: bool, make_box: MakeBox
    ) -> None:
        box: LaneBox = make_box(lambda request: HANG if len(box.engine.requests) == 1 else FakeReply("ok"))
        box.enqueue("a")
        (name,) = list_records(box.paths.pending)
        call = left_running(box)
        if running:
            call.request_end("stopped", "runner")
        else:
            call.end("stopped", "runner")
        outcome = box.run()
        assert (outcome.state, outcome.completed) == ("waiting", 1)
        assert list_records(box.paths.claimed) == [name]
        assert [event["event"] for event in box.events("phase_aborted", "phase_started", "phase_done")] == [
            "phase_started", "phase_aborted", "phase_started", "phase_done",
        ]  # fmt: skip
        assert box.stalls() == []

    def test_one_that_had_no_time_to_start(self, box: LaneBox) -> None:
        """The record names a call whose end was asked for before there was one."""
        box.enqueue("a")
        name = self.claimed(box, call=new_call_id(SystemClock().now_ms(), "a", "run"))
        call = Call.attach(box.run_dir, load(box.paths.active / name)["call"])
        call.request_end("killed", "test")
        box.run()
        assert box.result("a")["error"] == "killed by operator"
        assert box.starts() == []

    @staticmethod
    def claimed(box: LaneBox, **fields: object) -> str:
        """Claim the head as a runner that then died; its name."""
        name = list_records(box.paths.pending)[0]
        record = load(box.paths.pending / name)
        record.update({"attempt": 1, "deadline_budget_seconds": 60, "deadline_at_ms": 1, **fields})
        (box.paths.pending / name).unlink()
        dump(box.paths.active / name, record)
        return name


class TestLostCalls:
    def kill_whole(self, call: Call) -> None:
        """As a reboot would: nothing of the call is left, and no exit status."""
        who = call.process()
        assert who is not None
        os.killpg(who.pid, signal.SIGKILL)
        wait_until(lambda: call.state() == "lost")

    def test_found_lost_it_runs_again_once(self, make_box: MakeBox) -> None:
        box: LaneBox = make_box(lambda request: HANG if len(box.engine.requests) == 1 else FakeReply("ok"))
        box.enqueue("a")
        box.enqueue("b")
        first = left_running(box)
        self.kill_whole(first)
        outcome = box.run()
        assert outcome.completed == 2
        assert box.starts() == [("a", None), ("a", None), ("b", None)]
        assert list_records(box.paths.claimed)[0].startswith(RECOVERED + "0000000000000001-")
        record = box.record("claimed", "a")
        assert record["attempt"] == 1
        assert record["call"] != first.call_id
        assert len(box.events("phase_recovered")) == 1
        assert box.stalls() == []

    def test_lost_under_a_runner(self, make_box: MakeBox) -> None:
        box: LaneBox = make_box(lambda request: HANG if len(box.engine.requests) == 1 else FakeReply("ok"))
        box.enqueue("a")
        runner = box.start(until_idle=True)
        self.kill_whole(box.active_call("a"))
        assert runner.join().completed == 1
        assert len(box.calls()) == 2

    def test_a_wrapper_killed_alone_leaves_its_program_to_be_waited_for(self, box: LaneBox) -> None:
        note = box.work / "go"
        box.enqueue("a", engine="command")
        child = box.start_process(until(note, f"echo ended >> {note}"))
        call = box.active_call("a")
        child.kill()
        child.wait(10)
        who = call.process()
        assert who is not None
        os.kill(who.pid, signal.SIGKILL)
        runner = box.start(until_idle=True)
        wait_until(lambda: box.events("phase_adopted"))
        assert box.starts() == []
        note.touch()
        runner.join()
        # How it ended nobody knows, so it runs again; never beside itself.
        assert note.read_text() == "ended\n"
        assert box.starts() == [("a", None)]

    @pytest.mark.parametrize("prefix", ["", RETRY, RECOVERED])
    def test_a_record_without_a_call(self, prefix: str, box: LaneBox) -> None:
        """Its runner died between claim and start, or was another tool's."""
        box.enqueue("a")
        (name,) = list_records(box.paths.pending)
        record = load(box.paths.pending / name)
        (box.paths.pending / name).unlink()
        dump(box.paths.active / f"{prefix}{name}", {**record, "__active_dir": "/srv/x", "deadline_at_ms": 5})
        assert box.run().completed == 1
        (after,) = list_records(box.paths.claimed)
        assert after == f"{RECOVERED}{name}"
        record = box.record("claimed", "a")
        # Of another tool's record only its place at the head tells that it has stalled before.
        assert record["attempt"] == (2 if prefix == RETRY else 1)
        assert "__active_dir" not in record

    def test_a_damaged_active_record(self, box: LaneBox) -> None:
        box.enqueue("a")
        box.paths.active.joinpath("0000000000000001-x.json").write_text("{")
        assert box.run().completed == 1
        assert [path.name for path in box.paths.quarantine.glob("*x.json")] == ["0000000000000001-x.json"]

    def test_a_call_that_lives_on_another_host_is_not_run_beside(self, make_box: MakeBox) -> None:
        box = make_box(by_id(a=HANG))
        box.enqueue("a")
        box.enqueue("b")
        name = TestEndings.claimed(box, call=new_call_id(SystemClock().now_ms(), "a", "run"))
        folder = box.run_dir.calls / load(box.paths.active / name)["call"]
        folder.mkdir(parents=True)
        dump(folder / "call.json", {"engine": "claude", "cwd": str(box.work), "started_at": iso(1)})
        dump(folder / "process.json", {**identity.current().as_json(), "host": "elsewhere"})
        lock = OsLock(folder / "call.lock", what="test")
        lock.acquire(1)
        try:
            outcome = box.run()
            assert outcome.state == "parked"
            assert box.starts() == []
            assert box.everything() == {"stalled": ["a"], "pending": ["b"]}
            (event,) = box.events("call_survivors")
            assert "elsewhere" in event["data"]["survivors"][0]
        finally:
            lock.release()


class TestResultsFound:
    """A record with a result is only moved: its runner died after the work, before the move."""

    @pytest.mark.parametrize(
        ("status", "folder"), [("done", "claimed"), ("failed", "claimed"), ("stalled", "stalled")]
    )
    def test_a_phase(self, status: str, folder: str, box: LaneBox) -> None:
        box.enqueue("a")
        TestEndings.claimed(box, call=new_call_id(SystemClock().now_ms(), "a", "run"))
        now = iso(SystemClock().now_ms())
        result = make_result("a", status, started_at=now, finished_at=now, error="as it was")  # type: ignore[arg-type]
        dump(box.paths.result("a"), result)
        outcome = box.run()
        assert box.starts() == []
        assert box.everything() == {folder: ["a"]}
        assert box.result("a") == result
        assert not box.paths.history.exists()
        assert box.paths.question("a").exists() == (status == "stalled")
        assert outcome.state == ("parked" if status == "stalled" else "waiting")
        ended = box.events("phase_done", "phase_failed", "phase_parked")
        assert len(ended) == 1

    def test_a_stop(self, box: LaneBox) -> None:
        box.enqueue_stop()
        TestEndings.claimed(box)
        now = iso(SystemClock().now_ms())
        dump(box.paths.result("stop"), make_result("stop", "stopped", started_at=now, finished_at=now))
        assert box.start().join().state == "stopped"
        assert box.ids("claimed") == ["stop"]
        assert box.status()["state"] == "stopped"

    def test_a_damaged_result_is_kept_aside_and_the_work_done_again(self, box: LaneBox) -> None:
        box.enqueue("a")
        TestEndings.claimed(box)
        box.paths.result("a").write_text('{"half')
        box.run()
        (old,) = box.paths.history.iterdir()
        assert old.read_text() == '{"half'
        assert box.result("a")["status"] == "done"

    def test_a_handoff_file_that_was_written_already(self, make_box: MakeBox, tmp_path: Path) -> None:
        box = make_box(by_id(a=FakeReply("ok", delay_seconds=0.3)))
        box.enqueue("a", result_path=str(tmp_path / "out.json"))
        call = left_running(box)
        assert call.wait(20)
        now = iso(SystemClock().now_ms())
        dump(tmp_path / "out.json", make_result("a", "done", started_at=now, finished_at=now))
        box.run()
        assert load(tmp_path / "out.json") == box.result("a")
        assert len(box.calls()) == 1


class TestTwoActive:
    def test_both_are_settled_in_order(self, make_box: MakeBox) -> None:
        box = make_box(by_id(a=FakeReply("of a", delay_seconds=0.2), b=FakeReply("of b")))
        for key in "abc":
            box.enqueue(key)
        left_running(box)
        TestEndings.claimed(box, call=None)
        assert box.ids("active") == ["a", "b"]
        outcome = box.run()
        assert outcome.completed == 3
        assert box.starts() == [("a", None), ("b", None), ("c", None)]
        assert [box.result(key)["output"] for key in "abc"] == ["of a", "of b", "ok"]

    def test_two_living_calls(self, make_box: MakeBox) -> None:
        box = make_box(by_id(a=FakeReply("of a", delay_seconds=0.5), b=FakeReply("of b", delay_seconds=0.5)))
        box.enqueue("a")
        left_running(box)
        (path,) = box.paths.active.iterdir()
        aside = box.work / path.name
        path.rename(aside)
        box.enqueue("b")
        left_running(box, "b")
        aside.rename(path)
        assert box.ids("active") == ["a", "b"]
        assert box.run().completed == 2
        assert [box.result(key)["output"] for key in "ab"] == ["of a", "of b"]
        assert len(box.calls()) == 2

    def test_a_park_leaves_the_other_one(self, make_box: MakeBox) -> None:
        box = make_box()
        for key in "ab":
            box.enqueue(key)
        TestEndings.claimed(box)
        TestEndings.claimed(box)
        now = iso(SystemClock().now_ms())
        dump(box.paths.result("a"), make_result("a", "stalled", started_at=now, finished_at=now, error="x"))
        assert box.run().state == "parked"
        assert box.everything() == {"stalled": ["a"], "active": ["b"]}
        assert box.run(config=lane_config(on_park="continue")).completed == 1
        assert box.everything() == {"stalled": ["a"], "claimed": ["b"]}


def test_environment_sets_the_deadline(box: LaneBox) -> None:
    box.enqueue("a", engine="command")
    child = box.start_process("cat", "--until-idle", env={"MESHTUI_PHASE_DEADLINE_SECONDS": "77.5"})
    code, _, err = finished(child)
    assert (code, err) == (0, "")
    assert box.record("claimed", "a")["deadline_budget_seconds"] == 77.5
