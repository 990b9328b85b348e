"""``meshtui status --json`` over a long queue, against importing what it stands on."""

from __future__ import annotations

from pathlib import Path

from meshtui.core import storage
from tests.benchmarks.lanes import finished_and_pending
from tests.benchmarks.table import Row
from tests.benchmarks.timing import in_turn, meshtui, paired, run_python

IMPORTS = "from pydantic import BaseModel; import click, psutil, filelock"
LIMIT = 1.8


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Both as whole processes in turn; then again without the index, as another tool leaves a lane."""
    size, rounds = (30, 2) if quick else (10_000, 21)
    run_dir = finished_and_pending(folder / "run", size)
    status = ("status", "--json", "--run-dir", str(run_dir.root))
    rows = []
    for name, limit in (("", LIMIT), (", index missing", None)):
        if name:
            storage.remove_tree(run_dir.lane.ids)
        meshtui(*status)
        run_python(["-c", IMPORTS])
        statuses, imports = in_turn(rounds, lambda _: meshtui(*status), lambda _: run_python(["-c", IMPORTS]))
        rows.append(
            Row(
                f"status --json over {size:,} pending and {size:,} finished / imports{name}",
                paired(statuses, imports),
                "x",
                limit,
                f"status {statuses}; imports {imports}; best / best {statuses.best / imports.best:.2f}",
            )
        )
    return rows
