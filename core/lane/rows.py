"""Rows of a view from the files: lenient, since whatever stands in a folder has to be shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from meshtui.core import storage
from meshtui.core.clock import from_iso
from meshtui.core.errors import StorageError
from meshtui.core.models.names import RETRY, safe_of
from meshtui.core.strict_json import clean_text
from meshtui.core.view import Held, Row, Section, Spent

READ_LIMIT = 2 << 20


def read_object(path: Path | str) -> dict[str, Any] | None:
    """The object in ``path``, ``None`` for anything else; never raises for what stands there."""
    try:
        value = json.loads(storage.read_bytes(path, limit=READ_LIMIT))
    except (OSError, ValueError, RecursionError, StorageError):
        return None
    return value if isinstance(value, dict) else None


def unread_row(name: str, section: Section) -> Row:
    """A row of which only the name is known."""
    # Of a plain name the safe id starts at a fixed place; tens of thousands are asked for at a time.
    plain = (
        name[16:17] == name[30:31] == name[67:68] == "-" and name[:16].isdigit() and name.endswith(".json")
    )
    return Row(key=name, section=section, envelope_id=name[68:-5] if plain else safe_of(name), loaded=False)


def record_row(name: str, section: Section, data: dict[str, Any] | None) -> Row:
    """The row of a record; ``kind`` is ``unknown`` for what cannot be read as one."""
    if data is None:
        return Row(key=name, section=section, envelope_id=safe_of(name), kind="unknown")
    envelope = data.get("envelope")
    if not isinstance(envelope, dict):
        envelope = {}
    attempt = _number(data.get("attempt"))
    attempt = int(attempt) if attempt is not None else (2 if name.startswith(RETRY) else 1)
    budget = _number(data.get("deadline_budget_seconds")) or _number(envelope.get("deadline_seconds"))
    deadline = _number(data.get("deadline_at_ms"))
    call = data.get("call")
    started = None
    if deadline is not None and budget is not None and section == "active":
        started = round(deadline - budget * 1000)
    kind: Literal["phase", "stop"] = "stop" if envelope.get("kind") == "stop" else "phase"
    return Row(
        key=name,
        section=section,
        envelope_id=_text(data.get("envelope_id")) or safe_of(name),
        kind=kind,
        label=_text(envelope.get("label")),
        phase=_text(envelope.get("phase")),
        story_id=_text(envelope.get("story_id")),
        engine=_text(envelope.get("engine")),
        mode=_text(envelope.get("mode")) or "single",
        queued_at=from_iso(data.get("queued_at")),
        started_at=started,
        deadline_at=round(deadline) if deadline is not None and section == "active" else None,
        budget_seconds=budget,
        attempt=attempt,
        stalls=max(0, attempt - 1),
        call_id=call if isinstance(call, str) else None,
    )


def finished_row(key: str, section: Section, record: dict[str, Any] | None, result: dict[str, Any]) -> Row:
    """The row of an envelope with a result."""
    row = record_row(key, section, record or {"envelope_id": result.get("envelope_id")})
    call = result.get("call")
    return Row(
        key=key,
        section=section,
        envelope_id=_text(result.get("envelope_id")) or row.envelope_id,
        kind=row.kind,
        label=row.label,
        phase=row.phase,
        story_id=row.story_id,
        engine=_text(result.get("engine")) or row.engine,
        mode=row.mode,
        queued_at=row.queued_at,
        started_at=from_iso(result.get("started_at")),
        finished_at=from_iso(result.get("finished_at")),
        budget_seconds=row.budget_seconds,
        attempt=row.attempt,
        stalls=row.stalls,
        call_id=call if isinstance(call, str) else row.call_id,
        status=_text(result.get("status")),
        handoff_status=_text(result.get("handoff_status")),
        error=_text(result.get("error")),
    )


def held_of(status: dict[str, Any], pending: Sequence[str]) -> Held | None:
    """The phase that ``loop.json`` says is held, as long as its record waits."""
    limit = status.get("limit")
    if not isinstance(limit, dict) or limit.get("record") not in pending:
        return None
    return Held(
        envelope_id=_text(limit.get("envelope_id")) or "",
        engine=_text(limit.get("engine")) or "",
        until=from_iso(limit.get("until")),
        since=from_iso(limit.get("since")),
        known=limit.get("reset_known") is True,
        text=_text(limit.get("error")) or "",
    )


def spent_of(status: dict[str, Any]) -> Spent | None:
    """How near the lane is to a cap, where ``loop.json`` says so."""
    budget = status.get("budget")
    if not isinstance(budget, dict):
        return None
    cap, used, most = _text(budget.get("cap")), _number(budget.get("used")), _number(budget.get("max"))
    return Spent(cap, used, most) if cap and used is not None and most else None


def _text(value: object) -> str | None:
    return clean_text(value) if isinstance(value, str) and value else None


def _number(value: object) -> float | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e15:
        return float(value)
    return None
