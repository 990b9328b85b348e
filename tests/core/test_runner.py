"""What a runner does with the phases it claims: sessions, deadlines, results."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from meshtui.core.clock import SystemClock, iso
from meshtui.core.engines.base import EngineRequest
from meshtui.core.engines.fake import FakeReply
from meshtui.core.engines.registry import engine_for
from meshtui.core.lane.runner import Runner, RunnerOptions
from meshtui.core.models.config import Config
from meshtui.core.models.names import RETRY
from tests.support.runners import (
    LaneBox,
    MakeBox,
    begun,
    by_id,
    command,
    deadline_of,
    dump,
    lane_config,
    load,
)
from tests.support.waiting import wait_until

HANG = FakeReply(hang=True)


class TestRun:
    def test_one_at_a_time_in_order(self, box: LaneBox) -> None:
        for key in "abc":
            box.enqueue(key)
        log = box.work / "log"
        outcome = box.run(
            engine=command(
                f'echo "+$MESHTUI_ENVELOPE_ID" >> {log}; sleep 0.02; echo "-$MESHTUI_ENVELOPE_ID" >> {log}'
            )
        )
        assert log.read_text().split() == ["+a", "-a", "+b", "-b", "+c", "-c"]
        assert (outcome.state, outcome.completed, outcome.parked, outcome.bad) == ("waiting", 3, False, False)

    def test_a_record_names_its_call_before_it_starts(self, box: LaneBox) -> None:
        box.enqueue("one")
        runner = box.start(engine=command("sleep 60"))
        call = box.active_call("one")
        record = box.record("active", "one")
        assert record["call"] == call.call_id
        assert record["attempt"] == 1
        assert record["deadline_budget_seconds"] == 3600
        about = call.about()
        assert about is not None
        assert (about["subject"], about["role"], about["attempt"]) == ("one", "run", 1)
        assert about["deadline_at"] == iso(record["deadline_at_ms"])
        runner.stop()

    def test_what_the_command_gets(self, box: LaneBox, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GIT_DIR", "/elsewhere")
        monkeypatch.setenv("CLAUDECODE", "1")
        monkeypatch.setenv("MESHTUI_MISSION_ID", "of-another-call")
        (box.work / "deep").mkdir()
        box.enqueue(
            "one",
            prompt="the prompt\n",
            story_id="S",
            phase="build",
            cd=str(box.work / "deep"),
            deadline_seconds=77,
        )
        box.run(engine=command("pwd; cat; env | grep -E '^(MESHTUI|GIT|CLAUDE)' | sort"))
        lines = box.result("one")["output"].splitlines()
        (call,) = box.calls()
        assert lines[:2] == [str(box.work / "deep"), "the prompt"]
        assert lines[2:] == [
            f"MESHTUI_CALL_ID={call.call_id}",
            f"MESHTUI_DEADLINE={iso(box.record('claimed', 'one')['deadline_at_ms'])}",
            "MESHTUI_ENVELOPE_ID=one",
            "MESHTUI_PHASE=build",
            "MESHTUI_ROLE=run",
            f"MESHTUI_RUN_DIR={box.root}",
            "MESHTUI_STORY_ID=S",
        ]

    def test_where_a_phase_runs(self, box: LaneBox, tmp_path: Path) -> None:
        for name in ("tree", "cd", "repo", "lane"):
            (tmp_path / name).mkdir()
        box.enqueue("a", worktree=str(tmp_path / "tree"), cd=str(tmp_path / "cd"))
        box.enqueue("b", cd=str(tmp_path / "cd"), repo=str(tmp_path / "repo"))
        box.enqueue("c", repo=str(tmp_path / "repo"))
        box.enqueue("d")
        box.enqueue("e", cd=str(tmp_path / "missing"))
        box.run(repo=tmp_path / "lane")
        assert [request.cwd.name for request in box.engine.requests] == ["tree", "cd", "repo", "lane"]
        box.enqueue("f")
        box.run()
        assert box.engine.requests[-1].cwd == box.work
        result = box.result("e")
        assert result["status"] == "failed"
        assert "missing does not exist" in result["error"]

    def test_which_engine(self, box: LaneBox) -> None:
        names: list[str] = []
        config = Config.model_validate({"lane": {"engine": "grok"}})

        def engines(name: str) -> Any:
            names.append(name)
            return box.engine

        box.enqueue("a", engine="codex")
        box.enqueue("b")
        options = RunnerOptions(lane_id="l", config=config, engine="command", until_idle=True, cwd=box.work)
        Runner(box.run_dir, options, engines).run()
        box.enqueue("c")
        Runner(box.run_dir, RunnerOptions("l", config, until_idle=True, cwd=box.work), engines).run()
        box.enqueue("d")
        Runner(box.run_dir, RunnerOptions("l", Config(), until_idle=True, cwd=box.work), engines).run()
        assert names == ["codex", "command", "grok", "claude"]
        assert [box.result(key)["engine"] for key in "abcd"] == names

    def test_an_engine_that_is_not_installed_fails_the_phase(
        self, box: LaneBox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", "/nowhere")
        box.enqueue("a", engine="grok")
        options = RunnerOptions("l", Config(), until_idle=True, cwd=box.work)
        outcome = Runner(box.run_dir, options, lambda name: engine_for(name, None)).run()
        assert outcome.bad
        assert "engine grok is not installed: found no program 'grok'" in box.result("a")["error"]
        assert box.everything() == {"claimed": ["a"]}

    @pytest.mark.parametrize("kind", ["empty", "cut", "binary", "folder", "pipe", "nowhere", "brackets"])
    def test_an_unreadable_head_is_quarantined_and_the_next_one_runs(self, kind: str, box: LaneBox) -> None:
        box.enqueue("good")
        head = box.paths.pending / "0000000000000000-bad.json"
        if kind == "folder":
            head.mkdir()
        elif kind == "pipe":
            os.mkfifo(head)
        elif kind == "nowhere":
            head.symlink_to("gone.json")
        else:
            contents = {
                "empty": b"",
                "cut": b'{"schema_ver',
                "binary": b"\xff\x00",
                "brackets": b"[" * 10_000,
            }
            head.write_bytes(contents[kind])
        outcome = box.run()
        assert (outcome.completed, outcome.bad) == (1, False)
        assert box.ids("claimed") == ["good"]
        names = sorted(path.name for path in box.paths.quarantine.iterdir())
        assert names == ["0000000000000000-bad.json", "0000000000000000-bad.json.reason.json"]
        assert load(box.paths.quarantine / names[1])["reason"]
        assert [event["subject"] for event in box.events("record_quarantined")] == [head.name]

    def test_a_symlink_to_nowhere_in_active_stops_no_runner(self, box: LaneBox) -> None:
        box.enqueue("good")
        (box.paths.active / "0000000000000000-bad.json").symlink_to("gone.json")
        assert box.run().completed == 1
        assert (box.paths.quarantine / "0000000000000000-bad.json").is_symlink()

    def test_until_idle_sees_what_comes_meanwhile(self, box: LaneBox) -> None:
        box.enqueue("a")
        runner = box.start(
            until_idle=True, engine=command(f"[ -e {box.work}/b ] || cat > {box.work}/b; sleep 0.2")
        )
        box.active_call("a")
        box.enqueue("b")
        assert runner.join().completed == 2

    def test_a_runner_waits_for_work(self, box: LaneBox) -> None:
        runner = box.start()
        wait_until(lambda: box.paths.status.exists() and box.status()["state"] == "waiting")
        box.enqueue("a")
        wait_until(lambda: box.ids("claimed") == ["a"])
        box.enqueue_stop()
        assert runner.join().state == "stopped"


class TestSessions:
    @staticmethod
    def naming() -> Any:
        count = 0

        def script(request: EngineRequest) -> FakeReply:
            nonlocal count
            count += 1
            return FakeReply("ok", session_id=f"s{count}")

        return script

    def test_a_session_belongs_to_story_engine_and_directory(self, make_box: MakeBox, tmp_path: Path) -> None:
        box = make_box(self.naming())
        (tmp_path / "other").mkdir()
        box.enqueue("1", story_id="S")
        box.enqueue("2", story_id="S", cd=str(tmp_path / "other"))
        box.enqueue("3", story_id="S")
        box.enqueue("4", story_id="S", cd=str(tmp_path / "other"))
        box.enqueue("5", story_id="S", engine="codex")
        box.enqueue("6")
        box.enqueue("7")
        box.run()
        # The story's last session is the other directory's: each change of place starts a new one.
        assert [session for _, session in box.starts()] == [None, None, None, None, None, None, "s6"]
        assert load(box.paths.session_dirs)["S\0codex"] == {"session_id": "s5", "directory": str(box.work)}
        assert box.sessions() == {"S\0claude": "s4", "S\0codex": "s5", "\0claude": "s7"}

    def test_fresh_starts_a_new_one(self, make_box: MakeBox) -> None:
        box = make_box(self.naming())
        for key, fields in {"1": {}, "2": {"fresh": True}, "3": {"fresh_call": True}, "4": {}}.items():
            box.enqueue(key, story_id="S", **fields)
        box.run()
        assert [session for _, session in box.starts()] == [None, None, None, "s3"]
        assert [box.result(key)["resumed"] for key in "1234"] == [False, False, False, True]

    def test_a_failed_phase_stores_its_session(self, make_box: MakeBox) -> None:
        box = make_box(by_id(bad=FakeReply("no", session_id="s-bad", exit_code=3, stderr="broken")))
        box.enqueue("bad", story_id="S")
        box.enqueue("next", story_id="S")
        outcome = box.run()
        assert outcome.bad
        assert box.starts() == [("bad", None), ("next", "s-bad")]
        result = box.result("bad")
        assert (result["status"], result["session_id"], result["exit_code"]) == ("failed", "s-bad", 3)
        assert "broken" in result["error"]

    def test_any_other_failure_of_a_resumed_call_is_no_reason_to_try_again(self, make_box: MakeBox) -> None:
        def script(request: EngineRequest) -> FakeReply:
            return FakeReply(exit_code=1) if request.session_id else FakeReply("ok", session_id="s")

        box = make_box(script)
        box.enqueue("1", story_id="S")
        box.enqueue("2", story_id="S")
        box.run()
        assert box.starts() == [("1", None), ("2", "s")]
        assert box.result("2")["status"] == "failed"
        assert "fresh_fallback" not in box.result("2")

    def test_the_fallback_has_the_same_deadline(self, make_box: MakeBox) -> None:
        def script(request: EngineRequest) -> FakeReply:
            if request.session_id:
                return FakeReply(exit_code=75, delay_seconds=0.2)
            return FakeReply("ok", session_id="s")

        box = make_box(script)
        box.enqueue("1", story_id="S")
        box.enqueue("2", story_id="S")
        box.run()
        first, second = box.calls()[1:]
        told = [(call.about() or {})["deadline_at"] for call in (first, second)]
        assert told[0] == told[1] == iso(box.record("claimed", "2")["deadline_at_ms"])
        result = box.result("2")
        assert (result["fresh_fallback"], result["resumed"], result["call"]) == (True, False, second.call_id)
        assert result["started_at"] == iso(begun(first))

    def test_a_fallback_that_stalls_is_a_stall(self, make_box: MakeBox) -> None:
        def script(request: EngineRequest) -> FakeReply:
            if request.session_id:
                return FakeReply(exit_code=75)
            return FakeReply("ok", session_id="s") if len(box.engine.requests) == 1 else HANG

        box = make_box(script)
        box.enqueue("1", story_id="S")
        box.enqueue("2", story_id="S", deadline_seconds=0.3)
        outcome = box.run()
        assert outcome.state == "parked"
        assert [session for _, session in box.starts()] == [None, "s", None, None]
        assert [stall["attempt"] for stall in box.stalls()] == [1, 2]


class TestDeadline:
    def test_each_attempt_has_the_full_budget(self, make_box: MakeBox) -> None:
        box = make_box(by_id(slow=HANG))
        box.enqueue("slow", deadline_seconds=0.4, story_id="S")
        outcome = box.run()
        assert (outcome.state, outcome.completed, outcome.parked) == ("parked", 1, True)
        spans = []
        for call in box.calls():
            assert deadline_of(call) - begun(call) == 400
            done = call.exit()
            assert done is not None
            spans.append(done.ended_at_ms - begun(call))
            assert load(call.ending_path)["reason"] == "deadline"
        assert len(spans) == 2
        assert min(spans) >= 380

    def test_after_a_stall_the_record_is_at_the_head_and_fresh(self, make_box: MakeBox) -> None:
        stalls = 0

        def script(request: EngineRequest) -> FakeReply:
            nonlocal stalls
            if request.environment["MESHTUI_ENVELOPE_ID"] == "two" and not stalls:
                stalls += 1
                return HANG
            return FakeReply("ok", session_id="s")

        box = make_box(script)
        box.enqueue("one", story_id="S")
        box.enqueue("two", story_id="S", deadline_seconds=0.3)
        box.enqueue("three", story_id="S")
        outcome = box.run()
        assert (outcome.completed, outcome.parked) == (3, False)
        assert box.starts() == [("one", None), ("two", "s"), ("two", None), ("three", "s")]
        assert box.record("claimed", "two")["attempt"] == 2
        names = [path.name for path in box.paths.claimed.iterdir() if path.name.endswith("-two.json")]
        assert names[0].startswith(RETRY + "0000000000000002-")
        assert box.status()["stall_counts"] == {"two": 1}

    def test_the_second_stall_parks_and_leaves_the_rest(self, make_box: MakeBox) -> None:
        box = make_box(by_id(slow=HANG))
        box.enqueue("slow", deadline_seconds=0.2, phase="build", label="named")
        box.enqueue("rest")
        outcome = box.start().join()
        assert outcome.state == "parked"
        assert box.everything() == {"stalled": ["slow"], "pending": ["rest"]}
        assert box.status()["state"] == "parked"
        assert box.result("slow")["status"] == "stalled"
        question = load(box.paths.question("slow"))
        assert question.keys() == {"envelope_id", "raised_at", "cause", "attempts", "evidence", "exits"}
        assert (question["cause"], question["attempts"]) == ("phase deadline exceeded", 2)
        assert question["evidence"]["budget_seconds"] == 0.2
        assert all(text.startswith("meshtui answer slow ") for text in question["exits"])
        assert [(stall["attempt"], stall["phase"]) for stall in box.stalls()] == [(1, "build"), (2, "build")]

    def test_on_park_continue_goes_on(self, make_box: MakeBox) -> None:
        box = make_box(by_id(slow=HANG))
        box.enqueue("slow", deadline_seconds=0.2)
        box.enqueue("rest")
        outcome = box.run(config=lane_config(on_park="continue"))
        assert (outcome.state, outcome.completed, outcome.parked) == ("waiting", 2, True)
        assert box.everything() == {"stalled": ["slow"], "claimed": ["rest"]}

    @pytest.mark.parametrize("on_park", ["stop", "continue"])
    def test_a_deadline_already_past_parks_unrun(self, on_park: str, box: LaneBox) -> None:
        box.enqueue("late", deadline="2020-01-01T00:00:00Z")
        box.enqueue("rest")
        config = lane_config(on_park="continue") if on_park == "continue" else Config()
        outcome = box.run(config=config)
        assert box.starts() == ([("rest", None)] if on_park == "continue" else [])
        assert outcome.parked
        assert box.ids("stalled") == ["late"]
        assert box.result("late")["status"] == "stalled"
        assert "2020-01-01T00:00:00Z had passed" in box.result("late")["error"]
        assert load(box.paths.question("late"))["attempts"] == 0
        assert box.stalls() == []
        box.lane.answer("late", "retry", deadline_seconds=60)
        box.run()
        assert box.result("late")["status"] == "done"

    def test_a_deadline_counts_from_the_first_start(self, make_box: MakeBox) -> None:
        box = make_box(by_id(slow=HANG))
        at = SystemClock().now_ms() + 1500
        box.enqueue("slow", deadline=iso(at))
        runner = box.start()
        wait_until(lambda: len(box.calls()) == 2)
        box.active_call("slow")
        runner.stop()
        first, second = box.calls()
        assert deadline_of(first) == at
        budget = box.record("pending", "slow")["deadline_budget_seconds"]
        assert 0 < budget <= 1.5
        assert deadline_of(second) - begun(second) == round(budget * 1000)

    def test_the_budget_by_configuration(self, box: LaneBox) -> None:
        box.enqueue("a", deadline_seconds=5, deadline="2099-01-01")
        box.enqueue("b")
        box.run(config=lane_config(deadline_seconds=123.5))
        assert box.record("claimed", "a")["deadline_budget_seconds"] == 5
        assert box.record("claimed", "b")["deadline_budget_seconds"] == 123.5

    def test_ten_years_are_the_most(self, box: LaneBox) -> None:
        box.enqueue("a", deadline_seconds=1e15)
        box.run()
        assert box.record("claimed", "a")["deadline_budget_seconds"] <= 10 * 366 * 86400

    def test_what_ends_in_time_but_is_found_late_is_taken_as_it_ended(self, make_box: MakeBox) -> None:
        box = make_box()
        box.enqueue("one", deadline_seconds=30)
        runner = box.start(engine=command("echo done; sleep 0.3"))
        call = box.active_call("one")
        runner.runner.request_hand_over()
        assert runner.join().state == "handed over"
        assert call.wait(20)
        record = box.record("active", "one")
        (path,) = box.paths.active.iterdir()
        dump(path, {**record, "deadline_at_ms": 1000})
        outcome = box.run()
        assert box.result("one")["status"] == "done"
        assert (outcome.completed, outcome.bad) == (1, False)
        assert box.stalls() == []
