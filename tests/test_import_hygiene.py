"""The engine loads nothing that draws, and the command line only where it opens the console."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def loaded_after(code: str, *arguments: str) -> set[str]:
    """The modules that are loaded in a fresh Python after ``code``."""
    done = python("-c", f"{code}\nimport sys\nprint('\\n'.join(sys.modules), file=sys.stderr)", *arguments)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


EVERY_MODULE = """
import importlib, pkgutil
import meshtui.core
for found in pkgutil.walk_packages(meshtui.core.__path__, "meshtui.core."):
    importlib.import_module(found.name)
"""


def test_the_engine_draws_nothing() -> None:
    loaded = loaded_after(EVERY_MODULE)
    assert {"meshtui.core.lane.runner", "meshtui.core.watch"} <= loaded
    assert not loaded & {"textual", "rich", "click"}
    ours = {name for name in loaded if name == "meshtui" or name.startswith("meshtui.")}
    assert all(name == "meshtui" or name.startswith("meshtui.core") for name in ours)


RUN = """
import sys
from meshtui.cli import run
assert run(sys.argv[1:]) == 0
"""


@pytest.mark.parametrize(
    "command",
    [
        ("status",),
        ("status", "--json"),
        ("events",),
        ("enqueue", "--prompt", "two", "--engine", "command"),
        ("lane", "--until-idle", "--run", "cat"),
        ("wait", "lane", "--timeout", "5", "--for", "waiting"),
    ],
    ids=" ".join,
)
def test_commands_without_a_screen_load_none(tmp_path: Path, command: tuple[str, ...]) -> None:
    run_dir = str(tmp_path / "run")
    assert python("-m", "meshtui", "enqueue", "--run-dir", run_dir, "--prompt", "one").returncode == 0
    if command[0] == "wait":
        # A lane has a state from its first runner on.
        done = python("-m", "meshtui", "lane", "--until-idle", "--run", "cat", "--run-dir", run_dir)
        assert done.returncode == 0, done.stderr
    loaded = loaded_after(RUN, *command, "--run-dir", run_dir)
    assert "click" in loaded
    assert not loaded & {"textual", "rich"}


def test_status_loads_no_runner(tmp_path: Path) -> None:
    run_dir = str(tmp_path / "run")
    assert python("-m", "meshtui", "enqueue", "--run-dir", run_dir, "--prompt", "one").returncode == 0
    loaded = loaded_after(RUN, "status", "--json", "--run-dir", run_dir)
    assert not loaded & {"meshtui.core.lane.runner", "meshtui.app", "meshtui.demo.work"}


@pytest.mark.parametrize("name", ["core", "core.storage"])
def test_a_second_copy_of_the_engine_is_refused(name: str) -> None:
    done = python("-c", f"import {name}")
    assert done.returncode == 1
    assert done.stderr.strip().endswith("ImportError: import meshtui.core, not core")


def test_the_first_frame_does_not_wait_for_what_it_does_not_need() -> None:
    loaded = loaded_after("import meshtui.app")
    assert not loaded & {
        "pydantic",
        "meshtui.core.config",
        "meshtui.core.lane.runner",
        "meshtui.screens.fleet",
    }
