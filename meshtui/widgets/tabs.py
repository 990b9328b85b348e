"""A line of tabs: the lists of the queue, the parts of the details."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from textual import events
from textual.message import Message

from meshtui.widgets.paint import Line, Painted, Span


class TabSpec(NamedTuple):
    """One tab."""

    id: str
    title: str
    number: str = ""
    look: str = "muted"
    """Of the number."""


class TabLine(Painted):
    """Tabs in one line; those that do not fit are reached all the same, the chosen one is always in sight."""

    class Chosen(Message):
        """A tab was clicked."""

        def __init__(self, line: TabLine, tab: str) -> None:
            super().__init__()
            self.line = line
            self.tab = tab

        @property
        def control(self) -> TabLine:
            return self.line

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.tabs: tuple[TabSpec, ...] = ()
        self.chosen = ""
        self._at: list[tuple[int, int, str]] = []

    def show(self, tabs: Sequence[TabSpec], chosen: str) -> None:
        """Draw ``tabs`` with ``chosen`` marked."""
        self.tabs, self.chosen = tuple(tabs), chosen
        self.repaint()

    def compose_lines(self, width: int) -> Sequence[Line]:
        gap = 3
        sizes = [
            cell_len(title) + (cell_len(count) + 1 if count else 0) for _tab, title, count, _look in self.tabs
        ]
        chosen = next((index for index, tab in enumerate(self.tabs) if tab[0] == self.chosen), 0)
        if sum(sizes) + gap * len(sizes) > width:
            gap = 2
        first = 0
        while first < chosen and sum(sizes[first : chosen + 1]) + gap * (chosen - first) + 4 > width:
            first += 1
        self._at = []
        spans: list[Span] = [("‹" if first else " ", "muted")]
        x = 1
        for index, (tab, title, count, look) in enumerate(self.tabs[first:], start=first):
            if x + sizes[index] > width and index > first:
                if x <= width:
                    spans.append(("›", "muted"))
                break
            marked = tab == self.chosen
            spans.append((title, "tab" if marked else "muted"))
            if count:
                spans.append((" ", "text"))
                spans.append((count, "strong" if marked and look == "muted" else look))
            self._at.append((x, x + sizes[index], tab))
            spans.append((" " * gap, "text"))
            x += sizes[index] + gap
        return (tuple(spans),)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        for start, end, tab in self._at:
            if start <= offset.x < end:
                self.post_message(self.Chosen(self, tab))
                break
