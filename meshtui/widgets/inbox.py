"""What needs somebody, over all lanes: one row an item, and of the selected one cause, evidence, ways out."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.message import Message

from meshtui.core.fleet import URGENCY, Need
from meshtui.core.view import Attention, Exit
from meshtui.evidence import Fact
from meshtui.filters import Field, Fields
from meshtui.status import ATTENTION_MARKS, attention_mark
from meshtui.steady import Steady
from meshtui.text import clean, cut_end, cut_middle, duration, wrap
from meshtui.widgets.attention import LOOKING, exit_by_number
from meshtui.widgets.columns import NOTHING, Column, Layout, chosen
from meshtui.widgets.listing import ListTable
from meshtui.widgets.paint import Line, Painted, Span, now_of, titles_of


def _mark(row: Need, index: int, width: int, now: int) -> Span:
    mark = attention_mark(row.item)
    return f"{mark.glyph} {mark.word}", mark.look


def _lane(row: Need, index: int, width: int, now: int) -> Span:
    return cut_middle(clean(row.lane), width), "text"


def _subject(row: Need, index: int, width: int, now: int) -> Span:
    return cut_middle(clean(row.item.subject), width), "strong"


def _why(row: Need, index: int, width: int, now: int) -> Span:
    return cut_end(clean(row.item.text), width), "text"


def _since(row: Need, index: int, width: int, now: int) -> Span:
    return (duration(now - row.item.since), "text") if row.item.since is not None else NOTHING


def _by_kind(row: Need, now: int) -> int:
    return URGENCY.index(row.item.kind)


def _by_lane(row: Need, now: int) -> str:
    return row.lane.casefold()


def _by_subject(row: Need, now: int) -> str:
    return row.item.subject.casefold()


def _by_time(row: Need, now: int) -> int | None:
    return row.item.since


COLUMNS = (
    Column("what", _mark, 12, 0, by=_by_kind, own_order=True),
    Column("lane", _lane, 10, 2, grows=2, cap=24, by=_by_lane),
    Column("subject", _subject, 14, 1, grows=3, cap=40, by=_by_subject),
    Column("why", _why, 16, 4, grows=8),
    Column("since", _since, 6, 3, right=True, by=_by_time),
)
ONE_LANE = tuple(column for column in COLUMNS if column.title != "lane")


def _words(row: Need) -> str:
    return "\n".join((row.lane, row.item.subject, row.item.text, attention_mark(row.item).word)).casefold()


NEEDS = Fields(
    "items",
    _words,
    (
        Field(
            "status",
            "choice",
            lambda row, now: row.item.kind,
            {mark.word: kind for kind, mark in ATTENTION_MARKS.items()} | {kind: kind for kind in URGENCY},
            also=("what", "kind"),
        ),
        Field("lane", "text", lambda row, now: row.lane),
        Field("engine", "text", lambda row, now: row.item.engine),
        Field("id", "text", lambda row, now: (row.item.subject, row.item.envelope_id or "")),
        Field("error", "text", lambda row, now: row.item.text, also=("why",)),
        Field("age", "duration", lambda row, now: now - row.item.since if row.item.since else None),
    ),
)


class InboxTable(ListTable[Need]):
    """One row for each thing that needs somebody, the most urgent first."""

    FIELDS = NEEDS

    class Highlighted(Message):
        """Another item is selected, or the selected one changed."""

        def __init__(self, need: Need | None) -> None:
            super().__init__()
            self.need = need

    class Opened(Message):
        """The selected item's lane is to be looked at."""

        def __init__(self, need: Need) -> None:
            super().__init__()
            self.need = need

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.steady = Steady()
        self._by_data = False
        self.lanes = True
        """Whether several lanes are shown, so that a row has to name its own."""
        self.empty = "Nothing needs you."

    def show(self, needs: tuple[Need, ...], *, lanes: bool, settled: bool = True) -> None:
        """List ``needs``; the selected item stays selected where it still stands.

        Not ``settled`` is a list that is still read for the first time: nobody has seen another one.
        """
        self.lanes = lanes
        self._by_data = True
        if needs == self._source:
            needs = self._source
        self.take(needs)
        if settled:
            self._see()
        self._by_data = False

    def _see(self) -> None:
        need = self.selected
        ways = tuple((way.label, way.command) for way in need.item.exits) if need is not None else ()
        self.steady.see(
            (need.key, ways) if need is not None else None, now_of(self), by_hand=not self._by_data
        )

    def layout_of(self, width: int) -> Layout:
        columns = chosen(COLUMNS, titles_of(self, "inbox"))
        if not self.lanes:
            columns = [column for column in columns if column.title != "lane"] or ONE_LANE
        return Layout.fitting(columns, width)

    def hint(self) -> str:
        return self.empty

    def announce(self, row: Need | None) -> None:
        if not self._by_data:
            self._see()
        self.post_message(self.Highlighted(row))

    def opened(self, row: Need) -> None:
        self.post_message(self.Opened(row))

    def step(self, by: int) -> None:
        """Select the next item, from the last one on the first."""
        if self.rows:
            self._move((self.cursor + by) % len(self.rows))
            self.steady.settle()


