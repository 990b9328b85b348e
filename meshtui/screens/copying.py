"""A short menu of what can be copied: a number copies and closes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen

from meshtui.command_lines import Line
from meshtui.screens.keys_here import key_in
from meshtui.text import clean, cut_end, fit
from meshtui.theme import MODALS
from meshtui.widgets.paint import LOOK_CLASSES, Painted, Span
from meshtui.widgets.paint import Line as Drawn

MOST = 9


class Choices(Painted):
    """The numbered lines."""

    def __init__(self, lines: Sequence[Line]) -> None:
        super().__init__(id="choices")
        self.choices = tuple(lines)[:MOST]
        self.styles.height = len(self.choices)

    def compose_lines(self, width: int) -> Sequence[Drawn]:
        label = max(len(what) for what, _text in self.choices)
        drawn: list[Drawn] = []
        for number, (what, text) in enumerate(self.choices, start=1):
            spans: list[Span] = [(f" {number} ", "cap"), (f" {fit(what, label)}  ", "strong")]
            spans.append((cut_end(clean(text), max(0, width - label - 6)), "text"))
            drawn.append(tuple(spans))
        return drawn

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None and offset.y < len(self.choices):
            self.screen.dismiss(self.choices[offset.y])


class CopyMenu(ModalScreen[Line]):
    """Dismisses with the line that was chosen, ``None`` if none was."""

    CSS_PATH = MODALS
    COMPONENT_CLASSES = LOOK_CLASSES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,n", "leave", "Leave", show=False, id="copying.leave"),
        Binding("y,enter", "choose(1)", "The first", show=False, id="copying.first"),
        *(
            Binding(str(number), f"choose({number})", str(number), show=False, id=f"copying.choose{number}")
            for number in range(1, MOST + 1)
        ),
    ]

    def __init__(self, title: str, lines: Sequence[Line]) -> None:
        super().__init__()
        self._title = clean(title)
        self._lines = tuple(lines)

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog -copying", can_focus=False) as dialog:
            dialog.border_title = Content(f"Copy · {self._title}")
            dialog.border_subtitle = Content(
                f"a number copies · {key_in(self, 'copying.first')} the first · {key_in(self, 'copying.leave')} leaves"
            )
            yield Choices(self._lines)

    def action_choose(self, number: int) -> None:
        if number <= min(len(self._lines), MOST):
            self.dismiss(self._lines[number - 1])

    def action_leave(self) -> None:
        self.dismiss(None)


def ask_what_to_copy(app: App[Any], title: str, lines: Sequence[Line], tell: Callable[[str], object]) -> None:
    """Offer ``lines``, copy what is chosen, and say so."""

    def chosen(line: Line | None) -> None:
        if line is not None:
            app.copy_to_clipboard(line[1])
            what = line[1] if line[0] == "id" else f"the command: {line[0]}"
            tell(f"Copied {what}")

    app.push_screen(CopyMenu(title, lines), chosen)


def copy_command(screen: Screen[Any], command: str | None) -> None:
    """Copy the command line that does what a form is about to; rings where there is none yet."""
    if command is None:
        screen.app.bell()
        return
    screen.app.copy_to_clipboard(command)
    screen.app.notify("Copied the command", timeout=3, markup=False)
