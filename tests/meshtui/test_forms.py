"""The enqueue form, its JSON view, and the question about a parked envelope."""

from __future__ import annotations

import json
from typing import Any

import pytest
from textual.widgets import Button, Input, Static, TextArea

from meshtui.core.view import Detail
from meshtui.screens.answer import AnswerForm
from meshtui.screens.enqueue import EnqueueForm, Tick
from tests.support.engine import FakeEngine
from tests.support.pilot import Console, console
from tests.support.views import STALLED, lane


def form(it: Console) -> EnqueueForm:
    """The open form."""
    assert isinstance(it.app.screen, EnqueueForm)
    return it.app.screen


async def test_a_prompt_is_enough() -> None:
    engine = FakeEngine(lane(3))
    async with console(engine=engine) as it:
        await it.press("e")
        assert form(it).query_one("#add", Button).disabled
        await it.press(*"fix [it]")
        assert "✔ valid" in it.text()
        await it.press("ctrl+s")
        await it.until(lambda: engine.calls)
        assert engine.calls == [("enqueue", {"kind": "phase", "prompt": "fix [it]"})]
        assert engine.created
        await it.until_shown("phase-1 is number 4 of 4 pending")


async def test_every_field_reaches_the_envelope() -> None:
    engine = FakeEngine(lane(3))
    async with console(engine=engine) as it:
        await it.press("e")
        await it.press(*"go")
        for name, value in (
            ("id", "a-1"), ("story_id", "US-1"), ("phase", "plan"), ("engine", "command"),
            ("deadline_seconds", "90"), ("cd", "/srv/x"), ("result_path", "out.json"),
        ):  # fmt: skip
            form(it).query_one(f"#field-{name}", Input).value = value
        await it.pilot.pause()
        await it.pilot.click("#field-fresh")
        await it.pilot.pause()
        await it.press("ctrl+s")
        await it.until(lambda: engine.calls)
        assert engine.calls[0][1] == {
            "kind": "phase", "prompt": "go", "id": "a-1", "story_id": "US-1", "phase": "plan", "engine": "command",
            "deadline_seconds": 90, "cd": "/srv/x", "result_path": "out.json", "fresh": True,
        }  # fmt: skip


async def test_check_boxes_say_without_colours_whether_they_are_on() -> None:
    async with console(engine=FakeEngine(lane(3))) as it:
        await it.press("e")
        boxes = form(it).query(Tick)
        assert ["X" in box.render().plain for box in boxes] == [False, False]
        await it.pilot.click("#field-mode")
        await it.pilot.pause()
        assert ["X" in box.render().plain for box in boxes] == [False, True]
        await it.pilot.click("#field-mode")
        await it.pilot.pause()
        assert ["X" in box.render().plain for box in boxes] == [False, False]


@pytest.mark.parametrize(
    ("field", "value"),
    [("engine", "gpt"), ("deadline_seconds", "soon"), ("deadline_seconds", "-1"), ("id", "x" * 200)],
)
async def test_what_is_wrong_stands_beside_its_field(field: str, value: str) -> None:
    engine = FakeEngine(lane(3))
    async with console(engine=engine) as it:
        await it.press("e", "g", "o")
        form(it).query_one(f"#field-{field}", Input).value = value
        await it.pilot.pause()
        beside = form(it).query_one(f"#error-{field}", Static)
        assert str(beside.content)
        assert form(it).query_one(f"#field-{field}", Input).region.y == beside.region.y
        await it.press("ctrl+s")
        assert isinstance(it.app.screen, EnqueueForm)
        form(it).query_one(f"#field-{field}", Input).value = ""
        await it.pilot.pause()
        assert not str(beside.content)
        assert engine.calls == []


