"""Lanes to break, and what has to hold for one whatever happened to it."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from meshtui.core.clock import Clock, SystemClock
from meshtui.core.engines.base import Engine
from meshtui.core.engines.command import CommandEngine
from meshtui.core.lane.create import create_run_dir
from meshtui.core.lane.index import Index, list_records
from meshtui.core.lane.lane import Lane
from meshtui.core.lane.queue import Queue
from meshtui.core.lane.runner import RunOutcome
from meshtui.core.lane.service import open_runner
from meshtui.core.lane.settle import LaneFiles, Settler
from meshtui.core.models.config import EngineConfig
from meshtui.core.models.names import RecordName, folded, safe_of
from meshtui.core.models.record import Record, load_record
from meshtui.core.models.result import make_result
from meshtui.core.run_dir import RECORD_FOLDERS, RunDir

AT = "2026-12-01T00:00:00.000Z"


class LaterClock(SystemClock):
    """The machine's clock some seconds on: a lock without an owner is old by it."""

    def __init__(self, seconds: float = 60.0) -> None:
        self._ms = round(seconds * 1000)

    def now_ms(self) -> int:
        return super().now_ms() + self._ms


def quick_folder() -> Path | None:
    """Where files cost no disk time, if there is such a place."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and os.access(memory, os.W_OK) else None


def new_lane(root: Path, clock: Clock | None = None) -> tuple[RunDir, Lane]:
    """A run directory without a repository, and its lane."""
    run_dir = create_run_dir(root, clock or SystemClock(), lane_id="lane", repo=root.parent)
    return run_dir, Lane(run_dir, clock=clock)


def phase(envelope_id: str, **more: Any) -> dict[str, Any]:
    """A small phase for engine ``command``."""
    return {"kind": "phase", "id": envelope_id, "prompt": f"do {envelope_id}", "engine": "command", **more}


def files_of(run_dir: RunDir, clock: Clock | None = None) -> LaneFiles:
    """What a runner opens."""
    files = LaneFiles.open(run_dir, "lane", clock or SystemClock())
    files.queue.make_folders()
    return files


def claim_first(run_dir: RunDir) -> Record:
    """Claim the head of the queue."""
    queue = Queue(run_dir.lane, SystemClock())
    record = queue.claim(list_records(run_dir.lane.pending)[0])
    assert record is not None
    return record


def result_of(envelope_id: str, status: Any = "done", **fields: Any) -> dict[str, Any]:
    return make_result(envelope_id, status, started_at=AT, finished_at=AT, **fields)


def finish_first(run_dir: RunDir, status: Any = "done", **fields: Any) -> str:
    """Claim the head and finish it; its id."""
    record = claim_first(run_dir)
    Settler(files_of(run_dir)).finish(record, result_of(record.envelope_id, status, **fields))
    return record.envelope_id


def park_first(run_dir: RunDir) -> str:
    """Claim the head and park it; its id."""
    record = claim_first(run_dir)
    Settler(files_of(run_dir)).park(record, cause="test", attempts=2, started_at=AT, evidence={})
    return record.envelope_id


def run_until_idle(run_dir: RunDir, command: str = "cat", clock: Clock | None = None) -> RunOutcome:
    """Have a runner work the lane with ``command`` until nothing is pending or something is parked."""
    engine = CommandEngine(EngineConfig(run=command))

    def engines(name: str) -> Engine:
        return engine

    return open_runner(run_dir, engine="command", until_idle=True, engines=engines, clock=clock).run()


# -- what has to hold ------------------------------------------------------------------------------------


def where(run_dir: RunDir) -> dict[str, str]:
    """The folder of every record by its safe id; a batch that was decided counts as pending."""
    found: dict[str, str] = {}
    folders = [(name, run_dir.lane.folder(name)) for name in RECORD_FOLDERS]
    if run_dir.lane.batches.is_dir():
        folders += [("pending", path) for path in run_dir.lane.batches.iterdir() if path.name[0] != "."]
    for name, folder in folders:
        for record in list_records(folder):
            safe = safe_of(record)
            assert safe not in found, f"{safe} is in {found[safe]} and in {name}"
            found[safe] = name
    return found


def pending_ids(run_dir: RunDir) -> list[str]:
    """Safe ids in the queue's order."""
    return [safe_of(name) for name in list_records(run_dir.lane.pending)]


