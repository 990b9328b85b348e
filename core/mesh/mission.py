"""A mission's runner: starts loops as the scheduler says, heeds the operator, writes the graph proof."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from meshtui.core import storage
from meshtui.core.calls import Call
from meshtui.core.clock import Clock, SystemClock, iso
from meshtui.core.config import Config
from meshtui.core.errors import InvalidInput, MeshtuiError
from meshtui.core.journal import Journal
from meshtui.core.lane.lease import Lease
from meshtui.core.mesh import control
from meshtui.core.mesh.context import (
    Checkpoints,
    EngineFactory,
    MissionContext,
    Signals,
    WorkerSlots,
)
from meshtui.core.mesh.counts import loop_cap
from meshtui.core.mesh.facts import graph_of
from meshtui.core.mesh.files import load_plan, load_state, read_json, write_json, write_state
from meshtui.core.mesh.integration import IntegrationRuntime
from meshtui.core.mesh.ledger import OwnerLedger, concurrency_budget
from meshtui.core.mesh.loop import LoopRuntime, new_state
from meshtui.core.mesh.paths import MissionPaths
from meshtui.core.mesh.places import worktrees_of
from meshtui.core.mesh.proof import graph_proof, loop_proof
from meshtui.core.mesh.scheduler import Capacity, Scheduler, dependents, loops_of, ready
from meshtui.core.mesh.tasks import end_together
from meshtui.core.mesh.validate import check_plan
from meshtui.core.mesh.worktrees import LoopWorktrees
from meshtui.core.models.mesh import ENDED, BudgetUsed, LoopState, Node, Plan, Status
from meshtui.core.run_dir import RunDir
from meshtui.core.vcs import worktree as trees
from meshtui.core.vcs.git import Git

POLL_SECONDS = 0.03
WORKERS_PER_LOOP = 4
BROKEN: tuple[Status, ...] = ("blocked", "failed", "cancelled")
"""Ends that block what waits for such a loop; a handoff only makes it wait."""

MissionState = Literal["done", "bad", "handoff", "stopped", "handed over"]


@dataclass(frozen=True, slots=True)
class MissionOptions:
    """What a mission's runner is told."""

    config: Config
    engine: str
    max_active: int | None = None
    """Loops at once; ``None``: by cores, parallelism and risk."""


@dataclass(frozen=True, slots=True)
class MissionOutcome:
    """How a mission's runner ended."""

    mission_id: str
    state: MissionState
    graph_proof: Mapping[str, Any]


