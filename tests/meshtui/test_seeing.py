"""Timeline, charts and graph: what each key does, and what they say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from meshtui.core.forecast import empties, reaches
from meshtui.core.history import History, Total
from meshtui.core.lane.signs import Signs
from meshtui.core.view import LaneView
from meshtui.messages import SignsRead
from meshtui.screens.charts import Charts
from meshtui.screens.graph import Graph
from meshtui.screens.lane import LaneScreen
from meshtui.screens.timeline import Timeline
from meshtui.widgets.charts import budget_block, loop_blocks, place
from meshtui.widgets.graph import draw, graph_of
from meshtui.widgets.sheet import Sheet
from tests.support.engine import FakeEngine
from tests.support.mission_screens import API, loop, mission, only, with_missions
from tests.support.pilot import Console, console
from tests.support.recordings import recording, write
from tests.support.views import NOW, empty, lane

MINUTE = 60_000


def recorded(tmp_path: Path) -> tuple[LaneView, Path]:
    """The view at the end of the recording, and a directory that holds its journal."""
    made = recording()
    root = write(tmp_path / "run", made.events)
    return replace(made.view(len(made)), run_dir=root), root


def sheet(it: Console) -> str:
    """What the sheet holds, in sight or not."""
    return it.app.screen.query_one(Sheet).text()


def timeline(it: Console) -> Timeline:
    assert isinstance(it.app.screen, Timeline)
    return it.app.screen


# -- the timeline -----------------------------------------------------------------------------------


async def test_the_timeline_of_a_lane_has_attempts_holds_pauses_and_runners(tmp_path: Path) -> None:
    view, root = recorded(tmp_path)
    async with console(engine=FakeEngine(view), run_dir=root, size=(120, 40)) as it:
        await it.press("t")
        await it.until(lambda: "US-015/tests" in sheet(it))
        lines = {line.split()[0].strip("›▸"): line for line in sheet(it).splitlines()}
        assert "◆" in lines["US-015/tests"]
        assert "✔ done" in lines["US-015/tests"]
        assert "┄" in lines["US-016/backend"]
        assert "✖ failed" in lines["US-016/plan"]
        assert "‖" in lines["runner"]
        assert "◆ parked" in lines["US-017/plan"]
        assert "● running" in lines["US-017/tests"]


async def test_keys_of_the_timeline(tmp_path: Path) -> None:
    view, root = recorded(tmp_path)
    async with console(engine=FakeEngine(view), run_dir=root, size=(120, 40)) as it:
        await it.press("t")
        await it.until(lambda: "US-017/tests" in sheet(it))
        assert "attempt 1  ● running" in it.text().replace("bar 1", "").replace("   ", "  ")
        await it.press("g")
        assert "runner 5001" in it.text()
        await it.press("left_square_bracket", "left_square_bracket")
        assert "runner 4121" in it.text()
        await it.press("right_square_bracket")
        assert "paused" in it.text()
        await it.press("j", "j", "j")
        assert "attempt 2" in it.text()
        await it.press("left_square_bracket")
        assert "attempt 1" in it.text()
        assert "◆ stalled" in it.text()
        await it.press("plus", "plus")
        window = timeline(it).window
        assert window is not None
        await it.press("l")
        later = timeline(it).window
        assert later is not None
        assert later.start > window.start
        assert later.span == window.span
        await it.press("h")
        assert timeline(it).window == window
        await it.press("minus")
        wider = timeline(it).window
        assert wider is None or wider.span > window.span
        await it.press("0")
        assert timeline(it).window is None
        await it.press("G")
        assert timeline(it).chosen is not None
        await it.press("k", "enter")
        assert isinstance(it.app.screen, LaneScreen)
        assert it.lane.row is not None
        assert it.lane.row.envelope_id == "US-017-backend"


async def test_tab_goes_from_the_lane_to_its_missions(tmp_path: Path) -> None:
    view, root = recorded(tmp_path)
    async with console(engine=FakeEngine(view), run_dir=root, size=(120, 40)) as it:
        await it.press("t")
        await it.until(lambda: "US-017/tests" in sheet(it))
        await it.press("tab")
        assert "loop-auth" in sheet(it)
        assert "US-017" not in sheet(it)
        await it.press("j", "enter")
        assert it.lane.loop is not None
        assert str(it.lane.side) == "loops"


@pytest.mark.parametrize("key", ["escape", "q", "t"])
async def test_the_timeline_is_closed(key: str) -> None:
    async with console(only(mission())) as it:
        await it.press("t")
        timeline(it)
        await it.press(key)
        assert isinstance(it.app.screen, LaneScreen)


async def test_nothing_to_show_says_what_to_do() -> None:
    async with console(empty()) as it:
        for key in ("t", "c"):
            await it.press(key)
            await it.until_shown("e enqueues a first envelope")
            assert isinstance(it.app.screen, LaneScreen)
        await it.press("p")
        await it.until_shown("There is no mission here")


# -- charts -----------------------------------------------------------------------------------------


async def test_charts_of_a_lane(tmp_path: Path) -> None:
    view, root = recorded(tmp_path)
    async with console(engine=FakeEngine(view), run_dir=root, size=(120, 50)) as it:
        await it.press("c")
        await it.until(lambda: "Queue depth" in sheet(it))
        shown = sheet(it)
        assert "5 now, 16 at most" in shown
        assert "at this rate the cap is reached in" in shown
        assert "62%  61,760 of 100,000" in shown
        assert "9 ended, 1 failed, 6 to go" in shown
        assert "median" in shown
        assert "at this rate the queue is empty in" in shown
        signs = Signs("US-017-tests", "c", output_at=NOW - 42_000, output_bytes=1820, cpu_seconds=12.3,
                      watched_since=NOW - 9000, change_at=NOW - 60_000)  # fmt: skip
        it.lane.post_message(SignsRead(signs))
        await it.until(lambda: "42 s ago" in sheet(it))
        assert "idle for the 9 s it is watched" in sheet(it)
        assert "12.3 s used" in sheet(it)
        await it.press("j", "k", "tab")
        assert "Budgets · m9" in it.text()
        assert "its time" in sheet(it)
        await it.press("c")
        assert isinstance(it.app.screen, LaneScreen)


def text_of(block: object) -> str:
    lines = place([block], 100, columns=False)  # type: ignore[list-item]
    return "\n".join("".join(text for text, _ in line) for line in lines)


def test_no_forecast_says_why() -> None:
    view = lane(3)
    assert "no engine reported tokens" in text_of(budget_block(History(), view, NOW, 100))
    one = History(totals=(Total(1, NOW - 1000, 5000, None),), told=recording().history.told[:1])
    said = text_of(budget_block(one, view, NOW, 100))
    assert "no forecast: only 1 reports so far, 3 are needed" in said
    assert "no forecast: nothing was reported yet" in said


def test_forecasts() -> None:
    steady = [(NOW - (10 - number) * MINUTE, number * 1000.0) for number in range(11)]
    found = reaches(steady, 20_000, NOW, working=True)
    assert found.at == NOW + 10 * MINUTE
    assert found.per_hour == pytest.approx(60_000)
    assert reaches(steady, 20_000, NOW, working=False).reason == "no forecast: nothing runs now"
    assert reaches(steady, 10_000, NOW, working=True).reason == "the cap is reached"
    flat = [(at, 5.0) for at, _ in steady]
    assert "nothing was added" in reaches(flat, 10, NOW, working=True).reason
    quick = [(NOW + number, number * 1.0) for number in range(5)]
    assert "within seconds" in reaches(quick, 100, NOW, working=True).reason
    # What should have been reached already comes at any moment, not in the past.
    assert reaches(steady, 20_000, NOW + 60 * MINUTE, working=True).at == NOW + 60 * MINUTE
    ends = [NOW - (5 - number) * MINUTE for number in range(6)]
    assert empties(ends, 10, NOW, working=True).at == NOW + 10 * MINUTE
    assert empties(ends, 0, NOW, working=True).reason == "nothing waits"
    assert "too few" in empties(ends[:2], 3, NOW, working=True).reason
    assert "no runner" in empties(ends, 3, NOW, working=False).reason


def test_the_budgets_of_loops() -> None:
    full = replace(API, budget_used={**API.budget_used, "tokens": 100_000})
    said = "".join(text_of(one) for one in loop_blocks(mission(full), recording().history, NOW, 100))
    assert "83%  100,000 of 120,000" in said
    assert "its time ends in" in said
    assert "3 of 8" in said


# -- the graph --------------------------------------------------------------------------------------


async def test_the_selection_moves_along_edges() -> None:
    async with console(with_missions(lane(3), mission()), size=(120, 40)) as it:
        await it.press("p")
        graph = it.app.screen
        assert isinstance(graph, Graph)
        await it.until_shown("loop-api  ● running")
        await it.press("l")
        await it.until_shown("needs ● loop-api, ✖ loop-auth")
        await it.press("h")
        assert graph.chosen in ("loop-api", "loop-auth", "loop-docs", "loop-schema")
        await it.press("g")
        await it.press("j")
        assert graph.chosen == "loop-auth"
        await it.until_shown("because gate tests failed")
        await it.press("enter")
        assert isinstance(it.app.screen, LaneScreen)
        assert it.lane.loop is not None
        assert it.lane.loop.loop_id == "loop-auth"


async def test_the_graph_is_a_tree_where_it_is_narrow() -> None:
    async with console(only(mission()), size=(60, 18)) as it:
        await it.press("p")
        await it.until(lambda: "├ ✖ blocked loop-auth" in sheet(it))
        await it.press("g", "j", "j", "j")
        graph = it.app.screen
        assert isinstance(graph, Graph)
        assert graph.chosen == "loop-docs"
        await it.press("l")
        assert graph.chosen in ("loop-schema", "loop-integration")
        await it.press("p")
        assert isinstance(it.app.screen, LaneScreen)


@pytest.mark.parametrize("size", [(58, 10), (78, 16), (118, 32), (198, 52)])
@pytest.mark.parametrize("count", [1, 2, 5, 13, 32])
@pytest.mark.parametrize("shape", ["fan", "chain", "diamonds", "all", "none"])
def test_every_graph_fits(size: tuple[int, int], count: int, shape: str) -> None:
    """Every loop is drawn once, selectable, and no line is too wide."""
    names = [f"loop-number-{number}" for number in range(count)]

    def needs(number: int) -> tuple[str, ...]:
        if shape == "chain":
            return tuple(names[number - 1 : number]) if number else ()
        if shape == "diamonds":
            return tuple(names[max(0, number - 3) : number - number % 3])
        if shape == "all":
            return tuple(names[:number])
        return tuple(names[:-1]) if shape == "fan" and number == count - 1 else ()

    rows = [loop(name[5:], dependencies=needs(number)) for number, name in enumerate(names)]
    graph = graph_of(rows)
    drawing = draw(graph, *size, chosen=names[0], critical=tuple(names[:1]))
    assert set(drawing.at) == set(names)
    for line in drawing.lines:
        assert sum(len(text) for text, _ in line) <= size[0], line
    for name, y in drawing.at.items():
        shown = "".join(text for text, _ in drawing.lines[y])
        assert name[-2:] in shown


def test_a_cycle_is_drawn_without_its_last_edge() -> None:
    rows = [
        loop("a", dependencies=("loop-b",)),
        loop("b", dependencies=("loop-a",)),
        loop("c", dependencies=("loop-c", "loop-x")),
    ]
    graph = graph_of(rows)
    assert sum(len(needs) for needs in graph.needs.values()) == 1
    assert set(draw(graph, 80, 20, chosen=None, critical=()).at) == {"loop-a", "loop-b", "loop-c"}


async def test_charts_are_opened_from_the_loops_too() -> None:
    async with console(only(mission())) as it:
        await it.press("c")
        assert isinstance(it.app.screen, Charts)
        await it.until_shown("Budgets · m7")
