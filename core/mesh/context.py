"""What all loops of a running mission share, and what each of them remembers between its steps."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from meshtui.core import storage
from meshtui.core.calls import Call
from meshtui.core.clock import Clock, iso
from meshtui.core.config import Config
from meshtui.core.engines.base import Engine
from meshtui.core.errors import InvalidInput
from meshtui.core.journal import Journal
from meshtui.core.mesh.facts import progress_of
from meshtui.core.mesh.files import append_line, read_lines, read_model, write_json
from meshtui.core.mesh.paths import LoopPaths, MissionPaths
from meshtui.core.models.mesh import CHECKPOINT, BudgetUsed, Evidence, Node, Phase, Plan
from meshtui.core.run_dir import RunDir
from meshtui.core.vcs.git import Git

EngineFactory = Callable[[str], Engine]


class LoopKilled(Exception):
    """The operator killed this loop."""


class LoopStopped(Exception):
    """The mission's runner was told to stop: calls are ended, the loop goes on at the next resume."""


class LoopHandedOver(Exception):
    """The mission's runner ends and leaves the calls running."""


class LoopBlocked(Exception):
    """The loop cannot go on; ``blockers`` say why, one line each."""

    def __init__(self, *blockers: str) -> None:
        super().__init__("; ".join(blockers))
        self.blockers = list(blockers)


class WorkerSlots:
    """How many workers may be alive at once, over all loops."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._used = 0
        self.peak = 0
        self._lock = threading.Lock()

    def try_take(self, *, adopted: bool = False) -> bool:
        """Take a slot if one is free; an adopted worker lives already and counts in any case."""
        with self._lock:
            if self._used >= self.most and not adopted:
                return False
            self._used += 1
            self.peak = max(self.peak, self._used)
            return True

    def give_back(self) -> None:
        """Return a slot."""
        with self._lock:
            self._used -= 1


@dataclass(slots=True)
class Signals:
    """What the operator asked of the mission; loops look at it all the time."""

    stop: threading.Event = field(default_factory=threading.Event)
    hand_over: threading.Event = field(default_factory=threading.Event)
    _killed: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def kill(self, loop_id: str) -> None:
        """Note that a loop is to end as cancelled."""
        with self._lock:
            self._killed.add(loop_id)

    def is_killed(self, loop_id: str) -> bool:
        """Whether a loop was killed."""
        with self._lock:
            return loop_id in self._killed

    def check(self, loop_id: str) -> None:
        """Raise what the operator asked of ``loop_id``, if anything."""
        if self.is_killed(loop_id):
            raise LoopKilled
        if self.stop.is_set():
            raise LoopStopped
        if self.hand_over.is_set():
            raise LoopHandedOver


@dataclass(slots=True)
class MissionContext:
    """A mission at work."""

    run_dir: RunDir
    paths: MissionPaths
    plan: Plan
    config: Config
    repo: Path
    git: Git
    clock: Clock
    engines: EngineFactory
    worktrees: Path
    """Where this mission's worktrees stand."""
    slots: WorkerSlots
    journal: Journal
    signals: Signals
    engine: str
    """The engine of loops that name none."""
    strategy: str
    verify_lease: Callable[[], None]
    """Raises ``LeaseLost``; called before every write that decides something."""
    files_lock: threading.Lock = field(default_factory=threading.Lock)
    """Around what several loops write to."""
    on_base: dict[str, Evidence] = field(default_factory=dict)
    """How gates that failed somewhere ended on the base commit."""

    @property
    def base(self) -> str:
        """The commit that every loop starts from."""
        assert self.plan.base_commit is not None
        return self.plan.base_commit

    def note(self, event: str, subject: str, **data: Any) -> None:
        """Journal an event of the mission."""
        known = {key: value for key, value in data.items() if value is not None}
        self.journal.append(event, subject, {"mission_id": self.plan.mission_id, **known})


class HeldWorker(BaseModel):
    """A worker that waits for its engine's usage limit to pass."""

    model_config = ConfigDict(extra="ignore")

    engine: str
    until_ms: int
    since_ms: int
    holds: int = 1
    """How often in a row."""
    known: bool = False
    """Whether the engine said when its limit ends."""
    error: str = ""
    """The engine's own words."""
    kept: bool = True
    """Whether its working copy is as it left it."""


class Spent(BaseModel):
    """The cap that a loop came near."""

    model_config = ConfigDict(extra="ignore")

    cap: str
    used: float
    max: float


