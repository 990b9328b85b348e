"""Reading in the console, on a terminal: how soon a long log and a long diff show their first page.

``python -m tests.benchmarks.console_read`` measures this alone.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import psutil

from tests.benchmarks.table import Row, missed, render
from tests.benchmarks.terminal import Terminal
from tests.benchmarks.timing import Samples

LIMIT_MS = 300.0
MEMORY_LIMIT_MB = 250.0
LOOP = "loop-read"
FIRST, LAST, FOUND = "the-first-line", "the-last-line", "the-needle"


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """A fresh console each time, so that nothing was read before; files are in the system's cache."""
    size, lines, rounds = (200_000, 200, 1) if quick else (50_000_000, 20_000, 5)
    root = folder / "run"
    _make(root, size, lines)
    opened, ended, searched, diffed = Samples(), Samples(), Samples(), Samples()
    memory = 0.0
    for _ in range(rounds):
        with Terminal(["-m", "meshtui", "--run-dir", str(root)]) as terminal:
            # In the details: before that a key may find nothing selected.
            terminal.shows("iteration")
            terminal.settle()
            diffed.add(-terminal.press(b"d") + terminal.shows("first_added_line"))
            terminal.press(b"d")
            terminal.shows("long.log")
            # To the details, and the gate that is pointed at first.
            terminal.press(b"\t")
            terminal.shows("full screen")
            opened.add(-terminal.press(b"\r") + terminal.shows(FIRST))
            ended.add(-terminal.press(b"G") + terminal.shows(LAST))
            terminal.press(b"/")
            searched.add(-terminal.press(FOUND.encode()) + terminal.shows("1 of 1"))
            memory = max(memory, psutil.Process(terminal.pid).memory_info().rss / 1e6)
    megabytes = f"{size / 1e6:.0f} MB" if not quick else f"{size / 1e3:.0f} kB"
    return [
        Row(f"a log of {megabytes} shows its first page", opened.median * 1000, "ms", LIMIT_MS, str(opened)),
        Row(f"the end of a log of {megabytes}", ended.median * 1000, "ms", LIMIT_MS, str(ended)),
        Row(
            f"a diff of {lines:,} lines shows its first page",
            diffed.median * 1000,
            "ms",
            LIMIT_MS,
            str(diffed),
        ),
        Row(
            f"a search through {megabytes} to its only match",
            searched.median * 1000,
            "ms",
            None,
            str(searched),
        ),
        Row("memory of the console that read them", memory, "MB", MEMORY_LIMIT_MB),
    ]


def _make(root: Path, size: int, lines: int) -> None:
    """A run directory with a mission of one loop, whose patch and whose gate's log are long."""
    loops = root / "missions" / "m1" / "loops"
    node = {
        "loop_id": LOOP, "title": "read", "level": "L2-action", "dependencies": [],
        "owner_scope": {"files": [], "directories": ["src"]}, "budget": {},
        "maker": {"worker_count": 1}, "checker": {"worker_count": 1}, "risk": {"level": "low", "reasons": []},
        "gates": {"triage": [], "local": ["tests"], "checker": [], "integration": [], "final": []},
    }  # fmt: skip
    _write(loops / "loop-plan.json", {"mission_id": "m1", "request": "read", "graph": {"nodes": [node]}})
    folder = loops / LOOP
    _write(folder / "loop-state.json", {"status": "completed", "iteration": 1, "current_phase": "finalizer"})
    _write(folder / "gates" / "tests.json", {
        "gate_id": "tests", "ok": True, "exit_code": 0, "duration_ms": 1, "command": "make test", "log": "calls/c1/long.log",
        "stdout_tail": "fine",
    })  # fmt: skip
    log = root / "calls" / "c1" / "long.log"
    log.parent.mkdir(parents=True)
    line = b"2026-11-30 14:02:10 INFO worker 17 handles another request of the batch, all is well\n"
    with log.open("wb") as out:
        out.write(FIRST.encode() + b"\n")
        block = line * 1000
        for number in range(size // len(block) + 1):
            out.write(block)
            if number == size // len(block) // 2:
                out.write(FOUND.encode() + b"\n")
        out.write(LAST.encode() + b"\n")
    patch = folder / "patches" / "0001.patch"
    patch.parent.mkdir()
    body = [f"+    value_{number} = compute({number}, 'text')  # a comment" for number in range(lines - 2)]
    head = f"diff --git a/src/long.py b/src/long.py\nnew file mode 100644\n--- /dev/null\n+++ b/src/long.py\n@@ -0,0 +1,{lines} @@\n"
    patch.write_text(head + "\n".join(["+def first_added_line():", *body, "+    return 1"]) + "\n")


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Measure and print; 1 where a limit is missed."""
    with tempfile.TemporaryDirectory(prefix="bench-read-") as folder:
        rows = measure(Path(folder), quick="--quick" in arguments)
    print(render(rows))
    return 1 if missed(rows) and "--quick" not in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
