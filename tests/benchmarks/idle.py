"""A console and a runner that have nothing to do: the processor time both take."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import psutil

from tests.benchmarks.lanes import finished_and_pending
from tests.benchmarks.table import Row
from tests.benchmarks.terminal import Terminal
from tests.benchmarks.timing import python, python_environment

LIMIT_PERCENT = 5.0


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Count processor time over a while, in a lane with a past and a queue, paused."""
    size, seconds = (20, 0.5) if quick else (1000, 20.0)
    run_dir = finished_and_pending(folder / "run", size)
    root = str(run_dir.root)
    subprocess.run(
        python(["-m", "meshtui", "pause", "--run-dir", root]),
        env=python_environment(),
        check=True,
        stdout=subprocess.DEVNULL,
    )
    runner = subprocess.Popen(
        python(["-m", "meshtui", "lane", "--run-dir", root, "--run", ":"]),
        env=python_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        with Terminal(["-m", "meshtui", "--run-dir", root]) as terminal:
            terminal.shows("paused")
            terminal.settle()
            processes = [psutil.Process(terminal.pid), psutil.Process(runner.pid)]
            before = [_spent(process) for process in processes]
            began = time.perf_counter()
            time.sleep(seconds)
            passed = time.perf_counter() - began
            shares = [
                (_spent(process) - start) / passed * 100
                for process, start in zip(processes, before, strict=True)
            ]
    finally:
        runner.terminate()
        runner.wait(20)
    return [
        Row(
            "idle console and idle runner, of one core",
            sum(shares),
            "%",
            LIMIT_PERCENT,
            f"console {shares[0]:.1f} %, runner {shares[1]:.1f} % over {passed:.0f} s; "
            f"{size:,} pending, {size:,} finished",
        )
    ]


def _spent(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
