"""The working copies of a loop: its own, one a maker where several work, throwaway ones for checkers."""

from __future__ import annotations

import re
from pathlib import Path

from meshtui.core import storage
from meshtui.core.clock import iso
from meshtui.core.errors import InvalidInput, MeshtuiError
from meshtui.core.mesh.context import LoopBlocked, MissionContext, Progress
from meshtui.core.mesh.files import write_json
from meshtui.core.mesh.tasks import Task
from meshtui.core.mesh.workers import Crew
from meshtui.core.models.mesh import WORKTREE, Node, Status
from meshtui.core.vcs import worktree as trees
from meshtui.core.vcs.change import Change, diff, reset_to, snapshot
from meshtui.core.vcs.index import linked

BRANCHES = "meshtui-loops"
BASE_COPY = "base"
DAMAGED = "the working copy itself, made anew"
"""Stands among what a gate left behind."""
UNFINISHED = ".unfinished"
"""Ends the name of the branch that keeps what was unfinished when a loop was ended."""


class LoopWorktrees:
    """Makes and releases the worktrees of one loop."""

    def __init__(self, context: MissionContext, node: Node, progress: Progress) -> None:
        self._context = context
        self._node = node
        self._progress = progress
        self.branch = f"{BRANCHES}/{context.plan.mission_id}/{node.loop_id}"
        self.main: Path = context.worktrees / node.loop_id
        """The loop's own working copy."""
        self.made = self.main.is_dir()
        self.clean_at: str | None = None
        """The commit at which the loop's own working copy is known to stand, nothing more and nothing less."""

    def prepare(self, crew: Crew) -> None:
        """Make the loop's working copy at its candidate or the base, and set it up once."""
        if self.main.is_dir():
            self._require_whole()
        else:
            self._own_branch()
            self._forget_setup(self.main)
            storage.make_dirs(self.main.parent)
            made = trees.add(
                self._context.git, self.main, commit=self._context.base, branch=self.branch, reuse=True
            )
            self.clean_at = made.commit
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
        if self.set_up(self.main, crew, "setup"):
            self.clean_at = None

    def _require_whole(self) -> None:
        """Refuse a working copy that a worker damaged: what is in it may be saved nowhere else."""
        try:
            linked(self.main)
        except InvalidInput as error:
            raise LoopBlocked(f"{error}: a worker damaged it; move it away, then resume") from None

    def _own_branch(self) -> None:
        """Refuse a branch of the loop's name that this mission did not make."""
        at = self._context.git.branch_commit(self.branch)
        known = (self._context.base, self._progress.start, self._progress.candidate)
        if at is None or at in known or self._context.paths.loop(self._node.loop_id).worktree.exists():
            return
        raise LoopBlocked(
            f"branch {self.branch} exists already (at {at[:12]}) and is not of this mission: "
            f"rename it (git branch -m {self.branch} NAME), then resume"
        )

    def set_up(self, place: Path, crew: Crew, slot: str) -> bool:
        """Run ``[mesh] setup`` once in a new working copy; whether it was run.

        What it leaves and git does not ignore is to be removed: it is nobody's change.
        """
        setup = self._context.config.mesh.setup
        if setup is None or place.name in self._progress.set_up:
            return False
        argv = ("/bin/sh", "-c", setup) if isinstance(setup, str) else tuple(setup)
        done = crew.run([Task(slot=slot, role="gate", cwd=place, argv=argv)])[0]
        if not done.ok:
            how = f"exit {done.code}" if done.ending is None else done.ending
            raise LoopBlocked(f"[mesh] setup failed in {place} ({how}); see call {done.call_id}")
        self._progress.set_up.append(place.name)
        return True

    def reset(self, commit: str) -> list[str]:
        """Put the loop's own working copy and branch exactly at ``commit``; what was removed."""
        left = reset_to(self.main, commit, branch=self.branch)
        self.clean_at = commit
        return left

    def put_back(self, commit: str, crew: Crew, slot: str) -> list[str]:
        """:meth:`reset` after a gate, which may have left no working copy at all; what was removed.

        Everything that counts is in ``commit``: a damaged working copy is made anew and set up again.
        """
        try:
            linked(self.main)
        except InvalidInput:
            trees.remove(self._context.git, self.main, force=True)
            self._forget_setup(self.main)
            trees.add(self._context.git, self.main, commit=commit, branch=self.branch, reuse=True)
            if self.set_up(self.main, crew, f"setup-after-{slot}"):
                self.clean_at = None
            return [DAMAGED, *self.reset(commit)]
        return self.reset(commit)

    def ensure_at(self, commit: str) -> None:
        """:meth:`reset`, unless nothing was run there since it came to stand at ``commit``."""
        if self.clean_at != commit:
            self.reset(commit)

    def copy(self, kind: str, number: int, commit: str, crew: Crew) -> Path:
        """The working copy of maker or checker ``number``, set up and standing at ``commit``.

        Where that worker's call is taken over, its working copy is left as it is.
        """
        place = self._context.worktrees / f"{self._node.loop_id}.{kind}-{number}"
        setup = f"setup-{kind}-{number}"
        there = place.is_dir()
        if there and crew.takes_over(f"{kind}-{number}"):
            return place
        if there and not crew.takes_over(setup):
            reset_to(place, commit)
        elif not there:
            storage.make_dirs(place.parent)
            self._forget_setup(place)
            trees.add(self._context.git, place, commit=commit, branch=None)
        if self.set_up(place, crew, setup):
            reset_to(place, commit)
        return place

    def _forget_setup(self, place: Path) -> None:
        if place.name in self._progress.set_up:
            self._progress.set_up.remove(place.name)

    def copies(self) -> list[Path]:
        """The working copies beside the loop's own."""
        if not self._context.worktrees.is_dir():
            return []
        # Not what a worker put beside them under a name like theirs.
        kinds = "|".join(("maker", "checker", "arbiter", BASE_COPY))
        mine = re.compile(rf"{re.escape(self._node.loop_id)}\.(?:{kinds})-[0-9]+")
        return sorted(path for path in self._context.worktrees.iterdir() if mine.fullmatch(path.name))

    def drop_copies(self, kind: str) -> None:
        """Remove the makers' or the checkers' copies; what they held is in the candidate, or was refused."""
        for place in self.copies():
            if place.name.startswith(f"{self._node.loop_id}.{kind}-"):
                trees.remove(self._context.git, place, force=True)
                self._forget_setup(place)

    def keep_unfinished(self, place: Path, base: str) -> str | None:
        """Commit what a worker left unfinished in ``place`` to a branch of its own; the branch, if any.

        Raises :class:`LoopBlocked` for what cannot be kept so: a repository inside the working copy.
        """
        left = snapshot(place, base=base, message=f"Unfinished work of {place.name}.")
        if left.unsupported:
            raise LoopBlocked(f"{place} holds repositories of their own: {', '.join(left.unsupported)}")
        git, branch = self._context.git, f"{self.branch}{UNFINISHED}"
        candidate = self._progress.candidate
        if not left.change.files or (candidate is not None and git.tree_of(candidate) == left.tree):
            return None
        with git.exclusive():
            old = git.branch_commit(branch)
            if old is not None and git.tree_of(old) == left.tree:
                return branch
            parents = (base,) if old is None else (base, old)
            message = f"Unfinished work of {place.name}."
            git.set_branch(branch, git.commit_tree(left.tree, parents=parents, message=message), old=old)
        self._context.note("work_kept", self._node.loop_id, branch=branch, files=len(left.change.files))
        return branch

    def change_of(self, candidate: str) -> Change:
        """Everything a candidate changes."""
        return diff(self._context.git, self._context.base, candidate)

    def release(self, status: Status, *, integrated: bool = False) -> list[str]:
        """Remove what is not needed any more and return what is kept, with the reason.

        The loop's branch keeps its last candidate in any case; what ended workers had not finished is
        committed to a branch of its own before their working copies go. ``integrated``: nothing is awaited.
        """
        kept: list[str] = []
        policy = self._node.worktree.cleanup
        ended_well = status in ("completed", "handoff")
        stays = policy == "always-keep" or (not integrated if ended_well else policy == "keep-on-failure")
        places = [*self.copies(), *([self.main] if self.main.is_dir() else [])]
        for place in places:
            if place == self.main and stays:
                why = "kept by its policy" if policy == "always-keep" else "until the mission is integrated"
                kept.append(f"{place}: {why if ended_well else 'kept on failure'}")
                continue
            try:
                kept += self._remove(place, worked=not ended_well and not integrated)
            except (LoopBlocked, MeshtuiError) as error:
                kept.append(f"{place}: {error}")
        self.made = self.main.is_dir()
        return kept

    def _remove(self, place: Path, *, worked: bool) -> list[str]:
        kept = []
        # Once the makers' phase is over their copies hold nothing that is not in the candidate.
        open_ = self._progress.phase == "maker" and place.name.startswith(f"{self._node.loop_id}.maker-")
        if worked and (place == self.main or open_):
            branch = self.keep_unfinished(place, self._context.base)
            if branch is not None:
                kept.append(f"branch {branch}: what was unfinished in {place.name}")
        trees.remove(self._context.git, place, force=True)
        self._forget_setup(place)
        return kept
