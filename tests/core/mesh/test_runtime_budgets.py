"""Budgets and caps hold while a loop runs, in whatever phase it is, and end what is at work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from meshtui.core.errors import InvalidInput
from tests.support.missions import INTEGRATION, Bench, alive, node


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def endings(bench: Bench, role: str) -> Iterator[str]:
    for folder in bench.calls(role):
        path = folder / "ending.json"
        if path.exists():
            yield str(json.loads(path.read_text())["reason"])


def most_at_once(log: Path) -> int:
    depth = most = 0
    for sign in log.read_text().split():
        depth += 1 if sign == "+" else -1
        most = max(most, depth)
    return most


@pytest.mark.parametrize("phase", ["setup", "maker", "gate", "checker", "integration gate", "arbiter"])
def test_wall_time_ends_whatever_is_at_work(bench: Bench, phase: str) -> None:
    mark = f"sleep 62{abs(hash(str(bench.tmp))) % 100000}"
    slow = f"cat > /dev/null; {mark}"
    bench.commands(
        f"echo x >> a/one.txt; {mark if phase == 'maker' else ''}",
        slow if phase == "checker" else "cat > /dev/null",
        arbiter=slow if phase == "arbiter" else "cat > /dev/null",
    )
    bench.gate("local", mark if phase == "gate" else "true")
    bench.gate("whole", mark if phase == "integration gate" else "true", stage="integration")
    if phase == "setup":
        bench.config["mesh"] = {"setup": mark}
    plan = bench.plan(
        node("loop-a", "a/", gates=["local"], risk={"requires_gpt_final": True}), gates=["whole"]
    )
    target = INTEGRATION if phase in ("integration gate", "arbiter") else "loop-a"
    plan.node(target).budget.max_wall_ms = 2000
    bench.paths.plan.write_text(json.dumps(plan.as_json()))
    assert bench.run().state == "bad"
    assert bench.status(target) == "blocked"
    used = bench.proof(target)["budget"]["used"]["wall_ms"]
    assert 2000 <= used < 20_000
    assert not alive(mark)
    blockers = " ".join(bench.state(target).blockers)
    assert "budget: wall time of 2 s is used up" in blockers or "deadline" in blockers
    assert bench.mismatches() == []


def test_the_last_model_call_is_not_overrun_by_makers_at_once(bench: Bench) -> None:
    mark = f"sleep 63{abs(hash(str(bench.tmp))) % 100000}"
    own = 'case "$PWD" in *maker-1) f=a/one.txt;; *maker-2) f=b/two.txt;; *) f=README.md;; esac; echo x >> $f'
    bench.commands(f"{own}; [ $MESHTUI_ITERATION = 1 ] || {mark}")
    bench.gate("never", "false")
    bench.plan(node("loop-a", "a/", "b/", "README.md", makers=3, gates=["never"], max_model_calls=5))
    assert bench.run().state == "bad"
    assert bench.state("loop-a").blockers == ["budget: 5 of 5 model calls are used"]
    assert len(bench.calls("maker")) == 5
    assert list(endings(bench, "maker")) == ["budget", "budget"]
    assert not alive(mark)
    assert bench.proof("loop-a")["budget"]["used"]["model_calls"] == 5
    assert bench.mismatches() == []


def test_a_plan_with_more_workers_than_its_cap_is_refused(bench: Bench) -> None:
    bench.commands("true")
    bench.plan(node("loop-a", "a/", "b/", makers=2, checkers=3, max_subagents=1))
    with pytest.raises(InvalidInput, match=r"2 makers are more than budget.max_subagents 1.*3 checkers"):
        bench.run()
    assert bench.calls() == []


def test_the_cap_over_all_loops_holds_for_gates_and_checkers_too(bench: Bench) -> None:
    log = bench.tmp / "log"
    worker = f"echo + >> {log}; sleep 0.05; echo - >> {log}"
    bench.config["mesh"] = {"max_active_workers": 2}
    bench.commands(f'{worker}; echo x > "$MESHTUI_LOOP_ID.txt"', f"cat > /dev/null; {worker}")
    bench.gate("fine", worker)
    bench.max_active = 4
    bench.plan(
        *[node(f"loop-{n}", f"loop-{n}.txt", checkers=2, gates=["fine"]) for n in range(4)],
    )
    assert bench.run().state == "done", bench.proof()["blockers"]
    assert most_at_once(log) == 2
    assert bench.proof()["parallelism"]["max_active_workers"] == 2


def test_waiting_for_a_slot_uses_no_budget_of_its_own_but_wall_time(bench: Bench) -> None:
    bench.config["mesh"] = {"max_active_workers": 1}
    bench.commands('sleep 0.2; echo x > "$MESHTUI_LOOP_ID.txt"')
    bench.max_active = 3
    bench.plan(*[node(f"loop-{n}", f"loop-{n}.txt", max_model_calls=2) for n in range(3)])
    assert bench.run().state == "done", bench.proof()["blockers"]
    for n in range(3):
        used = bench.proof(f"loop-{n}")["budget"]["used"]
        assert used["model_calls"] == 2
        assert used["iterations"] == 1
