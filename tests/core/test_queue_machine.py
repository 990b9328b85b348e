"""The queue against a simple model, whatever is done to it in whatever order."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from meshtui.core.errors import InvalidInput, NotFound
from meshtui.core.lane.index import list_records
from meshtui.core.lane.queue import Queue
from meshtui.core.lane.settle import Settler
from meshtui.core.models.names import RecordName, folded, safe_id, safe_of
from meshtui.core.models.record import Record, load_record
from meshtui.core.run_dir import RECORD_FOLDERS
from tests.support.crash import ended_at
from tests.support.lanes import (
    AT,
    LaterClock,
    check,
    files_of,
    new_lane,
    phase,
    quick_folder,
    result_of,
    results,
)

IDS = ("a", "A", "b", "c/1", "c_1", "C 1", "d", "é", "-x", ".dot", "f" * 120, "g", "h", "k")
RECOVERED, RETRY, PLAIN = 0, 1, 2
DAMAGE = {
    "empty": b"",
    "cut": b'{"sequ',
    "binary": b"\xff\xfe\0",
    "list": b"[]",
    "brackets": b"[" * 4000,
    "infinite": b'{"sequence": 1e999, "schema": "meshtui.ids.v1"}',
    "digits": b'{"sequence": ' + b"9" * 3900 + b"}",
    "negative": b'{"sequence": -1}',
    "true": b'{"sequence": true}',
}
ids = st.sampled_from(IDS)
numbers = st.integers(0, 10_000)


@dataclass
class Item:
    """A record as the model knows it."""

    envelope_id: str
    folder: str
    rank: int
    sequence: int
    stop: bool = False
    attempt: int = 1

    @property
    def place(self) -> tuple[int, int]:
        return (self.rank, self.sequence)

    @property
    def key(self) -> str:
        return folded(safe_id(self.envelope_id))


@dataclass
class Model:
    """What the lane should be."""

    items: dict[str, Item] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    """Status by folded safe id."""
    quarantined: dict[str, str] = field(default_factory=dict)
    """Envelope id by name in quarantine."""

    def inside(self, folder: str) -> list[Item]:
        return sorted(
            (item for item in self.items.values() if item.folder == folder), key=lambda item: item.place
        )

    def used(self, envelope_id: str) -> bool:
        key = folded(safe_id(envelope_id))
        return key in self.items or key in self.results

    @property
    def stop_waits(self) -> bool:
        pending = self.inside("pending")
        return bool(pending) and pending[-1].stop


class QueueMachine(RuleBasedStateMachine):
    """Operations, crashes and other tools' hands on one lane."""

    def __init__(self) -> None:
        super().__init__()
        memory = quick_folder()
        self.scratch = Path(tempfile.mkdtemp(dir=memory))
        self.run_dir, self.lane = new_lane(self.scratch / "run", LaterClock(0))
        self.paths = self.run_dir.lane
        self.queue = Queue(self.paths, LaterClock(0))
        self.model = Model()

    @initialize()
    def begin(self) -> None:
        self.add(self.lane.enqueue(phase("first")).envelope_id)

    def teardown(self) -> None:
        try:
            check(self.run_dir, self.scratch)
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)

    # -- helpers ------------------------------------------------------------------------------------

    def sequence_of(self, envelope_id: str) -> int:
        for folder in RECORD_FOLDERS:
            for name in list_records(self.paths.folder(folder)):
                parts = RecordName.parse(name)
                if parts is not None and folded(parts.safe) == folded(safe_id(envelope_id)):
                    return parts.sequence
        raise AssertionError(f"{envelope_id} is nowhere")

    def add(self, envelope_id: str, *, stop: bool = False) -> None:
        """Put a record at the end of the model's queue, with the sequence that the real one got."""
        item = Item(envelope_id, "pending", PLAIN, self.sequence_of(envelope_id), stop)
        known = [other.sequence for other in self.model.items.values()]
        assert item.sequence > max(known, default=0)
        self.model.items[item.key] = item

    def to_end(self, item: Item) -> None:
        last = max(other.sequence for other in self.model.items.values())
        item.folder, item.rank, item.sequence = "pending", PLAIN, self.sequence_of(item.envelope_id)
        assert item.sequence > last

    def name_of(self, item: Item) -> str:
        for name in list_records(self.paths.folder(item.folder)):
            if folded(safe_of(name)) == item.key:
                return name
        raise AssertionError(f"{item} is not in its folder")

    def record_of(self, item: Item) -> Record:
        return load_record(self.paths.folder(item.folder) / self.name_of(item))

    def settler(self) -> Settler:
        return Settler(files_of(self.run_dir))

    def touched(self, *folders: str) -> None:
        """What other hands did came later than what we did, on filesystems with coarse clocks too."""
        for folder in folders:
            now = time.time_ns()
            os.utime(self.paths.folder(folder), ns=(now, now))

    def pick(self, folder: str, number: int) -> Item:
        items = self.model.inside(folder)
        return items[number % len(items)]

    def active_phases(self) -> list[Item]:
        return [item for item in self.model.inside("active") if not item.stop]

    # -- adding -------------------------------------------------------------------------------------

    @rule(envelope_id=ids)
    def enqueue(self, envelope_id: str) -> None:
        if self.model.stop_waits or self.model.used(envelope_id):
            with pytest.raises(InvalidInput, match=r"stop|already used|share the file name"):
                self.lane.enqueue(phase(envelope_id))
            return
        receipt = self.lane.enqueue(phase(envelope_id))
        self.add(envelope_id)
        waiting = len(self.model.inside("pending"))
        assert (receipt.position, receipt.queue_depth) == (waiting, waiting)

    @rule(number=numbers)
    def enqueue_stop(self, number: int) -> None:
        if self.model.stop_waits:
            with pytest.raises(InvalidInput, match="already queued"):
                self.lane.enqueue({"kind": "stop"})
            return
        receipt = self.lane.enqueue({"kind": "stop"})
        self.add(receipt.envelope_id, stop=True)
        assert receipt.queue_depth == len(self.model.inside("pending"))

    @rule(chosen=st.lists(ids, min_size=1, max_size=4), stop=st.sampled_from((None, None, "last", "first")))
    def enqueue_batch(self, chosen: list[str], stop: str | None) -> None:
        envelopes: list[dict[str, Any]] = [phase(envelope_id) for envelope_id in chosen]
        stop_id = f"stop-{uuid.uuid4().hex[:6]}"
        if stop is not None:
            envelopes.insert(len(envelopes) if stop == "last" else 0, {"kind": "stop", "id": stop_id})
        keys = [folded(safe_id(envelope_id)) for envelope_id in chosen]
        refused = (
            self.model.stop_waits
            or stop == "first"
            or len(set(keys)) < len(keys)
            or any(self.model.used(envelope_id) for envelope_id in chosen)
        )
        before = len(self.model.inside("pending"))
        if refused:
            with pytest.raises(InvalidInput):
                self.lane.enqueue_many(envelopes)
            return
        receipts = self.lane.enqueue_many(envelopes)
        for envelope in envelopes:
            self.add(envelope["id"], stop=envelope["kind"] == "stop")
        assert [receipt.position for receipt in receipts] == [
            before + place for place in range(1, len(envelopes) + 1)
        ]
        assert {receipt.queue_depth for receipt in receipts} == {before + len(envelopes)}

    # -- working ------------------------------------------------------------------------------------

    @precondition(lambda self: self.model.inside("pending"))
    @rule()
    def claim(self) -> None:
        head = self.model.inside("pending")[0]
        record = self.queue.claim(list_records(self.paths.pending)[0])
        assert record is not None
        assert record.envelope_id == head.envelope_id
        assert record.attempt == head.attempt
        head.folder = "active"

    @rule()
    def claim_what_is_gone(self) -> None:
        assert self.queue.claim(str(RecordName.new(1, 1_796_083_330_000, "gone"))) is None

    @precondition(lambda self: self.model.inside("active"))
    @rule(number=numbers, how=st.sampled_from(("done", "failed", "blocked")))
    def finish(self, number: int, how: str) -> None:
        item = self.pick("active", number)
        status: Any = "stopped" if item.stop else "failed" if how == "failed" else "done"
        more = {"handoff_status": "blocked"} if how == "blocked" and not item.stop else {}
        self.settler().finish(self.record_of(item), result_of(item.envelope_id, status, **more))
        item.folder = "claimed"
        self.model.results[item.key] = status

    @precondition(lambda self: self.active_phases())
    @rule(number=numbers)
    def stall(self, number: int) -> None:
        phases = self.active_phases()
        item = phases[number % len(phases)]
        parked = self.settler().stall(
            self.record_of(item), engine="command", story="", started_at=AT, evidence={}
        )
        assert parked == (item.attempt >= 2)
        if parked:
            item.folder = "stalled"
            self.model.results[item.key] = "stalled"
        else:
            item.folder, item.rank, item.attempt = "pending", RETRY, item.attempt + 1

    @precondition(lambda self: self.active_phases())
    @rule(number=numbers, recovered=st.booleans())
    def put_back(self, number: int, recovered: bool) -> None:
        phases = self.active_phases()
        item = phases[number % len(phases)]
        self.settler().put_back(self.record_of(item), event="phase_recovered", recovered=recovered)
        item.folder = "pending"
        item.rank = RECOVERED if recovered else item.rank

    @precondition(lambda self: self.active_phases())
    @rule(number=numbers)
    def end_between_result_and_move(self, number: int) -> None:
        """The runner ends once the result is written; the next one only moves the record."""
        phases = self.active_phases()
        item = phases[number % len(phases)]
        settler = self.settler()
        with self.queue.locked() as index:
            settler._write_result(index, self.record_of(item), result_of(item.envelope_id))
        assert self.settler().complete(self.record_of(item)) == "done"
        item.folder = "claimed"
        self.model.results[item.key] = "done"

    # -- the operator -------------------------------------------------------------------------------

    @rule(envelope_id=ids, action=st.sampled_from(("retry", "drop")))
    def answer(self, envelope_id: str, action: Literal["retry", "drop"]) -> None:
        item = self.model.items.get(folded(safe_id(envelope_id)))
        if item is None or item.folder != "stalled" or item.envelope_id != envelope_id:
            with pytest.raises(NotFound):
                self.lane.answer(envelope_id, action)
            return
        self.lane.answer(envelope_id, action)
        if action == "retry":
            item.folder, item.rank, item.attempt = "pending", RETRY, 1
            del self.model.results[item.key]
        else:
            item.folder = "claimed"
            self.model.results[item.key] = "failed"

    @rule()
    def interrupt(self) -> None:
        pending = self.model.inside("pending")
        receipt = self.lane.interrupt()
        assert receipt.withdrawn == tuple(item.envelope_id for item in pending)
        assert set(receipt.already_picked_up) == {item.envelope_id for item in self.model.inside("active")}
        for item in pending:
            item.folder = "withdrawn"

    @rule(envelope_id=ids)
    def withdraw(self, envelope_id: str) -> None:
        item = self.model.items.get(folded(safe_id(envelope_id)))
        if item is None or item.envelope_id != envelope_id:
            with pytest.raises(NotFound):
                self.lane.withdraw(envelope_id)
        elif item.folder != "pending":
            with pytest.raises(InvalidInput, match="not pending"):
                self.lane.withdraw(envelope_id)
        else:
            receipt = self.lane.withdraw(envelope_id)
            item.folder = "withdrawn"
            assert receipt.queue_depth == len(self.model.inside("pending"))

    @precondition(lambda self: self.model.stop_waits)
    @rule()
    def withdraw_stop(self) -> None:
        stop = self.model.inside("pending")[-1]
        self.lane.withdraw(stop.envelope_id)
        stop.folder = "withdrawn"

    @rule()
    def restore(self) -> None:
        if self.model.stop_waits:
            with pytest.raises(InvalidInput, match="a stop"):
                self.lane.restore()
            return
        withdrawn = self.model.inside("withdrawn")
        stops = [item for item in withdrawn if item.stop]
        back = [item for item in withdrawn if not item.stop] + stops[-1:]
        queued_at = {item.envelope_id: self.record_of(item).queued_at for item in back}
        receipt = self.lane.restore()
        assert receipt.restored == tuple(item.envelope_id for item in back)
        assert receipt.left == tuple(item.envelope_id for item in stops[:-1])
        for item in back:
            self.to_end(item)
            assert self.record_of(item).queued_at == queued_at[item.envelope_id]

    @rule(envelope_id=ids)
    def requeue(self, envelope_id: str) -> None:
        item = self.model.items.get(folded(safe_id(envelope_id)))
        if self.model.stop_waits:
            with pytest.raises(InvalidInput, match="a stop"):
                self.lane.requeue(envelope_id)
        elif item is None or item.envelope_id != envelope_id:
            with pytest.raises(NotFound):
                self.lane.requeue(envelope_id)
        elif item.folder not in ("claimed", "withdrawn"):
            with pytest.raises(InvalidInput):
                self.lane.requeue(envelope_id)
        else:
            receipt = self.lane.requeue(envelope_id)
            self.to_end(item)
            item.attempt = 1
            self.model.results.pop(item.key, None)
            waiting = len(self.model.inside("pending"))
            assert (receipt.position, receipt.queue_depth) == (waiting, waiting)

    # -- damage and other hands ---------------------------------------------------------------------

    @precondition(lambda self: self.model.inside("pending"))
    @rule(how=st.sampled_from(sorted(DAMAGE)))
    def damage_the_head(self, how: str) -> None:
        """What cannot be read is set aside when it is claimed; its id is free then."""
        head = self.model.inside("pending")[0]
        name = self.name_of(head)
        (self.paths.pending / name).write_bytes(DAMAGE[how])
        with pytest.raises(InvalidInput):
            self.queue.claim(name)
        del self.model.items[head.key]
        self.model.quarantined[name] = head.envelope_id

    @precondition(lambda self: self.model.quarantined)
    @rule(number=numbers)
    def repair(self, number: int) -> None:
        name = sorted(self.model.quarantined)[number % len(self.model.quarantined)]
        envelope_id = self.model.quarantined[name]
        with pytest.raises(InvalidInput, match="still no record"):
            self.lane.quarantine_repair(name)
        path = self.paths.quarantine / name
        damaged = path.read_bytes()
        path.write_bytes(Record.new(name, envelope_id, AT, phase(envelope_id)).as_bytes())
        if self.model.stop_waits or self.model.used(envelope_id):
            with pytest.raises(InvalidInput, match=r"stop|already used|share the file name"):
                self.lane.quarantine_repair(name)
            path.write_bytes(damaged)
            return
        self.lane.quarantine_repair(name)
        del self.model.quarantined[name]
        self.add(envelope_id)

    @precondition(lambda self: self.model.quarantined)
    @rule(number=numbers)
    def drop_quarantined(self, number: int) -> None:
        name = sorted(self.model.quarantined)[number % len(self.model.quarantined)]
        self.lane.quarantine_drop(name)
        del self.model.quarantined[name]
        assert name not in self.queue.quarantined()

    @precondition(lambda self: self.model.items)
    @rule(
        number=numbers,
        folder=st.sampled_from(("pending", "withdrawn", "claimed")),
    )
    def moved_by_hand(self, number: int, folder: str) -> None:
        items = [item for item in self.model.items.values() if not item.stop]
        if not items or self.model.stop_waits:
            return
        item = items[number % len(items)]
        if item.folder == folder:
            return
        name = self.name_of(item)
        record = self.record_of(item)
        (self.paths.folder(item.folder) / name).rename(self.paths.folder(folder) / name)
        self.touched(item.folder, folder)
        item.folder = folder
        item.attempt = record.attempt

    @precondition(lambda self: self.model.inside("withdrawn"))
    @rule(number=numbers)
    def removed_by_hand(self, number: int) -> None:
        """A record that somebody deletes is gone, and its id is free unless there is a result."""
        item = self.pick("withdrawn", number)
        (self.paths.withdrawn / self.name_of(item)).unlink()
        self.touched("withdrawn")
        del self.model.items[item.key]

    @rule(envelope_id=ids)
    def enqueued_by_another_tool(self, envelope_id: str) -> None:
        if self.model.used(envelope_id) or self.model.stop_waits:
            return
        last = max((item.sequence for item in self.model.items.values()), default=0)
        try:
            known = json.loads(self.paths.sequence.read_bytes())["sequence"]
            last = max(last, known if type(known) is int and known < 10**15 else 0)
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            pass  # They count anew from the names.
        name = str(RecordName.new(last + 1, 1_796_083_330_000, envelope_id))
        record = Record.new(name, envelope_id, AT, {"kind": "phase", "prompt": "theirs"})
        (self.paths.pending / name).write_bytes(record.as_bytes())
        self.paths.sequence.write_text(json.dumps({"sequence": last + 1}))
        self.touched("pending")
        self.add(envelope_id)

    @rule(how=st.sampled_from(("gone", *sorted(DAMAGE))))
    def sequence_file_damaged(self, how: str) -> None:
        if how == "gone":
            self.paths.sequence.unlink(missing_ok=True)
        else:
            self.paths.sequence.write_bytes(DAMAGE[how])

    @rule(ahead=st.integers(1, 50))
    def sequence_file_ahead(self, ahead: int) -> None:
        with self.queue.locked() as index:
            last = index.state.sequence
        self.paths.sequence.write_text(json.dumps({"sequence": last + ahead}))

    @rule(how=st.sampled_from(("gone", *sorted(DAMAGE))))
    def index_lost(self, how: str) -> None:
        if how == "gone":
            shutil.rmtree(self.paths.ids)
        else:
            (self.paths.ids / "state.json").write_bytes(DAMAGE[how])

    # -- crashes ------------------------------------------------------------------------------------

    @rule(envelope_id=ids, n=st.integers(1, 25), torn=st.booleans())
    def end_while_enqueuing(self, envelope_id: str, n: int, torn: bool) -> None:
        if self.model.stop_waits or self.model.used(envelope_id):
            return
        done = ended_at(n, lambda: self.lane.enqueue(phase(envelope_id)), torn=torn)
        self.break_lock()
        there = [name for name in list_records(self.paths.pending) if safe_of(name) == safe_id(envelope_id)]
        assert len(there) == 1 or (not done and not there)
        if there:
            self.add(envelope_id)

    @precondition(lambda self: self.model.inside("pending"))
    @rule(n=st.integers(1, 10))
    def end_while_claiming(self, n: int) -> None:
        head = self.model.inside("pending")[0]
        name = self.name_of(head)
        ended_at(n, lambda: self.queue.claim(name))
        if (self.paths.active / name).exists():
            head.folder = "active"

    def break_lock(self) -> None:
        """Let ten seconds pass over a lock that nobody has written a name into."""
        if self.paths.enqueue_lock.exists():
            past = time.time() - 11
            os.utime(self.paths.enqueue_lock, (past, past))

    # -- what always holds --------------------------------------------------------------------------

    @invariant()
    def folders_agree(self) -> None:
        for folder in RECORD_FOLDERS:
            assert [folded(safe_of(name)) for name in list_records(self.paths.folder(folder))] == [
                item.key for item in self.model.inside(folder)
            ]
        assert {folded(safe): status for safe, status in results(self.run_dir).items()} == self.model.results
        assert set(self.queue.quarantined()) == self.model.quarantined.keys()

    @invariant()
    def index_agrees(self) -> None:
        with self.queue.locked(changing=False) as index:
            state = index.state
        assert {folder: state.counts.get(folder, 0) for folder in RECORD_FOLDERS} == {
            folder: len(self.model.inside(folder)) for folder in RECORD_FOLDERS
        }
        assert state.stop_waits == self.model.stop_waits
        statuses = list(self.model.results.values())
        assert (state.done, state.failed) == (statuses.count("done"), statuses.count("failed"))
        assert self.queue.depth == len(self.model.inside("pending"))


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
