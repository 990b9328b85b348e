"""An engine for the console that does nothing but remember what it was asked."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from meshtui.core.errors import MeshtuiError
from meshtui.core.lane.receipts import (
    AnswerReceipt,
    EnqueueReceipt,
    InterruptReceipt,
    KillReceipt,
    PauseReceipt,
    QuarantineReceipt,
    RequeueReceipt,
    RestoreReceipt,
    StopReceipt,
    WithdrawReceipt,
)
from meshtui.core.view import Detail, LaneView


@dataclass(frozen=True)
class Outcome:
    """How the fake runner ended."""

    state: str = "waiting"
    completed: int = 0
    parked: bool = False
    bad: bool = False


@dataclass
class FakeOperations:
    """Remembers calls; fails with ``error`` where there is one."""

    calls: list[tuple[Any, ...]] = field(default_factory=list)
    error: MeshtuiError | None = None

    def _did(self, *call: Any) -> None:
        if self.error is not None:
            raise self.error
        self.calls.append(call)

    def enqueue(self, envelope: dict[str, Any]) -> EnqueueReceipt:
        self._did("enqueue", envelope)
        return EnqueueReceipt("lane", envelope.get("id", "phase-1"), 4, 4, "2026-12-01T00:00:00.000Z")

    def interrupt(self) -> InterruptReceipt:
        self._did("interrupt")
        return InterruptReceipt(("a", "b"), ("c",))

    def restore(self) -> RestoreReceipt:
        self._did("restore")
        return RestoreReceipt(("a",), ("stop",))

    def withdraw(self, envelope_id: str) -> WithdrawReceipt:
        self._did("withdraw", envelope_id)
        return WithdrawReceipt(envelope_id, 2)

    def requeue(self, envelope_id: str) -> RequeueReceipt:
        self._did("requeue", envelope_id)
        return RequeueReceipt(envelope_id, 3, 3)

    def answer(
        self,
        envelope_id: str,
        action: str,
        *,
        engine: str | None = None,
        deadline_seconds: float | None = None,
    ) -> AnswerReceipt:
        self._did("answer", envelope_id, action, engine, deadline_seconds)
        return AnswerReceipt(envelope_id, "drop" if action == "drop" else "retry")

    def kill(self, envelope_id: str) -> KillReceipt:
        self._did("kill", envelope_id)
        return KillReceipt((envelope_id,), ())

    def stop(self, *, drain: bool = False) -> StopReceipt:
        self._did("stop", drain)
        return StopReceipt(True, "US-015-backend")

    def pause(self) -> PauseReceipt:
        self._did("pause")
        return PauseReceipt(True)

    def resume(self) -> PauseReceipt:
        self._did("resume")
        return PauseReceipt(False)

    def quarantine_repair(self, name: str) -> QuarantineReceipt:
        self._did("repair", name)
        return QuarantineReceipt(name, "broken")

    def quarantine_drop(self, name: str) -> QuarantineReceipt:
        self._did("drop-file", name)
        return QuarantineReceipt(name)


class FakeRunner:
    """Works nothing until it is asked to end."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._end = threading.Event()

    def run(self) -> Outcome:
        self._end.wait(30)
        return Outcome()

    def request_stop(self) -> None:
        self.asked.append("stop")
        self._end.set()

    def request_hand_over(self) -> None:
        self.asked.append("hand over")
        self._end.set()


class FakeReader:
    """Hands out the view it was given last."""

    def __init__(self, view: LaneView, details: dict[str, Detail]) -> None:
        self.view = view
        self.details = details
        self.asked: list[str] = []

    def refresh(self, *, budget: int = 500) -> LaneView:
        return self.view

    def detail(self, key: str) -> Detail | None:
        self.asked.append(key)
        return self.details.get(key)


class FakeEngine:
    """Everything behind a console, without a file."""

    def __init__(self, view: LaneView, details: dict[str, Detail] | None = None) -> None:
        self.the_reader = FakeReader(view, details or {})
        self.the_operations = FakeOperations()
        self.runners: list[FakeRunner] = []
        self.detached = 0
        self.detach_error: MeshtuiError | None = None
        self.created = False
        self.took_over = False

    @property
    def calls(self) -> list[tuple[Any, ...]]:
        """What was done so far."""
        return self.the_operations.calls

    def reader(self) -> FakeReader:
        return self.the_reader

    def operations(self, *, create: bool = False) -> FakeOperations:
        self.created = self.created or create
        return self.the_operations

    def runner(self, *, take_over: bool = False) -> FakeRunner:
        self.took_over = take_over
        runner = FakeRunner()
        self.runners.append(runner)
        return runner

    def start_detached(self) -> int:
        if self.detach_error is not None:
            raise self.detach_error
        self.detached += 1
        return 4242
