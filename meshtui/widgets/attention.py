"""What needs the operator, with the ways out answered by number; takes no room when there is nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message

from meshtui.commands import key_of
from meshtui.core.view import Attention, Exit, LaneView
from meshtui.status import attention_mark
from meshtui.steady import Steady
from meshtui.text import clean, cut_end, cut_middle, duration, fit
from meshtui.widgets.paint import Line, Painted, Span, crop, now_of, width_of

MOST = 4
"""The items shown at once."""


class NeedsYou(Painted, can_focus=True):
    """A list of :class:`Attention`, one of them selected."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "step(1)", "Next item", show=False, id="attention.down"),
        Binding("k,up", "step(-1)", "Item before", show=False, id="attention.up"),
        Binding("enter", "go", "Show its envelope", show=False, id="attention.open"),
    ]

    class Picked(Message):
        """An exit was chosen by mouse."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    class Shown(Message):
        """The record behind an item is to be looked at."""

        def __init__(self, item: Attention) -> None:
            super().__init__()
            self.item = item

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.items: tuple[Attention, ...] = ()
        self._index = 0
        self.steady = Steady()
        self.most = MOST
        self.read_only = False
        """Whether only what changes nothing can be taken."""
        self._line_items: list[int] = []
        """The item that each line belongs to."""
        self._exits_at: list[tuple[int, int, int, int]] = []
        self.display = False

    @property
    def selected(self) -> Attention | None:
        """The item whose exits the number keys take."""
        return self.items[self._index] if self._index < len(self.items) else None

    def show(self, view: LaneView | None) -> None:
        """List what ``view`` says needs the operator; the selected item stays selected."""
        items = view.attention if view is not None else ()
        if items is not self.items and items != self.items:
            kept = self.selected
            self.items = items
            at = next(
                (index for index, item in enumerate(items) if kept is not None and _same(item, kept)), None
            )
            if kept is None:
                # What waits for an answer comes before what only ended.
                waits = (index for index, item in enumerate(items) if item.kind in ("parked", "handoff"))
                self._index = next(waits, 0)
            else:
                # Where it went, the item that took its place: the number keys ask before they mean that one.
                self._index = at if at is not None else max(0, min(self._index, len(items) - 1))
            self.display = bool(items)
            self.border_title = f"Needs you · {len(items)}" if items else ""
            self._fit()
        if view is not None:
            self._see(by_hand=False)
        self.repaint()

    def _see(self, *, by_hand: bool) -> None:
        item = self.selected
        key = None
        if item is not None:
            key = (item.kind, item.subject, item.key, tuple((way.label, way.command) for way in item.exits))
        self.steady.see(key, now_of(self), by_hand=by_hand)

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        """Take as many lines as there is to show, of a low screen only a few."""
        lines = self.screen.size.height
        self.most = MOST if lines >= 24 else 2 if lines >= 16 else 1
        shown, hidden = min(len(self.items), self.most), len(self.items) > self.most
        self.border_subtitle = f"{shown} of {len(self.items)} · {key_of('inbox')} shows all" if hidden else ""
        ways = self._stacked and any(item.exits for item in self.items)
        self.styles.height = shown + int(ways) + 2

    def step(self, by: int, *, around: bool = False) -> None:
        """Select the item ``by`` lines further."""
        if not self.items:
            return
        index = self._index + by
        self._index = index % len(self.items) if around else max(0, min(index, len(self.items) - 1))
        self._see(by_hand=True)
        self.repaint()

    def action_step(self, by: int) -> None:
        self.step(by)

    def action_go(self) -> None:
        if self.selected is not None:
            self.post_message(self.Shown(self.selected))

    def on_focus(self) -> None:
        self._lines_for = None
        self.refresh()

    def on_blur(self) -> None:
        self._lines_for = None
        self.refresh()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        ways = [
            number for y, start, end, number in self._exits_at if y == offset.y and start <= offset.x < end
        ]
        index = self._line_items[offset.y] if offset.y < len(self._line_items) else None
        way = exit_by_number(self.items[index], ways[0]) if ways and index is not None else None
        self.tooltip = Content(clean(way.command)) if way is not None else None

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if offset.y >= len(self._line_items):
            return
        index = self._line_items[offset.y]
        was, self._index = self._index, index
        self._see(by_hand=True)
        for y, start, end, number in self._exits_at:
            if y == offset.y and start <= offset.x < end:
                self.post_message(self.Picked(number))
                break
        else:
            if was == index and event.chain > 1:
                self.action_go()
        self.repaint()

    def compose_lines(self, width: int) -> Sequence[Line]:
        self._exits_at = []
        self._line_items = []
        first, shown = self._window()
        kind = max((cell_len(attention_mark(item).word) for item in shown), default=0) + 2
        subject = min(max((cell_len(clean(item.subject)) for item in shown), default=0), max(8, width // 4))
        room = (
            0
            if self._stacked
            else max((width_of(_exits(item, False, read_only=False)) for item in shown), default=0)
        )
        lines: list[Line] = []
        for index, item in enumerate(shown, start=first):
            selected = index == self._index
            line = self._line(item, selected, kind, subject, width - (room + 2 if room else 0))
            if room:
                line = self._with_exits(line, item, selected, len(lines), width - room)
            lines.append(line)
            self._line_items.append(index)
            if selected and self._stacked and item.exits:
                self._line_items.append(index)
                lines.append(self._with_exits((), item, True, len(lines), 4))
        return lines

    @property
    def _stacked(self) -> bool:
        """Whether the exits stand below the selected item, for want of width."""
        return self.content_size.width < 96

    def _window(self) -> tuple[int, tuple[Attention, ...]]:
        most = self.most
        first = max(0, min(self._index - most + 1, len(self.items) - most))
        return first, self.items[first : first + most]

    def _with_exits(self, line: Line, item: Attention, selected: bool, y: int, start: int) -> Line:
        spans = [
            *line,
            (" " * (start - width_of(line)), "text"),
            *_exits(item, selected, read_only=self.read_only),
        ]
        for number, way in enumerate(item.exits[:9], start=1):
            length = cell_len(clean(way.label)) + 4
            self._exits_at.append((y, start, start + length, number))
            start += length + 2
        return tuple(spans)

    def _line(self, item: Attention, selected: bool, kind: int, subject: int, width: int) -> Line:
        mark = attention_mark(item)
        several = len(self.items) > 1
        spans: list[Span] = [
            (
                "▸ " if selected and several else "  " if several else " ",
                "key" if self.has_focus else "muted",
            ),
            (fit(f"{mark.glyph} {mark.word}", kind), mark.look),
            ("  ", "text"),
            (fit(cut_middle(clean(item.subject), subject), subject), "strong"),
            ("  ", "text"),
        ]
        left = width - width_of(spans)
        text = clean(item.text)
        if item.since is not None and left > cell_len(text) + 14:
            text += f" · {duration(now_of(self) - item.since)} ago"
        if left > 4:
            spans.append((cut_end(text, left), "text"))
        return crop(spans, width)


LOOKING = ("log", "proof")
"""The ways out that change nothing."""


def _exits(item: Attention, selected: bool, *, read_only: bool) -> Line:
    """The ways out, numbered where the numbers take them."""
    spans: list[Span] = []
    for number, way in enumerate(item.exits[:9], start=1):
        if spans:
            spans.append(("  ", "text"))
        takes = selected and (not read_only or way.action in LOOKING)
        spans.append((f" {number} " if takes else "   ", "cap" if takes else "text"))
        spans.append((f" {clean(way.label)}", "text" if takes else "muted"))
    return tuple(spans)


def _same(item: Attention, other: Attention) -> bool:
    """Whether two are the same thing, at two moments."""
    return (item.kind, item.subject, item.key) == (other.kind, other.subject, other.key)


def exit_by_number(item: Attention | None, number: int) -> Exit | None:
    """The ``number``-th way out of ``item``, from 1."""
    if item is None or not 1 <= number <= len(item.exits):
        return None
    return item.exits[number - 1]
