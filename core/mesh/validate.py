"""What keeps a plan from being run: everything that is wrong with it, one line each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from meshtui.core.errors import InvalidInput
from meshtui.core.mesh import counts, risk
from meshtui.core.mesh.scope import ScopeIndex, normalise, relation
from meshtui.core.models.envelope import show
from meshtui.core.models.mesh import (
    INTEGRATION_ROUTE,
    NODE,
    PLAN,
    Budget,
    Node,
    Plan,
    gate_file,
    is_mesh_id,
)

MESHTUI = "meshtui"
MAX_OF_A_KIND = 20
"""So many overlaps or circles are told one by one."""

REPORT = "L0-report"
"""A loop of this level changes nothing."""
_NAME_MAX = 255
_FINAL = {"high", "critical"}


def check_plan(plan: Plan) -> list[str]:
    """All blockers of ``plan``; a plan with none may be run.

    Blockers that another tool's plan lists count as well; those of meshtui's own plan are found again.
    """
    checker = _Checker(plan)
    found = dict.fromkeys(checker.everything())
    return list(found)


class _Checker:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.nodes = plan.graph.nodes
        self.ids = {node.loop_id for node in self.nodes}
        self.own = plan.planner.get("made_by") == MESHTUI

    def everything(self) -> Iterator[str]:
        """The blockers, in the order in which a reader of the plan meets them."""
        if not self.own:
            yield from self.plan.blockers
        yield from self.names()
        yield from self.references()
        yield from self.circles()
        yield from self.integration()
        for node in self.nodes:
            yield from _loop(node)
        yield from self.overlaps()
        yield from self.budget()

    def names(self) -> Iterator[str]:
        """Ids of mission and loops."""
        plan = self.plan
        if plan.schema_name != PLAN:
            yield f"plan: schema {show(plan.schema_name)} is not {PLAN}"
        if not is_mesh_id(plan.mission_id):
            yield f"mission id {show(plan.mission_id)} cannot be a folder and a branch"
        if not plan.request.strip():
            yield "plan: the request is empty"
        if not any(node.loop_id != plan.integration_loop_id for node in self.nodes):
            yield "plan: no loop does the work"
        seen: dict[str, list[str]] = {}
        for node in self.nodes:
            if not is_mesh_id(node.loop_id):
                yield f"loop id {show(node.loop_id)} cannot be a folder and a branch"
            if node.schema_name != NODE:
                yield f"{_name(node)}: schema {show(node.schema_name)} is not {NODE}"
            if node.mission_id not in ("", plan.mission_id):
                yield f"{_name(node)}: belongs to mission {show(node.mission_id)}, not {show(plan.mission_id)}"
            seen.setdefault(node.loop_id.casefold(), []).append(node.loop_id)
        for names in seen.values():
            if len(set(names)) > 1:
                yield f"loop ids differ only by case: {', '.join(map(show, sorted(set(names))))}"
            for name, times in Counter(names).items():
                if times > 1:
                    yield f"loop id {show(name)} is used {times} times"

    def references(self) -> Iterator[str]:
        """Dependencies and edges: both name loops, and say the same."""
        wanted: dict[tuple[str, str], str] = {}
        for node in self.nodes:
            for name, times in Counter(node.dependencies).items():
                if times > 1:
                    yield f"{_name(node)}: waits for {show(name)} twice"
                if name not in self.ids:
                    yield f"{_name(node)}: waits for {show(name)}, which is no loop of this plan"
                wanted[name, node.loop_id] = _name(node)
        edges = Counter((edge.source, edge.to) for edge in self.plan.graph.edges)
        for (source, to), times in edges.items():
            if times > 1:
                yield f"edge {show(source)} -> {show(to)} is there {times} times"
            for end in dict.fromkeys((source, to)):
                if end not in self.ids:
                    yield f"edge {show(source)} -> {show(to)}: {show(end)} is no loop of this plan"
            if source in self.ids and to in self.ids and (source, to) not in wanted:
                yield f"edge {show(source)} -> {show(to)}: {show(to)} does not list that dependency"
        for (source, to), name in wanted.items():
            if source in self.ids and (source, to) not in edges:
                yield f"{name}: the dependency on {show(source)} has no edge"

    def circles(self) -> Iterator[str]:
        """Loops that wait for each other."""
        for number, circle in enumerate(circles(self._before())):
            if number == MAX_OF_A_KIND:
                yield "plan: more circles"
                return
            yield f"loops wait for each other in a circle: {' -> '.join(map(show, [*circle, circle[0]]))}"

    def _before(self) -> dict[str, list[str]]:
        """Each loop and what it waits for, by dependencies and edges alike."""
        before: dict[str, list[str]] = {node.loop_id: [] for node in self.nodes}
        for node in self.nodes:
            before[node.loop_id] += [name for name in node.dependencies if name in self.ids]
        for edge in self.plan.graph.edges:
            if edge.source in self.ids and edge.to in self.ids:
                before[edge.to].append(edge.source)
        return {name: list(dict.fromkeys(names)) for name, names in before.items()}

    def integration(self) -> Iterator[str]:
        """There is one integration loop, and it is last."""
        last = self.plan.integration_loop_id
        node = next((node for node in self.nodes if node.loop_id == last), None)
        for other in self.nodes:
            if other.route == INTEGRATION_ROUTE and other.loop_id != last:
                yield f"{_name(other)}: a second integration loop beside {show(last)}"
            if last in other.dependencies:
                yield f"{_name(other)}: waits for the integration loop, which is last"
        if node is None:
            yield f"integration loop {show(last)} is missing"
            return
        if node.route != INTEGRATION_ROUTE:
            yield f"{_name(node)}: is the integration loop, but its route is {show(node.route)}"
        waits = set(node.dependencies)
        for other in self.nodes:
            if other.loop_id != last and other.loop_id not in waits:
                yield f"{_name(node)}: integrates without waiting for {show(other.loop_id)}"

    def overlaps(self) -> Iterator[str]:
        """Scopes that touch while nothing keeps their loops from running at once."""
        index, pairs = ScopeIndex(), dict[tuple[int, int], tuple[str, str]]()
        scopes = [list(_clean(node)) if node.level != REPORT else [] for node in self.nodes]
        for number, entries in enumerate(scopes):
            for entry in entries:
                for other, theirs in index.touching(entry):
                    pairs.setdefault((other, number), (theirs, entry))
            for entry in entries:
                index.add(number, entry)
            if len(pairs) > 100_000:
                break
        if not pairs:
            return
        ancestors = self._ancestors()
        told = 0
        for (one, other), (first, second) in sorted(pairs.items()):
            if ancestors[other] >> one & 1 or ancestors[one] >> other & 1:
                continue
            told += 1
            if told > MAX_OF_A_KIND:
                yield "plan: more scopes overlap"
                return
            case = " (only case keeps them apart)" if relation(first, second) == "case" else ""
            yield (
                f"{_name(self.nodes[one])} and {_name(self.nodes[other])} may run at once, but their scopes touch: "
                f"{show(first)} and {show(second)}{case}; join them or let one wait for the other"
            )

    def _ancestors(self) -> list[int]:
        """For each loop, as bits, the loops it waits for directly or through others."""
        numbers: dict[str, int] = {}
        for number, node in enumerate(self.nodes):
            numbers.setdefault(node.loop_id, number)
        before = self._before()
        found = [0] * len(self.nodes)
        for name in _in_order(before):
            mine = 0
            for one in before[name]:
                mine |= found[numbers[one]] | 1 << numbers[one]
            found[numbers[name]] = mine
        return found

    def budget(self) -> Iterator[str]:
        """The plan's budget."""
        total = self.plan.global_budget
        wrong = list(_limits(total))
        yield from (f"plan: global_budget.{text}" for text in wrong)
        if not self.own or wrong or any(list(_limits(node.budget)) for node in self.nodes):
            return
        needed = counts.sum_budgets(node.budget for node in self.nodes)
        for name in Budget.model_fields:
            have, want = getattr(total, name), getattr(needed, name)
            if have is not None and want is not None and have < want:
                yield f"plan: global_budget.{name} is {have}, but its loops add up to {want}"


