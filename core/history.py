"""What happened when, from the journal: bars for a timeline, and figures for charts.

Everything is kept in the order of the events with the number of the event that told it, so that the
history as it was at an earlier moment is a prefix of the whole.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from meshtui.core.engines.base import Usage
from meshtui.core.journal import parse_lines, read_block
from meshtui.core.models.names import folded, safe_id
from meshtui.core.view import Event

BarKind = Literal["run", "hold", "runner", "pause"]
LANE = "lane"
"""The track of the lane itself: its runners and pauses."""
BLOCK = 4 << 20
_FINISHES = {"phase_done": "done", "phase_failed": "failed"}
_BACK = {
    "phase_stalled": "stalled",
    "phase_aborted": "aborted",
    "phase_recovered": "recovered",
    "phase_held": "limit",
    "phase_parked": "parked",
}


@dataclass(frozen=True, slots=True)
class Track:
    """What a row of bars is about."""

    key: str
    subject: str
    """The envelope's id, or the mission's."""
    title: str
    order: int
    queued_at: int | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """Something that lasted: an attempt of a phase, a hold, a runner's life, a pause. Times are ms since the epoch."""

    track: str
    kind: BarKind
    start: int
    opened: int
    end: int | None = None
    closed: int | None = None
    outcome: str = ""
    """How it ended: ``done``, ``failed``, ``stalled``, …; empty while it goes on."""
    text: str = ""
    """What was said of it, such as an error."""
    attempt: int = 1
    engine: str | None = None
    call: str | None = None
    pid: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None

    def length(self, now: int) -> int:
        """How long it took, or takes until ``now``, in ms."""
        return max(0, (self.end if self.end is not None else now) - self.start)


@dataclass(frozen=True, slots=True)
class Finish:
    """One phase that ended, and how."""

    index: int
    at: int
    outcome: Literal["done", "failed"]
    track: str
    took_ms: int | None


@dataclass(frozen=True, slots=True)
class Total:
    """What the lane, or a loop, had used in all at a moment."""

    index: int
    at: int
    tokens: int | None = None
    cost_usd: float | None = None
    wall_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """What a runner was told at its start."""

    index: int
    at: int
    caps: dict[str, float]
    idle_seconds: float | None


@dataclass(frozen=True, slots=True)
class History:
    """The bars and figures up to one moment, oldest first."""

    tracks: dict[str, Track] = field(default_factory=dict)
    bars: tuple[Bar, ...] = ()
    depths: tuple[tuple[int, int, int], ...] = ()
    """``(event, time, pending)`` after each change of the queue."""
    finishes: tuple[Finish, ...] = ()
    totals: tuple[Total, ...] = ()
    loops: dict[str, tuple[Total, ...]] = field(default_factory=dict)
    """By ``mission/loop``."""
    told: tuple[Told, ...] = ()
    signs: tuple[tuple[int, int, str], ...] = ()
    """``(event, time, envelope)`` of each sign of life that was journalled."""
    times: tuple[int, int] | None = None
    """When the first and the last event happened."""

    def at(self, index: int) -> History:
        """The history after the first ``index`` events."""
        bars = self.bars[: bisect_right(self.bars, index, key=lambda bar: bar.opened)]
        again = tuple(
            bar
            if bar.closed is None or bar.closed <= index
            else replace(
                bar, end=None, closed=None, outcome="", text="", tokens=None, cost_usd=None, call=bar.call
            )
            for bar in bars
        )
        return replace(
            self,
            bars=again,
            depths=_until(self.depths, index),
            finishes=self.finishes[: bisect_right(self.finishes, index, key=lambda item: item.index)],
            totals=self.totals[: bisect_right(self.totals, index, key=lambda item: item.index)],
            loops={
                key: items[: bisect_right(items, index, key=lambda item: item.index)]
                for key, items in self.loops.items()
            },
            told=self.told[: bisect_right(self.told, index, key=lambda item: item.index)],
            signs=_until(self.signs, index),
        )

    @property
    def caps(self) -> dict[str, float]:
        """The lane's caps as its newest runner was told them: ``tokens``, ``cost_usd``."""
        return self.told[-1].caps if self.told else {}


def _until(items: tuple[Any, ...], index: int) -> tuple[Any, ...]:
    return items[: bisect_right(items, index, key=lambda item: item[0])]


