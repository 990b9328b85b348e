"""Follows a run directory from a thread of its own: a new view for every change, soon after it.

Notifications come from watchfiles and only say that something changed; what changed is found out by the
reader, which reads nothing twice. Because notifications can be lost, everything is looked at again in a
slow rhythm. Where they cannot be had, the reader looks in a quicker one, which is reported.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, Protocol

from meshtui.core.run_dir import RunDir
from meshtui.core.view import LaneView

FollowMode = Literal["watching", "polling"]

FORCE_POLLING = "MESHTUI_FORCE_POLLING"
"""Environment variable: poll although notifications could be had."""

START_SECONDS = 0.15
"""How long watching waits at the start, so that the first view is drawn without a rival."""
FIRST_FILES = 80
"""How many files are read for the first view: about a screenful."""
FILES = 500
"""How many files are read for each further one."""
STEP_MS = 5
"""How long a change waits for others that belong to it."""
DEBOUNCE_MS = 60
"""How long a burst of changes is gathered at most."""
BEAT_MS = 250
"""How often the watched folders are checked for having been replaced."""
POLL_SECONDS = 0.5
RESCAN_SECONDS = 10.0
RETRY_SECONDS = 5.0
"""How long to poll after an error before watching is tried again."""
BURST = 500
"""After so many changes at once some may have been lost: look once more when it is quiet."""

_log = logging.getLogger(__name__)


class Reader(Protocol):
    """What makes the views; called from one thread only."""

    def refresh(self, *, budget: int) -> LaneView:
        """The newest view after at most ``budget`` files; ``complete`` is false while there is more to read."""
        ...


class Changes(Protocol):
    """Where notifications come from: yields how many changes there were, 0 at every beat."""

    def __call__(self, paths: list[Path], stop: threading.Event) -> Iterator[int]: ...


def watch_changes(paths: list[Path], stop: threading.Event) -> Iterator[int]:
    """Notifications of ``paths`` and everything below them, through watchfiles."""
    from watchfiles import watch

    for changes in watch(
        *paths,
        watch_filter=None,
        debounce=DEBOUNCE_MS,
        step=STEP_MS,
        stop_event=stop,
        rust_timeout=BEAT_MS,
        yield_on_timeout=True,
        raise_interrupt=False,
        force_polling=False,
        recursive=True,
        ignore_permission_denied=True,
    ):
        yield sum(1 for _change, path in changes if _counts(path))


def _counts(path: str) -> bool:
    """Whether a path can be of interest: neither a temporary file nor one of our locks."""
    name = path.rpartition("/")[2]
    return not (name.startswith(".") or name.endswith(".tmp"))


def polling_is_forced() -> bool:
    """Whether the environment asks for polling."""
    return any(
        os.environ.get(name, "").lower() not in ("", "0", "false", "no", "disable", "disabled")
        for name in (FORCE_POLLING, "WATCHFILES_FORCE_POLLING")
    )


class Watcher:
    """One thread that turns changes of a run directory into views.

    The callbacks are called from that thread and must return soon. A reader that fails is reported once
    for each different failure and asked again.
    """

    def __init__(
        self,
        run_dir: RunDir,
        reader: Reader,
        *,
        on_view: Callable[[LaneView], None],
        on_mode: Callable[[FollowMode, str | None], None] = lambda mode, reason: None,
        on_problem: Callable[[str], None] = lambda text: None,
        force_polling: bool | None = None,
        changes: Changes = watch_changes,
        poll_seconds: float = POLL_SECONDS,
        rescan_seconds: float = RESCAN_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._run_dir = run_dir
        self._reader = reader
        self._on_view = on_view
        self._on_mode = on_mode
        self._on_problem = on_problem
        self._forced = polling_is_forced() if force_polling is None else force_polling
        self._changes = changes
        self._poll_seconds = poll_seconds
        self._rescan_seconds = rescan_seconds
        self._retry_seconds = retry_seconds
        self._stop = threading.Event()
        self._nudged = threading.Event()
        self._thread: threading.Thread | None = None
        self._last: LaneView | None = None
        self._mode: tuple[FollowMode, str | None] | None = None
        self._problem: str | None = None

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Start following; the first view comes at once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="meshtui-watch", daemon=True)
            self._thread.start()

    def stop(self, timeout: float = 2.0) -> bool:
        """Stop following; whether the thread ended within ``timeout`` seconds."""
        self._stop.set()
        self._nudged.set()
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def nudge(self) -> None:
        """Look at everything soon, whatever the notifications say."""
        self._nudged.set()

    # The thread

    def _run(self) -> None:
        self._refresh()
        self._wait(START_SECONDS)
        while not self._stop.is_set():
            if self._forced:
                self._report("polling", "asked for by the environment")
                self._poll(None)
                continue
            try:
                self._watch()
            except Exception as error:  # noqa: BLE001 - whatever the watching library raises, following goes on
                _log.debug("watching failed", exc_info=True)
                self._report("polling", f"watching failed: {error}")
                self._poll(self._retry_seconds)

    def _watch(self) -> None:
        """Follow notifications until the watched folders are replaced; raises what watching raises."""
        watched = self._watchable()
        if not watched:
            # Nothing to watch yet; appearing is noticed by looking.
            self._report("watching", None)
            self._wait(BEAT_MS / 1000)
            self._refresh()
            return
        first = True
        settle_at: float | None = None
        rescan_at = time.monotonic() + self._rescan_seconds
        for count in self._changes([path for path, _identity in watched], self._stop):
            if self._stop.is_set():
                return
            self._report("watching", None)
            now = time.monotonic()
            due = now >= rescan_at or self._nudged.is_set() or (settle_at is not None and now >= settle_at)
            # What changed between the first look and the start of the watch was not notified.
            if count or first or due:
                first = False
                self._nudged.clear()
                if count >= BURST:
                    settle_at = now + BEAT_MS / 1000
                elif not count:
                    settle_at = None
                self._refresh()
                rescan_at = time.monotonic() + self._rescan_seconds
            if not count and self._watchable() != watched:
                return
        if not self._stop.is_set():
            raise OSError("the notifications ended")

    def _watchable(self) -> list[tuple[Path, tuple[int, int]]]:
        """What there is to watch, with the identity of each."""
        found = []
        for path in (self._run_dir.lane.root, self._run_dir.events, *self._run_dir.mission_places):
            try:
                stat = path.stat()
            except OSError:
                continue
            found.append((path, (stat.st_dev, stat.st_ino)))
        return found

    def _poll(self, seconds: float | None) -> None:
        """Look in a quick rhythm, for ``seconds`` or for good."""
        until = None if seconds is None else time.monotonic() + seconds
        while not self._stop.is_set() and (until is None or time.monotonic() < until):
            self._refresh()
            self._wait(self._poll_seconds)

    def _wait(self, seconds: float) -> None:
        self._nudged.wait(seconds)
        if not self._stop.is_set():
            self._nudged.clear()

    def _refresh(self) -> None:
        """Hand on the newest view, and those after it until nothing is left to read."""
        while not self._stop.is_set():
            try:
                view = self._reader.refresh(budget=FIRST_FILES if self._last is None else FILES)
            except Exception as error:  # noqa: BLE001 - reported; following goes on
                text = f"cannot read {self._run_dir.root.name}: {error}"
                if text != self._problem:
                    self._problem = text
                    self._on_problem(text)
                return
            self._problem = None
            first = self._last is None
            if view is not self._last:
                self._last = view
                self._on_view(view)
            if view.complete:
                return
            if first:
                self._stop.wait(START_SECONDS)

    def _report(self, mode: FollowMode, reason: str | None) -> None:
        if self._mode != (mode, reason):
            self._mode = (mode, reason)
            self._on_mode(mode, reason)
