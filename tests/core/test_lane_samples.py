"""Lanes that the original wrote: read and shown without a change, and carried on."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meshtui.core.clock import SystemClock
from meshtui.core.lane.index import list_records
from meshtui.core.lane.lane import Lane
from meshtui.core.lane.reader import LaneReader
from meshtui.core.models.names import safe_of
from meshtui.core.run_dir import RunDir
from meshtui.core.snapshot import take_snapshot
from meshtui.core.view import LaneView
from tests.support.runners import GONE_PID, LaneBox, dump, load

SAMPLES = Path(__file__).parents[1] / "data" / "samples"
PARKED, ABORTED = "lane-stall-twice-parks", "lane-abort-requeues"
INTERRUPTED, DONE = "lane-interrupt-withdraws", "lane-done-then-stop"
NAMES = (PARKED, ABORTED, INTERRUPTED, DONE)
Sample = Callable[[str], LaneBox]


@pytest.fixture
def sample(make_box: Callable[..., LaneBox], tmp_path: Path) -> Sample:
    """A sample as it is, in a directory that may be changed."""

    def copied(name: str) -> LaneBox:
        shutil.copytree(SAMPLES / name, tmp_path / name)
        return make_box(name=name)

    return copied


def state_of(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every entry below ``root`` with its modification time and contents."""
    found = {}
    for folder, _, files in os.walk(root):
        found[folder] = (os.stat(folder).st_mtime_ns, b"")
        for name in files:
            path = Path(folder, name)
            found[str(path)] = (path.stat().st_mtime_ns, path.read_bytes())
    return found


def dump_owner(box: LaneBox, owner: dict[str, Any]) -> None:
    """A runner's lock as the original leaves it: without what tells one process from another."""
    box.paths.runner_lock.mkdir()
    dump(box.paths.runner_lock / "owner.json", owner)


def view_of(box: LaneBox) -> LaneView:
    return LaneReader(box.run_dir).refresh()


class TestShown:
    @pytest.mark.parametrize("name", NAMES)
    def test_viewing_changes_nothing(self, name: str, tmp_path: Path) -> None:
        root = tmp_path / name
        shutil.copytree(SAMPLES / name, root)
        before = state_of(root)
        reader = LaneReader(RunDir(root))
        view = reader.refresh()
        for row in (*view.pending, *view.stalled, *view.withdrawn, *view.done, *view.failed):
            assert reader.detail(row.key) is not None
        assert reader.refresh(thorough=True).complete
        take_snapshot(root, SystemClock()).as_json()
        assert state_of(root) == before

    @pytest.mark.parametrize(
        ("name", "state", "counts"),
        [
            (PARKED, "parked", {"pending": 1, "stalled": 1}),
            (ABORTED, "waiting", {"pending": 1}),
            (INTERRUPTED, "stopped", {"claimed": 2, "withdrawn": 2, "done": 1}),
            (DONE, "stopped", {"claimed": 6, "done": 5}),
        ],
    )
    def test_the_snapshot(self, name: str, state: str, counts: dict[str, int], tmp_path: Path) -> None:
        snapshot = take_snapshot(SAMPLES / name, SystemClock()).as_json()
        assert snapshot["schema"] == "meshtui.snapshot.v1"
        assert snapshot["kind"] == "lane"
        lane = snapshot["lane"]
        assert (lane["lane_id"], lane["state"]) == ("lane-1", state)
        assert lane["runner"] == {"alive": False, "pid": None, "host": None, "heartbeat_age_s": None}
        assert lane["updated_at"] == load(SAMPLES / name / "loop" / "loop.json")["updated_at"]
        assert lane["queue_depth"] == counts.get("pending", 0)
        shown = snapshot["queue"]["counts"]
        assert {key: value for key, value in shown.items() if value} == counts
        assert snapshot["queue"]["counts_exact"] is True
        assert snapshot["warnings"] == []

    def test_the_parked_one_asks_for_the_operator(self) -> None:
        snapshot = take_snapshot(SAMPLES / PARKED, SystemClock()).as_json()
        (row,) = snapshot["queue"]["stalled"]
        assert (row["envelope_id"], row["attempt"], row["stalls"]) == ("slow", 2, 2)
        (item,) = snapshot["attention"]
        assert (item["kind"], item["subject"]) == ("parked", "slow")
        assert item["since"] == "2026-11-30T19:26:59.455Z"
        assert "stalled twice" in item["text"]
        where = f"--run-dir {SAMPLES / PARKED}"
        assert [way["command"] for way in item["exits"]] == [
            f"meshtui answer slow {where} --retry",
            f"meshtui answer slow {where} --deadline-seconds 2",
            f"meshtui answer slow {where} --drop",
        ]

    @pytest.mark.parametrize("name", [ABORTED, INTERRUPTED, DONE])
    def test_the_others_do_not(self, name: str) -> None:
        assert take_snapshot(SAMPLES / name, SystemClock()).as_json()["attention"] == []

    def test_rows(self) -> None:
        view = LaneReader(RunDir(SAMPLES / DONE)).refresh()
        assert {row.envelope_id for row in view.done} == {"one", "two", "three", "four", "five"}
        assert {row.story_id for row in view.done} == {"S", "T"}
        assert view.failed == ()
        detail = LaneReader(RunDir(SAMPLES / DONE)).detail(
            list_records(SAMPLES / DONE / "loop" / "claimed")[0]
        )
        assert detail is not None
        assert detail.result is not None
        assert detail.result["output"] == "out one"


