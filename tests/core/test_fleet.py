"""Many run directories at once: which there are, what a summary says, and that it agrees with the whole reader."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meshtui.core import identity
from meshtui.core.clock import ManualClock, SystemClock
from meshtui.core.errors import InvalidInput, MeshtuiError
from meshtui.core.fleet import FleetView, LaneSummary, names_of, run_dirs_in
from meshtui.core.fleet_watch import FleetFollower, RunDirs
from meshtui.core.journal import Journal
from meshtui.core.journal_sums import DAY_MS
from meshtui.core.lane.lane import Lane
from meshtui.core.overview import RunDirReader
from meshtui.core.run_dir import RunDir
from meshtui.core.summary import SummaryReader
from meshtui.core.view import Attention, LaneView
from tests.support.lanes import claim_first, files_of, finish_first, new_lane, park_first, phase, result_of

LIMIT = 10.0
DATA = Path(__file__).parent.parent / "data" / "samples"


def until(condition: Callable[[], object], what: str) -> None:
    """Wait until ``condition`` holds."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.01)


def whole(run_dir: RunDir) -> LaneView:
    """What the whole reader says."""
    reader = RunDirReader(run_dir)
    view = reader.refresh(budget=1 << 20)
    while not view.complete:
        view = reader.refresh(budget=1 << 20)
    return view


def needs(items: tuple[Attention, ...]) -> list[tuple[Any, ...]]:
    """What the two have to agree about."""
    return sorted(
        (one.kind, one.subject, one.text, one.since or 0, one.key or "", one.exits) for one in items
    )


def agrees(summary: LaneSummary, run_dir: RunDir) -> bool:
    """Whether a summary says what the whole reader says."""
    view = whole(run_dir)
    assert summary.pending == view.counts.pending
    assert summary.state == view.state
    assert needs(summary.attention) == needs(view.attention)
    assert (summary.active is not None) == bool(view.active)
    return True


def test_folders_one_and_two_levels_below_are_found(tmp_path: Path) -> None:
    for name in ("a", "team/b", "team/c", "team/deep/d", ".hidden/e"):
        new_lane(tmp_path / name) if name == "a" else new_lane_below(tmp_path / name)
    (tmp_path / "a" / "inner").mkdir()
    (tmp_path / "file").write_text("no folder")
    assert [str(path.relative_to(tmp_path)) for path in run_dirs_in(tmp_path)] == ["a", "team/b", "team/c"]


def new_lane_below(root: Path) -> None:
    """A run directory in a folder of its own."""
    root.parent.mkdir(parents=True, exist_ok=True)
    new_lane(root)


def test_a_name_tells_lanes_apart() -> None:
    paths = [Path("/x/api/run"), Path("/x/web/run"), Path("/y/docs"), Path("/y/shop/.meshtui")]
    assert list(names_of(paths).values()) == ["api/run", "web/run", "docs", "shop"]
    assert names_of([Path("/a/b/c"), Path("/d/b/c")]) == {Path("/a/b/c"): "a/b/c", Path("/d/b/c"): "d/b/c"}


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.iterdir()))
def test_a_summary_says_what_the_whole_reader_says_of_every_sample(name: str, tmp_path: Path) -> None:
    shutil.copytree(DATA / name, tmp_path / "run", symlinks=True)
    run_dir = RunDir(tmp_path / "run")
    agrees(SummaryReader(run_dir).refresh(), run_dir)


def test_a_summary_follows_whatever_happens_to_a_lane(tmp_path: Path) -> None:
    run_dir, lane = new_lane(tmp_path / "run")
    reader = SummaryReader(run_dir)
    agrees(reader.refresh(), run_dir)
    lane.enqueue_many([phase(f"p{number}") for number in range(8)])
    assert reader.peek()
    agrees(reader.refresh(), run_dir)
    finish_first(run_dir, "failed", error="exit 1")
    finish_first(run_dir)
    park_first(run_dir)
    agrees(reader.refresh(), run_dir)
    finish_first(run_dir, handoff_status="blocked")
    summary = reader.refresh()
    agrees(summary, run_dir)
    assert {item.kind for item in summary.attention} == {"failed", "parked", "blocked"}
    lane.requeue("p0")
    lane.answer("p2", "retry")
    agrees(reader.refresh(), run_dir)
    finish_first(run_dir, "failed", error="exit 2")
    agrees(reader.refresh(), run_dir)
    record = claim_first(run_dir)
    agrees(reader.refresh(), run_dir)
    assert reader.refresh().state == "dead"
    (run_dir.lane.pending / "junk.json").write_text("not JSON")
    lane.interrupt()
    summary = reader.refresh()
    agrees(summary, run_dir)
    assert "quarantined" in {item.kind for item in summary.attention}
    assert record.envelope_id


def ways(summary: LaneSummary) -> dict[str, list[str]]:
    """The ways out by what they are about."""
    return {one.subject: [way.action for way in one.exits] for one in summary.attention}


