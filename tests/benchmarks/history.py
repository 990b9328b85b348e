"""Enqueue and claim with a long past: nothing may grow with what was queued or finished before.

The last operations on a lane with a long past are timed in turn with the first ones on a new lane, so that
both see the same disk and the same load.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from meshtui.core.lane.lane import Lane
from meshtui.core.run_dir import RunDir
from tests.benchmarks.lanes import Worker, fill, make_lane, phase, unsynced
from tests.benchmarks.table import Row
from tests.benchmarks.timing import Floor, Samples, in_turn, run_python, timed

LIMIT = 1.3
FRESH = """
import sys, time
from pathlib import Path
from meshtui.core.lane.lane import Lane
from meshtui.core.run_dir import RunDir
lane = Lane(RunDir(Path(sys.argv[1])))
begin = time.perf_counter()
lane.enqueue({"kind": "phase", "id": sys.argv[2], "prompt": "x"})
Path(sys.argv[3]).write_text(str(time.perf_counter() - begin))
"""


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """The last windows of a lane's life against the first of new ones: all pending, then all finished."""
    size, window = (60, 20) if quick else (100_000, 1000)
    run_dir, lane = make_lane(folder / "run")
    with unsynced():
        fill(lane, size - window, "fill")
    rows = [_enqueues(folder, lane, window, f"{size:,} pending"), _fresh(folder, run_dir, size, quick=quick)]
    worker = Worker(run_dir)
    names = worker.names()
    rows.append(_claims(folder, worker, names, window, f"{size:,} pending"))
    with unsynced():
        while len(names) > window:
            worker.finish(worker.claim(names.pop()))
    rows.append(_claims(folder, worker, names, window, f"{size:,} finished"))
    rows.append(_enqueues(folder, lane, window, f"{size:,} finished"))
    return rows


def _row(what: str, past: str, late: Samples, young: Samples) -> Row:
    return Row(
        f"{what}, last / first {len(late.seconds):,}, {past}",
        late.median / young.median,
        "x",
        LIMIT,
        f"last {late}; first {young}",
    )


def _enqueues(folder: Path, lane: Lane, count: int, past: str) -> Row:
    mark = past.replace(" ", "-").replace(",", "")
    _, young = make_lane(folder / f"young-{mark}")
    late, first = in_turn(
        count,
        lambda number: lane.enqueue(phase(number, mark)),
        lambda number: young.enqueue(phase(number, mark)),
    )
    return _row("enqueue", past, late, first)


def _claims(folder: Path, worker: Worker, names: list[str], count: int, past: str) -> Row:
    """Claims in turn with those of a new lane; every record is finished outside the time."""
    young_dir, young_lane = make_lane(folder / f"young-claims-{past.split()[1]}")
    with unsynced():
        fill(young_lane, count, "young")
    young = Worker(young_dir)
    young_names = young.names()
    late, first = Samples(), Samples()
    for _ in range(count):
        for side, queue, samples in ((worker, names, late), (young, young_names, first)):
            taken: list[Any] = []
            name = queue.pop()
            samples.add(timed(lambda side=side, name=name, into=taken: into.append(side.claim(name))))  # type: ignore[misc]
            side.finish(taken[0])
    return _row("claim", past, late, first)


def _fresh(folder: Path, run_dir: RunDir, size: int, *, quick: bool) -> Row:
    """What a process that has just started pays for its first enqueue."""
    floor = Floor(folder / "floor")
    found, floors = Samples(), Samples()
    answer = folder / "fresh.txt"
    for number in range(2 if quick else 7):
        run_python(["-c", FRESH, str(run_dir.root), f"fresh-{number}", str(answer)])
        found.add(float(answer.read_text(encoding="ascii")))
        floors.add(timed(floor))
    whole = timed(
        lambda: run_python(["-m", "meshtui", "enqueue", "--run-dir", str(run_dir.root), "--prompt", "x"])
    )
    return Row(
        f"first enqueue of a fresh process / floor, {size:,} pending",
        found.median / floors.median,
        "x",
        detail=f"enqueue {found}; floor {floors}; the process as a whole {whole * 1000:.0f} ms",
    )
