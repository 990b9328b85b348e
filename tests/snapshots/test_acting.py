"""The pictures of finding and acting: a filter, an order, marks, questions about them, the menu, read-only."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshtui.app import MeshtuiApp
from meshtui.core.clock import ManualClock
from meshtui.core.run_dir import RunDir
from meshtui.core.view import LaneView
from meshtui.headless import _settle, picture
from tests.support.engine import FakeEngine
from tests.support.pilot import Console
from tests.support.snapshots import compare
from tests.support.views import NOW, lane

SIZES = ((60, 18), (80, 24), (120, 40), (200, 60))

FILTER = ("slash", *"engine:c docs age>5m", "enter")
MARKS = ("space", "space", "j", "space")
MARKED_AND_FILTERED = (*MARKS, "S", *FILTER[:1], *"US-015", "enter")

STATES: dict[str, tuple[str, ...]] = {
    "filter": FILTER,
    "filter-wrong": ("slash", *"status:paused risk:high tests"),
    "filter-nothing": ("slash", *"status:failed", "enter"),
    "sorted": ("S", "S", "S", "S"),
    "marks": MARKS,
    "withdraw-marks": (*MARKS, "w"),
    "head-marks": (*MARKS, "H"),
    "copy-menu": ("j", "y"),
    "edit": ("j", "E"),
}


async def draw(
    view: LaneView, keys: tuple[str, ...], size: tuple[int, int], *, read_only: bool = False, theme: str = ""
) -> str:
    """The screen after ``keys``."""
    app = MeshtuiApp(
        RunDir(view.run_dir), engine=FakeEngine(view), clock=ManualClock(NOW), read_only=read_only, still=True
    )
    app.animation_level = "none"
    async with app.run_test(size=size) as pilot:
        it = Console(app, pilot)
        await it.until(lambda: it.lane.view is not None, "a first view")
        if theme:
            app.theme = theme
        await it.press(*keys)
        if "E" in keys:
            await it.until(lambda: app.screen is not it.lane, "the form")
        await _settle(pilot)
        return picture(app, size)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", STATES)
async def test_finding_and_acting(name: str, size: tuple[int, int], tmp_path: Path) -> None:
    svg = await draw(lane(12, attention=2), STATES[name], size)
    compare(f"act-{name}-{size[0]}x{size[1]}", svg, tmp_path)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_read_only_is_seen(size: tuple[int, int], tmp_path: Path) -> None:
    svg = await draw(lane(12, attention=3), (), size, read_only=True)
    compare(f"act-read-only-{size[0]}x{size[1]}", svg, tmp_path)


async def test_marks_and_filter_on_light(tmp_path: Path) -> None:
    svg = await draw(lane(12, attention=2), MARKED_AND_FILTERED, (80, 24), theme="meshtui-light")
    compare("act-light-80x24", svg, tmp_path)


async def test_marks_and_filter_without_colours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    svg = await draw(lane(12, attention=2), MARKED_AND_FILTERED, (80, 24))
    compare("act-monochrome-80x24", svg, tmp_path)
