"""A question before something is lost; "no" is selected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from meshtui.screens.keys_here import key_in, last_key_in
from meshtui.text import clean, cut_middle
from meshtui.theme import MODALS

LONGEST = 180
"""Cells of a command line that are shown; all of it is copied."""


def choice(label: str, key: str, name: str, *, danger: bool = False) -> Button:
    """A button that names its key."""
    text = Content.assemble((clean(label)), ("  ", ""), (key, "dim"))
    return Button(text, id=name, compact=True, classes="-danger" if danger else "")


class Question(ModalScreen[str]):
    """A title, what is at stake, and a row of answers; dismisses with the answer's name."""

    CSS_PATH = MODALS
    AUTO_FOCUS = "Button"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,n", "choose('no')", "No: leave it as it is", show=False, id="question.no"),
        Binding(
            "left,h,shift+tab", "app.focus_previous", "The answer before", show=False, id="question.before"
        ),
        Binding("right,l", "app.focus_next", "The next answer", show=False, id="question.next"),
        Binding(
            "c", "copy_command", "Copy the command line that does the same", show=False, id="question.copy"
        ),
        Binding("question_mark", "app.keys_here", "These keys", show=False, id="question.keys"),
    ]

    def __init__(self, question: str, loss: str, *, command: str | None = None, tone: str = "-ask") -> None:
        super().__init__(classes=tone)
        self.question = clean(question)
        self.loss = "\n".join(clean(line) for line in loss.split("\n"))
        self.command = command
        """The command line that does the same."""

    def answers(self) -> list[Button]:
        """The buttons, the harmless one first."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog", can_focus=False) as dialog:
            dialog.border_title = Content(self.question)
            with Vertical(classes="text"):
                for line in self.loss.split("\n"):
                    # What goes on in the next line stays behind its mark.
                    yield Static(Content(line.lstrip()), classes="item" if line.startswith("  ") else "line")
            if self.command is not None:
                yield Static(_shown(self.command, key_in(self, "question.copy")), classes="command")
                dialog.border_subtitle = Content(
                    f"{key_in(self, 'question.keys')} keys · {key_in(self, 'question.copy')} copies the command"
                )
            with Horizontal(classes="buttons"):
                yield from self.answers()

    @on(Button.Pressed)
    def _pressed(self, message: Button.Pressed) -> None:
        self.action_choose(message.button.id or "no")

    def action_choose(self, name: str) -> None:
        self.dismiss(name)

    def action_copy_command(self) -> None:
        if self.command is not None:
            self.app.copy_to_clipboard(self.command)
            self.app.notify("Copied the command", timeout=3, markup=False)


def _shown(command: str, key: str) -> Content:
    """A command line, cut where it names very many."""
    text = clean(command)
    if cell_len(text) > LONGEST:
        return Content.styled(f"$ {cut_middle(text, LONGEST)} ({key} copies all of it)", "$quiet")
    return Content.styled(f"$ {text}", "$quiet")


class Confirm(Question):
    """Asks whether to do what loses something; dismisses with ``yes`` or ``no``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "choose('yes')", "Yes: do it", show=False, id="question.yes")
    ]

    def __init__(self, question: str, loss: str, yes: str, *, command: str | None = None) -> None:
        super().__init__(question, loss, command=command)
        self.yes = yes

    def answers(self) -> list[Button]:
        return [
            choice("No", last_key_in(self, "question.no"), "no"),
            choice(self.yes, key_in(self, "question.yes"), "yes", danger=True),
        ]


class Several(Question):
    """Asks what to do with several at once; dismisses with the name of one of ``ways``, or ``no``.

    ``ways`` are ``(label, key, name)``; the last one is the one that loses something.
    """

    def __init__(
        self, question: str, loss: str, ways: Sequence[tuple[str, str, str]], *, command: str | None = None
    ) -> None:
        super().__init__(question, loss, command=command)
        self.ways = tuple(ways)

    def answers(self) -> list[Button]:
        last = len(self.ways) - 1
        return [
            choice("Leave them", key_in(self, "question.no"), "no"),
            *(choice(label, key, name, danger=at == last) for at, (label, key, name) in enumerate(self.ways)),
        ]

    def on_key(self, event: events.Key) -> None:
        for _label, key, name in self.ways:
            if event.key == key:
                event.stop()
                self.action_choose(name)
