"""Running gates: real commands on a candidate, with their result, log and what they left behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from meshtui.core.calls import Call, tail_text
from meshtui.core.clock import iso
from meshtui.core.mesh.basegate import OnBase
from meshtui.core.mesh.context import MissionContext, Progress
from meshtui.core.mesh.files import write_json
from meshtui.core.mesh.gates_config import DetectedGates, GateSpec, in_force
from meshtui.core.mesh.paths import LoopPaths
from meshtui.core.mesh.tasks import Finished, Task, worker_evidence
from meshtui.core.mesh.workers import Crew
from meshtui.core.mesh.worktrees import LoopWorktrees
from meshtui.core.models.mesh import GATE_RESULT, Evidence, Node

TAIL_BYTES = 8000
STATE_VALID = "loop:state-valid"
BUDGET_VALID = "loop:budget-valid"
FRESH_SESSION = "loop:checker-fresh-session"
FINAL_ARBITER = "gpt:final-arbiter"
BUILTIN = (STATE_VALID, BUDGET_VALID, FRESH_SESSION, FINAL_ARBITER)


@dataclass(slots=True)
class GateReport:
    """What a stage's gates came to."""

    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    blockers: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    """For the makers: which gate failed and how."""
    evidence: list[Evidence] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not self.failed and not self.blockers


