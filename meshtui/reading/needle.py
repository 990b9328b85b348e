"""Looking for text: what is typed, where it stands in a line, and in which lines of a file of any size."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from meshtui.reading.window import Piece, TextFile, shown

MOST_HITS: Final = 100_000
"""Kept at most; a search that finds more stops there and says so."""

Hit = tuple[int, int]
"""A line and the how manieth match in it, both from 0."""

_COLOURS: Final = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")


@dataclass(frozen=True)
class Needle:
    """What is looked for: as it is typed, whatever the case unless a capital is typed."""

    text: str
    exact: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "exact", self.text != self.text.lower())

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Where it stands in ``line``: begin and end of each match, none over another."""
        wanted = self.text
        if not wanted:
            return []
        hay = line if self.exact else line.lower()
        if len(hay) != len(line):
            # Few characters are longer in lower case; they would shift what follows.
            hay = "".join(one.lower() if len(one.lower()) == 1 else one for one in line)
        found, at = [], hay.find(wanted)
        while at >= 0:
            found.append((at, at + len(wanted)))
            at = hay.find(wanted, at + len(wanted))
        return found


def search_file(file: TextFile, needle: Needle, stop: Callable[[], bool], first: int = 0) -> Iterator[Hit]:
    """Every match in the counted lines of ``file`` from line ``first`` on, in order, until ``stop``."""
    if not needle.text:
        return
    wanted = needle.text.encode("utf-8", "replace")
    for piece in file.pieces(first, stop):
        if needle.text.isascii() and "\t" not in needle.text and not _may_hold(piece, needle, wanted):
            continue
        spaced = " " in needle.text and b"\t" in piece.data
        if piece.lines is None and needle.text.isascii() and not spaced:
            yield from _plain(piece, needle, wanted)
            continue
        lines = piece.lines if piece.lines is not None else piece.data.split(b"\n")[:-1]
        for number, data in enumerate(lines):
            if number % 256 == 0 and stop():
                return
            for ordinal, _span in enumerate(needle.spans(shown(data))):
                yield piece.first + number, ordinal


def _may_hold(piece: Piece, needle: Needle, wanted: bytes) -> bool:
    """Whether ``piece`` can hold what is looked for, told without drawing each line."""
    if b"\t" in piece.data and " " in needle.text:
        return True
    if piece.lines is None:
        return wanted in (piece.data if needle.exact else piece.data.lower())
    if b"\x1b" in _COLOURS.sub(b"", piece.data):
        return True
    data = _COLOURS.sub(b"", piece.data)
    return wanted in (data if needle.exact else data.lower())


def _plain(piece: Piece, needle: Needle, wanted: bytes) -> Iterator[Hit]:
    """The matches in lines that are drawn as they stand."""
    data = piece.data if needle.exact else piece.data.lower()
    line, counted, ordinal = piece.first, 0, 0
    at = data.find(wanted)
    while at >= 0:
        passed = data.count(b"\n", counted, at)
        ordinal = 0 if passed else ordinal
        line, counted = line + passed, at
        yield line, ordinal
        ordinal += 1
        at = data.find(wanted, at + len(wanted))
