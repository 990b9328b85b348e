"""Phase envelopes: what is put into a lane, checked before it is queued.

Envelopes stay plain objects: a file may hold fields that another tool means something by, and they are
kept. Two kinds of phase exist: a plain prompt, and ``hq-phase-envelope/v1`` ("§-schema"), for which the
runner builds the prompt and whose reply is a handoff.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

from meshtui.core.clock import SystemClock
from meshtui.core.errors import InvalidInput
from meshtui.core.models.names import MAX_ID, MAX_SAFE_ID, safe_id
from meshtui.core.strict_json import MAX_BYTES, check_depth, clean, clean_text, dumps

PHASE_SCHEMA = "hq-phase-envelope/v1"

ENGINES = ("claude", "codex", "grok", "command")
"""The engines an envelope may name."""

MODES = ("single", "mesh")

MAX_WAIT_MS = 3650 * 86_400_000
"""Ten years: no wait is longer, whatever an envelope asks for."""

_DEADLINE = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})"
    r"(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d+))?)?(?:[Zz]|([+-])(\d{2}):?(\d{2}))?)?",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1)
_MS = timedelta(milliseconds=1)
_EARLIEST_MS = (datetime.min - _EPOCH) // _MS
_LATEST_MS = (datetime.max - _EPOCH) // _MS

_DEADLINE_FORMS = "2030-01-31, 2030-01-31T18:00 (local time) or 2030-01-31T18:00:00Z"


def show(value: object, limit: int = 60) -> str:
    """``value`` as an error may quote it: one short line without control characters."""
    if isinstance(value, str):
        return repr(value) if len(value) <= limit else f"{value[:limit]!r}…"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if abs(value) < 10**18 else "a number that long"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "an array"
    return f"a {type(value).__name__}"


def _refuse(field: str, allowed: str, value: object) -> InvalidInput:
    return InvalidInput(f"{field} must be {allowed}, not {show(value)}", field=field)


def _missing(field: str, allowed: str) -> InvalidInput:
    return InvalidInput(f"{field} is missing: it must be {allowed}", field=field)


# --- single fields -----------------------------------------------------------------------------


def _require(envelope: Mapping[str, Any], field: str, allowed: str) -> Any:
    if field not in envelope:
        raise _missing(field, allowed)
    return envelope[field]


def _text(field: str, value: object, allowed: str = "a non-empty text") -> None:
    """Refuse what is no text with something in it; NUL too: no argument or variable can hold one."""
    if not isinstance(value, str) or not value.strip():
        raise _refuse(field, allowed, value)
    if "\0" in value:
        raise InvalidInput(f"{field} must not hold a NUL character", field=field)


def _absolute(field: str, value: object) -> None:
    _text(field, value, "an absolute path")
    if not str(value).startswith("/"):
        raise _refuse(field, "an absolute path", value)


def _maybe_text(envelope: Mapping[str, Any], *fields: str) -> None:
    """Optional texts: missing, null or empty means not given."""
    for field in fields:
        value = envelope.get(field)
        if value is not None and not isinstance(value, str):
            raise _refuse(field, "a text", value)
        if value and "\0" in value:
            raise InvalidInput(f"{field} must not hold a NUL character", field=field)


def _maybe_bool(envelope: Mapping[str, Any], field: str) -> None:
    value = envelope.get(field)
    if value is not None and not isinstance(value, bool):
        raise _refuse(field, "true or false", value)


def _texts(field: str, value: object) -> None:
    if not isinstance(value, list):
        raise _refuse(field, "an array of texts", value)
    for index, item in enumerate(value):
        if not isinstance(item, str):
            raise InvalidInput(
                f"{field} must be an array of texts, but item {index} is {show(item)}", field=field
            )


def _seconds(value: object) -> float | None:
    """``value`` as a positive finite number, ``None`` if it is anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number > 0 else None


def validate_id(envelope_id: object) -> str:
    """The id as it is kept, lone surrogates replaced.

    Raises :class:`InvalidInput` unless it is 1 to 120 characters without a control character whose name
    as a file stays within 150.
    """
    if not isinstance(envelope_id, str) or not envelope_id:
        raise _refuse("id", f"a text of 1 to {MAX_ID} characters", envelope_id)
    text = clean_text(envelope_id)
    if len(text) > MAX_ID:
        raise InvalidInput(f"id has {len(text)} characters: 1 to {MAX_ID} are allowed", field="id")
    if any(unicodedata.category(character) == "Cc" for character in text):
        raise InvalidInput(f"id {show(text)} holds a control character: none is allowed", field="id")
    if len(safe_id(text)) > MAX_SAFE_ID:
        raise InvalidInput(
            f"id {show(text)} is too long for a file name: use fewer characters outside A-Z a-z 0-9 . _ -",
            field="id",
        )
    return text


