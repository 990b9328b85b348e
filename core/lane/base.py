"""What every operation on a lane needs: its files, who holds it, and how to act in a runner's place."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from shlex import quote
from typing import Any, TypeVar

from meshtui.core import storage
from meshtui.core.calls import EndReason
from meshtui.core.clock import Clock, SystemClock
from meshtui.core.errors import Held, InvalidInput, NotFound, StorageError
from meshtui.core.journal import Journal
from meshtui.core.lane import control
from meshtui.core.lane.create import lane_id_of, recorded_id
from meshtui.core.lane.facts import facts_of
from meshtui.core.lane.index import list_records
from meshtui.core.lane.lease import Holder, Lease, holder
from meshtui.core.lane.queue import Placed, Queue
from meshtui.core.lane.runner import attach
from meshtui.core.lane.settle import LaneFiles
from meshtui.core.models.record import Record, load_record
from meshtui.core.run_dir import RunDir

ATTEMPTS = 3
"""A runner may end or start between the look and the act; then the way is chosen again."""
RELEASE_SECONDS = 2.0
R = TypeVar("R")


class LaneBase:
    """One lane; the operations are the subclass's."""

    def __init__(self, run_dir: RunDir, *, clock: Clock | None = None, by: str = "operator") -> None:
        self._clock = clock or SystemClock()
        self._run_dir = run_dir
        self._paths = run_dir.lane
        self._by = by
        self._queue = Queue(self._paths, self._clock)
        self._journal = Journal(run_dir, self._clock)
        self._recorded_id: str | None = None
        self.warnings: list[str] = []

    @property
    def lane_id(self) -> str:
        """The lane's id."""
        if self._recorded_id is None:
            self._recorded_id = recorded_id(self._run_dir)
        # One that was not recorded when the directory was made may yet be written by its runner.
        return self._recorded_id or lane_id_of(self._run_dir)

    def holder(self) -> Holder:
        """Who holds the lease."""
        return holder(self._paths, self._clock)

    # -- how ----------------------------------------------------------------------------------------

    def _need_lane(self, *, looking: bool = False) -> None:
        """Raise where there is no lane; for who is not only ``looking`` its folders are made."""
        if not self._paths.root.is_dir():
            make = f"meshtui enqueue --run-dir {quote(str(self._run_dir.root))} --prompt …"
            raise NotFound(f"no lane in {self._run_dir.root}; make one with: {make}")
        if not looking:
            self._queue.make_folders()

    def _files(self) -> LaneFiles:
        return LaneFiles.open(self._run_dir, self.lane_id, self._clock)

    def _refuse_foreign(self, what: str) -> None:
        held = self.holder()
        if held.foreign:
            who = held.owner.describe(self._clock.now_ms()) if held.owner else "an unknown process"
            raise Held(
                f"the lane is worked by another tool ({who}), which does not know {what!r}; "
                "enqueue, interrupt, withdraw, restore and stop --drain work"
            )

    def _ask(self, request: str, subject: str | None, **fields: Any) -> dict[str, Any] | None:
        """Let the living runner do it; ``None`` if there is none."""

        def alive() -> bool:
            return storage.is_locked(self._paths.runner_flock)

        if not alive():
            return None
        try:
            return control.ask(self._paths, self._clock, request, subject, by=self._by, alive=alive, **fields)
        except control.RunnerGone:
            return None

    def _ask_or_act(
        self,
        request: str,
        subject: str | None,
        take: Callable[[dict[str, Any]], R],
        act: Callable[[LaneFiles], R],
        **fields: Any,
    ) -> R:
        """Have the living runner do it, or do it in its place where none lives."""
        for left in reversed(range(ATTEMPTS)):
            reply = self._ask(request, subject, **fields)
            if reply is not None:
                return take(reply)
            lease = Lease(self._paths, self._clock)
            try:
                lease.acquire(stand_in=True)
            except Held:
                if not left:
                    raise
                continue
            with lease:
                return act(self._files())
        raise AssertionError("the last attempt returns or raises")

    def _say_waiting(self, files: LaneFiles) -> None:
        """Write ``loop.json`` of a lane that nobody works: parked while something is, else waiting."""
        files.status.state = "parked" if list_records(self._paths.stalled) else "waiting"
        files.write_status()

    def _wait_for_release(self) -> None:
        """Wait until the runner, which has answered, has let go of the lease."""
        end = time.monotonic() + RELEASE_SECONDS
        while storage.is_locked(self._paths.runner_flock) and time.monotonic() < end:
            time.sleep(0.002)

    def _active_records(self, files: LaneFiles) -> list[Record]:
        records = []
        for name in list_records(self._paths.active):
            try:
                records.append(load_record(self._paths.active / name))
            except InvalidInput as error:
                files.queue.quarantine("active", name, str(error))
                files.note("record_quarantined", name, reason=str(error), folder="active")
        return records

    def _ended_by_itself(self, record: Record) -> bool:
        """Whether the record's call is over without anybody's doing: its outcome waits to be taken."""
        call = attach(self._run_dir, record)
        return call is not None and call.state() == "ended" and call.ending() is None

    def _about(self, record: Record) -> dict[str, Any]:
        call = attach(self._run_dir, record)
        return (call.about() if call is not None else None) or {}

    def _started_at(self, record: Record) -> str | None:
        started = self._about(record).get("started_at")
        return started if isinstance(started, str) else None

    def _end_call(self, record: Record, reason: EndReason) -> tuple[str, ...]:
        call = attach(self._run_dir, record)
        if call is None:
            return ()
        if call.state() in ("ended", "lost"):
            call.sweep()
            return ()
        survivors: tuple[str, ...] = call.end(reason, self._by).survivors
        call.sweep()
        return survivors

    def _note_many(self, event: str, placed: Sequence[Placed], **more: Any) -> None:
        self._append(
            [
                (
                    event,
                    item.record.envelope_id,
                    {"depth": item.depth, "by": self._by, **facts_of(item.record), **more},
                )
                for item in placed
            ]
        )

    def _append(self, events: list[tuple[str, str, Mapping[str, Any]]]) -> None:
        if not events:
            return
        try:
            self._journal.append_many(events)
        except StorageError as error:
            # The operation itself is done and durable; the next runner's start completes the journal.
            self.warnings.append(f"the journal was not written: {error}")
