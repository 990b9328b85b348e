"""How a started phase ends: result, handoff, stall, park, put back; each step survives a crash.

The order is always the same: what was found out is written first, the record is moved last. Whoever
takes over finds either a record that still has to be settled, and everything it needs for that, or one
that was.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meshtui.core import storage, strict_json
from meshtui.core.clock import Clock, iso
from meshtui.core.errors import InvalidInput, MeshtuiError, StorageError
from meshtui.core.journal import Journal
from meshtui.core.lane.facts import facts_of, outcome_of
from meshtui.core.lane.index import Index, result_status, status_in
from meshtui.core.lane.queue import RUNNER_LOCK_SECONDS, Queue
from meshtui.core.lane.status import LaneStatus, Sessions, append_stall, read_json
from meshtui.core.lane.ways import way_out
from meshtui.core.models.envelope import MAX_WAIT_MS, label_of, phase_of
from meshtui.core.models.names import RECOVERED, RETRY, at_head
from meshtui.core.models.record import Record
from meshtui.core.models.result import make_result, write_result_path
from meshtui.core.run_dir import LanePaths, RunDir

DEADLINE_EXCEEDED = "phase deadline exceeded"
DROPPED = "dropped by operator"


@dataclass(slots=True)
class LaneFiles:
    """Everything of one lane that a runner (or an operator who stands in for one) writes to."""

    run_dir: RunDir
    clock: Clock
    queue: Queue
    status: LaneStatus
    sessions: Sessions
    journal: Journal
    listener: Callable[[str, str, dict[str, Any]], None] | None = None

    @classmethod
    def open(cls, run_dir: RunDir, lane_id: str, clock: Clock) -> LaneFiles:
        """The files of the lane in ``run_dir``; the folders exist."""
        paths = run_dir.lane
        return cls(
            run_dir=run_dir,
            clock=clock,
            queue=Queue(paths, clock, patience=RUNNER_LOCK_SECONDS),
            status=LaneStatus(paths, lane_id, clock),
            sessions=Sessions(paths, clock),
            journal=Journal(run_dir, clock),
        )

    @property
    def paths(self) -> LanePaths:
        return self.run_dir.lane

    def write_status(self) -> None:
        """Write ``loop.json`` with the queue's depth as it is now."""
        with self.queue.locked(changing=False):
            pass
        self.status.write(self.queue.depth)

    def note(self, event: str, subject: str, **data: Any) -> None:
        """Journal an event; what is ``None`` is left out."""
        self._tell(self.journal.append, event, subject, data)

    def note_with_next(self, event: str, subject: str, **data: Any) -> None:
        """Like :meth:`note`; written with the next event, which follows at once, or by ``journal.flush()``."""
        self._tell(self.journal.postpone, event, subject, data)

    def _tell(self, write: Callable[[str, str, dict[str, Any]], object], *told: Any) -> None:
        event, subject, data = told
        known = {key: value for key, value in data.items() if value is not None}
        write(event, subject, known)
        if self.listener is not None:
            self.listener(event, subject, known)


