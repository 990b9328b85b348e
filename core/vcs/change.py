"""What a worker changed: as one commit, as a list of files, as a patch, and against its scope."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast

from meshtui.core import storage
from meshtui.core.errors import InvalidInput
from meshtui.core.models.mesh import OwnerScope
from meshtui.core.vcs.git import LONG_TIMEOUT, Git, GitDirs, GitError
from meshtui.core.vcs.index import FULL_TREE, NOTHING, Scratch, clear_flags, is_below, linked, read_work

FileStatus = Literal["A", "M", "D", "R", "T"]
"""Added, modified, deleted, renamed, or of another type (file, symlink, submodule)."""

MAX_PATCH: Final = 4 << 20
"""Bytes of a patch kept in memory."""

_RENAMES: Final = ("--find-renames=50%", "-l4000")


@dataclass(frozen=True, slots=True)
class FileChange:
    """One changed file; paths are relative to the repository, ``/`` between parts."""

    path: str
    status: FileStatus
    old_path: str | None = None
    """Where a renamed file was."""
    mode_before: str | None = None
    """git's mode, e.g. ``100755``; ``None`` for a new file."""
    mode_after: str | None = None
    binary: bool = False
    insertions: int = 0
    deletions: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """What differs between two commits or trees."""

    base: str
    head_tree: str
    """The tree (or commit) it leads to."""
    files: tuple[FileChange, ...]
    patch: bytes
    """Unified diff with binaries, its first 4 MiB."""
    patch_bytes: int
    """Size of the whole patch."""
    insertions: int
    deletions: int

    @property
    def paths(self) -> list[str]:
        """Every path that is touched, both of a rename."""
        both = (path for file in self.files for path in (file.old_path, file.path))
        return sorted({path for path in both if path is not None})

    @property
    def patch_complete(self) -> bool:
        """Whether ``patch`` is the whole of it."""
        return len(self.patch) == self.patch_bytes


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a worker changed, as one commit on top of the base."""

    commit: str
    """The base itself when nothing differs."""
    tree: str
    change: Change
    unsupported: tuple[str, ...] = ()
    """Repositories inside the working tree and changed submodules: in the working tree only."""
    clashes: tuple[str, ...] = ()
    """New paths that some filesystems cannot tell from another one (case, Unicode form)."""


def snapshot(worktree: Path, *, base: str, message: str, exclude: Sequence[str] = ()) -> Snapshot:
    """Commit everything in ``worktree`` that differs from ``base``, without moving HEAD or its index.

    Edits, commits the worker made, staged and new files, deletions, modes and symlinks all count; ignored
    files and the paths in ``exclude`` (files or folders) do not. No branch points to the commit yet.
    Raises :class:`InvalidInput` unless ``worktree`` was made by ``git worktree``.
    """
    git = Git(worktree)
    linked(worktree)
    base = git.head_commit(base)
    with Scratch(git) as scratch:
        work = read_work(scratch, base=base, exclude=exclude)
        # Its own index may be damaged, and git reads the index even where it needs none.
        git = scratch.git
        change = diff(git, base, work.tree)
        commit = git.commit_tree(work.tree, parents=(base,), message=message) if change.files else base
        clashes = case_clashes(git, work.tree, change)
    return Snapshot(commit, work.tree, change, work.unsupported, clashes)


def diff(git: Git, a: str, b: str, *, max_patch: int = MAX_PATCH) -> Change:
    """What leads from commit or tree ``a`` to ``b``, with at most ``max_patch`` bytes of patch."""
    raw = git.run("diff-tree", "-r", "-z", "--raw", "--numstat", *_RENAMES, a, b, timeout=LONG_TIMEOUT)
    files = _parse(raw.fields)
    patch = git.run(*patch_command(a, b), keep=max_patch, timeout=LONG_TIMEOUT) if files else None
    return Change(
        base=a,
        head_tree=b,
        files=files,
        patch=patch.out if patch else b"",
        patch_bytes=patch.out_bytes if patch else 0,
        insertions=sum(file.insertions for file in files),
        deletions=sum(file.deletions for file in files),
    )


PATCH_FORM = (
    "--patch", "--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv",
    "--src-prefix=a/", "--dst-prefix=b/", *_RENAMES,
)  # fmt: skip
"""How a patch is written, whatever the user's settings are."""


def patch_command(a: str, b: str) -> tuple[str, ...]:
    """The git command that writes the patch from ``a`` to ``b``."""
    return ("diff-tree", "-r", *PATCH_FORM, a, b)


