"""Integration: a loop's commit onto the integration branch by a ladder of methods, landing, discarding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from meshtui.core.errors import InvalidInput
from meshtui.core.vcs import worktree as worktrees
from meshtui.core.vcs.change import PATCH_FORM, patch_command, run_owned
from meshtui.core.vcs.git import LONG_TIMEOUT, Git, GitDirs, dirs_of, last_words
from meshtui.core.vcs.index import Scratch, linked
from meshtui.core.vcs.patching import Merged, Method, merged, take_over

Strategy = Literal["apply", "apply_3way", "cherry_pick", "handoff"]

LADDER: Final[tuple[Method, ...]] = ("apply", "apply_3way", "cherry_pick")

LOOP_BRANCHES: Final = "meshtui-loops"
RESULT_BRANCHES: Final = "meshtui"
_BINARY: Final = b"\nGIT binary patch\n"
_MOST_COMPARED: Final = 500
"""How many commits made meanwhile elsewhere are looked through for a change."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One rung of the ladder and what came of it."""

    strategy: Strategy
    ok: bool
    output: str
    conflicts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IntegrateResult:
    """How a commit went in, or that a person has to do it."""

    attempts: tuple[Attempt, ...]
    commit: str | None
    """The new commit; HEAD itself when it held the change already; ``None`` after a handoff."""
    changed: bool
    """Whether a commit was made."""

    @property
    def ok(self) -> bool:
        """Whether the change is in."""
        return self.commit is not None


@dataclass(frozen=True, slots=True)
class LandResult:
    """Where the target branch was and is."""

    target: str
    before: str
    after: str
    checkout: Path | None
    """The working tree that was brought along; ``None`` when the target is checked out nowhere."""

    @property
    def changed(self) -> bool:
        """Whether the branch moved."""
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class Discard:
    """What a mission has in the repository, and what would be lost with it."""

    branches: dict[str, str]
    """Branches with their commits."""
    worktrees: tuple[Path, ...]
    lost: tuple[str, ...]
    """Commits no other branch or tag holds, and files saved nowhere; one line each."""


def loop_branch(mission: str, loop: str) -> str:
    """The branch of a loop's work."""
    return f"{LOOP_BRANCHES}/{mission}/{loop}"


def result_branch(mission: str) -> str:
    """The branch of a mission's result."""
    return f"{RESULT_BRANCHES}/{mission}"


def integrate(worktree: Path, *, commit: str, base: str, message: str) -> IntegrateResult:
    """Put what ``commit`` changed since ``base`` onto HEAD of integration ``worktree``, as one commit.

    Tries each rung of the ladder and records it; a rung that fails leaves no trace. The last one is the
    handoff to a person. HEAD and its branch move with the files.
    """
    git = Git(worktree)
    linked(worktree)
    head = git.head_commit()
    onto = git.tree_of(head)
    attempts: list[Attempt] = []
    with Scratch(git) as scratch:
        for method in LADDER:
            found = merged(scratch, method, base=base, head=commit, onto=onto)
            refused = None
            if found.tree is not None and found.tree != onto:
                refused = take_over(git, onto, found.tree)
            attempts.append(_attempt(found, refused))
            if refused is not None:
                break
            if found.tree is not None:
                return IntegrateResult(tuple(attempts), *_committed(git, head, onto, found.tree, message))
    conflicts = attempts[-1].conflicts
    named = ", ".join(map(repr, conflicts[:20])) or attempts[-1].output
    attempts.append(Attempt("handoff", False, f"a person has to put these together: {named}", conflicts))
    return IntegrateResult(tuple(attempts), None, False)


def _attempt(found: Merged, refused: str | None) -> Attempt:
    if refused is not None:
        return Attempt(found.method, False, refused)
    return Attempt(found.method, found.tree is not None, found.output, found.conflicts)


def _committed(git: Git, head: str, onto: str, tree: str, message: str) -> tuple[str, bool]:
    """Make the commit and move HEAD there; its files are in the working tree already."""
    if tree == onto:
        return head, False
    commit = git.commit_tree(tree, parents=(head,), message=message)
    run_owned(git, "update-ref", "-m", "meshtui: integrate", "HEAD", commit, head)
    return commit, True


def land(git: Git, branch: str, target: str) -> LandResult:
    """Fast-forward local branch ``target`` to ``branch``; nothing else ever happens to it.

    Where ``target`` is checked out in ``git.top``, the files there follow. Raises :class:`InvalidInput`
    that says what to do if the target has moved on, is not clean, or is checked out somewhere else.
    """
    with git.exclusive():
        commit = git.branch_commit(branch)
        if commit is None:
            raise InvalidInput(f"{git.top}: there is no branch {branch}")
        before = git.branch_commit(target)
        if before is None:
            raise InvalidInput(f"{git.top}: there is no branch {target}; make it, or name another target")
        checkout = _checkout_of(git, target)
        if before == commit:
            return LandResult(target, before, commit, checkout)
        if not git.is_ancestor(before, commit):
            raise InvalidInput(
                f"branch {target} has moved since {branch} was made; merge it yourself: "
                f"`git switch {target} && git merge {branch}`"
            )
        if checkout is None:
            git.set_branch(target, commit, old=before, reason=f"meshtui: land {branch}")
        else:
            _fast_forward(git, checkout, branch, target, commit)
        return LandResult(target, before, commit, checkout)


def _checkout_of(git: Git, target: str) -> Path | None:
    """Where ``target`` is checked out; raises :class:`InvalidInput` unless that is here or nowhere."""
    found = None
    for entry in worktrees.list_worktrees(git):
        if entry.branch == target:
            found = entry
        elif not entry.missing and entry.commit and _rebasing(dirs_of(entry.path)) == target:
            raise InvalidInput(f"branch {target} is being rebased in {entry.path}; finish that first")
    if found is None:
        return None
    if found.path.resolve() != git.top.resolve():
        raise InvalidInput(
            f"branch {target} is checked out at {found.path}; land it from there, or switch that working tree away"
        )
    return found.path


