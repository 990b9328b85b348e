"""Phases and loops against time: a track for each, a bar for each attempt or step, and what a bar was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from meshtui.core.history import LANE, Bar, History
from meshtui.core.mesh.scheduler import LoopLike, LoopNode, critical_path
from meshtui.core.mesh.view import LoopRow, MissionView
from meshtui.core.models.names import folded, safe_id
from meshtui.core.view import SECTIONS, LaneView
from meshtui.status import Mark, bar_mark, loop_mark, phase_word
from meshtui.text import clean, cut_middle, duration, fit, number, stopwatch, time_of_day
from meshtui.widgets.paint import Line, Span, crop

LEAST_BAR = 10
STEPS_S = (
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    10_800,
    21_600,
    43_200,
    86_400,
    172_800,
    604_800,
)
"""Seconds between two marks of the axis."""
RUN, HOLD, PAUSE = "━", "┄", "╍"
STEP_SIGNS = {"triage": "─", "maker": "━", "gates": "╌", "checker": "═", "integration": "━", "finalizer": "─"}


@dataclass(frozen=True, slots=True)
class Piece:
    """One bar of a track."""

    start: int
    end: int | None
    sign: str
    mark: Mark
    """How it ended, or that it goes on."""
    what: str = ""
    """``attempt 2``, ``checker``, ``runner 4121``."""
    more: str = ""
    """Engine, tokens, cost, what was said."""
    said: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One track."""

    key: str
    """What enter goes to: the key of a record or a loop; empty where there is nothing."""
    name: str
    pieces: tuple[Piece, ...]
    mark: Mark
    critical: bool = False
    queued_at: int | None = None

    def took(self, now: int) -> int | None:
        """How long its bars are together."""
        if not self.pieces:
            return None
        return sum(
            max(0, (piece.end if piece.end is not None else now) - piece.start) for piece in self.pieces
        )


def path_of(mission: MissionView, now: int) -> tuple[str, ...]:
    """The chain of loops that decided, or will decide, how long the mission takes."""
    from meshtui.core.errors import InvalidInput

    known = {row.loop_id for row in mission.loops}
    took = {row.loop_id: float(row.elapsed(now) or 0) for row in mission.loops}
    nodes = tuple(
        LoopNode(row.loop_id, tuple(name for name in row.dependencies if name in known))
        for row in mission.loops
    )

    def length(loop: LoopLike) -> float:
        return max(1.0, took[loop.loop_id])

    try:
        return critical_path(nodes, length)
    except InvalidInput:
        return ()


# -- tracks -----------------------------------------------------------------------------------------


def loop_rows(mission: MissionView, history: History | None, now: int) -> list[Row]:
    """The tracks of a mission: its runners, then its loops as they began."""
    path = path_of(mission, now)
    rows = []
    runner = f"mission/{mission.mission_id}"
    lives = [bar for bar in history.bars if bar.track == runner] if history is not None else []
    if lives:
        rows.append(_runner_row(lives))
    holds: dict[str, list[Piece]] = {}
    for bar in history.bars if history is not None else ():
        if bar.kind == "hold" and bar.track.startswith(f"{mission.mission_id}/"):
            holds.setdefault(bar.track, []).append(_piece(bar))
    for loop in sorted(mission.loops, key=lambda row: (row.started_at is None, row.started_at or 0)):
        pieces = sorted([*_steps(loop), *holds.get(loop.key, ())], key=lambda piece: piece.start)
        rows.append(Row(loop.key, loop.loop_id, tuple(pieces), loop_mark(loop), loop.loop_id in path))
    return rows


def _steps(loop: LoopRow) -> list[Piece]:
    """The phases of a loop's last run, as bars."""
    if loop.started_at is None:
        return []
    mark = loop_mark(loop)
    running = loop.status == "running"
    end = None if running else max(loop.ended_at or loop.updated_at or loop.started_at, loop.started_at)
    marks = [item for item in loop.marks if item[0] >= loop.started_at] or []
    if not marks or marks[0][0] > loop.started_at:
        marks = [
            (loop.started_at, "triage" if marks else loop.phase if running and loop.phase else ""),
            *marks,
        ]
    over = Mark("", "over", "ok" if loop.status == "completed" else "run")
    used = _used(loop)
    pieces = []
    for place, (at, phase) in enumerate(marks):
        last = place + 1 == len(marks)
        stop = end if last else max(at, marks[place + 1][0])
        said = "; ".join(loop.blockers) or loop.handoff_reason or "" if last else ""
        pieces.append(
            Piece(
                at,
                stop,
                STEP_SIGNS.get(phase, RUN),
                mark if last else over,
                phase_word(phase) if phase else "run",
                f"iteration {loop.iteration}{used}" if last else "",
                said,
            )
        )
    return pieces


