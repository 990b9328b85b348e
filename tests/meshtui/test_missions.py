"""Loops in the console: the list, the keys, what they ask and what they say afterwards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import Button, Input, TextArea

from meshtui.core.mesh.verify import Check
from meshtui.core.view import LaneView
from meshtui.missions import PlanWish
from meshtui.screens.confirm import Confirm
from meshtui.screens.lane import LaneScreen
from meshtui.screens.leave import Leave
from meshtui.screens.plan import PlanForm, PlanPreview
from meshtui.screens.timeline import Timeline
from meshtui.screens.verdict import VerdictForm
from meshtui.widgets.attention import NeedsYou
from tests.support.engine import FakeEngine
from tests.support.mission_screens import (
    API,
    AUTH,
    DOCS,
    MERGE,
    SCHEMA,
    done_mission,
    mission,
    only,
    plan,
    with_missions,
)
from tests.support.pilot import Console, console
from tests.support.views import lane


def both() -> LaneView:
    """A lane with work and a mission that runs."""
    return with_missions(lane(3), mission())


def selected(it: Console) -> str | None:
    """The selected loop."""
    loop = it.lane.loop
    return loop.loop_id if loop is not None else None


def side(it: Console) -> str:
    """The list that is looked at."""
    return str(it.lane.side)


async def test_loops_stand_above_the_queue_and_tab_goes_between() -> None:
    async with console(both()) as it:
        shown = it.text()
        assert "Loops · m7 · 1 of 5 done" in shown
        assert shown.index("Loops · m7") < shown.index("Queue")
        assert "● running" in shown
        assert "✖ blocked" in shown
        assert side(it) == "queue"
        await it.press("shift+tab")
        assert side(it) == "loops"
        await it.press("j")
        assert selected(it) == "loop-auth"
        await it.press("tab")
        assert side(it) == "queue"
        await it.press("j")
        assert it.lane.row is not None
        assert it.lane.row.envelope_id == "US-015-backend"
        assert selected(it) == "loop-auth"


async def test_missions_alone_take_the_whole_side() -> None:
    async with console(only(mission())) as it:
        await it.until(lambda: side(it) == "loops")
        assert not it.drawn("#queue")
        assert it.lane.focused is it.lane.loop_table
        await it.press("j", "j")
        assert selected(it) == "loop-docs"


async def test_the_selection_survives_refreshes_and_missions_that_come_and_go() -> None:
    async with console(only(mission())) as it:
        await it.press("j")
        other = mission(replace(DOCS, mission_id="m9"), alive=False)
        other = replace(other, mission_id="m9")
        await it.show(only(mission(), other))
        assert selected(it) == "loop-auth"
        assert "1 of 1 done" in it.text()
        await it.show(only(mission(replace(API, status="completed"), AUTH, DOCS, SCHEMA, MERGE)))
        assert selected(it) == "loop-auth"
        await it.show(only(mission(API, DOCS)))
        assert selected(it) is not None


async def test_where_there_is_little_room_one_list_is_shown() -> None:
    async with console(both(), size=(60, 24)) as it:
        assert it.drawn("#queue")
        assert not it.drawn("#loops")
        await it.press("tab")
        await it.until(lambda: it.drawn("#loops") and not it.drawn("#queue"))
        await it.press("enter")
        assert it.lane.has_class("-detail-open")
        await it.press("escape")
        assert it.lane.focused is it.lane.loop_table


async def test_kill_a_loop_asks_and_proves_itself() -> None:
    engine = FakeEngine(only(mission()))
    async with console(engine=engine) as it:
        await it.press("x")
        assert isinstance(it.app.screen, Confirm)
        assert "Kill loop-api?" in it.text()
        assert "loop-integration cannot run without it" in " ".join(it.text().split())
        await it.press("enter")
        assert engine.the_missions.calls == []
        await it.press("x", "y")
        await it.until(lambda: engine.the_missions.calls == [("kill", "m7", "loop-api")])
        await it.until_shown("Ended: loop-api; no survivors")
        await it.press("j", "x")
        await it.until_shown("loop-auth has ended already")


async def test_kill_means_the_phase_where_the_queue_is_looked_at() -> None:
    engine = FakeEngine(both())
    async with console(engine=engine) as it:
        await it.press("x")
        assert "Kill US-015/backend?" in it.text()
        await it.press("escape", "shift+tab", "x")
        assert "Kill loop-api?" in it.text()


async def test_kill_all_says_what_is_lost_and_what_will_not_start() -> None:
    engine = FakeEngine(both())
    async with console(engine=engine) as it:
        await it.press("X")
        shown = " ".join(it.text().split())
        assert "Kill all loops of m7?" in shown
        assert "loop-api will be ended now" in shown
        await it.press("y")
        await it.until(lambda: engine.the_missions.calls == [("kill", "m7", "all")])
        await it.until_shown("not started: loop-tests")


async def test_resume_runs_the_mission_here_and_quitting_asks() -> None:
    engine = FakeEngine(only(mission(alive=False)))
    async with console(engine=engine) as it:
        await it.press("r")
        await it.until(lambda: it.lane.missions_here == ("m7",))
        await it.press("q")
        assert isinstance(it.app.screen, Leave)
        assert "A mission runs in this console" in it.text()
        await it.press("n", "s")
        assert "Stop mission m7?" in it.text()
        await it.press("y")
        await it.until(lambda: engine.the_missions.runners["m7"].asked == ["stop"])
        await it.until(lambda: it.lane.missions_here == ())
        await it.until_shown("Mission m7 is stopped")


async def test_quitting_hands_the_mission_over() -> None:
    engine = FakeEngine(only(mission(alive=False)))
    async with console(engine=engine) as it:
        await it.press("r")
        await it.until(lambda: "m7" in engine.the_missions.runners)
        await it.press("q", "o")
        await it.until(lambda: ("detach", "m7") in engine.the_missions.calls)
        await it.until(lambda: not it.app.is_running or it.app.farewell is not None)
        assert it.app.farewell == "Handed over: runner 4343 carries mission m7 on."
        assert engine.detached == 0


async def test_what_makes_no_sense_says_why() -> None:
    async with console(only(mission())) as it:
        for key, why in (
            ("r", "Mission m7 is running"),
            ("l", "not done: 1 of 5"),
            ("a", "Nothing waits for a person"),
        ):
            await it.press(key)
            await it.until_shown(why)
    foreign = replace(mission(alive=False), root=Path("/elsewhere/loops"))
    async with console(only(foreign)) as it:
        for key in ("n", "e"):
            await it.press(key)
            await it.until_shown("is no run directory")


async def test_a_read_only_console_changes_nothing() -> None:
    engine = FakeEngine(only(mission(alive=False)))
    async with console(engine=engine, read_only=True) as it:
        for key in ("x", "X", "r", "n", "l", "a", "s", "2"):
            await it.press(key)
            assert isinstance(it.app.screen, LaneScreen), key
        assert engine.the_missions.calls == []
        await it.until_shown("This console is read-only")


async def test_land_when_done() -> None:
    engine = FakeEngine(only(done_mission()))
    async with console(engine=engine) as it:
        assert "l land" in it.text()
        await it.press("l")
        assert "meshtui/m7" in it.text()
        await it.press("y")
        await it.until(lambda: engine.the_missions.calls == [("land", "m7")])
        await it.until_shown("Landed: main is at bbbbbbbbbbbb")


async def test_a_handoff_is_answered_with_a_reason() -> None:
    engine = FakeEngine(only(mission()))
    async with console(engine=engine) as it:
        item = it.lane.query_one(NeedsYou).selected
        assert item is not None
        assert item.kind == "handoff"
        await it.press("2")
        assert isinstance(it.app.screen, VerdictForm)
        assert "it touches migrations" in it.text()
        await it.press("enter")
        await it.until_shown("say why")
        await it.press(*"no way", "enter")
        await it.until(
            lambda: engine.the_missions.calls == [("answer", "m7", "loop-schema", "reject", "no way")]
        )
        await it.until_shown("m7/loop-schema is rejected")
        await it.press("j", "j", "j", "a")
        assert isinstance(it.app.screen, VerdictForm)
        await it.press(*"fine", "ctrl+a")
        await it.until(
            lambda: engine.the_missions.calls[-1] == ("answer", "m7", "loop-schema", "approve", "fine")
        )


async def test_attention_leads_to_the_loop_and_resumes_its_mission() -> None:
    engine = FakeEngine(only(mission(API, AUTH, alive=False)))
    async with console(engine=engine) as it:
        await it.press("N")
        assert it.lane.query_one(NeedsYou).selected is not None
        items = it.lane.query_one(NeedsYou).items
        assert [item.kind for item in items] == ["dead", "blocked"]
        assert selected(it) == "loop-auth"
        await it.press("1")
        assert it.lane.loop_pane is not None
        assert it.lane.loop_pane.part == "gates"
        await it.press("escape", "2")
        await it.until(lambda: ("run", "m7") in engine.the_missions.calls)


@pytest.mark.parametrize("verdict", ["verified", "mismatch", "claimed"])
async def test_verify_shows_what_became_of_each_claim(verdict: str) -> None:
    engine = FakeEngine(only(mission()))
    word = {"verified": "✔ verified", "mismatch": "✖ MISMATCH", "claimed": "claimed, not verified"}[verdict]
    engine.the_missions.checks = (
        Check("loop-docs", "gate tests passed", verdict, "the log [b]differs[/b]"),  # type: ignore[arg-type]
    )
    async with console(engine=engine) as it:
        await it.press("j", "j", "v")
        await it.until(lambda: engine.the_missions.calls == [("verify", "m7", "loop-docs")])
        await it.until(lambda: it.lane.loop_pane is not None and "m7/loop-docs" in it.lane.loop_pane.checks)
        assert it.lane.loop_pane is not None
        assert it.lane.loop_pane.part == "proof"
        await it.until(lambda: word in it.text() or "Reading" in it.text())


async def test_the_last_loop_verifies_the_whole_mission() -> None:
    engine = FakeEngine(only(done_mission()))
    async with console(engine=engine) as it:
        await it.press("G", "v")
        await it.until(lambda: engine.the_missions.calls == [("verify", "m7", None)])


async def test_the_timeline_goes_on_while_it_is_open() -> None:
    async with console(only(mission())) as it:
        await it.press("t")
        assert isinstance(it.app.screen, Timeline)
        await it.until_shown("critical path: ")
        assert "● running" in it.text()
        ended = replace(API, status="completed", ended_at=API.updated_at, active_workers=())
        await it.show(only(mission(ended, AUTH, DOCS, SCHEMA, MERGE)))
        await it.until(
            lambda: "● running" not in it.text().partition("Timeline")[2].partition("critical path")[0]
        )
        await it.press("t")
        await it.until(lambda: not isinstance(it.app.screen, Timeline))


# Planning


async def planned(it: Console, engine: FakeEngine, blockers: tuple[str, ...] = ()) -> None:
    """Fill the form and have it planned."""
    engine.the_missions.made, engine.the_missions.blockers = plan(), blockers
    await it.press("n")
    assert isinstance(it.app.screen, PlanForm)
    await it.press(*"do it")
    it.app.screen.query_one("#engine", Input).value = "command"
    it.app.screen.query_one("#parallelism", Input).value = "safe"
    it.app.screen.query_one("#most", Input).value = "3"
    await it.press("ctrl+s")
    await it.until(lambda: isinstance(it.app.screen, PlanPreview), "a preview")
    await it.pilot.pause()


async def test_a_plan_is_looked_at_before_anything_starts() -> None:
    engine = FakeEngine(both())
    async with console(engine=engine) as it:
        await planned(it, engine)
        assert engine.the_missions.calls == [("plan", PlanWish("do it", "command", "safe", 3))]
        shown = it.text()
        for text in (
            "critical risk",
            "a person decides",
            "src/auth",
            "both own src/auth",
            "left out",
            "npm is missing",
            "[bold]now[/bold]",
        ):
            assert text in shown, text
        await it.press("s")
        await it.until(lambda: ("run", "m8") in engine.the_missions.calls)


async def test_a_plan_is_kept_or_cancelled() -> None:
    engine = FakeEngine(both())
    async with console(engine=engine) as it:
        await planned(it, engine)
        await it.press("escape")
        await it.until_shown("Planned: m8")
        await planned(it, engine)
        await it.press("c")
        await it.until(lambda: engine.the_missions.calls[-1] == ("forget", "m8"))
        assert not any(call[0] == "run" for call in engine.the_missions.calls)


async def test_a_broken_plan_cannot_be_started() -> None:
    engine = FakeEngine(both())
    async with console(engine=engine) as it:
        await planned(it, engine, ("cycle: a, b",))
        assert "this plan cannot run" in it.text()
        assert it.app.screen.query_one("#start", Button).disabled
        await it.press("s")
        assert isinstance(it.app.screen, PlanPreview)
        await it.press("k")
        assert isinstance(it.app.screen, LaneScreen)


async def test_without_an_editor_it_says_where_the_plan_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    engine = FakeEngine(both())
    async with console(engine=engine) as it:
        await planned(it, engine)
        await it.press("e")
        await it.until(lambda: ("reload", "m8") in engine.the_missions.calls)
        await it.until(lambda: isinstance(it.app.screen, PlanPreview))
        await it.until_shown("$EDITOR is not set")


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("engine", "gpt", "no such engine"),
        ("parallelism", "fast", "safe, balanced"),
        ("most", "33", "1 to 32"),
        ("most", "x", "1 to 32"),
    ],
)
async def test_what_is_wrong_is_said_beside_its_field(field: str, value: str, why: str) -> None:
    async with console(both()) as it:
        await it.press("n")
        it.app.screen.query_one("#request", TextArea).load_text("do it")
        it.app.screen.query_one(f"#{field}", Input).value = value
        await it.until_shown(why)
        assert it.app.screen.query_one("#plan", Button).disabled
        await it.press("ctrl+s")
        assert isinstance(it.app.screen, PlanForm)