class MissionRunner:
    """Runs one mission until every loop has ended or it is told to end; ``run`` blocks."""

    def __init__(
        self,
        run_dir: RunDir,
        mission_id: str,
        options: MissionOptions,
        engines: EngineFactory,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._run_dir = run_dir
        self._options = options
        self._engines = engines
        self._clock = clock or SystemClock()
        self.paths = MissionPaths.of(run_dir, mission_id)
        self._lease = Lease(self.paths, self._clock, what=f"mission {mission_id}")
        self._signals = Signals()
        self._ended: queue.Queue[tuple[str, Status, BaseException | None]] = queue.Queue()
        self._running: dict[str, threading.Thread] = {}
        self._states: dict[str, LoopState] = {}
        self._nodes: dict[str, Node] = {}
        self._news: list[str] = []
        """Loops that ended and of which the scheduler has not heard yet."""
        self._most_loops = 0
        self._started = 0
        self._failure: BaseException | None = None

    # -- from other threads -------------------------------------------------------------------------

    def request_stop(self) -> None:
        """End all calls; the loops go on at the next resume."""
        self._signals.stop.set()

    def request_hand_over(self) -> None:
        """End the runner and leave its calls to the next one."""
        self._signals.hand_over.set()

    def kill(self, loop_id: str) -> None:
        """End a loop as cancelled, whatever it is doing."""
        self._signals.kill(loop_id)

    # -- life ---------------------------------------------------------------------------------------

    def run(self) -> MissionOutcome:
        """Run the mission; raises :class:`Held` if another runner does, :class:`InvalidInput` for a broken plan."""
        plan = load_plan(self.paths)
        blockers = check_plan(plan)
        if blockers:
            raise InvalidInput(f"the plan of {plan.mission_id} is broken: {'; '.join(blockers)}")
        asked = self._clock.now_ms()
        self._lease.acquire()
        try:
            # Kill requests from before are spent: a new run starts clean.
            control.spend(control.older_than(control.pending_kills(self.paths), asked))
            context = self._context(plan)
            self._prepare(context)
            started = self._clock.now_ms()
            self._work(context)
            if self._failure is not None:
                raise self._failure
            return self._outcome(context, started)
        finally:
            self._lease.release()

    def kill_at_rest(self, targets: list[str]) -> tuple[list[str], list[str], list[str]]:
        """End loops of a mission that has no runner: ids ended, what would not end, ids that had not started.

        Raises :class:`Held` if a runner is there after all.
        """
        plan = load_plan(self.paths)
        ended: list[str] = []
        survivors: list[str] = []
        not_started: list[str] = []
        self._lease.acquire(stand_in=True)
        try:
            context = self._context(plan)
            self._states = {node.loop_id: self._state_of(context, node) for node in plan.graph.nodes}
            for node in plan.graph.nodes:
                if node.loop_id not in targets or self._states[node.loop_id].status in ENDED:
                    continue
                begun = self._states[node.loop_id].iteration > 0
                left = self._end_calls(context, node)
                survivors += left
                (ended if begun else not_started).append(node.loop_id)
                why = ["killed by operator", *[f"still running: {name}" for name in left]]
                self._settle_unstarted(context, node, "cancelled", why)
            self._write_proof(context, self._clock.now_ms())
        finally:
            self._lease.release()
        return ended, survivors, not_started

    def settle(self) -> MissionOutcome:
        """Write the graph proof anew from the loops' states, without running anything; the mission's state.

        For a verdict of a person that ends a mission. Raises :class:`Held` if a runner is there.
        """
        plan = load_plan(self.paths)
        self._lease.acquire(stand_in=True)
        try:
            context = self._context(plan)
            self._states = {node.loop_id: self._state_of(context, node) for node in plan.graph.nodes}
            self._block_dependents(context)
            return self._outcome(context, self._clock.now_ms())
        finally:
            self._lease.release()

    def _end_calls(self, context: MissionContext, node: Node) -> list[str]:
        """End what a loop at rest still has running; what would not end."""
        checkpoints = Checkpoints(context, node)
        checkpoints.repair()
        calls = []
        for call_id in checkpoints.load().calls.values():
            call = Call.attach(self._run_dir, call_id, clock=self._clock)
            if call.state() in ("starting", "running"):
                calls.append(call)
        return end_together(calls, "killed")

    def _state_of(self, context: MissionContext, node: Node) -> LoopState:
        """A loop's state; a damaged file is kept aside and told again from proof and checkpoint."""
        paths = self.paths.loop(node.loop_id)
        found, problem = load_state(paths)
        if problem is not None and found is not None:
            self._lease.verify()
            if paths.state.exists():
                problem += f"; kept as {storage.set_aside(paths.state, self._clock.now_ms()).name}"
            context.note("state_damaged", node.loop_id, message=problem)
            write_state(paths, found, self._clock, durable=True)
        return found or new_state(context, node, "planned")

    def _context(self, plan: Plan) -> MissionContext:
        if plan.repo is None or plan.base_commit is None:
            raise InvalidInput(
                f"the plan of {plan.mission_id} names no repository and base commit: plan it again"
            )
        repo = Path(plan.repo)
        if not repo.is_dir():
            raise InvalidInput(f"the repository {repo} of mission {plan.mission_id} is gone")
        self._nodes = {node.loop_id: node for node in plan.graph.nodes}
        git = Git(repo)
        config, mesh = self._options.config, self._options.config.mesh
        loops = self._loop_cap(plan)
        workers = mesh.max_active_workers or loops * WORKERS_PER_LOOP
        root = worktrees_of(config, repo)
        return MissionContext(
            run_dir=self._run_dir,
            paths=self.paths,
            plan=plan,
            config=config,
            repo=repo,
            git=git,
            clock=self._clock,
            engines=self._engines,
            worktrees=root / plan.mission_id,
            slots=WorkerSlots(workers),
            journal=Journal(self._run_dir, self._clock),
            signals=self._signals,
            engine=self._options.engine,
            strategy=str(plan.options.get("strategy") or mesh.strategy),
            verify_lease=self._lease.verify,
        )

    def _loop_cap(self, plan: Plan) -> int:
        mesh = self._options.config.mesh
        asked = self._options.max_active or mesh.max_active_loops
        if asked:
            return int(asked)
        risks = {node.risk.level for node in plan.graph.nodes}
        parallelism = plan.options.get("parallelism") or mesh.parallelism
        return loop_cap(os.cpu_count() or 1, parallelism, risks)

    # -- states -------------------------------------------------------------------------------------

    def _prepare(self, context: MissionContext) -> None:
        """Keep what is complete or waits for a person; everything else is queued, with a fresh budget if it had ended."""
        for node in context.plan.graph.nodes:
            paths = self.paths.loop(node.loop_id)
            state = self._state_of(context, node)
            if state.status not in ("completed", "handoff"):
                if state.status in ENDED:
                    self._renew(context, node)
                    state = new_state(context, node, "queued")
                state.status = "queued"
                write_state(paths, state, self._clock)
            self._states[node.loop_id] = state
        write_json(
            self.paths.concurrency,
            concurrency_budget(context, self._loop_cap(context.plan)),
            durable=False,
        )

    def _renew(self, context: MissionContext, node: Node) -> None:
        """Let a loop that ended badly go on from its last candidate with a fresh budget."""
        checkpoints = Checkpoints(context, node)
        checkpoints.repair()
        progress = checkpoints.load()
        progress.phase, progress.iteration, progress.calls = "triage", 0, {}
        progress.used, progress.wall_recorded_at, progress.started_at = BudgetUsed(), 0, 0
        progress.passed, progress.failed, progress.skipped, progress.gate_blockers = [], [], [], []
        progress.evidence, progress.violations, progress.survivors, progress.rivals = [], [], [], []
        progress.on_base = {}
        progress.makers_used = progress.checkers_used = 0
        progress.warned = None
        for held in progress.held.values():
            # The limit stands as it did; the working copy begins anew.
            held.kept = False
        checkpoints.save(progress)

    def _statuses(self) -> dict[str, Status]:
        return {loop_id: state.status for loop_id, state in self._states.items()}

    # -- working ------------------------------------------------------------------------------------

    def _work(self, context: MissionContext) -> None:
        ledger = OwnerLedger(context)
        cap = self._loop_cap(context.plan)
        self._block_dependents(context)
        scheduler = Scheduler(loops_of(context.plan), Capacity(max_loops=cap), self._statuses())
        after = dependents(context.plan)
        context.note(
            "mission_started",
            context.plan.mission_id,
            loops=len(context.plan.graph.nodes),
            max_active=cap,
            request=context.plan.request[:500],
            **graph_of(context.plan),
        )
        while True:
            try:
                self._heed_kills(context)
                leaving = (
                    self._signals.stop.is_set()
                    or self._signals.hand_over.is_set()
                    or self._failure is not None
                )
                if not leaving:
                    self._pass_on(context, scheduler, after)
                    for loop_id in scheduler.start():
                        self._start(context, self._nodes[loop_id], ledger)
            except MeshtuiError as error:
                # The loops at work stop where they are, then the error is reported.
                if self._failure is None:
                    self._failure = error
                    self._signals.stop.set()
            if not self._running:
                return
            self._collect(context, ledger)

    def _pass_on(
        self, context: MissionContext, scheduler: Scheduler, after: Mapping[str, Sequence[str]]
    ) -> None:
        """Tell the scheduler which loops ended, and block by name what waits for one that ended badly.

        Each loop is looked at once in a run. Behind a handoff the scheduler starts nothing either, but the
        loops there go on waiting for the person.
        """
        ended, self._news = self._news, []
        for loop_id in ended:
            status = self._states[loop_id].status
            if scheduler.state(loop_id) not in ENDED:
                scheduler.finish(loop_id, status)
            waiting = [loop_id] if status in BROKEN else []
            while waiting:
                for later in after[waiting.pop()]:
                    if self._states[later].status not in ENDED:
                        why = [f"dependency {loop_id}: {status}"]
                        self._settle_unstarted(context, self._nodes[later], "blocked", why)
                        waiting.append(later)

    def _block_dependents(self, context: MissionContext) -> None:
        """Block what waits for loops that ended badly, by their names; behind a handoff it goes on waiting."""
        while True:
            decision = ready(loops_of(context.plan), self._statuses(), Capacity(max_loops=1))
            blocked = {
                name: [f"dependency {other}: {self._states[other].status}" for other in because]
                for name, because in decision.blocked.items()
                if self._states[name].status not in ENDED
                and any(self._states[other].status in BROKEN for other in because)
            }
            for loop_id, why in blocked.items():
                self._settle_unstarted(context, self._nodes[loop_id], "blocked", why)
            if not blocked:
                return

    def _start(self, context: MissionContext, node: Node, ledger: OwnerLedger) -> None:
        state = self._states[node.loop_id]
        state.status = "running"
        ledger.acquire(node)
        self._started += 1
        merges = node.loop_id == context.plan.integration_loop_id

        def work() -> None:
            try:
                runtime = IntegrationRuntime(context, node) if merges else LoopRuntime(context, node)
                self._ended.put((node.loop_id, runtime.run(), None))
            except BaseException as error:  # noqa: BLE001 - handed to the thread that waits for it
                self._ended.put((node.loop_id, "failed", error))

        thread = threading.Thread(target=work, name=f"meshtui-{node.loop_id}", daemon=True)
        self._running[node.loop_id] = thread
        self._most_loops = max(self._most_loops, len(self._running))
        thread.start()

    def _collect(self, context: MissionContext, ledger: OwnerLedger) -> None:
        """Take a loop that ended, if there is one soon."""
        try:
            loop_id, status, error = self._ended.get(timeout=POLL_SECONDS)
        except queue.Empty:
            return
        self._running.pop(loop_id).join()
        if error is not None:
            # The other loops stop where they are, then the error is reported.
            self._failure = self._failure or error
            self._signals.stop.set()
            return
        node = self._nodes[loop_id]
        self._states[loop_id] = self._state_of(context, node)
        self._states[loop_id].status = status
        if status in ENDED:
            self._news.append(loop_id)
        if self._failure is None:
            ledger.release(node)

    def _heed_kills(self, context: MissionContext) -> None:
        """Act on kill requests, if there are any."""
        requests = control.pending_kills(self.paths)
        if not requests:
            return
        self._lease.verify()
        for request in requests:
            targets = list(self._states) if request.target == control.ALL else [request.target]
            for loop_id in targets:
                self._kill(context, loop_id)
        control.spend(requests)

    def _kill(self, context: MissionContext, loop_id: str) -> None:
        state = self._states.get(loop_id)
        if state is None or state.status in ENDED:
            return
        self._signals.kill(loop_id)
        context.note("loop_kill_requested", loop_id)
        if loop_id not in self._running:
            self._settle_unstarted(
                context, self._nodes[loop_id], "cancelled", ["killed by operator before it started"]
            )
            self._news.append(loop_id)

    def _settle_unstarted(
        self, context: MissionContext, node: Node, status: Status, blockers: list[str]
    ) -> None:
        """End a loop that is not at work, with its state and proof; what it held is released."""
        paths = self.paths.loop(node.loop_id)
        checkpoints = Checkpoints(context, node)
        checkpoints.repair()
        progress = checkpoints.load()
        state = self._states[node.loop_id]
        state.status, state.blockers, state.current_phase = status, blockers, "handoff"
        state.last_action = f"loop_{status}"
        self._lease.verify()
        worktrees = LoopWorktrees(context, node, progress)
        kept = worktrees.release(status, integrated=node.loop_id == context.plan.integration_loop_id)
        if progress.started_at:
            progress.calls.clear()
            checkpoints.save(progress)
        write_json(paths.proof, loop_proof(context, node, paths, progress, status, blockers, worktrees, kept))
        write_state(paths, state, self._clock)
        context.note(f"loop_{status}", node.loop_id, status=status, message="; ".join(blockers))

    # -- the end ------------------------------------------------------------------------------------

    def _outcome(self, context: MissionContext, started: int) -> MissionOutcome:
        plan = context.plan
        if self._signals.hand_over.is_set():
            context.note("mission_handed_over", plan.mission_id)
            return MissionOutcome(plan.mission_id, "handed over", {})
        proof = self._write_proof(context, started)
        state: MissionState = "bad"
        statuses = {item.status for item in self._states.values()}
        if self._signals.stop.is_set() and statuses & {"queued", "running", "planned"}:
            state = "stopped"
        elif proof["ok"]:
            state = "done"
            self._clean_up(context)
        elif "handoff" in statuses and not statuses & {"blocked", "failed", "cancelled"}:
            state = "handoff"
        context.note("mission_ended", plan.mission_id, state=state, ok=proof["ok"])
        return MissionOutcome(plan.mission_id, state, proof)

    def _write_proof(self, context: MissionContext, started: int) -> dict[str, Any]:
        """Write the graph proof; where nothing ran, what was measured before stays in it."""
        plan, before = context.plan, read_json(self.paths.graph_proof) or {}
        proofs = {
            node.loop_id: read_json(self.paths.loop(node.loop_id).proof) or {} for node in plan.graph.nodes
        }
        proof = graph_proof(
            plan,
            self._states,
            {key: value for key, value in proofs.items() if value},
            generated_at=iso(self._clock.now_ms()),
            wall_ms=self._clock.now_ms() - started,
            most_loops=self._most_loops,
            most_workers=context.slots.peak,
            merge=read_json(self.paths.merge),
            side_effects=read_json(self.paths.side_effects),
            arbiter=self._verdict(),
        )
        if not self._started and isinstance(before.get("parallelism"), dict):
            proof["parallelism"] = before["parallelism"]
        self._lease.verify()
        write_json(self.paths.graph_proof, proof)
        return proof

    def _verdict(self) -> dict[str, Any] | None:
        """The final reviewer's verdict on what is merged now; one on an earlier result does not count."""
        verdict, merge = read_json(self.paths.arbiter), read_json(self.paths.merge) or {}
        if verdict is None or verdict.get("head_commit") != merge.get("head_commit"):
            return None
        return verdict

    def _clean_up(self, context: MissionContext) -> None:
        """Remove the worktrees of loops whose work is integrated, as far as nothing more is in them."""
        for node in context.plan.graph.nodes:
            worktrees = LoopWorktrees(context, node, Checkpoints(context, node).load())
            if not worktrees.main.is_dir() or node.worktree.cleanup == "always-keep":
                continue
            head = (read_json(self.paths.loop(node.loop_id).proof) or {}).get("head_commit")
            saved = [commit for commit in (head, context.base) if isinstance(commit, str)]
            try:
                if not trees.unsaved(worktrees.main, saved):
                    trees.remove(context.git, worktrees.main, force=True)
            except MeshtuiError as error:
                context.note("worktree_kept", node.loop_id, message=str(error))
        storage.remove_dir(context.worktrees)
