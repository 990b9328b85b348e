"""What becomes of a phase that ended: result, files that were asked for, output, loop.json."""

from __future__ import annotations

import json
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meshtui.core.clock import SystemClock, iso
from meshtui.core.engines.fake import FakeReply
from meshtui.core.errors import InvalidInput, StorageError
from meshtui.core.lane.runner import STATUS_SECONDS
from meshtui.core.snapshot import take_snapshot
from tests.support.runners import LaneBox, MakeBox, alive, begun, by_id, command, lane_config, load, pid_in
from tests.support.waiting import wait_until

HANG = FakeReply(hang=True)
VALID = {
    "schema": "hq-phase-handoff/v1",
    "story_id": "US-1",
    "phase": "backend",
    "worker_id": "dev",
    "status": "passed",
    "summary": "ok",
    "files_changed": [],
    "commits": [],
    "back_pressure": {"tests": "pass", "lint": "skip", "typecheck": "skip", "build": "skip"},
    "context_for_next": "none",
}


def handoff_envelope(box: LaneBox, **fields: Any) -> dict[str, Any]:
    return {
        "schema": "hq-phase-envelope/v1",
        "story_id": "US-1",
        "phase": "backend",
        "worker_id": "dev",
        "worktree": str(box.work),
        "incoming_handoff": None,
        "acceptance_criteria": ["a", "b"],
        "fresh_call": True,
        "id": "p1",
        **fields,
    }


class TestResults:
    def test_fields_of_a_done_one(self, make_box: MakeBox) -> None:
        box = make_box(by_id(one=FakeReply("the reply\n", session_id="s")))
        box.enqueue("one")
        box.run()
        result = box.result("one")
        (call,) = box.calls()
        times = {key: result.pop(key) for key in ("started_at", "finished_at")}
        assert result == {
            "schema_version": "hq-lane-loop.v1",
            "envelope_id": "one",
            "status": "done",
            "output": "the reply\n",
            "session_id": "s",
            "resumed": False,
            "engine": "claude",
            "exit_code": 0,
            "call": call.call_id,
        }
        assert iso(begun(call)) == times["started_at"] <= times["finished_at"]
        assert stat.S_IMODE(box.paths.result("one").stat().st_mode) == 0o600

    @pytest.mark.parametrize("status", ["failed", "blocked"])
    def test_a_handoff_that_says_so_is_done_and_counts_as_bad(self, status: str, make_box: MakeBox) -> None:
        box = make_box(by_id(p1=FakeReply(json.dumps({**VALID, "status": status}))))
        box.lane.enqueue(handoff_envelope(box))
        outcome = box.run()
        assert (box.result("p1")["status"], box.result("p1")["handoff_status"]) == ("done", status)
        assert outcome.bad

    def test_a_handoff_inside_prose(self, make_box: MakeBox) -> None:
        box = make_box(by_id(p1=FakeReply(f"Done.\n```json\n{json.dumps(VALID)}\n```\n")))
        box.lane.enqueue(handoff_envelope(box, result_path="out.json"))
        assert not box.run().bad
        assert box.result("p1")["handoff_status"] == "passed"
        assert load(box.root / "out.json") == VALID

    def test_result_path_relative_to_the_run_directory(self, box: LaneBox) -> None:
        box.enqueue("one", result_path="out/deep/one.json")
        box.run()
        assert load(box.root / "out" / "deep" / "one.json") == box.result("one")

    def test_result_path_of_a_failure(self, make_box: MakeBox, tmp_path: Path) -> None:
        box = make_box(by_id(one=FakeReply(exit_code=1), p1=FakeReply("no json")))
        box.enqueue("one", result_path=str(tmp_path / "one.json"))
        box.lane.enqueue(handoff_envelope(box, result_path=str(tmp_path / "p1.json")))
        box.run()
        assert load(tmp_path / "one.json") == box.result("one")
        handoff = load(tmp_path / "p1.json")
        assert (handoff["status"], handoff["worker_id"]) == ("failed", "dev")
        assert handoff["summary"] == box.result("p1")["error"]

    def test_result_path_after_two_stalls(self, make_box: MakeBox, tmp_path: Path) -> None:
        box = make_box(by_id(p1=HANG))
        path = tmp_path / "p1.json"
        box.lane.enqueue(handoff_envelope(box, result_path=str(path), deadline_seconds=0.2))
        box.run()
        assert load(path)["status"] == "blocked"
        box.lane.answer("p1", "drop")
        assert load(path)["status"] == "failed"

    @pytest.mark.parametrize(
        "there",
        [
            b"notes",
            b"",
            b"{}",
            b'{"schema_version":"hq-lane-loop.v1","state":"waiting"}',
            "folder",
            "record",
            "below",
        ],
    )
    def test_other_files_are_not_overwritten(self, there: bytes | str, box: LaneBox, tmp_path: Path) -> None:
        path = tmp_path / "precious"
        target = path
        if there == "folder":
            path.mkdir()
        elif there == "below":
            path.write_bytes(b"a file")
            target = path / "one.json"
        elif there == "record":
            record = {"schema_version": "hq-lane-loop.v1", "envelope_id": "x", "envelope": {}}
            path.write_text(json.dumps(record))
        else:
            assert isinstance(there, bytes)
            path.write_bytes(there)
        before = path.read_bytes() if path.is_file() else None
        box.enqueue("one", result_path=str(target))
        outcome = box.run()
        result = box.result("one")
        assert (result["status"], outcome.bad) == ("failed", True)
        assert str(path) in result["result_path_error"]
        assert result["error"].startswith("result_path_error: ")
        assert (path.read_bytes() if path.is_file() else None) == before

    def test_an_earlier_result_or_handoff_is_overwritten(self, make_box: MakeBox, tmp_path: Path) -> None:
        box = make_box(by_id(p1=FakeReply(json.dumps(VALID))))
        path = tmp_path / "out.json"
        box.enqueue("one", result_path=str(path))
        box.lane.enqueue(handoff_envelope(box, result_path=str(path)))
        box.enqueue("two", result_path=str(path))
        assert not box.run().bad
        assert load(path)["envelope_id"] == "two"

    def test_lane_files_are_not_overwritten(self, box: LaneBox) -> None:
        box.enqueue("zero")
        box.run()
        box.enqueue("one", result_path="loop/loop.json")
        box.run()
        assert box.result("one")["status"] == "failed"
        assert box.status()["mode"] == "loop"


