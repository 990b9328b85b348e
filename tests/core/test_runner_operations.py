"""What an operator does to a lane, with a runner at work and without one."""

from __future__ import annotations

import contextlib
import json
import threading
from typing import Any, Literal

import pytest

from meshtui.core.clock import SystemClock, iso
from meshtui.core.engines.base import EngineRequest
from meshtui.core.engines.fake import FakeReply
from meshtui.core.errors import Held, InvalidInput, NotFound
from meshtui.core.lane import control
from meshtui.core.lane.lane import Lane
from meshtui.core.models.names import RETRY
from meshtui.core.snapshot import take_snapshot
from tests.support.runners import LaneBox, MakeBox, by_id, dump, envelope_id_of, lane_config, load
from tests.support.waiting import wait_until

HANG = FakeReply(hang=True)


def snapshot(box: LaneBox) -> dict[str, Any]:
    return take_snapshot(box.root, SystemClock()).as_json()


@pytest.fixture
def parked(make_box: MakeBox) -> LaneBox:
    """A lane with ``slow`` parked after two stalls; the next time it answers at once."""

    def script(request: EngineRequest) -> FakeReply:
        return FakeReply("ok", session_id="s") if len(box.engine.requests) > 2 else HANG

    box = make_box(script)
    box.enqueue("slow", deadline_seconds=0.15, story_id="S")
    assert box.run().state == "parked"
    return box


class TestAnswer:
    def test_retry_without_a_runner(self, parked: LaneBox) -> None:
        first = parked.result("slow")
        parked.enqueue("rest")
        parked.lane.answer("slow", "retry")
        assert parked.ids("pending") == ["slow", "rest"]
        (name,) = [path.name for path in parked.paths.pending.iterdir() if path.name.endswith("-slow.json")]
        assert name.count(RETRY) == 1
        record = parked.record("pending", "slow")
        assert record["attempt"] == 1
        assert not {"call", "deadline_at_ms", "deadline_budget_seconds"} & record.keys()
        (old,) = parked.paths.history.iterdir()
        assert load(old) == first
        assert not parked.paths.result("slow").exists()
        assert not parked.paths.question("slow").exists()
        status = parked.status()
        assert (status["state"], status["stall_counts"], status["queue_depth"]) == ("waiting", {}, 2)
        assert not parked.paths.runner_lock.exists()
        outcome = parked.run()
        assert (outcome.completed, outcome.parked, outcome.bad) == (2, False, False)

    def test_it_has_two_attempts_again(self, make_box: MakeBox) -> None:
        box = make_box(by_id(slow=HANG))
        box.enqueue("slow", deadline_seconds=0.15)
        box.run()
        box.lane.answer("slow", "retry", deadline_seconds=0.2)
        assert box.run().state == "parked"
        assert [stall["attempt"] for stall in box.stalls()] == [1, 2, 1, 2]
        assert box.record("stalled", "slow")["deadline_budget_seconds"] == 0.2
        assert box.status()["stall_counts"] == {"slow": 2}

    def test_with_a_runner_at_work(self, parked: LaneBox) -> None:
        runner = parked.start()
        parked.lane.answer("slow", "retry")
        wait_until(lambda: parked.ids("claimed") == ["slow"])
        runner.stop()
        assert parked.result("slow")["status"] == "done"
        assert not list(parked.paths.control.iterdir())

    def test_drop(self, parked: LaneBox) -> None:
        started = parked.result("slow")["started_at"]
        parked.lane.answer("slow", "drop")
        assert parked.everything() == {"claimed": ["slow"]}
        result = parked.result("slow")
        assert (result["status"], result["error"]) == ("failed", "dropped by operator")
        assert result["started_at"] == started
        assert not parked.paths.question("slow").exists()
        assert snapshot(parked)["queue"]["counts"]["failed"] == 1

    @pytest.mark.parametrize("action", ["retry", "drop"])
    def test_without_a_question_file(self, action: Literal["retry", "drop"], parked: LaneBox) -> None:
        parked.paths.question("slow").unlink()
        parked.lane.answer("slow", action)
        assert parked.ids("stalled") == []

    @pytest.mark.parametrize("action", ["retry", "drop"])
    def test_without_a_result_or_with_a_damaged_one(
        self, action: Literal["retry", "drop"], parked: LaneBox
    ) -> None:
        parked.paths.result("slow").write_text('{"half')
        parked.lane.answer("slow", action)
        assert parked.ids("stalled") == []

    @pytest.mark.parametrize("live", [False, True])
    def test_refusals(self, live: bool, parked: LaneBox) -> None:
        runner = parked.start() if live else None
        if live:
            wait_until(lambda: snapshot(parked)["lane"]["runner"]["alive"])
        with pytest.raises(NotFound, match="'nobody' is not parked"):
            parked.lane.answer("nobody", "retry")
        for bad in (float("nan"), float("inf"), 0.0, -1.0):
            with pytest.raises(InvalidInput, match="deadline_seconds"):
                parked.lane.answer("slow", "retry", deadline_seconds=bad)
        with pytest.raises(InvalidInput, match="engine"):
            parked.lane.answer("slow", "retry", engine="bogus")
        assert parked.ids("stalled") == ["slow"]
        assert parked.record("stalled", "slow")["envelope"]["deadline_seconds"] == 0.15
        if runner is not None:
            runner.stop()

    def test_others_stay_parked(self, make_box: MakeBox) -> None:
        box = make_box(by_id(one=HANG, two=HANG))
        for key in ("one", "two"):
            box.enqueue(key, deadline_seconds=0.15)
        box.run(config=lane_config(on_park="continue"))
        box.lane.answer("one", "drop")
        assert box.status()["state"] == "parked"
        assert [item["subject"] for item in snapshot(box)["attention"]] == ["two", "one"]


