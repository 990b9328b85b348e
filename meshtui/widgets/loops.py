"""The loops of all missions, grouped by mission, newest mission first."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len
from textual.message import Message

from meshtui.commands import key_of
from meshtui.core.mesh.view import LoopRow, MissionView
from meshtui.core.models.envelope import ENGINES
from meshtui.filters import Field, Fields
from meshtui.status import LOOP_MARKS, PHASE_WORDS, RISK_LOOKS, loop_mark, mission_mark
from meshtui.text import clean, cut_end, cut_middle, stopwatch
from meshtui.widgets.columns import NOTHING, Column, Layout, chosen
from meshtui.widgets.listing import ListTable
from meshtui.widgets.paint import Line, Span, crop, now_of, titles_of, width_of
from meshtui.widgets.prose import bar

BAR_CELLS = 6
RISKS = ("low", "medium", "high", "critical")
SPENT = ("wall_ms", "model_calls", "changed_files", "patch_bytes")
"""The parts of a budget that say how much is left; iterations and workers have columns of their own."""
MAXIMA = {
    "wall_ms": "max_wall_ms",
    "model_calls": "max_model_calls",
    "subagents": "max_subagents",
    "iterations": "max_iterations",
    "changed_files": "max_changed_files",
    "patch_bytes": "max_patch_bytes",
    "tokens": "max_tokens_estimate",
}


@dataclass(frozen=True, slots=True)
class Heading:
    """The line above the loops of a mission."""

    mission: MissionView

    @property
    def key(self) -> str:
        """Differs from every loop's."""
        return f"{self.mission.mission_id}/"


Entry = LoopRow | Heading


def used_of(row: LoopRow, part: str, now: int) -> tuple[float, float] | None:
    """``(used, most)`` of one part of a loop's budget; ``None`` where it has no limit."""
    most, used = row.budget_max.get(MAXIMA[part]), row.budget_used.get(part)
    if not isinstance(most, (int, float)) or isinstance(most, bool) or most <= 0:
        return None
    spent = float(used) if isinstance(used, (int, float)) and not isinstance(used, bool) else 0.0
    if part == "wall_ms" and row.status == "running" and row.updated_at is not None:
        # The file has it as of the last phase.
        spent += max(0, now - row.updated_at)
    return spent, float(most)


def spent_of(row: LoopRow, now: int) -> float:
    """How much of its tightest budget a loop has used; 1 is all of it."""
    parts = [used_of(row, part, now) for part in (*SPENT, "tokens")]
    return max((used / most for used, most in filter(None, parts)), default=0.0)


def bar_look(part: float) -> str:
    """The look of a bar that is ``part`` full."""
    return "bad" if part >= 1 else "warn" if part > 0.8 else "ok"


def phase_of(row: LoopRow) -> str:
    """The phase it is in, or where it ended badly."""
    phase = row.phase
    if row.status in ("planned", "completed", "handoff"):
        return ""
    if row.ended or phase is None:
        phase = row.marks[-1][1] if row.marks else None
    return clean(PHASE_WORDS.get(phase or "", phase or ""))


def _mark(row: LoopRow, index: int, width: int, now: int) -> Span:
    mark = loop_mark(row)
    return clean(f"{mark.glyph} {mark.word}"), mark.look


def _loop(row: LoopRow, index: int, width: int, now: int) -> Span:
    return cut_middle(clean(row.loop_id), width), "text"


def _phase(row: LoopRow, index: int, width: int, now: int) -> Span:
    phase = phase_of(row)
    return (phase, "text") if phase else NOTHING


def _iteration(row: LoopRow, index: int, width: int, now: int) -> Span:
    if not row.iteration:
        return NOTHING
    last = row.iteration >= row.max_iterations > 1 and not row.ended
    return f"{row.iteration}/{row.max_iterations or '?'}", "warn" if last else "text"


def _risk(row: LoopRow, index: int, width: int, now: int) -> Span:
    short = {"medium": "med", "critical": "crit"}.get(row.risk, row.risk)
    return clean(short), RISK_LOOKS.get(row.risk, "warn")


def _workers(row: LoopRow, index: int, width: int, now: int) -> Span:
    active = len(row.active_workers)
    if not active and not row.workers_used:
        return NOTHING
    return f"{active}/{max(active, row.workers_used)}", "run" if active else "muted"


