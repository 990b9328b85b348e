from __future__ import annotations

import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meshtui.core import identity, storage
from meshtui.core.calls import (
    Call,
    CallSpec,
    OutputFollower,
    Waker,
    new_call_id,
    read_tail,
    scrubbed_environment,
)
from meshtui.core.calls import call as call_module
from meshtui.core.calls import wrapper as wrapper_module
from meshtui.core.calls.processes import Member
from meshtui.core.calls.wrapper import resolve
from meshtui.core.clock import from_iso
from meshtui.core.errors import InvalidInput
from meshtui.core.run_dir import RunDir

PROJECT = Path(__file__).parents[2]
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def until(condition: Callable[[], Any], *, limit: float = 20.0) -> Any:
    """The first true value of ``condition``; fails after ``limit`` seconds."""
    end = time.monotonic() + limit
    while not (value := condition()):
        assert time.monotonic() < end, "the condition never came true"
        time.sleep(0.005)
    return value


def alive(pid: int) -> bool:
    return identity.started_at(pid) is not None


ORPHAN = """
import os, subprocess, sys, time
from pathlib import Path
if os.fork() == 0:
    child = subprocess.Popen(
        ["/bin/sleep", "60"], env={}, start_new_session=True, pass_fds=[3], stdout=subprocess.DEVNULL
    )
    print(child.pid, flush=True)
    os._exit(0)
os.wait()
while not Path("seen").exists():
    time.sleep(0.005)
"""


