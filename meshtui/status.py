"""How a state is shown: a glyph, a word and a look, never a colour alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from meshtui.core.view import Attention, LaneView, Row

if TYPE_CHECKING:
    from meshtui.core.fleet import LaneSummary
    from meshtui.core.mesh.view import LoopRow, MissionView


class Mark(NamedTuple):
    """One status."""

    glyph: str
    word: str
    look: str


MARKED = Mark("▌", "marked", "key")
"""Of a record that was chosen to act on, in front of its line."""

LANE_STATES: dict[str, Mark] = {
    "running": Mark("●", "running", "run"),
    "waiting": Mark("○", "waiting", "idle"),
    "parked": Mark("◆", "parked", "warn"),
    "paused": Mark("‖", "paused", "warn"),
    "stopped": Mark("■", "stopped", "idle"),
    "failed": Mark("✖", "failed", "bad"),
    "dead": Mark("✖", "dead", "bad"),
}

SECTION_MARKS: dict[str, Mark] = {
    "pending": Mark("◌", "pending", "idle"),
    "active": Mark("●", "active", "run"),
    "done": Mark("✔", "done", "ok"),
    "failed": Mark("✖", "failed", "bad"),
    "stalled": Mark("◆", "stalled", "warn"),
    "withdrawn": Mark("↩", "withdrawn", "idle"),
    "quarantined": Mark("▲", "quarantined", "warn"),
}

ATTENTION_MARKS: dict[str, Mark] = {
    "parked": Mark("◆", "parked", "warn"),
    "failed": Mark("✖", "failed", "bad"),
    "blocked": Mark("✖", "blocked", "bad"),
    "handoff": Mark("⇥", "handoff", "warn"),
    "quarantined": Mark("▲", "unreadable", "warn"),
    "dead": Mark("✖", "dead", "bad"),
    "limit": Mark("◷", "limit", "warn"),
    "budget": Mark("◷", "budget", "warn"),
    "survivor": Mark("▲", "survivor", "bad"),
}

GATE_MARKS: dict[str, Mark] = {
    "pass": Mark("✔", "pass", "ok"),
    "fail": Mark("✖", "fail", "bad"),
    "skip": Mark("–", "skipped", "idle"),
}

LOOP_MARKS: dict[str, Mark] = {
    "planned": Mark("◌", "planned", "idle"),
    "queued": Mark("○", "waiting", "idle"),
    "running": Mark("●", "running", "run"),
    "completed": Mark("✔", "done", "ok"),
    "blocked": Mark("✖", "blocked", "bad"),
    "failed": Mark("✖", "failed", "bad"),
    "handoff": Mark("⇥", "handoff", "warn"),
    "cancelled": Mark("⊘", "killed", "idle"),
}

MISSION_MARKS: dict[str, Mark] = {
    "planned": Mark("◌", "planned", "idle"),
    "running": Mark("●", "running", "run"),
    "done": Mark("✔", "done", "ok"),
    "handoff": Mark("⇥", "handoff", "warn"),
    "bad": Mark("✖", "ended badly", "bad"),
    "dead": Mark("✖", "dead", "bad"),
}

VERDICT_MARKS: dict[str, Mark] = {
    "verified": Mark("✔", "verified", "ok"),
    "mismatch": Mark("✖", "MISMATCH", "bad"),
    "claimed": Mark("▲", "claimed, not verified", "bad"),
}

RISK_LOOKS = {"low": "muted", "medium": "text", "high": "warn", "critical": "bad"}
PHASE_WORDS = {"integration": "merge", "finalizer": "final"}

HANDOFF_MARKS: dict[str, Mark] = {
    "passed": Mark("✔", "passed", "ok"),
    "failed": Mark("✖", "failed", "bad"),
    "blocked": Mark("✖", "blocked", "bad"),
}


BAR_MARKS: dict[str, Mark] = {
    "": Mark("●", "running", "run"),
    "done": Mark("✔", "done", "ok"),
    "failed": Mark("✖", "failed", "bad"),
    "blocked": Mark("✖", "blocked", "bad"),
    "bad": Mark("✖", "ended badly", "bad"),
    "stalled": Mark("◆", "stalled", "warn"),
    "parked": Mark("◆", "parked", "warn"),
    "aborted": Mark("↩", "put back", "idle"),
    "recovered": Mark("↩", "recovered", "idle"),
    "limit": Mark("◷", "limit", "warn"),
    "lost": Mark("✖", "lost", "bad"),
    "gone": Mark("✖", "gone", "bad"),
    "stopped": Mark("■", "stopped", "idle"),
    "waiting": Mark("■", "ended", "idle"),
    "handoff": Mark("⇥", "handoff", "warn"),
    "handed over": Mark("⇥", "handed over", "idle"),
}


def bar_mark(outcome: str) -> Mark:
    """How a bar of the timeline ended."""
    return BAR_MARKS.get(outcome, Mark("■", outcome, "idle"))


def phase_word(phase: str) -> str:
    """A loop's phase in a word."""
    return PHASE_WORDS.get(phase, phase)