class Settler:
    """Settles started records of one lane; its caller holds the lease."""

    def __init__(self, files: LaneFiles) -> None:
        self._files = files
        self._paths = files.paths

    # -- ends ---------------------------------------------------------------------------------------

    def finish(
        self,
        record: Record,
        result: dict[str, Any],
        handoff: dict[str, Any] | None = None,
        *,
        then: Callable[[Index], None] | None = None,
    ) -> dict[str, Any]:
        """Write ``result`` (and the handoff where one is wanted) and move the record to ``claimed/``.

        ``then`` is called while the queue is still held. Returns the result as written: ``done`` turns to ``failed`` when ``result_path`` cannot be written.
        """
        result = self._write_wanted(record, result, handoff)
        with self._files.queue.locked() as index:
            self._write_result(index, record, result)
            depth = index.state.counts.get("pending", 0)
            # A power cut that forgets this move leaves a record with its result: it is moved then.
            self._files.queue.shift_locked(index, record, "active", "claimed", durable=False)
            if then is not None:
                then(index)
        event = "lane_stopped" if result["status"] == "stopped" else f"phase_{result['status']}"
        # With a next phase at hand its beginning is written with this, after the waiting for the disk.
        note = self._files.note if then is None else self._files.note_with_next
        note(
            event,
            record.envelope_id,
            depth=depth,
            attempt=record.attempt if result["status"] != "stopped" else None,
            record=record.name,
            **outcome_of(result),
        )
        return result

    def _write_wanted(
        self, record: Record, result: dict[str, Any], handoff: dict[str, Any] | None
    ) -> dict[str, Any]:
        wanted = record.envelope.get("result_path")
        if not isinstance(wanted, str):
            return result
        path = Path(wanted)
        if not path.is_absolute():
            path = self._files.run_dir.root / path
        try:
            write_result_path(path, record.envelope, result, handoff)
        except (StorageError, InvalidInput) as error:
            changed = {**result, "result_path_error": str(error)}
            if result["status"] == "done":
                changed["status"] = "failed"
                changed["error"] = f"result_path_error: {error}"
            return changed
        return result

    def _write_result(self, index: Index, record: Record, result: dict[str, Any]) -> None:
        path = self._paths.result(record.envelope_id)
        self.archive(index, record.envelope_id)
        storage.write_atomic(path, strict_json.dump_bytes(result, indent=2))
        index.added_result(path.name, status_in(result))

    def archive(self, index: Index, envelope_id: str) -> bool:
        """Move an earlier result to ``results/.history/``; whether there was one. The queue is held."""
        path = self._paths.result(envelope_id)
        try:
            status = result_status(storage.read_bytes(path, limit=16 << 20))
        except FileNotFoundError:
            return False
        except (IsADirectoryError, StorageError):
            status = "unreadable"
        storage.make_dir(self._paths.history)
        stamp = self._files.clock.now_ms()
        target = self._paths.history / f"{path.stem}.{stamp}.json"
        while target.exists():
            stamp += 1
            target = self._paths.history / f"{path.stem}.{stamp}.json"
        storage.move(path, target)
        index.removed_result(status)
        return True

    def stall(
        self,
        record: Record,
        *,
        engine: str,
        story: str,
        started_at: str,
        evidence: dict[str, Any],
        give_up: bool = False,
    ) -> bool:
        """Settle an attempt that reached its deadline; whether the phase is parked now.

        The first time it goes back to the head with its budget and a fresh session, the second time, or to
        ``give_up`` because something of it still runs, it is parked with a question.
        """
        now = iso(self._files.clock.now_ms())
        attempt = record.attempt
        append_stall(
            self._paths,
            {
                "event": "phase_stalled",
                "envelope_id": record.envelope_id,
                "phase": label_of(record.envelope, record.envelope_id),
                "attempt": attempt,
                "at": now,
                **({"call": record.call} if record.call else {}),
            },
        )
        self._files.sessions.drop(story, engine)
        self._files.status.stall_counts[record.envelope_id] = attempt
        if attempt >= 2 or give_up:
            cause = DEADLINE_EXCEEDED
            if "idle_seconds" in evidence:
                cause = f"no sign of life for {evidence['idle_seconds']:g} s"
            self.park(record, cause=cause, attempts=attempt, started_at=started_at, evidence=evidence)
            return True
        name = at_head(record.name, RETRY)
        self._files.note("phase_stalled", record.envelope_id, attempt=attempt, record=name, **evidence)
        record.put_back(attempt=attempt + 1)
        self._files.queue.rewrite(record)
        self._files.queue.shift(record, "active", "pending", name=name)
        return False

    def park(
        self,
        record: Record,
        *,
        cause: str,
        attempts: int,
        started_at: str,
        evidence: dict[str, Any],
        source: str = "active",
    ) -> None:
        """Set a phase aside for the operator: result ``stalled``, a question, the record in ``stalled/``."""
        now = iso(self._files.clock.now_ms())
        result = make_result(
            record.envelope_id,
            "stalled",
            started_at=started_at,
            finished_at=now,
            error=cause,
            engine=evidence.get("engine"),
            call=record.call,
        )
        result = self._write_wanted(record, result, None)
        self.raise_question(record, cause=cause, attempts=attempts, evidence=evidence)
        with self._files.queue.locked() as index:
            self._write_result(index, record, result)
            self._files.queue.shift_locked(index, record, source, "stalled")
        self._files.note(
            "phase_parked", record.envelope_id, cause=cause, attempts=attempts, record=record.name, **evidence
        )

    def raise_question(self, record: Record, *, cause: str, attempts: int, evidence: dict[str, Any]) -> None:
        """Write the question of a parked phase, with the commands that settle it."""
        storage.make_dir(self._paths.questions)
        question = {
            "envelope_id": record.envelope_id,
            "raised_at": iso(self._files.clock.now_ms()),
            "cause": cause,
            "attempts": attempts,
            "evidence": evidence,
            "exits": exits_of(record.envelope_id, record.budget_seconds, self._files.run_dir.root),
        }
        storage.write_atomic(
            self._paths.question(record.envelope_id), strict_json.dump_bytes(question, indent=2)
        )

    def extend(self, record: Record, seconds: object) -> int:
        """Give a running phase more time; its new deadline. Its budget grows with it, for a retry too."""
        more = seconds_of(seconds)
        deadline = (record.deadline_at_ms or self._files.clock.now_ms()) + round(more * 1000)
        record.data["deadline_at_ms"] = deadline
        if record.budget_seconds is not None:
            record.data["deadline_budget_seconds"] = record.budget_seconds + more
        self._files.queue.rewrite(record)
        self._files.note("deadline_extended", record.envelope_id, seconds=more, deadline_at=iso(deadline))
        return deadline

    def hold(self, record: Record, limit: dict[str, Any], *, engine: str) -> None:
        """Return a phase that ran into a usage limit to its place; ``limit["until_ms"]`` says until when."""
        record.put_back(attempt=record.attempt)
        record.data["limit"] = limit
        self._files.queue.rewrite(record)
        self._files.queue.shift(record, "active", "pending", name=record.name)
        self._files.note(
            "phase_held",
            record.envelope_id,
            attempt=record.attempt,
            record=record.name,
            engine=engine,
            until=iso(limit["until_ms"]),
            reset_known=limit.get("reset_known"),
            holds=limit["holds"],
            error=limit.get("error"),
        )

    def put_back(self, record: Record, *, event: str, recovered: bool = False) -> None:
        """Return a started record to ``pending/``: under its own name, or at the head if recovered."""
        record.put_back(attempt=record.attempt)
        self._files.queue.rewrite(record)
        name = at_head(record.name, RECOVERED) if recovered else record.name
        self._files.queue.shift(record, "active", "pending", name=name)
        self._files.note(event, record.envelope_id, attempt=record.attempt, record=name)

    # -- what a crash left --------------------------------------------------------------------------

    def complete(self, record: Record) -> str | None:
        """Finish settling a record whose result was written already; that result's status.

        ``None`` if it has no result (or only a damaged one, which is archived): it is still to be worked.
        """
        path = self._paths.result(record.envelope_id)
        try:
            result = read_json(path)
        except (MeshtuiError, IsADirectoryError):
            with self._files.queue.locked() as index:
                self.archive(index, record.envelope_id)
            return None
        if result is None:
            return None
        status = str(result.get("status"))
        if status == "stalled":
            if not self._paths.question(record.envelope_id).exists():
                self.raise_question(
                    record,
                    cause=str(result.get("error") or DEADLINE_EXCEEDED),
                    attempts=record.attempt,
                    evidence={},
                )
            self._files.queue.shift(record, "active", "stalled")
            self._files.note(
                "phase_parked",
                record.envelope_id,
                cause=result.get("error"),
                attempts=record.attempt,
                record=record.name,
                recovered=True,
            )
        else:
            self._files.queue.shift(record, "active", "claimed")
            event = "lane_stopped" if status == "stopped" else f"phase_{status}"
            self._files.note(
                event, record.envelope_id, record=record.name, recovered=True, **outcome_of(result)
            )
        return status

    # -- answers ------------------------------------------------------------------------------------

    def answer_retry(self, record: Record, *, engine: str | None, deadline_seconds: float | None) -> Record:
        """Put a parked record back at the head with attempts from 0."""
        if engine is not None:
            record.envelope["engine"] = engine
        if deadline_seconds is not None:
            record.envelope["deadline_seconds"] = deadline_seconds
        with self._files.queue.locked() as index:
            self.archive(index, record.envelope_id)
            record.put_back(attempt=1, forget_budget=True)
            self._files.queue.rewrite(record, "stalled")
            record = self._files.queue.shift_locked(
                index, record, "stalled", "pending", name=at_head(record.name, RETRY)
            )
        storage.remove_file(self._paths.question(record.envelope_id))
        self._files.status.stall_counts.pop(record.envelope_id, None)
        self._files.note(
            "phase_answered",
            record.envelope_id,
            answer="retry",
            **facts_of(record),
        )
        return record

    def answer_drop(self, record: Record) -> None:
        """Give a parked record up: result ``failed``, the record in ``claimed/``."""
        started = iso(self._files.clock.now_ms())
        try:
            old = read_json(self._paths.result(record.envelope_id))
        except MeshtuiError:
            old = None
        if old is not None:
            started = str(old.get("started_at") or started)
        result = make_result(
            record.envelope_id,
            "failed",
            started_at=started,
            finished_at=iso(self._files.clock.now_ms()),
            error=DROPPED,
        )
        result = self._write_wanted(record, result, None)
        with self._files.queue.locked() as index:
            self._write_result(index, record, result)
            self._files.queue.shift_locked(index, record, "stalled", "claimed")
        storage.remove_file(self._paths.question(record.envelope_id))
        self._files.status.stall_counts.pop(record.envelope_id, None)
        self._files.note("phase_answered", record.envelope_id, answer="drop", record=record.name)

    def was_dropped(self, envelope_id: str) -> bool:
        """Whether its result is that an operator gave it up."""
        try:
            result = read_json(self._paths.result(envelope_id))
        except (MeshtuiError, IsADirectoryError):
            return False
        return result is not None and result.get("error") == DROPPED

    def park_again(self, folder: str, record: Record) -> None:
        """Set a dropped phase aside once more; its record, in ``claimed/``, moves before its result changes."""
        earlier = self._last_stalled(record.envelope_id)
        cause = str(earlier.get("error") or DEADLINE_EXCEEDED)
        self.raise_question(record, cause=cause, attempts=record.attempt, evidence={})
        with self._files.queue.locked() as index:
            if folder != "stalled":
                self._files.queue.shift_locked(index, record, folder, "stalled")
            self._write_result(index, record, earlier)
        self._files.note(
            "phase_parked",
            record.envelope_id,
            cause=cause,
            attempts=record.attempt,
            record=record.name,
            undone=True,
        )

    def _last_stalled(self, envelope_id: str) -> dict[str, Any]:
        """The result it was parked with, from ``results/.history/``; one like it where that is gone."""
        stem = self._paths.result(envelope_id).stem
        named = re.compile(re.escape(stem) + r"\.\d+\.json")
        for path in sorted(self._paths.history.glob(f"{stem}.*.json"), reverse=True):
            if named.fullmatch(path.name) is None:
                continue
            try:
                result = read_json(path)
            except (MeshtuiError, IsADirectoryError):
                continue
            if result is not None and result.get("status") == "stalled":
                return result
        now = iso(self._files.clock.now_ms())
        return make_result(envelope_id, "stalled", started_at=now, finished_at=now, error=DEADLINE_EXCEEDED)


def seconds_of(value: object) -> float:
    """``value`` as a duration; :class:`InvalidInput` unless it is positive, finite and below ten years."""
    number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    if not 0 < number * 1000 <= MAX_WAIT_MS:
        raise InvalidInput(
            f"seconds must be a positive number below ten years, not {value!r}", field="seconds"
        )
    return number


def exits_of(envelope_id: str, budget_seconds: float | None, root: Path) -> list[str]:
    """The commands that settle a parked phase."""
    longer = max(1, round((budget_seconds or 1800) * 2))
    return [
        way_out("answer", envelope_id, root, "--retry"),
        way_out("answer", envelope_id, root, "--deadline-seconds", str(longer)),
        way_out("answer", envelope_id, root, "--drop"),
    ]


def waits_for(envelope: dict[str, Any], envelope_id: str) -> str:
    """What ``loop.json`` calls the active phase."""
    return phase_of(envelope) or label_of(envelope, envelope_id)
