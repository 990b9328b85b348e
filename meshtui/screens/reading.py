"""What the keys do with the text that is read: the whole screen for it, JSON, another program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshtui.commands import COMMANDS
from meshtui.widgets.pane import PartsPane
from meshtui.widgets.text_pane import TextPane

if TYPE_CHECKING:
    from textual.screen import Screen

    _Base = Screen[None]
else:
    _Base = object

HERE = frozenset({"zoom", "outside", "json"})
"""What can be done with any text in the details."""


class ReadingActions(_Base):
    """Mixed into the lane's screen, before what the other keys do."""

    if TYPE_CHECKING:

        @property
        def pane(self) -> PartsPane: ...

        def tell(self, text: str, severity: str = "information") -> None: ...

        def open_details(self) -> None: ...

        def draw_keys(self) -> None: ...

    def reading(self) -> frozenset[str] | None:
        """What can be done with the text that has the focus, by action; ``None`` while none has it."""
        text = self.focused
        if not isinstance(text, TextPane):
            return None
        found = set(HERE)
        if text is self.pane.prose and self.pane.part == "proof":
            found.add("verify")
        for command in COMMANDS:
            if command.scope == "text":
                name, _, inside = command.action.partition("(")
                parameters = (int(inside.rstrip(")")),) if inside else ()
                if text.check_action(name, parameters):
                    found.add(command.action)
        return frozenset(found)

    def reading_labels(self) -> dict[str, str]:
        """What some keys do just now, in other words, by action."""
        text, labels = self.focused, {}
        if isinstance(text, TextPane):
            if self.pane.as_json:
                labels["json"] = "as text"
            if self.has_class("-reading"):
                labels["zoom"] = "lists too"
            if not text.doc.foldable:
                labels["fold"] = "open log"
        return labels

    def on_parts_pane_read(self, message: PartsPane.Read) -> None:
        if message.pane is self.pane and message.pane.prose is self.focused:
            self.draw_keys()

    def action_zoom(self) -> None:
        if self.has_class("-reading"):
            self.remove_class("-reading")
        else:
            self.open_details()
            self.add_class("-reading")
        self.pane.prose.focus()
        self.draw_keys()

    def action_json(self) -> None:
        if not self.pane.toggle_json():
            self.tell("There is no JSON file behind this", "warning")
            return
        self.open_details()

    def action_outside(self) -> None:
        from meshtui.screens.outside import open_outside

        target = self.pane.shown_outside()
        problem = (
            open_outside(self.app, target, self.pane.prose.text) if target is not None else "Nothing is shown"
        )
        if problem is not None:
            self.tell(problem, "error")

    def action_back(self) -> None:
        if (self.pane.has_focus_within or self.has_class("-reading")) and self.pane.leave():
            return
        if self.has_class("-reading"):
            self.action_zoom()
            return
        super().action_back()  # type: ignore[misc]
