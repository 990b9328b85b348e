"""What there is to see of missions at one moment: frozen values, and a reader that reads only what changed.

It never writes: another tool's missions are looked at like meshtui's own. A file that cannot be read keeps
what was known of it and is named in the mission's ``problems``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from meshtui.core.clock import Clock, SystemClock, from_iso
from meshtui.core.errors import InvalidInput, StorageError
from meshtui.core.lane.lease import holder
from meshtui.core.mesh.files import read_json, read_model
from meshtui.core.mesh.paths import LoopPaths, MissionPaths
from meshtui.core.mesh.places import mission_places
from meshtui.core.models.mesh import ENDED, LoopState, Node, Plan
from meshtui.core.run_dir import RunDir
from meshtui.core.view import RunnerView

MissionState = Literal["planned", "running", "stopped", "done", "bad", "handoff", "dead"]
"""``stopped``: begun and at rest, to be resumed; ``dead``: its runner is gone without an end."""

Value = TypeVar("Value")
_Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class LoopView:
    """One loop; times are milliseconds since the epoch."""

    mission_id: str
    loop_id: str
    title: str = ""
    purpose: str = ""
    status: str = "planned"
    phase: str = "triage"
    iteration: int = 0
    max_iterations: int = 1
    level: str = "L2-action"
    route: str = ""
    risk: str = "low"
    risk_reasons: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    makers: int = 1
    """Makers planned."""
    checkers: int = 1
    makers_used: int = 0
    checkers_used: int = 0
    active: tuple[str, ...] = ()
    """Calls that are at work."""
    calls: tuple[str, ...] = ()
    """Calls of the phase at work, ended ones too; else those that the proof names."""
    gates_selected: tuple[str, ...] = ()
    gates_passed: tuple[str, ...] = ()
    gates_failed: tuple[str, ...] = ()
    gates_skipped: tuple[str, ...] = ()
    used: Mapping[str, Any] = field(default_factory=dict)
    budget: Mapping[str, Any] = field(default_factory=dict)
    changed_files: tuple[str, ...] = ()
    blockers: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    worktree: str | None = None
    branch: str | None = None
    base_commit: str | None = None
    candidate: str | None = None
    started_at: int | None = None
    ended_at: int | None = None
    updated_at: int | None = None

    @property
    def key(self) -> str:
        """Unique in a run directory, and what commands call it."""
        return f"{self.mission_id}/{self.loop_id}"

    @property
    def budget_share(self) -> float:
        """How much of the budget is used, by the part of it that is closest to its end: 0 to 1."""
        pairs = (
            ("wall_ms", "max_wall_ms"),
            ("model_calls", "max_model_calls"),
            ("tokens", "max_tokens_estimate"),
        )
        shares = [
            float(self.used.get(name) or 0) / float(self.budget.get(most) or 1)
            for name, most in pairs
            if self.budget.get(most)
        ]
        return min(1.0, max(shares, default=0.0))


@dataclass(frozen=True, slots=True)
class MissionView:
    """One mission."""

    mission_id: str
    root: Path
    """Its ``loops`` folder."""
    request: str = ""
    state: MissionState = "planned"
    ok: bool = False
    loops: tuple[LoopView, ...] = ()
    integration_loop_id: str = ""
    runner: RunnerView = RunnerView()
    repo: str | None = None
    """``None`` for another tool's."""
    base_commit: str | None = None
    branch: str | None = None
    graph_proof: Mapping[str, Any] | None = None
    problems: tuple[str, ...] = ()

    def loop(self, loop_id: str) -> LoopView | None:
        """The loop called ``loop_id``."""
        return next((item for item in self.loops if item.loop_id == loop_id), None)


