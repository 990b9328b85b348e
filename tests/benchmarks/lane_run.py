"""A lane of commands that do nothing: what the lane itself costs.

The figure is that of whole ``meshtui lane`` processes, with floors and bare starts measured before and after each.
The disk and the processors of a busy machine change from second to second, so beside it stands the same in
pieces: one runner works the lane and is stopped after every few envelopes for as many floors and bare starts as
those may cost. Every piece begins with what these leave of the caches, so it costs a little more; what a
runner's process takes to start and to end is shared among the lane's envelopes and added to each.
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
LANES = 5


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
        _whole(folder, 1 if quick else LANES, size),
        Row(
            f"the same in pieces of {piece}, measured in turn",
            statistics.median(ratios),
            "x",
            None,
            f"envelope {pieces.each} and {start_up * 1000:.2f} ms of the start; may cost {pieces.budget}; "
            f"floor {pieces.floors}; start {pieces.starts}; "
            f"middle half of the ratios {ratios[len(ratios) // 4]:.2f} to {ratios[-1 - len(ratios) // 4]:.2f}",
        ),
    ]


def _whole(folder: Path, lanes: int, size: int) -> Row:
    """Whole lanes, each against what was measured just before and just after it."""
    floor = Floor(folder / "floor-whole")
    count = min(size, 100)
    floors, starts, each, ratios = Samples(), Samples(), Samples(), []

    def may_cost() -> float:
        of_floors = [timed(floor) for _ in range(count)]
        of_starts = [timed(bare_start) for _ in range(count)]
        floors.seconds += of_floors
        starts.seconds += of_starts
        return FLOORS * statistics.mean(of_floors) + STARTS * statistics.mean(of_starts)

    for number in range(lanes):
        run_dir, lane = make_lane(folder / f"whole-{number}")
        with unsynced():
            lane.enqueue_many([phase(index) for index in range(size)])
        before = may_cost()
        took = timed(lambda root=run_dir.root: meshtui(*_lane(root))) / size  # type: ignore[misc]
        each.add(took)
        ratios.append(2 * took / (before + may_cost()))
    return Row(
        f"no-op envelope / ({FLOORS} floors + {STARTS} bare starts), whole lanes of {size:,}",
        statistics.median(ratios),
        "x",
        1.0,
        f"envelope {each}; floor {floors}; start {starts}; {lanes} lanes: "
        + ", ".join(f"{ratio:.2f}" for ratio in ratios),
    )


def _lane(root: Path) -> tuple[str, ...]:
    return ("lane", "--run-dir", str(root), "--run", ":", "--until-idle")