class WaysOut(Painted):
    """The selected item: the numbered ways out, below them why, and on what evidence."""

    class Picked(Message):
        """A way out was chosen by mouse."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.need: Need | None = None
        self.facts: tuple[Fact, ...] = ()
        self.several = False
        """Whether ``need`` stands for several that are marked."""
        self.read_only = False
        self._at: list[tuple[int, int, int, int]] = []

    def show(self, need: Need | None, facts: Sequence[Fact] = (), *, several: bool = False) -> None:
        """Show ``need`` with the evidence that was read so far; ``several``: it stands for all that are marked."""
        self.need, self.facts, self.several = need, tuple(facts), several
        self.repaint()

    def compose_lines(self, width: int) -> Sequence[Line]:
        self._at = []
        need, room = self.need, max(1, self.content_size.height)
        if need is None:
            return ()
        ways = self._ways(need.item, width - 1)
        lines: list[Line] = []
        for y, (line, at) in enumerate(ways):
            lines.append(line)
            self._at += [(y, start, end, number) for start, end, number in at]
        body = self._body(need, width - 2, room - len(ways))
        return [*lines, *(((" ", "text"), *line) for line in body)]

    def _body(self, need: Need, width: int, room: int) -> list[Line]:
        if room <= 0:
            return []
        label = 11
        facts = [Fact("marked" if self.several else "cause", need.item.text), *self.facts]
        lines: list[Line] = []
        for fact in facts:
            name = fact.label
            for piece in wrap(fact.text, max(8, width - label)):
                look = fact.look if fact is not facts[0] else "strong"
                lines.append(((f"{name:<{label}}"[:label], "muted"), (piece, look)))
                name = ""
        if len(lines) > room:
            lines = lines[:room]
            last = lines[-1]
            lines[-1] = (*last[:-1], (cut_end(last[-1][0] + " …", max(1, width - label)), last[-1][1]))
        return lines

    def _ways(self, item: Attention, width: int) -> list[tuple[Line, list[tuple[int, int, int]]]]:
        """The ways out, numbered, on as many lines as they need."""
        lines: list[tuple[Line, list[tuple[int, int, int]]]] = []
        spans: list[Span] = [(" ", "text")]
        at: list[tuple[int, int, int]] = []
        x = 1
        if not item.exits:
            goes = item.kind in ("budget", "limit", "survivor")
            nothing = "nothing to choose: it goes away by itself" if goes else "nothing to choose from here"
            if self.several:
                nothing = "no way out that all of them have: mark fewer"
            return [(((" ", "text"), (nothing, "muted")), [])]
        for number, way in enumerate(item.exits[:9], start=1):
            text = f" {clean(way.label)}"
            size = 3 + cell_len(text)
            if at and x + size > width:
                lines.append((tuple(spans), at))
                spans, at, x = [(" ", "text")], [], 1
            off = self.read_only and way.action not in LOOKING
            spans += [
                ("   " if off else f" {number} ", "muted" if off else "cap"),
                (text, "muted" if off else "text"),
                ("   ", "text"),
            ]
            at.append((x, x + size, number))
            x += size + 3
        lines.append((tuple(spans), at))
        return lines

    def _way_at(self, event: events.MouseEvent) -> int | None:
        offset = event.get_content_offset(self)
        if offset is None:
            return None
        return next(
            (number for y, start, end, number in self._at if y == offset.y and start <= offset.x < end), None
        )

    def on_mouse_move(self, event: events.MouseMove) -> None:
        number = self._way_at(event)
        way: Exit | None = None
        if number is not None and self.need is not None:
            way = exit_by_number(self.need.item, number)
        self.tooltip = Content(clean(way.command)) if way is not None else None

    def on_click(self, event: events.Click) -> None:
        number = self._way_at(event)
        if number is not None:
            self.post_message(self.Picked(number))
