"""Signs of life of a running phase: its output, the processor time of its processes, its worktree."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from meshtui.core.calls import Call
from meshtui.core.clock import Clock, iso
from meshtui.core.errors import MeshtuiError
from meshtui.core.vcs.git import Git, top_of

BUSY_SHARE = 0.05
"""Of one processor: below it, a program only waits (a timer, a spinner)."""
MOST_PATHS = 5000
_SLOWEST, _FASTEST = 10.0, 0.1


class Vitals:
    """Watches one attempt; takes nothing unless it is asked."""

    def __init__(self, call: Call, directory: Path, clock: Clock) -> None:
        self._call = call
        self._directory = directory
        self._clock = clock
        self._next = 0.0
        self._looked_at: float | None = None
        self._alive_at = time.monotonic()
        self._seen: tuple[int, float, float] | None = None

    def silent_seconds(self, written: int, idle_seconds: float) -> float:
        """How long nothing moved: no output, next to no processor time, no change in the worktree.

        Looks anew about ten times in ``idle_seconds``; ``written`` is the size of the output so far.
        """
        now = time.monotonic()
        if now >= self._next:
            self._next = now + min(_SLOWEST, max(_FASTEST, idle_seconds / 10))
            self._look(written, now)
        return now - self._alive_at

    def _look(self, written: int, now: float) -> None:
        seen = (written, self._call.cpu_seconds(), newest_change(self._directory))
        before, since = self._seen, self._looked_at
        self._seen, self._looked_at = seen, now
        if before is None or since is None:
            self._alive_at = now
            return
        busy = seen[1] - before[1] > BUSY_SHARE * (now - since)
        if busy or seen[0] != before[0] or seen[2] != before[2]:
            self._alive_at = now

    def evidence(self) -> dict[str, Any]:
        """How it looks now, for the question of a stalled phase."""
        found: dict[str, Any] = {"cpu_seconds": round(self._call.cpu_seconds(), 2)}
        changed = newest_change(self._directory)
        if changed:
            found["last_change_at"] = iso(round(changed * 1000))
        output = max((_time(path) for path in (self._call.stdout, self._call.stderr)), default=0.0)
        if output:
            age = self._clock.now_ms() / 1000 - output
            found["output_age_seconds"] = round(max(0.0, age), 1)
        return found


def newest_change(directory: Path) -> float:
    """When something that git does not ignore last changed in ``directory``; 0 where nothing tells.

    Seconds since the epoch. Only what differs from the last commit is looked at, and the commit itself.
    """
    try:
        top = top_of(directory)
        git = Git(top)
        paths = [top / name for name in git.dirty()[:MOST_PATHS]]
        paths += [git.dirs.own / "HEAD", git.dirs.own / "logs" / "HEAD"]
    except (MeshtuiError, OSError):
        return _time(directory)
    return max((_time(path) for path in paths), default=0.0)


def _time(path: Path) -> float:
    try:
        state = os.lstat(path)
    except OSError:
        return 0.0
    return state.st_mtime if state.st_size or path.is_dir() else 0.0
