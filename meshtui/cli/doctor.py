"""``meshtui doctor`` and ``meshtui trust``: whether this machine and directory can do the work."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from meshtui.cli.options import json_option, run_dir_option
from meshtui.cli.output import print_json, print_line
from meshtui.core.errors import InvalidInput, MeshtuiError, NotFound
from meshtui.core.run_dir import RunDir

if TYPE_CHECKING:
    from meshtui.core.config import Config


@click.command()
@run_dir_option
@json_option
def doctor(run_dir: Path, as_json: bool) -> int:
    """Check this machine, the run directory and the engines.

    Where there is no run directory yet, machine and engines are checked all the same; it ends with 3 then.
    """
    from meshtui.core.lane.create import git_top, open_run_dir, repo_of

    missing: NotFound | None = None
    checks = [_python(), _program("git", "git", "--version")]
    try:
        run = open_run_dir(run_dir)
        checks += [_folder(run.root), *_configuration(run, repo_of(run))]
    except NotFound as error:
        missing = error
        checks += _configuration(RunDir(run_dir), git_top(Path.cwd()))
    bad = [check for check in checks if not check["ok"]]
    if as_json:
        print_json({"ok": not bad and missing is None, "checks": checks})
    else:
        for check in checks:
            mark = "BAD" if not check["ok"] else "ok " if check.get("usable", True) else "-- "
            print_line(f"{mark}  {check['name']}: {check['text']}")
    if missing is not None:
        raise missing
    return 1 if bad else 0


def _check(name: str, ok: bool, text: str) -> dict[str, Any]:
    return {"name": name, "ok": ok, "text": text}


def _python() -> dict[str, Any]:
    return _check(
        "python", sys.version_info >= (3, 11), f"{platform.python_version()} on {platform.system()}"
    )


def _program(name: str, *command: str) -> dict[str, Any]:
    try:
        done = subprocess.run(command, capture_output=True, timeout=10, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        return _check(name, False, f"not usable: {error}")
    text = done.stdout.decode("utf-8", "replace").strip().partition("\n")[0]
    return _check(name, done.returncode == 0, text or f"exit {done.returncode}")


def _folder(root: Path) -> dict[str, Any]:
    """Whether the run directory's filesystem has what a lane needs: locks, renames, links."""
    from meshtui.core import storage

    trial = root / f".doctor-{os.getpid()}"
    try:
        storage.make_dir(trial)
        try:
            lock = storage.OsLock(trial / "lock", what="the trial")
            lock.acquire(1.0)
            lock.release()
            storage.create(trial / "a", b"x")
            storage.move(trial / "a", trial / "b")
        finally:
            storage.remove_tree(trial)
    except (MeshtuiError, OSError) as error:
        return _check("run directory", False, str(error))
    return _check("run directory", True, f"{root}: locks, renames and links work")


def _configuration(run_dir: RunDir, repo: Path | None) -> list[dict[str, Any]]:
    from meshtui.core.config import load_config
    from meshtui.core.models.envelope import ENGINES

    try:
        loaded = load_config(run_dir, repo, environ=os.environ)
    except MeshtuiError as error:
        return [_check("configuration", False, str(error))]
    found = [_check("configuration", True, "read")]
    for name in ENGINES:
        if name != "command":
            found.append(_agent(name, loaded.config))
            continue
        settings = loaded.config.engines.get(name)
        run = settings.run if settings is not None else None
        text = f"runs {run!r}" if run else "no command yet: [engines.command] run, or meshtui lane --run CMD"
        found.append(_check(f"engine {name}", True, text))
    return found


def _agent(name: str, config: Config) -> dict[str, Any]:
    """An agent as it stands here; bad only where the configuration says that it is used."""
    from meshtui.core.engines.check import check_agent

    known = check_agent(name, config.engines.get(name), os.environ)
    used = name in config.engines or (config.lane.engine == name and name in config.lane.model_fields_set)
    used = used or name == config.mesh.arbiter or any(domain.engine == name for domain in config.domains)
    return {
        **_check(f"engine {name}", known.usable or not used, known.text),
        "found": known.found,
        "version": known.version,
        "usable": known.usable,
    }


@click.command()
@click.option(
    "--repo", type=click.Path(path_type=Path), help="The repository (default: the one around this directory)."
)
@json_option
def trust(repo: Path | None, as_json: bool) -> None:
    """Allow the commands of a repository's meshtui.toml as it is now."""
    from meshtui.core.config import load_config
    from meshtui.core.lane.create import git_top
    from meshtui.core.trust import trust as remember

    top = git_top(repo or Path.cwd()) or repo
    if top is None:
        raise InvalidInput("no git repository here; name one with --repo")
    file = top / "meshtui.toml"
    if not file.is_file():
        raise InvalidInput(f"{file}: there is no such file to trust")
    loaded = load_config(RunDir(top / ".meshtui"), top, environ={})
    remember(file)
    if as_json:
        print_json(
            {
                "file": str(file),
                "commands": [{"key": key, "command": text} for key, text in loaded.repo_commands],
            }
        )
        return
    print_line(f"trusted {file} as it is now")
    for key, text in loaded.repo_commands:
        print_line(f"  {key}: {text}")
