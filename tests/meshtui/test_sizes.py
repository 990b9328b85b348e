"""Any size is drawn: nothing crashes, nothing scrolls sideways, what matters most stays."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from meshtui.widgets.table import QueueTable
from tests.support.pilot import console
from tests.support.views import lane

SIZES = [(1, 1), (2, 2), (5, 3), (10, 5), (20, 8), (30, 60), (59, 17), (60, 18), (70, 20), (80, 24), (99, 30), (100, 8),
         (120, 40), (200, 1), (1, 60), (200, 60)]  # fmt: skip


async def test_resizing_down_to_one_cell_and_back() -> None:
    async with console(lane(20, attention=4)) as it:
        await it.press("j", "j", "j")
        before = it.text()
        selected = it.lane.row
        for size in [*SIZES, *reversed(SIZES)]:
            await it.pilot.resize_terminal(*size)
            await it.pilot.pause()
            for line in it.text().splitlines():
                assert cell_len(line) == size[0]
            assert not it.lane.query_one(QueueTable).show_horizontal_scrollbar
        await it.pilot.resize_terminal(120, 40)
        await it.pilot.pause()
        assert it.lane.row is selected
        assert it.text() == before


@pytest.mark.parametrize("size", [(1, 1), (10, 5), (60, 18), (200, 1)])
@pytest.mark.parametrize("key", ["e", "question_mark", "i", "a", "colon", "slash", "enter"])
async def test_every_dialog_opens_at_any_size(size: tuple[int, int], key: str) -> None:
    async with console(lane(3, attention=2), size=size) as it:
        await it.press(key)
        await it.press("escape")
        assert it.app.is_running


async def test_columns_give_way_before_anything_scrolls_sideways() -> None:
    async with console(lane(3), size=(120, 24)) as it:
        assert "stalls" in it.text()
        await it.pilot.resize_terminal(40, 24)
        await it.pilot.pause()
        shown = it.text()
        assert "stalls" not in shown
        assert "US-015/plan" in shown
        assert "waiting" in shown


async def test_the_first_line_keeps_lane_and_state() -> None:
    async with console(lane(3), size=(30, 10)) as it:
        first = it.text().splitlines()[0]
        assert "● running" in first


@pytest.mark.parametrize("theme", ["meshtui-light", "nord", "textual-dark", "textual-light", "ansi-dark"])
async def test_every_theme_has_the_colours_that_are_used(theme: str) -> None:
    async with console(lane(3, attention=2)) as it:
        before = it.text()
        it.app.theme = theme
        await it.until_shown("keeps it")
        it.app.clear_notifications()
        await it.press("e")
        await it.press("escape")
        await it.until(lambda: it.text() == before)