def test_only_what_is_allowed_now_is_a_way_out(tmp_path: Path) -> None:
    run_dir, lane = new_lane(tmp_path / "run")
    reader = SummaryReader(run_dir)
    lane.enqueue_many([phase("bad"), phase("held"), phase("later")])
    finish_first(run_dir, "failed", error="exit 1")
    park_first(run_dir)
    (run_dir.lane.pending / "0000000000000000-0000000000000-junk.json").write_text("not JSON")
    lane.interrupt()
    junk = next(one.name for one in run_dir.lane.quarantine.iterdir() if "reason" not in one.name)
    open_ways = {
        "bad": ["requeue"],
        "held": ["retry", "retry", "drop"],
        junk: ["repair", "drop-file"],
    }
    assert ways(reader.refresh()) == open_ways
    # Nothing goes behind a stop: what would be queued at the end is no way out.
    lane.enqueue({"kind": "stop", "id": "the-stop"})
    with pytest.raises(InvalidInput):
        lane.requeue("bad")
    assert ways(reader.refresh()) == {"bad": [], "held": ["retry", "retry", "drop"], junk: ["drop-file"]}
    agrees(reader.refresh(), run_dir)
    lane.answer("held", "retry")
    lane.withdraw("the-stop")
    assert ways(reader.refresh())["bad"] == ["requeue"]
    agrees(reader.refresh(), run_dir)


def test_the_runner_of_another_tool_leaves_no_way_out_that_it_would_refuse(tmp_path: Path) -> None:
    run_dir, lane = new_lane(tmp_path / "run")
    lane.enqueue_many([phase("bad"), phase("held")])
    finish_first(run_dir, "failed", error="exit 1")
    park_first(run_dir)
    reader = SummaryReader(run_dir)
    assert ways(reader.refresh())["held"] == ["retry", "retry", "drop"]
    run_dir.lane.runner_lock.mkdir()
    owner = {**identity.current().as_json(), "heartbeat_at": SystemClock().now_ms()}
    (run_dir.lane.runner_lock / "owner.json").write_text(json.dumps(owner))
    for refused in (lambda: lane.requeue("bad"), lambda: lane.answer("held", "retry")):
        with pytest.raises(MeshtuiError):
            refused()
    summary = reader.refresh()
    assert ways(summary) == {"bad": [], "held": []}
    assert "another tool" in next(one.text for one in summary.attention if one.subject == "held")
    agrees(summary, run_dir)


def test_results_that_another_tool_writes_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meshtui.core.summary.DOUBT_SECONDS", 0.1)
    run_dir, lane = new_lane(tmp_path / "run")
    lane.enqueue(phase("a"))
    reader = SummaryReader(run_dir)
    reader.refresh()
    name = next(run_dir.lane.pending.iterdir())
    run_dir.lane.claimed.mkdir(exist_ok=True)
    run_dir.lane.results.mkdir(exist_ok=True)
    name.rename(run_dir.lane.claimed / name.name)
    (run_dir.lane.results / "a.json").write_text(json.dumps(result_of("a", "failed", error="boom")))
    other = SummaryReader(run_dir).refresh()
    assert [item.text for item in other.attention] == ["boom"]
    end = time.monotonic() + LIMIT
    while not (summary := reader.refresh()).attention and time.monotonic() < end:
        time.sleep(0.05)
    assert agrees(summary, run_dir)


def test_a_held_phase_and_a_cap_are_told(tmp_path: Path) -> None:
    run_dir, lane = new_lane(tmp_path / "run")
    lane.enqueue(phase("a"))
    name = next(run_dir.lane.pending.iterdir()).name
    limit = {"envelope_id": "a", "record": name, "engine": "claude", "since": "2026-12-01T00:00:00.000Z"}
    budget = {"cap": "max_cost_usd", "used": 9.0, "max": 10.0}
    run_dir.lane.status.write_text(json.dumps({"state": "waiting", "limit": limit, "budget": budget}))
    reader = SummaryReader(run_dir)
    summary = reader.refresh()
    assert {item.kind for item in summary.attention} == {"limit", "budget"}
    agrees(summary, run_dir)
    lane.withdraw("a")
    assert {item.kind for item in reader.refresh().attention} == {"budget"}


def test_cost_of_today_is_summed_from_the_journal(tmp_path: Path) -> None:
    clock = ManualClock(20_000 * DAY_MS - 5000)
    run_dir, _lane = new_lane(tmp_path / "run")
    journal = Journal(run_dir, clock)
    reader = SummaryReader(run_dir, clock=clock)
    journal.append("phase_done", "a", {"usage": {"cost_usd": 5.0}})
    assert reader.refresh().cost_today == 5.0
    clock.advance(10.0)
    assert reader.refresh().cost_today is None
    journal.append("phase_done", "b", {"usage": {"cost_usd": 1.25}})
    journal.append("phase_done", "c", {"usage": {"cost_usd": 0.5, "input_tokens": 9}})
    assert reader.refresh().cost_today == 1.75
    assert SummaryReader(run_dir, clock=clock).refresh().cost_today == 1.75


