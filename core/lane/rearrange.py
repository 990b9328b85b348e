"""Changes inside the queue that the holder of the lease makes: to the head, edited, back to an earlier place.

Whoever works the lane keeps a list of what comes next, so these are asked of a living runner, which makes
them between two claims; where none lives the asker holds the lease meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from meshtui.core.errors import InvalidInput, NotFound
from meshtui.core.lane.facts import facts_of
from meshtui.core.lane.index import Index, list_records
from meshtui.core.lane.queue import Queue
from meshtui.core.lane.settle import LaneFiles, Settler
from meshtui.core.models.envelope import kind_of, validate_envelope
from meshtui.core.models.names import RECOVERED, RETRY, RecordName, is_record_name, safe_id
from meshtui.core.models.record import Record, load_record
from meshtui.core.run_dir import LanePaths

WHERE = {
    "pending": "pending",
    "active": "running",
    "claimed": "finished",
    "stalled": "parked",
    "withdrawn": "withdrawn",
}
WAYS = {
    "pending": "it will run by itself",
    "active": "kill it with meshtui kill --envelope ID",
    "claimed": "run it again with meshtui requeue ID",
    "stalled": "settle it with meshtui answer ID --retry or --drop",
    "withdrawn": "bring it back with meshtui restore or meshtui requeue ID",
}
REQUESTS = ("head", "edit", "place", "park")
"""What a runner can be asked for here."""


@dataclass(frozen=True, slots=True)
class Edited:
    """An envelope that was changed."""

    envelope_id: str
    position: int
    queue_depth: int
    before: dict[str, Any]
    """The envelope as it was."""
    folder: str
    """Where its record was: ``pending``, ``claimed`` or ``withdrawn``."""


def serve(files: LaneFiles, request: str, subject: str | None, data: Mapping[str, Any]) -> dict[str, Any]:
    """Do one of :data:`REQUESTS` for somebody else and return the answer's value."""
    if request == "head":
        return {"names": to_head(files, _texts(data.get("ids")))}
    if request == "place":
        names = data.get("names")
        return {"placed": to_places(files, names if isinstance(names, dict) else {})}
    if request == "park":
        park_again(files, str(subject))
        return {}
    base = data.get("base")
    done = edit(files, str(subject), data.get("envelope"), base if isinstance(base, dict) else None)
    return {
        "envelope_id": done.envelope_id,
        "position": done.position,
        "queue_depth": done.queue_depth,
        "before": done.before,
        "folder": done.folder,
    }


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def not_there(envelope_id: str) -> NotFound:
    """There is no such envelope."""
    return NotFound(f"no envelope {envelope_id!r} in this lane; see: meshtui status")


def not_pending(envelope_id: str, folder: str) -> InvalidInput:
    """It stands somewhere else."""
    return InvalidInput(f"envelope {envelope_id!r} is {WHERE[folder]}, not pending: {WAYS[folder]}")


def refuse_waiting_stop(paths: LanePaths, index: Index) -> None:
    """Nothing goes behind a stop."""
    if index.state.stop_waits:
        stop = list_records(paths.pending)[-1:]
        name = load_record(paths.pending / stop[0]).envelope_id if stop else "stop"
        raise InvalidInput(
            f"a stop ({name}) is waiting in the queue; withdraw it first: meshtui withdraw {name}"
        )


# -- to the head ------------------------------------------------------------------------------------------


def to_head(files: LaneFiles, ids: Iterable[str]) -> dict[str, str]:
    """Put pending records before everything that waits, in the order of ``ids``.

    All are looked at before any is moved; the answer has the name each had before. A stop stays last, so it
    is refused.
    """
    wanted = list(dict.fromkeys(ids))
    queue = files.queue
    with queue.locked() as index:
        found = queue.find_many(wanted)
        for envelope_id in wanted:
            if envelope_id not in found:
                raise not_there(envelope_id)
            folder, record = found[envelope_id]
            if folder != "pending":
                raise not_pending(envelope_id, folder)
            if kind_of(record.envelope) == "stop":
                raise InvalidInput(f"{envelope_id!r} is a stop: it ends what is before it, so it stays last")
        records = [found[envelope_id][1] for envelope_id in wanted]
        moving = {record.name for record in records}
        first = next((name for name in list_records(files.paths.pending) if name not in moving), None)
        names = head_names(first, [record.envelope_id for record in records], files.clock.now_ms())
        before = {record.envelope_id: record.name for record in records}
        for record, name in reversed(list(zip(records, names, strict=True))):
            _keep_attempt(queue, record, name)
            queue.shift_locked(index, record, "pending", "pending", name=name)
    for record, name in zip(records, names, strict=True):
        files.note("moved_to_head", record.envelope_id, depth=queue.depth, record=name)
    return before


def head_names(first: str | None, ids: list[str], now_ms: int) -> list[str]:
    """Names for ``ids``, in this order, that sort before the record ``first``.

    Sequence 0 is before every record that was enqueued. What was put back at the head carries a prefix and
    is only passed by one; of the two the one that says nothing of attempts is taken.
    """
    at = now_ms
    prefix: Any = ""
    if first is not None:
        parts = RecordName.parse(first)
        if parts is None or parts.prefix:
            prefix = RECOVERED
        if parts is not None and parts.sequence == 0 and parts.prefix == prefix:
            at = min(now_ms, parts.ms)
    start = max(0, at - len(ids))
    return [
        str(RecordName(prefix, 0, start + place, str(uuid4()), safe_id(envelope_id)))
        for place, envelope_id in enumerate(ids)
    ]


