"""What there is to see of missions: frozen values read from their files, only those that changed.

Nothing is written: missions of other tools are looked at as they are. Times are ms since the epoch.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import Any

from meshtui.core.clock import Clock, SystemClock, from_iso, iso
from meshtui.core.lane.lease import holder
from meshtui.core.lane.rows import read_object
from meshtui.core.mesh.paths import MissionPaths
from meshtui.core.mesh.places import mission_places
from meshtui.core.mesh.rebuild import rebuilt_state
from meshtui.core.mesh.runlog import read_run_log
from meshtui.core.models.mesh_names import ENDED, is_mesh_id
from meshtui.core.run_dir import RunDir
from meshtui.core.view import Attention, AttentionKind, Doing, Exit, Held, RunnerView, Spent

BAD = ("blocked", "failed", "cancelled")
NEEDY = ("handoff", "blocked", "failed")
SURVIVOR = "still running: "
DEPENDENCY = "dependency "


@dataclass(frozen=True, slots=True)
class LoopRow:
    """One loop at one moment."""

    mission_id: str
    loop_id: str
    title: str = ""
    status: str = "planned"
    phase: str | None = None
    iteration: int = 0
    max_iterations: int = 0
    level: str = ""
    engine: str | None = None
    """Who made it, once it has ended; before that who is planned to."""
    risk: str = "low"
    risk_reasons: tuple[str, ...] = ()
    route: str = ""
    files: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    makers: int = 0
    checkers: int = 0
    active_workers: tuple[str, ...] = ()
    """The worker slots at work, e.g. ``maker-1``."""
    calls: tuple[tuple[str, str], ...] = ()
    """Those slots with their calls."""
    doing: tuple[Doing, ...] = ()
    """What its agents do, as far as they say so."""
    held: tuple[Held, ...] = ()
    """Workers that wait for a usage limit to pass."""
    spent: Spent | None = None
    """The cap it came near, as it was warned of."""
    workers_used: int = 0
    """Makers and checkers that were at work so far."""
    gates_selected: tuple[str, ...] = ()
    gates_passed: tuple[str, ...] = ()
    gates_failed: tuple[str, ...] = ()
    gates_skipped: tuple[str, ...] = ()
    budget_used: dict[str, Any] = field(default_factory=dict)
    budget_max: dict[str, Any] = field(default_factory=dict)
    changed_files: tuple[str, ...] = ()
    blockers: tuple[str, ...] = ()
    handoff_reason: str | None = None
    worktree: str | None = None
    branch: str | None = None
    started_at: int | None = None
    ended_at: int | None = None
    marks: tuple[tuple[int, str], ...] = ()
    """When which phase began, as the run log has it, oldest first."""
    updated_at: int | None = None
    candidate: str | None = None

    @property
    def key(self) -> str:
        """Unique in a run directory."""
        return f"{self.mission_id}/{self.loop_id}"

    @property
    def ended(self) -> bool:
        """Whether it does nothing more by itself."""
        return self.status in ENDED

    def elapsed(self, now: int) -> int | None:
        """How long it took, or takes until ``now``; ``None`` before it started."""
        if self.started_at is None:
            wall = self.budget_used.get("wall_ms")
            return wall if isinstance(wall, int) and self.ended and wall else None
        if self.status == "running":
            return max(0, now - self.started_at)
        end = self.ended_at or self.updated_at
        return max(0, end - self.started_at) if end is not None else None


@dataclass(frozen=True, slots=True)
class MissionView:
    """One mission at one moment."""

    mission_id: str
    root: Path
    """Its ``loops`` folder."""
    request: str = ""
    integration_loop_id: str = "loop-integration"
    repo: str | None = None
    """``None`` for another tool's mission."""
    base_commit: str | None = None
    runner: RunnerView = field(default_factory=RunnerView)
    loops: tuple[LoopRow, ...] = ()
    graph_proof: dict[str, Any] | None = field(default=None, compare=False)
    overlaps: tuple[dict[str, Any], ...] = field(default=(), compare=False)
    problem: str | None = None
    """Why its plan cannot be read."""

    @property
    def ok(self) -> bool | None:
        """What the graph proof says, ``None`` while there is none."""
        return None if self.graph_proof is None else bool(self.graph_proof.get("ok"))

    @property
    def done(self) -> int:
        """How many loops are complete."""
        return sum(1 for loop in self.loops if loop.status == "completed")

    @property
    def used(self) -> tuple[int | None, float | None]:
        """Tokens and cost of all its loops, as far as they were reported."""
        tokens = [loop.budget_used.get("tokens") for loop in self.loops]
        costs = [loop.budget_used.get("cost_usd") for loop in self.loops]
        known = [one for one in tokens if isinstance(one, int)]
        paid = [one for one in costs if isinstance(one, (int, float))]
        return sum(known) if known else None, sum(paid) if paid else None

    @property
    def state(self) -> str:
        """``running``, ``dead``, ``planned``, ``done``, ``handoff`` or ``bad``."""
        statuses = {loop.status for loop in self.loops}
        if self.runner.alive:
            return "running"
        if "running" in statuses:
            return "dead"
        if self.ok:
            return "done"
        if "handoff" in statuses and not statuses & set(BAD):
            return "handoff"
        if statuses & set(BAD):
            return "bad"
        return "planned"


