"""Reads everything there is to see of a run directory: its lane, and its missions where it has any."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from meshtui.core.clock import Clock, SystemClock
from meshtui.core.lane.doing import Activities
from meshtui.core.lane.reader import LaneReader
from meshtui.core.run_dir import RunDir
from meshtui.core.view import Detail, LaneView

if TYPE_CHECKING:
    from meshtui.core.mesh.view import MissionsReader


class RunDirReader:
    """A lane's reader that adds the missions; ``refresh`` belongs to one thread, ``detail`` to any."""

    def __init__(self, run_dir: RunDir, *, clock: Clock | None = None) -> None:
        self._run_dir = run_dir
        self._clock = clock or SystemClock()
        self._lane = LaneReader(run_dir, clock=self._clock)
        self._missions: MissionsReader | None = None
        self._activities = Activities()

    def refresh(self, *, budget: int = 500) -> LaneView:
        """The directory as it is now; see :meth:`LaneReader.refresh`."""
        view = self._lane.refresh(budget=budget)
        if self._missions is None:
            # Where there are no missions their room is not even imported.
            if not any(place.is_dir() for place in self._run_dir.mission_places):
                return self._activities.refresh(view)
            from meshtui.core.mesh.view import MissionsReader

            self._missions = MissionsReader(self._run_dir.root, clock=self._clock)
        from meshtui.core.mesh.view import mission_attention

        missions = self._missions.refresh()
        items = [item for one in reversed(missions) for item in mission_attention(one, view.run_dir)]
        view = replace(view, missions=missions, attention=(*view.attention, *items))
        return self._activities.refresh(view)

    def detail(self, key: str) -> Detail | None:
        """Everything about one record of the queue."""
        return self._lane.detail(key)
