"""Wire formats of a mission: plan, loops, states, checkpoints, findings, proofs.

Another tool writes the same files; what it adds beside these fields is kept (``extra="allow"``).
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from meshtui.core.models.mesh_names import ENDED as ENDED
from meshtui.core.models.mesh_names import Status as Status
from meshtui.core.models.mesh_names import gate_file as gate_file
from meshtui.core.models.mesh_names import is_mesh_id as is_mesh_id

PLAN = "sks.loop-plan.v1"
NODE = "sks.loop-node.v1"
STATE = "sks.loop-state.v1"
PROOF = "sks.loop-proof.v1"
GRAPH_PROOF = "sks.loop-graph-proof.v1"
CHECKPOINT = "sks.loop-checkpoint.v1"
FINDINGS = "sks.loop-checker-findings.v1"
GATE_RESULT = "sks.loop-gate-result.v1"
KILL_REQUEST = "sks.loop-kill-request.v1"
WORKTREE = "sks.loop-worktree.v1"
MERGE = "sks.loop-integration-merge.v1"
SIDE_EFFECTS = "sks.loop-side-effect-report.v1"
LEDGER = "sks.loop-owner-ledger.v1"
CONCURRENCY = "sks.loop-concurrency-budget.v1"

INTEGRATION_ROUTE = "$Integration"
MAKER_ROUTE = "$Naruto"
"""The route's name in the format for loops whose makers work in parallel."""

Level = Literal["L0-report", "L1-assisted", "L2-action", "L3-unattended"]
RiskLevel = Literal["low", "medium", "high", "critical"]
RISKS: tuple[RiskLevel, ...] = ("low", "medium", "high", "critical")
Phase = Literal["triage", "maker", "checker", "gates", "integration", "finalizer", "handoff"]
Parallelism = Literal["safe", "balanced", "extreme"]


class _Wire(BaseModel):
    model_config = ConfigDict(extra="allow", validate_assignment=False)

    def as_json(self) -> dict[str, Any]:
        """The object as it stands in its file."""
        return self.model_dump(mode="json", by_alias=True)


class OwnerScope(_Wire):
    """What a loop may change: paths relative to the repository, ``/`` between parts."""

    files: list[str] = []
    directories: list[str] = []
    """``.`` is the whole repository. Another tool may list files here too."""
    package_scripts: list[str] = []
    release_gate_ids: list[str] = []
    exclusive: bool = True
    collision_policy: Literal["skip", "wait", "handoff", "integration-only"] = "wait"

    @property
    def entries(self) -> list[str]:
        """Files and folders, in the order in which makers share them out."""
        return [*self.files, *self.directories]

    @property
    def size(self) -> int:
        """What worker counts go by: files plus three for each folder."""
        return len(self.files) + 3 * len(self.directories)


class Budget(_Wire):
    """What a loop may use; every part is enforced. One that limits nothing is read, and blocks its plan."""

    max_iterations: int = 2
    max_wall_ms: int = 900_000
    max_model_calls: int = 8
    max_subagents: int = 4
    max_tokens_estimate: int = 120_000
    max_changed_files: int = 12
    max_patch_bytes: int = 256_000
    max_cost_usd: float | None = None


class BudgetUsed(_Wire):
    """What a loop has used."""

    wall_ms: int = 0
    model_calls: int = 0
    subagents: int = 0
    """Most workers alive at once."""
    iterations: int = 0
    changed_files: int = 0
    patch_bytes: int = 0
    tokens: int | None = None
    """What counts towards the cap: see ``Usage.tokens``; ``None`` while no engine reported any."""
    cost_usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    estimated_tokens: int | None = None
    """Of workers that were ended before they reported."""


class Maker(_Wire):
    """Who changes things."""

    route: str = MAKER_ROUTE
    role: str = "implementer"
    worker_count: int = 1
    backend_preference: list[str] = []


class Checker(_Wire):
    """Who judges them."""

    route: str = "$QA-LOOP"
    worker_count: int = 1
    fresh_session_required: bool = True
    stronger_model_required: bool = False
    required_before_next_iteration: bool = True


class Gates(_Wire):
    """Ids of the gates of each stage."""

    triage: list[str] = ["loop:state-valid", "loop:budget-valid"]
    local: list[str] = []
    checker: list[str] = ["loop:checker-fresh-session"]
    integration: list[str] = []
    final: list[str] = []

    @property
    def all(self) -> list[str]:
        """Every gate once, in the order of the stages."""
        return list(dict.fromkeys([*self.triage, *self.local, *self.checker, *self.integration, *self.final]))


