"""``discard`` and ``prune`` from the console: what is lost is named first, and only a yes does it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from meshtui import receipts
from meshtui.core.mesh.places import mission_places
from meshtui.core.mesh.prune import PrunableWorktree
from meshtui.core.mesh.view import MissionReader
from meshtui.core.prune import Prunable, PrunableCall
from meshtui.core.vcs.merge import Discard
from meshtui.core.view import RunnerView
from meshtui.missions import MeshMissions
from meshtui.screens.confirm import Confirm
from meshtui.screens.lane import LaneScreen
from tests.support.engine import FakeEngine
from tests.support.mission_screens import done_mission, mission, with_missions
from tests.support.missions import MISSION, Bench, git, node
from tests.support.pilot import console
from tests.support.views import lane

LOST = Discard(
    {"meshtui/m7": "a" * 40, "meshtui-loops/m7/loop-auth": "b" * 40},
    (Path("/trees/m7/loop-auth"),),
    ("commit bbbbbbb on meshtui-loops/m7/loop-auth: half a login",),
)
LEFT = Prunable(
    (PrunableCall("c1", 1000), PrunableCall("c2", 234)),
    ("c3",),
    (
        PrunableWorktree("m7", Path("/trees/m7/loop-docs"), 50),
        PrunableWorktree("m7", Path("/trees/m7/loop-auth"), 60, "not saved elsewhere: x"),
    ),
)


@pytest.mark.parametrize("size", [(60, 18), (120, 40)])
@pytest.mark.parametrize("answer", ["y", "n"])
async def test_discard_names_what_is_lost(answer: str, size: tuple[int, int]) -> None:
    engine = FakeEngine(with_missions(lane(1), replace(done_mission(), runner=RunnerView())))
    engine.the_missions.lost = LOST
    async with console(engine=engine, size=size) as it:
        await it.press("shift+tab", "delete")
        await it.until(lambda: isinstance(it.app.screen, Confirm))
        shown = it.text()
        assert "Discard mission m7?" in shown
        assert "commit bbbbbbb" in shown
        assert not [call for call in engine.the_missions.calls if call[0] == "discard"]
        await it.press(answer)
        await it.until(lambda: isinstance(it.app.screen, LaneScreen))
        if answer == "y":
            await it.until(lambda: ("discard", "m7", LOST) in engine.the_missions.calls)
            await it.until_shown("2 branches and 1 working copy removed")
        else:
            assert not [call for call in engine.the_missions.calls if call[0] == "discard"]


async def test_nothing_to_discard_asks_nothing() -> None:
    engine = FakeEngine(with_missions(lane(1), replace(done_mission(), runner=RunnerView())))
    async with console(engine=engine) as it:
        await it.press("shift+tab", "delete")
        await it.until_shown("has no branches and working copies any more")
        assert isinstance(it.app.screen, LaneScreen)


async def test_a_mission_at_work_is_not_discarded() -> None:
    engine = FakeEngine(with_missions(lane(1), mission()))
    async with console(engine=engine) as it:
        await it.press("shift+tab", "delete")
        await it.until_shown("is running: X kills its loops first")
        assert not engine.the_missions.calls


@pytest.mark.parametrize("answer", ["y", "n"])
async def test_prune_names_what_goes_and_what_stays(answer: str) -> None:
    engine = FakeEngine(with_missions(lane(1), mission()))
    engine.the_missions.left_behind = LEFT
    async with console(engine=engine) as it:
        await it.press("C")
        await it.until(lambda: isinstance(it.app.screen, Confirm))
        dialog = it.app.screen
        assert isinstance(dialog, Confirm)
        assert "Prune this run directory?" in it.text()
        shown = dialog.loss
        assert "2 finished calls are lost (1,234 bytes)" in shown
        assert "/trees/m7/loop-docs (50 bytes)" in shown
        assert "not saved elsewhere: x" in shown
        await it.press(answer)
        await it.until(lambda: isinstance(it.app.screen, LaneScreen))
        done = ("prune", LEFT)
        if answer == "y":
            await it.until(lambda: done in engine.the_missions.calls)
            await it.until_shown("2 calls and 1 working copy removed")
        else:
            assert done not in engine.the_missions.calls


async def test_a_console_that_only_looks_removes_nothing() -> None:
    engine = FakeEngine(with_missions(lane(1), done_mission()))
    async with console(engine=engine, read_only=True) as it:
        await it.press("shift+tab", "delete", "C")
        await it.until_shown("read-only")
        assert not engine.the_missions.calls


def test_long_lists_are_cut() -> None:
    many = Discard({f"b{n}": "c" * 40 for n in range(30)}, (), tuple(f"commit {n}" for n in range(30)))
    _question, loss = receipts.would_discard("m1", many)
    assert loss is not None
    assert loss.count("\n") < 30
    assert loss.count("and 22 more") == 2
    assert receipts.would_prune(Prunable((), ("c",), ()))[1] is None


def test_for_real(tmp_path: Path) -> None:
    """The operations behind the keys, on a mission whose result was not landed."""
    bench = Bench(tmp_path)
    bench.commands("echo x >> a/one.txt")
    kept = node("loop-a", "a/")
    kept.worktree.cleanup = "always-keep"
    bench.plan(kept)
    assert bench.run().state == "done"
    bench.configure()
    operations = MeshMissions(bench.run_dir)
    (paths,) = mission_places(bench.run_dir)
    view = MissionReader(paths).refresh()
    before = operations.prunable()
    assert {item.path.name for item in before.worktrees} == {"loop-a"}
    assert before.calls == ()
    assert operations.prune(before) == (0, 1)
    assert operations.prune(before) == (0, 0)
    found = operations.losses(view)
    assert set(found.branches) == {f"meshtui/{MISSION}", f"meshtui-loops/{MISSION}/loop-a"} | {
        name for name in found.branches if "integration" in name
    }
    assert found.lost
    operations.discard(view, found)
    assert git(bench.repo, "for-each-ref", "refs/heads/meshtui", "refs/heads/meshtui-loops") == ""
    assert receipts.would_discard(MISSION, operations.losses(view))[1] is None
    assert bench.untouched()
