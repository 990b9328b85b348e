"""The journal ``RUN/events.jsonl``: what happened, one line an event, appended with one write.

It is written after the fact and never synced: the files decide, and a runner makes the journal agree
with them when it starts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from meshtui.core import storage, strict_json
from meshtui.core.clock import Clock, from_iso, iso
from meshtui.core.errors import InvalidInput
from meshtui.core.run_dir import RunDir
from meshtui.core.view import Event

_TAIL = 1 << 16
MAX_LINE = 1 << 18


class Journal:
    """Appends to one run directory's journal; safe for any number of processes and threads."""

    def __init__(self, run_dir: RunDir, clock: Clock) -> None:
        self._path = run_dir.events
        self._flock = run_dir.events_flock
        self._threads = threading.Lock()
        self._clock = clock
        self._known: tuple[int, int] | None = None
        self._postponed: list[dict[str, Any]] = []

    def postpone(self, event: str, subject: str, data: Mapping[str, Any]) -> None:
        """Note an event, to be written with the next one or by :meth:`flush`; it keeps its time."""
        with self._threads:
            self._postponed.append(_line(event, subject, data, iso(self._clock.now_ms())))

    def flush(self) -> None:
        """Write what was postponed, if anything was."""
        if self._postponed:
            self.append_many([])

    def append(self, event: str, subject: str, data: Mapping[str, Any] | None = None) -> int:
        """Write one event and return its ``seq``; raises ``StorageError``."""
        return self.append_many([(event, subject, data or {})])

    def append_many(self, events: list[tuple[str, str, Mapping[str, Any]]]) -> int:
        """Write several events with one write and return the last ``seq``."""
        with self._threads, storage.OsLock(self._flock, what="the journal"):
            size, seq, torn = self._last()
            now = iso(self._clock.now_ms())
            lines = [*self._postponed, *(_line(*event, now) for event in events)]
            for line in lines:
                seq += 1
                line["seq"] = seq
            block = (b"\n" if torn else b"") + strict_json.dump_lines(lines)
            storage.append(self._path, block)
            self._postponed = []
            self._known = (size + len(block), seq)
            return seq

    def _last(self) -> tuple[int, int, bool]:
        """Size of the file, the last ``seq`` in it, and whether its last line lacks its end."""
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return 0, 0, False
        if self._known is not None and self._known[0] == size:
            return size, self._known[1], False
        span = _TAIL
        while True:
            block = read_block(self._path, max(0, size - span), span)
            for event in reversed(parse_lines(block)):
                return size, event.seq, not block.endswith(b"\n")
            if span >= size:
                return size, 0, size > 0 and not block.endswith(b"\n")
            span *= 8


def _line(event: str, subject: str, data: Mapping[str, Any], at: str) -> dict[str, Any]:
    return {"seq": 0, "at": at, "event": event, "subject": subject, "data": data, "pid": os.getpid()}


def read_block(path: Path, offset: int, length: int) -> bytes:
    """At most ``length`` bytes of ``path`` from ``offset``; nothing if there is no such file."""
    try:
        fd = storage.open_plain(path)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(fd, length, offset)
    finally:
        os.close(fd)


def parse_lines(block: bytes) -> list[Event]:
    """The events in ``block``; what is cut or damaged is passed over."""
    events = []
    for line in block.split(b"\n"):
        event = parse_line(line)
        if event is not None:
            events.append(event)
    return events


def parse_line(line: bytes) -> Event | None:
    """The event in one line, ``None`` if it holds none."""
    if not line.startswith(b"{") or len(line) > MAX_LINE:
        return None
    try:
        value = strict_json.load_object(line, limit=MAX_LINE)
    except InvalidInput:
        return None
    seq, at, name = value.get("seq"), from_iso(value.get("at")), value.get("event")
    if not isinstance(seq, int) or at is None or not isinstance(name, str):
        return None
    data, pid = value.get("data"), value.get("pid")
    return Event(
        seq=seq,
        at=at,
        event=name,
        subject=str(value.get("subject") or ""),
        data=data if isinstance(data, dict) else {},
        pid=pid if isinstance(pid, int) else None,
    )


def read_tail(path: Path, count: int) -> list[Event]:
    """The newest ``count`` events of the journal at ``path``, oldest first."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return []
    span = max(_TAIL, count * 200)
    while True:
        start = max(0, size - span)
        block = read_block(path, start, span)
        if start > 0:
            block = block[block.find(b"\n") + 1 :]
        events: list[Event] = []
        for line in reversed(block.split(b"\n")):
            event = parse_line(line)
            if event is not None:
                events.append(event)
                if len(events) == count:
                    break
        if len(events) == count or start == 0:
            return events[::-1]
        span *= 4


class JournalFollower:
    """Keeps the newest events of a journal that grows, reading only what is new."""

    def __init__(self, path: Path, count: int) -> None:
        self._path = path
        self._count = count
        self._offset = 0
        self._inode: int | None = None
        self.events: tuple[Event, ...] = ()

    def refresh(self) -> bool:
        """Read what came since; whether there is something new."""
        try:
            state = self._path.stat()
        except FileNotFoundError:
            changed = bool(self.events)
            self.events, self._offset, self._inode = (), 0, None
            return changed
        if state.st_ino != self._inode or state.st_size < self._offset:
            self._inode = state.st_ino
            self.events = tuple(read_tail(self._path, self._count))
            self._offset = self._end_of_last_line(state.st_size)
            return True
        if state.st_size == self._offset:
            return False
        block = read_block(self._path, self._offset, state.st_size - self._offset)
        whole = block[: block.rfind(b"\n") + 1]
        if not whole:
            return False
        self._offset += len(whole)
        self.events = (*self.events, *parse_lines(whole))[-self._count :]
        return True

    def _end_of_last_line(self, size: int) -> int:
        tail = read_block(self._path, max(0, size - MAX_LINE), MAX_LINE)
        return size - (len(tail) - (tail.rfind(b"\n") + 1))
