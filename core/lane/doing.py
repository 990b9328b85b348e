"""What agents do now, from the journal: of each phase and worker at work the newest sign, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from meshtui.core.engines.base import Usage
from meshtui.core.strict_json import clean_text
from meshtui.core.view import Doing, Event, LaneView

if TYPE_CHECKING:
    from meshtui.core.mesh.view import MissionView

ACTIVITIES = ("phase_activity", "worker_activity")


class Activities:
    """Keeps the newest sign of each call that is at work, however much else the journal says."""

    def __init__(self) -> None:
        self._known: dict[str, Doing] = {}
        self._seq = 0

    def refresh(self, view: LaneView) -> LaneView:
        """``view`` with what its active phases and loops do."""
        calls = {row.call_id for row in view.active}
        calls.update(call for one in view.missions for loop in one.loops for _, call in loop.calls)
        self._take(view.journal)
        self._known = {call: doing for call, doing in self._known.items() if call in calls}
        if not self._known:
            return view
        active = tuple(
            replace(row, doing=(self._known[row.call_id],)) if row.call_id in self._known else row
            for row in view.active
        )
        missions = tuple(_with(mission, self._known) for mission in view.missions)
        return replace(view, active=active, missions=missions)

    def _take(self, events: Sequence[Event]) -> None:
        newest = events[-1].seq if events else 0
        if newest < self._seq:
            # Another journal stands there now.
            self._seq, self._known = 0, {}
        for event in reversed(events):
            if event.seq <= self._seq:
                break
            call = event.data.get("call")
            known = self._known.get(call) if isinstance(call, str) else None
            if event.event in ACTIVITIES and isinstance(call, str) and (known is None or known.at < event.at):
                self._known[call] = doing_in(event)
        self._seq = newest


def doing_in(event: Event) -> Doing:
    """One sign of activity."""
    data = event.data
    usage = Usage.from_json(data.get("usage"))
    return Doing(
        at=event.at,
        kind=str(data.get("kind") or ""),
        text=clean_text(str(data.get("text") or "")),
        worker=str(data["worker"]) if data.get("worker") else None,
        tokens=usage.tokens if usage is not None else None,
        estimated=bool(usage is not None and usage.estimated_tokens),
        cost_usd=usage.cost_usd if usage is not None else None,
    )


def _with(mission: MissionView, known: Mapping[str, Doing]) -> MissionView:
    loops = []
    for loop in mission.loops:
        found = tuple(known[call] for _, call in loop.calls if call in known)
        loops.append(replace(loop, doing=found) if found else loop)
    return replace(mission, loops=tuple(loops))