class GateRunner:
    """Runs the gates of one loop."""

    def __init__(
        self,
        context: MissionContext,
        node: Node,
        paths: LoopPaths,
        progress: Progress,
        crew: Crew,
        worktrees: LoopWorktrees,
    ) -> None:
        self._context = context
        self._node = node
        self._paths = paths
        self._progress = progress
        self._crew = crew
        self._worktrees = worktrees
        raw = context.plan.options.get("detected_gates")
        detected = {
            key: GateSpec.from_json(value) for key, value in (raw if isinstance(raw, dict) else {}).items()
        }
        self._on_base = OnBase(context, progress, crew, worktrees)
        self._specs = in_force(context.config, DetectedGates(detected))

    def run(
        self, gate_ids: list[str], candidate: str, *, changed: Sequence[str], label: str = ""
    ) -> GateReport:
        """Run gates one after the other in the loop's working copy, which stands at ``candidate``.

        What a gate leaves behind is recorded and removed. A gate nobody defined fails; one whose ``when``
        matches none of the ``changed`` files is skipped.
        """
        report = GateReport()
        for number, gate_id in enumerate(gate_ids, 1):
            if gate_id == FINAL_ARBITER:
                report.skipped.append(gate_id)
                self._write(gate_id, ok=True, skipped=True, handled_by="loop-finalizer")
                continue
            spec = self._specs.get(gate_id)
            if spec is None:
                blocker = f"unknown_loop_gate:{gate_id}"
                report.failed.append(gate_id)
                report.blockers.append(blocker)
                report.findings.append(
                    f"gate {gate_id} is not defined: define [gates.{gate_id!r}] or drop it from the plan"
                )
                self._write(gate_id, ok=False, blockers=[blocker])
                continue
            if not spec.applies(changed):
                report.skipped.append(gate_id)
                self._write(gate_id, ok=True, skipped=True, when=list(spec.when), candidate=candidate)
                continue
            self._run_one(gate_id, spec, candidate, report, label, number)
        return report

    def _run_one(
        self, gate_id: str, spec: GateSpec, candidate: str, report: GateReport, label: str, number: int
    ) -> None:
        argv = ("/bin/sh", "-c", spec.command) if isinstance(spec.command, str) else tuple(spec.command)
        slot = f"gate-{label}{gate_id}"
        if not self._crew.takes_over(slot):
            # One that was ended by a stop may have left something.
            self._worktrees.ensure_at(candidate)
        task = Task(
            slot=slot,
            role="gate",
            cwd=self._worktrees.main,
            argv=argv,
            environment={"MESHTUI_GATE": gate_id},
            timeout_seconds=spec.timeout_seconds,
        )
        self._worktrees.clean_at = None
        finished = self._crew.run([task])[0]
        left = self._worktrees.put_back(candidate, self._crew, slot)
        call = Call.attach(self._context.run_dir, finished.call_id)
        evidence = self._evidence(gate_id, spec, finished, call)
        report.evidence.append(evidence)
        timed_out = finished.ending == "deadline"
        (report.passed if finished.ok else report.failed).append(gate_id)
        words = _tail(call)
        base = None
        if not finished.ok and not label and finished.ending is None:
            base = self._on_base.result(gate_id, argv, spec.timeout_seconds, number)
        if base is not None and all(item.call != base.call for item in self._progress.evidence):
            report.evidence.append(base)
        if not finished.ok:
            how = (
                "timed out"
                if timed_out
                else f"exit {finished.code}"
                if finished.ending is None
                else finished.ending
            )
            report.findings.append(
                f"gate {gate_id} failed ({how}{_beside(base)}): {words[-2000:].strip() or 'it said nothing'}"
            )
        self._write(
            gate_id,
            ok=finished.ok,
            command=spec.command if isinstance(spec.command, str) else list(spec.command),
            source="configured" if gate_id in self._context.config.gates else "detected",
            exit_code=finished.code,
            duration_ms=finished.duration_ms,
            stdout_tail=tail_text(call.stdout, TAIL_BYTES),
            stderr_tail=tail_text(call.stderr, TAIL_BYTES),
            timed_out=timed_out,
            call=finished.call_id,
            log=evidence.log,
            sha256=evidence.sha256,
            candidate=candidate,
            side_effects=list(left),
            base=None
            if base is None
            else {"ok": base.exit_code == 0, "exit_code": base.exit_code, "call": base.call},
        )

    def _evidence(self, gate_id: str, spec: GateSpec, finished: Finished, call: Call) -> Evidence:
        claim = f"gate {gate_id} {'passed' if finished.ok else 'failed'}"
        made = worker_evidence(self._context.run_dir, finished, claim)
        made.command = spec.command if isinstance(spec.command, str) else " ".join(spec.command)
        return made

    def builtin(self, gate_ids: list[str]) -> GateReport:
        """The gates that meshtui answers itself: state, budget, freshness of the checkers' sessions."""
        report = GateReport()
        for gate_id in gate_ids:
            problem = self._builtin_problem(gate_id)
            if problem is None:
                report.passed.append(gate_id)
            else:
                report.failed.append(gate_id)
                report.blockers.append(problem)
                report.findings.append(problem)
            self._write(
                gate_id,
                ok=problem is None,
                command=f"builtin:{gate_id.replace(':', '-')}",
                source="builtin",
                blockers=[problem] if problem else [],
            )
        return report

    def _builtin_problem(self, gate_id: str) -> str | None:
        if gate_id == STATE_VALID:
            return (
                None
                if self._progress.iteration >= 0 and self._node.loop_id
                else "the loop's state is not valid"
            )
        if gate_id == BUDGET_VALID:
            used, budget = self._progress.used, self._node.budget
            if used.wall_ms >= budget.max_wall_ms or used.model_calls >= budget.max_model_calls:
                return f"budget: nothing is left ({used.wall_ms} ms, {used.model_calls} model calls used)"
            return None
        if gate_id == FRESH_SESSION:
            shared = sorted(set(self._progress.checker_sessions) & set(self._progress.maker_sessions))
            return f"a checker shared the session {shared[0]} with a maker" if shared else None
        return f"unknown_loop_gate:{gate_id}"

    def _write(self, gate_id: str, *, ok: bool, **fields: Any) -> None:
        value = {
            "schema": GATE_RESULT,
            "ok": ok,
            "gate_id": gate_id,
            "loop_id": self._node.loop_id,
            "iteration": self._progress.iteration,
            "command": None,
            "source": None,
            "exit_code": None,
            "duration_ms": 0,
            "stdout_tail": "",
            "stderr_tail": "",
            "skipped": False,
            "timed_out": False,
            "generated_at": iso(self._context.clock.now_ms()),
            "blockers": [],
            **fields,
        }
        write_json(self._paths.gate(gate_id), value, durable=False)


def _beside(base: Evidence | None) -> str:
    """What a failure is to be seen beside."""
    if base is None:
        return ""
    return "; it passes on the base" if base.exit_code == 0 else f"; on the base too, exit {base.exit_code}"


def _tail(call: Call) -> str:
    out, err = tail_text(call.stdout, TAIL_BYTES), tail_text(call.stderr, TAIL_BYTES)
    return f"{out}\n{err}" if out.strip() and err.strip() else out or err
