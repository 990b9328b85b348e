"""The list draws what is in sight and keeps its selection."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from meshtui.core.clock import ManualClock
from meshtui.core.view import LaneView, Row
from meshtui.widgets.columns import COLUMNS, Layout
from meshtui.widgets.paint import width_of
from meshtui.widgets.status_line import sparkline
from meshtui.widgets.table import QueueTable
from tests.support.pilot import console
from tests.support.views import NOW, lane, pending, without


class Counted(tuple[Row, ...]):
    """Rows that count how often one is looked at."""

    touched = 0

    def __getitem__(self, index: Any) -> Any:
        type(self).touched += 1
        return super().__getitem__(index)


def counted(view: LaneView) -> LaneView:
    return replace(view, pending=Counted(view.pending))


async def test_ten_thousand_rows_cost_what_is_in_sight() -> None:
    view = lane(10_000)
    async with console(counted(view)) as it:
        table = it.lane.query_one(QueueTable)
        height = table.size.height
        await it.press("j")
        for step in range(1, 6):
            table.lines_drawn = 0
            Counted.touched = 0
            await it.show(counted(without(view, step + 5)))
            # Comparing and drawing the lines in sight, finding the selected one nearby.
            assert table.lines_drawn <= 3 * height
            assert Counted.touched <= 4 * height
        table.lines_drawn = 0
        Counted.touched = 0
        await it.press("G")
        assert table.cursor == len(table.rows) - 1
        assert Counted.touched <= 6 * height
        assert table.lines_drawn <= 6 * height


async def test_the_same_rows_draw_nothing() -> None:
    view = lane(10_000)
    async with console(view) as it:
        table = it.lane.query_one(QueueTable)
        drawn: list[object] = []
        table.refresh = lambda *regions, **_: drawn.extend(regions) or table  # type: ignore[method-assign,func-returns-value]
        await it.show(replace(view, updated_at=1))
        it.lane.tick()
        assert drawn == []


async def test_one_changed_row_draws_one_line() -> None:
    view = lane(10_000)
    async with console(view) as it:
        table = it.lane.query_one(QueueTable)
        regions: list[object] = []
        table.refresh = lambda *some, **_: regions.extend(some) or table  # type: ignore[method-assign,func-returns-value]
        rows = list(view.pending)
        rows[5] = replace(rows[5], engine="grok")
        await it.show(replace(view, pending=tuple(rows)))
        assert len(regions) == 1


async def test_the_selection_belongs_to_the_record() -> None:
    view = lane(200)
    async with console(view) as it:
        table = it.lane.query_one(QueueTable)
        await it.press(*["j"] * 60)
        chosen = table.selected
        assert chosen is not None
        line = table.cursor - table.scroll_offset.y
        await it.show(without(without(view, 0), 0))
        assert table.selected is chosen
        assert table.cursor == 58
        assert table.cursor - table.scroll_offset.y == line
        fresh = pending(3, start=1)
        await it.show(replace(view, pending=(*fresh, *view.pending)))
        assert table.selected is chosen
        assert table.cursor == 63
        assert table.cursor - table.scroll_offset.y == line
        await it.show(replace(view, pending=tuple(row for row in view.pending if row is not chosen)))
        assert table.cursor == 63
        await it.show(replace(view, pending=()))
        await it.press("j", "G", "k", "enter")
        assert it.lane.row is None


async def test_each_list_remembers_its_selection() -> None:
    async with console(lane(20)) as it:
        table = it.lane.query_one(QueueTable)
        await it.press("j", "j", "l", "l", "j", "h", "h")
        assert table.cursor == 2
        await it.press("l", "l")
        assert table.cursor == 1


async def test_moving_about() -> None:
    async with console(lane(100), size=(80, 24)) as it:
        table = it.lane.query_one(QueueTable)
        page = table.size.height - 1
        for key, line in (
            ("j", 1), ("down", 2), ("k", 1), ("up", 0), ("up", 0), ("G", 99), ("j", 99), ("g", 0),
            ("ctrl+d", page // 2), ("ctrl+u", 0), ("end", 99), ("home", 0), ("pagedown", page // 2),
        ):  # fmt: skip
            await it.press(key)
            assert table.cursor == line, key
            assert table.scroll_offset.y <= line < table.scroll_offset.y + page


async def test_durations_go_on() -> None:
    clock = ManualClock(NOW)
    async with console(lane(3), clock=clock) as it:
        assert "04:12 of 30:00" in it.text()
        clock.advance(61)
        it.lane.tick()
        await it.pilot.pause()
        shown = it.text()
        assert "05:13 of 30:00" in shown
        row = next(line for line in shown.splitlines() if "claude" in line)
        assert "3 min" in row


def test_columns_fit_any_width() -> None:
    row = pending(1)[0]
    for section in COLUMNS:
        for width in range(1, 140):
            layout = Layout.of(section, width, 10_000)
            assert width_of(layout.head()) <= width
            assert width_of(layout.line(replace(row, section=section), 9_999, NOW)) <= width
        full = [column.title for column, _width in Layout.of(section, 140, 3).columns]
        assert full == [column.title for column in COLUMNS[section]]


def test_sparkline_shows_the_way_the_queue_went() -> None:
    history = tuple((index * 1000, depth) for index, depth in enumerate((0, 2, 4, 8, 4, 0)))
    assert sparkline(history, 5000, cells=6) == "▃▅███▅" or len(sparkline(history, 5000, cells=6)) == 6
    assert sparkline(history[:1], 5000) == ""
    assert set(sparkline(((0, 0), (10, 0)), 20)) == {"▁"}
