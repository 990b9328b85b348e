"""What can go wrong, one class a kind, each with the exit code the command line gives for it."""

from __future__ import annotations


class MeshtuiError(Exception):
    """A failure an operator can act on: one line that names the thing and the way out.

    Raised anywhere in the engine; the command line prints it and exits with ``exit_code``.
    """

    exit_code = 1


class WorkFailed(MeshtuiError):
    """The work ended badly, or a wait timed out."""


class StorageError(MeshtuiError):
    """The disk refused: full, read-only, no such filesystem feature."""


class InvalidInput(MeshtuiError):
    """Wrong usage, or input that is refused; ``field`` names the culprit where there is one."""

    exit_code = 2

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field
        """The key of the input that is at fault, e.g. ``deadline``; ``None`` when it is the whole."""


class NotFound(MeshtuiError):
    """No such run directory, mission, loop or envelope."""

    exit_code = 3


class Held(MeshtuiError):
    """Somebody else holds it: a runner's lease, a lock, a lane that another tool works."""

    exit_code = 4


class LeaseLost(MeshtuiError):
    """This runner's lease was taken over; it must write nothing more."""

    exit_code = 4


class NeedsOperator(MeshtuiError):
    """The lane is parked or a mission is handed over: a person has to decide."""

    exit_code = 5
