"""What an operation's receipt says, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from meshtui.core.prune import Prunable
    from meshtui.core.vcs.merge import Discard

from meshtui.commands import key_of
from meshtui.core.clock import from_iso
from meshtui.text import moment

Said = tuple[str, Literal["information", "warning", "error"]]

WITH = " · $ "
"""Between what happened and the command line that does the same."""
_NAMED = 4
MOST_NAMED = 8


def names(ids: Sequence[str]) -> str:
    """A few of ``ids`` by name, the rest as a number."""
    if not ids:
        return "none"
    shown = ", ".join(ids[:_NAMED])
    return shown if len(ids) <= _NAMED else f"{shown} and {len(ids) - _NAMED:,} more"


def count(number: int, noun: str, nouns: str | None = None) -> str:
    """``3 envelopes``; ``nouns`` where more of them do not just end in an s."""
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def enqueued(receipt: Any) -> Said:
    """Where it stands."""
    text = f"{receipt.envelope_id} is number {receipt.position:,} of {receipt.queue_depth:,} pending"
    if receipt.warnings:
        return f"{text}; {'; '.join(receipt.warnings)}", "warning"
    return text, "information"


def interrupted(receipt: Any) -> Said:
    """What was taken out, and what was too late."""
    text = f"Withdrawn: {count(len(receipt.withdrawn), 'envelope')}"
    if receipt.withdrawn:
        text += f" ({names(receipt.withdrawn)})"
    if receipt.already_picked_up:
        text += f"; already running: {names(receipt.already_picked_up)}"
    if receipt.quarantined:
        return f"{text}; unreadable, set aside: {names(receipt.quarantined)}", "warning"
    return text, "information"


def restored(receipt: Any) -> Said:
    """What came back, and what did not."""
    text = f"Restored: {count(len(receipt.restored), 'envelope')}"
    if receipt.left:
        return f"{text}; left withdrawn: {names(receipt.left)}", "warning"
    return text, "information"


def withdrawn(receipt: Any) -> Said:
    """One taken out."""
    return (
        f"{receipt.envelope_id} is withdrawn, {receipt.queue_depth:,} pending; {key_of('restore')} restores it",
        "information",
    )


def requeued(receipt: Any) -> Said:
    """One queued again."""
    return f"{receipt.envelope_id} is queued again as number {receipt.position:,}", "information"


def several(receipt: Any, verb: str) -> Said:
    """What was done with several, and what was not, with the first reason."""
    text = f"{verb}: {count(len(receipt.done), 'envelope')}"
    if receipt.done:
        text += f" ({names(receipt.done)})"
    if receipt.refused:
        first = receipt.refused[0]
        return f"{text}; not {names([one.envelope_id for one in receipt.refused])}: {first.error}", "warning"
    return text, "information"


def headed(receipt: Any) -> Said:
    """What runs next."""
    verb = "is" if len(receipt.moved) == 1 else "are"
    return f"{names(receipt.moved)} {verb} at the head of {receipt.queue_depth:,} pending", "information"


def edited(receipt: Any) -> Said:
    """An envelope was changed."""
    text = f"{receipt.envelope_id} is changed, number {receipt.position:,} of {receipt.queue_depth:,} pending"
    if receipt.warnings:
        return f"{text}; {'; '.join(receipt.warnings)}", "warning"
    return text, "information"


def answered(receipt: Any) -> Said:
    """What was parked goes on, or is given up."""
    if receipt.action == "drop":
        return f"{receipt.envelope_id} is dropped; it counts as failed", "information"
    return (
        f"{receipt.envelope_id} is back at the head of the queue; {key_of('runner')} starts the runner if none runs",
        "information",
    )


def killed(receipt: Any) -> Said:
    """A kill that proves itself."""
    text = f"Ended: {names(receipt.ended)}"
    if receipt.not_started:
        text += f"; not started: {names(receipt.not_started)}"
    if receipt.survivors:
        return f"{text}; SURVIVED: {names([str(one) for one in receipt.survivors])}", "error"
    return f"{text}; no survivors", "information"


def extended(receipt: Any) -> Said:
    """A deadline was moved."""
    at = from_iso(receipt.deadline_at)
    return f"{receipt.envelope_id} may run until {moment(at) if at else receipt.deadline_at}", "information"


def sent(receipt: Any) -> Said:
    """A message waits for its session."""
    text = f"Message {receipt.envelope_id} is number {receipt.position:,} of {receipt.queue_depth:,} pending"
    if receipt.warnings:
        return f"{text}; {'; '.join(receipt.warnings)}", "warning"
    return text, "information"


def stopped(receipt: Any) -> Said:
    """The runner was ended."""
    if receipt.drain is not None:
        return "A stop is queued: the runner ends after everything before it", "information"
    if not receipt.stopped:
        return "No runner was alive", "warning"
    text = "The runner ended"
    if receipt.envelope_id:
        text += f"; {receipt.envelope_id} is back in the queue"
    if receipt.survivors:
        return f"{text}; SURVIVED: {names([str(one) for one in receipt.survivors])}", "error"
    return text, "information"


def paused(receipt: Any) -> Said:
    """Claiming stands still or goes on."""
    if receipt.paused:
        return "Paused: the active phase ends, nothing more is claimed; P continues", "information"
    return "The lane continues", "information"


def repaired(receipt: Any) -> Said:
    """A quarantined file is back, or gone."""
    if receipt.envelope_id:
        return f"{receipt.envelope_id} is repaired and back in the queue", "information"
    return f"{receipt.name} is removed from quarantine", "information"


def outcome_text(outcome: Any) -> Said:
    """How a runner ended."""
    text = f"The runner ended: {outcome.state}, {count(outcome.completed, 'envelope')} finished"
    if outcome.parked:
        return f"{text}; something is parked and needs an answer", "warning"
    return text, "warning" if outcome.bad else "information"


def mission_outcome(outcome: Any) -> Said:
    """How a mission's runner ended."""
    name = outcome.mission_id
    if outcome.state == "done":
        return f"Mission {name} is done: {key_of('land')} lands it", "information"
    if outcome.state == "handoff":
        return f"Mission {name} waits for a person", "warning"
    if outcome.state == "bad":
        why = "; ".join(str(item) for item in (outcome.graph_proof.get("blockers") or [])[:2])
        return f"Mission {name} ended badly: {why or 'see its proof'}", "warning"
    return f"Mission {name} is {outcome.state}; {key_of('resume_mission')} goes on with it", "information"