class TestOutput:
    def test_past_the_limit_it_is_ended(self, box: LaneBox) -> None:
        box.enqueue("flood", story_id="S")
        box.enqueue("next")
        loud = f'[ "$MESHTUI_ENVELOPE_ID" = next ] || {{ echo MESHTUI_SESSION=s1; exec yes "{"x" * 200}"; }}'
        outcome = box.run(config=lane_config(max_output_mb=1), engine=command(loud))
        result = box.result("flood")
        assert (result["status"], result["error"]) == ("failed", "output limit")
        assert result["session_id"] == "s1"
        assert load(box.calls()[0].ending_path)["reason"] == "output"
        assert (outcome.completed, outcome.bad) == (2, True)

    def test_output_faster_than_it_is_read_does_not_keep_the_deadline_away(self, box: LaneBox) -> None:
        box.enqueue("flood", deadline_seconds=0.1)
        began = SystemClock().monotonic()
        # A fast machine writes the default limit's worth before the deadline; a disk must take what is written.
        flood = "yes | head -c 300000000; exec sleep 60"
        outcome = box.run(config=lane_config(max_output_mb=1e6), engine=command(flood))
        assert outcome.state == "parked"
        assert SystemClock().monotonic() - began < 90, "two attempts of 60 s each were waited for"

    def test_bytes_that_are_no_text(self, box: LaneBox) -> None:
        box.enqueue("one")
        box.run(engine=command("printf '\\377'; head -c 300000 /dev/zero | tr '\\0' e >&2; printf end"))
        assert box.result("one")["output"] == "\ufffdend"

    def test_what_a_call_leaves_running_is_ended_and_named(self, box: LaneBox) -> None:
        box.enqueue("one")
        note = box.work / "pid"
        # Not before it is no copy of the shell any more.
        named = "until ps -o comm= -p $! | grep -q sleep; do :; done"
        box.run(engine=command(f"sleep 600 & echo $! > {note}; {named}; echo done"))
        pid = pid_in(note)
        assert not alive(pid)
        (event,) = box.events("call_left_running")
        assert event["subject"] == "one"
        assert event["data"]["ended"] == [f"sleep (pid {pid})"]
        (warning,) = take_snapshot(box.root, SystemClock()).as_json()["warnings"]
        assert warning == f"one: left running and ended: sleep (pid {pid})"
        assert box.result("one")["status"] == "done"

    def test_the_same_at_a_deadline(self, box: LaneBox) -> None:
        box.enqueue("one", deadline_seconds=0.3)
        note = box.work / "pid"
        box.run(engine=command(f"setsid sleep 600 & echo $! >> {note}; wait"))
        pids = [int(text) for text in note.read_text().split()]
        assert len(pids) == 2
        assert not any(alive(pid) for pid in pids)


