"""Handoffs ``hq-phase-handoff/v1``: what a worker replies at the end of a §-schema phase."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from meshtui.core import strict_json
from meshtui.core.errors import InvalidInput
from meshtui.core.models.envelope import show

HANDOFF_SCHEMA = "hq-phase-handoff/v1"

STATUSES = ("passed", "failed", "blocked")
GATES = ("tests", "lint", "typecheck", "build")
GATE_RESULTS = ("pass", "fail", "skip")


def _refuse(field: str, allowed: str, value: object) -> InvalidInput:
    return InvalidInput(f"handoff {field} must be {allowed}, not {show(value)}", field=field)


def _check(ok: bool, field: str, allowed: str, value: object) -> None:
    if not ok:
        raise _refuse(field, allowed, value)


def _check_evidence(entry: object, field: str, criteria: int) -> None:
    if not isinstance(entry, dict):
        raise _refuse(field, "an object", entry)
    index = entry.get("index")
    if isinstance(index, float) and index.is_integer():
        index = int(index)
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < criteria:
        allowed = (
            f"0 to {criteria - 1}, a criterion's number" if criteria else "left out: there are no criteria"
        )
        raise _refuse(f"{field}.index", allowed, index)
    _check(isinstance(entry.get("met"), bool), f"{field}.met", "true or false", entry.get("met"))
    evidence = entry.get("evidence")
    _check(
        isinstance(evidence, str) and bool(evidence.strip()),
        f"{field}.evidence",
        "a non-empty text",
        evidence,
    )
    if entry.get("criterion") is not None:
        _check(isinstance(entry["criterion"], str), f"{field}.criterion", "a text", entry["criterion"])


def validate_handoff(value: object, envelope: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of handoff ``value`` that answers ``envelope``: surrogates replaced, unknown fields kept.

    Raises :class:`InvalidInput`, whose ``field`` names the culprit.
    """
    if not isinstance(value, dict) or value.get("schema") != HANDOFF_SCHEMA:
        raise InvalidInput(f"handoff schema must be {HANDOFF_SCHEMA}", field="schema")
    strict_json.check_depth(value)
    handoff: dict[str, Any] = strict_json.clean(value)
    for field in ("story_id", "phase", "worker_id"):
        text = handoff.get(field)
        _check(isinstance(text, str) and bool(text), field, "a non-empty text", text)
    for field in ("summary", "context_for_next"):
        _check(isinstance(handoff.get(field), str), field, "a text", handoff.get(field))
    _check(handoff.get("status") in STATUSES, "status", "passed, failed or blocked", handoff.get("status"))
    for field in ("files_changed", "commits"):
        items = handoff.get(field)
        whole = isinstance(items, list) and all(isinstance(item, str) for item in items)
        _check(whole, field, "an array of texts", items)
    gates = handoff.get("back_pressure")
    if not isinstance(gates, dict):
        raise _refuse("back_pressure", "an object", gates)
    for gate in GATES:
        _check(
            gates.get(gate) in GATE_RESULTS, f"back_pressure.{gate}", "pass, fail or skip", gates.get(gate)
        )
    for field in ("story_id", "phase", "worker_id"):
        wanted = envelope.get(field)
        _check(handoff[field] == wanted, field, f"{show(wanted)} as in the envelope", handoff[field])
    evidence = handoff.get("ac_evidence")
    if evidence is not None:
        _check(isinstance(evidence, list), "ac_evidence", "an array", evidence)
        criteria = envelope.get("acceptance_criteria")
        count = len(criteria) if isinstance(criteria, list) else 0
        for position, entry in enumerate(evidence):
            _check_evidence(entry, f"ac_evidence[{position}]", count)
    return handoff


