"""The lanes of a fleet as a table, and the line above it that says whether anything is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.cells import cell_len
from textual.message import Message

from meshtui.core.fleet import URGENCY, FleetView, LaneSummary
from meshtui.filters import Field, Fields
from meshtui.status import ATTENTION_MARKS, LANE_STATES, attention_mark, summary_mark
from meshtui.text import clean, cut_end, cut_middle, money, number, stopwatch
from meshtui.widgets.columns import NOTHING, Column, Layout, chosen
from meshtui.widgets.listing import ListTable
from meshtui.widgets.paint import Line, Painted, Span, crop, titles_of, width_of
from meshtui.widgets.status_line import sparkline

SPARK_CELLS = 8


def _name(row: LaneSummary, index: int, width: int, now: int) -> Span:
    return cut_middle(clean(row.name), width), "strong" if row.attention or row.problem else "text"


def _state(row: LaneSummary, index: int, width: int, now: int) -> Span:
    mark = summary_mark(row)
    return f"{mark.glyph} {mark.word}", mark.look


def _depth(row: LaneSummary, index: int, width: int, now: int) -> Span:
    if not row.loaded or not row.exists:
        return NOTHING
    return number(row.pending), "text" if row.pending else "muted"


def _spark(row: LaneSummary, index: int, width: int, now: int) -> Span:
    return sparkline(row.depths, now, cells=width), "run"


def _active(row: LaneSummary, index: int, width: int, now: int) -> Span:
    if row.active is None:
        return NOTHING
    more = f" +{row.active.more}" if row.active.more else ""
    return cut_middle(clean(row.active.title), max(1, width - len(more))) + more, "text"


def _age(row: LaneSummary, index: int, width: int, now: int) -> Span:
    active = row.active
    if active is None or active.started_at is None:
        return "", "text"
    late = active.deadline_at is not None and now > active.deadline_at
    return stopwatch(now - active.started_at), "bad" if late else "run" if row.running else "muted"


def _loops(row: LaneSummary, index: int, width: int, now: int) -> Span:
    return (f"{row.loops_done}/{row.loops}", "text") if row.loops else ("", "text")


def _stalls(row: LaneSummary, index: int, width: int, now: int) -> Span:
    return (str(row.stalls), "warn") if row.stalls else ("", "text")


def _cost(row: LaneSummary, index: int, width: int, now: int) -> Span:
    return (money(row.cost_today), "text") if row.cost_today is not None else ("", "text")


def _never(row: object, index: int, width: int, now: int) -> Span:
    return NOTHING


def _needs(row: LaneSummary, width: int, now: int) -> Line:
    """How many of which kind, the most urgent first; of a single one what it says, where there is room."""
    if row.problem is not None:
        return _filled([(cut_end(clean(row.problem), width), "bad")], width)
    kinds = Counter[str](item.kind for item in row.attention)
    ordered = [kind for kind in URGENCY if kinds[kind]]
    left = len(row.attention)
    spans: list[Span] = []
    for kind in ordered:
        mark = ATTENTION_MARKS[kind]
        piece = f"{mark.glyph} {kinds[kind]} {mark.word}"
        rest = f"  +{left - kinds[kind]}" if left > kinds[kind] else ""
        gap = "  " if spans else ""
        if spans and width_of(spans) + len(gap) + cell_len(piece + rest) > width:
            spans.append((f"  +{left}", "muted"))
            break
        spans += [(gap, "text"), (cut_end(piece, width), mark.look)]
        left -= kinds[kind]
    room = width - width_of(spans) - 2
    if len(row.attention) == 1 and room >= 16:
        item = row.attention[0]
        text = item.text if item.subject == row.name else f"{item.subject}: {item.text}"
        spans += [("  ", "text"), (cut_end(clean(text), room), "muted")]
    return _filled(spans, width)


def _filled(spans: list[Span], width: int) -> Line:
    """``spans`` in exactly ``width`` cells."""
    shown = crop(spans, width)
    return (*shown, (" " * (width - width_of(shown)), "text"))


def _by_name(row: LaneSummary, now: int) -> str:
    return row.name.casefold()


def _by_state(row: LaneSummary, now: int) -> str:
    return summary_mark(row).word


def _by_depth(row: LaneSummary, now: int) -> int:
    return row.pending


def _by_active(row: LaneSummary, now: int) -> str | None:
    return row.active.title.casefold() if row.active is not None else None


def _by_start(row: LaneSummary, now: int) -> int | None:
    return row.active.started_at if row.active is not None else None


def _by_loops(row: LaneSummary, now: int) -> int | None:
    return row.loops or None


def _by_stalls(row: LaneSummary, now: int) -> int:
    return row.stalls


def _by_cost(row: LaneSummary, now: int) -> float | None:
    return row.cost_today


COLUMNS = (
    Column("lane", _name, 12, 0, grows=5, cap=30, by=_by_name),
    Column("state", _state, 9, 0, by=_by_state),
    Column("queue", _depth, 6, 1, right=True, by=_by_depth, high_first=True),
    Column("trend", _spark, SPARK_CELLS, 7),
    Column("active", _active, 14, 4, grows=2, cap=32, by=_by_active),
    Column("for", _age, 7, 3, right=True, by=_by_start),
    Column("loops", _loops, 7, 6, right=True, by=_by_loops, high_first=True),
    Column("stalls", _stalls, 6, 8, right=True, by=_by_stalls, high_first=True),
    Column("today", _cost, 7, 5, right=True, by=_by_cost, high_first=True),
    Column("needs you", _never, 15, 1, grows=5, paint=_needs, own_order=True),
)


def _words(row: LaneSummary) -> str:
    active = row.active.title if row.active is not None else ""
    kinds = " ".join(attention_mark(item).word for item in row.attention)
    return "\n".join((row.name, summary_mark(row).word, active, kinds, row.problem or "")).casefold()


LANES = Fields(
    "lanes",
    _words,
    (
        Field(
            "status",
            "choice",
            lambda row, now: summary_mark(row).word,
            {mark.word: mark.word for mark in LANE_STATES.values()},
            also=("state",),
        ),
        Field("lane", "text", lambda row, now: row.name, also=("id",)),
        Field("queue", "number", lambda row, now: row.pending, also=("pending",)),
        Field("active", "text", lambda row, now: row.active.title if row.active is not None else ""),
        Field(
            "age",
            "duration",
            lambda row, now: now - row.active.started_at if row.active and row.active.started_at else None,
            also=("for",),
        ),
        Field("engine", "text", lambda row, now: row.active.engine if row.active is not None else None),
        Field("stalls", "number", lambda row, now: row.stalls),
        Field("cost", "number", lambda row, now: row.cost_today, also=("today",)),
        Field("needs", "number", lambda row, now: len(row.attention)),
        Field("loops", "number", lambda row, now: row.loops),
    ),
)


class FleetTable(ListTable[LaneSummary]):
    """One row a lane, the most urgent first."""

    FIELDS = LANES

    class Highlighted(Message):
        """Another lane is selected, or the selected one changed."""

        def __init__(self, lane: LaneSummary | None) -> None:
            super().__init__()
            self.lane = lane

    class Opened(Message):
        """The selected lane is to be opened."""

        def __init__(self, lane: LaneSummary) -> None:
            super().__init__()
            self.lane = lane

    def show(self, lanes: tuple[LaneSummary, ...], *, hint: str | None = None) -> None:
        """Show ``lanes``; the selected one stays selected."""
        self.take(lanes, hint=hint)

    def layout_of(self, width: int) -> Layout:
        return Layout.fitting(chosen(COLUMNS, titles_of(self, "fleet")), width)

    def hint(self) -> str:
        return "No run directories here yet."

    def announce(self, row: LaneSummary | None) -> None:
        self.post_message(self.Highlighted(row))

    def opened(self, row: LaneSummary) -> None:
        self.post_message(self.Opened(row))


class FleetLine(Painted):
    """How many lanes there are, how they stand, and what they cost today; what fits, in order of its weight."""

    view: FleetView | None = None
    read_only = False
    """Whether the console only looks, which is said here."""

    def show(self, view: FleetView | None) -> None:
        """Draw ``view``."""
        self.view = view
        self.repaint()

    def compose_lines(self, width: int) -> Sequence[Line]:
        view = self.view
        if view is None:
            return (((" meshtui", "strong"), ("   ○ reading", "idle")),)
        parts = self._parts(view)
        gap = 3
        while len(parts) > 1 and self._needed(parts, gap) > width:
            # Closer together before anything is left out.
            if gap == 3 and self._needed(parts, 2) <= width:
                gap = 2
            else:
                parts.remove(max(parts, key=lambda part: part[0]))
        spans: list[Span] = [(" ", "text")]
        for _rank, part in parts:
            if len(spans) > 1:
                spans.append((" " * gap, "text"))
            spans += part
        return (tuple(spans),)

    def _needed(self, parts: Sequence[tuple[int, Line]], gap: int) -> int:
        return 2 + sum(width_of(part) for _rank, part in parts) + gap * (len(parts) - 1)

    def _parts(self, view: FleetView) -> list[tuple[int, Line]]:
        lanes = view.lanes
        word = "lane" if len(lanes) == 1 else "lanes"
        parts: list[tuple[int, Line]] = [(0, ((number(len(lanes)), "strong"), (f" {word}", "muted")))]
        states = Counter(summary_mark(lane) for lane in lanes)
        order = [mark for mark in dict.fromkeys((*LANE_STATES.values(), *states)) if mark in states]
        if self.read_only:
            parts.append((0, ((" read-only ", "cap"),)))
        rank = {"bad": 1, "warn": 2, "run": 3}
        for mark in order:
            spans: Line = ((f"{mark.glyph} {states[mark]} {mark.word}", mark.look),)
            parts.append((rank.get(mark.look, 7), spans))
        parts.append((4, (("queue ", "muted"), (number(sum(lane.pending for lane in lanes)), "strong"))))
        loops = sum(lane.loops for lane in lanes)
        if loops:
            done = sum(lane.loops_done for lane in lanes)
            parts.append((6, (("loops ", "muted"), (f"{number(done)}/{number(loops)}", "text"))))
        costs = [lane.cost_today for lane in lanes if lane.cost_today is not None]
        if costs:
            parts.append((5, (("today ", "muted"), (money(sum(costs)), "text"))))
        if not view.complete:
            parts.append((8, (("reading…", "muted"),)))
        return parts
