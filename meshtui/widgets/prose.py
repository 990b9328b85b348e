"""Text to read: facts, headings and bodies, wrapped to the width and scrolled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from meshtui.text import clean, clean_lines, number, wrap
from meshtui.widgets.paint import Line, Painter, Span, crop

LABEL = 12
MOST_LINES = 400
"""Of one body; the rest stands in the file."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A label and what it says."""

    label: str
    text: str
    look: str = "text"


@dataclass(frozen=True, slots=True)
class Head:
    """The title of what follows."""

    text: str
    look: str = "muted"


@dataclass(frozen=True, slots=True)
class Raw:
    """A line made of spans, cut and not wrapped."""

    line: Line


@dataclass(frozen=True, slots=True)
class Body:
    """Text of any length, from outside."""

    text: str
    look: str = "text"
    indent: int = 0
    mark: str = ""
    """Stands before the first line."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Lines that are cleaned already."""

    lines: tuple[tuple[str, str], ...]


Item = Fact | Head | Raw | Body | Ready


def _wrapped(text: str, width: int) -> Iterable[str]:
    if text.isascii() and len(text) <= width:
        return (text,)
    return wrap(text, width)


def lay_out(items: Iterable[Item], width: int) -> Iterator[Line]:
    """The lines of ``items`` in ``width`` cells."""
    for item in items:
        match item:
            case Fact():
                yield from _fact(item, width)
            case Head():
                yield crop(((clean(item.text), item.look),), width)
            case Raw():
                yield crop(item.line, width)
            case Body():
                yield from _body(item, width)
            case Ready():
                for text, look in item.lines:
                    for piece in _wrapped(text, width):
                        yield ((piece, look),)


def _fact(item: Fact, width: int) -> Iterator[Line]:
    if width < LABEL + 12:
        for piece in wrap(f"{item.label} {clean(item.text)}".strip(), width):
            yield ((piece, item.look),)
        return
    label = item.label.ljust(LABEL)
    for piece in wrap(clean(item.text), width - LABEL):
        yield ((label, "muted"), (piece, item.look))
        label = " " * LABEL


def _body(item: Body, width: int) -> Iterator[Line]:
    lines = clean_lines(item.text[:200_000])
    mark = item.mark.ljust(item.indent)
    inner = max(1, width - item.indent)
    for line in lines[:MOST_LINES]:
        for piece in _wrapped(line[:20_000], inner):
            spans: list[Span] = [(mark, "muted")] if mark else []
            yield (*spans, (piece, item.look))
            mark = " " * item.indent
    if len(lines) > MOST_LINES:
        yield ((" " * item.indent + f"… {number(len(lines) - MOST_LINES)} more lines", "muted"),)


class Prose(Painter, ScrollView, can_focus=True):
    """A scrolled text; with ``follows`` it stays at its end unless the operator scrolled away."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "scroll_down", "Down", show=False, id="detail.down"),
        Binding("k,up", "scroll_up", "Up", show=False, id="detail.up"),
        Binding("g,home", "scroll_home", "Start", show=False, id="detail.top"),
        Binding("G,end", "scroll_end", "End", show=False, id="detail.bottom"),
        Binding("ctrl+d,pagedown,space", "page_down", "Page down", show=False, id="detail.page_down"),
        Binding("ctrl+u,pageup", "page_up", "Page up", show=False, id="detail.page_up"),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.items: tuple[Item, ...] = ()
        self.follows = False
        self._lines: list[Line] = []
        self._laid_for: int | None = None

    def show(self, items: Sequence[Item], *, follows: bool = False, top: bool = False) -> None:
        """Show ``items``; ``top`` starts at their beginning."""
        value = tuple(items)
        at_end = self.scroll_offset.y >= self.max_scroll_y
        turned = follows and not self.follows
        self.follows = follows
        if value == self.items and not top and not turned:
            return
        self.items = value
        self._lay_out()
        if follows and (at_end or turned or top):
            self.scroll_to(y=self.max_scroll_y, animate=False, force=True)
        elif top:
            self.scroll_to(y=0, animate=False, force=True)
        self.refresh()

    def _lay_out(self) -> None:
        width = max(1, self.scrollable_content_region.width - 2)
        self._laid_for = width
        self._lines = list(lay_out(self.items, width))
        self.virtual_size = Size(0, len(self._lines))

    def on_resize(self) -> None:
        if self._laid_for != max(1, self.scrollable_content_region.width - 2):
            at_end = self.follows and self.scroll_offset.y >= self.max_scroll_y
            self._lay_out()
            if at_end:
                self.scroll_to(y=self.max_scroll_y, animate=False, force=True)

    def text(self) -> str:
        """Everything shown, as plain lines."""
        return "\n".join("".join(text for text, _look in line) for line in self._lines)

    def action_scroll_down(self) -> None:
        self.scroll_to(y=self.scroll_offset.y + 1, animate=False, force=True)

    def action_scroll_up(self) -> None:
        self.scroll_to(y=self.scroll_offset.y - 1, animate=False, force=True)

    def action_scroll_home(self) -> None:
        self.scroll_to(y=0, animate=False, force=True)

    def action_scroll_end(self) -> None:
        self.scroll_to(y=self.max_scroll_y, animate=False, force=True)

    def action_page_down(self) -> None:
        self.scroll_to(y=self.scroll_offset.y + max(1, self.size.height // 2), animate=False, force=True)

    def action_page_up(self) -> None:
        self.scroll_to(y=self.scroll_offset.y - max(1, self.size.height // 2), animate=False, force=True)

    def render_lines(self, crop: Region) -> list[Strip]:
        if self._laid_for is None:
            self._lay_out()
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        index = self.scroll_offset.y + y
        if index >= len(self._lines):
            return self.blank(width)
        return self.strip(((" ", "text"), *self._lines[index]), width)


def bar(part: float, cells: int, look: str) -> Line:
    """A thin bar, ``part`` of it drawn in ``look``."""
    full = max(0, min(cells, round(part * cells)))
    return (("━" * full, look), ("━" * (cells - full), "rule"))
