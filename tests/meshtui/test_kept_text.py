"""What was written in a form is not lost when it is refused: the form opens again with it and says why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from textual.screen import Screen
from textual.widgets import Input, TextArea

from meshtui.bridge import LaneEngine
from meshtui.core.clock import SystemClock
from meshtui.core.errors import InvalidInput
from meshtui.core.lane.create import create_run_dir
from meshtui.core.lane.lane import Lane
from meshtui.core.run_dir import RunDir
from meshtui.screens.enqueue import EnqueueForm
from meshtui.screens.lane import LaneScreen
from meshtui.screens.plan import PlanForm
from meshtui.screens.steer import MessageForm
from meshtui.screens.verdict import VerdictForm
from tests.support.engine import FakeEngine
from tests.support.mission_screens import mission, with_missions
from tests.support.pilot import Console, console
from tests.support.views import lane

LATE = InvalidInput("envelope 'US-015-plan' was taken by the runner and is running: nothing was changed")


def form(it: Console) -> EnqueueForm:
    """The form for envelopes, which is on top."""
    screen = it.app.screen
    assert isinstance(screen, EnqueueForm)
    return screen


def shows(it: Console, kind: type[Screen[Any]]) -> bool:
    """Whether a screen of this kind is on top."""
    return isinstance(it.app.screen, kind)


async def test_an_edit_that_comes_too_late_is_offered_as_a_new_envelope() -> None:
    engine = FakeEngine(lane(3))
    operations = engine.the_operations
    operations.kept = {"kind": "phase", "prompt": "do it", "story_id": "US-015", "id": "US-015-plan"}
    async with console(engine=engine) as it:
        await it.press("E")
        await it.until(lambda: isinstance(it.app.screen, EnqueueForm))
        operations.error, operations.folder = LATE, "active"
        await it.press(*"now ", "ctrl+s")
        await it.until(lambda: isinstance(it.app.screen, EnqueueForm) and form(it).editing is None)
        await it.until_shown("What you wrote is kept")
        text = it.text()
        assert "taken by" in text
        assert "Enqueue an envelope" in text
        assert form(it).query_one("#field-prompt", TextArea).text == "now do it"
        assert form(it).query_one("#field-id", Input).value == ""
        assert len(it.app.steps) == 0
        operations.error = None
        await it.press("ctrl+s")
        added = {"kind": "phase", "prompt": "now do it", "story_id": "US-015"}
        await it.until(lambda: engine.calls == [("enqueue", added)])


async def test_an_edit_that_is_refused_where_the_envelope_still_waits_goes_on() -> None:
    engine = FakeEngine(lane(3))
    operations = engine.the_operations
    async with console(engine=engine) as it:
        await it.press("E")
        await it.until(lambda: isinstance(it.app.screen, EnqueueForm))
        operations.error = InvalidInput("envelope 'US-015-plan' was changed by somebody else meanwhile")
        await it.press(*"now ", "ctrl+s")
        await it.until_shown("▲ envelope 'US-015-plan' was changed by somebody else")
        assert form(it).editing == "US-015-plan"
        assert form(it).query_one("#field-prompt", TextArea).text == "now do it"
        operations.error = None
        await it.press("ctrl+s")
        await it.until(
            lambda: engine.calls == [("edit", "US-015-plan", {"kind": "phase", "prompt": "now do it"})]
        )


async def test_an_envelope_that_is_refused_is_kept_until_it_is_added() -> None:
    engine = FakeEngine(lane(3))
    async with console(engine=engine) as it:
        engine.the_operations.error = InvalidInput("a stop (stop-1) is waiting in the queue")
        await it.press("e", *"new", "ctrl+s")
        await it.until_shown("▲ a stop (stop-1) is waiting in the queue")
        # It is said where it was written, and nowhere else: a message would cover the buttons.
        assert not list(it.app._notifications)
        assert form(it).query_one("#field-prompt", TextArea).text == "new"
        engine.the_operations.error = None
        await it.press("ctrl+s")
        await it.until(lambda: engine.calls == [("enqueue", {"kind": "phase", "prompt": "new"})])
        await it.until(lambda: isinstance(it.app.screen, LaneScreen))


async def test_a_message_a_request_and_a_reason_are_kept() -> None:
    engine = FakeEngine(with_missions(lane(3, attention=1), mission()))
    async with console(engine=engine) as it:
        it.lane.look_at("queue")
        it.lane.focus_list()
        engine.the_operations.error = InvalidInput("a stop is waiting")
        await it.press("m", *"stop it", "enter")
        await it.until_shown("▲ a stop is waiting")
        assert shows(it, MessageForm)
        assert it.app.screen.query_one("#message", Input).value == "stop it"
        await it.press("f3")
        assert it.app.clipboard.startswith("meshtui message US-015-plan --run-dir ")
        assert it.app.clipboard.endswith("--text 'stop it'")
        await it.press("escape")
        engine.the_missions.error = InvalidInput("no git repository")
        await it.press("n", *"all of it", "ctrl+s")
        await it.until_shown("▲ no git repository")
        assert shows(it, PlanForm)
        assert it.app.screen.query_one("#request", TextArea).text == "all of it"
        await it.press("escape")
        assert it.lane.show_key("m7/loop-schema")
        it.lane.focus_list()
        await it.press("a", *"fine", "ctrl+a")
        await it.until_shown("▲ no git repository")
        assert shows(it, VerdictForm)
        assert it.app.screen.query_one("#reason", Input).value == "fine"
        await it.press("f3")
        assert it.app.clipboard.startswith("meshtui answer m7/loop-schema --run-dir ")
        assert it.app.clipboard.endswith("--approve --reason fine")


async def test_a_real_runner_that_takes_the_envelope_meanwhile_costs_no_text(tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path / "lane")
    create_run_dir(run_dir.root, SystemClock())
    Lane(run_dir).enqueue({"kind": "phase", "prompt": "first", "id": "one", "engine": "command"})
    async with console(engine=LaneEngine(run_dir), run_dir=run_dir.root, clock=SystemClock()) as it:
        await it.until(lambda: it.lane.row is not None and it.lane.row.envelope_id == "one")
        await it.press("E")
        await it.until(lambda: isinstance(it.app.screen, EnqueueForm))
        await it.press(*"all of ")
        # A runner's claim is this rename.
        [record] = run_dir.lane.pending.glob("*.json")
        run_dir.lane.active.mkdir(exist_ok=True)
        record.rename(run_dir.lane.active / record.name)
        await it.press("ctrl+s")
        await it.until_shown("What you wrote is kept")
        assert form(it).query_one("#field-prompt", TextArea).text == "all of first"
        await it.press("ctrl+s")
        await it.until(lambda: len(list(run_dir.lane.pending.glob("*.json"))) == 1)
        [added] = run_dir.lane.pending.glob("*.json")
        assert '"all of first"' in added.read_text()


async def test_the_request_of_a_mission_is_copied_as_a_command() -> None:
    async with console(lane(3)) as it:
        await it.press("n", *"do it", "tab", *"codex", "f3")
        assert it.app.clipboard.startswith("meshtui plan 'do it' --run-dir ")
        assert it.app.clipboard.endswith(" --engine codex")
