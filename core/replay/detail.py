"""The files behind a replayed record or loop: as far as they tell of what had happened by then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from meshtui.core.clock import from_iso
from meshtui.core.lane.index import list_records
from meshtui.core.lane.reader import LaneReader
from meshtui.core.lane.rows import read_object
from meshtui.core.mesh.detail import Diff, Gate, Kept, Log, LoopDetail, LoopPart, Proof, read_part
from meshtui.core.mesh.view import LoopRow, MissionView
from meshtui.core.models.names import folded, safe_id, safe_of
from meshtui.core.run_dir import RECORD_FOLDERS, RunDir
from meshtui.core.view import Detail, Row

OVER = ("done", "failed", "stalled")


def read_detail(root: Path, row: Row) -> Detail:
    """What the files tell of ``row`` and what was not known yet at its time is left out."""
    run_dir = RunDir(root)
    name = _file_of(run_dir, row)
    found = LaneReader(run_dir).detail(name) if name is not None else None
    if found is None or row.section == "quarantined":
        record: dict[str, Any] | None = None if row.section == "quarantined" else _told(row)
        return Detail(row.key, row.section, record, None, problem=row.error if record is None else None)
    result = _result_of(run_dir, row, found.result) if row.section in OVER else None
    later = result is not found.result
    record = dict(found.record or {})
    if row.section == "pending":
        for key in ("call", "deadline_at_ms"):
            record.pop(key, None)
    shows_call = found.call is not None and row.call_id == found.call.call_id and row.section != "pending"
    call = found.call if shows_call else None
    if call is not None and row.section == "active":
        # Its log stands as it ended; while it ran nobody could know how.
        call = replace(call, state="ended", exit_code=None)
    return replace(
        found,
        key=row.key,
        section=row.section,
        record=record,
        result=result,
        handoff=None if later or row.section not in OVER else found.handoff,
        question=found.question if row.section == "stalled" else None,
        call=call,
    )


def _file_of(run_dir: RunDir, row: Row) -> str | None:
    """The name under which the record stands now."""
    wanted = folded(safe_id(row.envelope_id))
    for folder in RECORD_FOLDERS:
        for name in list_records(run_dir.lane.folder(folder)):
            if name == row.key or folded(safe_of(name)) == wanted:
                return name
    result = run_dir.lane.result(row.envelope_id)
    return result.name if result.is_file() else None


def _result_of(run_dir: RunDir, row: Row, newest: dict[str, Any] | None) -> dict[str, Any] | None:
    """The result of the run that ``row`` is about: the newest one, or an earlier one kept beside it."""
    if newest is not None and _is_of(newest, row):
        return newest
    folder = run_dir.lane.history
    names = sorted(folder.glob(f"{safe_id(row.envelope_id)}.*.json")) if folder.is_dir() else []
    for path in reversed(names):
        value = read_object(path)
        if value is not None and _is_of(value, row):
            return value
    return None


def _is_of(result: dict[str, Any], row: Row) -> bool:
    if row.call_id is not None and result.get("call") is not None:
        return result.get("call") == row.call_id and result.get("status") == row.status
    return result.get("status") == row.status


def _told(row: Row) -> dict[str, Any]:
    envelope = {
        "id": row.envelope_id, "kind": row.kind, "label": row.label, "story_id": row.story_id,
        "phase": row.phase, "engine": row.engine, "deadline_seconds": row.budget_seconds,
    }  # fmt: skip
    kept = {key: value for key, value in envelope.items() if value is not None}
    return {"envelope_id": row.envelope_id, "attempt": row.attempt, "envelope": kept}


def read_loop(mission: MissionView, row: LoopRow, part: LoopPart, at: int) -> LoopDetail:
    """A part of a loop as it could be seen at the time ``at``.

    Its log is cut there. The other files are those of its last end: they are shown where the loop had come
    to that end, and else only what the journal tells.
    """
    if part == "log":
        log = read_part(mission, row, part)
        assert isinstance(log, Log)
        return Log(tuple(line for line in log.lines if line.at is not None and line.at <= at))
    state = read_object(mission.root / row.loop_id / "loop-state.json") or {}
    changed = from_iso(state.get("updated_at"))
    if row.ended and state.get("status") == row.status and changed is not None and changed <= at:
        return read_part(mission, row, part)
    if part == "diff":
        return Diff(problem="it had not ended: what it changed is not in the journal")
    if part == "gates":
        passed, failed, skipped = row.gates_passed, row.gates_failed, row.gates_skipped
        return tuple(
            Gate(
                gate,
                "passed"
                if gate in passed
                else "failed"
                if gate in failed
                else "skipped"
                if gate in skipped
                else "waiting",
            )
            for gate in row.gates_selected
        )
    if part == "proof":
        return Proof()
    return Kept() if part == "state" else ()
