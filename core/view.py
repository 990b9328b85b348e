"""What there is to see of a lane at one moment: frozen values, made by the reader, drawn by the console.

Nothing here depends on the time of day: ages are computed where they are shown, so that a view changes
only when the run directory did. Times are milliseconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from meshtui.core.mesh.view import MissionView

Section = Literal["pending", "active", "done", "failed", "stalled", "withdrawn", "quarantined"]
SECTIONS: tuple[Section, ...] = (
    "pending",
    "active",
    "done",
    "failed",
    "stalled",
    "withdrawn",
    "quarantined",
)

LaneState = Literal["waiting", "running", "parked", "stopped", "failed", "paused", "dead"]
AttentionKind = Literal[
    "parked", "failed", "blocked", "handoff", "quarantined", "dead", "limit", "budget", "survivor"
]


@dataclass(frozen=True, slots=True)
class Doing:
    """What an agent did last, and what its call has used so far."""

    at: int
    kind: str
    """``tool``, ``text`` or ``notice``."""
    text: str
    worker: str | None = None
    """Of a loop which worker."""
    tokens: int | None = None
    estimated: bool = False
    """Whether some of the tokens are told from the length of the text."""
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One record of the queue, or one quarantined file."""

    key: str
    """The record's file name: unique in the run directory, and stable while the record stays put."""
    section: Section
    envelope_id: str
    kind: Literal["phase", "stop", "unknown"] = "phase"
    loaded: bool = True
    """``False`` while only the name is known; ``envelope_id`` is then the safe id."""
    label: str | None = None
    phase: str | None = None
    story_id: str | None = None
    engine: str | None = None
    """As the envelope names it; ``None`` leaves it to the lane."""
    mode: str = "single"
    queued_at: int | None = None
    started_at: int | None = None
    finished_at: int | None = None
    deadline_at: int | None = None
    budget_seconds: float | None = None
    """What an attempt may take, as far as the record or the envelope says it."""
    attempt: int = 1
    stalls: int = 0
    call_id: str | None = None
    status: str | None = None
    """``done``, ``failed``, ``stalled`` or ``stopped`` where there is a result."""
    handoff_status: str | None = None
    error: str | None = None
    """The result's error, or why a file was quarantined."""
    doing: tuple[Doing, ...] = ()
    """Of an active one what its agent does, as far as it says so."""

    @property
    def title(self) -> str:
        """What to call it in a list: story and phase, else its label, else its id."""
        if self.story_id and self.phase:
            return f"{self.story_id}/{self.phase}"
        return self.label or self.phase or self.envelope_id


@dataclass(frozen=True, slots=True)
class RunnerView:
    """Who holds the lane's lease."""

    alive: bool = False
    pid: int | None = None
    host: str | None = None
    heartbeat_at: int | None = None
    foreign: bool = False
    """Held by a tool that is not meshtui: its directory lock stands, our lock is free."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How many records stand where; ``done`` and ``failed`` count results, ``claimed`` all finished records."""

    pending: int = 0
    active: int = 0
    claimed: int = 0
    stalled: int = 0
    withdrawn: int = 0
    quarantined: int = 0
    done: int = 0
    failed: int = 0

    def of(self, section: Section) -> int:
        """The count shown on the tab of ``section``."""
        value: int = getattr(self, section)
        return value


@dataclass(frozen=True, slots=True)
class Exit:
    """One legal way out of what needs the operator."""

    label: str
    command: str
    """The command line that does it."""
    action: Literal[
        "retry",
        "drop",
        "requeue",
        "withdraw",
        "repair",
        "drop-file",
        "run",
        "log",
        "resume",
        "approve",
        "reject",
        "proof",
        "kill",
    ]
    """What the console does for it."""


@dataclass(frozen=True, slots=True)
class Attention:
    """One thing that needs the operator."""

    kind: AttentionKind
    subject: str
    text: str
    since: int | None
    exits: tuple[Exit, ...] = ()
    key: str | None = None
    """The row it is about, if it is about one."""
    envelope_id: str | None = None
    """The envelope it is about, if it is about one."""
    engine: str | None = None
    """The engine that the envelope names."""


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the journal."""

    seq: int
    at: int
    event: str
    subject: str
    data: dict[str, Any] = field(default_factory=dict, compare=False)
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """A phase, or a worker of a loop, that waits for an engine's usage limit to pass."""

    envelope_id: str
    """Of a worker its slot."""
    engine: str
    until: int | None
    since: int | None
    known: bool = False
    """Whether the engine said when its limit ends; else it is tried again then."""
    text: str = ""
    """The engine's own words."""


@dataclass(frozen=True, slots=True)
class Spent:
    """How a lane stands to a cap it comes near, or has reached."""

    cap: str
    used: float
    most: float

    @property
    def reached(self) -> bool:
        """Whether nothing more is claimed."""
        return self.used >= self.most


@dataclass(frozen=True, slots=True)
class LaneView:
    """A lane at one moment."""

    run_dir: Path
    exists: bool
    """Whether there is a lane at all (``loop/``)."""
    lane_id: str | None = None
    state: LaneState = "waiting"
    updated_at: int | None = None
    runner: RunnerView = RunnerView()
    active_envelope_id: str | None = None
    active_phase: str | None = None
    stall_counts: dict[str, int] = field(default_factory=dict)
    pending: tuple[Row, ...] = ()
    """In the order they will run."""
    active: tuple[Row, ...] = ()
    done: tuple[Row, ...] = ()
    """Newest first, at most :data:`HISTORY_ROWS`; the same for the following ones."""
    failed: tuple[Row, ...] = ()
    stalled: tuple[Row, ...] = ()
    withdrawn: tuple[Row, ...] = ()
    quarantined: tuple[Row, ...] = ()
    counts: Counts = Counts()
    counts_exact: bool = True
    complete: bool = True
    """``False`` while rows are still being read; a later view has them."""
    depth_history: tuple[tuple[int, int], ...] = ()
    """``(time, pending)`` after each change of the queue, oldest first, from the journal."""
    stop_waits: bool = False
    """Whether a stop is pending: nothing is queued behind it."""
    held: Held | None = None
    spent: Spent | None = None
    tokens: int | None = None
    """What the lane's phases used so far, as far as their engines reported it."""
    cost_usd: float | None = None
    attention: tuple[Attention, ...] = ()
    warnings: tuple[str, ...] = ()
    journal: tuple[Event, ...] = ()
    """The newest :data:`JOURNAL_ROWS` events, oldest first."""
    missions: tuple[MissionView, ...] = ()
    """The missions of the directory, oldest first."""

    def rows(self, section: Section) -> tuple[Row, ...]:
        """The rows of one section."""
        value: tuple[Row, ...] = getattr(self, section)
        return value


HISTORY_ROWS = 1000
JOURNAL_ROWS = 400


@dataclass(frozen=True, slots=True)
class CallView:
    """Where a call's files are, and how it stands."""

    call_id: str
    folder: Path
    stdout: Path
    stderr: Path
    state: Literal["starting", "running", "ended", "lost"]
    exit_code: int | None = None
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class Detail:
    """Everything known of one record, read when it is selected."""

    key: str
    section: Section
    record: dict[str, Any] | None
    """The record as it stands in its file; ``None`` if it cannot be read."""
    raw: str | None
    """The file's text where it is no record (quarantined)."""
    result: dict[str, Any] | None = None
    handoff: dict[str, Any] | None = None
    question: dict[str, Any] | None = None
    call: CallView | None = None
    problem: str | None = None
    """Why something of it could not be read."""