class TestParked:
    def test_retry_and_carry_on(self, sample: Sample) -> None:
        box = sample(PARKED)
        box.lane.answer("slow", "retry")
        assert box.ids("pending") == ["slow", "next"]
        record = box.record("pending", "slow")
        assert record["attempt"] == 1
        gone = {"__active_dir", "deadline_at_ms", "deadline_budget_seconds", "call"}
        assert not gone & record.keys()
        assert len(list(box.paths.history.glob("slow.*.json"))) == 1
        outcome = box.run()
        assert (outcome.state, outcome.completed, outcome.parked) == ("waiting", 2, False)
        assert box.everything() == {"claimed": ["slow", "next"]}
        assert box.result("slow")["status"] == "done"
        assert box.starts() == [("slow", None), ("next", None)]
        assert box.status()["stall_counts"] == {}
        assert len(box.stalls()) == 2

    def test_drop(self, sample: Sample) -> None:
        box = sample(PARKED)
        box.lane.answer("slow", "drop")
        assert box.everything() == {"pending": ["next"], "claimed": ["slow"]}
        result = box.result("slow")
        assert (result["status"], result["error"]) == ("failed", "dropped by operator")
        assert result["started_at"] == "2026-11-30T19:26:59.451Z"
        view = view_of(box)
        assert (view.state, view.counts.failed) == ("waiting", 1)
        outcome = box.run()
        assert (outcome.completed, outcome.bad, outcome.parked) == (1, False, False)

    def test_another_budget_and_engine(self, sample: Sample) -> None:
        box = sample(PARKED)
        box.lane.answer("slow", "retry", engine="command", deadline_seconds=77)
        record = box.record("pending", "slow")
        assert (record["envelope"]["engine"], record["envelope"]["deadline_seconds"]) == ("command", 77)
        box.run()
        assert box.record("claimed", "slow")["deadline_budget_seconds"] == 77
        assert box.result("slow")["engine"] == "command"

    def test_it_runs_the_rest_unanswered(self, sample: Sample) -> None:
        box = sample(PARKED)
        outcome = box.run()
        assert (outcome.completed, outcome.parked) == (1, True)
        assert box.everything() == {"claimed": ["next"], "stalled": ["slow"]}
        (item,) = view_of(box).attention
        assert item.kind == "parked"

    def test_an_answer_to_a_running_runner(self, sample: Sample) -> None:
        box = sample(PARKED)
        runner = box.start()
        box.lane.answer("slow", "retry")
        box.enqueue_stop()
        outcome = runner.join()
        assert (outcome.completed, outcome.parked) == (2, False)
        assert set(box.ids("claimed")) == {"slow", "next", "stop"}

    def test_its_exit_works_without_a_result_too(self, sample: Sample) -> None:
        box = sample(PARKED)
        box.paths.result("slow").unlink()
        box.lane.answer("slow", "drop")
        assert box.result("slow")["status"] == "failed"


class TestAborted:
    def test_it_runs(self, sample: Sample) -> None:
        box = sample(ABORTED)
        started = SystemClock().now_ms()
        outcome = box.run()
        assert outcome.completed == 1
        assert box.everything() == {"claimed": ["long"]}
        record = box.record("claimed", "long")
        # Its budget was fixed when it started first; a new attempt counts from its own start.
        assert record["deadline_budget_seconds"] == 3600
        assert record["deadline_at_ms"] == pytest.approx(started + 3_600_000, abs=60_000)
        assert record["attempt"] == 1
        assert box.result("long")["status"] == "done"

    def test_an_envelope_comes_after_it(self, sample: Sample) -> None:
        box = sample(ABORTED)
        receipt = box.enqueue("more")
        assert (receipt.lane_id, receipt.position, receipt.queue_depth) == ("lane-1", 2, 2)
        assert load(box.paths.sequence) == {"sequence": 2}
        assert box.ids("pending") == ["long", "more"]

    def test_an_active_record_of_a_dead_runner_is_recovered_once(self, sample: Sample) -> None:
        box = sample(ABORTED)
        (name,) = list_records(box.paths.pending)
        box.paths.active.mkdir()
        (box.paths.pending / name).rename(box.paths.active / name)
        dump_owner(box, {"pid": GONE_PID, "heartbeat_at": "2026-11-30T19:26:59.687Z"})
        assert view_of(box).state == "dead"
        outcome = box.run()
        assert outcome.completed == 1
        (name,) = list_records(box.paths.claimed)
        assert name.startswith("0000000000000-recovered-0000000000000001-")
        assert "__active_dir" not in load(box.paths.claimed / name)


