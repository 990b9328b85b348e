"""Lanes worked by agents: usage limits, handoffs asked for again, claims, caps; with stand-in programs."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from meshtui.core.clock import SystemClock
from meshtui.core.config import Config
from meshtui.core.engines import limits
from meshtui.core.engines.claude import ClaudeEngine
from meshtui.core.errors import InvalidInput, NotFound
from meshtui.core.models.config import EngineConfig
from meshtui.core.snapshot import take_snapshot
from tests.support.agent import StandIn, claude_limited, claude_says
from tests.support.runners import LaneBox, RunnerThread, lane_config
from tests.support.waiting import wait_until

SESSION = "11111111-1111-4111-8111-111111111111"


class AgentLane:
    """A lane whose engine claude is a stand-in."""

    def __init__(self, box: LaneBox, tmp_path: Path) -> None:
        self.box = box
        self.agent = StandIn(tmp_path / "agent", claude_says("fine"))
        self.engine = ClaudeEngine(EngineConfig(program=str(self.agent.program)))

    def run(self, **lane: Any) -> Any:
        return self.box.run(engine=self.engine, config=self._config(**lane))

    def start(self, **lane: Any) -> RunnerThread:
        return self.box.start(engine=self.engine, config=self._config(**lane))

    def _config(self, **lane: Any) -> Config:
        return lane_config(**lane)

    def kinds(self) -> list[str]:
        """The kinds of what needs the operator."""
        snapshot = take_snapshot(self.box.root, SystemClock()).as_json()
        return [item["kind"] for item in snapshot["attention"]]

    def handoff(self, envelope_id: str = "h", **fields: Any) -> dict[str, Any]:
        """Enqueue a §-schema phase; a valid handoff for it."""
        about = {"story_id": "s1", "phase": "backend", "worker_id": "w1"}
        self.box.lane.enqueue(
            {
                "schema": "hq-phase-envelope/v1",
                "id": envelope_id,
                **about,
                "worktree": str(self.box.work),
                "incoming_handoff": None,
                "acceptance_criteria": [],
                "fresh_call": False,
            }
        )
        return {
            "schema": "hq-phase-handoff/v1",
            **about,
            "status": "passed",
            "summary": "did it",
            "files_changed": [],
            "commits": [],
            "back_pressure": dict.fromkeys(("tests", "lint", "typecheck", "build"), "skip"),
            "context_for_next": "",
            **fields,
        }

    def git(self, *arguments: str) -> str:
        command = ["git", "-c", "user.name=t", "-c", "user.email=t@localhost", *arguments]
        return subprocess.run(
            command, cwd=self.box.work, capture_output=True, check=True, timeout=30
        ).stdout.decode()

    def repository(self) -> None:
        self.git("init", "-q", "-b", "main")
        (self.box.work / "old.txt").write_text("old\n")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "first")


@pytest.fixture
def lane(box: LaneBox, tmp_path: Path) -> AgentLane:
    return AgentLane(box, tmp_path)


class TestLimits:
    def test_a_phase_is_held_and_its_session_resumed(
        self, lane: AgentLane, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(limits, "FIRST_WAIT_SECONDS", 0.2)
        lane.agent.answer(claude_limited(), claude_limited(), claude_says("went on"))
        lane.box.enqueue("a", fresh=True)
        lane.box.enqueue("b")
        lane.run()
        assert (lane.box.result("a")["status"], lane.box.result("a")["output"]) == ("done", "went on")
        first, second, third, _ = [call["argv"] for call in lane.agent.asked]
        assert "--session-id" in first
        assert second[second.index("--resume") + 1] == third[third.index("--resume") + 1] == SESSION
        held = lane.box.events("phase_held")
        assert [event["data"]["holds"] for event in held] == [1, 2]
        waits = [event["data"]["until"] for event in held]
        assert waits == sorted(waits)
        # The stall retry is not used up, nothing ran in between, and nothing is left of the limit.
        assert [event["data"]["attempt"] for event in lane.box.events("phase_started")] == [1, 1, 1, 1]
        assert [event["subject"] for event in lane.box.events("phase_started")] == ["a", "a", "a", "b"]
        assert "limit" not in lane.box.status()
        assert lane.kinds() == []

    def test_it_is_shown_and_survives_a_restart(self, lane: AgentLane) -> None:
        until = round(time.time()) + 3600
        lane.agent.answer(claude_limited(f"usage limit reached|{until}"), claude_says("later"))
        lane.box.enqueue("a", story_id="s", phase="p")
        for number in (1, 2):
            thread = lane.start()
            wait_until(lambda: len(lane.box.events("runner_started")) == number, 20, "the runner")  # noqa: B023
            wait_until(lambda: lane.box.events("phase_held"), 20, "the phase held")
            wait_until(lambda: lane.box.ids("pending") == ["a"], 20, "the record back in pending")
            wait_until(lambda: lane.box.status().get("limit"), 20, "the limit in loop.json")
            limit = lane.box.status()["limit"]
            assert (limit["envelope_id"], limit["engine"], limit["reset_known"]) == ("a", "claude", True)
            assert lane.box.record("pending", "a")["limit"]["until_ms"] == until * 1000
            snapshot = take_snapshot(lane.box.root, SystemClock()).as_json()
            (item,) = snapshot["attention"]
            assert (item["kind"], item["subject"]) == ("limit", "s/p")
            assert item["text"].startswith("held until ")
            assert item["exits"][0]["command"].startswith("meshtui withdraw a ")
            assert snapshot["lane"]["state"] == "waiting"
            thread.stop()
        assert len(lane.agent.asked) == 1
        lane.box.lane.withdraw("a")
        assert lane.kinds() == []

    def test_a_withdrawn_one_lets_the_next_run(self, lane: AgentLane) -> None:
        lane.agent.answer(claude_limited(), claude_says("next"))
        lane.box.enqueue("a")
        lane.box.enqueue("b")
        thread = lane.start()
        wait_until(lambda: lane.box.events("phase_held"), 20, "a held phase")
        wait_until(lambda: lane.box.ids("pending") == ["a", "b"], 20, "the record back in pending")
        lane.box.lane.withdraw("a")
        wait_until(lambda: lane.box.paths.result("b").exists(), 20, "b done")
        thread.stop()
        assert lane.box.result("b")["output"] == "next"

    def test_on_limit_fail(self, lane: AgentLane) -> None:
        lane.agent.answer(claude_limited())
        lane.box.enqueue("a")
        assert lane.run(on_limit="fail").bad
        result = lane.box.result("a")
        assert (result["status"], result["session_id"]) == ("failed", SESSION)
        assert result["error"].startswith("claude: usage limit: ")


class TestHandoffs:
    def test_it_is_asked_for_once_more_read_only(self, lane: AgentLane) -> None:
        handoff = lane.handoff()
        lane.agent.answer(claude_says("all done!"), claude_says(json.dumps(handoff)))
        lane.run()
        result = lane.box.result("h")
        assert (result["status"], result["handoff_status"]) == ("done", "passed")
        assert (result["handoff_restated"], result["resumed"]) == (True, False)
        assert result["usage"] == {"input_tokens": 200, "output_tokens": 20, "cost_usd": 0.5}
        again = lane.agent.asked[1]
        assert again["argv"][again["argv"].index("--resume") + 1] == SESSION
        assert again["argv"][again["argv"].index("--permission-mode") + 1] == "plan"
        assert "hq-phase-handoff/v1" in again["prompt"]
        assert lane.box.events("handoff_missing")

    def test_the_second_failure_is_the_last(self, lane: AgentLane) -> None:
        lane.handoff()
        lane.agent.answer(claude_says("all done!"))
        lane.run()
        result = lane.box.result("h")
        assert result["status"] == "failed"
        assert "asked once more: " in result["error"]
        assert len(lane.agent.asked) == 2

    def test_a_failure_while_it_is_asked(self, lane: AgentLane) -> None:
        lane.handoff()
        lane.agent.answer(claude_says("all done!"), claude_says("no", is_error=True, code=1))
        lane.run()
        assert lane.box.result("h")["error"].endswith("asked once more: no")

    def test_claims_are_checked(self, lane: AgentLane) -> None:
        lane.repository()
        first = lane.git("rev-parse", "HEAD").strip()
        claimed = ["new.txt", "./old.txt", str(lane.box.work / "deep/er.txt"), "/etc/passwd", "committed.txt"]
        handoff = lane.handoff(files_changed=claimed, commits=[first, "HEAD", "0" * 40])
        commit = "git -c user.name=t -c user.email=t@localhost commit -q -m more"
        lane.agent.answer(
            claude_says(
                json.dumps(handoff),
                run=f"mkdir deep; echo > deep/er.txt; echo > committed.txt; git add committed.txt; {commit}",
                files={"new.txt": "x"},
            )
        )
        lane.run()
        result = lane.box.result("h")
        assert result["status"] == "done"
        assert {claim["claim"] for claim in result["claims"]} == {
            "files_changed: ./old.txt",
            "files_changed: /etc/passwd",
            f"commits: {first}",
            "commits: HEAD",
            f"commits: {'0' * 40}",
        }
        assert {claim["verdict"] for claim in result["claims"]} == {"claimed, not verified"}
        assert len(lane.box.events("claim_unverified")) == 5

    def test_passed_without_a_change_is_flagged(self, lane: AgentLane) -> None:
        lane.repository()
        lane.agent.answer(claude_says(json.dumps(lane.handoff())))
        lane.run()
        (claim,) = lane.box.result("h")["claims"]
        assert (claim["claim"], claim["why"]) == ("status: passed", "nothing in the worktree has changed")

    def test_a_true_handoff_has_no_claims_to_show(self, lane: AgentLane) -> None:
        lane.repository()
        lane.agent.answer(
            claude_says(json.dumps(lane.handoff(files_changed=["new.txt"])), files={"new.txt": "x"})
        )
        lane.run()
        assert "claims" not in lane.box.result("h")


class TestCaps:
    def test_a_warning_and_the_end(self, lane: AgentLane) -> None:
        for name in "abcdef":
            lane.box.enqueue(name)
        assert lane.run(max_cost_usd=1.0).bad
        # 0.25 each: 75 % after three, 100 % after four.
        assert lane.box.everything() == {"pending": ["e", "f"], "claimed": ["a", "b", "c", "d"]}
        status = lane.box.status()
        assert status["usage"] == {"input_tokens": 400, "output_tokens": 40, "cost_usd": 1.0}
        assert status["budget"] == {"cap": "max_cost_usd", "used": 1.0, "max": 1.0, "reached": True}
        assert lane.box.events("budget_reached")
        assert lane.kinds() == ["budget"]
        # It stays so until the cap is raised.
        lane.run(max_cost_usd=1.0)
        assert len(lane.agent.asked) == 4
        assert not lane.run(max_cost_usd=9.0).bad
        assert lane.box.result("f")["status"] == "done"
        assert lane.kinds() == []

    def test_tokens(self, lane: AgentLane) -> None:
        for name in "abc":
            lane.box.enqueue(name)
        lane.run(max_tokens_estimate=250)
        assert lane.box.events("budget_warning")[0]["data"]["cap"] == "max_tokens_estimate"
        assert len(lane.agent.asked) == 3


class TestLive:
    def test_what_an_agent_does_is_in_the_journal(self, lane: AgentLane) -> None:
        said = claude_says("fine")
        use = {"type": "tool_use", "name": "Write", "input": {"file_path": "a\x1b[2J.txt"}}
        said["lines"].insert(1, {"type": "assistant", "message": {"content": [use]}})
        lane.agent.answer(said)
        lane.box.enqueue("a")
        lane.run()
        (event,) = lane.box.events("phase_activity")
        assert (event["data"]["kind"], event["data"]["text"]) == ("tool", "Write a .txt")

    def test_a_phase_without_a_sign_of_life_stalls_early(self, lane: AgentLane) -> None:
        lane.agent.answer(claude_says("never", run="sleep 60"))
        lane.box.enqueue("a", deadline_seconds=50)
        began = time.monotonic()
        lane.run(idle_seconds=0.6)
        assert time.monotonic() - began < 30
        question = json.loads(lane.box.paths.question("a").read_text())
        assert question["cause"] == "no sign of life for 0.6 s"
        assert question["evidence"]["idle_seconds"] == 0.6
        assert question["evidence"]["cpu_seconds"] >= 0

    @pytest.mark.parametrize(
        "busy",
        [
            "while :; do :; done",
            "while :; do echo x >> grows.txt; sleep 0.1; done",
            "while :; do echo x >&2; sleep 0.1; done",
        ],
    )
    def test_one_that_shows_a_sign_goes_on(self, lane: AgentLane, busy: str) -> None:
        lane.repository()
        lane.agent.answer(claude_says("busy", run=f"timeout 3 sh -c '{busy}'"))
        lane.box.enqueue("a", deadline_seconds=60)
        lane.run(idle_seconds=1.5)
        assert lane.box.result("a")["status"] == "done"
        assert lane.box.stalls() == []

    def test_a_deadline_is_extended(self, lane: AgentLane) -> None:
        lane.agent.answer(claude_says("in time", run="sleep 2"))
        lane.box.enqueue("a", deadline_seconds=1)
        thread = lane.start()
        lane.box.active_call("a")
        receipt = lane.box.lane.extend("a", 60)
        wait_until(lambda: lane.box.paths.result("a").exists(), 30, "a result")
        thread.stop()
        assert lane.box.result("a")["status"] == "done"
        (event,) = lane.box.events("deadline_extended")
        assert event["data"]["deadline_at"] == receipt.deadline_at
        assert lane.box.stalls() == []

    @pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 1e12])
    def test_by_what_it_cannot_be_extended(self, lane: AgentLane, seconds: float) -> None:
        lane.box.enqueue("a")
        with pytest.raises(InvalidInput):
            lane.box.lane.extend("a", seconds)
        with pytest.raises(NotFound):
            lane.box.lane.extend("a", 5)

    def test_a_message_comes_next_and_to_the_same_session(self, lane: AgentLane) -> None:
        lane.agent.answer(claude_says("one", run="sleep 1"), claude_says("two"))
        lane.box.enqueue("a", story_id="s1", cd=str(lane.box.work))
        lane.box.enqueue("b", story_id="s2")
        thread = lane.start()
        lane.box.active_call("a")
        receipt = lane.box.lane.message("a", "and the tests too", message_id="m1")
        assert (receipt.envelope_id, receipt.position) == ("m1", 1)
        wait_until(lambda: lane.box.paths.result("b").exists(), 30, "b done")
        thread.stop()
        assert [call["prompt"] for call in lane.agent.asked] == ["do it", "and the tests too", "do it"]
        told = lane.agent.asked[1]["argv"]
        assert told[told.index("--resume") + 1] == SESSION
        assert lane.box.result("m1")["resumed"] is True

    def test_a_message_while_no_runner_is_there(self, lane: AgentLane) -> None:
        lane.box.enqueue("a", story_id="s1")
        lane.box.enqueue_stop("end")
        lane.box.lane.message("a", "first of all", message_id="m1")
        assert lane.box.ids("pending") == ["m1", "a", "end"]
        with pytest.raises(InvalidInput, match="m1"):
            lane.box.lane.message("a", "again", message_id="m1")
        with pytest.raises(NotFound):
            lane.box.lane.message("nobody", "hello")
        lane.run()
        assert [call["prompt"] for call in lane.agent.asked] == ["first of all", "do it"]


def test_a_deadline_that_went_by_in_waiting_for_a_limit_is_no_stall(lane: AgentLane) -> None:
    retry = {
        "type": "system",
        "subtype": "api_retry",
        "attempt": 4,
        "error_status": 429,
        "error": "rate_limit",
    }
    waiting = {"lines": [retry], "after": "sleep 60"}
    lane.agent.answer(waiting)
    lane.box.enqueue("a", deadline_seconds=2)
    thread = lane.start()
    wait_until(lambda: lane.box.events("phase_held"), 30, "the phase held")
    thread.stop()
    assert lane.box.stalls() == []
    assert lane.box.ids("pending") == ["a"]
