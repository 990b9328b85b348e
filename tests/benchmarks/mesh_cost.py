"""What the engine itself costs a loop: its wall time without its workers, gates and git commands."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from meshtui.core.vcs import git as git_module
from tests.benchmarks.table import Row
from tests.benchmarks.timing import Samples, bare_start, in_turn
from tests.support.missions import Bench, node

LIMIT_MS = 100.0
CALLS = 3
"""Programs a loop starts: a maker, a gate, a checker."""


class Timed:
    """How often one function of a module was called, and how long that took."""

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0

    @contextmanager
    def watching(self, module: ModuleType, name: str) -> Iterator[None]:
        """Time every call of ``module.name`` meanwhile."""
        real = getattr(module, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            begin = time.perf_counter()
            try:
                return real(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - begin
                self.count += 1

        vars(module)[name] = timed
        try:
            yield
        finally:
            vars(module)[name] = real


def many_loops(folder: Path, count: int, *, max_active: int) -> Bench:
    """A mission of ``count`` loops that each change a file, with a gate and a checker, and their merge."""
    names = [f"l{number:03d}" for number in range(count)]
    bench = Bench(folder, files={f"{name}/file.txt": f"{name}\n" for name in names}, max_active=max_active)
    bench.commands('cat >/dev/null; echo changed >>"${MESHTUI_LOOP_ID#loop-}/file.txt"')
    bench.gate("good", ":")
    bench.plan(*(node(f"loop-{name}", f"{name}/", gates=["good"]) for name in names))
    return bench


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """One loop after the other, so that what one waits for is not hidden by what another does."""
    rounds, size, probes = (1, 2, 3) if quick else (5, 10, 50)
    each, whole, gits, syncs, starts, cpu = (Samples() for _ in range(6))
    commands = synced = 0
    for number in range(rounds):
        bench = many_loops(folder / f"run-{number}", size, max_active=1)
        (start,) = in_turn(probes, bare_start)
        git, sync = Timed(), Timed()
        with git.watching(git_module, "run_bounded"), sync.watching(os, "fsync"):
            begin, worked = time.perf_counter(), time.process_time()
            outcome = bench.run()
            wall, used = time.perf_counter() - begin, time.process_time() - worked
        if outcome.state != "done":
            raise RuntimeError(f"the mission ended {outcome.state}: {outcome.graph_proof.get('blockers')}")
        loops = size + 1
        whole.add(wall / loops)
        gits.add(git.seconds / loops)
        syncs.add(sync.seconds / loops)
        starts.add(start.median)
        cpu.add(used / loops)
        # What the three programs take is what a program that does nothing takes; the rest of a call is ours.
        each.add((wall - git.seconds) / loops - CALLS * start.median)
        commands, synced = round(git.count / loops), round(sync.count / loops)
    return [
        Row(
            f"engine cost of a loop, {size} one after the other and their merge",
            each.median * 1000,
            "ms",
            LIMIT_MS,
            f"{each}, of it {synced} syncs {syncs}; the whole loop {whole}: also {commands} git commands {gits}, "
            f"{CALLS} starts of {starts}",
        ),
        Row("processor time of the engine a loop", cpu.median * 1000, "ms", None, f"{cpu}"),
    ]
