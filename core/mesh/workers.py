"""Workers of a loop: makers, checkers, arbiters and gates as calls, several at once, adopted after a crash."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from meshtui.core.calls import (
    Call,
    CallSpec,
    OutputFollower,
    new_call_id,
    read_tail,
    scrubbed_environment,
)
from meshtui.core.calls.call import EndReason
from meshtui.core.clock import from_iso, iso
from meshtui.core.engines.base import EngineRequest, Outcome, OutputReader, Role, Usage, usage_so_far
from meshtui.core.engines.limits import hold_until
from meshtui.core.engines.registry import AGENTS
from meshtui.core.errors import LeaseLost, MeshtuiError, StorageError
from meshtui.core.lane.activity import Activity
from meshtui.core.mesh.context import (
    Checkpoints,
    HeldWorker,
    LoopBlocked,
    LoopHandedOver,
    LoopKilled,
    LoopStopped,
    MissionContext,
    Progress,
)
from meshtui.core.mesh.files import append_line
from meshtui.core.mesh.meter import Meter
from meshtui.core.mesh.tasks import Finished, Task, end_together
from meshtui.core.models.mesh import Node

STDERR_TAIL = 64 << 10
STEP_SECONDS = 0.02
MOST_LOST = 2
"""How often a worker that vanished without an end is started again at once."""
CARRIED_OUT = ("deadline", "output", "limit")
"""Ends that stay true after a restart; after the others the worker runs again."""
GATE = "gate"
DRAIN_BYTES = 4 << 20
"""Output read at a time: one worker that floods must not keep the others' deadlines, or its own, away."""


@dataclass(slots=True)
class _Running:
    task: Task
    call: Call
    reader: OutputReader | None
    out: OutputFollower
    deadline_ms: int | None
    started_ms: int
    argv: tuple[str, ...]
    activity: Activity
    ender: threading.Thread | None = None
    """Ends the call while the others go on to be followed."""
    failure: MeshtuiError | None = None
    """Why that could not be done."""


def _end(item: _Running, call: Call, reason: EndReason) -> None:
    """End a call; what stands against it (a full disk) is raised where the call is followed."""
    try:
        call.end(reason, "runner")
    except MeshtuiError as error:
        item.failure = error


