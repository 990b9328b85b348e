"""The engine behind ``mode: mesh``: a phase's prompt is planned into a mission and run, as one call.

The mission's runner is a program like any other: it outlives the lane's runner, is adopted, held to the
phase's deadline and ended as every call is; what it ends itself are its own workers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meshtui.core.engines.base import (
    EngineEvent,
    EngineRequest,
    Launch,
    Outcome,
    OutputReader,
    ReplyBuffer,
    Usage,
    failure_text,
)
from meshtui.core.own import own_command

NAME = "mesh"
HANDED_OVER = 5
"""The exit status of a mission that waits for a person."""


@dataclass(frozen=True, slots=True)
class MeshEngine:
    """Runs one mission."""

    run_dir: Path
    mission_id: str
    engine: str
    """The engine of the mission's workers."""
    repo: str | None
    name: str = NAME

    def launch(self, request: EngineRequest) -> Launch:
        """The command that plans the prompt, unless it was planned before, and runs the mission."""
        argv = [*own_command("run", "-", "--mission", self.mission_id, "--json", "--trust")]
        argv += ["--run-dir", str(self.run_dir), "--engine", self.engine]
        if self.repo is not None:
            argv += ["--repo", self.repo]
        return Launch(argv=tuple(argv), env_extra={}, prompt_bytes=request.prompt.encode("utf-8", "replace"))

    def reader(self, request: EngineRequest) -> OutputReader:
        """Reads the mission's outcome."""
        return MeshReader(self.mission_id)


class MeshReader:
    """Takes the one JSON document a mission's run prints."""

    def __init__(self, mission_id: str) -> None:
        self._mission_id = mission_id
        self._reply = ReplyBuffer()

    def feed(self, chunk: bytes) -> list[EngineEvent]:
        """Keep what is printed."""
        self._reply.add(chunk)
        return []

    def outcome(self, exit_code: int, stderr_tail: bytes) -> Outcome:
        """Done when every loop is and the result is merged, or when a person is to decide."""
        value = self._document()
        proof: dict[str, Any] = value.get("graph_proof") or {}
        usage = Usage.from_json(proof.get("usage"))
        if exit_code == 0:
            branch = proof.get("branch")
            return Outcome("done", reply=f"mission {self._mission_id} is done: branch {branch}", usage=usage)
        if exit_code == HANDED_OVER:
            return Outcome(
                "done",
                reply=f"mission {self._mission_id} waits for a person: meshtui answer {self._mission_id} "
                "--approve or --reject, then meshtui resume",
                usage=usage,
            )
        blockers = [str(item) for item in proof.get("blockers") or []]
        words = "; ".join(blockers[:5]) or failure_text(exit_code, stderr_tail)
        return Outcome("failed", error=f"mission {self._mission_id} ended badly: {words}", usage=usage)

    def _document(self) -> dict[str, Any]:
        try:
            value = json.loads(self._reply.text())
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}
