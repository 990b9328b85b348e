"""A question before something is lost; "no" is selected."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from meshtui.text import clean
from meshtui.theme import MODALS


def choice(label: str, key: str, name: str, *, danger: bool = False) -> Button:
    """A button that names its key."""
    text = Content.assemble((clean(label)), ("  ", ""), (key, "dim"))
    return Button(text, id=name, compact=True, classes="-danger" if danger else "")


class Question(ModalScreen[str]):
    """A title, what is at stake, and a row of answers; dismisses with the answer's name."""

    CSS_PATH = MODALS
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,n", "choose('no')", "No", show=False, id="question.no"),
        Binding("left,h,shift+tab", "app.focus_previous", "Before", show=False, id="question.before"),
        Binding("right,l", "app.focus_next", "Next", show=False, id="question.next"),
    ]

    def __init__(self, question: str, loss: str, *, tone: str = "-ask") -> None:
        super().__init__(classes=tone)
        self.question = clean(question)
        self.loss = "\n".join(clean(line) for line in loss.split("\n"))

    def answers(self) -> list[Button]:
        """The buttons, the harmless one first."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog", can_focus=False) as dialog:
            dialog.border_title = Content(self.question)
            yield Static(Content(self.loss), classes="text")
            with Horizontal(classes="buttons"):
                yield from self.answers()

    def on_mount(self) -> None:
        self.query(Button).first().focus()

    @on(Button.Pressed)
    def _pressed(self, message: Button.Pressed) -> None:
        self.action_choose(message.button.id or "no")

    def action_choose(self, name: str) -> None:
        self.dismiss(name)


class Confirm(Question):
    """Asks whether to do what loses something; dismisses with ``yes`` or ``no``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "choose('yes')", "Yes", show=False, id="question.yes")
    ]

    def __init__(self, question: str, loss: str, yes: str) -> None:
        super().__init__(question, loss)
        self.yes = yes

    def answers(self) -> list[Button]:
        return [choice("No", "n", "no"), choice(self.yes, "y", "yes", danger=True)]
