"""Whether a number key means the item that stands there: lists change by themselves, fingers do not know."""

from __future__ import annotations

DOUBT_MS = 1500
"""How long after the list changed under the selection a number key asks first."""


class Steady:
    """Remembers when another item came under the selection without the operator's doing."""

    def __init__(self) -> None:
        self._key: object = None
        self._begun = False
        self._moved_at: int | None = None
        self._emptied_at: int | None = None

    def see(self, key: object, now: int, *, by_hand: bool) -> None:
        """The selection is ``key`` at ``now`` (ms), ``None`` for nothing; ``by_hand`` if the operator moved it.

        What is there when the console opens was not moved, nor what comes where there was nothing for a
        while: nobody pressed a key for anything else.
        """
        if key == self._key and self._begun:
            if by_hand:
                self._moved_at = None
            return
        empty = self._key is None and (self._emptied_at is None or now - self._emptied_at >= DOUBT_MS)
        self._moved_at = None if by_hand or not self._begun or empty else now
        self._emptied_at = now if key is None and self._begun else None
        self._key, self._begun = key, True

    def in_doubt(self, now: int) -> bool:
        """Whether the item came under the selection so lately that a key may have been meant for another."""
        return self._moved_at is not None and 0 <= now - self._moved_at < DOUBT_MS

    def settle(self) -> None:
        """The operator looked at it."""
        self._moved_at = None
