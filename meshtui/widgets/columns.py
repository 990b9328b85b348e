"""The columns of the queue's lists: what an operator decides by, and which give way when it is narrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.cells import cell_len

from meshtui.commands import key_of
from meshtui.core.view import Row, Section
from meshtui.status import row_mark
from meshtui.text import clean, cut_end, cut_middle, duration, fit, stopwatch
from meshtui.widgets.arranging import Order
from meshtui.widgets.paint import Line, Span

GAP = 2
TITLE_CAP = 44

NOTHING: Span = ("–", "muted")


@dataclass(frozen=True, slots=True)
class Column:
    """One column; the lowest ``rank`` stays longest."""

    title: str
    draw: Callable[[Any, int, int, int], Span]
    """From row, index, width and the time now."""
    width: int
    """In cells; of a column that may grow, the least."""
    rank: int
    grows: int = 0
    """Its share of the cells that are left over."""
    cap: int = 0
    """The most it grows to, 0 for no limit."""
    right: bool = False
    paint: Callable[[Any, int, int], Line] | None = None
    """Draws it from row, width and the time now, filling the width, where one look is not enough."""
    by: Callable[[Any, int], Any] | None = None
    """What it is sorted by, from row and the time now; rows without it (``None``) come last."""
    high_first: bool = False
    """Whether sorting begins with the highest."""
    own_order: bool = False
    """Whether it shows the list's own order, so that to sort by it is not to sort."""


def _position(row: Row, index: int, width: int, now: int) -> Span:
    return f"{index + 1:,}", "muted"


def _mark(row: Row, index: int, width: int, now: int) -> Span:
    mark = row_mark(row)
    return f"{mark.glyph} {mark.word}", mark.look


def _title(row: Row, index: int, width: int, now: int) -> Span:
    if not row.loaded:
        return cut_middle(clean(row.envelope_id), width), "muted"
    if row.kind == "stop":
        return cut_end("■ stop the lane here", width), "idle"
    return cut_middle(clean(row.title), width), "text"


def _engine(row: Row, index: int, width: int, now: int) -> Span:
    if row.mode == "mesh":
        return f"{row.engine or ''} mesh".strip(), "text"
    return (clean(row.engine), "text") if row.engine else NOTHING


def _since(value: int | None, now: int) -> Span:
    return (duration(now - value), "text") if value is not None else NOTHING


def _waiting(row: Row, index: int, width: int, now: int) -> Span:
    return _since(row.queued_at, now)


def _ended(row: Row, index: int, width: int, now: int) -> Span:
    return _since(row.finished_at, now)


def _parked(row: Row, index: int, width: int, now: int) -> Span:
    # What stalled ended at its deadline.
    return _since(row.finished_at or row.deadline_at, now)


def _running(row: Row, index: int, width: int, now: int) -> Span:
    if row.started_at is None:
        return NOTHING
    late = row.deadline_at is not None and now > row.deadline_at
    return stopwatch(now - row.started_at), "bad" if late else "run"


def _budget(row: Row, index: int, width: int, now: int) -> Span:
    if row.budget_seconds is None:
        return NOTHING
    seconds = row.budget_seconds
    return (f"{seconds:g} s" if seconds < 10 else duration(round(seconds * 1000))), "text"


def _stalls(row: Row, index: int, width: int, now: int) -> Span:
    return (str(row.stalls), "warn") if row.stalls else ("", "text")


def _attempt(row: Row, index: int, width: int, now: int) -> Span:
    return str(row.attempt), "warn" if row.attempt > 1 else "text"


def _attempts(row: Row, index: int, width: int, now: int) -> Span:
    return str(max(row.stalls, 1)), "warn"


def _took(row: Row, index: int, width: int, now: int) -> Span:
    if row.started_at is None or row.finished_at is None:
        return NOTHING
    return duration(row.finished_at - row.started_at), "text"


def _handoff(row: Row, index: int, width: int, now: int) -> Span:
    if not row.handoff_status:
        return "", "text"
    look = "ok" if row.handoff_status == "passed" else "bad"
    return clean(row.handoff_status), look


