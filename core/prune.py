"""Removing what finished work left behind: in ``calls/``, which nothing else ever lists, and in worktrees."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from meshtui.core import storage
from meshtui.core.calls import Call
from meshtui.core.errors import InvalidInput
from meshtui.core.lane.index import list_records
from meshtui.core.lane.rows import read_object
from meshtui.core.mesh.prune import PrunableWorktree, find_worktrees, needed_calls
from meshtui.core.run_dir import RunDir


@dataclass(frozen=True, slots=True)
class PrunableCall:
    """A call folder that nothing needs any more."""

    call_id: str
    size: int
    """Bytes of its files."""


@dataclass(frozen=True, slots=True)
class Prunable:
    """What may go and what stays."""

    calls: tuple[PrunableCall, ...]
    kept: tuple[str, ...]
    """Calls that live, or that an active or parked record, a proof or a loop's checkpoint names."""
    worktrees: tuple[PrunableWorktree, ...] = ()
    """Missions' working copies; those with ``refused`` stay."""


def find_prunable(run_dir: RunDir) -> Prunable:
    """Look which call folders belong to finished work."""
    needed = {
        str(call)
        for folder in ("active", "stalled", "pending")
        for name in list_records(run_dir.lane.folder(folder))
        if (call := (read_object(run_dir.lane.folder(folder) / name) or {}).get("call"))
    }
    needed |= needed_calls(run_dir)
    calls: list[PrunableCall] = []
    kept: list[str] = []
    try:
        folders = sorted(path for path in run_dir.calls.iterdir() if path.is_dir() and not path.is_symlink())
    except FileNotFoundError:
        folders = []
    for folder in folders:
        try:
            call = Call.attach(run_dir, folder.name)
        except InvalidInput:
            # Not a call: somebody else's folder is not ours to remove.
            continue
        if folder.name in needed or call.state() in ("starting", "running"):
            kept.append(folder.name)
        else:
            calls.append(PrunableCall(folder.name, _size(folder)))
    return Prunable(tuple(calls), tuple(kept), tuple(find_worktrees(run_dir)))


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def remove_calls(run_dir: RunDir, found: Prunable) -> list[str]:
    """Remove the folders of ``found.calls``; their names."""
    removed = []
    for call in found.calls:
        storage.remove_tree(run_dir.calls / call.call_id)
        removed.append(call.call_id)
    return removed
