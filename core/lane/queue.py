"""Moves of records between the folders of a lane, each under the queue's lock.

Nothing here decides what to do with an envelope; it keeps order, ids and counts right, whoever else
works on the same lane. A record is moved with one rename, so it is in exactly one folder at any time.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meshtui.core import storage, strict_json
from meshtui.core.clock import Clock, iso
from meshtui.core.errors import InvalidInput, NotFound, StorageError
from meshtui.core.lane import dirlock
from meshtui.core.lane.index import Index, Memory, list_records
from meshtui.core.models.envelope import kind_of
from meshtui.core.models.names import RecordName, folded, safe_id, safe_of
from meshtui.core.models.record import Record, load_record
from meshtui.core.run_dir import RECORD_FOLDERS, LanePaths

LOCK_SECONDS = 30.0
RUNNER_LOCK_SECONDS = 600.0
"""A runner waits longer than an operator would: a large batch on a slow disk does not end it."""

STOP_WAITS = "a stop is waiting in the queue; withdraw it first (meshtui withdraw {stop})"


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a record ended up: 1-based position among pending, and how many there are."""

    record: Record
    position: int
    depth: int


class Queue:
    """The record folders of one lane; safe for any number of processes and threads at once."""

    def __init__(self, paths: LanePaths, clock: Clock, *, patience: float | None = None) -> None:
        self.paths = paths
        self._clock = clock
        self._patience = LOCK_SECONDS if patience is None else patience
        self._made = False
        self._memory = Memory()
        self.depth = 0
        """How many were pending when this object last let go of the queue."""

    # -- the lock -----------------------------------------------------------------------------------

    @contextmanager
    def locked(self, *, enqueuing: bool = False, changing: bool = True) -> Iterator[Index]:
        """Hold the queue; with ``enqueuing`` also the lock that other tools' enqueuers respect.

        Yields the index, up to date; it is saved at the end, and made anew after a failure in the middle.
        """
        lock = storage.OsLock(self.paths.queue_flock, what="the queue")
        lock.acquire(self._patience)
        try:
            if enqueuing:
                dirlock.take(
                    self.paths.enqueue_lock,
                    self._clock,
                    timeout=self._patience,
                    what="the queue",
                    kept=self.paths.enqueue_kept,
                )
            try:
                self._settle_batches()
                index = Index(self.paths, self._memory)
                stale = index.load()
                if changing:
                    index.begin()
                try:
                    yield index
                except (InvalidInput, NotFound):
                    # A refusal: what was changed before it is in the index.
                    index.save()
                    raise
                else:
                    if changing or stale:
                        index.save()
                finally:
                    self.depth = index.state.counts.get("pending", 0)
            finally:
                if enqueuing:
                    dirlock.give_back(self.paths.enqueue_lock, kept=self.paths.enqueue_kept)
        finally:
            lock.release()

    def make_folders(self) -> None:
        """Make what a lane needs; what exists stays."""
        if self._made and os.path.isdir(self.paths.control):  # noqa: PTH112 - cheaper
            return
        folders = (
            *(self.paths.folder(name) for name in RECORD_FOLDERS),
            self.paths.results,
            self.paths.control,
        )
        missing = [folder for folder in folders if not folder.is_dir()]
        if missing:
            storage.make_dirs(self.paths.root)
            for folder in missing:
                storage.make_dir(folder)
            storage.sync_dir(self.paths.root)
        self._refuse_other_filesystems()
        self._made = True

    def _refuse_other_filesystems(self) -> None:
        """Say it before any work is done: records are moved by renames, which stay on one filesystem."""
        device = os.stat(self.paths.root).st_dev
        for name in RECORD_FOLDERS:
            folder = self.paths.folder(name)
            if os.stat(folder).st_dev != device:
                raise StorageError(
                    f"{folder} is on another filesystem than {self.paths.root}: the record folders of a "
                    "lane must lie on one"
                )

    # -- adding -------------------------------------------------------------------------------------

    def add(self, envelopes: list[tuple[str, dict[str, Any]]]) -> list[Placed]:
        """Put new envelopes ``(id, envelope)`` at the end, all or none; durable when it returns.

        Raises :class:`InvalidInput` for a used id or because of a stop that waits.
        """
        with self.locked(enqueuing=True) as index:
            for envelope_id, envelope in envelopes:
                self._check_room(index, kind_of(envelope), envelopes, envelope_id)
            self._check_ids(index, [envelope_id for envelope_id, _ in envelopes])
            records = []
            for envelope_id, envelope in envelopes:
                now = self._clock.now_ms()
                index.state.sequence += 1
                name = RecordName.new(index.state.sequence, now, envelope_id)
                records.append(Record.new(str(name), envelope_id, iso(now), envelope))
            return self._append(index, records)

    def add_at_head(self, envelope_id: str, envelope: dict[str, Any]) -> Placed:
        """Put a new envelope before everything that waits, behind what was put back at the head.

        A stop that waits is no hindrance: this comes before it. Raises :class:`InvalidInput` for a used id.
        """
        with self.locked(enqueuing=True) as index:
            self._check_ids(index, [envelope_id])
            now = self._clock.now_ms()
            record = Record.new(str(RecordName.new(0, now, envelope_id)), envelope_id, iso(now), envelope)
            self._write_one(f"{self.paths.pending}/{record.name}", record)
            index.add_used([folded(safe_id(envelope_id))])
            index.moved(None, "pending", 1)
            return Placed(record, 1, index.state.counts.get("pending", 0))

    def _append(self, index: Index, records: list[Record]) -> list[Placed]:
        """Write ``records``, which carry sequences already, to the end of ``pending/``."""
        before = index.state.counts.get("pending", 0)
        index.write_sequence()
        if len(records) == 1:
            self._write_one(f"{self.paths.pending}/{records[0].name}", records[0])
        else:
            self._write_batch(records)
        index.add_used([folded(safe_id(record.envelope_id)) for record in records])
        index.moved(None, "pending", len(records))
        index.state.newest = records[-1].name
        index.state.stop_waits = kind_of(records[-1].envelope) == "stop"
        depth = before + len(records)
        return [Placed(record, before + place, depth) for place, record in enumerate(records, 1)]

    def _write_one(self, path: str, record: Record) -> None:
        try:
            storage.write_atomic(path, record.as_bytes())
        except StorageError:
            # It may have its name and yet not be durable: an enqueue that is refused did not happen.
            storage.remove_file(path)
            raise

    def _check_room(
        self, index: Index, kind: str, envelopes: list[tuple[str, dict[str, Any]]], envelope_id: str
    ) -> None:
        if index.state.stop_waits:
            stop = self._stop_id(index)
            if kind == "stop":
                raise InvalidInput(f"a stop ({stop}) is already queued: one is enough")
            raise InvalidInput(
                f"cannot enqueue a phase after a stop ({stop}); withdraw it first: meshtui withdraw {stop}"
            )
        if kind == "stop" and envelope_id != envelopes[-1][0]:
            raise InvalidInput(f"stop {envelope_id!r} must be the last of the batch")

    def _stop_id(self, index: Index) -> str:
        return safe_of(index.state.newest or "")

    def _check_ids(self, index: Index, ids: list[str]) -> None:
        seen: dict[str, str] = {}
        for envelope_id in ids:
            key = folded(safe_id(envelope_id))
            other = seen.get(key)
            if other is None and index.is_used(key):
                other = self.owner_of(key)
            if other is not None:
                raise InvalidInput(_clash(envelope_id, other), field="id")
            seen[key] = envelope_id

    def owner_of(self, folded_id: str) -> str | None:
        """The id of the record or result that uses ``folded_id``; reads names, so only for refusals."""
        for folder in RECORD_FOLDERS:
            for name in list_records(self.paths.folder(folder)):
                if folded(safe_of(name)) == folded_id:
                    return self._id_in(self.paths.folder(folder) / name) or safe_of(name)
        try:
            names = [path.name for path in self.paths.results.iterdir()]
        except FileNotFoundError:
            names = []
        for name in names:
            if name.endswith(".json") and folded(name.removesuffix(".json")) == folded_id:
                return self._id_in(self.paths.results / name) or name.removesuffix(".json")
        return None

    def _id_in(self, path: Path) -> str | None:
        try:
            value = strict_json.load_object(storage.read_bytes(path, limit=16 << 20), limit=16 << 20)
        except (OSError, InvalidInput, StorageError):
            return None
        envelope_id = value.get("envelope_id")
        return envelope_id if isinstance(envelope_id, str) else None

    # -- batches ------------------------------------------------------------------------------------

    def _write_batch(self, records: list[Record]) -> None:
        """All or none: the batch counts from the rename of its folder on, and is then carried through."""
        storage.make_dir(self.paths.batches)
        key = secrets.token_hex(8)
        writing, decided = self.paths.batches / f".{key}.tmp", self.paths.batches / key
        storage.make_dir(writing)
        try:
            for record in records:
                storage.write_new(writing / record.name, record.as_bytes(), durable=True)
            storage.sync_dir(writing)
            storage.move(writing, decided, durable=False)
            storage.sync_dir(self.paths.batches)
        except BaseException:
            if decided.is_dir():
                storage.move(decided, writing, durable=False)
            storage.remove_tree(writing)
            raise
        try:
            self._carry_through(decided)
        except StorageError:
            # Decided and durable: whoever takes the queue next carries on.
            return

    def _carry_through(self, decided: Path) -> None:
        for name in list_records(decided):
            storage.move(decided / name, self.paths.pending / name, durable=False)
        storage.sync_dir(self.paths.pending)
        storage.remove_dir(decided)

    def _settle_batches(self) -> None:
        """Finish batches whose process ended after it decided them, drop those it had not."""
        if not self.paths.batches.is_dir():
            return
        for path in sorted(self.paths.batches.iterdir()):
            if not path.is_dir():
                continue
            if path.name.endswith(".tmp"):
                storage.remove_tree(path)
            else:
                self._carry_through(path)
        storage.remove_dir(self.paths.batches)

    # -- claiming and putting back ------------------------------------------------------------------

    def claim(self, name: str) -> Record | None:
        """Take pending record ``name``; ``None`` if somebody else was quicker.

        Raises :class:`InvalidInput` for what is no record: it stands in ``quarantine/`` then.
        """
        with self.locked() as index:
            return self.claim_locked(index, name)

    def claim_locked(self, index: Index, name: str) -> Record | None:
        """Like :meth:`claim`, for a caller who holds the queue already."""
        try:
            storage.move(f"{self.paths.pending}/{name}", f"{self.paths.active}/{name}", durable=False)
        except FileNotFoundError:
            return None
        index.moved("pending", "active")
        self._left_pending(index, name)
        try:
            record = load_record(self.paths.active / name)
        except InvalidInput as error:
            self.quarantine_locked(index, "active", name, str(error))
            raise
        self._memory.taken.add(name)
        return record

    def _left_pending(self, index: Index, name: str) -> None:
        if index.state.newest == name or index.state.counts.get("pending", 0) == 0:
            index.refresh_newest()

    def rewrite(self, record: Record, folder: str = "active") -> None:
        """Write a record's changed contents under its name, durably."""
        storage.write_atomic(f"{self.paths.root}/{folder}/{record.name}", record.as_bytes())

    def shift(self, record: Record, source: str, target: str, *, name: str | None = None) -> Record:
        """Move a record to another folder, under a new ``name`` if one is given; durable."""
        with self.locked() as index:
            return self.shift_locked(index, record, source, target, name=name)

    def shift_locked(
        self,
        index: Index,
        record: Record,
        source: str,
        target: str,
        *,
        name: str | None = None,
        durable: bool = True,
    ) -> Record:
        """Like :meth:`shift`, for a caller who holds the queue already."""
        new_name = name or record.name
        root = self.paths.root
        storage.move(f"{root}/{source}/{record.name}", f"{root}/{target}/{new_name}", durable=durable)
        index.moved(source, target)
        if source == "active":
            self._memory.taken.discard(record.name)
        if source == "pending":
            self._left_pending(index, record.name)
        if target == "pending" and (index.state.newest is None or new_name > index.state.newest):
            index.state.newest = new_name
            index.state.stop_waits = kind_of(record.envelope) == "stop"
        return Record(new_name, record.data)

    def to_end(self, index: Index, records: list[tuple[str, Record]]) -> list[Placed]:
        """Give ``(folder, record)`` new sequences at the end of ``pending/``; the queue is held."""
        placed = []
        for folder, record in records:
            index.state.sequence += 1
            index.write_sequence()
            name = str(RecordName.new(index.state.sequence, self._clock.now_ms(), record.envelope_id))
            moved = self.shift_locked(index, record, folder, "pending", name=name)
            depth = index.state.counts["pending"]
            placed.append(Placed(moved, depth, depth))
        return placed

    # -- withdrawing --------------------------------------------------------------------------------

    def withdraw_all(self) -> tuple[list[tuple[str, str]], list[str], list[str]]:
        """Move every pending record to ``withdrawn/``.

        Answers ids and names of what was withdrawn, the ids that are active, the names quarantined.
        """
        withdrawn: list[tuple[str, str]] = []
        bad: list[str] = []
        with self.locked(enqueuing=True) as index:
            for name in list_records(self.paths.pending):
                try:
                    record = load_record(self.paths.pending / name)
                    storage.move(self.paths.pending / name, self.paths.withdrawn / name, durable=False)
                except FileNotFoundError:
                    continue
                except InvalidInput as error:
                    self.quarantine_locked(index, "pending", name, str(error))
                    bad.append(name)
                    continue
                index.moved("pending", "withdrawn")
                withdrawn.append((record.envelope_id, name))
            if withdrawn:
                storage.sync_dir(self.paths.withdrawn)
                storage.sync_dir(self.paths.pending)
            index.refresh_newest()
            active = [
                self._id_in(self.paths.active / name) or safe_of(name)
                for name in list_records(self.paths.active)
            ]
        return withdrawn, active, bad

    def find(self, envelope_id: str, folders: tuple[str, ...] = RECORD_FOLDERS) -> tuple[str, Record] | None:
        """The folder and record of ``envelope_id``; of several the newest. Lists names, reads matches."""
        key = folded(safe_id(envelope_id))
        for folder in folders:
            for name in reversed(list_records(self.paths.folder(folder))):
                if folded(safe_of(name)) != key:
                    continue
                try:
                    record = load_record(self.paths.folder(folder) / name)
                except (FileNotFoundError, InvalidInput):
                    continue
                if record.envelope_id == envelope_id:
                    return folder, record
        return None

    def find_many(self, ids: Iterable[str]) -> dict[str, tuple[str, Record]]:
        """Like :meth:`find` for many at once, each folder listed once; what is nowhere is left out."""
        wanted = {folded(safe_id(envelope_id)): envelope_id for envelope_id in ids}
        found: dict[str, tuple[str, Record]] = {}
        for folder in RECORD_FOLDERS:
            for name in reversed(list_records(self.paths.folder(folder))):
                envelope_id = wanted.get(folded(safe_of(name)))
                if envelope_id is None or envelope_id in found:
                    continue
                try:
                    record = load_record(self.paths.folder(folder) / name)
                except (FileNotFoundError, InvalidInput):
                    continue
                if record.envelope_id == envelope_id:
                    found[envelope_id] = (folder, record)
        return found

    # -- quarantine ---------------------------------------------------------------------------------

    def quarantine(self, folder: str, name: str, reason: str) -> str:
        """Set an unreadable entry of ``folder`` aside with the reason; its name in ``quarantine/``."""
        with self.locked() as index:
            return self.quarantine_locked(index, folder, name, reason)

    def quarantine_locked(self, index: Index, folder: str, name: str, reason: str) -> str:
        """Like :meth:`quarantine`, for a caller who holds the queue already."""
        storage.make_dir(self.paths.quarantine)
        # The reason's name is longer than the entry's, and a name holds 255 bytes.
        target = name if _cut(name) == name else f"{_cut(name)}.{secrets.token_hex(3)}"
        while (self.paths.quarantine / target).exists() or (self.paths.quarantine / target).is_symlink():
            target = f"{_cut(name)}.{secrets.token_hex(3)}"
        note = {"name": target, "folder": folder, "reason": reason, "at": iso(self._clock.now_ms())}
        storage.write_atomic(
            self.paths.quarantine / f"{target}.reason.json", strict_json.dump_bytes(note, indent=2)
        )
        try:
            storage.move(self.paths.folder(folder) / name, self.paths.quarantine / target)
        except FileNotFoundError:
            storage.remove_file(self.paths.quarantine / f"{target}.reason.json")
            return target
        index.moved(folder, None)
        if folder == "pending":
            self._left_pending(index, name)
        return target

    def quarantined(self) -> list[str]:
        """What stands in quarantine, without the reasons."""
        return [name for name in list_records(self.paths.quarantine) if not name.endswith(".reason.json")]

    def repair(self, name: str) -> Placed:
        """Put a quarantined record that is readable now back at the end of the queue."""
        path = self.paths.quarantine / name
        with self.locked(enqueuing=True) as index:
            if name not in self.quarantined():
                raise NotFound(f"nothing named {name!r} in quarantine; see: meshtui quarantine list")
            try:
                record = load_record(path)
            except InvalidInput as error:
                raise InvalidInput(f"{name} is still no record: {error}; edit {path} or drop it") from None
            if index.state.stop_waits:
                raise InvalidInput(STOP_WAITS.format(stop=self._stop_id(index)))
            other = self._other_use(index, record)
            if other is not None:
                raise InvalidInput(_clash(record.envelope_id, other), field="id")
            record.put_back()
            storage.write_atomic(path, record.as_bytes())
            index.state.sequence += 1
            index.write_sequence()
            new_name = str(RecordName.new(index.state.sequence, self._clock.now_ms(), record.envelope_id))
            storage.move(path, self.paths.pending / new_name)
            storage.remove_file(self.paths.quarantine / f"{name}.reason.json")
            index.moved(None, "pending")
            index.add_used([folded(safe_id(record.envelope_id))])
            index.state.newest = new_name
            index.state.stop_waits = kind_of(record.envelope) == "stop"
            depth = index.state.counts["pending"]
            return Placed(Record(new_name, record.data), depth, depth)

    def _other_use(self, index: Index, record: Record) -> str | None:
        key = folded(safe_id(record.envelope_id))
        return self.owner_of(key) if index.is_used(key) else None

    def drop_quarantined(self, name: str) -> None:
        """Take an entry out of quarantine for good: it is kept under ``quarantine/.dropped/``."""
        with self.locked(changing=False):
            if name not in self.quarantined():
                raise NotFound(f"nothing named {name!r} in quarantine; see: meshtui quarantine list")
            dropped = self.paths.quarantine / ".dropped"
            storage.make_dir(dropped)
            target = f"{self._clock.now_ms()}-{secrets.token_hex(3)}-{_cut(name)}"
            storage.move(self.paths.quarantine / name, dropped / target)
            reason = self.paths.quarantine / f"{name}.reason.json"
            if reason.exists():
                storage.move(reason, dropped / f"{target}.reason.json")


def _cut(name: str) -> str:
    """``name``, shortened so that what is added to it still fits into the 255 bytes of a name."""
    return name if len(os.fsencode(name)) <= 220 else name[:50]


def _clash(envelope_id: str, other: str) -> str:
    if envelope_id == other:
        return f"id {envelope_id!r} was already used in this lane; choose another one"
    return (
        f"id {envelope_id!r} would share the file name of {other!r}, which this lane used already; "
        "choose another one"
    )
