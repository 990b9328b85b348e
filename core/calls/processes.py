"""Which processes belong to a call, and signals for exactly those.

A process belongs to a call when it carries the call's id in its environment, wherever it went, or is in the
session that the wrapper leads; where environments are not shown, or were cleared, also when it descends
from one that does. On Linux one that left all of that behind and kept the call's lock is found by that. Pids are checked against start times before a signal, since numbers are given out again.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from meshtui.core import identity
from meshtui.core.calls.spec import CALL_ID_VARIABLE

_LINUX = sys.platform.startswith("linux")
_ENVIRONMENT_PIECE = 1 << 16
_NO_CALL = f"{CALL_ID_VARIABLE}=".encode()


@dataclass(frozen=True, slots=True)
class Member:
    """A process of a call, told from later ones of the same number by its start time."""

    pid: int
    started: float

    def alive(self) -> bool:
        """Whether it still runs; one that only waits to be reaped does not."""
        return identity.started_at(self.pid) == self.started

    def group(self) -> int:
        """Its process group, -1 once it is gone."""
        try:
            return os.getpgid(self.pid)
        except OSError:
            return -1

    def cpu_seconds(self) -> float:
        """Processor time it and the children it reaped have used; 0 once it is gone."""
        if not self.alive():
            return 0.0
        if not _LINUX:
            return _cpu_elsewhere(self.pid)
        try:
            with open(f"/proc/{self.pid}/stat", "rb") as file:  # noqa: PTH123
                fields = file.read().rpartition(b") ")[2].split()
            return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")
        except (OSError, IndexError, ValueError):
            return 0.0

    def name(self) -> str:
        """Its program's short name, control characters replaced; ``?`` once it is gone."""
        text = _name(self.pid).decode("utf-8", "replace")
        return "".join(char if char.isprintable() else "\ufffd" for char in text)

    def resembles(self, other: Member) -> bool:
        """Whether it runs with the very command line of ``other``, as a copy of it does until its exec."""
        line = _command_line(self.pid)
        return line is not None and line == _command_line(other.pid)

    def send(self, number: int) -> None:
        """Send signal ``number`` if it still runs and may be signalled."""
        if not self.alive():
            return
        try:
            os.kill(self.pid, number)
        except (ProcessLookupError, PermissionError):
            # Gone just now; or another user's, which shows as a survivor.
            return


@dataclass(frozen=True, slots=True)
class Circle:
    """How to recognise the processes of one call."""

    call_id: str
    session: int | None
    """The wrapper's pid, which is the id of the session it leads, if known."""
    ours: Callable[[float], bool]
    """Whether a process of that session that started then is of this call's: session ids are reused."""
    strangers: Mapping[int, int] = field(default_factory=dict)
    """Processes that ran before the call did, see :func:`strangers`."""
    lock: Path | None = None
    """The call's lock, which its processes inherit."""
    since: float | None = None
    """When the wrapper started: an older process that has the lock open is a runner that starts the call."""

    def members(self, *, thorough: bool) -> list[Member]:
        """The call's processes that run now, the wrapper among them.

        ``thorough`` looks for descendants as well, and at processes older than the call (one could have
        taken over its environment), which costs more.
        """
        found: dict[int, Member] = {}
        own = os.getpid()
        needle = f"{CALL_ID_VARIABLE}={self.call_id}".encode()
        pids = _look()
        for pid, number in pids.items():
            if pid == own or (not thorough and self.strangers.get(pid) == number):
                continue
            in_session = self.session is not None and _session(pid) == self.session
            if not in_session and not _carries(pid, needle):
                continue
            member = _member(pid)
            if member is None or (in_session and not self._counts(member, needle)):
                continue
            found[pid] = member
        if thorough and found:
            for pid in _descendants(found, pids):
                if pid == own or (member := _member(pid)) is None or self._is_wrappers(pid):
                    continue
                found[pid] = member
        if thorough:
            for pid in pids:
                if pid != own and pid not in found and (member := self._holder(pid)) is not None:
                    found[pid] = member
        return list(found.values())

    def _holder(self, pid: int) -> Member | None:
        """Process ``pid`` if it inherited the call's lock; one that only asks for it holds none."""
        if self.lock is None or self.since is None or not _LINUX:
            return None
        member = _member(pid)
        return (
            member
            if member is not None and member.started >= self.since and _has_locked(pid, self.lock)
            else None
        )

    def _counts(self, member: Member, needle: bytes) -> bool:
        """Whether a process of the session is of the call and not of a later one, nor the wrapper's own."""
        if _carries(member.pid, needle):
            return True
        return self.ours(member.started) and not self._is_wrappers(member.pid)

    def _is_wrappers(self, pid: int) -> bool:
        """Whether it is the ``sleep`` between two tries of the wrapper to write down the exit status."""
        return _carries(pid, _NO_CALL) and _parent(pid) == self.session


