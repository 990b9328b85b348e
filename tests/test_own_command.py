"""meshtui starts itself from where it lies: not installed, without PYTHONPATH, in a repository full of traps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from meshtui.core.own import own_command
from tests.support.missions import MISSION, Bench, git, node

ROOT = Path(__file__).parents[1]
TRAP = "raise SystemExit('the wrong code was imported')\n"


def bare(**more: str) -> dict[str, str]:
    """An environment that leads to no package."""
    return {**{key: value for key, value in os.environ.items() if key != "PYTHONPATH"}, **more}


@pytest.fixture
def trapped(tmp_path: Path) -> Path:
    """A folder whose files must not be imported."""
    folder = tmp_path / "traps"
    for name in ("meshtui", "core", "click", "json"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(TRAP)
        (folder / name / "__main__.py").write_text(TRAP)
    return folder


def test_it_names_this_checkout(trapped: Path) -> None:
    command = own_command("--version")
    assert command[1] == "-P"
    assert Path(command[2]).resolve() == ROOT / "meshtui" / "__main__.py"
    done = subprocess.run(command, cwd=trapped, env=bare(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "meshtui" in done.stdout


def test_another_meshtui_on_the_path_is_not_taken(trapped: Path) -> None:
    for name in ("core", "click", "json"):
        (trapped / name).rename(trapped / f"not-{name}")
    env = bare(PYTHONPATH=str(trapped))
    command = own_command("--version")
    done = subprocess.run(command, cwd="/", env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_only_the_package_becomes_importable() -> None:
    look = (
        "import atexit, sys; sys.argv = sys.argv[1:]; path = list(sys.path)\n"
        "atexit.register(lambda: print(sys.path == path))\n"
        "import runpy; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    start = own_command()[2]
    done = subprocess.run(
        [sys.executable, "-P", "-c", look, start, "--version"],
        cwd="/",
        env=bare(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[-1] == "True", done.stdout + done.stderr


def test_a_lane_runs_a_mission_and_a_runner_detaches(tmp_path: Path, trapped: Path) -> None:
    bench = Bench(tmp_path)
    bench.commands("echo x >> README.md")
    bench.configure()
    root = str(bench.run_dir.root)
    for arguments in (
        ("enqueue", "--prompt", "improve the readme", "--mode", "mesh", "--engine", "command"),
        ("lane", "--until-idle"),
    ):
        done = subprocess.run(
            own_command(*arguments, "--run-dir", root),
            cwd=trapped,
            env=bare(),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    (branch,) = git(bench.repo, "for-each-ref", "--format=%(refname)", "refs/heads/meshtui").splitlines()
    assert git(bench.repo, "show", f"{branch}:README.md") == "hi\nx"
    bench.plan(node("loop-a", "a/"))
    bench.commands("echo x >> a/one.txt")
    bench.configure()
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path; "
        "from meshtui.core.mesh.detach import start_detached_mission; "
        "from meshtui.core.mesh.paths import MissionPaths; from meshtui.core.run_dir import RunDir; "
        "run = RunDir(Path(sys.argv[2])); print(start_detached_mission(run, MissionPaths.of(run, sys.argv[3])))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(ROOT), root, MISSION],
        cwd=trapped,
        env=bare(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    told = subprocess.run(
        own_command("wait", MISSION, "--for", "done", "--timeout", "30", "--run-dir", root, "--json"),
        cwd=trapped,
        env=bare(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)
    assert bench.status("loop-a") == "completed"