def loops_killed(receipt: Any) -> Said:
    """A kill of loops that proves itself."""
    parts = [f"Ended: {names(receipt.ended)}"]
    if receipt.not_started:
        parts.append(f"not started: {names(receipt.not_started)}")
    if receipt.survivors:
        return f"{'; '.join(parts)}; SURVIVED: {names([str(one) for one in receipt.survivors])}", "error"
    return f"{'; '.join(parts)}; no survivors", "information"


def landed(receipt: Any) -> Said:
    """Where the target branch is now."""
    if receipt.before == receipt.after:
        return f"{receipt.target} has it already, at {receipt.after[:12]}", "information"
    return (
        f"Landed: {receipt.target} is at {receipt.after[:12]} now, it was at {receipt.before[:12]}",
        "information",
    )


def verdict_given(receipt: Any) -> Said:
    """A person decided."""
    name = f"{receipt['mission_id']}/{receipt['loop_id']}"
    if receipt["verdict"] == "approve":
        return f"{name} is approved; {key_of('resume_mission')} goes on with the mission", "information"
    return f"{name} is rejected; it counts as blocked", "information"


def _named(lines: Sequence[str]) -> str:
    lines = [" ".join(line.splitlines()) for line in lines]
    more = len(lines) - MOST_NAMED
    return "\n".join(
        [f"  · {line}" for line in lines[:MOST_NAMED]] + ([f"  · and {more} more"] if more > 0 else [])
    )


def would_discard(mission_id: str, found: Discard) -> tuple[str, str | None]:
    """What discarding a mission asks, and what is lost by it; ``None`` if there is nothing to remove."""
    if not found.branches and not found.worktrees:
        return f"Mission {mission_id} has no branches and working copies any more", None
    parts = []
    if found.lost:
        parts.append(f"Lost for good, nothing else holds it:\n{_named(found.lost)}")
    else:
        parts.append("No work is lost: other branches hold all of it.")
    goes = [f"branch {name}" for name in found.branches] + [
        f"working copy {place}" for place in found.worktrees
    ]
    parts.append(f"Removed:\n{_named(goes)}")
    parts.append("The mission's files in the run directory stay.")
    return f"Discard mission {mission_id}?", "\n".join(parts)


def discarded(found: Discard) -> Said:
    """A mission's branches and working copies are gone."""
    gone = f"{count(len(found.branches), 'branch', 'branches')} and {count(len(found.worktrees), 'working copy', 'working copies')}"
    return f"Discarded: {gone} removed", "information"


def would_prune(found: Prunable) -> tuple[str, str | None]:
    """What pruning asks, and what goes by it; ``None`` if nothing may go."""
    free = [item for item in found.worktrees if item.refused is None]
    stay = [f"working copy {item.path}: {item.refused}" for item in found.worktrees if item.refused]
    if not found.calls and not free:
        stays = f"; {count(len(stay), 'working copy stays', 'working copies stay')}" if stay else ""
        return f"There is nothing to prune: every call is alive or needed{stays}", None
    parts = []
    if found.calls:
        size = sum(item.size for item in found.calls)
        parts.append(
            f"The prompts and logs of {count(len(found.calls), 'finished call')} are lost ({size:,} bytes); results and proofs do not need them."
        )
    if free:
        parts.append(
            "Removed:\n" + _named([f"working copy {item.path} ({item.size:,} bytes)" for item in free])
        )
    if stay:
        parts.append(f"Stays:\n{_named(stay)}")
    return "Prune this run directory?", "\n".join(parts)


def pruned(receipt: tuple[int, int]) -> Said:
    """Calls and working copies are gone."""
    calls, places = receipt
    return (
        f"Pruned: {count(calls, 'call')} and {count(places, 'working copy', 'working copies')} removed",
        "information",
    )
