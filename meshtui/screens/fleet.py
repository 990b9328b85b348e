"""The home of several lanes: what needs somebody on top, below it one row a lane, the most urgent first."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import Screen

from meshtui.commands import Situation, bindings, key_of
from meshtui.core.fleet import FleetView, LaneSummary
from meshtui.fleet_palette import FleetPlaces
from meshtui.messages import FleetChanged
from meshtui.screens.fleet_acting import FleetActing
from meshtui.screens.needs import NeedsScreen, marked_in
from meshtui.text import clean, cut_start, number
from meshtui.theme import STYLES
from meshtui.widgets.filter_bar import FilterBar
from meshtui.widgets.fleet import FleetLine, FleetTable
from meshtui.widgets.inbox import InboxTable, WaysOut
from meshtui.widgets.key_bar import KeyBar
from meshtui.widgets.listing import ListTable
from meshtui.widgets.paint import LOOK_CLASSES, refresh_of

FRAME = 3
"""Lines of the inbox's panel that are neither items nor the selected one: its border and the titles."""


class FleetScreen(FleetActing, NeedsScreen, Screen[None]):
    """Draws the newest view of all lanes; ``enter`` opens one."""

    CSS_PATH = STYLES / "fleet.tcss"
    COMPONENT_CLASSES = LOOK_CLASSES
    COMMANDS = {FleetPlaces}  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("fleet")]
    AUTO_FOCUS = "#fleet-table"

    def __init__(self, view: FleetView | None = None) -> None:
        super().__init__()
        self.view = view
        self._opened = False
        """Whether a first whole view was shown."""
        self._stale = False

    def compose(self) -> ComposeResult:
        yield FleetLine(id="status")
        inbox, lanes = InboxTable(id="inbox-table"), FleetTable(id="fleet-table")
        with Vertical(id="inbox"):
            yield FilterBar(inbox, id="inbox-filter")
            yield inbox
            yield WaysOut(id="ways")
        with Vertical(id="lanes"):
            yield FilterBar(lanes, id="lanes-filter")
            yield lanes
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        self.query_one("#inbox").display = False
        self.query_one(FleetLine).read_only = self.looks_only
        self.set_interval(refresh_of(self), self.tick, name="tick")
        self.draw()

    @property
    def table(self) -> FleetTable:
        """The lanes."""
        return self.query_one(FleetTable)

    @property
    def lane(self) -> LaneSummary | None:
        """The selected lane."""
        return self.table.selected

    @property
    def situation(self) -> Situation:
        need = self.need
        return Situation(
            attention=need.item if need is not None else None,
            read_only=self.looks_only,
            place="fleet",
            fleet=True,
            lanes=len(self.view.lanes) if self.view is not None else 0,
            needs=len(self.needs),
            filtering=bool(self.listing.filter.text),
            marked=len(self.listing.marks),
            undoable=self.home.steps.any_of(),
            chosen=self.chosen,
        )

    # What is shown

    def draw(self) -> None:
        """Hand the view to the widgets; each draws what changed."""
        view = self.view
        if not self.is_current:
            # Another screen covers it: drawn when it comes back.
            self._stale = True
            return
        self._stale = False
        with self.app.batch_update():
            self.query_one(FleetLine).show(view)
            needs = view.needs if view is not None else ()
            self.show_needs(needs, lanes=True, settled=view is not None and view.complete)
            lanes = view.lanes if view is not None else ()
            self.table.show(lanes, hint=self._hint())
            self.draw_titles()
            self._share_room()
            self.draw_keys()
        if view is not None and view.complete and not self._opened:
            self._opened = True
            if needs and self.focused is self.table:
                # What needs somebody is what the console was opened for.
                self.inbox.focus()

    def draw_titles(self) -> None:
        lanes = self.view.lanes if self.view is not None else ()
        needs = f"Needs you · {number(len(self.needs))}{marked_in(self.inbox)}"
        self.query_one("#inbox").border_title = needs
        self.query_one("#lanes").border_title = f"Lanes · {number(len(lanes))}{marked_in(self.table)}"

    def _hint(self) -> str:
        if self.view is None:
            return "Looking for run directories…"
        places = self.view.places
        where = clean(str(places[0])) if len(places) == 1 else "these folders"
        room = max(16, self.table.size.width - 52)
        return f"No lane in {cut_start(where, room)} yet: meshtui enqueue makes one."

    def draw_keys(self) -> None:
        """Offer the keys that do something now."""
        self.query_one(KeyBar).show(self.situation, self.lane_labels())

    def _share_room(self) -> None:
        """Give the inbox the lines it needs, at most two fifths of the screen."""
        panel = self.query_one("#inbox")
        count = len(self.needs)
        panel.display = count > 0
        if not count:
            if self.focused is self.inbox:
                self.table.focus()
            return
        lines = self.size.height
        ways = 1 if lines < 20 else 3 if lines < 30 else 6
        room = max(1, lines * 2 // 5 - FRAME - ways)
        rows = min(count, room)
        self.query_one(WaysOut).styles.height = ways
        bar = self.query_one("#inbox-filter")
        panel.styles.height = rows + ways + FRAME + (2 if bar.display else 0) - (2 if lines < 16 else 0)
        panel.border_subtitle = (
            f"{rows} of {number(count)} · {key_of('inbox')} shows all"
            if rows < count and not self.inbox.filter
            else ""
        )

    def on_list_table_rearranged(self, message: ListTable.Rearranged) -> None:
        super().on_list_table_rearranged(message)
        self._share_room()

    def on_resize(self) -> None:
        self.call_after_refresh(self._share_room)

    def tick(self) -> None:
        """Let times go on."""
        if self.is_current:
            self.tick_needs()
            self.table.tick()
            # A runner that lives here starts and ends without a change of the view.
            self.draw_keys()

    def on_screen_resume(self) -> None:
        if self._stale:
            self.draw()

    def on_unmount(self) -> None:
        self.close_needs()

    # Messages

    @on(FleetChanged)
    def _take_view(self, message: FleetChanged) -> None:
        self.view = message.view
        self.home.take_fleet(message.view)
        self.draw()

    @on(FleetTable.Highlighted)
    def _lane_selected(self) -> None:
        self.draw_keys()

    @on(events.DescendantFocus)
    def _focus_moved(self) -> None:
        self.draw_keys()

    @on(FleetTable.Opened)
    def _lane_opened(self, message: FleetTable.Opened) -> None:
        self.home.open_lane(message.lane.run_dir)

    # Keys

    def action_open_lane(self) -> None:
        if not self._refused("open_lane") and self.lane is not None:
            self.home.open_lane(self.lane.run_dir)

    def action_inbox(self) -> None:
        if not self._refused("inbox"):
            self.home.open_inbox()

    def action_turn(self, by: int) -> None:
        """From the inbox to the lanes and back."""
        (self.table if self.focused is self.inbox or not self.needs else self.inbox).focus()

    def action_back(self) -> None:
        if not self.drop_filter():
            self.table.focus()
