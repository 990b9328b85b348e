"""A runner that is killed, stopped or sent away at any moment: the next one goes on, and nothing runs twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from meshtui.core import storage
from meshtui.core.errors import Held, LeaseLost, StorageError
from meshtui.core.mesh.files import read_json
from tests.support.mission_child import start_child
from tests.support.missions import INTEGRATION, MISSION, Bench, alive, node, until

SAMPLE = 7
"""How many of the runner's steps are tried."""


def bench_of(tmp: Path, *, slow: str = "") -> Bench:
    """Two loops, of which one needs two iterations, and a gate on the merged result; everything is logged."""
    bench = Bench(tmp)
    log = tmp / "log"

    def logged(name: str, body: str) -> str:
        tag = f"{name} $MESHTUI_LOOP_ID $MESHTUI_ITERATION"
        wait = f"while [ ! -e {tmp}/go ]; do sleep 0.02; done; " if name == slow else ""
        return f'echo "+ {tag}" >> {log}; {wait}{body}; code=$?; echo "- {tag}" >> {log}; exit $code'

    bench.commands(
        logged("maker", 'echo "$MESHTUI_ITERATION" >> $MESHTUI_LOOP_ID.txt'),
        logged("checker", "cat > /dev/null"),
    )
    bench.gate("two", logged("gate", "grep -q 2 loop-a.txt"))
    bench.gate("whole", logged("whole", "test -e loop-a.txt && test -e loop-b.txt"), stage="integration")
    bench.configure()
    bench.plan(
        node("loop-a", "loop-a.txt", gates=["two"]),
        node("loop-b", "loop-b.txt", after=["loop-a"]),
        gates=["whole"],
    )
    return bench


EXPECTED = Counter(
    {
        "maker loop-a 1": 1,
        # Once on the candidate, and once on the base because it failed there.
        "gate loop-a 1": 2,
        "maker loop-a 2": 1,
        "gate loop-a 2": 1,
        "checker loop-a 2": 1,
        "maker loop-b 1": 1,
        "checker loop-b 1": 1,
        "whole loop-integration 1": 1,
    }
)


def check_done(bench: Bench) -> None:
    """The mission is done as if nothing had happened, and each worker ran once."""
    lines = (bench.tmp / "log").read_text().splitlines()
    assert Counter(line[2:] for line in lines if line.startswith("+")) == EXPECTED
    assert Counter(line[2:] for line in lines if line.startswith("-")) == EXPECTED
    assert bench.result("loop-a.txt") == "1\n2"
    assert bench.result("loop-b.txt") == "1"
    assert bench.proof()["ok"]
    assert bench.mismatches() == []
    assert bench.untouched()
    left = [path for path in bench.worktrees.rglob("*") if path.is_file()]
    assert left == []


def steps() -> list[tuple[int, int]]:
    """Places spread over the run, some at its very beginning."""
    chance = random.Random(7)
    return [(place, chance.randrange(1000)) for place in range(SAMPLE)]


@pytest.fixture(scope="module")
def total(tmp_path_factory: pytest.TempPathFactory) -> int:
    """How many steps a run takes."""
    bench = bench_of(tmp_path_factory.mktemp("whole"))
    child = start_child(bench.run_dir.root, MISSION)
    child.join(60)
    count, state = (bench.tmp / "count").read_text().split()
    assert state == "done"
    check_done(bench)
    return int(count)


@pytest.mark.parametrize(("place", "chance"), steps())
def test_killed_at_any_step(tmp_path: Path, total: int, place: int, chance: int) -> None:
    bench = bench_of(tmp_path)
    at = 1 + int((place + chance / 1000) * total / SAMPLE)
    child = start_child(bench.run_dir.root, MISSION, at=at)
    child.join(60)
    assert child.exitcode == -signal.SIGKILL, (at, child.exitcode)
    assert bench.run().state == "done", (at, bench.proof())
    check_done(bench)


@pytest.mark.parametrize(
    ("slow", "number"),
    [
        ("maker", signal.SIGKILL),
        ("gate", signal.SIGKILL),
        ("checker", signal.SIGKILL),
        ("whole", signal.SIGKILL),
        ("maker", signal.SIGHUP),
    ],
)
def test_what_runs_is_adopted(tmp_path: Path, slow: str, number: signal.Signals) -> None:
    bench = bench_of(tmp_path, slow=slow)
    child = start_child(bench.run_dir.root, MISSION)
    log = tmp_path / "log"
    until(lambda: log.exists() and f"+ {slow}" in log.read_text())
    assert child.pid is not None
    os.kill(child.pid, number)
    child.join(20)
    running = bench.start()
    until(lambda: bench.state(INTEGRATION if slow == "whole" else "loop-a").status == "running")
    (tmp_path / "go").touch()
    assert running.outcome().state == "done"
    check_done(bench)


def test_killed_while_nobody_looks_and_ended_meanwhile(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, slow="maker")
    child = start_child(bench.run_dir.root, MISSION)
    log = tmp_path / "log"
    until(lambda: log.exists() and "+ maker" in log.read_text())
    child.kill()
    child.join(20)
    (tmp_path / "go").touch()
    until(lambda: "- maker loop-a 1" in log.read_text())
    used = bench.proof("loop-a").get("budget")
    assert used is None
    assert bench.run().state == "done"
    check_done(bench)


