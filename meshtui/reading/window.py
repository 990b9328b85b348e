"""A file of text read by windows: any size, growing, cut off or replaced, with bounded memory.

The file is looked at in blocks of fixed size; of each only the number of lines it ends is kept, so that a
gigabyte costs half a megabyte, and a page is read from the one or two blocks it stands in. A line longer than
a block is cut where blocks end, unless a carriage return later overwrites what was cut: of a progress bar only
its last state is a line.
"""

from __future__ import annotations

import os
import threading
import zlib
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple

from meshtui.text import clean_output

BLOCK: Final = 16 << 10
CHUNK: Final = 1 << 20
"""Bytes read at once while indexing or searching."""
CACHED: Final = 16
"""Blocks kept for reading."""

Change = Literal["same", "grown", "replaced", "gone"]


def has_return(head: bytes) -> bool:
    """Whether something in ``head`` is overwritten: a carriage return that does not end it."""
    return b"\r" in head.rstrip(b"\r")


def shown(data: bytes) -> str:
    """One line as it is drawn: its last state, nothing a terminal would act on."""
    return clean_output(data.decode("utf-8", "replace").rstrip("\r\n"))[-1]


class TextFile:
    """The lines of one file; may be indexed and searched in one thread while another reads lines.

    ``start`` leaves out what stands before it; it is a multiple of ``block``.
    """

    def __init__(self, path: Path, *, block: int = BLOCK, start: int = 0) -> None:
        self.path = path
        self.block = block
        self.start = start
        self.generation = 0
        """Rises when the file was replaced or cut off, so that nothing read before holds."""
        self.size = 0
        """Bytes, as last looked at."""
        self._lock = threading.RLock()
        self._file: int | None = None
        self._closed = False
        self._identity: tuple[int, int] | None = None
        self._ends = array("Q", [0])
        """For each complete block: how many lines end in the blocks before it, cuts included."""
        self._empty = bytearray()
        """For each complete block whether no line feed is in it."""
        self._cuts = bytearray()
        """For each complete block whether a line is cut at its beginning."""
        self._seals: tuple[int, int] = (0, 0)
        """Checksums of the first and of the last indexed block."""
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._tail_for: tuple[int, int] | None = None
        self._tail: tuple[bytes, bool] = (b"", False)

    # -- the file itself ----------------------------------------------------------------------------

    def refresh(self) -> Change:
        """Look at the file again: whether it grew, was replaced (or cut off), or is gone."""
        with self._lock:
            if self._closed:
                return "same"
            try:
                found = os.stat(self.path)
            except OSError:
                return self._gone()
            identity = (found.st_dev, found.st_ino)
            if identity != self._identity:
                was = self._identity
                if not self._open():
                    return self._gone()
                return "replaced" if was is not None else "grown" if self.size else "same"
            if found.st_size < self.size or (found.st_size > self.size and not self._sealed()):
                self._forget()
                self.size = found.st_size
                return "replaced"
            if found.st_size == self.size:
                return "same"
            self.size = found.st_size
            return "grown"

    def _open(self) -> bool:
        self._let_go()
        self._forget()
        try:
            # Only now: the console's first frame does not wait for what starts programs.
            from meshtui.core.calls import open_output

            file = open_output(self.path)
        except OSError:
            return False
        if file is None:
            return False
        self._file = os.dup(file.fileno())
        file.close()
        state = os.fstat(self._file)
        self._identity, self.size = (state.st_dev, state.st_ino), state.st_size
        return True

    def _gone(self) -> Change:
        was = self._identity
        if was is None:
            return "same"
        self._let_go()
        self._forget()
        self.size = 0
        return "gone"

    def close(self) -> None:
        """Let go of the file for good."""
        with self._lock:
            self._closed = True
            self._let_go()

    def _let_go(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._identity = None

    def _forget(self) -> None:
        self.generation += 1
        self._ends = array("Q", [0])
        self._empty, self._cuts, self._seals = bytearray(), bytearray(), (0, 0)
        self._blocks.clear()
        self._tail_for = None

    def _pread(self, size: int, offset: int) -> bytes:
        if self._file is None or size <= 0:
            return b""
        try:
            return os.pread(self._file, size, self.start + offset)
        except OSError:
            # What cannot be read (a disk error, a folder taken away) is shown as if it were not there.
            return b""

    def _sealed(self) -> bool:
        """Whether what was indexed still stands there."""
        last = len(self._empty) - 1
        if last < 0:
            return True
        now = (zlib.crc32(self._pread(self.block, 0)), zlib.crc32(self._pread(self.block, last * self.block)))
        return now == self._seals

    @property
    def length(self) -> int:
        """Bytes from ``start`` on."""
        return max(0, self.size - self.start)

    # -- the index ----------------------------------------------------------------------------------

    @property
    def indexed(self) -> int:
        """Bytes whose lines are counted."""
        return self.length if self.complete else len(self._empty) * self.block

    @property
    def complete(self) -> bool:
        """Whether all lines are counted."""
        return self.length - len(self._empty) * self.block < self.block

    def index(self, most: int) -> bool:
        """Count the lines of at most ``most`` more bytes; whether all are counted."""
        until = len(self._empty) * self.block + most
        while True:
            with self._lock:
                at = len(self._empty) * self.block
                blocks = min(self.length - at, max(self.block, min(CHUNK, until - at))) // self.block
                if blocks <= 0 or at >= until:
                    return self.complete
                data = self._pread(blocks * self.block, at)
                if len(data) < self.block:
                    # Cut off since it was looked at; the next look finds out.
                    return True
                self._count(data)

    def _count(self, data: bytes) -> None:
        size = self.block
        for begin in range(0, len(data) - size + 1, size):
            number = len(self._empty)
            lines = data.count(b"\n", begin, begin + size)
            cut = False
            if number and self._empty[-1]:
                feed = data.find(b"\n", begin, begin + size)
                cut = not has_return(data[begin : feed if feed >= 0 else begin + size])
            seal = zlib.crc32(data[begin : begin + size]) if begin + 2 * size > len(data) or not number else 0
            if not number:
                self._seals = (seal, seal)
            elif seal:
                self._seals = (self._seals[0], seal)
            self._empty.append(not lines)
            self._cuts.append(cut)
            self._ends.append(self._ends[-1] + cut + lines)

    def _last(self) -> tuple[bytes, bool]:
        """What stands behind the complete blocks, and whether a line is cut at its beginning."""
        known = len(self._empty)
        key = (known, self.size)
        if self._tail_for != key:
            data = self._pread(min(self.block, self.length - known * self.block), known * self.block)
            head = data.partition(b"\n")[0]
            cut = bool(known and self._empty[-1] and data) and not has_return(head)
            self._tail, self._tail_for = (data, cut), key
        return self._tail

    def __len__(self) -> int:
        """How many lines are counted so far."""
        with self._lock:
            if not self.complete:
                return self._ends[-1]
            data, cut = self._last()
            ends = self._ends[-1] + cut + data.count(b"\n")
            open_end = data and not data.endswith(b"\n")
            if not data and self.length:
                # The last complete block is the end of the file.
                open_end = not self._block(len(self._empty) - 1).endswith(b"\n")
            return ends + bool(open_end)

    # -- lines --------------------------------------------------------------------------------------

    def _block(self, number: int) -> bytes:
        if number >= len(self._empty):
            return self._last()[0] if number == len(self._empty) else b""
        data = self._blocks.get(number)
        if data is None:
            data = self._blocks[number] = self._pread(self.block, number * self.block)
            if len(self._blocks) > CACHED:
                self._blocks.popitem(last=False)
        else:
            self._blocks.move_to_end(number)
        return data

    def _cut_at(self, number: int) -> bool:
        """Whether a line is cut where block ``number`` begins."""
        return bool(self._cuts[number]) if number < len(self._cuts) else self._last()[1]

    def _start_of(self, line: int) -> int:
        """Where ``line`` begins."""
        if line <= 0:
            return 0
        number = max(0, bisect_left(self._ends, line) - 1)
        rest = line - self._ends[number]
        base = number * self.block
        if self._cut_at(number):
            rest -= 1
            if rest == 0:
                return base
        data, at = self._block(number), -1
        for _ in range(rest):
            at = data.find(b"\n", at + 1)
            if at < 0:
                return self.length
        return base + at + 1

    def _end_after(self, begin: int) -> int:
        """Where the line that begins at ``begin`` ends, its line feed included."""
        number, at = begin // self.block, begin % self.block
        while True:
            feed = self._block(number).find(b"\n", at)
            if feed >= 0:
                return number * self.block + feed + 1
            number, at = number + 1, 0
            if number * self.block >= self.length:
                return self.length
            before = self._empty[number - 1] if number <= len(self._empty) else 0
            if before and self._cut_at(number):
                return number * self.block

    def lines(self, first: int, count: int) -> list[str]:
        """The lines from ``first`` on, at most ``count``, as they are drawn."""
        return [shown(data) for data in self._raw(first, count)]

    def _raw(self, first: int, count: int) -> list[bytes]:
        found: list[bytes] = []
        with self._lock:
            count = min(count, len(self) - first)
            if count <= 0:
                return found
            begin = self._start_of(first)
            for _ in range(count):
                end = self._end_after(begin)
                if end <= begin:
                    break
                found.append(self._text(begin, end))
                begin = end
        return found

    def _text(self, begin: int, end: int) -> bytes:
        """The bytes of one line, whole characters where it was cut."""
        # Of what is longer all but the last state was overwritten.
        first = max(begin, end - 2 * self.block)
        data = self._slice(first, end)
        if first == begin and begin and begin % self.block == 0 and self._slice(begin - 1, begin) != b"\n":
            data = data[_following(data) :]
        if end < self.length and not data.endswith(b"\n"):
            more = self._slice(end, end + 3)
            data += more[: _following(more)]
        return data

    def _slice(self, begin: int, end: int) -> bytes:
        parts = []
        while begin < end:
            number, at = divmod(begin, self.block)
            part = self._block(number)[at : at + end - begin]
            if not part:
                break
            parts.append(part)
            begin += len(part)
        return b"".join(parts)

    def line_at(self, offset: int) -> int:
        """The line that holds the byte at ``offset``."""
        with self._lock:
            number = min(offset // self.block, len(self._empty))
            before = self._block(number)[: offset - number * self.block].count(b"\n")
            return self._ends[number] + self._cut_at(number) + before

    # -- searching ----------------------------------------------------------------------------------

    def pieces(self, first: int, stop: Callable[[], bool]) -> Iterator[Piece]:
        """The counted lines from ``first`` on by pieces, until ``stop`` says so or the file is another."""
        with self._lock:
            generation, total = self.generation, len(self)
            begin = self._start_of(first)
        while first < total and not stop():
            with self._lock:
                if self.generation != generation:
                    return
                piece = self._piece(first, begin, total)
            if piece is None:
                return
            yield piece
            first, begin = first + piece.amount, begin + piece.size

    def _piece(self, first: int, begin: int, total: int) -> Piece | None:
        data = self._pread(min(CHUNK, self.length - begin), begin)
        data = data[: data.rfind(b"\n") + 1]
        blocks = slice(max(0, begin // self.block - 1), (begin + len(data)) // self.block + 1)
        count = data.count(b"\n")
        if data and first + count <= total and not any(self._empty[blocks]):
            plain = b"\x1b" not in data and data.count(b"\r") == data.count(b"\r\n")
            return Piece(first, count, len(data), data, None if plain else tuple(data.split(b"\n")[:-1]))
        # Lines longer than a block: as they are cut.
        at = self._start_of(first)
        lines, sizes = [], 0
        for _ in range(min(200, total - first)):
            end = self._end_after(at)
            if end <= at:
                break
            lines.append(self._text(at, end))
            sizes, at = sizes + end - at, end
        return Piece(first, len(lines), sizes, b"\n".join(lines), tuple(lines)) if lines else None


class Piece(NamedTuple):
    """Some lines that follow each other."""

    first: int
    amount: int
    size: int
    """Bytes they take in the file."""
    data: bytes
    lines: tuple[bytes, ...] | None
    """Each line, where it is not drawn as it stands; ``None`` where it is."""


def _following(data: bytes) -> int:
    """How many bytes at the beginning of ``data`` continue a character, at most three."""
    count = 0
    while count < min(3, len(data)) and 0x80 <= data[count] < 0xC0:
        count += 1
    return count