class Calls:
    """Starts calls in one run directory and ends them after the test."""

    def __init__(self, root: Path) -> None:
        self.run_dir = RunDir(root / "run dir")
        self.work = root / "work"
        self.work.mkdir()
        self._started: list[Call] = []

    def spec(self, *argv: str, prompt: bytes = b"", env: dict[str, str] | None = None) -> CallSpec:
        return CallSpec(
            call_id=new_call_id(time.time_ns() // 1_000_000, "one", "run"),
            subject="one",
            role="run",
            engine="command",
            argv=argv,
            cwd=self.work,
            env={**scrubbed_environment(os.environ), **(env or {})},
            prompt=prompt,
        )

    def start(self, *argv: str, prompt: bytes = b"", env: dict[str, str] | None = None) -> Call:
        return self.launch(self.spec(*argv, prompt=prompt, env=env))

    def prepare(self, *argv: str, prompt: bytes = b"") -> Call:
        call = Call.prepare(self.run_dir, self.spec(*argv, prompt=prompt))
        self._started.append(call)
        return call

    def launch(self, spec: CallSpec) -> Call:
        call = Call.start(self.run_dir, spec)
        self._started.append(call)
        return call

    def shell(self, script: str, prompt: bytes = b"", *, env: dict[str, str] | None = None) -> Call:
        return self.start("/bin/sh", "-c", script, prompt=prompt, env=env)

    def python(self, program: str) -> Call:
        return self.start(sys.executable, "-c", textwrap.dedent(program))

    def finish(self, call: Call) -> int:
        assert call.wait(30)
        assert call.state() == "ended"
        ended = call.exit()
        assert ended is not None
        return ended.code

    def said(self, call: Call) -> str:
        """The first line of the output, once it is there."""

        until(lambda: b"\n" in call.stdout.read_bytes())
        return call.stdout.read_text().split("\n")[0]

    def close(self) -> None:
        for call in self._started:
            if call.folder.is_dir():
                call.end("killed", "test", grace=0)
            call.close()


@pytest.fixture
def calls(tmp_path: Path) -> Iterator[Calls]:
    here = Calls(tmp_path)
    yield here
    here.close()


class TestStart:
    def test_the_folder_tells_what_ran_and_how_it_ended(self, calls: Calls) -> None:
        before = time.time_ns() // 1_000_000
        call = calls.shell("cat; echo oops >&2; exit 3", b"the prompt\n")
        assert calls.finish(call) == 3
        after = time.time_ns() // 1_000_000
        assert call.stdout.read_bytes() == b"the prompt\n"
        assert call.stderr.read_bytes() == b"oops\n"
        about = json.loads((call.folder / "call.json").read_text())
        assert about.keys() == {
            "call_id", "subject", "role", "engine", "argv", "cwd", "session_id", "attempt", "started_at",
            "deadline_at",
        }  # fmt: skip
        assert about["call_id"] == call.folder.name
        process = json.loads((call.folder / "process.json").read_text())
        assert process.keys() == {"pid", "process_started_at", "boot_id", "host", "pid_namespace"}
        ended = call.exit()
        assert ended is not None
        assert before <= ended.ended_at_ms <= after + 10
        exit_json = json.loads((call.folder / "exit.json").read_text())
        assert exit_json == {"code": 3, "ended_at": exit_json["ended_at"]}
        assert not (call.folder / ".exit.json.tmp").exists()

    def test_the_wrapper_names_itself_as_identity_does(self, calls: Calls) -> None:
        call = calls.shell("echo $PPID; exec sleep 60")
        pid = int(calls.said(call))
        assert call.process() == identity.identify(pid)
        assert os.getsid(pid) == pid
        assert call.state() == "running"

    def test_files_are_private_and_the_program_keeps_the_umask(self, calls: Calls) -> None:
        mask = os.umask(0o027)
        try:
            call = calls.shell("umask; : > made")
            assert calls.finish(call) == 0
        finally:
            os.umask(mask)
        assert int(call.stdout.read_text(), 8) == 0o027
        assert stat.S_IMODE((calls.work / "made").stat().st_mode) == 0o640
        for path in call.folder.iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        assert stat.S_IMODE(call.folder.stat().st_mode) == 0o700

    @pytest.mark.parametrize(
        "prompt",
        [b"--version", b"- [ ] item", b"", b"x" * 200_000, bytes(range(256)) * 800],
        ids=["flag", "task", "empty", "200 KB", "any bytes"],
    )
    def test_prompts_arrive_literally_and_end(self, calls: Calls, prompt: bytes) -> None:
        call = calls.start("cat", prompt=prompt)
        assert calls.finish(call) == 0
        assert call.stdout.read_bytes() == prompt

    def test_arguments_arrive_literally(self, calls: Calls) -> None:
        hostile = ["-n", "--", "a b", "c\nd", "$HOME `id` \\ ' \"", "*", "", "é\udcff"]
        call = calls.start(
            sys.executable, "-c", "import os,sys;print(list(map(os.fsencode,sys.argv[1:])))", *hostile
        )
        assert calls.finish(call) == 0
        assert call.stdout.read_text() == f"{[os.fsencode(text) for text in hostile]}\n"

    def test_the_environment_is_the_one_given(self, calls: Calls) -> None:
        spec = calls.spec(sys.executable, "-c", "import os,json;print(json.dumps(dict(os.environ)))")
        spec_env = {"PATH": "/usr/bin:/bin", "code": "mine", "X": "a\nb"}
        spec = replace(spec, env=spec_env)
        call = calls.launch(spec)
        assert calls.finish(call) == 0
        seen = json.loads(call.stdout.read_text())
        for name in ("LC_CTYPE", "_", "SHLVL", "__CF_USER_TEXT_ENCODING"):
            seen.pop(name, None)
        assert seen == {**spec_env, "MESHTUI_CALL_ID": call.call_id, "PWD": str(calls.work)}

    @pytest.mark.parametrize("name", ["echo", "true", "test"])
    def test_a_program_named_like_a_shell_command_is_the_program(self, calls: Calls, name: str) -> None:
        found = resolve(name, {"PATH": "/usr/bin:/bin"})
        assert found.startswith("/")

    def test_the_shells_own_commands_are_no_programs(self, calls: Calls) -> None:
        call = calls.start("exit", "0")
        assert calls.finish(call) == 127
        assert b"exit" in call.stderr.read_bytes()

    def test_a_missing_program_ends_the_call_with_the_shells_words(self, calls: Calls) -> None:
        for program in ("no-such-program-here", "./none", "/no/such"):
            call = calls.start(program)
            assert calls.finish(call) == 127
            assert program.encode() in call.stderr.read_bytes()

    def test_a_file_that_is_not_executable_ends_the_call(self, calls: Calls) -> None:
        (calls.work / "plain").write_text("echo no\n")
        call = calls.start("./plain")
        assert calls.finish(call) == 126
        assert b"plain" in call.stderr.read_bytes()

    def test_a_missing_working_directory_is_refused_and_one_that_vanishes_ends_the_call(
        self, calls: Calls, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls.work.rmdir()
        with pytest.raises(InvalidInput, match="no such working directory"):
            calls.start("true")
        monkeypatch.setattr(call_module, "check_spec", lambda spec: None)
        call = calls.start("true")
        assert calls.finish(call) == 126
        assert b"work" in call.stderr.read_bytes()

    @pytest.mark.parametrize("argv", [(), ("",), ("-x",), ("a\0b",), ("a", "\ud800")])
    def test_what_no_system_can_start_is_refused(self, calls: Calls, argv: tuple[str, ...]) -> None:
        with pytest.raises(InvalidInput):
            calls.start(*argv)

    def test_a_command_that_is_too_long_is_refused(self, calls: Calls) -> None:
        with pytest.raises(InvalidInput, match="too long"):
            calls.start("true", "x" * (1 << 22))

    def test_only_the_calls_own_descriptors_are_inherited(self, calls: Calls, tmp_path: Path) -> None:
        lock = storage.OsLock(tmp_path / "other.lock", what="other")
        with lock, (tmp_path / "leak").open("w") as leak:
            os.set_inheritable(leak.fileno(), True)
            call = calls.python("import os; print(sorted(os.listdir('/dev/fd'), key=int))")
            assert calls.finish(call) == 0
        # The last one is the listing itself.
        assert call.stdout.read_text().startswith("['0', '1', '2', '3'")
        assert len(json.loads(call.stdout.read_text().replace("'", '"'))) == 5

    @linux
    def test_signals_are_at_their_defaults_whatever_the_starter_does(self, calls: Calls) -> None:
        old = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
        try:
            call = calls.shell("grep -E '^Sig(Blk|Ign)' /proc/self/status")
            assert calls.finish(call) == 0
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            signal.signal(signal.SIGHUP, old)
        masks = [int(line.split()[1], 16) for line in call.stdout.read_text().splitlines()]
        # The C library keeps the two signals above the standard ones for itself.
        assert [mask & 0x7FFFFFFF for mask in masks] == [0, 0]

    def test_a_name_that_is_no_calls_is_refused(self, calls: Calls) -> None:
        for name in ("../../x", "", "1-x-run-0000000g", "1-x-run-00000000/..", "1-x-run-00000000\n"):
            with pytest.raises(InvalidInput):
                Call.attach(calls.run_dir, name)

    def test_ids_are_cut_and_safe(self) -> None:
        name = new_call_id(5, "é/" * 100, "maker")
        assert name.startswith("5-" + "_" * 80 + "-maker-")
        assert len(name) == 2 + 80 + 7 + 8


class TestWait:
    def test_the_end_is_noticed_within_milliseconds(self, calls: Calls) -> None:
        call = calls.shell("read _; exit 0", b"\n")
        assert calls.finish(call) == 0
        assert not call.wait(0) or call.state() == "ended"

    def test_waiting_takes_no_processor_time(self, calls: Calls) -> None:
        call = calls.shell("echo; exec sleep 60")
        calls.said(call)
        adopted = Call.attach(calls.run_dir, call.call_id)
        used = time.thread_time()
        assert not call.wait(0.3)
        assert not adopted.wait(0.3)
        assert time.thread_time() - used < 0.05
        adopted.close()

    def test_another_thread_interrupts_it(self, calls: Calls) -> None:
        call = calls.shell("exec sleep 60")
        waker = Waker()
        timer = threading.Timer(0.05, waker.set)
        timer.start()
        began = time.monotonic()
        assert not call.wait(30, waker)
        assert time.monotonic() - began < 15
        timer.join()
        assert not call.wait(30, waker)
        waker.clear()
        assert not call.wait(0.01, waker)
        waker.close()
        waker.set()

    @pytest.mark.parametrize("watch", [True, False], ids=["pidfd", "polling"])
    def test_adopted_calls_too(self, calls: Calls, monkeypatch: pytest.MonkeyPatch, watch: bool) -> None:
        if not watch:
            monkeypatch.delattr(os, "pidfd_open", raising=False)
        fifo = calls.work / "go"
        os.mkfifo(fifo)
        call = calls.shell("echo; read _ < go; exit 4")
        calls.said(call)
        adopted = Call.attach(calls.run_dir, call.call_id)
        assert adopted.state() == "running"
        timer = threading.Timer(0.05, lambda: fifo.write_bytes(b"\n"))
        timer.start()
        assert adopted.wait(30)
        timer.join()
        ended = adopted.exit()
        assert ended is not None
        assert ended.code == 4
        adopted.close()

    def test_instant_programs_leave_no_zombies(self, calls: Calls) -> None:
        started = [calls.start("true") for _ in range(60)]
        assert [calls.finish(call) for call in started] == [0] * 60
        pids = [who.pid for call in started if (who := call.process()) is not None]
        assert len(pids) == 60

        def all_reaped() -> bool:
            # The last ones may still be giving their exit status its name.
            started[-1].state()
            return not any(Path(f"/proc/{pid}").exists() for pid in pids)

        until(all_reaped)

    def test_a_prepared_call_starts_nothing_until_it_is_told(self, calls: Calls) -> None:
        call = calls.prepare("/bin/sh", "-c", "cat > heard; exit 7", prompt=b"the prompt")
        until(lambda: call.process() is not None)
        assert call.state() == "running"
        assert not call.wait(0.2)
        assert not (calls.work / "heard").exists()
        call.go()
        assert calls.finish(call) == 7
        assert (calls.work / "heard").read_bytes() == b"the prompt"

    def test_an_abandoned_call_is_lost_and_started_nothing(self, calls: Calls) -> None:
        call = calls.prepare("/bin/sh", "-c", ": > began")
        call.abandon()
        call.go()
        assert call.wait(30)
        assert call.state() == "lost"
        assert call.exit() is None
        assert not (calls.work / "began").exists()

    def test_a_starter_killed_before_the_word_starts_nothing(self, calls: Calls) -> None:
        program = """
            import os, signal, sys
            from pathlib import Path
            from meshtui.core.calls import Call, CallSpec, new_call_id
            from meshtui.core.run_dir import RunDir
            root, work = map(Path, sys.argv[1:])
            call = Call.prepare(RunDir(root), CallSpec(
                call_id=new_call_id(1, "one", "run"), subject="one", role="run", engine="command",
                argv=("/bin/sh", "-c", ": > began"), cwd=work, env=dict(os.environ), prompt=b""))
            print(call.call_id, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program), calls.run_dir.root, calls.work],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
        call = Call.attach(calls.run_dir, done.stdout.strip())
        assert call.wait(30)
        assert call.state() == "lost"
        assert call.sweep() == ()
        assert not (calls.work / "began").exists()

    def test_a_prepared_call_that_is_ended_never_starts(self, calls: Calls) -> None:
        call = calls.prepare("/bin/sh", "-c", ": > began")
        assert Call.attach(calls.run_dir, call.call_id).end("killed", "test").ended
        call.go()
        assert call.wait(30)
        assert call.state() == "ended"
        assert not (calls.work / "began").exists()

    def test_a_program_does_not_get_the_line(self, calls: Calls) -> None:
        for argv in (("/bin/sh", "-c", "ls /dev/fd/4 2>&1"), ("ls", "/dev/fd/4")):
            assert calls.finish(calls.start(*argv)) != 0

    @pytest.mark.parametrize("follows", [True, False])
    def test_mv_is_started_only_where_the_starter_does_not_follow(
        self, follows: bool, calls: Calls, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = calls.work / "asked"
        mover = calls.work / "mover"
        mover.write_text(f'#!/bin/sh\necho x >> {asked}\nexec mv "$@"\n')
        mover.chmod(0o755)
        monkeypatch.setattr(wrapper_module, "_mv", lambda: str(mover))
        call = calls.shell("exit 5")
        if follows:
            assert call.wait(30)
        else:
            call.close()
        until(lambda: (call.folder / "exit.json").exists() and not call.held())
        assert json.loads((call.folder / "exit.json").read_text())["code"] == 5
        assert not (call.folder / ".exit.json.tmp").exists()
        assert asked.exists() is not follows

    def test_a_starter_that_does_not_listen_hides_no_end(self, calls: Calls) -> None:
        call = calls.shell("exit 5")
        other = Call.attach(calls.run_dir, call.call_id)
        assert other.wait(30)
        assert other.state() == "ended"
        ended = other.exit()
        assert ended is not None
        assert ended.code == 5
        assert not (call.folder / "exit.json").exists(), "the starter has said nothing yet"
        assert call.held()
        call.close()
        until(lambda: (call.folder / "exit.json").exists() and not call.held())
        assert Call.attach(calls.run_dir, call.call_id).exit() == ended

    def test_one_whose_starter_does_not_listen_can_be_ended(self, calls: Calls) -> None:
        call = calls.shell("echo; sleep 60")
        calls.said(call)
        other = Call.attach(calls.run_dir, call.call_id)
        assert other.end("killed", "test").ended
        assert other.state() == "ended"
        assert not other.held()

    def test_what_waited_for_the_line_is_told_the_end_by_a_program_left_running(self, calls: Calls) -> None:
        call = calls.shell("sleep 60 & echo $!")
        assert call.wait(30)
        left = int(calls.said(call))
        assert alive(left)
        assert call.held()
        (name,) = call.sweep(patient=False)
        # Perhaps still under the name of the shell that it was.
        assert name.endswith(f" (pid {left})")
        until(lambda: not call.held())

    def test_descriptors_are_given_back(self, calls: Calls) -> None:
        calls.finish(calls.start("true"))
        before = len(os.listdir("/dev/fd"))
        for _ in range(20):
            calls.finish(calls.start("true"))
        assert len(os.listdir("/dev/fd")) == before


class TestState:
    def test_a_call_that_never_was_is_lost(self, calls: Calls) -> None:
        call = Call.attach(calls.run_dir, new_call_id(1, "none", "run"))
        assert call.state() == "lost"
        assert call.exit() is None
        assert call.ending() is None
        assert call.about() is None
        assert call.wait(5)
        assert call.sweep() == ()

    def test_a_call_killed_whole_is_lost(self, calls: Calls) -> None:
        call = calls.shell("echo; exec sleep 60")
        calls.said(call)
        who = call.process()
        assert who is not None
        os.killpg(who.pid, signal.SIGKILL)
        assert call.wait(20)
        assert call.state() == "lost"

    def test_it_lives_while_the_program_does_even_without_its_wrapper(self, calls: Calls) -> None:
        call = calls.shell("echo $$; exec sleep 60")
        program = int(calls.said(call))
        who = call.process()
        assert who is not None
        os.kill(who.pid, signal.SIGKILL)
        assert not call.wait(0.2)
        assert call.state() == "running"
        report = call.end("killed", "test")
        assert report.ended
        assert not alive(program)
        assert call.state() == "ended"
        assert call.exit() is None

    def test_a_program_that_closes_its_descriptors_still_counts(self, calls: Calls) -> None:
        call = calls.python("import os,time; print(flush=True); os.closerange(3, 50); time.sleep(60)")
        calls.said(call)
        assert call.state() == "running"
        assert not call.wait(0.05)

    def test_a_partial_process_file_is_tolerated(self, calls: Calls) -> None:
        call = calls.shell("echo; exec sleep 60")
        calls.said(call)
        whole = (call.folder / "process.json").read_bytes()
        for size in (0, 10, len(whole) - 2):
            (call.folder / "process.json").write_bytes(whole[:size])
            assert Call.attach(calls.run_dir, call.call_id).state() == "starting"
        report = Call.attach(calls.run_dir, call.call_id).end("killed", "test")
        assert report.ended, report

    def test_two_who_ask_at_once_do_not_take_each_other_for_the_holder(self, calls: Calls) -> None:
        call = calls.start("true")
        calls.finish(call)
        until(lambda: not call.held())
        (call.folder / "exit.json").unlink()
        seen: set[str] = set()

        def ask() -> None:
            for _ in range(300):
                seen.add(call.state())

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == {"lost"}

    def test_an_exit_status_whose_writer_died_is_completed(self, calls: Calls) -> None:
        call = calls.start("true")
        calls.finish(call)
        until(lambda: not call.held())
        (call.folder / "exit.json").rename(call.folder / ".exit.json.tmp")
        assert call.state() == "ended"
        ended = call.exit()
        assert ended is not None
        assert ended.code == 0
        (call.folder / "exit.json").unlink()
        (call.folder / ".exit.json.tmp").write_bytes(b'{"code":0,"ended')
        assert call.state() == "lost"

    def test_the_exit_status_is_written_again_until_it_succeeds(self, calls: Calls) -> None:
        os.mkfifo(calls.work / "go")
        call = calls.shell("echo; read _ < go; exit 9")
        calls.said(call)
        away = call.folder.with_name("away")
        call.folder.rename(away)
        (calls.work / "go").write_bytes(b"\n")
        assert not call.wait(0.3)
        assert storage.is_locked(away / "call.lock")
        away.rename(call.folder)
        assert calls.finish(call) == 9

    def test_the_lock_is_of_the_kind_that_survives_the_starter(self, calls: Calls) -> None:
        call = calls.shell("echo; exec sleep 60")
        calls.said(call)
        with call.lock_path.open() as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)


class TestAdoption:
    PROGRAM = """
        import os, signal, sys
        from pathlib import Path
        from meshtui.core.calls import Call, CallSpec
        from meshtui.core.run_dir import RunDir
        root, call_id, work = sys.argv[1:]
        env = dict(os.environ)
        script = "read word; echo $$; read _ < go; echo done $word; exit 6"
        spec = CallSpec(call_id, "one", "run", "command", ("/bin/sh", "-c", script), Path(work), env, b"word")
        Call.start(RunDir(Path(root)), spec)
        os.kill(os.getpid(), signal.SIGKILL)
        """

    def start_elsewhere(self, calls: Calls) -> Call:
        """A call whose starter was killed right after it."""
        os.mkfifo(calls.work / "go")
        call_id = new_call_id(1, "one", "run")
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(self.PROGRAM), calls.run_dir.root, call_id, calls.work],
            cwd=PROJECT,
            check=False,
            stdin=subprocess.PIPE,
        )
        assert done.returncode == -signal.SIGKILL
        call = Call.attach(calls.run_dir, call_id)
        calls._started.append(call)
        return call

    def test_a_call_outlives_its_starter_and_is_adopted(self, calls: Calls) -> None:
        call = self.start_elsewhere(calls)
        calls.said(call)
        assert call.state() == "running"
        assert not call.wait(0.05)
        (calls.work / "go").write_bytes(b"\n")
        assert calls.finish(call) == 6
        assert call.stdout.read_text().endswith("done word\n")

    def test_an_ending_is_honoured_by_the_next_one(self, calls: Calls) -> None:
        call = self.start_elsewhere(calls)
        program = int(calls.said(call))
        call.request_end("deadline", "the first runner")
        assert alive(program)
        following = Call.attach(calls.run_dir, call.call_id)
        ending = following.ending()
        assert ending is not None
        assert (ending.reason, ending.by) == ("deadline", "the first runner")
        report = following.end("killed", "somebody else")
        assert report.ended
        assert not alive(program)
        kept = following.ending()
        assert kept == ending
        ended = following.exit()
        assert ended is not None
        assert ended.code == 128 + signal.SIGTERM


class TestEnd:
    def test_sigterm_has_its_default_in_the_program_and_the_true_code_is_kept(self, calls: Calls) -> None:
        call = calls.shell("echo; exec sleep 60")
        calls.said(call)
        began = time.monotonic()
        report = call.end("killed", "operator")
        assert time.monotonic() - began < 4
        assert (report.ended, report.survivors) == (True, ())
        ended = call.exit()
        assert ended is not None
        assert ended.code == 128 + signal.SIGTERM
        text = json.loads((call.folder / "ending.json").read_text())
        assert (text["reason"], text["by"]) == ("killed", "operator")
        assert from_iso(text["at"]) is not None

    def test_the_program_is_told_once_and_may_end_as_it_likes(self, calls: Calls) -> None:
        call = calls.python(
            """
            import signal, sys, time
            told = []
            signal.signal(signal.SIGTERM, lambda *_: told.append(1))
            print(flush=True)
            while not told:
                time.sleep(0.01)
            time.sleep(0.2)
            print(len(told), flush=True)
            sys.exit(11)
            """
        )
        calls.said(call)
        assert call.end("deadline", "test").ended
        ended = call.exit()
        assert ended is not None
        assert ended.code == 11
        assert call.stdout.read_text() == "\n1\n"

    def test_one_that_ignores_sigterm_is_killed_and_its_code_known(self, calls: Calls) -> None:
        call = calls.shell("trap '' TERM; echo; while :; do sleep 0.05; done")
        calls.said(call)
        report = call.end("deadline", "test", grace=0.2)
        assert report.ended
        ended = call.exit()
        assert ended is not None
        assert ended.code == 128 + signal.SIGKILL

    def test_ending_json_is_there_before_the_signal(self, calls: Calls) -> None:
        call = calls.start(
            "/bin/sh", "-c", 'trap \'cat "$1"/ending.json; exit 0\' TERM; echo; while :; do sleep 0.02; done',
            "x", str(calls.run_dir.calls.resolve()),
        )  # fmt: skip
        calls.said(call)
        # The folder's name is not known before the start: hand it over by a link of the same name.
        (calls.run_dir.calls / "ending.json").symlink_to(call.ending_path)
        assert call.end("budget", "test").ended
        assert b'"reason":"budget"' in call.stdout.read_bytes()

    @pytest.mark.parametrize("escape", ["setsid", "setsid, closed", "setsid, ignoring"])
    def test_descendants_that_left_the_session_are_ended(self, calls: Calls, escape: str) -> None:
        call = calls.python(
            f"""
            import os, signal, time
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    if "closed" in {escape!r}:
                        os.closerange(3, 50)
                    if "ignoring" in {escape!r}:
                        signal.signal(signal.SIGTERM, signal.SIG_IGN)
                    print(os.getpid(), flush=True)
                    time.sleep(60)
                os._exit(0)
            time.sleep(60)
            """
        )
        lost = int(calls.said(call))
        report = call.end("killed", "test", grace=0.5)
        assert report.ended, report
        assert not alive(lost)

    @linux
    def test_a_child_without_environment_in_a_session_of_its_own_is_ended(self, calls: Calls) -> None:
        call = calls.python(
            """
            import os, subprocess, time
            child = subprocess.Popen(["/bin/sleep", "60"], env={}, start_new_session=True)
            print(child.pid, flush=True)
            time.sleep(60)
            """
        )
        hidden = int(calls.said(call))
        assert call.end("killed", "test").ended
        assert not alive(hidden)

    @linux
    def test_an_orphan_without_environment_and_session_is_found_by_its_lock(self, calls: Calls) -> None:
        call = calls.python(ORPHAN)
        hidden = int(calls.said(call))
        report = call.end("killed", "test")
        assert report.ended, report
        assert any(f"(pid {hidden})" in name for name in report.found)
        assert not alive(hidden)

    @linux
    def test_who_asks_for_the_lock_or_holds_it_from_before_is_left_alone(self, calls: Calls) -> None:
        call = calls.shell("echo; exec sleep 60")
        calls.said(call)
        asks = "import sys, time; file = open(sys.argv[1]); print(flush=True); time.sleep(60)"
        asker = subprocess.Popen(
            [sys.executable, "-c", asks, str(call.lock_path)], stdout=subprocess.PIPE, start_new_session=True
        )
        try:
            assert asker.stdout is not None
            asker.stdout.readline()
            # This process has it open too, as its starter had.
            with call.lock_path.open():
                assert call.end("killed", "test").ended
            assert asker.poll() is None
        finally:
            asker.kill()
            asker.communicate()

    def test_a_stopped_program_is_ended(self, calls: Calls) -> None:
        call = calls.shell("echo $$; kill -STOP $$; sleep 60")
        program = int(calls.said(call))
        assert call.end("killed", "test").ended
        assert not alive(program)
        ended = call.exit()
        assert ended is not None
        assert ended.code == 128 + signal.SIGTERM

    def test_right_after_the_start(self, calls: Calls) -> None:
        for _ in range(15):
            call = calls.shell("exec sleep 60")
            report = call.end("killed", "test")
            assert report.ended, report
            assert call.state() == "ended"

    def test_one_that_ended_by_itself_is_taken_as_it_ended(self, calls: Calls) -> None:
        call = calls.shell("exit 5")
        assert calls.finish(call) == 5
        assert call.end("killed", "test").ended
        assert call.ending() is None

    def test_one_that_is_lost(self, calls: Calls) -> None:
        call = calls.shell("echo; exec sleep 60")
        calls.said(call)
        who = call.process()
        assert who is not None
        os.killpg(who.pid, signal.SIGKILL)
        assert call.wait(20)
        assert call.end("stopped", "test").ended
        assert call.state() == "ended"

    def test_one_that_has_not_begun_never_begins(self, calls: Calls) -> None:
        spec = calls.spec("/bin/sh", "-c", ": > ran")
        early = Call.attach(calls.run_dir, spec.call_id)
        assert early.request_end("killed", "operator").reason == "killed"
        call = calls.launch(spec)
        assert call.wait(5)
        assert call.state() == "ended"
        assert call.exit() is None
        assert not (calls.work / "ran").exists()

    def test_a_process_elsewhere_is_reported_and_left_alone(self, calls: Calls) -> None:
        call = calls.shell("echo; exec sleep 60")
        calls.said(call)
        path = call.folder / "process.json"
        own = path.read_text()
        value = json.loads(own)
        path.write_text(json.dumps({**value, "host": "another"}))
        report = Call.attach(calls.run_dir, call.call_id).end("killed", "test")
        assert not report.ended
        assert "another" in report.survivors[0]
        path.write_text(own)
        assert call.state() == "running"

    def test_a_number_that_was_given_out_again_is_not_signalled(self, calls: Calls) -> None:
        call = calls.start("true")
        calls.finish(call)
        time.sleep(0.03)  # start times are counted in hundredths of a second
        bystander = subprocess.Popen(["/bin/sleep", "60"], start_new_session=True)
        try:
            path = call.folder / "process.json"
            value = json.loads(path.read_text())
            path.write_text(json.dumps({**value, "pid": bystander.pid}))
            following = Call.attach(calls.run_dir, call.call_id)
            assert following.sweep() == ()
            (call.folder / "exit.json").unlink()
            assert following.end("killed", "test", grace=0.1).ended
            assert bystander.poll() is None
        finally:
            bystander.kill()
            bystander.wait()

    def test_a_wrapper_that_cannot_write_is_ended_in_the_end(
        self, calls: Calls, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(call_module, "WRAPPER", 0.3)
        call = calls.shell("echo; exec sleep 60")
        calls.said(call)
        (call.folder / ".exit.json.tmp").mkdir()
        report = call.end("stopped", "test")
        assert report.ended, report
        assert call.state() == "ended"
        assert call.exit() is None


class TestSweep:
    @linux
    def test_an_orphan_that_kept_only_the_lock_is_ended_and_named(self, calls: Calls) -> None:
        call = calls.python(ORPHAN + "raise SystemExit")
        hidden = int(calls.said(call))
        (calls.work / "seen").touch()
        assert calls.finish(call) == 0
        (name,) = call.sweep()
        assert name.endswith(f" (pid {hidden})")
        assert not alive(hidden)
        assert call.sweep() == ()

    def test_what_an_ended_call_left_behind_is_ended_and_named(self, calls: Calls) -> None:
        call = calls.shell("sleep 600 & echo $!; exit 0")
        assert calls.finish(call) == 0
        left = int(calls.said(call))
        until(lambda: Member(left, identity.started_at(left) or 0).name() == "sleep")
        assert call.sweep() == (f"sleep (pid {left})",)
        assert not alive(left)
        assert call.sweep() == ()
        assert call.exit() is not None
        assert call.ending() is None

    def test_by_another_process_too_and_outside_the_session(self, calls: Calls) -> None:
        call = calls.python(
            """
            import subprocess
            for env in (None, {}):
                child = subprocess.Popen(
                    ["/bin/sleep", "600"], env=env, start_new_session=env is None, stdout=subprocess.DEVNULL
                )
                print(child.pid, flush=True)
                child.returncode = 0
            """
        )
        assert calls.finish(call) == 0
        pids = [int(line) for line in call.stdout.read_text().split()]
        members = [Member(pid, identity.started_at(pid) or 0) for pid in pids]
        until(lambda: all(member.name() == "sleep" for member in members))
        adopted = Call.attach(calls.run_dir, call.call_id)
        assert sorted(adopted.sweep()) == sorted(f"sleep (pid {pid})" for pid in pids)
        assert not any(alive(pid) for pid in pids)

    def test_one_that_ignores_sigterm(self, calls: Calls) -> None:
        call = calls.shell("(trap '' TERM; echo; while :; do sleep 0.05; done) & exit 0")
        calls.said(call)
        assert calls.finish(call) == 0
        assert any(name.startswith("sh (pid ") for name in call.sweep(grace=0.2))
        assert call.sweep() == ()

    def test_other_calls_are_left_alone(self, calls: Calls) -> None:
        other = calls.shell("echo; exec sleep 60")
        calls.said(other)
        call = calls.start("true")
        calls.finish(call)
        assert call.sweep() == ()
        assert Call.attach(calls.run_dir, call.call_id).sweep() == ()
        assert other.state() == "running"

    def test_finding_nothing_is_cheap(self, calls: Calls) -> None:
        call = calls.start("true")
        calls.finish(call)
        adopted = Call.attach(calls.run_dir, call.call_id)
        best = min(self.timed(adopted) for _ in range(20))
        processes = len(os.listdir("/proc")) if Path("/proc").is_dir() else 400
        assert best < 0.002 + processes * 0.00006

    @staticmethod
    def timed(call: Call) -> float:
        began = time.perf_counter()
        assert call.sweep() == ()
        return time.perf_counter() - began


class TestOutput:
    def test_a_follower_reads_only_what_is_new_in_bounded_pieces(self, tmp_path: Path) -> None:
        path = tmp_path / "log"
        follower = OutputFollower(path, chunk=4)
        assert (follower.read(), follower.total, follower.offset) == (b"", 0, 0)
        path.write_bytes(b"0123456789")
        assert follower.total == 10
        assert [follower.read() for _ in range(4)] == [b"0123", b"4567", b"89", b""]
        with path.open("ab") as file:
            file.write(b"ab")
        assert follower.read() == b"ab"
        assert follower.offset == follower.total == 12
        follower.close()
        assert follower.read() == b""
        follower.close()

    def test_the_end_of_a_log(self, tmp_path: Path) -> None:
        path = tmp_path / "log"
        assert read_tail(path, 5) == b""
        path.write_bytes(b"0123456789")
        assert read_tail(path, 5) == b"56789"
        assert read_tail(path, 50) == b"0123456789"

    def test_much_on_stderr_and_bytes_that_are_no_text(self, calls: Calls) -> None:
        call = calls.python(
            """
            import sys
            sys.stderr.write("e" * 200_000); sys.stderr.flush()
            sys.stdout.buffer.write(b"\\xff" + b"x" * 1_000_000)
            """
        )
        assert calls.finish(call) == 0
        assert call.stderr.stat().st_size == 200_000
        assert call.stdout.stat().st_size == 1_000_001


class TestEnvironment:
    def test_what_leads_elsewhere_is_removed(self) -> None:
        base = {
            "GIT_DIR": "/elsewhere/.git",
            "GIT_INDEX_FILE": "x",
            "GIT_CONFIG_COUNT": "1",
            "CLAUDECODE": "1",
            "CLAUDE_CODE_ENTRYPOINT": "cli",
            "CLAUDE_CODE_SSE_PORT": "1",
            "CODEX_SANDBOX": "seatbelt",
            "CODEX_THREAD_ID": "t",
            "GEMINI_CLI": "1",
            "MESHTUI_CALL_ID": "outer",
            "MESHTUI_RUN_DIR": "/outer",
        }
        stays = {
            "PATH": "/bin",
            "VIRTUAL_ENV": "/v",
            "CODEX_HOME": "/c",
            "CLAUDE_CODE_OAUTH_TOKEN": "t",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "ANTHROPIC_API_KEY": "k",
            "LEGIT_DIR": "x",
        }
        assert scrubbed_environment({**base, **stays}) == stays
