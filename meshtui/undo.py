"""What this console did, so far as it can be taken back: one step an operation, newest first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meshtui.commands import key_of
from meshtui.core.errors import MeshtuiError, WorkFailed
from meshtui.receipts import names

if TYPE_CHECKING:
    from meshtui.bridge import Operations

MOST = 200
"""How many steps are remembered."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was done."""

    what: str
    """In words that follow "undo": ``the withdrawal of a, b``."""
    undo: Callable[[Operations], Any] | None = None
    """What takes it back; ``None`` where nothing does."""
    told: str = ""
    """How things are once it was taken back, or why it cannot be."""

    def take_back(self, operations: Operations) -> None:
        """Take it back; raises :class:`WorkFailed` saying what could not be undone."""
        assert self.undo is not None
        try:
            self.undo(operations)
        except MeshtuiError as error:
            raise WorkFailed(f"Cannot undo {self.what}: {error}") from error


class Steps:
    """What can be undone in every run directory of this console, newest last; what was done at once is one."""

    def __init__(self) -> None:
        self._done: list[dict[Path, Step]] = []

    def __len__(self) -> int:
        return len(self._done)

    def add(self, steps: Mapping[Path, Step]) -> None:
        """Remember what was just done, by run directory."""
        if steps:
            self._done = [*self._done[1 - MOST :], dict(steps)]

    def any_of(self, where: Path | None = None) -> bool:
        """Whether something was done, in the run directory ``where`` or in any."""
        return any(where is None or where in steps for steps in self._done)

    def pop(self, where: Path | None = None) -> dict[Path, Step]:
        """The newest, forgotten from now on: of ``where`` only what was done there, else of all."""
        for at in range(len(self._done) - 1, -1, -1):
            steps = self._done[at]
            if where is None:
                return self._done.pop(at)
            if where in steps:
                found = {where: steps.pop(where)}
                if not steps:
                    del self._done[at]
                return found
        return {}


def of_enqueue(receipt: Any) -> Step:
    """An envelope was added."""
    name = receipt.envelope_id
    return Step(f"enqueuing {name}", lambda ops: ops.withdraw(name), f"{name} is withdrawn")


def of_withdrawal(ids: Sequence[str]) -> Step | None:
    """Pending records were taken out: they go back where they were."""
    if not ids:
        return None
    them = tuple(ids)
    verb = "is" if len(them) == 1 else "are"
    return Step(
        f"the withdrawal of {names(them)}",
        lambda ops: ops.restore(them, in_place=True),
        f"{names(them)} {verb} back in place",
    )


def of_return(ids: Sequence[str], how: str) -> Step | None:
    """Records were restored, repaired or queued again: they are withdrawn."""
    if not ids:
        return None
    them = tuple(ids)
    verb = "is" if len(them) == 1 else "are"
    return Step(
        f"{how} {names(them)}", lambda ops: _all_withdrawn(ops, them), f"{names(them)} {verb} withdrawn"
    )


def _all_withdrawn(ops: Operations, ids: Sequence[str]) -> None:
    if len(ids) == 1:
        ops.withdraw(ids[0])
        return
    receipt = ops.withdraw_many(ids)
    if receipt.refused:
        raise WorkFailed("; ".join(one.error for one in receipt.refused[:3]))


def of_pause(receipt: Any) -> Step:
    """Claiming was made to stand still, or to go on."""
    if receipt.paused:
        return Step("the pause", lambda ops: ops.resume(), "the lane continues")
    return Step("the continuing", lambda ops: ops.pause(), "the lane is paused")


def of_head(receipt: Any) -> Step:
    """Records were put at the head: they go back where they were."""
    return Step(
        f"the move of {names(receipt.moved)} to the head",
        lambda ops: ops.place(dict(receipt.names)),
        "the old order is back",
    )


def of_edit(receipt: Any) -> Step:
    """An envelope was changed: it is what it was, and what was not pending is out of the queue again."""
    name, before, pending = receipt.envelope_id, dict(receipt.before), receipt.folder == "pending"

    def back(ops: Operations) -> None:
        ops.edit(name, before)
        if not pending:
            ops.withdraw(name)

    return Step(f"the edit of {name}", back, f"{name} is as it was" + ("" if pending else ", and withdrawn"))


def of_answers(ids: Sequence[str], action: str) -> Step | None:
    """Parked phases were given up, or sent back to run."""
    if not ids:
        return None
    them = tuple(ids)
    if action != "drop":
        return Step(
            f"the retry of {names(them)}",
            None,
            f"it may run already; {key_of('withdraw')} withdraws it while it waits",
        )

    def back(ops: Operations) -> None:
        for one in them:
            ops.park_again(one)

    return Step(f"the drop of {names(them)}", back, f"{names(them)}: parked again, as before")


def final(what: str, why: str) -> Step:
    """Something that nothing takes back."""
    return Step(what, None, why)


def of_file_drop(files: Sequence[str]) -> Step:
    """Quarantined files were taken out for good."""
    return final(f"the drop of {names(files)} from quarantine", "the file is under quarantine/.dropped")


def of_loops_killed(ids: Sequence[str]) -> Step:
    """Loops were ended, or kept from starting."""
    return final(f"the kill of {names(ids)}", "what was ended is over; r goes on with the mission")
