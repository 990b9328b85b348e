"""The line in which is typed what is looked for in a text, and how much was found."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Input

from meshtui.widgets.paint import Line, Painted


class Count(Painted):
    """How many matches there are, and which one is gone to."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def compose_lines(self, width: int) -> Sequence[Line]:
        look = "warn" if self.text == "not found" else "muted"
        return (((self.text.rjust(width - 1), look),),)


class FindLine(Horizontal):
    """Shown as long as something is looked for."""

    def compose(self) -> ComposeResult:
        yield Input(placeholder="search", compact=True)
        yield Count()

    def on_mount(self) -> None:
        self.field.cursor_blink = not getattr(self.app, "still", False)

    @property
    def field(self) -> Input:
        """Where is typed."""
        return self.query_one(Input)

    def show_count(self, text: str) -> None:
        """Say how many matches there are."""
        count = self.query_one(Count)
        if text != count.text:
            count.text = text
            count.repaint()
