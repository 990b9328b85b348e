"""Where everything of a mission stands."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from meshtui.core.models.mesh_names import gate_file
from meshtui.core.run_dir import RunDir


@dataclass(frozen=True, slots=True)
class LoopPaths:
    """The paths of one loop."""

    root: Path

    @property
    def state(self) -> Path:
        return self.root / "loop-state.json"

    @property
    def log(self) -> Path:
        return self.root / "loop-run-log.jsonl"

    @property
    def budget(self) -> Path:
        return self.root / "loop-budget.json"

    @property
    def proof(self) -> Path:
        return self.root / "loop-proof.json"

    @property
    def worktree(self) -> Path:
        return self.root / "worktree.json"

    @property
    def checkpoint(self) -> Path:
        """The newest checkpoint."""
        return self.root / "checkpoint-latest.json"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def gates(self) -> Path:
        return self.root / "gates"

    @property
    def maker(self) -> Path:
        return self.root / "maker"

    @property
    def checker(self) -> Path:
        return self.root / "checker"

    @property
    def patches(self) -> Path:
        return self.root / "patches"

    @property
    def handoff(self) -> Path:
        return self.root / "handoff.md"

    def gate(self, gate_id: str) -> Path:
        """The result file of a gate."""
        return self.gates / gate_file(gate_id)


@dataclass(frozen=True, slots=True)
class MissionPaths:
    """The paths of one mission; ``root`` is its ``loops`` folder."""

    root: Path
    mission_id: str

    @classmethod
    def of(cls, run_dir: RunDir, mission_id: str) -> MissionPaths:
        """The mission ``mission_id`` of a run directory."""
        return cls(run_dir.missions / mission_id / "loops", mission_id)

    @property
    def plan(self) -> Path:
        return self.root / "loop-plan.json"

    @property
    def graph_proof(self) -> Path:
        return self.root / "loop-graph-proof.json"

    @property
    def ledger(self) -> Path:
        return self.root / "loop-owner-ledger.json"

    @property
    def concurrency(self) -> Path:
        return self.root / "concurrency-budget.json"

    @property
    def merge(self) -> Path:
        return self.root / "integration-merge.json"

    @property
    def side_effects(self) -> Path:
        return self.root / "loop-side-effect-report.json"

    @property
    def arbiter(self) -> Path:
        return self.root / "loop-gpt-final-arbiter.json"

    @property
    def handles(self) -> Path:
        return self.root / "active-worker-handles.jsonl"

    @property
    def mutations(self) -> Path:
        return self.root / "mutation-ledger.jsonl"

    @property
    def kill_request(self) -> Path:
        """The format's single request: written towards another tool's runner."""
        return self.root / "kill-request.json"

    @property
    def kill_requests(self) -> Path:
        """meshtui's requests, one file each, so that several can wait."""
        return self.root / "kill-requests"

    @property
    def control(self) -> Path:
        return self.root / "control"

    @property
    def runner_lock(self) -> Path:
        return self.root / "runner.lock"

    @property
    def runner_flock(self) -> Path:
        return self.root / ".runner.flock"

    def loop(self, loop_id: str) -> LoopPaths:
        """The paths of one loop."""
        return LoopPaths(self.root / loop_id)


def relative(run_dir: RunDir, path: Path) -> str:
    """``path`` as proofs name it: relative to the run directory."""
    return os.path.relpath(path, run_dir.root)
