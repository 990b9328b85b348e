"""A console whose terminal vanishes: it ends, and what runs is left to the next runner."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from meshtui.core.calls import Call
from meshtui.core.lane.lane import Lane
from meshtui.core.run_dir import RunDir
from tests.support.lanes import new_lane, phase
from tests.support.waiting import wait_until

PROJECT = Path(__file__).parents[2]
LIMIT = 40.0
CONTROLLED = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def opened(root: Path, *, controlled: bool) -> tuple[subprocess.Popen[bytes], int]:
    """A console on a pseudo terminal of its own, which may control it as a shell's does; and its other end."""
    main, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    console = ["-P", "-m", "meshtui", "--run-dir", str(root)]
    process = subprocess.Popen(
        [sys.executable, *(["-c", CONTROLLED] if controlled else []), *console],
        stdin=child, stdout=child, stderr=child, start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(PROJECT)},
    )  # fmt: skip
    os.close(child)
    return process, main


def read_until(main: int, text: str) -> None:
    """Read what is written until ``text`` is in it."""
    seen, end = b"", time.monotonic() + LIMIT
    while text.encode() not in seen:
        assert time.monotonic() < end, seen[-2000:]
        if select.select([main], [], [], 0.05)[0]:
            seen += os.read(main, 1 << 16)


@pytest.mark.parametrize("controlled", [True, False], ids=["controlled", "not controlled"])
def test_it_ends_with_its_terminal(controlled: bool, tmp_path: Path) -> None:
    run_dir, lane = new_lane(tmp_path / "lane")
    lane.enqueue(phase("first"))
    process, main = opened(run_dir.root, controlled=controlled)
    try:
        read_until(main, "first")
        os.close(main)
        assert process.wait(LIMIT) == 130
    finally:
        process.kill()
        process.wait()


def test_what_runs_goes_on_without_the_terminal(tmp_path: Path) -> None:
    run_dir, lane = new_lane(tmp_path / "lane")
    (run_dir.root / "meshtui.toml").write_text('[engines.command]\nrun = "sleep 600"\n')
    lane.enqueue(phase("long"))
    process, main = opened(run_dir.root, controlled=True)
    call = None
    try:
        read_until(main, "long")
        os.write(main, b"s")
        call = running(run_dir)
        os.close(main)
        assert process.wait(LIMIT) == 130
        assert call.state() == "running"
        assert Lane(run_dir).kill("long").ended == ("long",)
        assert call.state() == "ended"
    finally:
        process.kill()
        process.wait()
        if call is not None:
            call.end("killed", "test")


def running(run_dir: RunDir) -> Call:
    """The call that runs, waited for."""
    calls = run_dir.calls
    wait_until(lambda: calls.is_dir() and any(calls.iterdir()))
    (folder,) = calls.iterdir()
    call = Call.attach(run_dir, folder.name)
    wait_until(lambda: call.state() == "running")
    return call
