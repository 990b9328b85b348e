"""One loop at work: makers, gates, checkers, again and again until they pass or a budget ends."""

from __future__ import annotations

from meshtui.core import storage
from meshtui.core.clock import iso
from meshtui.core.errors import LeaseLost, MeshtuiError, StorageError
from meshtui.core.mesh.checkers import Checkers
from meshtui.core.mesh.context import (
    Checkpoints,
    LoopBlocked,
    LoopHandedOver,
    LoopKilled,
    LoopStopped,
    MissionContext,
    Progress,
)
from meshtui.core.mesh.files import read_state, write_json, write_state
from meshtui.core.mesh.gates import BUILTIN, GateReport, GateRunner
from meshtui.core.mesh.makers import Makers
from meshtui.core.mesh.paths import LoopPaths
from meshtui.core.mesh.proof import loop_proof
from meshtui.core.mesh.workers import Crew
from meshtui.core.mesh.worktrees import LoopWorktrees
from meshtui.core.models.mesh import Handoff, LoopState, Node, Phase, Status
from meshtui.core.vcs.change import Change

NO_CHANGE = "no change: nothing differs from the base, so there is nothing to complete"


class LoopRuntime:
    """Runs one loop to its end, in whatever thread calls it."""

    def __init__(self, context: MissionContext, node: Node) -> None:
        self._context = context
        self._node = node
        self.paths: LoopPaths = context.paths.loop(node.loop_id)
        self._checkpoints = Checkpoints(context, node)
        self._checkpoints.repair()
        self._progress: Progress = self._checkpoints.load()
        self._crew = Crew(context, node, self._progress, self._checkpoints)
        self._worktrees = LoopWorktrees(context, node, self._progress)
        self._gates = GateRunner(context, node, self.paths, self._progress, self._crew, self._worktrees)
        self._makers = Makers(
            context,
            node,
            self.paths,
            self._progress,
            self._crew,
            self._worktrees,
            self._checkpoints,
            self._gates,
        )
        self._checkers = Checkers(context, node, self.paths, self._progress, self._crew, self._worktrees)
        self.state = read_state(self.paths) or LoopState(
            mission_id=context.plan.mission_id, loop_id=node.loop_id
        )
        self._change: Change | None = None

    # -- life ---------------------------------------------------------------------------------------

    def run(self) -> Status:
        """Work until the loop has ended; its status. ``queued`` when the mission's runner was stopped."""
        try:
            status = self._work()
        except LoopKilled:
            survivors = [f"still running: {name}" for name in self._progress.survivors]
            return self._end("cancelled", ["killed by operator", *survivors])
        except LoopBlocked as error:
            return self._end("blocked", error.blockers)
        except (LoopStopped, LoopHandedOver) as reason:
            self._crew.meter.clock()
            self._checkpoints.save(self._progress)
            if isinstance(reason, LoopStopped):
                self._set_state("queued", self._progress.phase, action="stopped")
            return "queued"
        except (LeaseLost, StorageError):
            # Nothing more is written; the next runner goes on from the checkpoint.
            raise
        except MeshtuiError as error:
            return self._end("failed", [str(error)])
        return status

    def _work(self) -> Status:
        progress = self._progress
        self._crew.meter.clock_in()
        if not progress.started_at:
            progress.started_at = self._context.clock.now_ms()
        self._set_state("running", progress.phase)
        self._checkpoints.log("loop_started", "running", self._node.purpose or None)
        if progress.phase == "triage" or progress.start is None:
            self._triage()
        elif not self._worktrees.main.is_dir():
            self._worktrees.prepare(self._crew)
            self._worktrees.reset(progress.candidate or progress.start)
        while True:
            if progress.phase == "maker":
                self._make()
            if progress.phase == "gates":
                self._judge_gates()
            if progress.phase == "checker":
                self._judge_checkers()
            if progress.phase == "finalizer":
                return self._complete()

    def _enter(self, phase: Phase) -> None:
        """Begin a phase: from here a restart goes on."""
        self._crew.meter.clock()
        self._progress.phase = phase
        self._progress.calls.clear()
        self._progress.counted.clear()
        self._progress.held.clear()
        self._checkpoints.save(self._progress, boundary=True, at_once=False)
        self._set_state("running", phase)
        self._context.signals.check(self._node.loop_id)

    # -- phases -------------------------------------------------------------------------------------

    def _triage(self) -> None:
        progress = self._progress
        write_json(self.paths.budget, self._node.budget.as_json(), durable=False)
        report = self._gates.builtin(self._node.gates.triage)
        self._take(report)
        if not report.ok:
            raise LoopBlocked(*report.blockers)
        self._checkpoints.log("loop_triage_completed", "running")
        for folder in (self.paths.maker, self.paths.checker, self.paths.patches):
            # Their names are synced with the next checkpoint, one for all.
            storage.make_dirs(folder, durable=False)
        self._checkpoints.save(progress, boundary=True, at_once=False)
        self._worktrees.prepare(self._crew)
        progress.start = progress.candidate or self._context.base
        progress.iteration = 1
        progress.used.iterations = 1
        self._enter("maker")

    def _make(self) -> None:
        self._checkpoints.log("loop_maker_started", "running")
        change = self._makers.run()
        self._change = change
        self._crew.meter.check_usage()
        self._count(change)
        self._checkpoints.log("loop_maker_completed", "running", f"{len(change.files)} files changed")
        if self._progress.findings:
            self._refuse(self._progress.findings)
            return
        self._enter("gates")

    def _judge_gates(self) -> None:
        self._checkpoints.log("loop_gate_started", "running")
        candidate = self._need_candidate()
        report = self._gates.run(self._node.gates.local, candidate, changed=self._change_now().paths)
        self._take(report)
        self.state.last_gate_result = "passed" if report.ok else "failed"
        self._checkpoints.log(
            "loop_gate_completed", "running" if report.ok else "blocked", ", ".join(report.failed) or None
        )
        if not report.ok:
            self._refuse(report.findings)
            return
        self._enter("checker")

    def _judge_checkers(self) -> None:
        progress = self._progress
        if self._node.checker.worker_count > 0:
            self._checkpoints.log("loop_checker_started", "running")
            verdict = self._checkers.run(self._change_now())
            self._crew.meter.check_usage()
            self.state.last_checker_result = (
                "fresh_checker_passed" if verdict.approved else "fresh_checker_rejected"
            )
            self._checkpoints.log(
                "loop_checker_completed", "running", "; ".join(verdict.findings)[:500] or None
            )
            if not verdict.approved and progress.rivals:
                self._try_rival(verdict.findings)
                return
            if not verdict.approved:
                self._refuse(verdict.findings)
                return
        report = self._gates.builtin([gate for gate in self._node.gates.checker if gate in BUILTIN])
        self._take(report)
        real = [gate for gate in self._node.gates.checker if gate not in BUILTIN]
        if report.ok and real:
            report = self._gates.run(real, self._need_candidate(), changed=self._change_now().paths)
            self._take(report)
        if not report.ok:
            self._refuse(report.findings)
            return
        progress.findings = []
        self._enter("finalizer")

    def _try_rival(self, findings: list[str]) -> None:
        """Of competing candidates let the next one be judged."""
        progress = self._progress
        rival = progress.rivals.pop(0)
        progress.judged += 1
        self._checkpoints.log("loop_candidate_refused", "running", "; ".join(findings)[:500])
        self._makers.adopt(rival)
        self._change = self._worktrees.change_of(rival)
        self._count(self._change)
        self._enter("gates")

    def _complete(self) -> Status:
        if self._node.risk.requires_human_handoff:
            reason = (
                f"risk {self._node.risk.level}: {', '.join(self._node.risk.reasons) or 'a person decides'}"
            )
            return self._hand_off(reason)
        return self._end("completed", [])

    def _hand_off(self, reason: str) -> Status:
        lines = [
            f"# Handoff of {self._node.loop_id}",
            "",
            reason,
            "",
            f"Candidate: {self._progress.candidate}",
            f"Worktree: {self._worktrees.main}",
            "",
            "Changed files:",
            *(f"- {path}" for path in self._progress.changed_files),
            "",
            f"Settle it with: meshtui answer {self._context.plan.mission_id}/{self._node.loop_id} --approve --reason …",
            "or --reject --reason …",
            "",
        ]
        storage.write_atomic(self.paths.handoff, "\n".join(lines).encode("utf-8", "replace"))
        self.state.handoff = Handoff(required=True, reason=reason, artifact=self.paths.handoff.name)
        return self._end("handoff", [reason])

    # -- between iterations -------------------------------------------------------------------------

    def _refuse(self, findings: list[str]) -> None:
        """Send the findings back to the makers, or end when no iteration is left."""
        progress = self._progress
        progress.findings = list(findings)
        if progress.iteration >= self._node.budget.max_iterations:
            raise LoopBlocked(
                *[f"violation: {path}" for path in progress.violations],
                *[_short(finding) for finding in findings if not finding.startswith("violation: ")],
                f"budget: {progress.iteration} of {self._node.budget.max_iterations} iterations are used",
            )
        progress.iteration += 1
        progress.used.iterations = progress.iteration
        progress.start = progress.candidate or progress.start
        progress.rivals = []
        self._checkpoints.log("loop_iteration_started", "running", f"iteration {progress.iteration}")
        self._enter("maker")

    def _count(self, change: Change) -> None:
        used, budget = self._progress.used, self._node.budget
        used.changed_files = len(change.files)
        used.patch_bytes = change.patch_bytes
        self._progress.changed_files = [item.path for item in change.files]
        if used.changed_files > budget.max_changed_files:
            raise LoopBlocked(
                f"budget: {used.changed_files} files changed, {budget.max_changed_files} allowed"
            )
        if used.patch_bytes > budget.max_patch_bytes:
            raise LoopBlocked(
                f"budget: a patch of {used.patch_bytes} bytes, {budget.max_patch_bytes} allowed"
            )
        if not change.files and self._node.level != "L0-report" and not self._progress.findings:
            self._progress.findings = [NO_CHANGE]

    def _change_now(self) -> Change:
        if self._change is None:
            self._change = self._worktrees.change_of(self._need_candidate())
        return self._change

    def _need_candidate(self) -> str:
        candidate = self._progress.candidate
        assert candidate is not None, "a phase after the makers has a candidate"
        return candidate

    def _take(self, report: GateReport) -> None:
        """Make a stage's gates part of what the proof will say; a rerun replaces its earlier result."""
        progress = self._progress
        seen = {*report.passed, *report.failed, *report.skipped}
        for mine in (progress.passed, progress.failed, progress.skipped):
            mine[:] = [gate for gate in mine if gate not in seen]
        progress.passed += report.passed
        progress.failed += report.failed
        progress.skipped += report.skipped
        names = {f"gate {gate}" for gate in seen}
        progress.evidence = [
            item for item in progress.evidence if item.claim.rpartition(" ")[0] not in names
        ] + report.evidence
        progress.gate_blockers = [
            text for text in progress.gate_blockers if text.rpartition(":")[2] not in seen
        ] + [*report.blockers]

    # -- files --------------------------------------------------------------------------------------

    def _set_state(self, status: Status, phase: Phase, *, action: str | None = None) -> None:
        state = self.state
        state.status = status
        state.iteration = self._progress.iteration
        state.current_phase = phase
        state.last_action = action or f"{phase}_started"
        state.budget_used = self._progress.used
        state.acting_on = {
            "files": self._node.owner_scope.entries,
            "worktree_id": self._node.loop_id if self._worktrees.made else None,
            "branch": self._worktrees.branch if self._worktrees.made else None,
        }
        self._context.verify_lease()
        write_state(self.paths, state, self._context.clock)

    def _end(self, status: Status, blockers: list[str]) -> Status:
        """Write the proof and the last state, and release what the loop held."""
        self._crew.meter.clock()
        self._progress.calls.clear()
        if status not in ("completed", "handoff"):
            self.state.handoff = Handoff()
        self.state.blockers = blockers
        kept = self._worktrees.release(status)
        self._checkpoints.save(self._progress, at_once=False)
        proof = loop_proof(
            self._context, self._node, self.paths, self._progress, status, blockers, self._worktrees, kept
        )
        write_json(self.paths.proof, proof)
        phase: Phase = "finalizer" if status == "completed" else "handoff"
        self._set_state(status, phase, action=f"loop_{status}")
        self._checkpoints.log(f"loop_{status}", status, "; ".join(blockers)[:500] or None)
        return status


def _short(finding: str) -> str:
    line = " ".join(finding.split())
    return line if len(line) <= 300 else line[:299] + "…"


def new_state(context: MissionContext, node: Node, status: Status) -> LoopState:
    """The first state of a loop."""
    return LoopState(
        mission_id=context.plan.mission_id,
        loop_id=node.loop_id,
        status=status,
        acting_on={"files": node.owner_scope.entries, "worktree_id": None, "branch": None},
        updated_at=iso(context.clock.now_ms()),
    )
