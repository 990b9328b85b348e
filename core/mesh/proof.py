"""Proofs of loops and of the whole graph: what was run and what came out, each claim with its evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from meshtui.core.clock import iso
from meshtui.core.engines.base import Usage
from meshtui.core.mesh.context import MissionContext, Progress
from meshtui.core.mesh.paths import LoopPaths, relative
from meshtui.core.mesh.tally import gates_of
from meshtui.core.mesh.worktrees import LoopWorktrees
from meshtui.core.models.mesh import GRAPH_PROOF, PROOF, Evidence, LoopState, Node, Plan, Status


def loop_proof(
    context: MissionContext,
    node: Node,
    paths: LoopPaths,
    progress: Progress,
    status: Status,
    blockers: Sequence[str],
    worktrees: LoopWorktrees,
    kept: Sequence[str],
) -> dict[str, Any]:
    """``loop-proof.json`` of a loop that ended with ``status``."""
    used = progress.used
    return {
        "schema": PROOF,
        "mission_id": context.plan.mission_id,
        "loop_id": node.loop_id,
        "status": status,
        "iterations": progress.iteration,
        "owner_scope": node.owner_scope.as_json(),
        "worktree": {
            "id": node.loop_id,
            "path": str(worktrees.main),
            "branch": worktrees.branch,
            "kept": list(kept),
        },
        "maker_result": {
            "ok": progress.candidate is not None and not progress.violations,
            "worker_count": progress.makers_used,
            "planned_worker_count": node.maker.worker_count,
            "artifacts": progress.artifacts,
            "changed_files": progress.changed_files,
            "backend": node.engine or context.engine,
        },
        "checker_result": {
            "ok": any(item.claim.startswith("checker-") for item in _last_checkers(progress))
            and _all_approved(progress),
            "worker_count": progress.checkers_used,
            "checker_findings": progress.checker_files,
            "fresh_session": not set(progress.checker_sessions) & set(progress.maker_sessions),
            "backend": node.engine or context.engine,
        },
        "gate_result": {
            "ok": not progress.failed and not progress.gate_blockers,
            "selected_gates": node.gates.all,
            "passed_gates": progress.passed,
            "failed_gates": progress.failed,
            "skipped_gates": [
                *progress.skipped,
                *[
                    gate
                    for gate in node.gates.all
                    if gate not in {*progress.passed, *progress.failed, *progress.skipped}
                ],
            ],
            "blockers": progress.gate_blockers,
        },
        "budget": {"used": used.as_json(), "max": node.budget.as_json()},
        "changed_files": progress.changed_files,
        "patch_bytes": used.patch_bytes,
        "scope_violations": progress.violations,
        "handoff": {
            "required": status == "handoff",
            "reason": blockers[0] if status == "handoff" and blockers else None,
            "artifact": relative(context.run_dir, paths.handoff) if status == "handoff" else None,
        },
        "blockers": list(blockers),
        "evidence": [item.as_json() for item in progress.evidence],
        "base_commit": context.base,
        "head_commit": progress.candidate,
        "generated_at": iso(context.clock.now_ms()),
    }


def _last_checkers(progress: Progress) -> list[Evidence]:
    mark = f" of {progress.round} "
    return [item for item in progress.evidence if item.claim.startswith("checker-") and mark in item.claim]


def _all_approved(progress: Progress) -> bool:
    return all(item.claim.endswith("approved") for item in _last_checkers(progress))


def graph_proof(
    plan: Plan,
    states: Mapping[str, LoopState],
    proofs: Mapping[str, Mapping[str, Any]],
    *,
    generated_at: str,
    wall_ms: int,
    most_loops: int,
    most_workers: int,
    merge: Mapping[str, Any] | None,
    side_effects: Mapping[str, Any] | None,
    arbiter: Mapping[str, Any] | None,
    blockers: Sequence[str] = (),
) -> dict[str, Any]:
    """``loop-graph-proof.json``: everything that has to hold, in one object."""
    counts = dict.fromkeys(("completed", "blocked", "failed", "handoff", "cancelled"), 0)
    for state in states.values():
        if state.status in counts:
            counts[state.status] += 1
    sequential = 0
    usage = Usage()
    found = list(blockers)
    for node in plan.graph.nodes:
        proof = proofs.get(node.loop_id)
        if proof is None:
            continue
        usage = usage.plus(Usage.from_json(proof.get("budget", {}).get("used")))
        sequential += int(proof.get("budget", {}).get("used", {}).get("wall_ms", 0))
        found += [f"{node.loop_id}: {text}" for text in proof.get("blockers", [])]
    gates = gates_of([proofs[node.loop_id] for node in plan.graph.nodes if node.loop_id in proofs])
    merged = bool(merge and merge.get("ok"))
    clean = bool(side_effects and side_effects.get("ok"))
    judged = arbiter is None or arbiter.get("verdict") == "approve"
    ok = counts["completed"] == len(plan.graph.nodes) and merged and clean and judged and not gates["failed"]
    return {
        "schema": GRAPH_PROOF,
        "mission_id": plan.mission_id,
        "ok": ok,
        "total_loops": len(plan.graph.nodes),
        "completed_loops": counts["completed"],
        "blocked_loops": counts["blocked"],
        "failed_loops": counts["failed"],
        "handoff_loops": counts["handoff"],
        "cancelled_loops": counts["cancelled"],
        "parallelism": {
            "max_active_loops": most_loops,
            "max_active_workers": most_workers,
            "wall_ms": wall_ms,
            "sequential_estimate_ms": sequential,
            "speedup_ratio": round(sequential / wall_ms, 2) if wall_ms > 0 else 0,
        },
        "usage": usage.as_json(),
        "gates": gates,
        "blockers": list(dict.fromkeys(found)),
        "integration_merge": merge,
        "side_effect_report": side_effects,
        "gpt_final_arbiter": arbiter,
        "base_commit": plan.base_commit,
        "head_commit": merge.get("head_commit") if merge else None,
        "branch": merge.get("branch") if merge else None,
        "generated_at": generated_at,
    }


def kept_worktree(path: Path, why: str) -> str:
    """How a proof names a working copy that stays."""
    return f"{path}: {why}"