def signal_group(leader: Member, number: int) -> None:
    """Send ``number`` to the process group that ``leader`` leads, as long as it runs."""
    if not leader.alive():
        return
    try:
        os.killpg(leader.pid, number)
    except (ProcessLookupError, PermissionError):
        return


def find(pid: int) -> Member | None:
    """Process ``pid`` as it is now, ``None`` if it does not run."""
    return _member(pid)


def started_ms(started: float, now_ms: int) -> float:
    """Start time ``started`` of a process of this boot in milliseconds since the epoch."""
    if not _LINUX:
        return started * 1000
    boot_ms = now_ms - time.clock_gettime(time.CLOCK_BOOTTIME) * 1000
    return boot_ms + started * 1000 / os.sysconf("SC_CLK_TCK")


_latest: dict[int, int] = {}


def strangers() -> Mapping[int, int]:
    """Processes that run now, as far as an earlier look found them: what is started next is none of them.

    Pid to the number of its folder in ``/proc``, which no other process of that pid will have.
    """
    return _latest


def _look() -> dict[int, int]:
    """All pids with the numbers of their folders in ``/proc``, -1 where there is none."""
    global _latest
    if not _LINUX:
        import psutil

        return dict.fromkeys(psutil.pids(), -1)
    with os.scandir("/proc") as entries:
        found = {int(entry.name): entry.inode() for entry in entries if entry.name.isdigit()}
    _latest = found
    return found


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1


def _carries(pid: int, needle: bytes) -> bool:
    """Whether ``needle``, a variable with its value, is in the environment of ``pid``, if that is shown."""
    if not _LINUX:
        return _carries_elsewhere(pid, needle)
    try:
        fd = os.open(f"/proc/{pid}/environ", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        data = piece = os.read(fd, _ENVIRONMENT_PIECE)
        while len(piece) == _ENVIRONMENT_PIECE:
            piece = os.read(fd, _ENVIRONMENT_PIECE)
            data += piece
    except OSError:
        return False
    finally:
        os.close(fd)
    return needle in data and needle in data.split(b"\0")


def _has_locked(pid: int, path: Path) -> bool:
    """Whether ``pid`` has ``path`` open with an exclusive lock on it (Linux)."""
    try:
        wanted = path.stat()
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        # Gone, or another user's.
        return False
    for name in names:
        try:
            fd = f"/proc/{pid}/fd/{name}"
            if os.readlink(fd).endswith(f"/{path.name}") and os.path.samestat(os.stat(fd), wanted):  # noqa: PTH115
                facts = identity.read_proc(f"/proc/{pid}/fdinfo/{name}").splitlines()
                if any(b"FLOCK" in line and b"WRITE" in line for line in facts):
                    return True
        except OSError:
            # Closed since.
            continue
    return False


def _carries_elsewhere(pid: int, needle: bytes) -> bool:
    import psutil

    try:
        value = psutil.Process(pid).environ().get(CALL_ID_VARIABLE)
    except (psutil.Error, OSError):
        return False
    return value is not None and f"{CALL_ID_VARIABLE}={value}".encode() == needle


def _member(pid: int) -> Member | None:
    started = identity.started_at(pid)
    return None if started is None else Member(pid, started)


def _cpu_elsewhere(pid: int) -> float:
    import psutil

    try:
        times = psutil.Process(pid).cpu_times()
    except (psutil.Error, OSError):
        return 0.0
    return float(times.user + times.system)


def _name(pid: int) -> bytes:
    if _LINUX:
        try:
            with open(f"/proc/{pid}/comm", "rb") as file:  # noqa: PTH123
                return file.read(64).removesuffix(b"\n")
        except OSError:
            return b"?"
    import psutil

    try:
        return psutil.Process(pid).name().encode("utf-8", "replace")
    except psutil.Error:
        return b"?"


def _command_line(pid: int) -> object:
    """The arguments of ``pid``, ``None`` where they are not shown."""
    if _LINUX:
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
                return file.read(1 << 16) or None
        except OSError:
            return None
    import psutil

    try:
        return psutil.Process(pid).cmdline() or None
    except psutil.Error:
        return None


def _parent(pid: int) -> int:
    if _LINUX:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
                return int(file.read().rpartition(b") ")[2].split()[1])
        except (OSError, IndexError, ValueError):
            return 0
    import psutil

    try:
        return psutil.Process(pid).ppid()
    except psutil.Error:
        return 0


def _descendants(roots: Iterable[int], pids: Iterable[int]) -> set[int]:
    """The pids that descend from ``roots``, without these."""
    children: dict[int, list[int]] = {}
    for pid in pids:
        children.setdefault(_parent(pid), []).append(pid)
    known = set(roots)
    waiting = list(known)
    found: set[int] = set()
    while waiting:
        for child in children.get(waiting.pop(), []):
            if child not in known:
                known.add(child)
                found.add(child)
                waiting.append(child)
    return found


TERMINATE = (signal.SIGTERM, signal.SIGCONT)
"""A stopped process gets its SIGTERM only once it continues."""
