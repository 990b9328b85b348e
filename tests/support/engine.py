"""An engine for the console that does nothing but remember what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from meshtui.core.errors import MeshtuiError
from meshtui.core.lane.receipts import (
    AnswerReceipt,
    EditReceipt,
    EnqueueReceipt,
    ExtendReceipt,
    HeadReceipt,
    InterruptReceipt,
    KillReceipt,
    PauseReceipt,
    QuarantineReceipt,
    Refusal,
    RequeueReceipt,
    RestoreReceipt,
    SeveralReceipt,
    StopReceipt,
    WithdrawReceipt,
)
from meshtui.core.mesh.verify import Check
from meshtui.core.mesh.view import MissionView
from meshtui.core.models.mesh import Plan
from meshtui.core.prune import Prunable
from meshtui.core.vcs.merge import Discard, LandResult
from meshtui.core.view import Detail, LaneView
from meshtui.missions import KillResult, PlanWish


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
    refused: tuple[Refusal, ...] = ()
    """Of what is done with several."""
    kept: dict[str, Any] = field(default_factory=lambda: {"kind": "phase", "prompt": "do it"})
    """What is edited."""
    folder: str = "pending"

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

    def restore(self, ids: Sequence[str] | None = None, *, in_place: bool = False) -> RestoreReceipt:
        self._did("restore", *([tuple(ids)] if ids else []), *(["in place"] if in_place else []))
        return RestoreReceipt(tuple(ids) if ids else ("a",), () if ids else ("stop",))

    def withdraw(self, envelope_id: str) -> WithdrawReceipt:
        self._did("withdraw", envelope_id)
        return WithdrawReceipt(envelope_id, 2)

    def withdraw_many(self, ids: Sequence[str]) -> SeveralReceipt:
        self._did("withdraw_many", tuple(ids))
        return SeveralReceipt(tuple(ids), self.refused, 2)

    def requeue(self, envelope_id: str) -> RequeueReceipt:
        self._did("requeue", envelope_id)
        return RequeueReceipt(envelope_id, 3, 3)

    def requeue_many(self, ids: Sequence[str]) -> SeveralReceipt:
        self._did("requeue_many", tuple(ids))
        return SeveralReceipt(tuple(ids), self.refused, 2)

    def head(self, ids: Sequence[str]) -> HeadReceipt:
        self._did("head", tuple(ids))
        return HeadReceipt(tuple(ids), 3, {name: f"old {name}" for name in ids})

    def place(self, names: Mapping[str, str]) -> tuple[str, ...]:
        self._did("place", dict(names))
        return tuple(names)

    def envelope(self, envelope_id: str) -> tuple[str, dict[str, Any]]:
        return self.folder, dict(self.kept)

    def edit(
        self, envelope_id: str, envelope: Mapping[str, Any], *, base: Mapping[str, Any] | None = None
    ) -> EditReceipt:
        self._did("edit", envelope_id, dict(envelope))
        return EditReceipt(envelope_id, 2, 3, dict(base or {}), self.folder)

    def park_again(self, envelope_id: str) -> None:
        self._did("park again", envelope_id)

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

    def extend(self, envelope_id: str, seconds: float) -> ExtendReceipt:
        self._did("extend", envelope_id, seconds)
        return ExtendReceipt(envelope_id, "2026-01-02T03:04:05.000Z")

    def message(self, envelope_id: str, text: str) -> EnqueueReceipt:
        self._did("message", envelope_id, text)
        return EnqueueReceipt("lane", "message-1", 1, 4, "2026-01-02T03:04:05.000Z")

    def quarantine_repair(self, name: str) -> QuarantineReceipt:
        self._did("repair", name)
        return QuarantineReceipt(name, "broken")

    def quarantine_drop(self, name: str) -> QuarantineReceipt:
        self._did("drop-file", name)
        return QuarantineReceipt(name)


class FakeMissions:
    """Remembers what was done to missions; every call of the engine's is listed in ``calls``."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.error: MeshtuiError | None = None
        self.made: Plan | None = None
        self.blockers: tuple[str, ...] = ()
        self.checks: tuple[Check, ...] = ()
        self.runners: dict[str, FakeMissionRunner] = {}
        self.lost = Discard({}, (), ())
        self.left_behind = Prunable((), ())
        self.file = Path("/nowhere/loop-plan.json")

    def _did(self, *call: Any) -> None:
        if self.error is not None:
            raise self.error
        self.calls.append(call)

    def plan(self, wish: PlanWish) -> tuple[Plan, Sequence[str]]:
        self._did("plan", wish)
        assert self.made is not None
        return self.made, self.blockers

    def reload(self, mission_id: str) -> tuple[Plan, Sequence[str]]:
        self._did("reload", mission_id)
        assert self.made is not None
        return self.made, self.blockers

    def forget(self, mission_id: str) -> None:
        self._did("forget", mission_id)

    def kill(self, mission: MissionView, target: str) -> KillResult:
        self._did("kill", mission.mission_id, target)
        if target == "all":
            return KillResult(("loop-auth",), (), ("loop-tests",))
        return KillResult((target,), (), ())

    def answer(self, mission: MissionView, loop_id: str, verdict: str, reason: str) -> Any:
        self._did("answer", mission.mission_id, loop_id, verdict, reason)
        return {"mission_id": mission.mission_id, "loop_id": loop_id, "verdict": verdict}

    def land(self, mission: MissionView) -> Any:
        self._did("land", mission.mission_id)
        return LandResult("main", "a" * 40, "b" * 40, None)

    def verify(self, mission: MissionView, loop_id: str | None) -> Sequence[Check]:
        self._did("verify", mission.mission_id, loop_id)
        return self.checks

    def losses(self, mission: MissionView) -> Discard:
        self._did("losses", mission.mission_id)
        return self.lost

    def discard(self, mission: MissionView, found: Discard) -> Discard:
        self._did("discard", mission.mission_id, found)
        return found

    def prunable(self) -> Prunable:
        self._did("prunable")
        return self.left_behind

    def prune(self, found: Prunable) -> tuple[int, int]:
        self._did("prune", found)
        return len(found.calls), sum(item.refused is None for item in found.worktrees)

    def runner(self, mission_id: str) -> FakeMissionRunner:
        self._did("run", mission_id)
        self.runners[mission_id] = FakeMissionRunner(mission_id)
        return self.runners[mission_id]

    def start_detached(self, mission_id: str) -> int:
        self._did("detach", mission_id)
        return 4343

    def plan_file(self, mission_id: str) -> Path:
        return self.file


@dataclass(frozen=True)
class MissionEnd:
    """How a fake mission ended."""

    mission_id: str
    state: str = "stopped"
    graph_proof: dict[str, Any] = field(default_factory=dict)


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


class FakeMissionRunner(FakeRunner):
    """Runs a mission that does nothing until it is asked to end."""

    def __init__(self, mission_id: str) -> None:
        super().__init__()
        self.mission_id = mission_id

    def run(self) -> Any:
        super().run()
        return MissionEnd(self.mission_id)


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
        self.the_missions = FakeMissions()
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

    def missions(self) -> FakeMissions:
        return self.the_missions

    def start_detached(self) -> int:
        if self.detach_error is not None:
            raise self.detach_error
        self.detached += 1
        return 4242
