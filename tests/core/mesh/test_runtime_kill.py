"""A kill takes effect at once, whatever the loop is doing, and stays true for what has not started."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from meshtui.core.clock import SystemClock
from meshtui.core.config import LoadedConfig
from meshtui.core.mesh import control
from meshtui.core.mesh.files import read_json
from meshtui.core.mesh.service import kill_loops
from tests.support.missions import INTEGRATION, MISSION, Bench, alive, git, meshtui, node, until

ENDS_WITHIN = 1.0
"""Seconds from the request to the last process gone, on a machine with something else to do: times 3."""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def kill(bench: Bench, target: str) -> tuple[list[str], list[str], list[str]]:
    runner_config = LoadedConfig(bench.settings(), None, (), "", {})
    return kill_loops(bench.run_dir, bench.paths, target, runner_config, lambda name: None)  # type: ignore[arg-type,return-value]


def began(bench: Bench, role: str) -> bool:
    return any(
        (path / "process.json").exists() and (path / "process.json").stat().st_size
        for path in bench.calls(role)
    )


@pytest.mark.parametrize("phase", ["setup", "maker", "gate", "checker", "integration gate", "arbiter"])
def test_in_every_phase(bench: Bench, phase: str, request: pytest.FixtureRequest) -> None:
    mark = f"sleep 7{abs(hash(str(bench.tmp))) % 100000}"
    stop = f"cat > /dev/null; {mark}"
    bench.commands(
        f"echo x >> a/one.txt; {mark if phase == 'maker' else ''}",
        stop if phase == "checker" else "cat > /dev/null",
        arbiter=stop if phase == "arbiter" else "cat > /dev/null",
    )
    bench.gate("local", mark if phase == "gate" else "true")
    bench.gate("whole", mark if phase == "integration gate" else "true", stage="integration")
    if phase == "setup":
        bench.config["mesh"] = {"setup": mark}
    bench.plan(node("loop-a", "a/", gates=["local"], risk={"requires_gpt_final": True}), gates=["whole"])
    running = bench.start()
    until(lambda: alive(mark))
    target = INTEGRATION if phase in ("integration gate", "arbiter") else "loop-a"
    start = time.monotonic()
    ended, survivors, not_started = kill(bench, target)
    assert not alive(mark)
    assert time.monotonic() - start < 3 * ENDS_WITHIN
    assert (ended, survivors, not_started) == ([target], [], [])
    assert running.outcome().state == "bad"
    assert bench.status(target) == "cancelled"
    assert bench.proof(target)["status"] == "cancelled"
    assert bench.state(target).blockers == ["killed by operator"]
    assert bench.paths.loop(target).checkpoint.exists()
    leases = {item["loop_id"]: item["status"] for item in (read_json(bench.paths.ledger) or {})["leases"]}
    assert leases[target] == "released"
    if target == "loop-a":
        assert not list(bench.worktrees.glob(f"{MISSION}/loop-a*"))
        assert bench.status(INTEGRATION) == "blocked"
        assert bench.state(INTEGRATION).blockers == ["dependency loop-a: cancelled"]
    assert bench.untouched()


def test_what_a_killed_maker_had_is_kept(bench: Bench) -> None:
    bench.commands("echo precious > a/new.txt; sleep 600")
    bench.plan(node("loop-a", "a/"))
    running = bench.start()
    until(lambda: list(bench.worktrees.glob(f"{MISSION}/loop-a/a/new.txt")))
    kill(bench, "loop-a")
    running.outcome()
    branch = f"meshtui-loops/{MISSION}/loop-a.unfinished"
    assert git(bench.repo, "show", f"{branch}:a/new.txt") == "precious"
    assert any(branch in line for line in bench.proof("loop-a")["worktree"]["kept"])


def test_all_and_what_has_not_started(bench: Bench) -> None:
    bench.commands("sleep 600")
    bench.max_active = 1
    bench.plan(node("loop-a", "a/"), node("loop-b", "b/"))
    running = bench.start()
    until(lambda: began(bench, "maker"))
    ended, survivors, not_started = kill(bench, control.ALL)
    assert len(ended) == 1
    assert survivors == []
    assert set(ended + not_started) == {"loop-a", "loop-b", INTEGRATION}
    assert running.outcome().state == "bad"
    assert {bench.status(name) for name in ("loop-a", "loop-b", INTEGRATION)} == {"cancelled"}
    assert len(bench.calls()) == 1
    assert control.pending_kills(bench.paths) == []


def test_a_loop_that_has_not_started_never_does(bench: Bench) -> None:
    bench.commands("while [ ! -e ../go ]; do sleep 0.02; done; echo x >> $MESHTUI_LOOP_ID.txt")
    bench.max_active = 1
    bench.plan(node("loop-a", "loop-a.txt"), node("loop-b", "loop-b.txt"))
    running = bench.start()
    until(lambda: began(bench, "maker"))
    first = next(name for name in ("loop-a", "loop-b") if bench.status(name) == "running")
    other = "loop-b" if first == "loop-a" else "loop-a"
    assert kill(bench, other) == ([], [], [other])
    (bench.worktrees / MISSION / "go").touch()
    assert running.outcome().state == "bad"
    assert bench.status(first) == "completed"
    assert bench.status(other) == "cancelled"
    assert len(bench.calls("maker")) == 1


def test_several_requests_coexist_and_are_spent_once(bench: Bench) -> None:
    bench.commands("sleep 600")
    bench.max_active = 3
    bench.plan(*[node(f"loop-{name}", f"{name}.txt") for name in "abc"])
    running = bench.start()
    until(lambda: len(bench.calls("maker")) == 3)
    clock = SystemClock()
    control.request_kill(bench.paths, "loop-a", clock)
    control.request_kill(bench.paths, "loop-c", clock)
    control.request_kill(bench.paths, "nobody", clock)
    until(lambda: bench.status("loop-a") == bench.status("loop-c") == "cancelled")
    assert bench.status("loop-b") == "running"
    assert control.pending_kills(bench.paths) == []
    kill(bench, "loop-b")
    running.outcome()


def test_at_rest_without_a_runner(bench: Bench) -> None:
    bench.commands("echo x > a/part.txt; sleep 600")
    bench.plan(node("loop-a", "a/"))
    running = bench.start()
    until(lambda: list(bench.worktrees.glob(f"{MISSION}/loop-a/a/part.txt")))
    running.runner.request_hand_over()
    assert running.outcome().state == "handed over"
    (call,) = bench.calls("maker")
    assert not (call / "exit.json").exists()
    assert kill(bench, "all") == (["loop-a"], [], [INTEGRATION])
    assert (call / "exit.json").exists()
    assert bench.status("loop-a") == "cancelled"
    assert bench.proof()["cancelled_loops"] == 2
    assert kill(bench, "all") == ([], [], [])


def test_a_new_run_starts_clean(bench: Bench) -> None:
    bench.commands("test -e ../../go || sleep 600; echo x >> a/one.txt")
    bench.plan(node("loop-a", "a/"))
    running = bench.start()
    until(lambda: began(bench, "maker"))
    kill(bench, "all")
    assert running.outcome().state == "bad"
    # A request nobody took belongs to the past of the next run.
    control.request_kill(bench.paths, "all", SystemClock())
    (bench.worktrees / "go").touch()
    assert bench.run().state == "done"
    assert bench.proof("loop-a")["iterations"] == 1
    assert bench.mismatches() == []


def test_a_worker_that_ignores_sigterm(bench: Bench) -> None:
    bench.commands("trap '' TERM; echo ready > a/ready; while :; do sleep 0.2; done")
    bench.plan(node("loop-a", "a/"))
    running = bench.start()
    until(lambda: list(bench.worktrees.glob(f"{MISSION}/loop-a/a/ready")))
    start = time.monotonic()
    assert kill(bench, "loop-a") == (["loop-a"], [], [])
    assert time.monotonic() - start < 8
    assert running.outcome().state == "bad"


def test_a_request_of_the_other_tool_is_heeded(bench: Bench) -> None:
    bench.commands("sleep 600")
    bench.plan(node("loop-a", "a/"))
    running = bench.start()
    until(lambda: began(bench, "maker"))
    from meshtui.core.mesh.files import write_json

    write_json(bench.paths.kill_request, control.kill_request(MISSION, "loop-a", SystemClock()))
    assert running.outcome().state == "bad"
    assert bench.status("loop-a") == "cancelled"
    assert not bench.paths.kill_request.exists()


def test_what_there_is_to_see_of_a_mission_at_work(bench: Bench) -> None:
    mark = "while [ ! -e ../../go ]; do sleep 0.02; done"
    bench.commands(f"echo said it; {mark}; echo x >> $MESHTUI_LOOP_ID.txt")
    bench.configure()
    bench.max_active = 1
    bench.plan(node("loop-a", "loop-a.txt"), node("loop-b", "loop-b.txt", after=["loop-a"]))
    root = bench.run_dir.root
    running = bench.start()
    until(lambda: began(bench, "maker"))
    (mission,) = meshtui(root, "status")["missions"]
    loops = {loop["loop_id"]: loop for loop in mission["loops"]}
    assert loops["loop-a"]["status"] == "running"
    assert loops["loop-a"]["phase"] == "maker"
    assert loops["loop-a"]["workers"]["active"]
    assert loops["loop-b"]["status"] == "queued"
    until(lambda: "said it" in meshtui(root, "logs", "loop-a")["tail"])
    assert meshtui(root, "logs", f"{MISSION}/loop-a")["call"] == bench.calls("maker")[0].name
    meshtui(root, "logs", "loop-b", code=3)
    meshtui(root, "wait", MISSION, "--for", "done", "--timeout", "0.1", code=1)
    assert meshtui(root, "kill", "loop-b") == {"ended": [], "survivors": [], "not_started": ["loop-b"]}
    (bench.worktrees / "go").touch()
    running.outcome()
    assert meshtui(root, "wait", MISSION, "--timeout", "5")["state"] == "bad"
    (mission,) = meshtui(root, "status")["missions"]
    loops = {loop["loop_id"]: loop for loop in mission["loops"]}
    assert [loops[name]["status"] for name in ("loop-a", "loop-b")] == ["completed", "cancelled"]
    assert loops["loop-a"]["changed_files"] == ["loop-a.txt"]
    assert not loops["loop-a"]["workers"]["active"]


def test_kill_on_the_command_line(bench: Bench) -> None:
    bench.commands("sleep 600")
    bench.configure()
    bench.plan(node("loop-a", "a/"))
    root = bench.run_dir.root
    meshtui(root, "kill", "nobody", code=3)
    meshtui(root, "kill", "all", "--mission", "nobody", code=3)
    meshtui(root, "kill", code=2)
    running = bench.start()
    until(lambda: began(bench, "maker"))
    said = meshtui(root, "kill", "all", "--mission", MISSION)
    assert said == {"ended": ["loop-a"], "survivors": [], "not_started": [INTEGRATION]}
    running.outcome()
