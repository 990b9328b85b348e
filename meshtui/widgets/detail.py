"""The selected record, in four parts: envelope, live output, result, handoff."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message

from meshtui.core.view import Detail, Row
from meshtui.messages import OutputRead
from meshtui.text import clean, cut_middle
from meshtui.widgets.describe import DESCRIBE
from meshtui.widgets.paint import now_of
from meshtui.widgets.prose import Fact, Item, Prose, Ready
from meshtui.widgets.tabs import TabLine, TabSpec

Part = Literal["envelope", "output", "result", "handoff"]
PARTS: tuple[Part, ...] = ("envelope", "output", "result", "handoff")


class DetailPane(Vertical):
    """Tabs over the text of the chosen part."""

    class PartChosen(Message):
        """Another part is shown; ``output`` has to be followed."""

        def __init__(self, part: Part) -> None:
            super().__init__()
            self.part: Part = part

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.part: Part = "envelope"
        self.row: Row | None = None
        self.detail: Detail | None = None
        self.output: OutputRead | None = None

    def compose(self) -> ComposeResult:
        yield TabLine(id="parts")
        yield Prose(id="prose")

    def on_mount(self) -> None:
        self._draw(top=True)

    def show_row(self, row: Row | None) -> None:
        """Show what the list knows of ``row`` until its files are read."""
        another = row is None or self.row is None or row.key != self.row.key
        self.row = row
        if another:
            self.detail = None
            self.output = None
        self._draw(top=another)

    def show_detail(self, key: str, detail: Detail | None) -> None:
        """Show what was read of the record ``key``, if it is still the selected one."""
        if self.row is not None and self.row.key == key:
            self.detail = detail
            self._draw()

    def show_output(self, message: OutputRead) -> None:
        """Show the newest end of a call's output."""
        if self.row is not None and self.row.key == message.key:
            self.output = message
            if self.part == "output":
                self._draw()

    def choose(self, part: Part) -> None:
        """Show ``part``."""
        if part != self.part:
            self.part = part
            self._draw(top=True)
            self.post_message(self.PartChosen(part))

    def step(self, by: int) -> None:
        """Show the next part, or the one before."""
        self.choose(PARTS[(PARTS.index(self.part) + by) % len(PARTS)])

    def tick(self) -> None:
        """Let times go on."""
        if self.row is not None and self.row.section == "active" and self.part == "envelope":
            self._draw()

    def on_tab_line_chosen(self, event: TabLine.Chosen) -> None:
        event.stop()
        for part in PARTS:
            if part == event.tab:
                self.choose(part)

    def _draw(self, *, top: bool = False) -> None:
        if not self.query("#prose"):
            return
        title = clean(self.row.title) if self.row is not None else "Details"
        title = cut_middle(title, max(4, self.size.width - 8)) if self.size.width else title
        self.border_title = Content(title)
        self.query_one("#parts", TabLine).show(self._tabs(), self.part)
        prose = self.query_one("#prose", Prose)
        prose.show(self._items(), follows=self.part == "output", top=top)

    def _tabs(self) -> Sequence[TabSpec]:
        gates = ""
        if self.detail is not None and self.detail.handoff:
            values = self.detail.handoff.get("back_pressure")
            if isinstance(values, dict):
                gates = f"{sum(1 for value in values.values() if value == 'pass')}/{len(values)}"
        live = "●" if self.output is not None and self.output.live else ""
        return (
            TabSpec("envelope", "Envelope"),
            TabSpec("output", "Output", live, "run"),
            TabSpec("result", "Result"),
            TabSpec("handoff", "Handoff", gates),
        )

    def _items(self) -> Sequence[Item]:
        if self.row is None:
            return [Fact("", "Select an envelope to see what it asks for and how it went.", "muted")]
        if self.part == "output":
            return self._output()
        return DESCRIBE[self.part](self.row, self.detail, now_of(self))

    def _output(self) -> Sequence[Item]:
        if self.output is not None and self.output.lines:
            return [Ready(self.output.lines)]
        if self.output is not None and self.output.live:
            return [Fact("", "Nothing written yet; it appears here as it comes.", "muted")]
        if self.detail is None and self.row is not None and self.row.call_id:
            return [Fact("", "Reading…", "muted")]
        return [Fact("", "No output: the envelope was not run yet, or its call wrote nothing.", "muted")]
