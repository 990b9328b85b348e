"""What programs do to whoever runs them, seen from a whole mission: stragglers, floods, lies, odd prompts."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from meshtui.core.mesh.context import Checkpoints, Progress
from meshtui.core.mesh.files import read_json
from meshtui.core.mesh.tasks import Task
from meshtui.core.mesh.workers import Crew
from meshtui.core.models.mesh import Plan
from tests.support.agent import StandIn, claude_says
from tests.support.mission_child import start_child
from tests.support.missions import INTEGRATION, MISSION, Bench, alive, node, until

MB = 1 << 20


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def artifact(bench: Bench, loop_id: str = "loop-a") -> dict[str, Any]:
    """What the first maker of a loop left in its first iteration."""
    return read_json(bench.paths.loop(loop_id).maker / "0001-maker-1.json") or {}


def hashes(bench: Bench) -> dict[str, str]:
    return {
        path.parent.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(bench.run_dir.calls.glob("*/stdout.log"))
    }


# -- stragglers -------------------------------------------------------------------------------------


def test_what_workers_leave_behind_writes_nothing_more_and_takes_no_slot(bench: Bench) -> None:
    """A maker, a gate and a checker each leave a writer in a session of its own; one slot is all there is."""
    mark = f"echo more{abs(hash(str(bench.tmp))) % 100000}"
    straggle = f"setsid sh -c 'while :; do {mark}; sleep 0.01; done' &"
    bench.config["mesh"] = {"max_active_workers": 1}
    bench.commands(f"{straggle} echo x >> a/one.txt; echo made", f"{straggle} cat > /dev/null")
    bench.gate("fine", f"{straggle} echo judged")
    bench.plan(node("loop-a", "a/", gates=["fine"]))
    assert bench.run().state == "done", bench.proof()["blockers"]
    before = hashes(bench)
    assert not alive(mark)
    assert "made" in artifact(bench)["reply"]
    assert artifact(bench)["left_running"]
    assert bench.mismatches() == []
    assert hashes(bench) == before


@pytest.mark.parametrize("how", ["deadline", "budget"])
def test_what_an_ended_worker_left_behind_is_ended_too(bench: Bench, how: str) -> None:
    mark = f"sleep 61{abs(hash(str(bench.tmp))) % 100000}"
    straggle = f"(setsid {mark} &) ; (trap '' TERM; {mark} &) ; echo said; sleep 600"
    if how == "deadline":
        bench.commands("echo x >> a/one.txt")
        bench.gate("slow", straggle, timeout_seconds=2)
        bench.plan(node("loop-a", "a/", gates=["slow"], max_iterations=1))
    else:
        bench.commands(straggle)
        bench.plan(node("loop-a", "a/", max_wall_ms=2000))
    running = bench.start()
    until(lambda: alive(mark))
    assert running.outcome().state == "bad"
    assert not alive(mark)
    role = "gate" if how == "deadline" else "maker"
    log = bench.calls(role)[0] / "stdout.log"
    assert log.read_text() == "said\n"
    assert bench.mismatches() == []


# -- lies -------------------------------------------------------------------------------------------

LIES = {
    "is_error": ("claude", claude_says("all done", is_error=True)),
    "empty": ("claude", claude_says("")),
    "denied": (
        "claude",
        claude_says("all done", permission_denials=[{"tool_name": "Edit", "tool_use_id": "1"}]),
    ),
    "turn.failed": (
        "codex",
        {
            "lines": [
                {"type": "thread.started", "thread_id": "t1"},
                {"type": "turn.started"},
                {"type": "item.completed", "item": {"type": "agent_message", "text": "all done"}},
                {"type": "turn.failed", "error": {"message": "no"}},
            ]
        },
    ),
}


@pytest.mark.parametrize(
    ("lie", "role"),
    # Who only looks may be refused a tool.
    [(lie, role) for role in ("maker", "checker") for lie in LIES if (lie, role) != ("denied", "checker")],
)
def test_exit_0_alone_is_never_done(bench: Bench, tmp_path: Path, lie: str, role: str) -> None:
    engine, answer = LIES[lie]
    approve = claude_says('{"approved": true, "findings": []}')
    liar: dict[str, Any] = dict(answer)
    if role == "maker":
        liar["run"] = "echo x >> a/one.txt"
        answers = [liar, approve]
    else:
        said = json.dumps({"approved": True, "findings": []})
        liar["lines"] = json.loads(json.dumps(liar["lines"]).replace('"all done"', json.dumps(said)))
        good = dict(claude_says("made it", run="echo x >> a/one.txt"))
        if engine == "codex":
            good["lines"] = [
                {"type": "thread.started", "thread_id": "t0"},
                {"type": "turn.started"},
                {"type": "item.completed", "item": {"type": "agent_message", "text": "made it"}},
                {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}},
            ]
        answers = [good, liar]
    program = StandIn(tmp_path / "agent", *answers)
    bench.config["engines"] = {engine: {"program": str(program.program)}}
    bench.plan(node("loop-a", "a/", max_iterations=1).model_copy(update={"engine": engine}))
    assert bench.run().state == "bad", bench.proof()
    assert bench.status("loop-a") == "blocked"
    if role == "maker":
        assert artifact(bench)["ok"] is False
        assert artifact(bench)["exit_code"] == 0
        assert bench.calls("checker") == []
        assert any(text.startswith("maker-1 failed") for text in bench.state("loop-a").blockers)
    else:
        assert artifact(bench)["ok"] is True
        assert bench.proof("loop-a")["checker_result"]["ok"] is False


# -- floods -----------------------------------------------------------------------------------------


def test_odd_bytes_and_much_on_stderr_first(bench: Bench) -> None:
    flood = (
        "head -c 204800 /dev/zero | tr '\\0' e >&2; printf '\\377'; head -c 1048576 /dev/zero | tr '\\0' o"
    )
    bench.commands(f"{flood}; echo x >> a/one.txt", f"cat > /dev/null; {flood}")
    bench.gate("loud", flood)
    bench.plan(node("loop-a", "a/", gates=["loud"]))
    assert bench.run().state == "done", bench.proof()["blockers"]
    assert artifact(bench)["reply"].startswith("\ufffdooo")
    assert "\ufffdooo" in bench.prompts("checker")[0]
    assert (bench.calls("maker")[0] / "stdout.log").read_bytes()[:2] == b"\xffo"
    assert bench.mismatches() == []


def test_a_line_without_an_end_is_cut_and_marked(bench: Bench) -> None:
    flood = "head -c 10485760 /dev/zero | tr '\\0' w"
    bench.commands(f"{flood}; echo x >> a/one.txt", f"cat > /dev/null; {flood}")
    bench.gate("loud", flood)
    bench.plan(node("loop-a", "a/", gates=["loud"]))
    assert bench.run().state == "done", bench.proof()["blockers"]
    made = artifact(bench)
    assert made["reply_truncated"] is True
    assert made["reply"].startswith("www")
    assert max(path.stat().st_size for path in bench.paths.root.rglob("*") if path.is_file()) < MB
    assert len(bench.prompts("checker")[0]) < MB
    assert bench.mismatches() == []


def test_an_agents_line_of_10_mb_is_parsed_or_marked(bench: Bench, tmp_path: Path) -> None:
    noise = {"type": "assistant", "message": {"content": [{"type": "text", "text": "y" * (10 * MB)}]}}
    made = claude_says("made it", run="echo x >> a/one.txt")
    made["lines"].insert(1, noise)
    approve = claude_says(
        '{"approved": true, "findings": []}', session="3" * 8 + "-3333-4333-8333-" + "3" * 12
    )
    approve["lines"].insert(1, noise)
    program = StandIn(tmp_path / "agent", made, approve)
    bench.config["engines"] = {"claude": {"program": str(program.program)}}
    bench.plan(node("loop-a", "a/", max_iterations=1).model_copy(update={"engine": "claude"}))
    assert bench.run().state == "done", bench.proof()["blockers"]
    assert artifact(bench)["reply"] == "made it"
    assert artifact(bench)["reply_truncated"] is False


# -- killed runners, stubborn and countless workers -------------------------------------------------


def test_three_at_work_are_adopted_and_none_runs_twice(bench: Bench) -> None:
    log, go = bench.tmp / "log", bench.tmp / "go"
    bench.commands(
        f'echo "+ $MESHTUI_LOOP_ID" >> {log}; while [ ! -e {go} ]; do sleep 0.02; done; '
        f'echo x > "$MESHTUI_LOOP_ID.txt"; echo "- $MESHTUI_LOOP_ID" >> {log}'
    )
    names = ["loop-1", "loop-2", "loop-3"]
    bench.max_active = 3
    bench.configure()
    bench.plan(*[node(name, f"{name}.txt") for name in names])
    child = start_child(bench.run_dir.root, MISSION)
    until(lambda: log.exists() and log.read_text().count("+") == 3)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join(20)
    running = bench.start()
    until(lambda: all(bench.status(name) == "running" for name in names))
    go.touch()
    assert running.outcome().state == "done", bench.proof()["blockers"]
    lines = Counter(log.read_text().splitlines())
    assert lines == Counter([*(f"+ {name}" for name in names), *(f"- {name}" for name in names)])
    assert bench.mismatches() == []


def test_500_instant_workers_leave_nothing_behind(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = bench.plan(node("loop-a", "a/", max_subagents=8, max_wall_ms=300_000))
    context = bench.runner()._context(Plan.model_validate(plan.as_json()))
    context.verify_lease = lambda: None
    context.slots.most = 8
    progress = Progress(wall_recorded_at=context.clock.now_ms())
    crew = Crew(context, plan.node("loop-a"), progress, Checkpoints(context, plan.node("loop-a")))
    descriptors = len(os.listdir("/proc/self/fd"))
    tasks = [Task(slot=f"gate-{n}", role="gate", cwd=bench.repo, argv=("/bin/true",)) for n in range(500)]
    done = crew.run(tasks)
    assert [item.slot for item in done] == [task.slot for task in tasks]
    assert all(item.ok for item in done)
    assert 1 < progress.used.subagents <= 8
    assert context.slots.peak == progress.used.subagents
    assert not zombies()
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 2


def zombies() -> list[int]:
    """Children of this process that ended and were not waited for."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] == "Z" and int(fields[1]) == os.getpid():
            found.append(int(entry.name))
    return found


