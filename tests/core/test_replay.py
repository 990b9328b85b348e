"""A replay agrees with the directory it was recorded in, whatever was done there, and with itself."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meshtui.core.clock import SystemClock, iso
from meshtui.core.errors import InvalidInput, NotFound
from meshtui.core.history import HistoryReader
from meshtui.core.journal import Journal
from meshtui.core.lane.facts import facts_of
from meshtui.core.lane.index import list_records
from meshtui.core.lane.lane import Lane
from meshtui.core.lane.queue import Queue
from meshtui.core.lane.reader import LaneReader
from meshtui.core.lane.settle import Settler
from meshtui.core.models.record import Record, load_record
from meshtui.core.replay.fold import LaneFold
from meshtui.core.replay.recording import Recording, read_events
from meshtui.core.run_dir import RunDir
from meshtui.core.view import SECTIONS, Event, LaneView
from tests.support.lanes import AT, files_of, new_lane, phase, quick_folder, result_of, run_until_idle

NUMBERS = st.integers(0, 50)
ACTS = (
    "enqueue", "enqueue", "enqueue", "batch", "claim", "claim", "claim", "done", "done", "failed", "blocked", "stall", "abort",
    "recover", "hold", "interrupt", "withdraw", "restore", "requeue", "retry", "drop", "damage", "stop", "pause", "mend", "complete",
    "head", "edit", "back", "several", "undrop", "undrop",
)  # fmt: skip


class Driver:
    """Does to a lane what its runner and its operators do, and journals it as they do."""

    def __init__(self, root: Path) -> None:
        self.run_dir, self.lane = new_lane(root)
        self.paths = self.run_dir.lane
        self.files = files_of(self.run_dir)
        self.settler = Settler(self.files)
        self.count = 0
        self.files.note("runner_started", "lane", caps={"tokens": 1000})

    def do(self, act: str, number: int) -> None:
        """One step; what cannot be done now is refused and changes nothing."""
        try:
            getattr(self, act)(number)
        except (InvalidInput, NotFound):
            return

    def _new(self) -> str:
        self.count += 1
        return f"e/{self.count}" if self.count % 7 == 0 else f"e{self.count}"

    def _active(self, number: int) -> Record | None:
        names = list_records(self.paths.active)
        return load_record(self.paths.active / names[number % len(names)]) if names else None

    def enqueue(self, number: int) -> None:
        more: dict[str, Any] = {"story_id": "US-1", "phase": "backend"} if number % 2 else {"label": "x"}
        self.lane.enqueue(phase(self._new(), **more))

    def batch(self, number: int) -> None:
        self.lane.enqueue_many([phase(self._new()) for _ in range(number % 4 + 1)])

    def stop(self, _number: int) -> None:
        self.lane.enqueue({"kind": "stop"})

    def claim(self, _number: int) -> None:
        names = list_records(self.paths.pending)
        if not names:
            return
        try:
            record = Queue(self.paths, SystemClock()).claim(names[0])
        except InvalidInput as error:
            self.files.note("record_quarantined", names[0], reason=str(error), folder="pending")
            return
        assert record is not None
        if record.envelope.get("kind") == "stop":
            self.settler.finish(record, result_of(record.envelope_id, "stopped"))
            return
        facts = facts_of(record)
        self.files.note("phase_started", record.envelope_id, attempt=record.attempt, **facts)

    def _finish(self, number: int, status: str, **more: Any) -> None:
        record = self._active(number)
        if record is not None:
            usage = {"input_tokens": 10, "output_tokens": number}
            self.settler.finish(record, result_of(record.envelope_id, status, usage=usage, **more))

    def done(self, number: int) -> None:
        self._finish(number, "done")

    def failed(self, number: int) -> None:
        self._finish(number, "failed", error="exit 1")

    def blocked(self, number: int) -> None:
        self._finish(number, "done", handoff_status="blocked")

    def complete(self, number: int) -> None:
        """A runner ended between the result and the move; the next one moves the record."""
        record = self._active(number)
        if record is not None:
            with self.files.queue.locked() as index:
                self.settler._write_result(index, record, result_of(record.envelope_id))
            assert self.settler.complete(record) == "done"

    def stall(self, number: int) -> None:
        record = self._active(number)
        if record is not None:
            self.settler.stall(
                record, engine="command", story="", started_at=AT, evidence={"output_bytes": 0}
            )

    def abort(self, number: int) -> None:
        record = self._active(number)
        if record is not None:
            self.settler.put_back(record, event="phase_aborted")

    def recover(self, number: int) -> None:
        record = self._active(number)
        if record is not None:
            self.settler.put_back(record, event="phase_recovered", recovered=True)

    def hold(self, number: int) -> None:
        record = self._active(number)
        if record is not None:
            limit = {"until_ms": 1_796_083_330_000, "holds": 1, "reset_known": True, "error": "limit"}
            self.settler.hold(record, limit, engine="claude")

    def interrupt(self, _number: int) -> None:
        self.lane.interrupt()

    def withdraw(self, number: int) -> None:
        self.lane.withdraw(f"e{number % (self.count + 1)}")

    def restore(self, _number: int) -> None:
        self.lane.restore()

    def requeue(self, number: int) -> None:
        self.lane.requeue(f"e{number % (self.count + 1)}")

    def head(self, number: int) -> None:
        self.lane.head([f"e{number % (self.count + 1)}"])

    def edit(self, number: int) -> None:
        envelope_id = f"e{number % (self.count + 1)}"
        self.lane.edit(envelope_id, phase(envelope_id, label=f"edited {number}"))

    def back(self, number: int) -> None:
        """Restore one where it was."""
        self.lane.restore([f"e{number % (self.count + 1)}"], in_place=True)

    def several(self, number: int) -> None:
        ids = [f"e{(number + more) % (self.count + 1)}" for more in range(3)]
        self.lane.withdraw_many(ids) if number % 2 else self.lane.requeue_many(ids)

    def undrop(self, number: int) -> None:
        """Take back that a parked one was dropped."""
        self.lane.park_again(f"e{number % (self.count + 1)}")

    def retry(self, number: int) -> None:
        self._answer(number, "retry")

    def drop(self, number: int) -> None:
        self._answer(number, "drop")

    def _answer(self, number: int, action: Any) -> None:
        names = list_records(self.paths.stalled)
        if names:
            record = load_record(self.paths.stalled / names[number % len(names)])
            self.lane.answer(record.envelope_id, action)

    def damage(self, number: int) -> None:
        names = list_records(self.paths.pending)
        if names:
            (self.paths.pending / names[number % len(names)]).write_text("{")

    def mend(self, number: int) -> None:
        """Drop something from quarantine."""
        names = Queue(self.paths, SystemClock()).quarantined()
        if names:
            self.lane.quarantine_drop(names[number % len(names)])

    def pause(self, number: int) -> None:
        if number % 2:
            self.lane.pause()
        else:
            self.lane.resume()


def agree(run_dir: RunDir) -> None:
    """The last state of the replay is what stands in the directory."""
    shown = LaneReader(run_dir).refresh(budget=1 << 30, thorough=True)
    replayed = last_view(run_dir)
    assert replayed.counts == shown.counts
    for section in SECTIONS:
        if section == "quarantined":
            assert {row.key for row in replayed.quarantined} == {row.key for row in shown.quarantined}
            continue
        key = [(row.key, row.envelope_id) for row in replayed.rows(section)]
        want = [(row.key, row.envelope_id) for row in shown.rows(section)]
        assert (key if section == "pending" else sorted(key)) == (
            want if section == "pending" else sorted(want)
        )
        for row in shown.rows(section):
            mine = next(one for one in replayed.rows(section) if one.key == row.key)
            if row.kind == "unknown":
                continue
            assert (mine.status, mine.handoff_status, mine.kind) == (
                row.status,
                row.handoff_status,
                row.kind,
            ) or section == "stalled"
            assert (mine.label, mine.phase, mine.story_id) == (row.label, row.phase, row.story_id)
            if section in ("pending", "active"):
                assert mine.attempt == row.attempt
            assert mine.queued_at == row.queued_at
    assert (replayed.state == "paused") == run_dir.lane.paused.exists() or replayed.state == "dead"


def last_view(run_dir: RunDir) -> LaneView:
    recording = Recording.open(run_dir.root)
    return recording.view(len(recording))


steps = st.lists(st.tuples(st.sampled_from(ACTS), NUMBERS), min_size=5, max_size=60)


@given(steps)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_fold_agrees_with_the_directory(acts: list[tuple[str, int]]) -> None:
    root = Path(tempfile.mkdtemp(dir=quick_folder()))
    try:
        driver = Driver(root / "run")
        driver.lane.enqueue(phase("e0"))
        for act, number in acts:
            driver.do(act, number)
        agree(driver.run_dir)
        check_history(driver.run_dir)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def check_history(run_dir: RunDir) -> None:
    """The history read at once, and its prefixes."""
    recording = Recording.open(run_dir.root)
    assert HistoryReader(run_dir.events).read() == recording.history
    for index in range(0, len(recording) + 1, 3):
        shorter = Recording(run_dir.root, recording.events[:index])
        mine, fresh = recording.history_at(index), shorter.history
        assert (mine.depths, mine.finishes, mine.totals) == (fresh.depths, fresh.finishes, fresh.totals)
        assert [(bar.track, bar.start, bar.end, bar.outcome) for bar in mine.bars] == [
            (bar.track, bar.start, bar.end, bar.outcome) for bar in fresh.bars
        ]
    for bar in recording.history.bars:
        assert bar.end is None or bar.end >= bar.start


@given(steps, st.lists(st.integers(0, 200), min_size=1, max_size=12))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_stepping_forward_and_back_agree(acts: list[tuple[str, int]], places: list[int]) -> None:
    root = Path(tempfile.mkdtemp(dir=quick_folder()))
    try:
        driver = Driver(root / "run")
        for act, number in acts:
            driver.do(act, number)
        recording = Recording.open(driver.run_dir.root)
        forward = [LaneFold()]
        for event in recording.events:
            state = forward[-1].copy()
            state.apply(event)
            forward.append(state)
        for place in (*places, *reversed(places)):
            index = place % (len(recording) + 1)
            assert recording.state(index) == forward[index]
    finally:
        shutil.rmtree(root, ignore_errors=True)


def test_a_real_runner_s_lane_is_replayed_to_its_end(tmp_path: Path) -> None:
    run_dir, lane = new_lane(tmp_path / "run")
    lane.enqueue_many([phase("good"), phase("bad"), phase("slow", deadline_seconds=0.3)])
    lane.enqueue(phase("later"))
    command = 'case "$MESHTUI_ENVELOPE_ID" in bad) exit 1;; slow) sleep 30;; *) cat;; esac'
    run_until_idle(run_dir, command)
    agree(run_dir)
    recording = Recording.open(run_dir.root)
    view = recording.view(len(recording))
    assert view.state == "parked"
    assert [item.kind for item in view.attention] == ["parked", "failed"]
    assert view.attention[0].text.startswith("stalled twice")
    bars = [(bar.track, bar.outcome) for bar in recording.history.bars if bar.kind == "run"]
    assert bars == [("good", "done"), ("bad", "failed"), ("slow", "stalled"), ("slow", "parked")]


def test_nothing_of_the_future_is_listed(tmp_path: Path) -> None:
    run_dir, lane = new_lane(tmp_path / "run")
    lane.enqueue(phase("first"))
    lane.enqueue(phase("second"))
    run_until_idle(run_dir)
    recording = Recording.open(run_dir.root)
    one = recording.view(1)
    assert [row.envelope_id for row in one.pending] == ["first"]
    assert one.counts.done == 0
    assert not one.runner.alive
    assert len(one.journal) == 1
    assert recording.view(0).exists is False


def event(seq: int, name: str, subject: str, at: int | None = None, **data: Any) -> Event:
    return Event(seq, 1_796_083_200_000 + seq * 1000 if at is None else at, name, subject, data, 7)


def test_events_that_come_late_move_nothing_back() -> None:
    name = "0000000000000001-1796083200000-00000000-0000-4000-8000-000000000001-a.json"
    second = name.replace("0001-1796", "0002-1796")
    fold = LaneFold()
    for one in (
        event(1, "phase_started", "a", record=name),
        event(2, "enqueued", "a", record=name, label="A"),
        event(3, "requeued", "a", record=second),
        event(4, "phase_done", "a", record=name, usage={"input_tokens": 5}),
    ):
        fold.apply(one)
    assert list(fold.places["pending"]) == ["a"]
    assert fold.rows["a"].label == "A"
    assert fold.rows["a"].queued_at == 1_796_083_200_000
    assert fold.used.tokens == 5


def test_a_journal_of_an_earlier_version_has_ids_only() -> None:
    fold = LaneFold()
    for one in (
        event(1, "enqueued", "a", depth=1, by="x"), event(2, "enqueued", "b", depth=2), event(3, "phase_started", "a", attempt=1),
        event(4, "phase_stalled", "a", attempt=1), event(5, "phase_started", "a", attempt=2), event(6, "phase_parked", "a", attempts=2),
        event(7, "withdrawn", "b"), event(8, "restored", "b"), event(9, "phase_answered", "a", answer="retry"),
    ):  # fmt: skip
        fold.apply(one)
    recording = Recording(Path("/nowhere"), ())
    assert recording.view(0).pending == ()
    assert [
        fold.rows[key].envelope_id
        for key in sorted(fold.places["pending"], key=lambda key: fold.rows[key].key)
    ] == ["a", "b"]


def test_damaged_lines_gaps_and_a_clock_set_back() -> None:
    def line(seq: int, at: int, name: str) -> bytes:
        return json.dumps({"seq": seq, "at": iso(at), "event": name, "subject": "a", "data": {}}).encode()

    lines = [
        line(1, 1000, "enqueued"),
        b"{torn",
        b"\xff\xfe",
        b"",
        line(2, 9000, "phase_started"),
        b"[1]",
        line(9, 4000, "phase_done"),
    ]
    events, damaged = read_events(lines)
    assert ([one.seq for one in events], damaged) == ([1, 2, 9], 3)
    recording = Recording(Path("/nowhere"), events)
    assert recording.times == [1000, 9000, 9000]
    assert recording.damage.missing == 6
    assert recording.index_at(8999) == 1
    assert recording.index_at(9000) == 3
    assert "6 events are missing" in recording.view(3).warnings[0]


def test_what_cannot_be_replayed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"events\.jsonl"):
        Recording.open(tmp_path)
    with pytest.raises(NotFound, match="neither"):
        Recording.open(tmp_path / "no")
    (tmp_path / "events.jsonl").write_text("nothing\n")
    with pytest.raises(InvalidInput, match="no event"):
        Recording.open(tmp_path)


def test_a_hundred_thousand_events_are_reached_quickly() -> None:
    names = ("enqueued", "phase_started", "phase_done")
    events = []
    for number in range(100_000):
        kind = 0 if number < 20_000 else number % 3
        who = number if kind == 0 else number // 3
        events.append(event(number + 1, names[kind], f"e{who}", depth=number % 50))
    recording = Recording(Path("/nowhere"), events)
    slowest = []
    for index in (99_999, 3, 50_000, 77_777, 20_000, 99_000, 45_001):
        times = []
        for shift in range(2):
            recording._recent.clear()
            before = time.perf_counter()
            recording.view(index - shift)
            times.append(time.perf_counter() - before)
        slowest.append(min(times))
    # 0.1 s on a quiet machine; this one may be busy with other tests.
    assert max(slowest) < 0.4, slowest


def test_two_writers_of_the_journal_are_one_recording(tmp_path: Path) -> None:
    run_dir, lane = new_lane(tmp_path / "run")
    other = Lane(run_dir)
    lane.enqueue(phase("a"))
    other.enqueue(phase("b"))
    Journal(run_dir, SystemClock()).append("runner_started", "lane", {})
    recording = Recording.open(run_dir.events)
    assert [one.seq for one in recording.events] == [1, 2, 3]
    assert recording.run_dir == run_dir.root
    assert recording.view(3).runner.alive
