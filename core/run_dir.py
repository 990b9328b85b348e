"""Where everything in a run directory stands; no contents, no decisions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from meshtui.core.models.names import safe_id

RECORD_FOLDERS = ("pending", "active", "claimed", "stalled", "withdrawn")


@dataclass(frozen=True, slots=True)
class LanePaths:
    """The paths below ``RUN/loop/``."""

    root: Path

    @property
    def pending(self) -> Path:
        return self.root / "pending"

    @property
    def active(self) -> Path:
        return self.root / "active"

    @property
    def claimed(self) -> Path:
        return self.root / "claimed"

    @property
    def stalled(self) -> Path:
        return self.root / "stalled"

    @property
    def withdrawn(self) -> Path:
        return self.root / "withdrawn"

    @property
    def quarantine(self) -> Path:
        return self.root / "quarantine"

    @property
    def results(self) -> Path:
        return self.root / "results"

    @property
    def history(self) -> Path:
        return self.results / ".history"

    @property
    def questions(self) -> Path:
        return self.root / "questions"

    @property
    def control(self) -> Path:
        return self.root / "control"

    @property
    def ids(self) -> Path:
        return self.root / "ids"

    @property
    def batches(self) -> Path:
        """Batches on their way into ``pending/``: ``.<uuid>.tmp`` being written, ``<uuid>`` decided."""
        return self.root / "batches"

    @property
    def status(self) -> Path:
        return self.root / "loop.json"

    @property
    def sessions(self) -> Path:
        return self.root / "sessions.json"

    @property
    def session_dirs(self) -> Path:
        return self.root / "session-dirs.json"

    @property
    def stalls(self) -> Path:
        return self.root / "stalls.jsonl"

    @property
    def sequence(self) -> Path:
        return self.root / "enqueue-sequence.json"

    @property
    def paused(self) -> Path:
        return self.root / "paused.json"

    @property
    def enqueue_lock(self) -> Path:
        """The format's directory lock for enqueuers."""
        return self.root / "enqueue.lock"

    @property
    def runner_lock(self) -> Path:
        """The format's directory lock for the runner; holds ``owner.json``."""
        return self.root / "runner.lock"

    @property
    def queue_flock(self) -> Path:
        """Between meshtui's processes: held around every change of the queue."""
        return self.root / ".queue.flock"

    @property
    def runner_flock(self) -> Path:
        """Between meshtui's processes: held for the runner's life."""
        return self.root / ".runner.flock"

    def folder(self, name: str) -> Path:
        """A record folder by name, e.g. ``pending``."""
        return self.root / name

    def result(self, envelope_id: str) -> Path:
        """The result file of ``envelope_id``."""
        return self.results / f"{safe_id(envelope_id)}.json"

    def question(self, envelope_id: str) -> Path:
        """The question file of ``envelope_id``."""
        return self.questions / f"{safe_id(envelope_id)}.json"


@dataclass(frozen=True, slots=True)
class RunDir:
    """The paths of one run directory."""

    root: Path

    @property
    def lane(self) -> LanePaths:
        return LanePaths(self.root / "loop")

    @property
    def about(self) -> Path:
        """``meshtui.json``: who made the directory, for which repository."""
        return self.root / "meshtui.json"

    @property
    def config(self) -> Path:
        """The operator's own configuration for this directory."""
        return self.root / "meshtui.toml"

    @property
    def events(self) -> Path:
        """The journal."""
        return self.root / "events.jsonl"

    @property
    def events_flock(self) -> Path:
        return self.root / ".events.flock"

    @property
    def calls(self) -> Path:
        return self.root / "calls"

    @property
    def missions(self) -> Path:
        return self.root / "missions"
