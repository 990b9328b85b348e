"""The wrappers that this process started: a process that ended stays in the system's table until it is reaped."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

_PAUSE = 0.001


class Children:
    """The wrappers that this process started and has yet to reap."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pids: dict[Path, int] = {}

    def add(self, folder: Path, pid: int) -> None:
        """Remember that ``pid`` is the wrapper of the call in ``folder``."""
        self.reap()
        with self._lock:
            self._pids[folder] = pid

    def has(self, folder: Path) -> bool:
        """Whether that call's wrapper is one of this process and not reaped yet."""
        with self._lock:
            return folder in self._pids

    def reap(self) -> None:
        """Reap those that have ended."""
        with self._lock:
            for folder, pid in list(self._pids.items()):
                try:
                    gone = os.waitpid(pid, os.WNOHANG)[0] != 0
                except ChildProcessError:
                    gone = True
                if gone:
                    del self._pids[folder]

    def await_end(self, folder: Path, seconds: float) -> None:
        """Reap that call's wrapper, which is just ending; gives up after ``seconds``."""
        end = time.monotonic() + seconds
        while True:
            self.reap()
            if not self.has(folder) or time.monotonic() >= end:
                return
            time.sleep(_PAUSE)


children = Children()
