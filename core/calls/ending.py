"""Ending what belongs to a call: SIGTERM, a grace, SIGKILL, and the names of what is left."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from meshtui.core.calls.processes import TERMINATE, Circle, Member, signal_group

GRACE = 5.0
AFTER_KILL = 2.0
"""How long a killed process may take to go away before it counts as a survivor."""
WRAPPER = 2.5
"""How long the wrapper may take to write the exit status once its program is gone: a full disk makes it
try again after a second."""
_RESCAN = 0.25
_PAUSE = 0.001
_LONGEST_PAUSE = 0.02


@dataclass(frozen=True, slots=True)
class EndReport:
    """What came of ending a call."""

    ended: bool
    """Whether nothing of it runs any more."""
    survivors: tuple[str, ...] = ()
    """What still runs, e.g. ``python3 (pid 4711)``."""
    found: tuple[str, ...] = ()
    """What ran when it was ended, the wrapper not counted."""


@dataclass(slots=True)
class Ender:
    """Ends the processes of ``circle``, all but ``spare`` (the wrapper, which records the end)."""

    circle: Circle
    spare: Callable[[], Member | None]
    thorough: bool
    _seen: dict[Member, str] = field(default_factory=dict)
    _group_told: bool = False

    @property
    def found(self) -> tuple[str, ...]:
        """Every process that was seen, by name."""
        return tuple(self._seen.values())

    def scan(self) -> list[Member]:
        """The processes to end that run now."""
        wrapper = self.spare()
        members = [
            member
            for member in self.circle.members(thorough=self.thorough)
            if wrapper is None or member.pid != wrapper.pid
        ]
        for member in members:
            self._seen[member] = f"{member.name()} (pid {member.pid})"
        return members

    def run(self, grace: float) -> list[Member]:
        """SIGTERM, up to ``grace`` seconds, SIGKILL; returns what even that did not end."""
        left = self._chase(grace, self._terminate)
        if left:
            left = self._chase(AFTER_KILL, lambda new: _send(new, (signal.SIGKILL,)))
        return left

    def name(self, member: Member) -> str:
        """``member`` as reports name it."""
        return self._seen.get(member, f"pid {member.pid}")

    def _terminate(self, new: list[Member]) -> None:
        leader = None if self._group_told else self.spare()
        if leader is not None:
            # Told even where no program is seen yet: a wrapper that is about to start it then does not.
            self._group_told = True
            for number in TERMINATE:
                signal_group(leader, number)
            # One SIGTERM each: a second one means "at once" to some programs.
            new = [member for member in new if member.group() != leader.pid]
        _send(new, TERMINATE)

    def _chase(self, seconds: float, act: Callable[[list[Member]], None]) -> list[Member]:
        """Signal every process once as it is found until none is left or time is up."""
        end = time.monotonic() + seconds
        done: set[Member] = set()
        while True:
            current = self.scan()
            new = [member for member in current if member not in done]
            # A signal that reaches a child of the shell before it became its program is swallowed there.
            leader = self.spare() if new else None
            unborn = {member for member in new if leader is not None and member.resembles(leader)}
            if new or not self._group_told:
                act(new)
                done.update(set(new) - unborn)
            if not current:
                return []
            # What is known is cheap to ask; what it may have started meanwhile is looked for less often.
            pause, rescan = _PAUSE, time.monotonic() + (_PAUSE if unborn else _RESCAN)
            while any(member.alive() for member in current):
                now = time.monotonic()
                if now >= end:
                    return self.scan()
                if now >= rescan:
                    break
                time.sleep(min(pause, end - now))
                pause = min(pause * 1.5, _LONGEST_PAUSE)


def _send(members: list[Member], numbers: tuple[int, ...]) -> None:
    for member in members:
        for number in numbers:
            member.send(number)
