"""Missions of agents: caps that end workers in the middle, and usage limits that survive a runner."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from meshtui.core.clock import SystemClock, from_iso
from meshtui.core.mesh.files import read_json, read_lines
from meshtui.core.overview import RunDirReader
from meshtui.core.snapshot import take_snapshot
from tests.core.mesh.test_agent_missions import APPROVED, SESSION, agent
from tests.support.agent import claude_at_work, claude_limited, claude_says
from tests.support.missions import MISSION, Bench, node, until


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def loop(*entries: str, **fields: Any) -> Any:
    return node("loop-a", *entries, **fields).model_copy(update={"engine": "claude"})


def attention(bench: Bench) -> list[dict[str, Any]]:
    snapshot = take_snapshot(bench.run_dir.root, SystemClock()).as_json()
    return [item for item in snapshot["attention"] if item["subject"] == f"{MISSION}/loop-a"]


def events(bench: Bench, name: str) -> list[Any]:
    view = RunDirReader(bench.run_dir).refresh()
    return [event for event in view.journal if event.event == name]


def test_workers_side_by_side_reach_a_cap_together(bench: Bench, tmp_path: Path) -> None:
    made = agent(bench, tmp_path, claude_at_work((500, 20, "looks")))
    bench.plan(loop("a/", "b/", makers=2, max_tokens_estimate=1000))
    began = time.monotonic()
    assert bench.run().state == "bad"
    assert time.monotonic() - began < 40
    assert len(made.asked) == 2
    assert bench.state("loop-a").blockers == ["budget: 1040 of 1000 tokens are used (max_tokens_estimate)"]
    used = bench.proof("loop-a")["budget"]["used"]
    assert (used["tokens"], used["input_tokens"], used["output_tokens"]) == (1040, 1000, 40)
    endings = [read_json(path / "ending.json") or {} for path in bench.calls("maker")]
    assert [ending.get("reason") for ending in endings] == ["budget", "budget"]
    (item,) = attention(bench)
    assert item["kind"] == "budget"


def test_a_warning_is_shown_while_the_loop_runs(bench: Bench, tmp_path: Path) -> None:
    go = tmp_path / "go"
    wait = f"while [ ! -e {go} ]; do sleep 0.02; done"
    working = claude_at_work((850, 1, "looks"), then=f"echo made >> a/one.txt; {wait}")
    agent(bench, tmp_path, working, claude_says(APPROVED))
    bench.plan(loop("a/", max_tokens_estimate=1000))
    running = bench.start()
    until(lambda: attention(bench))
    (item,) = attention(bench)
    assert (item["kind"], item["text"].split(";")[0]) == ("budget", "used 851 of 1000 (max_tokens_estimate)")
    go.touch()
    running.outcome()
    assert len(events(bench, "budget_warning")) == 1


def test_a_held_worker_is_shown_and_outlives_its_runner(bench: Bench, tmp_path: Path) -> None:
    until_s = round(time.time()) + 3600
    limited = claude_limited(f"usage limit reached|{until_s}", session=SESSION, run="echo half >> a/one.txt")
    made = agent(bench, tmp_path, limited, claude_says("made it", session=SESSION))
    bench.plan(loop("a/"))
    for number in (1, 2, 3):
        running = bench.start()
        until(lambda: len(events(bench, "mission_started")) == number)  # noqa: B023
        until(lambda: attention(bench))
        (item,) = attention(bench)
        assert item["kind"] == "limit"
        told = item["text"].split()
        assert told[:3] == ["maker-1", "held", "until"]
        assert from_iso(told[3].rstrip(";")) == until_s * 1000
        assert "claude: usage limit" in item["text"]
        assert [way["label"] for way in item["exits"]] == ["kill loop", "log"]
        assert item["exits"][0]["command"].startswith(f"meshtui kill loop-a --mission {MISSION} --run-dir ")
        # It looks at the worker again and again; not once does it try.
        time_up = time.monotonic() + 0.5
        until(lambda: time.monotonic() > time_up)  # noqa: B023
        (running.runner.request_stop if number == 1 else running.runner.request_hand_over)()
        running.outcome()
    assert len(made.asked) == 1
    # What it had done before stays where it was.
    (place,) = [path for path in bench.worktrees.rglob("one.txt") if path.parent.name == "a"]
    assert place.read_text().splitlines()[-1] == "half"


def test_after_the_reset_a_restarted_runner_goes_on_in_the_session(bench: Bench, tmp_path: Path) -> None:
    until_s = round(time.time()) + 3
    made = agent(
        bench,
        tmp_path,
        claude_limited(f"usage limit reached|{until_s}", session=SESSION, run="echo half >> a/one.txt"),
        claude_says("made it", session=SESSION, run="echo whole >> a/one.txt"),
        claude_says(APPROVED, session="44444444-4444-4444-8444-444444444444"),
    )
    bench.plan(loop("a/"))
    running = bench.start()
    until(lambda: events(bench, "worker_held"))
    running.runner.request_stop()
    running.outcome()
    assert bench.run().state == "done", bench.proof()["blockers"]
    assert time.time() >= until_s
    second = made.asked[1]["argv"]
    assert second[second.index("--resume") + 1] == SESSION
    assert bench.result("a/one.txt") == "one\nhalf\nwhole"
    assert attention(bench) == []


def test_another_engine_is_not_held(bench: Bench, tmp_path: Path) -> None:
    agent(bench, tmp_path, claude_limited(f"usage limit reached|{round(time.time()) + 3600}"))
    bench.plan(loop("a/"))
    running = bench.start()
    until(lambda: events(bench, "worker_held"))
    running.runner.request_stop()
    running.outcome()
    bench.commands("echo made >> a/one.txt")
    bench.plan(node("loop-a", "a/"))
    assert bench.run().state == "done", bench.proof()["blockers"]


def test_a_worker_that_floods_is_ended(bench: Bench, tmp_path: Path) -> None:
    line = '{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"' + "x" * 300 + '"}]}}'
    agent(bench, tmp_path, claude_at_work((1, 1, "begins"), then=f"yes '{line}'"))
    bench.config["lane"] = {"max_output_mb": 8}
    bench.plan(loop("a/", max_iterations=1, max_tokens_estimate=10**12))
    began = time.monotonic()
    assert bench.run().state == "bad"
    assert time.monotonic() - began < 40
    (call,) = bench.calls("maker")
    assert (read_json(call / "ending.json") or {})["reason"] == "output"


def test_what_a_worker_does_and_used_is_read_while_it_runs(bench: Bench, tmp_path: Path) -> None:
    go = tmp_path / "go"
    wait = f"echo made >> a/one.txt; while [ ! -e {go} ]; do sleep 0.02; done"
    agent(bench, tmp_path, claude_at_work((850, 1, "looks"), then=wait), claude_says(APPROVED))
    bench.plan(loop("a/"))
    running = bench.start()
    reader = RunDirReader(bench.run_dir)

    def doing() -> Any:
        return [one for mission in reader.refresh().missions for row in mission.loops for one in row.doing]

    until(doing)
    (one,) = doing()
    assert (one.worker, one.kind, one.text, one.tokens) == ("maker-1", "text", "looks", 851)
    go.touch()
    running.outcome()
    assert doing() == []
    ended = [line for line in read_lines(bench.paths.handles) if line["event"] == "ended"]
    assert ended[0]["usage"] == {"input_tokens": 850, "output_tokens": 1}
