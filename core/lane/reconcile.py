"""Makes the journal agree with the files when a runner starts.

Events are written after the files they tell of, so a process that ended in between leaves a change that
the journal does not know. What changed since the last runner's start and has no event gets one now,
marked ``recovered``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from meshtui.core import storage
from meshtui.core.journal import read_tail
from meshtui.core.lane.index import is_result_name, result_status
from meshtui.core.lane.settle import LaneFiles
from meshtui.core.models.names import folded, is_record_name, safe_id, safe_of

LOOK_BACK = 20_000
MOST = 1000
"""More changes than this are another tool's history and get one event in all."""

_ARRIVED = (
    "enqueued",
    "requeued",
    "restored",
    "phase_recovered",
    "phase_aborted",
    "phase_answered",
    "phase_stalled",
    "phase_held",
    "moved_to_head",
    "edited",
)
_ENDED = ("phase_done", "phase_failed", "phase_parked", "lane_stopped")
_EVENT_OF_STATUS = {
    "done": "phase_done",
    "bad": "phase_done",
    "failed": "phase_failed",
    "stalled": "phase_parked",
    "stopped": "lane_stopped",
}


def reconcile(files: LaneFiles) -> int:
    """Append what is missing and return how many events that were; the caller holds the lease."""
    events = read_tail(files.run_dir.events, LOOK_BACK)
    since = 0
    known: dict[str, set[str]] = {"arrived": set(), "withdrawn": set(), "ended": set()}
    for event in reversed(events):
        if event.event == "runner_started":
            since = event.at
            break
        kind = _kind_of(event.event)
        if kind is not None:
            known[kind].add(folded(safe_id(event.subject)))
    # Whoever takes over what is active settles it, and says so then.
    known["ended"].update(folded(safe_of(entry.name)) for entry in _entries(files.paths.active))
    missing: list[tuple[str, str, Mapping[str, Any]]] = []
    for name in _changed_records(files.paths.pending, since):
        if folded(safe_of(name)) not in known["arrived"]:
            missing.append(("enqueued", safe_of(name), {"recovered": True, "record": name}))
    for name in _changed_records(files.paths.withdrawn, since):
        if folded(safe_of(name)) not in known["withdrawn"]:
            missing.append(("withdrawn", safe_of(name), {"recovered": True, "record": name}))
    for safe, status in _changed_results(files.paths.results, since, known["ended"]):
        missing.append((_EVENT_OF_STATUS.get(status, "phase_failed"), safe, {"recovered": True}))
    if len(missing) > MOST:
        missing = [("history_found", files.run_dir.root.name, {"changes": len(missing)})]
    if missing:
        files.journal.append_many(missing)
    return len(missing)


def _kind_of(event: str) -> str | None:
    if event in _ARRIVED:
        return "arrived"
    if event in _ENDED:
        return "ended"
    return "withdrawn" if event == "withdrawn" else None


def _changed(entry: os.DirEntry[str], since: int) -> bool:
    try:
        return entry.stat(follow_symlinks=False).st_ctime * 1000 >= since
    except FileNotFoundError:
        return False


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        return sorted(os.scandir(folder), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _changed_records(folder: Path, since: int) -> list[str]:
    return [entry.name for entry in _entries(folder) if is_record_name(entry.name) and _changed(entry, since)]


def _changed_results(folder: Path, since: int, known: set[str]) -> list[tuple[str, str]]:
    found = []
    for entry in _entries(folder):
        safe = entry.name.removesuffix(".json")
        if not is_result_name(entry.name) or folded(safe) in known or not _changed(entry, since):
            continue
        try:
            found.append((safe, result_status(storage.read_bytes(Path(entry.path), limit=16 << 20))))
        except (FileNotFoundError, IsADirectoryError):
            continue
    return found
