"""Marks and the palette in the inbox and in the table of lanes: one key does it for all of them, and ``u`` takes all of it back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from textual.command import Hit

from meshtui.core.errors import InvalidInput
from meshtui.core.fleet import FleetView
from meshtui.core.lane.receipts import Refusal
from meshtui.fleet_palette import FleetPlaces
from meshtui.palette import Places
from meshtui.screens.confirm import Confirm
from meshtui.screens.copying import CopyMenu
from meshtui.screens.inbox import InboxScreen
from meshtui.screens.lane import LaneScreen
from meshtui.screens.verdict import VerdictForm
from tests.support.engine import FakeEngine
from tests.support.fleet_pilot import FleetConsole, fleet_console
from tests.support.fleets import BROKEN, HELD, ROOT, failed, of_mission, parked, summary
from tests.support.lanes import finish_first, new_lane, phase
from tests.support.pilot import console
from tests.support.views import lane

DROP_1 = ("answer", "US-1-backend", "drop", None, None)
DROP_2 = ("answer", "US-2-backend", "drop", None, None)


def two_parked() -> FleetView:
    """One parked phase in each of two lanes, and a failed one."""
    return FleetView.of(
        [summary("api", parked("US-1", 9), failed("US-3")), summary("web", parked("US-2", 5))], places=(ROOT,)
    )


async def mark_both(it: FleetConsole) -> None:
    """Mark the two parked phases, the first two of the list."""
    await it.press("g", "space", "space")
    assert [need.item.subject for need in it.home.inbox.marked] == ["US-1/backend", "US-2/backend"]


# -- the inbox ---------------------------------------------------------------------------------------------


async def test_a_number_key_takes_the_way_out_of_all_that_are_marked_and_u_takes_it_back() -> None:
    async with fleet_console(two_parked()) as it:
        await mark_both(it)
        text = it.text()
        assert "Needs you · 3 · 2 marked" in text
        assert "api: US-1/backend; web: US-2/backend" in text
        await it.press("3")
        assert it.shows(Confirm)
        text = it.text()
        assert "Drop: 2 items?" in text
        assert "count as failed" in text
        await it.press("n")
        assert it.fleet.engines == {}
        await it.press("3", "y")
        await it.until(lambda: it.fleet.calls("api") == [DROP_1])
        await it.until(lambda: it.fleet.calls("web") == [DROP_2])
        await it.until_shown("Dropped: 2 envelopes in 2 lanes (US-1-backend, US-2-backend)")
        await it.until(lambda: len(it.app.steps) == 1)
        await it.press("u")
        await it.until(lambda: it.fleet.calls("api")[1:] == [("park again", "US-1-backend")])
        await it.until(lambda: it.fleet.calls("web")[1:] == [("park again", "US-2-backend")])
        await it.until_shown("Undone in 2 lanes")
        await it.press("u")
        await it.until_shown("Nothing to undo")


async def test_each_of_them_gets_its_own_longer_deadline() -> None:
    long = parked("US-2", 5)
    ways = tuple(
        replace(way, label="retry with 4 h", command=way.command.replace("7200", "14400"))
        for way in long.exits
    )
    view = FleetView.of([summary("api", parked("US-1", 9)), summary("web", replace(long, exits=ways))])
    async with fleet_console(view) as it:
        await mark_both(it)
        assert "retry with more time" in it.text()
        await it.press("2", "y")
        await it.until(lambda: it.fleet.calls("api") == [("answer", "US-1-backend", "retry", None, 7200.0)])
        await it.until(lambda: it.fleet.calls("web") == [("answer", "US-2-backend", "retry", None, 14400.0)])
        await it.until(lambda: len(it.app.steps) == 1)
        await it.press("u")
        await it.until_shown("cannot be undone: it may run already")


async def test_only_what_all_of_them_have_is_offered() -> None:
    async with fleet_console(two_parked()) as it:
        await it.press("asterisk")
        assert "Needs you · 3 · 3 marked" in it.text()
        assert "no way out that all of them have" in it.text()
        await it.press("1")
        await it.until_shown("The 3 marked have no exit in common")
        assert it.fleet.engines == {}
        # The failed one goes out of the marks by hand, esc drops the others.
        await it.press("G", "space")
        assert "2 marked" in it.text()
        await it.press("9")
        await it.until_shown("The 2 marked have 3 exits in common")
        await it.press("escape")
        assert "marked" not in it.text().split("Lanes")[0].split("The 2")[0]
        assert not it.home.inbox.marks


async def test_a_single_mark_is_what_the_number_keys_mean() -> None:
    async with fleet_console(two_parked()) as it:
        await it.press("g", "space", "G")
        assert it.subject == "US-3/tests"
        await it.press("1")
        await it.until(lambda: it.fleet.calls("api") == [("answer", "US-1-backend", "retry", None, None)])


async def test_a_mark_goes_with_its_item_when_that_is_resolved() -> None:
    async with fleet_console(two_parked()) as it:
        await mark_both(it)
        await it.take(FleetView.of([summary("web", parked("US-2", 5))]))
        assert "Needs you · 1 · 1 marked" in it.text()


async def test_what_fails_in_one_lane_is_told_and_the_rest_is_done() -> None:
    async with fleet_console(two_parked()) as it:
        it.app.bridges.of(ROOT / "web")
        it.fleet.engines[ROOT / "web"].the_operations.error = InvalidInput("the disk is full")
        await mark_both(it)
        await it.press("1", "y")
        await it.until_shown(
            "Back at the head: 1 envelope in 2 lanes (US-1-backend); not US-2-backend: the disk is"
        )
        await it.until(lambda: len(it.app.steps) == 1)


async def test_requeue_withdraw_and_quarantine_work_on_marks() -> None:
    async with fleet_console(FleetView.of([summary("api", failed("US-1"), failed("US-2"))])) as it:
        await it.press("asterisk", "1")
        # A log is looked at one by one: it is not among what several share.
        assert "Again: 2 items?" in it.text()
        await it.press("y")
        await it.until(lambda: it.fleet.calls("api") == [("requeue_many", ("US-1-tests", "US-2-tests"))])
        await it.until(lambda: len(it.app.steps) == 1)
        await it.press("u")
        await it.until(lambda: it.fleet.calls("api")[1:] == [("withdraw_many", ("US-1-tests", "US-2-tests"))])
    held = FleetView.of([summary("api", HELD), summary("web", replace(HELD, envelope_id="US-22"))])
    async with fleet_console(held) as it:
        await it.press("asterisk", "1", "y")
        await it.until(lambda: it.fleet.calls("api") == [("withdraw_many", ("US-021-plan",))])
        await it.until(lambda: it.fleet.calls("web") == [("withdraw_many", ("US-22",))])
    broken = FleetView.of([summary("api", BROKEN, replace(BROKEN, subject="other", key="other"))])
    async with fleet_console(broken) as it:
        it.app.bridges.of(ROOT / "api")
        it.fleet.engines[ROOT / "api"].the_operations.refused = (Refusal("x", "no", 2),)
        await it.press("asterisk", "2", "y")
        await it.until(lambda: [call[0] for call in it.fleet.calls("api")] == ["drop-file", "drop-file"])
        await it.until(lambda: len(it.app.steps) == 1)
        await it.press("u")
        await it.until_shown("the file is under quarantine/.dropped")


async def test_handoffs_get_one_reason_and_loops_are_killed_together() -> None:
    view, items = of_mission("checkout")
    handoff = next(item for item in items if item.kind == "handoff")
    loops = [loop for loop in view.loops if loop.key != handoff.key][:1]
    second = replace(handoff, subject=loops[0].key, key=loops[0].key)
    fleet = FleetView.of([summary("checkout", handoff, second, missions=(view,))])
    async with fleet_console(fleet) as it:
        await it.press("asterisk", "1")
        assert it.shows(VerdictForm)
        assert "Decide on 2 loops" in it.text()
        await it.press(*"fine", "enter")
        engine = it.fleet.engines[ROOT / "checkout"]
        await it.until(lambda: len(engine.the_missions.calls) == 2)
        assert {(call[0], call[3], call[4]) for call in engine.the_missions.calls} == {
            ("answer", "approve", "fine")
        }
        await it.until_shown("are approved")


async def test_marks_and_undo_in_the_inbox_of_one_lane() -> None:
    engine = FakeEngine(lane(3, attention=4))
    async with console(engine=engine) as it:
        await it.press("I", "slash", *"status:parked", "enter", "space", "3")
        screen = it.app.screen
        assert isinstance(screen, Confirm)
        await it.press("y")
        await it.until(lambda: engine.calls == [("answer", "US-014-backend", "drop", None, None)])
        await it.until(lambda: len(it.app.steps) == 1)
        await it.press("u")
        await it.until(lambda: engine.calls[-1] == ("park again", "US-014-backend"))
        assert isinstance(it.app.screen, InboxScreen)


async def test_read_only_marks_but_does_nothing() -> None:
    async with fleet_console(two_parked(), read_only=True) as it:
        await mark_both(it)
        await it.press("3")
        await it.until_shown("This console is read-only")
        await it.press("tab")
        for key in ("s", "P", "i", "u"):
            it.app.clear_notifications()
            await it.press(key)
            await it.until_shown("This console is read-only")
        assert it.fleet.engines == {}
        await it.press("y")
        assert it.shows(CopyMenu)


async def test_the_commands_of_marked_items_are_copied() -> None:
    async with fleet_console(two_parked()) as it:
        await it.press("y", "4")
        assert it.app.clipboard == "meshtui answer US-014-backend --drop"
        await mark_both(it)
        await it.press("y", "1")
        assert it.app.clipboard == "US-1-backend\nUS-2-backend"
        await it.press("y", "2")
        assert it.app.clipboard.count("meshtui answer") == 2


# -- the lanes ---------------------------------------------------------------------------------------------


async def test_marked_lanes_are_interrupted_in_one_go_and_it_is_undone() -> None:
    async with fleet_console(two_parked()) as it:
        await it.press("i")
        await it.until_shown("go to the lanes first")
        await it.press("tab", "asterisk")
        assert "Lanes · 2 · 2 marked" in it.text()
        await it.press("i")
        text = it.text()
        assert "Interrupt 2 lanes?" in text
        assert "24 pending envelopes (api 12, web 12) will be withdrawn" in text
        assert "What runs goes on: api: US-015/backend" in text
        await it.press("y")
        await it.until(lambda: it.fleet.calls("api") == [("interrupt",)])
        await it.until(lambda: it.fleet.calls("web") == [("interrupt",)])
        await it.until_shown("Withdrawn in api, web: 4 envelopes; already running: c, c")
        await it.until(lambda: len(it.app.steps) == 1)
        await it.press("u")
        await it.until(lambda: it.fleet.calls("api")[1:] == [("restore", ("a", "b"), "in place")])
        await it.until(lambda: it.fleet.calls("web")[1:] == [("restore", ("a", "b"), "in place")])


async def test_lanes_are_paused_and_go_on() -> None:
    view = two_parked()
    async with fleet_console(view) as it:
        await it.press("tab", "asterisk", "P")
        await it.until(lambda: it.fleet.calls("api") == [("pause",)] == it.fleet.calls("web"))
        await it.until_shown("Paused: api, web")
        await it.until(lambda: len(it.app.steps) == 1)
        await it.press("u")
        await it.until(lambda: it.fleet.calls("api")[1:] == [("resume",)] == it.fleet.calls("web")[1:])
        await it.take(FleetView.of([replace(one, state="paused") for one in view.lanes]))
        assert "P continue 2" in it.text()
        await it.press("P")
        await it.until(lambda: it.fleet.calls("api")[2:] == [("resume",)])
        await it.until_shown("api, web continue")


async def test_runners_of_marked_lanes_are_stopped_and_started() -> None:
    view = two_parked()
    async with fleet_console(view) as it:
        await it.press("tab", "asterisk", "s")
        text = it.text()
        assert "Stop 2 runners?" in text
        assert "put back at the head of their queues" in text
        assert text.count("US-015/backend") >= 2
        await it.press("y")
        await it.until(lambda: it.fleet.calls("api") == [("stop", False)] == it.fleet.calls("web"))
        await it.until_shown("Ended: 2 runners (api, web)")
        idle = [
            replace(one, runner=replace(one.runner, alive=False), active=None, state="waiting")
            for one in view.lanes
        ]
        await it.take(FleetView.of(idle))
        assert "s start runner 2" in it.text()
        await it.press("s")
        assert "Start 2 runners?" in it.text()
        await it.press("y")
        await it.until(lambda: all(len(engine.runners) == 1 for engine in it.fleet.engines.values()))
        # They live in this console now: s stops them here.
        await it.press("s", "y")
        await it.until(
            lambda: [engine.runners[0].asked for engine in it.fleet.engines.values()] == [["stop"], ["stop"]]
        )


async def test_a_lane_is_copied_as_command_lines() -> None:
    async with fleet_console(two_parked()) as it:
        await it.press("tab", "y")
        assert it.shows(CopyMenu)
        await it.press("2")
        assert it.app.clipboard == "meshtui --run-dir /srv/lanes/api"
        await it.press("asterisk", "y", "6")
        api, web = (f"meshtui pause --run-dir /srv/lanes/{name}" for name in ("api", "web"))
        assert it.app.clipboard == f"{api}; {web}"


async def test_what_was_done_in_a_lane_is_undone_in_the_fleet_and_after_coming_back() -> None:
    async with fleet_console(two_parked()) as it:
        await it.press("tab", "enter")
        await it.until(lambda: it.shows(LaneScreen) and it.lane.view is not None)
        await it.press("w", "y")
        await it.until(lambda: len(it.app.steps) == 1)
        [done] = it.fleet.calls("api")
        await it.press("F", "enter")
        await it.until(lambda: it.shows(LaneScreen) and it.lane.view is not None)
        await it.press("u")
        await it.until(lambda: it.fleet.calls("api")[1:] == [("restore", (done[1],), "in place")])
        await it.press("w", "y")
        await it.until(lambda: len(it.app.steps) == 1)
        # Another lane knows nothing of it.
        await it.press("F", "j", "enter")
        await it.until(lambda: it.shows(LaneScreen) and it.lane.view is not None)
        await it.press("u")
        await it.until_shown("Nothing to undo")
        await it.press("F", "u")
        await it.until(lambda: it.fleet.calls("api")[-1] == ("restore", (done[1],), "in place"))
        await it.until_shown("api: Undone")


# -- the palette -------------------------------------------------------------------------------------------


async def test_the_palette_reaches_lanes_items_and_loops_from_the_fleet_and_the_inbox() -> None:
    view, items = of_mission("checkout")
    fleet = FleetView.of([summary("api", parked("US-1")), summary("checkout", *items, missions=(view,))])
    async with fleet_console(fleet) as it:
        await it.press("colon", *"loop-auth")
        await it.until_shown("checkout · m7/loop-auth")
        await it.press("escape", "I", "colon", *"api us-1")
        await it.until_shown("api · US-1/backend")
        await it.press("enter")
        await it.until(lambda: it.shows(LaneScreen))
        assert it.lane.run_dir == ROOT / "api"
        await it.press("colon", *"checkout")
        await it.until_shown("Open this running lane")
        await it.press("enter")
        await it.until(lambda: it.shows(LaneScreen) and it.lane.run_dir == ROOT / "checkout")


async def test_the_palette_reaches_every_envelope_of_every_lane_by_its_file(tmp_path: Path) -> None:
    lanes = []
    for name in ("api", "web"):
        run_dir, queue = new_lane(tmp_path / name)
        queue.enqueue_many([phase(f"{name}-{number}") for number in range(3)])
        finish_first(run_dir)
        lanes.append(replace(summary(name), run_dir=run_dir.root))
    fleet = FleetView.of(lanes, places=(tmp_path,))
    async with fleet_console(fleet) as it:
        found = [hit async for hit in FleetPlaces(it.home).search("web-")]
        assert sorted((str(hit.text), hit.help) for hit in found if isinstance(hit, Hit)) == [
            ("web · web-0", "Go to this finished envelope"),
            ("web · web-1", "Go to this pending envelope"),
            ("web · web-2", "Go to this pending envelope"),
        ]


async def test_the_inbox_of_one_lane_finds_its_envelopes_and_leaves_for_them() -> None:
    async with console(lane(6, attention=2)) as it:
        await it.press("I")
        [hit] = [hit async for hit in Places(it.app.screen).search("us-016/plan")]
        hit.command()
        await it.until(lambda: isinstance(it.app.screen, LaneScreen))
        await it.until(lambda: it.lane.row is not None and it.lane.row.envelope_id == "US-016-plan")
