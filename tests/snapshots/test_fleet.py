"""The pictures of a fleet and of the inbox, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshtui.core.errors import InvalidInput
from meshtui.core.fleet import FleetView
from meshtui.headless import render_fleet_svg, render_svg
from tests.snapshots.test_frames import SIZES
from tests.support.fleets import ROOT, crowd, facts, fleet
from tests.support.snapshots import compare
from tests.support.views import NOW, lane

NAMES = {"fleet": fleet(12), "crowd": crowd(30), "calm": FleetView.of(fleet(32).lanes[-12:], places=(ROOT,)),
         "nothing": FleetView((), (), True, (ROOT,))}  # fmt: skip


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("screen", ["fleet", "inbox"])
def test_the_screens_at_every_size(screen: str, size: tuple[int, int], tmp_path: Path) -> None:
    svg = render_fleet_svg(NAMES["fleet"], size=size, now_ms=NOW, screen=screen, evidence=facts)
    compare(f"fleet-{screen}-{size[0]}x{size[1]}", svg, tmp_path)


@pytest.mark.parametrize("name", ["crowd", "calm", "nothing"])
def test_other_fleets(name: str, tmp_path: Path) -> None:
    svg = render_fleet_svg(NAMES[name], size=(80, 24), now_ms=NOW, evidence=facts)
    compare(f"fleet-{name}-80x24", svg, tmp_path)


@pytest.mark.parametrize("theme", ["meshtui-light", "meshtui-mono"])
def test_in_other_colours(theme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meshtui.app.theme_for", lambda *_: theme)
    svg = render_fleet_svg(NAMES["fleet"], size=(120, 40), now_ms=NOW, evidence=facts)
    compare(f"fleet-{theme}-120x40", svg, tmp_path)


def test_the_inbox_of_one_lane(tmp_path: Path) -> None:
    svg = render_svg(lane(3, attention=4), size=(100, 30), now_ms=NOW, screen="inbox")
    compare("inbox-one-lane-100x30", svg, tmp_path)


def test_the_same_input_gives_the_same_picture() -> None:
    first = render_fleet_svg(NAMES["fleet"], size=(120, 40), now_ms=NOW, evidence=facts)
    assert render_fleet_svg(NAMES["fleet"], size=(120, 40), now_ms=NOW, evidence=facts) == first


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (40, 5)])
def test_any_size_is_drawn(size: tuple[int, int]) -> None:
    for screen in ("fleet", "inbox"):
        assert render_fleet_svg(NAMES["fleet"], size=size, now_ms=NOW, screen=screen).startswith("<svg")


def test_an_unknown_screen_is_refused() -> None:
    with pytest.raises(InvalidInput, match="inbox"):
        render_fleet_svg(NAMES["nothing"], size=(20, 5), now_ms=NOW, screen="queue")
