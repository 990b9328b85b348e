"""Making and opening run directories."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from shlex import quote
from typing import Any

from meshtui.core import storage, strict_json
from meshtui.core.clock import Clock, iso
from meshtui.core.errors import InvalidInput, MeshtuiError, NotFound
from meshtui.core.lane.status import read_json
from meshtui.core.run_dir import RunDir

RUN_SCHEMA = "meshtui.run.v1"
GIT_SECONDS = 10


def git_top(directory: Path) -> Path | None:
    """The top level of the git repository around ``directory``, ``None`` if there is none (or no git)."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), "rev-parse", "--show-toplevel"],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    top = os.fsdecode(done.stdout.removesuffix(b"\n"))
    return Path(top) if done.returncode == 0 and top else None


def open_run_dir(root: Path) -> RunDir:
    """The run directory at ``root``; raises :class:`NotFound` if there is none."""
    root = absolute(root)
    if not root.is_dir():
        make = f"meshtui enqueue --run-dir {quote(str(root))} --prompt …"
        raise NotFound(f"no run directory {root}; make one with: {make}")
    return RunDir(root)


def absolute(root: Path) -> Path:
    """``root`` without ``..`` and relative parts; symlinks stay as they are."""
    return Path(os.path.abspath(root))  # noqa: PTH100 - resolve() would follow symlinks


def create_run_dir(
    root: Path, clock: Clock, *, lane_id: str | None = None, repo: Path | None = None
) -> RunDir:
    """The run directory at ``root``, made if it is missing; what another tool made stays as it is."""
    root = absolute(root)
    run_dir = RunDir(root)
    if run_dir.about.exists() or run_dir.lane.root.is_dir():
        return run_dir
    if (root / ".git").exists():
        raise InvalidInput(
            f"{root} is a git repository, not a run directory; name a folder of its own, e.g. {root / '.meshtui'}"
        )
    if root.exists() and not root.is_dir():
        raise InvalidInput(f"{root} is a file, not a run directory")
    fresh = not root.exists() or not any(root.iterdir())
    storage.make_dirs(root)
    if fresh:
        storage.write_atomic(root / ".gitignore", b"*\n")
    if repo is None:
        repo = git_top(Path.cwd())
    about = {
        "schema": RUN_SCHEMA,
        "lane_id": lane_id or root.name,
        "repo": str(absolute(repo)) if repo is not None else None,
        "created_at": iso(clock.now_ms()),
    }
    try:
        storage.create(run_dir.about, strict_json.dump_bytes(about, indent=2))
    except FileExistsError:
        # Somebody else was quicker: what they wrote holds.
        return run_dir
    return run_dir


def about_run_dir(run_dir: RunDir) -> dict[str, Any]:
    """What ``meshtui.json`` says, empty if there is none (another tool's directory)."""
    try:
        return read_json(run_dir.about) or {}
    except MeshtuiError as error:
        raise InvalidInput(f"{run_dir.about}: {error}; restore the file or remove it") from None


def lane_id_of(run_dir: RunDir, *, asked: str | None = None, configured: str | None = None) -> str:
    """The lane's id: as asked for, configured, recorded at creation, written by its runner, or the folder's name."""
    if asked or configured:
        return asked or configured or ""
    return recorded_id(run_dir) or _id_in(_status(run_dir)) or run_dir.root.name


def recorded_id(run_dir: RunDir) -> str | None:
    """The lane's id as it was recorded when the directory was made; it stays."""
    return _id_in(about_run_dir(run_dir))


def _id_in(value: dict[str, Any]) -> str | None:
    lane_id = value.get("lane_id")
    return lane_id if isinstance(lane_id, str) and lane_id else None


def _status(run_dir: RunDir) -> dict[str, Any]:
    try:
        return read_json(run_dir.lane.status) or {}
    except MeshtuiError:
        return {}


def repo_of(run_dir: RunDir, *, asked: Path | None = None) -> Path | None:
    """The repository of a run directory."""
    if asked is not None:
        return absolute(asked)
    repo = about_run_dir(run_dir).get("repo")
    return Path(repo) if isinstance(repo, str) and repo else None
