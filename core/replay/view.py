"""A folded state as the views that a reader makes of files; nothing in them can be acted on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from meshtui.core.clock import from_iso, iso
from meshtui.core.engines.base import Usage
from meshtui.core.lane.attention import MOST_FAILED, span
from meshtui.core.mesh.view import MissionView, mission_attention
from meshtui.core.replay.fold import LaneFold, Place
from meshtui.core.view import (
    HISTORY_ROWS,
    Attention,
    Counts,
    Event,
    LaneState,
    LaneView,
    Row,
    RunnerView,
    Spent,
)

WARN_AT = 0.8
"""The share of a cap from which it is shown, as a runner shows it."""
CAPS = {"cost_usd": "max_cost_usd", "tokens": "max_tokens_estimate"}


def lane_view(
    state: LaneFold,
    run_dir: Path,
    *,
    journal: Sequence[Event],
    depths: Sequence[tuple[int, int]],
    plans: Mapping[str, Mapping[str, Any]],
    warnings: tuple[str, ...] = (),
) -> LaneView:
    """What there was to see of the run directory after the events in ``state``."""
    active = _rows(state, "active")
    missions = tuple(
        mission.view(run_dir / "missions" / name / "loops", plans.get(name))
        for name, mission in state.missions.items()
    )
    view = LaneView(
        run_dir=run_dir,
        exists=state.seen,
        lane_id=state.lane_id or run_dir.name,
        state=lane_state(state),
        updated_at=state.at,
        runner=RunnerView(alive=True, pid=state.runner.pid) if state.runner.alive else RunnerView(),
        active_envelope_id=active[0].envelope_id if active else None,
        active_phase=(active[0].phase or active[0].label or active[0].envelope_id) if active else None,
        stall_counts=dict(state.stall_counts),
        pending=tuple(sorted(_rows(state, "pending"), key=lambda row: row.key)),
        active=active,
        done=_newest(state, "done"),
        failed=_newest(state, "failed"),
        stalled=tuple(sorted(_rows(state, "stalled"), key=lambda row: row.key)),
        withdrawn=tuple(sorted(_rows(state, "withdrawn"), key=lambda row: row.key, reverse=True))[
            :HISTORY_ROWS
        ],
        quarantined=tuple(sorted(_rows(state, "quarantined"), key=lambda row: row.key)),
        counts=counts_of(state),
        depth_history=tuple(depths),
        held=state.held if state.held is not None and _waits(state) else None,
        spent=spent_of(state),
        warnings=warnings,
        tokens=state.used.tokens if state.used != Usage() else None,
        cost_usd=state.used.cost_usd,
        journal=tuple(journal),
        missions=missions,
    )
    return replace(view, attention=_attention(state, view, missions))


def lane_state(state: LaneFold) -> LaneState:
    """The lane's state as far as the journal tells."""
    runner = state.runner
    if not runner.alive and state.places["active"]:
        return "dead"
    if state.paused:
        return "paused"
    if runner.alive:
        return "running" if state.places["active"] else "waiting"
    if runner.ended in ("stopped", "failed"):
        return "stopped" if runner.ended == "stopped" else "failed"
    return "parked" if runner.ended == "parked" and state.places["stalled"] else "waiting"


def counts_of(state: LaneFold) -> Counts:
    """How many records stood where."""
    count = {place: len(keys) for place, keys in state.places.items()}
    return Counts(
        pending=count["pending"],
        active=count["active"],
        claimed=count["done"] + count["failed"] + count["stopped"],
        stalled=count["stalled"],
        withdrawn=count["withdrawn"],
        quarantined=count["quarantined"],
        done=count["done"],
        failed=count["failed"],
    )


def spent_of(state: LaneFold) -> Spent | None:
    """The cap that the lane came near, from what its phases used, else from what a warning told."""
    used = {"cost_usd": state.used.cost_usd or 0.0, "tokens": float(state.used.tokens)}
    shares = [(used[key] / most, key, most) for key, most in state.runner.caps.items() if most > 0]
    if shares:
        share, key, most = max(shares)
        return Spent(CAPS[key], used[key], most) if share >= WARN_AT else None
    return Spent(*state.budget) if state.budget is not None else None


def _rows(state: LaneFold, place: Place) -> tuple[Row, ...]:
    return tuple(state.rows[key] for key in state.places[place])


def _newest(state: LaneFold, place: Place) -> tuple[Row, ...]:
    keys = list(state.places[place])[-HISTORY_ROWS:]
    return tuple(state.rows[key] for key in reversed(keys))


def _waits(state: LaneFold) -> bool:
    held = state.held
    return held is not None and any(
        state.rows[key].envelope_id == held.envelope_id for key in state.places["pending"]
    )


def _attention(state: LaneFold, view: LaneView, missions: Sequence[MissionView]) -> tuple[Attention, ...]:
    """What needed the operator then; the ways out are those of the time, so none is offered."""
    items: list[Attention] = []
    lane = view.lane_id or view.run_dir.name
    if view.state == "dead":
        left = f"; {view.active[0].title} was active" if view.active else ""
        items.append(Attention("dead", lane, f"the runner is gone{left}", state.at))
    items += [_parked(state, row) for row in view.stalled]
    if view.held is not None:
        held = view.held
        until = iso(held.until) if held.until is not None else "later"
        row = next((row for row in view.pending if row.envelope_id == held.envelope_id), None)
        text = f"held until {until}; {held.text or f'usage limit of {held.engine}'}"
        items.append(
            Attention(
                "limit",
                row.title if row else held.envelope_id,
                text,
                held.since,
                key=row.key if row else None,
            )
        )
    if view.spent is not None:
        share = f"{view.spent.used:g} of {view.spent.most:g} ([lane] {view.spent.cap})"
        said = f"the cap is reached, {share}" if view.spent.reached else f"used {share}"
        items.append(Attention("budget", lane, said, None))
    items += [
        Attention("survivor", subject, f"would not end: {names}", at)
        for subject, (at, names) in state.survivors.items()
    ]
    items += [
        Attention("quarantined", row.key, row.error or "could not be read", row.finished_at, key=row.key)
        for row in view.quarantined
    ]
    bad = [row for row in view.done if row.handoff_status in ("failed", "blocked")]
    ended = sorted([*view.failed, *bad], key=lambda row: row.finished_at or 0, reverse=True)
    items += [_ended_badly(row) for row in ended[:MOST_FAILED]]
    for mission in reversed(missions):
        items += [replace(item, exits=()) for item in mission_attention(mission, view.run_dir)]
    return tuple(items)


def _ended_badly(row: Row) -> Attention:
    text = row.error or (f"handoff says {row.handoff_status}" if row.handoff_status else "failed")
    kind = "blocked" if row.handoff_status == "blocked" else "failed"
    return Attention(kind, row.title, text, row.finished_at, key=row.key)  # type: ignore[arg-type]


def _parked(state: LaneFold, row: Row) -> Attention:
    told = next((state.parked[key] for key in state.parked if state.rows.get(key) is row), {})
    text = row.error or "parked"
    if row.stalls >= 2:
        text = f"stalled {'twice' if row.stalls == 2 else f'{row.stalls} times'}"
        if row.budget_seconds:
            text += f" at {span(row.budget_seconds)}"
        silent = from_iso(told.get("last_output_at"))
        if told.get("output_bytes") == 0:
            text += ", no output"
        if silent is not None and row.finished_at is not None and row.finished_at - silent >= 1000:
            text += f", silent for {span((row.finished_at - silent) / 1000)}"
    return Attention("parked", row.title, text, row.finished_at, key=row.key)