# -- prompts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("request_", ["--version", "- [ ] item", "$(touch owned) `id` %s \\n", "long"])
@pytest.mark.parametrize("engine", ["command", "claude"])
def test_a_request_reaches_its_workers_literally(
    bench: Bench, tmp_path: Path, engine: str, request_: str
) -> None:
    words = "tell it all " * 17_000 + "the end" if request_ == "long" else request_
    if engine == "command":
        bench.commands("cat > a/one.txt", "cat > /dev/null")
    else:
        program = StandIn(
            tmp_path / "agent",
            claude_says("made it", run="echo x >> a/one.txt"),
            claude_says(
                '{"approved": true, "findings": []}', session="3" * 8 + "-3333-4333-8333-" + "3" * 12
            ),
        )
        bench.config["engines"] = {"claude": {"program": str(program.program)}}
    plan = bench.plan(
        node("loop-a", "a/", max_patch_bytes=MB, max_iterations=1).model_copy(update={"engine": engine})
    )
    plan.request = words
    bench.paths.plan.write_text(json.dumps(plan.as_json()))
    assert bench.run().state == "done", bench.proof()["blockers"]
    if engine == "command":
        assert f"Request:\n{words}\n" in bench.result("a/one.txt")
    else:
        assert all(f"Request:\n{words}\n" in call["prompt"] for call in program.asked)
        assert all(words not in " ".join(call["argv"]) for call in program.asked)
    assert not list(bench.tmp.rglob("owned"))


@pytest.mark.parametrize("stdin", ["pipe", "closed"])
def test_a_worker_gets_its_prompt_and_then_the_end_whatever_meshtui_reads(bench: Bench, stdin: str) -> None:
    bench.commands("cat > a/one.txt; echo read to the end >> a/one.txt", "cat > /dev/null")
    bench.gate("reads", "cat > /dev/null")
    bench.configure()
    bench.plan(node("loop-a", "a/", gates=["reads"]))
    child = subprocess.Popen(
        ["/bin/sh", "-c", 'exec "$@" <&-', "sh"] * (stdin == "closed")
        + [sys.executable, "-P", "-m", "meshtui", "run", MISSION, "--run-dir", str(bench.run_dir.root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert child.stdin is not None
    try:
        # Nobody writes into the pipe and nobody closes it while the mission runs.
        assert child.wait(60) == 0, child.stderr.read() if child.stderr else ""
    finally:
        child.kill()
        child.communicate()
    assert bench.result("a/one.txt").endswith("read to the end")
    assert bench.status(INTEGRATION) == "completed"
