"""The screen of a lane: what is wrong, what needs the operator, the queue, the details, the journal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen

from meshtui.bridge import Bridge, Severity
from meshtui.commands import BY_ACTION, Side, Situation, bindings, key_of
from meshtui.core.fleet import Need
from meshtui.core.view import SECTIONS, Attention, LaneView, Row, Section
from meshtui.messages import (
    DetailRead,
    MissionsRunning,
    ModeChanged,
    OutputRead,
    RunnerChanged,
    Told,
    ViewChanged,
)
from meshtui.palette import Places
from meshtui.receipts import WITH
from meshtui.screens.actions import LaneActions
from meshtui.screens.looking import Looking
from meshtui.screens.loops import LoopsSide
from meshtui.screens.reading import ReadingActions
from meshtui.status import SECTION_MARKS
from meshtui.text import clean, number
from meshtui.widgets.attention import NeedsYou
from meshtui.widgets.detail import SELECT, DetailPane
from meshtui.widgets.filter_bar import FilterBar
from meshtui.widgets.journal import JournalLine, Note
from meshtui.widgets.key_bar import KeyBar
from meshtui.widgets.listing import ListTable
from meshtui.widgets.paint import LOOK_CLASSES, now_of, refresh_of
from meshtui.widgets.pane import PartsPane
from meshtui.widgets.status_line import StatusLine
from meshtui.widgets.table import QueueTable
from meshtui.widgets.tabs import TabLine, TabSpec

if TYPE_CHECKING:
    from textual.command import Provider

    from meshtui.undo import Steps

ALARMING = ("failed", "stalled", "quarantined")
ON_MARKS: dict[str, tuple[str, ...]] = {
    "pending": ("withdraw", "head"),
    "done": ("requeue",),
    "failed": ("requeue",),
    "stalled": ("answer",),
    "withdrawn": ("restore", "requeue"),
    "quarantined": ("requeue", "withdraw"),
    "loops": ("kill_loop",),
}
"""What is done with all marks of a list."""
LOOK_OF = {"information": "ok", "warning": "warn", "error": "bad"}


def _fleet_places() -> type[Provider]:
    """What else the palette offers in a console of several lanes; imported when it is opened."""
    from meshtui.fleet_palette import FleetPlaces

    return FleetPlaces


class HasNeeds(Protocol):
    """An app that knows what needs somebody."""

    needs: tuple[Need, ...]
    steps: Steps

    def take_view(self, view: LaneView) -> None: ...


class LaneScreen(ReadingActions, LaneActions, LoopsSide, Looking, Screen[None]):
    """Draws the newest view; the actions are in :class:`LaneActions`, the loops in :class:`LoopsSide`."""

    COMPONENT_CLASSES = LOOK_CLASSES
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("lane")]
    AUTO_FOCUS = "#table"
    COMMANDS = {Places, _fleet_places}  # noqa: RUF012

    def __init__(
        self,
        view: LaneView | None = None,
        *,
        read_only: bool = False,
        run_dir: Path | None = None,
        of_fleet: bool = False,
    ) -> None:
        """``of_fleet``: it was opened from the table of ``run_dir`` and others, to which it returns."""
        super().__init__()
        self.view = view
        self.run_dir = run_dir
        self.of_fleet = of_fleet
        self._goal: tuple[str | None, Attention | None] = (None, None)
        """The record to select, and the item whose log to show, once they are read."""
        self.read_only = read_only
        self.bridge: Bridge | None = None
        self.runner_here = False
        self.section: Section = "pending"
        self.side: Side = "queue"
        self.missions_here: tuple[str, ...] = ()
        self._matching: dict[Section, tuple[object, object, int]] = {}
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
                    table = QueueTable(id="table")
                    yield FilterBar(table, id="filter")
                    yield table
            yield DetailPane(id="detail")
        if self.replayed:
            from meshtui.widgets.replay_bar import ReplayBar

            yield ReplayBar(id="replay")
        yield JournalLine(id="journal")
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        self.query_one("#queue").border_title = "Queue"
        self.query_one(StatusLine).read_only = self.query_one(NeedsYou).read_only = self.read_only
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
            reading=self.reading(),
            fleet=self.of_fleet,
            needs=len(cast("HasNeeds", self.app).needs),
            marked=len(self.listing.marks),
            filtering=bool(self.listing.filter.text),
            undoable=self.bridge is not None
            and cast("HasNeeds", self.app).steps.any_of(self.bridge.run_dir.root),
        )

    @property
    def replayed(self) -> bool:
        """Whether a recording is shown."""
        return hasattr(self.app, "player")

    @property
    def listing(self) -> ListTable[Any]:
        """The list that is looked at."""
        loops = self.loop_table
        return loops if self.side == "loops" and loops is not None else self.query_one(QueueTable)

    @property
    def filter_bar(self) -> FilterBar:
        """The field above the list that is looked at."""
        return next(bar for bar in self.query(FilterBar) if bar.table is self.listing)

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
            table = self.query_one(QueueTable)
            table.show(self.section, rows, hint=self._hint())
            self.query_one(DetailPane).say_empty(self._no_details())
            self.query_one("#sections", TabLine).show(self._tabs(), self.section)
            table.nothing_matches = self._elsewhere() if table.filter and not table.rows else None
            self.draw_loops()
            for bar in self.query(FilterBar):
                bar.draw()
            self.query_one(JournalLine).show(view)
            self.draw_keys()

    def draw_keys(self) -> None:
        """Offer the keys that do something now."""
        situation = self.situation
        labels = {"runner": "stop runner" if self._runner_alive() else "start runner"}
        if self.view is not None and self.view.state == "paused":
            labels["pause"] = "continue"
        if self.section == "quarantined":
            labels["requeue"], labels["withdraw"] = "repair", "drop"
        if self.mission is not None and all(loop.status == "planned" for loop in self.mission.loops):
            labels["resume_mission"] = "start"
        labels.update(self.reading_labels())
        if situation.marked:
            for action in ON_MARKS.get("loops" if self.side == "loops" else self.section, ()):
                label = labels.get(action, BY_ACTION[action].label)
                labels[action] = f"{label} {number(situation.marked)}"
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
            keys = {name: key_of(name) for name in ("enqueue", "plan", "help")}
            return (
                f"No lane here yet.\n{keys['enqueue']} enqueues its first envelope\n"
                f"{keys['plan']} plans a mission\n{keys['help']} shows every key"
            )
        if not view.complete and not view.rows(self.section):
            return "Reading…"
        return None

    def _no_details(self) -> str:
        """What the details say while no record is selected."""
        view = self.view
        if view is None:
            return "Reading…"
        if not view.exists:
            return "Select a loop to see its details." if view.missions else "What is selected is shown here."
        return SELECT if view.rows(self.section) else "Nothing is selected: this list is empty."

    def _tabs(self) -> list[TabSpec]:
        view = self.view
        tabs = []
        filtered = bool(self.query_one(QueueTable).filter)
        for section in SECTIONS:
            count = view.counts.of(section) if view is not None else 0
            shown = (
                f"{number(self.matching(section))}/{number(count)}" if filtered and count else number(count)
            )
            always = section in ("pending", "active", "done", "failed")
            if always or count or section == self.section:
                look = SECTION_MARKS[section].look if count and section in ALARMING else "muted"
                tabs.append(TabSpec(section, section, shown, look))
        return tabs

    def matching(self, section: Section) -> int:
        """How many rows of a list the filter means."""
        table, view = self.query_one(QueueTable), self.view
        made = table.filter
        if section == table.section:
            return len(table.rows)
        rows = view.rows(section) if view is not None else ()
        known = self._matching.get(section)
        if known is None or known[0] is not made or known[1] is not rows:
            known = self._matching[section] = (made, rows, len(made.select(rows, now_of(self))))
        return known[2]

    def _elsewhere(self) -> str:
        """What an emptied list says: where the filter finds something."""
        text = clean(self.query_one(QueueTable).filter.text)
        found = [f"{section} {number(many)}" for section in SECTIONS if (many := self.matching(section))]
        where = f"{key_of('match(1)')} goes to {', '.join(found)}; " if found else ""
        return f"Nothing here matches {text}.\n{where}{key_of('back')} drops the filter"

    def tick(self) -> None:
        """Let times go on; lines whose text is the same are not drawn."""
        parts = (StatusLine, NeedsYou, QueueTable, DetailPane)
        if self.view is None or not all(self.query(part) for part in parts):
            # Nothing was read yet, or the screen is being taken down.
            return
        self.query_one(StatusLine).repaint()
        self.query_one(NeedsYou).repaint()
        self.query_one(QueueTable).tick()
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
        cast("HasNeeds", self.app).take_view(message.view)
        self.draw()
        self._go_on()
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
        self.query_one(JournalLine).note(Note(now_of(self), shown.partition(WITH)[0], LOOK_OF[level]))

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

    def go_to(self, key: str | None, log: Attention | None = None) -> None:
        """Select the record ``key``, or show what ``log`` wrote, as soon as it is read."""
        self._goal = (key, log)
        self._go_on()

    def _go_on(self) -> None:
        key, log = self._goal
        if self.view is None or key is None:
            return
        if self.show_key(key):
            self._goal = (None, None)
            if log is not None:
                self.show_log(log)
        elif self.view.complete:
            self._goal = (None, None)

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
                return self._select(self.query_one(QueueTable), key)
        return False

    def _select(self, table: ListTable[Any], key: str) -> bool:
        """Select a record that is listed, dropping a filter that hides it."""
        if not table.select(key):
            self.filter_bar.drop()
            return table.select(key)
        return True

    @on(ListTable.Rearranged)
    def _rearranged(self) -> None:
        table = self.query_one(QueueTable)
        if table.filter and not table.rows:
            table.nothing_matches = self._elsewhere()
            table.repaint()
        self.query_one("#sections", TabLine).show(self._tabs(), self.section)
        marked = f" · {number(len(table.marks))} marked" if table.marks else ""
        self.query_one("#queue").border_title = f"Queue{marked}"
        self._share_room()
        self._draw_titles()
        for bar in self.query(FilterBar):
            bar.draw()
        self.draw_keys()

    @on(events.DescendantFocus)
    def _focus_moved(self) -> None:
        # Narrow: the list is the way back from the details.
        self.draw_keys()
        if isinstance(self.focused, ListTable):
            self.remove_class("-detail-open", "-reading")
            self.look_at("queue" if isinstance(self.focused, QueueTable) else "loops")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether a key means this action: some mean another in each of the two lists."""
        name = f"{action}({parameters[0]})" if parameters else action
        command = BY_ACTION.get(name)
        return command is None or command.meant(self.side, filtering=bool(self.listing.filter.text))

    def tooltip_of(self, action: str) -> Content:
        """The tooltip of an action, as text."""
        return Content(BY_ACTION[action].tooltip)


def _first_section(view: LaneView) -> Section:
    """The list to open with: what waits, else what runs, else what happened."""
    for section in ("pending", "active", "stalled", "failed", "done", "withdrawn", "quarantined"):
        if view.counts.of(section):
            return section
    return "pending"
