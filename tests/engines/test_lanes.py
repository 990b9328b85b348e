"""Lanes worked by the real claude and codex."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from meshtui.core.calls import Call
from tests.engines.bench import Bench, directory_of
from tests.support.model_server import USAGE, Answer, Ask, Hang, Refuse, Say, Script, Use
from tests.support.runners import finished
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(180)
BOTH = ("claude", "codex")


def writing(name: str, content: str = "made\n") -> Script:
    """A script that has the agent's own tool write ``name``, then says so."""

    def script(ask: Ask) -> Answer:
        if ask.results:
            return Say(f"wrote {name}")
        if ask.api == "claude":
            return Use("Write", {"file_path": f"{directory_of(ask)}/{name}", "content": content})
        return Use("exec_command", {"cmd": f"printf %s '{content}' > {name}"})

    return script


@pytest.mark.parametrize("engine", BOTH)
def test_a_file_is_written_and_the_session_goes_on(engine: str, bench: Bench) -> None:
    bench.enqueue("a", engine, "write the file", story_id="s1", phase="one")
    bench.enqueue("b", engine, "say more", story_id="s1", phase="two")
    first = writing("new.txt")
    bench.run(lambda ask: first(ask) if "write the file" in ask.prompt else Say(f"heard {len(ask.said)}"))
    a, b = bench.result("a"), bench.result("b")
    assert (a["status"], a["output"], a["resumed"]) == ("done", "wrote new.txt", False)
    assert (bench.work / "new.txt").read_text() == "made\n"
    # The second phase knows what the first one was asked: it is the same session.
    assert (b["status"], b["output"], b["resumed"]) == ("done", "heard 2", True)
    assert a["session_id"] == b["session_id"]
    # Two answers were given to the first phase and one to the second, which counts only its own.
    tokens = [(key["usage"]["input_tokens"], key["usage"]["output_tokens"]) for key in (a, b)]
    assert tokens == [(2 * USAGE[0], 2 * USAGE[1]), USAGE]
    assert bench.processes() == []


@pytest.mark.parametrize("engine", BOTH)
def test_a_lost_session_is_tried_once_more_fresh(engine: str, bench: Bench) -> None:
    bench.enqueue("a", engine, story_id="s1")
    lost = "01a22e80-33f2-7b01-8937-92cb46d1f58f"
    bench.box.paths.sessions.write_text(f'{{"s1\\u0000{engine}": "{lost}"}}')
    bench.run(lambda ask: Say("started anew"))
    result = bench.result("a")
    assert (result["status"], result["output"]) == ("done", "started anew")
    assert result["fresh_fallback"] is True
    assert result["session_id"] != lost
    assert bench.box.events("session_unknown")


@pytest.mark.parametrize("engine", BOTH)
def test_prompts_reach_the_agent_literally(engine: str, bench: Bench) -> None:
    long = "x" * 200_000
    for number, prompt in enumerate(("--version", "- [ ] item", long)):
        bench.enqueue(f"p{number}", engine, prompt, fresh=True)
    bench.run(lambda ask: Say(f"{len(ask.prompt.strip())}"))
    assert [bench.result(f"p{number}")["output"] for number in range(3)] == ["9", "10", "200000"]


@pytest.mark.parametrize("engine", BOTH)
def test_a_turn_that_fails_fails_with_the_tools_own_words(engine: str, bench: Bench) -> None:
    bench.enqueue("a", engine)
    outcome = bench.run(lambda ask: Refuse(400, "invalid_request_error", "prompt is too long: 9 > 8"))
    result = bench.result("a")
    assert outcome.bad
    assert result["status"] == "failed"
    assert "too long" in result["error"]


@pytest.mark.parametrize("engine", BOTH)
def test_an_empty_reply_is_a_failure(engine: str, bench: Bench) -> None:
    bench.enqueue("a", engine)
    bench.run(lambda ask: Say(""))
    assert bench.result("a")["error"] == f"{engine} gave an empty reply"


def test_a_denied_tool_is_a_failure(bench: Bench) -> None:
    bench.add_settings('\n[engines.claude.permissions]\nrun = "default"\n')
    bench.enqueue("a", "claude")
    bench.run(writing("denied.txt"))
    result = bench.result("a")
    assert (result["status"], result["error"]) == ("failed", "claude was denied Write")
    assert not (bench.work / "denied.txt").exists()


