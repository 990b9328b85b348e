"""Where missions are: in a run directory, under a repository's ``.sneakoscope``, or the directory itself."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from meshtui.core.errors import MeshtuiError
from meshtui.core.lane.create import repo_of
from meshtui.core.mesh.files import read_json
from meshtui.core.mesh.paths import MissionPaths
from meshtui.core.models.mesh_names import is_mesh_id
from meshtui.core.run_dir import RunDir

if TYPE_CHECKING:
    # Whoever only looks need not wait for the models.
    from meshtui.core.config import Config

FOREIGN = Path(".sneakoscope") / "missions"


def mission_places(run_dir: RunDir) -> list[MissionPaths]:
    """The missions that belong to a directory, oldest plan first; of two with one name meshtui's own counts."""
    found: dict[str, tuple[int, MissionPaths]] = {}
    if not run_dir.missions.is_dir() and (run_dir.root / "loops" / "loop-plan.json").is_file():
        return [MissionPaths(run_dir.root / "loops", _own_name(run_dir.root))]
    for folder in _folders(run_dir):
        try:
            names = sorted(path.name for path in folder.iterdir() if is_mesh_id(path.name))
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        for name in names:
            paths = MissionPaths(folder / name / "loops", name)
            try:
                written = paths.plan.stat().st_mtime_ns
            except OSError:
                continue
            found.setdefault(name, (written, paths))
    return [paths for _, paths in sorted(found.values(), key=lambda item: (item[0], item[1].mission_id))]


def _own_name(root: Path) -> str:
    """What the plan calls the mission whose folder may have been renamed."""
    try:
        name = (read_json(root / "loops" / "loop-plan.json") or {}).get("mission_id")
    except MeshtuiError:
        name = None
    return name if isinstance(name, str) and is_mesh_id(name) else root.name


def _folders(run_dir: RunDir) -> list[Path]:
    folders = [run_dir.missions, run_dir.root / FOREIGN]
    repo = repo_of(run_dir) if run_dir.about.exists() else None
    if repo is not None:
        folders.append(repo / FOREIGN)
    return list(dict.fromkeys(folders))


def worktrees_of(config: Config, repo: Path) -> Path:
    """Where worktrees of ``repo`` stand; ``[mesh] worktrees`` is relative to it, and ``~`` is one's home."""
    named = config.mesh.worktrees
    if not named:
        return default_worktrees(repo)
    home, _, rest = named.partition("/")
    return Path(os.path.normpath(Path.home() / rest if home == "~" else repo / named))


def default_worktrees(repo: Path) -> Path:
    """``$XDG_STATE_HOME/meshtui/worktrees/<hash of the repo>/``."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    key = hashlib.sha256(os.fsencode(os.path.realpath(repo))).hexdigest()[:12]
    return Path(state) / "meshtui" / "worktrees" / key
