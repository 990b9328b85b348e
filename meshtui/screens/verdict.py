"""A person's verdict on what was handed over: approve or reject, with a reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from meshtui.core.lane.ways import way_out
from meshtui.core.mesh.view import LoopRow, MissionView
from meshtui.keymap import typed
from meshtui.screens.confirm import choice
from meshtui.screens.copying import copy_command
from meshtui.screens.keys_here import key_in
from meshtui.text import clean
from meshtui.theme import MODALS

MOST_NAMED = 8
"""The loops that are named where several get one verdict."""


@dataclass(frozen=True, slots=True)
class Given:
    """What the operator decided."""

    verdict: Literal["approve", "reject"]
    reason: str


class VerdictForm(ModalScreen[Given]):
    """Dismisses with a verdict, ``None`` to leave it open. A verdict needs a reason."""

    CSS_PATH = MODALS
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave it open", show=False, id="verdict.leave"),
        Binding("ctrl+a", "give('approve')", "Approve", show=False, priority=True, id="verdict.approve"),
        Binding("ctrl+r", "give('reject')", "Reject", show=False, priority=True, id="verdict.reject"),
        Binding(
            "f3",
            "copy_command",
            "Copy the command that does it",
            show=False,
            id="verdict.copy",
            priority=True,
        ),
    ]

    def __init__(
        self,
        mission: MissionView,
        loop: LoopRow,
        verdict: Literal["approve", "reject"] | None = None,
        *,
        others: Sequence[tuple[MissionView, LoopRow]] = (),
        root: Path | None = None,
        written: str = "",
        note: str = "",
    ) -> None:
        """``others`` get the same verdict, for the same reason; ``written`` is one that was not taken before."""
        super().__init__(classes="-ask")
        self.others = tuple(others)
        self.root = root
        self.written = written
        self.note = note
        self.mission = mission
        self.loop = loop
        self.verdict = verdict

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog -form", can_focus=False) as dialog:
            which = f"{1 + len(self.others)} loops" if self.others else clean(self.loop.key)
            dialog.border_title = Content(f"Decide on {which}")
            copies = f"{key_in(self, 'verdict.copy')} copies command · " if self.root and self.verdict else ""
            dialog.border_subtitle = Content(
                f"{typed('app.keys_here', 'f1')} keys · {copies}{key_in(self, 'verdict.leave')} leaves it open"
            )
            if self.note:
                yield Static(Content(f"▲ {clean(self.note)}"), classes="note")
            yield Static(self._all_facts() if self.others else self._facts(), classes="text")
            with Horizontal(classes="field"):
                yield Static("reason", classes="label")
                yield Input(self.written, placeholder="recorded with your name", id="reason", compact=True)
                yield Static("", id="reason-error", classes="error")
            with Horizontal(classes="buttons"):
                yield choice("Leave it", key_in(self, "verdict.leave"), "leave")
                yield choice("Approve", key_in(self, "verdict.approve"), "approve")
                yield choice("Reject", key_in(self, "verdict.reject"), "reject", danger=True)

    def _all_facts(self) -> Content:
        """A line a loop: what waits for the verdict, and why."""
        loops = [self.loop, *(loop for _mission, loop in self.others)]
        lines: list[str | tuple[str, str]] = [("One verdict and one reason for all of them:", "bold")]
        for loop in loops[:MOST_NAMED]:
            lines.append(f"\n{clean(loop.key)}")
            lines.append(
                (f"  {clean(loop.risk)} risk; {clean(loop.handoff_reason or 'a person decides')}", "$quiet")
            )
        if len(loops) > MOST_NAMED:
            lines.append(f"\nand {len(loops) - MOST_NAMED} more")
        return Content.assemble(*lines)

    def _facts(self) -> Content:
        loop = self.loop
        parts: list[str | tuple[str, str]] = [(clean(loop.handoff_reason or "a person decides"), "bold")]
        if loop.risk_reasons or not (loop.handoff_reason or "").startswith(f"risk {loop.risk}"):
            parts.append(f"\n{clean(loop.risk)} risk")
        if loop.risk_reasons:
            parts.append((f": {clean('; '.join(loop.risk_reasons))}", "$quiet"))
        number = len(loop.changed_files)
        parts.append(f"\n{number} file{'' if number == 1 else 's'} changed")
        if loop.changed_files:
            shown = ", ".join(loop.changed_files[:4]) + (" …" if number > 4 else "")
            parts.append((f": {clean(shown)}", "$quiet"))
        gates = f"\n{len(loop.gates_passed)} of {len(loop.gates_selected)} gates passed"
        parts.append(gates if loop.gates_selected else "")
        return Content.assemble(*parts)

    def on_mount(self) -> None:
        field = self.query_one("#reason", Input)
        field.cursor_blink = not getattr(self.app, "still", False)
        field.focus()

    @on(Input.Submitted)
    def _submitted(self) -> None:
        # enter takes the verdict that was asked for; without one it asks which.
        if self.verdict is not None:
            self.action_give(self.verdict)
        else:
            self.query_one("#approve", Button).focus()

    @on(Button.Pressed)
    def _pressed(self, message: Button.Pressed) -> None:
        if message.button.id in ("approve", "reject"):
            self.action_give(message.button.id)
        else:
            self.dismiss(None)

    def action_give(self, verdict: str) -> None:
        reason = self.query_one("#reason", Input).value.strip()
        if not reason:
            self.query_one("#reason-error", Static).update(Content("say why"))
            self.query_one("#reason", Input).focus()
            return
        self.dismiss(Given("approve" if verdict == "approve" else "reject", reason))

    def action_copy_command(self) -> None:
        reason = self.query_one("#reason", Input).value.strip()
        if not reason or self.root is None or self.verdict is None:
            copy_command(self, None)
            return
        subject = f"{self.mission.mission_id}/{self.loop.loop_id}"
        options = (f"--{self.verdict}", "--reason", reason)
        copy_command(self, way_out("answer", subject, self.root, *options))

    def action_leave(self) -> None:
        self.dismiss(None)
