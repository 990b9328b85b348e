"""Timing that survives a noisy machine: both sides in turn, medians, and the scatter beside them."""

from __future__ import annotations

import atexit
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path


@dataclass(slots=True)
class Samples:
    """Durations of one thing, in seconds."""

    seconds: list[float] = field(default_factory=list)

    def add(self, seconds: float) -> None:
        """Take one more."""
        self.seconds.append(seconds)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def scatter(self) -> float:
        """Half the range of the middle half, as a part of the median."""
        if len(self.seconds) < 4:
            return 0.0
        low, _, high = statistics.quantiles(self.seconds, n=4)
        return (high - low) / 2 / self.median

    def __str__(self) -> str:
        return f"{self.median * 1000:.3g} ms ±{self.scatter:.0%} (best {self.best * 1000:.3g})"


def timed(what: Callable[[], object]) -> float:
    """Seconds that one call of ``what`` takes."""
    begin = time.perf_counter()
    what()
    return time.perf_counter() - begin


def in_turn(rounds: int, *sides: Callable[[int], object]) -> list[Samples]:
    """Call ``sides`` one after the other, ``rounds`` times with the number of the round, timing each."""
    found = [Samples() for _ in sides]
    for number in range(rounds):
        for side, samples in zip(sides, found, strict=True):
            begin = time.perf_counter()
            side(number)
            samples.add(time.perf_counter() - begin)
    return found


def paired(first: Samples, second: Samples) -> float:
    """How many times as long the first takes: the median over the pairs, so that drift cancels."""
    return statistics.median(a / b for a, b in zip(first.seconds, second.seconds, strict=True))


class Floor:
    """The least a durable new file takes: temporary file, fsync, rename, fsync of the folder."""

    def __init__(self, folder: Path, size: int = 300) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = str(folder)
        self._data = b"x" * size
        self._count = 0

    def __call__(self, _: int = 0) -> None:
        self._count += 1
        name = f"{self._folder}/{self._count:012d}.json"
        temporary = f"{name}.tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.write(fd, self._data)
        os.fsync(fd)
        os.close(fd)
        os.rename(temporary, name)
        fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        os.fsync(fd)
        os.close(fd)


def bare_start(_: int = 0) -> None:
    """Start a command that does nothing, as bare as can be, and wait for it."""
    pid = os.posix_spawn("/bin/sh", ["/bin/sh", "-c", ":"], os.environ)
    os.waitpid(pid, 0)


@cache
def _compiled() -> str:
    """A folder for compiled modules, removed when this process ends."""
    folder = tempfile.mkdtemp(prefix="bench-compiled-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def python_environment() -> dict[str, str]:
    """What this interpreter is started with."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MESHTUI_")}
    # What is installed was compiled when it was installed; a working copy is compiled by the first run.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    for name in ("COLUMNS", "LINES"):
        # Whoever runs the tests may have them set; a console would believe them, not its terminal.
        environment.pop(name, None)
    return {**environment, "PYTHONPYCACHEPREFIX": _compiled()}


def python(arguments: Sequence[str]) -> list[str]:
    """The command line of this interpreter with ``arguments``."""
    return [sys.executable, *arguments]


def run_python(arguments: Sequence[str]) -> None:
    """Run this interpreter with ``arguments``, its output thrown away; raises if it fails."""
    done = subprocess.run(
        python(arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=python_environment(),
        check=False,
    )
    if done.returncode not in (0, 1, 5):
        raise RuntimeError(f"{arguments}: exit {done.returncode}: {done.stderr.decode(errors='replace')}")


def meshtui(*arguments: str) -> None:
    """Run the command line in a process of its own."""
    run_python(["-m", "meshtui", *arguments])
