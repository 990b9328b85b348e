"""The inbox by itself: everything that needs somebody, the selected item with its evidence and its ways out."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen

from meshtui.commands import Situation, bindings, key_of
from meshtui.core.fleet import URGENCY, Need
from meshtui.fleet_palette import FleetPlaces
from meshtui.palette import Places
from meshtui.screens.needs import NeedsScreen, marked_in
from meshtui.status import ATTENTION_MARKS
from meshtui.text import clean
from meshtui.theme import STYLES
from meshtui.widgets.filter_bar import FilterBar
from meshtui.widgets.inbox import InboxTable, WaysOut
from meshtui.widgets.key_bar import KeyBar
from meshtui.widgets.paint import LOOK_CLASSES, Line, Painted, Span, refresh_of, width_of


class InboxLine(Painted):
    """How many things need somebody, by kind."""

    needs: tuple[Need, ...] = ()
    read_only = False
    """Whether the console only looks, which is said here."""

    def show(self, needs: tuple[Need, ...]) -> None:
        """Count ``needs``."""
        self.needs = needs
        self.repaint()

    def compose_lines(self, width: int) -> tuple[Line, ...]:
        kinds = Counter(need.item.kind for need in self.needs)
        spans: list[Span] = [(" Needs you", "strong"), (f"  {len(self.needs)}", "strong")]
        if not self.needs:
            spans = [(" Needs you", "strong"), ("   ✔ nothing", "ok")]
        if self.read_only:
            spans += [("   ", "text"), (" read-only ", "cap")]
        for kind in URGENCY:
            if kinds[kind]:
                mark = ATTENTION_MARKS[kind]
                piece: Span = (f"{mark.glyph} {kinds[kind]} {mark.word}", mark.look)
                if width_of(spans) + width_of([piece]) + 3 > width:
                    break
                spans += [("   ", "text"), piece]
        return (tuple(spans),)


class InboxScreen(NeedsScreen, Screen[None]):
    """Opened over a lane or a fleet, and closed with ``esc``."""

    CSS_PATH = STYLES / "fleet.tcss"
    COMPONENT_CLASSES = LOOK_CLASSES
    COMMANDS = {Places, FleetPlaces}  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("inbox")]
    AUTO_FOCUS = "#inbox-table"

    def __init__(self, needs: tuple[Need, ...], *, lanes: bool, select: str | None = None) -> None:
        super().__init__()
        self._newest = needs
        self._lanes = lanes
        self._select = select

    def compose(self) -> ComposeResult:
        yield InboxLine(id="status")
        with Horizontal(id="body"):
            inbox = InboxTable(id="inbox-table")
            with Vertical(id="inbox"):
                yield FilterBar(inbox, id="inbox-filter")
                yield inbox
            with Vertical(id="evidence"):
                yield WaysOut(id="ways")
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        self.query_one("#inbox").border_subtitle = f"{key_of('back')} goes back"
        self.query_one(InboxLine).read_only = self.looks_only
        self.inbox.empty = "Nothing needs you. What does appears here by itself."
        self.set_interval(refresh_of(self), self.tick_needs, name="tick")
        self._draw()
        if self._select is not None:
            self.inbox.select(self._select)

    def take_needs(self, needs: tuple[Need, ...], *, lanes: bool) -> None:
        """Show what needs somebody now."""
        self._newest, self._lanes = needs, lanes
        if self.is_mounted:
            self._draw()

    def _draw(self) -> None:
        with self.app.batch_update():
            self.query_one(InboxLine).show(self._newest)
            self.show_needs(self._newest, lanes=self._lanes)
            self.draw_titles()
            self.draw_keys()

    def draw_titles(self) -> None:
        self.query_one("#inbox").border_title = marked_in(self.inbox).removeprefix(" · ")

    def draw_need(self) -> None:
        super().draw_need()
        panel, need = self.query_one("#evidence"), self.query_one(WaysOut).need
        panel.display = need is not None
        title = "" if need is None else need.item.subject
        several = len(self.meant) > 1
        if need is not None and self.inbox.lanes and not several and need.lane != need.item.subject:
            title = f"{need.lane} · {title}"
        panel.border_title = Content(clean(title))

    def on_unmount(self) -> None:
        self.close_needs()

    @property
    def situation(self) -> Situation:
        need = self.need
        return Situation(
            attention=need.item if need is not None else None,
            read_only=self.looks_only,
            place="inbox",
            fleet=self.inbox.lanes,
            needs=len(self.needs),
            filtering=bool(self.listing.filter.text),
            marked=len(self.inbox.marks),
            undoable=self.home.steps.any_of(),
        )

    def draw_keys(self) -> None:
        labels = {"open_need": "open lane" if self.inbox.lanes else "go there"}
        self.query_one(KeyBar).show(self.situation, labels)

    def action_open_need(self) -> None:
        if not self._refused("open_need") and self.need is not None:
            self.home.open_lane(self.need.run_dir, key=self.need.item.key)

    def action_back(self) -> None:
        if not self.drop_filter():
            self.dismiss()

    def action_fleet(self) -> None:
        if not self._refused("fleet"):
            self.home.close_lane()