def _parse(fields: Sequence[str]) -> tuple[FileChange, ...]:
    """Read ``--raw --numstat -z``: first one entry a file, then the counts of each."""
    entries: list[tuple[str, str | None, str, str, str]] = []
    counts: dict[str, tuple[str, str]] = {}
    rest = iter(fields)
    for field in rest:
        if field.startswith(":"):
            mode_before, mode_after, _, _, status = field[1:].split(" ")
            old = next(rest) if status[0] in "RC" else None
            entries.append((next(rest), old, mode_before, mode_after, status[0]))
        else:
            added, removed, path = field.split("\t", 2)
            if not path:
                next(rest)
                path = next(rest)
            counts[path] = (added, removed)
    files = []
    for path, old, mode_before, mode_after, status in entries:
        added, removed = counts.get(path, ("0", "0"))
        binary = added == "-"
        files.append(
            FileChange(
                path=path,
                status=cast(FileStatus, status),
                old_path=old,
                mode_before=None if mode_before == NOTHING else mode_before,
                mode_after=None if mode_after == NOTHING else mode_after,
                binary=binary,
                insertions=0 if binary else int(added),
                deletions=0 if binary else int(removed),
            )
        )
    return tuple(files)


def outside(change: Change, scope: OwnerScope) -> list[str]:
    """Paths of ``change`` that ``scope`` does not own; both paths of a rename count."""
    owned = [_normal(entry) for entry in scope.entries if _normal(entry)]
    return [path for path in change.paths if not any(is_below(path, entry) for entry in owned)]


def _normal(entry: str) -> str:
    """A scope's entry without ``./`` and a closing ``/``; empty if it names nothing in the repository."""
    parts = [part for part in entry.split("/") if part not in ("", ".")]
    return "/".join(parts) or ("." if entry in (".", "./") else "")


def case_clashes(git: Git, tree: str, change: Change) -> tuple[str, ...]:
    """New paths in ``change`` that differ from another path of ``tree`` only by case or Unicode form."""
    new = {file.path for file in change.files if file.status in "AR"}
    if not new:
        return ()
    seen: dict[str, str] = {}
    clashing: set[str] = set()
    for path in sorted(git.tracked_files(tree), key=lambda each: each in new):
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            spelled = "/".join(parts[:depth])
            folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", spelled).casefold())
            if seen.setdefault(folded, spelled) != spelled and path in new:
                clashing.add(path)
    return tuple(sorted(clashing))


def reset_to(worktree: Path, commit: str, *, branch: str | None = None) -> list[str]:
    """Put meshtui's ``worktree`` exactly at ``commit`` and remove leftovers; ignored files stay.

    HEAD ends on ``branch``, which is moved there too, or detached; no other branch moves, whatever the
    worker had checked out. Returns what was changed or removed; save it first. Nobody may work there: see
    :func:`run_owned`.
    """
    git = Git(worktree)
    dirs = linked(worktree)
    commit = git.head_commit(commit)
    run_owned(git, "update-ref", "--no-deref", "-m", "meshtui: reset", "HEAD", commit)
    _end_unfinished(dirs)
    _prepare_index(git, dirs)
    changed = git.run("diff-index", "-z", "--name-only", "--no-renames", commit, settings=FULL_TREE).fields
    run_owned(git, "reset", "--hard", "--quiet", commit)
    left = git.run("ls-files", "-o", "-z", "--exclude-standard", settings=FULL_TREE).fields
    if left:
        git.run("clean", "-ffdq", settings=FULL_TREE, timeout=LONG_TIMEOUT)
    if branch is not None:
        git.run("update-ref", "-m", "meshtui: reset", f"refs/heads/{branch}", commit)
        run_owned(git, "symbolic-ref", "-m", "meshtui: reset", "HEAD", f"refs/heads/{branch}")
    return sorted({*changed, *left})


def _end_unfinished(dirs: GitDirs) -> None:
    """Forget a merge, rebase, pick or bisect that a worker left in the middle."""
    for name in ("rebase-merge", "rebase-apply", "sequencer"):
        if (dirs.own / name).is_dir():
            storage.remove_tree(dirs.own / name)
    for name in ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "BISECT_START"):
        storage.remove_file(dirs.own / name)


def _prepare_index(git: Git, dirs: GitDirs) -> None:
    """Make the working tree's own index tell the truth: no flags, no unreadable file, fresh times."""
    with Scratch(git) as scratch:
        flags = clear_flags(scratch) if scratch.copy_own() else None
        if flags is None or flags.left_out:
            scratch.read_tree("HEAD")
        else:
            scratch.run("update-index", "-q", "--unmerged", "--refresh", check=False)
        storage.move(scratch.index, dirs.own / "index", durable=False)


def run_owned(git: Git, *args: str) -> None:
    """Run a command that changes the own index or HEAD of meshtui's working tree, where nobody else works.

    A lock there that outlasts the whole wait was left by a git that was killed: it is removed.
    """
    own = linked(git.top).own
    for last in (False, True):
        try:
            git.run(*args, settings=FULL_TREE, timeout=LONG_TIMEOUT)
        except GitError as error:
            lock = error.lock
            if last or lock is None or lock.parent.resolve() != own:
                raise
            if lock.exists() and time.time() - lock.stat().st_mtime < git.lock_wait:
                raise
            storage.remove_file(lock)
        else:
            return


def require_clean(worktree: Path) -> None:
    """Raises :class:`InvalidInput` naming what differs from HEAD in ``worktree``."""
    dirty = Git(worktree).dirty()
    if dirty:
        raise InvalidInput(f"{worktree}: not clean: {', '.join(map(repr, dirty[:10]))}")