def parse_deadline(text: object) -> int:
    """A deadline in milliseconds since the epoch.

    ``YYYY-MM-DD`` is UTC midnight; with ``T`` or one space and ``HH:MM[:SS[.digits]]`` it is local time
    unless ``Z``, ``z``, ``±HH:MM`` or ``±HHMM`` follows. Digits after the milliseconds are dropped.
    Raises :class:`InvalidInput` for everything else, days and times that do not exist included.
    """
    found = _DEADLINE.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise InvalidInput(f"deadline must be like {_DEADLINE_FORMS}, not {show(text)}", field="deadline")
    hour, digits, sign, offset_hours, offset_minutes = found.group(4, 7, 8, 9, 10)
    try:
        parts = [int(part or 0) for part in found.groups()[:6]]
        moment = datetime(parts[0], parts[1], parts[2], parts[3], parts[4], parts[5])
        if int(offset_hours or 0) > 23 or int(offset_minutes or 0) > 59:
            raise ValueError("an offset is at most 23:59")
        zoned = hour is None or sign is not None or found[0][-1] in "Zz"
        if zoned:
            offset = timedelta(hours=int(offset_hours or 0), minutes=int(offset_minutes or 0))
            since_epoch = moment - _EPOCH
            ms = (since_epoch + offset if sign == "-" else since_epoch - offset) // _MS
        else:
            ms = round(moment.timestamp() * 1000)
        if not _EARLIEST_MS <= ms <= _LATEST_MS:
            raise ValueError("years go from 0001 to 9999")
    except (ValueError, OverflowError, OSError):
        raise InvalidInput(
            f"deadline {show(text)} does not exist: no such day, time or offset", field="deadline"
        ) from None
    return ms + int((digits or "0")[:3].ljust(3, "0"))


# --- the whole ---------------------------------------------------------------------------------


def _check_limits(envelope: Mapping[str, Any]) -> None:
    if "engine" in envelope and envelope["engine"] not in ENGINES:
        raise _refuse("engine", f"one of {', '.join(ENGINES)}", envelope["engine"])
    if "deadline_seconds" in envelope and _seconds(envelope["deadline_seconds"]) is None:
        raise _refuse("deadline_seconds", "a positive finite number", envelope["deadline_seconds"])
    if "deadline" in envelope:
        parse_deadline(envelope["deadline"])
    if "result_path" in envelope:
        _text("result_path", envelope["result_path"], "a non-empty path")


def _check_shared(envelope: Mapping[str, Any]) -> None:
    """What both kinds of phase may carry."""
    _check_limits(envelope)
    _maybe_text(envelope, "label", "story_id", "phase", "model", "effort", "repo")
    _maybe_bool(envelope, "fresh")
    _maybe_bool(envelope, "fresh_call")
    for field in ("worktree", "cd"):
        if envelope.get(field) is not None:
            _absolute(field, envelope[field])
    if envelope.get("mode") is not None and envelope["mode"] not in MODES:
        raise _refuse("mode", "single or mesh", envelope["mode"])


def _check_prompt_phase(envelope: Mapping[str, Any]) -> None:
    prompt = _require(envelope, "prompt", "a non-empty text")
    if not isinstance(prompt, str) or not prompt.strip():
        raise _refuse("prompt", "a non-empty text", prompt)
    _check_shared(envelope)


def _check_handoff_phase(envelope: Mapping[str, Any]) -> None:
    for field in ("story_id", "phase", "worker_id"):
        _text(field, _require(envelope, field, "a non-empty text"))
    _absolute("worktree", _require(envelope, "worktree", "an absolute path"))
    incoming = _require(envelope, "incoming_handoff", "a path or null")
    if incoming is not None:
        _text("incoming_handoff", incoming, "a path or null")
    _texts(
        "acceptance_criteria",
        _require(envelope, "acceptance_criteria", "an array of texts"),
    )
    if not isinstance(_require(envelope, "fresh_call", "true or false"), bool):
        raise _refuse("fresh_call", "true or false", envelope["fresh_call"])
    _check_shared(envelope)
    if envelope.get("mode") == "mesh":
        raise InvalidInput(
            f"mode mesh needs a prompt: a {PHASE_SCHEMA} phase runs as mode single", field="mode"
        )
    _maybe_text(
        envelope, "project", "story_title", "story_description", "branch", "reopen_note", "prior_handoff"
    )
    _maybe_bool(envelope, "resumed_after_interrupt")
    if envelope.get("constraints") is not None:
        _texts("constraints", envelope["constraints"])