class TestRequeue:
    def test_a_finished_one_at_the_end(self, make_box: MakeBox) -> None:
        box = make_box(by_id(bad=FakeReply(exit_code=1, session_id="s")))
        box.enqueue("bad", story_id="S")
        box.run()
        first = box.result("bad")
        queued_at = box.record("claimed", "bad")["queued_at"]
        box.enqueue("other")
        receipt = box.lane.requeue("bad")
        assert (receipt.envelope_id, receipt.position, receipt.queue_depth) == ("bad", 2, 2)
        assert box.ids("pending") == ["other", "bad"]
        record = box.record("pending", "bad")
        assert (record["attempt"], record["queued_at"]) == (1, queued_at)
        assert not {"call", "deadline_at_ms", "deadline_budget_seconds"} & record.keys()
        (old,) = box.paths.history.iterdir()
        assert load(old) == first
        assert snapshot(box)["queue"]["counts"]["failed"] == 0
        box.run()
        assert box.result("bad")["call"] != first["call"]

    def test_a_withdrawn_one(self, box: LaneBox) -> None:
        box.enqueue("a")
        box.lane.withdraw("a")
        assert box.lane.requeue("a").position == 1
        assert box.everything() == {"pending": ["a"]}

    def test_refusals(self, parked: LaneBox) -> None:
        parked.enqueue("p")
        parked.enqueue("done")
        parked.lane.withdraw("done")
        for key, words in {"p": "is pending", "slow": "is parked"}.items():
            with pytest.raises(InvalidInput, match=words):
                parked.lane.requeue(key)
        with pytest.raises(NotFound, match="no envelope 'nobody'"):
            parked.lane.requeue("nobody")
        parked.enqueue_stop()
        with pytest.raises(InvalidInput, match=r"a stop \(stop\) is waiting"):
            parked.lane.requeue("done")
        assert parked.everything() == {"pending": ["p", "stop"], "stalled": ["slow"], "withdrawn": ["done"]}

    def test_not_what_runs(self, make_box: MakeBox) -> None:
        box = make_box(by_id(one=HANG))
        box.enqueue("one")
        runner = box.start()
        box.active_call("one")
        with pytest.raises(InvalidInput, match="is running"):
            box.lane.requeue("one")
        with pytest.raises(InvalidInput, match="is running"):
            box.lane.withdraw("one")
        runner.stop()


