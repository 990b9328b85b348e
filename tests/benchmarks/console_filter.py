"""Filtering a long list on a terminal: from what is typed to how many rows are left."""

from __future__ import annotations

import time
from pathlib import Path

from tests.benchmarks.lanes import make_lane, unsynced
from tests.benchmarks.table import Row
from tests.benchmarks.terminal import Terminal
from tests.benchmarks.timing import Samples

LIMIT_MS = 200.0
WORDS = ("half", "hale", *["other"] * 8)
"""What the rows are called, in turn: before the last letter twice as many match."""
NARROW = WORDS[0]


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """A word and a field, typed into the filter of a list that nothing else changes."""
    size, rounds = (60, 2) if quick else (50_000, 11)
    run_dir, lane = make_lane(folder / "run")
    with unsynced():
        lane.enqueue_many([_envelope(number) for number in range(size)])
    rows = []
    with Terminal(["-m", "meshtui", "--run-dir", str(run_dir.root)]) as terminal:
        terminal.shows("firstrow")
        # Until then only the names of most records are known.
        terminal.settle(limit=180)
        for what, text in (("a word", NARROW), ("a field", f"story:{NARROW}")):
            rows.append(_typed(terminal, what, text, size, rounds))
    return rows


def _envelope(number: int) -> dict[str, object]:
    return {
        "kind": "phase",
        "id": f"p-{number}",
        "prompt": "x",
        "phase": "firstrow" if number == 0 else "implement",
        "story_id": f"{WORDS[number % len(WORDS)]}-{number}",
        "engine": "command",
    }


def _typed(terminal: Terminal, what: str, text: str, size: int, rounds: int) -> Row:
    """From the last letter to the count of what it leaves; each letter before it is filtered by, too."""
    left = size // len(WORDS)
    seen = Samples()
    for number in range(rounds + 1):
        terminal.press(b"/")
        terminal.shows("fields:")
        terminal.press(text[:-1].encode())
        terminal.shows(f"{2 * left:,} of {size:,}")
        time.sleep(0.5)
        began = terminal.press(text[-1].encode())
        seconds = terminal.shows(f"{left:,} of {size:,}") - began
        if number:
            seen.add(seconds)
        terminal.press(b"\x1b")
        terminal.shows("firstrow")
        time.sleep(0.3)
    return Row(
        f"filter of {size:,} rows by {what}, typed to shown", seen.median * 1000, "ms", LIMIT_MS, str(seen)
    )
