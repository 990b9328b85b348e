"""The filter language of every list: plain words and fields, all of which must hold.

``status:failed engine:codex age>10m -docs "exit 1"``: a word is looked for in a row's texts, a field
compares one value, ``-`` turns a term round, quotes keep spaces. :func:`parse` never fails: what is wrong or
not yet finished is told in words and left out, so that typing never empties a list by surprise. Everything
is decided while parsing; matching a row only calls what was made then.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from operator import eq, ge, gt, le, lt
from typing import Any, Literal, TypeVar

from meshtui.core.models.envelope import ENGINES
from meshtui.core.view import Row
from meshtui.status import row_mark

R = TypeVar("R")
Test = Callable[[Any, int], bool]
"""Whether a row, at a time in ms, is meant."""
Kind = Literal["text", "choice", "number", "duration", "share"]

UNITS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
COMPARE: dict[str, Callable[[Any, Any], bool]] = {">": gt, "<": lt, ">=": ge, "<=": le, "=": eq, ":": eq}

_TERM = re.compile(r'(-?)(?:([A-Za-z_]+)(>=|<=|[:=<>]))?((?:"[^"]*(?:"|$)|[^\s"])*)')
_LENGTH = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|min|[smhdw]))+", re.IGNORECASE)
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|min|[smhdw])", re.IGNORECASE)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Field:
    """One thing a row can be asked about by name."""

    name: str
    kind: Kind
    get: Callable[[Any, int], Any]
    """From row and the time now: a text, for ``number`` a number, for ``duration`` ms, for ``share`` a part
    of 1; ``None`` where the row has none. A text may also be a tuple of texts, of which one must fit."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Of a ``choice``: what may be typed, and the value of the row it stands for."""
    length: Callable[[Any, int], Any] | None = None
    """Of a ``share``: what a length (``budget>30m``) is compared with."""
    also: tuple[str, ...] = ()
    """Other names of it."""


@dataclass(frozen=True, slots=True)
class Fields:
    """What can be asked about the rows of one kind of list."""

    rows: str
    """What the rows are called: ``envelopes``."""
    words: Callable[[Any], str]
    """The texts of a row that plain words are looked for in, case-folded."""
    fields: tuple[Field, ...]

    def find(self, name: str) -> Field | None:
        """The field called ``name``."""
        return next((one for one in self.fields if name == one.name or name in one.also), None)

    @property
    def names(self) -> tuple[str, ...]:
        """The names to type."""
        return tuple(one.name for one in self.fields)


@dataclass(frozen=True, slots=True)
class Filter:
    """What was typed, ready to be asked of any number of rows."""

    text: str
    fields: Fields
    tests: tuple[Test, ...] = ()
    words: tuple[tuple[str, bool], ...] = ()
    """Case-folded, with whether they must be there."""
    problems: tuple[str, ...] = ()
    """What is wrong and was left out, in words."""
    hint: str | None = None
    """What is not finished yet and was left out, and how it goes on."""
    timed: bool = False
    """Whether time alone changes what matches."""

    def __bool__(self) -> bool:
        """Whether it leaves anything out."""
        return bool(self.tests or self.words)

    def matches(self, row: object, now: int = 0) -> bool:
        """Whether ``row`` is meant; ``now`` is the time in ms that ages are counted to."""
        for test in self.tests:
            if not test(row, now):
                return False
        if self.words:
            text = self.fields.words(row)
            for word, wanted in self.words:
                if (word in text) is not wanted:
                    return False
        return True

    def select(self, rows: Iterable[R], now: int = 0) -> tuple[R, ...]:
        """The rows that are meant, in their order."""
        matches = self.matches
        return tuple(row for row in rows if matches(row, now)) if self else tuple(rows)


class _Wrong(Exception):
    """A term that cannot be meant."""


class _Unfinished(Exception):
    """A term that lacks its end."""


