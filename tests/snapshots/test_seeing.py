"""The pictures of timeline, charts, graph and replay, byte for byte."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from meshtui.core.mesh.view import MissionView
from meshtui.headless import render_replay, render_svg
from meshtui.replay import Player
from meshtui.settings import Settings
from tests.snapshots.test_frames import SIZES
from tests.support.mission_screens import MERGE, loop, mission, only
from tests.support.recordings import recording
from tests.support.snapshots import compare
from tests.support.views import NOW

IDS = [f"{width}x{height}" for width, height in SIZES]
STATUSES = ("completed", "completed", "running", "blocked", "queued", "handoff")


def many(count: int) -> MissionView:
    """A mission of ``count`` loops in four layers, and the one that merges them."""
    names = [f"part-{number:02d}" for number in range(count - 1)]
    rows = [
        loop(
            name, STATUSES[number % len(STATUSES)],
            dependencies=(f"loop-{names[(number * 7) % (number - number % 8)]}",) if number >= 8 else (),
            started_at=NOW - 60_000 * (count - number), ended_at=NOW - 20_000 * (count - number),
        )
        for number, name in enumerate(names)
    ]  # fmt: skip
    return mission(*rows, replace(MERGE, dependencies=tuple(row.loop_id for row in rows)))


@pytest.mark.parametrize("size", SIZES, ids=IDS)
@pytest.mark.parametrize("screen", ["lane", "phases", "charts"])
def test_a_replayed_lane(screen: str, size: tuple[int, int], tmp_path: Path) -> None:
    svg = render_replay(Player(recording(mission=False)), size=size, screen=screen)
    compare(f"replay-{screen}-{size[0]}x{size[1]}", svg, tmp_path)


@pytest.mark.parametrize("size", SIZES, ids=IDS)
def test_the_graph(size: tuple[int, int], tmp_path: Path) -> None:
    svg = render_svg(only(mission()), size=size, now_ms=NOW, screen="graph")
    compare(f"graph-{size[0]}x{size[1]}", svg, tmp_path)


@pytest.mark.parametrize("size", SIZES, ids=IDS)
def test_the_graph_of_many_loops(size: tuple[int, int], tmp_path: Path) -> None:
    svg = render_svg(only(many(32)), size=size, now_ms=NOW, screen="graph")
    compare(f"graph-many-{size[0]}x{size[1]}", svg, tmp_path)


@pytest.mark.parametrize("size", SIZES, ids=IDS)
def test_the_budgets_of_a_mission(size: tuple[int, int], tmp_path: Path) -> None:
    svg = render_svg(only(mission()), size=size, now_ms=NOW, screen="charts")
    compare(f"charts-loops-{size[0]}x{size[1]}", svg, tmp_path)


def test_a_moment_in_the_middle(tmp_path: Path) -> None:
    made = recording()
    player = Player(made, at=(made.start + made.end) // 2)
    compare("replay-middle-120x40", render_replay(player, size=(120, 40)), tmp_path)
    assert render_replay(player, size=(120, 40)) == render_replay(player, size=(120, 40))


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (20, 8), (40, 12)])
@pytest.mark.parametrize("screen", ["lane", "phases", "charts", "timeline", "graph"])
def test_any_size_is_drawn(screen: str, size: tuple[int, int]) -> None:
    assert render_replay(Player(recording()), size=size, screen=screen).startswith("<svg")


@pytest.mark.parametrize("theme", ["meshtui-light", "meshtui-mono"])
@pytest.mark.parametrize("screen", ["phases", "charts", "graph"])
def test_light_and_without_colour(screen: str, theme: str, tmp_path: Path) -> None:
    svg = render_replay(Player(recording()), size=(100, 30), screen=screen, settings=Settings(theme=theme))
    compare(f"replay-{screen}-{theme}-100x30", svg, tmp_path)


def test_in_ascii(tmp_path: Path) -> None:
    svg = render_replay(
        Player(recording()), size=(100, 30), screen="graph", settings=Settings(glyphs="ascii")
    )
    compare("replay-graph-ascii-100x30", svg, tmp_path)