def _gates(row: LoopRow, index: int, width: int, now: int) -> Span:
    if not row.gates_selected:
        return NOTHING
    look = "bad" if row.gates_failed else "ok" if row.status == "completed" else "text"
    return f"{len(row.gates_passed)}/{len(row.gates_selected)}", look


def _budget(row: LoopRow, width: int, now: int) -> Line:
    part = spent_of(row, now)
    return bar(part, width, bar_look(part))


def _elapsed(row: LoopRow, index: int, width: int, now: int) -> Span:
    value = row.elapsed(now)
    return (stopwatch(value), "run" if row.status == "running" else "muted") if value is not None else NOTHING


def _why(row: LoopRow, index: int, width: int, now: int) -> Span:
    text = row.handoff_reason if row.status == "handoff" else "; ".join(row.blockers)
    return cut_end(clean(text or ""), width), "text"


def _by_name(row: LoopRow, now: int) -> str:
    return row.loop_id.casefold()


def _by_word(row: LoopRow, now: int) -> str:
    return loop_mark(row).word


def _by_phase(row: LoopRow, now: int) -> str | None:
    return phase_of(row) or None


def _by_iteration(row: LoopRow, now: int) -> int | None:
    return row.iteration or None


def _by_risk(row: LoopRow, now: int) -> int:
    return RISKS.index(row.risk) if row.risk in RISKS else len(RISKS)


def _by_work(row: LoopRow, now: int) -> int:
    return max(len(row.active_workers), row.workers_used)


def _by_gates(row: LoopRow, now: int) -> float | None:
    return len(row.gates_passed) / len(row.gates_selected) if row.gates_selected else None


def _by_time(row: LoopRow, now: int) -> int | None:
    return row.elapsed(now)


def _by_why(row: LoopRow, now: int) -> str | None:
    return (row.handoff_reason if row.status == "handoff" else "; ".join(row.blockers)) or None


def _never(row: object, index: int, width: int, now: int) -> Span:
    return NOTHING


COLUMNS = (
    Column("status", _mark, 9, 1, by=_by_word),
    Column("loop", _loop, 14, 0, grows=2, cap=36, by=_by_name),
    Column("phase", _phase, 7, 2, by=_by_phase),
    Column("it", _iteration, 3, 4, right=True, by=_by_iteration, high_first=True),
    Column("risk", _risk, 4, 7, by=_by_risk, high_first=True),
    Column("work", _workers, 4, 8, right=True, by=_by_work, high_first=True),
    Column("gates", _gates, 5, 6, right=True, by=_by_gates),
    Column("budget", _never, BAR_CELLS, 5, paint=_budget, by=spent_of, high_first=True),
    Column("time", _elapsed, 5, 3, right=True, by=_by_time, high_first=True),
    Column("blocked by", _why, 20, 9, grows=6, by=_by_why),
)


def _words(row: LoopRow) -> str:
    texts = (row.loop_id, row.mission_id, row.title, row.handoff_reason, *row.blockers)
    return "\n".join(text for text in texts if text).casefold()


def _budget_length(row: LoopRow, now: int) -> float | None:
    most = row.budget_max.get("max_wall_ms")
    return float(most) if isinstance(most, (int, float)) and not isinstance(most, bool) else None


LOOPS = Fields(
    "loops",
    _words,
    (
        Field(
            "status",
            "choice",
            lambda row, now: row.status,
            {
                **{mark.word: status for status, mark in LOOP_MARKS.items()},
                **{status: status for status in LOOP_MARKS},
            },
        ),
        Field(
            "engine",
            "choice",
            lambda row, now: row.engine or "none",
            {engine: engine for engine in (*ENGINES, "none")},
        ),
        Field("phase", "text", lambda row, now: (row.phase or "", phase_of(row))),
        Field("risk", "choice", lambda row, now: row.risk, {risk: risk for risk in RISKS}),
        Field("id", "text", lambda row, now: row.loop_id, also=("loop",)),
        Field("mission", "text", lambda row, now: row.mission_id),
        Field("error", "text", lambda row, now: (row.handoff_reason or "", *row.blockers), also=("why",)),
        Field(
            "file",
            "text",
            lambda row, now: (*row.files, *row.directories, *row.changed_files),
            also=("scope",),
        ),
        Field("gate", "text", lambda row, now: row.gates_selected, also=("gates",)),
        Field(
            "age", "duration", lambda row, now: now - row.updated_at if row.updated_at is not None else None
        ),
        Field("took", "duration", lambda row, now: row.elapsed(now), also=("time",)),
        Field("attempt", "number", lambda row, now: row.iteration, also=("iteration", "it")),
        Field("workers", "number", lambda row, now: len(row.active_workers), also=("work",)),
        Field("budget", "share", spent_of, length=_budget_length),
        Field("after", "text", lambda row, now: row.dependencies),
    ),
)


