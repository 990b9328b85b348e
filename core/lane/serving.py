"""What a runner does when it is asked: by the command line or a console, through files in ``control/``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from meshtui.core.calls import Call, EndReason
from meshtui.core.clock import iso
from meshtui.core.errors import InvalidInput, MeshtuiError, NotFound, StorageError
from meshtui.core.lane import control, rearrange
from meshtui.core.lane.control import Request
from meshtui.core.lane.phase import Attempt
from meshtui.core.lane.settle import LaneFiles, Settler
from meshtui.core.models.envelope import validate_envelope


class Serving:
    """Answers every request but a stop, which is the runner's own.

    ``end`` ends an attempt's call and returns what survived; ``relist`` is told that the head has changed.
    """

    def __init__(
        self,
        files: LaneFiles,
        settler: Settler,
        *,
        end: Callable[[Attempt, EndReason], tuple[str, ...]],
        relist: Callable[[], None],
    ) -> None:
        self._files = files
        self._settler = settler
        self._end = end
        self._relist = relist

    def serve(self, request: Request, attempt: Attempt | None) -> None:
        """Do what is asked, while ``attempt`` runs, and answer; a disk that fails is raised."""
        try:
            value = self._do(request, attempt)
        except StorageError:
            raise
        except MeshtuiError as error:
            control.answer(request, error=error)
            return
        control.answer(request, value)

    def _do(self, request: Request, attempt: Attempt | None) -> dict[str, Any]:
        if request.request == "kill":
            return self._kill(request, attempt)
        if request.request == "answer":
            return self._answer(request)
        if request.request == "extend":
            return self._extend(request, attempt)
        if request.request == "message":
            return self._message(request)
        if request.request in rearrange.REQUESTS:
            value = rearrange.serve(self._files, request.request, request.subject, request.data)
            self._relist()
            return value
        raise InvalidInput(f"this runner does not know the request {request.request!r}")

    def _kill(self, request: Request, attempt: Attempt | None) -> dict[str, Any]:
        if attempt is None or attempt.record.envelope_id != request.subject:
            raise NotFound(f"envelope {request.subject!r} is not running; a pending one can be withdrawn")
        if is_over(attempt.call):
            raise NotFound(f"envelope {request.subject!r} has just ended by itself; see: meshtui status")
        survivors = self._end(attempt, "killed")
        return {"ended": [request.subject], "survivors": list(survivors), "not_started": []}

    def _answer(self, request: Request) -> dict[str, Any]:
        subject = request.subject or ""
        apply_answer(self._files, self._settler, subject, request.data)
        self._relist()
        return {"envelope_id": subject, "action": request.data.get("action")}

    def _extend(self, request: Request, attempt: Attempt | None) -> dict[str, Any]:
        if attempt is None or attempt.record.envelope_id != request.subject or is_over(attempt.call):
            raise NotFound(f"envelope {request.subject!r} is not running; see: meshtui status")
        attempt.deadline_at_ms = self._settler.extend(attempt.record, request.data.get("seconds"))
        return {"deadline_at": iso(attempt.deadline_at_ms)}

    def _message(self, request: Request) -> dict[str, Any]:
        envelope = validate_envelope(request.data.get("envelope"))
        placed = self._files.queue.add_at_head(str(envelope.get("id")), envelope)
        self._relist()
        return {"queued_at": placed.record.queued_at, "depth": placed.depth}


def is_over(call: Call) -> bool:
    """Whether a call lives no more."""
    return call.state() in ("ended", "lost")


def apply_answer(files: LaneFiles, settler: Settler, envelope_id: str, data: dict[str, Any]) -> None:
    """Do what the operator answered to a parked envelope; the caller holds the lease."""
    found = files.queue.find(envelope_id, ("stalled",))
    if found is None:
        raise NotFound(f"envelope {envelope_id!r} is not parked; see: meshtui status")
    record = found[1]
    if data.get("action") == "drop":
        settler.answer_drop(record)
        return
    engine, seconds = data.get("engine"), data.get("deadline_seconds")
    changed = dict(record.envelope)
    changed.update(
        {
            key: value
            for key, value in (("engine", engine), ("deadline_seconds", seconds))
            if value is not None
        }
    )
    validate_envelope(changed)
    settler.answer_retry(record, engine=engine, deadline_seconds=seconds)
