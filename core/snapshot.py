"""A run directory as one snapshot document, whatever kind of directory it is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from meshtui.core.clock import Clock, iso
from meshtui.core.fleet import run_dirs_in
from meshtui.core.lane.reader import LaneReader
from meshtui.core.models.snapshot import (
    AttentionSnapshot,
    CountsSnapshot,
    ExitSnapshot,
    FleetLaneSnapshot,
    LaneSnapshot,
    QueueSnapshot,
    RowSnapshot,
    RunnerSnapshot,
    Snapshot,
)
from meshtui.core.run_dir import RunDir
from meshtui.core.view import Attention, LaneView, Row

if TYPE_CHECKING:
    from meshtui.core.mesh.view import LoopRow, MissionView

PENDING_ROWS = 1000
NO_LIMIT = 1 << 40

Kind = Literal["lane", "mission", "repo", "fleet"]


def kind_of_directory(root: Path) -> Kind:
    """What ``root`` is: a lane, a mission, a repository with missions, or a folder of such."""
    run_dir = RunDir(root)
    if run_dir.lane.root.is_dir() or run_dir.about.exists():
        return "lane"
    if (root / "loops" / "loop-plan.json").exists():
        return "mission"
    if (root / ".sneakoscope" / "missions").is_dir():
        return "repo"
    if run_dir.missions.is_dir():
        return "lane"
    return "fleet" if lanes_in(root) else "lane"


def lanes_in(root: Path) -> list[Path]:
    """The run directories one or two levels below ``root``, by path."""
    return run_dirs_in(root)


def read_view(run_dir: RunDir, clock: Clock, *, history: bool) -> LaneView:
    """One complete view of a lane."""
    reader = LaneReader(run_dir, clock=clock, history=history)
    return reader.refresh(budget=NO_LIMIT, pending_limit=None if history else PENDING_ROWS)


def take_snapshot(root: Path, clock: Clock) -> Snapshot:
    """The snapshot of the directory at ``root``, which exists."""
    kind = kind_of_directory(root)
    if kind == "fleet":
        return _fleet(str(root), lanes_in(root), clock)
    missions = _read_missions(root, clock)
    return snapshot_of(
        read_view(RunDir(root), clock, history=False), clock.now_ms(), kind=kind, missions=missions
    )


def take_fleet_snapshot(roots: Sequence[Path], clock: Clock) -> Snapshot:
    """The snapshot of several directories, which exist; ``run_dir`` is the folder they have in common."""
    found: dict[Path, None] = {}
    for root in roots:
        for path in lanes_in(root) if kind_of_directory(root) == "fleet" else [root]:
            found.setdefault(path)
    return _fleet(os.path.commonpath([str(root.absolute()) for root in roots]), list(found), clock)


def _fleet(name: str, paths: Sequence[Path], clock: Clock) -> Snapshot:
    lanes = [_fleet_lane(path, clock) for path in paths]
    return Snapshot(
        run_dir=name,
        kind="fleet",
        taken_at=iso(clock.now_ms()),
        lane=None,
        queue=None,
        lanes=tuple(lane for lane, _ in lanes),
        attention=tuple(item for _, items in lanes for item in items),
    )


def _read_missions(root: Path, clock: Clock) -> tuple[MissionView, ...]:
    """The missions of a directory; where there are none their room is not even imported."""
    places = (root / "missions", root / ".sneakoscope" / "missions", root / "loops" / "loop-plan.json")
    if not any(place.exists() for place in places):
        return ()
    from meshtui.core.mesh.view import MissionsReader

    return MissionsReader(root, clock=clock).refresh()


def _fleet_lane(path: Path, clock: Clock) -> tuple[FleetLaneSnapshot, tuple[AttentionSnapshot, ...]]:
    view = read_view(RunDir(path), clock, history=False)
    lane = _lane(view, clock.now_ms()) if view.exists else None
    counts = _counts(view) if view.exists else None
    items = [*view.attention, *_mission_items(_read_missions(path, clock), path)]
    return FleetLaneSnapshot(run_dir=str(path), lane=lane, counts=counts), tuple(map(_item, items))


def _mission_items(missions: Sequence[MissionView], run_dir: Path) -> list[Attention]:
    """What of missions needs somebody."""
    if not missions:
        return []
    from meshtui.core.mesh.view import mission_attention

    return [item for mission in missions for item in mission_attention(mission, run_dir)]


def snapshot_of(
    view: LaneView, now_ms: int, *, kind: Kind = "lane", missions: Sequence[MissionView] = ()
) -> Snapshot:
    """``view`` as the document of the contract, at time ``now_ms``."""
    items = _mission_items(missions, view.run_dir)
    return Snapshot(
        run_dir=str(view.run_dir),
        kind=kind,
        taken_at=iso(now_ms),
        lane=_lane(view, now_ms) if view.exists else None,
        queue=_queue(view) if view.exists else None,
        missions=tuple(_mission(mission) for mission in missions),
        attention=tuple(_item(item) for item in (*view.attention, *items)),
        warnings=view.warnings,
    )


def _mission(view: MissionView) -> dict[str, Any]:
    return {
        "mission_id": view.mission_id,
        "request": view.request,
        "ok": view.ok,
        "loops": [_loop(row) for row in view.loops],
        "graph_proof": view.graph_proof,
    }


def _loop(row: LoopRow) -> dict[str, Any]:
    return {
        "loop_id": row.loop_id,
        "title": row.title,
        "status": row.status,
        "phase": row.phase,
        "iteration": row.iteration,
        "level": row.level,
        "risk": row.risk,
        "route": row.route,
        "owner_scope": {"files": list(row.files), "directories": list(row.directories)},
        "workers": {"maker": row.makers, "checker": row.checkers, "active": list(row.active_workers)},
        "gates": {
            "selected": list(row.gates_selected),
            "passed": list(row.gates_passed),
            "failed": list(row.gates_failed),
            "skipped": list(row.gates_skipped),
        },
        "budget": {"used": row.budget_used, "max": row.budget_max},
        "changed_files": list(row.changed_files),
        "blockers": list(row.blockers),
        "worktree": row.worktree,
        "updated_at": _time(row.updated_at),
    }


def _lane(view: LaneView, now_ms: int) -> LaneSnapshot:
    beat = view.runner.heartbeat_at
    return LaneSnapshot(
        lane_id=view.lane_id,
        state=view.state,
        queue_depth=view.counts.pending,
        active_envelope_id=view.active_envelope_id,
        active_phase=view.active_phase,
        stall_counts=view.stall_counts,
        runner=RunnerSnapshot(
            alive=view.runner.alive,
            pid=view.runner.pid,
            host=view.runner.host,
            heartbeat_age_s=None if beat is None else round(max(0, now_ms - beat) / 1000, 1),
        ),
        updated_at=_time(view.updated_at),
    )


def _queue(view: LaneView) -> QueueSnapshot:
    return QueueSnapshot(
        pending=tuple(_row(row, place) for place, row in enumerate(view.pending[:PENDING_ROWS], 1)),
        active=tuple(_row(row, None) for row in view.active),
        stalled=tuple(_row(row, None) for row in view.stalled),
        counts=_counts(view),
        counts_exact=view.counts_exact,
    )


def _counts(view: LaneView) -> CountsSnapshot:
    counts = view.counts
    return CountsSnapshot(
        pending=counts.pending,
        active=counts.active,
        claimed=counts.claimed,
        stalled=counts.stalled,
        withdrawn=counts.withdrawn,
        quarantined=counts.quarantined,
        done=counts.done,
        failed=counts.failed,
    )


def _row(row: Row, position: int | None) -> RowSnapshot:
    return RowSnapshot(
        position=position,
        envelope_id=row.envelope_id,
        kind=row.kind,
        phase=row.phase,
        story_id=row.story_id,
        engine=row.engine,
        queued_at=_time(row.queued_at),
        started_at=_time(row.started_at),
        deadline_at=_time(row.deadline_at),
        attempt=row.attempt,
        stalls=row.stalls,
    )


def _item(item: Attention) -> AttentionSnapshot:
    return AttentionSnapshot(
        kind=item.kind,
        subject=item.subject,
        text=item.text,
        since=_time(item.since),
        exits=tuple(ExitSnapshot(label=way.label, command=way.command) for way in item.exits),
    )


def _time(ms: int | None) -> str | None:
    return None if ms is None else iso(ms)
