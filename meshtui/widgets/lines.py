"""Lines of a text and the rows they take: wrapped where there is room for less, cut out where they are not."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from rich.cells import cell_len, get_character_cell_size

from meshtui.widgets.paint import Line, crop

EXACT_LINES = 3000
"""Of a wrapped text with at most as many lines every row is counted; of a longer one those in sight."""


@dataclass(frozen=True, slots=True)
class TextLine:
    """One line of a text, however many rows it takes."""

    spans: Line
    hang: int = 0
    """Cells by which its further rows are indented."""
    lead: Line = ()
    """Drawn before it, and not part of its text: numbers, marks of a tree."""
    ground: str | None = None
    """The look of the whole row."""
    target: object = None
    """What enter opens on it."""
    whole: bool = False
    """Cut at the right where there is no room, and not wrapped: a row of a table."""

    @property
    def text(self) -> str:
        """What is searched and copied."""
        return self.spans[0][0] if len(self.spans) == 1 else "".join(text for text, _look in self.spans)


Piece = tuple[int, int]
"""A row's part of a line: begin and end, in characters."""


def _fitting(text: str, start: int, room: int) -> int:
    """Where ``room`` cells of ``text`` from ``start`` on end; at least one character on."""
    end = start
    for end in range(start, len(text)):
        room -= get_character_cell_size(text[end])
        if room < 0:
            return max(end, start + 1)
    return end + 1


def pieces(text: str, width: int, hang: int = 0) -> list[Piece]:
    """How ``text`` is broken into rows of ``width`` cells, at spaces where there are any."""
    plain = text.isascii()
    if width <= 0 or (len(text) if plain else cell_len(text)) <= width:
        return [(0, len(text))]
    hang = hang if hang < width // 2 else 0
    found: list[Piece] = []
    start, room, last = 0, width, len(text)
    while start < last:
        end = min(last, start + room) if plain else _fitting(text, start, room)
        after = end
        if end < last:
            space = text.rfind(" ", start + 1, end + 1)
            word = text.find(" ", space + 1)
            # A word that is too long for a row is cut anyway: then it is not sent to the next one.
            fits = (word if word > 0 else last) - space - 1 <= width - hang
            if space > start and fits and text[start:space].strip():
                end = after = space
                while after < last and text[after] == " ":
                    after += 1
        found.append((start, end))
        start, room = after, width - hang
    return found


def cut_out(spans: Sequence[tuple[str, str]], begin: int, end: int) -> Line:
    """The characters ``begin`` to ``end`` of ``spans``."""
    if begin <= 0 and len(spans) == 1 and end >= len(spans[0][0]):
        return tuple(spans)
    shown, at = [], 0
    for text, look in spans:
        until = at + len(text)
        if until > begin and at < end:
            shown.append((text[max(0, begin - at) : end - at], look))
        at = until
        if at >= end:
            break
    return tuple(shown)


def skip_cells(text: str, cells: int) -> int:
    """How many characters at the beginning of ``text`` take ``cells`` cells."""
    if text.isascii():
        return min(len(text), cells)
    return min(len(text), _fitting(text, 0, cells)) if cells > 0 else 0


class Rows:
    """Which row of which line stands where, for one text in one width.

    Short texts have all their rows counted; then a place is a row. Of long ones, and without wrapping, a
    place is a line, and further rows of the first line in sight are said apart.
    """

    def __init__(self, count: int, shape: Callable[[int], TextLine], width: int, wrap: bool) -> None:
        self.count = count
        self.width = width
        self.wrap = wrap
        self._shape = shape
        self._starts: list[int] | None = None
        if wrap and count <= EXACT_LINES:
            self._starts = [0, *accumulate(len(self.pieces(index)) for index in range(count))]

    @property
    def exact(self) -> bool:
        """Whether a place is a row."""
        return self._starts is not None

    def pieces(self, index: int) -> list[Piece]:
        """The rows of line ``index``."""
        line = self._shape(index)
        text = line.text
        if not self.wrap or line.whole:
            return [(0, len(text))]
        return pieces(text, max(1, self.width - _cells(line.lead)), line.hang)

    def at(self, place: int, rest: int = 0) -> tuple[int, int]:
        """Line and row of the line at ``place``."""
        if self._starts is None:
            return max(0, min(place, self.count - 1)), rest if 0 <= place < self.count else 0
        place = max(0, min(place, self._starts[-1] - 1))
        index = max(0, bisect_right(self._starts, place) - 1)
        return index, place - self._starts[index]

    def place(self, index: int, row: int) -> int:
        """Where row ``row`` of line ``index`` stands."""
        if self._starts is None:
            return index
        return self._starts[min(index, self.count)] + row

    def move(self, index: int, row: int, by: int) -> tuple[int, int]:
        """``by`` rows further down or up, at most to the first or last one."""
        if self._starts is not None:
            return self.at(self.place(index, row) + by)
        while by > 0:
            left = len(self.pieces(index)) - 1 - row
            if by <= left or index >= self.count - 1:
                return index, row + min(by, max(0, left))
            by, index, row = by - left - 1, index + 1, 0
        while by < 0:
            if -by <= row or index <= 0:
                return index, max(0, row + by)
            by, index = by + row + 1, index - 1
            row = len(self.pieces(index)) - 1
        return index, row

    def last_top(self, page: int) -> tuple[int, int]:
        """What stands at the top when the end is at the bottom."""
        if not self.count:
            return 0, 0
        end = self.count - 1
        return self.move(end, len(self.pieces(end)) - 1, -(max(1, page) - 1))

    def height(self, page: int) -> int:
        """How many places there are, so that the last page can be reached and not passed."""
        if self._starts is not None:
            return self._starts[-1]
        if not self.wrap:
            return self.count
        index, row = self.last_top(page)
        return index + page if (index or row) else self.count

    def draw(self, line: TextLine, index: int, row: int, left: int) -> tuple[Line, Line, int]:
        """What stands in one row of ``line``: what leads it, its text, and the character its text begins with."""
        lead = line.lead
        if not self.wrap:
            first = skip_cells(line.text, left)
            return lead, cut_out(line.spans, first, first + self.width), first
        if line.whole:
            return lead, crop(line.spans, max(1, self.width - _cells(lead))), 0
        parts = self.pieces(index)
        begin, end = parts[min(row, len(parts) - 1)]
        if row:
            indent = line.hang if line.hang < (self.width - _cells(lead)) // 2 else 0
            lead = ((" " * (_cells(lead) + indent), "text"),)
        return lead, cut_out(line.spans, begin, end), begin


def _cells(line: Line) -> int:
    return sum(cell_len(text) for text, _look in line)