class TestWithdrawAndRestore:
    def test_one(self, box: LaneBox) -> None:
        for key in "abc":
            box.enqueue(key)
        receipt = box.lane.withdraw("b")
        assert (receipt.envelope_id, receipt.queue_depth) == ("b", 2)
        assert box.everything() == {"pending": ["a", "c"], "withdrawn": ["b"]}
        with pytest.raises(InvalidInput, match="'b' is withdrawn"):
            box.lane.withdraw("b")
        with pytest.raises(NotFound):
            box.lane.withdraw("nobody")
        assert box.run().completed == 2

    def test_interrupt_quarantines_what_it_cannot_read(self, box: LaneBox) -> None:
        for key in "ab":
            box.enqueue(key)
        (box.paths.pending / "0000000000000001-x.json").write_bytes(b"{")
        receipt = box.lane.interrupt()
        assert (receipt.withdrawn, receipt.already_picked_up) == (("a", "b"), ())
        assert receipt.quarantined == ("0000000000000001-x.json",)
        assert box.everything() == {"withdrawn": ["a", "b"]}
        assert (box.paths.quarantine / "0000000000000001-x.json").read_bytes() == b"{"

    def test_restore_keeps_order_and_time_and_gives_new_sequences(self, box: LaneBox) -> None:
        for key in "abc":
            box.enqueue(key)
        before = {key: box.record("pending", key) for key in "abc"}
        box.lane.interrupt()
        box.enqueue("d")
        assert box.lane.restore().restored == ("a", "b", "c")
        assert box.ids("pending") == ["d", "a", "b", "c"]
        assert {key: box.record("pending", key) for key in "abc"} == before
        sequences = sorted(int(path.name[:16]) for path in box.paths.pending.iterdir())
        assert sequences == [4, 5, 6, 7]

    def test_of_stops_at_most_one_returns_last(self, box: LaneBox) -> None:
        box.enqueue("a")
        box.enqueue_stop("s1")
        box.lane.interrupt()
        box.enqueue("b")
        box.enqueue_stop("s2")
        box.lane.interrupt()
        receipt = box.lane.restore()
        assert (receipt.restored, receipt.left) == (("a", "b", "s2"), ("s1",))
        assert box.everything() == {"pending": ["a", "b", "s2"], "withdrawn": ["s1"]}
        with pytest.raises(InvalidInput, match="a stop"):
            box.lane.restore()
        with pytest.raises(InvalidInput, match="after a stop"):
            box.enqueue("c")
        box.lane.withdraw("s2")
        box.enqueue("c")

    def test_nothing_to_restore(self, box: LaneBox) -> None:
        box.enqueue("a")
        assert box.lane.restore().restored == ()


class TestPause:
    def test_the_active_phase_ends_and_nothing_more_is_claimed(self, make_box: MakeBox) -> None:
        def script(request: EngineRequest) -> FakeReply:
            return FakeReply("ok", delay_seconds=0.3 if envelope_id_of(request) == "a" else 0)

        box = make_box(script)
        box.enqueue("a")
        box.enqueue("b")
        runner = box.start()
        box.active_call("a")
        assert box.lane.pause().paused
        assert load(box.paths.paused)["by"] == "test"
        assert snapshot(box)["lane"]["state"] == "paused"
        wait_until(lambda: box.ids("claimed") == ["a"])
        wait_until(lambda: box.status()["state"] == "waiting")
        assert box.ids("pending") == ["b"]
        assert box.starts() == [("a", None)]
        assert not box.lane.resume().paused
        wait_until(lambda: box.ids("claimed") == ["a", "b"])
        runner.stop()

    def test_it_outlives_runners(self, box: LaneBox) -> None:
        box.enqueue("a")
        box.lane.pause()
        box.lane.pause()
        runner = box.start()
        wait_until(lambda: box.paths.status.exists() and box.status()["state"] == "waiting")
        assert snapshot(box)["lane"]["state"] == "paused"
        runner.stop()
        assert box.starts() == []
        assert len(box.events("lane_paused")) == 1
        box.lane.resume()
        box.run()
        assert box.ids("claimed") == ["a"]


