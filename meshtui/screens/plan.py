"""Planning a mission: the form for the request, and the plan to look at before anything starts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar, Literal, cast

from textual import on
from textual.app import App, ComposeResult, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static, TextArea

from meshtui.core.errors import InvalidInput
from meshtui.core.lane.ways import way_out
from meshtui.core.mesh.render import overlap_text
from meshtui.core.models.mesh import Node, Plan
from meshtui.editor import open_in_editor
from meshtui.keymap import typed
from meshtui.missions import PlanWish
from meshtui.screens.answer import ENGINES
from meshtui.screens.confirm import choice
from meshtui.screens.copying import copy_command
from meshtui.screens.keys_here import key_in, last_key_in
from meshtui.status import RISK_LOOKS
from meshtui.text import clean
from meshtui.theme import MODALS
from meshtui.widgets.paint import LOOK_CLASSES
from meshtui.widgets.prose import Body, Fact, Head, Item, Prose, Raw

PARALLELISM = ("safe", "balanced", "extreme")
MOST_LOOPS = 32


class PlanForm(ModalScreen[PlanWish]):
    """Dismisses with what is wished for, ``None`` if nothing is to be planned."""

    CSS_PATH = MODALS
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave without a plan", show=False, id="plan.leave"),
        Binding(
            "ctrl+s",
            "plan",
            "Make a plan to look at; nothing starts yet",
            show=False,
            priority=True,
            id="plan.plan",
        ),
        Binding(
            "f3", "copy_command", "Copy the command that does it", show=False, id="plan.copy", priority=True
        ),
    ]

    def __init__(self, wish: PlanWish | None = None, *, root: Path | None = None, note: str = "") -> None:
        """``wish`` is one that could not be planned before, and ``note`` why."""
        super().__init__()
        self.wish = wish
        self.root = root
        """The run directory, for the command line that does the same."""
        self.note = note
        self.touched = wish is not None

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog -form", can_focus=False) as dialog:
            dialog.border_title = Content("Plan a mission")
            keys = {name: key_in(self, f"plan.{name}") for name in ("plan", "copy", "leave")}
            dialog.border_subtitle = Content(
                f"{keys['plan']} plans · {typed('app.keys_here', 'f1')} keys · "
                f"{keys['copy']} copies command · {keys['leave']} leaves"
            )
            if self.note:
                yield Static(Content(f"▲ {clean(self.note)}"), classes="note")
            with Vertical(classes="field -area"):
                with Horizontal(classes="field"):
                    yield Static("request", classes="label")
                    yield Static("", id="request-error", classes="error")
                yield TextArea(id="request", compact=True, tab_behavior="focus", highlight_cursor_line=False)
            for name, label, hint in (
                ("engine", "engine", "claude, codex, grok or command; as configured"),
                ("parallelism", "parallel", "safe, balanced or extreme; as configured"),
                ("most", "max loops", "1 to 32; as configured, else 8"),
            ):
                with Horizontal(classes="field"):
                    yield Static(label, classes="label")
                    yield Input(placeholder=hint, id=name, compact=True)
                    yield Static("", id=f"{name}-error", classes="error")
            with Horizontal(classes="buttons"):
                yield choice("Leave", keys["leave"], "leave")
                yield choice("Plan", keys["plan"], "plan")

    def on_mount(self) -> None:
        blink = not getattr(self.app, "still", False)
        for field in (*self.query(Input), *self.query(TextArea)):
            field.cursor_blink = blink
        wish = self.wish
        if wish is not None:
            self.query_one("#request", TextArea).load_text(wish.request)
            loops = "" if wish.max_loops is None else str(wish.max_loops)
            values = {"engine": wish.engine or "", "parallelism": wish.parallelism or "", "most": loops}
            for name, value in values.items():
                self.query_one(f"#{name}", Input).value = value
        self.query_one("#request", TextArea).focus()
        self._wish()

    def _wish(self) -> PlanWish | None:
        """What the fields say, ``None`` with the problem beside its field."""
        request = self.query_one("#request", TextArea).text.strip()
        engine, parallelism, loops = (
            self.query_one(f"#{name}", Input).value.strip() for name in ("engine", "parallelism", "most")
        )
        wrong = {
            "request": "" if request or not self.touched else "say what is to be done",
            "engine": "" if not engine or engine in ENGINES else "no such engine",
            "parallelism": ""
            if not parallelism or parallelism in PARALLELISM
            else "safe, balanced or extreme",
            "most": "" if not loops or (loops.isdecimal() and 1 <= int(loops) <= MOST_LOOPS) else "1 to 32",
        }
        for name, text in wrong.items():
            beside = self.query_one(f"#{name}-error", Static)
            beside.update(Content(text))
            beside.display = bool(text)
        bad = not request or any(wrong.values())
        self.query_one("#plan", Button).disabled = bad
        if bad:
            return None
        level = cast("Literal['safe', 'balanced', 'extreme']", parallelism) if parallelism else None
        return PlanWish(request, engine or None, level, int(loops) if loops else None)

    @on(Input.Changed)
    @on(TextArea.Changed)
    def _typed(self) -> None:
        if self.is_mounted and self.query("#plan"):
            self._wish()

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self.action_plan()

    @on(Button.Pressed)
    def _pressed(self, message: Button.Pressed) -> None:
        if message.button.id == "plan":
            self.action_plan()
        else:
            self.dismiss(None)

    def action_plan(self) -> None:
        self.touched = True
        wish = self._wish()
        if wish is None:
            self.app.bell()
        else:
            self.dismiss(wish)

    def action_copy_command(self) -> None:
        self.touched = True
        wish = self._wish()
        if wish is None or self.root is None:
            copy_command(self, None)
            return
        given = (
            ("--engine", wish.engine),
            ("--parallelism", wish.parallelism),
            ("--max-loops", wish.max_loops),
        )
        options = [word for name, value in given if value is not None for word in (name, str(value))]
        copy_command(self, way_out("plan", wish.request, self.root, *options))

    def action_leave(self) -> None:
        self.dismiss(None)


class PlanPreview(ModalScreen[str]):
    """Dismisses with ``start``, ``keep``, ``edit`` or ``cancel``; a broken plan cannot be started."""

    CSS_PATH = MODALS
    COMPONENT_CLASSES = LOOK_CLASSES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "escape,k",
            "choose('keep')",
            "Leave it planned: it can be started later",
            show=False,
            id="preview.keep",
        ),
        Binding("s", "choose('start')", "Start the mission now", show=False, id="preview.start"),
        Binding("e", "choose('edit')", "Edit the plan in an editor", show=False, id="preview.edit"),
        Binding("c", "choose('cancel')", "Forget the plan", show=False, id="preview.cancel"),
        Binding("left", "app.focus_previous", "The answer before", show=False, id="preview.before"),
        Binding("right", "app.focus_next", "The next answer", show=False, id="preview.next"),
        Binding("question_mark", "app.keys_here", "These keys", show=False, id="preview.keys"),
    ]

    def __init__(self, plan: Plan, blockers: tuple[str, ...], *, edited: bool = False) -> None:
        super().__init__()
        self.plan = plan
        self.blockers = blockers
        self.edited = edited

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -large") as dialog:
            word = "Edited plan" if self.edited else "Plan"
            dialog.border_title = Content(f"{word} {clean(self.plan.mission_id)}: nothing runs yet")
            dialog.border_subtitle = Content(
                f"{key_in(self, 'preview.keys')} keys · {key_in(self, 'preview.keep')} keeps it planned"
            )
            yield Prose(id="plan")
            with Horizontal(classes="buttons"):
                yield choice("Keep planned", last_key_in(self, "preview.keep"), "keep")
                yield choice("Edit", key_in(self, "preview.edit"), "edit")
                yield choice("Cancel", key_in(self, "preview.cancel"), "cancel", danger=True)
                yield choice("Start", key_in(self, "preview.start"), "start")

    def on_mount(self) -> None:
        start = self.query_one("#start", Button)
        start.disabled = bool(self.blockers)
        self.query_one("#plan", Prose).show(plan_items(self.plan, self.blockers))
        self.query_one("#keep", Button).focus()

    @on(Button.Pressed)
    def _pressed(self, message: Button.Pressed) -> None:
        self.action_choose(message.button.id or "keep")

    def action_choose(self, how: str) -> None:
        if how == "start" and self.blockers:
            self.app.bell()
            return
        self.dismiss(how)


def plan_items(plan: Plan, blockers: tuple[str, ...]) -> list[Item]:
    """The plan to look at: what is wrong, every loop with scope and risk, what overlaps."""
    items: list[Item] = []
    if blockers:
        items.append(Head(f"✖ this plan cannot run · {len(blockers)}", "bad"))
        items += [Body(text, "bad", indent=2, mark="·") for text in blockers]
        items.append(Raw(()))
    loops = len(plan.graph.nodes)
    items += [Body(plan.request, "strong"), Raw(())]
    engine = plan.options.get("engine")
    facts = [f"{loops} loop{'' if loops == 1 else 's'}"]
    facts += [f"engine {engine}"] if engine else []
    facts += [str(plan.options[name]) for name in ("parallelism", "strategy") if plan.options.get(name)]
    items.append(Fact("plan", " · ".join(facts)))
    if plan.options.get("target"):
        items.append(Fact("target", str(plan.options["target"])))
    for node in plan.graph.nodes:
        items += _node_items(node)
    if plan.overlaps:
        items += [Raw(()), Head(f"overlaps · {len(plan.overlaps)}", "warn")]
        items += [Body(overlap_text(one), indent=2, mark="·") for one in plan.overlaps]
    if plan.domains_truncated:
        items += [Raw(()), Head("left out: more than the loops allowed", "warn")]
        items.append(Body(", ".join(plan.domains_truncated), indent=2))
    warnings = plan.options.get("warnings")
    if isinstance(warnings, list) and warnings:
        items += [Raw(()), Head("warnings", "warn")]
        items += [Body(str(text), indent=2, mark="·") for text in warnings]
    return items


def _node_items(node: Node) -> list[Item]:
    risk = node.risk.level
    human = "  a person decides" if node.risk.requires_human_handoff else ""
    gates = [*node.gates.local, *node.gates.integration]
    workers = f"{_count(node.maker.worker_count, 'maker')}, {_count(node.checker.worker_count, 'checker')}"
    items: list[Item] = [
        Raw(()),
        Raw(
            (
                (clean(node.loop_id), "strong"),
                ("  ", "text"),
                (f"{clean(risk)} risk", RISK_LOOKS.get(risk, "warn")),
                (human, "warn"),
                (f"  {clean(node.level)}", "muted"),
            )
        ),
        Fact("  owns", ", ".join(node.owner_scope.entries) or "nothing"),
        Fact("  work", f"{workers}; gates {', '.join(gates) or 'none'}"),
    ]
    if node.risk.reasons and node.risk.reasons != ["bounded_scope"]:
        items.append(Fact("  because", "; ".join(node.risk.reasons)))
    if node.dependencies:
        items.append(Fact("  after", ", ".join(node.dependencies)))
    return items


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def edit(app: App[object] | object, path: Path) -> str | None:
    """Open ``path`` in the operator's editor, the terminal given to it; what went wrong, if anything did."""
    assert isinstance(app, App)
    if not (os.environ.get("VISUAL", "").strip() or os.environ.get("EDITOR", "").strip()):
        return f"$EDITOR is not set; edit {path} and start the mission: the plan is checked again then"
    try:
        with app.suspend():
            open_in_editor(path)
    except SuspendNotSupported:
        return f"this terminal cannot be given to an editor; edit {path} elsewhere"
    except InvalidInput as error:
        return str(error)
    return None
