"""The pictures of every screen, dialog and form that an operator can get to, at every size."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fleets import fleet
from tests.support.scenes import FLEETS, IDS, LANES, SIZES, Scene, both, drawn
from tests.support.snapshots import compare


@pytest.mark.parametrize("size", SIZES, ids=IDS)
@pytest.mark.parametrize("name", LANES)
async def test_the_screens_of_a_lane(name: str, size: tuple[int, int], tmp_path: Path) -> None:
    compare(f"scene-{name}-{size[0]}x{size[1]}", await drawn(LANES[name], size), tmp_path)


@pytest.mark.parametrize("size", SIZES, ids=IDS)
@pytest.mark.parametrize("name", FLEETS)
async def test_the_screens_of_a_fleet(name: str, size: tuple[int, int], tmp_path: Path) -> None:
    compare(f"scene-fleet-{name}-{size[0]}x{size[1]}", await drawn(FLEETS[name], size), tmp_path)


# What the console is looked at most, on light terminals and where there are no colours.
MAIN = {
    "lane": Scene((), "Queue", LANES["withdraw"].view),
    "mission": Scene((), "Loops", both),
    "inbox": LANES["inbox"],
    "timeline": LANES["timeline"],
    "dialog": LANES["interrupt"],
    "form": LANES["enqueue-wrong"],
    "fleet": Scene((), "Lanes", lambda: fleet(12)),
}


@pytest.mark.parametrize("name", MAIN)
async def test_the_main_screens_on_light(name: str, tmp_path: Path) -> None:
    svg = await drawn(MAIN[name], (100, 30), theme="meshtui-light")
    compare(f"scene-{name}-light-100x30", svg, tmp_path)


@pytest.mark.parametrize("name", MAIN)
async def test_the_main_screens_without_colours(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    compare(f"scene-{name}-mono-100x30", await drawn(MAIN[name], (100, 30)), tmp_path)
