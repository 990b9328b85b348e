"""Run directories that change all the time, from a process of its own: ``python -m tests.benchmarks.fleet_load``.

It works lanes as runners and enqueuers do, without running anything: records are enqueued, claimed and
finished, loops of missions go from phase to phase, journals grow. What it does is real; only the disk is not
waited for.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from meshtui.core import storage
from meshtui.core.clock import SystemClock, iso
from meshtui.core.journal import Journal
from meshtui.core.lane.create import create_run_dir
from meshtui.core.lane.lane import Lane
from meshtui.core.lane.lease import Lease
from meshtui.core.lane.settle import LaneFiles, Settler
from meshtui.core.mesh.paths import MissionPaths
from meshtui.core.models.result import make_result
from meshtui.core.run_dir import RunDir
from tests.benchmarks.lanes import Worker, unsynced
from tests.support.missions import node

MISSION = "m1"
PHASES = ("maker", "gates", "checker")
READY = "working"


def name_of(number: int) -> str:
    """What a lane is called."""
    return f"lane-{number:02d}"


def envelope(lane: int, number: int) -> dict[str, Any]:
    """A phase whose label tells it from all others."""
    return {
        "kind": "phase",
        "id": f"job-{lane:02d}-{number:06d}",
        "label": f"job-{lane:02d}-{number:06d}",
        "prompt": f"Bring module {number} in line with the style guide and say what you changed.",
        "engine": "command",
        "deadline_seconds": 1800,
    }


def build(root: Path, *, lanes: int, loops: int, pending: int) -> None:
    """Make the run directories; in each something is parked and something has failed."""
    for number in range(lanes):
        run_dir = create_run_dir(root / name_of(number), SystemClock(), repo=root)
        lane = Lane(run_dir, by="benchmark")
        with unsynced():
            lane.enqueue_many([envelope(number, at) for at in range(pending // lanes)])
            _mission(run_dir, loops // lanes)
            _trouble(run_dir)


def _trouble(run_dir: RunDir) -> None:
    worker, files = Worker(run_dir), LaneFiles.open(run_dir, "benchmark", SystemClock())
    at = iso(SystemClock().now_ms())
    for _ in range(2):
        record = worker.claim(worker.names()[-1])
        failed = make_result(record.envelope_id, "failed", started_at=at, finished_at=at, error="exit 1")
        Settler(files).finish(record, failed)
    record = worker.claim(worker.names()[-1])
    evidence = {"output_bytes": 1820, "last_output_at": at}
    Settler(files).park(record, cause="stalled", attempts=2, started_at=at, evidence=evidence)


def _mission(run_dir: RunDir, count: int) -> None:
    paths = MissionPaths.of(run_dir, MISSION)
    paths.root.mkdir(parents=True)
    nodes = [
        node(f"loop-{at:03d}", f"src/part{at}/", gates=("tests", "lint")).model_dump(
            mode="json", by_alias=True
        )
        for at in range(count)
    ]
    plan = {
        "schema": "sks.loop-plan.v1", "mission_id": MISSION, "request": "Bring everything in line",
        "generated_at": iso(SystemClock().now_ms()), "graph": {"nodes": nodes, "edges": []},
        "integration_loop_id": nodes[-1]["loop_id"] if nodes else "", "repo": str(run_dir.root),
    }  # fmt: skip
    storage.write_atomic(paths.plan, json.dumps(plan).encode(), durable=False)
    for at in range(count):
        folder = paths.loop(f"loop-{at:03d}")
        folder.state.parent.mkdir()
        status = ("running", "completed", "planned")[at % 3]
        storage.write_atomic(folder.state, state(at, status, 0), durable=False)


def state(number: int, status: str, step: int) -> bytes:
    """A loop's state file."""
    now = iso(SystemClock().now_ms())
    value = {
        "schema": "sks.loop-state.v1", "loop_id": f"loop-{number:03d}", "status": status,
        "iteration": 1 + step % 2, "current_phase": PHASES[step % 3],
        "budget_used": {"wall_ms": step * 1000, "model_calls": step % 8, "cost_usd": 0.01 * (step % 50)},
        "blockers": [], "updated_at": now,
    }  # fmt: skip
    return json.dumps(value).encode()


