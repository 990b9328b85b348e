"""A call: one program with its own folder, that belongs to the run directory and not to who started it.

Whoever opens the folder sees the same call: the one who started it, the runner that comes after a crash, a
command that ends it. ``exit.json`` says that it ended; until then the lock that the wrapper and the program
inherited says that it lives; a call with neither is lost.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

from meshtui.core import identity, storage, strict_json
from meshtui.core.calls import wrapper
from meshtui.core.calls.children import children
from meshtui.core.calls.ending import GRACE, WRAPPER, Ender, EndReport
from meshtui.core.calls.files import CALL_ID, CallExit, about_bytes, check_spec, exit_in, read_object
from meshtui.core.calls.processes import Circle, Member, find, started_ms, strangers
from meshtui.core.calls.spec import CALL_ID_VARIABLE, CallSpec
from meshtui.core.clock import Clock, SystemClock, from_iso, iso
from meshtui.core.errors import InvalidInput, StorageError, WorkFailed
from meshtui.core.identity import ProcessIdentity
from meshtui.core.run_dir import RunDir

CallState = Literal["starting", "running", "ended", "lost"]
EndReason = Literal["deadline", "killed", "stopped", "budget", "limit", "output"]

_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.05
_LOOKS = 50
_REAPED_WITHIN = 0.1
_UNHEARD = 0.25
"""How long, in seconds, who did not start a call trusts that its wrapper ends when its program does."""


class Wakeable(Protocol):
    """Something with a descriptor that turns readable to interrupt a wait, e.g. a ``Waker``."""

    def fileno(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a call is being ended, or was."""

    reason: str
    by: str
    at_ms: int


