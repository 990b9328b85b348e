"""The snapshot ``meshtui.snapshot.v1``: a run directory as one JSON document for scripts."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA: Literal["meshtui.snapshot.v1"] = "meshtui.snapshot.v1"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RunnerSnapshot(_Model):
    """Who holds the lease."""

    alive: bool
    pid: int | None
    host: str | None
    heartbeat_age_s: float | None


class LaneSnapshot(_Model):
    """The lane's status."""

    lane_id: str | None
    state: str
    queue_depth: int
    active_envelope_id: str | None
    active_phase: str | None
    stall_counts: dict[str, int]
    runner: RunnerSnapshot
    updated_at: str | None


class RowSnapshot(_Model):
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


class CountsSnapshot(_Model):
    """How many records stand where."""

    pending: int
    active: int
    claimed: int
    stalled: int
    withdrawn: int
    quarantined: int
    done: int
    failed: int


class QueueSnapshot(_Model):
    """The queue; ``pending`` lists the first 1,000."""

    pending: list[RowSnapshot]
    active: list[RowSnapshot]
    stalled: list[RowSnapshot]
    counts: CountsSnapshot
    counts_exact: bool


class ExitSnapshot(_Model):
    """One way out, as a command line."""

    label: str
    command: str


class AttentionSnapshot(_Model):
    """One thing that needs the operator."""

    kind: str
    subject: str
    text: str
    since: str | None
    exits: list[ExitSnapshot]


class FleetLaneSnapshot(_Model):
    """One lane of a fleet."""

    run_dir: str
    lane: LaneSnapshot | None
    counts: CountsSnapshot | None


class Snapshot(_Model):
    """A run directory at one moment."""

    schema_name: Literal["meshtui.snapshot.v1"] = Field(default=SCHEMA, alias="schema")
    run_dir: str
    kind: Literal["lane", "mission", "repo", "fleet"]
    taken_at: str
    lane: LaneSnapshot | None
    queue: QueueSnapshot | None
    missions: list[dict[str, Any]] = []
    lanes: list[FleetLaneSnapshot] = []
    attention: list[AttentionSnapshot] = []
    warnings: list[str] = []

    def as_json(self) -> dict[str, Any]:
        """The document, under the names of the contract."""
        return self.model_dump(mode="json", by_alias=True)
