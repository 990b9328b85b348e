"""A request and a repository become a plan: which loops, what each owns and may use, what waits for what.

The same request and repository give the same plan. Loops start from one commit, so one does not see what
another did: only loops whose paths touch wait for each other, in the order of the request, and the
integration loop, which is last, waits for all. Tests and documents run beside the source they are about.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meshtui.core.config import Config, plain
from meshtui.core.errors import InvalidInput
from meshtui.core.mesh import counts, gates_config, risk
from meshtui.core.mesh.domains import DEFAULT_LOOPS, Domain, Selection, Tree, domains_of, select
from meshtui.core.mesh.gates_config import DetectedGates, GateSpec
from meshtui.core.mesh.validate import MESHTUI, check_plan
from meshtui.core.models.envelope import show
from meshtui.core.models.mesh import (
    INTEGRATION_ROUTE,
    MAKER_ROUTE,
    RISKS,
    Checker,
    Edge,
    Gates,
    Graph,
    Maker,
    Node,
    OwnerScope,
    Parallelism,
    Plan,
    Risk,
    WorktreePolicy,
    is_mesh_id,
)

INTEGRATION = "loop-integration"
NO_LOCAL_GATE = ": no local gate, only its checkers judge it; add [gates.<id>]"
NO_MERGED_GATE = ": no gate checks the merged result; add one with stage = integration"
BRANCH_PREFIX = "meshtui-loops"
MAX_REQUEST = 200_000
PARALLELISMS: tuple[Parallelism, ...] = ("safe", "balanced", "extreme")
STRATEGIES = ("split", "compete")
MAX_TITLE = 120

_UNFIT = re.compile(r"[^a-z0-9]+")
_ROLES = {"docs": "writer", "tests": "tester"}


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What to plan, and for what."""

    request: str
    repo: Path
    mission_id: str
    config: Config
    engine: str
    files: Sequence[str]
    """The tracked files of ``base_commit``, relative to ``repo``."""
    base_commit: str | None = None
    parallelism: Parallelism | None = None
    """``None``, here and below: as ``[mesh]`` has it."""
    max_loops: int | None = None
    strategy: str | None = None
    target: str | None = None
    max_active: int | None = None
    now_iso: str = ""
    read: Callable[[str], bytes | None] | None = None
    """Reads a tracked file; by default from ``repo``."""
    which: Callable[[str], str | None] = gates_config.find_program


def plan(asked: PlanRequest) -> Plan:
    """The plan for ``asked``; what is wrong with it stands in its ``blockers``.

    Raises :class:`InvalidInput` for options that are none, an empty request, and domains whose paths no
    loop may own.
    """
    options = _options(asked)
    tree = Tree(asked.files)
    parts = domains_of(asked.config.domains, tree)
    limits = (asked.max_loops, asked.config.mesh.max_loops, DEFAULT_LOOPS)
    max_loops = next(limit for limit in limits if limit is not None)
    chosen = select(asked.request, parts, tree, max_loops=max_loops)
    detected = gates_config.detect(asked.repo, asked.files, read=asked.read, which=asked.which)
    builder = _Builder(asked, options["parallelism"], tree, parts, detected)
    ids = loop_ids([domain.id for domain in chosen.domains])
    nodes = [builder.loop(domain, ids[domain.id], chosen) for domain in chosen.domains]
    overlaps = _order(nodes, chosen, ids)
    nodes.append(builder.integration(nodes, chosen.domains))
    gates = {name for node in nodes for name in node.gates.all}
    options["detected_gates"] = {
        name: gate.as_json()
        for name, gate in builder.gates.items()
        if name in gates and name in detected.gates and name not in asked.config.gates
    }
    options["warnings"] = [*detected.warnings, *_warnings(nodes, asked.config, detected)]
    made = Plan(
        mission_id=asked.mission_id,
        request=asked.request,
        generated_at=asked.now_iso,
        planner={
            "route": "$Loop",
            "model_policy": "deterministic",
            "confidence": chosen.confidence,
            "made_by": MESHTUI,
            "domains": "configured" if asked.config.domains else "inferred",
        },
        graph=Graph(nodes=nodes, edges=edges_of(nodes, INTEGRATION)),
        global_budget=counts.sum_budgets(node.budget for node in nodes),
        safety={
            "require_owner_lease": True,
            "require_checker_for_action": True,
            "require_gpt_final_for_source_mutation": any(node.risk.requires_gpt_final for node in nodes),
        },
        integration_loop_id=INTEGRATION,
        domains_truncated=list(chosen.truncated),
        overlaps=overlaps,
        repo=str(asked.repo),
        base_commit=asked.base_commit,
        options=options,
    )
    made.blockers = check_plan(made)
    return made


