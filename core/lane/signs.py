"""The signs of life of a running phase, as they are now: when each was seen last, and what it would take to stall it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from meshtui.core.calls import Call
from meshtui.core.clock import Clock, SystemClock
from meshtui.core.errors import MeshtuiError
from meshtui.core.lane.vitals import BUSY_SHARE, newest_change
from meshtui.core.run_dir import RunDir
from meshtui.core.view import Row

CHANGE_SECONDS = 3.0
"""How often the worktree is looked at: git is asked, which costs more than the rest."""


@dataclass(frozen=True, slots=True)
class Signs:
    """What was seen of one attempt; times are ms since the epoch."""

    envelope_id: str
    call_id: str | None = None
    output_at: int | None = None
    """When it last wrote something, ``None`` if it never did."""
    output_bytes: int = 0
    cpu_seconds: float | None = None
    """What its processes have used of processors."""
    cpu_at: int | None = None
    """When they last used more than a little; ``None`` while that was not seen."""
    watched_since: int | None = None
    """Since when processors are watched."""
    change_at: int | None = None
    """When something in its worktree last changed."""
    directory: str | None = None


class SignsReader:
    """Looks again and again; what ran on a processor is only seen between two looks."""

    def __init__(self, run_dir: RunDir, clock: Clock | None = None) -> None:
        self._run_dir = run_dir
        self._clock = clock or SystemClock()
        self._call: Call | None = None
        self._signs: Signs | None = None
        self._looked: tuple[float, float] | None = None
        self._change_next = 0.0

    def read(self, row: Row) -> Signs:
        """The signs of the active phase ``row``."""
        if self._signs is None or self._signs.call_id != row.call_id:
            self.close()
            self._call = self._attach(row.call_id)
            self._signs, self._looked, self._change_next = None, None, 0.0
        call, known = self._call, self._signs
        if call is None:
            self._signs = Signs(row.envelope_id, row.call_id)
            return self._signs
        now, moment = self._clock.now_ms(), self._clock.monotonic()
        size, written = _output(call)
        cpu = call.cpu_seconds()
        cpu_at = known.cpu_at if known is not None else None
        if self._looked is not None and cpu - self._looked[1] > BUSY_SHARE * max(
            0.05, moment - self._looked[0]
        ):
            cpu_at = now
        self._looked = (moment, cpu)
        about = call.about() or {}
        directory = about.get("cwd")
        change = known.change_at if known is not None else None
        if isinstance(directory, str) and moment >= self._change_next:
            self._change_next = moment + CHANGE_SECONDS
            change = round(newest_change(Path(directory)) * 1000) or None
        self._signs = Signs(
            envelope_id=row.envelope_id,
            call_id=row.call_id,
            output_at=written,
            output_bytes=size,
            cpu_seconds=cpu,
            cpu_at=cpu_at,
            watched_since=known.watched_since if known is not None else now,
            change_at=change,
            directory=directory if isinstance(directory, str) else None,
        )
        return self._signs

    def _attach(self, call_id: str | None) -> Call | None:
        if call_id is None:
            return None
        try:
            return Call.attach(self._run_dir, call_id)
        except MeshtuiError:
            return None

    def close(self) -> None:
        """Let go of what was looked at."""
        if self._call is not None:
            self._call.close()
            self._call = None


def _output(call: Call) -> tuple[int, int | None]:
    """How much it wrote, and when last."""
    size, written = 0, None
    for path in (call.stdout, call.stderr):
        try:
            state = path.stat()
        except OSError:
            continue
        size += state.st_size
        if state.st_size:
            written = max(written or 0, round(state.st_mtime * 1000))
    return size, written
