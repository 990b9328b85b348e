"""A lane of commands that do nothing: what the lane itself costs.

The disk and the processors of a busy machine change from second to second, so one runner works the lane and
is stopped after every few envelopes for as many floors and bare starts as those may cost. What a runner's
process takes to start and to end is shared among the lane's envelopes and added to each.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from meshtui.core.lane.service import open_runner
from tests.benchmarks.lanes import make_lane, phase, unsynced
from tests.benchmarks.table import Row
from tests.benchmarks.timing import Floor, Samples, bare_start, meshtui, timed

FLOORS, STARTS = 5, 3


class Pieces:
    """Listens to a runner and measures, between its envelopes, what they may cost."""

    def __init__(self, floor: Floor, piece: int) -> None:
        self._floor = floor
        self._piece = piece
        self._done = 0
        self.each, self.budget, self.floors, self.starts = Samples(), Samples(), Samples(), Samples()
        self._began = time.perf_counter()

    def listen(self, event: str, _subject: str, _data: dict[str, object]) -> None:
        """Called for every event, in the runner's thread."""
        if event != "phase_done":
            return
        self._done += 1
        if self._done % self._piece:
            return
        self.each.add((time.perf_counter() - self._began) / self._piece)
        of_floors = [timed(self._floor) for _ in range(FLOORS * self._piece)]
        of_starts = [timed(bare_start) for _ in range(STARTS * self._piece)]
        self.budget.add((sum(of_floors) + sum(of_starts)) / self._piece)
        self.floors.seconds += of_floors
        self.starts.seconds += of_starts
        self._began = time.perf_counter()


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Pieces of a lane against what they may cost, and one lane as a whole process beside it."""
    size, piece = (10, 5) if quick else (1000, 20)
    run_dir, lane = make_lane(folder / "run")
    start_up = min(timed(lambda: meshtui(*_lane(run_dir.root))) for _ in range(2 if quick else 5)) / size
    with unsynced():
        lane.enqueue_many([phase(number) for number in range(size)])
    runner = open_runner(run_dir, run=":", until_idle=True)
    pieces = Pieces(Floor(folder / "floor"), piece)
    runner.listen(pieces.listen)
    assert runner.run().completed == size
    ratios = sorted(
        (a + start_up) / b for a, b in zip(pieces.each.seconds, pieces.budget.seconds, strict=True)
    )
    return [
        Row(
            f"no-op envelope / ({FLOORS} floors + {STARTS} bare starts), lane of {size:,}",
            statistics.median(ratios),
            "x",
            1.0,
            f"envelope {pieces.each} and {start_up * 1000:.2f} ms of the start; may cost {pieces.budget}; "
            f"floor {pieces.floors}; start {pieces.starts}; "
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
