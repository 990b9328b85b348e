"""The keys of what is open, and texts that name keys: both as the operator has them."""

from __future__ import annotations

import pytest

from meshtui.screens.enqueue import EnqueueForm
from meshtui.screens.help import Help
from meshtui.screens.keys_here import KeysHere
from meshtui.settings import Settings
from meshtui.theme import theme_for
from meshtui.widgets.columns import empty_text
from meshtui.widgets.detail import SELECT
from meshtui.widgets.status_line import sparkline
from tests.support.mission_screens import mission, only
from tests.support.pilot import console
from tests.support.views import empty, lane

OTHER = Settings(
    keys={
        "lane.enqueue": "f5",
        "lane.plan": "f6",
        "lane.restore": "f7",
        "enqueue.add": "f8",
        "question.yes": "f9",
    }
)


async def test_f1_in_a_form_shows_its_keys_and_keeps_what_was_typed() -> None:
    async with console(lane(3)) as it:
        await it.press("e", "g", "o", "f1")
        assert isinstance(it.app.screen, KeysHere)
        shown = it.text()
        for text in ("Add it, or save", "^s", "f2", "The next field"):
            assert text in shown, text
        await it.press("escape", "!")
        assert isinstance(it.app.screen, EnqueueForm)
        assert "go!" in it.text()


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (("i",), "Yes: do it"),
        (("plus",), "Leave it"),
        (("j", "m"), "Send nothing"),
        (("t",), "Zoom in"),
        (("n",), "Make a plan"),
        (("y",), "The first"),
    ],
)
async def test_every_dialog_tells_its_keys(keys: tuple[str, ...], words: str) -> None:
    async with console(lane(3)) as it:
        await it.press(*keys)
        below = it.app.screen
        await it.press("f1")
        assert isinstance(it.app.screen, KeysHere)
        assert words in it.text()
        await it.press("f1")
        assert it.app.screen is below


async def test_f1_on_a_screen_is_the_help() -> None:
    async with console(lane(3)) as it:
        await it.press("f1")
        assert isinstance(it.app.screen, Help)
        await it.press("f1")
        assert not isinstance(it.app.screen, Help)


async def test_a_question_mark_is_a_letter_in_a_form_and_a_question_to_a_question() -> None:
    async with console(lane(3)) as it:
        await it.press("e", "question_mark")
        assert isinstance(it.app.screen, EnqueueForm)
        await it.press("escape", "i", "question_mark")
        assert isinstance(it.app.screen, KeysHere)


async def test_texts_name_the_keys_that_were_chosen() -> None:
    async with console(empty(), settings=OTHER) as it:
        shown = it.text()
        assert "f5 enqueues its first envelope" in shown
        assert "f6 plans a mission" in shown
        assert empty_text("pending") == "Nothing is waiting. f5 enqueues an envelope."
    async with console(lane(3), settings=OTHER) as it:
        await it.press("i")
        assert "f7 brings them back" in it.text()
        assert "Withdraw all  f9" in it.text()
        await it.press("escape", "f5")
        assert "f8 adds" in it.text()
        await it.press("f1")
        assert "f8" in it.text()
    async with console(empty()) as it:
        # The next console has its own.
        assert "e enqueues its first envelope" in it.text()


async def test_details_do_not_ask_for_an_envelope_where_there_is_none() -> None:
    for view in (only(mission()), empty()):
        async with console(view) as it:
            await it.press("tab", "tab")
            assert SELECT[:18] not in it.text()


async def test_a_receipt_covers_neither_the_events_nor_the_keys() -> None:
    for size in ((60, 18), (80, 24), (120, 40), (200, 60)):
        async with console(lane(3), size=size) as it:
            keys, journal = (it.lane.query_one(f"#{name}").region for name in ("keys", "journal"))
            await it.press("w", "y")
            await it.until(lambda: list(it.app.screen.query("Toast")), "a receipt")
            toast = it.app.screen.query_one("Toast").region
            assert not toast.overlaps(keys)
            assert not toast.overlaps(journal)


def test_a_queue_that_stays_as_it_is_is_drawn_low() -> None:
    steady = tuple((minute * 1000, 900 + minute % 3) for minute in range(12))
    assert set(sparkline(steady, 12_000)) == {"▁"}
    assert "█" in sparkline(((0, 1), (5000, 12)), 12_000)


def test_without_colours_the_theme_is_the_one_made_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert theme_for(None) == "meshtui"
    monkeypatch.setenv("NO_COLOR", "1")
    assert theme_for(None) == "meshtui-mono"
    assert theme_for("meshtui-light") == "meshtui-light"
