"""The command line as a process: streams that are closed, broken or not UTF-8, and signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import Cli, environment, spawn, start
from tests.support.waiting import wait_until

ASCII = {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def shell(script: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[bytes]:
    """A shell line with ``meshtui`` in it."""
    script = f'meshtui() {{ "{sys.executable}" -P -m meshtui "$@"; }}\n{script}'
    return subprocess.run(
        ["/bin/sh", "-c", script],
        cwd=cwd,
        env=environment(**env),
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def here(cli: Cli, tmp_path: Path) -> Path:
    """A folder with a lane in ``run`` that holds two envelopes."""
    for key in ("é\u202e\x9b", "b"):
        said = cli(
            "enqueue",
            "--prompt",
            "x\x1b]52;c;eA==\x07",
            "--id",
            key.replace("\x9b", ""),
            "--engine",
            "command",
        )
        assert said.code == 0
    return tmp_path


class TestStreams:
    @pytest.mark.parametrize(
        "command",
        [
            "status", "status --json", "events", "wait b --for pending", "enqueue --prompt y", "interrupt",
            "lane --until-idle --run cat", "doctor", "prune", "pause", "logs b", "--headless --json",
        ],
    )  # fmt: skip
    def test_all_three_closed(self, command: str, here: Path) -> None:
        done = shell(f"meshtui {command} --run-dir run <&- >&- 2>&-", here)
        assert done.returncode == (3 if command == "logs b" else 0)
        assert (done.stdout, done.stderr) == (b"", b"")

    def test_stdin_closed_where_it_is_read(self, here: Path) -> None:
        for source in ("-", "--jsonl -"):
            done = shell(f"meshtui enqueue {source} --run-dir run <&-", here)
            assert done.returncode == 2
            assert done.stderr == b"meshtui: standard input is closed; use --file or --jsonl with a file\n"

    def test_nobody_reads(self, here: Path) -> None:
        done = shell(
            "meshtui status --json --run-dir run | true; meshtui events --run-dir run | head -c 1", here
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert len(done.stdout) == 1

    def test_a_full_disk_under_stdout(self, here: Path) -> None:
        done = shell("meshtui status --json --run-dir run > /dev/full", here)
        assert done.returncode == 1
        assert done.stderr.count(b"\n") == 1
        assert b"No space left" in done.stderr

    @pytest.mark.parametrize("listener", ["> /dev/full", "| head -n 1", "> /dev/full 2>&1"])
    def test_a_runner_goes_on_when_nobody_can_hear_it(self, listener: str, here: Path) -> None:
        done = shell(f"meshtui lane --until-idle --run 'sleep 0.2' --run-dir run {listener}", here)
        assert done.returncode == 0
        assert done.stderr.count(b"\n") == (0 if listener.endswith("2>&1") else 1), done.stderr
        status = json.loads(shell("meshtui status --json --run-dir run", here).stdout)
        assert (status["lane"]["state"], status["queue"]["counts"]["done"]) == ("waiting", 2)

    def test_an_open_pipe_on_stdin(self, here: Path) -> None:
        """The command reads its prompt to the end, not what waits on the runner's own stdin."""
        process = start(
            "lane", "--run-dir", "run", "--until-idle", "--run", "cat", "--json", cwd=here, stdin=subprocess.PIPE
        )  # fmt: skip
        assert process.wait(30) == 0
        out, err = process.communicate()
        assert (json.loads(out)["completed"], err) == (2, b"")
        result = json.loads((here / "run" / "loop" / "results" / "b.json").read_text())
        assert result["output"] == "x\x1b]52;c;eA==\x07"


class TestLocale:
    def test_c(self, here: Path) -> None:
        for command in ("status", "events", "interrupt", "restore", "status --json"):
            done = shell(f"meshtui {command} --run-dir run", here, **ASCII)
            assert (done.returncode, done.stderr) == (0, b"")
            assert done.stdout.isascii()
        done = shell('meshtui enqueue --prompt "é" --id "u-ü" --json --run-dir run', here, **ASCII)
        assert done.returncode == 0
        assert json.loads(done.stdout)["envelope_id"] in ("u-ü", "u-\ufffd\ufffd")

    def test_errors_and_logs(self, here: Path) -> None:
        done = shell('meshtui withdraw "é" --run-dir run', here, **ASCII)
        assert done.returncode == 3
        assert done.stderr.count(b"\n") == 1
        done = shell(
            "meshtui lane --until-idle --run 'printf é' --run-dir run; meshtui logs b --run-dir run",
            here,
            **ASCII,
        )
        assert (done.returncode, done.stderr) == (0, b"")

    def test_no_sequence_reaches_the_terminal(self, here: Path) -> None:
        script = "printf '\\033]0;title\\007\\033[2J\\302\\233m\\r'"
        done = shell(
            f'meshtui lane --until-idle --run "{script}; echo >&2 {script}; exit 1" --run-dir run;'
            "meshtui logs b --run-dir run; meshtui status --run-dir run; meshtui events --run-dir run",
            here,
        )
        text = done.stdout.decode()
        assert "title" in text
        assert not any(ord(character) < 0x20 and character not in "\n\t" for character in text)
        assert not any(0x7F <= ord(character) < 0xA0 for character in text)
        assert "\u202e" not in text


class TestSignals:
    def test_an_interrupt(self, here: Path) -> None:
        process = start(
            "events", "--follow", "--run-dir", "run", cwd=here,
            # Who starts the tests in the background has it ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert (process.returncode, err.strip()) == (130, b"meshtui: cancelled")

    def test_a_process_group_that_is_interrupted(self, here: Path) -> None:
        """As a terminal does it: the runner ends the call, which is in a session of its own."""
        process = start(
            "lane", "--run-dir", "run", "--run", "sleep 600", "--json", cwd=here, start_new_session=True
        )  # fmt: skip
        # Only once it leads its session is the call out of the terminal's reach.
        calls = here / "run" / "calls"
        wait_until(lambda: any(path.stat().st_size for path in calls.glob("*/process.json")))
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, err) == (130, b"")
        assert json.loads(out)["state"] == "aborted"


def test_a_module_of_the_same_name_is_not_run(here: Path) -> None:
    """A repository may have a ``core`` or a ``meshtui`` folder of its own."""
    for name in ("core", "meshtui", "click"):
        (here / name).mkdir()
        (here / name / "__init__.py").write_text("raise SystemExit('the wrong one')\n")
    said = spawn("status", "--run-dir", "run", "--json", cwd=here)
    assert (said.code, said.err) == (0, "")
    assert said.json["kind"] == "lane"
