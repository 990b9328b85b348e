"""Folds a lane's events into what stood where: one pure step an event, whatever is missing or damaged.

Events are written after the files they tell of, each by the process that changed them, so those of one
record may stand in another order than they happened. A record's file name tells: a new place at the end
of the queue has a higher sequence, and an event about an earlier run of a record moves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from meshtui.core.clock import from_iso
from meshtui.core.engines.base import Usage
from meshtui.core.lane.doing import doing_in
from meshtui.core.models.names import RECOVERED, RETRY, RecordName, at_head, folded, safe_id, safe_of
from meshtui.core.replay.missions import MissionFold
from meshtui.core.view import Event, Held, Row, Section

Place = Section | Literal["stopped"]
"""Where a record stands; ``stopped`` are finished stops, which no list shows."""
PLACES: tuple[Place, ...] = (
    "pending",
    "active",
    "done",
    "failed",
    "stalled",
    "withdrawn",
    "quarantined",
    "stopped",
)
WAITS = ("pending", "active")
MOST_SURVIVORS = 20


@dataclass(slots=True)
class RunnerState:
    """What the journal told of the lane's runner."""

    alive: bool = False
    pid: int | None = None
    since: int | None = None
    ended: str | None = None
    """The state its end left: ``stopped``, ``parked``, ``waiting``, ``failed``, ``handed over``."""
    engine: str | None = None
    idle_seconds: float | None = None
    caps: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class LaneFold:
    """A lane and its missions after some events; ``apply`` changes it, ``copy`` keeps it."""

    rows: dict[str, Row] = field(default_factory=dict)
    """By folded safe id; what is quarantined by its file name."""
    places: dict[Place, dict[str, None]] = field(default_factory=lambda: {place: {} for place in PLACES})
    """The keys of ``rows`` in each place, in the order they came there."""
    parked: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What was told of each parked phase: cause, attempts and evidence."""
    stall_counts: dict[str, int] = field(default_factory=dict)
    runner: RunnerState = field(default_factory=RunnerState)
    used: Usage = field(default_factory=Usage)
    budget: tuple[str, float, float] | None = None
    """Cap, used and most, as a warning told them."""
    paused: bool = False
    held: Held | None = None
    lane_id: str | None = None
    survivors: dict[str, tuple[int, str]] = field(default_factory=dict)
    missions: dict[str, MissionFold] = field(default_factory=dict)
    seen: bool = False
    """Whether anything was told of a lane."""
    at: int | None = None

    def copy(self) -> LaneFold:
        """An independent state; rows are frozen and shared."""
        return LaneFold(
            rows=dict(self.rows),
            places={place: dict(keys) for place, keys in self.places.items()},
            parked=dict(self.parked),
            stall_counts=dict(self.stall_counts),
            runner=replace(self.runner),
            used=self.used,
            budget=self.budget,
            paused=self.paused,
            held=self.held,
            lane_id=self.lane_id,
            survivors=dict(self.survivors),
            missions={name: mission.copy() for name, mission in self.missions.items()},
            seen=self.seen,
            at=self.at,
        )

    def apply(self, event: Event) -> None:
        """Take one more event; what is not known changes nothing."""
        self.at = event.at
        step = _STEPS.get(event.event)
        if step is not None:
            self.seen = True
            step(self, event)
            return
        mission = event.data.get("mission_id")
        if event.event.startswith("mission_"):
            mission = event.subject
        elif event.event == "handoff_answered":
            mission = event.subject.partition("/")[0]
        if not isinstance(mission, str) or not mission:
            return
        if event.event == "mission_forgotten":
            self.missions.pop(mission, None)
            return
        if mission not in self.missions:
            self.missions[mission] = MissionFold(mission)
        self.missions[mission].apply(event)

    # -- moving -------------------------------------------------------------------------------------

    def _put(self, key: str, place: Place, row: Row) -> None:
        before = self.rows.get(key)
        if before is not None:
            for keys in self.places.values():
                if keys.pop(key, 0) is None:
                    break
        self.places[place][key] = None
        self.rows[key] = replace(row, doing=()) if row.doing and place != "active" else row

    def _drop(self, key: str) -> None:
        if self.rows.pop(key, None) is not None:
            for keys in self.places.values():
                keys.pop(key, None)

    def place_of(self, key: str) -> Place | None:
        """Where ``key`` stands."""
        return next((place for place, keys in self.places.items() if key in keys), None)

    def _row(self, event: Event) -> tuple[str, Row, Place | None]:
        """The row an event is about, made from what it tells if it is the first to name it."""
        key = folded(safe_id(event.subject))
        row = self.rows.get(key)
        if row is None:
            return key, _new_row(event), None
        return key, row, self.place_of(key)

    # -- the queue ----------------------------------------------------------------------------------

    def enqueued(self, event: Event) -> None:
        key, row, place = self._row(event)
        told = _told(row, event)
        if place is not None and not event.data.get("recovered"):
            # Its runner was quicker than who enqueued it: it is only known better now.
            queued = _queued_at(event) if row.queued_at is None else row.queued_at
            self.rows[key] = replace(told, key=row.key, queued_at=queued)
            return
        name = _name(event) or (row.key if place in WAITS else _made_up(event))
        self._put(key, "pending", replace(told, key=name, section="pending"))

    def came_back(self, event: Event) -> None:
        """Restored or requeued: at the end of the queue under a new name."""
        gone = event.data.get("quarantined")
        if isinstance(gone, str):
            self._drop(_quarantine_key(gone))
        key, row, place = self._row(event)
        name = _name(event)
        if event.data.get("in_place") and name is not None and place in (None, "pending", "withdrawn"):
            self._put(key, "pending", replace(_told(row, event), key=name, section="pending"))
            return
        if place is not None and name is not None and _sequence(row.key) >= _sequence(name) > 0:
            self.rows[key] = replace(_told(row, event), key=row.key)
            return
        fresh = event.event == "requeued"
        row = _told(row, event)
        self.parked.pop(key, None)
        self._put(
            key,
            "pending",
            replace(
                row,
                key=name or _made_up(event),
                section="pending",
                attempt=1 if fresh else row.attempt,
                stalls=0 if fresh else row.stalls,
                started_at=None,
                finished_at=None,
                deadline_at=None,
                status=None,
                handoff_status=None,
                error=None,
                call_id=None,
            ),
        )

    def to_head(self, event: Event) -> None:
        key, row, place = self._row(event)
        name = _name(event)
        if place in (None, "pending"):
            self._put(
                key, "pending", replace(row, key=name or at_head(row.key, RECOVERED), section="pending")
            )

    def edited(self, event: Event) -> None:
        """Another envelope under the same id, as if it were queued anew."""
        key, row, place = self._row(event)
        name = _name(event) or (row.key if place == "pending" else _made_up(event))
        self.parked.pop(key, None)
        fresh = Row(key=name, section="pending", envelope_id=row.envelope_id, queued_at=row.queued_at)
        self._put(key, "pending", _told(fresh, event))

    def withdrawn(self, event: Event) -> None:
        key, row, place = self._row(event)
        if place is not None and _is_older(event, row):
            return
        name = _name(event) or row.key
        self._put(key, "withdrawn", replace(_told(row, event), key=name, section="withdrawn"))

    # -- work ---------------------------------------------------------------------------------------

    def started(self, event: Event) -> None:
        key, row, place = self._row(event)
        if place is not None and _is_older(event, row):
            return
        row = _told(row, event)
        name = _name(event) or row.key
        deadline = from_iso(event.data.get("deadline_at"))
        same = place == "active" and event.event == "phase_adopted"
        self.held = None
        self._put(
            key,
            "active",
            replace(
                row,
                key=name,
                section="active",
                started_at=row.started_at if same and row.started_at else event.at,
                finished_at=None,
                deadline_at=deadline if deadline is not None else row.deadline_at if same else None,
                attempt=_int(event.data.get("attempt")) or row.attempt,
                status=None,
                error=None,
            ),
        )

    def finished(self, event: Event) -> None:
        key, row, place = self._row(event)
        usage = Usage.from_json(event.data.get("usage"))
        if usage is not None:
            self.used = self.used.plus(usage)
        if place is not None and _is_older(event, row):
            return
        row = _told(row, event)
        section: Place = {"phase_done": "done", "phase_failed": "failed"}.get(event.event, "stopped")  # type: ignore[assignment]
        shown: Section = "failed" if section == "failed" else "done"
        status = {"done": "done", "failed": "failed", "stopped": "stopped"}[section]
        self.parked.pop(key, None)
        self._put(
            key,
            section,
            replace(
                row,
                key=_name(event) or row.key,
                section=shown,
                kind="stop" if section == "stopped" else row.kind,
                started_at=from_iso(event.data.get("started_at")) or row.started_at,
                finished_at=event.at,
                deadline_at=None,
                status=status,
                handoff_status=_text(event.data.get("handoff_status")),
                error=_text(event.data.get("error")),
            ),
        )

    def put_back(self, event: Event) -> None:
        """Stalled once, aborted, recovered or held: before what waits, or in its old place."""
        key, row, place = self._row(event)
        if place not in (None, *WAITS) or (place is not None and _is_older(event, row)):
            return
        row = _told(row, event)
        name = _name(event)
        if name is None:
            prefix = {"phase_stalled": RETRY, "phase_recovered": RECOVERED}.get(event.event)
            name = at_head(row.key, prefix) if prefix is not None else row.key  # type: ignore[arg-type]
        attempt = _int(event.data.get("attempt")) or row.attempt
        stalls = row.stalls
        if event.event == "phase_stalled":
            stalls, attempt = attempt, attempt + 1
            self.stall_counts[row.envelope_id] = stalls
        self._put(
            key,
            "pending",
            replace(
                row,
                key=name,
                section="pending",
                started_at=None,
                deadline_at=None,
                call_id=None,
                attempt=attempt,
                stalls=stalls,
            ),
        )
        if event.event == "phase_held":
            data, since = event.data, event.at
            if self.held is not None and self.held.envelope_id == row.envelope_id:
                since = self.held.since or since
            self.held = Held(
                row.envelope_id,
                _text(data.get("engine")) or "",
                from_iso(data.get("until")),
                since,
                known=data.get("reset_known") is True,
                text=_text(data.get("error")) or "",
            )

    def was_parked(self, event: Event) -> None:
        key, row, place = self._row(event)
        if place is not None and _is_older(event, row):
            return
        row = _told(row, event)
        attempts = _int(event.data.get("attempts"))
        if attempts:
            self.stall_counts[row.envelope_id] = attempts
        self.parked[key] = dict(event.data)
        self._put(
            key,
            "stalled",
            replace(
                row,
                key=_name(event) or row.key,
                section="stalled",
                finished_at=event.at,
                deadline_at=None,
                status="stalled",
                stalls=attempts if attempts is not None else row.attempt,
                error=_text(event.data.get("cause")),
            ),
        )

    def answered(self, event: Event) -> None:
        key, row, place = self._row(event)
        self.parked.pop(key, None)
        self.stall_counts.pop(row.envelope_id, None)
        if place not in (None, "stalled"):
            return
        row = _told(row, event)
        if event.data.get("answer") == "drop":
            self._put(
                key,
                "failed",
                replace(
                    row,
                    section="failed",
                    finished_at=event.at,
                    status="failed",
                    error="dropped by operator",
                ),
            )
            return
        self._put(
            key,
            "pending",
            replace(
                row,
                key=_name(event) or at_head(row.key, RETRY),
                section="pending",
                started_at=None,
                finished_at=None,
                deadline_at=None,
                call_id=None,
                attempt=1,
                stalls=0,
                status=None,
                error=None,
            ),
        )

    def activity(self, event: Event) -> None:
        key = folded(safe_id(event.subject))
        row = self.rows.get(key)
        if row is not None and key in self.places["active"]:
            self.rows[key] = replace(row, doing=(doing_in(event),))

    def extended(self, event: Event) -> None:
        key, row, place = self._row(event)
        deadline, seconds = from_iso(event.data.get("deadline_at")), event.data.get("seconds")
        if place != "active":
            return
        budget = row.budget_seconds
        if budget is not None and isinstance(seconds, (int, float)):
            budget += float(seconds)
        self.rows[key] = replace(row, deadline_at=deadline or row.deadline_at, budget_seconds=budget)

    def quarantined(self, event: Event) -> None:
        name = event.subject
        key = folded(safe_of(name))
        row = self.rows.get(key)
        if row is not None and (row.key == name or self.place_of(key) in WAITS):
            self._drop(key)
        reason = event.data.get("reason")
        self._put(
            _quarantine_key(name),
            "quarantined",
            Row(
                key=name,
                section="quarantined",
                envelope_id=safe_of(name),
                kind="unknown",
                finished_at=event.at,
                error=_text(reason),
            ),
        )

    def quarantine_dropped(self, event: Event) -> None:
        self._drop(_quarantine_key(event.subject))

    # -- the lane -----------------------------------------------------------------------------------

    def runner_started(self, event: Event) -> None:
        data = event.data
        caps = data.get("caps")
        self.lane_id = event.subject or self.lane_id
        self.runner = RunnerState(
            alive=True,
            pid=event.pid,
            since=event.at,
            engine=_text(data.get("engine")),
            idle_seconds=_number(data.get("idle_seconds")),
            caps={
                key: value
                for key in ("cost_usd", "tokens")
                if isinstance(caps, dict) and (value := _number(caps.get(key))) is not None
            },
        )
        self.budget = None
        used = Usage.from_json(data.get("used"))
        if used is not None:
            self.used = used
        if data.get("paused") is True:
            self.paused = True

    def runner_ended(self, event: Event) -> None:
        how = {"runner_failed": "failed", "runner_handed_over": "handed over"}.get(event.event)
        if event.pid is not None and self.runner.pid is not None and event.pid != self.runner.pid:
            # The end of an earlier one that another has replaced.
            return
        self.runner.alive = False
        self.runner.ended = how or _text(event.data.get("state")) or "waiting"

    def pause(self, event: Event) -> None:
        self.lane_id = event.subject or self.lane_id
        self.paused = event.event == "lane_paused"

    def told_budget(self, event: Event) -> None:
        data = event.data
        cap, used, most = _text(data.get("cap")), _number(data.get("used")), _number(data.get("max"))
        if cap and used is not None and most:
            self.budget = (cap, used, most)

    def told_survivors(self, event: Event) -> None:
        names = event.data.get("survivors")
        if isinstance(names, list) and names:
            self.survivors.pop(event.subject, None)
            self.survivors[event.subject] = (event.at, ", ".join(str(name) for name in names))
            while len(self.survivors) > MOST_SURVIVORS:
                del self.survivors[next(iter(self.survivors))]

    def known(self, event: Event) -> None:
        """Tells of a lane, moves nothing."""


Step = Callable[[LaneFold, Event], None]


def _of_lane(step: Step) -> Step:
    """``step`` for events that missions write under the same name, which are not about the lane."""

    def either(fold: LaneFold, event: Event) -> None:
        mission = event.data.get("mission_id")
        if not isinstance(mission, str):
            step(fold, event)
            return
        if mission in fold.missions:
            fold.missions[mission].apply(event)

    return either


_STEPS: dict[str, Step] = {
    "enqueued": LaneFold.enqueued,
    "restored": LaneFold.came_back,
    "requeued": LaneFold.came_back,
    "moved_to_head": LaneFold.to_head,
    "edited": LaneFold.edited,
    "withdrawn": LaneFold.withdrawn,
    "interrupted": LaneFold.known,
    "phase_started": LaneFold.started,
    "phase_adopted": LaneFold.started,
    "phase_done": LaneFold.finished,
    "phase_failed": LaneFold.finished,
    "lane_stopped": LaneFold.finished,
    "phase_stalled": LaneFold.put_back,
    "phase_aborted": LaneFold.put_back,
    "phase_recovered": LaneFold.put_back,
    "phase_held": LaneFold.put_back,
    "phase_parked": LaneFold.was_parked,
    "phase_answered": LaneFold.answered,
    "deadline_extended": LaneFold.extended,
    "phase_activity": LaneFold.activity,
    "record_quarantined": LaneFold.quarantined,
    "quarantine_dropped": LaneFold.quarantine_dropped,
    "runner_started": LaneFold.runner_started,
    "runner_ended": LaneFold.runner_ended,
    "runner_failed": LaneFold.runner_ended,
    "runner_handed_over": LaneFold.runner_ended,
    "lane_paused": LaneFold.pause,
    "lane_continued": LaneFold.pause,
    "budget_warning": _of_lane(LaneFold.told_budget),
    "budget_reached": LaneFold.told_budget,
    "call_survivors": _of_lane(LaneFold.told_survivors),
    "call_left_running": _of_lane(LaneFold.known),
    "history_found": LaneFold.known,
}


def _name(event: Event) -> str | None:
    return _text(event.data.get("record"))


def _sequence(name: str) -> int:
    parts = RecordName.parse(name)
    return parts.sequence if parts is not None else 0


def _is_older(event: Event, row: Row) -> bool:
    """Whether an event is about an earlier run of a record than the row."""
    name = _name(event)
    # What was put at the head stands before all numbers: of that nothing can be told.
    return name is not None and 0 < _sequence(name) < _sequence(row.key)


def _made_up(event: Event) -> str:
    """A name for a record whose own was not told: before all that were, in the order of the events."""
    return f"{0:016d}-{event.at:013d}-00000000-0000-4000-8000-{event.seq % 10**12:012d}-{safe_id(event.subject)}.json"


def _quarantine_key(name: str) -> str:
    return f"quarantine/{name}"


def _queued_at(event: Event) -> int:
    parts = RecordName.parse(_name(event) or "")
    return parts.ms if parts is not None and parts.ms else event.at


def _new_row(event: Event) -> Row:
    key = _name(event) or _made_up(event)
    queued = _queued_at(event) if event.event in ("enqueued", "restored", "requeued") else None
    return Row(key=key, section="pending", envelope_id=event.subject, queued_at=queued)


def _told(row: Row, event: Event) -> Row:
    """``row`` with what ``event`` tells of its envelope."""
    data = event.data
    more: dict[str, Any] = {}
    if row.envelope_id != event.subject and safe_id(event.subject) != event.subject:
        # It was known by its safe id only.
        more["envelope_id"] = event.subject
    for key in ("label", "story_id", "engine"):
        value = _text(data.get(key))
        if value is not None and value != getattr(row, key):
            more[key] = value
    phase = _text(data.get("phase"))
    if (
        phase is not None
        and phase != row.phase
        and phase not in (row.label, row.envelope_id, data.get("label"))
    ):
        more["phase"] = phase
    if data.get("kind") == "stop":
        more["kind"] = "stop"
    if data.get("mode") == "mesh":
        more["mode"] = "mesh"
    seconds = _number(data.get("deadline_seconds")) or _number(data.get("budget_seconds"))
    if seconds is not None:
        more["budget_seconds"] = seconds
    call = _text(data.get("call"))
    if call is not None:
        more["call_id"] = call
    return replace(row, **more) if more else row


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