def _keep_attempt(queue: Queue, record: Record, name: str) -> None:
    """Write down an attempt that only the record's old name told."""
    if record.name.startswith(RETRY) and not name.startswith(RETRY) and "attempt" not in record.data:
        record.data["attempt"] = record.attempt
        queue.rewrite(record, "pending")


# -- back to an earlier place ------------------------------------------------------------------------------


def to_places(files: LaneFiles, names: Mapping[str, object]) -> list[str]:
    """Give pending or withdrawn records names that they had before: ``{id: name}``; the ids so placed.

    A stop that would not be the last any more is refused, and what would come behind one.
    """
    queue = files.queue
    placed: list[tuple[str, dict[str, Any]]] = []
    with queue.locked(enqueuing=True) as index:
        found = queue.find_many(names)
        last = index.state.newest or ""
        todo: list[tuple[str, Record, str]] = []
        for envelope_id, wanted in names.items():
            if envelope_id not in found:
                raise not_there(envelope_id)
            folder, record = found[envelope_id]
            if folder not in ("pending", "withdrawn"):
                raise not_pending(envelope_id, folder)
            name = str(wanted)
            parts = RecordName.parse(name)
            if name != record.name and (
                parts is None or parts.safe != safe_id(envelope_id) or not is_record_name(name)
            ):
                raise InvalidInput(f"{name!r} is no record name of {envelope_id!r}")
            stop = kind_of(record.envelope) == "stop"
            if (stop and name < last) or (not stop and index.state.stop_waits and name > last):
                raise InvalidInput(
                    f"{envelope_id!r} would not stand before the stop: meshtui restore puts it at the end"
                )
            todo.append((folder, record, name))
        for folder, record, name in todo:
            if (folder, record.name) != ("pending", name):
                if folder == "pending":
                    _keep_attempt(queue, record, name)
                queue.shift_locked(index, record, folder, "pending", name=name)
            placed.append((record.envelope_id, {**facts_of(record), "record": name}))
    for envelope_id, facts in placed:
        files.note("restored", envelope_id, depth=queue.depth, in_place=True, **facts)
    return [envelope_id for envelope_id, _ in placed]


# -- edited ------------------------------------------------------------------------------------------------


def edit(files: LaneFiles, envelope_id: str, value: object, base: Mapping[str, Any] | None) -> Edited:
    """Change the envelope of a record that is not started, as if it were queued anew.

    A pending one keeps its place, a finished or withdrawn one goes to the end. With ``base`` it must still be
    that. Where it is refused nothing has changed. The new contents are written before the record gets a new
    name, by which readers see that it is another one.
    """
    envelope = validate_envelope(value)
    queue = files.queue
    with queue.locked(enqueuing=True) as index:
        found = queue.find(envelope_id)
        if found is None:
            raise not_there(envelope_id)
        folder, record = found
        _check_editable(folder, record, envelope, base)
        before = dict(record.envelope)
        limit = record.limit if record.envelope.get("engine") == envelope.get("engine") else {}
        record.data["envelope"] = envelope
        record.put_back(attempt=1, forget_budget=True)
        if folder == "pending":
            if limit:
                record.data["limit"] = limit
            queue.rewrite(record, "pending")
            parts = RecordName.parse(record.name)
            if parts is not None:
                name = str(replace(parts, uuid=str(uuid4())))
                record = queue.shift_locked(index, record, "pending", "pending", name=name)
            position = list_records(files.paths.pending).index(record.name) + 1
        else:
            refuse_waiting_stop(files.paths, index)
            Settler(files).archive(index, envelope_id)
            queue.rewrite(record, folder)
            placed = queue.to_end(index, [(folder, record)])[0]
            record, position = placed.record, placed.position
    files.note("edited", envelope_id, depth=queue.depth, folder=folder, **facts_of(record))
    return Edited(envelope_id, position, queue.depth, before, folder)


def _check_editable(
    folder: str, record: Record, envelope: dict[str, Any], base: Mapping[str, Any] | None
) -> None:
    name = record.envelope_id
    if folder == "active":
        raise InvalidInput(
            f"envelope {name!r} was taken by the runner and is running: nothing was changed; {WAYS[folder]}"
        )
    if folder == "stalled":
        raise InvalidInput(f"envelope {name!r} is parked: {WAYS[folder]}; what was dropped can be edited")
    if kind_of(record.envelope) == "stop" or kind_of(envelope) == "stop":
        raise InvalidInput(f"{name!r}: a stop cannot be edited, nor a phase become one", field="kind")
    if "id" in envelope and envelope["id"] != name:
        raise InvalidInput(f"id must stay {name!r}: enqueue another envelope for another id", field="id")
    if base is not None and dict(base) != record.envelope:
        raise InvalidInput(
            f"envelope {name!r} was changed by somebody else meanwhile: nothing was changed; look again"
        )


# -- parked again ------------------------------------------------------------------------------------------


def park_again(files: LaneFiles, envelope_id: str) -> None:
    """Take back that a parked phase was dropped: it stands parked, with its question, as before."""
    queue, settler = files.queue, Settler(files)
    found = queue.find(envelope_id)
    if found is None:
        raise not_there(envelope_id)
    folder, record = found
    if folder not in ("claimed", "stalled") or not settler.was_dropped(envelope_id):
        raise InvalidInput(
            f"envelope {envelope_id!r} is {WHERE[folder]} and was not dropped: nothing was changed"
        )
    settler.park_again(folder, record)
