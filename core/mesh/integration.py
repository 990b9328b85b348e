"""The integration loop: one commit a loop in its own worktree, gates, side effects, the final arbiter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from meshtui.core import storage, strict_json
from meshtui.core.clock import iso
from meshtui.core.engines.base import Outcome
from meshtui.core.errors import InvalidInput, LeaseLost, MeshtuiError, StorageError
from meshtui.core.mesh.context import (
    Checkpoints,
    LoopBlocked,
    LoopHandedOver,
    LoopKilled,
    LoopStopped,
    MissionContext,
    Progress,
)
from meshtui.core.mesh.files import read_json, read_state, write_json, write_state
from meshtui.core.mesh.gates import BUILTIN, FINAL_ARBITER, GateRunner
from meshtui.core.mesh.paths import LoopPaths, relative
from meshtui.core.mesh.prompts import arbiter_prompt
from meshtui.core.mesh.proof import loop_proof
from meshtui.core.mesh.sideeffects import side_effect_report
from meshtui.core.mesh.tasks import Task, worker_evidence
from meshtui.core.mesh.verdicts import NO_VERDICT, needs_verdict, verdict_in
from meshtui.core.mesh.workers import Crew
from meshtui.core.mesh.worktrees import BRANCHES, LoopWorktrees
from meshtui.core.models.mesh import MERGE, Handoff, LoopState, Node, Phase, Status
from meshtui.core.vcs import worktree as trees
from meshtui.core.vcs.change import diff, snapshot
from meshtui.core.vcs.git import Git
from meshtui.core.vcs.merge import integrate

ARBITER_COPY = "arbiter"
ARBITER = "sks.loop-final-arbiter.v1"
RESULTS = "meshtui"
NO_ARBITER = "the final arbiter is required and none is configured: a person decides"


class IntegrationRuntime:
    """Runs the integration loop of a mission whose other loops are complete."""

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
        self.branch = f"{RESULTS}/{context.plan.mission_id}"
        self.state = read_state(self.paths) or LoopState(
            mission_id=context.plan.mission_id, loop_id=node.loop_id
        )
        self._merge: dict[str, Any] = read_json(context.paths.merge) or {}

    def run(self) -> Status:
        """Merge, test and judge; the loop's status."""
        try:
            return self._work()
        except LoopKilled:
            survivors = [f"still running: {name}" for name in self._progress.survivors]
            return self._end("cancelled", ["killed by operator", *survivors])
        except LoopBlocked as error:
            return self._end("blocked", error.blockers)
        except (LoopStopped, LoopHandedOver) as reason:
            self._crew.meter.clock()
            self._checkpoints.save(self._progress)
            if isinstance(reason, LoopStopped):
                self._set_state("queued", self._progress.phase)
            return "queued"
        except (LeaseLost, StorageError):
            raise
        except MeshtuiError as error:
            return self._end("failed", [str(error)])

    def _work(self) -> Status:
        progress = self._progress
        self._crew.meter.clock_in()
        if not progress.started_at:
            progress.started_at = self._context.clock.now_ms()
        progress.iteration = progress.used.iterations = 1
        self._set_state("running", progress.phase)
        if progress.phase == "triage":
            self._checkpoints.log("loop_started", "running", self._node.purpose or None)
            report = self._gates.builtin(self._node.gates.triage)
            self._progress.passed, self._progress.failed = list(report.passed), list(report.failed)
            if not report.ok:
                raise LoopBlocked(*report.blockers)
            self._enter("integration")
        if progress.phase == "integration":
            self._worktrees.prepare(self._crew)
            self._merge_loops()
            self._enter("gates")
        if progress.phase == "gates":
            if not self._worktrees.main.is_dir():
                self._worktrees.prepare(self._crew)
            self._run_gates()
            self._enter("finalizer")
        return self._judge()

    def _enter(self, phase: Phase) -> None:
        self._crew.meter.clock()
        self._progress.phase = phase
        self._progress.calls.clear()
        self._progress.counted.clear()
        self._checkpoints.save(self._progress, boundary=True, at_once=False)
        self._set_state("running", phase)
        self._context.signals.check(self._node.loop_id)

    # -- merging ------------------------------------------------------------------------------------

    def _merge_loops(self) -> None:
        """One commit a loop, in the order of the plan; a failed attempt leaves no trace."""
        context, place = self._context, self._worktrees.main
        self._worktrees.ensure_at(context.base)
        self._worktrees.clean_at = None
        attempts: dict[str, list[dict[str, Any]]] = {}
        applied: list[str] = []
        touched: dict[str, list[str]] = {}
        self._progress.candidate = None
        counts = dict.fromkeys(
            (
                "apply_count",
                "apply_3way_count",
                "cherry_pick_count",
                "merge_no_commit_count",
                "handoff_count",
            ),
            0,
        )
        conflicts: list[str] = []
        for node in context.plan.graph.nodes:
            if node.loop_id == self._node.loop_id:
                continue
            proof = read_json(context.paths.loop(node.loop_id).proof) or {}
            commit = proof.get("head_commit")
            if not isinstance(commit, str) or not proof.get("changed_files"):
                continue
            context.signals.check(self._node.loop_id)
            for path in proof["changed_files"]:
                touched.setdefault(path, []).append(node.loop_id)
            merged = integrate(place, commit=commit, base=context.base, message=self._message(node))
            tried = merged.attempts
            attempts[node.loop_id] = [
                {
                    "strategy": item.strategy,
                    "ok": item.ok,
                    "output": item.output[-4000:],
                    "conflicts": list(item.conflicts),
                }
                for item in tried
            ]
            counts[f"{tried[-1].strategy}_count"] += 1
            if merged.ok:
                applied.append(node.loop_id)
            else:
                conflicts.append(node.loop_id)
                names = ", ".join(tried[-1].conflicts or tried[0].conflicts) or "its files"
                # Nothing of a merge that did not work out stays; the loops' branches have their work.
                self._worktrees.reset(context.base)
                self._write_merge(False, applied, conflicts, attempts, counts, touched, None)
                raise LoopBlocked(
                    f"merge: {node.loop_id} conflicts in {names} with {', '.join(applied) or 'the base'}; "
                    f"merge their branches {BRANCHES}/{context.plan.mission_id}/… by hand, "
                    "or plan again with one loop for both"
                )
        head = Git(place).head_commit()
        self._worktrees.clean_at = head
        self._progress.candidate = head
        change = diff(context.git, context.base, head)
        self._progress.changed_files = [item.path for item in change.files]
        self._progress.used.changed_files = len(change.files)
        self._progress.used.patch_bytes = change.patch_bytes
        self._write_merge(True, applied, conflicts, attempts, counts, touched, head)
        self._checkpoints.log(
            "loop_integration_merged", "running", f"{len(applied)} loops, {len(change.files)} files"
        )

    def _message(self, node: Node) -> str:
        return (
            f"{node.title or node.loop_id}\n\nLoop {node.loop_id} of mission {self._context.plan.mission_id}."
        )

    def _write_merge(
        self,
        ok: bool,
        applied: list[str],
        conflicts: list[str],
        attempts: Mapping[str, Any],
        counts: Mapping[str, int],
        touched: Mapping[str, list[str]],
        head: str | None,
    ) -> None:
        shared = {path: loops for path, loops in touched.items() if len(loops) > 1}
        self._merge = {
            "schema": MERGE,
            "ok": ok,
            "artifact_path": relative(self._context.run_dir, self._context.paths.merge),
            "applied_loops": applied,
            "conflict_loops": conflicts,
            "changed_files": self._progress.changed_files,
            "same_file_changes": shared,
            "blockers": [f"merge_conflict:{loop}" for loop in conflicts],
            "merge_attempts": attempts,
            "strategy_summary": counts,
            "base_commit": self._context.base,
            "head_commit": head,
            "branch": None,
            "result_before": self._merge.get("result_before"),
            "generated_at": iso(self._context.clock.now_ms()),
        }
        write_json(self._context.paths.merge, self._merge)

    def _run_gates(self) -> None:
        mine, others = self._node.gates, [node.gates for node in self._context.plan.graph.nodes]
        # What a loop names for the merged result is run on it: a gate that nobody runs would pass.
        gates = [*mine.local, *mine.checker, *mine.integration]
        gates += [gate for each in others for gate in (*each.integration, *each.final)]
        real = [gate for gate in dict.fromkeys(gates) if gate not in BUILTIN]
        if not real:
            self._refuse_unjudged(())
            return
        self._checkpoints.log("loop_gate_started", "running")
        assert self._progress.candidate is not None
        report = self._gates.run(real, self._progress.candidate, changed=self._progress.changed_files)
        self._progress.passed = [*self._progress.passed, *report.passed]
        self._progress.failed = [*self._progress.failed, *report.failed]
        self._progress.skipped = list(report.skipped)
        self._progress.gate_blockers = list(report.blockers)
        self._progress.evidence = report.evidence
        self.state.last_gate_result = "passed" if report.ok else "failed"
        self._checkpoints.log(
            "loop_gate_completed", "running" if report.ok else "blocked", ", ".join(report.failed) or None
        )
        if not report.ok:
            raise LoopBlocked(*[" ".join(text.split())[:300] for text in report.findings])
        self._refuse_unjudged(report.passed)

    def _refuse_unjudged(self, passed: Sequence[str]) -> None:
        """Block what two loops did to one file unless a gate has passed on both: a clean merge may still be wrong."""
        shared = self._merge.get("same_file_changes")
        if passed or not isinstance(shared, dict) or not shared:
            return
        (path, loops), more = next(iter(sorted(shared.items()))), len(shared) - 1
        mission = self._context.plan.mission_id
        raise LoopBlocked(
            f"merge: {path}{f' and {more} more' if more else ''} was changed by {' and '.join(loops)}, and no gate "
            "checks the merged result; add one with stage = integration to meshtui.toml and to "
            f"{self._node.loop_id} (meshtui plan {mission} --edit), then: meshtui resume {mission}"
        )

    # -- judging ------------------------------------------------------------------------------------

    def _judge(self) -> Status:
        context, head = self._context, self._progress.candidate
        assert head is not None
        context.signals.check(self._node.loop_id)
        change = diff(context.git, context.base, head)
        effects = side_effect_report(context, change)
        write_json(context.paths.side_effects, effects)
        if not effects["ok"]:
            raise LoopBlocked(*effects["blockers"])
        self._make_branch(head)
        required = any(
            node.risk.requires_gpt_final or FINAL_ARBITER in node.gates.all
            for node in context.plan.graph.nodes
        )
        if not required:
            return self._end("completed", [])
        verdict = read_json(context.paths.arbiter)
        if verdict is not None and verdict.get("head_commit") == head and verdict.get("by") == "human":
            return self._take_verdict(verdict)
        engine = self._arbiter_engine()
        if engine is None:
            return self._hand_off(change.paths, head)
        return self._take_verdict(
            self._ask_arbiter(engine, change.patch.decode("utf-8", "replace"), effects, head)
        )

    def _hand_off(self, paths: list[str], head: str) -> Status:
        name = self._context.plan.mission_id
        lines = [
            f"# Handoff of mission {name}",
            "",
            NO_ARBITER,
            "",
            f"Result: branch {self.branch} at {head}",
            f"Side effects: {relative(self._context.run_dir, self._context.paths.side_effects)}",
            "",
            "Changed files:",
            *(f"- {path}" for path in paths),
            "",
            f"Settle it with: meshtui answer {name} --approve --reason …",
            "or --reject --reason …",
            "",
        ]
        storage.write_atomic(self.paths.handoff, "\n".join(lines).encode("utf-8", "replace"))
        self.state.handoff = Handoff(required=True, reason=NO_ARBITER, artifact=self.paths.handoff.name)
        return self._end("handoff", [NO_ARBITER])

    def _take_verdict(self, verdict: Mapping[str, Any]) -> Status:
        if verdict.get("verdict") == "approve":
            return self._end("completed", [])
        reasons = [str(item) for item in verdict.get("reasons") or []] or ["rejected without a reason"]
        raise LoopBlocked(*[f"arbiter: {reason}" for reason in reasons])

    def _arbiter_engine(self) -> str | None:
        config = self._context.config
        if config.mesh.arbiter is not None:
            return str(config.mesh.arbiter)
        settings = config.engines.get(self._context.engine)
        if settings is not None and settings.arbiter is not None:
            return self._context.engine
        return None

    def _ask_arbiter(self, engine: str, patch: str, effects: Mapping[str, Any], head: str) -> dict[str, Any]:
        context = self._context
        place = self._worktrees.copy(ARBITER_COPY, 1, head, self._crew)
        loops = [
            f"{node.loop_id} ({node.risk.level}: {', '.join(node.risk.reasons) or 'no reason given'})"
            for node in context.plan.graph.nodes
            if node.loop_id != self._node.loop_id
        ]
        task = Task(
            slot=f"{ARBITER_COPY}-1",
            role="arbiter",
            cwd=place,
            engine=context.engines(engine),
            prompt=arbiter_prompt(context.plan.request, patch, strict_json.dumps(effects, indent=2), loops),
        )
        done = self._crew.run([task])[0]
        left = snapshot(place, base=head, message="what the arbiter left").change.files
        verdict, reasons = (
            read_arbiter(done.outcome, strict=needs_verdict(engine))
            if done.outcome is not None
            else ("reject", [f"ended: {done.ending}"])
        )
        if left:
            verdict = "reject"
            reasons = [*reasons, f"the arbiter changed {', '.join(item.path for item in left)[:300]}"]
        self._progress.prove(worker_evidence(context.run_dir, done, f"the final arbiter said {verdict}"))
        self._worktrees.drop_copies(ARBITER_COPY)
        value = {
            "schema": ARBITER,
            "mission_id": context.plan.mission_id,
            "verdict": verdict,
            "reasons": reasons,
            "by": engine,
            "call": done.call_id,
            "head_commit": head,
            "at": iso(context.clock.now_ms()),
        }
        write_json(context.paths.arbiter, value)
        return value

    # -- ends ---------------------------------------------------------------------------------------

    def _make_branch(self, head: str) -> None:
        """Name the merged result; a branch of that name from an earlier run of this mission is moved."""
        self._context.verify_lease()
        git = self._context.git
        at = git.branch_commit(self.branch)
        if at not in (None, head, self._merge.get("result_before")):
            raise LoopBlocked(
                f"branch {self.branch} exists already (at {str(at)[:12]}) and is not this mission's result: "
                f"rename it (git branch -m {self.branch} NAME), then resume"
            )
        holder = trees.branches_of_worktrees(git).get(self.branch)
        if holder is not None and at != head:
            raise LoopBlocked(
                f"branch {self.branch} is checked out at {holder}: switch that working tree away, then resume"
            )
        git.set_branch(self.branch, head, old=at)
        self._merge = {**self._merge, "branch": self.branch, "head_commit": head, "result_before": head}
        write_json(self._context.paths.merge, self._merge)

    def _set_state(self, status: Status, phase: Phase) -> None:
        state = self.state
        state.status, state.current_phase = status, phase
        state.iteration = self._progress.iteration
        state.last_action = f"{phase}_started" if status == "running" else f"loop_{status}"
        state.budget_used = self._progress.used
        self._context.verify_lease()
        write_state(self.paths, state, self._context.clock)

    def _end(self, status: Status, blockers: list[str]) -> Status:
        self._crew.meter.clock()
        self._progress.calls.clear()
        if status != "handoff":
            self.state.handoff = Handoff()
        self.state.blockers = blockers
        kept = self._worktrees.release(status, integrated=True)
        self._checkpoints.save(self._progress, at_once=False)
        proof = loop_proof(
            self._context, self._node, self.paths, self._progress, status, blockers, self._worktrees, kept
        )
        write_json(self.paths.proof, proof)
        self._set_state(status, "finalizer" if status == "completed" else "handoff")
        self._checkpoints.log(f"loop_{status}", status, "; ".join(blockers)[:500] or None)
        return status


def read_arbiter(outcome: Outcome, *, strict: bool = False) -> tuple[str, list[str]]:
    """An arbiter's reply: its JSON, else, unless ``strict``, its exit status with its text as the reason."""
    text = outcome.reply.strip()
    plain = text.strip("`").partition("\n")[2] if text.startswith("```") and text.endswith("```") else text
    value: object
    if strict:
        value = verdict_in(text, "verdict")
    else:
        try:
            value = strict_json.loads(plain)
        except InvalidInput:
            value = None
    done = outcome.status == "done"
    if isinstance(value, dict) and value.get("verdict") in ("approve", "reject"):
        found = value.get("reasons")
        reasons = [str(item)[:4000] for item in found] if isinstance(found, list) else []
        return ("approve" if value["verdict"] == "approve" and done else "reject"), reasons
    if done and strict:
        return "reject", [NO_VERDICT, text[:4000]]
    if done:
        return "approve", [text[:4000]] if text else []
    return "reject", [text[:4000] or outcome.error or "the arbiter failed"]
