"""Leaving while a runner lives in the console: stop it, hand it over, or stay."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from meshtui.receipts import names
from meshtui.screens.confirm import Question, choice
from meshtui.screens.keys_here import key_in, last_key_in
from meshtui.theme import MODALS


class Leave(Question):
    """Dismisses with ``no``, ``stop`` or ``hand over``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "choose('stop')", "Stop and leave", show=False, id="leave.stop"),
        Binding("o", "choose('hand over')", "Hand over and leave", show=False, id="leave.hand_over"),
    ]

    def __init__(self, active: tuple[str, ...], lanes: int = 1, missions: tuple[str, ...] = ()) -> None:
        """``active`` is what the runners of ``lanes`` lanes work on now."""
        parts = []
        if lanes:
            runners = "the runner" if lanes == 1 else f"the {lanes} runners"
            stopping = f"Stop ends {runners}; what is pending waits."
            if active:
                it = "it" if len(active) == 1 else "each"
                work = "this attempt" if len(active) == 1 else "these attempts"
                stopping = f"Stop ends {names(active)} now and puts {it} back at the head: the work of {work} is lost."
            parts.append(stopping)
        if missions:
            name = "mission" if len(missions) == 1 else "missions"
            parts.append(
                f"Stop ends the calls of {name} {names(missions)}; a resume goes on from the last checkpoints."
            )
        parts.append("Hand over starts a detached runner, which adopts the running call and carries on.")
        what = f"{lanes} runners live" if lanes > 1 else "A runner lives" if lanes else "A mission runs"
        super().__init__(f"{what} in this console", " ".join(parts))

    def answers(self) -> list[Button]:
        return [
            choice("Stay", last_key_in(self, "question.no"), "no"),
            choice("Hand over", key_in(self, "leave.hand_over"), "handover"),
            choice("Stop", key_in(self, "leave.stop"), "stop", danger=True),
        ]

    def action_choose(self, name: str) -> None:
        self.dismiss("hand over" if name == "handover" else name)


class Leaving(ModalScreen[None]):
    """Says what is waited for."""

    CSS_PATH = MODALS

    def __init__(self, how: str) -> None:
        super().__init__(classes="-ask")
        self.how = how

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog", can_focus=False) as dialog:
            dialog.border_title = Content("Leaving")
            word = "Stopping the runner and its call…" if self.how == "stop" else "Handing over…"
            yield Static(Content(word), classes="text")
