"""What the inbox and the fleet share: a list of what needs somebody, evidence for the selected item, ways out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from meshtui.bridge import Bridge
from meshtui.commands import BY_ACTION, Situation
from meshtui.core.fleet import FleetView, Need
from meshtui.core.view import Attention
from meshtui.evidence import EvidenceRead, EvidenceReader, Fact
from meshtui.messages import Told
from meshtui.screens.exits_many import ManyExits, as_item, shared_ways
from meshtui.steady import Steady
from meshtui.text import clean, number
from meshtui.widgets.filter_bar import FilterBar
from meshtui.widgets.inbox import InboxTable, WaysOut
from meshtui.widgets.listing import ListTable

if TYPE_CHECKING:
    from meshtui.command_lines import Line
    from meshtui.core.mesh.view import MissionView
    from meshtui.undo import Steps


class Home(Protocol):
    """The app around the screens, as far as what needs somebody goes."""

    read_only: bool
    steps: Steps

    def bridge_to(self, root: Path) -> Bridge | None: ...
    def missions_in(self, root: Path) -> tuple[MissionView, ...]: ...
    def open_lane(self, root: Path, *, key: str | None = None, log: Attention | None = None) -> None: ...
    def open_inbox(self) -> None: ...
    def close_lane(self) -> None: ...
    def ask_to_leave(self) -> None: ...
    def take_fleet(self, view: FleetView) -> None: ...


class NeedsScreen(ManyExits):
    """Mixed into a screen with an :class:`InboxTable` and its :class:`WaysOut`."""

    needs: tuple[Need, ...] = ()
    _reader: EvidenceReader | None = None
    _facts: tuple[str, tuple[Fact, ...]] = ("", ())
    _asked: tuple[object, ...] = ()

    @property
    def situation(self) -> Situation:
        """What decides which commands make sense now."""
        raise NotImplementedError

    def draw_keys(self) -> None:
        raise NotImplementedError

    def draw_titles(self) -> None:
        """Say how many rows are marked."""
        raise NotImplementedError

    @property
    def home(self) -> Home:
        """The app."""
        return cast("Home", self.app)

    @property
    def inbox(self) -> InboxTable:
        """The list."""
        return self.query_one(InboxTable)

    @property
    def need(self) -> Need | None:
        """The selected item."""
        return self.inbox.selected

    @property
    def meant(self) -> tuple[Need, ...]:
        """What the number keys are about: the marked items, else the selected one."""
        need = self.need
        return self.inbox.marked or ((need,) if need is not None else ())

    def show_needs(self, needs: tuple[Need, ...], *, lanes: bool, settled: bool = True) -> None:
        """List ``needs``; with ``lanes`` each names its lane."""
        self.needs = needs
        self.inbox.show(needs, lanes=lanes, settled=settled)
        self.draw_need()

    def draw_need(self) -> None:
        """Show what is meant, and have the evidence of a single item read where that is not done yet."""
        meant = self.meant
        known, facts = self._facts
        ways = self.query_one(WaysOut)
        ways.read_only = self.looks_only
        if len(meant) > 1:
            ways.show(as_item(meant), several=True)
            return
        need = meant[0] if meant else None
        ways.show(need, facts if need is not None and known == need.key else ())
        if need is None:
            return
        asked = (need.key, need.item.text, need.item.since)
        if asked != self._asked:
            self._asked = asked
            if self._reader is None:
                self._reader = EvidenceReader(self.post_message)
            self._reader.ask(need, self.missions_at(need.item))

    def tick_needs(self) -> None:
        """Let ages go on."""
        self.inbox.tick()

    def close_needs(self) -> None:
        """Read nothing more."""
        if self._reader is not None:
            self._reader.stop(0.0)

    def on_evidence_read(self, message: EvidenceRead) -> None:
        self._facts = (message.key, message.facts)
        meant = self.meant
        if len(meant) == 1 and meant[0].key == message.key:
            self.query_one(WaysOut).show(meant[0], message.facts)

    def on_inbox_table_highlighted(self, message: InboxTable.Highlighted) -> None:
        self.draw_need()
        self.draw_keys()

    def on_inbox_table_opened(self, message: InboxTable.Opened) -> None:
        self.home.open_lane(message.need.run_dir, key=message.need.item.key)

    def on_ways_out_picked(self, message: WaysOut.Picked) -> None:
        self.action_exit(message.number)

    def on_told(self, message: Told) -> None:
        self.tell(message.text, message.severity)

    # What ExitTaking asks for

    @property
    def looks_only(self) -> bool:
        return self.home.read_only

    def _need_of(self, item: Attention) -> Need | None:
        for need in self.meant:
            if need.item is item:
                return need
        return next((one for one in self.needs if one.item is item), None)

    def bridge_to(self, item: Attention) -> Bridge | None:
        need = self._need_of(item)
        return self.home.bridge_to(need.run_dir) if need is not None else None

    def missions_at(self, item: Attention) -> tuple[MissionView, ...]:
        need = self._need_of(item)
        return self.home.missions_in(need.run_dir) if need is not None else ()

    def where_is(self, item: Attention) -> str:
        need = self._need_of(item)
        return need.lane if need is not None and self.inbox.lanes else ""

    def show_log(self, item: Attention) -> None:
        need = self._need_of(item)
        if need is not None:
            self.home.open_lane(need.run_dir, key=item.key, log=item)

    def tell(self, text: str, severity: str = "information") -> None:
        level = severity if severity in ("warning", "error") else "information"
        self.app.notify(
            clean(text),
            severity=level,  # type: ignore[arg-type]
            timeout=5 if level == "information" else 8,
            markup=False,
        )

    # Keys

    def _refused(self, action: str) -> bool:
        why = BY_ACTION[action].why_not(self.situation)
        if why is not None:
            self.tell(why, "warning")
        return why is not None

    def action_exit(self, number: int) -> None:
        meant, inbox = self.meant, self.inbox
        if len(meant) > 1:
            self.take_shared(meant, number, hidden=inbox.hidden_marks)
        elif inbox.marks and meant:
            # It was chosen by hand: nothing came under it.
            self.take_by_number(meant[0].item, number, Steady())
        else:
            self.take_by_number(meant[0].item if meant else None, number, inbox.steady)

    def action_undo(self) -> None:
        if not self._refused("undo"):
            self.undo_at(None)
            self.draw_keys()

    def copyable(self) -> tuple[str, list[Line]]:
        """What ``y`` offers: the title of the menu and its lines."""
        return copyable_of(self.meant)

    def action_copy(self) -> None:
        title, lines = self.copyable()
        if not lines:
            self.tell("Nothing is selected", "warning")
            return
        from meshtui.screens.copying import ask_what_to_copy

        ask_what_to_copy(self.app, title, lines, self.tell)

    # Lists

    @property
    def listing(self) -> ListTable[Any]:
        """The list that is looked at."""
        focused = self.focused
        return focused if isinstance(focused, ListTable) else self.inbox

    @property
    def filter_bar(self) -> FilterBar:
        """The field above the list that is looked at, or that is typed into."""
        bars = list(self.query(FilterBar))
        typed = next((bar for bar in bars if bar.field.has_focus), None)
        return typed or next(bar for bar in bars if bar.table is self.listing)

    def action_filter(self) -> None:
        self.filter_bar.open()

    def action_match(self, by: int) -> None:
        """Go to the next row that the filter means, after the last one to the first."""
        table = self.listing
        if not self._refused(f"match({by})") and not table.next_match(by):
            table.next_match(by, around=True)

    def drop_filter(self) -> bool:
        """Show all rows again, or mark none; whether there was anything to drop."""
        bar = self.filter_bar
        if not bar.display and self.listing.marks:
            self.listing.unmark()
            return True
        if not bar.display:
            return False
        bar.drop()
        bar.table.focus()
        return True

    def on_list_table_rearranged(self, message: ListTable.Rearranged) -> None:
        bar = next((one for one in self.query(FilterBar) if one.table is message.table), None)
        if bar is not None:
            bar.draw()
        self.draw_titles()
        self.draw_need()
        self.draw_keys()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether a key means this action: ``n`` and ``N`` mean another while a filter is on."""
        command = BY_ACTION.get(f"{action}({parameters[0]})" if parameters else action)
        return command is None or command.meant("queue", filtering=bool(self.listing.filter.text))

    def action_next_attention(self) -> None:
        if not self._refused("inbox"):
            self.inbox.focus()
            self.inbox.step(1)

    def action_help(self) -> None:
        from meshtui.screens.help import Help

        self.app.push_screen(Help(self.situation))

    def action_palette(self) -> None:
        self.app.action_command_palette()

    def action_quit(self) -> None:
        self.home.ask_to_leave()


def copyable_of(needs: Sequence[Need]) -> tuple[str, list[Line]]:
    """What can be copied of items: the ids, and the commands of the ways out they share."""
    if not needs:
        return "", []
    if len(needs) == 1:
        item = needs[0].item
        own = item.envelope_id or item.subject
        return item.subject, [("id", own), *((way.label, way.command) for way in item.exits)]
    ids = "\n".join(need.item.envelope_id or need.item.subject for need in needs)
    lines = [("ids", ids), *((way.label, way.command) for way in shared_ways(needs))]
    return f"{len(needs):,} marked", lines


def marked_in(table: ListTable[Any]) -> str:
    """How many rows of a list are marked, for its title."""
    return f" · {number(len(table.marks))} marked" if table.marks else ""
