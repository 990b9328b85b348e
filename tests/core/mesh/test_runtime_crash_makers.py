"""A runner killed while several makers share a loop, or compete for it: the next one goes on."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.support.mission_child import start_child
from tests.support.missions import MISSION, Bench, node, until

SAMPLE = 6
"""How many of the runner's steps are tried, each way."""
WAYS = ["split", "compete"]


def bench_of(tmp: Path, way: str, *, slow: str = "") -> Bench:
    """One loop of three makers and two iterations, in copies that are set up first; everything is logged.

    Competing, the second maker's candidate passes the gates and is refused by the checker, the third's wins.
    """
    files = {f"{name}.txt": f"{name}\n" for name in "abc"} | {"README.md": "hi\n"}
    bench = Bench(tmp, files=files)
    log = tmp / "log"

    def logged(name: str, body: str) -> str:
        tag = f"{name} ${{PWD##*/}} $MESHTUI_ITERATION"
        wait = f"while [ ! -e {tmp}/go ]; do sleep 0.02; done; " if name == slow else ""
        return f'echo "+ {tag}" >> {log}; {wait}{body}; code=$?; echo "- {tag}" >> {log}; exit $code'

    if way == "split":
        maker = (
            'for f in a b c; do case "$MESHTUI_SCOPE" in *\\"$f.txt\\"*) '
            'echo "$MESHTUI_ITERATION" >> $f.txt;; esac; done'
        )
        bench.gate("good", logged("gate", "grep -q 2 a.txt"))
        checker = "cat > /dev/null"
    else:
        maker = 'n=${PWD##*-}; echo "by $n in $MESHTUI_ITERATION" >> a.txt'
        bench.gate("good", logged("gate", "! grep -q 'by 1' a.txt"))
        checker = "cat > /dev/null; grep -q 'by 3 in 2' a.txt"
    bench.commands(logged("maker", maker), logged("checker", checker))
    bench.config["mesh"] = {"setup": logged("setup", "echo made > set-up.tmp")}
    bench.configure()
    bench.plan(node("loop-a", *(f"{name}.txt" for name in "abc"), makers=3, gates=["good"]), strategy=way)
    return bench


def ran(bench: Bench, sign: str) -> Counter[str]:
    """What was started (``+``) or ended (``-``), and how often; setting up is repeated where a copy was lost."""
    lines = (bench.tmp / "log").read_text().splitlines()
    return Counter(
        line[2:] for line in lines if line.startswith(sign) and not line.startswith(f"{sign} setup")
    )


def check_done(bench: Bench, way: str, expected: Counter[str]) -> None:
    assert ran(bench, "+") == ran(bench, "-") == expected
    if way == "split":
        assert [bench.result(f"{name}.txt") for name in "abc"] == ["a\n1\n2", "b\n1\n2", "c\n1\n2"]
    else:
        assert bench.result("a.txt").endswith("by 3 in 2")
    assert bench.proof("loop-a")["iterations"] == 2
    assert "set-up.tmp" not in bench.proof("loop-a")["changed_files"]
    assert bench.proof()["ok"]
    assert bench.mismatches() == []
    assert bench.untouched()
    assert [path for path in bench.worktrees.rglob("*") if path.is_file()] == []


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, Counter[str]]]:
    """How many steps a run takes each way, and what it runs."""
    found = {}
    for way in WAYS:
        bench = bench_of(tmp_path_factory.mktemp(way), way)
        start_child(bench.run_dir.root, MISSION).join(60)
        count, state = (bench.tmp / "count").read_text().split()
        assert state == "done", bench.proof()
        check_done(bench, way, ran(bench, "+"))
        found[way] = (int(count), ran(bench, "+"))
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("place", range(SAMPLE))
def test_killed_at_any_step(
    tmp_path: Path, whole: dict[str, tuple[int, Counter[str]]], place: int, way: str
) -> None:
    total, expected = whole[way]
    chance = int(os.environ.get("MESHTUI_CRASH_SEED", "7"))
    at = 1 + int((place + random.Random(f"{chance} {way} {place}").random()) * total / SAMPLE)
    bench = bench_of(tmp_path, way)
    child = start_child(bench.run_dir.root, MISSION, at=at)
    child.join(60)
    assert child.exitcode == -signal.SIGKILL, (at, child.exitcode)
    assert bench.run().state == "done", (at, bench.proof())
    check_done(bench, way, expected)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("slow", ["setup", "maker", "gate", "checker"])
def test_what_runs_is_adopted(
    tmp_path: Path, whole: dict[str, tuple[int, Counter[str]]], slow: str, way: str
) -> None:
    bench = bench_of(tmp_path, way, slow=slow)
    log = tmp_path / "log"
    child = start_child(bench.run_dir.root, MISSION)
    until(lambda: log.exists() and f"+ {slow}" in log.read_text())
    if slow == "maker":
        until(lambda: log.read_text().count("+ maker") == 3)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join(20)
    running = bench.start()
    until(lambda: bench.status("loop-a") == "running")
    (tmp_path / "go").touch()
    assert running.outcome().state == "done", bench.proof()["blockers"]
    check_done(bench, way, whole[way][1])
