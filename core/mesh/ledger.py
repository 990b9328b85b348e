"""Who owns what at the moment: the owner ledger, and the limits a mission runs under."""

from __future__ import annotations

from typing import Any

from meshtui.core.clock import iso
from meshtui.core.mesh.context import MissionContext
from meshtui.core.mesh.files import read_json, write_json
from meshtui.core.models.mesh import CONCURRENCY, LEDGER, Node

LEASE = "sks.loop-lease.v1"


class OwnerLedger:
    """``loop-owner-ledger.json`` of a running mission."""

    def __init__(self, context: MissionContext) -> None:
        self._context = context
        value = read_json(context.paths.ledger) or {}
        leases = value.get("leases")
        self._leases: list[dict[str, Any]] = [
            item for item in (leases if isinstance(leases, list) else []) if isinstance(item, dict)
        ]

    def acquire(self, node: Node) -> None:
        """Note that a loop holds its scope from now on."""
        now = self._context.clock.now_ms()
        self._leases = [item for item in self._leases if item.get("loop_id") != node.loop_id]
        self._leases.append(
            {
                "schema": LEASE,
                "mission_id": self._context.plan.mission_id,
                "loop_id": node.loop_id,
                "owner_scope": node.owner_scope.as_json(),
                "acquired_at": iso(now),
                "expires_at": iso(now + node.budget.max_wall_ms),
                "status": "active",
                "worktree_id": node.loop_id,
                "blockers": [],
            }
        )
        self._write()

    def release(self, node: Node) -> None:
        """Note that it holds it no more."""
        for item in self._leases:
            if item.get("loop_id") == node.loop_id:
                item["status"] = "released"
        self._write()

    def _write(self) -> None:
        value = {
            "schema": LEDGER,
            "mission_id": self._context.plan.mission_id,
            "updated_at": iso(self._context.clock.now_ms()),
            "leases": self._leases,
        }
        write_json(self._context.paths.ledger, value, durable=False)


def concurrency_budget(context: MissionContext, loops: int) -> dict[str, Any]:
    """``concurrency-budget.json``."""
    return {
        "schema": CONCURRENCY,
        "mission_id": context.plan.mission_id,
        "max_active_loops": loops,
        "max_active_workers": context.slots.most,
        "max_model_calls": sum(node.budget.max_model_calls for node in context.plan.graph.nodes),
        "per_loop_worker_budget": [
            {
                "loop_id": node.loop_id,
                "maker_workers": node.maker.worker_count,
                "checker_workers": node.checker.worker_count,
                "model_call_budget": node.budget.max_model_calls,
            }
            for node in context.plan.graph.nodes
        ],
        "blockers": [],
        "generated_at": iso(context.clock.now_ms()),
    }