class LoopTable(ListTable[Entry]):
    """One row a loop, a heading for each mission where there are several."""

    FIELDS = LOOPS

    class Highlighted(Message):
        """Another loop is selected, or the selected one changed."""

        def __init__(self, row: LoopRow | None) -> None:
            super().__init__()
            self.row = row

    class Opened(Message):
        """The selected loop is to be looked at."""

        def __init__(self, row: LoopRow) -> None:
            super().__init__()
            self.row = row

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.missions: tuple[MissionView, ...] = ()
        self._layout: tuple[int, Layout] | None = None

    def show(self, missions: tuple[MissionView, ...]) -> None:
        """Show the loops of ``missions``; the selected loop stays selected."""
        if missions != self.missions or not self._source:
            self.missions = missions
            several = len(missions) > 1
            entries: list[Entry] = []
            for mission in reversed(missions):
                if several or not mission.loops:
                    entries.append(Heading(mission))
                entries += mission.loops
            self.take(tuple(entries))
        self.repaint()

    @property
    def loop(self) -> LoopRow | None:
        """The selected loop."""
        return self.selected if isinstance(self.selected, LoopRow) else None

    @property
    def mission(self) -> MissionView | None:
        """The mission of the selected loop, else the newest."""
        row = self.loop
        for mission in self.missions:
            if row is not None and mission.mission_id == row.mission_id and row in mission.loops:
                return mission
        return self.missions[-1] if self.missions else None

    def _arranged(self, rows: tuple[Entry, ...]) -> tuple[Entry, ...]:
        """Filter and order apply within each mission; a heading stays where a loop of it does."""
        if not self.filter and self.order is None:
            self._places = None
            return rows
        shown: list[int] = []
        group: list[int] = []
        heading: int | None = None
        for place, row in enumerate((*rows, None)):
            if isinstance(row, LoopRow):
                group.append(place)
                continue
            inside, places = self._arranger.arrange(tuple(rows[one] for one in group), now_of(self))
            if heading is not None and (inside or not (group or self.filter)):
                shown.append(heading)
            shown += [group[one] for one in (places if places is not None else range(len(group)))]
            group, heading = [], place
        self._places = shown
        return tuple(rows[place] for place in shown)

    def selectable(self, row: Entry) -> bool:
        return isinstance(row, LoopRow)

    def layout_of(self, width: int) -> Layout:
        if self._layout is None or self._layout[0] != width:
            self._layout = (width, Layout.fitting(chosen(COLUMNS, titles_of(self, "loops")), width))
        return self._layout[1]

    def line_of(self, row: Entry, index: int, width: int) -> Line:
        if isinstance(row, Heading):
            return _heading(row.mission, width)
        return self.layout_of(width).line(row, index, now_of(self))

    def hint(self) -> str:
        return f"No missions. {key_of('plan')} plans one."

    def announce(self, row: Entry | None) -> None:
        self.post_message(self.Highlighted(row if isinstance(row, LoopRow) else None))

    def opened(self, row: Entry) -> None:
        if isinstance(row, LoopRow):
            self.post_message(self.Opened(row))


def _heading(mission: MissionView, width: int) -> Line:
    mark = mission_mark(mission)
    spans: list[Span] = [
        (cut_middle(clean(mission.mission_id), max(8, width // 3)), "strong"),
        ("  ", "text"),
        (f"{mark.glyph} {clean(mark.word)}", mark.look),
        (f"  {mission.done} of {len(mission.loops)} done", "muted"),
    ]
    left = width - width_of(spans) - 2
    text = clean(mission.problem or mission.request)
    if left > 8:
        spans += [("  ", "text"), (text if cell_len(text) <= left else cut_end(text, left), "muted")]
    return crop(spans, width)


def title_of(mission: MissionView | None) -> str:
    """What stands in the border of the loops' panel."""
    if mission is None:
        return "Loops"
    return (
        f"Loops · {cut_middle(clean(mission.mission_id), 30)} · {mission.done} of {len(mission.loops)} done"
    )
