"""Follows many run directories from one thread: a new view of all of them a few times a second at most.

It looks instead of listening. Notifications would cost the system one watch for each of the thousands of
folders below, tell more than is drawn, and have to be set up anew whenever a directory comes or goes; a look
at a directory that did not change is a dozen ``stat`` calls. Directories that changed are read in turn, in
slices, and never with more than a part of a processor, whatever their number and however fast they change.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from meshtui.core.clock import Clock, SystemClock
from meshtui.core.fleet import FleetView, LaneSummary, is_run_dir, names_of, run_dirs_in
from meshtui.core.run_dir import RunDir
from meshtui.core.summary import SummaryReader

BEAT_SECONDS = 0.25
"""How often it is looked for changes, and views are made at most."""
AWAY_SECONDS = 1.0
"""The same while another screen covers the fleet."""
LANE_SECONDS = 0.5
"""How often a lane that changes all the time is read."""
RESCAN_SECONDS = 2.0
"""How often a lane is read that does not seem to change: a runner that dies writes nothing."""
FIND_SECONDS = 1.0
"""How often it is looked for new run directories."""
SLICE_SECONDS = 0.03
"""How long lanes are read before anybody else has a turn."""
REST = 3.0
"""How many times as long as it worked the thread rests at least."""

_log = logging.getLogger(__name__)


class RunDirs:
    """The run directories an operator means: those named, and those in folders that were named."""

    def __init__(self, places: Sequence[Path]) -> None:
        self.places = tuple(dict.fromkeys(places))
        self._folders = {place for place in self.places if not _is_one(place)}

    def find(self) -> tuple[Path, ...]:
        """Those that there are now, in the order in which they were named."""
        found: dict[Path, None] = {}
        for place in self.places:
            for path in run_dirs_in(place) if place in self._folders else [place]:
                found.setdefault(path)
        return tuple(found)


def _is_one(path: Path) -> bool:
    """Whether ``path`` is to be looked at itself: a lane, a mission, a repository with missions."""
    return is_run_dir(path) or any(place.is_dir() for place in RunDir(path).mission_places)


class _Lane:
    """One lane that is followed, and when it is looked at again."""

    def __init__(self, reader: SummaryReader) -> None:
        self.reader = reader
        self.summary = LaneSummary(reader.run_dir.root, reader.name, loaded=False)
        self.read_at = 0.0
        self.nudged = False

    def due(self, now: float) -> bool:
        """Whether it has to be read now."""
        since = now - self.read_at
        if self.nudged or not self.summary.loaded or since >= RESCAN_SECONDS:
            return True
        return since >= LANE_SECONDS and (self.reader.unread or self.reader.peek())

    def read(self) -> bool:
        """Read it; whether its summary changed. What goes wrong becomes its problem."""
        self.nudged = False
        try:
            if not self.reader.run_dir.root.is_dir():
                summary = LaneSummary(
                    self.reader.run_dir.root, self.reader.name, exists=False, problem="the folder is gone"
                )
            else:
                summary = self.reader.refresh()
        except Exception as error:  # noqa: BLE001 - shown in its row; the others go on
            _log.debug("cannot read %s", self.reader.run_dir.root, exc_info=True)
            summary = LaneSummary(
                self.reader.run_dir.root, self.reader.name, exists=False, problem=f"cannot be read: {error}"
            )
        self.read_at = time.monotonic()
        changed = summary != self.summary
        if changed:
            self.summary = summary
        return changed


class FleetFollower:
    """One thread that turns changes of run directories into views of all of them.

    ``on_view`` is called from that thread and must return soon.
    """

    def __init__(
        self, run_dirs: RunDirs, *, on_view: Callable[[FleetView], None], clock: Clock | None = None
    ) -> None:
        self._run_dirs = run_dirs
        self._on_view = on_view
        self._clock = clock or SystemClock()
        self._lanes: dict[Path, _Lane] = {}
        self._stop = threading.Event()
        self._woken = threading.Event()
        self._nudged: set[Path] = set()
        self._thread: threading.Thread | None = None
        self._find_at = 0.0
        self._turn = 0
        self.away = False
        """Whether another screen covers the fleet, so that a slower look is enough."""

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Start following; the first view comes at once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="meshtui-fleet", daemon=True)
            self._thread.start()

    def stop(self, timeout: float = 2.0) -> bool:
        """Stop following; whether the thread ended within ``timeout`` seconds."""
        self._stop.set()
        self._woken.set()
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def nudge(self, run_dir: Path | None = None) -> None:
        """Look at a lane soon, or at all of them."""
        self._nudged |= {run_dir} if run_dir is not None else set(self._lanes)
        self._woken.set()

    def read_all(self) -> FleetView:
        """Everything read at once, for who has no thread to wait for."""
        self._find()
        for lane in self._lanes.values():
            lane.read()
            while lane.reader.unread:
                lane.read()
        return self._view()

    # The thread

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            if self._beat(began):
                self._on_view(self._view())
            worked = time.monotonic() - began
            pause = AWAY_SECONDS if self.away else BEAT_SECONDS
            if not all(lane.summary.loaded for lane in self._lanes.values()):
                pause = 0.0
            self._stop.wait(min(max(worked * REST / 2, 0.001), 0.5))
            self._woken.wait(max(0.0, pause - (time.monotonic() - began)))
            self._woken.clear()

    def _beat(self, now: float) -> bool:
        """Look at what is due, as long as a slice lasts; whether anything changed."""
        changed = False
        if now >= self._find_at:
            changed = self._find()
            cost = time.monotonic() - now
            self._find_at = now + max(FIND_SECONDS, cost * 20)
        while self._nudged:
            lane = self._lanes.get(self._nudged.pop())
            if lane is not None:
                lane.nudged = True
        lanes = list(self._lanes.values())
        # Everybody's turn comes: the next slice begins where this one ends.
        for step in range(len(lanes)):
            lane = lanes[(self._turn + step) % len(lanes)]
            if lane.due(now):
                changed = lane.read() or changed
                if time.monotonic() - now >= SLICE_SECONDS:
                    self._turn = (self._turn + step + 1) % len(lanes)
                    break
        return changed

    def _find(self) -> bool:
        """Take in the directories that came and let go of those that went; whether there were any."""
        paths = self._run_dirs.find()
        if paths == tuple(self._lanes) and self._lanes:
            return False
        names = names_of(paths)
        lanes: dict[Path, _Lane] = {}
        for path in paths:
            known = self._lanes.get(path)
            if known is not None and known.reader.name == names[path]:
                lanes[path] = known
            else:
                lanes[path] = _Lane(SummaryReader(RunDir(path), name=names[path], clock=self._clock))
        first = not self._find_at
        changed = lanes.keys() != self._lanes.keys() or first
        self._lanes = lanes
        return changed

    def _view(self) -> FleetView:
        lanes = [lane.summary for lane in self._lanes.values()]
        return FleetView.of(lanes, places=self._run_dirs.places, complete=all(lane.loaded for lane in lanes))
