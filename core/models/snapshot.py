"""The snapshot ``meshtui.snapshot.v1``: a run directory as one JSON document for scripts.

It is only ever written, from values that are typed already, so that nothing checks them again: a script
that asks for it in a loop need not wait for what checks what comes in.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

SCHEMA: Literal["meshtui.snapshot.v1"] = "meshtui.snapshot.v1"


class RunnerSnapshot(NamedTuple):
    """Who holds the lease."""

    alive: bool
    pid: int | None
    host: str | None
    heartbeat_age_s: float | None


class LaneSnapshot(NamedTuple):
    """The lane's status."""

    lane_id: str | None
    state: str
    queue_depth: int
    active_envelope_id: str | None
    active_phase: str | None
    stall_counts: dict[str, int]
    runner: RunnerSnapshot
    updated_at: str | None


class RowSnapshot(NamedTuple):
    """One record; times are ISO 8601."""

    position: int | None
    envelope_id: str
    kind: str
    phase: str | None
    story_id: str | None
    engine: str | None
    queued_at: str | None
    started_at: str | None
    deadline_at: str | None
    attempt: int
    stalls: int


class CountsSnapshot(NamedTuple):
    """How many records stand where."""

    pending: int
    active: int
    claimed: int
    stalled: int
    withdrawn: int
    quarantined: int
    done: int
    failed: int


class QueueSnapshot(NamedTuple):
    """The queue; ``pending`` lists the first 1,000."""

    pending: tuple[RowSnapshot, ...]
    active: tuple[RowSnapshot, ...]
    stalled: tuple[RowSnapshot, ...]
    counts: CountsSnapshot
    counts_exact: bool


class ExitSnapshot(NamedTuple):
    """One way out, as a command line."""

    label: str
    command: str


class AttentionSnapshot(NamedTuple):
    """One thing that needs the operator."""

    kind: str
    subject: str
    text: str
    since: str | None
    exits: tuple[ExitSnapshot, ...]


class FleetLaneSnapshot(NamedTuple):
    """One lane of a fleet."""

    run_dir: str
    lane: LaneSnapshot | None
    counts: CountsSnapshot | None


class Snapshot(NamedTuple):
    """A run directory at one moment."""

    run_dir: str
    kind: Literal["lane", "mission", "repo", "fleet"]
    taken_at: str
    lane: LaneSnapshot | None
    queue: QueueSnapshot | None
    missions: tuple[dict[str, Any], ...] = ()
    lanes: tuple[FleetLaneSnapshot, ...] = ()
    attention: tuple[AttentionSnapshot, ...] = ()
    warnings: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The document, under the names of the contract."""
        return {"schema": SCHEMA, **{name: _plain(getattr(self, name)) for name in self._fields}}


def _plain(value: Any) -> Any:
    """``value`` in what JSON has: objects for what has named fields, arrays for other tuples and lists."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: _plain(item) for name, item in zip(value._fields, value, strict=True)}
    return [_plain(item) for item in value] if isinstance(value, (tuple, list)) else value
