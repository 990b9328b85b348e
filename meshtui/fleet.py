"""The engine behind a console that shows several run directories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from meshtui.bridge import Engine, LaneEngine
from meshtui.core.clock import Clock, SystemClock
from meshtui.core.fleet import FleetView
from meshtui.core.fleet_watch import FleetFollower, RunDirs
from meshtui.core.run_dir import RunDir


class Follower(Protocol):
    """Follows all run directories from a thread of its own."""

    away: bool

    def start(self) -> None: ...
    def stop(self, timeout: float = 2.0) -> bool: ...
    def nudge(self, run_dir: Path | None = None) -> None: ...


class Fleet(Protocol):
    """Everything that a console of several run directories uses."""

    def follow(self, on_view: Callable[[FleetView], None]) -> Follower: ...
    def engine(self, run_dir: RunDir) -> Engine: ...


class RunDirFleet:
    """The real one. ``runner_options`` are those of :class:`meshtui.bridge.LaneEngine`."""

    def __init__(
        self,
        places: Sequence[Path],
        *,
        runner_options: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._places = tuple(places)
        self._runner_options = dict(runner_options or {})
        self._clock = clock if clock is not None else SystemClock()

    def follow(self, on_view: Callable[[FleetView], None]) -> FleetFollower:
        return FleetFollower(RunDirs(self._places), on_view=on_view, clock=self._clock)

    def engine(self, run_dir: RunDir) -> LaneEngine:
        return LaneEngine(run_dir, runner_options=self._runner_options, clock=self._clock)
