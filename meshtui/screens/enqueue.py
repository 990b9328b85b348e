"""A new envelope: a form for what is usual, the raw JSON for everything, both checked while typing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Checkbox, Input, Static, TextArea

from meshtui.command_lines import of_envelope
from meshtui.core import strict_json
from meshtui.core.errors import InvalidInput
from meshtui.core.models.envelope import is_handoff_phase, validate_envelope, warnings_for
from meshtui.keymap import typed
from meshtui.screens.confirm import choice
from meshtui.screens.copying import copy_command
from meshtui.screens.keys_here import key_in
from meshtui.text import clean, cut_middle
from meshtui.theme import MODALS
from meshtui.widgets.paint import LOOK_CLASSES, now_of
from meshtui.widgets.tabs import TabLine, TabSpec

FIELDS: tuple[tuple[str, str, str], ...] = (
    ("id", "id", "made up if left empty"),
    ("story_id", "story", "phases of one story share a session"),
    ("phase", "phase", "e.g. backend"),
    ("engine", "engine", "claude, codex, grok or command"),
    ("deadline_seconds", "seconds", "what an attempt may take"),
    ("cd", "directory", "absolute; else the lane's repository"),
    ("result_path", "result to", "a file that gets the result"),
)
"""Key of the envelope, label, hint."""

TABS = (TabSpec("form", "Form"), TabSpec("json", "JSON"))
NUMBERS = ("deadline_seconds",)


class Tick(Checkbox):
    """A check box that is empty while it is off: without colours the mark itself has to tell."""

    BUTTON_INNER = " "

    def watch_value(self) -> None:
        self.BUTTON_INNER = "X" if self.value else " "
        super().watch_value()


class EnqueueForm(ModalScreen[dict[str, Any]]):
    """Dismisses with a valid envelope, ``None`` if there is none to add."""

    CSS_PATH = MODALS
    COMPONENT_CLASSES = LOOK_CLASSES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave without doing anything", show=False, id="enqueue.leave"),
        Binding(
            "ctrl+s", "add", "Add it, or save what was changed", show=False, priority=True, id="enqueue.add"
        ),
        Binding(
            "ctrl+j",
            "turn",
            "From the form to the raw JSON, and back",
            show=False,
            id="enqueue.turn",
            priority=True,
        ),
        Binding(
            "f2",
            "turn",
            "From the form to the raw JSON, and back",
            show=False,
            id="enqueue.turn_too",
            priority=True,
        ),
        Binding(
            "f3",
            "copy_command",
            "Copy the command that does it",
            show=False,
            id="enqueue.copy",
            priority=True,
        ),
    ]

    def __init__(
        self,
        envelope: dict[str, Any] | None = None,
        *,
        editing: str | None = None,
        place: str = "",
        root: Path | None = None,
        written: dict[str, Any] | None = None,
        note: str = "",
    ) -> None:
        """``written`` is what was made of ``envelope`` before, and ``note`` why that is to be looked at again."""
        super().__init__()
        self.envelope: dict[str, Any] = dict(written or envelope or {"kind": "phase"})
        self.note = note
        self.editing = editing
        """The id of the envelope that is changed; ``None`` for a new one."""
        self.place = place
        """Where a changed one goes, in words."""
        self.root = root
        self.tab = "form"
        self.valid: dict[str, Any] | None = None
        self._filling = False
        self.touched = written is not None
        """Whether something was typed: an empty form is not called wrong."""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -large") as dialog:
            edits = self.editing is not None
            dialog.border_title = Content(
                f"Edit {cut_middle(clean(self.editing), 40)}: {self.place}"
                if edits
                else "Enqueue an envelope"
            )
            keys = {name: key_in(self, f"enqueue.{name}") for name in ("add", "turn_too", "copy", "leave")}
            dialog.border_subtitle = Content(
                f"{keys['add']} {'saves' if edits else 'adds'} · {keys['turn_too']} JSON · "
                f"{typed('app.keys_here', 'f1')} keys · {keys['copy']} copies · {keys['leave']} leaves"
            )
            if self.note:
                yield Static(Content(f"▲ {clean(self.note)}"), classes="note")
            yield TabLine(id="tabs")
            with VerticalScroll(id="form", can_focus=False):
                with Vertical(classes="field -area"):
                    with Horizontal(classes="field"):
                        yield Static("prompt", classes="label")
                        yield Static("", id="error-prompt", classes="error")
                    yield TextArea(
                        id="field-prompt", compact=True, tab_behavior="focus", highlight_cursor_line=False
                    )
                for name, label, hint in FIELDS:
                    with Horizontal(classes="field"):
                        yield Static(label, classes="label")
                        yield Input(placeholder=hint, id=f"field-{name}", compact=True)
                        yield Static("", id=f"error-{name}", classes="error")
                with Horizontal(classes="field"):
                    yield Static("", classes="label")
                    yield Tick("fresh session", id="field-fresh", compact=True)
                    yield Tick("mesh: plan and split it", id="field-mode", compact=True)
            yield TextArea(id="json", tab_behavior="focus", show_line_numbers=True)
            yield Static("", id="verdict")
            with Horizontal(classes="buttons"):
                yield choice("Save" if edits else "Add", keys["add"], "add")
                yield choice("Leave", keys["leave"], "leave")

    def on_mount(self) -> None:
        blink = not getattr(self.app, "still", False)
        for field in (*self.query(Input), *self.query(TextArea)):
            field.cursor_blink = blink
        self._show_tab("form")
        self._fill_form()
        if self.editing is not None:
            self.touched = True
            name = self.query_one("#field-id", Input)
            name.disabled, name.placeholder = True, clean(self.editing)
        self._check()
        self.query_one("#field-prompt", TextArea).focus()
        if is_handoff_phase(self.envelope):
            # What it asks for has no place in the form.
            self.action_turn()

    # The two ways to write it

    def _show_tab(self, tab: str) -> None:
        self.tab = tab
        self.query_one("#form").display = tab == "form"
        self.query_one("#json").display = tab == "json"
        self.query_one("#tabs", TabLine).show(TABS, tab)

    def action_turn(self) -> None:
        if self.tab == "form":
            self._take_form()
            self._filling = True
            self.query_one("#json", TextArea).load_text(
                json.dumps(self.envelope, indent=2, ensure_ascii=False)
            )
            self._filling = False
            self._show_tab("json")
            self.query_one("#json").focus()
        elif isinstance(value := self._read_json(), dict):
            self.envelope = value
            self._fill_form()
            self._show_tab("form")
            self.query_one("#field-prompt").focus()
        self._check()

    @on(TabLine.Chosen, "#tabs")
    def _tab_chosen(self, message: TabLine.Chosen) -> None:
        if message.tab != self.tab:
            self.action_turn()

    def _fill_form(self) -> None:
        self._filling = True
        self.query_one("#field-prompt", TextArea).load_text(str(self.envelope.get("prompt", "")))
        for name, _label, _hint in FIELDS:
            value = self.envelope.get(name)
            self.query_one(f"#field-{name}", Input).value = "" if value is None else f"{value}"
        self.query_one("#field-fresh", Checkbox).value = self.envelope.get("fresh") is True
        self.query_one("#field-mode", Checkbox).value = self.envelope.get("mode") == "mesh"
        self._filling = False

    def _take_form(self) -> None:
        """The envelope as the form has it; what the form does not show is kept."""
        envelope = {
            key: value for key, value in self.envelope.items() if key not in ("prompt", "fresh", "mode")
        }
        if "schema" not in envelope:
            envelope.setdefault("kind", "phase")
        prompt = self.query_one("#field-prompt", TextArea).text
        if prompt or envelope.get("kind") == "phase":
            envelope["prompt"] = prompt
        for name, _label, _hint in FIELDS:
            envelope.pop(name, None)
            text = self.query_one(f"#field-{name}", Input).value.strip()
            if text:
                envelope[name] = _number(text) if name in NUMBERS else text
        if self.query_one("#field-fresh", Checkbox).value:
            envelope["fresh"] = True
        if self.query_one("#field-mode", Checkbox).value:
            envelope["mode"] = "mesh"
        self.envelope = envelope

    def _read_json(self) -> object:
        try:
            return strict_json.loads(self.query_one("#json", TextArea).text)
        except (InvalidInput, ValueError) as error:
            return InvalidInput(str(error))

    # Checking

    def _check(self) -> None:
        """Say what is wrong, beside the field where it has one."""
        value: object = self.envelope
        if self.tab == "json":
            value = self._read_json()
        wrong: InvalidInput | None = None
        self.valid = None
        if isinstance(value, InvalidInput):
            wrong = value
        else:
            try:
                self.valid = validate_envelope(value)
            except InvalidInput as error:
                wrong = error
        shown = {"prompt", *(name for name, _label, _hint in FIELDS)}
        for name in shown:
            text = ""
            if wrong is not None and wrong.field == name and self.tab == "form" and self.touched:
                text = clean(wrong).removeprefix(f"{name} ")
            beside = self.query_one(f"#error-{name}", Static)
            beside.update(Content(text))
            beside.display = bool(text)
        self._say(wrong if self.touched or self.tab == "json" else None)
        self.query_one("#add", Button).disabled = self.valid is None

    def _say(self, wrong: InvalidInput | None) -> None:
        verdict = self.query_one("#verdict", Static)
        if wrong is not None:
            verdict.update(Content.styled("✖ " + clean(wrong), "$status-bad"))
        elif self.valid is None:
            verdict.update(Content.styled("Write a prompt; everything else may stay empty.", "$quiet"))
        else:
            warnings = warnings_for(self.valid, now_ms=now_of(self))
            if warnings:
                verdict.update(Content.styled("▲ " + clean("; ".join(warnings)), "$status-warn"))
            else:
                verdict.update(Content.styled("✔ valid", "$status-ok"))

    @on(Input.Changed)
    @on(TextArea.Changed)
    @on(Checkbox.Changed)
    def _typed(self) -> None:
        if not self._filling and self.is_mounted:
            self.touched = self.touched or self._differs()
            if self.tab == "form":
                self._take_form()
            self._check()

    def _differs(self) -> bool:
        written = [
            self.query_one("#field-prompt", TextArea).text,
            *(field.value for field in self.query(Input)),
        ]
        return self.tab == "json" or any(written)

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self.action_add()

    @on(Button.Pressed)
    def _pressed(self, message: Button.Pressed) -> None:
        if message.button.id == "add":
            self.action_add()
        else:
            self.dismiss(None)

    def action_add(self) -> None:
        # The key outruns what was typed just before it, which waits in the queue of the field.
        field = self.focused
        if field is not None:
            field.call_later(self._add)
        else:
            self._add()

    def _add(self) -> None:
        if not self.is_current:
            return
        if self.tab == "form" and (self.touched or self._differs()):
            self._take_form()
        self.touched = True
        self._check()
        if self.valid is not None:
            self.dismiss(self.valid)
        else:
            self.app.bell()

    def action_copy_command(self) -> None:
        if self.valid is None or self.root is None:
            copy_command(self, None)
            return
        verb, words = ("edit", [self.editing]) if self.editing is not None else ("enqueue", [])
        copy_command(self, of_envelope(verb, self.valid, self.root, *words))

    def action_leave(self) -> None:
        self.dismiss(None)


def _number(text: str) -> object:
    """``text`` as a number where it is one: what is wrong with it otherwise is the validator's to say."""
    try:
        value = float(text)
    except ValueError:
        return text
    return int(value) if value.is_integer() and abs(value) < 1e15 else value
