"""What the console looks like: signs in ASCII, contrast, themes, chosen columns, nothing that moves."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest
from textual.color import Color
from textual.widgets import Input

import meshtui.status as status
from meshtui.app import MeshtuiApp
from meshtui.core.clock import ManualClock
from meshtui.core.run_dir import RunDir
from meshtui.glyphs import ASCII, in_ascii
from meshtui.headless import render_svg
from meshtui.screens.confirm import Confirm
from meshtui.settings import Settings
from meshtui.theme import CONTRAST, CONTRAST_LIGHT, DARK, LIGHT, MONO, MONO_LIGHT, THEMES, theme_for
from meshtui.widgets.key_bar import KeyBar
from meshtui.widgets.prose import bar
from meshtui.widgets.table import QueueTable
from meshtui.widgets.timeline import STEP_SIGNS
from tests.support.mission_screens import done_mission, loop, mission, only, with_missions
from tests.support.pilot import console
from tests.support.views import NOW, empty, lane

MARKS = [
    (name, mark)
    for name, table in vars(status).items()
    if name.endswith(("_MARKS", "_STATES")) and isinstance(table, dict)
    for mark in table.values()
    if isinstance(mark, status.Mark)
]
PASSAGE = re.compile(r"<text[^>]*>([^<]*)</text>")


def words_of(svg: str) -> str:
    """All text of a picture."""
    return html.unescape("\n".join(PASSAGE.findall(svg))).replace("\u00a0", " ")


# ASCII


def test_every_status_has_a_glyph_and_a_word_also_in_ascii() -> None:
    assert len(MARKS) > 30
    for name, mark in MARKS:
        assert len(mark.glyph) == 1, name
        assert mark.word.isascii(), name
        plain = in_ascii(mark.glyph)
        assert plain.isascii(), (name, mark)
        assert plain.strip(), (name, mark)


def test_statuses_of_one_list_stay_apart_in_ascii() -> None:
    for table in (status.LANE_STATES, status.SECTION_MARKS, status.LOOP_MARKS):
        unlike = {mark.glyph for mark in table.values()}
        assert len({in_ascii(glyph) for glyph in unlike}) == len(unlike)


def test_bars_and_the_timeline_can_be_read_in_ascii_without_colours() -> None:
    (full, _look), (rest, _rule) = bar(0.5, 6, "ok")
    assert in_ascii(full + rest) == "===---"
    signs = set(STEP_SIGNS.values())
    assert len({in_ascii(sign) for sign in signs}) == len(signs)


def test_signs_take_one_cell_each() -> None:
    assert all(len(plain) == 1 and plain.isascii() for plain in ASCII.values())


@pytest.mark.parametrize("screen", ["lane", "help", "enqueue", "kill", "interrupt"])
@pytest.mark.parametrize("size", [(60, 18), (120, 40)])
def test_a_screen_in_ascii(screen: str, size: tuple[int, int]) -> None:
    svg = render_svg(
        lane(12, attention=4), size=size, now_ms=NOW, screen=screen, settings=Settings(glyphs="ascii")
    )
    text = words_of(svg)
    assert "running" in text
    assert text.isascii(), sorted({sign for sign in text if not sign.isascii()})


@pytest.mark.parametrize("screen", ["loops", "timeline"])
def test_loops_in_ascii(screen: str) -> None:
    svg = render_svg(
        only(done_mission()), size=(120, 40), now_ms=NOW, screen=screen, settings=Settings(glyphs="ascii")
    )
    text = words_of(svg)
    assert text.isascii(), sorted({sign for sign in text if not sign.isascii()})


def test_what_others_wrote_stays_as_it_is() -> None:
    view = lane(1)
    view = replace(view, pending=(replace(view.pending[0], story_id="größer", phase="东京"),))
    svg = render_svg(view, size=(120, 40), now_ms=NOW, settings=Settings(glyphs="ascii"))
    assert "größer/东京" in words_of(svg)


# Colours


def luminance(color: str) -> float:
    """Of WCAG 2, from 0 to 1."""
    parts = [value / 255 for value in Color.parse(color).rgb]
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_statuses_can_be_read_on_every_ground(theme: object) -> None:
    assert theme in THEMES
    chosen = next(one for one in THEMES if one is theme)
    least = 7.0 if chosen in (CONTRAST, CONTRAST_LIGHT) else 4.5
    assert chosen.background is not None
    for ground in (chosen.background, chosen.variables["head"]):
        for name in ("status-run", "status-ok", "status-warn", "status-bad", "status-idle", "quiet"):
            assert contrast(chosen.variables[name], ground) >= least, (name, ground)


@pytest.mark.parametrize("theme", [MONO, MONO_LIGHT], ids=lambda theme: theme.name)
def test_monochrome_has_no_colour(theme: object) -> None:
    chosen = next(one for one in THEMES if one is theme)
    for value in (chosen.background, chosen.foreground, *chosen.variables.values()):
        assert value is not None
        assert len(set(Color.parse(value).rgb)) == 1, value


def test_contrast_goes_with_the_ground() -> None:
    assert theme_for(None) == DARK.name
    assert theme_for(None, "high") == CONTRAST.name
    assert theme_for(LIGHT.name, "high") == CONTRAST_LIGHT.name
    assert theme_for("nord", "high") == "nord"


async def test_a_theme_chosen_in_the_palette_says_how_to_keep_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/etc/mine")
    async with console(lane(2)) as it:
        await it.press("ctrl+p")
        await it.press(*"theme")
        await it.until_shown("Theme")
        await it.press("enter")
        await it.press(*"nord")
        await it.until_shown("nord")
        await it.press("enter")
        await it.until(lambda: it.app.theme == "nord")
        await it.until_shown('theme = "nord" in /etc/mine/meshtui/config.toml keeps it')


# What is set


async def test_columns_in_the_order_that_was_asked_for() -> None:
    settings = Settings(columns={"pending": ("waiting", "story / phase")})
    async with console(lane(3), settings=settings) as it:
        table = it.lane.query_one(QueueTable)
        titles = [column.title for column, _width in table.layout_of(60).columns]
        assert titles == ["waiting", "story / phase"]
        await it.press("l")
        assert len(it.lane.query_one(QueueTable).layout_of(100).columns) > 2


async def test_a_key_that_was_moved_works_and_is_shown_and_the_old_one_is_free() -> None:
    async with console(lane(3), settings=Settings(keys={"lane.help": "f1", "lane.palette": "f2"})) as it:
        assert "f1 help" in it.text()
        assert it.drawn(f"#{it.lane.query_one(KeyBar).id}")
        await it.press("question_mark")
        assert it.app.screen is it.lane
        await it.press("f1")
        assert it.app.screen is not it.lane


async def test_a_moved_key_leaves_the_other_lists_key_alone() -> None:
    view = with_missions(lane(3), mission(loop("loop-a", "running")))
    async with console(view, size=(120, 40), settings=Settings(keys={"lane.kill": "f8"})) as it:
        await it.press("x")
        assert it.app.screen is it.lane
        await it.press("f8")
        assert isinstance(it.app.screen, Confirm)
        assert "US-015/backend" in it.text()
        await it.press("escape")
        it.lane.look_at("loops")
        it.lane.focus_list()
        await it.press("f8")
        assert it.app.screen is it.lane
        await it.press("x")
        assert isinstance(it.app.screen, Confirm)
        assert "loop-a" in it.text()


async def test_nothing_moves_where_that_was_asked_for() -> None:
    async with console(lane(3), settings=Settings(motion=False)) as it:
        assert it.app.animation_level == "none"
        await it.press("slash")
        field = it.app.focused
        assert isinstance(field, Input)
        assert field.cursor_blink is False


async def test_problems_of_the_file_are_told_and_the_rest_counted() -> None:
    app = MeshtuiApp(
        RunDir(empty().run_dir),
        view=empty(),
        clock=ManualClock(NOW),
        settings_problems=[f"config.toml: line {number}: wrong" for number in range(1, 6)],
    )
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        for _ in range(200):
            if len(app._notifications) == 4:
                break
            await pilot.pause(0.02)
        told = [one.message for one in app._notifications]
    assert told == [*(f"config.toml: line {n}: wrong" for n in (1, 2, 3)), "2 more: meshtui config check"]
