"""Lanes to measure: made by the same operations that make real ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from meshtui.core import storage
from meshtui.core.clock import SystemClock, iso
from meshtui.core.lane.create import create_run_dir
from meshtui.core.lane.index import list_records
from meshtui.core.lane.lane import Lane
from meshtui.core.lane.settle import LaneFiles, Settler
from meshtui.core.models.result import make_result
from meshtui.core.run_dir import RunDir


def phase(number: int, mark: str = "p") -> dict[str, Any]:
    """An envelope like the ones operators queue."""
    return {
        "kind": "phase",
        "id": f"{mark}-{number}",
        "prompt": f"Bring module {number} in line with the style guide and say what you changed.",
        "phase": "implement",
        "story_id": f"US-{number % 50:03d}",
        "engine": "command",
    }


def make_lane(root: Path) -> tuple[RunDir, Lane]:
    """A new run directory with an empty lane."""
    run_dir = create_run_dir(root, SystemClock(), repo=root.parent)
    lane = Lane(run_dir, by="benchmark")
    return run_dir, lane


@contextmanager
def unsynced() -> Iterator[None]:
    """Let records be made without waiting for the disk, all else as always; what is made is synced at the end."""
    proxy = SimpleNamespace(**{name: getattr(os, name) for name in dir(os)})
    proxy.fsync = lambda fd: None
    vars(storage)["os"] = proxy
    try:
        yield
    finally:
        vars(storage)["os"] = os
        os.sync()


class Worker:
    """Claims and finishes records as a runner does, without running anything."""

    def __init__(self, run_dir: RunDir) -> None:
        self._files = LaneFiles.open(run_dir, "benchmark", SystemClock())
        self._settler = Settler(self._files)
        self._paths = run_dir.lane

    def names(self) -> list[str]:
        """What is pending, the head last."""
        return list_records(self._paths.pending)[::-1]

    def claim(self, name: str) -> Any:
        """Claim one record."""
        return self._files.queue.claim(name)

    def finish(self, record: Any) -> None:
        """Give a claimed record its result."""
        now = iso(SystemClock().now_ms())
        result = make_result(
            record.envelope_id,
            "done",
            started_at=now,
            finished_at=now,
            output="changed two files",
            exit_code=0,
            engine="command",
        )
        self._settler.finish(record, result)


def fill(lane: Lane, count: int, mark: str) -> None:
    """Enqueue ``count`` phases one by one."""
    for number in range(count):
        lane.enqueue(phase(number, mark))


def finished_and_pending(root: Path, count: int, **fields: Any) -> RunDir:
    """A lane with ``count`` finished envelopes and as many pending ones, these with ``fields``."""
    run_dir, lane = make_lane(root)
    with unsynced():
        lane.enqueue_many([phase(number, "old") for number in range(count)])
        worker = Worker(run_dir)
        for name in reversed(worker.names()):
            worker.finish(worker.claim(name))
        lane.enqueue_many([{**phase(number, "new"), **fields} for number in range(count)])
    return run_dir