def _used(loop: LoopRow) -> str:
    used = loop.budget_used
    said = [f"{number(used['model_calls'])} calls"] if isinstance(used.get("model_calls"), int) else []
    if isinstance(used.get("tokens"), int):
        said.append(f"{number(used['tokens'])} tokens")
    if isinstance(used.get("cost_usd"), (int, float)):
        said.append(f"${used['cost_usd']:.2f}")
    return "".join(f" · {text}" for text in said)


def lane_rows(view: LaneView, history: History) -> list[Row]:
    """The tracks of a lane: its runners and pauses, then its phases as they began."""
    where = {
        folded(safe_id(row.envelope_id)): (row.key, section)
        for section in reversed(SECTIONS)
        if section != "quarantined"
        for row in view.rows(section)
        if section != "pending" or row.attempt > 1 or row.stalls or view.held is not None
    }
    tracks: dict[str, list[Bar]] = {}
    for bar in history.bars:
        tracks.setdefault(bar.track, []).append(bar)
    rows = []
    if LANE in tracks:
        rows.append(_runner_row(tracks[LANE]))
    for key, bars in tracks.items():
        track = history.tracks.get(key)
        if key == LANE or "/" in key or track is None:
            continue
        pieces = tuple(_piece(bar) for bar in bars)
        rows.append(
            Row(
                where.get(key, ("", ""))[0] or key,
                track.title,
                pieces,
                pieces[-1].mark,
                queued_at=track.queued_at,
            )
        )
    return rows


def _runner_row(bars: Sequence[Bar]) -> Row:
    pieces = tuple(_piece(bar) for bar in bars)
    lives = [bar for bar in bars if bar.kind == "runner"]
    mark = bar_mark(lives[-1].outcome) if lives else pieces[-1].mark
    return Row("", "runner", pieces, mark)


def _piece(bar: Bar) -> Piece:
    sign = {"hold": HOLD, "pause": PAUSE, "runner": "─"}.get(bar.kind, RUN)
    mark = bar_mark(bar.outcome)
    if bar.kind == "pause":
        mark = Mark("‖", "paused", "warn")
    elif bar.kind == "hold":
        mark = Mark("◷", "held by a limit" if not bar.outcome else "was held", "warn")
    what = {"run": f"attempt {bar.attempt}", "runner": f"runner {bar.pid or '?'}"}.get(bar.kind, "")
    more = [clean(bar.engine)] if bar.engine else []
    if bar.tokens is not None:
        more.append(f"{number(bar.tokens)} tokens")
    if bar.cost_usd is not None:
        more.append(f"${bar.cost_usd:.2f}")
    return Piece(bar.start, bar.end, sign, mark, what, " · ".join(more), bar.text)


# -- lines ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Window:
    """The time in sight."""

    start: int
    end: int

    @property
    def span(self) -> int:
        return max(1, self.end - self.start)


def clock(ms: int) -> str:
    """A length of time as on a stopwatch, in tenths of seconds where it is short."""
    return f"{ms / 1000:.1f} s" if ms < 10_000 else stopwatch(ms)


def whole(rows: Sequence[Row], now: int) -> Window | None:
    """The time from the first bar to the last, ``None`` where there are none."""
    spans = [
        (piece.start, piece.end if piece.end is not None else now) for row in rows for piece in row.pieces
    ]
    if not spans:
        return None
    start = min(at for at, _ in spans)
    return Window(start, max(start + 1000, *(until for _, until in spans)))


@dataclass(frozen=True, slots=True)
class Columns:
    """How wide the parts of a line are."""

    name: int
    cells: int
    clock: int
    word: int