class Call:
    """One call; every method may be used from any thread, of this object by one at a time."""

    def __init__(self, folder: Path, *, clock: Clock) -> None:
        self.folder = folder
        self._root = str(folder)
        self._clock = clock
        self._pid: int | None = None
        self._strangers: Mapping[int, int] = {}
        self._who: ProcessIdentity | None = None
        self._exit: CallExit | None = None
        self._pidfd: int | None = None
        self._watchable = True
        self._line: socket.socket | None = None

    @classmethod
    def start(cls, run_dir: RunDir, spec: CallSpec, *, clock: Clock | None = None) -> Call:
        """:meth:`prepare` and :meth:`go` in one."""
        call = cls.prepare(run_dir, spec, clock=clock)
        call.go()
        return call

    @classmethod
    def prepare(cls, run_dir: RunDir, spec: CallSpec, *, clock: Clock | None = None) -> Call:
        """Make the call's folder and everything its program needs; it is started by :meth:`go`.

        A call that never hears it ends by itself, as :meth:`abandon` or the end of this process make it: it
        is ``lost``, and nothing was started. A call whose end was requested before it began is not started
        either; it is ``ended`` without an exit. Raises :class:`InvalidInput` for a working directory or a command line that cannot be used, and
        :class:`StorageError`. A program that cannot be executed ends its call with 126 or 127.
        """
        clock = clock or SystemClock()
        check_spec(spec)
        calls = Path(os.path.abspath(run_dir.calls))  # noqa: PTH100 - resolve() would follow symlinks
        storage.make_dirs(calls)
        call = cls(calls / spec.call_id, clock=clock)
        storage.make_dir(call.folder)
        now_ms = clock.now_ms()
        lock = storage.OsLock(call.lock_path, what=f"call {spec.call_id}")
        lock.acquire(5.0)
        try:
            storage.write_new(f"{call._root}/call.json", about_bytes(spec, now_ms), durable=False)
            storage.write_new(f"{call._root}/prompt.txt", spec.prompt, durable=False)
            if call.ending() is None:
                call._launch(spec, now_ms, lock.fileno())
        finally:
            lock.release()
        return call

    def go(self) -> None:
        """Start the program of a call that was prepared here."""
        if self._line is None:
            return
        try:
            self._line.send(wrapper.GO)
        except OSError:
            # The wrapper is gone: somebody ended the call. Its state tells.
            self.abandon()

    def abandon(self) -> None:
        """Let go of the line to the wrapper: a program that was not started will not be."""
        if self._line is not None:
            self._line.close()
            self._line = None

    @classmethod
    def attach(cls, run_dir: RunDir, call_id: str, *, clock: Clock | None = None) -> Call:
        """The call of that name, whoever started it; it need not exist (it is ``lost`` then).

        Raises :class:`InvalidInput` for what is not a call's name.
        """
        if not CALL_ID.fullmatch(call_id):
            raise InvalidInput(f"not a call: {call_id!r}", field="call")
        return cls(
            Path(os.path.abspath(run_dir.calls)) / call_id,  # noqa: PTH100 - resolve() would follow symlinks
            clock=clock or SystemClock(),
        )

    @property
    def call_id(self) -> str:
        """The call's name."""
        return self.folder.name

    @cached_property
    def stdout(self) -> Path:
        """What the program wrote: its reply."""
        return self.folder / "stdout.log"

    @cached_property
    def stderr(self) -> Path:
        return self.folder / "stderr.log"

    @cached_property
    def prompt_path(self) -> Path:
        return self.folder / "prompt.txt"

    @cached_property
    def lock_path(self) -> Path:
        return self.folder / "call.lock"

    @cached_property
    def exit_path(self) -> Path:
        return self.folder / "exit.json"

    @cached_property
    def ending_path(self) -> Path:
        return self.folder / "ending.json"

    def about(self) -> dict[str, Any] | None:
        """``call.json``; ``None`` if it is missing or damaged."""
        return read_object(self.folder / "call.json", limit=strict_json.MAX_BYTES)

    def process(self) -> ProcessIdentity | None:
        """The wrapper's identity, ``None`` until it is written down."""
        if self._who is None:
            self._who = ProcessIdentity.from_json(read_object(self.folder / "process.json"))
        return self._who

    def state(self) -> CallState:
        """Whether the call is starting, runs, has ended, or is lost.

        One that was to be ended and of which nothing runs has ended, with or without an exit status.
        """
        if self._hear() or self._has_exit():
            self._reap()
            return "ended"
        if storage.is_locked(self.lock_path):
            if self._line is None and self.exit() is not None:
                # Its wrapper waits for a starter that does not hear it, and names the file after that.
                return "ended"
            return "running" if self.process() is not None else "starting"
        # It may have ended between the two questions.
        if self._has_exit() or self._complete() or self.ending() is not None:
            self._reap()
            return "ended"
        self._reap()
        return "lost"

    def exit(self) -> CallExit | None:
        """How the program ended; ``None`` while it runs, and where that is not known."""
        if self._exit is None:
            self._exit = exit_in(
                read_object(self.exit_path) or read_object(self.folder / wrapper.EXIT_TEMPORARY) or {}
            )
        return self._exit

    def ending(self) -> Ending | None:
        """Why somebody ends or ended this call; ``None`` if nobody did."""
        value = read_object(f"{self._root}/ending.json")
        if value is None:
            return None
        at_ms = from_iso(value.get("at"))
        return Ending(str(value.get("reason", "killed")), str(value.get("by", "")), at_ms or 0)

    def wait(self, timeout: float, wake: Wakeable | None = None) -> bool:
        """Wait up to ``timeout`` seconds or until ``wake`` is readable; whether the call lives no more.

        Then :meth:`state` is ``ended`` or ``lost``. Takes no processor time where the system can watch a
        process (Linux); elsewhere the exit status is looked for every 50 ms at most.
        """
        end = time.monotonic() + timeout
        pause = _FIRST_PAUSE
        while True:
            watched = self._watch()
            if watched is None and self.state() in ("ended", "lost"):
                return True
            left = max(0.0, end - time.monotonic())
            if self._line is not None:
                most = left
            elif watched is not None:
                # Its starter may be asleep, with the wrapper waiting for its word.
                most = min(left, _UNHEARD)
            else:
                most = min(left, pause)
            ready = _poll([watched, self._line, wake], most)
            if self._line is not None and self._line.fileno() in ready:
                if self._hear():
                    self._unwatch()
                    return True
                continue
            if watched is not None and watched in ready:
                # From here on only the lock can tell: a killed wrapper leaves its program behind.
                self._watchable = False
                self._unwatch()
                continue
            if (wake is not None and wake.fileno() in ready) or time.monotonic() >= end:
                return self._watch() is None and self.state() in ("ended", "lost")
            if watched is not None and self._line is None and self.state() == "ended":
                self._unwatch()
                return True
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def request_end(self, reason: EndReason, by: str) -> Ending:
        """Write down, to survive a power cut, that the call is to be ended; the first reason stays."""
        content = {"reason": reason, "by": by, "at": iso(self._clock.now_ms())}
        try:
            storage.create(self.ending_path, strict_json.dump_bytes(content))
        except FileExistsError:
            pass
        except FileNotFoundError:
            # It has not been started yet, and now will not be.
            storage.make_dirs(self.folder)
            return self.request_end(reason, by)
        ending = self.ending()
        if ending is None:
            raise WorkFailed(f"{self.ending_path}: cannot be read back; remove it and try again")
        return ending

    def cpu_seconds(self) -> float:
        """Processor time of the call's processes so far, of those that run and of what they reaped."""
        return sum(member.cpu_seconds() for member in self._circle().members(thorough=False))

    def end(self, reason: EndReason, by: str, *, grace: float = GRACE) -> EndReport:
        """End the call and everything that belongs to it; returns as soon as nothing is left.

        A call that ended by itself gets no ``ending.json`` and only what it left behind is ended. A
        wrapper that cannot write down the exit status (full disk) is ended too in the end.
        """
        if not self._has_exit():
            self.request_end(reason, by)
        identity_ = self._settled()
        if identity_ is not None and identity.presence(identity_) == "unknown":
            return EndReport(False, (f"process {identity_.pid} on {identity_.host or 'another host'}",))
        ender = Ender(self._circle(), self._wrapper, thorough=True)
        left = ender.run(grace)
        patience = time.monotonic() + WRAPPER
        while not left and not self.wait(_LONGEST_PAUSE):
            if ender.scan():
                # It began while it was looked for.
                left = ender.run(grace)
            elif time.monotonic() >= patience:
                if (leader := self._wrapper()) is not None:
                    leader.send(signal.SIGKILL)
                self.wait(WRAPPER)
                break
        if not left and self._finds(ender):
            left = ender.run(grace)
        survivors = tuple(ender.name(member) for member in left)
        lives = self.state() in ("starting", "running")
        if lives and not survivors:
            survivors = (f"a process that holds {self.lock_path}",)
        return EndReport(not survivors, survivors, ender.found)

    def held(self) -> bool:
        """Whether something holds the call's lock: a wrapper that is just ending, or what was left running."""
        return storage.is_locked(self.lock_path)

    def sweep(self, *, grace: float = GRACE, patient: bool = True) -> tuple[str, ...]:
        """End what a call that lives no more left running and return its names; cheap if nothing.

        What even SIGKILL did not end is named with ``still running``. Without ``patient`` it does not wait for
        a wrapper that is just ending: while the call is :meth:`held` it must be asked again.
        """
        circle = self._circle()
        ender = Ender(circle, self._wrapper, thorough=False)
        if not (self._finds(ender) if patient else ender.scan()):
            return ()
        ender.thorough = True
        left = {ender.name(member) for member in ender.run(grace)}
        return tuple(f"{name}: still running" if name in left else name for name in ender.found)

    def close(self) -> None:
        """Give back what watching the call takes; it goes on, and may be watched again."""
        self._unwatch()
        self.abandon()

    def _unwatch(self) -> None:
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    def __del__(self) -> None:
        self.close()

    def _launch(self, spec: CallSpec, now_ms: int, lock_fd: int) -> None:
        env = {**spec.env, CALL_ID_VARIABLE: spec.call_id}
        opened: list[int] = []
        own, theirs = socket.socketpair()
        self._line = own
        try:
            opened.append(os.open(f"{self._root}/prompt.txt", os.O_RDONLY | os.O_CLOEXEC))
            opened.append(storage.open_log(f"{self._root}/stdout.log"))
            opened.append(storage.open_log(f"{self._root}/stderr.log"))
            self._strangers = strangers()
            self._pid = wrapper.spawn(
                self.folder, spec.argv, spec.cwd, env, now_ms=now_ms, fds=(*opened, lock_fd, theirs.fileno())
            )
        except OSError as error:
            self.abandon()
            if error.errno == errno.E2BIG:
                raise InvalidInput(
                    "the command and its environment are too long for this system; "
                    "hand long text over in the prompt",
                    field="argv",
                ) from error
            raise WorkFailed(f"cannot start {wrapper.SHELL}: {error.strerror or error}") from error
        finally:
            theirs.close()
            for fd in opened:
                os.close(fd)
        children.add(self.folder, self._pid)
        self._write_who(self._pid)

    def _write_who(self, pid: int) -> None:
        """Write down who the wrapper is, before it can start anything."""
        who = identity.identify(pid)
        if who.process_started_at is None:
            # Killed already; a pid without its start time is nobody's.
            return
        content = {**who.as_json(), "process_started_at": int(who.process_started_at)}
        try:
            storage.write_new(f"{self._root}/process.json", strict_json.dump_bytes(content), durable=False)
        except BaseException:
            self.abandon()
            raise
        self._who = who

    def _hear(self) -> bool:
        """Whether the wrapper says that the exit status is written, or hung up; it has its name then."""
        if self._line is None:
            return False
        try:
            said = self._line.recv(64, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            said = b""
        named = self._complete() or self._has_exit()
        if named and said:
            try:
                self._line.send(wrapper.NAMED)
            except OSError:
                # Killed in this moment: nobody waits for it.
                pass
        self.abandon()
        return named

    def _has_exit(self) -> bool:
        return os.path.exists(f"{self._root}/exit.json")  # noqa: PTH110 - cheaper

    def _complete(self) -> bool:
        """Give a finished exit status its name where the wrapper died before it could."""
        temporary = f"{self._root}/{wrapper.EXIT_TEMPORARY}"
        written = read_object(temporary)
        if written is None:
            return False
        try:
            storage.move(temporary, f"{self._root}/exit.json", durable=False)
        except FileNotFoundError:
            return self._has_exit()
        except StorageError:
            # A disk that cannot be written can still be read: exit() finds it there.
            return True
        self._exit = self._exit or exit_in(written)
        return True

    def _settled(self) -> ProcessIdentity | None:
        """The wrapper's identity, waited for while the call is starting."""
        end = time.monotonic() + 1.0
        while self.state() == "starting" and time.monotonic() < end:
            time.sleep(_FIRST_PAUSE)
        return self.process()

    def _wrapper(self) -> Member | None:
        """The wrapper's process while it runs."""
        if self._pid is not None:
            # Ours: its number is not given out again before we reap it.
            return find(self._pid) if children.has(self.folder) else None
        who = self.process()
        if who is None or identity.presence(who) != "alive":
            return None
        member = find(who.pid)
        return member if identity.presence(who) == "alive" else None

    def _finds(self, ender: Ender) -> bool:
        """Whether something of the call runs; looked for again as long as something holds the lock.

        One look can miss a process that is started during it by another one that ends.
        """
        for _ in range(_LOOKS):
            if ender.scan():
                return True
            if not self.held():
                # Its lock goes a moment before a process has ended.
                children.await_end(self.folder, _REAPED_WITHIN)
                return False
            time.sleep(_FIRST_PAUSE)
        # Only what looks into each process finds who holds it.
        ender.thorough = True
        return bool(ender.scan())

    def _circle(self) -> Circle:
        who = self.process()
        if who is None and self._pid is not None and children.has(self.folder):
            return Circle(self.call_id, self._pid, lambda started: True, self._strangers)
        if who is None or identity.presence(who) == "unknown" or _other_boot(who):
            return Circle(self.call_id, None, lambda started: False, self._strangers)
        if self._wrapper() is not None:
            ours: Callable[[float], bool] = lambda started: True  # noqa: E731
        else:
            ended = self.exit()
            limit = ended.ended_at_ms if ended is not None else 0
            now_ms = SystemClock().now_ms()
            # Its number cannot have been given out again before it ended.
            ours = lambda started: started_ms(started, now_ms) <= limit  # noqa: E731
        return Circle(self.call_id, who.pid, ours, self._strangers, self.lock_path, who.process_started_at)

    def _watch(self) -> int | None:
        """A descriptor that turns readable when the wrapper is gone; ``None`` where there is none."""
        if self._pidfd is not None or not self._watchable:
            return self._pidfd
        if not hasattr(os, "pidfd_open"):
            self._watchable = False
            return None
        own = children.has(self.folder) and self._pid is not None
        who = None if own else self.process()
        if not own and (who is None or identity.presence(who) != "alive"):
            return None
        pid = self._pid if own else who.pid if who is not None else None
        assert pid is not None
        try:
            fd = os.pidfd_open(pid)
        except OSError:
            return None
        # Asked again once the descriptor holds the process: the number may have been given out anew.
        if who is not None and identity.presence(who) != "alive":
            os.close(fd)
            return None
        self._pidfd = fd
        return fd

    def _reap(self) -> None:
        children.reap()


def _other_boot(who: ProcessIdentity) -> bool:
    return who.boot_id is not None and who.boot_id != identity.boot_id()


def _poll(watched: list[int | Wakeable | None], timeout: float) -> list[int]:
    """Which of ``watched`` are readable within ``timeout`` seconds."""
    poller = select.poll()
    for item in watched:
        if item is not None:
            poller.register(item, select.POLLIN)
    return [fd for fd, _ in poller.poll(timeout * 1000)]
