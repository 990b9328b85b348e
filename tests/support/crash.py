"""Ends a process, or fails its disk, at each single call that changes the disk."""

from __future__ import annotations

import errno
import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from meshtui.core import storage

CHANGING = (
    "open",
    "write",
    "pwrite",
    "ftruncate",
    "fsync",
    "rename",
    "link",
    "unlink",
    "mkdir",
    "rmdir",
    "utime",
)
NEEDS_SPACE = ("open", "write", "pwrite", "fsync", "rename", "link", "mkdir")
"""What a full disk refuses; removing goes on."""

ENDED = 97
"""Exit status of a process that was ended at a call."""
BROKEN = 98
"""Exit status of a process whose operation raised what nobody expected."""

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class DiskCalls:
    """Stands in for the module ``os`` and calls ``act`` before each call that changes the disk.

    ``act`` gets the number of the call, counted from 1, its name and its arguments.
    """

    def __init__(self, act: Callable[[int, str, tuple[Any, ...]], None]) -> None:
        self._act = act
        self.count = 0
        self.names: list[str] = []

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in CHANGING:
            return real

        def call(*args: Any, **kwargs: Any) -> Any:
            if name != "open" or args[1] & _WRITES:
                self.count += 1
                self.names.append(name)
                self._act(self.count, name, args)
            return real(*args, **kwargs)

        return call


@contextmanager
def disk_calls(act: Callable[[int, str, tuple[Any, ...]], None]) -> Iterator[DiskCalls]:
    """Have ``storage`` work through a :class:`DiskCalls`."""
    calls = DiskCalls(act)
    module = vars(storage)
    before = module["os"]
    module["os"] = calls
    try:
        yield calls
    finally:
        module["os"] = before


def counted(operation: Callable[[], object]) -> list[str]:
    """The names of the calls with which ``operation`` changes the disk."""
    with disk_calls(lambda number, name, args: None) as calls:
        operation()
    return calls.names


def end_at(n: int, *, torn: bool = False) -> Callable[[int, str, tuple[Any, ...]], None]:
    """End the process before the ``n``-th call; with ``torn`` half of a write is done first."""

    def act(number: int, name: str, args: tuple[Any, ...]) -> None:
        if number < n:
            return
        if torn and name in ("write", "pwrite"):
            data = bytes(args[1])
            getattr(os, name)(args[0], data[: len(data) // 2], *args[2:])
        os._exit(ENDED)

    return act


def full_at(n: int, *, once: bool) -> Callable[[int, str, tuple[Any, ...]], None]:
    """Say that the disk is full from the ``n``-th call on to those that need space, or only ``once``."""

    refused = False

    def act(number: int, name: str, args: tuple[Any, ...]) -> None:
        nonlocal refused
        if number >= n and name in NEEDS_SPACE and not (once and refused):
            refused = True
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return act


def forked(operation: Callable[[], object]) -> int:
    """Run ``operation`` in a forked child and return its exit status: 0 when it came to its end."""
    pid = os.fork()
    if pid == 0:
        code = BROKEN
        try:
            operation()
            code = 0
        except BaseException:  # noqa: BLE001 - the parent is told by the status
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def ended_at(n: int, operation: Callable[[], object], *, torn: bool = False) -> bool:
    """Run ``operation`` in a child that ends at its ``n``-th call; whether it came to its end before."""

    def child() -> None:
        with disk_calls(end_at(n, torn=torn)):
            operation()

    code = forked(child)
    assert code in (0, ENDED), f"the child ended with {code}"
    return code == 0
