"""Steering what runs: more time for it, an instruction for its session."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from meshtui.core.lane.ways import way_out
from meshtui.core.view import Row
from meshtui.keymap import typed
from meshtui.screens.confirm import choice
from meshtui.screens.copying import copy_command
from meshtui.screens.keys_here import key_in
from meshtui.text import clean, moment
from meshtui.theme import MODALS

MINUTES = (10, 30, 60)
"""What is offered beside a number of one's own."""
MOST_MINUTES = 10 * 365 * 24 * 60


class ExtendForm(ModalScreen[float]):
    """Dismisses with seconds, ``None`` to leave the deadline as it is."""

    CSS_PATH = MODALS
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave it", show=False, id="extend.leave"),
        Binding(
            "f3", "copy_command", "Copy the command that does it", show=False, id="extend.copy", priority=True
        ),
    ]

    def __init__(self, row: Row, root: Path) -> None:
        super().__init__(classes="-ask")
        self.row = row
        self.root = root

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog -form", can_focus=False) as dialog:
            dialog.border_title = Content(f"More time for {clean(self.row.title)}")
            keys = {name: key_in(self, f"extend.{name}") for name in ("copy", "leave")}
            dialog.border_subtitle = Content(
                f"{typed('app.keys_here', 'f1')} keys · {keys['copy']} copies command · {keys['leave']} leaves it"
            )
            due = self.row.deadline_at
            text = (
                f"Its deadline is {moment(due)}." if due is not None else "It has no deadline that is known."
            )
            yield Static(Content(f"{text} A retry will get the longer time, too."), classes="text")
            with Horizontal(classes="field"):
                yield Static("minutes", classes="label")
                yield Input(str(MINUTES[1]), id="minutes", compact=True)
                yield Static("", id="minutes-error", classes="error")
            with Horizontal(classes="buttons"):
                yield choice("Leave it", key_in(self, "extend.leave"), "leave")
                for minutes in MINUTES:
                    yield Button(f"+{minutes}", id=f"add-{minutes}", compact=True)

    def on_mount(self) -> None:
        field = self.query_one("#minutes", Input)
        field.cursor_blink = not getattr(self.app, "still", False)
        field.focus()

    def _seconds(self) -> float | None:
        try:
            minutes = float(self.query_one("#minutes", Input).value.strip())
        except ValueError:
            return None
        return minutes * 60 if 0 < minutes < MOST_MINUTES else None

    @on(Input.Changed)
    def _typed(self) -> None:
        wrong = "" if self._seconds() is not None else "a number of minutes"
        self.query_one("#minutes-error", Static).update(Content(wrong))

    @on(Input.Submitted)
    def _submitted(self) -> None:
        seconds = self._seconds()
        if seconds is not None:
            self.dismiss(seconds)

    @on(Button.Pressed)
    def _pressed(self, message: Button.Pressed) -> None:
        name = message.button.id or ""
        self.dismiss(float(name.removeprefix("add-")) * 60 if name.startswith("add-") else None)

    def action_copy_command(self) -> None:
        seconds = self._seconds()
        extend = None
        if seconds is not None:
            extend = way_out("extend", self.row.envelope_id, self.root, "--seconds", f"{seconds:g}")
        copy_command(self, extend)

    def action_leave(self) -> None:
        self.dismiss(None)


class MessageForm(ModalScreen[str]):
    """Dismisses with the instruction, ``None`` to send nothing."""

    CSS_PATH = MODALS
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Send nothing", show=False, id="message.leave"),
        Binding(
            "f3",
            "copy_command",
            "Copy the command that does it",
            show=False,
            id="message.copy",
            priority=True,
        ),
    ]

    def __init__(self, row: Row, root: Path, *, written: str = "", note: str = "") -> None:
        """``written`` is what was not taken before, and ``note`` why."""
        super().__init__(classes="-ask")
        self.row = row
        self.root = root
        self.written = written
        self.note = note

    def compose(self) -> ComposeResult:
        row = self.row
        with VerticalScroll(classes="dialog -form", can_focus=False) as dialog:
            dialog.border_title = Content(f"Message to {clean(row.story_id or row.title)}")
            keys = {name: key_in(self, f"message.{name}") for name in ("copy", "leave")}
            dialog.border_subtitle = Content(
                f"{typed('app.keys_here', 'f1')} keys · {keys['copy']} copies command · {keys['leave']} sends nothing"
            )
            if self.note:
                yield Static(Content(f"▲ {clean(self.note)}"), classes="note")
            when = "when it ends" if row.section == "active" else "ahead of the queue"
            whose = f"story {clean(row.story_id)}" if row.story_id else "phases without a story"
            yield Static(
                Content(f"It goes to the session of {whose} as its next phase, {when}."), classes="text"
            )
            with Horizontal(classes="field"):
                yield Static("message", classes="label")
                yield Input(self.written, placeholder="what it is to do", id="message", compact=True)
                yield Static("", id="message-error", classes="error")
            with Horizontal(classes="buttons"):
                yield choice("Leave it", key_in(self, "message.leave"), "leave")
                yield choice("Send", "enter", "send")

    def on_mount(self) -> None:
        field = self.query_one("#message", Input)
        field.cursor_blink = not getattr(self.app, "still", False)
        field.focus()

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self._send()

    @on(Button.Pressed)
    def _pressed(self, message: Button.Pressed) -> None:
        if message.button.id == "send":
            self._send()
        else:
            self.dismiss(None)

    def _send(self) -> None:
        text = self.query_one("#message", Input).value.strip()
        if text:
            self.dismiss(text)
            return
        self.query_one("#message-error", Static).update(Content("say what"))
        self.query_one("#message", Input).focus()

    def action_copy_command(self) -> None:
        text = self.query_one("#message", Input).value.strip()
        copy_command(
            self, way_out("message", self.row.envelope_id, self.root, "--text", text) if text else None
        )

    def action_leave(self) -> None:
        self.dismiss(None)
