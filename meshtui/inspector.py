"""Reads what the details show, in a thread of its own: the record's files once, a call's output as it grows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from textual.message import Message

from meshtui.core.view import CallView, Detail
from meshtui.messages import DetailRead, OutputRead

LOOK_SECONDS = 0.15
"""How often a growing file is looked at while it is shown."""
AGAIN = 12
"""After so many looks without growth it is asked whether the call still runs."""


class ReadDetail(Protocol):
    """Reads a record's files; small reads only."""

    def __call__(self, key: str) -> Detail | None: ...


Signature = tuple[tuple[int, int], ...]


Request = TypeVar("Request")


class Newest(Generic[Request]):
    """A thread that serves the newest request only; what was asked before and is not yet read is dropped."""

    name = "meshtui-inspect"

    def __init__(self, post: Callable[[Message], object]) -> None:
        self._post = post
        self._condition = threading.Condition()
        self._request: Request | None = None
        self._version = 0
        self._stopped = False
        self._thread: threading.Thread | None = None

    def serve(self, request: Request, version: int) -> None:
        """Read what was asked for; may go on until :meth:`_interrupted`."""
        raise NotImplementedError

    def _ask(self, request: Request) -> None:
        with self._condition:
            if self._stopped:
                return
            self._request = request
            self._version += 1
            self._condition.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
                self._thread.start()

    def rest(self) -> None:
        """Nothing is selected: follow nothing."""
        with self._condition:
            self._request = None
            self._version += 1
            self._condition.notify()

    def stop(self, timeout: float = 2.0) -> bool:
        """End the thread; whether it ended within ``timeout`` seconds."""
        with self._condition:
            self._stopped = True
            self._condition.notify()
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        done = 0
        while True:
            with self._condition:
                while not self._stopped and (self._version == done or self._request is None):
                    done = self._version
                    self._condition.wait()
                if self._stopped or self._request is None:
                    return
                done, request = self._version, self._request
            self.serve(request, done)

    def _interrupted(self, version: int) -> bool:
        with self._condition:
            self._condition.wait_for(lambda: self._stopped or self._version != version, LOOK_SECONDS)
            return self._stopped or self._version != version


class Inspector(Newest[tuple[str, bool]]):
    """Reads records and follows their calls."""

    def __init__(self, read: ReadDetail, post: Callable[[Message], object]) -> None:
        super().__init__(post)
        self._read = read

    def ask(self, key: str, *, output: bool) -> None:
        """Read the record ``key``; with ``output`` follow what its call writes."""
        self._ask((key, output))

    def serve(self, request: tuple[str, bool], version: int) -> None:
        key, output = request
        detail = self._detail(key)
        if output:
            self._follow(key, detail, version)

    def _detail(self, key: str) -> Detail | None:
        try:
            detail = self._read(key)
        except Exception as error:  # noqa: BLE001 - shown; the thread goes on with the next record
            self._post(DetailRead(key, None, f"cannot read {key}: {error}"))
            return None
        self._post(DetailRead(key, detail))
        return detail

    def _follow(self, key: str, detail: Detail | None, version: int) -> None:
        """Tell which streams are written, and whether the call lives; what they hold is read where it is shown."""
        call = detail.call if detail is not None else None
        if call is None:
            self._post(OutputRead(key, None, live=False))
            return
        told: tuple[object, bool] | None = None
        seen: Signature | None = None
        quiet = 0
        while True:
            live = call.state in ("starting", "running")
            signature = call_signature(call)
            now = (streams_of(call), live)
            if now != told:
                told = now
                self._post(OutputRead(key, call, live=live))
            quiet = 0 if signature != seen else quiet + 1
            seen = signature
            if not live or self._interrupted(version):
                return
            if quiet and quiet % AGAIN == 0:
                again = self._detail(key)
                if again is None or again.call is None:
                    return
                call = again.call


def call_signature(call: CallView) -> Signature:
    """Changes when a call's output does."""
    found = []
    for path in (call.stdout, call.stderr):
        try:
            stat = path.stat()
        except OSError:
            found.append((-1, 0))
        else:
            found.append((stat.st_size, stat.st_mtime_ns))
    return tuple(found)


def streams_of(call: CallView) -> tuple[str, ...]:
    """The streams that ``call`` has written to, by name."""
    return tuple(
        name
        for name, (size, _when) in zip(("stdout", "stderr"), call_signature(call), strict=True)
        if size > 0
    )