def columns(rows: Sequence[Row], width: int, now: int) -> Columns:
    """What fits into ``width`` cells."""
    longest = max((cell_len(clean(row.name)) for row in rows), default=8)
    name = min(longest, max(10, width // 4))
    widest = max((len(clock(row.took(now) or 0)) for row in rows), default=5)
    word = max((cell_len(row.mark.word) for row in rows), default=0) + 2 if width >= 50 else 1
    return Columns(name, max(LEAST_BAR, width - name - widest - word - 8), widest, word)


def axis(window: Window, parts: Columns) -> Line:
    """The clock's times above the bars."""
    cells = parts.cells
    step = next((step for step in STEPS_S if window.span / 1000 / step * 11 <= cells), STEPS_S[-1]) * 1000
    text = [" "] * cells
    at = -(-window.start // step) * step
    free = 0
    while at <= window.end:
        place = (at - window.start) * cells // window.span
        label = time_of_day(at) if step < 60_000 else time_of_day(at)[:5]
        if place >= free and place + 1 + len(label) <= cells:
            text[place : place + 1 + len(label)] = "╷" + label
            free = place + len(label) + 2
        at += step
    return ((" " * (2 + parts.name + 2), "text"), ("".join(text), "muted"))


def track_line(row: Row, window: Window, parts: Columns, now: int, *, chosen: int | None) -> Line:
    """One track; of a chosen one the bar ``chosen`` is emphasised."""
    value = row.took(now)
    shown = f"{row.mark.glyph} {clean(row.mark.word)}" if parts.word > 1 else row.mark.glyph
    on = chosen is not None
    return (
        ("▸ " if row.critical else "  ", "warn"),
        (fit(cut_middle(clean(row.name), parts.name), parts.name), "strong" if on else "text"),
        ("› " if on else "  ", "key"),
        *_bars(row, window, parts.cells, now, chosen),
        ("  ", "text"),
        (fit(clock(value) if value is not None else "–", parts.clock, right=True), "text"),
        ("  ", "text"),
        (fit(shown, parts.word), row.mark.look),
    )


def _bars(row: Row, window: Window, cells: int, now: int, chosen: int | None) -> Sequence[Span]:
    signs, looks = [" "] * cells, ["text"] * cells
    first = row.pieces[0].start if row.pieces else window.end
    began = _cell(first, window, cells)
    if row.pieces and began > 0:
        queued = _cell(row.queued_at, window, cells) if row.queued_at is not None else 0
        for place in range(max(0, queued), min(began, cells)):
            signs[place], looks[place] = "·", "rule"
    taken = 0
    for number_of, piece in enumerate(row.pieces):
        stop = piece.end if piece.end is not None else now
        if stop < window.start or piece.start > window.end:
            continue
        # How the bar before ended is not drawn over.
        left = min(max(0, taken, _cell(piece.start, window, cells)), cells - 1)
        right = min(cells, max(left + 1, -(-(stop - window.start) * cells // window.span)))
        look = piece.mark.look
        for place in range(left, right):
            signs[place], looks[place] = piece.sign, look
        if piece.mark.glyph and piece.end is not None and stop <= window.end + window.span // cells:
            signs[right - 1], looks[right - 1] = piece.mark.glyph, look
            taken = right
        if chosen == number_of and len(row.pieces) > 1:
            for place in range(left, right):
                looks[place] = "cap"
    spans: list[Span] = []
    for sign, look in zip(signs, looks, strict=True):
        if spans and spans[-1][1] == look:
            spans[-1] = (spans[-1][0] + sign, look)
        else:
            spans.append((sign, look))
    return spans


def _cell(at: int, window: Window, cells: int) -> int:
    return (at - window.start) * cells // window.span


def facts(row: Row, chosen: int, now: int, width: int) -> list[Line]:
    """What the chosen bar was, in three lines."""
    if not row.pieces:
        return [
            (
                ("  ", "text"),
                (clean(row.name), "strong"),
                (f"  {row.mark.glyph} {row.mark.word}", row.mark.look),
            ),
            (("  not started", "muted"),),
            (),
        ]
    piece = row.pieces[chosen]
    of = f" of {len(row.pieces)}" if len(row.pieces) > 1 else ""
    until = time_of_day(piece.end) if piece.end is not None else "now"
    took = clock((piece.end if piece.end is not None else now) - piece.start)
    wait = ""
    if chosen == 0 and row.queued_at is not None and piece.start - row.queued_at >= 1000:
        wait = f" · waited {duration(piece.start - row.queued_at)}"
    head: list[Span] = [
        ("  ", "text"),
        (clean(row.name), "strong"),
        (f"  {clean(piece.what)}", "text"),
        (f"  bar {chosen + 1}{of}" if of else "", "muted"),
        (f"  {piece.mark.glyph} {clean(piece.mark.word)}".rstrip(), piece.mark.look),
    ]
    second: list[Span] = [
        (f"  {time_of_day(piece.start)} – {until}", "text"),
        (f" · {took}{wait}", "text"),
        (f" · {clean(piece.more)}" if piece.more else "", "muted"),
    ]
    bad = piece.mark.look if piece.mark.look in ("bad", "warn") else "muted"
    third: list[Span] = [(f"  {clean(piece.said)}" if piece.said else "", bad)]
    return [crop(line, width) for line in (head, second, third)]


def totals(mission: MissionView, window: Window | None, now: int, width: int) -> list[Line]:
    """How long the mission took, what it would have taken one after the other, and its critical path."""
    path = path_of(mission, now)
    took = {row.loop_id: row.elapsed(now) or 0 for row in mission.loops}
    started = [row for row in mission.loops if row.started_at is not None]
    alone = sum(took.values())
    longest = sum(took[name] for name in path if name in took)
    lines: list[Line] = [
        crop((("▸ ", "warn"), (f"critical path: {' → '.join(clean(one) for one in path)}", "muted")), width)
    ]
    if started and window is not None:
        first = min(row.started_at or 0 for row in started)
        total = max(_end(row, now) for row in started) - first
        said = f"  took {stopwatch(total)}, one after the other {stopwatch(alone)}"
        if total > 0:
            said += f" ({alone / total:.1f} times as long)"
        lines.append(crop(((f"{said}; the critical path alone {stopwatch(longest)}", "muted"),), width))
    return lines


def _end(row: LoopRow, now: int) -> int:
    began = row.started_at or 0
    if row.status == "running":
        return max(now, began)
    return max(row.ended_at or row.updated_at or began, began)
