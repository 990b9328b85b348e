"""Text from outside is shown as it was typed, and never acts on the terminal."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from textual.widgets._toast import Toast

from meshtui.core.view import Attention, Detail, Event, Exit, LaneView, Row
from meshtui.messages import Told
from meshtui.text import clean, clean_lines, clean_output, cut_end, cut_middle, cut_start, fit, wrap
from meshtui.widgets.describe import envelope_items
from meshtui.widgets.prose import Fact
from tests.support.engine import FakeEngine
from tests.support.pilot import console
from tests.support.views import NOW, STALLED, lane

MARKUP = ["[/", "[/foo]", "[true, false] [a=b] [bold]", "[@click=app.quit]x[/] $primary \\[x] :smile:"]
CONTROL = [
    "\x1b]52;c;aGk=\x07 \x1b]0;title\x07",
    "\x1b[2J\x1b[H a\rb\tc",
    "\x9b31m \x00\x7f \u202egnp.exe \ud800",
]
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def hostile(text: str) -> tuple[LaneView, FakeEngine]:
    """A lane with ``text`` in every field."""
    base = lane(1, attention=1)
    row = replace(
        base.pending[0], envelope_id=text, label=text, phase=None, story_id=None, engine=text, error=text
    )
    active = replace(base.active[0], envelope_id=text, story_id=text, phase=text, engine=text)
    stalled = replace(STALLED, envelope_id=text, story_id=text, phase=text, error=text)
    item = Attention(
        "parked", text, text, NOW, (Exit(text, text, "retry"), Exit("drop", "", "drop")), stalled.key
    )
    view = replace(
        base,
        lane_id=text,
        run_dir=Path("/srv") / text.replace("/", "_").replace("\x00", ""),
        pending=(row,),
        active=(active,),
        stalled=(stalled,),
        attention=(item,),
        journal=(Event(1, NOW, text, text),),
    )
    detail = Detail(
        row.key,
        "pending",
        {"envelope": {"kind": "phase", "prompt": text, "cd": text, "note": {text: text}, "constraints": [text]}},
        None,
        result={"status": "failed", "error": text, "output": text, "usage": {text: 1}},
        handoff={
            "status": text, "summary": text, "back_pressure": {text: text}, "files_changed": [text],
            "ac_evidence": [{"index": 0, "met": True, "evidence": text}],
        },
        question={"cause": text, "evidence": {text: text}},
    )  # fmt: skip
    return view, FakeEngine(view, {row.key: detail, stalled.key: replace(detail, key=stalled.key)})


@pytest.mark.parametrize("text", [*MARKUP, *CONTROL])
async def test_every_field_is_literal_and_harmless(text: str) -> None:
    view, engine = hostile(text)
    shown = clean(text)
    async with console(engine=engine, size=(160, 50)) as it:
        await it.until(lambda: engine.the_reader.asked)
        frames = [it.text()]
        for key in ("d", "d", "d", "d", "l", "h"):
            await it.press(key)
            frames.append(it.text())
        for opened, closed in (("w", "n"), ("x", "n"), ("i", "n"), ("a", "escape"), ("3", "escape")):
            await it.press(opened)
            frames.append(it.text())
            await it.press(closed)
        it.lane.post_message(Told(text, "error"))
        await it.until(lambda: it.app.screen.query(Toast))
        frames.append(it.text())
        assert shown in frames[0]
        assert shown in frames[-1]
        assert len(frames[0].split(shown)) > 6
        for frame in frames:
            assert UNSAFE.search(frame) is None
        assert it.app.is_running
    assert view.lane_id == text


def test_clean_leaves_no_character_that_acts() -> None:
    every = "".join(chr(code) for code in [*range(0x300), 0x2028, 0x202E, 0x2066, 0xD800, 0xDFFF, 0xFEFF])
    shown = clean(every)
    assert UNSAFE.search(shown) is None
    assert "\n" not in shown
    assert clean("[/foo] é 日本") == "[/foo] é 日本"
    assert clean("a\x1b[2Jb") == "a␛[2Jb"
    assert clean(None) == "None"


def test_output_shows_what_a_terminal_would_have_kept() -> None:
    assert clean_output("\x1b[32mok\x1b[0m\nstep 1\rstep 2\r\n\x1b]0;t\x07x\n") == ["ok", "step 2", "x", ""]
    assert clean_lines("a\tb\r\nc\u2028d") == ["a   b", "c", "d"]


@pytest.mark.parametrize("width", range(12))
@pytest.mark.parametrize(
    "text", ["", "plain", "日本語テキスト", "a日b本c語", "👩‍👩‍👧 family", "e\u0301e\u0301e\u0301"]
)
def test_cutting_counts_cells(text: str, width: int) -> None:
    text = clean(text)
    for cut in (cut_end, cut_middle, cut_start):
        assert cell_len(cut(text, width)) <= width
    assert cell_len(fit(text, width)) == width
    if width >= 2:
        pieces = list(wrap(text, width))
        assert all(cell_len(piece) <= width for piece in pieces)
        assert "".join(pieces).replace(" ", "") == text.replace(" ", "")


def test_ids_are_cut_in_the_middle_and_paths_on_the_left() -> None:
    assert cut_middle("US-014-a-very-long-id-backend", 15) == "US-014-…backend"
    assert cut_start("/srv/lanes/very/deep/tree", 12) == "…y/deep/tree"


def test_rows_name_themselves() -> None:
    assert Row("k", "pending", "id", story_id="S", phase="p").title == "S/p"


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (Row("k", "pending", "login", story_id="US-7"), ["US-7"]),
        (Row("k", "pending", "login", label="Log in", phase="plan"), ["plan"]),
        (Row("k", "pending", "login", story_id="US-7", phase="plan"), []),
    ],
)
def test_details_tell_the_story_that_the_title_does_not(row: Row, told: list[str]) -> None:
    facts = [item for item in envelope_items(row, None, 0) if isinstance(item, Fact)]
    assert [fact.text for fact in facts if fact.label in ("story", "phase")] == told
