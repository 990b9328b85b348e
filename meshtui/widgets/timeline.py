"""The loops of a mission against time, as thin bars, those of the critical path marked."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from meshtui.core.mesh.scheduler import LoopLike, LoopNode, critical_path
from meshtui.core.mesh.view import LoopRow, MissionView
from meshtui.status import loop_mark
from meshtui.text import clean, cut_middle, fit, stopwatch
from meshtui.widgets.paint import Line, Span
from meshtui.widgets.prose import Body, Fact, Item, Raw

LEAST_BAR = 10


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


def timeline_items(mission: MissionView, width: int, now: int) -> list[Item]:
    """The lines of the timeline in ``width`` cells."""
    spans = [(row.started_at, _end(row, now)) for row in mission.loops if row.started_at is not None]
    if not spans:
        return [Fact("", "No loop has started yet.", "muted")]
    start, end = min(at for at, _ in spans), max(until for _, until in spans)
    path = path_of(mission, now)
    marks = [loop_mark(row) for row in mission.loops]
    name = min(max(cell_len(clean(row.loop_id)) for row in mission.loops), max(8, width // 4))
    word = max(cell_len(mark.word) for mark in marks) + 2 if width >= 56 else 1
    clock = len(stopwatch(end - start))
    cells = max(LEAST_BAR, width - name - word - clock - 8)
    items: list[Item] = [Raw(_axis(end - start, 2 + name + 2, cells))]
    order = sorted(mission.loops, key=lambda row: (row.started_at is None, row.started_at or 0))
    for row in order:
        mark = loop_mark(row)
        critical = row.loop_id in path
        shown = f"{mark.glyph} {clean(mark.word)}" if word > 1 else mark.glyph
        value = row.elapsed(now)
        line: list[Span] = [
            ("▸ " if critical else "  ", "warn"),
            (fit(cut_middle(clean(row.loop_id), name), name), "strong" if critical else "text"),
            ("  ", "text"),
            *_bar(row, start, end, cells, now),
            ("  ", "text"),
            (fit(stopwatch(value) if value is not None else "–", clock, right=True), "text"),
            ("  ", "text"),
            (shown, mark.look),
        ]
        items.append(Raw(tuple(line)))
    items += [
        Raw(()),
        Raw((("▸ ", "warn"), (f"critical path: {' → '.join(clean(one) for one in path)}", "muted"))),
    ]
    items += _totals(mission, end - start, path, now)
    return items


def _end(row: LoopRow, now: int) -> int:
    began = row.started_at or 0
    if row.status == "running":
        return max(now, began)
    return max(row.ended_at or row.updated_at or began, began)


def _axis(total: int, indent: int, cells: int) -> Line:
    left, right = "00:00", stopwatch(total)
    middle = stopwatch(total // 2)
    text = left
    if cells >= 28:
        text += middle.rjust(cells // 2 + len(middle) // 2 - len(left))
    return ((" " * indent, "text"), (text + right.rjust(max(1, cells - cell_len(text))), "muted"))


def _bar(row: LoopRow, start: int, end: int, cells: int, now: int) -> Sequence[Span]:
    if row.started_at is None:
        return ((" " * cells, "text"),)
    total = max(1, end - start)
    first = min(cells - 1, (row.started_at - start) * cells // total)
    last = max(first + 1, min(cells, -(-(_end(row, now) - start) * cells // total)))
    return (
        ("·" * first, "rule"),
        ("━" * (last - first), loop_mark(row).look),
        (" " * (cells - last), "text"),
    )


def _totals(mission: MissionView, total: int, path: tuple[str, ...], now: int) -> list[Item]:
    took = {row.loop_id: row.elapsed(now) or 0 for row in mission.loops}
    alone = sum(took.values())
    longest = sum(took[name] for name in path if name in took)
    said = f"took {stopwatch(total)}, one after the other {stopwatch(alone)}"
    if total > 0:
        said += f" ({alone / total:.1f} times as long)"
    return [
        Body(said, "muted", indent=2),
        Body(f"the critical path alone {stopwatch(longest)}", "muted", indent=2),
    ]
