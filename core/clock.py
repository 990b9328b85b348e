"""Time, passed in: wall clock for what is written down, monotonic for what is waited for."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol

MAX_TIME_MS = 253_402_300_799_999
"""The last moment that can be written: the end of the year 9999."""


class Clock(Protocol):
    """Where the engine takes its time from."""

    def now_ms(self) -> int:
        """Wall-clock time in milliseconds since 1970-01-01T00:00Z."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; only differences mean anything."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that stands still until it is moved: for tests and for pictures that must not change."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._monotonic = 0.0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Move both clocks forward by ``seconds``."""
        self._now_ms += round(seconds * 1000)
        self._monotonic += seconds


def iso(ms: int) -> str:
    """``ms`` since the epoch as the formats write it: ``2026-11-30T19:26:58.417Z``."""
    seconds, rest = divmod(ms, 1000)
    return f"{_to_the_second(seconds)}.{rest:03d}Z"


@lru_cache(maxsize=64)
def _to_the_second(seconds: int) -> str:
    # Most times that are written are of the second that was written last.
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:-6]


def from_iso(text: object) -> int | None:
    """Milliseconds since the epoch of a time as the formats write it, ``None`` if it is not one."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