async def test_form_and_json_hold_the_same_envelope() -> None:
    engine = FakeEngine(lane(3))
    async with console(engine=engine) as it:
        await it.press("e", "g", "o", "f2")
        area = form(it).query_one("#json", TextArea)
        assert json.loads(area.text) == {"kind": "phase", "prompt": "go"}
        area.load_text('{"kind": "phase", "prompt": "x", "reopen_note": "keep me", "phase": "docs"}')
        await it.press("f2")
        assert form(it).query_one("#field-phase", Input).value == "docs"
        await it.press("ctrl+s")
        await it.until(lambda: engine.calls)
        assert engine.calls[0][1] == {
            "kind": "phase",
            "prompt": "x",
            "reopen_note": "keep me",
            "phase": "docs",
        }


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"kind": "phase"}',
        '{"a": 1, "a": 2}',
        "NaN",
        '{"kind": "phase", "prompt": "x", "engine": "[/]"}',
    ],
)
async def test_wrong_json_is_said_and_not_added(text: str) -> None:
    engine = FakeEngine(lane(3))
    async with console(engine=engine) as it:
        await it.press("e", "f2")
        form(it).query_one("#json", TextArea).load_text(text)
        await it.pilot.pause()
        assert "✖" in str(form(it).query_one("#verdict", Static).content)
        assert form(it).query_one("#add", Button).disabled
        await it.press("ctrl+s")
        assert type(it.app.screen).__name__ == EnqueueForm.__name__
        await it.press("escape")
        assert len(it.app.screen_stack) == 1
        assert engine.calls == []


async def test_a_stop_is_enqueued_as_json() -> None:
    engine = FakeEngine(lane(3))
    async with console(engine=engine) as it:
        await it.press("e", "f2")
        form(it).query_one("#json", TextArea).load_text('{"kind": "stop"}')
        await it.press("ctrl+s")
        await it.until(lambda: engine.calls == [("enqueue", {"kind": "stop"})])


async def test_warnings_are_shown_before_and_after() -> None:
    engine = FakeEngine(lane(3))
    async with console(engine=engine) as it:
        await it.press("e", "f2")
        late = '{"kind": "phase", "prompt": "p", "deadline": "2020-01-01"}'
        form(it).query_one("#json", TextArea).load_text(late)
        await it.pilot.pause()
        said = str(form(it).query_one("#verdict", Static).content)
        assert "▲" in said
        assert "already past" in said


def parked(question: dict[str, Any]) -> FakeEngine:
    """A lane with one parked record and a question about it."""
    return FakeEngine(
        lane(3, attention=1), {STALLED.key: Detail(STALLED.key, "stalled", {}, None, question=question)}
    )


async def test_the_question_shows_cause_and_evidence() -> None:
    engine = parked(
        {"cause": "deadline [/] exceeded", "attempts": 2, "evidence": {"output_bytes": 0, "cwd": "/srv"}}
    )
    async with console(engine=engine) as it:
        await it.press("h", "h", "h")
        while it.section != "stalled":
            await it.press("l")
        await it.until(lambda: STALLED.key in engine.the_reader.asked)
        await it.pilot.pause()
        await it.press("a")
        shown = it.text()
        assert isinstance(it.app.screen, AnswerForm)
        for text in (
            "deadline [/] exceeded",
            "2 attempts",
            "output: 0 bytes",
            "cwd: /srv",
            "Leave it",
            "Run again",
            "Drop",
        ):
            assert text in shown
        await it.press("escape")
        assert engine.calls == []


@pytest.mark.parametrize(
    ("keys", "call"),
    [
        (("r",), ("answer", "US-014-backend", "retry", None, 3600.0)),
        (("d",), ("answer", "US-014-backend", "drop", None, None)),
        (("right", "enter"), ("answer", "US-014-backend", "retry", None, 3600.0)),
        (("shift+tab", *"5400", "enter"), ("answer", "US-014-backend", "retry", None, 5400.0)),
        (("shift+tab", "delete", "enter"), ("answer", "US-014-backend", "retry", None, None)),
        (
            ("shift+tab", "shift+tab", *"codex", "enter"),
            ("answer", "US-014-backend", "retry", "codex", 3600.0),
        ),
    ],
)
async def test_answers(keys: tuple[str, ...], call: tuple[object, ...]) -> None:
    engine = FakeEngine(lane(3, attention=1))
    async with console(engine=engine) as it:
        await it.press("a")
        await it.press(*keys)
        await it.until(lambda: engine.calls == [call])


async def test_a_wrong_answer_is_refused_beside_its_field() -> None:
    engine = FakeEngine(lane(3, attention=1))
    async with console(engine=engine) as it:
        await it.press("a", "shift+tab", *"soon")
        assert "a number of seconds" in it.text()
        await it.press("enter")
        assert isinstance(it.app.screen, AnswerForm)
        assert engine.calls == []