def parse(text: str, fields: Fields | None = None) -> Filter:
    """The filter ``text`` for rows with ``fields``, by default those of the queue; never raises."""
    about = fields if fields is not None else QUEUE
    tests: list[Test] = []
    words: list[tuple[str, bool]] = []
    problems: list[str] = []
    hint: str | None = None
    timed = False
    for found in _TERM.finditer(text):
        sign, name, compare, raw = found.groups()
        value = raw.replace('"', "")
        wanted = not sign
        if name is None:
            if value:
                words.append((value.casefold(), wanted))
            continue
        try:
            one = about.find(name.lower())
            if one is None:
                raise _Wrong(_no_field(name, found[0].lstrip("-"), about))
            test = _test(one, compare, value)
        except _Wrong as error:
            problems.append(str(error))
        except _Unfinished as error:
            hint = str(error)
        else:
            tests.append(test if wanted else _unless(test))
            timed = timed or one.kind in ("duration", "share")
    return Filter(text, about, tuple(tests), tuple(words), tuple(problems), hint, timed)


def _no_field(name: str, term: str, about: Fields) -> str:
    near = get_close_matches(name.lower(), about.names, n=1)
    meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(about.names)}"
    return f'{about.rows} have no {name}: {meant} (as text: "{term}")'


def _unless(test: Test) -> Test:
    return lambda row, now: not test(row, now)


def _test(one: Field, compare: str, value: str) -> Test:
    """What a term asks of a row."""
    if one.kind == "choice":
        return _choice(one, compare, value)
    if one.kind == "text":
        return _text(one, compare, value)
    if one.kind == "number":
        return _number(one, compare, value)
    return _measure(one, compare, value)


def _text(one: Field, compare: str, value: str) -> Test:
    if compare not in (":", "="):
        raise _Wrong(f"{one.name} is a text: {one.name}:{value or 'part'}, or = for all of it")
    if not value:
        raise _Unfinished(f"{one.name}: a part of it")
    get, wanted, whole = one.get, value.casefold(), compare == "="

    def test(row: Any, now: int) -> bool:
        has = get(row, now)
        if has is None:
            return False
        if isinstance(has, tuple):
            return any(wanted == item.casefold() if whole else wanted in item.casefold() for item in has)
        text = has.casefold()
        return wanted == text if whole else wanted in text

    return test


def _choice(one: Field, compare: str, value: str) -> Test:
    first: dict[str, str] = {}
    for word, item in one.values.items():
        first.setdefault(item, word)
    known = ", ".join(first.values())
    if compare not in (":", "="):
        raise _Wrong(f"{one.name} is a word: {one.name}:{value or next(iter(one.values))}")
    if not value:
        raise _Unfinished(f"{one.name}: {known}")
    meant: set[str] = set()
    for typed in value.casefold().split(","):
        if not typed:
            continue
        exact = one.values.get(typed)
        if exact is not None:
            meant.add(exact)
            continue
        begun = {item for word, item in one.values.items() if word.startswith(typed)}
        if not begun or compare == "=":
            raise _Wrong(f"{one.name} is never {typed}: {known}")
        meant |= begun
    get, any_of = one.get, frozenset(meant)
    return lambda row, now: get(row, now) in any_of


def _number(one: Field, compare: str, value: str) -> Test:
    if not value:
        raise _Unfinished(f"{one.name}{compare} a number")
    if _NUMBER.fullmatch(value) is None:
        raise _Wrong(f"{one.name} is a number, not {value}")
    get, than, holds = one.get, float(value), COMPARE[compare]

    def test(row: Any, now: int) -> bool:
        has = get(row, now)
        return has is not None and holds(has, than)

    return test


