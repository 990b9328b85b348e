"""A journal opened to be played: any moment of it is there within a tenth of a second.

The whole journal is read once and folded once; now and then the state is kept, so that going to a moment
folds only what came after the state kept before it.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from meshtui.core import storage
from meshtui.core.clock import from_iso
from meshtui.core.errors import InvalidInput, NotFound
from meshtui.core.history import History, HistoryFold
from meshtui.core.journal import MAX_LINE
from meshtui.core.lane.rows import read_object
from meshtui.core.models.mesh_names import is_mesh_id
from meshtui.core.replay.fold import LaneFold
from meshtui.core.replay.view import lane_view
from meshtui.core.run_dir import RunDir
from meshtui.core.view import JOURNAL_ROWS, Event, LaneView

KEEP_EVERY = 4096
"""Events between two kept states: folding so many takes a few hundredths of a second."""
KEEP_ROWS = 1_000_000
"""Rows in all kept states together, which share the rows themselves: with more, every second state goes."""
DEPTH_POINTS = 120
RECENT = 4
"""States near the moment shown that are kept beside the others, for stepping back."""


@dataclass(frozen=True, slots=True)
class Damage:
    """What of a journal could not be used."""

    lines: int = 0
    missing: int = 0
    """Events whose numbers are skipped."""

    @property
    def text(self) -> str | None:
        """In words, ``None`` where all is well."""
        said = []
        if self.lines:
            said.append(f"{self.lines} damaged line{'s were' if self.lines > 1 else ' was'} passed over")
        if self.missing:
            said.append(f"{self.missing} event{'s are' if self.missing > 1 else ' is'} missing")
        return "the journal has gaps: " + ", ".join(said) if said else None


def journal_of(path: Path) -> tuple[Path, Path]:
    """The run directory and the journal that ``path`` names: either of the two."""
    if path.is_dir():
        journal = path / "events.jsonl"
        if not journal.is_file():
            raise NotFound(f"{path} has no journal (events.jsonl): there is nothing to replay")
        return path, journal
    if not path.is_file():
        raise NotFound(f"{path} is neither a run directory nor a journal; name one with --replay")
    return path.absolute().parent, path


def read_events(lines: Iterable[bytes]) -> tuple[list[Event], int]:
    """The events in ``lines`` in their order, and how many lines hold none."""
    events: list[Event] = []
    damaged = 0
    for line in lines:
        event = _event(line)
        if event is not None:
            events.append(event)
        elif line.strip():
            damaged += 1
    return events, damaged


def _event(line: bytes) -> Event | None:
    """Like :func:`meshtui.core.journal.parse_line`, but quick: a hundred thousand are read at a time."""
    if not line.startswith(b"{") or len(line) > MAX_LINE:
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    seq, at, name, data = value.get("seq"), from_iso(value.get("at")), value.get("event"), value.get("data")
    if type(seq) is not int or at is None or not isinstance(name, str):
        return None
    subject, pid = value.get("subject"), value.get("pid")
    return Event(
        seq,
        at,
        name,
        subject if isinstance(subject, str) else str(subject or ""),
        data if isinstance(data, dict) else {},
        pid if type(pid) is int else None,
    )


def _lines_of(path: Path) -> Iterator[bytes]:
    with os.fdopen(storage.open_plain(path), "rb") as file:
        for line in file:
            yield line.rstrip(b"\r\n")


class Recording:
    """The events of one journal and the states between them; ``index`` counts events, 0 is before the first."""

    def __init__(self, run_dir: Path, events: Iterable[Event], damage: Damage | None = None) -> None:
        self.run_dir = run_dir
        self.events: tuple[Event, ...] = tuple(events)
        skipped = sum(max(0, after.seq - before.seq - 1) for before, after in pairwise(self.events))
        lines = damage.lines if damage is not None else 0
        self.damage = Damage(lines, skipped)
        self.times: list[int] = []
        """When each event counts as happened: a clock that was set back does not turn the order round."""
        self._kept: list[tuple[int, LaneFold]] = []
        self._recent: OrderedDict[int, LaneFold] = OrderedDict()
        self._depths: list[tuple[int, int, int]] = []
        """Index, time and depth of each event that tells a depth."""
        self._plans: dict[str, dict[str, Any]] = {}
        self._fold()

    @classmethod
    def open(cls, path: Path) -> Recording:
        """Read the journal of a run directory, or a journal; raises :class:`NotFound` or :class:`InvalidInput`."""
        run_dir, journal = journal_of(path)
        events, damaged = read_events(_lines_of(journal))
        if not events:
            raise InvalidInput(f"{journal} holds no event: there is nothing to replay")
        return cls(run_dir, events, Damage(lines=damaged))

    def _fold(self) -> None:
        state, history, last = LaneFold(), HistoryFold(), 0
        every, rows = KEEP_EVERY, 0
        self._kept.append((0, state.copy()))
        for index, event in enumerate(self.events):
            last = max(last, event.at)
            self.times.append(last)
            state.apply(event)
            history.apply(event, last)
            depth = event.data.get("depth")
            if type(depth) is int:
                self._depths.append((index + 1, last, depth))
            if index + 1 - self._kept[-1][0] < every:
                continue
            self._kept.append((index + 1, state.copy()))
            rows += len(state.rows)
            if rows > KEEP_ROWS:
                self._kept, every = self._kept[::2], every * 2
                rows = sum(len(one.rows) for _, one in self._kept)
        self.history = history.view()
        for name in state.missions:
            self._plan(name)

    def _plan(self, mission_id: str) -> None:
        """What a plan's file tells that no event changes."""
        if is_mesh_id(mission_id):
            place = RunDir(self.run_dir).missions / mission_id / "loops" / "loop-plan.json"
            self._plans[mission_id] = read_object(place) or {}

    # -- places -------------------------------------------------------------------------------------

    @property
    def start(self) -> int:
        """The time of the first event, ms since the epoch."""
        return self.times[0] if self.times else 0

    @property
    def end(self) -> int:
        """The time of the last one."""
        return self.times[-1] if self.times else 0

    def __len__(self) -> int:
        return len(self.events)

    def index_at(self, at: int) -> int:
        """How many events had happened at the time ``at``."""
        return bisect_right(self.times, at)

    def time_of(self, index: int) -> int:
        """When the last of the first ``index`` events happened."""
        return self.times[min(index, len(self.times)) - 1] if index > 0 and self.times else self.start

    def next_after(self, index: int) -> Event | None:
        """The event that comes after the first ``index``."""
        return self.events[index] if 0 <= index < len(self.events) else None

    # -- states -------------------------------------------------------------------------------------

    def state(self, index: int) -> LaneFold:
        """The state after the first ``index`` events; the caller must not change it."""
        index = max(0, min(index, len(self.events)))
        known = self._recent.get(index)
        if known is not None:
            self._recent.move_to_end(index)
            return known
        at, base = self._before(index)
        state = base.copy()
        for event in self.events[at:index]:
            state.apply(event)
        self._recent[index] = state
        while len(self._recent) > RECENT:
            self._recent.popitem(last=False)
        return state

    def _before(self, index: int) -> tuple[int, LaneFold]:
        found = self._kept[bisect_right(self._kept, index, key=lambda item: item[0]) - 1]
        for at, state in self._recent.items():
            if found[0] < at <= index:
                found = (at, state)
        return found

    def view(self, index: int) -> LaneView:
        """What there was to see after the first ``index`` events."""
        index = max(0, min(index, len(self.events)))
        until = bisect_right(self._depths, index, key=lambda item: item[0])
        return lane_view(
            self.state(index),
            self.run_dir,
            journal=self.events[max(0, index - JOURNAL_ROWS) : index],
            depths=[(at, depth) for _, at, depth in self._depths[max(0, until - DEPTH_POINTS) : until]],
            plans=self._plans,
            warnings=(self.damage.text,) if self.damage.text else (),
        )

    def history_at(self, index: int) -> History:
        """What bars and figures there were after the first ``index`` events."""
        return self.history.at(index)
