"""What the journal tells of a record, so that a replay can show it as it was without its file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from meshtui.core.models.envelope import kind_of
from meshtui.core.models.record import Record
from meshtui.core.strict_json import clean_text

CHARACTERS = 200
"""Of a text; an envelope may hold a megabyte of it."""
_TEXTS = ("label", "story_id", "phase", "engine")


def facts_of(record: Record) -> dict[str, Any]:
    """``{record, label?, story_id?, phase?, engine?, kind?, mode?, deadline_seconds?}`` of a record.

    ``record`` is its file name, which tells its place in the queue and which of several runs of one
    envelope an event is about.
    """
    envelope = record.envelope
    found: dict[str, Any] = {"record": record.name}
    for key in _TEXTS:
        value = envelope.get(key)
        if isinstance(value, str) and value:
            found[key] = clean_text(value[:CHARACTERS])
    if kind_of(envelope) == "stop":
        found["kind"] = "stop"
    if envelope.get("mode") == "mesh":
        found["mode"] = "mesh"
    seconds = record.budget_seconds or envelope.get("deadline_seconds")
    if isinstance(seconds, (int, float)) and not isinstance(seconds, bool):
        found["deadline_seconds"] = seconds
    return found


def outcome_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """``{status, error?, handoff_status?, call?, engine?, exit_code?, usage?, started_at?}`` of a result."""
    keys = ("error", "handoff_status", "call", "engine", "exit_code", "usage", "started_at")
    found = {key: result[key] for key in keys if result.get(key) is not None}
    error = found.get("error")
    if isinstance(error, str):
        found["error"] = error[:1000]
    return found
