"""Whether a gate that failed on a candidate fails on the untouched base as well: found out once, when it matters."""

from __future__ import annotations

from meshtui.core.mesh.context import LoopBlocked, MissionContext, Progress
from meshtui.core.mesh.tasks import Task, worker_evidence
from meshtui.core.mesh.workers import Crew
from meshtui.core.mesh.worktrees import BASE_COPY, LoopWorktrees
from meshtui.core.models.mesh import Evidence


class OnBase:
    """Runs gates on the base commit, in a throwaway working copy; their results are the whole mission's."""

    def __init__(
        self, context: MissionContext, progress: Progress, crew: Crew, worktrees: LoopWorktrees
    ) -> None:
        self._context = context
        self._progress = progress
        self._crew = crew
        self._worktrees = worktrees

    def result(
        self, gate_id: str, argv: tuple[str, ...], timeout_seconds: float | None, number: int
    ) -> Evidence | None:
        """How gate ``gate_id``, the ``number``-th of its stage, ends on the base.

        ``None`` where that could not be found out within half of the wall time that is left.
        """
        known = self._progress.on_base.get(gate_id)
        if known is None:
            with self._context.files_lock:
                known = self._context.on_base.get(gate_id)
        if known is None:
            try:
                known = self._run(gate_id, argv, timeout_seconds, number)
            except LoopBlocked:
                # Not this look's to decide: the gate's own failure is what counts.
                return None
        if known is not None:
            self._progress.on_base[gate_id] = known
            with self._context.files_lock:
                self._context.on_base[gate_id] = known
        return known

    def _run(
        self, gate_id: str, argv: tuple[str, ...], timeout_seconds: float | None, number: int
    ) -> Evidence | None:
        place = self._worktrees.copy(BASE_COPY, number, self._context.base, self._crew)
        half = self._crew.meter.left_ms / 2000
        task = Task(
            slot=f"{BASE_COPY}-{number}",
            role="gate",
            cwd=place,
            argv=argv,
            environment={"MESHTUI_GATE": gate_id},
            timeout_seconds=half if timeout_seconds is None else min(half, timeout_seconds),
        )
        done = self._crew.run([task])[0]
        self._worktrees.drop_copies(BASE_COPY)
        if done.ending is not None:
            return None
        ended = "passes" if done.ok else "fails"
        return worker_evidence(self._context.run_dir, done, f"gate {gate_id} {ended} on the base")
