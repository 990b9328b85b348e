"""Private index files: states are worked out beside a working tree, without disturbing its own index.

All temporary files lie in the working tree's part of the repository (``.git/worktrees/<name>/``), so
that what a crash leaves behind goes with the working tree.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from meshtui.core import storage
from meshtui.core.errors import InvalidInput
from meshtui.core.vcs.git import LONG_TIMEOUT, Git, GitDirs, GitResult, dirs_of

NOTHING: Final = "000000"
"""The mode of what is not there."""
GITLINK: Final = "160000"
FULL_TREE: Final = ("core.sparseCheckout=false", "index.sparse=false")
"""Settings for meshtui's own working trees, which are whole even where the operator's is not."""


@dataclass(frozen=True, slots=True)
class RawChange:
    """One path that differs between two trees; a rename is two of them."""

    path: str
    mode_before: str
    mode_after: str
    id_before: str
    id_after: str


@dataclass(frozen=True, slots=True)
class WorkTree:
    """What a working tree holds now."""

    tree: str
    unsupported: tuple[str, ...]
    """Repositories inside the working tree and changed submodules: not part of ``tree``."""


def linked(path: Path) -> GitDirs:
    """The repository's folders of ``path``; raises :class:`InvalidInput` unless ``git worktree`` made it.

    Whoever changes a working tree asks here first: the operator's own checkout never passes, nor does a
    folder whose ``.git`` was removed or replaced.
    """
    dirs = dirs_of(path)
    try:
        line = storage.read_bytes(dirs.own / "gitdir", limit=1 << 14).rstrip(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        line = b""
    if not dirs.linked or not line or (dirs.own / os.fsdecode(line)).parent.resolve() != path.resolve():
        raise InvalidInput(
            f"{path}: not (or no longer) a working tree made by `git worktree add`; "
            "meshtui changes no other. `git worktree repair` restores a lost .git file"
        )
    return dirs


class Scratch:
    """A folder for a private index and a scratch working tree beside working tree ``git.top``."""

    def __init__(self, git: Git) -> None:
        self._dirs = linked(git.top)
        self.folder = self._dirs.own / f"meshtui-{secrets.token_hex(6)}"
        self.index = self.folder / "index"
        self.git = Git(
            git.top, timeout=git.timeout, lock_wait=git.lock_wait, env={"GIT_INDEX_FILE": str(self.index)}
        )
        """git in the working tree, with the private index."""
        self.tree = self.folder / "tree"
        """An empty working tree, for commands that cannot do without."""

    def __enter__(self) -> Self:
        storage.make_dir(self.folder)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        storage.remove_tree(self.folder)

    def run(self, *args: str, **options: Any) -> GitResult:
        """git in the working tree, with the private index and every path in view."""
        return self.git.run(*args, settings=FULL_TREE, **options)

    def clear(self) -> None:
        """Empty the scratch working tree."""
        if not storage.make_dir(self.tree):
            storage.remove_tree(self.tree)
            storage.make_dir(self.tree)

    def run_apart(self, *args: str, **options: Any) -> GitResult:
        """git in the scratch working tree (see :meth:`clear`), with the private index."""
        extra = {"GIT_DIR": str(self._dirs.own), "GIT_WORK_TREE": str(self.tree)}
        return self.run(*args, env_extra=extra, cwd=self.tree, **options)

    def read_tree(self, tree: str) -> None:
        """Fill the private index from ``tree``."""
        storage.remove_file(self.index)
        self.run("read-tree", tree)

    def write_tree(self) -> str:
        """The tree of the private index."""
        return self.run("write-tree").text

    def copy_own(self) -> bool:
        """Start from the working tree's own index; ``False`` if it has none.

        The copy keeps the time of the original: git takes a file for unchanged by comparing the two.
        """
        own = self._dirs.own / "index"
        for _ in range(100):
            try:
                before = own.stat()
                data = storage.read_bytes(own)
                after = own.stat()
            except FileNotFoundError:
                return False
            if (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns):
                break
        storage.write_new(self.index, data, durable=False)
        storage.touch(self.index, at_ns=before.st_mtime_ns)
        return True

    def unmerged(self) -> list[str]:
        """Paths that a merge left in conflict."""
        lines = self.run("ls-files", "-u", "-z").fields
        return list(dict.fromkeys(line.split("\t", 1)[1] for line in lines))


def raw_changes(git: Git, before: str, after: str) -> list[RawChange]:
    """What differs between two trees or commits, path by path."""
    fields = git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", before, after).fields
    changes = []
    for meta, path in zip(fields[::2], fields[1::2], strict=True):
        mode_before, mode_after, id_before, id_after, _status = meta.lstrip(":").split(" ")
        changes.append(RawChange(path, mode_before, mode_after, id_before, id_after))
    return changes


def is_below(path: str, folder: str) -> bool:
    """Whether ``path`` is ``folder`` or lies in it; ``.`` is everything."""
    return folder == "." or path == folder or path.startswith(folder + "/")


def read_work(scratch: Scratch, *, base: str, exclude: Sequence[str] = ()) -> WorkTree:
    """The tree of all that is in the working tree now, except ignored files and ``exclude``.

    Starts from the working tree's own index, so that a file which its worker added although it is ignored
    counts. Excluded paths are as in ``base``.
    """
    flags = clear_flags(scratch) if scratch.copy_own() else None
    if flags is None:
        scratch.read_tree(base)
        flags = clear_flags(scratch) or Flags()
    nested = [path for path in flags.submodules if _is_worked_in(scratch, path)]
    untracked = scratch.run("ls-files", "-o", "-z", "--exclude-standard").fields
    nested += [path.rstrip("/") for path in untracked if path.endswith("/")]
    _add_all(scratch, nested)
    tree = scratch.write_tree()
    changes = raw_changes(scratch.git, base, tree)
    links = [change.path for change in changes if GITLINK in (change.mode_before, change.mode_after)]
    unsupported = sorted({*nested, *links})
    excluded = [folder.strip("/") for folder in exclude]
    apart = [*excluded, *links]
    undone = [change for change in changes if any(is_below(change.path, folder) for folder in apart)]
    if undone:
        _undo(scratch, undone)
        tree = scratch.write_tree()
    unsupported = [path for path in unsupported if not any(is_below(path, each) for each in excluded)]
    return WorkTree(tree, tuple(unsupported))


@dataclass(frozen=True, slots=True)
class Flags:
    """What :func:`clear_flags` found."""

    submodules: tuple[str, ...] = ()
    left_out: bool = False
    """Whether a sparse checkout left files out."""


def clear_flags(scratch: Scratch) -> Flags | None:
    """Make git look at files it was told to take for unchanged; ``None`` if the index is damaged.

    A file that a sparse checkout left out (flagged and not there) stays as it is, and is told of.
    """
    assumed, skipped, submodules = [], [], []
    left_out = False
    listed = scratch.run("ls-files", "-v", "-s", "-z", check=False)
    if listed.code:
        return None
    for line in listed.fields:
        tag = line[0]
        entry, path = line[2:].split("\t", 1)
        if entry.startswith(GITLINK):
            submodules.append(path)
        if tag.islower():
            assumed.append(path)
        if tag in "Ss" and os.path.lexists(scratch.git.top / path):
            skipped.append(path)
        elif tag in "Ss":
            left_out = True
    for paths, flag in ((assumed, "--no-assume-unchanged"), (skipped, "--no-skip-worktree")):
        if paths:
            scratch.run("update-index", flag, "-z", "--stdin", input=joined(paths))
    return Flags(tuple(submodules), left_out)


def _is_worked_in(scratch: Scratch, submodule: str) -> bool:
    """Whether a submodule holds more than its commit: git passes over what lies in one."""
    folder = scratch.git.top / submodule
    if not folder.is_dir() or not any(folder.iterdir()):
        return False
    if not (folder / ".git").exists():
        return True
    shown = ("status", "--porcelain=v2", "-z", "--ignore-submodules=none", "--", submodule)
    return bool(scratch.run(*shown).out)


def joined(paths: Iterable[str]) -> bytes:
    """Paths as git reads them with ``-z``."""
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def _add_all(scratch: Scratch, nested: Sequence[str]) -> None:
    if not nested:
        scratch.run("add", "-A", timeout=LONG_TIMEOUT)
        return
    patterns = [":/", *(f":(top,exclude,literal){path}" for path in nested)]
    scratch.run(
        "add",
        "-A",
        "--pathspec-from-file=-",
        "--pathspec-file-nul",
        input=joined(patterns),
        env_extra={"GIT_LITERAL_PATHSPECS": "0"},
        timeout=LONG_TIMEOUT,
    )


def _undo(scratch: Scratch, changes: Sequence[RawChange]) -> None:
    """Put these paths of the private index back to what they were before."""
    gone = [change for change in changes if change.mode_before == NOTHING]
    back = [change for change in changes if change.mode_before != NOTHING]
    lines = [f"0 {'0' * len(change.id_before)}\t{change.path}" for change in gone]
    lines += [f"{change.mode_before} {change.id_before}\t{change.path}" for change in back]
    scratch.run("update-index", "--add", "--replace", "-z", "--index-info", input=joined(lines))
