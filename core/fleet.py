"""What there is to see of many run directories at once: frozen summaries, what needs a person first.

A summary is small whatever the lane holds: counts, what runs, what needs somebody. Times are ms since the
epoch; ages are computed where they are shown.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from meshtui.core.models.names import is_record_name
from meshtui.core.run_dir import RunDir
from meshtui.core.view import HISTORY_ROWS, Attention, AttentionKind, LaneState, RunnerView, Section

if TYPE_CHECKING:
    from meshtui.core.mesh.view import MissionView

URGENCY: tuple[AttentionKind, ...] = (
    "dead",
    "survivor",
    "handoff",
    "parked",
    "blocked",
    "failed",
    "quarantined",
    "budget",
    "limit",
)
"""What needs somebody, the most urgent first: what stands still, what ended badly, what only warns."""
_RANK = {kind: rank for rank, kind in enumerate(URGENCY)}
_STANDING = frozenset({"dead", "survivor", "handoff", "parked"})

DEFAULT_NAME = ".meshtui"
MOST_LANES = 1000
"""Run directories shown at most, so that a wrong folder cannot fill the memory."""


@dataclass(frozen=True, slots=True)
class Active:
    """What a lane works on now: a phase, or else a loop of a mission."""

    title: str
    started_at: int | None = None
    deadline_at: int | None = None
    more: int = 0
    """How many others run beside it."""
    engine: str | None = None
    """The engine that a phase names."""


@dataclass(frozen=True, slots=True)
class LaneSummary:
    """One run directory at one moment."""

    run_dir: Path
    name: str
    """What to call it; no two of a fleet have the same."""
    loaded: bool = True
    """``False`` until it was read for the first time."""
    exists: bool = True
    """Whether it has a lane (``loop/``); it may have missions all the same."""
    state: LaneState = "waiting"
    runner: RunnerView = field(default_factory=RunnerView)
    pending: int = 0
    depths: tuple[tuple[int, int], ...] = ()
    """``(time, pending)``, oldest first, for a sparkline."""
    active: Active | None = None
    stalls: int = 0
    """How often phases of the lane ran into their deadline, as its status says."""
    cost_today: float | None = None
    """What engines said they cost since midnight UTC, in US dollars; ``None`` where none said it."""
    missions: tuple[MissionView, ...] = ()
    attention: tuple[Attention, ...] = ()
    problem: str | None = None
    """Why it cannot be read."""

    @property
    def key(self) -> str:
        """Unique in a fleet."""
        return str(self.run_dir)

    @property
    def loops(self) -> int:
        """How many loops its missions have."""
        return sum(len(mission.loops) for mission in self.missions)

    @property
    def loops_done(self) -> int:
        """How many of them are complete."""
        return sum(mission.done for mission in self.missions)

    @property
    def running(self) -> bool:
        """Whether a runner of the lane or of one of its missions works here."""
        return self.state == "running" or any(mission.runner.alive for mission in self.missions)


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that needs somebody, and where."""

    lane: str
    run_dir: Path
    item: Attention

    @property
    def key(self) -> str:
        """The same for the same thing, whatever its text says by now."""
        return "\0".join((str(self.run_dir), self.item.kind, self.item.subject, self.item.key or ""))


@dataclass(frozen=True, slots=True)
class FleetView:
    """All lanes at one moment, the most urgent first."""

    lanes: tuple[LaneSummary, ...] = ()
    needs: tuple[Need, ...] = ()
    complete: bool = True
    """``False`` until every lane was read once."""
    places: tuple[Path, ...] = ()
    """What the operator named."""

    @classmethod
    def of(
        cls, lanes: Iterable[LaneSummary], *, places: Sequence[Path] = (), complete: bool = True
    ) -> FleetView:
        """The view of ``lanes``, in order."""
        ordered = tuple(sorted(lanes, key=lane_rank))
        needs = [Need(lane.name, lane.run_dir, item) for lane in ordered for item in lane.attention]
        return cls(ordered, tuple(sorted(needs, key=need_rank)), complete, tuple(places))


def item_rank(item: Attention) -> tuple[int, int]:
    """Where an item stands among others: by kind; what stands still longest first, what ended badly newest first."""
    since = item.since or 0
    return _RANK.get(item.kind, len(_RANK)), since if item.kind in _STANDING else -since


def need_rank(need: Need) -> tuple[int, int, str]:
    """Where it stands in the inbox."""
    return (*item_rank(need.item), need.lane)


def lane_rank(lane: LaneSummary) -> tuple[int, int, int, str]:
    """Where a lane stands in the table: by what needs somebody, then whether it works, then by name."""
    worst = min((_RANK.get(item.kind, len(_RANK)) for item in lane.attention), default=len(_RANK) + 1)
    if lane.problem is not None:
        worst = 0
    idle = 0 if lane.running else 1 if lane.pending else 2
    return worst, -len(lane.attention), idle, lane.name


def names_of(paths: Sequence[Path]) -> dict[Path, str]:
    """A short name for each of ``paths``: its folder's, with as many folders above as tell it from the others.

    A ``.meshtui`` is called as the folder it is for.
    """
    parts = {
        path: (path.parts[:-1] if path.name == DEFAULT_NAME else path.parts) or path.parts for path in paths
    }
    names: dict[Path, str] = {}
    left, depth = list(parts), 1
    while left:
        called = {path: "/".join(parts[path][-depth:]) for path in left}
        often = Counter(called.values())
        names.update(called)
        left = [path for path in left if often[called[path]] > 1 and depth < len(parts[path])]
        depth += 1
    return names


def is_run_dir(path: Path) -> bool:
    """Whether ``path`` is a lane's or a mission's run directory of meshtui, or holds a lane."""
    run_dir = RunDir(path)
    return run_dir.lane.root.is_dir() or run_dir.about.exists()


def run_dirs_in(root: Path) -> list[Path]:
    """The run directories one or two levels below ``root``, by path; hidden folders are passed over."""
    found: list[Path] = []
    for path in _folders(root):
        if is_run_dir(path):
            found.append(path)
            continue
        found += [below for below in _folders(path) if is_run_dir(below)]
        if len(found) >= MOST_LANES:
            break
    return found[:MOST_LANES]


def _folders(root: Path) -> list[Path]:
    try:
        with os.scandir(root) as entries:
            names = sorted(entry.name for entry in entries if entry.name[0] != "." and entry.is_dir())
    except OSError:
        return []
    return [root / name for name in names]


def records_in(root: Path) -> list[tuple[Section, str]]:
    """The file names of a lane's records by where they stand; of finished and withdrawn ones the newest only.

    Nothing is opened: a name holds the envelope's safe id.
    """
    paths = RunDir(root).lane
    folders: tuple[tuple[Section, Path], ...] = (
        ("active", paths.active),
        ("stalled", paths.stalled),
        ("pending", paths.pending),
        ("done", paths.claimed),
        ("withdrawn", paths.withdrawn),
    )
    found: list[tuple[Section, str]] = []
    for section, folder in folders:
        try:
            names = sorted(name for name in os.listdir(folder) if is_record_name(name))
        except OSError:
            continue
        newest = names[-HISTORY_ROWS:] if section in ("done", "withdrawn") else names
        found += [(section, name) for name in newest]
    return found
