"""The first line: whether anything is wrong, what runs, and how long it may."""

from __future__ import annotations

from collections.abc import Sequence

from meshtui.core.view import LaneView
from meshtui.messages import FollowMode
from meshtui.status import lane_mark, mission_mark
from meshtui.text import clean, cut_end, cut_middle, duration, number, stopwatch
from meshtui.widgets.describe import used_text
from meshtui.widgets.paint import Line, Painted, Span, now_of, width_of

_BARS = "▁▂▃▄▅▆▇█"
_SPARKS = 12
DOING_WIDTH = 110
"""Where a line this long has room for what the agent does."""
SPARK = 7
"""The rank of the sparkline, which gives way first."""


def sparkline(history: Sequence[tuple[int, int]], now: int, *, cells: int = _SPARKS) -> str:
    """The queue's depth over its recorded time, one bar for each of ``cells`` equal spans up to ``now``.

    Empty when there is nothing to compare; a flat line where the depth hardly changed.
    """
    if len(history) < 2:
        return ""
    start, end = history[0][0], max(now, history[-1][0])
    step = max(1, (end - start) / cells)
    depths: list[int] = []
    at = 0
    for cell in range(cells):
        until = start + step * (cell + 1)
        high = history[at][1]
        while at + 1 < len(history) and history[at + 1][0] <= until:
            at += 1
            high = max(high, history[at][1])
        depths.append(high)
    top = max(depths)
    if top - min(depths) <= top // len(_BARS):
        # The heights of a queue that stays as it is are all the highest: a solid block, which looks like a crowd.
        return _BARS[0] * cells
    return "".join(_BARS[round(depth / top * (len(_BARS) - 1))] for depth in depths)


