"""Figures drawn in text: areas, columns, shares of caps with their forecasts, the age of signs of life.

Everything is pure: from a history and a view to lines of at most ``width`` cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from meshtui.core.forecast import Forecast, empties, reaches
from meshtui.core.history import History, Total, percentile
from meshtui.core.lane.signs import Signs
from meshtui.core.mesh.view import LoopRow, MissionView
from meshtui.core.view import LaneView, Row
from meshtui.status import loop_mark
from meshtui.text import clean, cut_middle, duration, fit, number, stopwatch, time_of_day
from meshtui.widgets.paint import Line, Span, crop, width_of
from meshtui.widgets.prose import bar
from meshtui.widgets.timeline import STEPS_S

BLOCKS = " ▁▂▃▄▅▆▇█"
WARN_AT, BAD_AT = 0.8, 1.0
LONGEST_BAR = 40
FIGURES = 22
"""Cells for what is used and how much may be."""
BUCKETS_S = (
    1,
    2,
    5,
    10,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    14_400,
    21_600,
    43_200,
    86_400,
    604_800,
)


@dataclass(frozen=True, slots=True)
class Block:
    """One chart: its title, what stands right of it, and its lines."""

    title: str
    lines: tuple[Line, ...]
    note: str = ""
    look: str = "muted"
    """The look of the note."""


def place(blocks: Sequence[Block], width: int, *, columns: bool) -> list[Line]:
    """The blocks below each other, or with ``columns`` in two columns of about the same height."""
    if not columns:
        lines: list[Line] = []
        for block in blocks:
            lines += [*_titled(block, width), ()]
        return lines[:-1]
    half = (width - 3) // 2
    sizes = [len(block.lines) + 2 for block in blocks]
    cut = min(range(1, len(blocks) + 1), key=lambda at: abs(sum(sizes[:at]) - sum(sizes[at:])))
    left = place(blocks[:cut], half, columns=False)
    right = place(blocks[cut:], half, columns=False) if blocks[cut:] else []
    joined: list[Line] = []
    for row in range(max(len(left), len(right))):
        one = left[row] if row < len(left) else ()
        two = right[row] if row < len(right) else ()
        joined.append(
            (*crop(one, half), (" " * (half - min(half, width_of(one)) + 3), "text"), *crop(two, half))
        )
    return joined


def _titled(block: Block, width: int) -> list[Line]:
    title: list[Span] = [(block.title, "strong")]
    if block.note:
        title.append((f"  {block.note}", block.look))
    return [crop(title, width), *(crop(line, width) for line in block.lines)]


# -- areas and columns ------------------------------------------------------------------------------


def columns_of(values: Sequence[float], rows: int, look: str, top: float | None = None) -> list[list[Span]]:
    """``values`` as columns of ``rows`` lines, one cell each; what is more than nothing is never drawn as nothing."""
    most = top if top is not None else max(values, default=0)
    lines: list[list[Span]] = []
    for row in range(rows - 1, -1, -1):
        text = ""
        for value in values:
            eighths = round(value / most * rows * 8) if most else 0
            if value > 0:
                eighths = max(1, eighths)
            text += BLOCKS[max(0, min(8, eighths - row * 8))]
        lines.append([(text, look)])
    return lines


def _framed(rows: list[list[Span]], most: float, gutter: int) -> list[Line]:
    """Columns with their scale at the left."""
    lines: list[Line] = []
    for place_of, row in enumerate(rows):
        label = number(round(most)) if place_of == 0 else "0" if place_of == len(rows) - 1 else ""
        lines.append(((label.rjust(gutter) + " ", "muted"), ("│", "rule"), *row))
    return lines


def time_axis(start: int, end: int, cells: int, gutter: int) -> Line:
    """Times below a chart of ``cells`` columns."""
    span = max(1, end - start)
    step = next((step for step in STEPS_S if span / 1000 / step * 10 <= cells), STEPS_S[-1]) * 1000
    text = [" "] * cells
    at, free = -(-start // step) * step, 0
    while at <= end:
        spot = (at - start) * cells // span
        label = time_of_day(at) if step < 60_000 else time_of_day(at)[:5]
        if spot >= free and spot + 1 + len(label) <= cells:
            text[spot : spot + 1 + len(label)] = "╵" + label
            free = spot + len(label) + 2
        at += step
    return ((" " * (gutter + 2), "text"), ("".join(text), "muted"))


def depth_block(history: History, now: int, width: int, rows: int) -> Block:
    """How many waited, over the time that the journal tells of."""
    points = [(at, depth) for _, at, depth in history.depths]
    title = "Queue depth"
    if len(points) < 2:
        return Block(
            title,
            (
                (
                    (
                        f"  nothing to draw yet: {len(points)} change{'' if len(points) == 1 else 's'} so far",
                        "muted",
                    ),
                ),
            ),
        )
    start, end = points[0][0], max(now, points[-1][0])
    most = max(depth for _, depth in points)
    gutter = max(3, len(number(most)))
    cells = max(8, width - gutter - 2)
    values: list[float] = []
    at, current = 0, 0
    for cell in range(cells):
        until = start + (end - start) * (cell + 1) / cells
        high = current
        while at < len(points) and points[at][0] <= until:
            current = points[at][1]
            high = max(high, current)
            at += 1
        values.append(high)
    lines = _framed(columns_of(values, rows, "run"), most, gutter)
    note = f"{number(points[-1][1])} now, {number(most)} at most"
    return Block(title, (*lines, time_axis(start, end, cells, gutter)), note)


def bucket_of(span_ms: int, cells: int) -> int:
    """The length of a bucket in ms, so that no more than ``cells`` are needed."""
    return next((size for size in BUCKETS_S if span_ms / 1000 / size <= cells), BUCKETS_S[-1]) * 1000


def throughput_block(history: History, view: LaneView, now: int, width: int, rows: int) -> Block:
    """Phases that ended in each stretch of time, and when the queue is empty at this pace."""
    ends, title = history.finishes, "Throughput"
    if not ends:
        return Block(title, ((("  no phase has ended yet", "muted"),),))
    start, end = (history.times or (ends[0].at, now))[0], max(now, ends[-1].at)
    gutter = 3
    cells = max(8, width - gutter - 2)
    bucket = bucket_of(max(1, end - start), cells // 2)
    first = start // bucket * bucket
    count = int((end - first) // bucket) + 1
    wide = max(1, min(4, cells // count))
    done, failed = [0] * count, [0] * count
    for item in ends:
        (done if item.outcome == "done" else failed)[int((item.at - first) // bucket)] += 1
    most = max(max(done), max(failed), 1)
    gutter = max(gutter, len(number(most)))
    # A column of one phase need not fill the screen.
    rows = max(2, min(rows, most * 2))
    lines = _framed(columns_of(_spread(done, wide), rows, "ok", most), most, gutter)
    if any(failed):
        text = "".join((f"{value if value < 10 else '+'}" if value else " ").ljust(wide) for value in failed)
        lines.append((("✖".rjust(gutter) + " ", "bad"), ("│", "rule"), (text, "bad")))
    lines.append(time_axis(first, first + count * bucket, count * wide, gutter))
    waiting = view.counts.pending + view.counts.active
    pace = empties([item.at for item in ends], waiting, now, working=view.runner.alive)
    lines += _forecast(pace, "the queue is empty", now, "phases", width)
    note = f"per {duration(bucket)}: {number(len(ends))} ended, {number(sum(failed))} failed, {number(waiting)} to go"
    return Block(title, tuple(lines), note)


def _spread(values: Sequence[int], wide: int) -> list[float]:
    """Each value ``wide`` cells, with a gap where there is room for one."""
    found: list[float] = []
    for value in values:
        found += [float(value)] * max(1, wide - 1) + [0.0] * (wide > 1)
    return found


def durations_block(history: History, width: int) -> Block:
    """How long phases took."""
    took = sorted(item.took_ms for item in history.finishes if item.took_ms is not None)
    title = "Durations"
    if not took:
        return Block(title, ((("  no phase has ended yet", "muted"),),))
    edges = (10, 30, 60, 300, 900, 1800, 3600, 7200)
    names = ("<10s", "<30s", "<1m", "<5m", "<15m", "<30m", "<1h", "<2h", "more")
    counts = [0] * len(names)
    for value in took:
        counts[sum(1 for edge in edges if value >= edge * 1000)] += 1
    used = [place_of for place_of, value in enumerate(counts) if value]
    room = max(6, width - 18)
    most = max(counts)
    lines: list[Line] = []
    for place_of in range(used[0], used[-1] + 1):
        cells = max(1, round(counts[place_of] / most * room)) if counts[place_of] else 0
        lines.append(
            (
                (f"  {names[place_of]:>5} ", "muted"),
                ("━" * cells, "run"),
                (f" {number(counts[place_of])}", "text"),
            )
        )
    longest = max(
        (item for item in history.finishes if item.took_ms is not None), key=lambda item: item.took_ms or 0
    )
    track = history.tracks.get(longest.track)
    who = f": {cut_middle(clean(track.title), 24)}" if track is not None else ""
    said = f"  median {span_words(percentile(took, 0.5))}, 9 of 10 within {span_words(percentile(took, 0.9))}"
    lines.append(((said, "text"),))
    lines.append(((f"  the longest {span_words(took[-1])}{who}", "muted"),))
    return Block(title, tuple(lines))


def span_words(ms: int) -> str:
    """A length of time as a chart names it, tenths of seconds where it is short."""
    return f"{ms / 1000:.1f} s" if ms < 10_000 else duration(ms) if ms < 60_000 else stopwatch(ms)


# -- budgets ----------------------------------------------------------------------------------------


def budget_block(history: History, view: LaneView, now: int, width: int) -> Block:
    """What the lane used against its caps, and when they are reached."""
    title = "Budget of the lane"
    totals, caps = history.totals, history.caps
    if not totals and not caps:
        return Block(
            title,
            (
                (("  no engine reported tokens or cost so far,", "muted"),),
                (("  and the lane has no cap", "muted"),),
            ),
        )
    working = view.runner.alive and bool(view.active or view.pending)
    lines: list[Line] = []
    for key, name in (("tokens", "tokens"), ("cost_usd", "cost")):
        points = _points(totals, key)
        cap = caps.get(key)
        if points or cap:
            lines += _share(name, points[-1][1] if points else 0.0, cap, width, money=key == "cost_usd")
            lines += _burn(points, cap, now, working, width, money=key == "cost_usd")
    return Block(title, tuple(lines))


def _points(totals: Sequence[Total], key: str) -> list[tuple[int, float]]:
    return [(item.at, float(value)) for item in totals if (value := getattr(item, key)) is not None]


def _share(name: str, used: float, cap: float | None, width: int, *, money: bool = False) -> list[Line]:
    shown = _amount(used, money)
    if cap is None or cap <= 0:
        return [((f"  {name:<8}", "muted"), (shown, "strong"), ("  no cap", "muted"))]
    return [_bar_of(name, used / cap, f"{shown} of {_amount(cap, money)}", width)]


def _bar_of(name: str, share: float, said: str, width: int) -> Line:
    """A share of a cap as a bar, and in words; the bars below each other are of one length."""
    look = "bad" if share >= BAD_AT else "warn" if share >= WARN_AT else "ok"
    cells = max(6, min(LONGEST_BAR, width - 10 - FIGURES - 6))
    return (
        (f"  {name:<8}", "muted"),
        *bar(min(1.0, share), cells, look),
        (f" {share:>5.0%}", "strong" if share >= WARN_AT else "text"),
        (f"  {said}", "text"),
    )


def _amount(value: float, money: bool) -> str:
    return f"${value:,.2f}" if money else number(round(value))


def _burn(
    points: Sequence[tuple[int, float]],
    cap: float | None,
    now: int,
    working: bool,
    width: int,
    *,
    money: bool,
) -> list[Line]:
    if cap is None:
        pace = reaches(points, float("inf"), now, working=True).per_hour
        said = f"{_amount(pace, money)} an hour lately" if pace else "too few reports for a rate"
        return [((f"  {said}", "muted"),)]
    found = reaches(points, cap, now, working=working)
    return _forecast(found, "the cap is reached", now, "$" if money else "tokens", width)


def _forecast(found: Forecast, what: str, now: int, unit: str, width: int) -> list[Line]:
    """``at this rate the cap is reached in 42 min, at 15:10``, or why that cannot be said; the pace behind it."""
    pace = ""
    if found.per_hour:
        amount = f"${found.per_hour:,.2f}" if unit == "$" else f"{_pace(found.per_hour)} {unit}"
        pace = f"{amount} an hour over {duration(found.span_ms)}"
    if found.at is None:
        look = "warn" if found.reason == "the cap is reached" else "muted"
        said: list[Span] = [("  ", "text"), (found.reason, look)]
    else:
        left = found.at - now
        when = f"in {duration(left)}, at {time_of_day(found.at)[:5]}" if left >= 1000 else "any moment"
        said = [("  at this rate ", "muted"), (f"{what} {when}", "text")]
    if not pace:
        return [tuple(said)]
    if width_of(said) + cell_len(pace) + 3 <= width:
        return [(*said, (f" ({pace})", "muted"))]
    return [tuple(said), ((f"  ({pace})", "muted"),)]


def _pace(value: float) -> str:
    return number(round(value)) if value >= 10 else f"{value:.1f}"


def loop_blocks(mission: MissionView, history: History, now: int, width: int) -> list[Block]:
    """What each loop used of its own budget, the running ones and the fullest first."""
    rows = [row for row in mission.loops if row.started_at is not None or row.budget_used]
    if not rows:
        return [Block("Budgets", ((("  no loop has used anything yet", "muted"),),))]
    rows.sort(key=lambda row: (row.status != "running", -_nearest(row, now)))
    return [_loop_block(row, history, now, width) for row in rows]


def _loop_block(row: LoopRow, history: History, now: int, width: int) -> Block:
    mark = loop_mark(row)
    lines: list[Line] = []
    used, most = row.budget_used, row.budget_max
    wall, running = _wall(row, now), row.status == "running"
    for name, key, cap, value in (
        ("tokens", "tokens", most.get("max_tokens_estimate"), used.get("tokens")),
        ("cost", "cost_usd", most.get("max_cost_usd"), used.get("cost_usd")),
    ):
        if not isinstance(value, (int, float)):
            continue
        money, limit = key == "cost_usd", float(cap) if isinstance(cap, (int, float)) else None
        lines += _share(name, float(value), limit, width, money=money)
        points = _points(history.loops.get(row.key, ()), key)
        if running and limit:
            lines += _burn(points, limit, now, True, width, money=money)
    limit_ms = most.get("max_wall_ms")
    if isinstance(limit_ms, int) and limit_ms > 0:
        lines.append(_bar_of("time", wall / limit_ms, f"{stopwatch(wall)} of {stopwatch(limit_ms)}", width))
        if running:
            lines.append(_time_left(limit_ms - wall, now))
    calls, most_calls = used.get("model_calls"), most.get("max_model_calls")
    if isinstance(calls, int) and isinstance(most_calls, int):
        lines += _share("calls", calls, most_calls, width)
    return Block(
        cut_middle(clean(row.loop_id), 32), tuple(lines), f"{mark.glyph} {clean(mark.word)}", mark.look
    )


def _wall(row: LoopRow, now: int) -> int:
    used = row.budget_used.get("wall_ms")
    took = row.elapsed(now) or 0
    return max(used, took) if isinstance(used, int) else took


def _nearest(row: LoopRow, now: int) -> float:
    shares = [0.0]
    most, used = row.budget_max, row.budget_used
    pairs = (
        ("max_tokens_estimate", "tokens"),
        ("max_cost_usd", "cost_usd"),
        ("max_model_calls", "model_calls"),
    )
    for cap, key in pairs:
        if isinstance(most.get(cap), (int, float)) and most[cap] and isinstance(used.get(key), (int, float)):
            shares.append(used[key] / most[cap])
    limit = most.get("max_wall_ms")
    if isinstance(limit, int) and limit:
        shares.append(_wall(row, now) / limit)
    return max(shares)


def _time_left(left: int, now: int) -> Line:
    if left <= 0:
        return (("  ", "text"), ("its time is used up", "warn"))
    return (
        ("  its time ends ", "muted"),
        (f"in {duration(left)}, at {time_of_day(now + left)[:5]}", "text"),
    )


# -- signs of life ----------------------------------------------------------------------------------


def signs_block(
    view: LaneView, history: History, signs: Signs | None, now: int, width: int, *, replayed: bool
) -> Block:
    """The age of every sign of the active phase, and what would stall it."""
    title = "Signs of life"
    if not view.active:
        return Block(title, ((("  nothing runs", "muted"),),))
    row = view.active[0]
    mine = signs if signs is not None and signs.envelope_id == row.envelope_id else None
    idle = history.told[-1].idle_seconds if history.told else None
    lines = [_deadline_line(row, now)]
    if replayed:
        told = [at for _, at, envelope in history.signs if envelope == row.envelope_id]
        told = [at for at in told if row.started_at is None or at >= row.started_at]
        lines.append(_sign("activity", max(told) if told else None, now, "nothing was journalled"))
        lines.append((("  output, processor and worktree are not in a journal", "muted"),))
        seen = told
    elif mine is None:
        lines.append((("  looking…", "muted"),))
        seen = []
    else:
        lines += _live_lines(mine, now)
        seen = [at for at in (mine.output_at, mine.cpu_at, mine.change_at) if at is not None]
    lines.append(_stalls(row, idle, seen, now, width, told=bool(history.told)))
    return Block(title, tuple(lines), cut_middle(clean(row.title), max(8, width - 16)))


def _live_lines(signs: Signs, now: int) -> list[Line]:
    size = f"{number(signs.output_bytes)} bytes" if signs.output_bytes else ""
    cpu = f"{signs.cpu_seconds:.1f} s used" if signs.cpu_seconds is not None else ""
    since = signs.watched_since
    unseen = f"idle for the {duration(now - since)} it is watched" if since is not None else "not seen yet"
    return [
        _sign("output", signs.output_at, now, "nothing written yet", size),
        _sign("processor", signs.cpu_at, now, unseen, cpu),
        _sign("worktree", signs.change_at, now, "nothing changed that can be seen"),
    ]


def _sign(name: str, at: int | None, now: int, missing: str, more: str = "") -> Line:
    label = f"  {name:<10}"
    tail = f"  {more}" if more else ""
    if at is None:
        return ((label, "muted"), (missing, "muted"), (tail, "muted"))
    return (
        (label, "muted"),
        (fit(f"{duration(now - at)} ago", 14), "text"),
        (time_of_day(at), "muted"),
        (tail, "muted"),
    )


def _deadline_line(row: Row, now: int) -> Line:
    label = f"  {'deadline':<10}"
    if row.deadline_at is None:
        return ((label, "muted"), ("not known", "muted"))
    left = row.deadline_at - now
    total = f" of {stopwatch(round(row.budget_seconds * 1000))}" if row.budget_seconds else ""
    if left <= 0:
        return (
            (label, "muted"),
            (f"passed {duration(-left)} ago", "bad"),
            (f"  {time_of_day(row.deadline_at)}", "muted"),
        )
    tight = row.budget_seconds is not None and left < row.budget_seconds * 200
    return (
        (label, "muted"),
        (f"{stopwatch(left)} left", "warn" if tight else "text"),
        (f"{total}, at {time_of_day(row.deadline_at)}", "muted"),
    )


def _stalls(row: Row, idle: float | None, seen: Sequence[int], now: int, width: int, *, told: bool) -> Line:
    """Which of them would stall it, and when."""
    if idle is None:
        why = "no [lane] idle_seconds" if told else "no runner has said its idle_seconds"
        alone: Line = (("  only its deadline stalls it", "text"),)
        aside = f" ({why})"
        return (*alone, (aside, "muted")) if width_of(alone) + len(aside) <= width else alone
    limit = round(idle * 1000)
    last = max(seen, default=row.started_at or now)
    end = last + limit
    if row.deadline_at is not None and row.deadline_at <= end:
        return (
            ("  its deadline stalls it first", "text"),
            (f" (silence at {time_of_day(end)})", "muted"),
        )
    left = end - now
    said = f"in {duration(left)}, at {time_of_day(end)}" if left > 0 else "any moment"
    look = "warn" if left < limit // 2 else "text"
    line: Line = (("  silence stalls it first, ", look), (said, "text"))
    more = f" (after {duration(limit)})"
    return (*line, (more, "muted")) if width_of(line) + len(more) <= width else line
