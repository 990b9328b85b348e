"""A record that is claimed while its predecessor is settled: begun at once, or given back as it was."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from meshtui.core.engines.fake import FakeReply
from meshtui.core.lane.runner import Runner
from tests.support.runners import LaneBox, MakeBox, by_id, envelope_id_of, load
from tests.support.waiting import wait_until


class AfterTheFirst:
    """Does something in the runner's thread between the end of a phase and the begin of the next."""

    def __init__(self, box: LaneBox, act: Any) -> None:
        self._box = box
        self._act = act
        self.active: list[str] | None = None
        """What was claimed at that moment."""

    def listen(self, event: str, subject: str, data: dict[str, Any]) -> None:
        if event == "phase_done" and self.active is None:
            self.active = self._box.ids("active")
            self._act()


def begun(box: LaneBox) -> list[str]:
    return [envelope_id_of(request) for request in box.engine.requests]


def run(box: LaneBox, runner: Runner, act: Any) -> AfterTheFirst:
    between = AfterTheFirst(box, act)
    runner.listen(between.listen)
    return between


@pytest.mark.parametrize("what", ["stop", "hand over", "pause"])
def test_who_ends_or_pauses_in_between_gets_it_back(what: str, box: LaneBox) -> None:
    for name in ("one", "two", "three"):
        box.enqueue(name)
    before = {path.name: path.read_bytes() for path in box.paths.pending.iterdir()}
    runner = box.runner(until_idle=True)
    acts = {"stop": runner.request_stop, "hand over": runner.request_hand_over, "pause": box.lane.pause}
    between = run(box, runner, acts[what])
    thread = threading.Thread(target=runner.run)
    thread.start()
    wait_until(lambda: box.everything() == {"claimed": ["one"], "pending": ["two", "three"]})
    # Kept for the next phase's beginning, which does not come.
    wait_until(lambda: [event["subject"] for event in box.events("phase_done")] == ["one"])
    if what == "pause":
        runner.request_stop()
    thread.join(30)
    assert between.active == ["two"]
    assert begun(box) == ["one"]
    after = {path.name: path.read_bytes() for path in box.paths.pending.iterdir()}
    assert after == {name: raw for name, raw in before.items() if name in after}
    assert len(after) == 2
    box.lane.resume()
    assert box.run().completed == 2
    assert begun(box) == ["one", "two", "three"]
    assert [event["event"] for event in box.events() if "recovered" in event["event"]] == []


def test_what_is_put_back_at_the_head_comes_first(make_box: MakeBox) -> None:
    tries: list[str] = []

    def script(request: Any) -> FakeReply:
        tries.append(envelope_id_of(request))
        return FakeReply(hang=True) if tries in (["slow"], ["slow", "slow"]) else FakeReply("ok")

    box = make_box(script)
    box.enqueue("slow", deadline_seconds=0.15)
    assert box.run().state == "parked"
    box.enqueue("one")
    box.enqueue("two")
    runner = box.runner(until_idle=True)
    asker = threading.Thread(target=lambda: box.lane.answer("slow", "retry"))

    def ask() -> None:
        asker.start()
        wait_until(lambda: any(not path.name.startswith(".") for path in box.paths.control.iterdir()))

    between = run(box, runner, ask)
    assert runner.run().completed == 3
    asker.join(30)
    assert between.active == ["two"]
    assert tries == ["slow", "slow", "one", "slow", "two"]


def test_what_is_no_record_is_quarantined_and_told(make_box: MakeBox) -> None:
    box = make_box(by_id())
    for name in ("one", "two", "three"):
        box.enqueue(name)
    (bad,) = [path for path in box.paths.pending.iterdir() if path.name.endswith("-two.json")]
    bad.write_text("{")
    assert box.run().completed == 2
    assert begun(box) == ["one", "three"]
    (event,) = box.events("record_quarantined")
    assert event["subject"] == bad.name
    (note,) = [path for path in box.paths.quarantine.iterdir() if path.name.endswith(".reason.json")]
    assert load(note)["folder"] == "active"


def test_what_was_withdrawn_meanwhile_is_not_claimed(box: LaneBox) -> None:
    for name in ("one", "two", "three"):
        box.enqueue(name)
    runner = box.runner(until_idle=True)
    between = run(box, runner, lambda: box.lane.withdraw("three"))
    assert runner.run().completed == 2
    assert between.active == ["two"]
    assert box.everything() == {"claimed": ["one", "two"], "withdrawn": ["three"]}


def test_the_journal_tells_an_end_with_the_next_beginning_and_its_own_time(box: LaneBox) -> None:
    for name in ("one", "two"):
        box.enqueue(name)
    runner = box.runner(until_idle=True)
    told: list[int] = []
    between = run(box, runner, lambda: told.append(len(box.events("phase_done"))))
    runner.run()
    assert between.active == ["two"]
    assert told == [0]
    events = box.events()
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    lived = [(e["event"], e["subject"]) for e in events if e["event"] in ("phase_started", "phase_done")]
    assert lived == [(event, name) for name in ("one", "two") for event in ("phase_started", "phase_done")]
    (first, _) = box.events("phase_done")
    (_, second) = box.events("phase_started")
    assert first["at"] <= second["at"]
    assert first["at"] >= box.result("one")["finished_at"]