def _options(asked: PlanRequest) -> dict[str, Any]:
    """What the mission runs with, checked."""
    if not asked.request.strip():
        raise InvalidInput("the request is empty: say what is to be done", field="request")
    if len(asked.request) > MAX_REQUEST:
        raise InvalidInput(f"the request has more than {MAX_REQUEST} characters", field="request")
    try:
        asked.request.encode()
    except UnicodeEncodeError:
        raise InvalidInput("the request is not Unicode", field="request") from None
    if not is_mesh_id(asked.mission_id):
        raise InvalidInput(
            f"mission id {show(asked.mission_id)} cannot be used: letters, digits, . _ - (at most 80), "
            "no .., not ending in . or .lock, not latest",
            field="mission_id",
        )
    mesh = asked.config.mesh
    parallelism = asked.parallelism or mesh.parallelism
    strategy = asked.strategy or mesh.strategy
    max_active = asked.max_active if asked.max_active is not None else mesh.max_active_loops
    for value, allowed, field in (
        (parallelism, PARALLELISMS, "parallelism"),
        (strategy, STRATEGIES, "strategy"),
    ):
        if value not in allowed:
            raise InvalidInput(f"{field} must be one of {', '.join(allowed)}, not {show(value)}", field=field)
    if max_active is not None and max_active < 1:
        raise InvalidInput(f"max_active must be at least 1, not {max_active}", field="max_active")
    return {
        "engine": asked.engine,
        "parallelism": parallelism,
        "strategy": strategy,
        "target": asked.target or mesh.target,
        "max_active": max_active,
        "max_active_workers": mesh.max_active_workers,
        "arbiter": mesh.arbiter,
    }


def loop_ids(domains: Sequence[str]) -> dict[str, str]:
    """A loop id for each domain: ``loop-`` and what of its name may stand in a folder and a branch."""
    found: dict[str, str] = {}
    used = {INTEGRATION}
    for domain in domains:
        stem = "loop-" + (_UNFIT.sub("-", domain.lower())[:60].strip("-") or "domain")
        name, number = stem, 1
        while name in used:
            number += 1
            name = f"{stem}-{number}"
        used.add(name)
        found[domain] = name
    return found


def edges_of(nodes: Sequence[Node], integration: str) -> list[Edge]:
    """The edges that the nodes' dependencies make."""
    return [
        Edge.model_validate(
            {
                "from": name,
                "to": node.loop_id,
                "reason": "integration_after_loop_proof" if node.loop_id == integration else "scopes_overlap",
            }
        )
        for node in nodes
        for name in node.dependencies
    ]


