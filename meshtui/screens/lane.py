"""The screen of a lane: what is wrong, what needs the operator, the queue, the details, the journal."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input

from meshtui.bridge import Bridge, Severity
from meshtui.commands import BY_ACTION, Side, Situation, bindings
from meshtui.core.view import SECTIONS, LaneView, Row, Section
from meshtui.messages import (
    DetailRead,
    MissionsRunning,
    ModeChanged,
    OutputRead,
    RunnerChanged,
    Told,
    ViewChanged,
)
from meshtui.screens.actions import LaneActions
from meshtui.screens.looking import Looking
from meshtui.screens.loops import LoopsSide
from meshtui.status import SECTION_MARKS
from meshtui.text import clean, number
from meshtui.widgets.attention import NeedsYou
from meshtui.widgets.detail import DetailPane
from meshtui.widgets.journal import JournalLine, Note
from meshtui.widgets.key_bar import KeyBar
from meshtui.widgets.listing import ListTable
from meshtui.widgets.paint import LOOK_CLASSES, now_of, refresh_of
from meshtui.widgets.pane import PartsPane
from meshtui.widgets.status_line import StatusLine
from meshtui.widgets.table import QueueTable
from meshtui.widgets.tabs import TabLine, TabSpec

ALARMING = ("failed", "stalled", "quarantined")
LOOK_OF = {"information": "ok", "warning": "warn", "error": "bad"}


class LaneScreen(LaneActions, LoopsSide, Looking, Screen[None]):
    """Draws the newest view; the actions are in :class:`LaneActions`, the loops in :class:`LoopsSide`."""

    COMPONENT_CLASSES = LOOK_CLASSES
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("lane")]
    AUTO_FOCUS = "#table"

    def __init__(self, view: LaneView | None = None, *, read_only: bool = False) -> None:
        super().__init__()
        self.view = view
        self.read_only = read_only
        self.bridge: Bridge | None = None
        self.runner_here = False
        self.section: Section = "pending"
        self.side: Side = "queue"
        self.missions_here: tuple[str, ...] = ()
        self._first = True
        self._warned: set[str] = set()

    def compose(self) -> ComposeResult:
        yield StatusLine(id="status")
        yield NeedsYou(id="attention")
        with Horizontal(id="body"):
            with Vertical(id="lists"):
                yield Vertical(id="loops")
                with Vertical(id="queue"):
                    yield TabLine(id="sections")
                    yield Input(placeholder="filter", id="filter", compact=True)
                    yield QueueTable(id="table")
            yield DetailPane(id="detail")
        if self.replayed:
            from meshtui.widgets.replay_bar import ReplayBar

            yield ReplayBar(id="replay")
        yield JournalLine(id="journal")
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        self.query_one("#queue").border_title = "Queue"
        self.query_one("#filter").display = False
        self.query_one("#loops").display = False
        self.set_interval(refresh_of(self), self.tick, name="tick")
        self.draw()

    # What is shown

    @property
    def situation(self) -> Situation:
        """What decides which commands make sense now."""
        return Situation(
            view=self.view,
            row=self.row,
            attention=self.query_one(NeedsYou).selected,
            runner_here=self.runner_here,
            read_only=self.read_only,
            replay=self.replayed,
            side=self.side,
            loop=self.loop,
            mission=self.mission,
            missions_here=self.missions_here,
        )

    @property
    def replayed(self) -> bool:
        """Whether a recording is shown."""
        return hasattr(self.app, "player")

    @property
    def row(self) -> Row | None:
        """The selected record."""
        return self.query_one(QueueTable).selected

    def draw(self) -> None:
        """Hand the view to the widgets; each draws what changed."""
        view = self.view
        if view is not None and self._first and view.exists:
            self._first = False
            self.section = _first_section(view)
        with self.app.batch_update():
            self.query_one(StatusLine).show(view)
            self.query_one(NeedsYou).show(view)
            rows = view.rows(self.section) if view is not None else ()
            self.query_one(QueueTable).show(self.section, rows, hint=self._hint())
            self.query_one("#sections", TabLine).show(self._tabs(), self.section)
            self.draw_loops()
            self.query_one(JournalLine).show(view)
            self.draw_keys()

    def draw_keys(self) -> None:
        """Offer the keys that do something now."""
        situation = self.situation
        labels = {"runner": "stop runner" if self._runner_alive() else "start runner"}
        if self.view is not None and self.view.state == "paused":
            labels["pause"] = "continue"
        if self.mission is not None and all(loop.status == "planned" for loop in self.mission.loops):
            labels["resume_mission"] = "start"
        self.query_one(KeyBar).show(situation, labels)

    def _runner_alive(self) -> bool:
        return self.runner_here or (self.view is not None and self.view.runner.alive)

    def _hint(self) -> str | None:
        view = self.view
        if view is None:
            return "Reading the run directory…"
        if self.replayed:
            return None if view.rows(self.section) else "Nothing stood here at that time."
        if not view.exists:
            return "No lane here yet. e enqueues its first envelope, n plans a mission."
        if not view.complete and not view.rows(self.section):
            return "Reading…"
        return None

    def _tabs(self) -> list[TabSpec]:
        view = self.view
        tabs = []
        for section in SECTIONS:
            count = view.counts.of(section) if view is not None else 0
            always = section in ("pending", "active", "done", "failed")
            if always or count or section == self.section:
                look = SECTION_MARKS[section].look if count and section in ALARMING else "muted"
                tabs.append(TabSpec(section, section, number(count), look))
        return tabs

    def tick(self) -> None:
        """Let times go on; lines whose text is the same are not drawn."""
        if self.view is None:
            return
        self.query_one(StatusLine).repaint()
        self.query_one(NeedsYou).repaint()
        self.query_one(QueueTable).repaint()
        self.query_one(DetailPane).tick()
        self.tick_loops()

    def show_section(self, section: Section) -> None:
        """Show another list."""
        if section != self.section:
            self.section = section
            self.draw()

    def inspect(self) -> None:
        """Have the files of what is selected read."""
        if self.side == "loops":
            self.inspect_loop()
            return
        pane, row = self.query_one(DetailPane), self.row
        if self.bridge is not None:
            self.bridge.inspect(row.key if row is not None else None, output=pane.part == "output")

    # Messages

    @on(ViewChanged)
    def _take_view(self, message: ViewChanged) -> None:
        self.view = message.view
        self.draw()
        # A timeline that is open goes on.
        take = getattr(self.app.screen, "show_view", None)
        if take is not None:
            take(message.view)
        for warning in message.view.warnings:
            if warning not in self._warned:
                self._warned.add(warning)
                self.tell(warning, "warning")

    @on(ModeChanged)
    def _take_mode(self, message: ModeChanged) -> None:
        self.query_one(StatusLine).follow(message.mode, message.reason)

    @on(RunnerChanged)
    def _take_runner(self, message: RunnerChanged) -> None:
        self.runner_here = message.alive
        self.draw_keys()

    @on(MissionsRunning)
    def _take_missions(self, message: MissionsRunning) -> None:
        self.missions_here = message.ids
        self.draw_keys()

    @on(DetailRead)
    def _take_detail(self, message: DetailRead) -> None:
        self.query_one(DetailPane).show_detail(message.key, message.detail)
        if message.problem is not None:
            self.tell(message.problem, "error")

    @on(OutputRead)
    def _take_output(self, message: OutputRead) -> None:
        self.query_one(DetailPane).show_output(message)

    @on(Told)
    def _take_receipt(self, message: Told) -> None:
        self.tell(message.text, message.severity)

    def tell(self, text: str, severity: str = "information") -> None:
        """Show a receipt or an error, literally, for a moment and in the journal line."""
        shown = clean(text)
        level: Severity = (
            "error" if severity == "error" else "warning" if severity == "warning" else "information"
        )
        self.app.notify(shown, severity=level, timeout=8 if level != "information" else 5, markup=False)
        self.query_one(JournalLine).note(Note(now_of(self), shown, LOOK_OF[level]))

    @on(QueueTable.Highlighted)
    def _selected(self, message: QueueTable.Highlighted) -> None:
        self.query_one(DetailPane).show_row(message.row)
        if self.side == "queue":
            self.inspect()
        self.draw_keys()

    @on(QueueTable.Opened)
    def _opened(self, message: QueueTable.Opened) -> None:
        if message.row.section == "active":
            self.query_one(DetailPane).choose("output")
        self.open_details()

    def open_details(self) -> None:
        """Go to the details of what is selected; where there is little room they open over the lists."""
        self.add_class("-detail-open")
        self.pane.prose.focus()

    @on(PartsPane.PartChosen)
    def _part_chosen(self, message: PartsPane.PartChosen) -> None:
        if message.pane is self.pane:
            self.inspect()

    @on(TabLine.Chosen, "#sections")
    def _section_chosen(self, message: TabLine.Chosen) -> None:
        for section in SECTIONS:
            if section == message.tab:
                self.show_section(section)

    @on(NeedsYou.Picked)
    async def _exit_picked(self, message: NeedsYou.Picked) -> None:
        await self.run_action(f"exit({message.number})")

    @on(NeedsYou.Shown)
    def _attention_shown(self, message: NeedsYou.Shown) -> None:
        self.show_key(message.item.key)

    def show_key(self, key: str | None) -> bool:
        """Go to the list that holds the record ``key`` and select it."""
        if self.view is None or key is None:
            return False
        if self.show_loop(key):
            return True
        for section in SECTIONS:
            if any(row.key == key for row in self.view.rows(section)):
                self.look_at("queue")
                self.show_section(section)
                return self.query_one(QueueTable).select(key)
        return False

    @on(Input.Changed, "#filter")
    def _filter_typed(self, message: Input.Changed) -> None:
        self.query_one(QueueTable).show_matching(message.value.strip())

    @on(Input.Submitted, "#filter")
    def _filter_kept(self, _message: Input.Submitted) -> None:
        self.query_one(QueueTable).focus()
        if not self.query_one(QueueTable).needle:
            self.query_one("#filter").display = False

    @on(events.DescendantFocus)
    def _focus_moved(self) -> None:
        # Narrow: the list is the way back from the details.
        if isinstance(self.focused, ListTable):
            self.remove_class("-detail-open")
            self.look_at("queue" if isinstance(self.focused, QueueTable) else "loops")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether a key means this action: some mean another in each of the two lists."""
        name = f"{action}({parameters[0]})" if parameters else action
        command = BY_ACTION.get(name)
        return command is None or command.side in (None, self.side)

    def tooltip_of(self, action: str) -> Content:
        """The tooltip of an action, as text."""
        return Content(BY_ACTION[action].tooltip)


def _first_section(view: LaneView) -> Section:
    """The list to open with: what waits, else what runs, else what happened."""
    for section in ("pending", "active", "stalled", "failed", "done", "withdrawn", "quarantined"):
        if view.counts.of(section):
            return section
    return "pending"
