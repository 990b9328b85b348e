"""A bell that interrupts a wait from another thread or a signal handler."""

from __future__ import annotations

import socket


class Waker:
    """Rings once set, until cleared; any number of waits may watch it through ``fileno()``."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def set(self) -> None:
        """Interrupt the wait that watches this, now or the next one; safe in signal handlers."""
        try:
            self._writer.send(b"\0")
        except (BlockingIOError, OSError):
            # Full: it rings already. Closed: nobody waits any more.
            return

    def clear(self) -> None:
        """Fall silent until set again."""
        try:
            while self._reader.recv(4096):
                pass
        except (BlockingIOError, OSError):
            return

    def fileno(self) -> int:
        """Readable while set."""
        return self._reader.fileno()

    def close(self) -> None:
        """Give the descriptors back; setting it afterwards does nothing."""
        self._reader.close()
        self._writer.close()