class TestInterrupted:
    def test_restore_and_run(self, sample: Sample) -> None:
        box = sample(INTERRUPTED)
        before = {key: box.record("withdrawn", key) for key in ("b", "c")}
        receipt = box.lane.restore()
        assert (receipt.restored, receipt.left) == (("b", "c"), ())
        names = list_records(box.paths.pending)
        assert [(int(name[:16]), safe_of(name)) for name in names] == [(5, "b"), (6, "c")]
        assert {key: box.record("pending", key) for key in ("b", "c")} == before
        assert load(box.paths.sequence) == {"sequence": 6}
        assert box.run().completed == 2
        assert box.ids("claimed") == ["a", "stop", "b", "c"]

    def test_requeue_a_finished_one(self, sample: Sample) -> None:
        box = sample(INTERRUPTED)
        receipt = box.lane.requeue("a")
        assert (receipt.position, receipt.queue_depth) == (1, 1)
        box.run()
        (old,) = box.paths.history.glob("a.*.json")
        assert load(old)["finished_at"] == "2026-11-30T19:26:59.994Z"
        assert box.result("a")["call"]


class TestDone:
    def test_its_sessions_are_resumed_from_where_the_phase_runs(self, sample: Sample) -> None:
        box = sample(DONE)
        box.enqueue("six", story_id="S")
        box.enqueue("seven", story_id="S", engine="codex")
        box.enqueue("eight", story_id="T", fresh=True)
        box.run()
        assert box.starts() == [("six", "sess-3"), ("seven", "sess-5"), ("eight", None)]
        assert box.result("six")["resumed"] is True

    def test_a_used_id_is_refused(self, sample: Sample) -> None:
        box = sample(DONE)
        with pytest.raises(Exception, match="'three' was already used"):
            box.enqueue("three")
        with pytest.raises(Exception, match="'stop' was already used"):
            box.enqueue_stop()


class TestUnknownFields:
    """What another tool added stays, wherever meshtui rewrites a file."""

    def test_in_a_record(self, sample: Sample) -> None:
        box = sample(PARKED)
        for folder in ("stalled", "pending"):
            for path in box.paths.folder(folder).iterdir():
                value = load(path)
                value["their"] = {"field": [1, 2.5, None]}
                value["envelope"]["their"] = "too"
                dump(path, value)
        box.lane.answer("slow", "retry")
        assert box.record("pending", "slow")["their"] == {"field": [1, 2.5, None]}
        box.lane.interrupt()
        box.lane.restore()
        box.run()
        for key in ("slow", "next"):
            record = box.record("claimed", key)
            assert record["their"] == {"field": [1, 2.5, None]}
            assert record["envelope"]["their"] == "too"

    def test_in_loop_json_and_sessions(self, sample: Sample) -> None:
        box = sample(DONE)
        status, sessions = box.status(), box.sessions()
        assert sessions is not None
        dump(box.paths.status, {**status, "their": "field"})
        dump(box.paths.sessions, {**sessions, "their": {"not": "a session"}})
        box.enqueue("six", story_id="S")
        box.run()
        assert box.status()["their"] == "field"
        after: dict[str, Any] = box.sessions() or {}
        assert after == {**sessions, "their": {"not": "a session"}}

    def test_a_damaged_loop_json_is_kept_aside(self, sample: Sample) -> None:
        box = sample(DONE)
        half = box.paths.status.read_bytes()[:50]
        box.paths.status.write_bytes(half)
        box.enqueue("six")
        box.run()
        (aside,) = box.paths.root.glob("loop.json.damaged-*")
        assert aside.read_bytes() == half
        assert box.status()["state"] == "waiting"

    def test_a_damaged_sequence_is_computed_again(self, sample: Sample) -> None:
        box = sample(DONE)
        box.paths.sequence.write_text('{"seq')
        box.enqueue("seven")
        assert json.loads(box.paths.sequence.read_text()) == {"sequence": 7}
        assert int(list_records(box.paths.pending)[0][:16]) == 7


def test_the_lane_keeps_its_id(sample: Sample) -> None:
    box = sample(DONE)
    assert Lane(box.run_dir).lane_id == "lane-1"
    assert not box.run_dir.about.exists()


def test_what_is_parked_says_since_when() -> None:
    view = LaneReader(RunDir(SAMPLES / "lane-stall-twice-parks")).refresh()
    row = view.stalled[0]
    assert row.finished_at is not None
    assert row.finished_at == view.attention[0].since