class TestStop:
    def test_now(self, make_box: MakeBox) -> None:
        box = make_box(by_id(a=HANG))
        box.enqueue("a", story_id="S")
        box.enqueue("b")
        name = next(path.name for path in box.paths.pending.iterdir() if path.name.endswith("-a.json"))
        runner = box.start()
        call = box.active_call("a")
        receipt = box.lane.stop()
        assert (receipt.stopped, receipt.envelope_id, receipt.survivors) == (True, "a", ())
        # The answer means that the lane is free again.
        assert not box.lane.holder().alive
        outcome = runner.join()
        assert (outcome.state, outcome.completed) == ("aborted", 0)
        assert box.ids("pending") == ["a", "b"]
        assert (box.paths.pending / name).exists()
        record = box.record("pending", "a")
        assert record["attempt"] == 1
        assert not {"call", "deadline_at_ms"} & record.keys()
        assert record["deadline_budget_seconds"] == 3600
        assert box.status()["state"] == "waiting"
        assert load(call.ending_path)["reason"] == "stopped"
        assert call.state() == "ended"
        assert box.stalls() == []

    def test_an_idle_runner(self, box: LaneBox) -> None:
        runner = box.start()
        wait_until(lambda: box.lane.holder().alive and box.paths.status.exists())
        receipt = box.lane.stop()
        assert (receipt.stopped, receipt.envelope_id) == (True, None)
        assert runner.join().state == "waiting"

    def test_no_runner(self, box: LaneBox) -> None:
        box.enqueue("a")
        receipt = box.lane.stop()
        assert (receipt.stopped, receipt.envelope_id, receipt.drain) == (False, None, None)
        assert not box.paths.runner_lock.exists()

    def test_no_runner_and_nothing_active_leaves_the_state_as_it_is(self, parked: LaneBox) -> None:
        before = parked.status()
        assert before["state"] == "parked"
        parked.lane.stop()
        assert parked.status() == before

    def test_drain(self, make_box: MakeBox) -> None:
        box: LaneBox = make_box(lambda request: FakeReply("ok", delay_seconds=0.1))
        box.enqueue("a")
        box.enqueue("b")
        runner = box.start()
        receipt = box.lane.stop(drain=True)
        assert not receipt.stopped
        assert receipt.drain is not None
        assert receipt.drain.envelope_id.startswith("stop-")
        outcome = runner.join()
        assert (outcome.state, outcome.completed) == ("stopped", 2)
        assert box.status()["state"] == "stopped"
        assert box.result(receipt.drain.envelope_id)["status"] == "stopped"
        counts = snapshot(box)["queue"]["counts"]
        assert (counts["done"], counts["failed"], counts["claimed"]) == (2, 0, 3)

    def test_without_a_runner_what_one_left_is_put_back(self, make_box: MakeBox) -> None:
        box = make_box(by_id(a=HANG))
        box.enqueue("a")
        runner = box.start()
        call = box.active_call("a")
        runner.runner.request_hand_over()
        runner.join()
        assert snapshot(box)["lane"]["state"] == "dead"
        receipt = box.lane.stop()
        assert (receipt.stopped, receipt.envelope_id) == (True, "a")
        assert call.state() == "ended"
        assert box.everything() == {"pending": ["a"]}
        assert box.status()["state"] == "waiting"
        assert snapshot(box)["lane"]["state"] == "waiting"

    def test_work_that_ended_by_itself_is_not_thrown_away(self, make_box: MakeBox) -> None:
        box = make_box(by_id(a=FakeReply("the reply", delay_seconds=0.3)))
        box.enqueue("a")
        runner = box.start()
        call = box.active_call("a")
        runner.runner.request_hand_over()
        runner.join()
        assert call.wait(20)
        assert not box.lane.stop().stopped
        with pytest.raises(NotFound, match="has ended by itself"):
            box.lane.kill("a")
        box.run()
        assert box.result("a")["output"] == "the reply"
        assert len(box.calls()) == 1


class TestKill:
    @pytest.mark.parametrize("live", [True, False])
    def test_the_active_phase(self, live: bool, make_box: MakeBox) -> None:
        def script(request: EngineRequest) -> FakeReply:
            if envelope_id_of(request) == "b":
                return FakeReply(hang=True, session_id="s2")
            return FakeReply("ok", session_id="s1")

        box = make_box(script)
        for key in "abc":
            box.enqueue(key, story_id="S")
        runner = box.start()
        call = box.active_call("b")
        wait_until(lambda: call.stdout.stat().st_size)
        if not live:
            runner.runner.request_hand_over()
            runner.join()
        receipt = box.lane.kill("b")
        assert (receipt.ended, receipt.survivors, receipt.not_started) == (("b",), (), ())
        assert call.state() == "ended"
        wait_until(lambda: box.paths.result("b").exists())
        result = box.result("b")
        assert (result["status"], result["error"]) == ("failed", "killed by operator")
        assert (result["call"], result["engine"]) == (call.call_id, "claude")
        assert result["started_at"] < result["finished_at"]
        if live:
            assert runner.alive
            wait_until(lambda: box.ids("claimed") == ["a", "b", "c"])
            runner.stop()
            assert box.starts()[-1] == ("c", "s2")
            assert result["session_id"] == "s2"
        else:
            assert box.everything() == {"claimed": ["a", "b"], "pending": ["c"]}
            assert box.sessions() == {"S\0claude": "s1"}
            box.run()
            assert box.starts()[-1] == ("c", "s1")

    @pytest.mark.parametrize("live", [True, False])
    def test_what_does_not_run(self, live: bool, box: LaneBox) -> None:
        box.enqueue("a")
        box.lane.pause()
        if live:
            box.start()
            wait_until(lambda: box.lane.holder().alive and box.paths.status.exists())
        for key in ("a", "nobody"):
            with pytest.raises(NotFound, match="is not running"):
                box.lane.kill(key)
        assert box.ids("pending") == ["a"]


