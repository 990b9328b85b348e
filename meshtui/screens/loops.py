"""The loops' half of the lane's screen: made when the directory has missions, shown beside or instead of the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from textual.widget import Widget

from meshtui.commands import Side, key_of
from meshtui.messages import LoopRead, Planned, Verified, WouldLose
from meshtui.screens.mission_actions import MissionActions
from meshtui.text import number
from meshtui.widgets.attention import NeedsYou
from meshtui.widgets.detail import DetailPane
from meshtui.widgets.filter_bar import FilterBar
from meshtui.widgets.loops import LoopTable, title_of
from meshtui.widgets.pane import PartsPane
from meshtui.widgets.table import QueueTable

if TYPE_CHECKING:
    from meshtui.core.mesh.detail import LoopPart
    from meshtui.core.mesh.view import LoopRow, MissionView
    from meshtui.widgets.listing import ListTable
    from meshtui.widgets.loop_detail import LoopPane

FRAME = 3
"""Lines of the panel that are no rows: its border and the titles of its columns."""
ONE_LIST = (70, 20)
"""Below these columns or lines one list is shown at a time."""


class LoopsSide(MissionActions):
    """Mixed into the lane's screen; as it is no widget, its handlers go by their names."""

    side: Side

    if TYPE_CHECKING:

        def draw_keys(self) -> None: ...

        def inspect(self) -> None: ...

        def _select(self, table: ListTable[Any], key: str) -> bool: ...

    @property
    def loop_table(self) -> LoopTable | None:
        """The list of loops, if there are missions."""
        return cast("LoopTable | None", next(iter(self.query("#loop-table")), None))

    @property
    def loop_pane(self) -> LoopPane | None:
        """The details of a loop, if there are missions."""
        return cast("LoopPane | None", next(iter(self.query("#loop-detail")), None))

    @property
    def loop(self) -> LoopRow | None:
        """The selected loop."""
        table = self.loop_table
        return table.loop if table is not None else None

    @property
    def mission(self) -> MissionView | None:
        """The mission of the selected loop."""
        table = self.loop_table
        return table.mission if table is not None else None

    @property
    def pane(self) -> PartsPane:
        """The details of the list that is looked at."""
        loops = self.loop_pane
        return loops if self.side == "loops" and loops is not None else self.query_one(DetailPane)

    def draw_loops(self) -> None:
        """Show the loops of the newest view, if it has any."""
        missions = self.view.missions if self.view is not None else ()
        table = self.loop_table
        if table is None and not missions:
            return
        if table is None:
            table = self._make_loops()
        table.show(missions)
        self._share_room()
        self._draw_titles()
        # A selection that stays where it was is not announced, though its mission may have changed.
        pane = self.loop_pane
        if pane is not None:
            pane.show_loop(self.mission, self.loop)

    def _make_loops(self) -> LoopTable:
        from meshtui.widgets.loop_detail import LoopPane

        table = LoopTable(id="loop-table")
        self.query_one("#loops").mount(FilterBar(table, id="loop-filter"), table)
        self.query_one("#body").mount(LoopPane(id="loop-detail"))
        self.add_class("-has-loops")
        view = self.view
        assert view is not None
        # What is alone is looked at; beside a queue that has work the queue stays where it was.
        busy = view.exists and (view.counts.pending or view.counts.active or view.counts.stalled)
        self.look_at("queue" if busy else "loops")
        if not busy:
            self.call_after_refresh(self._focus_list, table)
        return table

    def _focus_list(self, table: LoopTable) -> None:
        if self.focused is None or isinstance(self.focused, QueueTable):
            table.focus()

    def look_at(self, side: Side) -> None:
        """Show the details of this list, and where there is little room only this list."""
        if side == "loops" and self.loop_table is None:
            return
        changed = side != self.side
        self.side = side
        self.set_class(side == "loops", "-on-loops")
        self._show_lists()
        if changed:
            self._draw_titles()
            self.draw_keys()
            self.inspect()

    def _show_lists(self) -> None:
        view = self.view
        missions, lane = view is not None and bool(view.missions), view is None or view.exists
        loops = missions or self.loop_table is not None
        one = loops and lane and self._one_list
        self.query_one("#loops").display = loops and (not one or self.side == "loops")
        self.query_one("#queue").display = (lane or not loops) and (not one or self.side == "queue")
        self.query_one(DetailPane).set_class(self.side == "loops", "-aside")
        pane = self.loop_pane
        if pane is not None:
            pane.set_class(self.side != "loops", "-aside")

    @property
    def _one_list(self) -> bool:
        columns, lines = self.size
        return bool(columns) and (columns < ONE_LIST[0] or lines < ONE_LIST[1])

    def _share_room(self) -> None:
        """Give the loops the lines they need, at most half of them where there is a queue."""
        self._show_lists()
        panel, table = self.query_one("#loops"), self.loop_table
        room = self.query_one("#lists").size.height
        if table is None:
            return
        shared = panel.display and self.query_one("#queue").display and room
        # A filter leaves fewer rows for a while: the lists below do not jump for that.
        lines = len(table.all_rows) + FRAME + (2 if self.query_one("#loop-filter").display else 0)
        panel.styles.height = min(lines, max(room // 2, 6)) if shared else "1fr"

    def _draw_titles(self) -> None:
        table, view = self.loop_table, self.view
        if table is None or view is None:
            return
        loops, queue = self.query_one("#loops"), self.query_one("#queue")
        marked = f" · {number(len(table.marks))} marked" if table.marks else ""
        loops.border_title = title_of(table.mission) + marked
        hidden = self._one_list and view.exists
        loops.border_subtitle = (
            f"{key_of('turn(1)')}: queue · {number(view.counts.pending)} pending" if hidden else ""
        )
        queue.border_subtitle = f"{key_of('turn(1)')}: {title_of(table.mission).lower()}" if hidden else ""

    def tick_loops(self) -> None:
        """Let times go on."""
        table, pane = self.loop_table, self.loop_pane
        if table is not None:
            table.tick()
        if pane is not None:
            pane.tick()

    def inspect_loop(self) -> None:
        """Have the files of the selected loop read."""
        pane = self.loop_pane
        if self.bridge is not None and pane is not None:
            self.bridge.inspect(None, output=False)
            self.bridge.inspect_loop(self.mission, self.loop, cast("LoopPart", pane.part))

    def show_loop(self, key: str) -> bool:
        """Select the loop ``key``, if there is one."""
        table = self.loop_table
        if table is None or all(loop.key != key for one in table.missions for loop in one.loops):
            return False
        self.look_at("loops")
        return self._select(table, key)

    def focus_list(self) -> None:
        """Go to the list that is looked at."""
        table = self.loop_table
        # At once: a field may be opened right after it.
        self.set_focus(table if self.side == "loops" and table is not None else self.query_one(QueueTable))

    def action_turn(self, by: int) -> None:
        """Go to the next panel."""
        table = self.loop_table
        lane = self.view is None or self.view.exists or table is None
        places: list[Widget] = [table] if table is not None else []
        places += [self.query_one(QueueTable)] if lane else []
        if self.pane.display or self.has_class("-detail-open"):
            places.append(self.pane.prose)
        needs = self.query_one(NeedsYou)
        # Where one list is shown at a time tab goes between the two; N goes to what needs somebody.
        places += [needs] if needs.display and not (self._one_list and len(places) > 1) else []
        at = places.index(self.focused) if self.focused in places else -1 if by > 0 else 0
        goal = places[(at + by) % len(places)]
        if goal is table:
            self.look_at("loops")
        elif isinstance(goal, QueueTable):
            self.look_at("queue")
        goal.focus()

    def on_loop_table_highlighted(self, message: LoopTable.Highlighted) -> None:
        pane = self.loop_pane
        if pane is not None:
            pane.show_loop(self.mission, message.row)
        self._draw_titles()
        if self.side == "loops":
            self.inspect_loop()
        self.draw_keys()

    def on_loop_table_opened(self, message: LoopTable.Opened) -> None:
        pane = self.loop_pane
        if pane is not None and message.row.active_workers:
            pane.choose("log")
        self.open_details()

    def on_loop_read(self, message: LoopRead) -> None:
        pane = self.loop_pane
        if pane is not None:
            pane.show_read(message)
        if message.problem is not None:
            self.tell(message.problem, "error")

    def on_verified(self, message: Verified) -> None:
        pane = self.loop_pane
        if pane is None:
            return
        if message.checks is None:
            pane.verified_nothing(message.key)
        else:
            pane.show_checks(message.key, message.checks)

    def on_planned(self, message: Planned) -> None:
        self.show_plan(message)

    def on_would_lose(self, message: WouldLose) -> None:
        if message.loss is None:
            self.tell(message.question)
        else:
            self._confirm(message.question, message.loss, message.yes, message.then, command=message.command)

    def on_resize(self) -> None:
        self.call_after_refresh(self._share_room)
        self.call_after_refresh(self._draw_titles)
