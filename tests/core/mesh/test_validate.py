"""What blocks a plan: every fault by itself, and all of them at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshtui.core.mesh.planner import INTEGRATION
from meshtui.core.mesh.validate import check_plan, circles
from meshtui.core.models.mesh import Budget, Edge, Node, OwnerScope, Plan
from tests.core.mesh.planning import make_plan

SAMPLE = Path(__file__).parents[2] / "data/samples/mission-blocked/loops/loop-plan.json"


def _edge(source: str, to: str) -> Edge:
    return Edge.model_validate({"from": source, "to": to})


def _set(path: str, value: Any) -> Callable[[Plan], None]:
    """Set a part of loop-store, or of the plan where ``path`` begins with it."""

    def change(plan: Plan) -> None:
        *names, last = path.split(".")
        at: Any = plan if names[:1] == ["plan"] else plan.node("loop-store")
        for name in names[names[:1] == ["plan"] :]:
            at = getattr(at, name)
        setattr(at, last, value)

    return change


def _rename(old: str, new: str) -> Callable[[Plan], None]:
    def change(plan: Plan) -> None:
        plan.node(old).loop_id = new
        last = next(node for node in plan.graph.nodes if node.route == "$Integration")
        last.dependencies = [new if name == old else name for name in last.dependencies]
        for edge in plan.graph.edges:
            edge.source = new if edge.source == old else edge.source
            edge.to = new if edge.to == old else edge.to

    return change


def _wait(later: str, first: str) -> Callable[[Plan], None]:
    def change(plan: Plan) -> None:
        plan.node(later).dependencies = [*plan.node(later).dependencies, first]
        plan.graph.edges.append(_edge(first, later))

    return change


def _all(*changes: Callable[[Plan], None]) -> Callable[[Plan], None]:
    def change(plan: Plan) -> None:
        for one in changes:
            one(plan)

    return change


FAULTS: list[tuple[Callable[[Plan], None], str]] = [
    (_set("plan.schema_name", "x"), "plan: schema 'x' is not sks.loop-plan.v1"),
    (_set("plan.request", " "), "plan: the request is empty"),
    (_set("schema_name", "x"), "loop-store: schema 'x' is not sks.loop-node.v1"),
    (_set("mission_id", "M-2"), "loop-store: belongs to mission 'M-2', not 'M-1'"),
    (_rename("loop-cli", "../x"), "loop id '../x' cannot be a folder and a branch"),
    (_rename("loop-cli", "Loop-Store"), "loop ids differ only by case: 'Loop-Store', 'loop-store'"),
    (
        lambda plan: plan.node("loop-store").dependencies.append("x\n"),
        "loop-store: waits for 'x\\n', which is no loop",
    ),
    (
        lambda plan: plan.graph.edges.append(_edge("loop-store", "loop-cli")),
        "'loop-cli' does not list that dependency",
    ),
    (lambda plan: plan.graph.edges.append(_edge("ghost", "loop-cli")), "'ghost' is no loop of this plan"),
    (lambda plan: plan.graph.edges.append(plan.graph.edges[0]), "is there 2 times"),
    (lambda plan: plan.graph.edges.clear(), "loop-integration: the dependency on 'loop-store' has no edge"),
    (_set("dependencies", ["loop-cli"]), "loop-store: the dependency on 'loop-cli' has no edge"),
    (
        _all(_wait("loop-store", "loop-cli"), _wait("loop-cli", "loop-store")),
        "loops wait for each other in a circle: 'loop-cli' -> 'loop-store' -> 'loop-cli'",
    ),
    (_wait("loop-store", "loop-store"), "in a circle: 'loop-store' -> 'loop-store'"),
    (_wait("loop-store", INTEGRATION), "loop-store: waits for the integration loop, which is last"),
    (_set("plan.integration_loop_id", "other"), "integration loop 'other' is missing"),
    (_set("route", "$Integration"), "loop-store: a second integration loop beside 'loop-integration'"),
    (lambda plan: setattr(plan.node(INTEGRATION), "route", "$Naruto"), "its route is '$Naruto'"),
    (
        lambda plan: setattr(plan.node(INTEGRATION), "dependencies", ["loop-store", "loop-docs"]),
        "loop-integration: integrates without waiting for 'loop-cli'",
    ),
    (_set("owner_scope", OwnerScope()), "loop-store: owns nothing"),
    (_set("owner_scope.files", ["../x"]), "loop-store: scope '../x' leaves the repository"),
    (_set("owner_scope.directories", ["/etc"]), "loop-store: scope '/etc' is not relative"),
    (_set("owner_scope.directories", ["a/.git"]), "lies in .git"),
    (
        _set("owner_scope.directories", ["cli/a"]),
        "loop-store and loop-cli may run at once, but their scopes touch",
    ),
    (_set("owner_scope.directories", ["Docs"]), "(only case keeps them apart)"),
    (_set("checker.worker_count", 0), "loop-store: changes things but has no checker"),
    (_set("maker.worker_count", 0), "loop-store: has no maker"),
    (_set("maker.worker_count", 5), "loop-store: 5 makers are more than budget.max_subagents 4"),
    (_set("checker.worker_count", 5), "loop-store: 5 checkers are more than budget.max_subagents 4"),
    (_set("budget.max_model_calls", 2), "does not pay for one round of 2 makers and 1 checkers"),
    (_set("budget.max_wall_ms", 0), "loop-store: budget.max_wall_ms must be a positive whole number, not 0"),
    (_set("budget.max_iterations", True), "budget.max_iterations must be a positive whole number, not true"),
    (_set("budget.max_cost_usd", float("nan")), "budget.max_cost_usd must be a positive number, not nan"),
    (
        _set("plan.global_budget", Budget()),
        "plan: global_budget.max_wall_ms is 900000, but its loops add up to 3600000",
    ),
    (_set("gates.local", ["a b", "a*b"]), "loop-store: gates 'a b' and 'a*b' have one file name, a-b.json"),
    (_set("gates.local", ["Ruff", "ruff"]), "gates 'Ruff' and 'ruff' have one file name"),
    (_set("gates.local", [" "]), "gate id ' ' cannot name a file"),
    (_set("gates.local", ["x" * 300]), "cannot name a file"),
    (
        _all(_set("risk.level", "high"), _set("level", "L3-unattended")),
        "risk is high: it may not run L3-unattended",
    ),
    (_set("risk.level", "high"), "risk is high: the final arbiter cannot be left out"),
    (_set("risk.level", "critical"), "risk is critical: it has to end with a person"),
    (_set("plan.graph.nodes", []), "plan: no loop does the work"),
]


@pytest.mark.parametrize(("change", "text"), FAULTS, ids=[text[:60] for _, text in FAULTS])
def test_each_fault_blocks(change: Callable[[Plan], None], text: str) -> None:
    plan = make_plan()
    change(plan)
    found = check_plan(plan)
    assert any(text in line for line in found), found
    assert all(line.isprintable() for line in found)


def test_all_faults_are_told_together() -> None:
    plan = make_plan()
    _all(
        _set("checker.worker_count", 0),
        _set("owner_scope.directories", ["../x", "cli"]),
        _set("budget.max_patch_bytes", -1),
        _set("plan.integration_loop_id", "other"),
        _wait("loop-store", "loop-cli"),
        _wait("loop-cli", "loop-store"),
    )(plan)
    found = "\n".join(check_plan(plan))
    for text in (
        "no checker",
        "'../x'",
        "max_patch_bytes",
        "'other' is missing",
        "in a circle",
        "second integration",
    ):
        assert text in found
    assert len(set(found.splitlines())) == len(found.splitlines())


def test_two_loops_with_one_id() -> None:
    plan = make_plan()
    plan.graph.nodes.append(plan.node("loop-cli").model_copy(deep=True))
    found = check_plan(plan)
    assert "loop id 'loop-cli' is used 2 times" in found
    assert any("their scopes touch" in line for line in found)


def test_ordered_loops_may_touch_directly_or_through_others() -> None:
    plan = make_plan()
    plan.node("loop-docs").owner_scope.directories = ["store/disk"]
    assert any("their scopes touch" in line for line in check_plan(plan))
    _wait("loop-cli", "loop-store")(plan)
    _wait("loop-docs", "loop-cli")(plan)
    assert check_plan(plan) == []


def test_a_report_needs_neither_checker_nor_scope_and_touches_nobody() -> None:
    plan = make_plan()
    node = plan.node("loop-store")
    node.level, node.checker.worker_count = "L0-report", 0
    node.owner_scope.directories = ["."]
    assert check_plan(plan) == []
    node.owner_scope.directories = []
    assert check_plan(plan) == []


def test_unattended_work_of_low_risk_is_allowed() -> None:
    plan = make_plan()
    plan.node("loop-store").level = "L3-unattended"
    assert check_plan(plan) == []


def test_another_tools_plan_is_taken_and_its_blockers_count() -> None:
    plan = Plan.model_validate_json(SAMPLE.read_bytes())
    assert check_plan(plan) == []
    plan.blockers = ["no owner"]
    assert check_plan(plan) == ["no owner"]
    own = make_plan()
    own.blockers = ["settled since"]
    assert check_plan(own) == []


def test_many_faults_of_a_kind_are_bounded() -> None:
    plan = make_plan()
    template = plan.node("loop-cli")
    for number in range(60):
        node = template.model_copy(deep=True)
        node.loop_id = f"loop-n{number}"
        plan.graph.nodes.insert(0, node)
    touching = [line for line in check_plan(plan) if "scopes touch" in line]
    assert len(touching) == 20
    assert "plan: more scopes overlap" in check_plan(plan)


def test_a_large_plan_is_checked_in_time() -> None:
    plan = make_plan("cli")
    template = plan.node("loop-cli")
    nodes = []
    for number in range(2000):
        node: Node = template.model_copy(deep=True)
        node.loop_id = f"loop-n{number}"
        node.owner_scope.directories = [f"cli/{number}"]
        node.dependencies = [f"loop-n{number - 1}"] if number else []
        nodes.append(node)
    last = plan.node(INTEGRATION)
    last.dependencies = [node.loop_id for node in nodes]
    plan.graph.nodes = [*nodes, last]
    plan.graph.edges = [_edge(name, node.loop_id) for node in plan.graph.nodes for name in node.dependencies]
    plan.global_budget = Budget(**dict.fromkeys(Budget.model_fields, 1 << 60))
    assert check_plan(plan) == []


@given(st.dictionaries(st.integers(0, 7), st.sets(st.integers(0, 7), max_size=3), max_size=8))
def test_every_knot_gives_one_real_circle(graph: dict[int, set[int]]) -> None:
    before = {f"n{n}": [f"n{one}" for one in sorted(ones) if one in graph] for n, ones in graph.items()}
    found = circles(before)
    for circle in found:
        assert len(set(circle)) == len(circle)
        for first, later in zip(circle, circle[1:] + circle[:1], strict=True):
            assert first in before[later]

    def reaches(name: str) -> set[str]:
        seen: set[str] = set()
        stack = list(before[name])
        while stack:
            at = stack.pop()
            if at not in seen:
                seen.add(at)
                stack += before[at]
        return seen

    knots = {
        frozenset(one for one in reaches(name) if name in reaches(one))
        for name in before
        if name in reaches(name)
    }
    assert len(found) == len(knots)
    assert all(any(set(circle) <= knot for circle in found) for knot in knots)
