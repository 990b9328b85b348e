"""Reading what a program wrote, piece by piece and never more than asked for."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

CHUNK = 1 << 20


def open_output(path: Path) -> BinaryIO | None:
    """The log at ``path`` to read from; ``None`` when there is none.

    A program may put anything in its log's place. A pipe there must not hold who reads: it is no log.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return None
    return os.fdopen(fd, "rb", buffering=0)


class OutputFollower:
    """Reads what is new in a log that grows, at most ``chunk`` bytes at a time."""

    def __init__(self, path: Path, *, chunk: int = CHUNK) -> None:
        self.path = path
        self.offset = 0
        """Bytes read so far."""
        self._chunk = min(chunk, CHUNK)
        self._file: BinaryIO | None = None

    @property
    def total(self) -> int:
        """Bytes in the log now, read or not; 0 while there is none."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def read(self) -> bytes:
        """The next new bytes; ``b""`` when there are none for now."""
        if self._file is None:
            self._file = open_output(self.path)
        if self._file is None:
            return b""
        data = os.pread(self._file.fileno(), self._chunk, self.offset)
        self.offset += len(data)
        return data

    def skip(self) -> None:
        """Pass over what is there and not read."""
        self.offset = max(self.offset, self.total)

    def close(self) -> None:
        """Close the log; reading on opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None


def read_tail(path: Path, size: int) -> bytes:
    """The last ``size`` bytes of ``path`` at most; ``b""`` when there is no such file."""
    file = open_output(path)
    if file is None:
        return b""
    with file:
        length = os.fstat(file.fileno()).st_size
        return os.pread(file.fileno(), size, max(0, length - size))


def tail_text(path: Path, size: int) -> str:
    """The end of ``path`` as text, bytes that are not UTF-8 replaced."""
    return read_tail(path, size).decode("utf-8", "replace")
