"""From the request to kill a mission's loops to the end of the last of their processes."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from meshtui.core.mesh.files import read_json
from meshtui.core.mesh.service import configuration, kill_loops
from tests.benchmarks.table import Row
from tests.benchmarks.timing import Samples
from tests.support.missions import APPROVE, Bench, node, until

OBEYING_SECONDS, STUBBORN_SECONDS = 1.0, 6.0
LOOPS = 4
STEP_SECONDS = 0.002
WITHIN = 60.0

# A worker with a child, both of which write down who they are.
OBEYING = 'echo $$ >>"{pids}"; sleep 600 & echo $! >>"{pids}"; wait'
STUBBORN = 'trap "" TERM INT HUP; ' + OBEYING + "; sleep 600"
QUICKLY = 'cat >/dev/null; echo changed >>"${MESHTUI_LOOP_ID#loop-}/file.txt"'


def gone(pid: int) -> bool:
    """Whether a process has ended, reaped or not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return True
    except ProcessLookupError:
        return True
    else:
        return state == "Z"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def at_work(folder: Path, phase: str, worker: str) -> tuple[Bench, Path]:
    """A mission of which every loop will be stuck in ``worker`` in its phase; and where it writes its pids."""
    names = [f"l{number}" for number in range(LOOPS)]
    bench = Bench(folder, files={f"{name}/file.txt": f"{name}\n" for name in names}, max_active=LOOPS)
    pids = folder / "pids"
    pids.touch()
    command = worker.replace("{pids}", str(pids))
    bench.commands(
        command if phase == "maker" else QUICKLY, checker=command if phase == "checker" else APPROVE
    )
    bench.gate("good", command if phase == "gate" else ":")
    bench.plan(*(node(f"loop-{name}", f"{name}/", gates=["good"]) for name in names))
    bench.configure()
    return bench, pids


def killed(folder: Path, phase: str, worker: str) -> float:
    """Seconds from asking for the end of all loops to the end of the last process."""
    bench, told = at_work(folder, phase, worker)
    running = bench.start()
    until(lambda: len(told.read_text().splitlines()) == 2 * LOOPS)
    pids = {int(line) for line in told.read_text().splitlines()}
    for path in bench.calls():
        process = read_json(path / "process.json")
        if process is not None and not (path / "exit.json").exists():
            pids.add(int(process["pid"]))
    loaded = configuration(bench.run_dir, bench.repo)
    asking = threading.Thread(
        target=kill_loops, args=(bench.run_dir, bench.paths, "all", loaded, lambda name: None)
    )
    begin = time.perf_counter()
    asking.start()
    while not all(gone(pid) for pid in pids):
        if time.perf_counter() - begin > WITHIN:
            raise RuntimeError(f"processes outlive the kill: {sorted(pid for pid in pids if not gone(pid))}")
        time.sleep(STEP_SECONDS)
    seconds = time.perf_counter() - begin
    asking.join(WITHIN)
    running.outcome()
    states = {bench.status(f"loop-l{number}") for number in range(LOOPS)}
    if states != {"cancelled"}:
        raise RuntimeError(f"killed loops are {states}")
    return seconds


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Every phase with workers that obey, makers that do not; the slowest round counts."""
    rows = []
    for phase, worker, what, limit, rounds in (
        ("maker", OBEYING, "obey SIGTERM", OBEYING_SECONDS, 4),
        ("gate", OBEYING, "obey SIGTERM", OBEYING_SECONDS, 4),
        ("checker", OBEYING, "obey SIGTERM", OBEYING_SECONDS, 4),
        ("maker", STUBBORN, "do not", STUBBORN_SECONDS, 2),
    ):
        if quick and worker is STUBBORN:
            continue
        found = Samples()
        for number in range(1 if quick else rounds):
            found.add(killed(folder / f"{phase}-{what[:2]}-{number}", phase, worker))
        slowest = max(found.seconds)
        rows.append(
            Row(
                f"kill to last process gone, {LOOPS} {phase}s that {what}, slowest",
                slowest,
                "s",
                limit,
                f"{found}, {len(found.seconds)} rounds",
            )
        )
    return rows
