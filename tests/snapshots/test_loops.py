"""The pictures of missions, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshtui.core.errors import InvalidInput
from meshtui.headless import LOOP_SCREENS, render_svg
from tests.snapshots.test_frames import SIZES
from tests.support.mission_screens import mission, on_disk, only, with_missions
from tests.support.snapshots import compare
from tests.support.views import NOW, empty, lane


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", ["loops-and-queue", "loops-alone"])
def test_the_loops_at_every_size(name: str, size: tuple[int, int], tmp_path: Path) -> None:
    view = only(mission()) if name == "loops-alone" else with_missions(lane(12, attention=1), mission())
    svg = render_svg(view, size=size, now_ms=NOW, screen="loops", select="m7/loop-auth")
    compare(f"{name}-{size[0]}x{size[1]}", svg, tmp_path)


@pytest.mark.parametrize("size", [(60, 18), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_timeline(size: tuple[int, int], tmp_path: Path) -> None:
    svg = render_svg(only(mission()), size=size, now_ms=NOW, screen="timeline")
    compare(f"timeline-{size[0]}x{size[1]}", svg, tmp_path)


@pytest.mark.parametrize(
    "size", [(60, 18), (80, 24), (120, 36), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}"
)
@pytest.mark.parametrize("screen", ["gates", "proof", "findings", "log", "diff"])
def test_the_parts_of_a_loop(screen: str, size: tuple[int, int], tmp_path: Path) -> None:
    root = on_disk(tmp_path / "run")
    svg = render_svg(root, size=size, now_ms=NOW, screen=screen)
    assert str(tmp_path) not in svg
    compare(f"loop-{screen}-{size[0]}x{size[1]}", svg, tmp_path)


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (20, 8), (60, 18), (200, 60)])
@pytest.mark.parametrize("screen", LOOP_SCREENS)
def test_every_screen_is_drawn_at_any_size(screen: str, size: tuple[int, int], tmp_path: Path) -> None:
    root = on_disk(tmp_path, hostile=True)
    svg = render_svg(root, size=size, now_ms=NOW, screen=screen)
    assert svg.startswith("<svg")
    for character in ("\x1b", "\x07", "\u202e"):
        assert character not in svg


def test_loops_that_are_not_there_cannot_be_drawn() -> None:
    with pytest.raises(InvalidInput, match="no loops here"):
        render_svg(empty(), size=(80, 24), now_ms=NOW, screen="diff")