class _File:
    """A JSON file that is read again only when it changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark: tuple[int, int, int] | None = None
        self.value: dict[str, Any] | None = None

    def refresh(self) -> dict[str, Any] | None:
        """The file's object now."""
        try:
            state = os.stat(self._path)
        except OSError:
            self._mark, self.value = None, None
            return None
        mark = (state.st_mtime_ns, state.st_size, state.st_ino)
        if mark != self._mark:
            self._mark, self.value = mark, read_object(self._path)
        return self.value


def _mark(path: str) -> tuple[int, int, int] | None:
    """What tells that a file is another one or has changed; ``None`` where there is none."""
    try:
        state = os.stat(path)
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size, state.st_ino


class _Known:
    """A loop as it was read last; of its files only what tells their change is kept."""

    __slots__ = ("calls", "files", "marks", "node", "row")

    def __init__(self, node: dict[str, Any], files: tuple[str, ...]) -> None:
        self.node = node
        self.files = files
        """State, checkpoint, proof, run log."""
        self.marks: tuple[object, ...] = ()
        self.row: LoopRow | None = None
        self.calls: dict[str, Any] = {}


class MissionReader:
    """Reads one mission, again and again."""

    def __init__(self, paths: MissionPaths, *, clock: Clock | None = None) -> None:
        self.paths = paths
        self._clock = clock or SystemClock()
        self._plan = _File(paths.plan)
        self._proof = _File(paths.graph_proof)
        self._loops: dict[str, _Known] = {}

    def refresh(self) -> MissionView:
        """The mission as it is now."""
        plan = self._plan.refresh()
        held = holder(self.paths, self._clock)
        owner = held.owner
        runner = RunnerView(
            alive=held.alive,
            pid=owner.who.pid if owner is not None and owner.who is not None else None,
            host=owner.who.host if owner is not None and owner.who is not None else None,
            heartbeat_at=owner.heartbeat_at if owner is not None else None,
            foreign=held.foreign,
        )
        if plan is None:
            return MissionView(
                self.paths.mission_id, self.paths.root, runner=runner, problem="its plan cannot be read"
            )
        graph = plan.get("graph")
        nodes = graph.get("nodes") if isinstance(graph, dict) else None
        rows = [
            self._row(node)
            for node in nodes or []
            if isinstance(node, dict) and is_mesh_id(node.get("loop_id"))
        ]
        overlaps = plan.get("overlaps")
        return MissionView(
            mission_id=self.paths.mission_id,
            root=self.paths.root,
            request=str(plan.get("request") or ""),
            integration_loop_id=_text(plan.get("integration_loop_id")) or "loop-integration",
            repo=_text(plan.get("repo")),
            base_commit=_text(plan.get("base_commit")),
            runner=runner,
            loops=tuple(rows),
            graph_proof=self._proof.refresh(),
            overlaps=tuple(item for item in overlaps if isinstance(item, dict))
            if isinstance(overlaps, list)
            else (),
        )

    def _lives(self, call: object) -> bool:
        """Whether a call is at work; one that ended stays named until its phase is over."""
        folder = self.paths.root.parents[2] / "calls" / Path(str(call)).name
        return folder.is_dir() and not (folder / "exit.json").exists()

    def _row(self, node: dict[str, Any]) -> LoopRow:
        """The row of one loop; its files are read again only when one of them changed."""
        loop_id = str(node["loop_id"])
        known = self._loops.get(loop_id)
        if known is None or known.node is not node:
            paths = self.paths.loop(loop_id)
            files = (str(paths.state), str(paths.checkpoint), str(paths.proof), str(paths.log))
            known = self._loops[loop_id] = _Known(node, files)
        marks = tuple(map(_mark, known.files))
        if known.row is None or marks != known.marks:
            known.marks = marks
            known.row, known.calls = self._read_row(loop_id, node, known.files)
        elif known.calls:
            # A call ends without a change of the loop's own files.
            alive = self._at_work(known.calls)
            if alive != known.row.calls:
                known.row = replace(known.row, active_workers=tuple(slot for slot, _ in alive), calls=alive)
        return known.row

    def _at_work(self, calls: dict[str, Any]) -> tuple[tuple[str, str], ...]:
        return tuple(sorted((slot, str(call)) for slot, call in calls.items() if self._lives(call)))

    def _read_row(
        self, loop_id: str, node: dict[str, Any], files: tuple[str, ...]
    ) -> tuple[LoopRow, dict[str, Any]]:
        """The row, and the calls that its checkpoint names while it runs."""
        checkpoint, proof = (read_object(path) or {} for path in files[1:3])
        state = read_object(files[0])
        if state is None or not isinstance(state.get("status"), str):
            # Cut off by a power cut, as a rule.
            state = rebuilt_state(proof, checkpoint)
        log = read_run_log(Path(files[3]))
        status = str(state.get("status") or "planned")
        ended = status in ENDED
        mine = checkpoint.get("meshtui")
        progress: dict[str, Any] = mine if isinstance(mine, dict) else {}
        gates = _dict(proof.get("gate_result")) if ended else {}
        scope, risk, budget = (
            _dict(node.get("owner_scope")),
            _dict(node.get("risk")),
            _dict(node.get("budget")),
        )
        acting = _dict(state.get("acting_on"))
        calls = _dict(checkpoint.get("calls")) if status == "running" else {}
        alive = self._at_work(calls)
        row = LoopRow(
            mission_id=self.paths.mission_id,
            loop_id=loop_id,
            title=str(node.get("title") or ""),
            status=status,
            phase=_text(state.get("current_phase")),
            iteration=_int(state.get("iteration")),
            max_iterations=_int(budget.get("max_iterations")),
            level=str(node.get("level") or ""),
            engine=_engine(node, proof if ended else {}),
            risk=str(risk.get("level") or "low"),
            risk_reasons=texts(risk.get("reasons")),
            route=str(node.get("route") or ""),
            files=texts(scope.get("files")),
            directories=texts(scope.get("directories")),
            dependencies=texts(node.get("dependencies")),
            makers=_int(_dict(node.get("maker")).get("worker_count")),
            checkers=_int(_dict(node.get("checker")).get("worker_count")),
            active_workers=tuple(slot for slot, _ in alive),
            calls=alive,
            held=() if ended else _held(progress, _dict(checkpoint.get("calls"))),
            spent=None if ended else _spent(progress),
            workers_used=_workers(progress, proof),
            gates_selected=_selected(node),
            gates_passed=texts(gates.get("passed_gates") if ended else progress.get("passed")),
            gates_failed=texts(gates.get("failed_gates") if ended else progress.get("failed")),
            gates_skipped=texts(gates.get("skipped_gates") if ended else progress.get("skipped")),
            budget_used=_dict(state.get("budget_used")),
            budget_max=budget,
            changed_files=texts(proof.get("changed_files") if ended else progress.get("changed_files")),
            blockers=texts(state.get("blockers")),
            handoff_reason=_text(_dict(state.get("handoff")).get("reason")),
            worktree=_text(_dict(proof.get("worktree")).get("path")),
            branch=_text(acting.get("branch")),
            started_at=log.started_at or _int(progress.get("started_at")) or None,
            ended_at=log.ended_at if ended else None,
            marks=log.marks,
            updated_at=from_iso(state.get("updated_at")),
            candidate=_text(progress.get("candidate")) or _text(proof.get("head_commit")),
        )
        return row, calls


