"""Caps of a lane while its agents run: counted as they speak, warned of once, and ended in the middle."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from meshtui.core.clock import SystemClock
from meshtui.core.engines.base import Engine
from meshtui.core.engines.registry import engine_for
from meshtui.core.models.config import EngineConfig
from meshtui.core.snapshot import take_snapshot
from tests.support.agent import StandIn, claude_at_work, claude_says, codex_at_work
from tests.support.runners import LaneBox, lane_config
from tests.support.waiting import wait_until


def engine(tmp_path: Path, name: str, *answers: dict[str, Any]) -> tuple[StandIn, Engine]:
    made = StandIn(tmp_path / name, *answers)
    return made, engine_for(name, EngineConfig(program=str(made.program)))


def attention(box: LaneBox) -> list[tuple[str, str]]:
    found = take_snapshot(box.root, SystemClock()).as_json()["attention"]
    return [(item["kind"], item["text"]) for item in found]


def test_a_call_is_ended_in_the_middle(box: LaneBox, tmp_path: Path) -> None:
    _, claude = engine(tmp_path, "claude", claude_at_work((500, 20, "looks"), (600, 30, "goes on")))
    box.enqueue("a", deadline_seconds=200)
    box.enqueue("b")
    began = time.monotonic()
    outcome = box.run(engine=claude, config=lane_config(max_tokens_estimate=1000))
    assert time.monotonic() - began < 60
    assert outcome.bad
    result = box.result("a")
    assert result["status"] == "failed"
    assert result["error"] == "budget: 1,150 of 1,000 tokens are used ([lane] max_tokens_estimate)"
    assert result["usage"] == {"input_tokens": 1100, "output_tokens": 50}
    # Its session can be gone on with, and nothing more is claimed.
    assert result["session_id"]
    ending = json.loads((box.run_dir.calls / result["call"] / "ending.json").read_text())
    assert ending["reason"] == "budget"
    assert box.ids("pending") == ["b"]
    assert box.stalls() == []
    assert box.status()["usage"] == result["usage"]
    assert [kind for kind, _ in attention(box)] == ["budget", "failed"]


def test_the_warning_comes_once_while_it_runs(box: LaneBox, tmp_path: Path) -> None:
    _, claude = engine(tmp_path, "claude", claude_at_work((800, 50, "looks"), (50, 1, "goes on")))
    box.enqueue("a", deadline_seconds=200)
    for _ in range(2):
        thread = box.start(engine=claude, config=lane_config(max_tokens_estimate=1000))
        wait_until(lambda: "budget" in dict(attention(box)), 30, "a warning")
        box.active_call("a")
        thread.runner.request_hand_over()
        thread.join()
    (text,) = [text for kind, text in attention(box) if kind == "budget"]
    assert text.startswith("used ")
    assert text.endswith("of 1000 ([lane] max_tokens_estimate); what runs is ended when that is reached")
    assert len(box.events("budget_warning")) == 1
    box.lane.kill("a")


def test_what_was_used_by_a_killed_phase_counts(box: LaneBox, tmp_path: Path) -> None:
    _, claude = engine(tmp_path, "claude", claude_at_work((300, 50, "looks")))
    box.enqueue("a", deadline_seconds=200)
    thread = box.start(engine=claude)
    wait_until(lambda: box.events("phase_activity"), 30, "a sign of what it does")
    box.lane.kill("a")
    thread.stop()
    assert box.result("a")["usage"] == {"input_tokens": 300, "output_tokens": 50}
    assert box.status()["usage"] == {"input_tokens": 300, "output_tokens": 50}


def test_a_stalled_attempt_counts(box: LaneBox, tmp_path: Path) -> None:
    _, claude = engine(tmp_path, "claude", claude_at_work((300, 50, "looks")))
    box.enqueue("a", deadline_seconds=1.5)
    box.run(engine=claude)
    assert box.status()["usage"] == {"input_tokens": 600, "output_tokens": 100}


def test_codex_reports_at_the_end_and_is_measured_until_then(box: LaneBox, tmp_path: Path) -> None:
    _, codex = engine(tmp_path, "codex", codex_at_work("word " * 1000))
    box.enqueue("a", engine="codex", deadline_seconds=200)
    box.run(engine=codex, config=lane_config(max_tokens_estimate=1000))
    result = box.result("a")
    tokens = 5000 // 4 + len("do it") // 4
    assert result["usage"] == {"estimated_tokens": tokens}
    assert result["error"] == (
        f"budget: {tokens:,} of 1,000 tokens are used ([lane] max_tokens_estimate), {tokens:,} of them estimated"
    )


def test_a_call_that_has_said_its_last_is_let_end(box: LaneBox, tmp_path: Path) -> None:
    said = claude_says("fine")
    said["after"] = "sleep 1"
    _, claude = engine(tmp_path, "claude", said)
    box.enqueue("a")
    box.enqueue("b")
    assert box.run(engine=claude, config=lane_config(max_tokens_estimate=100)).bad
    assert box.result("a")["output"] == "fine"
    assert box.ids("pending") == ["b"]


def test_claude_is_told_what_it_may_cost(box: LaneBox, tmp_path: Path) -> None:
    ended = claude_says("", subtype="error_max_budget_usd", is_error=True, code=1)
    ended["lines"][-1]["errors"] = ["Reached maximum budget ($0.75)"]
    ended["lines"][-1]["total_cost_usd"] = 0.8
    made, claude = engine(tmp_path, "claude", claude_says("one"), ended)
    box.enqueue("a")
    box.enqueue("b")
    box.enqueue("c")
    box.run(engine=claude, config=lane_config(max_cost_usd=1.0))
    first, second = [call["argv"] for call in made.asked]
    assert first[first.index("--max-budget-usd") + 1] == "1.000000"
    assert second[second.index("--max-budget-usd") + 1] == "0.750000"
    error = "budget: max_cost_usd is reached: claude: Reached maximum budget ($0.75)"
    assert box.result("b")["error"] == error
    assert box.ids("pending") == ["c"]


@pytest.mark.parametrize("name", ["claude", "codex", "grok"])
def test_nothing_is_ended_where_there_is_no_cap(box: LaneBox, tmp_path: Path, name: str) -> None:
    answers = {
        "claude": claude_at_work((10**9, 10**9, "much"), then="sleep 0.3"),
        "codex": codex_at_work("much", then="sleep 0.3"),
        "grok": {"lines": [{"text": "much", "stopReason": "EndTurn"}], "after": "sleep 0.3"},
    }
    _, made = engine(tmp_path, name, answers[name])
    box.enqueue("a", engine=name)
    box.run(engine=made)
    assert not box.events("budget_warning")
    assert "budget" not in str(box.result("a").get("error"))


def test_the_next_runner_counts_what_an_adopted_call_used_before(box: LaneBox, tmp_path: Path) -> None:
    _, claude = engine(tmp_path, "claude", claude_at_work((500, 20, "looks")))
    box.enqueue("a", deadline_seconds=200)
    thread = box.start(engine=claude)
    wait_until(lambda: box.events("phase_activity"), 30, "a sign of what it does")
    thread.runner.request_hand_over()
    thread.join()
    box.run(engine=claude, config=lane_config(max_tokens_estimate=400))
    assert box.result("a")["error"].startswith("budget: 520 of 400 tokens are used")
    assert box.status()["usage"] == {"input_tokens": 500, "output_tokens": 20}