def lane_mark(view: LaneView | None) -> Mark:
    """The lane's state."""
    if view is None:
        return Mark("○", "reading", "idle")
    if not view.exists:
        if view.missions:
            return _most_urgent(view.missions)
        return Mark("○", "no lane yet", "idle")
    return LANE_STATES.get(view.state, Mark("?", view.state, "warn"))


def summary_mark(lane: LaneSummary) -> Mark:
    """The state of one lane of a fleet."""
    if lane.problem is not None:
        return Mark("✖", "broken", "bad")
    if not lane.loaded:
        return Mark("○", "reading", "idle")
    if not lane.exists:
        return _most_urgent(lane.missions) if lane.missions else Mark("○", "empty", "idle")
    mark = LANE_STATES.get(lane.state, Mark("?", lane.state, "warn"))
    if mark.look == "idle" and any(mission.runner.alive for mission in lane.missions):
        # Its queue waits, and a mission of it works.
        return MISSION_MARKS["running"]
    return mark


def _most_urgent(missions: tuple[MissionView, ...]) -> Mark:
    """The state of missions together: what runs, else what needs somebody, else the newest one's."""
    for state in ("running", "dead", "handoff"):
        if any(one.state == state for one in missions):
            return MISSION_MARKS[state]
    return mission_mark(missions[-1])


def row_mark(row: Row) -> Mark:
    """A record's state; a done phase whose handoff says otherwise is not shown as done."""
    if row.section == "done" and row.handoff_status in ("failed", "blocked"):
        return HANDOFF_MARKS[row.handoff_status]
    if row.section == "done" and row.status == "stopped":
        return Mark("■", "stopped", "idle")
    if row.section == "pending" and row.kind == "stop":
        return Mark("■", "stop", "idle")
    return SECTION_MARKS[row.section]


def attention_mark(item: Attention) -> Mark:
    """What kind of attention something needs."""
    return ATTENTION_MARKS.get(item.kind, Mark("▲", item.kind, "warn"))


def loop_mark(row: LoopRow) -> Mark:
    """A loop's state."""
    return LOOP_MARKS.get(row.status, Mark("?", row.status, "warn"))


def mission_mark(view: MissionView) -> Mark:
    """A mission's state."""
    if view.problem is not None:
        return Mark("▲", "unreadable", "warn")
    return MISSION_MARKS.get(view.state, Mark("?", view.state, "warn"))


def gate_mark(value: str) -> Mark:
    """A gate's verdict in a handoff."""
    return GATE_MARKS.get(value, Mark("?", value, "warn"))


def handoff_mark(value: str) -> Mark:
    """What a handoff says of its phase."""
    return HANDOFF_MARKS.get(value, Mark("?", value, "warn"))


EVENT_LOOKS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("failed", "error", "lost", "killed", "quarantined", "refused", "blocked"), "bad"),
    (("stalled", "parked", "aborted", "paused", "survivor", "interrupt", "withdrawn"), "warn"),
    (("done", "completed", "passed", "restored", "answered"), "ok"),
    (("started", "claimed", "adopted", "resumed"), "run"),
)


def event_look(event: str) -> str:
    """The look of a journal line, by the words in the event's name."""
    for words, look in EVENT_LOOKS:
        if any(word in event for word in words):
            return look
    return "idle"
