"""Texts in the details: logs that follow, search, wrapping, the whole screen, JSON, diffs, marking and copying."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import Input

from meshtui.core.view import CallView, Detail, LaneView
from meshtui.widgets.detail import DetailPane
from meshtui.widgets.find_line import FindLine
from meshtui.widgets.json_doc import JsonDoc
from tests.support.engine import FakeEngine
from tests.support.pilot import Console, console
from tests.support.views import ACTIVE, lane

SIZE = (120, 40)


def call_in(folder: Path, *, live: bool = True) -> CallView:
    folder.mkdir(exist_ok=True)
    for name in ("stdout.log", "stderr.log"):
        (folder / name).touch()
    return CallView(
        "c1", folder, folder / "stdout.log", folder / "stderr.log", "running" if live else "ended"
    )


def running() -> LaneView:
    """A lane in which only one phase runs."""
    view = lane(0)
    return replace(view, done=(), counts=replace(view.counts, done=0, claimed=0))


@asynccontextmanager
async def reading(
    call: CallView, *, size: tuple[int, int] = SIZE, record: dict[str, object] | None = None
) -> AsyncIterator[Console]:
    """The output of ``call`` on the screen, with the focus."""
    detail = Detail(ACTIVE.key, "active", record or {"envelope": {}}, None, call=call)
    async with console(engine=FakeEngine(running(), {ACTIVE.key: detail}), size=size) as it:
        assert it.lane.show_key(ACTIVE.key)
        await it.press("enter")
        await it.until(lambda: pane(it).detail is not None and pane(it).output is not None)
        yield it


def pane(it: Console) -> DetailPane:
    return it.lane.query_one(DetailPane)


def said(it: Console) -> str:
    """What stands below the text."""
    return str(pane(it).border_subtitle or "")


def numbered(count: int) -> str:
    return "".join(f"line {number} of the log\n" for number in range(1, count + 1))


async def test_nothing_is_followed_in_the_output_of_what_has_ended(tmp_path: Path) -> None:
    call = call_in(tmp_path / "c")
    call.stdout.write_text(numbered(200))
    async with reading(replace(call, state="ended")) as it:
        await it.until_shown("line 200 of the log")
        await it.until(lambda: "follow" not in said(it))
        await it.press("k")
        assert "follow" not in said(it)


async def test_a_log_is_followed_until_it_is_scrolled_up_and_again_from_its_end(tmp_path: Path) -> None:
    call = call_in(tmp_path / "c")
    call.stdout.write_text(numbered(200))
    async with reading(call) as it:
        await it.until_shown("line 200 of the log")
        assert "● following" in said(it)
        with call.stdout.open("a") as log:
            log.write("and more\n")
        await it.until_shown("and more")
        await it.press("k")
        assert "f follows" in said(it)
        with call.stdout.open("a") as log:
            log.write("unseen\n" * 5)
        await it.until(lambda: len(pane(it).prose.doc) == 206)
        assert "unseen" not in it.text()
        await it.press("end")
        await it.until_shown("unseen")
        assert "● following" in said(it)
        await it.press("f")
        assert "f follows" in said(it)
        await it.press("f")
        assert "● following" in said(it)


async def test_what_is_read_stays_in_its_place_while_the_log_grows(tmp_path: Path) -> None:
    call = call_in(tmp_path / "c")
    call.stdout.write_text(numbered(300))
    async with reading(call) as it:
        await it.press("home", "pagedown")
        before = pane(it).prose.top
        with call.stdout.open("a") as log:
            log.write("x\n" * 1000)
        await it.until(lambda: len(pane(it).prose.doc) == 1300)
        assert pane(it).prose.top == before


async def test_a_log_that_is_cut_off_or_replaced_is_shown_as_it_is(tmp_path: Path) -> None:
    call = call_in(tmp_path / "c")
    call.stdout.write_text(numbered(500))
    async with reading(call) as it:
        await it.until_shown("line 500 of the log")
        call.stdout.write_text("begun anew\n")
        await it.until_shown("begun anew")
        assert "line 500" not in it.text()
        assert "file replaced" in said(it)
        other = tmp_path / "other"
        other.write_text("another file\n")
        other.replace(call.stdout)
        await it.until_shown("another file")
        call.stdout.unlink()
        await it.until(lambda: "file gone" in said(it))


async def test_both_streams_are_shown_the_one_written_last_at_the_end(tmp_path: Path) -> None:
    call = call_in(tmp_path / "c", live=False)
    call.stdout.write_text("to stdout\n")
    call.stderr.write_text("to stderr\n")
    os.utime(call.stdout, (1, 1))
    async with reading(call) as it:
        await it.until_shown("to stderr")
        shown = it.text()
        assert shown.index("── stdout") < shown.index("to stdout") < shown.index("── stderr")


async def test_control_characters_do_nothing_and_a_progress_bar_is_one_line(tmp_path: Path) -> None:
    call = call_in(tmp_path / "c")
    call.stdout.write_bytes(
        b"\x1b]0;title\x07\x1b[31mred\x1b[0m\xff\n"
        + b"".join(b"%d %%\r" % n for n in range(101))
        + b"\nend\n"
    )
    async with reading(call) as it:
        await it.until_shown("red\ufffd")
        assert "100 %" in it.text()
        assert " 99 %" not in it.text()
        assert len(pane(it).prose.doc) == 3


async def test_search_is_live_counts_and_goes_round(tmp_path: Path) -> None:
    call = call_in(tmp_path / "c", live=False)
    lines = numbered(400).splitlines()
    for number in range(17):
        lines[number * 20 + 5] = f"here is needle {number + 1}"
    call.stdout.write_text("\n".join(lines))
    async with reading(call) as it:
        await it.press("home", "slash", *"Needle")
        await it.until_shown("not found")
        await it.press(*["backspace"] * 6, *"needle")
        await it.until_shown("1 of 17")
        assert "here is needle 1" in it.text()
        await it.press("enter", "n", "n")
        assert "3 of 17" in it.text()
        assert "here is needle 3" in it.text()
        await it.press("N", "N", "N")
        assert "17 of 17" in it.text()
        await it.press("escape")
        assert not pane(it).query_one(FindLine).display
        assert pane(it).prose.needle is None
        assert it.app.focused is pane(it).prose


async def test_n_without_a_search_means_what_it_means_elsewhere(tmp_path: Path) -> None:
    call = call_in(tmp_path / "c")
    async with reading(call) as it:
        await it.press("n")
        assert "Plan a mission" in it.text()


async def test_matches_are_looked_for_in_what_comes_later(tmp_path: Path) -> None:
    call = call_in(tmp_path / "c")
    call.stdout.write_text("a needle\n")
    async with reading(call) as it:
        await it.until_shown("a needle")
        await it.press("slash", *"needle", "enter")
        await it.until_shown("1 of 1")
        with call.stdout.open("a") as log:
            log.write("two needle needle\n")
        await it.until_shown("1 of 3")
        await it.press("n", "n")
        await it.until_shown("3 of 3")


async def test_long_lines_are_wrapped_or_scrolled_sideways(tmp_path: Path) -> None:
    call = call_in(tmp_path / "c", live=False)
    call.stdout.write_text("word " * 60 + "the end\nsecond\n")
    async with reading(call) as it:
        await it.until_shown("the end")
        await it.press("W")
        assert "the end" not in it.text()
        assert "not wrapped" in said(it)
        await it.press(*["right"] * 40)
        assert "the end" in it.text()
        await it.press(*["left"] * 40)
        assert "second" in it.text()
        await it.press("W")
        assert "the end" in it.text()


@pytest.mark.parametrize("key", ["z", "enter"])
@pytest.mark.parametrize("size", [(120, 40), (60, 18)])
async def test_the_details_take_the_whole_screen_and_give_it_back(
    tmp_path: Path, key: str, size: tuple[int, int]
) -> None:
    call = call_in(tmp_path / "c")
    call.stdout.write_text(numbered(100))
    async with reading(call, size=size) as it:
        await it.press(key)
        assert not it.drawn("#lists")
        assert pane(it).size.width >= size[0] - 2
        assert pane(it).prose.has_focus
        await it.press("escape")
        assert not it.lane.has_class("-reading")
        assert it.drawn("#lists") == (size[0] >= 100)
        await it.press("escape")
        assert it.drawn("#lists")


async def test_lines_are_marked_with_the_keyboard_and_copied(tmp_path: Path) -> None:
    call = call_in(tmp_path / "c", live=False)
    call.stdout.write_text(numbered(100))
    async with reading(call) as it:
        await it.press("home", "V", "j", "j")
        assert "3 lines marked" in said(it)
        await it.press("c")
        assert it.app.clipboard == "line 1 of the log\nline 2 of the log\nline 3 of the log"
        assert not pane(it).prose.marking
        await it.press("shift+down", "shift+down", "ctrl+c")
        assert it.app.clipboard == "line 1 of the log\nline 2 of the log"
        assert it.app.is_running
        await it.press("ctrl+c")
        await it.until_shown("q quits")


async def test_marking_beyond_the_page_scrolls(tmp_path: Path) -> None:
    call = call_in(tmp_path / "c", live=False)
    call.stdout.write_text(numbered(100))
    async with reading(call) as it:
        await it.press("home", "V", "G", "c")
        assert it.app.clipboard == numbered(100).rstrip("\n")


async def test_the_mouse_chooses_text_as_it_is_and_not_as_it_is_wrapped(tmp_path: Path) -> None:
    call = call_in(tmp_path / "c", live=False)
    text = " ".join(f"word{number}" for number in range(40))
    call.stdout.write_text(f"first\n{text}\nlast\n")
    async with reading(call) as it:
        await it.until_shown("word39")
        prose = pane(it).prose
        await it.pilot.mouse_down(prose, offset=(3, 0))
        await it.pilot.hover(prose, offset=(3, 5))
        await it.pilot.mouse_up(prose, offset=(3, 5))
        await it.press("ctrl+c")
        chosen = it.app.clipboard
        assert chosen.startswith("rst\nword0 word1")
        assert "\n" not in chosen[4:]
        assert text.startswith(chosen[4:])


async def test_a_second_click_chooses_a_word_and_a_third_the_line(tmp_path: Path) -> None:
    call = call_in(tmp_path / "c", live=False)
    call.stdout.write_text("one two-three four\nnext\n")
    async with reading(call) as it:
        await it.until_shown("two-three")
        await it.pilot.click(pane(it).prose, offset=(8, 0), times=2)
        await it.press("c")
        assert it.app.clipboard == "two-three"
        await it.pilot.click(pane(it).prose, offset=(8, 0), times=3)
        await it.press("c")
        assert it.app.clipboard == "one two-three four"


async def test_the_file_behind_it_folds_as_json(tmp_path: Path) -> None:
    call = call_in(tmp_path / "c")
    (call.folder / "call.json").write_text(
        json.dumps({"argv": ["a", "b"], "cwd": "/x", "text": "one\ntwo\nthree"})
    )
    async with reading(call) as it:
        await it.press("J")
        doc = pane(it).prose.doc
        assert isinstance(doc, JsonDoc)
        await it.until_shown("argv: [2]")
        assert '"a"' in it.text()
        await it.press("j")
        assert "[“call.json" not in said(it)
        assert said(it).startswith('["call.json"].argv')
        await it.press("enter")
        assert '"a"' not in it.text()
        await it.press("space")
        assert '"a"' in it.text()
        await it.press("minus")
        assert "argv" not in it.text()
        await it.press("minus")
        assert "three" in it.text()
        await it.press("c")
        assert json.loads(it.app.clipboard)["cwd"] == "/x"
        await it.press("slash", *"three")
        await it.until_shown("1 of ")
        await it.press("escape", "escape")
        assert not isinstance(pane(it).prose.doc, JsonDoc)


async def test_typing_in_the_search_is_typing(tmp_path: Path) -> None:
    call = call_in(tmp_path / "c")
    async with reading(call) as it:
        await it.press("slash", *"qxze1")
        assert isinstance(it.app.focused, Input)
        assert pane(it).query_one(FindLine).field.value == "qxze1"
        assert it.app.is_running


async def test_a_huge_log_opens_at_its_end_and_is_counted_meanwhile(tmp_path: Path) -> None:
    call = call_in(tmp_path / "c")
    with call.stdout.open("wb") as log:
        for _ in range(40):
            log.write(b"some line of a log that is long enough\n" * 25_000)
        log.write(b"the very end\n")
    async with reading(call) as it:
        await it.until_shown("the very end")
        await it.until(lambda: "line 1,000,001 of" in said(it) or "of 1,000,001" in said(it))
        await it.press("home")
        assert "line 1 of 1,000,001" in said(it)
        assert it.text().count("some line of a log") > 20
