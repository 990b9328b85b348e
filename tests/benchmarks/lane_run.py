"""A lane of commands that do nothing: what the lane itself costs.

The disk and the processors of a busy machine change from second to second, so the lane runs in pieces, each
in turn with as many floors and bare starts as it may cost. What a runner's process takes to start is shared
among a lane's envelopes and added to each.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from meshtui.core.lane.service import open_runner
from tests.benchmarks.lanes import make_lane, phase, unsynced
from tests.benchmarks.table import Row
from tests.benchmarks.timing import Floor, Samples, bare_start, meshtui, timed

FLOORS, STARTS = 5, 3


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Pieces of a lane against what they may cost, and one lane as a whole process beside it."""
    size, piece = (10, 5) if quick else (1000, 20)
    run_dir, lane = make_lane(folder / "run")
    floor = Floor(folder / "floor")
    started = [timed(lambda: meshtui(*_lane(run_dir.root))) for _ in range(2 if quick else 5)]
    start_up = min(started) / size
    each, budget, floors, starts = Samples(), Samples(), Samples(), Samples()
    for number in range(size // piece):
        with unsynced():
            lane.enqueue_many([phase(number * piece + index) for index in range(piece)])
        runner = open_runner(run_dir, run=":", until_idle=True)
        each.add(timed(runner.run) / piece + start_up)
        of_floors = [timed(floor) for _ in range(FLOORS * piece)]
        of_starts = [timed(bare_start) for _ in range(STARTS * piece)]
        budget.add((sum(of_floors) + sum(of_starts)) / piece)
        floors.seconds += of_floors
        starts.seconds += of_starts
    ratios = sorted(a / b for a, b in zip(each.seconds, budget.seconds, strict=True))
    return [
        Row(
            f"no-op envelope / ({FLOORS} floors + {STARTS} bare starts), {size:,} in pieces of {piece}",
            statistics.median(ratios),
            "x",
            1.0,
            f"envelope {each}; may cost {budget}; floor {floors}; start {starts}; "
            f"middle half of the ratios {ratios[len(ratios) // 4]:.2f} to {ratios[-1 - len(ratios) // 4]:.2f}",
        ),
        _whole(folder, size),
    ]


def _whole(folder: Path, size: int) -> Row:
    run_dir, lane = make_lane(folder / "whole")
    with unsynced():
        lane.enqueue_many([phase(index) for index in range(size)])
    seconds = timed(lambda: meshtui(*_lane(run_dir.root)))
    return Row(f"a whole meshtui lane of {size:,}, an envelope", seconds / size * 1000, "ms")


def _lane(root: Path) -> tuple[str, ...]:
    return ("lane", "--run-dir", str(root), "--run", ":", "--until-idle")