class TestControl:
    def test_what_the_runner_does_not_know(self, box: LaneBox) -> None:
        box.start()
        wait_until(lambda: box.lane.holder().alive and box.paths.status.exists())
        with pytest.raises(InvalidInput, match="does not know the request 'dance'"):
            control.ask(box.paths, SystemClock(), "dance", None, by="test", alive=lambda: True)
        assert not list(box.paths.control.iterdir())

    def test_older_requests_are_discarded(self, make_box: MakeBox) -> None:
        box = make_box(by_id(a=FakeReply("ok", delay_seconds=0.2)))
        box.enqueue("a")
        old = {"request": "stop", "subject": None, "by": "x", "at": iso(SystemClock().now_ms() - 1)}
        dump(box.paths.control / "11111111-1111-4111-8111-111111111111.json", old)
        (box.paths.control / "half.json").write_text('{"request": "sto')
        outcome = box.run()
        assert (outcome.state, outcome.completed) == ("waiting", 1)
        assert not [path for path in box.paths.control.iterdir() if path.name != "half.json"]

    def test_requests_of_many_at_once(self, make_box: MakeBox) -> None:
        box = make_box(by_id(**{f"p{n}": HANG for n in range(6)}))
        for n in range(6):
            box.enqueue(f"p{n}", deadline_seconds=0.12)
        box.run(config=lane_config(on_park="continue"))
        box.lane.pause()
        box.start()
        errors: list[BaseException] = []

        def answer(n: int) -> None:
            try:
                Lane(box.run_dir).answer(f"p{n}", "drop" if n % 2 else "retry")
            except BaseException as error:  # noqa: BLE001 - looked at below
                errors.append(error)

        threads = [threading.Thread(target=answer, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert errors == []
        assert sorted(box.ids("claimed")) == ["p1", "p3", "p5"]
        assert sorted(box.ids("pending")) == ["p0", "p2", "p4"]
        assert not list(box.paths.control.iterdir())

    def test_answers_while_a_runner_comes_and_goes(self, parked: LaneBox) -> None:
        """Whoever holds the lease at that moment, the answer is given once."""
        ended = threading.Event()

        def come_and_go() -> None:
            while not ended.is_set():
                try:
                    parked.run()
                except Held:
                    continue

        thread = threading.Thread(target=come_and_go)
        parked.lane.pause()
        runner = parked.start()
        thread.start()
        try:
            parked.lane.answer("slow", "drop")
        finally:
            ended.set()
            parked.lane.resume()
            # It may have been refused itself: either of the two was first.
            with contextlib.suppress(Held):
                runner.stop()
            thread.join(30)
        assert parked.result("slow")["error"] == "dropped by operator"
        assert len(parked.events("phase_answered")) == 1


class TestQuarantine:
    def test_repair_and_drop(self, box: LaneBox) -> None:
        box.enqueue("a")
        (path,) = box.paths.pending.iterdir()
        whole = path.read_bytes()
        path.write_bytes(whole[:-20])
        box.run()
        name = path.name
        (item,) = snapshot(box)["attention"]
        assert (item["kind"], item["subject"]) == ("quarantined", name)
        with pytest.raises(InvalidInput, match="is still no record"):
            box.lane.quarantine_repair(name)
        (box.paths.quarantine / name).write_bytes(whole)
        assert box.lane.quarantine_repair(name).envelope_id == "a"
        assert not list(box.paths.quarantine.iterdir())
        assert box.run().completed == 1
        (box.paths.pending / "0000000000000001-y.json").write_bytes(b"")
        box.run()
        box.lane.quarantine_drop("0000000000000001-y.json")
        assert snapshot(box)["queue"]["counts"]["quarantined"] == 0
        for hostile in ("../pending/x", "", ".dropped", "nothing"):
            with pytest.raises(NotFound, match="nothing named"):
                box.lane.quarantine_drop(hostile)
            with pytest.raises(NotFound, match="nothing named"):
                box.lane.quarantine_repair(hostile)


def test_the_journal_tells_it_all(parked: LaneBox) -> None:
    parked.lane.answer("slow", "retry", deadline_seconds=60)
    parked.run()
    events = [(event["event"], event["subject"]) for event in parked.events()]
    assert events == [
        ("enqueued", "slow"),
        ("runner_started", "lane-1"),
        ("phase_started", "slow"),
        ("phase_stalled", "slow"),
        ("phase_started", "slow"),
        ("phase_parked", "slow"),
        ("runner_ended", "lane-1"),
        ("phase_answered", "slow"),
        ("runner_started", "lane-1"),
        ("phase_started", "slow"),
        ("phase_done", "slow"),
        ("runner_ended", "lane-1"),
    ]
    lines = [json.loads(line) for line in parked.run_dir.events.read_text().splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert all(line.keys() == {"seq", "at", "event", "subject", "data", "pid"} for line in lines)
