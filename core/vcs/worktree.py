"""Working trees of meshtui's own: making them, naming what is not saved, removing them without loss."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from meshtui.core import storage
from meshtui.core.errors import InvalidInput, MeshtuiError, WorkFailed
from meshtui.core.vcs.git import LONG_TIMEOUT, Git, GitError, git_version
from meshtui.core.vcs.index import FULL_TREE, NOTHING, Scratch, linked, raw_changes, read_work

_NAMED = 10


@dataclass(frozen=True, slots=True)
class Worktree:
    """One working tree of a repository."""

    path: Path
    commit: str
    """Where its HEAD is; zeros before the first commit, empty for a bare repository."""
    branch: str | None
    """The branch it stands on; ``None`` when detached."""
    main: bool = False
    """Whether it is the repository's own checkout."""
    locked: bool = False

    @property
    def missing(self) -> bool:
        """Whether its folder is gone, or on a disk that is not there now."""
        return not self.path.is_dir()


def list_worktrees(git: Git) -> list[Worktree]:
    """Every working tree of the repository, its own checkout first."""
    # git cannot list them while one is being made or removed.
    with git.exclusive():
        if git_version() >= (2, 36):
            parts = git.run("worktree", "list", "--porcelain", "-z").fields
        else:
            parts = [*git.run("worktree", "list", "--porcelain").text.split("\n"), ""]
    found: list[Worktree] = []
    entry: dict[str, str] = {}
    for part in parts:
        if part:
            key, _, value = part.partition(" ")
            entry[key] = value
        elif entry:
            found.append(
                Worktree(
                    path=Path(entry["worktree"]),
                    commit=entry.get("HEAD", ""),
                    branch=entry["branch"].removeprefix("refs/heads/") if "branch" in entry else None,
                    main=not found,
                    locked="locked" in entry,
                )
            )
            entry = {}
    return found


def branches_of_worktrees(git: Git) -> dict[str, Path]:
    """Which branch is checked out where."""
    return {entry.branch: entry.path for entry in list_worktrees(git) if entry.branch is not None}


def add(git: Git, path: Path, *, commit: str, branch: str | None, reuse: bool = False) -> Worktree:
    """Make working tree ``path`` at ``commit``, on new ``branch`` or detached.

    With ``reuse`` a working tree or a branch of that name which is there already is taken as it stands
    (``commit`` of the answer says where that is); else, and where something foreign is in the way, raises
    :class:`InvalidInput` naming it. When it fails, neither folder nor branch is left behind.
    """
    storage.make_dirs(path.parent)
    path = path.parent.resolve() / path.name
    with git.exclusive():
        entries = list_worktrees(git)
        known = next((entry for entry in entries if entry.path == path), None)
        if known is not None and known.missing:
            git.run("worktree", "remove", "--force", "--force", str(path))
            entries.remove(known)
            known = None
        if known is not None:
            return _taken(known, branch=branch, reuse=reuse)
        if os.path.lexists(path) and not (path.is_dir() and not any(path.iterdir())):
            raise InvalidInput(f"{path}: exists and is no working tree of {git.top}; move it away")
        return _make(git, path, entries, commit=commit, branch=branch, reuse=reuse)


def _taken(known: Worktree, *, branch: str | None, reuse: bool) -> Worktree:
    if not reuse:
        raise InvalidInput(f"{known.path}: a working tree is there already; use it again or remove it")
    linked(known.path)
    if known.branch != branch:
        standing = f"on branch {known.branch}" if known.branch else "detached"
        raise InvalidInput(
            f"{known.path}: is {standing}, not {branch or 'detached'}; remove it and try again"
        )
    return known


def _make(
    git: Git, path: Path, entries: Sequence[Worktree], *, commit: str, branch: str | None, reuse: bool
) -> Worktree:
    fresh = False
    if branch is not None:
        holder = next((entry for entry in entries if entry.branch == branch), None)
        if holder is not None:
            raise InvalidInput(
                f"branch {branch} is checked out at {holder.path}; remove that working tree, or switch it to another branch"
            )
        at = git.branch_commit(branch)
        if at is not None and not reuse:
            raise InvalidInput(
                f"branch {branch} exists already (at {at[:12]}) in {git.top}; use it again, or discard it"
            )
        if at is None:
            git.set_branch(branch, commit, old=None, reason="meshtui: new working tree")
            fresh = True
        commit = at or commit
    where = [str(path), branch] if branch is not None else ["--detach", str(path), commit]
    try:
        git.run("worktree", "add", "--quiet", *where, settings=FULL_TREE, timeout=LONG_TIMEOUT)
    except MeshtuiError as error:
        try:
            _forget(git, path, branch=branch if fresh else None, commit=commit)
        except (MeshtuiError, OSError) as second:
            error.add_note(f"cleaning up failed as well: {second}")
        raise
    return Worktree(path, commit, branch)


