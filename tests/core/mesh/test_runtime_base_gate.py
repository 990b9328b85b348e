"""A gate that fails is tried on the untouched base as well: once, beside the loop, and it is said."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from meshtui.core.mesh.detail import read_gates
from meshtui.core.mesh.view import MissionReader
from tests.support.mission_child import start_child
from tests.support.missions import MISSION, Bench, git, node, until


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def result(bench: Bench, gate_id: str, loop_id: str = "loop-a") -> dict[str, Any]:
    value: dict[str, Any] = json.loads(bench.paths.loop(loop_id).gate(gate_id).read_text())
    return value


def test_one_that_fails_on_the_base_is_told_as_such(bench: Bench) -> None:
    log = bench.tmp / "log"
    bench.commands('echo "$MESHTUI_ITERATION" >> a/one.txt')
    bench.gate("broken", f'echo "${{PWD##*/}}" >> {log}; echo stray > stray.txt; exit 3')
    bench.plan(node("loop-a", "a/", gates=["broken"]))
    assert bench.run().state == "bad"
    assert log.read_text().split() == ["loop-a", "loop-a.base-1", "loop-a"]
    assert "gate broken failed (exit 3; on the base too, exit 3)" in bench.prompts("maker")[1]
    assert any("on the base too, exit 3" in text for text in bench.state("loop-a").blockers)
    base = result(bench, "broken")["base"]
    assert (base["ok"], base["exit_code"]) == (False, 3)
    proof = bench.proof("loop-a")
    claims = [item["claim"] for item in proof["evidence"]]
    assert claims.count("gate broken fails on the base") == 1
    assert proof["gate_result"]["failed_gates"] == ["broken"]
    assert bench.mismatches() == []
    assert not list(bench.worktrees.glob("**/*.base-*"))
    assert git(bench.repo, "show", f"meshtui-loops/{MISSION}/loop-a:a/one.txt") == "one\n1\n2"
    view = MissionReader(bench.paths).refresh()
    (gate,) = [
        gate for gate in read_gates(view.loops[0], bench.paths.loop("loop-a")) if gate.gate_id == "broken"
    ]
    assert gate.base_failed


def test_one_that_passes_on_the_base_is_the_makers_doing(bench: Bench) -> None:
    bench.commands('echo "$MESHTUI_ITERATION" > a/one.txt')
    bench.gate("not-one", "! grep -q 1 a/one.txt")
    bench.plan(node("loop-a", "a/", gates=["not-one"]))
    assert bench.run().state == "done", bench.proof()["blockers"]
    assert "gate not-one failed (exit 1; it passes on the base)" in bench.prompts("maker")[1]
    assert result(bench, "not-one")["base"] is None
    assert bench.mismatches() == []


def test_loops_share_what_was_found_out(bench: Bench) -> None:
    log = bench.tmp / "log"
    bench.commands('echo x >> "$MESHTUI_LOOP_ID.txt"')
    bench.gate("broken", f'echo "${{PWD##*/}}" >> {log}; exit 3')
    bench.max_active = 1
    names = ("loop-a", "loop-b")
    bench.plan(*[node(name, f"{name}.txt", gates=["broken"], max_iterations=1) for name in names])
    assert bench.run().state == "bad"
    assert sum(".base-" in line for line in log.read_text().split()) == 1
    assert result(bench, "broken", "loop-a")["base"] == result(bench, "broken", "loop-b")["base"]
    assert all("on the base too" in bench.state(name).blockers[0] for name in names)
    assert bench.mismatches() == []


def test_one_that_does_not_end_on_the_base_hides_nothing(bench: Bench) -> None:
    bench.commands("echo x >> a/one.txt")
    bench.gate("slow", "grep -q x a/one.txt && { echo the true words; exit 4; }; sleep 600")
    bench.plan(node("loop-a", "a/", gates=["slow"], max_iterations=1, max_wall_ms=4000))
    assert bench.run().state == "bad"
    assert bench.state("loop-a").blockers[0] == "gate slow failed (exit 4): the true words"
    assert result(bench, "slow")["base"] is None
    assert bench.mismatches() == []


def test_a_runner_killed_meanwhile(bench: Bench) -> None:
    log, go = bench.tmp / "log", bench.tmp / "go"
    wait = f"case $PWD in *.base-*) while [ ! -e {go} ]; do sleep 0.02; done;; esac"
    bench.commands('echo "$MESHTUI_ITERATION" > a/one.txt')
    bench.gate("two", f'echo "${{PWD##*/}}" >> {log}; {wait}; grep -q 2 a/one.txt')
    bench.configure()
    bench.plan(node("loop-a", "a/", gates=["two"]))
    child = start_child(bench.run_dir.root, MISSION)
    until(lambda: log.exists() and ".base-" in log.read_text())
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join(20)
    running = bench.start()
    until(lambda: bench.status("loop-a") == "running")
    go.touch()
    assert running.outcome().state == "done", bench.proof()["blockers"]
    assert log.read_text().split() == ["loop-a", "loop-a.base-1", "loop-a"]
    assert bench.mismatches() == []
