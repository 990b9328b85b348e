"""Waiting for conditions, never for time to pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T | None], limit: float = 20.0, what: str = "the condition") -> T:
    """The first true value of ``condition``; fails after ``limit`` seconds."""
    end = time.monotonic() + limit
    while not (value := condition()):
        assert time.monotonic() < end, f"{what} never came true"
        time.sleep(0.005)
    return value