def test_sigterm_stops_and_resume_goes_on(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, slow="checker")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    child = subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-m",
            "meshtui",
            "run",
            MISSION,
            "--run-dir",
            str(bench.run_dir.root),
            "--json",
        ],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    log = tmp_path / "log"
    until(lambda: log.exists() and "+ checker" in log.read_text())
    child.terminate()
    out, err = child.communicate(timeout=20)
    assert child.returncode == 130, err
    assert json.loads(out)["state"] == "stopped"
    assert bench.status("loop-a") == "queued"
    assert not alive(str(tmp_path / "go"))
    (tmp_path / "go").touch()
    assert bench.run().state == "done"
    # The checker was ended and asked again; everything else ran once.
    lines = log.read_text().splitlines()
    assert Counter(line[2:] for line in lines if line.startswith("-")) == EXPECTED
    assert bench.mismatches() == []


def test_a_second_runner_is_refused(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, slow="maker")
    running = bench.start()
    until(lambda: (tmp_path / "log").exists())
    with pytest.raises(Held, match=f"mission {MISSION} is worked by"):
        bench.run()
    (tmp_path / "go").touch()
    assert running.outcome().state == "done"


def test_a_damaged_checkpoint_is_kept_aside(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, slow="maker")
    running = bench.start()
    until(lambda: (tmp_path / "log").exists())
    running.runner.request_hand_over()
    running.outcome()
    path = bench.paths.loop("loop-a").checkpoint
    path.write_bytes(path.read_bytes()[:100])
    (call,) = bench.calls("maker")
    before = read_json(bench.paths.loop("loop-a").checkpoints / "0001-maker.json")
    assert before is not None
    again = bench.start()
    # The worker that the damaged file named was ended before another one began.
    until(lambda: (call / "ending.json").exists())
    (tmp_path / "go").touch()
    assert again.outcome().state == "done"
    assert list(path.parent.glob("checkpoint-latest.json.*.damaged"))
    assert bench.result("loop-a.txt") == "1\n2"
    assert bench.mismatches() == []


def test_wall_time_without_a_runner_counts_only_while_a_call_lives(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, slow="maker")
    running = bench.start()
    until(lambda: (tmp_path / "log").exists())
    running.runner.request_stop()
    assert running.outcome().state == "stopped"
    path = bench.paths.loop("loop-a").checkpoint
    value = read_json(path)
    assert value is not None
    # As if it had rested for an hour.
    value["meshtui"]["wall_recorded_at"] -= 3_600_000
    path.write_text(json.dumps(value))
    (tmp_path / "go").touch()
    assert bench.run().state == "done"
    assert bench.proof("loop-a")["budget"]["used"]["wall_ms"] < 60_000


def test_wall_time_of_a_call_that_nobody_watched_counts(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, slow="maker")
    running = bench.start()
    until(lambda: (tmp_path / "log").exists())
    running.runner.request_hand_over()
    running.outcome()
    begun = read_json(bench.paths.loop("loop-a").checkpoint)
    assert begun is not None
    time.sleep(0.4)
    (tmp_path / "go").touch()
    until(lambda: (bench.calls("maker")[0] / "exit.json").exists())
    assert bench.run().state == "done"
    used = bench.proof("loop-a")["budget"]["used"]["wall_ms"]
    assert used >= begun["meshtui"]["used"]["wall_ms"] + 400


def test_a_lost_call_is_run_again(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, slow="checker")
    log = tmp_path / "log"
    running = bench.start()
    until(lambda: log.exists() and "+ checker" in log.read_text())
    who = read_json(bench.calls("checker")[0] / "process.json")
    assert who is not None
    # Everything of it at once, the wrapper too: as after a reboot.
    os.killpg(who["pid"], signal.SIGKILL)
    until(lambda: len(bench.calls("checker")) == 2)
    (tmp_path / "go").touch()
    assert running.outcome().state == "done"
    assert bench.mismatches() == []


@pytest.mark.parametrize("number", [20, 60])
def test_a_full_disk_ends_the_runner_and_loses_nothing(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = bench_of(tmp_path)
    count = 0
    real = storage.write_atomic

    def full(path: Path, *args: Any, **kwargs: Any) -> None:
        nonlocal count
        count += 1
        if count > number:
            raise StorageError(f"{path}: No space left on device")
        real(path, *args, **kwargs)

    monkeypatch.setattr(storage, "write_atomic", full)
    with pytest.raises(StorageError, match="No space left"):
        bench.run()
    monkeypatch.setattr(storage, "write_atomic", real)
    assert bench.run().state == "done"
    check_done(bench)


def test_a_runner_that_lost_its_lease_writes_nothing_more(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, slow="maker")
    running = bench.start()
    until(lambda: (tmp_path / "log").exists())
    (bench.paths.runner_lock / "owner.json").unlink()
    (tmp_path / "go").touch()
    until(lambda: (bench.calls("maker")[0] / "exit.json").exists())
    with pytest.raises(LeaseLost):
        running.outcome()
    assert bench.status("loop-a") == "running"
    assert not bench.paths.graph_proof.exists()
    bench.paths.runner_lock.rmdir()
    assert bench.run().state == "done"
    check_done(bench)
