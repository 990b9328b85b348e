"""The demo does real work, tells the truth about it, and leaves the user's own git alone."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from meshtui.core.lane.lane import Lane
from meshtui.core.models.handoff import validate_handoff
from meshtui.core.run_dir import RunDir
from meshtui.demo.build import Demo
from meshtui.demo.envelopes import demo_envelopes
from meshtui.demo.work import mission_report

ORDER = [
    "tidy",
    "imports",
    "compile",
    "test",
    "leap-year-diagnose",
    "leap-year-repair",
    "docs",
    "soak",
    "changelog",
    "mission",
]
WITHIN = 60.0
COMMAND = [sys.executable, "-m", "meshtui", "demo"]


def environment(home: Path, **extra: str) -> dict[str, str]:
    """Nothing of the user: no git identity, no settings."""
    path = os.environ.get("PATH", os.defpath)
    return {"PATH": path, "HOME": str(home), "PYTHONPATH": os.getcwd(), "LANG": "C.UTF-8", **extra}


def demo(home: Path, *arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=home,
        env=environment(home, **extra),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=WITHIN,
        check=False,
    )


def git(repo: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(repo), *arguments], capture_output=True, text=True, check=True, timeout=30
    )
    return done.stdout


def read(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return value


def events(root: Path) -> list[tuple[str, str]]:
    try:
        lines = (root / "lane" / "events.jsonl").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    found = [json.loads(line) for line in lines if line.endswith("}")]
    return [(item["event"], item["subject"]) for item in found]


def until(true: Callable[[], bool], meanwhile: Callable[[], object] = lambda: time.sleep(0.02)) -> None:
    end = time.monotonic() + WITHIN
    while not true():
        assert time.monotonic() < end, "it did not come about in time"
        meanwhile()


@dataclass(frozen=True)
class Ran:
    root: Path
    home: Path
    text: str

    @property
    def repo(self) -> Path:
        return self.root / "almanac"

    @property
    def lane(self) -> Path:
        return self.root / "lane" / "loop"

    def result(self, envelope_id: str) -> dict[str, Any]:
        return read(self.lane / "results" / f"{envelope_id}.json")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    home = tmp_path_factory.mktemp("home")
    done = demo(home, "--dir", "demo", "--headless")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return Ran(home / "demo", home, done.stdout)


def test_results(ran: Ran) -> None:
    statuses = {name: ran.result(name)["status"] for name in ORDER}
    assert statuses == {name: "failed" if name == "test" else "done" for name in ORDER}
    assert ran.result("test")["exit_code"] == 1
    assert {ran.result(name).get("handoff_status") for name in ORDER if name.startswith("leap")} == {"passed"}
    assert read(ran.lane / "loop.json")["queue_depth"] == 0


def test_the_work_was_done_by_real_commits(ran: Ran) -> None:
    log = git(ran.repo, "log", "--format=%an %s").splitlines()
    assert log == [
        "agent.sh Write the changelog",
        "agent.sh Index the documentation",
        "agent.sh Centuries are no leap years",
        "agent.sh Sort imports",
        "agent.sh Tidy white space",
        "agent.sh A very small calendar",
    ]
    assert git(ran.repo, "status", "--porcelain") == ""
    assert "\t" in git(ran.repo, "show", "HEAD~5:almanac/months.py")
    assert "\t" not in (ran.repo / "almanac" / "months.py").read_text()
    imports = [
        line for line in (ran.repo / "almanac" / "months.py").read_text().splitlines() if "import" in line
    ]
    assert imports == ["import bisect", "import functools", "from almanac.years import is_leap"]
    assert "Centuries are no leap years" in (ran.repo / "CHANGELOG.md").read_text()
    assert "- [The calendar](calendar.md)" in (ran.repo / "docs" / "index.md").read_text()
    suite = [sys.executable, "-m", "unittest", "discover"]
    assert subprocess.run(suite, cwd=ran.repo, capture_output=True, timeout=30, check=False).returncode == 0


def test_the_story_hands_over(ran: Ran) -> None:
    diagnose, repair = (e for e in demo_envelopes(ran.repo) if e.get("story_id") == "leap-year")
    first = read(ran.root / "lane" / "handoffs" / "leap-year-diagnose.json")
    second = read(ran.root / "lane" / "handoffs" / "leap-year-repair.json")
    validate_handoff(first, diagnose)
    validate_handoff(second, repair)
    assert first["context_for_next"] == "failing tests: tests.test_years.LeapYears.test_centuries"
    prompt = ran.root / "lane" / "calls" / ran.result("leap-year-repair")["call"] / "prompt.txt"
    assert first["context_for_next"] in prompt.read_text(encoding="utf-8")
    assert second["files_changed"] == ["almanac/years.py"]
    (commit,) = second["commits"]
    assert (
        git(ran.repo, "show", "--format=%s", "--name-only", commit).split("\n")[0]
        == "Centuries are no leap years"
    )


def test_soak_stalled_twice_parked_and_was_answered(ran: Ran) -> None:
    told = [event for event, subject in events(ran.root) if subject == "soak"]
    assert told == [
        "enqueued",
        "phase_started",
        "phase_stalled",
        "phase_started",
        "phase_parked",
        "phase_answered",
        "phase_started",
        "phase_done",
    ]
    (parked,) = (ran.lane / "results" / ".history").glob("soak.*.json")
    assert read(parked)["status"] == "stalled"
    # What came after it did not wait for the answer.
    order = [subject for event, subject in events(ran.root) if event == "phase_done"]
    assert order.index("changelog") < order.index("soak")


def test_the_mission_did_its_work_in_loops(ran: Ran) -> None:
    """Two of them were refused once, by a gate and by a checker, and came through the second time."""
    mission = mission_report(Demo(ran.root))
    assert mission is not None
    assert {loop.loop_id: (loop.status, loop.iterations, loop.changed) for loop in mission.loops} == {
        "loop-years": ("completed", 1, ("almanac/years.py",)),
        "loop-weekdays": ("completed", 1, ("almanac/weekdays.py",)),
        "loop-months": ("completed", 2, ("almanac/months.py",)),
        "loop-tests": ("completed", 1, ("tests/test_library.py",)),
        "loop-docs": ("completed", 2, ("docs/reference.md",)),
        "loop-integration": (
            "completed",
            1,
            (
                "almanac/months.py",
                "almanac/weekdays.py",
                "almanac/years.py",
                "docs/reference.md",
                "tests/test_library.py",
            ),
        ),
    }
    refused = {loop.loop_id: loop.refused for loop in mission.loops if loop.refused}
    assert refused["loop-months"] == ("gate examples failed (exit 1; it passes on the base)",)
    (missing,) = refused.pop("loop-docs")
    assert missing.startswith("checker-1: docs/reference.md says nothing of months.month_starts")
    assert set(refused) == {"loop-months"}
    assert mission.gates == ("merged-tests", "merged-examples")
    assert mission.mismatches == ()
    assert mission.verified > 40


def test_the_missions_result_waits_on_a_branch(ran: Ran, tmp_path: Path) -> None:
    mission = mission_report(Demo(ran.root))
    assert mission is not None
    assert mission.branch is not None
    log = git(ran.repo, "log", "--format=%s", f"main..{mission.branch}").splitlines()
    assert log == [f"{name} loop" for name in ("docs", "tests", "months", "weekdays", "years")]
    assert "is_leap(year: int) -> bool" in git(ran.repo, "show", f"{mission.branch}:almanac/years.py")
    clone = tmp_path / "clone"
    subprocess.run(
        ["git", "clone", "--quiet", "--branch", mission.branch, str(ran.repo), str(clone)],
        check=True,
        timeout=30,
    )
    for command in (["unittest", "discover"], ["doctest", "almanac/months.py"]):
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=clone, capture_output=True, timeout=30, check=False
        )
        assert done.returncode == 0, done.stderr
    # Nothing but the branches of the mission is left in the repository.
    assert len(git(ran.repo, "worktree", "list").splitlines()) == 1
    assert f"land {mission.mission_id}" in ran.text
    assert "proof       holds: " in ran.text
    assert "refused: gate examples failed (exit 1; it passes on the base)" in ran.text


def test_summary_and_picture(ran: Ran) -> None:
    assert "by scripts and no AI" in ran.text
    assert (
        "Nobody is here to give it, so the demo does: meshtui answer soak --deadline-seconds 30" in ran.text
    )
    assert "10 phases: 9 done, 1 failed" in ran.text
    assert "handoff passed: 7 of 7 tests pass" in ran.text
    for path in (ran.repo, ran.root / "lane", ran.root / "console.svg"):
        assert str(path) in ran.text
    svg = (ran.root / "console.svg").read_text(encoding="utf-8")
    assert svg.startswith("<svg")
    assert "failed" in svg


def test_an_earlier_demo_is_shown_again(ran: Ran) -> None:
    before = events(ran.root)
    done = demo(ran.home, "--dir", "demo", "--json")
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    assert [phase["envelope_id"] for phase in value["phases"]] == ORDER
    assert value["answered"] == []
    assert value["commits"] == 6
    assert value["mission"]["mismatches"] == []
    assert {loop["status"] for loop in value["mission"]["loops"]} == {"completed"}
    assert value["run_dir"] == str(ran.root / "lane")
    assert events(ran.root)[: len(before)] == before
    assert not [event for event, _ in events(ran.root)[len(before) :] if event.startswith("phase_")]


def test_another_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("dear")
    done = demo(tmp_path, "--dir", "mine", "--headless")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        f"meshtui: --dir {tmp_path / 'mine'} is not empty and holds no earlier demo; "
        "name an empty folder or a new one\n"
    )
    assert os.listdir(tmp_path / "mine") == ["thesis.txt"]
    done = demo(tmp_path, "--dir", "mine/thesis.txt", "--headless")
    assert done.returncode == 2
    assert "is a file" in done.stderr


def test_without_git(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    done = demo(tmp_path, "--dir", "demo", "--headless", PATH=str(tmp_path / "bin"))
    assert done.returncode == 1
    assert done.stderr == (
        "meshtui: the demo works on a git repository, and there is no git here; install it\n"
    )


def test_interrupted_and_gone_on_with_in_spite_of_the_users_git(tmp_path: Path) -> None:
    """Stopped in the middle it says so; the next one finishes. Hooks, signing and GIT_DIR change nothing."""
    other = tmp_path / "other"
    subprocess.run(["git", "init", "--quiet", str(other)], check=True, timeout=30)
    before = sorted(str(path) for path in other.rglob("*"))
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "pre-commit").write_text("#!/bin/sh\nexit 1\n")
    (hooks / "pre-commit").chmod(0o755)
    (tmp_path / ".gitconfig").write_text(
        f"[core]\n\thooksPath = {hooks}\n[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = /bin/false\n"
    )
    env = environment(tmp_path, GIT_DIR=str(other / ".git"), GIT_INDEX_FILE=str(other / "index"))
    process = subprocess.Popen(
        [*COMMAND, "--dir", "demo", "--headless"],
        cwd=tmp_path,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        until(lambda: ("phase_started", "soak") in events(tmp_path / "demo") or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=WITHIN)
    finally:
        process.kill()
    assert process.returncode == 130, text
    assert ("phase_done", "soak") not in events(tmp_path / "demo")
    assert os.listdir(tmp_path / "demo" / "lane" / "loop" / "active") == []
    done = demo(tmp_path, "--dir", "demo", GIT_DIR=str(other / ".git"))
    assert done.returncode == 0, done.stderr
    assert "An earlier demo" in done.stdout
    assert "10 phases: 9 done, 1 failed" in done.stdout
    assert sorted(str(path) for path in other.rglob("*")) == before
    assert len(git(tmp_path / "demo" / "almanac", "log", "--format=%h").split()) == 6


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, command: list[str], cwd: Path, env: dict[str, str]) -> None:
        self._ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        self.drawn = b""

    def pump(self) -> None:
        """Take what it draws, so that it never waits for us."""
        if not select.select([self._ours], [], [], 0.02)[0]:
            return
        try:
            self.drawn += os.read(self._ours, 1 << 16)
        except OSError:
            # The program is gone, and its end of the terminal with it.
            time.sleep(0.02)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


def test_on_a_terminal_the_console_opens_and_works(tmp_path: Path) -> None:
    root = tmp_path / "demo"
    env = environment(tmp_path, TERM="xterm-256color")
    terminal = Terminal([*COMMAND, "--dir", str(root)], tmp_path, env)
    try:
        until(lambda: ("phase_done", "changelog") in events(root), terminal.pump)
        # It is left to the person to answer, here from another terminal.
        assert ("phase_parked", "soak") in events(root)
        assert ("phase_answered", "soak") not in events(root)
        Lane(RunDir(root / "lane")).answer("soak", "retry", deadline_seconds=30)
        until(lambda: ("phase_done", "soak") in events(root), terminal.pump)
        assert b"Hand over" not in terminal.drawn
        terminal.type("q")
        until(lambda: b"Hand over" in terminal.drawn, terminal.pump)
        terminal.type("s")
        until(lambda: terminal.process.poll() is not None, terminal.pump)
        until(lambda: b"to go on with it" in terminal.drawn, terminal.pump)
        assert terminal.process.returncode == 0
    finally:
        terminal.close()
