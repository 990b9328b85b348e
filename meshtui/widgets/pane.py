"""Details in parts: tabs over the text of the chosen one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message

from meshtui.text import cut_middle
from meshtui.widgets.prose import Item, Prose
from meshtui.widgets.tabs import TabLine, TabSpec


class PartsPane(Vertical):
    """What a pane shows, and in which parts, is the subclass's."""

    PARTS: ClassVar[tuple[str, ...]] = ()

    class PartChosen(Message):
        """Another part is shown; it may have to be read or followed."""

        def __init__(self, pane: PartsPane) -> None:
            super().__init__()
            self.pane = pane

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.part = self.PARTS[0]

    def compose(self) -> ComposeResult:
        yield TabLine(id="parts")
        yield Prose(id="prose")

    def on_mount(self) -> None:
        self.draw(top=True)

    @property
    def prose(self) -> Prose:
        """The text."""
        return self.query_one("#prose", Prose)

    # What a kind of pane decides

    def title(self) -> str:
        """What stands in the border, cleaned."""
        raise NotImplementedError

    def tabs(self) -> Sequence[TabSpec]:
        """The parts as tabs."""
        raise NotImplementedError

    def items(self) -> Sequence[Item]:
        """The text of the chosen part."""
        raise NotImplementedError

    def follows(self) -> bool:
        """Whether the text is followed at its end."""
        return False

    def choose(self, part: str) -> None:
        """Show ``part``."""
        if part != self.part and part in self.PARTS:
            self.part = part
            self.draw(top=True)
            self.post_message(self.PartChosen(self))

    def step(self, by: int) -> None:
        """Show the next part, or the one before."""
        self.choose(self.PARTS[(self.PARTS.index(self.part) + by) % len(self.PARTS)])

    def on_tab_line_chosen(self, event: TabLine.Chosen) -> None:
        event.stop()
        self.choose(event.tab)

    def draw(self, *, top: bool = False) -> None:
        """Show what there is now; ``top`` starts at its beginning."""
        if not self.query("#prose"):
            return
        title = self.title()
        title = cut_middle(title, max(4, self.size.width - 8)) if self.size.width else title
        self.border_title = Content(title)
        self.query_one("#parts", TabLine).show(self.tabs(), self.part)
        self.prose.show(self.items(), follows=self.follows(), top=top)
