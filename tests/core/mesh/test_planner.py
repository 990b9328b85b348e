"""Planning: what a request becomes, and that it becomes the same every time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshtui.core.errors import InvalidInput
from meshtui.core.mesh.counts import sum_budgets
from meshtui.core.mesh.gates_config import GateSpec
from meshtui.core.mesh.planner import INTEGRATION, loop_ids
from meshtui.core.mesh.validate import check_plan
from meshtui.core.models.mesh import Plan, is_mesh_id
from tests.core.mesh.planning import FILES, make_plan


def _ids(plan: Plan) -> list[str]:
    return [node.loop_id for node in plan.graph.nodes]


def test_a_request_becomes_loops_and_an_integration() -> None:
    plan = make_plan()
    assert _ids(plan) == ["loop-store", "loop-cli", "loop-docs", INTEGRATION]
    assert plan.blockers == []
    assert check_plan(plan) == []
    assert (plan.mission_id, plan.generated_at) == ("M-1", "2030-01-01T00:00:00.000Z")
    assert (plan.repo, plan.base_commit) == ("/repo", "0" * 40)
    store = plan.node("loop-store")
    assert store.owner_scope.directories == ["store"]
    assert (store.maker.worker_count, store.checker.worker_count) == (2, 1)
    assert (store.level, store.risk.level, store.dependencies) == ("L2-action", "low", [])
    assert store.worktree.branch_prefix == "meshtui-loops/M-1"
    assert plan.node("loop-docs").maker.role == "writer"
    last = plan.node(INTEGRATION)
    assert last.dependencies == ["loop-store", "loop-cli", "loop-docs"]
    assert last.owner_scope.files == ["uv.lock"]
    assert last.owner_scope.collision_policy == "integration-only"
    assert {(edge.source, edge.to) for edge in plan.graph.edges} == {
        (name, INTEGRATION) for name in last.dependencies
    }


def test_the_plan_reads_back_as_it_was_written() -> None:
    plan = make_plan()
    again = Plan.model_validate(plan.as_json())
    assert again.as_json() == plan.as_json()
    assert check_plan(again) == []


def test_the_same_request_and_repository_give_the_same_plan() -> None:
    assert make_plan().as_json() == make_plan(files=tuple(reversed(FILES))).as_json()


def test_the_plans_budget_is_the_sum_of_its_loops() -> None:
    plan = make_plan(config={"budget": {"max_cost_usd": 0.5, "max_wall_ms": 1000}})
    assert plan.global_budget == sum_budgets(node.budget for node in plan.graph.nodes)
    assert (plan.global_budget.max_wall_ms, plan.global_budget.max_cost_usd) == (4000, 2.0)


def test_gates_are_detected_recorded_and_assigned() -> None:
    plan = make_plan()
    assert plan.node("loop-store").gates.local == ["ruff", "pytest"]
    assert plan.node("loop-store").gates.triage == ["loop:state-valid", "loop:budget-valid"]
    assert plan.node("loop-store").gates.checker == ["loop:checker-fresh-session"]
    assert plan.node(INTEGRATION).gates.integration == ["ruff-merged", "pytest-merged"]
    gates = {name: GateSpec.from_json(value) for name, value in plan.options["detected_gates"].items()}
    assert gates["ruff"].command == ["ruff", "check", "."]
    assert gates.keys() == {"ruff", "pytest", "ruff-merged", "pytest-merged"}
    assert plan.options["warnings"] == []


def test_a_missing_program_is_told_and_its_gate_left_out() -> None:
    plan = make_plan(which=lambda name: None)
    assert plan.node("loop-store").gates.local == []
    assert plan.options["detected_gates"] == {}
    told = "\n".join(plan.options["warnings"])
    assert "program ruff is not on PATH" in told
    assert "loop-store: no local gate" in told
    assert "no gate checks the merged result" in told
    assert plan.blockers == []


def test_configured_gates_are_not_recorded_as_detected() -> None:
    config = {
        "gates": {"unit": {"command": "make unit"}, "all": {"command": "make all", "stage": "integration"}},
        "domains": [{"id": "store", "paths": ["store"], "gates": ["unit", "nobody"]}],
    }
    plan = make_plan("store", config=config)
    assert plan.node("loop-store").gates.local == ["unit", "nobody"]
    assert plan.node(INTEGRATION).gates.integration == ["all"]
    assert plan.options["detected_gates"] == {}
    assert plan.options["warnings"] == [
        "loop-store: gate nobody is not configured and will fail; add [gates.<id>]"
    ]


def test_npm_scripts_without_a_setup_are_told() -> None:
    scripts = {"package.json": b'{"scripts": {"test": "vitest"}}'}
    options: dict[str, Any] = {"files": ["package.json", "web/a.ts"], "read": scripts.get}
    assert any("[mesh] setup" in text for text in make_plan("web", **options).options["warnings"])
    plan = make_plan("web", config={"mesh": {"setup": "npm ci"}}, **options)
    assert plan.options["warnings"] == []


def test_risk_decides_level_workers_and_the_final_arbiter() -> None:
    plan = make_plan("api and cli")
    api = plan.node("loop-api")
    assert (api.risk.level, api.level, api.maker.worker_count) == ("high", "L1-assisted", 3)
    assert plan.node("loop-cli").level == "L2-action"
    assert plan.node(INTEGRATION).gates.final == ["gpt:final-arbiter"]
    assert plan.safety["require_gpt_final_for_source_mutation"] is True
    assert make_plan("cli").node(INTEGRATION).gates.final == []


def test_critical_ends_with_a_person() -> None:
    plan = make_plan("cli", config={"risk": {"cli/**": "critical"}})
    node = plan.node("loop-cli")
    assert (node.risk.requires_human_handoff, node.level) == (True, "L1-assisted")
    assert (node.maker.worker_count, node.checker.worker_count) == (2, 2)
    assert plan.blockers == []


def test_the_general_loop_is_as_dangerous_as_the_domains_it_reaches_into() -> None:
    config = {"domains": [{"id": "vault", "paths": ["store/disk"], "risk": "critical"}]}
    plan = make_plan("make it better", config=config)
    node = plan.node("loop-general")
    assert node.owner_scope.directories == ["api", "cli", "store"]
    assert node.risk.reasons[0] == "critical: domain vault"
    assert node.risk.requires_human_handoff


def test_configured_domains_that_touch_are_ordered_and_shown() -> None:
    config = {
        "domains": [
            {"id": "disk", "paths": ["store/disk"], "engine": "codex"},
            {"id": "Store", "paths": ["store"], "risk": "medium"},
        ]
    }
    plan = make_plan("the disk and the store", config=config)
    assert plan.node("loop-store").dependencies == ["loop-disk"]
    assert plan.node("loop-disk").engine == "codex"
    assert plan.node("loop-disk").maker.backend_preference == ["codex"]
    assert [edge.reason for edge in plan.graph.edges] == [
        "scopes_overlap",
        *["integration_after_loop_proof"] * 2,
    ]
    assert plan.overlaps == [
        {
            "first": "disk",
            "second": "Store",
            "paths": [{"first": "store/disk", "second": "store", "how": "inside"}],
            "action": "ordered",
            "text": "loop-store waits for loop-disk: their paths touch",
        }
    ]
    assert plan.blockers == []


def test_inferred_domains_that_touch_are_joined_and_shown() -> None:
    plan = make_plan("the disk and the store")
    assert _ids(plan) == ["loop-store", INTEGRATION]
    assert plan.overlaps[0]["text"] == "disk is part of loop-store: their paths touch"


def test_the_rest_is_listed_as_truncated() -> None:
    plan = make_plan("cli, store, docs and tests", max_loops=2)
    assert _ids(plan) == ["loop-cli", "loop-store", INTEGRATION]
    assert plan.domains_truncated == ["docs", "tests"]
    assert make_plan("cli, store, docs", config={"mesh": {"max_loops": 1}}).domains_truncated == [
        "store",
        "docs",
    ]


def test_flags_come_before_the_configuration() -> None:
    config = {"mesh": {"parallelism": "safe", "strategy": "compete", "target": "dev", "max_active_loops": 3}}
    plan = make_plan(config=config)
    found = {key: plan.options[key] for key in ("engine", "parallelism", "strategy", "target", "max_active")}
    assert found == {
        "engine": "command",
        "parallelism": "safe",
        "strategy": "compete",
        "target": "dev",
        "max_active": 3,
    }
    plan = make_plan(
        config=config, parallelism="extreme", strategy="split", target="main", max_active=9, engine="claude"
    )
    assert (plan.options["parallelism"], plan.options["strategy"]) == ("extreme", "split")
    assert (plan.options["target"], plan.options["max_active"], plan.options["engine"]) == (
        "main",
        9,
        "claude",
    )


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"request": "  \n"}, "request"),
        ({"request": "x" * 200_001}, "request"),
        ({"request": "\udcff"}, "request"),
        ({"mission_id": "../x"}, "mission_id"),
        ({"mission_id": "latest"}, "mission_id"),
        ({"mission_id": "a.lock"}, "mission_id"),
        ({"max_loops": 0}, "max_loops"),
        ({"max_loops": 33}, "max_loops"),
        ({"max_active": 0}, "max_active"),
        ({"parallelism": "wild"}, "parallelism"),
        ({"strategy": "wild"}, "strategy"),
    ],
)
def test_options_that_are_none(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        make_plan(**options)
    assert caught.value.field == field


def test_a_budget_that_pays_for_nothing_blocks_the_plan() -> None:
    plan = make_plan("cli", config={"budget": {"max_model_calls": 1}})
    assert plan.blockers == [
        "loop-cli: budget.max_model_calls 1 does not pay for one round of 1 makers and 1 checkers"
    ]


def test_any_name_makes_a_safe_and_distinct_loop_id() -> None:
    names = ["A b", "a-b", "a/b", "..", "", "é", "integration", "x" * 300, "loop-x", "\n", "latest"]
    found = loop_ids(names)
    assert all(is_mesh_id(name) for name in found.values())
    assert len({name.lower() for name in found.values()} | {INTEGRATION}) == len(names) + 1


PARTS = st.sampled_from(
    ["src", "Src", "api", "auth", "docs", "tests", "x.py", "a.md", "é", "new\nline", "-x"]
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(PARTS, min_size=1, max_size=4).map("/".join), max_size=12),
    st.lists(PARTS, min_size=1, max_size=5).map(" ".join),
    st.sampled_from(["safe", "balanced", "extreme"]),
)
def test_any_repository_gives_a_plan_without_blockers(
    files: list[str], request: str, parallelism: str
) -> None:
    plan = make_plan(request, files=files, parallelism=parallelism)
    assert plan.blockers == []
    assert len({name.lower() for name in _ids(plan)}) == len(plan.graph.nodes)
    assert plan.as_json() == make_plan(request, files=files[::-1], parallelism=parallelism).as_json()
