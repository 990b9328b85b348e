"""One durable enqueue in a running process, against the least a durable new file takes."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks.lanes import make_lane, phase
from tests.benchmarks.table import Row
from tests.benchmarks.timing import Floor, in_turn

LIMIT = 2.0


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Enqueue and floor in turn."""
    rounds = 20 if quick else 1000
    _, lane = make_lane(folder / "run")
    floor = Floor(folder / "floor")
    for number in range(10):
        lane.enqueue(phase(number, "warm"))
        floor()
    floors, enqueues = in_turn(rounds, floor, lambda number: lane.enqueue(phase(number)))
    return [
        Row(
            "durable enqueue / floor",
            enqueues.median / floors.median,
            "x",
            LIMIT,
            f"enqueue {enqueues}; floor {floors}; best / best {enqueues.best / floors.best:.2f}",
        )
    ]
