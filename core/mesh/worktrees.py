"""The working copies of a loop: its own, one a maker where several work, throwaway ones for checkers."""

from __future__ import annotations

from pathlib import Path

from meshtui.core import storage
from meshtui.core.clock import iso
from meshtui.core.errors import MeshtuiError
from meshtui.core.mesh.context import LoopBlocked, MissionContext, Progress
from meshtui.core.mesh.files import write_json
from meshtui.core.mesh.workers import Crew, Task
from meshtui.core.models.mesh import WORKTREE, Node, Status
from meshtui.core.vcs import worktree as trees
from meshtui.core.vcs.change import Change, diff, reset_to

BRANCHES = "meshtui-loops"


class LoopWorktrees:
    """Makes and releases the worktrees of one loop."""

    def __init__(self, context: MissionContext, node: Node) -> None:
        self._context = context
        self._node = node
        self.branch = f"{BRANCHES}/{context.plan.mission_id}/{node.loop_id}"
        self.main: Path = context.worktrees / node.loop_id
        """The loop's own working copy."""
        self.made = self.main.is_dir()

    def prepare(self, crew: Crew) -> None:
        """Make the loop's working copy at its candidate or the base, and set it up once."""
        fresh = not self.main.is_dir()
        if fresh:
            storage.make_dirs(self.main.parent)
            trees.add(self._context.git, self.main, commit=self._context.base, branch=self.branch, reuse=True)
        self.made = True
        write_json(
            self._context.paths.loop(self._node.loop_id).worktree,
            {
                "schema": WORKTREE,
                "loop_id": self._node.loop_id,
                "worktree_id": self._node.loop_id,
                "path": str(self.main),
                "branch": self.branch,
                "base_ref": self._context.base,
                "allocated_at": iso(self._context.clock.now_ms()),
                "cleanup_policy": self._node.worktree.cleanup,
                "blockers": [],
            },
            durable=False,
        )
        if fresh:
            self.set_up(self.main, crew, "setup")

    def set_up(self, place: Path, crew: Crew, slot: str) -> None:
        """Run ``[mesh] setup`` in a new working copy."""
        setup = self._context.config.mesh.setup
        if setup is None:
            return
        argv = ("/bin/sh", "-c", setup) if isinstance(setup, str) else tuple(setup)
        done = crew.run([Task(slot=slot, role="gate", cwd=place, argv=argv)])[0]
        if not done.ok:
            raise LoopBlocked(f"[mesh] setup failed in {place} (exit {done.code}); see call {done.call_id}")

    def reset(self, commit: str) -> list[str]:
        """Put the loop's own working copy and branch exactly at ``commit``; what was removed."""
        return reset_to(self.main, commit, branch=self.branch)

    def maker_copy(self, number: int, start: str) -> Path:
        """A maker's own working copy, standing at ``start``."""
        return self._copy(f"{self._node.loop_id}.maker-{number}", start)

    def checker_copy(self, number: int, candidate: str) -> Path:
        """A checker's throwaway working copy, standing at ``candidate``."""
        return self._copy(f"{self._node.loop_id}.checker-{number}", candidate)

    def _copy(self, name: str, commit: str) -> Path:
        place = self._context.worktrees / name
        if place.is_dir():
            reset_to(place, commit)
        else:
            storage.make_dirs(place.parent)
            trees.add(self._context.git, place, commit=commit, branch=None)
        return place

    def copies(self) -> list[Path]:
        """The working copies beside the loop's own."""
        prefix = f"{self._node.loop_id}."
        if not self._context.worktrees.is_dir():
            return []
        return sorted(
            path
            for path in self._context.worktrees.iterdir()
            if path.name.startswith((f"{prefix}maker-", f"{prefix}checker-"))
        )

    def drop_copies(self, kind: str) -> None:
        """Remove the makers' or the checkers' copies; what they held is in the candidate, or was refused."""
        for place in self.copies():
            if place.name.startswith(f"{self._node.loop_id}.{kind}-"):
                trees.remove(self._context.git, place, force=True)

    def change_of(self, candidate: str) -> Change:
        """Everything a candidate changes."""
        return diff(self._context.git, self._context.base, candidate)

    def release(self, status: Status, progress: Progress) -> list[str]:
        """Remove what is not needed any more and return what is kept, with the reason.

        The loop's branch keeps its last candidate in any case. A working copy that holds more than that
        stays where it is.
        """
        kept = []
        for kind in ("checker", "maker"):
            try:
                self.drop_copies(kind)
            except MeshtuiError as error:
                kept.append(str(error))
        if not self.main.is_dir():
            return kept
        if status in ("completed", "handoff") or self._node.worktree.cleanup == "always-keep":
            return [*kept, f"{self.main}: until the mission is integrated"]
        saved = [item for item in (progress.candidate, self._context.base) if item]
        lost = trees.unsaved(self.main, saved)
        if lost or self._node.worktree.cleanup == "keep-on-failure":
            return [*kept, f"{self.main}: {', '.join(lost[:5]) or 'kept on failure'}"]
        trees.remove(self._context.git, self.main, force=True)
        self.made = False
        return kept
