"""A plan's graph as text, as Graphviz input and as JSON, with the states of its loops where there are any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from meshtui.core.config import plain
from meshtui.core.mesh.scheduler import critical_path, loops_of
from meshtui.core.models.mesh import LoopState, Node, Plan, Status

GLYPHS: dict[Status, str] = {
    "planned": "·",
    "queued": "○",
    "running": "▶",
    "blocked": "■",
    "completed": "✓",
    "failed": "✗",
    "handoff": "☞",
    "cancelled": "⊘",
}
COLOURS: dict[Status, str] = {
    "planned": "gray60",
    "queued": "gray30",
    "running": "blue",
    "blocked": "orange3",
    "completed": "green4",
    "failed": "red3",
    "handoff": "purple",
    "cancelled": "gray40",
}
MAX_ENTRIES = 3
SCHEMA = "meshtui.graph.v1"

States = Mapping[str, LoopState]


def graph_text(plan: Plan, states: States | None = None) -> str:
    """The graph as a tree: under each loop what it waits for, from the integration loop down.

    A loop that several wait for is drawn in full once; ``(above)`` stands for the rest.
    """
    states = states or {}
    nodes = _nodes(plan)
    lines = [f"{_safe(plan.mission_id)}: {_short(plan.request)}"]
    drawn: set[str] = set()
    for root in _roots(plan, nodes):
        lines += _tree(root, nodes, states, drawn)
    for overlap in plan.overlaps:
        lines.append(f"overlap: {_safe(overlap_text(overlap))}")
    if plan.domains_truncated:
        lines.append(f"left out, no loop for them: {', '.join(map(_safe, plan.domains_truncated))}")
    lines += [f"blocker: {_safe(text)}" for text in plan.blockers]
    return "\n".join(lines) + "\n"


def overlap_text(overlap: Mapping[str, Any]) -> str:
    """An overlap as one sentence: which loops, what was done about it, and which paths touch how."""
    text = str(
        overlap.get("text") or f"{overlap.get('first')} and {overlap.get('second')}: {overlap.get('action')}"
    )
    found = overlap.get("paths")
    pairs = [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
    shown = [_touch(item) for item in pairs[:MAX_ENTRIES]]
    if len(pairs) > MAX_ENTRIES:
        shown.append(f"{len(pairs) - MAX_ENTRIES} more")
    return f"{text} ({'; '.join(shown)})" if shown else text


def _touch(pair: Mapping[str, Any]) -> str:
    one, other, how = pair.get("first"), pair.get("second"), pair.get("how")
    if how == "same":
        return f"both own {one}"
    if how == "case":
        return f"only case keeps {one} and {other} apart"
    return f"{one} lies in {other}" if how == "inside" else f"{other} lies in {one}"


def _nodes(plan: Plan) -> dict[str, Node]:
    return {node.loop_id: node for node in plan.graph.nodes}


def _roots(plan: Plan, nodes: Mapping[str, Node]) -> list[str]:
    """Loops nothing waits for; then, of a broken plan, one of each circle, so that every loop is drawn."""
    needed = {name for node in nodes.values() for name in node.dependencies if name != node.loop_id}
    roots = [name for name in nodes if name not in needed]
    roots.sort(key=lambda name: name != plan.integration_loop_id)
    reached: set[str] = set()
    for name in [*roots, *nodes]:
        if name not in reached:
            if name not in roots:
                roots.append(name)
            stack = [name]
            while stack:
                at = stack.pop()
                if at not in reached:
                    reached.add(at)
                    stack += [one for one in nodes[at].dependencies if one in nodes]
    return roots


def _tree(root: str, nodes: Mapping[str, Node], states: States, drawn: set[str]) -> Iterator[str]:
    # (loop, what stands before its branch, its branch)
    stack = [(root, "", "")]
    while stack:
        name, indent, branch = stack.pop()
        node = nodes.get(name)
        if node is None:
            yield f"{indent}{branch}? {_safe(name)} is missing"
            continue
        if name in drawn:
            yield f"{indent}{branch}{_head(node, states)} (above)"
            continue
        drawn.add(name)
        yield f"{indent}{branch}{_head(node, states)}  {_details(node, states)}"
        below = indent + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
        names = list(dict.fromkeys(node.dependencies))
        for number, one in reversed(list(enumerate(names))):
            stack.append((one, below, "└─ " if number == len(names) - 1 else "├─ "))


def _status(node: Node, states: States) -> Status:
    state = states.get(node.loop_id)
    return state.status if state is not None else "planned"


def _head(node: Node, states: States) -> str:
    status = _status(node, states)
    return f"{GLYPHS[status]} {_safe(node.loop_id)} {status}"


def _details(node: Node, states: States) -> str:
    state = states.get(node.loop_id)
    parts = [f"{node.risk.level} risk", node.level]
    if state is not None and state.status == "running":
        parts.insert(0, f"{state.current_phase}, iteration {state.iteration}")
    parts.append(f"{node.maker.worker_count}+{node.checker.worker_count} workers")
    entries = node.owner_scope.entries
    if entries:
        more = f" and {len(entries) - MAX_ENTRIES} more" if len(entries) > MAX_ENTRIES else ""
        parts.append(f"owns {', '.join(map(_safe, entries[:MAX_ENTRIES]))}{more}")
    if state is not None and state.blockers:
        parts.append(f"blocked by: {_safe(state.blockers[0])}")
    return "; ".join(parts)


def graph_dot(plan: Plan, states: States | None = None) -> str:
    """The graph for Graphviz; the loops of the longest path have thick borders."""
    states = states or {}
    nodes = _nodes(plan)
    longest = set(_longest(plan))
    lines = [
        f"digraph {_quoted(plan.mission_id)} {{",
        "  rankdir=LR;",
        '  node [shape=box, fontname="sans-serif"];',
    ]
    for node in nodes.values():
        status = _status(node, states)
        label = f"{node.loop_id}\n{status}, {node.risk.level} risk"
        width = 2 if node.loop_id in longest else 1
        lines.append(
            f"  {_quoted(node.loop_id)} [label={_quoted(label)}, color={COLOURS[status]}, penwidth={width}];"
        )
    for node in nodes.values():
        for name in dict.fromkeys(node.dependencies):
            lines.append(f"  {_quoted(name)} -> {_quoted(node.loop_id)};")
    return "\n".join([*lines, "}"]) + "\n"


def graph_json(plan: Plan, states: States | None = None) -> dict[str, Any]:
    """The graph as one JSON value, schema ``meshtui.graph.v1``."""
    states = states or {}
    loops = []
    for node in plan.graph.nodes:
        state = states.get(node.loop_id)
        loops.append(
            {
                "loop_id": node.loop_id,
                "title": node.title,
                "status": _status(node, states),
                "phase": state.current_phase if state is not None else None,
                "iteration": state.iteration if state is not None else 0,
                "level": node.level,
                "risk": node.risk.level,
                "risk_reasons": node.risk.reasons,
                "route": node.route,
                "owner_scope": {"files": node.owner_scope.files, "directories": node.owner_scope.directories},
                "workers": {"maker": node.maker.worker_count, "checker": node.checker.worker_count},
                "gates": node.gates.all,
                "dependencies": node.dependencies,
                "blockers": state.blockers if state is not None else [],
            }
        )
    return {
        "schema": SCHEMA,
        "mission_id": plan.mission_id,
        "request": plan.request,
        "integration_loop_id": plan.integration_loop_id,
        "loops": loops,
        "edges": [edge.as_json() for edge in plan.graph.edges],
        "critical_path": list(_longest(plan)),
        "overlaps": plan.overlaps,
        "domains_truncated": plan.domains_truncated,
        "blockers": plan.blockers,
    }


def _longest(plan: Plan) -> tuple[str, ...]:
    """The longest path; none for a plan that cannot run."""
    from meshtui.core.errors import InvalidInput

    try:
        return critical_path(loops_of(plan))
    except InvalidInput:
        return ()


def _safe(text: str) -> str:
    return plain(text)


def _short(text: str, limit: int = 100) -> str:
    line = " ".join(text.split())
    return plain(line if len(line) <= limit else line[: limit - 1] + "…")


def _quoted(text: str) -> str:
    """``text`` as a string of the dot language, where only ``\\n`` begins a new line."""
    lines = [plain(line).replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n")]
    return '"' + "\\n".join(lines) + '"'
