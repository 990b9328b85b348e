"""What the threads tell the console: frozen values, posted, never shared state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from textual.message import Message

from meshtui.core.view import CallView, Detail, LaneView

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from meshtui.core.fleet import FleetView
    from meshtui.core.history import History
    from meshtui.core.lane.signs import Signs
    from meshtui.core.mesh.detail import LoopDetail
    from meshtui.core.mesh.verify import Check
    from meshtui.core.models.mesh import Plan
    from meshtui.undo import Step

FollowMode = Literal["watching", "polling"]


class ViewChanged(Message):
    """The run directory changed; a newer view replaces one that was not yet drawn."""

    def __init__(self, view: LaneView) -> None:
        super().__init__()
        self.view = view

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, ViewChanged)


class FleetChanged(Message):
    """Something changed in one of several run directories; a newer view replaces one not yet drawn."""

    def __init__(self, view: FleetView) -> None:
        super().__init__()
        self.view = view

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, FleetChanged)


class ModeChanged(Message):
    """How the run directory is followed, and why not better."""

    def __init__(self, mode: FollowMode, reason: str | None = None) -> None:
        super().__init__()
        self.mode: FollowMode = mode
        self.reason = reason


class Told(Message):
    """A receipt, a warning or an error, in words."""

    def __init__(
        self, text: str, severity: Literal["information", "warning", "error"] = "information"
    ) -> None:
        super().__init__()
        self.text = text
        self.severity: Literal["information", "warning", "error"] = severity


class Did(Message):
    """This console did something that ``u`` takes back, or says why it cannot; by run directory."""

    def __init__(self, steps: Mapping[Path, Step]) -> None:
        super().__init__()
        self.steps = dict(steps)


class EnvelopeRead(Message):
    """An envelope that is to be edited was read."""

    def __init__(
        self,
        envelope_id: str,
        folder: str,
        envelope: dict[str, Any],
        *,
        written: dict[str, Any] | None = None,
        why: str = "",
    ) -> None:
        super().__init__()
        self.envelope_id = envelope_id
        self.folder = folder
        """Where its record stands: ``pending``, ``claimed`` …; empty if it is not there any more."""
        self.envelope = envelope
        self.written = written
        """What an operator had made of it before that was refused."""
        self.why = why
        """Why it was."""


class Refused(Message):
    """What was written in a form could not be done: the form opens again with it."""

    def __init__(self, error: Exception, again: Callable[[str], None]) -> None:
        super().__init__()
        self.error = error
        self.again = again
        """Opens the form, with the reason."""


class RunnerChanged(Message):
    """The runner in this console started or ended."""

    def __init__(self, alive: bool) -> None:
        super().__init__()
        self.alive = alive


class DetailRead(Message):
    """What was found of the record that was selected."""

    def __init__(self, key: str, detail: Detail | None, problem: str | None = None) -> None:
        super().__init__()
        self.key = key
        self.detail = detail
        self.problem = problem


class OutputRead(Message):
    """How the call behind a record stands, whenever it begins to write, to another file, or ends."""

    def __init__(self, key: str, call: CallView | None, *, live: bool) -> None:
        super().__init__()
        self.key = key
        self.call = call
        """Where its output is; ``None`` if there is none."""
        self.live = live


class LoopRead(Message):
    """A part of the details of a loop was read."""

    def __init__(
        self,
        key: str,
        part: str,
        value: LoopDetail | None,
        *,
        problem: str | None = None,
    ) -> None:
        super().__init__()
        self.key = key
        self.part = part
        self.value = value
        self.problem = problem


class Verified(Message):
    """A proof was verified; ``None`` if that could not be done."""

    def __init__(self, key: str, checks: tuple[Check, ...] | None) -> None:
        super().__init__()
        self.key = key
        self.checks = checks


class Planned(Message):
    """A plan was made or edited; nothing runs yet."""

    def __init__(self, plan: Plan, blockers: tuple[str, ...], *, edited: bool = False) -> None:
        super().__init__()
        self.plan = plan
        self.blockers = blockers
        self.edited = edited


class WouldLose(Message):
    """What an operation would remove was found out; it waits for a yes."""

    def __init__(
        self,
        question: str,
        loss: str | None,
        yes: str,
        then: Callable[[], None],
        *,
        command: str | None = None,
    ) -> None:
        super().__init__()
        self.question = question
        self.command = command
        """The command line that does the same."""
        self.loss = loss
        """What is lost, in words; ``None``: there is nothing to remove, and the question says so."""
        self.yes = yes
        self.then = then
        """Does it, in a thread of the bridge."""


class MissionsRunning(Message):
    """The missions that run in this console changed."""

    def __init__(self, ids: tuple[str, ...]) -> None:
        super().__init__()
        self.ids = ids


class HistoryRead(Message):
    """The bars and figures of the journal were read."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self.history = history

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, HistoryRead)


class SignsRead(Message):
    """The signs of life of the running phase were looked for; ``None`` where nothing runs."""

    def __init__(self, signs: Signs | None) -> None:
        super().__init__()
        self.signs = signs

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, SignsRead)
