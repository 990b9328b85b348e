"""The console's only connection to the engine: threads on one side, posted messages on the other.

It owns the watcher, the inspector, the threads of running operations, and the runner that lives in the
console. Nothing of it touches a widget; every value it posts is frozen.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from textual.message import Message

from meshtui.core.clock import Clock, SystemClock
from meshtui.core.errors import MeshtuiError
from meshtui.core.run_dir import RunDir
from meshtui.core.view import Detail, LaneView, Row
from meshtui.core.watch import FIRST_FILES, POLL_SECONDS, Watcher
from meshtui.inspector import Inspector
from meshtui.messages import (
    HistoryRead,
    MissionsRunning,
    ModeChanged,
    Refused,
    RunnerChanged,
    SignsRead,
    Told,
    ViewChanged,
)
from meshtui.receipts import mission_outcome, outcome_text

if TYPE_CHECKING:
    from meshtui.core.history import HistoryReader
    from meshtui.core.lane.signs import SignsReader
    from meshtui.core.mesh.detail import LoopPart
    from meshtui.core.mesh.view import LoopRow, MissionView
    from meshtui.loop_inspector import LoopInspector
    from meshtui.missions import MissionOperations, MissionRunnerLike

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
    def restore(self, ids: Sequence[str] | None = None, *, in_place: bool = False) -> Any: ...
    def withdraw(self, envelope_id: str) -> Any: ...
    def withdraw_many(self, ids: Sequence[str]) -> Any: ...
    def requeue(self, envelope_id: str) -> Any: ...
    def requeue_many(self, ids: Sequence[str]) -> Any: ...
    def head(self, ids: Sequence[str]) -> Any: ...
    def place(self, names: Mapping[str, str]) -> Any: ...
    def envelope(self, envelope_id: str) -> tuple[str, dict[str, Any]]: ...
    def edit(
        self, envelope_id: str, envelope: Mapping[str, Any], *, base: Mapping[str, Any] | None = None
    ) -> Any: ...
    def park_again(self, envelope_id: str) -> Any: ...
    def answer(
        self,
        envelope_id: str,
        action: Literal["retry", "drop"],
        *,
        engine: str | None = None,
        deadline_seconds: float | None = None,
    ) -> Any: ...
    def kill(self, envelope_id: str) -> Any: ...
    def extend(self, envelope_id: str, seconds: float) -> Any: ...
    def message(self, envelope_id: str, text: str) -> Any: ...
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
    def missions(self) -> MissionOperations: ...


class Glanced:
    """A reader whose first view was read already."""

    def __init__(self, reader: Reader, view: LaneView) -> None:
        self._reader = reader
        self._view: LaneView | None = view

    def refresh(self, *, budget: int = 500) -> LaneView:
        view, self._view = self._view, None
        return view if view is not None else self._reader.refresh(budget=budget)

    def detail(self, key: str) -> Detail | None:
        return self._reader.detail(key)


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
        self._glanced: Reader | None = None

    def glance(self) -> LaneView | None:
        """A first view, read before there is a screen, so that the first frame has it; ``None`` if it fails."""
        reader = self.reader()
        try:
            view = reader.refresh(budget=FIRST_FILES)
        except (MeshtuiError, OSError):
            # The watcher meets the same and tells.
            return None
        self._glanced = Glanced(reader, view)
        return view

    def reader(self) -> Reader:
        if self._glanced is not None:
            reader, self._glanced = self._glanced, None
            return reader
        from meshtui.core.overview import RunDirReader

        return RunDirReader(self._run_dir, clock=self._clock)

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

    def missions(self) -> MissionOperations:
        from meshtui.missions import MeshMissions

        return MeshMissions(self._run_dir, clock=self._clock)

    def _create(self) -> None:
        from meshtui.core.lane.create import create_run_dir

        create_run_dir(self._run_dir.root, self._clock)


class _Mission:
    """A mission that runs in this console."""

    def __init__(self, thread: threading.Thread) -> None:
        self.thread = thread
        self.runner: MissionRunnerLike | None = None
        self.ending: Ending | None = None


class Bridge:
    """Runs the engine behind a console; ``post`` may be called from any thread."""

    def __init__(
        self,
        run_dir: RunDir,
        engine: Engine,
        post: Callable[[Message], object],
        *,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self.run_dir = run_dir
        self._engine = engine
        self._sink = post
        self._poll_seconds = poll_seconds
        self._closed = False
        self._reader: Reader | None = None
        self._watcher: Watcher | None = None
        self._ending_watchers: list[Watcher] = []
        """Those that were told to stop and may still look."""
        self._inspector = Inspector(self._detail, self._post)
        self._loops: LoopInspector | None = None
        self._history: HistoryReader | None = None
        self._history_lock = threading.Lock()
        self._signs: SignsReader | None = None
        self._signs_lock = threading.Lock()
        self._missions: dict[str, _Mission] = {}
        self._working: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self._runner: LocalRunner | None = None
        self._runner_thread: threading.Thread | None = None
        self._ending: Ending | None = None
        self._following: object = None
        self.on_done: Callable[[], object] = lambda: None
        """Called from any thread after something was done to the run directory."""

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

    def talk_to(self, post: Callable[[Message], object]) -> None:
        """Post to somebody else from now on."""
        self._sink = post

    def start(self) -> None:
        """Follow the run directory."""
        if self._watcher is not None:
            return
        self._reader = self._engine.reader()
        token = object()
        self._following = token

        def on_view(view: LaneView) -> None:
            # A watcher that was told to stop may be in the middle of a look.
            if self._following is token:
                self._post(ViewChanged(view))

        self._watcher = Watcher(
            self.run_dir,
            self._reader,
            on_view=on_view,
            on_mode=lambda mode, reason: self._post(ModeChanged(mode, reason)),
            on_problem=lambda text: self._post(Told(text, "error")),
            poll_seconds=self._poll_seconds,
        )
        self._watcher.start()

    def rest(self) -> None:
        """Follow nothing, while what runs here goes on; returns at once."""
        self._following = None
        self._inspector.rest()
        if self._loops is not None:
            self._loops.rest()
        if self._watcher is not None:
            self._watcher.stop(0.0)
            # It has its reader to itself until it ends.
            self._ending_watchers = [one for one in self._ending_watchers if one.alive] + [self._watcher]
            self._watcher, self._reader = None, None

    def nudge(self) -> None:
        """Look at the run directory soon: something was done there."""
        if self._watcher is not None:
            self._watcher.nudge()
        self.on_done()

    def _detail(self, key: str) -> Detail | None:
        reader = self._reader
        return reader.detail(key) if reader is not None else None

    def close(self, timeout: float = 3.0) -> bool:
        """End every thread; whether all ended within ``timeout`` seconds.

        A runner that still lives lets go of its call, which the next one adopts.
        """
        self._closed = True
        self._ending = self._ending or "let go"
        self._request(self._ending)
        until = time.monotonic() + timeout
        self.rest()
        watchers = [one.stop(max(0.0, until - time.monotonic())) for one in self._ending_watchers]
        ended = all(watchers)
        ended = self._inspector.stop(max(0.1, until - time.monotonic())) and ended
        if self._loops is not None:
            ended = self._loops.stop(max(0.1, until - time.monotonic())) and ended
        with self._lock:
            working = [*self._working, *self._runner_threads]
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

    def inspect_loop(self, mission: MissionView | None, row: LoopRow | None, part: LoopPart) -> None:
        """Read a part of a loop for the details; ``None`` reads nothing more."""
        if mission is None or row is None:
            if self._loops is not None:
                self._loops.rest()
            return
        if self._loops is None:
            from meshtui.loop_inspector import LoopInspector

            self._loops = LoopInspector(self._post)
        self._loops.ask(mission, row, part)

    def read_history(self) -> None:
        """Read what came to the journal and post the bars and figures; at most one reader at a time."""
        if not self._history_lock.acquire(blocking=False):
            return

        def run() -> None:
            try:
                if self._history is None:
                    from meshtui.core.history import HistoryReader

                    self._history = HistoryReader(self.run_dir.events)
                self._post(HistoryRead(self._history.read()))
            except Exception as error:  # noqa: BLE001 - shown; a thread's traceback would tear the screen
                self._failed(error)
            finally:
                self._history_lock.release()
                with self._lock:
                    self._working.discard(threading.current_thread())

        self._thread(run, "meshtui-history")

    def read_signs(self, row: Row | None) -> None:
        """Look for the signs of life of the running phase ``row`` and post them."""
        if not self._signs_lock.acquire(blocking=False):
            return

        def run() -> None:
            try:
                if self._signs is None:
                    from meshtui.core.lane.signs import SignsReader

                    self._signs = SignsReader(self.run_dir)
                self._post(SignsRead(self._signs.read(row) if row is not None else None))
            except Exception as error:  # noqa: BLE001 - shown; a thread's traceback would tear the screen
                self._failed(error)
            finally:
                self._signs_lock.release()
                with self._lock:
                    self._working.discard(threading.current_thread())

        self._thread(run, "meshtui-signs")

    # Operations

    def operate(
        self,
        work: Callable[[Operations], Any],
        told: Callable[[Any], tuple[str, Severity]],
        *,
        create: bool = False,
        failed: Callable[[Exception], object] | None = None,
    ) -> None:
        """Do ``work`` in a thread and post its receipt, as ``told`` puts it, or its error.

        ``create`` makes the run directory if there is none; ``failed`` gets the error first, in the
        thread, and is true if it tells it.
        """

        self._work_on(lambda: work(self._engine.operations(create=create)), self._tells(told), failed)

    def gather(self, work: Callable[[Engine], Any], then: Callable[[Any], object]) -> None:
        """Do ``work`` in a thread and hand ``then`` there what it gave, or its error; nothing is posted."""

        def run() -> None:
            try:
                found = work(self._engine)
            except Exception as error:  # noqa: BLE001 - told by who asked
                found = error
            then(found)

        self._work_on(run, lambda _: None)

    def ask(self, work: Callable[[Operations], Any], answer: Callable[[Any], Message]) -> None:
        """Do ``work`` in a thread and post what ``answer`` makes of it, or its error."""
        self._work_on(lambda: work(self._engine.operations()), lambda found: self._post(answer(found)))

    def operate_missions(
        self,
        work: Callable[[MissionOperations], Any],
        told: Callable[[Any], tuple[str, Severity]],
        *,
        failed: Callable[[Exception], object] | None = None,
    ) -> None:
        """Do ``work`` on missions in a thread and post its receipt or its error."""
        self._work_on(lambda: work(self._engine.missions()), self._tells(told), failed)

    def ask_missions(
        self,
        work: Callable[[MissionOperations], Any],
        answer: Callable[[Any], Message],
        failed: Callable[[Exception], Message] | None = None,
    ) -> None:
        """Do ``work`` on missions in a thread and post what ``answer`` makes of it."""
        on_error = None
        if failed is not None:
            make = failed

            def on_error(error: Exception) -> bool:
                message = make(error)
                self._post(message)
                return isinstance(message, Refused)

        self._work_on(
            lambda: work(self._engine.missions()), lambda found: self._post(answer(found)), on_error
        )

    def missions(self) -> MissionOperations:
        """The operations themselves, for what takes no time."""
        return self._engine.missions()

    def _tells(self, told: Callable[[Any], tuple[str, Severity]]) -> Callable[[Any], None]:
        def tell(found: Any) -> None:
            text, severity = told(found)
            self._post(Told(text, severity))

        return tell

    def _work_on(
        self,
        work: Callable[[], Any],
        then: Callable[[Any], None],
        failed: Callable[[Exception], object] | None = None,
    ) -> None:
        def run() -> None:
            try:
                then(work())
            except Exception as error:  # noqa: BLE001 - shown; a thread's traceback would tear the screen
                # Who shows it in a form again says it there, beside what was written.
                if failed is None or not failed(error):
                    self._failed(error)
            finally:
                with self._lock:
                    self._working.discard(threading.current_thread())
                self.nudge()

        self._thread(run, "meshtui-operation")

    def _thread(self, run: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=run, name=name, daemon=True)
        with self._lock:
            self._working.add(thread)
        thread.start()

    # The runners in the console

    @property
    def runner_alive(self) -> bool:
        """Whether a runner of the lane lives here."""
        return self._runner_thread is not None and self._runner_thread.is_alive()

    @property
    def missions_alive(self) -> tuple[str, ...]:
        """The missions that run here."""
        with self._lock:
            return tuple(name for name, one in self._missions.items() if one.thread.is_alive())

    @property
    def busy(self) -> bool:
        """Whether anything runs that leaving would end."""
        return self.runner_alive or bool(self.missions_alive)

    @property
    def following(self) -> bool:
        """Whether the run directory is looked at."""
        return self._watcher is not None

    @property
    def operating(self) -> bool:
        """Whether an operation is not through yet."""
        with self._lock:
            return bool(self._working)

    @property
    def _runner_threads(self) -> list[threading.Thread]:
        lane = [self._runner_thread] if self._runner_thread is not None else []
        return [*lane, *(one.thread for one in self._missions.values())]

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
            self.nudge()

    def start_mission(self, mission_id: str) -> bool:
        """Run a mission behind the console; whether it was not running here already."""
        with self._lock:
            known = self._missions.get(mission_id)
            if known is not None and known.thread.is_alive():
                return False
            thread = threading.Thread(
                target=self._run_mission,
                args=(mission_id,),
                name=f"meshtui-mission-{mission_id}",
                daemon=True,
            )
            self._missions[mission_id] = _Mission(thread)
        thread.start()
        return True

    def _run_mission(self, mission_id: str) -> None:
        mine = self._missions[mission_id]
        self._post(MissionsRunning(self.missions_alive))
        try:
            mine.runner = self._engine.missions().runner(mission_id)
            if mine.ending is not None:
                self._request_mission(mine, mine.ending)
            text, severity = mission_outcome(mine.runner.run())
            self._post(Told(text, severity))
        except Exception as error:  # noqa: BLE001 - shown; a thread's traceback would tear the screen
            self._failed(error)
        finally:
            mine.runner = None
            self._post(MissionsRunning(tuple(name for name in self.missions_alive if name != mission_id)))
            self.nudge()

    def stop_mission(self, mission_id: str) -> None:
        """Ask the mission's runner here to end its calls and to end; returns at once."""
        mine = self._missions.get(mission_id)
        if mine is not None:
            self._request_mission(mine, "stop")

    def _request_mission(self, mine: _Mission, how: Ending) -> None:
        mine.ending = how
        runner = mine.runner
        if runner is not None:
            (runner.request_stop if how == "stop" else runner.request_hand_over)()

    def _request(self, how: Ending) -> None:
        """Ask every runner here to end."""
        for mine in list(self._missions.values()):
            self._request_mission(mine, how)
        runner = self._runner
        if runner is not None:
            (runner.request_stop if how == "stop" else runner.request_hand_over)()

    def stop_runner(self) -> None:
        """Ask the lane's runner here to end its call, put the record back and end; returns at once."""
        self._ending = "stop"
        if self._runner is not None:
            self._runner.request_stop()

    def end_runner(self, how: Ending, finished: Callable[[bool, str], object]) -> None:
        """End the runners here and call ``finished(whether they ended, what to say)`` from a thread.

        After ``hand over`` detached runners hold the lane and the missions and have adopted the running calls.
        """

        def run() -> None:
            try:
                finished(*self.end(how))
            except Exception as error:  # noqa: BLE001 - shown by who asked
                finished(False, str(error))
            finally:
                with self._lock:
                    self._working.discard(threading.current_thread())

        self._thread(run, "meshtui-ending")

    def end(self, how: Ending) -> tuple[bool, str]:
        """End the runners here and wait for it: whether they ended, and what to say."""
        lane, missions = self.runner_alive, self.missions_alive
        self._ending = how
        self._request(how)
        until = time.monotonic() + END_SECONDS
        for thread in self._runner_threads:
            thread.join(max(0.0, until - time.monotonic()))
        if self.busy:
            where = "stop the lane with: meshtui stop" if self.runner_alive else "kill its loops first: X"
            return False, f"the runner did not end within {END_SECONDS:.0f} s; quit again, or {where}"
        if how == "let go":
            return True, "The runner ended; the running call goes on for the next one."
        said = []
        if how == "hand over":
            if lane:
                said.append(f"Handed over: runner {self._engine.start_detached()} carries the lane on.")
            for name in missions:
                pid = self._engine.missions().start_detached(name)
                said.append(f"Handed over: runner {pid} carries mission {name} on.")
        else:
            if lane or not missions:
                said.append("The runner ended; its active phase is back in the queue.")
            said += [f"Mission {name} stopped; meshtui resume {name} goes on with it." for name in missions]
        return True, " ".join(said)
