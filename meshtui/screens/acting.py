"""What the keys do with the selected or the marked records of the queue: change, move, copy, undo."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meshtui import command_lines, receipts, undo
from meshtui.bridge import Bridge, Operations
from meshtui.commands import Situation, key_of
from meshtui.core.errors import MeshtuiError
from meshtui.core.view import LaneView, Row
from meshtui.messages import EnvelopeRead
from meshtui.receipts import Said, count, names
from meshtui.screens.doing import Doing, Undo, Work
from meshtui.widgets.attention import NeedsYou
from meshtui.widgets.table import QueueTable

if TYPE_CHECKING:
    from meshtui.command_lines import Line

EDITABLE = ("pending", "claimed", "withdrawn")
"""The folders in which an envelope can be changed."""


class Acting(Doing):
    """Mixed into the lane's screen; as it is no widget, its handlers go by their names."""

    view: LaneView | None
    bridge: Bridge | None

    if TYPE_CHECKING:

        @property
        def row(self) -> Row | None: ...

        @property
        def situation(self) -> Situation: ...

        def tell(self, text: str, severity: str = "information") -> None: ...

        def draw_keys(self) -> None: ...

        def ask_about(self, row: Row) -> None: ...

        def _refused(self, action: str) -> bool: ...

    # How

    @property
    def root(self) -> Path:
        """The run directory, as command lines name it."""
        return self.view.run_dir if self.view is not None else Path()

    def _operate(
        self,
        work: Work,
        told: Callable[[Any], Said],
        *,
        create: bool = False,
        undo: Undo | None = None,
        command: str | None = None,
        again: Callable[[str], None] | None = None,
    ) -> None:
        """Have the bridge do ``work``; ``undo`` makes of its receipt what ``u`` takes back."""
        self.operate_at(self.bridge, work, told, create=create, undo=undo, command=command, again=again)

    def _confirm(
        self, question: str, loss: str, yes: str, then: Callable[[], None], *, command: str | None = None
    ) -> None:
        from meshtui.screens.confirm import Confirm

        def answered(answer: str | None) -> None:
            if answer == "yes":
                then()

        self.app.push_screen(Confirm(question, loss, yes, command=command), answered)

    # The selected or the marked

    @property
    def targets(self) -> tuple[Row, ...]:
        """The marked records, else the selected one."""
        table = self.query_one(QueueTable)
        row = self.row
        return table.marked or ((row,) if row is not None else ())

    def _hidden(self) -> str:
        hidden = self.query_one(QueueTable).hidden_marks
        if not hidden:
            return ""
        return f" {count(hidden, 'marked one')} {'is' if hidden == 1 else 'are'} hidden by the filter."

    def action_withdraw(self) -> None:
        rows = self.targets
        if self._refused("withdraw") or not rows:
            return
        if rows[0].section == "quarantined":
            self.drop_quarantined([row.key for row in rows])
            return
        ids = [row.envelope_id for row in rows]
        command = command_lines.on_several("withdraw", ids, self.root)
        back = f"{key_of('undo')} undoes it; {key_of('restore')} restores everything that was withdrawn."
        if len(rows) == 1:
            self._confirm(
                f"Withdraw {rows[0].title}?",
                f"{ids[0]} leaves the queue and will not run. {back}",
                "Withdraw",
                lambda: self._operate(
                    lambda lane: lane.withdraw(ids[0]),
                    receipts.withdrawn,
                    undo=lambda receipt: undo.of_withdrawal([receipt.envelope_id]),
                ),
                command=command,
            )
            return
        self._confirm(
            f"Withdraw {count(len(ids), 'envelope')}?",
            f"{names(ids)} leave the queue and will not run.{self._hidden()} {back}",
            f"Withdraw {len(ids):,}",
            lambda: self._operate(
                lambda lane: lane.withdraw_many(ids),
                lambda receipt: receipts.several(receipt, "Withdrawn"),
                undo=lambda receipt: undo.of_withdrawal(receipt.done),
            ),
            command=command,
        )

    def action_requeue(self) -> None:
        rows = self.targets
        if self._refused("requeue") or not rows:
            return
        if rows[0].section == "quarantined":
            self.repair_quarantined([row.key for row in rows])
            return
        ids = [row.envelope_id for row in rows]
        command = command_lines.on_several("requeue", ids, self.root)
        if len(ids) == 1:
            self._operate(
                lambda lane: lane.requeue(ids[0]),
                receipts.requeued,
                undo=lambda receipt: undo.of_return([receipt.envelope_id], "the requeuing of"),
                command=command,
            )
            return
        kept = "" if rows[0].section == "withdrawn" else " Their results are kept in results/.history."
        self._confirm(
            f"Requeue {count(len(ids), 'envelope')}?",
            f"{names(ids)} will run again, from the start, after all that waits.{kept}{self._hidden()}",
            f"Requeue {len(ids):,}",
            lambda: self._operate(
                # Oldest first, as they were queued; these lists show the newest first.
                lambda lane: lane.requeue_many([row.envelope_id for row in sorted(rows, key=_queued)]),
                lambda receipt: receipts.several(receipt, "Requeued"),
                undo=lambda receipt: undo.of_return(receipt.done, "the requeuing of"),
            ),
            command=command,
        )

    def action_restore(self) -> None:
        if self._refused("restore"):
            return
        rows = [row for row in self.query_one(QueueTable).marked if row.section == "withdrawn"]
        ids = [row.envelope_id for row in rows] or None
        command = command_lines.on_several("restore", ids or [], self.root)

        def act() -> None:
            self._operate(
                lambda lane: lane.restore(ids) if ids else lane.restore(),
                receipts.restored,
                undo=lambda receipt: undo.of_return(receipt.restored, "the restoring of"),
                command=command,
            )

        if ids is None or len(ids) == 1:
            act()
            return
        self._confirm(
            f"Restore {count(len(ids), 'envelope')}?",
            f"{names(ids)} will run after all that waits, in their old order.{self._hidden()}",
            f"Restore {len(ids):,}",
            act,
            command=command,
        )

    def action_head(self) -> None:
        rows = [row for row in self.targets if row.kind != "stop"]
        if self._refused("head") or not rows:
            return
        ids = [row.envelope_id for row in rows]
        command = command_lines.on_several("head", ids, self.root)

        def act() -> None:
            self._operate(lambda lane: lane.head(ids), receipts.headed, undo=undo.of_head, command=command)

        if len(ids) == 1:
            act()
            return
        first = self.view.pending[0].title if self.view is not None and self.view.pending else "all else"
        self._confirm(
            f"Put {count(len(ids), 'envelope')} at the head?",
            f"{names(ids)} will run next, in this order, before {first}.{self._hidden()} {key_of('undo')} undoes it.",
            "Put at the head",
            act,
            command=command,
        )

    # Quarantine

    def repair_quarantined(self, files: Sequence[str]) -> None:
        """Put quarantined files that can be read now back into the queue."""
        command = command_lines.on_each("quarantine repair", files, self.root)
        if len(files) == 1:
            self._operate(
                lambda lane: lane.quarantine_repair(files[0]),
                receipts.repaired,
                undo=lambda receipt: undo.of_return([receipt.envelope_id], "the repair of"),
                command=command,
            )
            return
        self._confirm(
            f"Repair {count(len(files), 'file')}?",
            f"{names(files)}: each that can be read as a record by now goes to the end of the queue; the others stay.{self._hidden()}",
            f"Repair {len(files):,}",
            lambda: self._operate(
                lambda lane: _each(files, lane.quarantine_repair),
                lambda receipt: receipts.several(receipt, "Repaired"),
                undo=lambda receipt: undo.final(
                    f"the repair of {names(receipt.done)}", "w withdraws what it put back"
                ),
            ),
            command=command,
        )

    def drop_quarantined(self, files: Sequence[str]) -> None:
        """Take quarantined files out for good."""
        what = files[0] if len(files) == 1 else count(len(files), "file")
        which = "" if len(files) == 1 else f"{names(files)}: "
        self._confirm(
            f"Drop {what}?",
            f"{which}what stands in quarantine leaves the lane for good and is only kept as a file under quarantine/.dropped.{self._hidden()}",
            "Drop",
            lambda: self._operate(
                lambda lane: (
                    lane.quarantine_drop(files[0]) if len(files) == 1 else _each(files, lane.quarantine_drop)
                ),
                receipts.repaired
                if len(files) == 1
                else lambda receipt: receipts.several(receipt, "Dropped"),
                undo=lambda _: undo.of_file_drop(files),
            ),
            command=command_lines.on_each("quarantine drop", files, self.root),
        )

    # Parked

    def answer_many(self, rows: Sequence[Row]) -> None:
        """Ask what is to become of several parked phases."""
        from meshtui.screens.confirm import Several

        ids = [row.envelope_id for row in rows]

        def answered(answer: str | None) -> None:
            if answer == "retry":
                self._operate(
                    lambda lane: _each(ids, lambda one: lane.answer(one, "retry")),
                    lambda receipt: receipts.several(receipt, "Back at the head"),
                    undo=lambda receipt: undo.of_answers(receipt.done, "retry"),
                )
            elif answer == "drop":
                self._operate(
                    lambda lane: _each(ids, lambda one: lane.answer(one, "drop")),
                    lambda receipt: receipts.several(receipt, "Dropped"),
                    undo=lambda receipt: undo.of_answers(receipt.done, "drop"),
                )

        self.app.push_screen(
            Several(
                f"Answer {count(len(ids), 'parked envelope')}",
                f"{names(ids)}. Run again: back to the head of the queue, attempts from 0. Drop: they count as failed and do not run again.{self._hidden()}",
                (("Run again", "r", "retry"), ("Drop", "d", "drop")),
                command=command_lines.on_each("answer", ids, self.root, "--retry"),
            ),
            answered,
        )

    # Changed

    def action_edit(self) -> None:
        row, bridge = self.row, self.bridge
        if self._refused("edit") or row is None or bridge is None:
            return
        name = row.envelope_id
        bridge.ask(lambda lane: lane.envelope(name), lambda found: EnvelopeRead(name, *found))

    def on_envelope_read(self, message: EnvelopeRead) -> None:
        name, base = message.envelope_id, message.envelope
        if message.written is not None and message.folder not in EDITABLE:
            self._enqueue_instead(message)
            return
        from meshtui.screens.enqueue import EnqueueForm

        waits = message.folder == "pending"

        def entered(envelope: dict[str, Any] | None) -> None:
            if envelope == base:
                self.tell(f"{name} is as it was: nothing was changed")
            elif envelope is not None:
                changed = envelope
                self._operate(
                    lambda lane: lane.edit(name, changed, base=base),
                    receipts.edited,
                    undo=undo.of_edit,
                    again=lambda why: self._read_again(name, changed, why),
                )

        place = "it keeps its place" if waits else "it is queued again, at the end"
        form = EnqueueForm(
            base, editing=name, place=place, root=self.root, written=message.written, note=message.why
        )
        self.app.push_screen(form, entered)

    def _read_again(self, name: str, written: dict[str, Any], why: str) -> None:
        """An edit was refused: look where the envelope stands by now, and go on with what was written."""
        if self.bridge is None:
            return

        def where(lane: Operations) -> tuple[str, dict[str, Any]]:
            try:
                return lane.envelope(name)
            except MeshtuiError:
                return "", {}

        self.bridge.ask(where, lambda found: EnvelopeRead(name, *found, written=written, why=why))

    def _enqueue_instead(self, message: EnvelopeRead) -> None:
        """The runner was faster: what was written is offered as another envelope, with an id of its own."""
        written = {key: value for key, value in (message.written or {}).items() if key != "id"}
        self.enqueue_from(
            written, f"What you wrote is kept: add it as a new envelope, or leave it. {message.why}"
        )

    def enqueue_from(self, written: dict[str, Any] | None = None, note: str = "") -> None:
        """Open the form for a new envelope, with what was ``written`` before."""
        from meshtui.screens.enqueue import EnqueueForm

        def entered(envelope: dict[str, Any] | None) -> None:
            if envelope is not None:
                value = envelope
                self._operate(
                    lambda lane: lane.enqueue(value),
                    receipts.enqueued,
                    create=True,
                    undo=undo.of_enqueue,
                    again=lambda why: self.enqueue_from(value, why),
                )

        self.app.push_screen(EnqueueForm(root=self.root, written=written, note=note), entered)

    # Taken back

    def action_undo(self) -> None:
        if self._refused("undo"):
            return
        self.undo_at(self.bridge.run_dir.root if self.bridge is not None else None)
        self.draw_keys()

    # Copied

    def action_copy(self) -> None:
        title, lines = self._copyable()
        if not lines:
            self.tell("Nothing is selected", "warning")
            return
        from meshtui.screens.copying import ask_what_to_copy

        ask_what_to_copy(self.app, title, lines, self.tell)

    def _copyable(self) -> tuple[str, list[Line]]:
        """What the menu offers, for the item, the loop, the marks or the record that is looked at."""
        now = self.situation
        needs = self.query_one(NeedsYou)
        if needs.has_focus and needs.selected is not None:
            item = needs.selected
            return item.subject, [("id", item.subject), *((way.label, way.command) for way in item.exits)]
        if now.side == "loops":
            if now.loop is None or now.mission is None:
                return "", []
            return now.loop.loop_id, list(command_lines.of_loop(now.loop, now.mission, self.root))
        rows = self.targets
        if len(rows) > 1:
            return f"{len(rows):,} marked", self._copyable_marks(rows)
        return (rows[0].title, list(command_lines.of_row(rows[0], self.root))) if rows else ("", [])

    def _copyable_marks(self, rows: Sequence[Row]) -> list[Line]:
        ids, section = [row.envelope_id for row in rows], rows[0].section
        lines = [("ids", "\n".join(ids))]
        verbs = {
            "pending": ("withdraw", "head"),
            "done": ("requeue",),
            "failed": ("requeue",),
            "withdrawn": ("restore", "requeue"),
        }.get(section, ())
        lines += [(verb, command_lines.on_several(verb, ids, self.root)) for verb in verbs]
        if section == "stalled":
            lines += [
                (how, command_lines.on_each("answer", ids, self.root, f"--{how}"))
                for how in ("retry", "drop")
            ]
        if section == "quarantined":
            files = [row.key for row in rows]
            lines += [
                (how, command_lines.on_each(f"quarantine {how}", files, self.root))
                for how in ("repair", "drop")
            ]
        return lines


def _queued(row: Row) -> int:
    return row.queued_at or 0


def _each(ids: Sequence[str], act: Callable[[str], Any]) -> Any:
    from meshtui.core.lane.moves import each

    return each(ids, act)
