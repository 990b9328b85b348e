"""Whether a folder changed, asked so cheaply that it can be asked many times a second."""

from __future__ import annotations

import os
import time
from pathlib import Path

SETTLED_NS = 50_000_000
"""A time stamp this young may still stand for a later change too: clocks of filesystems tick coarsely."""


class FolderPoll:
    """Notices that entries of one folder came, went or were replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: int | None = None

    def _now(self) -> int:
        try:
            return os.stat(self._path).st_mtime_ns
        except FileNotFoundError:
            return 0

    def changed(self) -> bool:
        """Whether the folder may have changed since the last call; always true for the first."""
        now = self._now()
        differs = now != self._seen
        self._seen = None if time.time_ns() - now < SETTLED_NS else now
        return differs

    def forget(self) -> None:
        """Make the next :meth:`changed` true."""
        self._seen = None
