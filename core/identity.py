"""Who a process is, so that a number which the system gave to somebody else is not taken for it.

A pid alone proves nothing: it is reused. Together with the start time, the boot and the pid namespace it
names one process for good. On Linux the start time is in clock ticks since boot, which no change of the
wall clock moves; elsewhere it is in seconds since the epoch.
"""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

Presence = Literal["alive", "gone", "unknown"]

_LATEST_START = 10**15
"""No process starts later; what a file says beyond that is damage, and a float holds this."""

_LINUX = sys.platform.startswith("linux")
_PROC_BYTES = 1 << 14


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process; what a foreign tool left out is ``None``."""

    pid: int
    process_started_at: float | None
    """Linux: ticks since boot. Elsewhere: seconds since the epoch."""
    boot_id: str | None
    host: str | None
    pid_namespace: str | None

    def as_json(self) -> dict[str, Any]:
        """The fields under their names in ``process.json`` and ``owner.json``."""
        return {
            "pid": self.pid,
            "process_started_at": self.process_started_at,
            "boot_id": self.boot_id,
            "host": self.host,
            "pid_namespace": self.pid_namespace,
        }

    @classmethod
    def from_json(cls, value: object) -> ProcessIdentity | None:
        """The identity in ``value``, ``None`` if it names no pid."""
        if not isinstance(value, dict):
            return None
        pid = value.get("pid")
        if not isinstance(pid, int) or isinstance(pid, bool) or pid <= 0:
            return None
        started = value.get("process_started_at")
        texts = {
            key: item if isinstance(item := value.get(key), str) and item else None
            for key in ("boot_id", "host", "pid_namespace")
        }
        return cls(
            pid=pid,
            process_started_at=min(max(started, -1), _LATEST_START)
            if isinstance(started, (int, float)) and not isinstance(started, bool)
            else None,
            **texts,
        )


@cache
def boot_id() -> str | None:
    """An id that changes at every boot of this machine."""
    if _LINUX:
        try:
            with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
                return file.read().strip()
        except OSError:
            return None
    import psutil

    return f"boot-{int(psutil.boot_time())}"


@cache
def host() -> str:
    """This machine's name."""
    return socket.gethostname()


@cache
def pid_namespace() -> str | None:
    """The namespace that gives pids their meaning, ``None`` where the system has only one."""
    if not _LINUX:
        return None
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    except OSError:
        return None


def read_proc(path: str) -> bytes:
    """A small file of ``/proc``; it is asked for many times a call, and a file object costs three times that.

    Raises ``OSError``.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _PROC_BYTES)
    finally:
        os.close(fd)


def started_at(pid: int) -> float | None:
    """When process ``pid`` started, ``None`` if there is none or it is only waiting to be reaped."""
    if _LINUX:
        try:
            fields = read_proc(f"/proc/{pid}/stat").rpartition(b") ")[2].split()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return None
        if len(fields) < 20 or fields[0] in (b"Z", b"X"):
            return None
        return float(int(fields[19]))
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else float(int(process.create_time()))
    except psutil.Error:
        return None


def identify(pid: int) -> ProcessIdentity:
    """The identity of process ``pid`` of this machine, now."""
    return ProcessIdentity(pid, started_at(pid), boot_id(), host(), pid_namespace())


@cache
def current() -> ProcessIdentity:
    """The identity of this process."""
    return identify(os.getpid())


# A child that was forked off is another process.
os.register_at_fork(after_in_child=current.cache_clear)


def presence(who: ProcessIdentity) -> Presence:
    """Whether ``who`` still runs; ``unknown`` when it cannot be seen from here."""
    if who.host is not None and who.host != host():
        return "unknown"
    if who.boot_id is not None and boot_id() is not None and who.boot_id != boot_id():
        return "gone"
    if who.pid_namespace is not None and who.pid_namespace != pid_namespace():
        return "unknown"
    started = started_at(who.pid)
    if started is None:
        return "gone"
    if who.process_started_at is None:
        return "alive"
    # Elsewhere than on Linux the two readings of one start time may differ by rounding.
    tolerance = 0.0 if _LINUX else 1.0
    return "alive" if abs(started - who.process_started_at) <= tolerance else "gone"
