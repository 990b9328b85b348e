"""A journal made by hand: a lane and a mission with everything that can happen to them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from meshtui.core.clock import iso
from meshtui.core.history import History
from meshtui.core.replay.recording import Recording
from meshtui.core.view import Event
from tests.support.views import NOW

START = NOW - 3_600_000
PHASES = ("plan", "backend", "tests", "review")


class Script:
    """Writes events in order; ``at`` moves the clock on by seconds."""

    def __init__(self, start: int = START) -> None:
        self.now = start
        self.events: list[Event] = []
        self.depth = 0
        self.names: dict[str, str] = {}

    def at(self, seconds: float) -> Script:
        self.now += round(seconds * 1000)
        return self

    def say(self, event: str, subject: str, pid: int = 4121, **data: Any) -> None:
        self.events.append(Event(len(self.events) + 1, self.now, event, subject, data, pid))

    def enqueue(self, story: str, phase: str) -> str:
        envelope_id = f"{story}-{phase}"
        number = len(self.names) + 1
        name = f"{number:016d}-{self.now:013d}-00000000-0000-4000-8000-{number:012d}-{envelope_id}.json"
        self.names[envelope_id] = name
        self.depth += 1
        self.say("enqueued", envelope_id, 999, depth=self.depth, by="operator", record=name, story_id=story, phase=phase,
                 engine="claude", deadline_seconds=1800)  # fmt: skip
        return envelope_id

    def start(self, envelope_id: str, attempt: int = 1) -> None:
        self.depth -= 1
        self.say("phase_started", envelope_id, record=self.names[envelope_id], attempt=attempt, engine="claude", depth=self.depth,
                 call=f"{self.now}-{envelope_id}-run", deadline_at=iso(self.now + 1_800_000))  # fmt: skip

    def end(
        self, envelope_id: str, how: str = "done", tokens: int = 4000, cost: float = 0.21, **data: Any
    ) -> None:
        usage = {"input_tokens": tokens, "output_tokens": tokens // 8, "cost_usd": cost}
        self.say(
            f"phase_{how}", envelope_id, record=self.names[envelope_id], depth=self.depth, usage=usage, **data
        )


def lane_script(*, mission: bool = True) -> Script:
    """An hour of a lane: stalls, a hold, a pause, two runners, what it cost, and a mission beside it."""
    it = Script()
    ids = [it.enqueue(f"US-{15 + number // 4:03d}", PHASES[number % 4]) for number in range(16)]
    it.at(5).say(
        "runner_started",
        "api-lane",
        engine="claude",
        idle_seconds=600,
        caps={"tokens": 100_000, "cost_usd": 5.0},
    )
    if mission:
        mission_script(it)
    for number, envelope_id in enumerate(ids[:10]):
        it.at(4).start(envelope_id)
        it.at(60).say("phase_activity", envelope_id, kind="tool", text="Read src/app.py", call="c")
        if number == 2:
            it.at(400).say("phase_stalled", envelope_id, attempt=1, record="0000000000000-retry-" + it.names[envelope_id],
                           output_bytes=0, engine="claude")  # fmt: skip
            it.depth += 1
            it.at(2).start(envelope_id, 2)
            it.at(300)
        if number == 4:
            it.at(30).end(envelope_id, "failed", error="exit 1: 3 tests failed in tests/test_token.py")
            continue
        if number == 5:
            it.at(20).say("phase_held", envelope_id, attempt=1, record=it.names[envelope_id], engine="claude",
                          until=iso(it.now + 240_000), reset_known=True, error="You have hit your limit")  # fmt: skip
            it.depth += 1
            it.at(240).start(envelope_id)
        if number == 6:
            it.at(10).say("lane_paused", "api-lane", 999, by="operator")
            it.at(100).end(envelope_id)
            it.at(120).say("lane_continued", "api-lane", 999, by="operator")
            continue
        if number == 7:
            it.at(90).say("runner_ended", "api-lane", state="waiting")
            it.at(60).say("runner_started", "api-lane", 5001, engine="claude", idle_seconds=600,
                          caps={"tokens": 100_000, "cost_usd": 5.0})  # fmt: skip
            it.say(
                "phase_adopted", envelope_id, 5001, attempt=1, record=it.names[envelope_id], engine="claude"
            )
        if number == 8:
            it.at(200).say("phase_parked", envelope_id, 5001, cause="phase deadline exceeded", attempts=2, output_bytes=0,
                           record=it.names[envelope_id])  # fmt: skip
            continue
        it.at(40 + number * 11).end(envelope_id, tokens=4000 + number * 700, cost=0.2 + number * 0.05)
    it.at(8).start(ids[10])
    it.at(120).say("phase_activity", ids[10], 5001, kind="tool", text="Edit src/app.py", call="c")
    return it


NODES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("loop-docs", ()), ("loop-api", ()), ("loop-auth", ("loop-api",)), ("loop-web", ("loop-api",)),
    ("loop-e2e", ("loop-auth", "loop-web")), ("loop-integration", ("loop-docs", "loop-e2e", "loop-api")),
)  # fmt: skip


def mission_script(it: Script, pid: int = 5150) -> None:
    """A mission whose loops begin now; the clock stands where it stood."""
    budget = {
        "max_iterations": 2,
        "max_wall_ms": 900_000,
        "max_model_calls": 8,
        "max_tokens_estimate": 120_000,
    }
    nodes = [
        {"id": name, "title": f"{name[5:]} loop", "needs": list(needs), "risk": "low", "level": "L2-action", "makers": 1,
         "checkers": 1, "gates": ["ruff", "tests"], "budget": budget, "directories": [f"src/{name[5:]}"]}
        for name, needs in NODES
    ]  # fmt: skip
    before = it.now

    def loop(event: str, name: str, seconds: float, **data: Any) -> None:
        it.at(seconds).say(f"loop_{event}", name, pid, mission_id="m9", **data)

    it.say(
        "mission_planned",
        "m9",
        pid,
        loops=len(nodes),
        request="Refresh tokens",
        nodes=nodes,
        integration="loop-integration",
    )
    it.at(2).say(
        "mission_started",
        "m9",
        pid,
        mission_id="m9",
        loops=len(nodes),
        nodes=nodes,
        integration="loop-integration",
    )
    for name in ("loop-docs", "loop-api"):
        loop("started", name, 0)
        it.say("worker_started", name, pid, mission_id="m9", worker="maker-1", role="maker", call=f"c-{name}")
        loop("maker_started", name, 1, phase="maker", iteration=1)
    for step, tokens in ((80, 9_000), (60, 21_000), (70, 30_000)):
        loop(
            "maker_completed",
            "loop-api",
            step,
            iteration=1,
            used={"tokens": tokens, "model_calls": tokens // 9000, "wall_ms": tokens},
        )
    for name in ("loop-docs", "loop-api"):
        loop("gate_started", name, 20, phase="gates")
        loop("checker_started", name, 30, phase="checker")
        gates = {"passed": ["ruff", "tests"], "failed": [], "skipped": []}
        loop(
            "completed",
            name,
            25,
            status="completed",
            phase="finalizer",
            used={"tokens": 40_000, "model_calls": 4},
            gates=gates,
        )
    loop("started", "loop-auth", 3)
    loop("maker_started", "loop-auth", 1, phase="maker", iteration=1)
    for tokens in (20_000, 45_000, 70_000):
        loop(
            "maker_completed",
            "loop-auth",
            90,
            iteration=1,
            used={"tokens": tokens, "model_calls": 3, "wall_ms": 180_000},
        )
    it.now = before


def write(root: Path, events: Sequence[Event]) -> Path:
    """A run directory that holds nothing but the journal; its path."""
    root.mkdir(parents=True, exist_ok=True)
    lines = (
        json.dumps({"seq": one.seq, "at": iso(one.at), "event": one.event, "subject": one.subject, "data": one.data, "pid": one.pid})
        for one in events
    )  # fmt: skip
    (root / "events.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return root


def recording(root: Path = Path("/srv/lanes/api-lane"), *, mission: bool = True) -> Recording:
    """That hour, in the order of its times."""
    events = sorted(lane_script(mission=mission).events, key=lambda one: one.at)
    numbered = [
        Event(place, one.at, one.event, one.subject, one.data, one.pid) for place, one in enumerate(events, 1)
    ]
    return Recording(root, numbered)


def history() -> History:
    """Its bars and figures."""
    return recording().history
