"""The console over real run directories, with the real engine."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from meshtui.bridge import LaneEngine
from meshtui.core.clock import SystemClock
from meshtui.core.lane.lane import Lane
from meshtui.core.run_dir import RunDir
from meshtui.headless import render_svg
from meshtui.screens.confirm import Confirm
from meshtui.widgets.attention import NeedsYou
from meshtui.widgets.table import QueueTable
from tests.support.pilot import Console, console
from tests.support.views import NOW

SAMPLES = Path(__file__).parent.parent / "data" / "samples"


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDir:
    return RunDir(tmp_path / "lane")


def opened(run_dir: RunDir, command: str = "cat; echo '[/foo]'") -> dict[str, object]:
    """How to open a console on ``run_dir``."""
    engine = LaneEngine(run_dir, runner_options={"engine": "command", "run": command})
    return {"engine": engine, "run_dir": run_dir.root, "clock": SystemClock()}


@pytest.mark.parametrize("sample", sorted(path.name for path in SAMPLES.glob("lane-*")))
async def test_samples_of_other_tools_are_shown(sample: str, run_dir: RunDir) -> None:
    shutil.copytree(SAMPLES / sample, run_dir.root)
    async with console(**opened(run_dir)) as it:  # type: ignore[arg-type]
        await it.until(lambda: it.lane.view is not None and it.lane.view.complete)
        for _ in range(7):
            await it.press("l", "d")
        assert it.lane.view is not None
        assert it.lane.view.exists


@pytest.mark.parametrize("sample", sorted(path.name for path in SAMPLES.glob("lane-*")))
def test_samples_are_drawn_the_same_and_left_as_they_are(sample: str, run_dir: RunDir) -> None:
    shutil.copytree(SAMPLES / sample, run_dir.root)
    before = {path: path.read_bytes() for path in run_dir.root.rglob("*.json")}
    first = render_svg(run_dir.root, size=(120, 40), now_ms=NOW)
    assert render_svg(run_dir.root, size=(120, 40), now_ms=NOW) == first
    assert {path: path.read_bytes() for path in run_dir.root.rglob("*.json")} == before


async def test_a_parked_sample_is_answered_from_the_screen(run_dir: RunDir) -> None:
    shutil.copytree(SAMPLES / "lane-stall-twice-parks", run_dir.root)
    async with console(**opened(run_dir)) as it:  # type: ignore[arg-type]
        await it.until(lambda: it.lane.query_one(NeedsYou).items)
        await it.press("1")
        await it.until(lambda: it.lane.view is not None and not it.lane.view.stalled)
        await it.until_shown("slow is back at the head of the queue")
        assert it.lane.view is not None
        assert it.lane.view.pending[0].envelope_id == "slow"


async def enqueue_by_form(it: Console, prompt: str) -> None:
    await it.press("e")
    await it.press(*prompt)
    await it.press("ctrl+s")


async def test_from_an_empty_directory_to_a_finished_envelope(run_dir: RunDir) -> None:
    async with console(**opened(run_dir)) as it:  # type: ignore[arg-type]
        await it.until_shown("No lane here yet")
        await enqueue_by_form(it, "hello")
        await it.until(lambda: it.lane.view is not None and it.lane.view.counts.pending == 1)
        await it.press("s")
        await it.until(lambda: it.lane.view is not None and it.lane.view.counts.done == 1)
        while it.section != "done":
            await it.press("l")
        await it.press("d")
        await it.until_shown("[/foo]")
        assert "hello" in it.text()
        await it.press("q", "s")
        await it.until(lambda: it.app._exit)
    results = list(run_dir.lane.results.glob("*.json"))
    assert len(results) == 1
    assert json.loads(results[0].read_text())["status"] == "done"


async def test_kill_and_requeue_a_running_phase(run_dir: RunDir) -> None:
    async with console(**opened(run_dir, "echo started; sleep 600")) as it:  # type: ignore[arg-type]
        await enqueue_by_form(it, "long")
        await it.until(lambda: it.lane.view is not None and it.lane.view.counts.pending == 1)
        await it.press("s")
        await it.until(lambda: it.lane.view is not None and it.lane.view.active)
        await it.press("x", "y")
        await it.until_shown("no survivors")
        await it.until(lambda: it.lane.view is not None and it.lane.view.counts.failed == 1)
        await it.until(lambda: it.lane.query_one(NeedsYou).items)
        await it.press("1")
        await it.until(lambda: isinstance(it.app.screen, Confirm) or "is queued again" in it.text())
        if isinstance(it.app.screen, Confirm):
            # It came under the finger just now, and is asked about.
            await it.press("y")
        await it.until_shown("is queued again as number")
        await it.until(lambda: it.lane.view is not None and it.lane.view.active)
        await it.press("q", "s")
        await it.until(lambda: it.app._exit)
    assert len(list(run_dir.lane.pending.glob("*.json"))) == 1


async def test_changes_made_elsewhere_reach_the_screen(run_dir: RunDir) -> None:
    from meshtui.core.lane.create import create_run_dir

    create_run_dir(run_dir.root, SystemClock())
    other = Lane(run_dir)
    other.enqueue({"kind": "phase", "prompt": "a", "id": "first"})
    async with console(**opened(run_dir)) as it:  # type: ignore[arg-type]
        await it.until_shown("first")
        other.enqueue({"kind": "phase", "prompt": "a", "id": "second"})
        await it.until_shown("second")
        other.withdraw("first")
        await it.until(lambda: [row.envelope_id for row in it.lane.query_one(QueueTable).rows] == ["second"])
