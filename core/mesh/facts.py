"""What the journal tells of missions and loops, so that a replay can show them as they were without their files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meshtui.core.models.mesh import BudgetUsed, Node, Plan

if TYPE_CHECKING:
    from meshtui.core.mesh.context import Progress

TITLE = 120
"""Characters of a loop's title."""
PATHS = 12
"""Files and folders named of a scope, and files named of a change."""
GATES = 20
_RESULTS = ("gate_completed", "checker_completed")
_CHANGES = ("maker_completed",)
_BUDGET = ("max_iterations", "max_wall_ms", "max_model_calls", "max_tokens_estimate", "max_cost_usd")


def graph_of(plan: Plan) -> dict[str, Any]:
    """``{integration, nodes: [{id, title, needs?, risk, level, makers, checkers, gates, budget, …}]}``."""
    return {"integration": plan.integration_loop_id, "nodes": [_node(node) for node in plan.graph.nodes]}


def _node(node: Node) -> dict[str, Any]:
    budget = node.budget.as_json()
    found = {
        "id": node.loop_id,
        "title": node.title[:TITLE],
        "needs": list(node.dependencies),
        "risk": node.risk.level,
        "level": node.level,
        "route": node.route,
        "engine": node.engine or next(iter(node.maker.backend_preference), None),
        "makers": node.maker.worker_count,
        "checkers": node.checker.worker_count,
        "files": node.owner_scope.files[:PATHS],
        "directories": node.owner_scope.directories[:PATHS],
        "gates": node.gates.all[:GATES],
        "budget": {key: budget[key] for key in _BUDGET if budget.get(key) is not None},
    }
    return {key: value for key, value in found.items() if value not in ([], "", None)}


def progress_of(event: str, progress: Progress | None) -> dict[str, Any]:
    """What a loop's checkpoint adds to ``event``: phase, iteration, what is used; results where it brings some."""
    if progress is None:
        return {}
    ended = event.rpartition("_")[2] in ("completed", "blocked", "failed", "handoff", "cancelled")
    found: dict[str, Any] = {
        "phase": progress.phase,
        "iteration": progress.iteration,
        "used": used_of(progress.used),
    }
    if ended and not event.endswith(_CHANGES):
        found["gates"] = {
            "passed": progress.passed[:GATES],
            "failed": progress.failed[:GATES],
            "skipped": progress.skipped[:GATES],
        }
    if ended and not event.endswith(_RESULTS):
        found["changed"] = progress.changed_files[:PATHS]
        found["workers"] = progress.makers_used + progress.checkers_used
    return found


def used_of(used: BudgetUsed) -> dict[str, Any]:
    """What of a budget is used, without what is nothing."""
    return {key: value for key, value in used.model_dump(mode="json").items() if value}
