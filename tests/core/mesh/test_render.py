"""Graphs as text, dot and JSON."""

from __future__ import annotations

import json

from meshtui.core.mesh.planner import INTEGRATION
from meshtui.core.mesh.render import graph_dot, graph_json, graph_text, overlap_text
from meshtui.core.models.mesh import LoopState, Plan
from tests.core.mesh.planning import make_plan

TOUCHING = {"domains": [{"id": "disk", "paths": ["store/disk"]}, {"id": "store", "paths": ["store"]}]}


def _plan() -> Plan:
    return make_plan("disk, store", config=TOUCHING)


def _state(loop_id: str, **values: object) -> LoopState:
    return LoopState.model_validate({"mission_id": "M-1", "loop_id": loop_id, **values})


def test_the_tree() -> None:
    states = {
        "loop-disk": _state("loop-disk", status="completed"),
        "loop-store": _state("loop-store", status="running", current_phase="checker", iteration=2),
    }
    assert graph_text(_plan(), states).splitlines() == [
        "M-1: disk, store",
        "· loop-integration planned  low risk; L1-assisted; 1+1 workers; owns uv.lock",
        "├─ ✓ loop-disk completed  low risk; L2-action; 2+1 workers; owns store/disk",
        "└─ ▶ loop-store running  checker, iteration 2; low risk; L2-action; 2+1 workers; owns store",
        "   └─ ✓ loop-disk completed (above)",
        "overlap: loop-store waits for loop-disk: their paths touch (store/disk lies in store)",
    ]


def test_an_overlap_is_one_sentence() -> None:
    pairs = [
        {"first": "a", "second": "a", "how": "same"},
        {"first": "a", "second": "a/b", "how": "contains"},
        {"first": "Doc", "second": "doc", "how": "case"},
        {"first": "x", "second": ".", "how": "inside"},
    ]
    overlap = {"first": "one", "second": "two", "action": "joined", "paths": pairs}
    assert overlap_text(overlap) == (
        "one and two: joined (both own a; a/b lies in a; only case keeps Doc and doc apart; 1 more)"
    )
    assert overlap_text({"text": "as another tool says it", "paths": "?"}) == "as another tool says it"


def test_blockers_and_what_was_left_out_are_shown() -> None:
    plan = make_plan("cli, store, docs", max_loops=1)
    plan.blockers = ["bad\x1b[31m"]
    text = graph_text(plan, {"loop-cli": _state("loop-cli", status="blocked", blockers=["a\nb"])})
    assert "left out, no loop for them: store, docs\n" in text
    assert "blocker: bad\\x1b[31m\n" in text
    assert "■ loop-cli blocked" in text
    assert "blocked by: a\\nb" in text


def test_every_loop_of_a_broken_plan_is_drawn() -> None:
    plan = _plan()
    plan.node("loop-disk").dependencies = ["loop-store", "ghost"]
    plan.node(INTEGRATION).dependencies = []
    text = graph_text(plan)
    assert "? ghost is missing" in text
    assert "loop-disk" in text
    assert "(above)" in text
    assert graph_json(plan)["critical_path"] == []
    assert '"ghost" -> "loop-disk"' in graph_dot(plan)


def test_a_long_chain_needs_no_recursion() -> None:
    plan = make_plan("cli")
    node = plan.node("loop-cli")
    plan.graph.nodes = [
        node.model_copy(update={"loop_id": f"n{n}", "dependencies": [f"n{n - 1}"] if n else []})
        for n in range(3000)
    ]
    assert graph_text(plan).count("\n") == 3001


def test_hostile_text_stays_in_its_place() -> None:
    plan = make_plan("cli \x1b[2J\n" + "x" * 300)
    plan.node("loop-cli").loop_id = 'a"]; evil [label="\\\n'
    text, dot = graph_text(plan), graph_dot(plan)
    assert "\x1b" not in text
    assert len(text.splitlines()[0]) < 120
    assert '"a\\"]; evil [label=\\"\\\\\\n' in dot
    assert dot.count("\n  ") == 2 + 2 + 1


def test_dot() -> None:
    dot = graph_dot(_plan(), {"loop-disk": _state("loop-disk", status="failed")})
    assert dot.startswith('digraph "M-1" {\n')
    assert dot.endswith("}\n")
    assert '"loop-disk" [label="loop-disk\\nfailed, low risk", color=red3, penwidth=2];' in dot
    assert '"loop-disk" -> "loop-store";' in dot


def test_json() -> None:
    states = {"loop-store": _state("loop-store", status="failed", iteration=1, blockers=["x"])}
    found = json.loads(json.dumps(graph_json(_plan(), states)))
    assert found["schema"] == "meshtui.graph.v1"
    assert [loop["loop_id"] for loop in found["loops"]] == ["loop-disk", "loop-store", INTEGRATION]
    store = found["loops"][1]
    assert (store["status"], store["iteration"], store["blockers"]) == ("failed", 1, ["x"])
    assert (found["loops"][0]["status"], found["loops"][0]["phase"]) == ("planned", None)
    assert found["critical_path"] == ["loop-disk", "loop-store", INTEGRATION]
    assert {"from": "loop-disk", "to": "loop-store", "reason": "scopes_overlap"} in found["edges"]