class HistoryFold:
    """Builds a history event by event."""

    def __init__(self) -> None:
        self._index = 0
        self._tracks: dict[str, Track] = {}
        self._bars: list[Bar] = []
        self._open: dict[tuple[str, str], int] = {}
        """The place of the open bar of a track and kind."""
        self._depths: list[tuple[int, int, int]] = []
        self._finishes: list[Finish] = []
        self._totals: list[Total] = []
        self._loops: dict[str, list[Total]] = {}
        self._told: list[Told] = []
        self._signs: list[tuple[int, int, str]] = []
        self._used = Usage()
        self._times: tuple[int, int] | None = None

    def view(self) -> History:
        """The history so far."""
        return History(
            tracks=dict(self._tracks),
            bars=tuple(self._bars),
            depths=tuple(self._depths),
            finishes=tuple(self._finishes),
            totals=tuple(self._totals),
            loops={key: tuple(items) for key, items in self._loops.items()},
            told=tuple(self._told),
            signs=tuple(self._signs),
            times=self._times,
        )

    def apply(self, event: Event, at: int | None = None) -> None:
        """Take one more event; ``at`` is when it counts as happened."""
        at = event.at if at is None else at
        self._index += 1
        self._times = (self._times[0] if self._times else at, at)
        depth = event.data.get("depth")
        if type(depth) is int:
            self._depths.append((self._index, at, depth))
        name = event.event
        if isinstance(event.data.get("mission_id"), str):
            self._loop(event, at)
        elif name.startswith(("phase_", "enqueued", "requeued", "lane_stopped")):
            self._phase(event, at)
        elif name.startswith(("runner_", "lane_")):
            self._lane(event, at)
        if name in ("mission_started", "mission_ended", "mission_handed_over"):
            self._mission(event, at)

    # -- bars ---------------------------------------------------------------------------------------

    def _begin(self, track: str, kind: BarKind, at: int, **more: Any) -> None:
        self._open[track, kind] = len(self._bars)
        self._bars.append(Bar(track, kind, at, self._index, **more))

    def _end(self, track: str, kind: BarKind, at: int, outcome: str, **more: Any) -> Bar | None:
        place = self._open.pop((track, kind), None)
        if place is None:
            return None
        bar = replace(
            self._bars[place],
            end=max(at, self._bars[place].start),
            closed=self._index,
            outcome=outcome,
            **more,
        )
        self._bars[place] = bar
        return bar

    def _track(self, key: str, event: Event, title: str | None = None) -> None:
        known = self._tracks.get(key)
        data = event.data
        story, phase, label = (_text(data.get(name)) for name in ("story_id", "phase", "label"))
        if title is None:
            title = f"{story}/{phase}" if story and phase else label or phase
        if known is None:
            queued = event.at if event.event == "enqueued" else None
            self._tracks[key] = Track(
                key, event.subject, title or event.subject, len(self._tracks), queued_at=queued
            )
        elif title and title != known.title and known.title == known.subject:
            self._tracks[key] = replace(known, title=title)

    def _phase(self, event: Event, at: int) -> None:
        name, data = event.event, event.data
        key = folded(safe_id(event.subject))
        if name in ("enqueued", "requeued"):
            self._track(key, event)
            return
        if name == "phase_activity":
            self._signs.append((self._index, at, event.subject))
            return
        self._track(key, event)
        if name in ("phase_started", "phase_adopted"):
            self._end(key, "hold", at, "over")
            if name == "phase_adopted" and (key, "run") in self._open:
                return
            self._end(key, "run", at, "lost")
            self._begin(
                key,
                "run",
                at,
                attempt=_int(data.get("attempt")) or 1,
                engine=_text(data.get("engine")),
                call=_text(data.get("call")),
            )
        elif name in _FINISHES:
            self._finished(key, event, at)
        elif name in _BACK:
            said = _text(data.get("cause")) or _text(data.get("error")) or ""
            self._end(key, "run", at, _BACK[name], text=said)
            if name == "phase_held":
                self._end(key, "hold", at, "over")
                self._begin(key, "hold", at, engine=_text(data.get("engine")), text=said)

    def _finished(self, key: str, event: Event, at: int) -> None:
        data = event.data
        outcome: Literal["done", "failed"] = "failed" if event.event == "phase_failed" else "done"
        shown: str = outcome
        if data.get("handoff_status") in ("failed", "blocked"):
            shown = str(data["handoff_status"])
        usage = Usage.from_json(data.get("usage"))
        self._end(key, "hold", at, "over")
        bar = self._end(
            key,
            "run",
            at,
            shown,
            text=_text(data.get("error")) or "",
            tokens=usage.tokens if usage is not None else None,
            cost_usd=usage.cost_usd if usage is not None else None,
        )
        took = bar.length(at) if bar is not None else None
        self._finishes.append(Finish(self._index, at, outcome, key, took))
        if usage is not None:
            self._used = self._used.plus(usage)
            self._total(at)

    def _total(self, at: int) -> None:
        used = self._used
        tokens = used.tokens if (used.input_tokens, used.output_tokens) != (None, None) else None
        self._totals.append(Total(self._index, at, tokens, used.cost_usd))

    def _lane(self, event: Event, at: int) -> None:
        name, data = event.event, event.data
        if LANE not in self._tracks:
            self._tracks[LANE] = Track(LANE, event.subject, "runner", -1)
        if name == "runner_started":
            self._end(LANE, "runner", at, "gone")
            self._begin(LANE, "runner", at, pid=event.pid, engine=_text(data.get("engine")))
            caps = data.get("caps")
            given = caps if isinstance(caps, dict) else {}
            self._told.append(
                Told(
                    self._index,
                    at,
                    {key: n for key in ("cost_usd", "tokens") if (n := _number(given.get(key)))},
                    _number(data.get("idle_seconds")),
                )
            )
            used = Usage.from_json(data.get("used"))
            if used is not None:
                self._used = used
                self._total(at)
        elif name in ("runner_ended", "runner_failed", "runner_handed_over"):
            how = {"runner_failed": "failed", "runner_handed_over": "handed over"}.get(name)
            self._end(
                LANE,
                "runner",
                at,
                how or _text(data.get("state")) or "ended",
                text=_text(data.get("error")) or "",
            )
        elif name == "lane_paused":
            self._end(LANE, "pause", at, "over")
            self._begin(LANE, "pause", at)
        elif name == "lane_continued":
            self._end(LANE, "pause", at, "continued")

    # -- missions -----------------------------------------------------------------------------------

    def _mission(self, event: Event, at: int) -> None:
        key = f"mission/{event.subject}"
        self._track(key, event, "runner")
        if event.event == "mission_started":
            self._end(key, "runner", at, "gone")
            self._begin(key, "runner", at, pid=event.pid)
        else:
            how = "handed over" if event.event == "mission_handed_over" else "ended"
            self._end(key, "runner", at, _text(event.data.get("state")) or how)

    def _loop(self, event: Event, at: int) -> None:
        data = event.data
        key = f"{data['mission_id']}/{event.subject}"
        if event.event == "worker_held":
            self._track(key, event, event.subject)
            self._end(key, "hold", at, "over")
            self._begin(key, "hold", at, text=_text(data.get("error")) or "")
        elif event.event in ("worker_started", "worker_ended") or event.event.startswith("loop_"):
            self._end(key, "hold", at, "over")
        used = data.get("used")
        if isinstance(used, dict):
            total = Total(
                self._index,
                at,
                _int(used.get("tokens")),
                _number(used.get("cost_usd")),
                _int(used.get("wall_ms")),
            )
            self._loops.setdefault(key, []).append(total)


class HistoryReader:
    """Follows a journal from its beginning, reading only what is new; for one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._inode: int | None = None
        self._fold = HistoryFold()
        self._view = History()

    def read(self) -> History:
        """The history as the journal tells it now."""
        try:
            state = self._path.stat()
        except FileNotFoundError:
            return self._view
        if state.st_ino != self._inode or state.st_size < self._offset:
            self._inode, self._offset, self._fold = state.st_ino, 0, HistoryFold()
        changed = False
        while self._offset < state.st_size:
            block = read_block(self._path, self._offset, BLOCK)
            whole = block[: block.rfind(b"\n") + 1]
            if not whole:
                break
            self._offset += len(whole)
            for event in parse_lines(whole):
                self._fold.apply(event)
            changed = True
        if changed:
            self._view = self._fold.view()
        return self._view


def percentile(values: Sequence[int], share: float) -> int:
    """The value that ``share`` of sorted ``values`` do not exceed."""
    return values[min(len(values) - 1, max(0, round(share * (len(values) - 1))))]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
