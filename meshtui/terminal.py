"""The terminal's driver, for a terminal that may vanish: its window closed, its connection or multiplexer gone."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable
from typing import IO, Any, cast

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

LOOK_SECONDS = 1.0
"""How long the watch of a terminal outlives it at most."""


class Vanishing:
    """A terminal's output. What nobody can see any more is dropped; each write to it would fail.

    Textual writes in a thread that a failed write ends, and waits for it without end when the console closes.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> None:
        """Write ``text`` if there still is a terminal."""
        try:
            self._file.write(text)
        except OSError:
            return

    def flush(self) -> None:
        """Hand on what was written."""
        try:
            self._file.flush()
        except OSError:
            return

    def fileno(self) -> int:
        """The descriptor that is written to."""
        return self._file.fileno()

    def isatty(self) -> bool:
        """Whether it is, or was, a terminal."""
        return self._file.isatty()


class TerminalDriver(LinuxDriver):
    """Textual's own, that goes on to the end without its terminal and tells the app that it is gone.

    The kernel tells by SIGHUP too, but only whom the terminal controls.
    """

    def __init__(self, app: App[Any], **options: Any) -> None:
        super().__init__(app, **options)
        self._file = cast("Any", Vanishing(cast("IO[str]", self._file)))
        self._closed = threading.Event()
        self._watched = False

    def start_application_mode(self) -> None:
        super().start_application_mode()  # type: ignore[no-untyped-call]
        gone: Callable[[], None] | None = getattr(self._app, "hand_over_by_signal", None)
        # It is started again after each editor or pager.
        if gone is not None and not self._watched:
            self._watched = True
            threading.Thread(target=self._watch, args=(gone,), name="meshtui-terminal", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        super().close()

    def _watch(self, gone: Callable[[], None]) -> None:
        poller = select.poll()
        # Nothing is asked for: a hang-up is told in any case.
        poller.register(self.fileno, 0)
        while not self._closed.is_set():
            events = [event for _fd, event in poller.poll(LOOK_SECONDS * 1000)]
            if any(event & (select.POLLHUP | select.POLLERR) for event in events):
                self._app.call_later(gone)
                return
            if events:
                # Some systems cannot watch terminals; there the signal has to do.
                return