class WorktreePolicy(_Wire):
    """How a loop's working copy is made and when it goes."""

    required: bool = True
    mode: str = "new-worktree"
    branch_prefix: str = ""
    cleanup: Literal["on-success", "keep-on-failure", "always-keep"] | str = "on-success"


class Risk(_Wire):
    """How dangerous a loop's scope is, and what follows from it."""

    level: RiskLevel = "low"
    reasons: list[str] = []
    requires_worktree: bool = True
    requires_gpt_final: bool = False
    """Whether the final arbiter has to judge the mission; the name is the format's."""
    requires_human_handoff: bool = False


class Node(_Wire):
    """One loop of a plan."""

    schema_name: str = Field(default=NODE, alias="schema")
    loop_id: str
    mission_id: str = ""
    title: str = ""
    purpose: str = ""
    level: Level = "L2-action"
    route: str = MAKER_ROUTE
    owner_scope: OwnerScope = OwnerScope()
    budget: Budget = Budget()
    maker: Maker = Maker()
    checker: Checker = Checker()
    gates: Gates = Gates()
    dependencies: list[str] = []
    worktree: WorktreePolicy = WorktreePolicy()
    risk: Risk = Risk()
    engine: str | None = None
    """meshtui's: the engine of this loop's workers where its domain names one."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)


class Edge(_Wire):
    """``to`` starts after ``from`` is complete."""

    source: str = Field(alias="from")
    to: str
    reason: str = ""

    model_config = ConfigDict(extra="allow", populate_by_name=True)


class Graph(_Wire):
    """Loops and what waits for what."""

    nodes: list[Node] = []
    edges: list[Edge] = []


class Plan(_Wire):
    """``loop-plan.json``."""

    schema_name: str = Field(default=PLAN, alias="schema")
    mission_id: str
    request: str
    generated_at: str = ""
    planner: dict[str, Any] = {}
    graph: Graph = Graph()
    global_budget: Budget = Budget()
    safety: dict[str, Any] = {}
    integration_loop_id: str = "loop-integration"
    compatibility: dict[str, Any] = {}
    blockers: list[str] = []
    domains_truncated: list[str] = []
    overlaps: list[dict[str, Any]] = []
    """meshtui's: scopes that touch each other and what was done about it."""
    repo: str | None = None
    """meshtui's: the repository's top level."""
    base_commit: str | None = None
    """meshtui's: what the plan was made for; every loop starts there."""
    options: dict[str, Any] = {}
    """meshtui's: engine, parallelism, strategy, target branch and limits of this mission."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)

    def node(self, loop_id: str) -> Node:
        """The loop called ``loop_id``; ``KeyError`` if there is none."""
        for node in self.graph.nodes:
            if node.loop_id == loop_id:
                return node
        raise KeyError(loop_id)


class Handoff(_Wire):
    """Whether a person has to take over."""

    required: bool = False
    reason: str | None = None
    artifact: str | None = None


class LoopState(_Wire):
    """``loop-state.json``."""

    schema_name: str = Field(default=STATE, alias="schema")
    mission_id: str
    loop_id: str
    status: Status = "planned"
    iteration: int = 0
    acting_on: dict[str, Any] = {"files": [], "worktree_id": None, "branch": None}
    current_phase: Phase = "triage"
    last_action: str | None = None
    last_gate_result: str | None = None
    last_checker_result: str | None = None
    blockers: list[str] = []
    handoff: Handoff = Handoff()
    budget_used: BudgetUsed = BudgetUsed()
    updated_at: str = ""

    model_config = ConfigDict(extra="allow", populate_by_name=True)


class Evidence(_Wire):
    """What a claim of a proof rests on; paths are relative to the run directory."""

    claim: str
    call: str | None = None
    command: str | None = None
    exit_code: int | None = None
    duration_ms: int | None = None
    log: str | None = None
    sha256: str | None = None
    artifact: str | None = None
    """meshtui's: the file with what it delivered or found, with its hash."""
    artifact_sha256: str | None = None


class CheckerFindings(_Wire):
    """What one checker found."""

    fresh_session: bool
    reviewed_maker_artifacts: list[str]
    side_effects_detected: list[str]
    approved: bool
    findings: list[str]
