"""A scrolled text of any size: wrapped or not, followed at its end, searched, marked and copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from meshtui.commands import bindings
from meshtui.widgets.document import Document, Lines
from meshtui.widgets.finding import Finding, overlay
from meshtui.widgets.lines import Rows, TextLine
from meshtui.widgets.marking import Marking
from meshtui.widgets.paint import Line, Painter, Span

NOTHING: Document = Lines(())
SIDE_STEP = 8
WHEEL_ROWS = 3
UNKNOWN = 1 << 20


class TextPane(Finding, Marking, Painter, ScrollView, can_focus=True):
    """Shows one :class:`Document`. A place is a line of it and a row of that line."""

    ALLOW_SELECT: ClassVar[bool] = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "scroll_down", "Down", show=False, id="detail.down"),
        Binding("k,up", "scroll_up", "Up", show=False, id="detail.up"),
        Binding("g,home", "scroll_home", "Start", show=False, id="detail.top"),
        Binding("G,end", "scroll_end", "End", show=False, id="detail.bottom"),
        Binding("ctrl+c,super+c", "copy_marked", "Copy", show=False, id="detail.copy"),
        Binding("left", "side(-1)", "Left", show=False, id="detail.left"),
        Binding("right", "side(1)", "Right", show=False, id="detail.right"),
        *bindings("text"),
        Binding("ctrl+d,pagedown,space", "page_down", "Page down", show=False, id="detail.page_down"),
        Binding("ctrl+u,pageup", "page_up", "Page up", show=False, id="detail.page_up"),
    ]

    class Moved(Message):
        """Something that is said of the text changed: its place, whether it is followed, its matches."""

        def __init__(self, pane: TextPane) -> None:
            super().__init__()
            self.pane = pane

    class Opened(Message):
        """Enter on something; ``target`` is what its line stands for."""

        def __init__(self, pane: TextPane, target: object) -> None:
            super().__init__()
            self.pane = pane
            self.target = target

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.doc: Document = NOTHING
        self.follows = False
        """Whether it stays at the end as the text grows."""
        self.wrap = True
        self.pointer = 0
        """The line pointed at, in a text that has such."""
        self._left = 0
        self._row = 0
        """The row of the first line that is at the top, where places are lines."""
        self._rows: Rows | None = None
        self._sight: list[tuple[int, int]] | None = None
        self._placing = False
        self._start_finding()
        self._start_marking()

    # What is shown

    def open(self, doc: Document, *, follow: bool = False, top: bool = True) -> None:
        """Show ``doc`` from its beginning, or, where it is followed, from its end."""
        another = doc is not self.doc
        if another:
            # What was not read yet had nothing to point at.
            first = top or not self.doc.pointed
            self.doc = doc
            self.drop_mark()
            if top:
                self.drop_selection()
                self.pointer = 0
            doc.prepare()
            if first and doc.pointed and len(doc) and doc.start() < self.page:
                self.pointer = doc.start()
        if top:
            self.follows = follow and doc.grows
            self._left = 0
        self.layout_again(top=top)
        self.feed_pump()
        if another:
            self.seek_again(stay=not top)

    def layout_again(self, *, top: bool = False) -> None:
        """Lay the text out again; the line at the top stays there unless the end is followed."""
        at = (0, 0) if top or self._rows is None else self.top
        self._rows = None
        if self.doc.pointed:
            self.pointer = max(0, min(self.pointer, len(self.doc) - 1))
        if self.follows:
            self.to_end()
        else:
            self.to_place(*at)
        self.refresh()
        self.tell_moved()

    @property
    def text_width(self) -> int:
        """Cells there are for a line."""
        # Before there is a size nothing is wrapped.
        return max(1, self.scrollable_content_region.width - 2) if self.size.width else UNKNOWN

    @property
    def rows(self) -> Rows:
        """The rows of the text in the width there is now."""
        rows = self._rows
        if rows is None or rows.width != self.text_width:
            self.doc.fit(self.text_width)
            self._here = None
            rows = self._rows = Rows(len(self.doc), self.doc.shape, self.text_width, self.wrap)
            self._sight = None
            self._resize()
        return rows

    @property
    def page(self) -> int:
        """Rows in sight."""
        return max(1, self.scrollable_content_region.height)

    def _resize(self) -> None:
        rows = self._rows
        if rows is None:
            return
        size, page = Size(0, rows.height(self.page)), self.container_size.height
        if size == self.virtual_size:
            return
        if page and (size.height > page) == (self.virtual_size.height > page):
            # The scroll bar neither comes nor goes: no other widget has to be laid out again.
            self.set_reactive(Widget.virtual_size, size)
            self._scroll_update(size)
        else:
            self.virtual_size = size

    def text(self) -> str:
        """Everything shown, as plain lines."""
        return "\n".join(self.doc.texts(0, len(self.doc)))

    def took_more(self) -> None:
        """The text has more, or became another: what the thread found is taken over."""
        before = len(self.doc)
        at, kept = self.top, self.pointer
        moved = self.doc.take()
        self._rows = None
        if moved:
            at, self.pointer = (max(0, at[0] + moved), at[1]), kept + moved
            self.drop_mark()
            self.drop_selection()
        if len(self.doc) < before:
            self.drop_mark()
            self.drop_selection()
        if self.doc.pointed:
            self.pointer = max(0, min(self.pointer, len(self.doc) - 1))
        if self.follows:
            self.to_end()
        else:
            self.to_place(*at)
        self.refresh()
        self.tell_moved()

    def tell_moved(self) -> None:
        """Say that what is said of the text may have changed."""
        if self.is_mounted:
            self.post_message(self.Moved(self))

    def on_resize(self) -> None:
        if self._rows is None or self._rows.width != self.text_width:
            self.layout_again()
            return
        self._sight = None
        if self._rows is not None:
            self._resize()
        if self.follows:
            self.to_end()

    def on_unmount(self) -> None:
        self.stop_pump()

    # Where it stands

    @property
    def top(self) -> tuple[int, int]:
        """The line and row at the top."""
        return self.rows.at(self.scroll_offset.y, self._row)

    @property
    def at_end(self) -> bool:
        """Whether the last row is in sight."""
        return self.top >= self.rows.last_top(self.page)

    def to_place(self, index: int, row: int = 0) -> None:
        """Bring a row to the top, as far as there is text for the rows below it."""
        rows = self.rows
        last = rows.last_top(self.page)
        index, row = max((0, 0), min((index, row), last))
        self._row = 0 if rows.exact else row
        self._sight = None
        self._resize()
        self._placing = True
        self.scroll_to(y=rows.place(index, row), animate=False, force=True)
        self._placing = False
        self.refresh()

    def to_end(self) -> None:
        """Bring the end to the bottom."""
        if self.doc.pointed:
            self.pointer = max(0, len(self.doc) - 1)
        self.to_place(*self.rows.last_top(self.page))

    def show_line(self, index: int, *, column: int | None = None) -> None:
        """Bring line ``index`` into sight, with some lines around it; of a long one the row of ``column``."""
        rows = self.rows
        row = 0
        if column is not None:
            for number, (begin, _end) in enumerate(rows.pieces(index)):
                row = number if begin <= column else row
        last = rows.move(*self.top, self.page - 1)
        if not self.top <= (index, row) <= last:
            self.to_place(*rows.move(index, row, -(self.page // 3)))
        if column is not None and not self.wrap and not self._left <= column < self._left + rows.width - 4:
            self._left = max(0, column - rows.width // 2)
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self._sight = None
            if not self._placing:
                # A scroll bar that was dragged knows only places.
                self._row = 0
                if new_value < old_value:
                    self.stop_following()
                self.tell_moved()

    def watch_show_vertical_scrollbar(self, show: bool) -> None:
        if show:
            # It was scrolled before there was a bar to show it.
            self.vertical_scrollbar.position = self.scroll_y
        # Lines are broken elsewhere now, though the widget is as large as it was.
        self.call_after_refresh(self.refresh)

    def move_rows(self, by: int) -> None:
        """Scroll by so many rows; up stops following."""
        before = self.top
        self.to_place(*self.rows.move(*before, by))
        if by < 0 and self.top < before:
            self.stop_following()
        self.tell_moved()

    def stop_following(self) -> None:
        """The end is not followed any more; said below the text."""
        if self.follows:
            self.follows = False
            self.feed_pump()
            self.tell_moved()

    def go_on_following(self) -> None:
        """Follow the end, if the text grows."""
        if self.doc.grows and not self.follows:
            self.follows = True
            self.feed_pump()
            self.tell_moved()

    def step(self, by: int) -> None:
        """A row down or up; where a line is pointed at, or lines are marked, a line."""
        if self.marking:
            self.extend_mark(by)
        elif self.doc.pointed:
            self.point(self.pointer + by)
        else:
            self.move_rows(by)

    def point(self, index: int) -> None:
        """Point at line ``index``."""
        self.pointer = max(0, min(index, len(self.doc) - 1))
        self.keep_in_sight(self.pointer)
        self.refresh()
        self.tell_moved()

    def keep_in_sight(self, index: int) -> None:
        """Scroll just so far that line ``index`` is seen."""
        rows, top = self.rows, self.top
        last = len(rows.pieces(index)) - 1 if len(self.doc) else 0
        if (index, 0) < top:
            self.to_place(index, 0)
        elif (index, last) > rows.move(*top, self.page - 1):
            self.to_place(*min((index, 0), rows.move(index, last, 1 - self.page)))

    def action_scroll_down(self) -> None:
        self.step(1)

    def action_scroll_up(self) -> None:
        self.step(-1)

    def action_scroll_home(self) -> None:
        self.stop_following()
        if self.marking:
            self.extend_mark(-len(self.doc))
        self.pointer = 0
        self.to_place(0)
        self.tell_moved()

    def action_scroll_end(self) -> None:
        if self.marking:
            self.extend_mark(len(self.doc))
        self.to_end()
        self.go_on_following()
        self.feed_pump()

    def action_page_down(self) -> None:
        self._page(max(1, self.page // 2))

    def action_page_up(self) -> None:
        self._page(-max(1, self.page // 2))

    def _page(self, by: int) -> None:
        if self.marking or self.doc.pointed:
            self.step(by)
        else:
            self.move_rows(by)

    def action_side(self, by: int) -> None:
        longest = max((len(self.doc.shape(index).text) for index, _row in self._in_sight()), default=0)
        self._left = max(0, min(self._left + by * SIDE_STEP, longest - self.text_width // 2))
        self.refresh()

    def action_follow(self) -> None:
        if self.follows:
            self.stop_following()
        else:
            self.action_scroll_end()

    def action_wrap(self) -> None:
        self.wrap = not self.wrap
        self._left = 0
        self.layout_again()

    def action_fold(self) -> None:
        at = self.doc.fold(self.pointer)
        if at is not None:
            self.pointer = at
            self.layout_again()
            self.keep_in_sight(self.pointer)
            return
        target = self.doc.line(self.pointer).target if len(self.doc) else None
        if target is not None:
            self.open_target(target)

    def open_target(self, target: object) -> None:
        """Have what a line stands for opened."""
        self.post_message(self.Opened(self, target))

    def action_fold_all(self) -> None:
        at = self.doc.fold_all(self.pointer)
        if at is not None:
            self.pointer = at
            self.layout_again()
            self.show_line(self.pointer)

    def action_jump(self, by: int) -> None:
        self._jump(by, big=False)

    def action_jump_file(self, by: int) -> None:
        self._jump(by, big=True)

    def _jump(self, by: int, *, big: bool) -> None:
        at = self.doc.jump(self.top[0], by, big)
        if at is not None:
            self.to_place(at)
            self.tell_moved()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether a key means this here; what means nothing here goes on to who else knows it."""
        if action in ("jump", "jump_file"):
            return self.doc.jumps
        if action == "follow":
            return self.doc.grows
        if action == "fold":
            return self.doc.pointed and len(self.doc) > 0 and self.opens
        if action == "fold_all":
            return self.doc.foldable
        if action == "side":
            return not self.wrap
        if action == "next_match":
            return self.needle is not None
        if action == "copy_marked":
            return self.marking
        return True

    @property
    def opens(self) -> bool:
        """Whether what is pointed at folds, or opens something."""
        return self.doc.folds(self.pointer) or self.doc.line(self.pointer).target is not None

    # The mouse

    def _on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.move_rows(WHEEL_ROWS)
        if self.at_end and self.doc.grows:
            self.go_on_following()

    def _on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.move_rows(-WHEEL_ROWS)

    # Drawing

    def _in_sight(self) -> list[tuple[int, int]]:
        """Line and row of each row in sight."""
        if self._sight is None:
            rows = self.rows
            self._sight = []
            if rows.count:
                index, row = self.top
                last = len(rows.pieces(index)) - 1
                while len(self._sight) < self.page and index < rows.count:
                    self._sight.append((index, row))
                    row += 1
                    if row > last:
                        index, row = index + 1, 0
                        last = len(rows.pieces(index)) - 1 if index < rows.count else 0
        return self._sight

    def render_lines(self, crop: Region) -> list[Strip]:
        _ = self.rows
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        sight = self._in_sight()
        if y >= len(sight):
            return self.blank(width)
        index, row = sight[y]
        line = self.doc.line(index)
        lead, spans, first = self.rows.draw(line, index, row, self._left)
        spans = self._overlaid(index, line, spans, first)
        ground = line.ground
        if self.doc.pointed and index == self.pointer and self.has_focus:
            ground = "cursor"
        if self.is_marked(index):
            ground = "marked"
        return self._strip_of(lead, spans, first, index, ground, width)

    def _overlaid(self, index: int, line: TextLine, spans: Line, first: int) -> Line:
        """``spans`` with what is found and selected in them."""
        found = self.found_in(index, line.text)
        chosen = self.selected_in(index, len(line.text))
        if chosen is not None:
            found = [*found, (*chosen, "marked")]
        if not found:
            return spans
        return overlay(spans, [(begin - first, end - first, look) for begin, end, look in found])

    def _strip_of(
        self, lead: Sequence[Span], spans: Line, first: int, index: int, ground: str | None, width: int
    ) -> Strip:
        before = [Segment(" ", self._style("text", ground))]
        before += [Segment(text, self._style(look, ground)) for text, look in lead if text]
        segments = [Segment(text, self._style(look, ground)) for text, look in spans if text]
        # An empty line is there to be chosen, too.
        room = max(0, width - sum(segment.cell_length for segment in before))
        body = Strip(segments or [Segment(" " * room, self._style("", ground))]).apply_offsets(first, index)
        return Strip([*before, *body]).adjust_cell_length(width, self._style("", ground))

    def on_focus(self) -> None:
        if self.doc.pointed:
            self.refresh()

    def on_blur(self) -> None:
        if self.doc.pointed:
            self.refresh()