def test_who_is_not_logged_in_is_told_so(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.delenv("SCRIPTED_KEY")
    for engine in BOTH:
        bench.enqueue(engine, engine)
    bench.run(lambda ask: Say("never"))
    for engine in BOTH:
        assert bench.result(engine)["error"].startswith(f"{engine} is not logged in: ")


@pytest.mark.parametrize("engine", BOTH)
def test_a_kill_in_the_middle_leaves_no_process(engine: str, bench: Bench) -> None:
    bench.enqueue("a", engine)
    bench.start(lambda ask: Hang())
    wait_until(lambda: bench.server.asked, 60, "the model asked")
    assert bench.processes()
    receipt = bench.box.lane.kill("a")
    assert (receipt.ended, receipt.survivors) == (("a",), ())
    wait_until(lambda: bench.box.paths.result("a").exists(), 20, "a result")
    assert bench.result("a")["error"] == "killed by operator"
    assert bench.processes() == []


@pytest.mark.parametrize("engine", BOTH)
def test_an_agent_outlives_its_runner_and_is_adopted(engine: str, bench: Bench) -> None:
    asked_first = bench.server.closing.__class__()

    def script(ask: Ask) -> Answer:
        asked_first.set()
        wait_until(lambda: released.is_set(), 60, "the second runner")
        return Say("outlived it")

    released = bench.server.closing.__class__()
    bench.server.script = script
    bench.enqueue("a", engine, story_id="s1")
    command = [
        sys.executable,
        "-P",
        "-m",
        "meshtui",
        "lane",
        "--run-dir",
        str(bench.box.root),
        "--until-idle",
    ]
    runner = subprocess.Popen(
        [*command, "--json"],
        cwd=bench.work,
        env=bench.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    bench.box._processes.append(runner)
    assert wait_until(asked_first.is_set, 60, "the model asked")
    (call,) = bench.box.calls()
    os.kill(runner.pid, signal.SIGKILL)
    finished(runner)
    assert Call.attach(bench.box.run_dir, call.call_id).state() == "running"
    released.set()
    bench.run()
    result = bench.result("a")
    assert (result["status"], result["output"], result["call"]) == ("done", "outlived it", call.call_id)
    assert len(bench.box.calls()) == 1
    assert bench.box.events("phase_adopted")
    assert len(bench.server.asked) == 1


def test_doctor_says_how_each_one_stands(bench: Bench) -> None:
    def engines(**changed: str) -> dict[str, dict[str, Any]]:
        command = [
            sys.executable,
            "-P",
            "-m",
            "meshtui",
            "doctor",
            "--run-dir",
            str(bench.box.root),
            "--json",
        ]
        environment = {**bench.environment, **changed}
        done = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)
        checks = json.loads(done.stdout)["checks"]
        return {check["name"].removeprefix("engine "): check for check in checks}

    found = engines()
    assert found["claude"]["version"] == "2.1.197 (Claude Code)"
    assert found["codex"]["version"] == "codex-cli 0.171.0"
    assert [found[name]["usable"] for name in ("claude", "codex", "grok")] == [True, True, False]
    assert found["grok"]["found"] is False
    assert found["grok"]["ok"] is True
    found = engines(ANTHROPIC_API_KEY="", SCRIPTED_KEY="")
    for engine in BOTH:
        assert (found[engine]["usable"], found[engine]["ok"]) == (False, False)
        assert "not logged in" in found[engine]["text"]
    assert bench.server.asked == []


def busy(ask: Ask) -> Answer:
    """An agent that goes on and on."""
    if ask.api == "claude":
        return Use(
            "Write", {"file_path": f"{directory_of(ask)}/more", "content": f"{len(ask.results)} " * 100}
        )
    return Use("exec_command", {"cmd": f"echo {'x' * 400} {len(ask.results)}"})


@pytest.mark.parametrize("engine", BOTH)
def test_a_cap_on_tokens_ends_a_call_in_the_middle(engine: str, bench: Bench) -> None:
    bench.lane_setting("max_tokens_estimate = 2000")
    bench.enqueue("a", engine)
    bench.enqueue("b", engine)
    assert bench.run(busy).bad
    result = bench.result("a")
    assert result["status"] == "failed"
    assert result["error"].startswith("budget: 2,")
    assert "of 2,000 tokens are used ([lane] max_tokens_estimate)" in result["error"]
    # claude reports its input as it goes; of codex everything is measured.
    assert result["usage"].get("input_tokens", 0) >= (1000 if engine == "claude" else 0)
    assert result["usage"]["estimated_tokens"] > 0
    assert bench.box.ids("pending") == ["b"]
    assert len(bench.box.events("budget_warning")) == 1
    assert [event["data"]["usage"] for event in bench.box.events("phase_activity")]
    assert bench.processes() == []


def test_claude_ends_itself_at_a_cap_on_cost(bench: Bench) -> None:
    bench.lane_setting("max_cost_usd = 0.003")
    bench.enqueue("a", "claude")
    bench.enqueue("b", "claude")
    assert bench.run(busy).bad
    result = bench.result("a")
    assert result["error"].startswith("budget: max_cost_usd is reached: claude: ")
    assert 0.003 <= result["usage"]["cost_usd"] < 0.006
    # Its own sum is left empty then; that over its models is not.
    assert result["usage"]["input_tokens"] >= 2 * USAGE[0]
    assert bench.box.ids("pending") == ["b"]
