"""One worker of a loop: what it is told, how it ended, and what a proof says about it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from meshtui.core import storage
from meshtui.core.calls import Call, CallRole
from meshtui.core.calls.call import EndReason
from meshtui.core.engines.base import Engine, Outcome
from meshtui.core.errors import MeshtuiError
from meshtui.core.mesh.files import sha256_of
from meshtui.core.mesh.paths import relative
from meshtui.core.models.mesh import Evidence
from meshtui.core.run_dir import RunDir


@dataclass(frozen=True, slots=True)
class Task:
    """One worker to run."""

    slot: str
    """Which worker of the phase: ``maker-1``, ``checker-2``, ``gate-tests``."""
    role: CallRole
    cwd: Path
    prompt: str = ""
    engine: Engine | None = None
    """``None`` for a gate."""
    argv: tuple[str, ...] = ()
    """A gate's command."""
    session_id: str | None = None
    model: str | None = None
    effort: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the environment of the loop."""
    timeout_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """How a worker ended."""

    slot: str
    call_id: str
    code: int | None
    ending: str | None
    """Why meshtui ended it, if it did."""
    outcome: Outcome | None
    """What the engine made of it; ``None`` for a gate and for one that was ended."""
    duration_ms: int
    left_running: tuple[str, ...]
    argv: tuple[str, ...]
    session_id: str | None

    @property
    def ok(self) -> bool:
        """Whether it ended by itself and well."""
        if self.ending is not None:
            return False
        return self.code == 0 if self.outcome is None else self.outcome.status == "done"


def worker_evidence(run_dir: RunDir, done: Finished, claim: str, *, artifact: Path | None = None) -> Evidence:
    """What a claim about an ended worker rests on; its log is synced first."""
    call = Call.attach(run_dir, done.call_id)
    if call.stdout.exists():
        storage.sync_file(call.stdout)
    more = {}
    if artifact is not None:
        more = {"artifact": relative(run_dir, artifact), "artifact_sha256": sha256_of(artifact)}
    return Evidence(
        claim=claim,
        call=done.call_id,
        command=" ".join(done.argv)[:500],
        exit_code=done.code,
        duration_ms=done.duration_ms,
        log=relative(run_dir, call.stdout),
        sha256=sha256_of(call.stdout),
        **more,
    )


def end_together(calls: Sequence[Call], reason: EndReason) -> list[str]:
    """End several calls at the same time; what would not end. Raises what stood against it."""
    survivors: list[str] = []
    failures: list[MeshtuiError] = []
    lock = threading.Lock()

    def end(call: Call) -> None:
        try:
            left = call.end(reason, "runner").survivors
            swept = [name for name in call.sweep() if name.endswith("still running")]
        except MeshtuiError as error:
            failures.append(error)
            return
        with lock:
            survivors.extend([*left, *swept])

    threads = [threading.Thread(target=end, args=(call,), name="meshtui-end") for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return survivors
