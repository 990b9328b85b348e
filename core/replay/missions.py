"""Folds a mission's events into its loops as they were."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from meshtui.core.clock import from_iso
from meshtui.core.lane.doing import doing_in
from meshtui.core.mesh.runlog import ENDINGS, PHASES
from meshtui.core.mesh.view import LoopRow, MissionView
from meshtui.core.view import Event, Held, RunnerView, Spent

KEPT = ("completed", "handoff")
"""What a loop that is resumed stays; everything else is queued again."""


@dataclass(slots=True)
class MissionFold:
    """One mission after some events."""

    mission_id: str
    request: str = ""
    integration: str = "loop-integration"
    loops: dict[str, LoopRow] = field(default_factory=dict)
    runner_pid: int | None = None
    runner_alive: bool = False
    runner_since: int | None = None
    ok: bool | None = None
    planned_at: int | None = None

    def copy(self) -> MissionFold:
        """An independent state; loops are frozen and shared."""
        return replace(self, loops=dict(self.loops))

    def apply(self, event: Event) -> None:
        """Take one more event of this mission."""
        name = event.event
        if self.planned_at is None:
            self.planned_at = event.at
        if name.startswith("mission_"):
            self._mission(name, event)
        elif name == "handoff_answered":
            self._answered(event)
        else:
            self._loop(name, event)

    def _mission(self, name: str, event: Event) -> None:
        data = event.data
        if name in ("mission_planned", "mission_started"):
            self._graph(data)
            self.request = _text(data.get("request")) or self.request
        if name == "mission_started":
            self.runner_alive, self.runner_pid, self.runner_since = True, event.pid, event.at
            self.ok = None
            for key, row in self.loops.items():
                if row.status not in KEPT:
                    self.loops[key] = _renewed(row, event.at)
        elif name in ("mission_ended", "mission_handed_over"):
            if None in (event.pid, self.runner_pid) or event.pid == self.runner_pid:
                self.runner_alive = False
            if name == "mission_ended":
                self.ok = data.get("ok") is True
                for key, row in self.loops.items():
                    if row.status == "running":
                        self.loops[key] = replace(
                            row, status="queued", active_workers=(), calls=(), doing=(), updated_at=event.at
                        )

    def _graph(self, data: Mapping[str, Any]) -> None:
        """The loops as the plan has them; what is known of their work stays."""
        nodes = data.get("nodes")
        self.integration = _text(data.get("integration")) or self.integration
        if not isinstance(nodes, list):
            return
        loops: dict[str, LoopRow] = {}
        for node in nodes:
            loop_id = _text(node.get("id")) if isinstance(node, dict) else None
            if loop_id is not None:
                loops[loop_id] = planned(self.mission_id, loop_id, node, self.loops.get(loop_id))
        self.loops = loops or self.loops

    def _loop(self, name: str, event: Event) -> None:
        data, at = event.data, event.at
        row = self.loops.get(event.subject) or LoopRow(self.mission_id, event.subject)
        if name.startswith("worker_"):
            self.loops[event.subject] = _with_worker(row, event)
            return
        if name == "budget_warning":
            used = {key: data[key] for key in ("tokens", "cost_usd") if data.get(key) is not None}
            cap, most = _text(data.get("cap")), data.get("max")
            spent = row.spent
            if cap and isinstance(most, (int, float)) and isinstance(data.get("used"), (int, float)):
                spent = Spent(cap, float(data["used"]), float(most))
            self.loops[event.subject] = replace(row, budget_used={**row.budget_used, **used}, spent=spent)
            return
        if not name.startswith("loop_") or name == "loop_kill_requested":
            return
        more: dict[str, Any] = {**_progress(row, data), "updated_at": at}
        if name == "loop_started":
            more["status"] = "running"
            if row.started_at is None or row.ended_at is not None:
                # A resume after an end begins anew; one after a stop goes on.
                more.update(started_at=at, marks=((at, "triage"),), blockers=(), handoff_reason=None)
            more["ended_at"] = None
        elif name in ENDINGS:
            more.update(_ending(name.removeprefix("loop_"), row, data, at))
        elif name in PHASES:
            more.update(phase=PHASES[name], marks=(*row.marks, (at, PHASES[name])))
        self.loops[event.subject] = replace(row, **more)

    def _answered(self, event: Event) -> None:
        loop_id = event.subject.partition("/")[2]
        row = self.loops.get(loop_id)
        if row is None:
            return
        approved = event.data.get("verdict") == "approve"
        guessed = "queued" if loop_id == self.integration else "completed" if approved else "blocked"
        reason = _text(event.data.get("reason")) or "no reason"
        self.loops[loop_id] = replace(
            row,
            status=_text(event.data.get("status")) or guessed,
            blockers=() if approved else (f"rejected by a person: {reason}",),
            handoff_reason=None,
            updated_at=event.at,
        )

    def view(self, root: Path, plan: Mapping[str, Any] | None) -> MissionView:
        """The mission as a reader would show it; ``plan`` is what never changes of it, where its file is there."""
        static = plan or {}
        proof = None if self.ok is None else {"ok": self.ok}
        overlaps = static.get("overlaps")
        return MissionView(
            mission_id=self.mission_id,
            root=root,
            request=self.request or _text(static.get("request")) or "",
            integration_loop_id=self.integration,
            repo=_text(static.get("repo")),
            base_commit=_text(static.get("base_commit")),
            runner=RunnerView(alive=True, pid=self.runner_pid) if self.runner_alive else RunnerView(),
            loops=tuple(self._all_loops(static)),
            graph_proof=proof,
            overlaps=tuple(item for item in overlaps if isinstance(item, dict))
            if isinstance(overlaps, list)
            else (),
        )

    def _all_loops(self, plan: Mapping[str, Any]) -> list[LoopRow]:
        """The loops told of; an old journal tells of those that worked, and the plan's file of the others."""
        graph = plan.get("graph")
        nodes = graph.get("nodes") if isinstance(graph, dict) else None
        found = dict(self.loops)
        for node in nodes if isinstance(nodes, list) else ():
            loop_id = _text(node.get("loop_id")) if isinstance(node, dict) else None
            if loop_id is None:
                continue
            row = found.get(loop_id)
            if row is None or not row.level:
                found[loop_id] = planned(self.mission_id, loop_id, _compact(node), row)
        last = found.pop(self.integration, None)
        return [*found.values(), last] if last is not None else list(found.values())


