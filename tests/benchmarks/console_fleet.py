"""A console over many lanes that change all the time: keys, processor, memory."""

from __future__ import annotations

import random
import re
import statistics
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import psutil

from tests.benchmarks.fleet_load import READY
from tests.benchmarks.table import Row
from tests.benchmarks.terminal import Terminal
from tests.benchmarks.timing import python, python_environment

MEDIAN_MS, P95_MS = 50.0, 150.0
CPU_PERCENT = 60.0
MEMORY_MB = 250.0
FLAT = 1.05
"""How much more memory the last quarter of a run may take than the second one."""
SELECTED = rb"48;2;40;52;87m[^\x1b]*"
"""The background of the selected line, and the text on it."""
LANE = re.compile(SELECTED + rb"(lane-\d\d)")
JOB = re.compile(SELECTED + rb"(job-\d\d-\d{6})")
SETTLE_SECONDS = 6.0
MINUTES = 1.0
"""How long processor and memory are looked at besides; set by ``--minutes``."""


class Load:
    """Run directories that another process changes; ends it on leaving."""

    def __init__(self, root: Path, *, lanes: int, loops: int, pending: int, rate: float) -> None:
        arguments = ["-m", "tests.benchmarks.fleet_load", str(root), "--lanes", str(lanes)]
        arguments += ["--loops", str(loops), "--pending", str(pending), "--rate", str(rate)]
        self._process = subprocess.Popen(
            python(arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=python_environment(),
        )
        self.rate: float | None = None
        """How many changes a second there were, once it is over."""
        self._expect("built")

    def _expect(self, word: str) -> None:
        line = self._out.readline().strip()
        if line != word:
            raise RuntimeError(f"the load said {line!r} and not {word!r}")

    @property
    def _out(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    def begin(self) -> None:
        """Change them from now on."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self._expect(READY)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._process as process:
            process.terminate()
            said = self._out.read().strip()
        self.rate = float(said) if error is None else None


@dataclass(slots=True)
class Use:
    """Processor and memory of a program over a while."""

    percents: list[float] = field(default_factory=list)
    """Of one core, second by second."""
    megabytes: list[float] = field(default_factory=list)

    @property
    def cpu(self) -> float:
        return statistics.fmean(self.percents) if self.percents else 0.0

    @property
    def most(self) -> float:
        return max(self.megabytes, default=0.0)

    @property
    def growth(self) -> float:
        """The median of the last quarter of the time over that of the second quarter."""
        quarter = len(self.megabytes) // 4
        if not quarter:
            return 1.0
        before = statistics.median(self.megabytes[quarter : 2 * quarter])
        return statistics.median(self.megabytes[-quarter:]) / before


class Watch:
    """Looks at a process once a second from a thread."""

    def __init__(self, pid: int, *, every: float = 1.0) -> None:
        self.use = Use()
        self._process = psutil.Process(pid)
        self._every = every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        spent, at = self._spent(), time.perf_counter()
        while not self._stop.wait(self._every):
            now_spent, now = self._spent(), time.perf_counter()
            self.use.percents.append((now_spent - spent) / (now - at) * 100)
            self.use.megabytes.append(self._process.memory_info().rss / (1 << 20))
            spent, at = now_spent, now

    def _spent(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Keys in the fleet and in an opened lane while everything changes, then a while without keys."""
    lanes, loops, pending, rate, keys = (3, 6, 60, 40.0, 4) if quick else (20, 2000, 50_000, 200.0, 200)
    seconds = 1.0 if quick else MINUTES * 60
    root = folder / "lanes"
    root.mkdir()
    console = ["-m", "meshtui", "--run-dir", str(root)]
    with (
        Load(root, lanes=lanes, loops=loops, pending=pending, rate=rate) as load,
        Terminal(console, raw=True) as terminal,
    ):
        terminal.shows("parked", limit=120)
        terminal.settle()
        load.begin()
        # What is read first, what is compiled first: over before anything counts.
        time.sleep(0.5 if quick else SETTLE_SECONDS)
        with Watch(terminal.pid, every=0.2 if quick else 1.0) as watch:
            fleet = _in_the_fleet(terminal, keys)
            lane = _in_a_lane(terminal, keys)
            time.sleep(seconds)
        terminal.send("q")
    what = f"{lanes} lanes, {loops:,} loops, {pending:,} pending, {rate:.0f} changes a second"
    return [
        *_rows(f"key to repaint in the fleet: {what}", fleet),
        *_rows("key to repaint in one of its lanes", lane),
        Row("changes that were made", load.rate or 0.0, "/s", least=rate * 0.9),
        Row("the console's processor, of one core", watch.use.cpu, "%", CPU_PERCENT,
            f"over {len(watch.use.percents)} samples, the busiest {max(watch.use.percents, default=0):.0f} %"),
        Row("the console's memory, at most", watch.use.most, "MB", MEMORY_MB),
        Row(f"the console's memory, last quarter / second quarter of {seconds / 60:.1f} min",
            watch.use.growth, "x", FLAT),
    ]  # fmt: skip


def _rows(name: str, seconds: list[float]) -> list[Row]:
    times = sorted(value * 1000 for value in seconds)
    p95 = times[min(len(times) - 1, int(len(times) * 0.95))]
    detail = f"{len(times)} keys, best {times[0]:.1f}, worst {times[-1]:.0f} ms"
    return [
        Row(f"{name}: median", statistics.median(times), "ms", MEDIAN_MS, detail),
        Row("  of 20 keys 19 within", p95, "ms", P95_MS),
    ]


def _in_the_fleet(terminal: Terminal, keys: int) -> list[float]:
    """The cursor goes up and down the table of lanes."""
    # What needs somebody has the focus; the table of lanes is the other panel.
    return _press(terminal, keys, LANE, before=lambda: terminal.send("\t"))


def _in_a_lane(terminal: Terminal, keys: int) -> list[float]:
    """The same in the queue of one lane, where nothing is worked on soon: at its end."""
    terminal.send("\r")
    terminal.shows("pending", limit=30)
    time.sleep(1.0)

    def to_the_end() -> None:
        terminal.send("G")

    found = _press(terminal, keys, JOB, before=to_the_end)
    terminal.send("F")
    terminal.shows("lanes", limit=30)
    return found


def _press(
    terminal: Terminal, keys: int, pattern: re.Pattern[bytes], *, before: Callable[[], None]
) -> list[float]:
    """Seconds from each key to the paint of the line it selects."""
    before()
    time.sleep(1.0)
    ways, found = ("kj" if pattern is LANE else "jk"), []
    terminal.send(ways[1])
    time.sleep(1.0)
    # A dialog that opens and closes has everything drawn anew: what is selected now is seen.
    terminal.forget()
    for _ in range(2):
        terminal.send("?")
        time.sleep(0.5)
    selected = terminal.matches(pattern, limit=20)[1]
    for number in range(keys):
        time.sleep(random.uniform(0.05, 0.25))
        terminal.forget()
        began = time.perf_counter()
        terminal.send(ways[number % 2])
        moment, now = terminal.matches(pattern, limit=20, other_than=selected)
        found.append(moment - began)
        selected = now
    return found
