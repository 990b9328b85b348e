"""The question about a parked envelope: why it stands, what speaks for that, and the ways out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from meshtui.core.lane.attention import span
from meshtui.core.lane.ways import way_out
from meshtui.core.view import Attention, Row
from meshtui.keymap import typed
from meshtui.screens.confirm import choice
from meshtui.screens.copying import copy_command
from meshtui.screens.keys_here import key_in
from meshtui.text import clean, moment
from meshtui.theme import MODALS
from meshtui.widgets.describe import spoken

ENGINES = ("claude", "codex", "grok", "command")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the operator decided."""

    action: Literal["retry", "drop"]
    engine: str | None = None
    deadline_seconds: float | None = None


def evidence_text(value: object) -> str:
    """Evidence of any shape as lines."""
    if isinstance(value, dict):
        return "\n".join(": ".join(spoken(key, item)) for key, item in value.items())
    if isinstance(value, list):
        return "\n".join(f"· {clean(item)}" for item in value)
    return clean(value)


class AnswerForm(ModalScreen[Answer]):
    """Dismisses with an :class:`Answer`, ``None`` to leave it parked."""

    CSS_PATH = MODALS
    # From the first moment: a letter typed ahead answers, and is not typed into a field.
    AUTO_FOCUS = "#leave"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave it parked", show=False, id="answer.leave"),
        Binding("left", "app.focus_previous", "The answer before", show=False, id="answer.before"),
        Binding("right", "app.focus_next", "The next answer", show=False, id="answer.next"),
        Binding("r", "retry", "Run it again, with what the fields say", show=False, id="answer.retry"),
        Binding("d", "drop", "Give it up: it counts as failed", show=False, id="answer.drop"),
        Binding(
            "f3", "copy_command", "Copy the command that does it", show=False, id="answer.copy", priority=True
        ),
        Binding("question_mark", "app.keys_here", "These keys", show=False, id="answer.keys"),
    ]

    def __init__(
        self,
        row: Row,
        item: Attention | None,
        question: dict[str, Any] | None,
        *,
        root: Path | None = None,
    ) -> None:
        super().__init__(classes="-ask")
        self.row = row
        self.root = root
        """The run directory, for the command line that does the same."""
        self.item = item
        self.question = question or {}

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog -form", can_focus=False) as dialog:
            dialog.border_title = Content(f"Answer {clean(self.row.title)}")
            keys = {name: key_in(self, f"answer.{name}") for name in ("copy", "leave")}
            dialog.border_subtitle = Content(
                f"{typed('app.keys_here', 'f1')} keys · {keys['copy']} copies command · "
                f"{keys['leave']} leaves it parked"
            )
            yield Static(self._facts(), classes="text")
            with Horizontal(classes="field"):
                yield Static("engine", classes="label")
                yield Input(placeholder=self.row.engine or "as the lane decides", id="engine", compact=True)
                yield Static("", id="engine-error", classes="error")
            with Horizontal(classes="field"):
                yield Static("seconds", classes="label")
                # What stalled twice at its deadline needs a longer one.
                longer = f"{self.row.budget_seconds * 2:g}" if self.row.budget_seconds else ""
                yield Input(longer, placeholder="as before", id="seconds", compact=True)
                yield Static("", id="seconds-error", classes="error")
            with Horizontal(classes="buttons"):
                yield choice("Leave it", key_in(self, "answer.leave"), "leave")
                yield choice("Run again", key_in(self, "answer.retry"), "retry")
                yield choice("Drop", key_in(self, "answer.drop"), "drop", danger=True)

    def _facts(self) -> Content:
        row, question = self.row, self.question
        cause = clean(
            question.get("cause")
            or (self.item.text if self.item is not None else row.error or "stalled twice")
        )
        parts: list[str | tuple[str, str]] = [(cause, "bold")]
        attempts = question.get("attempts", row.stalls or row.attempt)
        parts.append(
            f"\n{attempts} attempts" if not isinstance(attempts, list) else f"\n{len(attempts)} attempts"
        )
        if row.budget_seconds:
            parts.append(f", {span(row.budget_seconds)} each")
        if row.finished_at is not None:
            parts.append(f"\nparked {moment(row.finished_at)}")
        if question.get("evidence"):
            parts.append(("\n" + evidence_text(question["evidence"]), "$quiet"))
        return Content.assemble(*parts)

    def on_mount(self) -> None:
        for field in self.query(Input):
            field.cursor_blink = not getattr(self.app, "still", False)

    def _error(self) -> bool:
        engine, seconds = (
            self.query_one("#engine", Input).value.strip(),
            self.query_one("#seconds", Input).value.strip(),
        )
        wrong_engine = "" if not engine or engine in ENGINES else f"one of {', '.join(ENGINES)}"
        wrong_seconds = ""
        if seconds:
            try:
                wrong_seconds = "" if 0 < float(seconds) < float("inf") else "more than 0"
            except ValueError:
                wrong_seconds = "a number of seconds"
        self.query_one("#engine-error", Static).update(Content(wrong_engine))
        self.query_one("#seconds-error", Static).update(Content(wrong_seconds))
        wrong = bool(wrong_engine or wrong_seconds)
        self.query_one("#retry", Button).disabled = wrong
        return wrong

    @on(Input.Changed)
    def _typed(self) -> None:
        self._error()

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self.action_retry()

    @on(Button.Pressed)
    def _pressed(self, message: Button.Pressed) -> None:
        if message.button.id == "retry":
            self.action_retry()
        elif message.button.id == "drop":
            self.action_drop()
        else:
            self.dismiss(None)

    def action_drop(self) -> None:
        self.dismiss(Answer("drop"))

    def _retry(self) -> Answer:
        engine, seconds = (
            self.query_one("#engine", Input).value.strip(),
            self.query_one("#seconds", Input).value.strip(),
        )
        return Answer("retry", engine or None, float(seconds) if seconds else None)

    def action_retry(self) -> None:
        if not self._error():
            self.dismiss(self._retry())

    def action_copy_command(self) -> None:
        """Copy what running again would be."""
        if self._error() or self.root is None:
            copy_command(self, None)
            return
        answer = self._retry()
        options = ["--retry"]
        if answer.engine is not None:
            options += ["--engine", answer.engine]
        if answer.deadline_seconds is not None:
            options += ["--deadline-seconds", f"{answer.deadline_seconds:g}"]
        copy_command(self, way_out("answer", self.row.envelope_id, self.root, *options))

    def action_leave(self) -> None:
        self.dismiss(None)
