"""A console of several lanes: the table, opening and leaving a lane, the inbox on top."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meshtui.core.fleet import Active, FleetView
from meshtui.screens.confirm import Confirm
from meshtui.screens.fleet import FleetScreen
from meshtui.screens.inbox import InboxScreen
from meshtui.screens.lane import LaneScreen
from meshtui.screens.leave import Leave
from meshtui.screens.verdict import VerdictForm
from meshtui.steady import DOUBT_MS
from meshtui.widgets.detail import DetailPane
from meshtui.widgets.fleet import FleetTable
from meshtui.widgets.inbox import InboxTable, WaysOut
from tests.support.fleet_pilot import FleetConsole, fleet_console
from tests.support.fleets import ROOT, crowd, failed, fleet, parked, summary
from tests.support.views import NOW


def calm() -> FleetView:
    """Lanes that need nobody."""
    lanes = [lane for lane in fleet(32).lanes if not lane.attention and lane.problem is None]
    return FleetView.of(lanes, places=(ROOT,))


def without(view: FleetView, subject: str) -> FleetView:
    """``view`` after what needed somebody for ``subject`` is resolved."""
    lanes = [
        replace(lane, attention=tuple(item for item in lane.attention if item.subject != subject))
        for lane in view.lanes
    ]
    return FleetView.of(lanes, places=view.places)


async def test_the_most_urgent_lane_is_on_top_and_what_needs_somebody_has_the_focus() -> None:
    async with fleet_console(fleet(8)) as it:
        assert isinstance(it.app.focused, InboxTable)
        assert (it.subject, it.selected) == ("docs", "docs")
        text = it.text()
        assert "Needs you · 7" in text
        assert "Lanes · 8" in text
        assert "4 running" in text
        assert "1 dead" in text
        assert "$25.59" in text


async def test_without_needs_the_inbox_takes_no_room() -> None:
    async with fleet_console(calm()) as it:
        assert not it.home.query_one("#inbox").display
        assert isinstance(it.app.focused, FleetTable)
        await it.press("1")
        await it.until_shown("Nothing needs you")
        await it.take(fleet(8))
        assert it.home.query_one("#inbox").display
        # Whoever steers the table goes on steering it.
        assert isinstance(it.app.focused, FleetTable)
        await it.press("tab")
        await it.take(calm())
        assert isinstance(it.app.focused, FleetTable)


async def test_an_empty_folder_says_what_to_do() -> None:
    async with fleet_console(FleetView((), (), True, (ROOT,))) as it:
        await it.until_shown("No lane in /srv/lanes yet")
        await it.press("enter", "I")
        assert it.shows(FleetScreen)


async def test_enter_opens_a_lane_and_esc_returns() -> None:
    async with fleet_console(fleet(8)) as it:
        await it.press("tab", "j", "j")
        assert it.selected == "api"
        await it.press("enter")
        await it.until(lambda: it.shows(LaneScreen) and it.lane.view is not None)
        await it.until_shown("api   ● running")
        assert it.covered()
        await it.press("i", "y")
        await it.until(lambda: it.fleet.calls("api") == [("interrupt",)])
        # First out of the details, then out of the lane.
        await it.press("tab", "escape")
        assert it.shows(LaneScreen)
        await it.press("escape")
        assert it.shows(FleetScreen)
        assert not it.covered()
        assert it.selected == "api"
        await it.press("enter")
        await it.until(lambda: it.shows(LaneScreen) and it.lane.view is not None)
        await it.press("F")
        assert it.shows(FleetScreen)


async def test_esc_drops_the_filter_of_a_lane_before_it_leaves_it() -> None:
    async with fleet_console(fleet(8)) as it:
        await it.press("tab", "enter")
        await it.until(lambda: it.shows(LaneScreen) and it.lane.view is not None)
        await it.press("slash", "x", "enter", "escape")
        assert it.shows(LaneScreen)
        await it.press("escape")
        assert it.shows(FleetScreen)


async def test_enter_on_an_item_goes_to_its_record() -> None:
    async with fleet_console(fleet(8)) as it:
        await it.press("j", "j")
        assert it.subject == "US-014/backend"
        await it.press("enter")
        await it.until(lambda: it.shows(LaneScreen) and it.lane.view is not None)
        assert it.lane.run_dir == ROOT / "api"


async def test_the_selection_stays_with_its_lane() -> None:
    async with fleet_console(fleet(8)) as it:
        await it.press("tab", "j", "j")
        assert it.selected == "api"
        view = fleet(8)
        await it.take(without(without(view, "US-014/backend"), "US-012/tests"))
        assert it.selected == "api"
        await it.take(view)
        assert it.selected == "api"
        await it.take(FleetView.of([lane for lane in view.lanes if lane.name != "api"]))
        assert it.selected != "api"


@pytest.mark.parametrize("size", [(40, 12), (60, 18), (80, 24), (200, 60)])
async def test_no_size_scrolls_sideways(size: tuple[int, int]) -> None:
    async with fleet_console(fleet(12), size=size) as it:
        for table in (it.home.table, it.home.inbox):
            assert not table.show_horizontal_scrollbar
            assert table.layout_of(table.size.width).columns


# The inbox on top


async def test_number_keys_act_on_the_lane_of_the_item() -> None:
    async with fleet_console(fleet(8)) as it:
        await it.press("j", "j", "2")
        await it.until(lambda: it.fleet.calls("api") == [("answer", "US-014-backend", "retry", None, 7200.0)])
        await it.press("3")
        assert it.shows(Confirm)
        await it.press("y")
        await it.until(lambda: it.fleet.calls("api")[-1] == ("answer", "US-014-backend", "drop", None, None))
        await it.until_shown("api: US-014-backend is dropped")
        follower = it.fleet.follower
        assert follower is not None
        assert ROOT / "api" in follower.nudged
        assert list(it.fleet.engines) == [ROOT / "api"]


async def test_a_dead_runner_is_started_from_the_inbox() -> None:
    async with fleet_console(fleet(8)) as it:
        await it.press("1")
        await it.until(lambda: len(it.fleet.engines[ROOT / "docs"].runners) == 1)
        # It lives in this console: leaving asks.
        await it.press("q")
        assert it.shows(Leave)
        assert "A runner lives in this console" in it.text()
        assert "US-030/docs" in it.text()
        await it.press("n")
        await it.press("tab", "enter")
        await it.until(lambda: it.shows(LaneScreen) and it.lane.view is not None)
        assert it.lane.runner_here
        await it.press("F")
        assert it.app.bridges.busy
        await it.press("q", "s")
        await it.until(lambda: not it.app.is_running or it.app._exit)
        assert it.fleet.engines[ROOT / "docs"].runners[0].asked == ["stop"]


async def test_a_handoff_is_answered_in_its_lane() -> None:
    async with fleet_console(fleet(8)) as it:
        await it.press("j")
        assert it.subject == "m7/loop-schema"
        await it.press("1")
        assert it.shows(VerdictForm)
        await it.press("escape")
        await it.press("j", "j")
        assert it.subject == "m7/loop-auth"


async def test_a_log_opens_the_lane_there() -> None:
    async with fleet_console(fleet(8)) as it:
        await it.press("j", "j", "j", "j")
        assert it.subject == "US-012/tests"
        key = it.fleet.lane_view(ROOT / "api").failed[0].key
        lanes = [
            replace(lane, attention=tuple(replace(i, key=key) if i.subject == "US-012/tests" else i for i in lane.attention))
            for lane in fleet(8).lanes
        ]  # fmt: skip
        await it.take(FleetView.of(lanes))
        await select(it, "US-012/tests")
        await it.press("1")
        await it.until(lambda: it.shows(LaneScreen) and it.lane.view is not None)
        await it.until(lambda: it.lane.row is not None and it.lane.row.key == key)
        assert it.lane.query_one(DetailPane).part == "output"


async def select(it: FleetConsole, subject: str) -> None:
    """Select the item about ``subject`` by keys."""
    await it.press("g")
    for _ in it.home.needs:
        if it.subject == subject:
            return
        await it.press("j")
    raise AssertionError(f"{subject} is not listed")


async def test_a_resolved_item_disappears_and_the_selection_sticks_to_its_own() -> None:
    async with fleet_console(fleet(8)) as it:
        await it.press("j", "j")
        assert it.subject == "US-014/backend"
        await it.take(without(fleet(8), "docs"))
        assert it.subject == "US-014/backend"
        await it.press("1")
        await it.until(lambda: it.fleet.calls("api") == [("answer", "US-014-backend", "retry", None, None)])


async def test_a_key_for_an_item_that_just_went_asks_before_it_means_the_next() -> None:
    async with fleet_console(fleet(8)) as it:
        await it.press("j", "j")
        await it.take(without(fleet(8), "US-014/backend"))
        assert it.subject == "m7/loop-auth"
        await it.press("1")
        assert it.shows(Confirm)
        assert "The list changed just now" in it.text()
        assert "checkout" in it.text()
        await it.press("n")
        assert it.shows(FleetScreen)
        # A moment later it means what it says.
        it.clock.advance(DOUBT_MS / 1000)
        await it.press("1")
        await it.until(lambda: it.shows(LaneScreen))
        assert it.lane.run_dir == ROOT / "checkout"


async def test_choosing_by_hand_takes_the_doubt_away() -> None:
    view = FleetView.of([summary("api", parked("US-1", 3), parked("US-2", 2), parked("US-3", 1))])
    async with fleet_console(view) as it:
        await it.take(without(view, "US-1/backend"))
        assert it.subject == "US-2/backend"
        await it.press("j", "1")
        await it.until(lambda: it.fleet.calls("api") == [("answer", "US-3-backend", "retry", None, None)])


async def test_next_goes_through_all_of_them() -> None:
    view = FleetView.of([summary("api", parked("US-1", 3), failed("US-2"))])
    async with fleet_console(view) as it:
        seen = []
        for _ in range(3):
            await it.press("N")
            seen.append(it.subject)
        assert seen == ["US-2/tests", "US-1/backend", "US-2/tests"]


async def test_the_evidence_of_the_selected_item_is_read() -> None:
    async with fleet_console(fleet(8)) as it:
        await it.press("j", "j", "j")
        assert it.subject == "m7/loop-auth"
        await it.until_shown("iteration 2 of 2")
        assert "gate tests failed (exit 1): 1 failed" in it.text()


async def test_more_than_fit_are_told_and_shown_by_I() -> None:
    async with fleet_console(crowd(30), size=(80, 24)) as it:
        assert "3 of 30 · I shows all" in it.text()
        await it.press("I")
        assert it.shows(InboxScreen)
        assert "Needs you  30" in it.text()


async def test_read_only_looks_only() -> None:
    async with fleet_console(fleet(8), read_only=True) as it:
        text = it.text()
        assert "read-only" in text.splitlines()[0]
        # A way out is named without the number that would take it.
        assert "start runner" in text
        assert "1  start runner" not in text
        await it.press("1")
        await it.until_shown("This console is read-only")
        await it.press("1", "1")
        assert len([one for one in it.app._notifications if "read-only" in one.message]) == 1
        await it.press("I")
        assert "read-only" in it.text().splitlines()[0]
        await it.press("escape", "colon", *"interrupt")
        await it.until_shown("Not now: This console is read-only")
        await it.press("escape", "tab", "enter")
        await it.until(lambda: it.shows(LaneScreen) and it.lane.view is not None)
        assert it.lane.read_only
        assert it.fleet.calls("docs") == []


async def test_a_mouse_takes_a_way_out() -> None:
    async with fleet_console(fleet(8)) as it:
        await it.press("j", "j")
        lines = it.text().splitlines()
        y = next(index for index, line in enumerate(lines) if " longer" in line)
        await it.pilot.hover(offset=(lines[y].index("longer"), y))
        tooltip = it.home.query_one(WaysOut).tooltip
        assert str(tooltip) == "meshtui answer US-014-backend --retry --deadline-seconds 7200"
        await it.pilot.click(offset=(lines[y].index("longer"), y))
        await it.until(lambda: it.fleet.calls("api") == [("answer", "US-014-backend", "retry", None, 7200.0)])


async def test_help_and_palette_open_from_the_fleet() -> None:
    async with fleet_console(fleet(8)) as it:
        await it.press("question_mark")
        await it.until_shown("esc closes")
        await it.press("escape", "colon")
        await it.until(lambda: len(it.app.screen_stack) == 2)
        await it.press(*"inbox")
        await it.until_shown("Open the inbox")
        await it.press("escape", "q")
        await it.until(lambda: it.app._exit)


async def test_the_same_filter_is_understood_by_lanes_and_items() -> None:
    ours, theirs = replace(failed("US-1"), engine="codex"), replace(failed("US-2"), engine="claude")
    lanes = [
        summary("api", ours, active=Active("x", NOW - 900_000, engine="codex"), cost_today=3.0),
        summary("web", theirs, active=Active("y", NOW - 900_000, engine="claude")),
        summary("docs", active=Active("z", NOW - 60_000, engine="codex")),
    ]
    async with fleet_console(FleetView.of(lanes)) as it:
        await it.press("slash", *"status:failed engine:codex age>10m", "enter")
        assert [need.item.subject for need in it.home.inbox.rows] == ["US-1/tests"]
        await it.press("escape", "tab", "slash", *"status:running engine:codex age>10m", "enter")
        assert [lane.name for lane in it.home.table.rows] == ["api"]
        await it.press("escape", "slash", *"cost>2", "enter")
        assert [lane.name for lane in it.home.table.rows] == ["api"]


# The inbox by itself


async def test_the_inbox_opens_closes_and_acts() -> None:
    async with fleet_console(fleet(8)) as it:
        await it.press("j", "j", "I")
        screen = it.app.screen
        assert isinstance(screen, InboxScreen)
        assert screen.need is not None
        assert screen.need.item.subject == "US-014/backend"
        await it.press("1")
        await it.until(lambda: it.fleet.calls("api") == [("answer", "US-014-backend", "retry", None, None)])
        await it.take(without(fleet(8), "US-014/backend"))
        assert "US-014/backend" not in it.text()
        await it.press("3")
        await it.until_shown("has 1 exit")
        await it.press("escape")
        assert it.shows(FleetScreen)


async def test_the_inbox_over_a_lane_shows_all_lanes_and_goes_to_another() -> None:
    async with fleet_console(fleet(8)) as it:
        await it.press("tab", "enter")
        await it.until(lambda: it.shows(LaneScreen) and it.lane.view is not None)
        assert it.lane.run_dir == ROOT / "docs"
        await it.press("I")
        assert "Needs you  7" in it.text()
        await it.press("j", "j", "enter")
        await it.until(lambda: it.shows(LaneScreen) and it.lane.view is not None)
        assert it.lane.run_dir == ROOT / "api"
        await it.press("I", "F")
        assert it.shows(FleetScreen)
        assert len(it.app.screen_stack) == 1


async def test_an_inbox_that_empties_says_so() -> None:
    async with fleet_console(fleet(8)) as it:
        await it.press("I")
        await it.take(calm())
        await it.until_shown("Nothing needs you. What does appears here by itself.")
        assert "✔ nothing" in it.text()