class Busy:
    """One lane that is worked."""

    def __init__(self, root: Path, number: int, *, loops: int, pending: int) -> None:
        self.number = number
        self.run_dir = RunDir(root / name_of(number))
        self.lane = Lane(self.run_dir, by="benchmark")
        self.worker = Worker(self.run_dir)
        self.lease = Lease(self.run_dir.lane, SystemClock())
        self.lease.acquire()
        self.files = LaneFiles.open(self.run_dir, name_of(number), SystemClock())
        self.journal = Journal(self.run_dir, SystemClock())
        self.mission = MissionPaths.of(self.run_dir, MISSION)
        self.mission_lease = Lease(self.mission, SystemClock(), what="the mission")
        self.mission_lease.acquire()
        self.loops = loops
        self.next = pending
        self.names: list[str] = []
        self.active: Any = None
        self.step = 0

    def change(self) -> None:
        """One change, each kind in turn."""
        self.step += 1
        (self._enqueue, self._claim, self._loop, self._finish)[self.step % 4]()

    def _enqueue(self) -> None:
        self.lane.enqueue(envelope(self.number, self.next))
        self.next += 1

    def _claim(self) -> None:
        if self.active is not None:
            self._finish()
        if not self.names:
            self.names = self.worker.names()
        self.active = self.worker.claim(self.names.pop())
        status = self.files.status
        status.state = "running"
        status.active_envelope_id = status.active_phase = self.active.envelope_id
        self.files.write_status()
        self.journal.append("phase_started", self.active.envelope_id, {"attempt": 1})

    def _finish(self) -> None:
        if self.active is None:
            return
        now = iso(SystemClock().now_ms())
        usage = {"input_tokens": 1200, "output_tokens": 300, "cost_usd": 0.02}
        result = make_result(
            self.active.envelope_id, "done", started_at=now, finished_at=now, output="done", usage=usage
        )
        Settler(self.files).finish(self.active, result)
        self.active = None

    def _loop(self) -> None:
        if not self.loops:
            return
        number = self.step // 4 * 3 % self.loops
        loop_id = f"loop-{number:03d}"
        paths = self.mission.loop(loop_id)
        storage.write_atomic(paths.state, state(number, "running", self.step), durable=False)
        line = {"ts": iso(SystemClock().now_ms()), "event_type": "loop_maker_started", "loop_id": loop_id}
        storage.append(paths.log, json.dumps(line).encode() + b"\n")
        self.journal.append("loop_maker_started", loop_id, {"mission_id": MISSION})


def work(busy: list[Busy], *, rate: float, stop: threading.Event) -> float:
    """Make ``rate`` changes a second until ``stop``, the lanes in turn; how many a second were made."""
    began, made = time.monotonic(), 0
    while not stop.is_set():
        now = time.monotonic()
        due = int((now - began) * rate)
        while made < due:
            busy[made % len(busy)].change()
            made += 1
        stop.wait(max(0.0, began + (made + 1) / rate - time.monotonic()))
    return made / max(1e-9, time.monotonic() - began)


def main() -> int:
    """Build, say so, wait for a line, then change until SIGTERM; at the end say how fast it was."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.fleet_load")
    parser.add_argument("root", type=Path)
    parser.add_argument("--lanes", type=int, default=20)
    parser.add_argument("--loops", type=int, default=2000)
    parser.add_argument("--pending", type=int, default=50_000)
    parser.add_argument("--rate", type=float, default=200.0)
    options = parser.parse_args()
    if not (options.root / name_of(0)).exists():
        build(options.root, lanes=options.lanes, loops=options.loops, pending=options.pending)
    busy = [
        Busy(
            options.root,
            number,
            loops=options.loops // options.lanes,
            pending=options.pending // options.lanes,
        )
        for number in range(options.lanes)
    ]
    print("built", flush=True)
    sys.stdin.readline()
    print(READY, flush=True)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    with unsynced():
        made = work(busy, rate=options.rate, stop=stop)
    print(f"{made:.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
