"""The runner: claims envelopes in order, works each to its end, and answers the operator meanwhile."""

from __future__ import annotations

import select
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from meshtui.core.calls import Call, EndReason, Waker, children
from meshtui.core.clock import Clock, SystemClock, iso
from meshtui.core.config import Config
from meshtui.core.engines.base import Usage, usage_so_far
from meshtui.core.engines.registry import AGENTS
from meshtui.core.errors import InvalidInput, LeaseLost, MeshtuiError
from meshtui.core.lane import control
from meshtui.core.lane.activity import Activity
from meshtui.core.lane.control import Request
from meshtui.core.lane.facts import facts_of
from meshtui.core.lane.index import list_records
from meshtui.core.lane.intake import Intake
from meshtui.core.lane.lease import Lease
from meshtui.core.lane.limits import Limits
from meshtui.core.lane.phase import Attempt, EngineFactory, PastDeadline, Phases, Restate, Settings
from meshtui.core.lane.poll import FolderPoll
from meshtui.core.lane.reconcile import reconcile
from meshtui.core.lane.serving import Serving, is_over
from meshtui.core.lane.settle import DEADLINE_EXCEEDED, LaneFiles, Settler, waits_for
from meshtui.core.models.envelope import kind_of
from meshtui.core.models.record import Record, load_record
from meshtui.core.models.result import make_result
from meshtui.core.run_dir import RunDir

POLL_SECONDS = 0.05
STATUS_SECONDS = 0.5
DRAIN_BYTES = 16 << 20
"""Output read at a time: a program that writes faster than it is read must not keep its deadline away."""
KILLED = "killed by operator"
OUTPUT_LIMIT = "output limit"

EndState = Literal["stopped", "parked", "aborted", "waiting", "handed over"]


@dataclass(frozen=True, slots=True)
class RunnerOptions:
    """What a runner is told at its start."""

    lane_id: str
    config: Config
    engine: str | None = None
    """The engine of envelopes that name none."""
    until_idle: bool = False
    take_over: bool = False
    repo: Path | None = None
    cwd: Path | None = None
    """Where phases run that say nothing about it and have no repository; the current directory."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a runner ended."""

    state: EndState
    completed: int
    """Phases this run brought to a result."""
    parked: bool
    """Whether something in the lane waits for the operator."""
    bad: bool
    """Whether a phase of this run ended badly."""


class _HandOver(Exception):
    """The runner ends and leaves its call running."""