def results(run_dir: RunDir) -> dict[str, str]:
    """The status of each result by its safe id."""
    found = {}
    for path in run_dir.lane.results.glob("*.json"):
        found[path.name.removesuffix(".json")] = json.loads(path.read_bytes())["status"]
    return found


def sequences(run_dir: RunDir) -> list[int]:
    """The sequence numbers of all records."""
    found = []
    for folder in RECORD_FOLDERS:
        for name in list_records(run_dir.lane.folder(folder)):
            parts = RecordName.parse(name)
            assert parts is not None, name
            found.append(parts.sequence)
    return found


def index_now(run_dir: RunDir, clock: Clock | None = None) -> dict[str, Any]:
    """The index as the next operation takes it."""
    with Queue(run_dir.lane, clock or SystemClock()).locked() as index:
        return index.as_json()


def index_rebuilt(run_dir: RunDir, scratch: Path) -> dict[str, Any]:
    """The index of a copy of the lane that has none."""
    copy = RunDir(scratch / "copy")
    shutil.rmtree(copy.root, ignore_errors=True)
    quarantine = shutil.ignore_patterns("quarantine")  # It may hold what cannot be copied.
    shutil.copytree(run_dir.lane.root, copy.lane.root, symlinks=True, ignore=quarantine)
    shutil.rmtree(copy.lane.ids, ignore_errors=True)
    try:
        return index_now(copy)
    finally:
        shutil.rmtree(copy.root)


def check(run_dir: RunDir, scratch: Path, clock: Clock | None = None) -> None:
    """Everything that holds for a lane at rest: folders, names, counts, used ids, results, index."""
    lane = run_dir.lane
    index = index_now(run_dir, clock)
    here = where(run_dir)
    assert not lane.batches.exists()
    counts = Counter(here.values())
    assert {name: index["counts"].get(name, 0) for name in RECORD_FOLDERS} == {
        name: counts.get(name, 0) for name in RECORD_FOLDERS
    }
    statuses = Counter(results(run_dir).values())
    assert (index["done"], index["failed"]) == (statuses["done"], statuses["failed"])
    pending = list_records(lane.pending)
    assert index["newest"] == (pending[-1] if pending else None)
    stops = [name for name in pending if load_record(lane.pending / name).envelope.get("kind") == "stop"]
    assert index["stop_waits"] == bool(stops)
    assert stops in ([], pending[-1:]), "a stop is the newest record, and there is one at most"
    # What was put before everything has no sequence of its own.
    numbers = [number for number in sequences(run_dir) if number]
    assert len(numbers) == len(set(numbers)), "a sequence number was given twice"
    assert index["sequence"] >= max(numbers, default=0)
    saved = Index(lane)
    for safe in {*here, *results(run_dir)}:
        assert saved.is_used(folded(safe)), f"{safe} counts as unused"
    for folder in RECORD_FOLDERS:
        for name in list_records(lane.folder(folder)):
            record = load_record(lane.folder(folder) / name)
            if folder == "pending":
                assert record.call is None
    rebuilt = index_rebuilt(run_dir, scratch)
    for ignored in ("mtimes", "sequence", "boot", "dirty"):
        index.pop(ignored, None)
        rebuilt.pop(ignored, None)
    assert index == rebuilt


def temporary_files(run_dir: RunDir) -> list[str]:
    """Every temporary file and broken lock anywhere in the run directory."""
    return sorted(
        os.path.join(folder, name)
        for folder, folders, files in os.walk(run_dir.root)
        for name in (*files, *folders)
        if name.endswith((".tmp", ".stale"))
    )
