"""What a fleet wants of a journal, read from its end, bit by bit: depths, the cost of today, survivors."""

from __future__ import annotations

import os
import re
from pathlib import Path

from meshtui.core.clock import from_iso
from meshtui.core.errors import StorageError
from meshtui.core.journal import parse_line, read_block
from meshtui.core.view import Event

DAY_MS = 86_400_000
SLICE = 256 << 10
"""How much of an old journal is looked at with one look."""
POINT_MS = 10_000
"""A sparkline needs no more than the highest depth of each such span."""
POINTS = 120
_COST = b'"cost_usd"'
_AT = re.compile(rb'"at":\s*"([^"]+)"')
MOST_SURVIVORS = 50


class JournalSums:
    """What a fleet wants of a journal: depths for a sparkline, the cost of today, survivors of a kill."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode: int | None = None
        self._offset = 0
        self._back = 0
        """Where the part begins that was looked at; before it the cost of today may still stand."""
        self._day = 0
        self._cost: float | None = None
        self._survivors: dict[str, Event] = {}
        self._points: list[tuple[int, int]] = []
        self.depths: tuple[tuple[int, int], ...] = ()

    @property
    def cost(self) -> float | None:
        """What engines said since midnight UTC, as far as it was read."""
        return self._cost

    @property
    def complete(self) -> bool:
        """Whether all of today was read."""
        return self._back == 0

    @property
    def survivors(self) -> tuple[Event, ...]:
        """The newest events that name processes which would not end, one a subject."""
        return tuple(self._survivors.values())

    def refresh(self, now: int) -> None:
        """Read what came since, and another piece of what was there before."""
        day = now - now % DAY_MS
        if day != self._day:
            self._day, self._cost = day, None
            if self._inode is not None:
                # What is new today comes; what was read was of another day.
                self._back = 0
        try:
            state = os.stat(self._path)
        except OSError:
            self._inode, self._offset, self._back, self._cost = None, 0, 0, None
            self._survivors.clear()
            return
        if state.st_ino != self._inode or state.st_size < self._offset:
            self._inode, self._cost = state.st_ino, None
            self._survivors.clear()
            self._points.clear()
            # From a line's start on: the last piece at once, what is older bit by bit.
            self._offset = self._back = self._line_at(max(0, state.st_size - SLICE))
        while self._offset < state.st_size:
            block = self._read(self._offset, SLICE)
            whole = block[: block.rfind(b"\n") + 1]
            if not whole:
                if len(block) == SLICE:
                    self._offset += len(block)
                    continue
                break
            self._offset += len(whole)
            for line in whole.splitlines():
                self._take(line)
        self._look_back()

    def _read(self, offset: int, length: int) -> bytes:
        try:
            return read_block(self._path, offset, length)
        except (OSError, StorageError):
            return b""

    def _line_at(self, offset: int) -> int:
        """The start of the first line from ``offset`` on."""
        if offset == 0:
            return 0
        block = self._read(offset, SLICE)
        return offset + block.find(b"\n") + 1

    def _take(self, line: bytes) -> None:
        costs, depth, survivors = _COST in line, b'"depth"' in line, b"call_survivors" in line
        if not (costs or depth or survivors):
            return
        event = parse_line(line)
        if event is None:
            return
        if survivors and event.event == "call_survivors":
            self._survivors.pop(event.subject, None)
            self._survivors[event.subject] = event
            while len(self._survivors) > MOST_SURVIVORS:
                del self._survivors[next(iter(self._survivors))]
        if costs:
            self._count(event)
        value = event.data.get("depth")
        if isinstance(value, int) and not isinstance(value, bool):
            self._add_point(event.at, value)

    def _count(self, event: Event) -> None:
        usage = event.data.get("usage")
        cost = usage.get("cost_usd") if isinstance(usage, dict) else None
        if isinstance(cost, (int, float)) and not isinstance(cost, bool) and event.at >= self._day:
            self._cost = (self._cost or 0.0) + cost

    def _look_back(self) -> None:
        """One more piece of what was written before: only costs, and only of today."""
        if self._back == 0:
            return
        start = max(0, self._back - SLICE)
        block = self._read(start, self._back - start)
        if start > 0:
            cut = block.find(b"\n") + 1
            if cut in (0, len(block)):
                # One line fills the piece: it holds no event that anybody wrote.
                self._back = start
                return
            start, block = start + cut, block[cut:]
        first = _AT.search(block)
        for line in block.splitlines():
            if _COST in line and (event := parse_line(line)) is not None:
                self._count(event)
        at = from_iso(first[1].decode("ascii", "replace")) if first is not None else None
        self._back = 0 if at is not None and at < self._day else start

    def point(self, now: int, pending: int) -> None:
        """Note the depth as it is seen now, for lanes whose journal does not tell."""
        if not self._points or self._points[-1][1] != pending:
            self._add_point(now, pending)

    def _add_point(self, at: int, depth: int) -> None:
        points = self._points
        if points and at // POINT_MS <= points[-1][0] // POINT_MS:
            if depth == points[-1][1]:
                return
            points[-1] = (points[-1][0], depth)
        else:
            points.append((at, depth))
            del points[:-POINTS]
        self.depths = tuple(points)
