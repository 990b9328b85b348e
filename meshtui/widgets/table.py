"""The lists of the queue: the records of one section."""

from __future__ import annotations

from textual.message import Message

from meshtui.core.view import Row, Section
from meshtui.filters import QUEUE
from meshtui.widgets.arranging import Order
from meshtui.widgets.columns import Layout, empty_text
from meshtui.widgets.listing import ListTable
from meshtui.widgets.paint import titles_of


class QueueTable(ListTable[Row]):
    """The rows of one section."""

    FIELDS = QUEUE

    class Highlighted(Message):
        """Another record is selected, or the selected one changed."""

        def __init__(self, row: Row | None) -> None:
            super().__init__()
            self.row = row

    class Opened(Message):
        """The selected record is to be looked at."""

        def __init__(self, row: Row) -> None:
            super().__init__()
            self.row = row

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.section: Section = "pending"
        self._remembered: dict[Section, tuple[str, set[str], Order | None]] = {}
        """Of each other section: what is selected, what is marked, and the order."""
        self._layout: tuple[int, Section, int, Layout] | None = None

    def show(self, section: Section, rows: tuple[Row, ...], *, hint: str | None = None) -> None:
        """Show ``rows``; the selected record stays selected where it still stands."""
        if section == self.section:
            self.take(rows, hint=hint)
            return
        self._empty_hint = hint
        self._change_section(section, rows)
        self.repaint()

    def _change_section(self, section: Section, rows: tuple[Row, ...]) -> None:
        self._remembered[self.section] = (
            self._selected.key if self._selected is not None else "",
            self.marks,
            self.order,
        )
        key, self.marks, order = self._remembered.get(section, ("", set(), None))
        self.section, self._source, self._arranger.order = section, rows, order
        self._forget_gone_marks()
        self.rows = self._arranged(rows)
        self._resize()
        found = self._find(key, 0)
        self._cursor = found or 0
        self._scroll_top(0)
        self._scroll_to_cursor()
        self._announce()
        self.refresh()
        self.post_message(self.Rearranged(self))

    def layout_of(self, width: int) -> Layout:
        digits = len(str(len(self._source)))
        known = self._layout
        if known is not None and known[:3] == (width, self.section, digits):
            return known[3]
        layout = Layout.of(self.section, width, len(self._source), titles_of(self, self.section))
        self._layout = (width, self.section, digits, layout)
        return layout

    def hint(self) -> str:
        return empty_text(self.section)

    def announce(self, row: Row | None) -> None:
        self.post_message(self.Highlighted(row))

    def opened(self, row: Row) -> None:
        self.post_message(self.Opened(row))
