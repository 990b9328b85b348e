"""Where everything in a run directory stands; no contents, no decisions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from meshtui.core.models.names import safe_id

RECORD_FOLDERS = ("pending", "active", "claimed", "stalled", "withdrawn")


@dataclass(frozen=True)
class LanePaths:
    """The paths below ``RUN/loop/``."""

    root: Path

    @cached_property
    def pending(self) -> Path:
        return self.root / "pending"

    @cached_property
    def active(self) -> Path:
        return self.root / "active"

    @cached_property
    def claimed(self) -> Path:
        return self.root / "claimed"

    @cached_property
    def stalled(self) -> Path:
        return self.root / "stalled"

    @cached_property
    def withdrawn(self) -> Path:
        return self.root / "withdrawn"

    @cached_property
    def quarantine(self) -> Path:
        return self.root / "quarantine"

    @cached_property
    def results(self) -> Path:
        return self.root / "results"

    @cached_property
    def history(self) -> Path:
        return self.results / ".history"

    @cached_property
    def questions(self) -> Path:
        return self.root / "questions"

    @cached_property
    def control(self) -> Path:
        return self.root / "control"

    @cached_property
    def ids(self) -> Path:
        return self.root / "ids"

    @cached_property
    def batches(self) -> Path:
        """Batches on their way into ``pending/``: ``.<uuid>.tmp`` being written, ``<uuid>`` decided."""
        return self.root / "batches"

    @cached_property
    def status(self) -> Path:
        return self.root / "loop.json"

    @cached_property
    def sessions(self) -> Path:
        return self.root / "sessions.json"

    @cached_property
    def session_dirs(self) -> Path:
        return self.root / "session-dirs.json"

    @cached_property
    def stalls(self) -> Path:
        return self.root / "stalls.jsonl"

    @cached_property
    def sequence(self) -> Path:
        return self.root / "enqueue-sequence.json"

    @cached_property
    def paused(self) -> Path:
        return self.root / "paused.json"

    @cached_property
    def enqueue_lock(self) -> Path:
        """The format's directory lock for enqueuers."""
        return self.root / "enqueue.lock"

    @cached_property
    def enqueue_kept(self) -> Path:
        """Where that lock's folder waits while no process of meshtui has it."""
        return self.root / ".enqueue.lock.kept"

    @cached_property
    def runner_lock(self) -> Path:
        """The format's directory lock for the runner; holds ``owner.json``."""
        return self.root / "runner.lock"

    @cached_property
    def queue_flock(self) -> Path:
        """Between meshtui's processes: held around every change of the queue."""
        return self.root / ".queue.flock"

    @cached_property
    def runner_flock(self) -> Path:
        """Between meshtui's processes: held for the runner's life."""
        return self.root / ".runner.flock"

    def folder(self, name: str) -> Path:
        """A record folder by name, e.g. ``pending``."""
        return self._folders.get(name) or self.root / name

    @cached_property
    def _folders(self) -> dict[str, Path]:
        return {name: self.root / name for name in RECORD_FOLDERS}

    def result(self, envelope_id: str) -> Path:
        """The result file of ``envelope_id``."""
        return self.results / f"{safe_id(envelope_id)}.json"

    def question(self, envelope_id: str) -> Path:
        """The question file of ``envelope_id``."""
        return self.questions / f"{safe_id(envelope_id)}.json"


@dataclass(frozen=True)
class RunDir:
    """The paths of one run directory."""

    root: Path

    @cached_property
    def lane(self) -> LanePaths:
        return LanePaths(self.root / "loop")

    @cached_property
    def about(self) -> Path:
        """``meshtui.json``: who made the directory, for which repository."""
        return self.root / "meshtui.json"

    @cached_property
    def config(self) -> Path:
        """The operator's own configuration for this directory."""
        return self.root / "meshtui.toml"

    @cached_property
    def events(self) -> Path:
        """The journal."""
        return self.root / "events.jsonl"

    @cached_property
    def events_flock(self) -> Path:
        return self.root / ".events.flock"

    @cached_property
    def calls(self) -> Path:
        return self.root / "calls"

    @cached_property
    def missions(self) -> Path:
        return self.root / "missions"

    @cached_property
    def mission_places(self) -> tuple[Path, ...]:
        """Where missions may stand: a run directory's, a repository's, one mission's own folder."""
        return (self.missions, self.root / ".sneakoscope" / "missions", self.root / "loops")
