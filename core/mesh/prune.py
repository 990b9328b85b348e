"""What missions leave behind that nothing needs any more: working copies, and the calls that must stay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meshtui.core.calls import Call
from meshtui.core.clock import SystemClock
from meshtui.core.errors import InvalidInput, MeshtuiError
from meshtui.core.lane.lease import Lease, holder
from meshtui.core.mesh.files import load_plan, read_json
from meshtui.core.mesh.paths import MissionPaths
from meshtui.core.mesh.places import worktrees_of
from meshtui.core.mesh.service import configuration
from meshtui.core.models.mesh import Plan
from meshtui.core.run_dir import RunDir
from meshtui.core.vcs import worktree as trees
from meshtui.core.vcs.git import Git


@dataclass(frozen=True, slots=True)
class PrunableWorktree:
    """A working copy of a mission."""

    mission_id: str
    path: Path
    size: int
    """Bytes of its files."""
    refused: str | None = None
    """Why it stays: somebody works there, or it holds what is saved nowhere else."""


def needed_calls(run_dir: RunDir) -> set[str]:
    """Calls that a mission's proof names, or that a loop may still go on from."""
    found: set[str] = set()
    for paths in _missions(run_dir):
        for file in (*paths.root.glob("*/loop-proof.json"), *paths.root.glob("*/checkpoint-latest.json")):
            found |= _calls_in(_read(file))
        found |= _calls_in(_read(paths.arbiter))
    return found


def _missions(run_dir: RunDir) -> Iterator[MissionPaths]:
    if run_dir.missions.is_dir():
        for folder in sorted(run_dir.missions.iterdir()):
            yield MissionPaths.of(run_dir, folder.name)


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_json(path) or {}
    except InvalidInput:
        return {}


def _calls_in(value: dict[str, Any]) -> set[str]:
    """The calls of a proof, a checkpoint or a verdict."""
    progress = value.get("meshtui")
    inner = progress if isinstance(progress, dict) else {}
    evidence = [*(value.get("evidence") or []), *(inner.get("evidence") or [])]
    calls = [item.get("call") for item in evidence if isinstance(item, dict)]
    named = value.get("calls")
    calls += [value.get("call"), *(named.values() if isinstance(named, dict) else ())]
    return {call for call in calls if isinstance(call, str)}


def find_worktrees(run_dir: RunDir) -> list[PrunableWorktree]:
    """The working copies of the run directory's missions, with what keeps them."""
    found = []
    for paths in _missions(run_dir):
        try:
            plan = load_plan(paths)
        except MeshtuiError:
            continue
        if plan.repo is None or not Path(plan.repo).is_dir():
            continue
        git = Git(Path(plan.repo))
        root = _root(run_dir, plan)
        busy = holder(paths, SystemClock()).alive
        for entry in trees.list_worktrees(git):
            if not entry.main and not entry.missing and entry.path.is_relative_to(root):
                why = "its mission is at work" if busy else _why(run_dir, paths, plan, entry.path)
                found.append(PrunableWorktree(paths.mission_id, entry.path, _size(entry.path), why))
    return found


def _root(run_dir: RunDir, plan: Plan) -> Path:
    assert plan.repo is not None
    return (
        worktrees_of(configuration(run_dir, Path(plan.repo)).config, Path(plan.repo)).resolve()
        / plan.mission_id
    )


def _why(run_dir: RunDir, paths: MissionPaths, plan: Plan, place: Path) -> str | None:
    loop = next((n.loop_id for n in plan.graph.nodes if place.name.partition(".")[0] == n.loop_id), None)
    loop = loop or next((n.loop_id for n in plan.graph.nodes if place.name.startswith(f"{n.loop_id}.")), None)
    checkpoint = _read(paths.loop(loop).checkpoint) if loop is not None else {}
    for call_id in (checkpoint.get("calls") or {}).values():
        if Call.attach(run_dir, call_id).state() in ("starting", "running"):
            return f"call {call_id} lives"
    lost = trees.unsaved(place, _saved(checkpoint, plan))
    return f"not saved elsewhere: {', '.join(lost[:5])}" if lost else None


def _saved(checkpoint: dict[str, Any], plan: Plan) -> list[str]:
    progress = checkpoint.get("meshtui")
    candidate = progress.get("candidate") if isinstance(progress, dict) else None
    return [commit for commit in (candidate, plan.base_commit) if isinstance(commit, str)]


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def remove_worktrees(run_dir: RunDir, found: list[PrunableWorktree]) -> list[Path]:
    """Remove those that nothing keeps; raises :class:`Held` or :class:`InvalidInput` if that changed since."""
    removed = []
    for item in found:
        if item.refused is not None:
            continue
        paths = MissionPaths.of(run_dir, item.mission_id)
        plan = load_plan(paths)
        with Lease(paths, SystemClock(), what=f"mission {item.mission_id}") as lease:
            lease.acquire(stand_in=True)
            why = _why(run_dir, paths, plan, item.path)
            if why is not None:
                raise InvalidInput(f"{item.path}: {why}; look at it, then prune again")
            trees.remove(Git(Path(str(plan.repo))), item.path, force=True)
        removed.append(item.path)
    return removed
