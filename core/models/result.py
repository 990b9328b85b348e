"""Results, handoffs written to ``result_path``, and the questions a parked phase raises."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, get_args

from meshtui.core import storage, strict_json
from meshtui.core.errors import InvalidInput, StorageError
from meshtui.core.models.envelope import is_handoff_phase
from meshtui.core.models.record import SCHEMA_VERSION

HANDOFF_SCHEMA = "hq-phase-handoff/v1"
GATES = ("tests", "lint", "typecheck", "build")
MAX_OUTPUT = 1 << 20
"""Characters of a reply that a result carries; the whole is in the call's ``stdout.log``."""

ResultStatus = Literal["done", "failed", "stalled", "stopped"]


def make_result(
    envelope_id: str, status: ResultStatus, *, started_at: str, finished_at: str, **fields: Any
) -> dict[str, Any]:
    """A result; fields that are ``None`` are left out, since a script takes what is there for known."""
    result: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "envelope_id": envelope_id,
        "status": status,
        "started_at": started_at,
        "finished_at": finished_at,
    }
    output = fields.get("output")
    if isinstance(output, str) and len(output) > MAX_OUTPUT:
        fields["output"] = output[:MAX_OUTPUT]
        fields["output_truncated"] = True
    result.update({key: value for key, value in fields.items() if value is not None})
    return result


def stand_in_handoff(
    envelope: dict[str, Any], status: Literal["failed", "blocked"], why: str
) -> dict[str, Any]:
    """The handoff of a phase that gave none, for whoever waits at its ``result_path``."""
    return {
        "schema": HANDOFF_SCHEMA,
        "story_id": envelope["story_id"],
        "phase": envelope["phase"],
        "worker_id": envelope["worker_id"],
        "status": status,
        "summary": why,
        "files_changed": [],
        "commits": [],
        "back_pressure": dict.fromkeys(GATES, "skip"),
        "context_for_next": why,
    }


def write_result_path(
    path: Path, envelope: dict[str, Any], result: dict[str, Any], handoff: dict[str, Any] | None
) -> None:
    """Write what a phase came to where its envelope asks for it.

    A §-schema phase writes its handoff, ``failed`` or (after two stalls) ``blocked`` where it gave none.
    Raises ``StorageError`` or :class:`InvalidInput`; a file that is not an earlier result or handoff is
    not overwritten.
    """
    value = result
    if is_handoff_phase(envelope):
        status: Literal["failed", "blocked"] = "blocked" if result["status"] == "stalled" else "failed"
        value = handoff or stand_in_handoff(envelope, status, str(result.get("error") or "no handoff"))
    target = Path(os.path.realpath(path))
    try:
        _refuse_other_files(target)
        storage.make_dirs(target.parent, mode=0o777)
        storage.write_atomic(target, strict_json.dump_bytes(value, indent=2), mode=0o666)
    except OSError as error:
        raise storage.explain(error, target) from error


def _refuse_other_files(target: Path) -> None:
    try:
        raw = storage.read_bytes(target, limit=16 << 20)
    except FileNotFoundError:
        return
    except IsADirectoryError:
        raise InvalidInput(f"{target} is a folder") from None
    try:
        value = strict_json.load_object(raw, limit=16 << 20)
    except (InvalidInput, StorageError):
        value = {}
    # Records and loop.json carry the same version.
    is_result = value.get("schema_version") == SCHEMA_VERSION and value.get("status") in get_args(
        ResultStatus
    )
    if not is_result and value.get("schema") != HANDOFF_SCHEMA:
        raise InvalidInput(f"{target} exists and is neither an earlier result nor a handoff: not overwritten")