class StatusLine(Painted):
    """Lane, state, runner, queue, what is active, counts; what fits, in order of its weight."""

    view: LaneView | None = None
    mode: FollowMode = "watching"
    reason: str | None = None
    read_only = False
    """Whether this console only looks."""
    still = False
    """Whether this is a picture: nothing is followed, so nothing can be degraded."""

    def show(self, view: LaneView | None) -> None:
        """Draw ``view``."""
        self.view = view
        self.repaint()

    def follow(self, mode: FollowMode, reason: str | None) -> None:
        """Say how the run directory is followed."""
        self.mode, self.reason = mode, reason
        self.tooltip = clean(f"{mode}: {reason}" if reason else mode) if mode == "polling" else None
        self.repaint()

    def compose_lines(self, width: int) -> Sequence[Line]:
        view = self.view
        mark = lane_mark(view)
        name = clean((view.lane_id or view.run_dir.name) if view is not None else "meshtui")
        state: Line = ((f"{mark.glyph} {mark.word}", mark.look),)
        parts: list[tuple[int, Line]] = [(0, state)]
        if self.read_only:
            parts.append((0, ((" read-only ", "cap"),)))
        if view is not None and view.exists:
            parts += self._parts(view, now_of(self), width=width)
        if view is not None and view.missions:
            parts += self._missions(view, now_of(self), width=width)
        if self.mode == "polling":
            parts.append((2, (("▲ polling", "warn"),)))
        return (self._join(name, parts, width),)

    def _parts(self, view: LaneView, now: int, *, width: int) -> list[tuple[int, Line]]:
        short = width < 100
        parts: list[tuple[int, Line]] = []
        runner = view.runner
        if runner.pid is not None and (runner.alive or view.state == "dead"):
            age = (
                "" if runner.heartbeat_at is None else duration(now - runner.heartbeat_at).replace(" s", "s")
            )
            stale = runner.heartbeat_at is not None and now - runner.heartbeat_at > 60_000
            who = "foreign runner" if runner.foreign else "runner"
            spans: list[Span] = [] if short and age else [(f"{who} ", "muted"), (f"{runner.pid} ", "text")]
            if age:
                spans.append((f"♥ {age}", "bad" if stale else "muted"))
            parts.append((3, tuple(spans)))
        queue: list[Span] = [("queue ", "muted"), (number(view.counts.pending), "strong")]
        parts.append((1, tuple(queue)))
        spark = sparkline(view.depth_history, now)
        if spark:
            parts.append((SPARK, ((spark, "run"),)))
        active = self._active(view, now, width)
        if active:
            parts.append((2, active))
        if view.active and view.active[0].doing and width >= DOING_WIDTH:
            doing = view.active[0].doing[-1]
            parts.append((9, ((cut_end(clean(doing.text), width // 5), "run"),)))
            used = used_text(doing.tokens, doing.cost_usd)
            if used:
                parts.append((8, ((used, "muted"),)))
        total = used_text(view.tokens, view.cost_usd)
        if total and width >= DOING_WIDTH:
            parts.append((10, (("used in all ", "muted"), (total, "text"))))
        counts = view.counts
        parts.append((5, (("done ", "muted"), (number(counts.done), "ok" if counts.done else "muted"))))
        parts.append(
            (4, (("failed ", "muted"), (number(counts.failed), "bad" if counts.failed else "muted")))
        )
        if not view.counts_exact or not view.complete:
            parts.append((6, (("counting…", "muted"),)))
        return parts

    def _missions(self, view: LaneView, now: int, *, width: int) -> list[tuple[int, Line]]:
        """The mission that matters most now, how far it is, and who works."""
        running = [one for one in view.missions if one.runner.alive]
        mission = (running or list(view.missions))[-1]
        mark = mission_mark(mission)
        name = cut_middle(clean(mission.mission_id), 12 if width < 100 else 24)
        look = mark.look if view.exists else "text"
        done = f" {mission.done}/{len(mission.loops)}"
        spans: list[Span] = [("mission ", "muted")] if width >= 100 or not view.exists else []
        if view.exists:
            spans.append((f"{mark.glyph} ", mark.look))
        spans += [(name, "text"), (done, look)]
        parts: list[tuple[int, Line]] = [(4, tuple(spans))]
        workers = sum(len(loop.active_workers) for one in running for loop in one.loops)
        if running:
            parts.append((5, (("workers ", "muted"), (number(workers), "run" if workers else "muted"))))
        if not view.exists and running and running[-1].runner.pid is not None:
            beat = running[-1].runner.heartbeat_at
            age = "" if beat is None else f" ♥ {duration(now - beat).replace(' s', 's')}"
            parts.append((6, (("runner ", "muted"), (f"{running[-1].runner.pid}", "text"), (age, "muted"))))
        if len(view.missions) > 1:
            parts.append((8, ((f"of {len(view.missions)} missions", "muted"),)))
        return parts

    def _active(self, view: LaneView, now: int, width: int) -> Line:
        if not view.active:
            return ()
        row = view.active[0]
        title = cut_middle(clean(row.title), 16 if width < 70 else 20 if width < 100 else 28)
        spans: list[Span] = [] if width < 100 else [("active ", "muted")]
        spans.append((title, "text"))
        if row.started_at is not None:
            late = row.deadline_at is not None and now > row.deadline_at
            spans.append((f" {stopwatch(now - row.started_at)}", "bad" if late else "run"))
            total = row.budget_seconds
            if total is None and row.deadline_at is not None:
                total = (row.deadline_at - row.started_at) / 1000
            if total is not None:
                spans.append((f"{'/' if width < 70 else ' of '}{stopwatch(round(total * 1000))}", "muted"))
        return tuple(spans)

    def _join(self, name: str, parts: list[tuple[int, Line]], width: int) -> Line:
        name = cut_middle(name, max(8, width // 4))
        kept, gap = list(parts), 3
        while self._needed(name, kept, gap) > width:
            if gap == 3:
                gap = 2
            elif len(kept) > 1:
                kept.remove(max(kept, key=lambda part: part[0]))
            else:
                break
        spans: list[Span] = [(" ", "text"), (name, "strong")]
        for rank, part in kept:
            spans.append((" " * (1 if rank == SPARK else gap), "text"))
            spans.extend(part)
        return tuple(spans)

    def _needed(self, name: str, parts: list[tuple[int, Line]], gap: int) -> int:
        gaps = sum(1 if rank == SPARK else gap for rank, _part in parts)
        return 2 + width_of([(name, "")]) + gaps + sum(width_of(part) for _rank, part in parts)