def test_a_long_journal_is_read_bit_by_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(20_000 * DAY_MS - 5000)
    run_dir, _lane = new_lane(tmp_path / "run")
    journal = Journal(run_dir, clock)
    cost = {"usage": {"cost_usd": 0.25}, "error": "x" * 100}
    journal.append_many([("phase_done", f"old-{number}", cost) for number in range(100)])
    clock.advance(10.0)
    journal.append_many([("phase_done", f"new-{number}", cost) for number in range(100)])
    monkeypatch.setattr("meshtui.core.journal_sums.SLICE", 2048)
    reader = SummaryReader(run_dir, clock=clock)
    first = reader.refresh().cost_today
    assert first is not None
    assert first < 25
    assert reader.unread
    looks = 0
    while bool(reader.unread):
        reader.refresh()
        looks += 1
    assert looks > 5
    assert reader.refresh().cost_today == 25.0


def test_the_most_urgent_comes_first(tmp_path: Path) -> None:
    def one(name: str, *kinds: Any, **fields: Any) -> LaneSummary:
        items = tuple(Attention(kind, name, "", 1000) for kind in kinds)
        return LaneSummary(Path("/r") / name, name, attention=items, **fields)

    view = FleetView.of(
        [one("idle"), one("busy", pending=3), one("limit", "limit"), one("running", state="running"),
         one("failed", "failed"), one("dead", "dead"), one("two", "parked", "failed"), one("parked", "parked")]
    )  # fmt: skip
    names = [lane.name for lane in view.lanes]
    assert names == ["dead", "two", "parked", "failed", "limit", "running", "busy", "idle"]
    assert [need.item.kind for need in view.needs] == [
        "dead",
        "parked",
        "parked",
        "failed",
        "failed",
        "limit",
    ]
    assert len({need.key for need in view.needs}) == 6


def test_what_stands_longest_is_first_and_what_failed_last_too() -> None:
    items = (
        Attention("parked", "late", "", 2000), Attention("parked", "early", "", 1000),
        Attention("failed", "old", "", 1000), Attention("failed", "new", "", 2000),
    )  # fmt: skip
    view = FleetView.of([LaneSummary(Path("/r"), "r", attention=items)])
    assert [need.item.subject for need in view.needs] == ["early", "late", "new", "old"]


def test_lanes_appear_change_and_vanish_live(tmp_path: Path) -> None:
    new_lane(tmp_path / "a")
    views: list[FleetView] = []
    follower = FleetFollower(RunDirs([tmp_path]), on_view=views.append)
    follower.start()
    try:
        until(lambda: views and views[-1].complete and len(views[-1].lanes) == 1, "the first lane")
        run_dir, lane = new_lane(tmp_path / "b")
        until(lambda: len(views[-1].lanes) == 2, "a new lane")
        lane.enqueue(phase("x"))
        until(lambda: {one.name: one.pending for one in views[-1].lanes} == {"a": 0, "b": 1}, "its record")
        park_first(run_dir)
        until(lambda: views[-1].lanes[0].name == "b" and len(views[-1].needs) == 1, "what is parked first")
        Lane(run_dir).answer("x", "drop")
        until(lambda: [need.item.kind for need in views[-1].needs] == ["failed"], "the answer")
        shutil.rmtree(tmp_path / "b")
        until(lambda: [one.name for one in views[-1].lanes] == ["a"], "its end")
        assert views[-1].needs == ()
    finally:
        assert follower.stop()


def test_an_empty_folder_is_a_view_of_nothing(tmp_path: Path) -> None:
    views: list[FleetView] = []
    follower = FleetFollower(RunDirs([tmp_path]), on_view=views.append)
    follower.start()
    try:
        until(lambda: views, "a first view")
        assert views[-1].lanes == ()
        assert views[-1].complete
    finally:
        assert follower.stop()


def test_a_named_directory_that_goes_keeps_its_row(tmp_path: Path) -> None:
    new_lane(tmp_path / "a")
    new_lane(tmp_path / "b")
    follower = FleetFollower(RunDirs([tmp_path / "a", tmp_path / "b"]), on_view=lambda view: None)
    assert [lane.problem for lane in follower.read_all().lanes] == [None, None]
    shutil.rmtree(tmp_path / "b")
    assert [(lane.name, lane.problem) for lane in follower.read_all().lanes] == [
        ("b", "the folder is gone"), ("a", None),
    ]  # fmt: skip


def test_one_lane_that_cannot_be_read_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        new_lane(tmp_path / name)
    real = SummaryReader.refresh

    def broken(self: SummaryReader) -> LaneSummary:
        if self.name == "b":
            raise OSError("no such device")
        return real(self)

    monkeypatch.setattr(SummaryReader, "refresh", broken)
    view = FleetFollower(RunDirs([tmp_path]), on_view=lambda view: None).read_all()
    assert [(lane.name, lane.problem) for lane in view.lanes] == [
        ("b", "cannot be read: no such device"), ("a", None),
    ]  # fmt: skip


def test_looking_writes_nothing(tmp_path: Path) -> None:
    run_dir, lane = new_lane(tmp_path / "run")
    lane.enqueue_many([phase(f"p{number}") for number in range(3)])
    finish_first(run_dir, "failed", error="x")
    files_of(run_dir)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    reader = SummaryReader(RunDir(run_dir.root), clock=SystemClock())
    for _ in range(3):
        reader.refresh()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