def _error(row: Row, index: int, width: int, now: int) -> Span:
    text = row.error or (f"handoff {row.handoff_status}" if row.handoff_status else "")
    return cut_end(clean(text), width), "text"


def _when_queued(row: Row, now: int) -> int | None:
    return row.queued_at


def _when_started(row: Row, now: int) -> int | None:
    return row.started_at


def _when_ended(row: Row, now: int) -> int | None:
    return row.finished_at or row.deadline_at


def _length(row: Row, now: int) -> int | None:
    if row.started_at is None or row.finished_at is None:
        return None
    return row.finished_at - row.started_at


def _seconds(row: Row, now: int) -> float | None:
    return row.budget_seconds


def _name(row: Row, now: int) -> str:
    return row.title.casefold()


def _agent(row: Row, now: int) -> str | None:
    return row.engine


def _word(row: Row, now: int) -> str:
    return row_mark(row).word


def _said(row: Row, now: int) -> str | None:
    return row.handoff_status or row.error


_NUMBER = Column("#", _position, 3, 2, right=True, own_order=True)
_TITLE = Column("story / phase", _title, 14, 0, grows=3, cap=TITLE_CAP, by=_name)
_ENGINE = Column("engine", _engine, 7, 4, by=_agent)
_MARK = Column("status", _mark, 9, 1, by=_word)
_BUDGET = Column("budget", _budget, 7, 3, right=True, by=_seconds, high_first=True)
# Sorting begins with what is oldest, where ages are shown, and with what just ended.
_WAITING = Column("waiting", _waiting, 7, 1, right=True, by=_when_queued)
_TOOK = Column("took", _took, 6, 1, right=True, by=_length, high_first=True)
_AGO = Column("ago", _ended, 6, 2, right=True, by=_when_ended, high_first=True)


def _many(row: Row, now: int) -> int:
    return row.stalls


def _tries(row: Row, now: int) -> int:
    return row.attempt


COLUMNS: dict[Section, tuple[Column, ...]] = {
    "pending": (
        _NUMBER,
        _TITLE,
        _ENGINE,
        _WAITING,
        _BUDGET,
        Column("stalls", _stalls, 6, 5, right=True, by=_many, high_first=True),
    ),
    "active": (
        _MARK,
        _TITLE,
        _ENGINE,
        Column("running", _running, 8, 0, right=True, by=_when_started),
        replace(_BUDGET, rank=2),
        Column("attempt", _attempt, 7, 3, right=True, by=_tries, high_first=True),
    ),
    "done": (
        _MARK,
        _TITLE,
        Column("handoff", _handoff, 7, 3, by=_said),
        _ENGINE,
        _TOOK,
        _AGO,
    ),
    "failed": (
        replace(_MARK, width=8, rank=3),
        _TITLE,
        Column("why", _error, 24, 1, grows=9, by=_said),
        replace(_TOOK, rank=4),
        _AGO,
    ),
    "stalled": (
        _MARK,
        _TITLE,
        _ENGINE,
        Column("attempts", _attempts, 8, 2, right=True, by=_many, high_first=True),
        _BUDGET,
        Column("since", _parked, 6, 1, right=True, by=_when_ended),
    ),
    "withdrawn": (
        replace(_MARK, width=11, rank=2),
        _TITLE,
        _ENGINE,
        replace(_WAITING, title="queued", width=6),
        _BUDGET,
    ),
    "quarantined": (
        replace(_MARK, width=13, rank=2),
        Column("file", _title, 16, 0, grows=3, cap=60, by=_name),
        Column("reason", _error, 20, 1, grows=9, by=_said),
    ),
}


def chosen(columns: Sequence[Column], titles: Sequence[str] | None) -> Sequence[Column]:
    """Those of ``columns`` that an operator asked for by their titles, in that order; all without a choice."""
    if not titles:
        return columns
    by_title = {column.title: column for column in columns}
    return [by_title[title] for title in titles if title in by_title] or columns


