"""The thread behind a text: counts its lines, looks whether it grew, and searches it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from meshtui.reading.needle import MOST_HITS, Needle

SOON: Final = 0.15
"""Seconds between looks at a text that grows."""
LATER: Final = 0.6
"""The same once it has been quiet for a while."""
QUIET_LOOKS: Final = 40
A_BREATH: Final = 0.03
BATCH_SECONDS: Final = 0.05


class Searched(Protocol):
    """What the thread needs of a text."""

    @property
    def grows(self) -> bool: ...

    def work(self, wants_end: bool) -> bool: ...

    def search(self, needle: Needle, stop: Callable[[], bool], since: object = None) -> Iterator[object]: ...


Worked = Callable[[Searched], object]
Found = Callable[[int, Sequence[object], bool], object]


class Pump:
    """Works for one text at a time, and looks for one needle in it; both may change at any moment.

    ``worked`` and ``found`` are called in the thread: when there is more of the text, and with matches, in
    order, the number of their search, and whether those are all for now.
    """

    def __init__(self, worked: Worked, found: Found) -> None:
        self._worked, self._found = worked, found
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._text: Searched | None = None
        self._wants_end = False
        self._needle: Needle | None = None
        self._search = 0
        self._due = False
        self._version = 0

    def show(self, text: Searched | None, *, wants_end: bool) -> None:
        """Work for ``text``; ``wants_end`` asks for its end first."""
        with self._condition:
            if text is self._text and wants_end == self._wants_end:
                return
            self._text, self._wants_end = text, wants_end
            self._version += 1
            self._wake()

    def seek(self, needle: Needle | None) -> int:
        """Look for ``needle`` from the beginning; the number of this search."""
        with self._condition:
            self._needle, self._due = needle, needle is not None
            self._search += 1
            self._wake()
            return self._search

    def _wake(self) -> None:
        self._condition.notify_all()
        if self._thread is None and not self._stopped and self._text is not None:
            self._thread = threading.Thread(target=self._run, name="meshtui-text", daemon=True)
            self._thread.start()

    def stop(self, timeout: float = 2.0) -> bool:
        """End the thread; whether it ended within ``timeout`` seconds."""
        with self._condition:
            self._stopped = True
            self._condition.notify_all()
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        quiet, version, more = 0, -1, False
        since: object = None
        search = 0
        while True:
            with self._condition:
                if not self._stopped and not self._due and self._version == version:
                    grows = self._text is not None and self._text.grows
                    pause = (SOON if quiet < QUIET_LOOKS else LATER) if grows else None
                    # What is still counted goes on at once, with a breath for who draws.
                    pause = A_BREATH if more else pause
                    self._condition.wait(pause)
                if self._stopped:
                    return
                if self._version != version:
                    version, quiet, since, search = self._version, 0, None, 0
                    self._due = self._needle is not None
                text, wants_end, needle = self._text, self._wants_end, self._needle
                number, due, self._due = self._search, self._due, False
            if text is None:
                more = False
                continue
            more = text.work(wants_end)
            quiet = 0 if more else quiet + 1
            if more:
                self._worked(text)
            if needle is not None and (due or more):
                if number != search:
                    search, since = number, None
                since = self._look(text, needle, number, since)

    def _look(self, text: Searched, needle: Needle, number: int, since: object) -> object:
        """Search ``text``, in batches; the last match there was."""

        def stop() -> bool:
            return self._stopped or self._search != number or self._text is not text

        batch: list[object] = []
        count, told = 0, time.monotonic()
        for hit in text.search(needle, stop, since):
            batch.append(hit)
            since, count = hit, count + 1
            if count >= MOST_HITS:
                break
            if len(batch) >= 1000 and time.monotonic() - told > BATCH_SECONDS:
                self._found(number, batch, False)
                batch, told = [], time.monotonic()
        if not stop():
            self._found(number, batch, True)
        return since
