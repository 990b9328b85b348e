"""Worker counts, loop caps and budgets, against what the original implementation gave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from meshtui.core.config import BudgetConfig
from meshtui.core.mesh.counts import loop_budget, loop_cap, sum_budgets, worker_counts
from meshtui.core.models.mesh import INTEGRATION_ROUTE, MAKER_ROUTE, Budget, OwnerScope

DATA = Path(__file__).parents[2] / "data"


def _golden(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((DATA / name).read_text())
    return found


def test_every_recorded_worker_count() -> None:
    rows = _golden("worker-counts.json")
    assert len(rows) == 288
    for row in rows:
        scope = OwnerScope(
            files=[f"f{n}" for n in range(row["files"])],
            directories=[f"d{n}" for n in range(row["directories"])],
        )
        found = worker_counts(row["route"], row["parallelism"], row["risk"], scope)
        assert (
            found.maker_workers,
            found.checker_workers,
            found.max_subagents,
            found.max_changed_files,
        ) == tuple(
            row[key] for key in ("maker_workers", "checker_workers", "max_subagents", "max_changed_files")
        ), row


def test_every_recorded_loop_cap() -> None:
    rows = _golden("loop-caps.json")
    assert len(rows) == 120
    for row in rows:
        assert loop_cap(row["cores"], row["parallelism"], row["risks"]) == row["max_active_loops"], row


def test_the_default_budget_is_the_contracts() -> None:
    counts = worker_counts(MAKER_ROUTE, "extreme", "low", OwnerScope(directories=[f"d{n}" for n in range(9)]))
    budget, same = loop_budget(counts, BudgetConfig())
    assert same == counts
    assert budget.as_json() == {
        "max_iterations": 2,
        "max_wall_ms": 900_000,
        "max_model_calls": 24,
        "max_subagents": 13,
        "max_tokens_estimate": 120_000,
        "max_changed_files": 12,
        "max_patch_bytes": 256_000,
        "max_cost_usd": None,
    }


def test_a_small_loop_has_eight_calls() -> None:
    counts = worker_counts(INTEGRATION_ROUTE, "safe", "low", OwnerScope())
    assert loop_budget(counts, BudgetConfig())[0].max_model_calls == 8


def test_more_iterations_raise_the_calls() -> None:
    counts = worker_counts(MAKER_ROUTE, "balanced", "low", OwnerScope(directories=["a"]))
    budget, _ = loop_budget(counts, BudgetConfig(max_iterations=5))
    assert (budget.max_iterations, budget.max_model_calls) == (5, 15)


@pytest.mark.parametrize(
    ("given", "makers", "checkers"),
    [
        (BudgetConfig(max_subagents=2), 2, 2),
        (BudgetConfig(max_subagents=1), 1, 1),
        (BudgetConfig(max_model_calls=4), 1, 3),
        (BudgetConfig(max_model_calls=2), 1, 1),
        (BudgetConfig(max_model_calls=9), 6, 3),
    ],
)
def test_a_small_budget_plans_fewer_workers(given: BudgetConfig, makers: int, checkers: int) -> None:
    counts = worker_counts(
        MAKER_ROUTE, "balanced", "low", OwnerScope(directories=[f"d{n}" for n in range(6)])
    )
    assert (counts.maker_workers, counts.checker_workers) == (6, 3)
    budget, fewer = loop_budget(counts, given)
    assert (fewer.maker_workers, fewer.checker_workers) == (makers, checkers)
    assert fewer.maker_workers + fewer.checker_workers <= budget.max_model_calls


def test_configured_limits_are_taken_as_they_are() -> None:
    counts = worker_counts(MAKER_ROUTE, "safe", "low", OwnerScope(files=["a"]))
    given = BudgetConfig(max_wall_ms=5, max_patch_bytes=6, max_changed_files=7, max_cost_usd=1.5)
    budget, _ = loop_budget(counts, given)
    assert (budget.max_wall_ms, budget.max_patch_bytes, budget.max_changed_files) == (5, 6, 7)
    assert budget.max_cost_usd == 1.5


def test_the_sum_of_budgets() -> None:
    total = sum_budgets([Budget(max_cost_usd=1), Budget(max_wall_ms=1, max_cost_usd=0.5)])
    assert (total.max_iterations, total.max_wall_ms, total.max_cost_usd) == (4, 900_001, 1.5)
    assert sum_budgets([Budget(max_cost_usd=1), Budget()]).max_cost_usd is None
