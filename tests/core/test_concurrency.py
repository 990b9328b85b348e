"""Many processes on one lane at once."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from meshtui.core.clock import SystemClock
from meshtui.core.errors import Held, InvalidInput, MeshtuiError
from meshtui.core.journal import read_tail
from meshtui.core.lane import dirlock
from meshtui.core.lane.index import list_records
from meshtui.core.lane.lane import Lane
from meshtui.core.lane.queue import Queue
from meshtui.core.models.names import RecordName
from meshtui.core.models.record import load_record
from meshtui.core.run_dir import RunDir
from tests.support.lanes import (
    check,
    files_of,
    new_lane,
    pending_ids,
    phase,
    results,
    run_until_idle,
    where,
)

FORK = multiprocessing.get_context("fork")
PROJECT = Path(__file__).parents[2]


def forked(work: Callable[[int], None], count: int) -> list[BaseProcess]:
    """Start ``count`` processes that each do ``work(their number)``."""
    processes: list[BaseProcess] = [FORK.Process(target=work, args=(number,)) for number in range(count)]
    for process in processes:
        process.start()
    return processes


def joined(processes: list[BaseProcess], limit: float = 100.0) -> None:
    """Wait for all; each has to end well."""
    end = time.monotonic() + limit
    for process in processes:
        process.join(max(0.0, end - time.monotonic()))
    codes = [process.exitcode for process in processes]
    for process in processes:
        if process.exitcode is None:
            process.kill()
    assert codes == [0] * len(processes)


def test_twenty_processes_enqueue_and_claim_two_hundred_each(quick_path: Path) -> None:
    """Every sequence is given once, every envelope is claimed once, in order where one claims."""
    run_dir, _ = new_lane(quick_path / "run")
    files_of(run_dir)
    processes, each = 20, 200
    total = processes * each

    def work(number: int) -> None:
        lane, queue = Lane(run_dir), Queue(run_dir.lane, SystemClock())
        log = os.open(quick_path / f"claimed-{number}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

        def claim(most: int) -> int:
            names = list_records(run_dir.lane.pending)[:most]
            for name in names:
                record = queue.claim(name)
                if record is not None:
                    os.write(log, f"{record.envelope_id}\n".encode())
            return len(names)

        for turn in range(0, each, 4):
            if turn % 8:
                lane.enqueue_many([phase(f"{number}-{turn + more}") for more in range(4)])
            else:
                for more in range(4):
                    lane.enqueue(phase(f"{number}-{turn + more}"))
            claim(4)
        while claim(100):
            pass

    joined(forked(work, processes))
    claimed = [
        line for number in range(processes) for line in (quick_path / f"claimed-{number}").read_text().split()
    ]
    assert Counter(claimed) == Counter(
        f"{number}-{turn}" for number in range(processes) for turn in range(each)
    )
    names = list_records(run_dir.lane.active)
    sequences = [parts.sequence for parts in map(RecordName.parse, names) if parts is not None]
    assert sorted(sequences) == list(range(1, total + 1))
    assert json.loads(run_dir.lane.sequence.read_bytes()) == {"sequence": total}
    events = read_tail(run_dir.events, total + 1)
    assert [event.seq for event in events] == list(range(1, total + 1))
    check(run_dir, quick_path)


def test_a_batch_stays_together_among_many(quick_path: Path) -> None:
    run_dir, _ = new_lane(quick_path / "run")

    def enqueue(number: int) -> None:
        lane = Lane(run_dir)
        for turn in range(10):
            receipts = lane.enqueue_many([phase(f"{number}-{turn}-{place}") for place in range(5)])
            first = receipts[0].position
            assert [receipt.position for receipt in receipts] == list(range(first, first + 5))

    joined(forked(enqueue, 8))
    order = [
        load_record(run_dir.lane.pending / name).envelope_id for name in list_records(run_dir.lane.pending)
    ]
    assert len(order) == 400
    for start in range(0, 400, 5):
        group = {envelope_id.rpartition("-")[0] for envelope_id in order[start : start + 5]}
        assert len(group) == 1, "another process's record stands inside a batch"


def test_one_id_of_many_enqueuers_is_taken_once(quick_path: Path) -> None:
    run_dir, _ = new_lane(quick_path / "run")
    files_of(run_dir)
    won = FORK.Value("i", 0)

    def enqueue(number: int) -> None:
        lane = Lane(run_dir)
        for turn in range(20):
            try:
                # Every second one clashes only by its file name.
                lane.enqueue(phase(f"id/{turn}" if number % 2 else f"ID_{turn}"))
            except InvalidInput:
                continue
            with won.get_lock():
                won.value += 1

    joined(forked(enqueue, 8))
    assert won.value == 20
    assert len(where(run_dir)) == 20
    check(run_dir, quick_path)


def test_enqueuers_restorers_and_interrupters_at_once(quick_path: Path) -> None:
    run_dir, _ = new_lane(quick_path / "run")
    files_of(run_dir)
    each = 40

    def work(number: int) -> None:
        lane = Lane(run_dir)
        for turn in range(each):
            if number < 4:
                receipt = lane.enqueue(phase(f"{number}-{turn}"))
                assert 1 <= receipt.position <= receipt.queue_depth
            elif number == 4:
                lane.interrupt()
            elif number == 5:
                lane.restore()
            elif number == 6:
                for envelope_id in sorted(where_now(run_dir, "pending"))[:3]:
                    try:
                        lane.withdraw(envelope_id)
                    except MeshtuiError:
                        continue  # Somebody else was quicker.
            else:
                for envelope_id in sorted(where_now(run_dir, "withdrawn"))[:3]:
                    try:
                        lane.requeue(envelope_id)
                    except MeshtuiError:
                        continue

    joined(forked(work, 8))
    assert set(where(run_dir)) == {f"{number}-{turn}" for number in range(4) for turn in range(each)}
    check(run_dir, quick_path)
    Lane(run_dir).restore()
    assert set(where(run_dir).values()) == {"pending"}
    check(run_dir, quick_path)


def where_now(run_dir: RunDir, folder: str) -> list[str]:
    """Ids in a folder while others work on it."""
    parsed = map(RecordName.parse, list_records(run_dir.lane.folder(folder)))
    return [parts.safe for parts in parsed if parts is not None]


def test_sixteen_claimers_of_one_record(quick_path: Path) -> None:
    """One winner, and the others go away quietly, round after round."""
    run_dir, lane = new_lane(quick_path / "run")
    rounds, claimers = 20, 16
    barrier = FORK.Barrier(claimers + 1)
    winners = FORK.Array("i", rounds)

    def claim(number: int) -> None:
        queue = Queue(run_dir.lane, SystemClock())
        for turn in range(rounds):
            barrier.wait(60)
            [name] = list_records(run_dir.lane.pending) or list_records(run_dir.lane.active)[-1:]
            barrier.wait(60)
            if queue.claim(name) is not None:
                with winners.get_lock():
                    winners[turn] += 1
            barrier.wait(60)

    processes = forked(claim, claimers)
    for turn in range(rounds):
        lane.enqueue(phase(f"r{turn}"))
        for _ in range(3):
            barrier.wait(60)
    joined(processes)
    assert [winners[turn] for turn in range(rounds)] == [1] * rounds
    assert set(where(run_dir).values()) == {"active"}
    check(run_dir, quick_path)


def test_many_threads_share_one_lane(quick_path: Path) -> None:
    run_dir, lane = new_lane(quick_path / "run")
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(25):
                lane.enqueue(phase(f"{number}-{turn}"))
                lane.withdraw(f"{number}-{turn}")
        except BaseException as error:  # noqa: BLE001 - shown by the assertion
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert lane.warnings == []
    assert len(where(run_dir)) == 150
    events = read_tail(run_dir.events, 1000)
    assert [event.seq for event in events] == list(range(1, 301))
    check(run_dir, quick_path)


def test_one_runner_of_many(quick_path: Path) -> None:
    """Of eight that start at once one works the lane, the others are refused by its name."""
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue_many([phase(f"p{number}") for number in range(5)])
    barrier = FORK.Barrier(8)
    command = 'echo "$MESHTUI_ENVELOPE_ID" >> "$MESHTUI_RUN_DIR/ran"; sleep 0.02'

    def run(number: int) -> None:
        barrier.wait(60)
        try:
            run_until_idle(run_dir, command)
        except Held as error:
            assert "worked by pid" in str(error), error

    joined(forked(run, 8))
    assert sorted((run_dir.root / "ran").read_text().split()) == [f"p{number}" for number in range(5)]
    assert set(results(run_dir).values()) == {"done"}
    check(run_dir, quick_path)


# -- kill -9 at random -----------------------------------------------------------------------------------

# Each phase says when it begins and ends; a second one at the same time finds the folder there.
WORK = """
mkdir "$MESHTUI_RUN_DIR/alone" || echo "overlap $MESHTUI_ENVELOPE_ID" >> "$MESHTUI_RUN_DIR/stamps"
echo "start $MESHTUI_ENVELOPE_ID $MESHTUI_CALL_ID" >> "$MESHTUI_RUN_DIR/stamps"
sleep 0.01
echo "end $MESHTUI_ENVELOPE_ID $MESHTUI_CALL_ID" >> "$MESHTUI_RUN_DIR/stamps"
rmdir "$MESHTUI_RUN_DIR/alone"
echo done
"""


def runner_process(run_dir: RunDir) -> None:
    """A runner in a session of its own, until it is idle."""
    os.setsid()
    try:
        run_until_idle(run_dir, WORK)
    except Held:
        os._exit(4)


@pytest.mark.parametrize("seed", [1, 2])
def test_runner_and_enqueuers_are_killed_at_random(seed: int, quick_path: Path) -> None:
    """Every acknowledged envelope has one result in the end, and no call ran beside a living one."""
    chance = random.Random(seed)
    run_dir, _ = new_lane(quick_path / "run")
    files_of(run_dir)
    told = quick_path / "told"
    told.touch()
    wanted, ends_at = 80, time.monotonic() + 60

    def enqueue(number: int) -> None:
        lane = Lane(run_dir)
        log = os.open(told, os.O_WRONLY | os.O_APPEND)
        for turn in range(6):
            receipts = lane.enqueue_many([phase(f"{number}-{turn}-{place}") for place in range(1 + turn % 3)])
            os.write(log, "".join(f"{receipt.envelope_id}\n" for receipt in receipts).encode())

    generation = kills = 0
    runner: BaseProcess | None = None
    enqueuer: BaseProcess | None = None
    while (short := len(told.read_text().split()) < wanted) or (kills < 40 and pending_ids(run_dir)):
        assert time.monotonic() < ends_at
        if runner is None or runner.exitcode is not None:
            runner = FORK.Process(target=runner_process, args=(run_dir,))
            runner.start()
        if enqueuer is None or (enqueuer.exitcode is not None and short):
            generation += 1
            enqueuer = FORK.Process(target=enqueue, args=(generation,))
            enqueuer.start()
        victim = chance.choice((runner, enqueuer)) if enqueuer.exitcode is None else runner
        victim.join(chance.uniform(0.002, 0.1))
        if victim.is_alive():
            victim.kill()
            kills += 1
        victim.join(20)
    for process in (runner, enqueuer):
        assert process is not None
        process.kill()
        process.join(20)
    # A lock that its taker had no time to write a name into is free after ten seconds.
    for lock in (run_dir.lane.runner_lock, run_dir.lane.enqueue_lock):
        if lock.is_dir() and dirlock.read_owner(lock) is None:
            os.utime(lock, (time.time() - 11, time.time() - 11))
    outcome = run_until_idle(run_dir, WORK)
    assert outcome.state == "waiting"
    acknowledged = told.read_text().split()
    assert len(acknowledged) == len(set(acknowledged))
    here, ended = where(run_dir), results(run_dir)
    assert set(acknowledged) <= set(here)
    assert set(here.values()) == {"claimed"}
    assert ended == dict.fromkeys(here, "done")
    assert not run_dir.lane.history.exists(), "a result was replaced by another"
    check(run_dir, quick_path)
    assert kills >= 10
    _assert_one_at_a_time((run_dir.root / "stamps").read_text().splitlines(), set(here))


def _assert_one_at_a_time(stamps: list[str], expected: set[str]) -> None:
    open_call: str | None = None
    ended: Counter[str] = Counter()
    for line in stamps:
        word, envelope_id, *call = line.split()
        assert word != "overlap", f"{envelope_id} ran beside another call"
        if word == "start":
            assert open_call is None, f"{envelope_id} started while {open_call} ran"
            open_call = call[0]
        else:
            assert call[0] == open_call
            open_call = None
            ended[envelope_id] += 1
    assert ended == Counter(expected), "each phase runs once: a call outlives its runner"