class MissionsReader:
    """Reads all missions of a directory: a run directory's, a repository's, or one mission's folder."""

    def __init__(self, root: Path, *, clock: Clock | None = None) -> None:
        self._root = root
        self._clock = clock or SystemClock()
        self._readers: dict[Path, MissionReader] = {}

    def refresh(self) -> tuple[MissionView, ...]:
        """The missions as they are now, newest last."""
        self._readers = {
            paths.root: self._readers.get(paths.root) or MissionReader(paths, clock=self._clock)
            for paths in mission_places(RunDir(self._root))
        }
        return tuple(reader.refresh() for reader in self._readers.values())


def mission_attention(view: MissionView, run_dir: Path) -> tuple[Attention, ...]:
    """What of a mission needs the operator, with the ways out."""
    where = f"--run-dir {quote(str(run_dir))}"
    name = quote(view.mission_id)
    items: list[Attention] = []
    if view.state == "dead":
        items.append(
            Attention(
                kind="dead",
                subject=view.mission_id,
                text="the mission's runner is gone; resume adopts what still runs",
                since=view.runner.heartbeat_at,
                exits=(Exit("resume", f"meshtui resume {name} {where}", "resume"),),
            )
        )
    for loop in view.loops:
        items += _loop_attention(view, loop, where)
    return tuple(items)


