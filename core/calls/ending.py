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
    _named: dict[tuple[int, float], str] = field(default_factory=dict)

    @property
    def found(self) -> tuple[str, ...]:
        """Every process that was seen, by name."""
        return tuple(self._named.values())

    def scan(self) -> list[Member]:
        """The processes to end that run now."""
        wrapper = self.spare()
        members = [
            member
            for member in self.circle.members(thorough=self.thorough)
            if wrapper is None or member.pid != wrapper.pid
        ]
        for member in members:
            self._named.setdefault((member.pid, member.started), str(member))
        return members

    def run(self, grace: float) -> list[Member]:
        """SIGTERM, up to ``grace`` seconds, SIGKILL; returns what even that did not end."""
        group_told = False

        def terminate(new: list[Member]) -> None:
            nonlocal group_told
            leader = None if group_told else self.spare()
            if leader is not None:
                group_told = True
                for number in TERMINATE:
                    signal_group(leader, number)
                # One SIGTERM each: a second one means "at once" to some programs.
                new = [member for member in new if member.group != leader.pid]
            _send(new, TERMINATE)

        left = self._chase(grace, terminate)
        if left:
            left = self._chase(AFTER_KILL, lambda new: _send(new, (signal.SIGKILL,)))
        return left

    def _chase(self, seconds: float, act: Callable[[list[Member]], None]) -> list[Member]:
        """Signal every process once as it is found until none is left or time is up."""
        end = time.monotonic() + seconds
        done: set[tuple[int, float]] = set()
        while True:
            current = self.scan()
            new = [member for member in current if (member.pid, member.started) not in done]
            if not current:
                return []
            if new:
                act(new)
                done.update((member.pid, member.started) for member in new)
            # What is known is cheap to ask; what it may have started meanwhile is looked for less often.
            pause, rescan = _PAUSE, time.monotonic() + _RESCAN
            while any(member.alive for member in current):
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
