"""A child program with a limit on its time and on what is kept of its output."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_CHUNK = 1 << 16
_TICK = 0.1
_GRACE = 1.0
KEEP_ERR = 1 << 16


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a program."""

    code: int | None
    """Its exit code, negative for a signal; ``None`` when its time ran out and it was ended."""
    out: bytes
    """The beginning of its output, as much as was to be kept."""
    out_bytes: int
    """How much it wrote in all."""
    err: bytes
    """The end of its error output, at most 64 KiB."""


class _Reader:
    """Collects one stream: its first ``keep`` bytes, or with ``tail`` its last ones."""

    def __init__(self, keep: int | None, *, tail: bool = False) -> None:
        self._keep = keep
        self._tail = tail
        self.data = bytearray()
        self.total = 0

    def take(self, part: bytes) -> None:
        self.total += len(part)
        if self._keep is None:
            self.data += part
        elif self._tail:
            self.data += part
            del self.data[: -self._keep]
        else:
            self.data += part[: max(0, self._keep - len(self.data))]


def run_bounded(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout: float,
    input: bytes | None = None,
    keep: int | None = None,
    stdout: int | None = None,
) -> Outcome:
    """Run ``argv`` to its end, at most ``timeout`` seconds, in a session of its own without a terminal.

    Its process group is ended when the time is up, and also when it ends itself but leaves a process
    that holds its output open. Output goes to descriptor ``stdout`` where one is given.
    Raises ``OSError`` when it cannot be started.
    """
    process = subprocess.Popen(
        list(argv),
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
        stdout=subprocess.PIPE if stdout is None else stdout,
        stderr=subprocess.PIPE,
        start_new_session=True,
        bufsize=0,
    )
    out, err = _Reader(keep), _Reader(KEEP_ERR, tail=True)
    try:
        in_time = _exchange(process, input, out, err, time.monotonic() + timeout)
    finally:
        if not _has_ended(process):
            _end_group(process)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        code = process.wait()
    return Outcome(code if in_time else None, bytes(out.data), out.total, bytes(err.data))


def _exchange(
    process: subprocess.Popen[bytes], data: bytes | None, out: _Reader, err: _Reader, end: float
) -> bool:
    """Feed and read ``process`` until it is over; ``False`` if its time ran out first."""
    quiet = 0
    with selectors.DefaultSelector() as selector:
        readers = {}
        for stream, reader in ((process.stdout, out), (process.stderr, err)):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ)
                readers[stream.fileno()] = reader
        pending = memoryview(data or b"")
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
        while selector.get_map():
            left = end - time.monotonic()
            if left <= 0:
                return False
            ready = selector.select(min(left, _TICK))
            quiet = 0 if ready else quiet + 1
            if quiet >= 2 and _has_ended(process):
                _signal_group(process.pid, signal.SIGKILL)
                return True
            for key, _events in ready:
                if key.fd in readers:
                    part = os.read(key.fd, _CHUNK)
                    readers[key.fd].take(part)
                    if not part:
                        selector.unregister(key.fileobj)
                else:
                    pending = _feed(key.fd, pending)
                    if not pending:
                        selector.unregister(key.fileobj)
                        assert process.stdin is not None
                        process.stdin.close()
    return _wait_ended(process, end)


def _feed(fd: int, pending: memoryview) -> memoryview:
    """Write what fits; a program that reads no further gets nothing more."""
    try:
        return pending[os.write(fd, pending[:_CHUNK]) :] if pending else pending  # noqa: TID251 - a pipe
    except BlockingIOError:
        return pending
    except BrokenPipeError:
        return pending[:0]


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the child ended; where that is possible it stays a zombie, so that its number stays its own."""
    if process.returncode is not None or not hasattr(os, "waitid"):
        return process.poll() is not None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _wait_ended(process: subprocess.Popen[bytes], end: float) -> bool:
    pause = 0.0005
    while not _has_ended(process):
        if time.monotonic() >= end:
            return False
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
    return True


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Ask first: git removes its lock files when it is told to end."""
    _signal_group(process.pid, signal.SIGTERM)
    _wait_ended(process, time.monotonic() + _GRACE)
    _signal_group(process.pid, signal.SIGKILL)


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return
