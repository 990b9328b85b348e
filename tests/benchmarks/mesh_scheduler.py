"""Measures the scheduler: makespans against the lower bound and against batches, and its own cost.

``python -m tests.benchmarks.mesh mesh_scheduler`` prints the figures.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from statistics import mean

from meshtui.core.mesh.scheduler import Capacity, LoopNode, Scheduler, ready
from meshtui.core.models.mesh import Status
from tests.benchmarks.table import Row

GRAPHS = 200
LOOPS = 10_000
MAX_RATIO = 1.15
MIN_SPEEDUP = 1.3
MAX_CPU = 1.0


@dataclass(frozen=True, slots=True)
class Case:
    """A graph, how long its loops take (which the scheduler is not told), and what may run at once."""

    loops: tuple[LoopNode, ...]
    durations: dict[str, float]
    capacity: Capacity


def case(seed: int, *, size: tuple[int, int] = (20, 120)) -> Case:
    """A random graph in layers of any width, with Pareto-distributed durations (alpha 1.5, at most 100)."""
    rng = random.Random(seed)
    count = rng.randint(*size)
    density = rng.uniform(0.5, 2.5)
    window = rng.randint(5, 40)
    loops: list[LoopNode] = []
    for number in range(count):
        low = max(0, number - window)
        wanted = min(number - low, int(rng.expovariate(1 / density)))
        before = rng.sample(range(low, number), wanted)
        loops.append(
            LoopNode(
                f"loop-{number}", tuple(f"loop-{one}" for one in sorted(before)), rng.choice((1, 2, 2, 3, 4))
            )
        )
    durations = {loop.loop_id: min(100.0, rng.paretovariate(1.5)) for loop in loops}
    slots = rng.choice((2, 4, 4, 8, 8))
    return Case(tuple(loops), durations, Capacity(slots, slots * 3))


def critical(case: Case) -> float:
    """The longest path, by true durations."""
    ends: dict[str, float] = {}
    for loop in case.loops:
        begin = max((ends[name] for name in loop.dependencies), default=0.0)
        ends[loop.loop_id] = begin + case.durations[loop.loop_id]
    return max(ends.values())


def lower_bound(case: Case) -> float:
    """No schedule is shorter: the critical path, or the work over the loop slots."""
    return max(critical(case), sum(case.durations.values()) / case.capacity.max_loops)


def makespan(case: Case) -> float:
    """How long the scheduler takes."""
    scheduler = Scheduler(case.loops, case.capacity)
    events: list[tuple[float, str]] = []
    now = 0.0
    while not scheduler.done:
        for name in scheduler.start():
            heappush(events, (now + case.durations[name], name))
        now, name = heappop(events)
        scheduler.finish(name, "completed")
    return now


def batched(case: Case) -> float:
    """How long it takes in batches: the same choice, but nothing starts before all of a batch ended."""
    states: dict[str, Status] = {}
    now = 0.0
    while len(states) < len(case.loops):
        batch = ready(case.loops, states, case.capacity).start
        now += max(case.durations[name] for name in batch)
        states.update((name, "completed") for name in batch)
    return now


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured."""

    ratios: tuple[float, ...]
    """Makespan over the lower bound, a graph each."""
    speedups: tuple[float, ...]
    """Makespan in batches over makespan, a graph each."""


def compare(seeds: Sequence[int]) -> Figures:
    """Makespans of the graphs with these seeds."""
    ratios, speedups = [], []
    for seed in seeds:
        one = case(seed)
        took = makespan(one)
        ratios.append(took / lower_bound(one))
        speedups.append(batched(one) / took)
    return Figures(tuple(ratios), tuple(speedups))


def wide() -> Case:
    """Loops without dependencies, and one that waits for all."""
    loops = [LoopNode(f"l{n}", (), 1 + n % 8) for n in range(LOOPS - 1)]
    loops.append(LoopNode("last", tuple(loop.loop_id for loop in loops)))
    return _timed(loops, Capacity(16, 40))


def chain() -> Case:
    """One after the other."""
    return _timed([LoopNode(f"l{n}", (f"l{n - 1}",) if n else ()) for n in range(LOOPS)], Capacity(16, 40))


def mixed() -> Case:
    """A random graph."""
    return case(1, size=(LOOPS, LOOPS))


def _timed(loops: list[LoopNode], capacity: Capacity) -> Case:
    return Case(tuple(loops), {loop.loop_id: 1.0 + len(loop.loop_id) for loop in loops}, capacity)


def cpu_of(make: Callable[[], Case]) -> float:
    """Seconds of CPU for the whole life of a graph, start to end."""
    one = make()
    begun = time.process_time()
    makespan(one)
    return time.process_time() - begun


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Makespans in the scheduler's own time; nothing is run, so nothing scatters but the processor's."""
    figures = compare(range(5 if quick else GRAPHS))
    worst = f"worst {max(figures.ratios):.2f}, {len(figures.ratios)} graphs"
    least = f"least {min(figures.speedups):.2f}, most {max(figures.speedups):.2f}"
    rows = [
        Row("makespan / lower bound, mean", mean(figures.ratios), "x", MAX_RATIO, worst),
        Row("batches / makespan, least", min(figures.speedups), "x", least=1.0),
        Row("batches / makespan, mean", mean(figures.speedups), "x", detail=least, least=MIN_SPEEDUP),
    ]
    for make in () if quick else (wide, chain, mixed):
        rows.append(Row(f"processor time for {LOOPS:,} loops, {make.__name__}", cpu_of(make), "s", MAX_CPU))
    return rows
