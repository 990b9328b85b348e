"""Measures a lane and prints a table: ``python -m tests.benchmarks.lane [ROW ...] [--quick]``.

Every figure with a limit is a ratio of two things measured in turn in the same run, or a count, so that it
means the same on a slow and a busy machine. The exit status is 1 if a limit was missed.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tests.benchmarks.table import Row, missed, render

ROWS = {
    "enqueue": "one durable enqueue against the floor",
    "history": "enqueue and claim after 100,000 records",
    "batch": "locks and syncs of a batch",
    "lane_run": "a lane of commands that do nothing",
    "status": "status over a long queue",
    "console": "the first frame, and how soon a change is on screen",
    "idle": "what a console and a runner take that have nothing to do",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what was asked for of a lane, and print the table."""
    return drive("lane", ROWS, arguments)


def drive(what: str, known: Mapping[str, str], arguments: Sequence[str] | None = None) -> int:
    """The program ``tests.benchmarks.<what>``: measures rows, each by the module of its name; 1 if one missed."""
    parser = argparse.ArgumentParser(
        prog=f"python -m tests.benchmarks.{what}",
        description=f"Measure a {what}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="rows:\n" + "\n".join(f"  {name:15} {text}" for name, text in known.items()),
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help="what to measure (default: everything)")
    parser.add_argument(
        "--quick", action="store_true", help="tiny numbers and no limits: whether it works, not how fast"
    )
    parser.add_argument("--dir", type=Path, help="where to work (default: the system's temporary folder)")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.rows if name not in known]:
        parser.error(f"no row {unknown[0]!r}; there are: {', '.join(known)}")
    rows = run(options.rows or list(known), quick=options.quick, where=options.dir)
    print(render(rows))
    return 1 if missed(rows) else 0


def run(names: Sequence[str], *, quick: bool, where: Path | None = None) -> list[Row]:
    """The rows of ``names``, each measured in a folder of its own.

    The folders are removed when all is measured: where many files were just removed, some filesystems (ext4)
    are slow to make new ones for a minute, and that would be measured.
    """
    found: list[Row] = []
    folders: list[Path] = []
    try:
        for name in names:
            begin = time.monotonic()
            folders.append(Path(tempfile.mkdtemp(prefix=f"bench-{name}-", dir=where)))
            rows = importlib.import_module(f"tests.benchmarks.{name}").measure(folders[-1], quick=quick)
            found += [replace(row, limit=None, least=None) for row in rows] if quick else rows
            load = os.getloadavg()[0]
            print(f"{name}: {time.monotonic() - begin:.0f} s, load {load:.1f}", file=sys.stderr, flush=True)
    finally:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
