"""What the console costs: its first frame, a change on its way to the screen, doing nothing.

``python -m tests.benchmarks.console`` prints a table; the functions return the numbers.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from textual.strip import Strip

from meshtui.app import MeshtuiApp
from meshtui.bridge import LaneEngine
from meshtui.core.clock import SystemClock
from meshtui.core.lane.create import create_run_dir
from meshtui.core.lane.lane import Lane
from meshtui.core.run_dir import RunDir
from meshtui.screens.lane import LaneScreen
from meshtui.widgets.status_line import StatusLine

ROOT = Path(__file__).parent.parent.parent

EMPTY = """
import time; start = time.perf_counter()
import asyncio
from textual.app import App
async def main():
    async with App().run_test(size=(120, 40)) as pilot:
        print(time.perf_counter() - start)
asyncio.run(main())
"""
CONSOLE = """
import time; start = time.perf_counter()
import asyncio, sys
from pathlib import Path
from meshtui.app import MeshtuiApp
from meshtui.bridge import LaneEngine
from meshtui.core.run_dir import RunDir
from meshtui.widgets.table import QueueTable
async def main():
    where = RunDir(Path(sys.argv[1]))
    app = MeshtuiApp(where, engine=LaneEngine(where))
    async with app.run_test(size=(120, 40)):
        while not (app.screen.query_one(QueueTable).rows and app.screen.query_one(QueueTable)._drawn):
            await asyncio.sleep(0.001)
        print(time.perf_counter() - start)
asyncio.run(main())
"""


def make_lane(root: Path, pending: int) -> RunDir:
    """A lane with ``pending`` records."""
    where = create_run_dir(root, SystemClock())
    Lane(where).enqueue_many(
        [
            {"kind": "phase", "prompt": f"p{index}", "story_id": f"US-{index:05d}", "phase": "plan"}
            for index in range(pending)
        ]
    )
    return where


def first_frame(run_dir: RunDir, *, rounds: int = 7) -> tuple[float, float]:
    """Seconds to the first frame in a fresh process: an empty app, and the console with real rows."""
    times: dict[str, list[float]] = {EMPTY: [], CONSOLE: []}
    for _ in range(rounds):
        for code, taken in times.items():
            run = subprocess.run(
                [sys.executable, "-c", code, str(run_dir.root)],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=True,
            )
            taken.append(float(run.stdout))
    return statistics.median(times[EMPTY]), statistics.median(times[CONSOLE])


async def _change_to_screen(run_dir: RunDir, changes: int) -> list[float]:
    drawn: list[float] = []
    original = StatusLine.render_line

    def render_line(self: StatusLine, y: int) -> Strip:
        strip = original(self, y)
        drawn.append(time.perf_counter())
        return strip

    app = MeshtuiApp(run_dir, engine=LaneEngine(run_dir))
    taken: list[float] = []
    async with app.run_test(size=(120, 40)):
        lane = app.screen
        assert isinstance(lane, LaneScreen)
        while lane.view is None or not lane.view.complete:
            await asyncio.sleep(0.01)
        await asyncio.sleep(1)
        run_dir.lane.withdrawn.mkdir(exist_ok=True)
        StatusLine.render_line = render_line  # type: ignore[assignment,method-assign]
        try:
            for row in lane.view.pending[:changes]:
                before = lane.view.counts.pending
                start = time.perf_counter()
                os.rename(run_dir.lane.pending / row.key, run_dir.lane.withdrawn / row.key)
                while lane.view.counts.pending == before or not drawn or drawn[-1] < start:
                    await asyncio.sleep(0.001)
                taken.append(drawn[-1] - start)
                await asyncio.sleep(0.15)
        finally:
            StatusLine.render_line = original  # type: ignore[method-assign]
    return taken


def change_to_screen(run_dir: RunDir, *, changes: int = 25) -> float:
    """Median seconds from a rename in the queue to the changed count on the screen."""
    return statistics.median(asyncio.run(_change_to_screen(run_dir, changes)))


def idle_share(run_dir: RunDir, *, seconds: float = 8) -> float:
    """The share of one core that a console takes while nothing changes."""

    async def measure() -> float:
        app = MeshtuiApp(run_dir, engine=LaneEngine(run_dir))
        async with app.run_test(size=(120, 40)):
            lane = app.screen
            assert isinstance(lane, LaneScreen)
            while lane.view is None or not lane.view.complete:
                await asyncio.sleep(0.01)
            await asyncio.sleep(1)
            before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
            await asyncio.sleep(seconds)
            after = resource.getrusage(resource.RUSAGE_SELF)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            return used / (time.perf_counter() - start)

    return asyncio.run(measure())


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        small, large = make_lane(Path(folder) / "small", 20), make_lane(Path(folder) / "large", 10_000)
        for name, run_dir in (("20 pending", small), ("10,000 pending", large)):
            empty, console = first_frame(run_dir)
            print(
                f"first frame, {name:<15} {console / empty:5.2f} x an empty app  ({console:.3f} s / {empty:.3f} s)"
            )
        print(f"change to screen, 10,000    {change_to_screen(large) * 1000:5.0f} ms median")
        print(f"idle console                {idle_share(large) * 100:5.1f} % of one core")


if __name__ == "__main__":
    main()
