"""What an agent is doing, for the journal: of a stream of events now and then the newest."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from meshtui.core.engines.base import EngineEvent, plain

EVERY_SECONDS = 1.0
CHARACTERS = 300
_KINDS = ("tool", "notice")
"""Text is the reply, and stands in the log."""


class Activity:
    """Passes the newest event on, at most one a second."""

    def __init__(self, say: Callable[[str, str], None]) -> None:
        self._say = say
        self._pending: EngineEvent | None = None
        self._next = 0.0

    def saw(self, events: Sequence[EngineEvent]) -> None:
        """Take what a reader said."""
        for event in reversed(events):
            if event.kind in _KINDS:
                self._pending = event
                break
        if self._pending is not None and time.monotonic() >= self._next:
            self.flush()

    def flush(self) -> None:
        """Pass on what waits."""
        event, self._pending = self._pending, None
        if event is not None:
            self._next = time.monotonic() + EVERY_SECONDS
            self._say(event.kind, plain(event.text)[:CHARACTERS])