class _Builder:
    """Makes the loops of one plan."""

    def __init__(
        self,
        asked: PlanRequest,
        parallelism: Parallelism,
        tree: Tree,
        parts: Sequence[Domain],
        detected: DetectedGates,
    ) -> None:
        self._asked = asked
        self._parallelism = parallelism
        self._tree = tree
        self._parts = parts
        self._detected = detected
        self.gates: Mapping[str, GateSpec] = gates_config.in_force(asked.config, detected)

    def loop(self, domain: Domain, loop_id: str, chosen: Selection) -> Node:
        """The loop that owns ``domain``."""
        asked, config = self._asked, self._asked.config
        scope = OwnerScope(files=list(domain.files), directories=list(domain.directories))
        danger = self._risk(domain, scope)
        wanted = counts.worker_counts(MAKER_ROUTE, self._parallelism, danger.level, scope)
        budget, workers = counts.loop_budget(wanted, config.budget)
        name = plain(domain.id)[:MAX_TITLE]
        return Node(
            loop_id=loop_id,
            mission_id=asked.mission_id,
            title=f"{name} loop",
            purpose=f"The part of the request that concerns {name}: {chosen.reasons.get(domain.id, '')}",
            level=risk.level_for(danger.level),
            route=MAKER_ROUTE,
            owner_scope=scope,
            budget=budget,
            maker=Maker(
                role=_ROLES.get(domain.kind, "implementer"),
                worker_count=workers.maker_workers,
                backend_preference=[domain.engine or asked.engine],
            ),
            checker=Checker(worker_count=workers.checker_workers),
            gates=Gates(
                triage=list(gates_config.TRIAGE_GATES),
                local=gates_config.select(config, self._detected, scope, "local", wanted=domain.gates),
                checker=[
                    *gates_config.CHECKER_GATES,
                    *gates_config.select(config, self._detected, scope, "checker", wanted=domain.gates),
                ],
            ),
            worktree=WorktreePolicy(branch_prefix=f"{BRANCH_PREFIX}/{asked.mission_id}"),
            risk=danger,
            engine=domain.engine,
        )

    def _risk(self, domain: Domain, scope: OwnerScope) -> Risk:
        """The risk of ``domain``; a general loop has at least that of the domains it reaches into."""
        globs = self._asked.config.risk
        if domain.risk is not None:
            return risk.assess(scope, (), configured=(domain.id, domain.risk))
        found = risk.assess(scope, self._tree.files, globs=globs)
        for part in self._parts:
            if part.risk is None or RISKS.index(part.risk) <= RISKS.index(found.level):
                continue
            if any(
                domain.owns(entry) or part.owns(mine) for entry in part.entries for mine in domain.entries
            ):
                found = risk.policy(part.risk, [f"{part.risk}: domain {plain(part.id)}", *found.reasons])
        return found

    def integration(self, nodes: Sequence[Node], domains: Sequence[Domain]) -> Node:
        """The last loop: it brings the others' changes together and owns the lock files nobody else does."""
        asked = self._asked
        owned = [
            path
            for path in self._tree.folders["."]
            if any(touch.kind == "lock" for touch in risk.touch_of(path))
            and not any(domain.owns(path) for domain in domains)
        ]
        scope = OwnerScope(files=owned, collision_policy="integration-only")
        workers = counts.worker_counts(INTEGRATION_ROUTE, self._parallelism, "low", scope)
        budget, workers = counts.loop_budget(workers, asked.config.budget)
        final = any(node.risk.requires_gpt_final for node in nodes)
        return Node(
            loop_id=INTEGRATION,
            mission_id=asked.mission_id,
            title="Integration loop",
            purpose="Merge what the loops made, one commit each, and check the result as a whole",
            level="L1-assisted",
            route=INTEGRATION_ROUTE,
            owner_scope=scope,
            budget=budget,
            maker=Maker(
                role="planner", worker_count=workers.maker_workers, backend_preference=[asked.engine]
            ),
            checker=Checker(worker_count=workers.checker_workers, required_before_next_iteration=False),
            gates=Gates(
                triage=list(gates_config.TRIAGE_GATES),
                checker=[],
                integration=gates_config.select(asked.config, self._detected, scope, "integration"),
                final=[gates_config.FINAL_ARBITER] if final else [],
            ),
            dependencies=[node.loop_id for node in nodes],
            worktree=WorktreePolicy(branch_prefix=f"{BRANCH_PREFIX}/{asked.mission_id}"),
            risk=Risk(level="low", reasons=[risk.BOUNDED]),
        )


def _order(nodes: Sequence[Node], chosen: Selection, ids: Mapping[str, str]) -> list[dict[str, Any]]:
    """Make loops whose paths touch wait for each other, and tell of every overlap."""
    by_id = {node.loop_id: node for node in nodes}
    told = []
    for lap in chosen.overlaps:
        note: dict[str, Any] = {
            "first": lap.first,
            "second": lap.second,
            "paths": [{"first": one, "second": other, "how": how} for one, other, how in lap.paths],
            "action": lap.action,
        }
        if lap.action == "ordered":
            first, second = ids[lap.first], ids[lap.second]
            by_id[second].dependencies = [*by_id[second].dependencies, first]
            note["text"] = f"{second} waits for {first}: their paths touch"
        elif lap.first in ids:
            note["text"] = f"{plain(lap.second)} is part of {ids[lap.first]}: their paths touch"
        told.append(note)
    return told


def lacking_gates(nodes: Sequence[Node]) -> list[str]:
    """A warning for each loop that no gate judges, and for a merge that none does."""
    found = [
        f"{node.loop_id}{NO_LOCAL_GATE}"
        for node in nodes
        if node.route != INTEGRATION_ROUTE and not node.gates.local
    ]
    integration = nodes[-1]
    return found if integration.gates.integration else [*found, f"{integration.loop_id}{NO_MERGED_GATE}"]


def refreshed_warnings(warnings: Sequence[str], nodes: Sequence[Node]) -> list[str]:
    """The ``warnings`` of a plan whose loops were edited."""
    kept = [text for text in warnings if not text.endswith((NO_LOCAL_GATE, NO_MERGED_GATE))]
    return [*kept, *(lacking_gates(nodes) if nodes else ())]


def _warnings(nodes: Sequence[Node], config: Config, detected: DetectedGates) -> list[str]:
    found = []
    for node in nodes:
        strange = gates_config.unknown(node.gates.all, config, detected)
        if strange:
            names = ", ".join(plain(name) for name in strange)
            found.append(f"{node.loop_id}: gate {names} is not configured and will fail; add [gates.<id>]")
    found += lacking_gates(nodes)
    integration = nodes[-1]
    scripts = [
        name for name in integration.gates.integration if name.startswith(("npm-", "pnpm-", "yarn-", "bun-"))
    ]
    if scripts and config.mesh.setup is None:
        found.append("npm scripts run in new worktrees, without node_modules; set [mesh] setup, e.g. npm ci")
    return found
