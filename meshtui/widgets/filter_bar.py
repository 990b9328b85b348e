"""The field above a list that narrows it, with what is wrong or missing in words below."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, Static

from meshtui.filters import Filter
from meshtui.text import clean, number
from meshtui.widgets.listing import ListTable


class _Field(Input):
    """Enter does what it does at once: a message would be overtaken by the keys that follow."""

    def __init__(self, leave: Callable[[], None], *, placeholder: str, id: str | None) -> None:
        super().__init__(placeholder=placeholder, id=id, compact=True)
        self._leave = leave

    async def action_submit(self) -> None:
        self._leave()


class FilterBar(Vertical):
    """Hidden until it is asked for; what is typed narrows ``table`` at once."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "leave", "To the list", show=False, id="filter.leave")
    ]

    def __init__(self, table: ListTable[Any], *, id: str | None = None, field: str | None = None) -> None:
        super().__init__(id=id, classes="filter-bar")
        self.table = table
        self._field = field
        self.display = False

    def compose(self) -> ComposeResult:
        with Horizontal(classes="line"):
            yield Static("/", classes="slash")
            yield _Field(self.action_leave, placeholder=self._placeholder, id=self._field)
            yield Static("", classes="count")
        yield Static("", classes="says")

    @property
    def _placeholder(self) -> str:
        fields = {one.kind: one for one in reversed(self.table.FIELDS.fields)}
        example = fields.get("choice")
        named = f" {example.name}:{next(iter(example.values))}" if example is not None else ""
        return f"words{named} age>10m -not"

    @property
    def field(self) -> Input:
        """Where it is typed."""
        return self.query_one(Input)

    def open(self) -> None:
        """Show it and type into it."""
        self.display = True
        # At once, and not after what is in the queue: the next letters are meant for it.
        self.screen.set_focus(self.field)
        self.draw()

    def drop(self) -> None:
        """Narrow nothing any more, and go."""
        self.field.value = ""
        self.table.show_matching("")
        self.display = False

    def draw(self) -> None:
        """Say how many rows match, and what is wrong or missing."""
        if not self.display or not self.is_mounted:
            return
        made = self.table.filter
        rows = sum(1 for row in self.table.rows if self.table.selectable(row)) if made else 0
        everything = len(self.table.all_rows)
        self.query_one(".count", Static).update(
            Content(f"{number(rows)} of {number(everything)}" if made else "")
        )
        text, wrong = self._says(made)
        says = self.query_one(".says", Static)
        says.set_class(wrong, "-wrong")
        says.update(Content(clean(text)))
        says.display = bool(text)

    def _says(self, made: Filter) -> tuple[str, bool]:
        if made.problems:
            # The last one is being typed.
            more = len(made.problems) - 1
            return f"▲ {made.problems[-1]}" + (f" · {more} more" if more else ""), True
        if made.hint is not None:
            return made.hint, False
        if self.field.has_focus and not made.text:
            return "fields: " + " ".join(made.fields.names), False
        return "", False

    @on(Input.Changed)
    def _typed(self, message: Input.Changed) -> None:
        message.stop()
        self.table.show_matching(message.value.strip())
        self.draw()

    def action_leave(self) -> None:
        """Go to the list; an empty filter goes away."""
        # At once, as in open(): the next keys are meant for the list.
        self.screen.set_focus(self.table)
        if not self.field.value.strip():
            self.drop()

    def on_descendant_focus(self) -> None:
        self.draw()

    def on_descendant_blur(self) -> None:
        self.draw()
