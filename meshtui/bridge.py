"""The console's only connection to the engine: threads on one side, posted messages on the other.

It owns the watcher, the inspector, the threads of running operations, and the runner that lives in the
console. Nothing of it touches a widget; every value it posts is frozen.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from textual.message import Message

from meshtui.core.clock import Clock, SystemClock
from meshtui.core.errors import MeshtuiError
from meshtui.core.run_dir import RunDir
from meshtui.core.view import Detail, LaneView
from meshtui.core.watch import Watcher
from meshtui.inspector import Inspector
from meshtui.messages import ModeChanged, RunnerChanged, Told, ViewChanged
from meshtui.receipts import outcome_text

Severity = Literal["information", "warning", "error"]

Ending = Literal["stop", "hand over", "let go"]
"""End the call with the runner; leave the call to a detached runner; leave it to whoever comes."""

END_SECONDS = 20.0
"""How long an ending runner is waited for: a call is given five seconds before it is killed."""


class Reader(Protocol):
    """Makes views and details of a lane."""

    def refresh(self, *, budget: int = 500) -> LaneView: ...

    def detail(self, key: str) -> Detail | None: ...


class Operations(Protocol):
    """The operations on a lane; each returns a receipt and may block."""

    def enqueue(self, envelope: dict[str, Any]) -> Any: ...
    def interrupt(self) -> Any: ...
    def restore(self) -> Any: ...
    def withdraw(self, envelope_id: str) -> Any: ...
    def requeue(self, envelope_id: str) -> Any: ...
    def answer(
        self,
        envelope_id: str,
        action: Literal["retry", "drop"],
        *,
        engine: str | None = None,
        deadline_seconds: float | None = None,
    ) -> Any: ...
    def kill(self, envelope_id: str) -> Any: ...
    def stop(self, *, drain: bool = False) -> Any: ...
    def pause(self) -> Any: ...
    def resume(self) -> Any: ...
    def quarantine_repair(self, name: str) -> Any: ...
    def quarantine_drop(self, name: str) -> Any: ...


class LocalRunner(Protocol):
    """A runner that works the lane until it is asked to end."""

    def run(self) -> Any: ...
    def request_stop(self) -> None: ...
    def request_hand_over(self) -> None: ...


class Engine(Protocol):
    """Everything of the engine that a console uses."""

    def reader(self) -> Reader: ...
    def operations(self, *, create: bool = False) -> Operations: ...
    def runner(self, *, take_over: bool = False) -> LocalRunner: ...
    def start_detached(self) -> int: ...


class LaneEngine:
    """The real engine, for one run directory.

    ``runner_options`` are the keywords of :func:`meshtui.core.lane.service.open_runner`, such as ``engine``
    and ``run``; ``detach_arguments`` the same for the command line of a runner that takes over.
    """

    def __init__(
        self,
        run_dir: RunDir,
        *,
        runner_options: Mapping[str, Any] | None = None,
        detach_arguments: Sequence[str] = (),
        clock: Clock | None = None,
    ) -> None:
        self._run_dir = run_dir
        self._runner_options = dict(runner_options or {})
        self._detach_arguments = tuple(detach_arguments)
        self._clock = clock if clock is not None else SystemClock()

    def reader(self) -> Reader:
        from meshtui.core.lane.reader import LaneReader

        return LaneReader(self._run_dir, clock=self._clock)

    def operations(self, *, create: bool = False) -> Operations:
        from meshtui.core.lane.lane import Lane

        if create:
            self._create()
        return Lane(self._run_dir, clock=self._clock)

    def runner(self, *, take_over: bool = False) -> LocalRunner:
        from meshtui.core.lane.service import open_runner

        self._create()
        options = {**self._runner_options, "clock": self._clock}
        return open_runner(
            self._run_dir, **{**options, "take_over": take_over or options.get("take_over", False)}
        )

    def start_detached(self) -> int:
        from meshtui.core.lane.service import start_detached

        return start_detached(self._run_dir, arguments=self._detach_arguments)

    def _create(self) -> None:
        from meshtui.core.lane.create import create_run_dir

        create_run_dir(self._run_dir.root, self._clock)


class Bridge:
    """Runs the engine behind a console; ``post`` may be called from any thread."""

    def __init__(self, run_dir: RunDir, engine: Engine, post: Callable[[Message], object]) -> None:
        self._engine = engine
        self._sink = post
        self._closed = False
        self._reader = engine.reader()
        self._watcher = Watcher(
            run_dir,
            self._reader,
            on_view=lambda view: self._post(ViewChanged(view)),
            on_mode=lambda mode, reason: self._post(ModeChanged(mode, reason)),
            on_problem=lambda text: self._post(Told(text, "error")),
        )
        self._inspector = Inspector(self._reader.detail, self._post)
        self._working: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self._runner: LocalRunner | None = None
        self._runner_thread: threading.Thread | None = None
        self._ending: Ending | None = None

    def _post(self, message: Message) -> None:
        if self._closed:
            return
        try:
            self._sink(message)
        except RuntimeError:
            # The loop ended between the check and the post: there is nobody left to tell.
            self._closed = True

    def _failed(self, error: Exception) -> None:
        """Tell of a failure; one that nobody foresaw is named by its kind, too."""
        foreseen = isinstance(error, (MeshtuiError, OSError))
        self._post(Told(str(error) if foreseen else f"{type(error).__name__}: {error}", "error"))

    def start(self) -> None:
        """Follow the run directory."""
        self._watcher.start()

    def close(self, timeout: float = 3.0) -> bool:
        """End every thread; whether all ended within ``timeout`` seconds.

        A runner that still lives lets go of its call, which the next one adopts.
        """
        self._closed = True
        self._ending = self._ending or "let go"
        self._request(self._ending)
        until = time.monotonic() + timeout
        ended = self._watcher.stop(timeout)
        ended = self._inspector.stop(max(0.1, until - time.monotonic())) and ended
        with self._lock:
            working = [*self._working, *([self._runner_thread] if self._runner_thread is not None else [])]
        for thread in working:
            thread.join(max(0.0, until - time.monotonic()))
            ended = ended and not thread.is_alive()
        return ended

    # Reading

    def inspect(self, key: str | None, *, output: bool) -> None:
        """Read the record ``key`` for the details; ``None`` reads nothing more."""
        if key is None:
            self._inspector.rest()
        else:
            self._inspector.ask(key, output=output)

    # Operations

    def operate(
        self,
        work: Callable[[Operations], Any],
        told: Callable[[Any], tuple[str, Severity]],
        *,
        create: bool = False,
    ) -> None:
        """Do ``work`` in a thread and post its receipt, as ``told`` puts it, or its error.

        ``create`` makes the run directory if there is none.
        """

        def run() -> None:
            try:
                text, severity = told(work(self._engine.operations(create=create)))
                self._post(Told(text, severity))
            except Exception as error:  # noqa: BLE001 - shown; a thread's traceback would tear the screen
                self._failed(error)
            finally:
                with self._lock:
                    self._working.discard(threading.current_thread())
                self._watcher.nudge()

        self._thread(run, "meshtui-operation")

    def _thread(self, run: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=run, name=name, daemon=True)
        with self._lock:
            self._working.add(thread)
        thread.start()

    # The runner in the console

    @property
    def runner_alive(self) -> bool:
        """Whether a runner lives here."""
        return self._runner_thread is not None and self._runner_thread.is_alive()

    def start_runner(self, *, take_over: bool = False) -> None:
        """Start a runner behind the console; ``take_over`` ends one that hangs first."""
        if self.runner_alive:
            return
        self._ending = None
        self._runner_thread = threading.Thread(
            target=self._work, args=(take_over,), name="meshtui-runner", daemon=True
        )
        self._runner_thread.start()

    def _work(self, take_over: bool) -> None:
        self._post(RunnerChanged(True))
        try:
            self._runner = self._engine.runner(take_over=take_over)
            if self._ending is not None:
                self._request(self._ending)
            text, severity = outcome_text(self._runner.run())
            self._post(Told(text, severity))
        except Exception as error:  # noqa: BLE001 - shown; a thread's traceback would tear the screen
            self._failed(error)
        finally:
            self._runner = None
            self._post(RunnerChanged(False))
            self._watcher.nudge()

    def _request(self, how: Ending) -> None:
        runner = self._runner
        if runner is None:
            return
        if how == "stop":
            runner.request_stop()
        else:
            runner.request_hand_over()

    def stop_runner(self) -> None:
        """Ask the runner here to end its call, put the record back and end; returns at once."""
        self._ending = "stop"
        self._request("stop")

    def end_runner(self, how: Ending, finished: Callable[[bool, str], object]) -> None:
        """End the runner here and call ``finished(whether it ended, what to say)`` from a thread.

        After ``hand over`` a detached runner holds the lane and has adopted the running call.
        """

        def run() -> None:
            self._ending = how
            self._request(how)
            thread = self._runner_thread
            if thread is not None:
                thread.join(END_SECONDS)
            try:
                if self.runner_alive:
                    finished(
                        False,
                        f"the runner did not end within {END_SECONDS:.0f} s; quit again, or stop the lane with: meshtui stop",
                    )
                elif how == "let go":
                    finished(True, "The runner ended; the running call goes on for the next one.")
                elif how == "hand over":
                    pid = self._engine.start_detached()
                    finished(True, f"Handed over: runner {pid} carries the lane on.")
                else:
                    finished(True, "The runner ended; its active phase is back in the queue.")
            except Exception as error:  # noqa: BLE001 - shown by who asked
                finished(False, str(error))
            finally:
                with self._lock:
                    self._working.discard(threading.current_thread())

        self._thread(run, "meshtui-ending")