def read_handoff(reply: str, envelope: Mapping[str, Any]) -> dict[str, Any]:
    """The handoff in ``reply``: bare, in a fence, or inside prose.

    Braces in the prose are passed over; an object inside another complete one is part of that one. Takes
    time and memory in proportion to the reply. Raises :class:`InvalidInput` unless exactly one object
    carries the schema (identical repeats count once) and answers ``envelope``.
    """
    found: dict[str, Any] = {}
    for text in _carriers(reply):
        value = strict_json.loads(text, what="the handoff in the reply")
        found.setdefault(json.dumps(value, sort_keys=True), value)
        if len(found) > 1:
            raise InvalidInput(
                f"the reply holds different {HANDOFF_SCHEMA} objects: exactly one is allowed", field="schema"
            )
    if not found:
        named = HANDOFF_SCHEMA in reply
        hint = ": one that is incomplete or inside another object does not count" if named else ""
        raise InvalidInput(f"the reply holds no {HANDOFF_SCHEMA} object{hint}", field="schema")
    return validate_handoff(next(iter(found.values())), envelope)


# --- finding JSON objects in text --------------------------------------------------------------
#
# Trying a JSON parser at every brace takes quadratic time on hostile replies. Instead one attempt follows
# the grammar from a brace as far as it goes and notes every object it meets; none of those is ever tried
# again. What remains are braces inside the attempt's strings, and an attempt from there sees strings
# exactly where the first saw none, so no character is visited more than twice.

_WS = r"[ \t\n\r]*+"
_STRING = r'"(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+"'
_ATOM = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null"
_START = re.compile(rf"\{{(?={_WS}{_STRING}{_WS}:)")
_KEY = re.compile(f"{_WS}({_STRING}){_WS}:")
_VALUE = re.compile(f"{_WS}(?:({_STRING})|([{{\\[])|(?:{_ATOM}))")
_AFTER = re.compile(f"{_WS}([,}}\\]])")
_END = re.compile(f"{_WS}([}}\\]])")

_ARRAY = -1


def _is_text(token: str, wanted: str) -> bool:
    """Whether JSON string ``token`` reads ``wanted``."""
    return token == f'"{wanted}"' or ("\\" in token and json.loads(token) == wanted)


class _Attempt:
    """What the grammar meets from one opening brace on: the largest complete objects, and the carriers."""

    def __init__(self, text: str, tried: bytearray) -> None:
        self._text = text
        self._tried = tried
        self._open: deque[int] = deque(maxlen=strict_json.MAX_DEPTH)
        """Starts of open objects, ``_ARRAY`` for arrays; the oldest fall out when it gets too deep."""
        self.carriers: set[int] = set()
        self.complete: list[tuple[int, int]] = []

    def _enter(self, position: int) -> None:
        if self._text[position] == "{":
            self._tried[position] = 1
            self._open.append(position)
        else:
            self._open.append(_ARRAY)

    def _leave(self, end: int) -> None:
        start = self._open.pop()
        if start != _ARRAY:
            while self.complete and self.complete[-1][0] > start:
                self.complete.pop()
            self.complete.append((start, end))

    def follow(self, start: int) -> None:
        """Go on until the object at ``start`` is complete or the text is no JSON any more."""
        text = self._text
        self._enter(start)
        position = start + 1
        entered = True
        while self._open:
            if entered and (end := _END.match(text, position)):
                if (end[1] == "}") != (self._open[-1] != _ARRAY):
                    return
                position = end.end()
                self._leave(position)
                entered = False
                continue
            if not entered:
                after = _AFTER.match(text, position)
                if after is None:
                    return
                position = after.end()
                if after[1] != ",":
                    if (after[1] == "}") != (self._open[-1] != _ARRAY):
                        return
                    self._leave(position)
                    continue
            key = None
            if self._open[-1] != _ARRAY:
                key = _KEY.match(text, position)
                if key is None:
                    return
                position = key.end()
            value = _VALUE.match(text, position)
            if value is None:
                return
            position = value.end()
            entered = value[2] is not None
            if entered:
                self._enter(position - 1)
            elif key and value[1] and _is_text(key[1], "schema") and _is_text(value[1], HANDOFF_SCHEMA):
                self.carriers.add(self._open[-1])


def _carriers(text: str) -> Iterator[str]:
    """Every JSON object in ``text`` that is inside no other complete one and carries the schema."""
    tried = bytearray(len(text))
    for found in _START.finditer(text):
        start = found.start()
        if tried[start]:
            continue
        attempt = _Attempt(text, tried)
        attempt.follow(start)
        for first, end in attempt.complete:
            tried[first:end] = b"\1" * (end - first)
            if first in attempt.carriers:
                yield text[first:end]