def _forget(git: Git, path: Path, *, branch: str | None, commit: str) -> None:
    """Remove what a failed attempt to make ``path`` left; the folder was missing or empty before."""
    if path.is_dir():
        storage.remove_tree(path)
    if any(entry.path == path for entry in list_worktrees(git)):
        git.run("worktree", "remove", "--force", "--force", str(path))
    if branch is not None:
        git.delete_branch(branch, old=commit)


def unsaved(path: Path, saved_commits: Iterable[str] = (), *, exclude: Sequence[str] = ()) -> list[str]:
    """What would be lost with working tree ``path``: paths, repositories inside it, commits on no branch.

    Content counts as saved if one of ``saved_commits`` or a branch or tag holds it. Ignored files and
    ``exclude`` do not count. Empty when the folder is gone.
    """
    if not path.is_dir():
        return []
    git = Git(path)
    try:
        linked(path)
    except InvalidInput:
        return ["everything in it (its .git file is gone or was replaced)"]
    saved = list(dict.fromkeys(saved_commits))
    head = git.head_or_none()
    bases = [*saved, *([head] if head else [])]
    with Scratch(git) as scratch:
        if not bases:
            return sorted(scratch.run("ls-files", "-z", "-c", "-o", "--exclude-standard").fields)
        work = read_work(scratch, base=bases[0], exclude=exclude)
        lost: set[str] | None = None
        for commit in bases:
            changes = raw_changes(scratch.git, commit, work.tree)
            differing = {each.path for each in changes if each.mode_after != NOTHING}
            lost = differing if lost is None else lost & differing
            if not lost:
                break
    names = sorted(lost or ())
    names += [f"{folder}/ (a repository of its own)" for folder in work.unsupported]
    if head is not None:
        names += _loose_commits(git, head, saved)
    return names


def _loose_commits(git: Git, head: str, saved: Sequence[str]) -> list[str]:
    """Commits only this working tree's HEAD leads to, unless a saved commit has the same files."""
    if git.current_branch() is not None or head in saved:
        return []
    tree = git.tree_of(head)
    if any(git.tree_of(commit) == tree for commit in saved):
        return []
    kept = ["--not", *saved, "--branches", "--tags", "--remotes"]
    listed = git.run("log", "-z", "--max-count=20", "--format=%h %s", head, *kept).out
    lines = [part.decode("utf-8", "replace").strip() for part in listed.split(b"\0")]
    return [f"commit {line}" for line in lines if line]


def remove(
    git: Git, path: Path, *, force: bool = False, saved: Iterable[str] = (), exclude: Sequence[str] = ()
) -> None:
    """Remove working tree ``path``; its branch stays. Nothing happens if there is none.

    Raises :class:`InvalidInput` naming what is not saved, unless ``force``. What somebody writes there in
    the meantime is not deleted: raises :class:`WorkFailed` naming it, and the working tree stays registered.
    """
    path = path.parent.resolve() / path.name
    known = next((entry for entry in list_worktrees(git) if entry.path == path), None)
    if known is None:
        if os.path.lexists(path):
            raise InvalidInput(f"{path}: no working tree of {git.top}; meshtui does not remove it")
        return
    if known.main:
        raise InvalidInput(f"{path}: the repository's own checkout is not meshtui's to remove")
    if not known.missing:
        seen = list(_walk(path))
        if not force:
            lost = unsaved(path, saved, exclude=exclude)
            if lost:
                raise InvalidInput(f"{path}: holds work that is saved nowhere else: {_some(lost)}")
        left = _delete(path, seen)
        if left:
            raise WorkFailed(
                f"{path}: kept, something still writes there: {_some(left)}; end it, then remove the rest"
            )
    with git.exclusive():
        try:
            git.run("worktree", "remove", "--force", "--force", str(path))
        except GitError:
            if any(entry.path == path for entry in list_worktrees(git)):
                raise


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(repr(name) for name in names[:_NAMED]) + more


def _walk(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Everything below ``folder``, what is in a folder before the folder itself."""
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path))
        try:
            yield entry.path, os.lstat(entry.path)
        except FileNotFoundError:
            continue


def _delete(path: Path, seen: Sequence[tuple[str, os.stat_result]]) -> list[str]:
    """Delete what was seen and is unchanged, ``.git`` last; names what is left."""
    link = str(path / ".git")
    for name, before in seen:
        if name == link:
            continue
        try:
            now = os.lstat(name)
        except FileNotFoundError:
            continue
        if stat.S_ISDIR(now.st_mode):
            storage.remove_dir(Path(name))
        elif _mark(now) == _mark(before):
            storage.remove_file(Path(name))
    left = [os.path.relpath(name, path) for name, state in _walk(path) if name != link]
    if left:
        return sorted(left)
    storage.remove_file(path / ".git")
    return [] if storage.remove_dir(path) else sorted(entry.name for entry in path.iterdir())


def _mark(state: os.stat_result) -> tuple[int, ...]:
    return (state.st_ino, state.st_size, state.st_mtime_ns, state.st_mode)