def _rebasing(dirs: GitDirs) -> str | None:
    for state in ("rebase-merge", "rebase-apply"):
        name = dirs.own / state / "head-name"
        if name.is_file():
            return name.read_text(errors="surrogateescape").strip().removeprefix("refs/heads/")
    return None


def _fast_forward(git: Git, checkout: Path, branch: str, target: str, commit: str) -> None:
    here = git.at(checkout)
    dirs = here.dirs
    for state in ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply"):
        if (dirs.own / state).exists():
            raise InvalidInput(
                f"{checkout}: a merge, rebase or pick is unfinished there ({state}); finish it first"
            )
    dirty = here.dirty(untracked=False)
    if dirty:
        named = ", ".join(map(repr, dirty[:10]))
        raise InvalidInput(
            f"{checkout}: not clean, {len(dirty)} changed ({named}); commit or stash that, then land again"
        )
    args = ("merge", "--ff-only", "--no-autostash", "--quiet", "--no-stat", commit)
    result = here.run(*args, check=False, timeout=LONG_TIMEOUT)
    if result.code:
        said = last_words(result.err or result.out)
        raise InvalidInput(
            f"{checkout}: {target} cannot be brought to {branch}: {said}; move what is in the way, then land again"
        )


def discardable(
    git: Git, mission: str, *, roots: Sequence[Path] = (), exclude: Sequence[str] = ()
) -> Discard:
    """What :func:`discard` would remove of ``mission``, and what is lost by it.

    Worktrees are those on the mission's branches and those below ``roots``.
    """
    prefixes = (result_branch(mission), f"{LOOP_BRANCHES}/{mission}")
    branches = {name: at for prefix in prefixes for name, at in git.branches(prefix).items()}
    branches = {name: at for name, at in branches.items() if _of_mission(name, mission)}
    real = [root.resolve() for root in roots]
    found = [
        entry
        for entry in worktrees.list_worktrees(git)
        if not entry.main
        and (entry.branch in branches or any(entry.path.is_relative_to(root) for root in real))
    ]
    lost = [
        f"{entry.path}: {name}"
        for entry in found
        if not entry.missing
        for name in worktrees.unsaved(entry.path, branches.values(), exclude=exclude)
    ]
    lost += _only_on(git, branches)
    return Discard(branches, tuple(entry.path for entry in found), tuple(lost))


def _of_mission(branch: str, mission: str) -> bool:
    return branch == result_branch(mission) or branch.startswith(f"{LOOP_BRANCHES}/{mission}/")


def _only_on(git: Git, branches: dict[str, str]) -> list[str]:
    """Commits whose changes only these branches hold, one line each."""
    others = [*(f"--exclude={name}" for name in branches), "--branches", "--tags", "--remotes"]
    tips = [at for at in dict.fromkeys(branches.values()) if not _is_elsewhere(git, at, others)]
    if not tips:
        return []
    listed = git.run("log", "-z", "--format=%h %s", *tips, "--not", *others).out
    return [f"commit {part.decode('utf-8', 'replace').strip()}" for part in listed.split(b"\0") if part]


def _is_elsewhere(git: Git, tip: str, others: Sequence[str]) -> bool:
    """Whether one of the ``others`` holds what ``tip`` did since it left them, be it as another commit.

    That is how a loop's work lands. Told by git's patch id, which knows a change again wherever its lines
    have gone; what cannot be told by one, such as a binary file, counts as held nowhere else.
    """
    said = git.run("rev-list", "--boundary", tip, "--not", *others).out.split()
    if not said:
        return True
    bases = [line[1:].decode() for line in said if line.startswith(b"-")]
    if len(bases) != 1:
        return False
    patch = git.run(*patch_command(bases[0], tip)).out
    if not patch:
        return True
    if _BINARY in patch:
        return False
    form = ("--format=commit %H", "--no-merges", f"--max-count={_MOST_COMPARED}", *PATCH_FORM)
    theirs = git.run("log", *form, *others, "--not", bases[0]).out
    return bool(_patch_ids(git, patch) & _patch_ids(git, theirs))


def _patch_ids(git: Git, patches: bytes) -> set[bytes]:
    said = git.run("patch-id", "--stable", input=patches).out
    return {line.split()[0] for line in said.splitlines()}


def discard(git: Git, found: Discard, *, exclude: Sequence[str] = ()) -> None:
    """Remove what ``found`` lists: working trees first, then the branches.

    Raises :class:`InvalidInput` before anything is removed if a branch has moved or files were written
    since ``found`` named what is lost.
    """
    with git.exclusive():
        now = {name: git.branch_commit(name) for name in found.branches}
        there = {name: commit for name, commit in now.items() if commit is not None}
        for name, commit in there.items():
            if commit != found.branches[name]:
                raise InvalidInput(
                    f"branch {name} has moved since (now at {commit[:12]}); look at it, then try again"
                )
        known = set(found.lost)
        for path in found.worktrees:
            lost = worktrees.unsaved(path, there.values(), exclude=exclude)
            fresh = [name for name in lost if f"{path}: {name}" not in known]
            if fresh:
                raise InvalidInput(
                    f"{path}: written since: {', '.join(map(repr, fresh[:10]))}; look at it, then try again"
                )
        for path in found.worktrees:
            worktrees.remove(git, path, force=True)
        for name, commit in there.items():
            git.delete_branch(name, old=commit)