def still(path: Path, seconds: float) -> Callable[[], bool]:
    """Whether ``path`` was not written for ``seconds``, asked again and again."""
    seen, since = 0, 0.0

    def asked() -> bool:
        nonlocal seen, since
        written, now = path.stat().st_mtime_ns, time.monotonic()
        if written != seen:
            seen, since = written, now
        return now - since >= seconds

    return asked


class TestStatusFile:
    def test_while_a_phase_runs(self, make_box: MakeBox) -> None:
        box = make_box(by_id(one=HANG))
        box.enqueue("one", phase="build", label="x")
        box.enqueue("two")
        runner = box.start()
        box.active_call("one")
        wait_until(lambda: box.paths.status.exists() and box.status()["state"] == "running")
        status = box.status()
        assert status.keys() == {
            "schema_version", "mode", "lane_id", "state", "queue_depth", "active_envelope_id",
            "active_phase", "stall_counts", "pid", "updated_at",
        }  # fmt: skip
        assert (status["mode"], status["lane_id"]) == ("loop", "lane-1")
        assert (status["active_envelope_id"], status["active_phase"]) == ("one", "build")
        assert status["queue_depth"] == 1
        box.enqueue("three")
        wait_until(lambda: box.status()["queue_depth"] == 2)
        # As long as nothing happens it is left alone: whoever looks would draw each time.
        wait_until(still(box.paths.status, 4 * STATUS_SECONDS))
        runner.stop()
        status = box.status()
        assert (status["state"], status["active_envelope_id"], status["active_phase"]) == (
            "waiting",
            None,
            None,
        )

    @pytest.mark.parametrize(
        ("fields", "name"), [({"phase": "p", "label": "l"}, "p"), ({"label": "l"}, "l"), ({}, "one")]
    )
    def test_what_the_active_phase_is_called(
        self, fields: dict[str, str], name: str, make_box: MakeBox
    ) -> None:
        box = make_box(by_id(one=HANG))
        box.enqueue("one", **fields)
        box.start()
        wait_until(lambda: box.paths.status.exists() and box.status()["active_phase"] == name)

    def test_a_runner_that_fails_says_so(self, box: LaneBox) -> None:
        box.enqueue("one")
        box.paths.result("one").write_text("{}")
        box.paths.history.write_text("a file where earlier results belong")
        with pytest.raises(StorageError, match=r"\.history"):
            box.run()
        assert box.status()["state"] == "failed"
        assert box.events("runner_failed")
        assert not box.paths.runner_lock.exists()


def test_refused_ids_never_reach_a_file(box: LaneBox) -> None:
    for bad in ("", "a\nb", "x" * 121, "\x1b[31m"):
        with pytest.raises(InvalidInput):
            box.enqueue(bad)
    assert box.everything() == {}


@pytest.mark.parametrize("instead", ["mkfifo", "mkdir"])
def test_a_program_that_replaces_its_logs_holds_nobody(instead: str, box: LaneBox) -> None:
    replaces = f"for log in *.log; do rm $log && {instead} $log; done; sleep 0.3"
    box.enqueue("one")
    box.enqueue("two")
    outcome = box.run(engine=command(f'cd "$MESHTUI_RUN_DIR/calls/$MESHTUI_CALL_ID" && {replaces}'))
    assert (outcome.completed, outcome.bad) == (2, False)
    assert box.result("two")["status"] == "done"
