"""The lease: exactly one runner works a lane, however many try.

Between meshtui's processes an OS lock that is held for life decides; towards other tools the directory
lock ``runner.lock/`` with its owner and heartbeat does. Whoever finds the lease in other hands stops
writing at once.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from meshtui.core import identity, storage
from meshtui.core.clock import Clock
from meshtui.core.errors import Held, LeaseLost, StorageError
from meshtui.core.lane import dirlock
from meshtui.core.lane.dirlock import Owner

HEARTBEAT_SECONDS = 15.0
TAKE_OVER_GRACE_SECONDS = 5.0
STAND_IN = "stand_in"
STAND_IN_SECONDS = 15.0
"""How long somebody who acts once in a missing runner's place is waited for: ending a call takes a while."""
UNCLEAR_SECONDS = 1.0
"""How long a lock that no living process is known to hold is waited for."""


class Leased(Protocol):
    """What one runner works at a time: a lane, or a mission."""

    @property
    def root(self) -> Path: ...
    @property
    def runner_lock(self) -> Path: ...
    @property
    def runner_flock(self) -> Path: ...


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lane's lease at the moment."""

    owner: Owner | None
    """What ``owner.json`` says, ``None`` if it says nothing."""
    alive: bool
    """Whether the lease counts as held."""
    foreign: bool
    """Whether it is held by a tool that is not meshtui: our OS lock is free."""


def holder(paths: Leased, clock: Clock) -> Holder:
    """Look who holds the lease, without taking anything."""
    ours = storage.is_locked(paths.runner_flock)
    owner = dirlock.read_owner(paths.runner_lock)
    if ours:
        return Holder(owner, alive=True, foreign=False)
    if not paths.runner_lock.is_dir():
        return Holder(None, alive=False, foreign=False)
    alive = not dirlock.is_free(paths.runner_lock, clock)
    # One of ours may have started between the two looks.
    return Holder(owner, alive=alive, foreign=alive and not storage.is_locked(paths.runner_flock))


class Lease:
    """The lease while this process holds it; a context manager that gives it back."""

    def __init__(self, paths: Leased, clock: Clock, *, what: str | None = None) -> None:
        """``what`` names the thing in messages, e.g. ``mission m1``; by default it is a lane."""
        self._paths = paths
        self._what = what or f"lane {paths.root.parent}"
        self._advice = (
            "stop it (meshtui stop), wait, or end a hung one with meshtui lane --take-over"
            if what is None
            else "wait, or end that process"
        )
        self._clock = clock
        self._lock = storage.OsLock(paths.runner_flock, what="the lane")
        self._owner_file = f"{paths.runner_lock}/owner.json"
        self._mark: tuple[int, int] | None = None
        self._lost = False
        self._beat_lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def acquire(self, *, take_over: bool = False, stand_in: bool = False) -> None:
        """Take the lease; raises :class:`Held` with the holder's pid, host and heartbeat age.

        With ``take_over`` a holder that is in the way is ended by its identity first. A ``stand_in`` acts
        once in a missing runner's place: it has no heartbeat, and a runner that starts waits for it.
        """
        if not self._take_os_lock():
            if not take_over:
                raise Held(self._refusal())
            self._end_holder()
            self._lock.acquire(TAKE_OVER_GRACE_SECONDS)
        try:
            mark: dict[str, Any] = {STAND_IN: True} if stand_in else {}
            if not dirlock.try_take(self._paths.runner_lock, self._clock, **mark):
                if not take_over:
                    raise Held(self._refusal())
                self._end_holder()
                dirlock.take(
                    self._paths.runner_lock, self._clock, timeout=TAKE_OVER_GRACE_SECONDS, what="the lane"
                )
            self._remember()
        except BaseException:
            self._lock.release()
            raise
        if not stand_in:
            self._thread = threading.Thread(target=self._beat, name="meshtui-heartbeat", daemon=True)
            self._thread.start()

    def _take_os_lock(self) -> bool:
        """Take the OS lock, unless a living process is seen to have it.

        A program that a runner just started has its descriptors for a moment longer than the runner
        itself, and a runner that just starts has yet to say who it is.
        """
        began = time.monotonic()
        end = began + UNCLEAR_SECONDS
        while not self._lock.try_acquire():
            owner = dirlock.read_owner(self._paths.runner_lock)
            if owner is not None and owner.data.get(STAND_IN) and time.monotonic() < began + STAND_IN_SECONDS:
                time.sleep(0.005)
                continue
            known = owner is not None and owner.who is not None and identity.presence(owner.who) != "gone"
            if known or time.monotonic() >= end:
                return False
            time.sleep(0.002)
        return True

    def _refusal(self) -> str:
        owner = dirlock.read_owner(self._paths.runner_lock)
        who = owner.describe(self._clock.now_ms()) if owner else "another process that is just starting"
        return f"{self._what} is worked by {who}; {self._advice}"

    def _end_holder(self) -> None:
        owner = dirlock.read_owner(self._paths.runner_lock)
        if owner is None or owner.who is None or identity.presence(owner.who) != "alive":
            who = owner.describe(self._clock.now_ms()) if owner else "an unknown process"
            raise Held(
                f"the lane's holder ({who}) cannot be ended from here: end it where it runs; if it is gone, "
                f"the lane is free {dirlock.HEARTBEAT_STALE_SECONDS:.0f} s after its last heartbeat"
            )
        # SIGHUP would leave the call; a hung holder gets the plain request first and then no choice.
        for number in (signal.SIGHUP, signal.SIGKILL):
            if identity.presence(owner.who) != "alive":
                return
            try:
                os.kill(owner.who.pid, number)
            except ProcessLookupError:
                return
            end = time.monotonic() + TAKE_OVER_GRACE_SECONDS
            while time.monotonic() < end and identity.presence(owner.who) == "alive":
                time.sleep(0.02)
        if identity.presence(owner.who) == "alive":
            raise Held(f"pid {owner.who.pid} does not end: the lane stays with it")

    # -- heartbeat and loss -------------------------------------------------------------------------

    def _remember(self) -> None:
        state = os.stat(self._owner_file)
        self._mark = (state.st_ino, state.st_mtime_ns)

    def _beat(self) -> None:
        while not self._ended.wait(HEARTBEAT_SECONDS):
            try:
                self.heartbeat()
            except (LeaseLost, StorageError):
                # A full disk only makes the heartbeat old: the OS lock still holds. A loss is noticed
                # by the runner before its next write.
                continue

    def heartbeat(self) -> None:
        """Renew ``heartbeat_at``; raises :class:`LeaseLost`."""
        with self._beat_lock:
            self.check()
            storage.write_atomic(
                self._paths.runner_lock / "owner.json", dirlock.owner_bytes(self._clock), durable=False
            )
            self._remember()

    def check(self) -> None:
        """Raise :class:`LeaseLost` unless ``owner.json`` is the one this process wrote last."""
        try:
            state = os.stat(self._owner_file)
            same = (state.st_ino, state.st_mtime_ns) == self._mark
        except OSError:
            same = False
        if self._lost or not same:
            self._lost = True
            raise LeaseLost(
                f"{self._what} was taken over by another runner; this one stops and writes nothing more"
            )

    def verify(self) -> None:
        """:meth:`check`, waiting for a heartbeat that is just being written."""
        with self._beat_lock:
            self.check()

    def release(self) -> None:
        """Give the lease back, unless somebody else has it already."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if not self._lock.held:
            return
        try:
            self.verify()
        except LeaseLost:
            self._lock.release()
            return
        dirlock.give_back(self._paths.runner_lock)
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
