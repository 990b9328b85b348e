"""Missions of agents, with stand-in programs: limits are waited out, the maker's session goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshtui.core.engines import limits
from tests.support.agent import StandIn, claude_limited, claude_says
from tests.support.missions import Bench, node

SESSION = "22222222-2222-4222-8222-222222222222"
APPROVED = '{"approved": true, "findings": []}'


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def agent(bench: Bench, tmp_path: Path, *answers: dict[str, object]) -> StandIn:
    made = StandIn(tmp_path / "agent", *answers)
    bench.config["engines"] = {"claude": {"program": str(made.program)}}
    return made


def test_a_worker_at_its_limit_is_waited_for(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FIRST_WAIT_SECONDS", 0.2)
    made = agent(
        bench,
        tmp_path,
        claude_limited(session=SESSION),
        claude_says("made it", session=SESSION, run="echo made >> a/one.txt"),
        claude_limited(session="33333333-3333-4333-8333-333333333333"),
        claude_says(APPROVED, session="44444444-4444-4444-8444-444444444444"),
    )
    bench.plan(node("loop-a", "a/").model_copy(update={"engine": "claude"}))
    assert bench.run().state == "done", bench.proof()["blockers"]
    first, second, third, fourth = [call["argv"] for call in made.asked]
    assert "--session-id" in first
    assert second[second.index("--resume") + 1] == SESSION
    # A checker is always fresh, and only looks.
    for argv in (third, fourth):
        assert "--session-id" in argv
        assert argv[argv.index("--permission-mode") + 1] == "plan"
    proof = bench.proof("loop-a")
    assert proof["iterations"] == 1
    assert proof["budget"]["used"]["model_calls"] == 2
    assert bench.result("a/one.txt") == "one\nmade"
    assert bench.mismatches() == []


def test_a_checker_that_says_no_in_prose_has_not_approved(bench: Bench, tmp_path: Path) -> None:
    agent(
        bench,
        tmp_path,
        claude_says("made it", session=SESSION, run="echo made >> a/one.txt"),
        claude_says("This must not be merged.", session="44444444-4444-4444-8444-444444444444"),
    )
    bench.plan(node("loop-a", "a/", max_iterations=1).model_copy(update={"engine": "claude"}))
    assert bench.run().state != "done"
