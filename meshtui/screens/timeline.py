"""The timeline of a lane's phases or a mission's loops; it goes on while they run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from meshtui.commands import key_of
from meshtui.core.history import History
from meshtui.core.mesh.view import MissionView
from meshtui.core.view import LaneView
from meshtui.screens.seeing import Page, Seeing
from meshtui.text import clean, time_of_day
from meshtui.widgets.paint import Line, now_of
from meshtui.widgets.timeline import (
    Row,
    Window,
    axis,
    clock,
    columns,
    facts,
    lane_rows,
    loop_rows,
    totals,
    track_line,
    whole,
)

ZOOM = 2
LEAST_SPAN_MS = 2000
PAN = 4
"""A step to the side is this part of what is in sight."""
LEGEND = "━ maker  ╌ gates  ═ checker  ─ other"


class Timeline(Seeing):
    """Tracks with bars; one of them is chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "close", "Close", show=False, id="timeline.close"),
        Binding("plus,equals_sign", "zoom(1)", "Zoom in", show=False, id="timeline.zoom_in"),
        Binding("minus", "zoom(-1)", "Zoom out", show=False, id="timeline.zoom_out"),
        Binding("0", "whole", "The whole time", show=False, id="timeline.whole"),
        Binding("h,left", "pan(-1)", "Earlier", show=False, id="timeline.earlier"),
        Binding("l,right", "pan(1)", "Later", show=False, id="timeline.later"),
        Binding("right_square_bracket", "bar(1)", "The next bar", show=False, id="timeline.next_bar"),
        Binding("left_square_bracket", "bar(-1)", "The bar before", show=False, id="timeline.bar_before"),
        Binding("enter", "go", "Go to what is chosen", show=False, id="timeline.go"),
    ]
    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("seeing.down seeing.up", "track"),
        ("timeline.bar_before timeline.next_bar", "bar"),
        ("timeline.zoom_in timeline.zoom_out", "zoom"),
        ("timeline.earlier timeline.later", "earlier/later"),
        ("timeline.whole", "whole"),
        ("timeline.go", "go to"),
        ("seeing.next", "lane/missions"),
        ("seeing.keys", "keys"),
        ("seeing.close", "close"),
    )

    def __init__(self, view: LaneView, history: History | None = None, *, source: str | None = None) -> None:
        super().__init__(view, history, source=source)
        self.chosen: str | None = None
        """The name of the chosen track; the newest one until something is chosen."""
        self.bar: int | None = None
        """The chosen bar of it; its last one where nothing was chosen."""
        self.window: Window | None = None
        """The time in sight; ``None`` is all of it."""

    @property
    def mission(self) -> MissionView | None:
        """The mission that is shown, if one is."""
        return next((one for one in self.view.missions if one.mission_id == self.source), None)

    def rows(self) -> list[Row]:
        """The tracks."""
        mission = self.mission
        if mission is not None:
            return loop_rows(mission, self.history, now_of(self))
        return lane_rows(self.view, self.history or History())

    def keys(self) -> Sequence[tuple[str, str]]:
        left_out = {"seeing.next"} if len(self.sources()) < 2 else set()
        return [item for item in self.KEYS if item[0] not in left_out]

    def _place(self, rows: Sequence[Row]) -> int:
        for place, row in enumerate(rows):
            if row.name + row.key == self.chosen:
                return place
        return self._first(rows)

    def _first(self, rows: Sequence[Row]) -> int:
        """What to begin with: the first loop, or the newest phase."""
        return min(len(rows) - 1, 0) if self.source is not None else len(rows) - 1

    def _bar_of(self, row: Row) -> int:
        last = len(row.pieces) - 1
        return last if self.bar is None else max(0, min(self.bar, last))

    def page(self, width: int, height: int) -> Page:
        now, rows, mission = now_of(self), self.rows(), self.mission
        name = clean(
            mission.mission_id if mission is not None else self.view.lane_id or self.view.run_dir.name
        )
        full = whole(rows, now)
        window = self.window or full
        if full is None or window is None:
            return Page(f"Timeline · {name}", (((self._nothing(), "muted"),),))
        parts = columns(rows, width, now)
        at = self._place(rows)
        body = tuple(
            track_line(row, window, parts, now, chosen=self._bar_of(row) if place == at else None)
            for place, row in enumerate(rows)
        )
        foot: list[Line] = []
        if mission is not None and height >= 18:
            foot += totals(mission, full, now, width)
            if height >= 22:
                foot.append((("  " + LEGEND, "muted"),))
        foot = [*facts(rows[at], self._bar_of(rows[at]), now, width), *foot]
        if height >= 14:
            foot.insert(0, (("─" * width, "rule"),))
        seen = (
            f" · {time_of_day(window.start)} – {time_of_day(window.end)}" if self.window is not None else ""
        )
        title = f"Timeline · {name} · {clock(full.span)}{seen}"
        return Page(title, body, (axis(window, parts),), tuple(foot), (at, at))

    def _nothing(self) -> str:
        if self.source is not None:
            return f" No loop has started yet: {key_of('resume_mission')} starts the mission."
        if self.history is None:
            return " Reading the journal…"
        return f" No phase has started yet: {key_of('runner')} starts a runner."

    # -- keys ---------------------------------------------------------------------------------------

    def turned(self) -> None:
        self.chosen = self.bar = self.window = None

    def _choose(self, rows: Sequence[Row], place: int) -> None:
        place = max(0, min(place, len(rows) - 1))
        if rows:
            self.chosen, self.bar = rows[place].name + rows[place].key, None
            self.fill()

    def action_move(self, by: int) -> None:
        rows = self.rows()
        self._choose(rows, self._place(rows) + by)

    def action_edge(self, end: int) -> None:
        rows = self.rows()
        self._choose(rows, 0 if end < 0 else len(rows) - 1)

    def action_leaf(self, by: int) -> None:
        self.action_move(by * self.sheet.page())

    def action_bar(self, by: int) -> None:
        rows = self.rows()
        if not rows:
            return
        row = rows[self._place(rows)]
        self.chosen = row.name + row.key
        self.bar = max(0, min(self._bar_of(row) + by, len(row.pieces) - 1))
        self._bring_into_sight(row)
        self.fill()

    def _bring_into_sight(self, row: Row) -> None:
        window = self.window
        if window is None or not row.pieces:
            return
        piece = row.pieces[self._bar_of(row)]
        if not window.start <= piece.start <= window.end:
            start = piece.start - window.span // 4
            self.window = Window(start, start + window.span)

    def action_zoom(self, by: int) -> None:
        """Closer around the chosen bar, or wider."""
        rows, now = self.rows(), now_of(self)
        full = whole(rows, now)
        if full is None:
            return
        window = self.window or full
        row = rows[self._place(rows)]
        middle = (window.start + window.end) // 2
        if row.pieces:
            piece = row.pieces[self._bar_of(row)]
            ends = (
                max(piece.start, window.start),
                min(piece.end if piece.end is not None else now, window.end),
            )
            middle = sum(ends) // 2 if ends[0] <= ends[1] else (piece.start + (piece.end or now)) // 2
        span = max(LEAST_SPAN_MS, window.span // ZOOM if by > 0 else window.span * ZOOM)
        if span >= full.span:
            self.window = None
        else:
            start = max(full.start, min(middle - span // 2, full.end - span))
            self.window = Window(start, start + span)
        self.fill()

    def action_pan(self, by: int) -> None:
        full = whole(self.rows(), now_of(self))
        if full is None or self.window is None:
            return
        span = self.window.span
        start = max(full.start, min(self.window.start + by * max(1, span // PAN), full.end - span))
        self.window = Window(start, start + span)
        self.fill()

    def action_whole(self) -> None:
        self.window = None
        self.fill()

    def action_go(self) -> None:
        rows = self.rows()
        if rows:
            self.dismiss(rows[self._place(rows)].key or None)
