"""A log of any size as a document: its first page or its end at once, the rest as it is counted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from meshtui.reading.needle import Needle, search_file
from meshtui.reading.window import BLOCK, TextFile
from meshtui.text import number
from meshtui.widgets.document import Document
from meshtui.widgets.lines import TextLine

AT_ONCE: Final = 4 << 20
"""Bytes whose lines are counted before anything is shown."""
A_STEP: Final = 8 << 20
TAIL: Final = 16 * BLOCK
"""Bytes at the end shown of a file whose lines are not counted yet."""
_AHEAD: Final = 64
"""Lines read together."""
_KEPT: Final = 64
"""Such groups kept."""
EVERYTHING: Final = 1 << 62


class LogDoc(Document):
    """The lines of a file that may grow. ``hint`` is said while it is empty."""

    grows = True

    def __init__(
        self, path: Path, *, look: str = "text", hint: str = "Nothing written yet.", title: str = ""
    ) -> None:
        self.path = path
        self.title = title
        self.file = TextFile(path)
        self._look = look
        self._hint = hint
        self._tail: TextFile | None = None
        """The end of the file alone, while the lines before it are counted."""
        self._in_tail = False
        self._count = 0
        self._generation = self.file.generation
        self._note = ""
        self._groups: dict[int, list[str]] = {}
        self._opened = False
        self._searched: tuple[Needle, int, int] | None = None

    def prepare(self) -> None:
        if not self._opened:
            self._opened = True
            self.file.refresh()
            self.file.index(AT_ONCE)
            self.take()

    # In the thread

    def work(self, wants_end: bool) -> bool:
        self._opened = True
        change = self.file.refresh()
        before = self.file.indexed
        if not self.file.complete:
            self._read_tail(wants_end)
            self.file.index(A_STEP)
        return change != "same" or self.file.indexed != before

    def _read_tail(self, wanted: bool) -> None:
        tail = self._tail
        if tail is None and wanted and self.file.size - self.file.indexed > A_STEP:
            start = (self.file.size - TAIL) // BLOCK * BLOCK
            tail = TextFile(self.file.path, start=start)
        if tail is not None:
            tail.refresh()
            tail.index(EVERYTHING)
            self._tail = tail

    def search(self, needle: Needle, stop: Callable[[], bool], since: object = None) -> Iterator[object]:
        while not self.file.complete and not stop():
            self.file.index(A_STEP)
        line, ordinal = since if isinstance(since, tuple) else (0, -1)
        first, generation = line, self.file.generation
        if self._searched is not None and since is not None and self._searched[0] == needle:
            # The last line may have grown since.
            first = max(first, self._searched[2] - 1) if self._searched[1] == generation else 0
        total = len(self.file)
        for hit in search_file(self.file, needle, stop, first):
            if hit > (line, ordinal):
                yield hit
        if not stop():
            self._searched = (needle, generation, total)

    # For who draws

    def take(self) -> int:
        moved = 0
        self._groups.clear()
        if self.file.generation != self._generation:
            first = self._generation == 0 and not self._count
            self._generation = self.file.generation
            self._in_tail, self._tail = False, None
            if not first:
                gone = self.file.size == 0 and not self.file.path.exists()
                self._note = "file gone" if gone else "file replaced"
        if self._in_tail and self.file.complete and self._tail is not None:
            moved = self.file.line_at(self._tail.start) - 1
            self._in_tail, self._tail = False, None
        elif self._tail is not None:
            if self.file.complete:
                self._tail = None
            else:
                self._in_tail = True
        source = self._source
        self._count = len(source) + (1 if self._in_tail else 0)
        return moved

    @property
    def _source(self) -> TextFile:
        return self._tail if self._in_tail and self._tail is not None else self.file

    @property
    def lines(self) -> int:
        """How many lines there are, as far as they are counted."""
        return self._count

    def __len__(self) -> int:
        return max(1, self._count)

    def line(self, index: int) -> TextLine:
        if not self._count:
            return TextLine(((self._hint, "muted"),))
        if self._in_tail:
            if not index:
                before = number(self._tail.start if self._tail is not None else 0)
                return TextLine(((f"… {before} bytes before are being counted", "muted"),))
            index -= 1
        if index < 0 or index >= self._count:
            raise IndexError(index)
        group, rest = divmod(index, _AHEAD)
        lines = self._groups.get(group)
        if lines is None:
            lines = self._source.lines(group * _AHEAD, _AHEAD)
            if len(self._groups) >= _KEPT:
                self._groups.clear()
            self._groups[group] = lines
        text = lines[rest] if rest < len(lines) else ""
        return TextLine(((text, self._look),), hang=_indent(text))

    def texts(self, first: int, last: int) -> Iterator[str]:
        if self._count:
            yield from super().texts(first, last)

    def note(self) -> str:
        if not self.file.complete and self.file.size:
            return f"counting lines, {self.file.indexed * 100 // self.file.size} %"
        return self._note

    def close(self) -> None:
        self.file.close()
        if self._tail is not None:
            self._tail.close()


def _indent(text: str) -> int:
    return min(24, len(text) - len(text.lstrip(" ")))


def written_last(paths: list[Path]) -> list[Path]:
    """``paths`` that are not empty, the one written last at the end."""

    def when(path: Path) -> tuple[int, int]:
        try:
            found = os.stat(path)
        except OSError:
            return (0, 0)
        return (found.st_mtime_ns, found.st_size)

    return [path for path in sorted(paths, key=when) if when(path)[1]]
