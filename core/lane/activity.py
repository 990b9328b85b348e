"""What an agent is doing, for the journal: of a stream of events now and then the newest."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from meshtui.core.engines.base import EngineEvent, Usage, plain

EVERY_SECONDS = 1.0
CHARACTERS = 300
_KINDS = ("tool", "notice")
_KINDS_OF_AGENTS = (*_KINDS, "text")
"""What any other command prints is its reply, and stands in the log."""

Say = Callable[[str, str, Usage | None], None]
"""Takes an event's kind, its text, and what the call has used so far."""


class Activity:
    """Passes the newest event on, at most one a second, with what was used by then."""

    def __init__(self, say: Say, *, agent: bool = False) -> None:
        self._say = say
        self._kinds = _KINDS_OF_AGENTS if agent else _KINDS
        self._pending: EngineEvent | None = None
        self._newest: EngineEvent | None = None
        self._usage: Usage | None = None
        self._said_usage: Usage | None = None
        self._next = 0.0

    def saw(self, events: Sequence[EngineEvent], usage: Usage | None = None) -> None:
        """Take what a reader said, and what it can tell about the usage."""
        for event in reversed(events):
            if event.kind in self._kinds:
                self._pending = self._newest = event
                break
        self._usage = usage
        if usage != self._said_usage and self._pending is None:
            self._pending = self._newest
        if self._pending is not None and time.monotonic() >= self._next:
            self.flush()

    def flush(self) -> None:
        """Pass on what waits."""
        event, self._pending = self._pending, None
        if event is not None:
            self._next = time.monotonic() + EVERY_SECONDS
            self._said_usage = self._usage
            self._say(event.kind, plain(event.text)[:CHARACTERS], self._usage)
