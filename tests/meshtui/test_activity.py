"""What agents do now, live in the console: of a running phase, and of a running loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from meshtui.bridge import LaneEngine
from meshtui.core.clock import SystemClock
from meshtui.core.engines.claude import ClaudeEngine
from meshtui.core.lane.doing import Activities
from meshtui.core.models.config import EngineConfig
from meshtui.core.view import Event, Held, LaneView
from tests.support.agent import StandIn, claude_at_work
from tests.support.engine import FakeEngine
from tests.support.mission_screens import API, DOCS, ROOT, mission, only, with_missions
from tests.support.pilot import console
from tests.support.runners import LaneBox
from tests.support.views import NOW, lane


def event(seq: int, text: str, *, call: str = "c-1", name: str = "phase_activity", **usage: float) -> Event:
    return Event(
        seq, NOW - 60_000 + seq, name, "a", {"kind": "tool", "text": text, "call": call, "usage": usage}
    )


def at_work(*events: Event) -> LaneView:
    view = lane(3)
    return replace(view, active=(replace(view.active[0], call_id="c-1"),), journal=events)


def test_the_newest_sign_of_what_runs_is_kept_and_of_nothing_else() -> None:
    activities = Activities()
    view = activities.refresh(at_work(event(1, "old"), event(2, "other", call="c-2"), event(3, "new")))
    (doing,) = view.active[0].doing
    assert doing.text == "new"
    assert doing.tokens is None
    # It scrolled out of what is kept of the journal, and stands all the same.
    view = activities.refresh(at_work(*(event(4 + n, "x", call="c-2") for n in range(400))))
    assert view.active[0].doing == (doing,)
    # Another call begins with nothing known, another journal as well.
    other = replace(at_work(), active=(replace(view.active[0], call_id="c-9", doing=()),))
    assert activities.refresh(other).active[0].doing == ()
    assert activities._known == {}


def test_usage_stands_beside_it() -> None:
    said = event(
        1, "Read a.py", input_tokens=900, cached_input_tokens=400, output_tokens=20, estimated_tokens=5
    )
    (doing,) = Activities().refresh(at_work(said)).active[0].doing
    assert (doing.tokens, doing.estimated, doing.cost_usd) == (525, True, None)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[LaneBox]:
    made = LaneBox(tmp_path / "run")
    yield made
    made.close()


async def test_a_running_phase_shows_it_live(box: LaneBox, tmp_path: Path) -> None:
    go = tmp_path / "go"
    work = claude_at_work((700, 20, "looks at the [tests]"), then=f"while [ ! -e {go} ]; do sleep 0.05; done")
    agent = StandIn(tmp_path / "agent", work)
    engine = ClaudeEngine(EngineConfig(program=str(agent.program)))
    box.enqueue("a", deadline_seconds=200, story_id="s", phase="p")
    thread = box.start(engine=engine)
    box.active_call("a")
    async with console(
        engine=LaneEngine(box.run_dir), run_dir=box.root, size=(160, 40), clock=SystemClock()
    ) as it:
        await it.until_shown("looks at the [tests]")
        await it.until_shown("720 tokens")
        first = it.text().splitlines()[0]
        assert "looks at the [tests]" in first
        assert "720 tokens" in first
        go.touch()
        await it.until(lambda: "looks at" not in it.text().splitlines()[0])
    thread.stop()


def worker(seq: int, slot: str, text: str, call: str, tokens: int) -> Event:
    data = {"worker": slot, "kind": "tool", "text": text, "call": call, "usage": {"input_tokens": tokens}}
    return Event(seq, NOW - 60_000 + seq, "worker_activity", "loop-api", data)


MAKERS = replace(
    API,
    phase="maker",
    active_workers=("maker-1", "maker-2"),
    calls=(("maker-1", "c-1"), ("maker-2", "c-2")),
    budget_used={**API.budget_used, "tokens": 4000, "cost_usd": 0.5},
)


async def test_what_the_lane_used_in_all_stands_where_there_is_room() -> None:
    view = replace(lane(3), tokens=24_690, cost_usd=0.5)
    async with console(view, size=(200, 50)) as it:
        assert "used in all 24,690 tokens, $0.50" in it.text().splitlines()[0]
    async with console(view, size=(80, 24)) as it:
        assert "24,690" not in it.text()


async def test_the_workers_of_a_loop_show_it_live() -> None:
    activities = Activities()
    view = with_missions(LaneView(ROOT.parent, exists=False), mission(MAKERS, DOCS))
    said = (worker(1, "maker-1", "Read [a].py", "c-1", 1200), worker(2, "maker-2", "make test", "c-2", 77))
    async with console(activities.refresh(replace(view, journal=said)), size=(160, 50)) as it:
        await it.until_shown("maker-1: Read [a].py")
        assert "maker-2: make test" in it.text()
        assert "1,200 tokens" in it.text()
        # Of the loop, and of its mission.
        assert "4,000 tokens, $0.50" in it.text()
        assert "$0.50" in it.text()
        more = (*said, worker(3, "maker-1", "Edit [a].py", "c-1", 1900))
        await it.show(activities.refresh(replace(view, journal=more)))
        await it.until_shown("maker-1: Edit [a].py")
        assert "1,900 tokens" in it.text()
        await it.show(activities.refresh(replace(only(mission(DOCS)), journal=more)))
        await it.until(lambda: "maker-1:" not in it.text())


async def test_a_held_worker_needs_somebody_and_its_loop_can_be_killed() -> None:
    held = Held("maker-1", "claude", NOW + 3_600_000, NOW, True, "claude: usage limit: come back later")
    view = only(mission(replace(MAKERS, active_workers=(), calls=(), held=(held,)), DOCS))
    (item,) = [item for item in view.attention if item.kind == "limit"]
    assert item.subject == "m7/loop-api"
    engine = FakeEngine(view)
    async with console(engine=engine, size=(120, 40)) as it:
        await it.until_shown("maker-1 held until")
        await it.press("1")
        await it.until_shown("Kill loop-api?")
        await it.press("y")
        await it.until(lambda: engine.the_missions.calls)
        assert engine.the_missions.calls == [("kill", "m7", "loop-api")]
