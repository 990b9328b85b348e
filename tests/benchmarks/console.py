"""The console on a terminal: its first frame with real rows, and how soon a change is on screen.

``python -m tests.benchmarks.console [ROW ...] [--quick] [--minutes N]`` prints every figure of a console.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from meshtui.core import storage
from meshtui.core.clock import SystemClock, iso
from meshtui.core.models.names import RecordName
from meshtui.core.models.record import Record
from meshtui.core.run_dir import RunDir
from tests.benchmarks.lanes import finished_and_pending, phase
from tests.benchmarks.table import Row
from tests.benchmarks.terminal import Terminal
from tests.benchmarks.timing import Samples, paired

FRAME_LIMIT = 2.0
CHANGE_LIMIT_MS = 60.0
MARK = "firstframe"
EMPTY = f"""
from textual.app import App
from textual.widgets import Static


class Empty(App):
    def compose(self):
        yield Static("{MARK}")


Empty().run()
"""


ROWS = {
    "console": "the first frame, and how soon a change is on screen",
    "console_read": "the first page of a log of 50 MB and of a diff of 20,000 lines",
    "console_fleet": "keys, processor and memory over many lanes that change all the time",
    "console_filter": "a filter of 50,000 rows",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what was asked for of a console, and print the table."""
    from tests.benchmarks import console_fleet
    from tests.benchmarks.lane import drive

    words = list(sys.argv[1:] if arguments is None else arguments)
    if "--minutes" in words:
        at = words.index("--minutes")
        try:
            console_fleet.MINUTES = float(words[at + 1])
        except (IndexError, ValueError):
            print("--minutes needs a number: how long memory is looked at", file=sys.stderr)
            return 2
        del words[at : at + 2]
    return drive("console", ROWS, words)


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """First frames in turn with those of an empty app, then changes one after the other."""
    size, rounds, changes = (20, 1, 2) if quick else (10_000, 11, 60)
    run_dir = finished_and_pending(folder / "run", size, label=MARK, story_id="")
    return [
        _frames(run_dir, rounds, size),
        _changes(run_dir, changes, size),
    ]


def _console(run_dir: RunDir) -> list[str]:
    return ["-m", "meshtui", "--run-dir", str(run_dir.root)]


def _frames(run_dir: RunDir, rounds: int, size: int) -> Row:
    console, empty = Samples(), Samples()
    for number in range(rounds + 1):
        for arguments, samples in ((_console(run_dir), console), (["-c", EMPTY], empty)):
            with Terminal(arguments) as terminal:
                seconds = terminal.shows(MARK) - terminal.began
                if number:
                    # The first round compiles and warms up.
                    samples.add(seconds)
    return Row(
        f"first frame with rows / an empty app, {size:,} pending and finished",
        paired(console, empty),
        "x",
        FRAME_LIMIT,
        f"console {console}; empty app {empty}; best / best {console.best / empty.best:.2f}",
    )


def _changes(run_dir: RunDir, count: int, size: int) -> Row:
    """A record is put near the head again and again, each under a label of its own."""
    seen = Samples()
    with Terminal(_console(run_dir)) as terminal:
        terminal.shows(MARK)
        terminal.settle()
        for number in range(count):
            label = f"change{number:04d}"
            now = SystemClock().now_ms()
            envelope = {**phase(number, "head"), "label": label, "story_id": ""}
            # The first record, which is selected, stays where it is.
            name = str(RecordName.new(size + 1, now, f"head-{number}"))
            record = Record.new(name, f"head-{number}", iso(now), envelope)
            path = run_dir.lane.pending / name
            storage.write_atomic(path, record.as_bytes(), durable=False)
            changed = time.perf_counter()
            seen.add(terminal.shows(label) - changed)
            storage.remove_file(path)
            terminal.shows(MARK)
            # Not in step with anything that has a rhythm.
            time.sleep(0.15 + (number % 7) * 0.031)
    slowest = sorted(seen.seconds)[int(len(seen.seconds) * 0.9)]
    return Row(
        f"change in the run directory to the cell on screen, {size:,} pending and finished",
        seen.median * 1000,
        "ms",
        CHANGE_LIMIT_MS,
        f"{seen}; nine of ten within {slowest * 1000:.0f} ms",
    )


if __name__ == "__main__":
    sys.exit(main())