class _File(Generic[Value]):
    """A file that is read again when it changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: _Stamp | None = None
        self.value: Value | None = None
        self.problem: str | None = None

    def refresh(self, read: Any) -> bool:
        """Read it if it changed; whether it did."""
        try:
            state = os.stat(self._path)
            stamp = (state.st_mtime_ns, state.st_ino, state.st_size)
        except OSError:
            stamp = (0, 0, 0)
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            self.value = read(self._path)
            self.problem = None
        except (InvalidInput, StorageError, OSError) as error:
            self.problem = str(error)
        return True


def _plan(path: Path) -> Plan | None:
    return read_model(path, Plan)


def _state(path: Path) -> LoopState | None:
    return read_model(path, LoopState)


class _LoopReader:
    def __init__(self, paths: LoopPaths) -> None:
        self.state: _File[LoopState] = _File(paths.state)
        self.proof: _File[dict[str, Any]] = _File(paths.proof)
        self.checkpoint: _File[dict[str, Any]] = _File(paths.checkpoint)
        self.worktree: _File[dict[str, Any]] = _File(paths.worktree)
        self._view: LoopView | None = None

    def refresh(self, node: Node, mission_id: str, run_dir: RunDir, *, again: bool) -> LoopView:
        """The loop as it is now; the same object as before where nothing changed."""
        changed = self.state.refresh(_state)
        for file in (self.proof, self.checkpoint, self.worktree):
            changed = file.refresh(read_json) or changed
        view = self._view
        if view is None or changed or again:
            view = self._make(node, mission_id, run_dir)
        elif view.status == "running" and view.active:
            active = tuple(call for call in view.active if _lives(run_dir, call))
            if active != view.active:
                view = self._make(node, mission_id, run_dir)
        self._view = view
        return view

    @property
    def problems(self) -> list[str]:
        """What could not be read."""
        files: tuple[_File[Any], ...] = (self.state, self.proof, self.checkpoint, self.worktree)
        return [file.problem for file in files if file.problem is not None]

    def _make(self, node: Node, mission_id: str, run_dir: RunDir) -> LoopView:
        state = self.state.value
        status = state.status if state is not None else "planned"
        ended = status in ENDED
        progress = _dict(_dict(self.checkpoint.value).get("meshtui"))
        proof = _dict(self.proof.value) if ended else {}
        result = _dict(proof.get("gate_result"))
        passed, failed, skipped = (
            _texts(result.get(f"{name}_gates")) if ended and result else _texts(progress.get(name))
            for name in ("passed", "failed", "skipped")
        )
        calls = tuple(_texts(list(_dict(progress.get("calls")).values()))) if not ended else ()
        if ended:
            evidence = [_dict(item).get("call") for item in proof.get("evidence") or []]
            calls = tuple(dict.fromkeys(call for call in evidence if isinstance(call, str)))
        updated = from_iso(state.updated_at) if state is not None else None
        place = _dict(self.worktree.value)
        return LoopView(
            mission_id=mission_id,
            loop_id=node.loop_id,
            title=node.title,
            purpose=node.purpose,
            status=status,
            phase=state.current_phase if state is not None else "triage",
            iteration=state.iteration if state is not None else 0,
            max_iterations=node.budget.max_iterations,
            level=node.level,
            route=node.route,
            risk=node.risk.level,
            risk_reasons=tuple(node.risk.reasons),
            files=tuple(node.owner_scope.files),
            directories=tuple(node.owner_scope.directories),
            makers=node.maker.worker_count,
            checkers=node.checker.worker_count,
            makers_used=_number(
                _dict(proof.get("maker_result")).get("worker_count"), progress.get("makers_used")
            ),
            checkers_used=_number(
                _dict(proof.get("checker_result")).get("worker_count"), progress.get("checkers_used")
            ),
            active=tuple(call for call in calls if status == "running" and _lives(run_dir, call)),
            calls=calls,
            gates_selected=tuple(_texts(result.get("selected_gates")) or node.gates.all),
            gates_passed=tuple(passed),
            gates_failed=tuple(failed),
            gates_skipped=tuple(skipped),
            used=state.budget_used.as_json() if state is not None else {},
            budget=node.budget.as_json(),
            changed_files=tuple(
                _texts(proof.get("changed_files") if ended else progress.get("changed_files"))
            ),
            blockers=tuple(state.blockers) if state is not None else (),
            dependencies=tuple(node.dependencies),
            worktree=_text(place.get("path")),
            branch=_text(place.get("branch")),
            base_commit=_text(proof.get("base_commit")) or _text(place.get("base_ref")),
            candidate=_text(proof.get("head_commit")) or _text(progress.get("candidate")),
            started_at=progress.get("started_at") or from_iso(_text(place.get("allocated_at"))),
            ended_at=updated if ended else None,
            updated_at=updated,
        )


class MissionReader:
    """Reads one mission; ``refresh`` belongs to one thread."""

    def __init__(self, run_dir: RunDir, paths: MissionPaths, *, clock: Clock | None = None) -> None:
        self._run_dir = run_dir
        self._clock = clock or SystemClock()
        self.paths = paths
        self._plan: _File[Plan] = _File(paths.plan)
        self._proof: _File[dict[str, Any]] = _File(paths.graph_proof)
        self._loops: dict[str, _LoopReader] = {}
        self._view: MissionView | None = None

    def refresh(self) -> MissionView | None:
        """The mission as it is now, ``None`` without a plan; an equal view is the same object."""
        planned = self._plan.refresh(_plan)
        self._proof.refresh(read_json)
        plan = self._plan.value
        if plan is None:
            if self._plan.problem is None:
                return None
            return MissionView(self.paths.mission_id, self.paths.root, problems=(self._plan.problem,))
        loops = []
        problems = [text for text in (self._plan.problem, self._proof.problem) if text is not None]
        for node in plan.graph.nodes:
            reader = self._loops.get(node.loop_id)
            if reader is None:
                reader = self._loops[node.loop_id] = _LoopReader(self.paths.loop(node.loop_id))
            loops.append(reader.refresh(node, plan.mission_id, self._run_dir, again=planned))
            problems += reader.problems
        proof = self._proof.value
        held = holder(self.paths, self._clock)
        who = held.owner.who if held.owner is not None else None
        runner = RunnerView(
            alive=held.alive,
            pid=who.pid if who is not None else None,
            host=who.host if who is not None else None,
            heartbeat_at=held.owner.heartbeat_at if held.owner is not None else None,
            foreign=held.foreign,
        )
        merge = _dict(_dict(proof).get("integration_merge"))
        view = MissionView(
            mission_id=plan.mission_id,
            root=self.paths.root,
            request=plan.request,
            state=_mission_state(loops, proof, alive=held.alive, left=self.paths.runner_lock.is_dir()),
            ok=bool(_dict(proof).get("ok")),
            loops=tuple(loops),
            integration_loop_id=plan.integration_loop_id,
            runner=runner,
            repo=plan.repo,
            base_commit=plan.base_commit,
            branch=_text(merge.get("branch")),
            graph_proof=proof,
            problems=tuple(dict.fromkeys(problems)),
        )
        if view != self._view:
            self._view = view
        return self._view


def _mission_state(
    loops: list[LoopView], proof: Mapping[str, Any] | None, *, alive: bool, left: bool
) -> MissionState:
    statuses = {loop.status for loop in loops}
    if alive:
        return "running"
    if left:
        return "dead"
    if statuses <= {"planned"}:
        return "planned"
    if statuses & {"blocked", "failed", "cancelled"} and not statuses & {"queued", "running", "planned"}:
        return "bad"
    if "handoff" in statuses and not statuses & {"running"}:
        return "handoff"
    if statuses == {"completed"}:
        return "done" if _dict(proof).get("ok") else "bad"
    return "stopped"


class MissionsReader:
    """Reads every mission of a directory; ``refresh`` belongs to one thread."""

    def __init__(self, run_dir: RunDir, *, clock: Clock | None = None) -> None:
        self._run_dir = run_dir
        self._clock = clock or SystemClock()
        self._readers: dict[Path, MissionReader] = {}

    def refresh(self) -> tuple[MissionView, ...]:
        """The missions as they are now, oldest first."""
        views = []
        places = mission_places(self._run_dir)
        for paths in places:
            reader = self._readers.get(paths.root)
            if reader is None:
                reader = self._readers[paths.root] = MissionReader(self._run_dir, paths, clock=self._clock)
            view = reader.refresh()
            if view is not None:
                views.append(view)
        known = {paths.root for paths in places}
        self._readers = {root: reader for root, reader in self._readers.items() if root in known}
        return tuple(views)


def _lives(run_dir: RunDir, call: str) -> bool:
    folder = run_dir.calls / Path(call).name
    return folder.is_dir() and not (folder / "exit.json").exists()


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _number(*values: object) -> int:
    return next((value for value in values if isinstance(value, int)), 0)
