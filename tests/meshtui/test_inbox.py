"""What needs somebody in one lane: the panel, the number keys, the inbox by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from textual.screen import Screen

from meshtui.core.clock import ManualClock
from meshtui.screens.confirm import Confirm
from meshtui.screens.inbox import InboxScreen
from meshtui.screens.lane import LaneScreen
from meshtui.steady import DOUBT_MS, Steady
from meshtui.widgets.attention import NeedsYou
from tests.support.engine import FakeEngine
from tests.support.pilot import Console, console
from tests.support.views import NOW, QUARANTINED, STALLED, lane


def selected(it: Console) -> str:
    """The kind of the selected item."""
    item = it.lane.query_one(NeedsYou).selected
    assert item is not None
    return item.kind


def shows(it: Console, kind: type[Screen[Any]]) -> bool:
    """Whether a screen of this kind is on top."""
    return isinstance(it.app.screen, kind)


async def test_the_selection_sticks_to_its_item_and_a_key_for_one_that_went_asks() -> None:
    view = lane(3, attention=3)
    engine = FakeEngine(replace(view, attention=view.attention[1:]))
    clock = ManualClock(NOW)
    async with console(engine=engine, clock=clock) as it:
        assert selected(it) == "failed"
        await it.show(view)
        assert selected(it) == "failed"
        # It goes: the next one stands there now, and a key may have been meant for it.
        await it.show(replace(view, attention=(view.attention[0], view.attention[2])))
        assert selected(it) == "quarantined"
        await it.press("1")
        assert isinstance(it.app.screen, Confirm)
        assert "The list changed just now" in it.text()
        await it.press("n")
        assert engine.calls == []
        clock.advance(DOUBT_MS / 1000)
        await it.press("1")
        await it.until(lambda: engine.calls == [("repair", QUARANTINED.key)])


async def test_what_waits_for_an_answer_is_selected_first() -> None:
    view = lane(3, attention=3)
    late = replace(view, attention=(*view.attention[1:], view.attention[0]))
    async with console(late) as it:
        needs = it.lane.query_one(NeedsYou)
        assert needs.selected is not None
        assert needs.selected.key == STALLED.key


async def test_more_than_fit_are_told_and_shown_by_I() -> None:
    view = lane(3, attention=4)
    many = tuple(replace(view.attention[1], subject=f"US-{n}", key=f"k{n}") for n in range(8))
    async with console(replace(view, attention=(*view.attention, *many))) as it:
        assert "4 of 12 · I shows all" in it.text()
        await it.press("I")
        assert shows(it, InboxScreen)
        assert "Needs you  12" in it.text()
        await it.press("F")
        await it.until_shown("This console shows one lane")
        await it.press("enter")
        assert shows(it, LaneScreen)
        await it.press("I", "escape")
        assert shows(it, LaneScreen)


async def test_the_inbox_of_one_lane_acts_and_filters() -> None:
    engine = FakeEngine(lane(3, attention=4))
    async with console(engine=engine) as it:
        await it.press("I")
        screen = it.app.screen
        assert isinstance(screen, InboxScreen)
        await it.press("slash", *"status:parked", "enter")
        assert [need.item.kind for need in screen.inbox.rows] == ["parked"]
        await it.press("2")
        await it.until(lambda: engine.calls == [("answer", "US-014-backend", "retry", None, 7200.0)])
        await it.press("escape")
        assert len(screen.inbox.rows) == 4
        await it.press("escape")
        assert shows(it, LaneScreen)


def test_when_a_key_may_have_been_meant_for_another_item() -> None:
    steady = Steady()
    steady.see("a", 0, by_hand=False)
    assert not steady.in_doubt(0)
    steady.see("b", 10, by_hand=False)
    assert steady.in_doubt(10)
    assert steady.in_doubt(10 + DOUBT_MS - 1)
    assert not steady.in_doubt(10 + DOUBT_MS)
    steady.see("c", 20, by_hand=True)
    assert not steady.in_doubt(20)
    # It went, and something else comes at once; or after a while.
    steady.see(None, 30, by_hand=False)
    steady.see("d", 40, by_hand=False)
    assert steady.in_doubt(40)
    steady.see(None, 50, by_hand=False)
    steady.see("e", 50 + DOUBT_MS, by_hand=False)
    assert not steady.in_doubt(50 + DOUBT_MS)


def test_what_comes_to_an_empty_list_is_meant() -> None:
    steady = Steady()
    steady.see(None, 0, by_hand=False)
    steady.see("a", 5, by_hand=False)
    assert not steady.in_doubt(5)