def _name(node: Node) -> str:
    return node.loop_id if is_mesh_id(node.loop_id) else show(node.loop_id)


def _clean(node: Node) -> Iterator[str]:
    for entry in node.owner_scope.entries:
        try:
            yield normalise(entry)
        except InvalidInput:
            continue


# --- one loop ----------------------------------------------------------------------------------


def _loop(node: Node) -> Iterator[str]:
    yield from (f"{_name(node)}: {text}" for text in _details(node))


def _details(node: Node) -> Iterator[str]:
    acts = node.level != REPORT and node.route != INTEGRATION_ROUTE
    for entry in node.owner_scope.entries:
        try:
            normalise(entry, what="scope")
        except InvalidInput as error:
            yield str(error)
    if acts and not node.owner_scope.entries:
        yield "owns nothing: give it files or directories"
    if acts and node.checker.worker_count < 1:
        yield "changes things but has no checker"
    if node.maker.worker_count < 1:
        yield "has no maker"
    yield from (f"budget.{text}" for text in _limits(node.budget))
    yield from _workers(node)
    yield from _gates(node)
    level = node.risk.level
    if not risk.may_run(node.level, level):
        yield f"risk is {level}: it may not run {node.level}"
    if level in _FINAL and not node.risk.requires_gpt_final:
        yield f"risk is {level}: the final arbiter cannot be left out (risk.requires_gpt_final)"
    if level == "critical" and not node.risk.requires_human_handoff:
        yield "risk is critical: it has to end with a person (risk.requires_human_handoff)"


