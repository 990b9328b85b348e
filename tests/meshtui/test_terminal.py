"""The console in a real terminal: it starts, answers, and gives the terminal back."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from meshtui.console import require_terminal
from meshtui.core.clock import SystemClock
from meshtui.core.errors import InvalidInput
from meshtui.core.lane.create import create_run_dir
from meshtui.core.lane.lane import Lane

ROOT = Path(__file__).parent.parent.parent
LEFT = b"\x1b[?1049l"
"""Leaves the alternate screen."""
START = (
    "import sys; from pathlib import Path; from meshtui.console import run_console; from meshtui.core.errors import MeshtuiError\n"
    "try: sys.exit(run_console(Path(sys.argv[1]), runner_options={'engine': 'command', 'run': 'sleep 600'}))\n"
    "except MeshtuiError as error: print(error, file=sys.stderr); sys.exit(error.exit_code)"
)


class Terminal:
    """A process on a pseudo terminal."""

    def __init__(self, run_dir: Path, **environment: str) -> None:
        self.master, slave = pty.openpty()
        os.set_blocking(self.master, False)
        self.seen = b""
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, str(run_dir)],
            stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30", **environment},
        )  # fmt: skip
        os.close(slave)

    def read(self) -> None:
        if select.select([self.master], [], [], 0.02)[0]:
            try:
                self.seen += os.read(self.master, 1 << 16)
            except (OSError, BlockingIOError):
                return

    def until(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < end, self.seen[-2000:]
            self.read()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    where = create_run_dir(tmp_path / "lane", SystemClock())
    Lane(where).enqueue({"kind": "phase", "prompt": "x", "id": "the-first-one"})
    return where.root


@pytest.fixture
def terminal(run_dir: Path) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def start(**environment: str) -> Terminal:
        opened.append(Terminal(run_dir, **environment))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


@pytest.mark.parametrize("environment", [{}, {"LANG": "C", "LC_ALL": "C"}, {"NO_COLOR": "1"}])
def test_it_starts_and_leaves(terminal: Callable[..., Terminal], environment: dict[str, str]) -> None:
    it = terminal(**environment)
    it.until(lambda: b"the-first-one" in it.seen)
    os.write(it.master, b"q")
    it.until(lambda: it.process.poll() is not None)
    it.read()
    assert it.process.returncode == 0
    assert LEFT in it.seen


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_gives_the_terminal_back(terminal: Callable[..., Terminal], number: int) -> None:
    it = terminal()
    it.until(lambda: b"the-first-one" in it.seen)
    it.process.send_signal(number)
    it.until(lambda: it.process.poll() is not None)
    it.read()
    assert it.process.returncode == 130
    assert LEFT in it.seen


def test_a_signal_puts_the_active_phase_back(terminal: Callable[..., Terminal], run_dir: Path) -> None:
    it = terminal()
    it.until(lambda: b"the-first-one" in it.seen)
    os.write(it.master, b"s")
    it.until(lambda: list((run_dir / "calls").glob("*/process.json")))
    it.process.send_signal(signal.SIGTERM)
    it.until(lambda: it.process.poll() is not None)
    assert it.process.returncode == 130
    assert len(list((run_dir / "loop" / "pending").glob("*.json"))) == 1
    assert list((run_dir / "loop" / "active").glob("*.json")) == []


@pytest.mark.parametrize(
    ("environment", "why"), [({"TERM": "dumb"}, b"TERM=dumb"), ({"TERM": ""}, b"cannot place text")]
)
def test_a_terminal_that_cannot_is_refused(
    terminal: Callable[..., Terminal], environment: dict[str, str], why: bytes
) -> None:
    it = terminal(**environment)
    it.until(lambda: it.process.poll() is not None)
    it.read()
    assert it.process.returncode == 2
    assert why in it.seen
    assert b"--headless" in it.seen
    assert LEFT not in it.seen


def test_no_terminal_is_refused(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        with pytest.raises(InvalidInput, match=r"needs a terminal.*--headless"):
            require_terminal(run_dir)
