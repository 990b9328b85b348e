"""Steering what runs from the console: more time for it, a message to its session."""

from __future__ import annotations

import pytest
from textual.widgets import Input

from meshtui.commands import BY_ACTION
from meshtui.core.errors import NotFound
from meshtui.screens.help import keys_of
from meshtui.screens.steer import ExtendForm, MessageForm
from tests.support.engine import FakeEngine
from tests.support.pilot import console
from tests.support.views import lane


async def test_plus_gives_the_running_phase_more_time() -> None:
    engine = FakeEngine(lane(3))
    running = engine.the_reader.view.active[0]
    async with console(engine=engine) as it:
        await it.press("plus")
        assert isinstance(it.app.screen, ExtendForm)
        await it.press("enter")
        await it.until(lambda: engine.calls)
        assert engine.calls == [("extend", running.envelope_id, 1800.0)]
        await it.until_shown(f"{running.envelope_id} may run until")


async def test_a_number_of_ones_own_and_the_offered_ones() -> None:
    engine = FakeEngine(lane(3))
    async with console(engine=engine) as it:
        await it.press("plus")
        it.app.screen.query_one("#minutes", Input).value = "soon"
        await it.press("enter")
        await it.until_shown("a number of minutes")
        it.app.screen.query_one("#minutes", Input).value = "0.5"
        await it.press("enter")
        await it.press("plus")
        await it.pilot.click("#add-60")
        await it.until(lambda: len(engine.calls) == 2)
        assert [call[2] for call in engine.calls] == [30.0, 3600.0]
        await it.press("plus", "escape")
        assert len(engine.calls) == 2


async def test_a_refusal_is_shown() -> None:
    engine = FakeEngine(lane(3))
    engine.the_operations.error = NotFound("envelope 'a' is not running; see: meshtui status")
    async with console(engine=engine) as it:
        await it.press("plus", "enter")
        await it.until_shown("is not running")


async def test_m_sends_a_message_to_the_selected_story() -> None:
    engine = FakeEngine(lane(3))
    async with console(engine=engine) as it:
        await it.press("j")
        row = it.lane.row
        assert row is not None
        await it.press("m")
        assert isinstance(it.app.screen, MessageForm)
        await it.press("enter")
        await it.until_shown("say what")
        await it.press(*"and [tests] too")
        await it.press("enter")
        await it.until(lambda: engine.calls)
        assert engine.calls == [("message", row.envelope_id, "and [tests] too")]
        await it.until_shown("Message message-1 is number 1 of 4 pending")


@pytest.mark.parametrize("key", ["plus", "m"])
async def test_nothing_is_steered_where_one_only_reads(key: str) -> None:
    engine = FakeEngine(lane(3))
    async with console(engine=engine, read_only=True) as it:
        await it.press(key)
        await it.until_shown("read-only")
        assert engine.calls == []


@pytest.mark.parametrize("key", ["plus", "m"])
async def test_what_cannot_be_done_is_said(key: str) -> None:
    engine = FakeEngine(lane(0, running=False))
    async with console(engine=engine) as it:
        await it.press(key)
        await it.until_shown("Nothing is running" if key == "plus" else "Select an envelope")


@pytest.mark.parametrize("size", [(60, 18), (80, 24), (120, 40)])
@pytest.mark.parametrize("key", ["plus", "m"])
async def test_the_forms_fit(key: str, size: tuple[int, int]) -> None:
    async with console(lane(3), size=size) as it:
        await it.press(key)
        assert "Leave it" in it.text()
        assert ("+60" if key == "plus" else "Send") in it.text()


def test_they_are_in_help_and_palette() -> None:
    assert keys_of(BY_ACTION["extend"]) == "+"
    assert BY_ACTION["extend"].title
    assert BY_ACTION["message"].title
