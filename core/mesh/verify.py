"""Checking proofs: what can be computed again is, the rest is called what it is: claimed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from meshtui.core.calls import Call
from meshtui.core.errors import InvalidInput, MeshtuiError, NotFound
from meshtui.core.mesh.files import load_plan, read_json, sha256_of
from meshtui.core.mesh.gates_config import BUILTIN
from meshtui.core.mesh.paths import MissionPaths
from meshtui.core.mesh.tally import gates_of
from meshtui.core.models.mesh import Node, OwnerScope, Plan
from meshtui.core.run_dir import RunDir
from meshtui.core.vcs.change import diff, outside
from meshtui.core.vcs.git import Git

Verdict = Literal["verified", "mismatch", "claimed"]
CLAIMED = "claimed, not verified"


@dataclass(frozen=True, slots=True)
class Check:
    """One claim and what became of it."""

    subject: str
    claim: str
    verdict: Verdict
    text: str


class Verifier:
    """Verifies the proofs of one mission."""

    def __init__(self, run_dir: RunDir, paths: MissionPaths) -> None:
        self._run_dir = run_dir
        self._paths = paths
        self._plan: Plan = load_plan(self._paths)
        self._git = Git(Path(self._plan.repo)) if self._plan.repo and Path(self._plan.repo).is_dir() else None
        self.checks: list[Check] = []

    @property
    def ok(self) -> bool:
        """Whether nothing differs."""
        return all(check.verdict != "mismatch" for check in self.checks)

    def mission(self) -> list[Check]:
        """Check every loop's proof and the graph proof."""
        for node in self._plan.graph.nodes:
            self.loop(node.loop_id, required=False)
        proof = read_json(self._paths.graph_proof)
        if proof is None:
            raise NotFound(f"mission {self._plan.mission_id} has no graph proof yet: it has not ended")
        self._graph(proof)
        return self.checks

    def loop(self, loop_id: str, *, required: bool = True) -> list[Check]:
        """Check one loop's proof."""
        try:
            node = self._plan.node(loop_id)
        except KeyError:
            raise NotFound(f"no loop {loop_id!r} in mission {self._plan.mission_id}") from None
        proof = read_json(self._paths.loop(loop_id).proof)
        if proof is None:
            if required:
                raise NotFound(f"loop {loop_id} has no proof yet: it has not ended")
            return self.checks
        evidence = [item for item in proof.get("evidence") or [] if isinstance(item, dict)]
        for item in evidence:
            self._evidence(loop_id, item)
        self._gates(loop_id, proof, {str(item.get("claim")) for item in evidence})
        self._commits(node, proof)
        self._consistency(loop_id, proof)
        return self.checks

    def _add(self, subject: str, claim: str, good: bool, text: str) -> None:
        self.checks.append(Check(subject, claim, "verified" if good else "mismatch", text))

    def _claimed(self, subject: str, claim: str, why: str) -> None:
        self.checks.append(Check(subject, claim, "claimed", f"{CLAIMED}: {why}"))

    # -- evidence -----------------------------------------------------------------------------------

    def _evidence(self, subject: str, item: Mapping[str, Any]) -> None:
        claim = str(item.get("claim") or "")
        log, recorded = item.get("log"), item.get("sha256")
        if not isinstance(log, str) or not isinstance(recorded, str):
            self._claimed(subject, claim, "no log is named")
            return
        path = self._inside(log)
        found = sha256_of(path) if path is not None else None
        if found is None:
            self._add(subject, claim, False, f"its log {log} is gone")
        elif found != recorded:
            self._add(
                subject, claim, False, f"its log {log} differs: {found[:12]}… instead of {recorded[:12]}…"
            )
        else:
            self._exit_code(subject, claim, item, log)
        artifact = item.get("artifact")
        if isinstance(artifact, str):
            path = self._inside(artifact)
            same = path is not None and sha256_of(path) == item.get("artifact_sha256")
            self._add(
                subject,
                f"{claim}: what it left",
                same,
                f"{artifact} {'is as it was' if same else 'differs or is gone'}",
            )

    def _exit_code(self, subject: str, claim: str, item: Mapping[str, Any], log: str) -> None:
        call_id, code = item.get("call"), item.get("exit_code")
        if claim.startswith("gate ") and claim.endswith(" passed") and code != 0:
            self._add(subject, claim, False, f"its command ended with {code}")
            return
        if not isinstance(call_id, str):
            self._add(subject, claim, True, f"log {log} is as it was")
            return
        try:
            done = Call.attach(self._run_dir, call_id).exit()
        except InvalidInput:
            done = None
        if done is None and code is not None:
            self._add(subject, claim, False, f"call {call_id} has no exit status any more")
        elif done is not None and done.code != code:
            self._add(subject, claim, False, f"call {call_id} ended with {done.code}, the proof says {code}")
        else:
            self._add(subject, claim, True, f"log and exit status of {call_id} are as they were")

    def _inside(self, name: str) -> Path | None:
        """``name`` as a path, if it stays inside the run directory."""
        root = self._run_dir.root.resolve()
        path = (root / name).resolve()
        return path if path.is_relative_to(root) else None

    def _gates(self, subject: str, proof: Mapping[str, Any], claims: set[str]) -> None:
        """Gates that the proof says passed have to say so in their evidence."""
        for gate in (proof.get("gate_result") or {}).get("passed_gates") or []:
            if f"gate {gate} passed" not in claims:
                builtin = str(gate) in BUILTIN
                why = "meshtui answered it itself" if builtin else "the proof names no evidence"
                self._claimed(subject, f"gate {gate} passed", why)

    # -- commits ------------------------------------------------------------------------------------

    def _commits(self, node: Node, proof: Mapping[str, Any]) -> None:
        head, base = proof.get("head_commit"), proof.get("base_commit")
        subject = node.loop_id
        if not isinstance(head, str) or not isinstance(base, str):
            if proof.get("changed_files"):
                self._claimed(subject, "changed files", "no commits are named")
            return
        if self._git is None:
            self._claimed(subject, "changed files", "the repository is gone")
            return
        try:
            change = diff(self._git, base, head)
        except MeshtuiError as error:
            self._add(subject, "commits exist", False, str(error))
            return
        files = sorted(item.path for item in change.files)
        recorded = sorted(str(path) for path in proof.get("changed_files") or [])
        self._add(
            subject, "changed files", files == recorded, f"{len(files)} files differ between base and head"
        )
        scope = OwnerScope.model_validate(proof.get("owner_scope") or {})
        if node.loop_id != self._plan.integration_loop_id:
            beyond = outside(change, scope)
            said = sorted(str(path) for path in proof.get("scope_violations") or [])
            self._add(
                subject,
                "scope kept",
                sorted(beyond) == said or not beyond,
                ", ".join(beyond[:5]) or "nothing outside",
            )
            self._branch(subject, proof.get("worktree", {}).get("branch"), head)

    def _branch(self, subject: str, branch: object, head: str) -> None:
        assert self._git is not None
        if not isinstance(branch, str):
            return
        at = self._git.branch_commit(branch)
        if at is None:
            self._claimed(subject, f"branch {branch}", "it was removed")
        else:
            self._add(subject, f"branch {branch}", at == head, f"at {at[:12]}, the proof says {head[:12]}")

    def _consistency(self, subject: str, proof: Mapping[str, Any]) -> None:
        if proof.get("status") != "completed":
            return
        gates = proof.get("gate_result") or {}
        good = bool(gates.get("ok")) and not gates.get("failed_gates")
        self._add(
            subject,
            "completed with its gates passed",
            good,
            ", ".join(gates.get("failed_gates") or []) or "none failed",
        )
        if subject != self._plan.integration_loop_id:
            self._add(
                subject,
                "completed with a change",
                bool(proof.get("changed_files")) or self._reports(subject),
                "a loop without a change does not complete",
            )
            self._claimed(subject, "what makers and checkers say", "words cannot be run again")

    def _reports(self, loop_id: str) -> bool:
        return self._plan.node(loop_id).level == "L0-report"

    # -- the graph ----------------------------------------------------------------------------------

    def _graph(self, proof: Mapping[str, Any]) -> None:
        subject = self._plan.mission_id
        proofs = [read_json(self._paths.loop(node.loop_id).proof) or {} for node in self._plan.graph.nodes]
        statuses = [item.get("status") for item in proofs]
        self._all_gates(subject, proof, gates_of(proofs))
        done = statuses.count("completed")
        self._add(
            subject, "completed loops", done == proof.get("completed_loops"), f"{done} of {len(statuses)}"
        )
        if proof.get("ok"):
            self._add(subject, "all is well", done == len(statuses), "ok needs every loop complete")
        merge = proof.get("integration_merge") or {}
        branch, head = merge.get("branch"), merge.get("head_commit")
        if isinstance(branch, str) and isinstance(head, str) and self._git is not None:
            self._branch(subject, branch, head)

    def _all_gates(self, subject: str, proof: Mapping[str, Any], found: Mapping[str, list[str]]) -> None:
        """The mission's gates have to be those of its loops."""
        gates = proof.get("gates")
        if not isinstance(gates, Mapping) or not isinstance(gates.get("passed"), list):
            return
        wrong = [str(gate) for gate in gates["passed"] if str(gate) not in found["passed"]]
        missing = [gate for gate in found["failed"] if gate not in (gates.get("failed") or [])]
        self._add(
            subject,
            "gates as the loops' proofs have them",
            not wrong and not missing,
            ", ".join([*wrong, *missing]) or f"{len(found['passed'])} passed, {len(found['failed'])} failed",
        )
