"""A program on a terminal of its own, and when it first shows something."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import psutil

from tests.benchmarks.timing import python, python_environment

_CONTROL = re.compile(rb"\x1b\[[0-9;?<>=]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>]")
_CALM_SECONDS = 0.5
_CALM_PERCENT = 10.0
_KEPT = 4096
"""How much of what was shown before is kept, for a word that comes in two pieces."""


class Terminal:
    """Runs ``python`` with ``arguments`` on a terminal of 120 columns and 40 rows; ends it on leaving."""

    def __init__(self, arguments: Sequence[str], *, raw: bool = False) -> None:
        """``raw`` keeps control sequences, for who looks for colours."""
        self._keep_control = raw
        self._main, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.began = time.perf_counter()
        self._process = subprocess.Popen(
            python(arguments),
            stdin=child,
            stdout=child,
            stderr=child,
            env={**python_environment(), "TERM": "xterm-256color", "COLORTERM": "truecolor"},
            start_new_session=True,
        )
        os.close(child)
        self._text = b""
        self._ended = False
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """The program's process."""
        return self._process.pid

    def _read(self) -> None:
        raw = b""
        while True:
            try:
                raw += os.read(self._main, 1 << 16)
            except OSError:
                break
            # An unfinished control sequence waits for its end.
            cut = raw.rfind(b"\x1b", max(0, len(raw) - 32))
            whole, raw = (raw, b"") if cut == -1 or _CONTROL.match(raw, cut) else (raw[:cut], raw[cut:])
            with self._news:
                self._text += whole if self._keep_control else _CONTROL.sub(b"", whole)
                if len(self._text) > (1 << 22):
                    self._text = self._text[-(1 << 20) :]
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def shows(self, word: str, *, limit: float = 60.0) -> float:
        """Wait until ``word`` is shown anew; the moment in :func:`time.perf_counter`."""
        needle = word.encode()
        end = time.monotonic() + limit
        with self._news:
            while (found := self._text.find(needle)) == -1:
                if self._ended or not self._news.wait(max(0.0, end - time.monotonic())):
                    tail = self._text[-500:].decode(errors="replace")
                    raise RuntimeError(f"{word!r} was not shown; at the end: {tail!r}")
                if len(self._text) > (1 << 22):
                    self._text = self._text[-_KEPT:]
            moment = time.perf_counter()
            self._text = self._text[found + len(needle) :]
        return moment

    def send(self, keys: str) -> None:
        """Type ``keys``."""
        os.write(self._main, keys.encode())

    def forget(self) -> None:
        """Look only at what is shown from now on."""
        with self._news:
            self._text = b""

    def matches(
        self, pattern: re.Pattern[bytes], *, limit: float = 60.0, other_than: bytes | None = None
    ) -> tuple[float, bytes]:
        """Wait until ``pattern`` is shown with a first group that is not ``other_than``: when, and the group."""
        end = time.monotonic() + limit
        with self._news:
            while True:
                for found in pattern.finditer(self._text):
                    if found[1] != other_than:
                        return time.perf_counter(), found[1]
                if self._ended or not self._news.wait(max(0.0, end - time.monotonic())):
                    tail = self._text[-500:].decode(errors="replace")
                    raise RuntimeError(f"{pattern.pattern!r} was not shown; at the end: {tail!r}")

    def press(self, keys: bytes) -> float:
        """Type ``keys``, forgetting what was shown before; the moment in :func:`time.perf_counter`."""
        with self._news:
            self._text = b""
        moment = time.perf_counter()
        os.write(self._main, keys)
        return moment

    def settle(self, *, limit: float = 60.0) -> None:
        """Wait until the program has read what there is: until it takes hardly any processor time."""
        process = psutil.Process(self.pid)
        end = time.monotonic() + limit
        process.cpu_percent()
        while time.monotonic() < end:
            time.sleep(_CALM_SECONDS)
            if process.cpu_percent() < _CALM_PERCENT:
                return
        raise RuntimeError("the program does not come to rest")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._main)
        self._thread.join(5)
