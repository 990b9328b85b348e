"""Choosing text in a text pane, with the mouse or by lines with the keys, and copying it as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual import events
from textual.geometry import Offset
from textual.selection import Selection

from meshtui.text import number

if TYPE_CHECKING:
    from textual.widget import Widget

    from meshtui.widgets.document import Document

    _Base = Widget
else:
    _Base = object

MOST_COPIED: Final = 4 << 20
"""Characters copied at most."""


class Marking(_Base):
    """Mixed into a text pane."""

    doc: Document
    pointer: int

    if TYPE_CHECKING:

        @property
        def top(self) -> tuple[int, int]: ...

        def keep_in_sight(self, index: int) -> None: ...

        def tell_moved(self) -> None: ...

        def stop_following(self) -> None: ...

        def point(self, index: int) -> None: ...

        def open_target(self, target: object) -> None: ...

        @property
        def opens(self) -> bool: ...

        def action_fold(self) -> None: ...

    def _start_marking(self) -> None:
        self._mark: tuple[int, int] | None = None
        """The line where marking began, and where it has come to."""

    @property
    def marking(self) -> bool:
        """Whether lines are marked."""
        return self._mark is not None

    @property
    def marked(self) -> tuple[int, int] | None:
        """The first and the last marked line."""
        return (min(self._mark), max(self._mark)) if self._mark is not None else None

    def is_marked(self, index: int) -> bool:
        """Whether line ``index`` is marked."""
        marked = self.marked
        return marked is not None and marked[0] <= index <= marked[1]

    def drop_mark(self) -> None:
        """Mark nothing any more."""
        if self._mark is not None:
            self._mark = None
            self.refresh()
            self.tell_moved()

    def drop_selection(self) -> None:
        """Forget what the mouse chose here."""
        if self.is_mounted and self.text_selection is not None:
            self.screen.clear_selection()

    def extend_mark(self, by: int) -> None:
        """Mark up to ``by`` lines further; begins where the pointer or the first line in sight is."""
        last = len(self.doc) - 1
        if last < 0:
            return
        self.stop_following()
        if self._mark is None:
            start = self.pointer if self.doc.pointed else self.top[0]
            self._mark = (start, start)
        else:
            head = max(0, min(self._mark[1] + by, last))
            self._mark = (self._mark[0], head)
        self.pointer = self._mark[1]
        self.keep_in_sight(self._mark[1])
        self.refresh()
        self.tell_moved()

    def action_mark_lines(self) -> None:
        if self.marking:
            self.drop_mark()
        else:
            self.drop_selection()
            self.extend_mark(0)

    def action_extend(self, by: int) -> None:
        self.drop_selection()
        self.extend_mark(by)

    # The mouse's

    def on_click(self, event: events.Click) -> None:
        widget, at = self.screen.get_widget_and_offset_at(event.screen_x, event.screen_y)
        if widget is not self or at is None or not 0 <= at.y < len(self.doc):
            return
        if event.chain > 1 and not self.doc.pointed:
            self._choose_around(at, line=event.chain > 2)
        elif self.text_selection is None:
            again = at.y == self.pointer or event.chain > 1
            if self.doc.pointed:
                self.point(at.y)
            target = self.doc.line(at.y).target
            if target is not None and not self.doc.pointed:
                self.open_target(target)
            elif again and self.opens:
                self.action_fold()

    def _choose_around(self, at: Offset, *, line: bool) -> None:
        """Choose the word that was clicked, or its line."""
        text = self.doc.shape(at.y).text
        begin, end = 0, len(text)
        if not line:
            begin = end = min(at.x, max(0, len(text) - 1))
            while begin > 0 and not text[begin - 1].isspace():
                begin -= 1
            while end < len(text) and not text[end].isspace():
                end += 1
        self.screen.selections = {self: Selection(Offset(begin, at.y), Offset(end, at.y))}

    def text_select_all(self) -> None:
        """A second click chooses a word here, and not everything."""

    def selected_in(self, index: int, length: int) -> tuple[int, int] | None:
        """What the mouse chose of line ``index``: begin and end, in characters."""
        selection = self.text_selection
        span = selection.get_span(index) if selection is not None else None
        if span is None:
            return None
        begin, end = span
        return begin, length if end < 0 else end

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The chosen text, as it is and not as it is wrapped."""
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else len(self.doc) - 1
        lines = self._copy(first, last)
        if not lines:
            return None
        if selection.end is not None and len(lines) == last - first + 1:
            lines[-1] = lines[-1][: selection.end.x]
        if selection.start is not None:
            lines[0] = lines[0][selection.start.x :]
        return "\n".join(lines), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        if selection is not None:
            self.drop_mark()
            self.stop_following()
        self.refresh()
        self.tell_moved()

    # Copying

    def _copy(self, first: int, last: int) -> list[str]:
        lines, size = [], 0
        for text in self.doc.texts(first, last):
            size += len(text) + 1
            if size > MOST_COPIED:
                break
            lines.append(text)
        return lines

    def action_copy_marked(self) -> None:
        """Copy the marked lines."""
        self.action_copy_text()

    def action_copy_text(self) -> None:
        """Copy what is marked or chosen, else what is pointed at, else, if it is not too much, all of it."""
        marked = self.marked
        if marked is not None:
            lines = self._copy(*marked)
            self._to_clipboard("\n".join(lines), len(lines), marked[1] - marked[0] + 1)
            self.drop_mark()
            return
        chosen = self.screen.get_selected_text()
        if chosen:
            self._to_clipboard(chosen, chosen.count("\n") + 1)
            return
        value = self.doc.copied(self.pointer) if self.doc.pointed else None
        if value is not None:
            self._to_clipboard(value, value.count("\n") + 1)
            return
        lines = self._copy(0, len(self.doc) - 1)
        if len(lines) < len(self.doc):
            self.app.notify(
                "This is too much to copy: mark lines first (V)", severity="warning", markup=False
            )
        elif lines:
            self._to_clipboard("\n".join(lines), len(lines))

    def _to_clipboard(self, text: str, lines: int, wanted: int | None = None) -> None:
        self.app.copy_to_clipboard(text)
        cut = f" of {number(wanted)}" if wanted is not None and wanted > lines else ""
        self.app.notify(
            f"Copied {number(lines)}{cut} line{'' if lines == 1 and not cut else 's'}",
            timeout=3,
            markup=False,
        )
