"""How many workers a loop gets, how many loops run at once, and what a loop may use."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from meshtui.core.config import BudgetConfig
from meshtui.core.models.mesh import INTEGRATION_ROUTE, Budget, OwnerScope, Parallelism, RiskLevel

MAX_MAKERS = {"balanced": 6, "extreme": 8}
MAX_LOOPS = {"balanced": 8, "extreme": 16}
MIN_MODEL_CALLS = 8


@dataclass(frozen=True, slots=True)
class WorkerCounts:
    """Ceilings for one loop; what is really used is recorded while it runs."""

    maker_workers: int
    checker_workers: int
    max_subagents: int
    """Most workers alive at once."""
    max_changed_files: int


def worker_counts(route: str, parallelism: Parallelism, risk: RiskLevel, scope: OwnerScope) -> WorkerCounts:
    """The counts for a loop on ``route`` that owns ``scope``; the larger the scope, the more makers."""
    changed = max(4, len(scope.files) + 2) if scope.files else 12
    if route == INTEGRATION_ROUTE:
        return WorkerCounts(1, 1, 2, changed)
    if parallelism == "safe":
        makers, checkers = 2, 1
    elif risk == "critical":
        makers, checkers = 2, 2
    else:
        least = 3 if risk == "high" else 2
        makers = max(least, min(-(-scope.size // 3), MAX_MAKERS[parallelism]))
        checkers = -(-makers // 2)
    return WorkerCounts(makers, checkers, makers + checkers + 1, changed)


def loop_cap(cores: int, parallelism: Parallelism, risks: Collection[RiskLevel]) -> int:
    """How many loops may run at once on ``cores`` when loops of ``risks`` are among them."""
    critical = "critical" in risks
    if parallelism == "safe":
        return 1 if critical else 2
    if parallelism == "extreme":
        return min(cores, MAX_LOOPS["extreme"])
    if critical:
        return min(MAX_LOOPS["balanced"], max(min(cores, 2), cores // 4))
    if "high" in risks:
        return min(MAX_LOOPS["balanced"], max(min(cores, 4), cores // 2))
    return min(cores, MAX_LOOPS["balanced"])


def loop_budget(counts: WorkerCounts, config: BudgetConfig) -> tuple[Budget, WorkerCounts]:
    """The budget of a loop with ``counts``, and the counts as far as ``[budget]`` allows them.

    Fewer workers are planned where the configured budget could not pay for one round of them.
    """
    makers, checkers = counts.maker_workers, counts.checker_workers
    if config.max_subagents is not None:
        makers, checkers = min(makers, config.max_subagents), min(checkers, config.max_subagents)
    if config.max_model_calls is not None and config.max_model_calls < makers + checkers:
        checkers = max(1, min(checkers, config.max_model_calls - 1))
        makers = max(1, min(makers, config.max_model_calls - checkers))
    iterations = config.max_iterations or 2
    given = config.model_dump(exclude_none=True)
    budget = Budget.model_validate(
        {
            "max_iterations": iterations,
            "max_model_calls": max(MIN_MODEL_CALLS, iterations * (makers + checkers)),
            "max_subagents": counts.max_subagents,
            "max_changed_files": counts.max_changed_files,
        }
        | given
    )
    return budget, WorkerCounts(makers, checkers, budget.max_subagents, budget.max_changed_files)


def sum_budgets(budgets: Iterable[Budget]) -> Budget:
    """What a plan may use: the sum over its loops; no limit on cost where one of them has none."""
    listed = list(budgets)
    if not listed:
        return Budget()
    names = [name for name in Budget.model_fields if name != "max_cost_usd"]
    total: dict[str, int | float] = {name: sum(getattr(one, name) for one in listed) for name in names}
    costs = [one.max_cost_usd for one in listed]
    known = [cost for cost in costs if cost is not None]
    if len(known) == len(costs):
        total["max_cost_usd"] = sum(known)
    return Budget.model_validate(total)