EMPTY: dict[Section, str] = {
    "pending": "Nothing is waiting. {enqueue} enqueues an envelope.",
    "active": "Nothing is running. {runner} starts the runner.",
    "done": "Nothing is done yet.",
    "failed": "Nothing failed.",
    "stalled": "Nothing stalled.",
    "withdrawn": "Nothing was withdrawn. {interrupt} withdraws all that is pending.",
    "quarantined": "Everything in the queue can be read.",
}
"""What an empty list says; the name of an action stands for its key."""


def empty_text(section: Section) -> str:
    """What the empty list ``section`` says, with the keys as they are now."""
    return EMPTY[section].format(**{name: key_of(name) for name in ("enqueue", "runner", "interrupt")})


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns fit, and how wide each is."""

    columns: tuple[tuple[Column, int], ...]

    @classmethod
    def of(cls, section: Section, width: int, rows: int, titles: Sequence[str] | None = None) -> Layout:
        """The columns of ``section`` in ``width`` cells, for numbers up to ``rows``; ``titles`` chooses some."""
        return cls.fitting(chosen(COLUMNS[section], titles), width, rows)

    @classmethod
    def fitting(cls, columns: Sequence[Column], width: int, rows: int = 0) -> Layout:
        """Those of ``columns`` that fit into ``width`` cells; the least needed go first."""
        least = {
            column: max(column.width, len(f"{rows:,}")) if column.title == "#" else column.width
            for column in columns
        }
        kept = list(columns)
        while len(kept) > 1 and sum(least[column] for column in kept) + GAP * (len(kept) - 1) > width:
            kept.remove(max(kept, key=lambda column: column.rank))
        left = width - sum(least[column] for column in kept) - GAP * (len(kept) - 1)
        widths = {column: least[column] for column in kept}
        growing = [column for column in kept if column.grows]
        if left < 0:
            widths[kept[0]] = max(0, width)
        elif growing:
            shares = sum(column.grows for column in growing)
            for column in growing:
                widths[column] += left * column.grows // shares
                if column.cap and column is not growing[-1]:
                    widths[column] = min(widths[column], max(column.cap, column.width))
            rest = width - sum(widths.values()) - GAP * (len(kept) - 1)
            last = growing[-1]
            widths[last] += rest
            if last.cap:
                widths[last] = min(widths[last], max(last.cap, last.width))
        return cls(tuple((column, widths[column]) for column in kept))

    def find(self, title: str) -> Column | None:
        """The column ``title``, if it is shown."""
        return next((column for column, _width in self.columns if column.title == title), None)

    def at(self, x: int) -> Column | None:
        """The column that stands at cell ``x`` of a line."""
        start = 0
        for column, width in self.columns:
            if start <= x < start + width + GAP:
                return column
            start += width + GAP
        return None

    def head(self, order: Order | None = None) -> Line:
        """The line of titles, with an arrow at the one that the list is sorted by."""
        spans: list[Span] = []
        for column, width in self.columns:
            sorted_by = order is not None and order.title == column.title
            arrow = order.arrow if order is not None and sorted_by else ""
            inside = bool(arrow) and cell_len(column.title) + 1 <= width
            if spans:
                # Where the title fills its column the arrow stands in the gap before it.
                spans.append(
                    (
                        " " * GAP if inside or not arrow else " " * (GAP - 1) + arrow,
                        "key" if arrow else "muted",
                    )
                )
            roomy = cell_len(column.title) + 2 <= width
            title = column.title + ((" " if roomy else "") + arrow if inside else "")
            spans.append((fit(title, width, right=column.right), "key" if sorted_by else "muted"))
        return tuple(spans)

    def line(self, row: object, index: int, now: int) -> Line:
        """One row."""
        spans: list[Span] = []
        for column, width in self.columns:
            if spans:
                spans.append((" " * GAP, "text"))
            if column.paint is not None:
                spans.extend(column.paint(row, width, now))
                continue
            text, look = column.draw(row, index, width, now)
            spans.append((fit(text, width, right=column.right), look))
        return tuple(spans)