class Crew:
    """Runs the workers of one loop, within its budget and under the operator's hand."""

    def __init__(
        self, context: MissionContext, node: Node, progress: Progress, checkpoints: Checkpoints
    ) -> None:
        self._context = context
        self._node = node
        self._progress = progress
        self._checkpoints = checkpoints
        self.meter = Meter(context, node, progress)

    # -- running ------------------------------------------------------------------------------------

    def run(self, tasks: Sequence[Task]) -> list[Finished]:
        """Run ``tasks`` side by side as far as slots and budget allow; in the order of ``tasks``.

        Calls that the checkpoint names for a slot are adopted, or taken as they ended. Raises what the
        operator asks, and :class:`LoopBlocked` when a budget ends.
        """
        waiting = list(tasks)
        running: list[_Running] = []
        done: dict[str, Finished] = {}
        lost: dict[str, int] = {}
        waiting = [self._held_before(task) for task in waiting]
        try:
            while waiting or running:
                now = self._context.clock.now_ms()
                ready = [task for task in waiting if self._held_until(task) <= now]
                if not ready and not running:
                    # A usage limit is no fault of the loop: the wait for it is not its time.
                    self._progress.wall_recorded_at = now
                self._check(running)
                if self.meter.warn(item.reader for item in running):
                    self._checkpoints.save(self._progress)
                self.meter.check_usage([item.reader for item in running if item.reader is not None])
                most = self._node.budget.max_subagents
                while ready and len(running) < most and (started := self._begin(ready[0])) is not None:
                    waiting.remove(ready.pop(0))
                    running.append(started)
                    alive = len(running)
                    self._progress.used.subagents = max(self._progress.used.subagents, alive)
                for item in list(running):
                    if item.call.wait(STEP_SECONDS / max(1, len(running))) or self._over(item):
                        running.remove(item)
                        finished = self._end_of(item)
                        slot = item.task.slot
                        if finished.ending == "lost" and lost.get(slot, 0) < MOST_LOST:
                            lost[slot] = lost.get(slot, 0) + 1
                            waiting.insert(0, item.task)
                        elif self._is_limited(finished):
                            waiting.insert(0, self._hold(item.task, finished))
                        else:
                            self._progress.held.pop(slot, None)
                            done[slot] = finished
                    else:
                        self._watch(item)
                if waiting and not running:
                    time.sleep(STEP_SECONDS)
        except (LoopHandedOver, LeaseLost, StorageError):
            # The next runner adopts them.
            for item in running:
                item.call.close()
                item.out.close()
                self._context.slots.give_back()
            raise
        except (LoopKilled, LoopStopped, LoopBlocked, MeshtuiError) as reason:
            self._end_all(running, reason)
            raise
        return [done[task.slot] for task in tasks]

    def _is_limited(self, finished: Finished) -> bool:
        limited = finished.outcome is not None and finished.outcome.status == "limit"
        return limited and self._context.config.lane.on_limit == "hold"

    def _held_until(self, task: Task) -> int:
        """Until when a worker is held, in ms; 0 if nothing holds it."""
        held = self._progress.held.get(task.slot)
        if held is None or task.engine is None or held.engine != task.engine.name:
            return 0
        return 0 if task.slot in self._progress.calls else held.until_ms

    def _held_before(self, task: Task) -> Task:
        """A task as it goes on where an earlier runner held it: a maker in its session."""
        if task.role == "maker" and task.session_id is None and self._held_until(task):
            return replace(task, session_id=self._progress.sessions.get(task.slot))
        return task

    def _hold(self, task: Task, finished: Finished) -> Task:
        """Hold a worker that ran into a usage limit, durably; how it goes on.

        A maker goes on in its session; a checker or arbiter has to be fresh and starts over.
        """
        outcome, engine = finished.outcome, task.engine
        assert outcome is not None
        assert engine is not None
        now = self._context.clock.now_ms()
        before = self._progress.held.get(task.slot)
        holds = before.holds + 1 if before is not None else 1
        until, known = hold_until(outcome.reset_at_ms, now, holds)
        session = (outcome.session_id or task.session_id) if task.role == "maker" else None
        if session is not None:
            self._progress.sessions[task.slot] = session
        self._progress.held[task.slot] = HeldWorker(
            engine=engine.name,
            until_ms=until,
            since_ms=before.since_ms if before is not None else now,
            holds=holds,
            known=known,
            error=outcome.error or "",
            kept=task.role == "maker",
        )
        self._progress.calls.pop(task.slot, None)
        self._progress.used.model_calls = max(0, self._progress.used.model_calls - 1)
        self._checkpoints.save(self._progress)
        self._context.note(
            "worker_held",
            self._node.loop_id,
            worker=task.slot,
            engine=engine.name,
            until=iso(until),
            reset_known=known,
            holds=holds,
            error=outcome.error,
        )
        return replace(task, session_id=session)

    def takes_over(self, slot: str) -> bool:
        """Whether the checkpoint names a call for ``slot`` that lives or whose end counts, or one that is held."""
        call_id = self._progress.calls.get(slot)
        held = self._progress.held.get(slot)
        if call_id is None and held is not None and held.kept:
            return True
        call = self.meter.attach(call_id) if call_id is not None else None
        return call is not None and self._counts(call)

    @staticmethod
    def _counts(call: Call) -> bool:
        ending = call.ending()
        if ending is not None:
            return ending.reason in CARRIED_OUT
        return call.state() != "lost"

    def _check(self, running: list[_Running]) -> None:
        self._context.signals.check(self._node.loop_id)
        self.meter.check_wall()

    def _begin(self, task: Task) -> _Running | None:
        adopted = self._adopt(task)
        if adopted is not None:
            self._context.slots.try_take(adopted=True)
            return adopted
        if not self._context.slots.try_take():
            return None
        try:
            return self._start(task)
        except BaseException:
            self._context.slots.give_back()
            raise

    def _adopt(self, task: Task) -> _Running | None:
        call_id = self._progress.calls.get(task.slot)
        call = self.meter.attach(call_id) if call_id is not None else None
        if call is None:
            return None
        if not self._counts(call):
            # Lost with the machine, or ended for a stop: it runs again.
            if call.state() in ("starting", "running"):
                call.end("stopped", "runner")
            call.sweep()
            if task.engine is not None and not call.folder.exists():
                # Counted, but the runner ended before it started it.
                self._progress.used.model_calls = max(0, self._progress.used.model_calls - 1)
            return None
        about = call.about() or {}
        deadline = from_iso(about.get("deadline_at"))
        argv = tuple(str(item) for item in about.get("argv") or ())
        started = from_iso(about.get("started_at")) or self._context.clock.now_ms()
        return self._follow(task, call, deadline, started, argv)

    def _start(self, task: Task) -> _Running:
        now = self._context.clock.now_ms()
        call_id = new_call_id(now, self._node.loop_id, task.role)
        environment = self._environment(task, call_id)
        argv, prompt = task.argv, task.prompt.encode("utf-8", "replace")
        if task.engine is not None:
            self.meter.count_model_call()
            launch = task.engine.launch(self._request(task, environment))
            argv, prompt = launch.argv, launch.prompt_bytes
            environment = {**environment, **launch.env_extra}
            if launch.notice is not None:
                self._context.note("engine_notice", self._node.loop_id, worker=task.slot, text=launch.notice)
        limit = self.meter.left_ms
        if task.timeout_seconds is not None:
            limit = min(limit, round(task.timeout_seconds * 1000))
        deadline = now + limit
        environment["MESHTUI_DEADLINE"] = iso(deadline)
        self._progress.calls[task.slot] = call_id
        self._checkpoints.save(self._progress)
        spec = CallSpec(
            call_id=call_id,
            subject=self._node.loop_id,
            role=task.role,
            engine=task.engine.name if task.engine is not None else GATE,
            argv=argv,
            cwd=task.cwd,
            env=environment,
            prompt=prompt,
            session_id=task.session_id,
            attempt=self._progress.iteration,
            deadline_at_ms=deadline,
        )
        call = Call.start(self._context.run_dir, spec, clock=self._context.clock)
        self._handle(task, call_id, "started")
        return self._follow(task, call, deadline, now, argv)

    def _follow(
        self, task: Task, call: Call, deadline: int | None, started: int, argv: tuple[str, ...]
    ) -> _Running:
        reader = task.engine.reader(self._request(task, {})) if task.engine is not None else None

        def say(kind: str, text: str, usage: Usage | None) -> None:
            self._context.note(
                "worker_activity",
                self._node.loop_id,
                worker=task.slot,
                kind=kind,
                text=text,
                call=call.call_id,
                usage=usage.as_json() if usage is not None else None,
            )

        out = OutputFollower(call.stdout)
        activity = Activity(say, agent=task.engine is not None and task.engine.name in AGENTS)
        return _Running(task, call, reader, out, deadline, started, argv, activity)

    def _request(self, task: Task, environment: Mapping[str, str]) -> EngineRequest:
        roles: dict[str, Role] = {"maker": "maker", "checker": "checker", "arbiter": "arbiter"}
        return EngineRequest(
            role=roles[task.role],
            prompt=task.prompt,
            cwd=task.cwd,
            session_id=task.session_id,
            model=task.model,
            effort=task.effort,
            environment=environment,
            session_usage=Usage.from_json(self._progress.session_usage.get(task.slot))
            if task.session_id is not None
            else None,
            max_cost_usd=self.meter.cost_left(),
        )

    def _environment(self, task: Task, call_id: str) -> dict[str, str]:
        environment = scrubbed_environment(os.environ)
        if task.engine is not None:
            settings = self._context.config.engines.get(task.engine.name)
            if settings is not None and settings.env:
                environment.update(settings.env)
        environment.update(
            {
                "MESHTUI_ROLE": task.role,
                "MESHTUI_RUN_DIR": str(self._context.run_dir.root),
                "MESHTUI_CALL_ID": call_id,
                "MESHTUI_MISSION_ID": self._context.plan.mission_id,
                "MESHTUI_LOOP_ID": self._node.loop_id,
                "MESHTUI_ITERATION": str(self._progress.iteration),
            }
        )
        if task.session_id is not None:
            environment["MESHTUI_SESSION_ID"] = task.session_id
        environment.update(task.environment)
        return environment

    # -- following and ending -----------------------------------------------------------------------

    def _over(self, item: _Running) -> bool:
        return item.call.state() in ("ended", "lost")

    def _watch(self, item: _Running) -> None:
        """Feed the reader and end a call that has written or taken too much."""
        self._drain(item, DRAIN_BYTES)
        if item.failure is not None:
            raise item.failure
        if item.ender is not None:
            return
        now = self._context.clock.now_ms()
        reason: EndReason | None = None
        if item.call.ending_path.exists() or (item.deadline_ms is not None and now >= item.deadline_ms):
            reason = "deadline"
        elif item.out.total > self._context.config.lane.max_output_mb * (1 << 20):
            reason = "output"
        if reason is not None:
            # One that ignores SIGTERM takes seconds: the others are looked after meanwhile.
            call = Call.attach(self._context.run_dir, item.call.call_id, clock=self._context.clock)
            item.ender = threading.Thread(target=_end, args=(item, call, reason), name="meshtui-end")
            item.ender.start()

    def _drain(self, item: _Running, limit: int | None = None) -> None:
        """Feed the reader what is new, at most about ``limit`` bytes."""
        began = item.out.offset
        while (limit is None or item.out.offset - began < limit) and (chunk := item.out.read()):
            if item.reader is not None:
                item.activity.saw(item.reader.feed(chunk), usage_so_far(item.reader))

    def _end_of(self, item: _Running) -> Finished:
        if item.ender is not None:
            item.ender.join()
        left = item.call.sweep()
        self._context.slots.give_back()
        ending = item.call.ending()
        if ending is not None and ending.reason == "output":
            # Nobody wants to read the rest of a flood.
            item.out.skip()
        self._drain(item)
        item.activity.flush()
        item.out.close()
        done = item.call.exit()
        reason = ending.reason if ending is not None else ("lost" if done is None else None)
        code = done.code if done is not None else None
        outcome: Outcome | None = None
        if item.reader is not None and reason is None and code is not None:
            outcome = item.reader.outcome(code, read_tail(item.call.stderr, STDERR_TAIL))
            if outcome.session_usage is not None and item.task.role == "maker":
                self._progress.session_usage[item.task.slot] = outcome.session_usage.as_json()
        usage = outcome.usage if outcome else usage_so_far(item.reader)
        self.meter.count_usage(item.call.call_id, usage)
        ended_ms = done.ended_at_ms if done is not None else self._context.clock.now_ms()
        if left:
            self._context.note("call_left_running", self._node.loop_id, call=item.call.call_id, ended=left)
        figures = usage.as_json() if usage is not None else None
        self._handle(item.task, item.call.call_id, "ended", code=code, reason=reason, usage=figures)
        item.call.close()
        return Finished(
            slot=item.task.slot,
            call_id=item.call.call_id,
            code=code,
            ending=reason,
            outcome=outcome,
            duration_ms=max(0, ended_ms - item.started_ms),
            left_running=left,
            argv=item.argv,
            session_id=item.task.session_id,
        )

    def _end_all(self, running: list[_Running], why: Exception) -> None:
        reason: EndReason = "killed"
        if isinstance(why, LoopStopped):
            reason = "stopped"
        elif isinstance(why, LoopBlocked):
            reason = "budget"
        elif isinstance(why, MeshtuiError):
            reason = "stopped"
        # All are told first, so that several that linger linger at the same time.
        for item in running:
            if not self._over(item):
                item.call.request_end(reason, "runner")
            if item.ender is not None:
                item.ender.join()
        survivors = end_together([item.call for item in running], reason)
        for item in running:
            self._drain(item, 4 * DRAIN_BYTES)
            self.meter.count_usage(item.call.call_id, usage_so_far(item.reader))
            item.out.close()
            self._context.slots.give_back()
            self._progress.calls.pop(item.task.slot, None)
            self._handle(item.task, item.call.call_id, "ended", reason=reason)
            item.call.close()
        if survivors:
            self._progress.survivors += survivors
            self._context.note("call_survivors", self._node.loop_id, survivors=survivors)

    def _handle(self, task: Task, call_id: str, event: str, **data: Any) -> None:
        line = {
            "ts": iso(self._context.clock.now_ms()),
            "event": event,
            "loop_id": self._node.loop_id,
            "worker_id": f"{self._node.loop_id}-{task.slot}",
            "role": task.role,
            "call": call_id,
            **{key: value for key, value in data.items() if value is not None},
        }
        with self._context.files_lock:
            append_line(self._context.paths.handles, line)
        engine = task.engine.name if task.engine is not None else None
        self._context.note(
            f"worker_{event}",
            self._node.loop_id,
            worker=task.slot,
            role=task.role,
            call=call_id,
            engine=engine,
            **data,
        )
