"""What an operation on a lane answers; the fields are the JSON of the command line."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Receipt:
    """An answer; ``as_json`` is what ``--json`` prints."""

    def as_json(self) -> dict[str, Any]:
        """The fields as plain values; empty ``warnings`` and what does not apply are left out."""
        value = asdict(self)
        return {key: item for key, item in value.items() if item is not None and (key != "warnings" or item)}


@dataclass(frozen=True, slots=True)
class EnqueueReceipt(Receipt):
    """One envelope is durable in the queue."""

    lane_id: str
    envelope_id: str
    position: int
    """1-based among pending."""
    queue_depth: int
    queued_at: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InterruptReceipt(Receipt):
    """All that nobody had taken is withdrawn."""

    withdrawn: tuple[str, ...]
    already_picked_up: tuple[str, ...]
    quarantined: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RestoreReceipt(Receipt):
    """Withdrawn records are pending again, in their old order."""

    restored: tuple[str, ...]
    left: tuple[str, ...] = ()
    """Stops that stay withdrawn: one is enough."""


@dataclass(frozen=True, slots=True)
class WithdrawReceipt(Receipt):
    """One pending record is withdrawn."""

    envelope_id: str
    queue_depth: int


@dataclass(frozen=True, slots=True)
class RequeueReceipt(Receipt):
    """A finished or withdrawn record is pending again, at the end."""

    envelope_id: str
    position: int
    queue_depth: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one of several was left as it is."""

    envelope_id: str
    error: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class SeveralReceipt(Receipt):
    """What was done with several, one by one; what could not be done is named with the reason."""

    done: tuple[str, ...]
    refused: tuple[Refusal, ...] = ()
    queue_depth: int | None = None


@dataclass(frozen=True, slots=True)
class HeadReceipt(Receipt):
    """Pending records are the first ones now."""

    moved: tuple[str, ...]
    queue_depth: int
    names: dict[str, str] = field(default_factory=dict)
    """The record's name that each had before."""


@dataclass(frozen=True, slots=True)
class EditReceipt(Receipt):
    """An envelope is changed and waits."""

    envelope_id: str
    position: int
    queue_depth: int
    before: dict[str, Any]
    """The envelope as it was."""
    folder: str
    """Where its record was: ``pending``, ``claimed`` or ``withdrawn``."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerReceipt(Receipt):
    """A parked phase is settled."""

    envelope_id: str
    action: Literal["retry", "drop"]


@dataclass(frozen=True, slots=True)
class KillReceipt(Receipt):
    """What was ended, what would not end, what had not started."""

    ended: tuple[str, ...]
    survivors: tuple[str, ...]
    not_started: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExtendReceipt(Receipt):
    """A running phase got more time."""

    envelope_id: str
    deadline_at: str


@dataclass(frozen=True, slots=True)
class StopReceipt(Receipt):
    """The runner ended, or will once the queue is drained."""

    stopped: bool
    """``False`` when there was no runner and nothing active, or when a stop was enqueued."""
    envelope_id: str | None = None
    """The phase that was put back."""
    survivors: tuple[str, ...] = ()
    drain: EnqueueReceipt | None = None


@dataclass(frozen=True, slots=True)
class PauseReceipt(Receipt):
    """Whether the lane claims nothing more."""

    paused: bool


@dataclass(frozen=True, slots=True)
class QuarantineReceipt(Receipt):
    """What became of a quarantined entry."""

    name: str
    envelope_id: str | None = None
