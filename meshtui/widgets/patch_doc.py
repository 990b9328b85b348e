"""A patch as a document: the files with what changed, then hunk by hunk, coloured as it comes in sight."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from rich.cells import cell_len

from meshtui.reading.patch import FilePatch, parse
from meshtui.text import clean, cut_start, fit, number
from meshtui.widgets.document import Document
from meshtui.widgets.lines import TextLine
from meshtui.widgets.paint import Line, Span
from meshtui.widgets.syntax import coloured

AT_ONCE: Final = 80
"""Lines coloured together."""
_MARKS: Final = {"A": ("A", "added"), "D": ("D", "deleted"), "R": ("R", "renamed"), "C": ("C", "copied")}
_GLYPHS: Final = {"+": "ok", "-": "bad", " ": "muted", "\\": "muted"}
_GROUNDS: Final = {"+": "added", "-": "removed"}


@dataclass(frozen=True, slots=True)
class ToFile:
    """Enter goes to a file of the patch."""

    line: int


class _Entry(NamedTuple):
    kind: str
    """``file``, ``list``, ``words``, ``note``, ``hunk``, ``line``, ``gap``, ``sum``."""
    file: int = 0
    hunk: int = 0
    line: int = 0
    number: int = 0


class PatchDoc(Document):
    """Files first, then their hunks. ``source`` says what was compared; ``cut`` whether there is more."""

    jumps = True

    def __init__(
        self, lines: Sequence[str], *, source: str = "", cut: bool = False, problem: str | None = None
    ) -> None:
        self.files = parse(lines)
        self._source, self._cut, self._problem = source, cut, problem
        self._entries: list[_Entry] = []
        self._file_lines: list[int] = []
        self._hunk_lines: list[int] = []
        self._groups: dict[tuple[int, int, int], list[Line] | None] = {}
        self._width = 0
        self._fill()
        self._digits = max((len(str(one.number)) for one in self._entries), default=1)
        self._key = (tuple(lines), source)

    def _fill(self) -> None:
        put = self._entries.append
        put(_Entry("sum"))
        for index in range(len(self.files)):
            put(_Entry("list", index))
        for index, file in enumerate(self.files):
            put(_Entry("gap"))
            self._file_lines.append(len(self._entries))
            put(_Entry("file", index))
            for place in range(len(file.notes)):
                put(_Entry("note", index, line=place))
            for place, hunk in enumerate(file.hunks):
                self._hunk_lines.append(len(self._entries))
                put(_Entry("hunk", index, place))
                old, new = hunk.old, hunk.new
                for row, text in enumerate(hunk.lines):
                    mark = text[:1]
                    put(_Entry("line", index, place, row, old if mark == "-" else 0 if mark == "\\" else new))
                    old += mark in "- "
                    new += mark in "+ "
        if self._cut:
            put(_Entry("gap"))
            put(_Entry("cut"))

    def __len__(self) -> int:
        return len(self._entries)

    def fit(self, width: int) -> bool:
        changed, self._width = width != self._width, width
        return changed

    def line(self, index: int) -> TextLine:
        return self._made(index, coloured=True)

    def shape(self, index: int) -> TextLine:
        return self._made(index, coloured=False)

    def _made(self, index: int, *, coloured: bool) -> TextLine:
        one = self._entries[index]
        if one.kind == "line":
            return self._changed(one, coloured)
        if one.kind == "gap":
            return TextLine(())
        if one.kind == "sum":
            return self._sum()
        if one.kind == "cut":
            return TextLine((("… more: the rest stands in the commit", "muted"),))
        file = self.files[one.file]
        if one.kind == "list":
            return TextLine(self._listed(file), whole=True, target=ToFile(self._file_lines[one.file]))
        if one.kind == "file":
            words = f"  {clean(', '.join(file.words))}" if file.words else ""
            return TextLine(((clean(file.path), "strong"), (words, "muted")), hang=2)
        if one.kind == "note":
            return TextLine(((f"  {clean(file.notes[one.line])}", "muted"),), hang=2)
        hunk = file.hunks[one.hunk]
        at = f"line {number(hunk.new)}" if hunk.lines else "no lines"
        heading = f"  {clean(hunk.heading)}" if hunk.heading else ""
        return TextLine(((" " * (self._digits + 1) + "⋯ " + at, "muted"), (heading, "muted")), whole=True)

    def _sum(self) -> TextLine:
        added, removed = sum(one.added for one in self.files), sum(one.removed for one in self.files)
        files = f"{number(len(self.files))} file{'' if len(self.files) == 1 else 's'}"
        spans: list[Span] = [(f"+{number(added)}", "ok"), (" ", "text"), (f"-{number(removed)}", "bad")]
        spans += [(f"  in {files}", "text"), (f"  {clean(self._source)}", "muted")]
        if self._problem:
            spans.append((f"  {clean(self._problem)}", "bad"))
        return TextLine(tuple(spans))

    def _listed(self, file: FilePatch) -> Line:
        letter, word = _MARKS.get(file.status, ("M", "changed"))
        longest = max(cell_len(clean(one.path)) for one in self.files[:500])
        room = max(8, min(longest, 60, self._width - 24))
        said = [one for one in file.words if not one.startswith(("new file", "deleted file", "binary"))]
        counts: list[Span] = [(f"+{file.added}", "ok"), (" ", "text"), (f"-{file.removed}", "bad")]
        if file.binary or not file.hunks:
            counts = [("binary", "muted")] if file.binary else [(said.pop(0), "muted")] if said else []
        more = f"  {clean(', '.join(said))}" if said else ""
        # What is said here is said again above its hunks: it is not cut off here.
        if 14 + room + sum(cell_len(text) for text, _look in counts) + cell_len(more) > self._width:
            more = ""
        path = fit(cut_start(clean(file.path), room), room)
        return (
            (f"  {letter} ", "muted"),
            (f"{word.ljust(8)} ", "muted"),
            (path + "  ", "text"),
            *counts,
            (more, "muted"),
        )

    def _changed(self, one: _Entry, coloured: bool) -> TextLine:
        hunk = self.files[one.file].hunks[one.hunk]
        mark = hunk.lines[one.line][:1]
        lead: Line = ((f"{one.number or '':>{self._digits}} ", "muted"),)
        if mark == "\\":
            return TextLine(((clean(hunk.lines[one.line]), "muted"),), lead=lead)
        text = _text(hunk.lines[one.line])
        group = one.line // AT_ONCE
        colours = self._colours(one.file, one.hunk, group) if coloured else None
        spans = colours[one.line - group * AT_ONCE] if colours is not None else ((text, "text"),)
        hang = 2 + len(text) - len(text.lstrip(" "))
        return TextLine(
            ((f"{mark} ", _GLYPHS[mark]), *spans),
            hang=hang, lead=lead, ground=_GROUNDS.get(mark),
        )  # fmt: skip

    def _colours(self, file: int, hunk: int, group: int) -> list[Line] | None:
        """The lines of one group, coloured: what was and what is are read apart."""
        key = (file, hunk, group)
        if key not in self._groups:
            lines = self.files[file].hunks[hunk].lines[group * AT_ONCE : (group + 1) * AT_ONCE]
            self._groups[key] = _read_apart(self.files[file].path, lines)
            if len(self._groups) > 400:
                self._groups.pop(next(iter(self._groups)))
        return self._groups[key]

    def jump(self, index: int, by: int, big: bool) -> int | None:
        places = self._file_lines if big else sorted({*self._file_lines, *self._hunk_lines})
        at = bisect_right(places, index) if by > 0 else bisect_left(places, index) - 1
        if at < 0:
            return 0
        return places[at] if at < len(places) else None

    def file_at(self, index: int) -> tuple[FilePatch, int] | None:
        """The file whose part line ``index`` is in, and the line of that file."""
        if not self._entries:
            return None
        for at in range(max(0, min(index, len(self._entries) - 1)), len(self._entries)):
            one = self._entries[at]
            if one.kind in ("line", "hunk", "file", "list"):
                file = self.files[one.file]
                line = one.number
                if one.kind == "hunk":
                    line = file.hunks[one.hunk].new
                return file, max(1, line)
        return None

    def crumb(self, index: int) -> str:
        if index <= len(self.files):
            return ""
        at = bisect_right(self._file_lines, index) - 1
        return f"{clean(self.files[at].path)} · file {at + 1} of {len(self.files)}" if at >= 0 else ""

    def like(self, other: Document) -> bool:
        return isinstance(other, PatchDoc)

    def same(self, other: object) -> bool:
        """Whether ``other`` shows the very same patch."""
        return isinstance(other, PatchDoc) and self._key == other._key


def _text(line: str) -> str:
    return clean(line[1:].rstrip("\r").expandtabs(4))


def _read_apart(path: str, lines: Sequence[str]) -> list[Line] | None:
    new = [at for at, line in enumerate(lines) if line[:1] in "+ "]
    old = [at for at, line in enumerate(lines) if line[:1] in "- "]
    found: dict[int, Line] = {}
    for side in (old, new):
        spans = coloured(path, [_text(lines[at]) for at in side])
        if side and spans is None:
            return None
        found.update(zip(side, spans or (), strict=True))
    return [found.get(at, ((_text(line), "text"),)) for at, line in enumerate(lines)]
