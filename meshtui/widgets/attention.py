"""What needs the operator, with the ways out answered by number; takes no room when there is nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from meshtui.core.view import Attention, Exit, LaneView
from meshtui.status import attention_mark
from meshtui.text import clean, cut_end, cut_middle, duration, fit
from meshtui.widgets.paint import Line, Painted, Span, now_of, width_of

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

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.items: tuple[Attention, ...] = ()
        self._index = 0
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
            same = [
                index
                for index, item in enumerate(items)
                if kept is not None and (item.kind, item.subject) == (kept.kind, kept.subject)
            ]
            self._index = same[0] if same else max(0, min(self._index, len(items) - 1))
            self.display = bool(items)
            self.border_title = f"Needs you · {len(items)}" if items else ""
            self.styles.height = min(len(items), MOST) + 2
        self.repaint()

    def step(self, by: int, *, around: bool = False) -> None:
        """Select the item ``by`` lines further."""
        if not self.items:
            return
        index = self._index + by
        self._index = index % len(self.items) if around else max(0, min(index, len(self.items) - 1))
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

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        index = self._first() + offset.y
        if index >= len(self.items):
            return
        was, self._index = self._index, index
        for y, start, end, number in self._exits_at:
            if y == offset.y and start <= offset.x < end:
                self.post_message(self.Picked(number))
                break
        else:
            if was == index and event.chain > 1:
                self.action_go()
        self.repaint()

    def _first(self) -> int:
        return max(0, min(self._index - MOST + 1, len(self.items) - MOST)) if len(self.items) > MOST else 0

    def compose_lines(self, width: int) -> Sequence[Line]:
        self._exits_at = []
        first = self._first()
        shown = self.items[first : first + MOST]
        kind = max((cell_len(attention_mark(item).word) for item in shown), default=0) + 2
        subject = min(max((cell_len(clean(item.subject)) for item in shown), default=0), max(8, width // 5))
        exits = max((width_of(self._exits(item, True)) for item in shown), default=0)
        if width < 60:
            exits = 0
        exits = min(exits, width // 2)
        return [
            self._line(y, item, first + y == self._index, width, kind, subject, exits) for y, item in enumerate(shown)
        ]

    def _exits(self, item: Attention, selected: bool) -> Line:
        spans: list[Span] = []
        for number, way in enumerate(item.exits[:9], start=1):
            if spans:
                spans.append(("  ", "muted"))
            spans.append((f" {number} " if selected else "   ", "key" if selected else "muted"))
            spans.append((f" {clean(way.label)}", "text" if selected else "muted"))
        return tuple(spans)

    def _line(
        self, y: int, item: Attention, selected: bool, width: int, kind: int, subject: int, exits: int
    ) -> Line:
        mark = attention_mark(item)
        spans: list[Span] = [
            ("▸" if selected and len(self.items) > 1 else " ", "key" if self.has_focus else "muted"),
            (fit(f"{mark.glyph} {mark.word}", kind), mark.look),
            ("  ", "text"),
            (fit(cut_middle(clean(item.subject), subject), subject), "strong"),
            ("  ", "text"),
        ]
        ways = self._exits(item, selected)
        room = width - width_of(spans) - (exits + 2 if exits else 0)
        text = clean(item.text)
        if item.since is not None and room > cell_len(text) + 14:
            text += f" · {duration(now_of(self) - item.since)} ago"
        if room > 4:
            spans.append((fit(cut_end(text, room), room), "text"))
        if not exits and selected and item.exits and width >= 24:
            # Narrow: the exits of the selected item take the place of its text.
            used = width_of(spans[:3])
            spans = [*spans[:3], (fit(cut_middle(clean(item.subject), 12), 12), "strong"), (" ", "text")]
            if used + 13 + width_of(ways) > width:
                spans = spans[:2]
        start = width_of(spans)
        if exits:
            spans.append(("  ", "text"))
            start += 2
        if exits or selected:
            for number, way in enumerate(item.exits[:9], start=1):
                length = cell_len(clean(way.label)) + 4
                self._exits_at.append((y, start, start + length, number))
                start += length + 2
            spans.extend(ways)
        return tuple(spans)


def exit_by_number(item: Attention | None, number: int) -> Exit | None:
    """The ``number``-th way out of ``item``, from 1."""
    if item is None or not 1 <= number <= len(item.exits):
        return None
    return item.exits[number - 1]
