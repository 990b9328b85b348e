"""The operations on a lane: what an operator, a script or the console can do to it."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from meshtui.core import storage, strict_json
from meshtui.core.clock import iso
from meshtui.core.errors import InvalidInput, NotFound
from meshtui.core.lane.moves import LaneMoves
from meshtui.core.lane.receipts import (
    AnswerReceipt,
    EnqueueReceipt,
    ExtendReceipt,
    InterruptReceipt,
    KillReceipt,
    PauseReceipt,
    QuarantineReceipt,
    StopReceipt,
)
from meshtui.core.lane.runner import KILLED
from meshtui.core.lane.serving import apply_answer
from meshtui.core.lane.settle import LaneFiles, Settler, seconds_of
from meshtui.core.models.envelope import (
    kind_of,
    validate_envelope,
    validate_id,
    warnings_for,
    workdir_of,
)
from meshtui.core.models.result import make_result


class Lane(LaneMoves):
    """One lane. Every method may be called from any thread or process at any time.

    They raise :class:`MeshtuiError` with the contract's exit code. ``warnings`` collects what went wrong
    beside the operation itself, such as a journal that could not be written.
    """

    # -- the queue ----------------------------------------------------------------------------------

    def enqueue(self, envelope: Mapping[str, Any]) -> EnqueueReceipt:
        """Add one envelope at the end; it survives a power cut when this returns."""
        return self.enqueue_many([envelope])[0]

    def enqueue_many(self, envelopes: Sequence[Mapping[str, Any]]) -> list[EnqueueReceipt]:
        """Add envelopes at the end, all or none."""
        if not envelopes:
            return []
        items = checked(envelopes)
        # What can be refused is looked at before anything is done.
        lane_id = self.lane_id
        self._queue.make_folders()
        placed = self._queue.add(items)
        self._note_many("enqueued", placed)
        return [
            EnqueueReceipt(
                lane_id=lane_id,
                envelope_id=item.record.envelope_id,
                position=item.position,
                queue_depth=item.depth,
                queued_at=item.record.queued_at,
                warnings=tuple(warnings_for(item.record.envelope)),
            )
            for item in placed
        ]

    def interrupt(self) -> InterruptReceipt:
        """Withdraw everything nobody has taken."""
        self._need_lane()
        lane_id = self.lane_id
        withdrawn, active, bad = self._queue.withdraw_all()
        events: list[tuple[str, str, Mapping[str, Any]]] = [
            ("withdrawn", envelope_id, {"by": self._by, "record": name}) for envelope_id, name in withdrawn
        ]
        events += [("record_quarantined", name, {"folder": "pending", "by": self._by}) for name in bad]
        events.append(("interrupted", lane_id, {"withdrawn": len(withdrawn), "depth": 0, "by": self._by}))
        self._append(events)
        return InterruptReceipt(tuple(envelope_id for envelope_id, _ in withdrawn), tuple(active), tuple(bad))

    def quarantine_repair(self, name: str) -> QuarantineReceipt:
        """Put a quarantined record that can be read now back at the end of the queue."""
        self._need_lane()
        self._refuse_foreign("quarantine repair")
        placed = self._queue.repair(name)
        self._note_many("requeued", [placed], folder="quarantine", quarantined=name)
        return QuarantineReceipt(name, placed.record.envelope_id)

    def quarantine_drop(self, name: str) -> QuarantineReceipt:
        """Take an entry out of quarantine; the file is kept under ``quarantine/.dropped/``."""
        self._need_lane()
        self._refuse_foreign("quarantine drop")
        self._queue.drop_quarantined(name)
        self._append([("quarantine_dropped", name, {"by": self._by})])
        return QuarantineReceipt(name)

    # -- the runner ---------------------------------------------------------------------------------

    def pause(self) -> PauseReceipt:
        """Let the active phase end and claim nothing more."""
        self._need_lane()
        self._refuse_foreign("pause")
        if not self._paths.paused.exists():
            value = {"by": self._by, "at": iso(self._clock.now_ms())}
            storage.write_atomic(self._paths.paused, strict_json.dump_bytes(value))
            self._append([("lane_paused", self.lane_id, {"by": self._by})])
        return PauseReceipt(paused=True)

    def resume(self) -> PauseReceipt:
        """Claim again."""
        self._need_lane()
        self._refuse_foreign("continue")
        if storage.remove_file(self._paths.paused):
            self._append([("lane_continued", self.lane_id, {"by": self._by})])
        return PauseReceipt(paused=False)

    def stop(self, *, drain: bool = False) -> StopReceipt:
        """End the runner now, its call with it, the record put back; or once the queue is done."""
        self._need_lane()
        if drain or self.holder().foreign:
            return StopReceipt(stopped=False, drain=self.enqueue({"kind": "stop"}))
        return self._ask_or_act("stop", None, self._stopped, self._stop_in_its_place)

    def _stopped(self, reply: dict[str, Any]) -> StopReceipt:
        self._wait_for_release()
        put_back = reply.get("envelope_id")
        return StopReceipt(
            stopped=True,
            envelope_id=put_back if isinstance(put_back, str) else None,
            survivors=tuple(reply.get("survivors") or ()),
        )

    def _stop_in_its_place(self, files: LaneFiles) -> StopReceipt:
        settler = Settler(files)
        stopped: str | None = None
        survivors: tuple[str, ...] = ()
        for record in self._active_records(files):
            if settler.complete(record) is not None or self._ended_by_itself(record):
                continue
            left = self._end_call(record, "stopped")
            survivors += left
            if not left:
                settler.put_back(record, event="phase_aborted")
                stopped = record.envelope_id
        if stopped is not None:
            self._say_waiting(files)
        return StopReceipt(stopped=stopped is not None, envelope_id=stopped, survivors=survivors)

    def kill(self, envelope_id: str) -> KillReceipt:
        """End the active phase ``envelope_id``: result ``failed``, its session kept."""
        self._need_lane()
        self._refuse_foreign("kill")

        def killed(reply: dict[str, Any]) -> KillReceipt:
            return KillReceipt(tuple(reply.get("ended") or ()), tuple(reply.get("survivors") or ()))

        return self._ask_or_act(
            "kill", envelope_id, killed, lambda files: self._kill_in_its_place(files, envelope_id)
        )

    def _kill_in_its_place(self, files: LaneFiles, envelope_id: str) -> KillReceipt:
        settler = Settler(files)
        for record in self._active_records(files):
            if record.envelope_id != envelope_id or settler.complete(record) is not None:
                continue
            if self._ended_by_itself(record):
                raise NotFound(
                    f"envelope {envelope_id!r} has ended by itself; its result is written by: meshtui lane"
                )
            survivors = self._end_call(record, "killed")
            now = iso(self._clock.now_ms())
            result = make_result(
                envelope_id,
                "failed",
                started_at=self._started_at(record) or now,
                finished_at=now,
                error=KILLED,
                engine=self._about(record).get("engine"),
                call=record.call,
            )
            settler.finish(record, result)
            self._say_waiting(files)
            return KillReceipt((envelope_id,), survivors)
        raise NotFound(f"envelope {envelope_id!r} is not running; a pending one can be withdrawn")

    def answer(
        self,
        envelope_id: str,
        action: Literal["retry", "drop"],
        *,
        engine: str | None = None,
        deadline_seconds: float | None = None,
    ) -> AnswerReceipt:
        """Settle a parked envelope: back to the head with attempts from 0, or given up."""
        self._need_lane()
        self._refuse_foreign("answer")
        if deadline_seconds is not None and not (math.isfinite(deadline_seconds) and deadline_seconds > 0):
            raise InvalidInput(
                f"deadline_seconds must be a positive finite number, not {deadline_seconds!r}",
                field="deadline_seconds",
            )
        data = {"action": action, "engine": engine, "deadline_seconds": deadline_seconds}

        def act(files: LaneFiles) -> AnswerReceipt:
            apply_answer(files, Settler(files), envelope_id, data)
            self._say_waiting(files)
            return AnswerReceipt(envelope_id, action)

        return self._ask_or_act(
            "answer", envelope_id, lambda _: AnswerReceipt(envelope_id, action), act, **data
        )

    def extend(self, envelope_id: str, seconds: float) -> ExtendReceipt:
        """Give the active phase ``envelope_id`` more time."""
        self._need_lane()
        self._refuse_foreign("extend")
        seconds_of(seconds)

        def act(files: LaneFiles) -> ExtendReceipt:
            for record in self._active_records(files):
                if record.envelope_id == envelope_id and not self._ended_by_itself(record):
                    deadline = Settler(files).extend(record, seconds)
                    return ExtendReceipt(envelope_id, iso(deadline))
            raise NotFound(f"envelope {envelope_id!r} is not running; see: meshtui status")

        return self._ask_or_act(
            "extend",
            envelope_id,
            lambda reply: ExtendReceipt(envelope_id, str(reply.get("deadline_at"))),
            act,
            seconds=seconds,
        )

    def message(self, envelope_id: str, text: str, *, message_id: str | None = None) -> EnqueueReceipt:
        """Queue an instruction for the session of the story that ``envelope_id`` belongs to, ahead of the rest."""
        self._need_lane()
        self._refuse_foreign("message")
        found = self._queue.find(envelope_id)
        if found is None:
            raise NotFound(f"no envelope {envelope_id!r} in this lane; see: meshtui status")
        new_id = message_id or f"message-{secrets.token_hex(4)}"
        envelope = checked([message_for(found[1].envelope, text, new_id)])[0][1]

        def receipt(queued_at: str, depth: int) -> EnqueueReceipt:
            return EnqueueReceipt(
                lane_id=self.lane_id, envelope_id=new_id, position=1, queue_depth=depth, queued_at=queued_at
            )

        def act(files: LaneFiles) -> EnqueueReceipt:
            there = files.queue.find(new_id)
            if there is not None and there[1].envelope == envelope:
                # A runner that ended before it could answer had put it there.
                return receipt(there[1].queued_at, 1)
            placed = files.queue.add_at_head(new_id, envelope)
            return receipt(placed.record.queued_at, placed.depth)

        made = self._ask_or_act(
            "message",
            envelope_id,
            lambda reply: receipt(str(reply.get("queued_at")), int(reply.get("depth") or 1)),
            act,
            envelope=envelope,
        )
        data: dict[str, Any] = {
            "depth": made.queue_depth,
            "by": self._by,
            "message_to": envelope_id,
            "label": "message",
            **{key: envelope[key] for key in ("story_id", "engine") if key in envelope},
        }
        self._append([("enqueued", new_id, data)])
        return made


def message_for(envelope: Mapping[str, Any], text: str, message_id: str) -> dict[str, Any]:
    """The phase that brings ``text`` to the session in which ``envelope`` was worked, or will be."""
    made = {"kind": "phase", "id": message_id, "label": "message", "prompt": text}
    made.update({key: envelope[key] for key in _SAME_SESSION if envelope.get(key) is not None})
    if (place := workdir_of(envelope)) is not None:
        made["cd"] = place
    return made


def checked(envelopes: Sequence[Mapping[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """What may be queued as ``(id, envelope)``; raises :class:`InvalidInput` naming which of many is not."""
    items = []
    for place, value in enumerate(envelopes, 1):
        try:
            envelope = validate_envelope(value)
            given = envelope.get("id")
            envelope_id = (
                f"{kind_of(envelope)}-{secrets.token_hex(4)}" if given is None else validate_id(given)
            )
        except InvalidInput as error:
            if len(envelopes) == 1:
                raise
            raise InvalidInput(f"envelope {place}: {error}", field=error.field) from None
        items.append((envelope_id, envelope))
    return items


_SAME_SESSION = ("story_id", "engine", "repo", "model", "effort")