def _workers(node: Node) -> Iterator[str]:
    """Workers the budget cannot pay for."""
    budget, makers, checkers = node.budget, node.maker.worker_count, node.checker.worker_count
    for what, number in (("maker", makers), ("checker", checkers)):
        if _is_count(budget.max_subagents) and number > budget.max_subagents:
            yield f"{number} {what}s are more than budget.max_subagents {budget.max_subagents}"
    if node.route == INTEGRATION_ROUTE or not _is_count(budget.max_model_calls):
        return
    if makers + checkers > budget.max_model_calls:
        yield (
            f"budget.max_model_calls {budget.max_model_calls} does not pay for one round of "
            f"{makers} makers and {checkers} checkers"
        )


def _gates(node: Node) -> Iterator[str]:
    seen: dict[str, str] = {}
    for gate in node.gates.all:
        name = gate_file(gate)
        if not gate.strip() or not gate.isprintable() or len(name) > _NAME_MAX or name.startswith("."):
            yield f"gate id {show(gate)} cannot name a file"
        other = seen.setdefault(name.casefold(), gate)
        if other != gate:
            yield f"gates {show(other)} and {show(gate)} have one file name, {name}"


def _limits(budget: Budget) -> Iterator[str]:
    """Parts of a budget that limit nothing or everything."""
    for name in Budget.model_fields:
        value: Any = getattr(budget, name)
        if name == "max_cost_usd":
            fine = value is None or (
                isinstance(value, (int, float))
                and not isinstance(value, bool)
                and math.isfinite(value)
                and value > 0
            )
            if not fine:
                yield f"{name} must be a positive number, not {show(value)}"
        elif not _is_count(value):
            yield f"{name} must be a positive whole number, not {show(value)}"


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 63


# --- graphs ------------------------------------------------------------------------------------


def _in_order(before: Mapping[str, Sequence[str]]) -> list[str]:
    """Names with what they wait for first; those in or behind a circle are left out."""
    waits = {name: len(names) for name, names in before.items()}
    after: dict[str, list[str]] = {name: [] for name in before}
    for name, names in before.items():
        for one in names:
            after[one].append(name)
    order = [name for name, count in waits.items() if not count]
    for name in order:
        for later in after[name]:
            waits[later] -= 1
            if not waits[later]:
                order.append(later)
    return order


def circles(before: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """One circle of each knot of names that wait for each other.

    In ``[a, b]``, b waits for a and a for b. Every name in ``before`` is a key of it.
    """
    found = []
    for knot in _knots(before):
        inside = set(knot)
        path, at = [knot[0]], {knot[0]: 0}
        while True:
            step = next(one for one in before[path[-1]] if one in inside)
            if step in at:
                circle = path[at[step] :][::-1]
                first = circle.index(min(circle))
                found.append(circle[first:] + circle[:first])
                break
            at[step] = len(path)
            path.append(step)
    return found


def _knots(before: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Names that each wait for all others of their list at last.

    What reaches a name and is reached by it: found by two sweeps (Kosaraju), without recursion.
    """
    after: dict[str, list[str]] = {name: [] for name in before}
    for name, names in before.items():
        for one in names:
            after[one].append(name)
    left_last: list[str] = []
    seen: set[str] = set()
    for root in before:
        if root in seen:
            continue
        seen.add(root)
        work = [(root, iter(before[root]))]
        while work:
            name, steps = work[-1]
            step = next((one for one in steps if one not in seen), None)
            if step is None:
                left_last.append(name)
                work.pop()
            else:
                seen.add(step)
                work.append((step, iter(before[step])))
    knots = []
    taken: set[str] = set()
    for root in reversed(left_last):
        if root in taken:
            continue
        knot, stack = [], [root]
        taken.add(root)
        while stack:
            name = stack.pop()
            knot.append(name)
            fresh = [one for one in after[name] if one not in taken]
            taken.update(fresh)
            stack += dict.fromkeys(fresh)
        if len(knot) > 1 or root in before[root]:
            knots.append(sorted(knot))
    return sorted(knots)
