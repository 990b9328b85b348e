"""Keys that come faster than they are worked are worked one after the other.

Textual hands a key to what has the focus when the key arrives, and works it later. Of keys that arrive at once, over
a slow line or typed ahead, those meant for a field that the first of them opens would go to the list behind it, where
each letter does something else.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from textual import events

if TYPE_CHECKING:
    from textual.app import App

    _Base = App[int]
else:
    _Base = object

PATIENCE = 0.1
"""Seconds after which a key counts as worked, whatever became of it."""


class KeysInTurn(_Base):
    """Mixed into the app."""

    _held: deque[events.Key]
    _at_work: events.Key | None = None

    async def on_event(self, event: events.Event) -> None:
        if not isinstance(event, events.Key):
            await super().on_event(event)
        elif event.is_forwarded:
            # It came back: nothing on its way wanted it, and now its binding is looked for.
            await super().on_event(event)
            self._worked(event)
        elif self._at_work is not None:
            self._waiting.append(event)
        else:
            await self._hand_over(event)

    @property
    def _waiting(self) -> deque[events.Key]:
        if not hasattr(self, "_held"):
            self._held = deque()
        return self._held

    async def _hand_over(self, event: events.Key) -> None:
        self._at_work = event
        target = self.focused or self.screen
        await super().on_event(event)
        if not event.is_forwarded:
            # A key that goes before everything else was worked at once.
            self._worked(event)
            return
        self.set_timer(PATIENCE, lambda: self._worked(event))

        def looked() -> None:
            if event._stop_propagation:
                self._worked(event, at_once=self.focused is target)

        target.call_later(looked)

    def _worked(self, event: events.Key, *, at_once: bool = False) -> None:
        """``event`` is done; the next may go, ``at_once`` if nothing on the screen can have changed by it."""
        if self._at_work is not event:
            return
        if not self._waiting:
            self._at_work = None
        elif at_once:
            self.call_next(self._next)
        else:
            # What was opened gets its focus first.
            self.screen.call_after_refresh(self.call_next, self._next)

    async def _next(self) -> None:
        self._at_work = None
        if self._exit:
            # Nobody is there any more to work them.
            self._waiting.clear()
        elif self._waiting:
            await self._hand_over(self._waiting.popleft())