def _measure(one: Field, compare: str, value: str) -> Test:
    """A length of time or, of a budget, the part of it that is used."""
    example = f"{one.name}>80%" if one.kind == "share" else f"{one.name}>10m"
    if compare in (":", "="):
        raise _Wrong(f"{one.name} is compared with > or <: {example}")
    units = "s, m, h or d"
    get: Callable[[Any, int], Any] | None = one.get
    if one.kind == "share":
        units = "%" if one.length is None else f"%, {units}"
        if value.endswith("%") and _NUMBER.fullmatch(value[:-1]) is not None:
            than = float(value[:-1]) / 100
        else:
            get, than = one.length, _length(value)
    else:
        than = _length(value)
    if than < 0 or get is None:
        if not value or _NUMBER.fullmatch(value.rstrip(".")) is not None:
            raise _Unfinished(f"{one.name}{compare}{value} … {units}")
        raise _Wrong(f"{one.name}{compare}{value}: a number and {units}, as in {example}")
    measure, holds = get, COMPARE[compare]

    def test(row: Any, now: int) -> bool:
        has = measure(row, now)
        return has is not None and holds(has, than)

    return test


def _length(value: str) -> float:
    """``value`` in ms, -1 where it is no length of time."""
    if _LENGTH.fullmatch(value) is None:
        return -1.0
    return sum(float(number) * UNITS[unit.lower()] for number, unit in _PART.findall(value))


# --- the queue ---------------------------------------------------------------------------------------


def _words(row: Row) -> str:
    texts: Sequence[str | None] = (
        row.envelope_id,
        row.story_id,
        row.phase,
        row.label,
        row.engine,
        row.error,
    )
    text = "\n".join([one for one in texts if one])
    if row.story_id and row.phase:
        text += f"\n{row.story_id}/{row.phase}"
    return text.casefold()


def _age(row: Row, now: int) -> int | None:
    """As the list shows it: since it ended, started or was queued."""
    section = row.section
    at = row.queued_at
    if section == "active":
        at = row.started_at
    elif section not in ("pending", "withdrawn"):
        at = row.finished_at
    return now - at if at is not None else None


def _took(row: Row, now: int) -> int | None:
    if row.started_at is None:
        return None
    if row.section == "active":
        return now - row.started_at
    return row.finished_at - row.started_at if row.finished_at is not None else None


def _used(row: Row, now: int) -> float | None:
    took = _took(row, now)
    return took / (row.budget_seconds * 1000) if took is not None and row.budget_seconds else None


def _budget(row: Row, now: int) -> float | None:
    return row.budget_seconds * 1000 if row.budget_seconds is not None else None


def _same(*words: str) -> dict[str, str]:
    return {word: word for word in words}


STATUSES = {
    **_same("pending", "active", "done", "failed", "blocked", "stalled", "withdrawn", "quarantined"),
    **_same("stopped", "stop"),
    "running": "active",
    "parked": "stalled",
    "unreadable": "quarantined",
}

QUEUE = Fields(
    "envelopes",
    _words,
    (
        Field("status", "choice", lambda row, now: row_mark(row).word, STATUSES),
        Field(
            "engine",
            "choice",
            lambda row, now: row.engine or "none",
            _same(*ENGINES, "none"),
        ),
        Field("story", "text", lambda row, now: row.story_id, also=("story_id",)),
        Field("phase", "text", lambda row, now: row.phase),
        Field("id", "text", lambda row, now: row.envelope_id),
        Field("error", "text", lambda row, now: row.error, also=("why", "reason")),
        Field("label", "text", lambda row, now: row.label),
        Field("age", "duration", _age),
        Field("took", "duration", _took, also=("time",)),
        Field("attempt", "number", lambda row, now: row.attempt, also=("attempts",)),
        Field("stalls", "number", lambda row, now: row.stalls),
        Field("budget", "share", _used, length=_budget),
        Field(
            "handoff",
            "choice",
            lambda row, now: row.handoff_status or "none",
            _same("passed", "failed", "blocked", "none"),
        ),
        Field("mode", "choice", lambda row, now: row.mode, _same("single", "mesh")),
    ),
)
