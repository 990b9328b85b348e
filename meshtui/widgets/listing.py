"""A list of records of any length: only the lines in sight are ever made.

The selection belongs to a record and not to a line number. A refresh compares the lines in sight and
draws those that changed; rows out of sight cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from meshtui.commands import bindings, key_of
from meshtui.filters import Fields, Filter, parse
from meshtui.status import MARKED
from meshtui.text import clean, cut_end, wrap
from meshtui.widgets.arranging import Arranger, Order
from meshtui.widgets.columns import Layout
from meshtui.widgets.paint import Line, Painter, now_of


class Keyed(Protocol):
    """What a list shows: something with a key of its own."""

    @property
    def key(self) -> str: ...


R = TypeVar("R", bound=Keyed)


class ListTable(Painter, ScrollView, Generic[R], can_focus=True):
    """Rows of one kind; what they look like is the subclass's."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("table")]
    FIELDS: ClassVar[Fields]
    """What its rows can be filtered by."""

    class Rearranged(Message):
        """Marks, the filter or the order changed by hand, or marked records went away."""

        def __init__(self, table: ListTable[Any]) -> None:
            super().__init__()
            self.table = table

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rows: tuple[R, ...] = ()
        self.marks: set[str] = set()
        """The keys of the marked records."""
        self.nothing_matches: str | None = None
        """What to say where the filter leaves nothing, if not the usual."""
        self.lines_drawn = 0
        """How many lines were made since the start; what a refresh costs."""
        self._source: tuple[R, ...] = ()
        self._arranger: Arranger[R] = Arranger(self.FIELDS)
        self._places: Sequence[int] | None = None
        """The places of ``rows`` among all, where a filter or an order is on."""
        self._cursor = 0
        self._selected: R | None = None
        self._drawn: dict[int, tuple[Line, str | None]] = {}
        self._empty_hint: str | None = None

    # What a kind of rows decides

    def layout_of(self, width: int) -> Layout:
        """The columns in ``width`` cells."""
        raise NotImplementedError

    def selectable(self, row: R) -> bool:
        """Whether the cursor may stand on ``row``."""
        return True

    def hint(self) -> str:
        """What an empty list says."""
        raise NotImplementedError

    def announce(self, row: R | None) -> None:
        """Tell that another row is selected, or that the selected one changed."""
        raise NotImplementedError

    def opened(self, row: R) -> None:
        """Tell that ``row`` is to be looked at."""
        raise NotImplementedError

    @property
    def selected(self) -> R | None:
        """The record under the cursor."""
        return self._selected

    @property
    def cursor(self) -> int:
        """The line of the selected record, from 0."""
        return self._cursor

    @property
    def all_rows(self) -> tuple[R, ...]:
        """What the list holds, shown or not."""
        return self._source

    @property
    def filter(self) -> Filter:
        """What narrows the list."""
        return self._arranger.filter

    @property
    def order(self) -> Order | None:
        """The column it is sorted by, ``None`` in its own order."""
        return self._arranger.order

    # What is shown

    def take(self, rows: tuple[R, ...], *, hint: str | None = None) -> None:
        """Show ``rows``; the selected one stays selected where it still stands."""
        self._empty_hint = hint
        if rows is not self._source:
            self._source = rows
            self._forget_gone_marks()
            self._take(self._arranged(rows))
        self.repaint()

    def show_matching(self, text: str) -> Filter:
        """Show only rows that the filter ``text`` means, and return what was understood of it."""
        if text != self._arranger.filter.text:
            self._arranger.narrow(parse(text, self.FIELDS))
            self._rearrange()
        return self._arranger.filter

    def sort(self, order: Order | None) -> None:
        """Sort by a column, ``None`` for the list's own order; the selected record stays selected."""
        if order != self._arranger.order:
            self._arranger.order = order
            self._rearrange()

    def tick(self) -> None:
        """Let times go on: what is drawn, and what a filter by age means."""
        if self._arranger.due(now_of(self)):
            self._take(self._arranged(self._source))
        self.repaint()

    def _rearrange(self) -> None:
        self._take(self._arranged(self._source))
        self.refresh()
        self.post_message(self.Rearranged(self))

    def _arranged(self, rows: tuple[R, ...]) -> tuple[R, ...]:
        """``rows`` as filter and order have them; notes their places."""
        shown, self._places = self._arranger.arrange(rows, now_of(self))
        return shown

    def select(self, key: str) -> bool:
        """Select the record ``key``, if it is listed."""
        found = self._find(key, self._cursor)
        if found is None:
            return False
        self._move(found)
        return True

    def _take(self, rows: tuple[R, ...]) -> None:
        before, key = self._cursor, self._selected.key if self._selected is not None else None
        top = self.scroll_offset.y
        self.rows = rows
        self._resize()
        found = self._find(key, before) if key is not None else None
        self._cursor = found if found is not None else self._landing(before, 1)
        if found is not None and found != before:
            self._scroll_top(max(0, top + found - before))
        self._scroll_to_cursor()
        self._announce()

    def _find(self, key: str | None, near: int) -> int | None:
        """The line of ``key``, looked for outwards from ``near``: records move by few lines."""
        rows, count = self.rows, len(self.rows)
        if not key or not count:
            return None
        near = max(0, min(near, count - 1))
        for distance in range(count):
            low, high = near - distance, near + distance
            if low >= 0 and rows[low].key == key:
                return low
            if high < count and rows[high].key == key:
                return high
            if low < 0 and high >= count:
                break
        return None

    def _announce(self) -> None:
        row = self.rows[self._cursor] if self._cursor < len(self.rows) else None
        row = row if row is None or self.selectable(row) else None
        if row is not self._selected and row != self._selected:
            self._selected = row
            self.announce(row)

    def _resize(self) -> None:
        size = Size(0, len(self.rows) + 1)
        page = self.container_size.height
        if page and (size.height > page) == (self.virtual_size.height > page):
            # The scroll bar neither comes nor goes: no other widget has to be laid out again.
            self.set_reactive(Widget.virtual_size, size)
            self._scroll_update(size)
        else:
            self.virtual_size = size

    # The cursor

    @property
    def _page(self) -> int:
        return max(1, self.scrollable_content_region.height - 1)

    def _landing(self, line: int, step: int) -> int:
        """The line nearest to ``line`` where the cursor may stand, looked for in the direction ``step`` first."""
        last = len(self.rows) - 1
        line = max(0, min(line, last))
        for direction in (step, -step):
            at = line
            while 0 <= at <= last:
                if self.selectable(self.rows[at]):
                    return at
                at += direction
        return line

    def _move(self, line: int) -> None:
        self._cursor = self._landing(line, 1 if line >= self._cursor else -1)
        self._scroll_to_cursor()
        self._announce()
        self.repaint()

    def _scroll_top(self, line: int) -> None:
        self.scroll_to(y=line, animate=False, force=True)

    def _scroll_to_cursor(self) -> None:
        top, page = self.scroll_offset.y, self._page
        first = self._cursor
        while first > 0 and not self.selectable(self.rows[first - 1]):
            # The headings of the selected row stay in sight with it.
            first -= 1
        if first < top and self._cursor < first + page:
            self._scroll_top(first)
        elif self._cursor < top:
            self._scroll_top(self._cursor)
        elif self._cursor >= top + page:
            self._scroll_top(self._cursor - page + 1)

    def action_down(self) -> None:
        self._move(self._cursor + 1)

    def action_up(self) -> None:
        self._move(self._cursor - 1)

    def action_top(self) -> None:
        self._move(0)

    def action_bottom(self) -> None:
        self._move(len(self.rows) - 1)

    def action_page_down(self) -> None:
        self._move(self._cursor + max(1, self._page // 2))

    def action_page_up(self) -> None:
        self._move(self._cursor - max(1, self._page // 2))

    def action_open(self) -> None:
        if self._selected is not None:
            self.opened(self._selected)

    def next_match(self, by: int, *, around: bool = False) -> bool:
        """Select the next row that the filter means, or the one before; whether there is one this way."""
        last = len(self.rows) - 1
        ways = range(self._cursor + by, last + 1 if by > 0 else -1, by)
        if around:
            ways = range(0 if by > 0 else last, last + 1 if by > 0 else -1, by)
        for line in ways:
            if self.selectable(self.rows[line]):
                self._move(line)
                return True
        return False

    # Marks

    @property
    def marked(self) -> tuple[R, ...]:
        """The marked records in the list's own order, whether the filter shows them or not."""
        marks = self.marks
        return tuple(row for row in self._source if row.key in marks) if marks else ()

    @property
    def hidden_marks(self) -> int:
        """How many of them the filter hides."""
        if not self.marks or self._places is None:
            return 0
        return len(self.marks) - sum(1 for row in self.rows if row.key in self.marks)

    def unmark(self) -> None:
        """Mark nothing."""
        if self.marks:
            self.marks = set()
            self._marks_changed()

    def _marks_changed(self) -> None:
        self.repaint()
        self.post_message(self.Rearranged(self))

    def _forget_gone_marks(self) -> None:
        if self.marks:
            here = self.marks & {row.key for row in self._source}
            if len(here) != len(self.marks):
                self.marks = here
                self.post_message(self.Rearranged(self))

    def action_mark(self) -> None:
        if self._selected is not None:
            self.marks = self.marks ^ {self._selected.key}
            self._marks_changed()
            self.action_down()

    def action_mark_all(self) -> None:
        shown = {row.key for row in self.rows if self.selectable(row)}
        self.marks = self.marks - shown if shown <= self.marks else self.marks | shown
        self._marks_changed()

    def action_sort(self) -> None:
        columns = [column for column, _width in self.layout_of(max(1, self.size.width - 2)).columns]
        self.sort(Order.after(self._arranger.order, columns))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if offset.y < 1:
            column = self.layout_of(max(0, self.scrollable_content_region.width - 2)).at(offset.x - 1)
            if column is not None:
                self.sort(Order.clicked(self._arranger.order, column))
            return
        line = self.scroll_offset.y + offset.y - 1
        if line < len(self.rows):
            again = line == self._cursor
            self._move(line)
            if event.ctrl and self._selected is not None:
                self.marks = self.marks ^ {self._selected.key}
                self._marks_changed()
            elif again or event.chain > 1:
                self.action_open()

    def on_resize(self) -> None:
        self._scroll_to_cursor()

    def on_focus(self) -> None:
        self.repaint()

    def on_blur(self) -> None:
        self.repaint()

    # Drawing

    def repaint(self) -> None:
        """Draw the lines in sight that changed."""
        if not self._drawn:
            return
        width = self.scrollable_content_region.width
        changed = [y for y, drawn in self._drawn.items() if self._line(y, width) != drawn]
        if changed:
            self.refresh(*(Region(0, y, width, 1) for y in changed))

    def line_of(self, row: R, index: int, width: int) -> Line:
        """One row in ``width`` cells."""
        return self.layout_of(width).line(row, index, now_of(self))

    def place_of(self, index: int) -> int:
        """The place of the ``index``-th shown row among all, from 0."""
        return self._places[index] if self._places is not None else index

    def _line(self, y: int, width: int) -> tuple[Line, str | None]:
        """What stands in line ``y`` of the widget, and on which look."""
        self.lines_drawn += 1
        inner = max(0, width - 2)
        if y == 0:
            return ((" ", "muted"), *self.layout_of(inner).head(self._arranger.order)), None
        index = self.scroll_offset.y + y - 1
        if index < len(self.rows):
            row = self.rows[index]
            line = self.line_of(row, self.place_of(index), inner)
            on = None if index != self._cursor else "cursor" if self.has_focus else "cursor-blur"
            mark = (MARKED.glyph, MARKED.look) if row.key in self.marks else (" ", "text")
            return (mark, *line), on
        if not self.rows:
            return (self._empty(y, width), None)
        return (), None

    def _empty(self, y: int, width: int) -> Line:
        text = self._empty_hint or self.hint()
        if self.filter:
            text = (
                self.nothing_matches
                or f"Nothing here matches {clean(self.filter.text)}: {key_of('back')} drops the filter"
            )
        lines = [piece for line in text.split("\n") for piece in wrap(line, width - 2)]
        if not 2 <= y < 2 + len(lines):
            return ()
        return ((" " + cut_end(lines[y - 2], width - 2), "muted"),)

    def render_lines(self, crop: Region) -> list[Strip]:
        height = self.scrollable_content_region.height
        for y in [y for y in self._drawn if y >= height]:
            del self._drawn[y]
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        line, on = self._drawn[y] = self._line(y, width)
        return self.strip(line, width, cursor=on)