def _loop_attention(view: MissionView, loop: LoopRow, where: str) -> list[Attention]:
    """What of one loop needs the operator; one that only waits for another loop is not listed."""
    if not (loop.status in NEEDY or loop.blockers or loop.held or loop.spent):
        return []
    name = quote(view.mission_id)
    subject = quote(f"{view.mission_id}/{loop.loop_id}")
    log = Exit("log", f"meshtui logs {subject} {where}", "log")
    # Another tool's mission names no repository and cannot be resumed from here.
    ours = view.repo is not None
    resume = Exit("resume", f"meshtui resume {name} {where}", "resume")
    # While its runner lives a mission cannot be resumed; the loop is to be looked at all the same.
    again = (log, resume) if ours and not view.runner.alive else (log,)
    if loop.status == "handoff":
        target = name if loop.loop_id == view.integration_loop_id else f"{name}/{quote(loop.loop_id)}"
        verdicts = (
            Exit("approve", f"meshtui answer {target} --approve --reason … {where}", "approve"),
            Exit("reject", f"meshtui answer {target} --reject --reason … {where}", "reject"),
        )
        why = loop.handoff_reason or "; ".join(loop.blockers[:3]) or "a person decides"
        return [_item("handoff", loop, why, verdicts if ours else (log,))]
    left = [text for text in loop.blockers if text.startswith(SURVIVOR)]
    found = [_item("survivor", loop, "; ".join(left), (log,))] if left else []
    if loop.held:
        kill = Exit("kill loop", f"meshtui kill {quote(loop.loop_id)} --mission {name} {where}", "kill")
        found.append(_item("limit", loop, "; ".join(map(_held_text, loop.held[:3])), (kill, log)))
    if loop.spent is not None:
        share = f"{loop.spent.used:g} of {loop.spent.most:g} ({loop.spent.cap})"
        found.append(_item("budget", loop, f"used {share}; it is ended when that is reached", (log,)))
    own = [text for text in loop.blockers if not text.startswith((DEPENDENCY, SURVIVOR))]
    if loop.status not in ("blocked", "failed") or (loop.blockers and not own):
        return found
    spent = bool(own) and all(text.startswith("budget: ") for text in own)
    kind: AttentionKind = "failed" if loop.status == "failed" else "budget" if spent else "blocked"
    found.append(_item(kind, loop, "; ".join(own[:3]) or loop.status, again))
    return found


def _held_text(held: Held) -> str:
    until = iso(held.until) if held.until is not None else "later"
    text = f"held until {until}" if held.known else f"held, tried again at {until}"
    return f"{held.envelope_id} {text}; {held.text or f'usage limit of {held.engine}'}"


def _held(progress: dict[str, Any], calls: dict[str, Any]) -> tuple[Held, ...]:
    """The held workers in a checkpoint; one that stands in a call was started again."""
    return tuple(
        Held(
            envelope_id=slot,
            engine=_text(one.get("engine")) or "",
            until=_int(one.get("until_ms")) or None,
            since=_int(one.get("since_ms")) or None,
            known=one.get("known") is True,
            text=_text(one.get("error")) or "",
        )
        for slot, one in sorted(_dict(progress.get("held")).items())
        if isinstance(one, dict) and slot not in calls
    )


def _spent(progress: dict[str, Any]) -> Spent | None:
    warned = _dict(progress.get("warned"))
    cap, used, most = _text(warned.get("cap")), warned.get("used"), warned.get("max")
    known = isinstance(used, (int, float)) and isinstance(most, (int, float))
    return Spent(cap, float(used), float(most)) if cap and known else None  # type: ignore[arg-type]


def _item(kind: AttentionKind, loop: LoopRow, text: str, exits: tuple[Exit, ...]) -> Attention:
    return Attention(
        kind=kind,
        subject=f"{loop.mission_id}/{loop.loop_id}",
        text=text,
        since=loop.updated_at,
        exits=exits,
        key=loop.key,
    )


def _workers(progress: dict[str, Any], proof: dict[str, Any]) -> int:
    if progress:
        return _int(progress.get("makers_used")) + _int(progress.get("checkers_used"))
    results = (_dict(proof.get(name)) for name in ("maker_result", "checker_result"))
    return sum(_int(result.get("worker_count")) for result in results)


def _engine(node: dict[str, Any], proof: dict[str, Any]) -> str | None:
    preferred = _dict(node.get("maker")).get("backend_preference")
    planned = preferred[0] if isinstance(preferred, list) and preferred else None
    made = _dict(proof.get("maker_result")).get("backend")
    return _text(made) or _text(node.get("engine")) or _text(planned)


def _selected(node: dict[str, Any]) -> tuple[str, ...]:
    gates = _dict(node.get("gates"))
    found = [
        gate
        for stage in ("triage", "local", "checker", "integration", "final")
        for gate in texts(gates.get(stage))
    ]
    return tuple(dict.fromkeys(found))


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def texts(value: object) -> tuple[str, ...]:
    """A list in a file as texts; anything else as none."""
    return tuple(str(item) for item in value) if isinstance(value, list) else ()


def _int(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
