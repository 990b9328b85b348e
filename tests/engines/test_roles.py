"""Checkers, limits, handoffs and a whole mission with the real claude and codex."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from meshtui.core.calls import Call, CallSpec, OutputFollower, new_call_id, read_tail
from meshtui.core.config import load_config
from meshtui.core.engines.base import EngineRequest, Role
from meshtui.core.lane.service import engine_factory
from tests.engines.bench import Bench
from tests.engines.test_lanes import BOTH, writing
from tests.support.model_server import Answer, Ask, Refuse, Say
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(240)


def call(bench: Bench, engine_name: str, role: Role, prompt: str) -> Any:
    """One call of an engine in a role, as a mission makes it."""
    config = load_config(bench.box.run_dir, None, environ={}).config
    engine = engine_factory(config)(engine_name)
    asked = EngineRequest(role, prompt, bench.work, environment=bench.environment)
    launch = engine.launch(asked)
    spec = CallSpec(
        call_id=new_call_id(time.time_ns() // 1_000_000, "x", role),
        subject="x",
        role=role,
        engine=engine_name,
        argv=launch.argv,
        cwd=bench.work,
        env={**bench.environment, **launch.env_extra},
        prompt=launch.prompt_bytes,
    )
    made = Call.start(bench.box.run_dir, spec)
    assert made.wait(90)
    ended = made.exit()
    assert ended is not None
    reader, follower = engine.reader(asked), OutputFollower(made.stdout)
    while chunk := follower.read():
        reader.feed(chunk)
    follower.close()
    return reader.outcome(ended.code, read_tail(made.stderr, 4096))


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize("role", ["checker", "arbiter"])
def test_who_only_looks_cannot_write(engine: str, role: Role, bench: Bench) -> None:
    bench.server.script = writing("forbidden.txt")
    outcome = call(bench, engine, role, "look at it")
    assert (outcome.status, outcome.reply) == ("done", "wrote forbidden.txt")
    told = bench.server.asked[-1].results[-1]
    assert re.search("not enabled|Read-only file system|denied|permission", told), told
    assert bench.git("status", "--porcelain") == ""


@pytest.mark.parametrize("engine", BOTH)
def test_a_maker_writes(engine: str, bench: Bench) -> None:
    bench.server.script = writing("made.txt")
    assert call(bench, engine, "maker", "make it").status == "done"
    assert bench.git("status", "--porcelain") == "?? made.txt\n"


def test_codex_at_its_limit_is_held_until_it_ends(bench: Bench) -> None:
    resets = round(time.time()) + 7200
    extra = {"plan_type": "plus", "resets_at": resets, "resets_in_seconds": 7200}
    bench.enqueue("a", "codex", story_id="s")
    thread = bench.start(lambda ask: Refuse(429, "usage_limit_reached", "The limit", extra))
    wait_until(lambda: bench.box.events("phase_held"), 60, "the phase held")
    wait_until(lambda: bench.box.status().get("limit"), 20, "the limit in loop.json")
    limit = bench.box.status()["limit"]
    assert limit["reset_known"] is True
    assert "hit your usage limit" in limit["error"]
    # The words name the minute.
    until = bench.box.record("pending", "a")["limit"]["until_ms"] / 1000
    assert resets - 60 <= until <= resets + 60
    thread.stop()


@pytest.mark.parametrize("engine", BOTH)
def test_a_limit_that_passes(engine: str, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from meshtui.core.engines import limits

    monkeypatch.setattr(limits, "FIRST_WAIT_SECONDS", 0.5)
    bench.enqueue("a", engine)
    answers: list[Answer] = [Refuse(429, "rate_limit_error", "slow down", {}), Say("went on")]

    def script(ask: Ask) -> Answer:
        return answers.pop(0) if len(answers) > 1 else answers[0]

    bench.run(script)
    result = bench.result("a")
    assert (result["status"], result["output"]) == ("done", "went on")
    (held,) = bench.box.events("phase_held")
    assert held["data"]["attempt"] == 1
    first, second = bench.box.events("phase_started")
    assert second["data"]["session_id"] == result["session_id"]
    assert "session_id" not in first["data"]


@pytest.mark.parametrize("engine", BOTH)
def test_a_handoff_that_is_asked_for_twice(engine: str, bench: Bench) -> None:
    about = {"story_id": "s1", "phase": "backend", "worker_id": "w1"}
    bench.box.lane.enqueue(
        {
            "schema": "hq-phase-envelope/v1",
            "id": "h",
            "engine": engine,
            **about,
            "worktree": str(bench.work),
            "incoming_handoff": None,
            "acceptance_criteria": ["made.txt exists"],
            "fresh_call": False,
        }
    )
    handoff = {
        "schema": "hq-phase-handoff/v1",
        **about,
        "status": "passed",
        "summary": "made it",
        "files_changed": ["made.txt", "never.txt"],
        "commits": [],
        "back_pressure": dict.fromkeys(("tests", "lint", "typecheck", "build"), "skip"),
        "ac_evidence": [{"index": 0, "met": True, "evidence": "ls"}],
        "context_for_next": "",
    }
    first = writing("made.txt")

    def script(ask: Ask) -> Answer:
        if "did not hold the handoff" not in ask.prompt:
            return first(ask)
        # Asked again it may write no more, whatever it tries.
        return Say(f"```json\n{json.dumps(handoff)}\n```") if ask.results else writing("more.txt")(ask)

    bench.run(script)
    result = bench.result("h")
    assert (result["status"], result["handoff_status"]) == ("done", "passed"), result
    assert result["handoff_restated"] is True
    assert [claim["claim"] for claim in result["claims"]] == ["files_changed: never.txt"]
    assert bench.git("status", "--porcelain") == "?? made.txt\n"


MISSION = """
[mesh]
arbiter = "claude"

