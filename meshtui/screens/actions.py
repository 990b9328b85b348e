"""What the keys of the lane's screen do: ask where something would be lost, then hand it to the bridge."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, cast

from meshtui import command_lines, receipts, undo
from meshtui.bridge import Bridge
from meshtui.commands import BY_ACTION, Situation, key_of
from meshtui.core.lane.ways import way_out
from meshtui.core.view import SECTIONS, Attention, Exit, LaneView, Row, Section
from meshtui.receipts import WITH, count
from meshtui.screens.acting import Acting
from meshtui.screens.exits import ExitTaking
from meshtui.widgets.attention import NeedsYou
from meshtui.widgets.detail import DetailPane
from meshtui.widgets.listing import ListTable
from meshtui.widgets.table import QueueTable

if TYPE_CHECKING:
    from meshtui.core.mesh.view import MissionView
    from meshtui.widgets.filter_bar import FilterBar
    from meshtui.widgets.pane import PartsPane


class Console(Protocol):
    """The app around the screens."""

    def ask_to_leave(self) -> None: ...
    def close_lane(self) -> None: ...
    def open_inbox(self) -> None: ...


class LaneActions(Acting, ExitTaking):
    """Mixed into the lane's screen."""

    view: LaneView | None
    bridge: Bridge | None
    section: Section
    runner_here: bool

    @property
    def row(self) -> Row | None:
        """The selected record."""
        raise NotImplementedError

    if TYPE_CHECKING:

        @property
        def pane(self) -> PartsPane: ...

        @property
        def listing(self) -> ListTable[Any]: ...

        @property
        def filter_bar(self) -> FilterBar: ...

        def open_details(self) -> None: ...

        def _share_room(self) -> None: ...

        def focus_list(self) -> None: ...

    @property
    def situation(self) -> Situation:
        """What decides which commands make sense now."""
        raise NotImplementedError

    def tell(self, text: str, severity: str = "information") -> None:
        raise NotImplementedError

    def show_section(self, section: Section) -> None:
        raise NotImplementedError

    def matching(self, section: Section) -> int:
        """How many rows of a list the filter means."""
        raise NotImplementedError

    def show_key(self, key: str | None) -> bool:
        raise NotImplementedError

    def _refused(self, action: str) -> bool:
        """Whether ``action`` makes no sense now; says why."""
        why = BY_ACTION[action].why_not(self.situation)
        if why is not None:
            self.tell(why, "warning")
        return why is not None

    # The lane

    def action_enqueue(self) -> None:
        if self._refused("enqueue"):
            return
        self.enqueue_from()

    def action_interrupt(self) -> None:
        if self._refused("interrupt") or self.view is None:
            return
        pending = self.view.counts.pending
        running = f" {self.view.active[0].title} goes on." if self.view.active else ""
        self._confirm(
            "Interrupt the lane?",
            f"{count(pending, 'pending envelope')} will be withdrawn and not run.{running} {key_of('undo')} undoes it, {key_of('restore')} brings them back.",
            "Withdraw all",
            lambda: self._operate(
                lambda lane: lane.interrupt(),
                receipts.interrupted,
                undo=lambda receipt: undo.of_withdrawal(receipt.withdrawn),
            ),
            command=command_lines.on_lane("interrupt", self.root),
        )

    def action_pause(self) -> None:
        if self._refused("pause") or self.view is None:
            return
        if self.view.state == "paused":
            command = command_lines.on_lane("continue", self.root)
            self._operate(lambda lane: lane.resume(), receipts.paused, undo=undo.of_pause, command=command)
        else:
            command = command_lines.on_lane("pause", self.root)
            self._operate(lambda lane: lane.pause(), receipts.paused, undo=undo.of_pause, command=command)

    def action_kill(self) -> None:
        if self._refused("kill") or self.view is None:
            return
        row = self.view.active[0]
        self._confirm(
            f"Kill {row.title}?",
            "Its call and everything it started will be ended now. What it did so far stays in its folder; "
            "the phase counts as failed. Its session is kept.",
            "Kill",
            lambda: self._operate(
                lambda lane: lane.kill(row.envelope_id),
                receipts.killed,
                undo=lambda _: undo.final(
                    f"the kill of {row.envelope_id}", "what was ended is over; r queues it again"
                ),
            ),
            command=command_lines.on_lane("kill", self.root, "--envelope", row.envelope_id),
        )

    def action_extend(self) -> None:
        if self._refused("extend") or self.view is None:
            return
        from meshtui.screens.steer import ExtendForm

        row = self.view.active[0]

        def entered(seconds: float | None) -> None:
            if seconds is not None:
                self._operate(
                    lambda lane: lane.extend(row.envelope_id, seconds),
                    receipts.extended,
                    undo=lambda _: undo.final(
                        f"more time for {row.envelope_id}", "a deadline is only moved later"
                    ),
                    command=way_out("extend", row.envelope_id, self.root, "--seconds", f"{seconds:g}"),
                )

        self.app.push_screen(ExtendForm(row, self.root), entered)

    def action_message(self) -> None:
        row = self.row
        if self._refused("message") or row is None:
            return
        self._ask_for_message(row)

    def _ask_for_message(self, row: Row, written: str = "", note: str = "") -> None:
        from meshtui.screens.steer import MessageForm

        def entered(text: str | None) -> None:
            if text is not None:
                self._operate(
                    lambda lane: lane.message(row.envelope_id, text),
                    receipts.sent,
                    undo=undo.of_enqueue,
                    again=lambda why: self._ask_for_message(row, text, why),
                )

        self.app.push_screen(MessageForm(row, self.root, written=written, note=note), entered)

    def action_runner(self) -> None:
        if self._refused("runner") or self.bridge is None:
            return
        bridge = self.bridge
        if not self.runner_here and not (self.view is not None and self.view.runner.alive):
            command = command_lines.on_lane("lane", self.root)
            self.tell(f"Starting a runner in this console{WITH}{command}")
            bridge.start_runner()
            return
        loss = "Nothing is running; what is pending waits for the next runner."
        if self.view is not None and self.view.active:
            row = self.view.active[0]
            loss = f"{row.title} will be ended and put back at the head of the queue; the work of this attempt is lost."
        if self.runner_here:
            self._confirm(
                "Stop the runner of this console?",
                loss,
                "Stop",
                bridge.stop_runner,
                command=command_lines.on_lane("stop", self.root),
            )
            return
        pid = self.view.runner.pid if self.view is not None else None
        self._confirm(
            f"Stop runner {pid}?",
            loss,
            "Stop",
            lambda: self._operate(lambda lane: lane.stop(), receipts.stopped),
            command=command_lines.on_lane("stop", self.root),
        )

    # What needs an answer

    def action_answer(self) -> None:
        if self._refused("answer") or self.view is None:
            return
        marked = [row for row in self.query_one(QueueTable).marked if row.section == "stalled"]
        if len(marked) > 1:
            self.answer_many(marked)
            return
        row = marked[0] if marked else self.row
        if row is None or row.section != "stalled":
            item = self.query_one(NeedsYou).selected
            by_key = {one.key: one for one in self.view.stalled}
            row = by_key.get(item.key or "") if item is not None else None
            row = row or (self.view.stalled[0] if self.view.stalled else None)
        if row is not None:
            self.ask_about(row)

    def ask_about(self, row: Row) -> None:
        """Open the question about a parked record."""
        from meshtui.screens.answer import Answer, AnswerForm

        def answered(answer: Answer | None) -> None:
            if answer is not None:
                self._operate(
                    lambda lane: lane.answer(
                        row.envelope_id,
                        answer.action,
                        engine=answer.engine,
                        deadline_seconds=answer.deadline_seconds,
                    ),
                    receipts.answered,
                    undo=lambda _: undo.of_answers([row.envelope_id], answer.action),
                )

        item = next((one for one in (self.view.attention if self.view else ()) if one.key == row.key), None)
        detail = self.query_one(DetailPane).detail
        question = detail.question if detail is not None and detail.key == row.key else None
        self.app.push_screen(AnswerForm(row, item, question, root=self.root), answered)

    def action_exit(self, number: int) -> None:
        panel = self.query_one(NeedsYou)
        self.take_by_number(panel.selected, number, panel.steady)

    @property
    def looks_only(self) -> bool:
        return self.situation.read_only

    def bridge_to(self, item: Attention) -> Bridge | None:
        return self.bridge

    def missions_at(self, item: Attention) -> tuple[MissionView, ...]:
        return self.view.missions if self.view is not None else ()

    def name_of(self, item: Attention) -> str:
        row = self._row_of(item)
        return row.envelope_id if row is not None else super().name_of(item)

    def ask(
        self, question: str, loss: str, yes: str, then: Callable[[], None], *, command: str | None = None
    ) -> None:
        self._confirm(question, loss, yes, then, command=command)

    def take_file(self, bridge: Bridge, item: Attention, way: Exit) -> None:
        files = [item.key or item.subject]
        (self.repair_quarantined if way.action == "repair" else self.drop_quarantined)(files)

    def _row_of(self, item: Attention) -> Row | None:
        if self.view is None or item.key is None:
            return None
        return next(
            (row for section in SECTIONS for row in self.view.rows(section) if row.key == item.key), None
        )

    def show_log(self, item: Attention) -> None:
        if not self.show_key(item.key):
            self.tell(f"{item.subject} is not listed any more", "warning")
            return
        if self.situation.side == "loops":
            self.pane.choose("gates" if item.text.startswith("gate") else "log")
            self.open_details()
            return
        self.query_one(DetailPane).choose("output")
        self.query_one(QueueTable).action_open()

    def action_next_attention(self) -> None:
        attention = self.query_one(NeedsYou)
        if attention.selected is None:
            self.tell("Nothing needs you")
            return
        if len(attention.items) > 1:
            attention.step(1, around=True)
        self.show_key(attention.selected.key)

    # The lists

    def action_section(self, by: int) -> None:
        if self.view is None:
            return
        listed = [
            section
            for section in SECTIONS
            if section in ("pending", "active", "done", "failed", self.section)
            or self.view.counts.of(section)
        ]
        self.show_section(listed[(listed.index(self.section) + by) % len(listed)])

    def action_detail(self, by: int) -> None:
        self.pane.step(by)

    def action_filter(self) -> None:
        self.focus_list()
        self.filter_bar.open()
        self.call_after_refresh(self._share_room)

    def action_match(self, by: int) -> None:
        """Go to the next row that the filter means; after the last one of a list to the next list's."""
        if self._refused(f"match({by})"):
            return
        table = self.listing
        if table.next_match(by):
            return
        if isinstance(table, QueueTable) and self.view is not None:
            at = SECTIONS.index(self.section)
            for step in range(1, len(SECTIONS)):
                section = SECTIONS[(at + step * by) % len(SECTIONS)]
                if self.matching(section):
                    self.show_section(section)
                    break
        if not table.next_match(by, around=True):
            self.tell(f"Nothing matches {table.filter.text}", "warning")

    def action_back(self) -> None:
        if self.has_class("-detail-open"):
            self.remove_class("-detail-open")
            self.focus_list()
        elif self.filter_bar.display and (self.listing.has_focus or self.filter_bar.field.has_focus):
            self.filter_bar.drop()
            self.focus_list()
        elif self.listing.has_focus and self.listing.marks:
            self.listing.unmark()
        elif self.situation.fleet and isinstance(self.focused, ListTable):
            self.action_fleet()
        else:
            self.focus_list()

    def action_fleet(self) -> None:
        if not self._refused("fleet"):
            self._app.close_lane()

    def action_inbox(self) -> None:
        if not self._refused("inbox"):
            self._app.open_inbox()

    # The console

    def action_help(self) -> None:
        from meshtui.screens.help import Help

        self.app.push_screen(Help(self.situation))

    def action_palette(self) -> None:
        self.app.action_command_palette()

    def action_quit(self) -> None:
        self._app.ask_to_leave()

    @property
    def _app(self) -> Console:
        return cast("Console", self.app)