def planned(mission_id: str, loop_id: str, node: Mapping[str, Any], known: LoopRow | None) -> LoopRow:
    """A loop as its plan has it, with what is ``known`` of its work."""
    budget = node.get("budget")
    row = known or LoopRow(mission_id, loop_id)
    budget = budget if isinstance(budget, dict) else {}
    return replace(
        row,
        title=_text(node.get("title")) or row.title,
        level=_text(node.get("level")) or row.level,
        engine=_text(node.get("engine")) or row.engine,
        risk=_text(node.get("risk")) or row.risk,
        route=_text(node.get("route")) or row.route,
        files=_texts(node.get("files")),
        directories=_texts(node.get("directories")),
        dependencies=_texts(node.get("needs")),
        makers=_int(node.get("makers")),
        checkers=_int(node.get("checkers")),
        gates_selected=_texts(node.get("gates")),
        budget_max=budget or row.budget_max,
        max_iterations=_int(budget.get("max_iterations")) or row.max_iterations,
    )


def _compact(node: Mapping[str, Any]) -> dict[str, Any]:
    """A node of a plan's file as the journal tells it."""

    def part(key: str) -> dict[str, Any]:
        value = node.get(key)
        return value if isinstance(value, dict) else {}

    gates = [gate for stage in part("gates").values() for gate in _texts(stage)]
    return {
        "title": node.get("title"),
        "level": node.get("level"),
        "route": node.get("route"),
        "risk": part("risk").get("level"),
        "files": part("owner_scope").get("files"),
        "directories": part("owner_scope").get("directories"),
        "needs": node.get("dependencies"),
        "makers": part("maker").get("worker_count"),
        "checkers": part("checker").get("worker_count"),
        "gates": list(dict.fromkeys(gates)),
        "budget": part("budget"),
    }


def _with_worker(row: LoopRow, event: Event) -> LoopRow:
    """The loop after something was told of one of its workers."""
    data = event.data
    worker = _text(data.get("worker")) or "worker"
    calls = {slot: call for slot, call in row.calls if slot != worker}
    doing = tuple(one for one in row.doing if one.worker != worker)
    held = tuple(one for one in row.held if one.envelope_id != worker)
    if event.event == "worker_activity":
        return replace(row, doing=(*doing, doing_in(event)))
    if event.event == "worker_held":
        since = next((one.since for one in row.held if one.envelope_id == worker), None)
        until, known = from_iso(data.get("until")), data.get("reset_known") is True
        engine, text = _text(data.get("engine")) or "", _text(data.get("error")) or ""
        held = (*held, Held(worker, engine, until, since or event.at, known=known, text=text))
    elif event.event == "worker_started":
        calls[worker] = _text(data.get("call")) or ""
    alive = tuple(sorted(calls.items()))
    return replace(row, calls=alive, active_workers=tuple(slot for slot, _ in alive), doing=doing, held=held)


def _progress(row: LoopRow, data: Mapping[str, Any]) -> dict[str, Any]:
    """What an event tells of how far a loop is."""
    more: dict[str, Any] = {}
    phase, used, gates = _text(data.get("phase")), data.get("used"), data.get("gates")
    if phase is not None:
        more["phase"] = phase
    if isinstance(data.get("iteration"), int):
        more["iteration"] = _int(data.get("iteration"))
    if isinstance(used, dict):
        more["budget_used"] = {**row.budget_used, **used}
    if isinstance(gates, dict):
        for key in ("passed", "failed", "skipped"):
            more[f"gates_{key}"] = _texts(gates.get(key))
    if "changed" in data:
        more["changed_files"] = _texts(data.get("changed"))
    if isinstance(data.get("workers"), int):
        more["workers_used"] = _int(data.get("workers"))
    return more


def _ending(status: str, row: LoopRow, data: Mapping[str, Any], at: int) -> dict[str, Any]:
    message = _text(data.get("message"))
    blockers = tuple(message.split("; ")) if message and status != "completed" else ()
    return {
        "status": status,
        "phase": "finalizer" if status == "completed" else "handoff",
        "ended_at": at if row.started_at is not None else None,
        "blockers": blockers,
        "handoff_reason": message if status == "handoff" else None,
        "active_workers": (),
        "calls": (),
        "doing": (),
        "held": (),
        "spent": None,
    }


def _renewed(row: LoopRow, at: int) -> LoopRow:
    """A loop that a new run has queued."""
    ended = row.ended_at is not None or row.status in ("blocked", "failed", "cancelled")
    fresh: dict[str, Any] = {
        "status": "queued",
        "blockers": (),
        "updated_at": at,
        "active_workers": (),
        "calls": (),
    }
    if ended:
        fresh.update(phase="triage", iteration=0)
    return replace(row, **fresh)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, list) else ()


def _int(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
