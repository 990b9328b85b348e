"""The console on a real repository: a mission is planned, run, verified and landed from its keys."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from meshtui.bridge import LaneEngine
from meshtui.core.clock import SystemClock
from meshtui.core.mesh.detail import Diff
from meshtui.core.run_dir import RunDir
from meshtui.screens.confirm import Confirm
from meshtui.screens.plan import PlanForm, PlanPreview
from tests.support.pilot import Console, console

MAKER = """import pathlib
for path in pathlib.Path("src").rglob("*.py"):
    path.write_text(path.read_text() + "y = 2\\n")
"""


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run directory for a small repository, with programs for makers and checkers."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    repo = tmp_path / "repo"
    (repo / "src").mkdir(parents=True)
    (repo / "src" / "app.py").write_text("x = 1\n")
    for command in (
        ["init", "-q", "-b", "main"],
        ["add", "-A"],
        ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "first"],
    ):
        subprocess.run(["git", "-C", str(repo), *command], check=True)
    (tmp_path / "maker.py").write_text(MAKER)
    root = tmp_path / "run"
    root.mkdir()
    (root / "meshtui.toml").write_text(
        '[lane]\nengine = "command"\n[engines.command]\n'
        f"maker = ['{sys.executable}', '{tmp_path / 'maker.py'}']\n"
        "checker = 'echo fine'\narbiter = 'echo \"{}\"'\n"
        "[gates.check]\ncommand = 'echo all good'\nstage = 'local'\n"
    )
    from meshtui.core.lane.create import create_run_dir

    create_run_dir(root, SystemClock(), repo=repo)
    return root


async def until(it: Console, condition: object, what: str) -> None:
    """Wait longer than for a key: programs run."""
    for _ in range(6):
        try:
            await it.until(condition, what)  # type: ignore[arg-type]
        except AssertionError:
            continue
        return
    raise AssertionError(f"never: {what}\n{it.text()}")


async def test_a_request_becomes_a_landed_commit(run_dir: Path) -> None:
    engine = LaneEngine(RunDir(run_dir))
    async with console(engine=engine, run_dir=run_dir, clock=SystemClock()) as it:
        await it.press("n")
        assert isinstance(it.app.screen, PlanForm)
        await it.press(*"change src", "ctrl+s")
        await until(it, lambda: isinstance(it.app.screen, PlanPreview), "a preview")
        assert not (run_dir / "calls").exists() or not any((run_dir / "calls").iterdir())
        await it.press("s")
        await until(
            it,
            lambda: it.lane.mission is not None and it.lane.mission.state == "done",
            "a mission that is done",
        )
        await until(it, lambda: it.lane.missions_here == (), "its runner gone")
        pane = it.lane.loop_pane
        assert pane is not None
        pane.choose("diff")
        await until(it, lambda: isinstance(pane.read.get("diff"), Diff), "a diff")
        await it.until_shown("+ y = 2")
        await it.press("v")
        await until(it, lambda: bool(pane.checks), "a verified proof")
        assert all(check.verdict != "mismatch" for checks in pane.checks.values() for check in checks)
        await it.until_shown("the proof holds")
        await it.press("escape", "l")
        assert isinstance(it.app.screen, Confirm)
        await it.press("y")
        repo = run_dir.parent / "repo"
        await until(it, lambda: "y = 2" in (repo / "src" / "app.py").read_text(), "the landed change")
