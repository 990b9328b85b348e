"""The commands around a runner: lane, answer, kill, stop, wait, logs, events, prune, trust."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from meshtui.core import identity
from meshtui.core.calls import Call
from meshtui.core.clock import SystemClock
from meshtui.core.lane.index import list_records
from meshtui.core.lane.lease import Holder
from meshtui.core.run_dir import RunDir
from tests.support.cli import Cli, Said, spawn, start
from tests.support.waiting import wait_until

FAKE = """
case "$MESHTUI_ENVELOPE_ID" in
    bad*) echo broken >&2; exit 3;;
    slow*) exec sleep 600;;
    *) cat; echo;;
esac
"""


def work(cli: Cli, *more: str, command: str = FAKE) -> Said:
    """``meshtui lane --until-idle`` in this process."""
    return cli("lane", "--until-idle", "--run", command, *more)


def enqueue(cli: Cli, *ids: str, **fields: Any) -> None:
    envelopes = [
        {"kind": "phase", "prompt": f"do {key}", "id": key, "engine": "command", **fields} for key in ids
    ]
    data = "".join(json.dumps(item) + "\n" for item in envelopes).encode()
    assert cli("enqueue", "--jsonl", "-", stdin=data).code == 0


@pytest.fixture
def detached(cli: Cli) -> Iterator[Any]:
    """Starts a detached runner; it is ended after the test."""
    pids: list[int] = []

    def begin(*more: str, command: str = FAKE) -> Any:
        said = cli.json("lane", "--detach", "--run", command, *more)
        pids.append(said["pid"])
        return said

    yield begin
    if pids and cli.run_dir.exists():
        cli("stop")
        for pid in pids:
            wait_until(lambda pid=pid: identity.started_at(pid) is None)  # type: ignore[misc]


class TestLane:
    def test_until_idle(self, cli: Cli) -> None:
        enqueue(cli, "a", "b")
        answer = work(cli, "--json").json
        assert answer == {
            "lane_id": "run",
            "state": "waiting",
            "completed": 2,
            "parked": False,
            "ended_badly": False,
        }
        assert cli.json("status")["queue"]["counts"]["done"] == 2

    def test_it_says_what_happens(self, cli: Cli) -> None:
        enqueue(cli, "a", "bad")
        said = work(cli)
        assert (said.code, said.err) == (1, "")
        lines = said.out.splitlines()
        assert lines[0] == "runner_started run"
        assert "phase_started a: attempt 1" in lines
        assert "phase_done a: attempt 1" in lines
        assert lines[-2] == "phase_failed bad: attempt 1, error exit 3: broken"
        assert lines[-1] == "runner_ended run: state waiting"

    def test_it_makes_the_run_directory(self, cli: Cli) -> None:
        assert work(cli, "--lane-id", "mine", "--json").json["lane_id"] == "mine"
        assert json.loads((cli.run_dir / "meshtui.json").read_text())["lane_id"] == "mine"
        assert cli.json("status")["lane"]["lane_id"] == "mine"

    @pytest.mark.parametrize(
        ("ids", "code"), [(["a"], 0), (["bad"], 1), (["slow"], 5), (["bad", "slow"], 5), ([], 0)]
    )
    def test_exit_codes(self, ids: list[str], code: int, cli: Cli) -> None:
        enqueue(cli, *ids, deadline_seconds=0.2)
        said = work(cli, "--json")
        assert (said.code, said.json["parked"]) == (code, code == 5)
        # What ended badly in an earlier run is not this one's.
        assert work(cli).code == (5 if code == 5 else 0)

    def test_a_handoff_that_says_failed_counts_as_bad(self, cli: Cli, tmp_path: Path) -> None:
        handoff = {
            "schema": "hq-phase-handoff/v1", "story_id": "S", "phase": "p", "worker_id": "w", "status": "blocked",
            "summary": "s", "files_changed": [], "commits": [], "context_for_next": "n",
            "back_pressure": {"tests": "skip", "lint": "skip", "typecheck": "skip", "build": "skip"},
        }  # fmt: skip
        envelope: dict[str, Any] = {
            "schema": "hq-phase-envelope/v1", "id": "h", "story_id": "S", "phase": "p", "worker_id": "w",
            "worktree": str(tmp_path), "incoming_handoff": None, "acceptance_criteria": [], "fresh_call": True,
            "engine": "command",
        }  # fmt: skip
        cli("enqueue", "-", stdin=json.dumps(envelope).encode())
        said = work(cli, "--json", command=f"printf %s {shlex.quote(json.dumps(handoff))}")
        assert (said.code, said.json["ended_badly"]) == (1, True)
        assert cli.json("status")["attention"][0]["kind"] == "blocked"

    def test_a_stop_envelope(self, cli: Cli) -> None:
        enqueue(cli, "a")
        cli("stop", "--drain")
        said = cli("lane", "--run", FAKE, "--json")
        assert (said.code, said.json["state"]) == (0, "stopped")

    def test_no_command_for_the_engine(self, cli: Cli) -> None:
        enqueue(cli, "a")
        assert cli("lane", "--until-idle").code == 1
        assert "no command for role run" in cli.json("status")["attention"][0]["text"]

    def test_configuration(self, cli: Cli) -> None:
        enqueue(cli, "a")
        config = cli.run_dir / "meshtui.toml"
        config.write_text(
            '[lane]\nengine = "command"\n[engines.command]\nrun = ["printf", "from %s", "the file"]\n'
        )
        assert cli("lane", "--until-idle").code == 0
        result = json.loads((cli.run_dir / "loop" / "results" / "a.json").read_text())
        assert result["output"] == "from the file"
        config.write_text("[lane]\nwrong = 1\n")
        said = cli("lane", "--until-idle")
        assert said.code == 2
        assert "lane.wrong is not a known key" in said.complaint

    def test_a_second_one_is_refused(self, cli: Cli, detached: Any) -> None:
        pid = detached()["pid"]
        for more in ([], ["--json"], ["--detach"], ["--detach", "--json"]):
            said = cli("lane", "--until-idle", *more)
            assert said.code == 4
            assert f"pid {pid} on {identity.host()}, heartbeat " in said.complaint

    def test_foreign_runners(self, cli: Cli) -> None:
        enqueue(cli, "a")
        lock = cli.run_dir / "loop" / "runner.lock"
        lock.mkdir()
        child = subprocess.Popen(["sleep", "600"])
        try:
            owner = {**identity.identify(child.pid).as_json(), "heartbeat_at": SystemClock().now_ms()}
            (lock / "owner.json").write_text(json.dumps(owner))
            commands = (
                ["kill", "--envelope", "a"], ["answer", "a", "--drop"], ["requeue", "a"], ["pause"], ["continue"],
            )  # fmt: skip
            for command in commands:
                said = cli(*command)
                assert said.code == 4
                assert "another tool" in said.complaint
            said = cli("lane", "--until-idle")
            assert said.code == 4
            assert f"pid {child.pid}" in said.complaint
            assert cli.json("stop")["drain"]["position"] == 2
            assert cli.json("interrupt")["withdrawn"][0] == "a"
        finally:
            child.kill()
            child.wait()


class TestDetach:
    def test_it_answers_once_the_child_holds_the_lease(self, cli: Cli, detached: Any) -> None:
        answer = detached()
        assert answer.keys() == {"pid", "run_dir"}
        runner = cli.json("status")["lane"]["runner"]
        assert (runner["alive"], runner["pid"]) == (True, answer["pid"])
        assert os.getsid(answer["pid"]) == answer["pid"]
        enqueue(cli, "a")
        assert cli.json("wait", "a", "--timeout", "30") == {"subject": "a", "state": "done"}
        assert cli.json("stop") == {"stopped": True, "survivors": []}
        assert not cli.json("status")["lane"]["runner"]["alive"]

    def test_one_that_ends_at_once_is_told(self, cli: Cli) -> None:
        enqueue(cli, "a")
        (cli.run_dir / "meshtui.toml").write_text("[lane]\nwrong = 1\n")
        said = cli("lane", "--detach", "--json")
        assert said.code == 2
        assert "lane.wrong" in said.complaint

    def test_a_closed_terminal_does_not_end_it(self, cli: Cli, tmp_path: Path) -> None:
        """The command that started it ends with its session; the runner is in another one."""
        cli("enqueue", "--prompt", "x")
        said = spawn(
            "lane", "--run-dir", str(cli.run_dir), "--detach", "--run", FAKE, "--json", cwd=tmp_path,
            start_new_session=True,
        )  # fmt: skip
        assert (said.code, said.err) == (0, "")
        pid = said.json["pid"]
        assert cli.json("wait", "lane", "--timeout", "30")["state"].endswith("idle")
        assert identity.started_at(pid) is not None
        cli("stop")
        wait_until(lambda: identity.started_at(pid) is None)


class TestSteering:
    def test_kill(self, cli: Cli, detached: Any) -> None:
        enqueue(cli, "slow")
        detached()
        wait_until(lambda: cli.json("status")["lane"]["active_envelope_id"] == "slow")
        wait_until(lambda: running(cli))
        assert cli("kill", "--envelope", "other").code == 3
        assert cli.json("kill", "--envelope", "slow") == {
            "ended": ["slow"],
            "survivors": [],
            "not_started": [],
        }
        said = cli("wait", "slow", "--for", "done", "--timeout", "30")
        assert said.code == 1
        assert "slow is failed and will not become done" in said.complaint
        assert cli("wait", "slow", "--timeout", "30").out == "slow is failed\n"

    def test_stop_puts_back(self, cli: Cli, detached: Any) -> None:
        enqueue(cli, "slow")
        detached()
        wait_until(lambda: running(cli))
        assert cli("stop").out == "stopped; slow is put back\n"
        status = cli.json("status")
        assert (status["lane"]["state"], status["queue"]["counts"]["pending"]) == ("waiting", 1)

    def test_answer(self, cli: Cli) -> None:
        enqueue(cli, "slow", deadline_seconds=0.2)
        assert work(cli).code == 5
        (item,) = cli.json("status")["attention"]
        assert item["kind"] == "parked"
        for way in item["exits"]:
            assert shlex.split(way["command"])[:3] == ["meshtui", "answer", "slow"]
        assert cli("answer", "slow", "--deadline-seconds", "nan").code == 2
        assert cli("answer", "slow", "--engine", "gpt").code == 2
        assert cli.json("answer", "slow", "--deadline-seconds", "60", "--engine", "command") == {
            "envelope_id": "slow",
            "action": "retry",
        }
        assert work(cli, command="echo ok").code == 0
        said = cli("answer", "slow", "--drop")
        assert said.code == 3
        assert "'slow' is not parked" in said.complaint

    def test_the_exits_of_a_question_can_be_pasted(self, cli: Cli, tmp_path: Path) -> None:
        cli.run_dir = tmp_path / "a dir; with $things"
        enqueue(cli, "it's [slow]", deadline_seconds=0.2)
        work(cli, command="sleep 60")
        for item in cli.json("status")["attention"]:
            ways = [shlex.split(way["command"])[1:] for way in item["exits"]]
            assert cli.raw(*ways[0]).code == 0
        assert work(cli, command="true").code == 0

    def test_drop(self, cli: Cli) -> None:
        enqueue(cli, "slow", deadline_seconds=0.2)
        work(cli)
        assert cli("answer", "slow", "--drop").out == "dropped slow\n"
        assert work(cli).code == 0
        assert cli.json("requeue", "slow")["position"] == 1


def active(cli: Cli) -> dict[str, Any]:
    """The active record, empty if there is none."""
    folder = RunDir(cli.run_dir).lane.active
    for name in list_records(folder):
        try:
            value: dict[str, Any] = json.loads((folder / name).read_bytes())
        except FileNotFoundError:
            continue
        return value
    return {}


def running(cli: Cli) -> bool:
    """Whether the call of the active record runs."""
    call = active(cli).get("call")
    return isinstance(call, str) and Call.attach(RunDir(cli.run_dir), call).state() == "running"


class TestWait:
    def test_states_of_an_envelope(self, cli: Cli) -> None:
        enqueue(cli, "a", "bad", "later")
        assert cli.json("wait", "a", "--for", "pending") == {"subject": "a", "state": "pending"}
        cli("withdraw", "later")
        work(cli)
        for key, state in {"a": "done", "bad": "failed", "later": "withdrawn"}.items():
            assert cli.json("wait", key, "--for", state)["state"] == state
        assert cli("wait", "bad").code == 0

    def test_it_gives_up(self, cli: Cli) -> None:
        enqueue(cli, "a")
        began = time.monotonic()
        for arguments in (["a"], ["lane"], ["lane", "--for", "running"]):
            said = cli("wait", *arguments, "--timeout", "0.05", "--json")
            assert said.code == 1
            assert "after 0.05 s" in said.complaint
        assert time.monotonic() - began < 10

    def test_a_parked_one(self, cli: Cli) -> None:
        enqueue(cli, "slow", deadline_seconds=0.2)
        work(cli)
        assert cli.json("wait", "slow", "--for", "stalled")["state"] == "stalled"
        assert cli("wait", "lane", "--for", "parked").code == 0
        assert cli("wait", "slow", "--timeout", "30").code == 5

    def test_while_it_is_put_back_and_claimed(self, cli: Cli, detached: Any) -> None:
        enqueue(cli, "a")
        detached(command="sleep 0.3")
        assert cli.json("wait", "a", "--for", "active", "--timeout", "30")["state"] == "active"
        assert cli.json("wait", "a", "--for", "done", "--timeout", "30")["state"] == "done"
        assert cli("wait", "lane", "--timeout", "30").code == 0


class TestLogs:
    def test_output(self, cli: Cli) -> None:
        enqueue(cli, "a", "bad")
        work(cli, command='printf "one\\n\\033[31mtwo\\n"; printf "é" ; echo err >&2')
        assert cli("logs", "a").out == "one\n␛[31mtwo\né"
        assert cli("logs", "a", "--tail", "1").out == "é\n"
        assert cli("logs", "a", "--stderr").out == "err\n"
        value = cli.json("logs", "a")
        assert value.keys() == {"subject", "call", "state", "exit_code", "stdout", "stderr", "tail"}
        assert (value["state"], value["exit_code"]) == ("ended", 0)
        assert Path(value["stdout"]).read_bytes().endswith("é".encode())

    def test_of_the_last_run_while_it_waits_for_the_next(self, cli: Cli) -> None:
        enqueue(cli, "a")
        work(cli, command="echo first")
        for said in ("again", "once more"):
            assert cli("requeue", "a").code == 0
            before = cli("logs", "a").out
            work(cli, command=f"echo {said}")
            assert cli("logs", "a").out == f"{said}\n"
            assert before != f"{said}\n"
        assert cli("requeue", "a").code == 0
        assert cli("logs", "a").out == "once more\n"

    def test_nothing_to_show(self, cli: Cli) -> None:
        enqueue(cli, "a")
        said = cli("logs", "a")
        assert said.code == 3
        assert "has not run" in said.complaint

    def test_follow_ends_with_the_call(self, cli: Cli, tmp_path: Path, detached: Any) -> None:
        enqueue(cli, "a")
        note = tmp_path / "go"
        detached(command=f"echo first; until [ -e {note} ]; do sleep 0.02; done; echo last")
        wait_until(lambda: running(cli))
        reader = start("logs", "a", "--follow", "--run-dir", str(cli.run_dir), cwd=tmp_path)
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"first\n"
        note.touch()
        out, err = reader.communicate(timeout=30)
        assert (reader.returncode, out, err) == (0, b"last\n", b"")

    def test_events(self, cli: Cli) -> None:
        enqueue(cli, "a", "b")
        work(cli)
        events = cli.json("events")
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        assert cli.json("events", "--tail", "2") == events[-2:]
        lines = cli("events").out.splitlines()
        assert len(lines) == len(events)
        assert lines[0].split()[1:3] == ["enqueued", "a"]

    def test_events_follow(self, cli: Cli, tmp_path: Path) -> None:
        enqueue(cli, "a")
        reader = start("events", "--follow", "--run-dir", str(cli.run_dir), cwd=tmp_path)
        assert reader.stdout is not None
        assert b" enqueued a" in reader.stdout.readline()
        enqueue(cli, "b")
        assert b" enqueued b" in reader.stdout.readline()
        reader.terminate()
        reader.communicate(timeout=30)


class TestPrune:
    def test_only_when_told(self, cli: Cli) -> None:
        enqueue(cli, "a", "bad")
        work(cli)
        for flag in ([], ["--json"]):
            said = cli("prune", *flag)
            assert said.code == 2
            assert "say --yes" in said.err
        calls = sorted(path.name for path in (cli.run_dir / "calls").iterdir())
        answer = cli.json("prune", "--yes")
        assert sorted(answer["removed"]) == calls
        assert answer["bytes"] > 0
        assert not list((cli.run_dir / "calls").iterdir())
        assert cli.json("prune") == {"removed": [], "bytes": 0, "kept": [], "worktrees": [], "refused": {}}
        assert cli("logs", "a").code in (0, 3)

    def test_what_lives_or_is_needed_stays(self, cli: Cli, detached: Any) -> None:
        enqueue(cli, "a", "slow")
        detached()
        wait_until(lambda: active(cli).get("envelope_id") == "slow" and running(cli))
        other = cli.run_dir / "calls" / "somebody-elses"
        other.mkdir()
        answer = cli.json("prune", "--yes")
        assert len(answer["removed"]) == 1
        assert answer["kept"] == [active(cli)["call"]]
        assert other.is_dir()
        assert cli.json("kill", "--envelope", "slow")["survivors"] == []


class TestDoctor:
    def test_what_it_checks(self, cli: Cli) -> None:
        cli("enqueue", "--prompt", "x")
        value = cli.json("doctor")
        names = [check["name"] for check in value["checks"]]
        assert names[:4] == ["python", "git", "run directory", "configuration"]
        assert "engine command" in names
        assert value["ok"] is all(check["ok"] for check in value["checks"])
        assert not list(cli.run_dir.glob(".doctor*"))

    def test_what_is_wrong(self, cli: Cli) -> None:
        cli("enqueue", "--prompt", "x")
        (cli.run_dir / "meshtui.toml").write_text("[lane]\nwrong = 1\n")
        value = cli.json("doctor", code=1)
        (bad,) = [check for check in value["checks"] if not check["ok"]]
        assert "lane.wrong" in bad["text"]
        said = cli("doctor")
        assert (said.code, said.out.count("BAD")) == (1, 1)


class TestTrust:
    @pytest.fixture
    def repo(self, tmp_path: Path) -> Path:
        repo = tmp_path / "repo"
        subprocess.run(["git", "init", "-q", str(repo)], check=True)
        (repo / "meshtui.toml").write_text(
            '[lane]\nengine = "command"\n[engines.command]\nrun = "echo from the repo"\n'
        )
        return repo

    def test_without_a_terminal_an_untrusted_repo_is_refused(self, repo: Path, cli: Cli) -> None:
        cli("enqueue", "--prompt", "x", "--id", "a")
        for more in ([], ["--json"], ["--detach"], ["--until-idle"]):
            said = cli("lane", "--repo", str(repo), *more)
            assert said.code == 2
            assert "echo from the repo" in said.complaint
            assert "--trust" in said.complaint
        assert cli.json("status")["queue"]["counts"]["pending"] == 1

    def test_for_one_run(self, repo: Path, cli: Cli) -> None:
        cli("enqueue", "--prompt", "x", "--id", "a")
        assert cli("lane", "--repo", str(repo), "--until-idle", "--trust").code == 0
        result = json.loads((cli.run_dir / "loop" / "results" / "a.json").read_text())
        assert result["output"] == "from the repo\n"
        assert cli("lane", "--repo", str(repo), "--until-idle").code == 2

    def test_until_it_changes(self, repo: Path, cli: Cli) -> None:
        value = cli.raw("trust", "--repo", str(repo), "--json").json
        assert value == {
            "file": str(repo / "meshtui.toml"),
            "commands": [{"key": "engines.command.run", "command": "echo from the repo"}],
        }
        assert cli("lane", "--repo", str(repo), "--until-idle").code == 0
        with (repo / "meshtui.toml").open("a") as file:
            file.write("# changed\n")
        assert cli("lane", "--repo", str(repo), "--until-idle").code == 2

    def test_the_repository_around_here(self, repo: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        (repo / "deep").mkdir()
        monkeypatch.chdir(repo / "deep")
        said = cli.raw("lane", "--until-idle")
        assert said.code == 2
        assert json.loads(Path(".meshtui/meshtui.json").read_text())["repo"] == str(repo)
        assert cli.raw("trust").code == 0
        assert cli.raw("lane", "--until-idle").code == 0

    def test_nothing_to_trust(self, cli: Cli, tmp_path: Path) -> None:
        said = cli.raw("trust")
        assert said.code == 2
        assert "no git repository here" in said.complaint
        said = cli.raw("trust", "--repo", str(tmp_path), "--json")
        assert said.code == 2
        assert "no such file to trust" in said.complaint


@pytest.mark.parametrize("envelope_id", ["slow", "-slow", "--drop", "slow's [/x] $(id)"])
def test_the_ways_out_run_as_they_are_told(envelope_id: str, cli: Cli) -> None:
    cli.run_dir = cli.run_dir.with_name("a run's folder")
    for way in range(3):
        enqueue(cli, f"{envelope_id}{way}", deadline_seconds=0.1)
        assert work(cli, command="exec sleep 600").code == 5
        question = json.loads(next((cli.run_dir / "loop" / "questions").iterdir()).read_text())
        commands = [exit["command"] for exit in cli.json("status")["attention"][0]["exits"]]
        assert commands == question["exits"]
        program, *words = shlex.split(commands[way])
        assert program == "meshtui"
        assert cli.raw(*words).code == 0
        assert cli("interrupt").code == 0
    (failed,) = cli.json("status")["attention"]
    for told in reversed(failed["exits"]):
        assert cli.raw(*shlex.split(told["command"])[1:]).code == 0


@pytest.mark.parametrize(("ids", "command"), [((), "true"), (("a",), "exit 1")])
def test_a_detached_runner_that_has_ended_already_is_no_failure(
    ids: tuple[str, ...], command: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueue(cli, "first")
    assert work(cli).code == 0
    if ids:
        enqueue(cli, *ids)
    # As on a busy machine: whoever started it looks only when it is over.
    monkeypatch.setattr("meshtui.core.lane.service.holder", _blind)
    for _ in range(2):
        said = cli("lane", "--detach", "--until-idle", "--run", command)
        assert (said.code, said.err) == (0, "")
    assert cli.json("status")["queue"]["counts"]["failed"] == len(ids)


def _blind(paths: Any, clock: Any) -> Holder:
    return Holder(None, alive=False, foreign=False)


def test_a_detached_runner_that_cannot_start_gives_its_own_last_words(cli: Cli) -> None:
    cli.run_dir.mkdir()
    (cli.run_dir / "loop").mkdir()
    (cli.run_dir / "loop" / "runner.log").write_text("runner_ended run: state waiting\n")
    (cli.run_dir / "loop" / "results").write_text("")
    said = cli("lane", "--detach", "--run", "true")
    assert said.code == 1
    assert "a file stands where a folder belongs" in said.complaint
