"""The selected record, in four parts: envelope, live output, result, handoff."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from meshtui.core.view import CallView, Detail, Row
from meshtui.messages import OutputRead
from meshtui.text import clean
from meshtui.widgets.describe import DESCRIBE
from meshtui.widgets.document import Document
from meshtui.widgets.logs import CallLogs, call_facts
from meshtui.widgets.paint import now_of
from meshtui.widgets.pane import Outside, PartsPane
from meshtui.widgets.prose import Body, Item
from meshtui.widgets.tabs import TabSpec

SELECT = "Select an envelope to see what it asks for and how it went."
PARTS = ("envelope", "output", "result", "handoff")


class DetailPane(PartsPane):
    """The files of a record."""

    PARTS: ClassVar[tuple[str, ...]] = PARTS

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.row: Row | None = None
        self.detail: Detail | None = None
        self.empty = SELECT
        """What is said while no record is selected."""
        self.output: OutputRead | None = None
        self._logs = CallLogs()

    def show_row(self, row: Row | None) -> None:
        """Show what the list knows of ``row`` until its files are read."""
        another = row is None or self.row is None or row.key != self.row.key
        self.row = row
        if another:
            self.detail = None
            self.output = None
        self.draw(top=another)

    def say_empty(self, text: str) -> None:
        """Say ``text`` while no record is selected."""
        if text != self.empty:
            self.empty = text
            if self.row is None:
                self.draw()

    def show_detail(self, key: str, detail: Detail | None) -> None:
        """Show what was read of the record ``key``, if it is still the selected one."""
        if self.row is not None and self.row.key == key:
            self.detail = detail
            self.draw()

    def show_output(self, message: OutputRead) -> None:
        """Show the newest end of a call's output."""
        if self.row is not None and self.row.key == message.key:
            self.output = message
            if self.part == "output":
                self.draw()

    def on_unmount(self) -> None:
        self._logs.keep(())

    def tick(self) -> None:
        """Let times go on."""
        if self.row is not None and self.row.section == "active" and self.part == "envelope":
            self.draw()

    def title(self) -> str:
        return clean(self.row.title) if self.row is not None else "Details"

    def follows(self) -> bool:
        return self.part == "output"

    def live(self) -> bool:
        return self.output is None or self.output.live

    def tabs(self) -> Sequence[TabSpec]:
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

    def items(self) -> Sequence[Item]:
        if self.row is None:
            return [Body(self.empty, "muted")]
        if self.part == "output":
            return self._output()
        return DESCRIBE[self.part](self.row, self.detail, now_of(self))

    def _output(self) -> Sequence[Item]:
        if self.output is not None and self.output.live:
            return [Body("Nothing written yet; it appears here as it comes.", "muted")]
        if self.detail is None and self.row is not None and self.row.call_id:
            return [Body("Reading…", "muted")]
        return [Body("No output: the envelope was not run yet, or its call wrote nothing.", "muted")]

    @property
    def _call(self) -> CallView | None:
        """The call whose output is shown."""
        if self.output is not None and self.output.call is not None:
            return self.output.call
        return self.detail.call if self.detail is not None else None

    def document(self) -> Document | None:
        call = self._call if self.part == "output" else None
        return self._logs.of(call) if call is not None else None

    def json_value(self) -> tuple[Any, Path | None] | None:
        detail, call = self.detail, self._call
        if self.part == "output":
            return (call_facts(call), call.folder / "call.json") if call is not None else None
        if detail is None:
            return None
        value = {"envelope": detail.record, "result": detail.result, "handoff": detail.handoff}[self.part]
        return (value, None) if value is not None else None

    def outside(self) -> Outside | None:
        call = self._call
        if self.part == "output" and call is not None:
            doc = self.document()
            return Outside(doc.path if doc is not None else None)
        return None