[[domains]]
id = "alpha"
paths = ["alpha"]
engine = "claude"

[[domains]]
id = "beta"
paths = ["beta"]
engine = "codex"

[gates.made]
command = "ls alpha beta"

[risk]
"beta/**" = "high"
"""


def test_a_whole_mission(bench: Bench) -> None:
    for name in ("alpha", "beta"):
        (bench.work / name).mkdir()
        (bench.work / name / "old.txt").write_text("old\n")
    bench.git("add", "-A")
    bench.git("commit", "-q", "-m", "Second")
    bench.add_settings(MISSION)

    def script(ask: Ask) -> Answer:
        if "You are a maker of loop" in ask.prompt:
            part = re.search(r"^- (?:folder|file) (alpha|beta)", ask.prompt, re.MULTILINE)
            assert part, ask.prompt
            return writing(f"{part[1]}/made.txt")(ask)
        if "You are a fresh checker" in ask.prompt:
            return Say('Looked at it.\n\n{"approved": true, "findings": []}')
        assert "You are the final arbiter" in ask.prompt
        return Say('```json\n{"verdict": "approve", "reasons": ["it is what was asked for"]}\n```')

    bench.server.script = script
    root = str(bench.box.root)

    def meshtui(*arguments: str) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "meshtui", *arguments, "--run-dir", root, "--json"],
            cwd=bench.work,
            env=bench.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, (done.stdout.decode()[-3000:], done.stderr.decode()[-2000:])
        value = json.loads(done.stdout)
        assert isinstance(value, dict)
        return value

    request = "Add made.txt to alpha and to beta"
    meshtui("run", request, "--mission", "m1", "--repo", str(bench.work), "--parallelism", "safe", "--trust")
    roles: dict[tuple[str, str], set[str]] = {}
    for folder in Path(root, "calls").iterdir():
        about = json.loads((folder / "call.json").read_text())
        roles.setdefault((about["subject"], about["role"]), set()).add(about["engine"])
    by_role: dict[str, set[str]] = {}
    for (_, role), engines in roles.items():
        by_role.setdefault(role, set()).update(engines)
    assert by_role["maker"] == {"claude", "codex"}
    assert by_role["arbiter"] == {"claude"}
    for (loop, role), engines in roles.items():
        if role == "checker":
            assert not engines & roles[loop, "maker"], roles
    assert meshtui("proof", "m1", "--verify")["ok"] is True
    names = bench.git("ls-tree", "-r", "--name-only", "meshtui/m1").split()
    assert {"alpha/made.txt", "beta/made.txt"} <= set(names)
    meshtui("land", "m1")
    assert (bench.work / "alpha" / "made.txt").read_text() == "made\n"
    assert (bench.work / "beta" / "made.txt").read_text() == "made\n"
    assert bench.processes() == []
