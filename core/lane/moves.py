"""Operations that move records between the folders of a lane, or change one that is not started."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from meshtui.core import storage
from meshtui.core.errors import InvalidInput, MeshtuiError, NotFound
from meshtui.core.lane import rearrange
from meshtui.core.lane.base import LaneBase
from meshtui.core.lane.index import Index, list_records
from meshtui.core.lane.queue import Placed
from meshtui.core.lane.rearrange import WAYS, WHERE, not_pending, not_there, refuse_waiting_stop
from meshtui.core.lane.receipts import (
    EditReceipt,
    HeadReceipt,
    Receipt,
    Refusal,
    RequeueReceipt,
    RestoreReceipt,
    SeveralReceipt,
    WithdrawReceipt,
)
from meshtui.core.lane.settle import LaneFiles, Settler
from meshtui.core.models.envelope import kind_of, validate_envelope, warnings_for
from meshtui.core.models.record import Record, load_record


class LaneMoves(LaneBase):
    """Withdraw, restore, requeue, to the head, edit; those on several do what can be done and name the rest."""

    # -- out of the queue ---------------------------------------------------------------------------

    def withdraw(self, envelope_id: str) -> WithdrawReceipt:
        """Take one pending record out."""
        self._need_lane()
        found = self._queue.find(envelope_id)
        if found is None:
            raise not_there(envelope_id)
        folder, record = found
        if folder != "pending":
            raise not_pending(envelope_id, folder)
        try:
            self._queue.shift(record, "pending", "withdrawn")
        except FileNotFoundError:
            raise InvalidInput(f"envelope {envelope_id!r} was just taken; see: meshtui status") from None
        depth = self._queue.depth
        self._append([("withdrawn", envelope_id, {"depth": depth, "by": self._by, "record": record.name})])
        return WithdrawReceipt(envelope_id, depth)

    def withdraw_many(self, ids: Sequence[str]) -> SeveralReceipt:
        """Take several pending records out."""
        self._need_lane()
        done: dict[str, str] = {}
        refused: list[Refusal] = []
        with self._queue.locked() as index:
            found = self._queue.find_many(ids)
            for envelope_id in dict.fromkeys(ids):
                try:
                    record = _pending(found, envelope_id)
                    self._queue.shift_locked(index, record, "pending", "withdrawn", durable=False)
                except FileNotFoundError:
                    refused.append(Refusal(envelope_id, f"envelope {envelope_id!r} was just taken", 2))
                except (InvalidInput, NotFound) as error:
                    refused.append(_refusal(envelope_id, error))
                else:
                    done[envelope_id] = record.name
            if done:
                storage.sync_dir(self._paths.withdrawn)
                storage.sync_dir(self._paths.pending)
                index.refresh_newest()
        depth = self._queue.depth
        self._append(
            [
                ("withdrawn", envelope_id, {"depth": depth, "by": self._by, "record": name})
                for envelope_id, name in done.items()
            ]
        )
        return SeveralReceipt(tuple(done), tuple(refused), depth)

    # -- back into it -------------------------------------------------------------------------------

    def restore(self, ids: Sequence[str] | None = None, *, in_place: bool = False) -> RestoreReceipt:
        """Put withdrawn records back at the end in their old order; of stops at most one, last.

        ``ids`` names which, by default all. With ``in_place`` they go where they were before; where another
        tool works the lane, which has its own list of what comes next, to the end.
        """
        self._need_lane()
        if in_place and not self.holder().foreign:
            return self._restore_in_place(ids)
        left: list[str] = []
        bad: list[str] = []
        with self._queue.locked(enqueuing=True) as index:
            refuse_waiting_stop(self._paths, index)
            phases: list[tuple[str, Record]] = []
            stops: list[tuple[str, Record]] = []
            for record in self._withdrawn(index, ids, bad):
                (stops if kind_of(record.envelope) == "stop" else phases).append(("withdrawn", record))
            left = [record.envelope_id for _, record in stops[:-1]]
            placed = self._queue.to_end(index, [*phases, *stops[-1:]])
        self._note_quarantined(bad)
        self._note_many("restored", placed)
        return RestoreReceipt(tuple(item.record.envelope_id for item in placed), tuple(left))

    def _restore_in_place(self, ids: Sequence[str] | None) -> RestoreReceipt:
        bad: list[str] = []
        with self._queue.locked() as index:
            records = self._withdrawn(index, ids, bad)
        self._note_quarantined(bad)
        names = {record.envelope_id: record.name for record in records}
        return RestoreReceipt(self.place(names)) if names else RestoreReceipt(())

    def _note_quarantined(self, names: Sequence[str]) -> None:
        self._append(
            [("record_quarantined", name, {"folder": "withdrawn", "by": self._by}) for name in names]
        )

    def _withdrawn(self, index: Index, ids: Sequence[str] | None, bad: list[str]) -> list[Record]:
        """The withdrawn records that ``ids`` names, oldest first; raises for one that is not withdrawn.

        The names of those that cannot be read, and stand in quarantine now, are added to ``bad``.
        """
        if ids is not None:
            found = self._queue.find_many(ids)
            for envelope_id in ids:
                if envelope_id not in found:
                    raise not_there(envelope_id)
                folder = found[envelope_id][0]
                if folder != "withdrawn":
                    raise InvalidInput(
                        f"envelope {envelope_id!r} is {WHERE[folder]}, not withdrawn: {WAYS[folder]}"
                    )
            return sorted((record for _folder, record in found.values()), key=lambda record: record.name)
        records = []
        for name in list_records(self._paths.withdrawn):
            try:
                records.append(load_record(self._paths.withdrawn / name))
            except InvalidInput as error:
                self._queue.quarantine_locked(index, "withdrawn", name, str(error))
                bad.append(name)
        return records

    def requeue(self, envelope_id: str) -> RequeueReceipt:
        """Put a finished, failed or withdrawn envelope at the end of the queue, as if it had not run."""
        self._need_lane()
        self._refuse_foreign("requeue")
        with self._queue.locked(enqueuing=True) as index:
            placed = self._requeue(index, self._files(), envelope_id, self._queue.find(envelope_id))
        self._note_many("requeued", [placed])
        return RequeueReceipt(envelope_id, placed.position, placed.depth)

    def requeue_many(self, ids: Sequence[str]) -> SeveralReceipt:
        """Put several at the end, in this order."""
        self._need_lane()
        self._refuse_foreign("requeue")
        placed: list[Placed] = []
        refused: list[Refusal] = []
        with self._queue.locked(enqueuing=True) as index:
            found, files = self._queue.find_many(ids), self._files()
            for envelope_id in dict.fromkeys(ids):
                try:
                    placed.append(self._requeue(index, files, envelope_id, found.get(envelope_id)))
                except (InvalidInput, NotFound) as error:
                    refused.append(_refusal(envelope_id, error))
        self._note_many("requeued", placed)
        done = tuple(item.record.envelope_id for item in placed)
        return SeveralReceipt(done, tuple(refused), self._queue.depth)

    def _requeue(
        self, index: Index, files: LaneFiles, envelope_id: str, found: tuple[str, Record] | None
    ) -> Placed:
        refuse_waiting_stop(self._paths, index)
        if found is None:
            raise not_there(envelope_id)
        folder, record = found
        if folder not in ("claimed", "withdrawn"):
            raise InvalidInput(f"envelope {envelope_id!r} is {WHERE[folder]}: {WAYS[folder]}")
        if kind_of(record.envelope) == "stop":
            raise InvalidInput(f"{envelope_id!r} is a stop; enqueue a new one with: meshtui stop --drain")
        Settler(files).archive(index, envelope_id)
        record.put_back(attempt=1, forget_budget=True)
        self._queue.rewrite(record, folder)
        return self._queue.to_end(index, [(folder, record)])[0]

    # -- inside it ----------------------------------------------------------------------------------

    def head(self, ids: Sequence[str]) -> HeadReceipt:
        """Put pending records before everything that waits, in this order; all or none."""
        self._need_lane()
        self._refuse_foreign("head")
        wanted = list(dict.fromkeys(ids))

        def receipt(names: Mapping[str, Any]) -> HeadReceipt:
            with self._queue.locked(changing=False):
                pass
            return HeadReceipt(
                tuple(wanted), self._queue.depth, {key: str(name) for key, name in names.items()}
            )

        return self._ask_or_act(
            "head",
            None,
            lambda reply: receipt(reply.get("names") or {}),
            lambda files: receipt(rearrange.to_head(files, wanted)),
            ids=wanted,
        )

    def place(self, names: Mapping[str, str]) -> tuple[str, ...]:
        """Put pending or withdrawn records back where they were: ``{id: the record's name there}``."""
        self._need_lane()
        self._refuse_foreign("head")
        return self._ask_or_act(
            "place",
            None,
            lambda reply: tuple(reply.get("placed") or ()),
            lambda files: tuple(rearrange.to_places(files, names)),
            names=dict(names),
        )

    def envelope(self, envelope_id: str) -> tuple[str, dict[str, Any]]:
        """The folder of a record and its envelope; changes nothing."""
        self._need_lane(looking=True)
        found = self._queue.find(envelope_id)
        if found is None:
            raise not_there(envelope_id)
        return found[0], found[1].envelope

    def edit(
        self, envelope_id: str, envelope: Mapping[str, Any], *, base: Mapping[str, Any] | None = None
    ) -> EditReceipt:
        """Change an envelope that is not started; a pending one keeps its place, another goes to the end.

        ``base`` is the envelope that was edited: if it is another one by now, nothing is changed.
        """
        self._need_lane()
        self._refuse_foreign("edit")
        value = validate_envelope(dict(envelope))

        def receipt(done: rearrange.Edited) -> EditReceipt:
            return EditReceipt(
                done.envelope_id,
                done.position,
                done.queue_depth,
                done.before,
                done.folder,
                tuple(warnings_for(value)),
            )

        return self._ask_or_act(
            "edit",
            envelope_id,
            lambda reply: receipt(rearrange.Edited(**reply)),
            lambda files: receipt(rearrange.edit(files, envelope_id, value, base)),
            envelope=value,
            base=dict(base) if base is not None else None,
        )

    def park_again(self, envelope_id: str) -> None:
        """Take back that a parked phase was dropped."""
        self._need_lane()
        self._refuse_foreign("answer")

        def act(files: LaneFiles) -> None:
            rearrange.park_again(files, envelope_id)
            self._say_waiting(files)

        self._ask_or_act("park", envelope_id, lambda _: None, act)


def each(ids: Iterable[str], act: Callable[[str], Receipt]) -> SeveralReceipt:
    """Do ``act`` with one after the other, whatever becomes of the ones before."""
    done: list[str] = []
    refused: list[Refusal] = []
    for envelope_id in dict.fromkeys(ids):
        try:
            act(envelope_id)
        except MeshtuiError as error:
            refused.append(_refusal(envelope_id, error))
        else:
            done.append(envelope_id)
    return SeveralReceipt(tuple(done), tuple(refused))


def _refusal(envelope_id: str, error: MeshtuiError) -> Refusal:
    return Refusal(envelope_id, str(error), error.exit_code)


def _pending(found: Mapping[str, tuple[str, Record]], envelope_id: str) -> Record:
    if envelope_id not in found:
        raise not_there(envelope_id)
    folder, record = found[envelope_id]
    if folder != "pending":
        raise not_pending(envelope_id, folder)
    return record