def validate_envelope(value: object) -> dict[str, Any]:
    """A copy of envelope ``value`` that may be queued: lone surrogates replaced, unknown fields kept.

    Raises :class:`InvalidInput`, whose ``field`` names the culprit, for anything the contract refuses,
    more than 1 MiB as JSON or more than 100 levels included.
    """
    if not isinstance(value, dict):
        raise InvalidInput(f"an envelope must be a JSON object, not {show(value)}")
    try:
        check_depth(value)
    except InvalidInput as error:
        raise InvalidInput(f"the envelope is {error}") from None
    envelope: dict[str, Any] = clean(value)
    try:
        size = len(dumps(envelope).encode())
    except (ValueError, TypeError):
        raise InvalidInput("the envelope holds what JSON cannot: NaN, Infinity or a huge number") from None
    if size > MAX_BYTES:
        raise InvalidInput(f"the envelope has {size:,} bytes as JSON: 1 MiB ({MAX_BYTES:,}) is allowed")
    kind = envelope.get("kind")
    schema = envelope.get("schema")
    if kind not in ("phase", "stop") and not (schema == PHASE_SCHEMA and kind is None):
        if kind is None and isinstance(schema, str):
            raise InvalidInput(
                f"schema must be {PHASE_SCHEMA}, not {show(schema)}, or kind phase or stop", field="schema"
            )
        raise InvalidInput(
            f"kind must be phase or stop, not {show(kind)}"
            if "kind" in envelope
            else f"kind is missing: it must be phase or stop (or schema {PHASE_SCHEMA})",
            field="kind",
        )
    if "id" in envelope:
        envelope["id"] = validate_id(envelope["id"])
    if kind == "stop":
        return envelope
    if schema == PHASE_SCHEMA:
        _check_handoff_phase(envelope)
    else:
        _check_prompt_phase(envelope)
    return envelope


# --- reading one, validated or not -------------------------------------------------------------


def _given(envelope: Mapping[str, Any], *fields: str) -> str | None:
    """The first of ``fields`` that holds a non-empty text."""
    for field in fields:
        value = envelope.get(field)
        if isinstance(value, str) and value:
            return value
    return None


def kind_of(envelope: Mapping[str, Any]) -> Literal["phase", "stop"]:
    """What the envelope asks for."""
    return "stop" if envelope.get("kind") == "stop" else "phase"


def is_handoff_phase(envelope: Mapping[str, Any]) -> bool:
    """Whether the reply must be a handoff."""
    return envelope.get("schema") == PHASE_SCHEMA and kind_of(envelope) == "phase"


def story_of(envelope: Mapping[str, Any]) -> str:
    """The story whose session the phase shares, ``""`` when it has none."""
    return _given(envelope, "story_id") or ""


def phase_of(envelope: Mapping[str, Any]) -> str | None:
    """The phase's name, if it has one."""
    return _given(envelope, "phase")


def fresh_of(envelope: Mapping[str, Any]) -> bool:
    """Whether the phase must not resume its story's session."""
    return envelope.get("fresh") is True or envelope.get("fresh_call") is True


def label_of(envelope: Mapping[str, Any], envelope_id: str) -> str:
    """What to call it in one word or two: phase, else label, else id."""
    return _given(envelope, "phase", "label") or envelope_id


def workdir_of(envelope: Mapping[str, Any]) -> str | None:
    """The directory the phase names for itself, an absolute path."""
    return _given(envelope, "worktree", "cd")


def engine_of(envelope: Mapping[str, Any]) -> str | None:
    """The engine the envelope names; ``None`` leaves it to the lane."""
    return _given(envelope, "engine")


def budget_ms(envelope: Mapping[str, Any], *, first_started_ms: int, default_seconds: float) -> int:
    """How long an attempt may take, in milliseconds, at most ten years.

    ``deadline_seconds``, else ``deadline`` minus the first start (zero or less when it was past by then),
    else ``default_seconds``. Raises :class:`InvalidInput` for a deadline that cannot be read.
    """
    seconds = _seconds(envelope.get("deadline_seconds"))
    if seconds is None and "deadline" in envelope:
        return min(parse_deadline(envelope["deadline"]) - first_started_ms, MAX_WAIT_MS)
    wanted = default_seconds if seconds is None else seconds
    return max(1, round(min(wanted * 1000, MAX_WAIT_MS)))


def warnings_for(envelope: Mapping[str, Any], *, now_ms: int | None = None) -> list[str]:
    """What a valid envelope asks for that will not come out as its author may expect, one line each.

    ``now_ms`` is the time a deadline is compared with, by default the system's.
    """
    if kind_of(envelope) == "stop":
        return []
    warnings = []
    if "deadline" in envelope:
        if "deadline_seconds" in envelope:
            warnings.append("deadline is ignored: deadline_seconds is given too and comes first")
        elif parse_deadline(envelope["deadline"]) <= (SystemClock().now_ms() if now_ms is None else now_ms):
            warnings.append(
                f"deadline {show(envelope['deadline'])} is already past: the phase will park unrun"
            )
    return warnings