class Runner:
    """Works one lane until it is told to end. ``run`` blocks; the requests may come from any thread."""

    def __init__(
        self,
        run_dir: RunDir,
        options: RunnerOptions,
        engines: EngineFactory,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._options = options
        self._paths = run_dir.lane
        self._files = LaneFiles.open(run_dir, options.lane_id, self._clock)
        self._settler = Settler(self._files)
        settings = Settings(options.config, options.engine, options.repo, options.cwd or Path.cwd())
        self._settings = settings
        self._phases = Phases(self._files, settings, engines)
        self._limits = Limits(self._files, self._settler, options.config.lane)
        self._lease = Lease(self._paths, self._clock)
        self._wake = Waker()
        self._intake = Intake(self._files, self._limits, self._lease)
        self._control_poll = FolderPoll(self._paths.control)
        self._depth_poll = FolderPoll(self._paths.pending)
        """Of the depth in ``loop.json`` while a phase runs."""
        self._stopping = False
        self._handing_over = False
        self._stop_requests: list[Request] = []
        self._serving = Serving(self._files, self._settler, end=self._end, relist=self._intake.relist)
        self._put_back_id: str | None = None
        self._survivors: tuple[str, ...] = ()
        self._completed = 0
        self._bad = False
        self._parked = False
        self._status_at = 0.0
        self._status_due = False
        """Whether ``loop.json`` waits for the phase to last longer than a moment."""

    @property
    def lane_id(self) -> str:
        """The lane's id."""
        return self._options.lane_id

    def listen(self, listener: Callable[[str, str, dict[str, Any]], None]) -> None:
        """Have ``listener(event, subject, data)`` called for every event this runner journals."""
        self._files.listener = listener

    def close(self) -> None:
        """Give back what a runner that was not run has opened."""
        self._wake.close()

    # -- from other threads -------------------------------------------------------------------------

    def request_stop(self) -> None:
        """End the active call, put its record back, end the runner."""
        self._stopping = True
        self._wake.set()

    def request_hand_over(self) -> None:
        """End the runner and leave its call to the next one."""
        self._handing_over = True
        self._wake.set()

    # -- life ---------------------------------------------------------------------------------------

    def run(self) -> RunOutcome:
        """Work the lane; raises :class:`Held` if another runner does, :class:`LeaseLost` if one takes over."""
        try:
            self._files.queue.make_folders()
            self._lease.acquire(take_over=self._options.take_over)
            try:
                return self._run_held()
            finally:
                self._lease.release()
        finally:
            self._wake.close()

    def _run_held(self) -> RunOutcome:
        try:
            try:
                state = self._work()
            finally:
                self._files.journal.flush()
        except _HandOver:
            self._files.note("runner_handed_over", self._options.lane_id)
            return self._outcome("handed over")
        except LeaseLost:
            raise
        except (MeshtuiError, OSError) as error:
            self._say_failed(error)
            raise
        self._answer_stops()
        return self._outcome(state)

    def _say_failed(self, error: Exception) -> None:
        """Leave word of the runner's own failure, as far as the disk still takes it."""
        status = self._files.status
        status.state, status.active_envelope_id, status.active_phase = "failed", None, None
        try:
            self._lease.verify()
            self._files.write_status()
            self._files.note("runner_failed", self._options.lane_id, error=str(error))
        except (MeshtuiError, OSError):
            # The first error is the one to report, and it is on its way.
            return

    def _outcome(self, state: EndState) -> RunOutcome:
        parked = bool(list_records(self._paths.stalled))
        return RunOutcome(state, self._completed, parked, self._bad)

    def _work(self) -> EndState:
        control.discard_old(self._paths, self._clock.now_ms())
        reconcile(self._files)
        self._files.note("runner_started", self._options.lane_id, **self._told())
        state = self._take_over_active()
        if state is None:
            state = self._loop()
        status = self._files.status
        status.active_envelope_id = status.active_phase = None
        status.state = {"stopped": "stopped", "parked": "parked"}.get(state, "waiting")  # type: ignore[assignment]
        self._lease.verify()
        self._files.write_status()
        self._files.note("runner_ended", self._options.lane_id, state=state)
        return state

    def _told(self) -> dict[str, Any]:
        """What this runner goes by, for whoever reads the journal: its caps, and what counts against them."""
        lane = self._options.config.lane
        caps = {"cost_usd": lane.max_cost_usd, "tokens": lane.max_tokens_estimate}
        known = {key: value for key, value in caps.items() if value is not None}
        return {
            "engine": self._settings.engine_for({}),
            "idle_seconds": lane.idle_seconds,
            "caps": known or None,
            "used": self._files.status.used.as_json() or None,
            "paused": True if self._paths.paused.exists() else None,
        }

    def _loop(self) -> EndState:
        idle = False
        while True:
            self._housekeep()
            if self._stopping:
                self._intake.give_back()
                return "aborted" if self._put_back_id is not None else "waiting"
            if self._limits.used_up():
                self._bad = True
                self._intake.give_back()
                return "waiting"
            paused = self._paths.paused.exists()
            if paused:
                self._intake.give_back()
            record = None if paused else self._intake.next()
            if record is None:
                self._files.journal.flush()
                if self._options.until_idle and not self._paths.paused.exists() and self._intake.used_up:
                    return "waiting"
                children.reap()
                if not idle:
                    idle = True
                    self._set_status("waiting", None)
                wait_for(self._wake, POLL_SECONDS)
                continue
            idle = False
            ended = self._run_record(record)
            if ended is not None:
                return ended

    # -- working ------------------------------------------------------------------------------------

    def _run_record(self, record: Record) -> EndState | None:
        """Work a claimed record to its end; the state to end the runner with, if it is to end."""
        if kind_of(record.envelope) == "stop":
            now = iso(self._clock.now_ms())
            result = make_result(
                record.envelope_id, "stopped", started_at=record.queued_at or now, finished_at=now
            )
            self._settler.finish(record, result)
            return "stopped"
        attempt = self._begin(record)
        return self._follow_to_end(attempt) if attempt is not None else self._park_state()

    def _begin(
        self, record: Record, fallback: Attempt | None = None, restate: Restate | None = None
    ) -> Attempt | None:
        self._limits.begun()
        try:
            attempt = self._phases.start(record, fallback=fallback, restate=restate)
        except PastDeadline:
            self._park_unrun(record)
            return None
        except InvalidInput as error:
            now = iso(self._clock.now_ms())
            engine = self._settings.engine_for(record.envelope)
            result = make_result(
                record.envelope_id, "failed", started_at=now, finished_at=now, error=str(error), engine=engine
            )
            self._finish(record, result, None)
            return None
        self._set_status("running", record)
        if attempt.notice is not None:
            self._files.note("engine_notice", record.envelope_id, engine=attempt.engine, text=attempt.notice)
        self._files.note(
            "phase_started",
            record.envelope_id,
            phase=waits_for(record.envelope, record.envelope_id),
            story_id=attempt.story or None,
            engine=attempt.engine,
            attempt=record.attempt,
            call=attempt.call.call_id,
            session_id=attempt.session_id,
            deadline_at=iso(attempt.deadline_at_ms),
            depth=self._files.queue.depth,
            **{
                key: value
                for key, value in facts_of(record).items()
                if key not in ("phase", "story_id", "engine")
            },
        )
        return attempt

    def _park_unrun(self, record: Record) -> None:
        deadline = record.envelope.get("deadline")
        self._lease.verify()
        self._settler.park(
            record,
            cause=f"deadline {deadline} had passed before the first start",
            attempts=0,
            started_at=iso(self._clock.now_ms()),
            evidence={"deadline": deadline},
        )
        self._parked = True
        self._completed += 1

    def _follow_to_end(self, attempt: Attempt) -> EndState | None:
        """Follow a call until it is over and settle it; the state to end the runner with, if any."""
        try:
            self._follow(attempt)
            return self._settle(attempt)
        finally:
            attempt.close()

    def _follow(self, attempt: Attempt) -> None:
        call = attempt.call
        idle = self._options.config.lane.idle_seconds
        activity = self._activity(attempt)
        while True:
            if is_over(call):
                activity.flush()
                return
            left = (attempt.deadline_at_ms - self._clock.now_ms()) / 1000
            over = call.wait(max(0.0, min(POLL_SECONDS, left)), self._wake)
            activity.saw(attempt.drain(DRAIN_BYTES), usage_so_far(attempt.reader))
            if over:
                activity.flush()
                return
            self._housekeep(attempt)
            if call.ending() is not None:
                self._end(attempt, "deadline")
                return
            if self._stopping:
                self._survivors = self._end(attempt, "stopped")
                return
            if self._clock.now_ms() >= attempt.deadline_at_ms:
                attempt.evidence = self._evidence(attempt)
                self._end(attempt, "deadline")
                return
            if idle is not None and attempt.vitals.silent_seconds(attempt.written, idle) >= idle:
                attempt.evidence = {**self._evidence(attempt), "idle_seconds": idle}
                self._end(attempt, "deadline")
                return
            if attempt.written > self._settings.max_output_bytes:
                self._end(attempt, "output")
                return
            if self._limits.watch(attempt):
                self._end(attempt, "budget")
                return

    def _activity(self, attempt: Attempt) -> Activity:
        """Journals what the agent of ``attempt`` does."""
        envelope_id, call = attempt.record.envelope_id, attempt.call.call_id

        def say(kind: str, text: str, usage: Usage | None) -> None:
            known = usage.as_json() if usage is not None else None
            self._files.note("phase_activity", envelope_id, kind=kind, text=text, call=call, usage=known)

        return Activity(say, agent=attempt.engine in AGENTS)

    def _end(self, attempt: Attempt, reason: EndReason) -> tuple[str, ...]:
        """End a call; an ending that somebody decided on earlier keeps its reason."""
        self._lease.verify()
        report = attempt.call.end(reason, "runner")
        if report.survivors:
            self._files.note(
                "call_survivors",
                attempt.record.envelope_id,
                call=attempt.call.call_id,
                survivors=report.survivors,
            )
        return report.survivors

    def _settle(self, attempt: Attempt) -> EndState | None:
        self._lease.verify()
        record, call = attempt.record, attempt.call
        ending = call.ending()
        reason = ending.reason if ending is not None else None
        lost = reason is None and call.state() == "lost"
        # A wrapper that ends as it should is waited for later: it names a file while others are written.
        self._note_left(record, call, patient=lost or reason is not None)
        self._lease.verify()
        if lost:
            self._limits.take(attempt)
            self._settler.put_back(record, event="phase_recovered", recovered=True)
            self._intake.relist()
            return None
        if reason == "stopped":
            self._settle_stopped(attempt)
            return None
        if reason == "deadline":
            if self._waits_for_limit(attempt):
                return None
            return self._settle_stall(attempt)
        if reason is not None:
            self._settle_ended(attempt, reason)
            return None
        outcome, code = self._phases.outcome(attempt)
        self._limits.take(attempt, outcome)
        if outcome.status == "unknown_session" and attempt.session_id is not None and not attempt.restating:
            self._files.note("session_unknown", record.envelope_id, session_id=attempt.session_id)
            self._note_left(record, call)
            again = self._begin(record, fallback=attempt)
            return self._follow_to_end(again) if again is not None else self._park_state()
        self._phases.keep_session(attempt, outcome)
        if outcome.status == "limit" and self._options.config.lane.on_limit == "hold":
            self._note_left(record, call)
            self._limits.hold(attempt, outcome)
            self._intake.relist()
            return None
        why = self._phases.lacks_handoff(attempt, outcome)
        if why is not None:
            self._files.note("handoff_missing", record.envelope_id, error=why, call=attempt.call.call_id)
            self._note_left(record, call)
            again = self._begin(record, restate=Restate(attempt, outcome, why))
            return self._follow_to_end(again) if again is not None else self._park_state()
        self._finish(record, *self._phases.result(attempt, outcome, code))
        if call.held():
            self._note_left(record, call)
        return None

    def _waits_for_limit(self, attempt: Attempt) -> bool:
        """Whether an agent spent its time on waiting for a usage limit to pass: then it is held, no stall."""
        if self._options.config.lane.on_limit != "hold" or not is_over(attempt.call):
            return False
        outcome, _ = self._phases.outcome(attempt)
        if outcome.status != "limit":
            return False
        self._limits.take(attempt)
        self._phases.keep_session(attempt, outcome)
        self._limits.hold(attempt, outcome)
        self._intake.relist()
        return True

    def _settle_stopped(self, attempt: Attempt) -> None:
        """Put the record back, unless something of its call cannot be ended: nothing may run beside that."""
        over = is_over(attempt.call)
        self._limits.take(attempt)
        if over:
            self._settler.put_back(attempt.record, event="phase_aborted")
            self._intake.relist()
        if over and attempt.decided:
            # That stop was meant for an earlier runner; this one was started after it.
            return
        self._put_back_id = attempt.record.envelope_id if over else None
        self._stopping = True

    def _settle_ended(self, attempt: Attempt, reason: str) -> None:
        """A phase that was ended has failed; as with any other that fails its session is kept."""
        if reason == "output":
            # Nobody wants to read the rest of a flood.
            attempt.out.skip()
        usage = self._limits.take(attempt)
        outcome, _ = self._phases.outcome(attempt)
        self._phases.keep_session(attempt, outcome)
        done = attempt.call.exit()
        if reason == "budget":
            error = self._limits.reached()
        else:
            error = {"killed": KILLED, "output": OUTPUT_LIMIT}.get(reason, f"ended: {reason}")
        result = make_result(
            attempt.record.envelope_id,
            "failed",
            started_at=attempt.started_at,
            finished_at=iso(self._clock.now_ms()),
            error=error,
            session_id=outcome.session_id,
            engine=attempt.engine,
            exit_code=done.code if done is not None else None,
            call=attempt.call.call_id,
            usage=usage.as_json() or None if usage else None,
        )
        self._finish(attempt.record, result, None)

    def _note_left(self, record: Record, call: Call, *, patient: bool = True) -> None:
        """End what a call that is over left running, and name it."""
        left = call.sweep(patient=patient)
        if left:
            self._files.note("call_left_running", record.envelope_id, call=call.call_id, ended=left)

    def _settle_stall(self, attempt: Attempt) -> EndState | None:
        record = attempt.record
        self._limits.take(attempt)
        parked = self._settler.stall(
            record,
            engine=attempt.engine,
            story=attempt.story,
            started_at=attempt.started_at,
            evidence=attempt.evidence or self._evidence(attempt),
            give_up=not is_over(attempt.call),
        )
        if not parked:
            self._intake.relist()
            return None
        self._parked = True
        self._completed += 1
        return self._park_state()

    def _evidence(self, attempt: Attempt) -> dict[str, Any]:
        evidence: dict[str, Any] = {
            "engine": attempt.engine,
            "call": attempt.call.call_id,
            "budget_seconds": attempt.record.budget_seconds,
            "output_bytes": attempt.written,
        }
        changed = [
            path.stat().st_mtime
            for path in (attempt.call.stdout, attempt.call.stderr)
            if path.exists() and path.stat().st_size
        ]
        if changed:
            evidence["last_output_at"] = iso(round(max(changed) * 1000))
        return {**evidence, **attempt.vitals.evidence()}

    def _park_state(self) -> EndState | None:
        if self._parked and self._options.config.lane.on_park != "continue":
            return "parked"
        return None

    def _finish(self, record: Record, result: dict[str, Any], handoff: dict[str, Any] | None) -> None:
        self._lease.verify()
        goes_on = not (
            self._stopping or self._handing_over or self._limits.full or self._paths.paused.exists()
        )
        result = self._settler.finish(record, result, handoff, then=self._intake.ahead if goes_on else None)
        self._completed += 1
        for claim in result.get("claims") or ():
            self._files.note("claim_unverified", record.envelope_id, **claim)
        if result["status"] == "failed" or result.get("handoff_status") in ("failed", "blocked"):
            self._bad = True

    # -- what an earlier runner left ----------------------------------------------------------------

    def _take_over_active(self) -> EndState | None:
        """Settle, adopt or recover every record in ``active/``."""
        for name in list_records(self._paths.active):
            self._lease.verify()
            try:
                record = load_record(self._paths.active / name)
            except InvalidInput as error:
                self._files.queue.quarantine("active", name, str(error))
                self._files.note("record_quarantined", name, reason=str(error), folder="active")
                continue
            state = self._take_over(record)
            if state is not None:
                return state
            if self._stopping:
                return "aborted"
        return None

    def _take_over(self, record: Record) -> EndState | None:
        status = self._settler.complete(record)
        if status is not None:
            if status == "stopped":
                return "stopped"
            self._parked = self._parked or status == "stalled"
            return self._park_state()
        call = attach(self._files.run_dir, record)
        if call is None or (call.state() == "lost" and call.ending() is None):
            if call is not None:
                # A program that let go of the lock may outlive its wrapper: it must not run beside its rerun.
                self._note_left(record, call)
            self._settler.put_back(record, event="phase_recovered", recovered=True)
            return None
        attempt = self._phases.adopt(record, call)
        attempt.decided = call.ending() is not None
        self._set_status("running", record)
        self._files.note(
            "phase_adopted",
            record.envelope_id,
            call=call.call_id,
            attempt=record.attempt,
            record=record.name,
            engine=attempt.engine,
            deadline_at=iso(attempt.deadline_at_ms),
        )
        if attempt.decided and call.state() != "ended":
            self._end(attempt, "stopped")
        return self._follow_to_end(attempt)

    # -- meanwhile ----------------------------------------------------------------------------------

    def _housekeep(self, attempt: Attempt | None = None) -> None:
        """Answer requests and keep ``loop.json`` true."""
        if self._status_due and attempt is not None:
            self._write_status()
        if self._handing_over:
            self._intake.give_back()
            raise _HandOver
        self._lease.verify()
        if self._control_poll.changed():
            for request in control.pending(self._paths):
                if request.request == "stop":
                    self._stopping = True
                    self._stop_requests.append(request)
                else:
                    self._serving.serve(request, attempt)
        now = self._clock.monotonic()
        if attempt is not None and now - self._status_at > STATUS_SECONDS and self._depth_poll.changed():
            self._files.write_status()
            self._status_at = now

    def _answer_stops(self) -> None:
        for request in self._stop_requests:
            control.answer(
                request,
                {"stopped": True, "envelope_id": self._put_back_id, "survivors": list(self._survivors)},
            )

    def _set_status(self, state: Literal["waiting", "running"], record: Record | None) -> None:
        status = self._files.status
        status.state = state
        status.active_envelope_id = record.envelope_id if record else None
        status.active_phase = waits_for(record.envelope, record.envelope_id) if record else None
        if state == "running" and self._clock.monotonic() - self._status_at < STATUS_SECONDS:
            # One of many short phases: told if it is still running at the next look, in 50 ms.
            self._status_due = True
            return
        self._write_status()

    def _write_status(self) -> None:
        self._lease.verify()
        self._files.status.write(self._files.queue.depth)
        self._status_at = self._clock.monotonic()
        self._status_due = False


def attach(run_dir: RunDir, record: Record) -> Call | None:
    """The call that works on ``record``, ``None`` if it names none."""
    if record.call is None:
        return None
    try:
        return Call.attach(run_dir, record.call)
    except InvalidInput:
        # Another tool's field of the same name.
        return None


def wait_for(wake: Waker, seconds: float) -> None:
    """Sleep, or less if somebody wakes us."""
    poller = select.poll()
    poller.register(wake, select.POLLIN)
    poller.poll(seconds * 1000)


__all__ = ["DEADLINE_EXCEEDED", "RunOutcome", "Runner", "RunnerOptions"]
