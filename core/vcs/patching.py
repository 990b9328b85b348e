"""Putting one change onto another state: worked out beside the working tree, then taken over as a whole.

The result of an attempt is a tree. Only a tree without conflicts reaches a working tree, in one step
that git refuses as a whole when local edits or untracked files are in its way: a failed attempt leaves
working tree and index as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from meshtui.core.vcs.change import Change, diff, patch_command, run_owned
from meshtui.core.vcs.git import LONG_TIMEOUT, Git, GitError, GitResult
from meshtui.core.vcs.index import NOTHING, Scratch, joined, linked, raw_changes

Method = Literal["apply", "apply_3way", "cherry_pick"]

MAX_OUTPUT: Final = 8000


@dataclass(frozen=True, slots=True)
class Merged:
    """What came of putting a change onto a tree."""

    method: Method
    tree: str | None
    """The tree with the change; ``None`` when it does not go together."""
    conflicts: tuple[str, ...]
    """Paths that do not go together."""
    output: str
    """What git said."""


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """What came of putting a change into a working tree."""

    ok: bool
    conflicts: tuple[str, ...]
    output: str
    method: Method | None = None
    """How it went in."""


def merged(scratch: Scratch, method: Method, *, base: str, head: str, onto: str) -> Merged:
    """Put what leads from ``base`` to ``head`` onto tree ``onto``; changes nothing but the object store.

    ``apply`` takes a patch only where every file it touches is as it was in ``base``: a patch that finds
    its place by searching can land in the wrong one. ``apply_3way`` merges each file on its own,
    ``cherry_pick`` merges the trees and follows renames on both sides.
    """
    touched = [each.path for each in raw_changes(scratch.git, base, head)]
    if not touched:
        return Merged(method, onto, (), "nothing to do: no change")
    moved = {each.path for each in raw_changes(scratch.git, base, onto)}
    both = tuple(path for path in touched if path in moved)
    if method == "apply" and both:
        return Merged(method, None, both, f"changed since the base: {', '.join(map(repr, both[:20]))}")
    scratch.read_tree(onto)
    scratch.clear()
    if method == "cherry_pick":
        result = scratch.run_apart(
            "merge-recursive", base, "--", onto, head, check=False, timeout=LONG_TIMEOUT
        )
    else:
        result = _apply(scratch, base, head, touched if method == "apply_3way" else None)
    conflicts = tuple(scratch.unmerged())
    words = _words(result)
    if result.code == 0 and not conflicts:
        return Merged(method, scratch.write_tree(), (), words or "clean")
    return Merged(method, None, conflicts or both or tuple(touched), words)


def _apply(scratch: Scratch, base: str, head: str, three_way: Sequence[str] | None) -> GitResult:
    """``git apply`` in the private index; merging needs the touched files in a scratch working tree."""
    patch = scratch.folder / "patch"
    if not patch.exists():
        scratch.git.run(*patch_command(base, head), output=patch, timeout=LONG_TIMEOUT)
    command = ("apply", "--whitespace=nowarn", "-p1")
    if three_way is None:
        return scratch.run(*command, "--cached", str(patch), check=False, timeout=LONG_TIMEOUT)
    there = set(scratch.run("ls-files", "-z").fields)
    wanted = joined(path for path in three_way if path in there)
    scratch.run_apart("checkout-index", "-q", "-u", "-f", "-z", "--stdin", input=wanted)
    return scratch.run_apart(*command, "--3way", str(patch), check=False, timeout=LONG_TIMEOUT)


def _words(result: GitResult) -> str:
    words = result.words
    return words if len(words) <= MAX_OUTPUT else f"{words[:MAX_OUTPUT]} …"


def take_over(git: Git, before: str, after: str) -> str | None:
    """Bring index and files of working tree ``git.top`` from tree ``before`` to ``after``, or leave both.

    Returns what git said when local edits or untracked files are in the way.
    """
    said = _read_tree(git, before, after)
    if said is None:
        return None
    touched = [each.path for each in raw_changes(git, before, after)]
    if _overlapping(touched, git.dirty()):
        return said
    # Only the times of files differ from what the index knows: look at their contents and try again.
    run_owned(git, "update-index", "-q", "--refresh")
    return _read_tree(git, before, after)


def _read_tree(git: Git, before: str, after: str) -> str | None:
    try:
        run_owned(git, "read-tree", "-m", "-u", before, after)
    except GitError as error:
        if error.code is None or error.lock is not None:
            raise
        return str(error)
    return None


def _overlapping(touched: Sequence[str], dirty: Sequence[str]) -> list[str]:
    """Paths of ``touched`` that are, hold or lie in one of ``dirty``."""
    if not dirty:
        return []
    names = set(dirty)
    parents = {str(parent) for name in names for parent in PurePosixPath(name).parents}
    return [
        path
        for path in touched
        if path in names or path in parents or any(str(up) in names for up in PurePosixPath(path).parents)
    ]


def without(worktree: Path, change: Change, paths: Sequence[str]) -> Change:
    """``change`` without what it does to ``paths``: they are again as in its base. Changes no working tree."""
    drop = set(paths)
    with Scratch(Git(worktree)) as scratch:
        undo = [each for each in raw_changes(scratch.git, change.head_tree, change.base) if each.path in drop]
        # What has to go goes first: a file may stand where a folder was, or the other way round.
        gone = [f"0 {each.id_before}\t{each.path}" for each in undo if each.mode_before != NOTHING]
        back = [
            f"{each.mode_after} {each.id_after}\t{each.path}" for each in undo if each.mode_after != NOTHING
        ]
        scratch.read_tree(change.head_tree)
        scratch.run("update-index", "-z", "--index-info", input=joined([*gone, *back]))
        tree = scratch.write_tree()
        return diff(scratch.git, change.base, tree)


def apply_change(worktree: Path, change: Change, *, three_way: bool, dry: bool = False) -> ApplyResult:
    """Put ``change`` onto what the index of meshtui's ``worktree`` holds; HEAD stays where it is.

    With ``three_way`` a file that both sides changed is merged. Local edits survive: a change that
    touches them fails. A failure leaves working tree and index exactly as they were. ``dry``: only find out
    whether it goes together with what the index holds.
    """
    git = Git(worktree)
    linked(worktree)
    methods: tuple[Method, ...] = ("apply", "apply_3way") if three_way else ("apply",)
    with Scratch(git) as scratch:
        if not scratch.copy_own():
            scratch.read_tree("HEAD")
        unmerged = scratch.unmerged()
        if unmerged:
            return ApplyResult(False, tuple(unmerged), "the working tree holds an unfinished merge")
        onto = scratch.write_tree()
        for method in methods:
            found = merged(scratch, method, base=change.base, head=change.head_tree, onto=onto)
            if found.tree is not None:
                break
    if found.tree is None:
        return ApplyResult(False, found.conflicts, found.output)
    if dry:
        return ApplyResult(True, (), found.output, found.method)
    refused = take_over(git, onto, found.tree)
    if refused is not None:
        in_the_way = tuple(_overlapping(change.paths, git.dirty()))
        return ApplyResult(False, in_the_way or tuple(change.paths), refused)
    return ApplyResult(True, (), found.output, found.method)