class Progress(BaseModel):
    """What a loop's checkpoint carries beside the format's fields: enough to go on after a crash."""

    model_config = ConfigDict(extra="ignore")

    iteration: int = 0
    phase: Phase = "triage"
    start: str | None = None
    """The commit this iteration's makers started from."""
    candidate: str | None = None
    """The newest candidate: one commit on top of the base with everything the loop changed."""
    findings: list[str] = []
    """What gates and checkers said against the last candidate."""
    calls: dict[str, str] = {}
    """Worker slot to call, for the phase at work; one that ended stays until the phase is over."""
    counted: list[str] = []
    """Calls of this phase whose usage is in ``used`` already."""
    set_up: list[str] = []
    """Names of working copies in which ``[mesh] setup`` has passed."""
    rivals: list[str] = []
    """Competing candidates that passed their gates as well, best first: next if checkers refuse this one."""
    survivors: list[str] = []
    """Processes that nothing could end."""
    held: dict[str, HeldWorker] = {}
    """Worker slot to what holds it, kept until the worker is through: it stands in no call meanwhile."""
    warned: Spent | None = None
    """The warning about a cap, given once."""
    sessions: dict[str, str] = {}
    """Maker slot to its session."""
    session_usage: dict[str, dict[str, float]] = {}
    """Maker slot to what its session used in all, for engines that report that."""
    maker_sessions: list[str] = []
    checker_sessions: list[str] = []
    artifacts: list[str] = []
    """The makers' artefacts of this iteration, relative to the run directory."""
    checker_files: list[str] = []
    makers_used: int = 0
    checkers_used: int = 0
    passed: list[str] = []
    failed: list[str] = []
    skipped: list[str] = []
    gate_blockers: list[str] = []
    on_base: dict[str, Evidence] = {}
    """How gates that failed on a candidate ended on the base commit."""
    evidence: list[Evidence] = []
    used: BudgetUsed = BudgetUsed()
    wall_recorded_at: int = 0
    """When ``used.wall_ms`` was last brought up to date; ms since the epoch."""
    changed_files: list[str] = []
    violations: list[str] = []
    started_at: int = 0
    judged: int = 0
    """How many of this iteration's competing candidates checkers refused."""

    @property
    def round(self) -> str:
        """What proofs call the candidate at work."""
        return f"iteration {self.iteration}" + (f", candidate {self.judged + 1}" if self.judged else "")

    def prove(self, evidence: Evidence) -> None:
        """Add evidence; that of a call which is looked at once more after a crash replaces the earlier."""
        self.evidence = [item for item in self.evidence if item.call != evidence.call or item.call is None]
        self.evidence.append(evidence)


class _File(BaseModel):
    model_config = ConfigDict(extra="ignore")
    meshtui: Progress | None = None


def _written(path: Path) -> int:
    return path.stat().st_mtime_ns


class Checkpoints:
    """Writes and reads a loop's checkpoints."""

    def __init__(self, context: MissionContext, node: Node) -> None:
        self._context = context
        self._node = node
        self.paths: LoopPaths = context.paths.loop(node.loop_id)
        self._progress: Progress | None = None
        """What was loaded or saved last: the journal tells how far the loop is."""

    def load(self) -> Progress:
        """The newest checkpoint's progress, or a fresh one. Raises :class:`InvalidInput` if it is damaged."""
        found = read_model(self.paths.checkpoint, _File)
        self._progress = (found.meshtui if found is not None else None) or Progress()
        return self._progress

    def repair(self) -> None:
        """Put a damaged newest checkpoint aside and go back to the last phase boundary that can be read.

        Which calls were running is not known then: all that the mission's handles name for this loop are
        ended first, so that nothing runs beside them.
        """
        try:
            self.load()
        except InvalidInput as error:
            problem = str(error)
        else:
            return
        self._context.verify_lease()
        self._end_known_calls()
        aside = storage.set_aside(self.paths.checkpoint, self._context.clock.now_ms())
        for path in sorted(self.paths.checkpoints.glob("*.json"), key=_written, reverse=True):
            try:
                found = read_model(path, _File)
            except InvalidInput:
                continue
            if found is not None and found.meshtui is not None:
                self.save(found.meshtui)
                break
        self._context.note(
            "checkpoint_damaged", self._node.loop_id, message=f"{problem}; kept as {aside.name}"
        )

    def _end_known_calls(self) -> None:
        started: dict[str, bool] = {}
        for line in read_lines(self._context.paths.handles):
            if line.get("loop_id") == self._node.loop_id and isinstance(line.get("call"), str):
                started[line["call"]] = line.get("event") == "started"
        for call_id in [name for name, open_ in started.items() if open_]:
            call = Call.attach(self._context.run_dir, call_id, clock=self._context.clock)
            if call.state() in ("starting", "running"):
                call.end("stopped", "runner")
            call.close()

    def save(self, progress: Progress, *, boundary: bool = False, at_once: bool = True) -> None:
        """Write the checkpoint durably; at a phase boundary also under its own name.

        Not ``at_once`` where something that is follows in the same folder: the next call that is named, the
        proof. A power cut before it leads back to the checkpoint before.
        """
        self._context.verify_lease()
        self._progress = progress
        value = {
            "schema": CHECKPOINT,
            "mission_id": self._context.plan.mission_id,
            "loop_id": self._node.loop_id,
            "iteration": progress.iteration,
            "phase": progress.phase,
            "state_path": str(self.paths.state),
            "proof_path": str(self.paths.proof),
            "resumable": True,
            "created_at": iso(self._context.clock.now_ms()),
            "calls": progress.calls,
            "meshtui": progress.model_dump(mode="json"),
        }
        if boundary:
            name = f"{progress.iteration:04d}-{progress.phase}.json"
            write_json(self.paths.checkpoints / name, value, durable=False)
        write_json(self.paths.checkpoint, value, at_once=at_once)

    def log(self, event: str, status: str, message: str | None = None) -> None:
        """Add a line to the loop's log and the journal."""
        line = {"ts": iso(self._context.clock.now_ms()), "event_type": event, "status": status}
        if message is not None:
            line["message"] = message
        append_line(self.paths.log, line)
        facts = progress_of(event, self._progress)
        self._context.note(event, self._node.loop_id, status=status, message=message, **facts)
