"""A whole ``meshtui lane`` over commands that do nothing: what the lane itself costs."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks.lanes import make_lane, phase, unsynced
from tests.benchmarks.table import Row
from tests.benchmarks.timing import Floor, Samples, bare_start, in_turn, meshtui, timed

FLOORS, STARTS = 5, 3


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Time lanes as whole processes, with floors and bare starts before and after each."""
    rounds, size, probes = (1, 5, 5) if quick else (5, 1000, 200)
    floor = Floor(folder / "floor")
    ratios, each, floors, starts = Samples(), Samples(), Samples(), Samples()
    for number in range(rounds):
        run_dir, lane = make_lane(folder / f"run-{number}")
        with unsynced():
            lane.enqueue_many([phase(index) for index in range(size)])
        before = in_turn(probes, floor, bare_start)
        seconds = timed(
            lambda root=str(run_dir.root): meshtui("lane", "--run-dir", root, "--run", ":", "--until-idle")  # type: ignore[misc]
        )
        after = in_turn(probes, floor, bare_start)
        round_floor = Samples(before[0].seconds + after[0].seconds)
        round_start = Samples(before[1].seconds + after[1].seconds)
        floors.seconds += round_floor.seconds
        starts.seconds += round_start.seconds
        each.add(seconds / size)
        ratios.add(seconds / size / (FLOORS * round_floor.median + STARTS * round_start.median))
    return [
        Row(
            f"no-op envelope / ({FLOORS} floors + {STARTS} bare starts), lane of {size:,}",
            ratios.median,
            "x",
            1.0,
            f"envelope {each}; floor {floors}; start {starts}; ratios {min(ratios.seconds):.2f} to {max(ratios.seconds):.2f}",
        )
    ]
