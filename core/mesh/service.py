"""What an operator does with missions: plan, open, land, discard, kill, answer."""

from __future__ import annotations

import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from meshtui.core.clock import Clock, SystemClock, iso
from meshtui.core.config import LoadedConfig, load_config
from meshtui.core.errors import Held, InvalidInput, NotFound, WorkFailed
from meshtui.core.journal import Journal
from meshtui.core.lane.create import absolute, git_top, repo_of
from meshtui.core.lane.lease import Lease, holder
from meshtui.core.mesh import control
from meshtui.core.mesh.context import EngineFactory
from meshtui.core.mesh.facts import graph_of
from meshtui.core.mesh.files import load_plan, read_json, read_state, write_json, write_state
from meshtui.core.mesh.gates_config import MAX_FILE
from meshtui.core.mesh.integration import ARBITER
from meshtui.core.mesh.mission import MissionOptions, MissionOutcome, MissionRunner
from meshtui.core.mesh.paths import MissionPaths
from meshtui.core.mesh.places import mission_places, worktrees_of
from meshtui.core.mesh.planner import PlanRequest, plan, refreshed_warnings
from meshtui.core.mesh.validate import MESHTUI, check_plan
from meshtui.core.models.mesh import ENDED, Handoff, Parallelism, Plan, is_mesh_id
from meshtui.core.run_dir import RunDir
from meshtui.core.vcs.git import Git
from meshtui.core.vcs.merge import Discard, LandResult, discard, discardable, land

KILL_SECONDS = 20.0
SURVIVOR = "still running: "


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What the operator says about a plan beside the request."""

    mission_id: str | None = None
    engine: str | None = None
    parallelism: Parallelism | None = None
    max_loops: int | None = None
    max_active: int | None = None
    repo: Path | None = None


def missions_in(run_dir: RunDir) -> list[str]:
    """The missions of a directory, its repository's of another tool among them, oldest first."""
    return [paths.mission_id for paths in mission_places(run_dir)]


def find_mission(run_dir: RunDir, name: str) -> MissionPaths:
    """The mission called ``name``; ``latest`` is the newest. Raises :class:`NotFound`."""
    places = mission_places(run_dir)
    if name == "latest" and places:
        return places[-1]
    for paths in places:
        if paths.mission_id == name:
            return paths
    names = ", ".join(paths.mission_id for paths in places[-5:])
    raise NotFound(f"no mission {name!r} in {run_dir.root}" + (f"; there are: {names}" if names else ""))


def repository(run_dir: RunDir, asked: Path | None) -> Path:
    """The top level of the repository that a mission is for."""
    named = asked or repo_of(run_dir) or Path.cwd()
    top = git_top(absolute(named))
    if top is None:
        raise InvalidInput(f"{named} is not in a git repository; name one with --repo")
    return top


def configuration(run_dir: RunDir, repo: Path) -> LoadedConfig:
    """The configuration in force for missions of ``repo``."""
    return load_config(run_dir, repo, environ=os.environ)


def make_plan(run_dir: RunDir, request: str, options: PlanOptions, *, clock: Clock | None = None) -> Plan:
    """Plan ``request`` and write the plan; nothing runs. Raises :class:`InvalidInput`."""
    clock = clock or SystemClock()
    if not request.strip():
        raise InvalidInput("the request is empty: say what is to be done", field="request")
    repo = repository(run_dir, options.repo)
    git = Git(repo)
    config = configuration(run_dir, repo).config
    mission_id = options.mission_id or f"m-{secrets.token_hex(4)}"
    if not is_mesh_id(mission_id):
        raise InvalidInput(
            f"mission id {mission_id!r} may not be used: 1 to 80 of A-Z a-z 0-9 . _ -, no '..', not ending in . or .lock",
            field="mission",
        )
    paths = MissionPaths.of(run_dir, mission_id)
    taken = next((name for name in missions_in(run_dir) if name.lower() == mission_id.lower()), None)
    if taken is not None:
        raise InvalidInput(
            f"mission {taken} exists already; run it, discard it, or choose another id", field="mission"
        )
    base = git.head_commit()
    made = plan(
        PlanRequest(
            request=request,
            repo=repo,
            mission_id=mission_id,
            config=config,
            engine=options.engine or config.lane.engine,
            parallelism=options.parallelism or config.mesh.parallelism,
            max_loops=options.max_loops or config.mesh.max_loops,
            strategy=config.mesh.strategy,
            target=config.mesh.target or git.current_branch(),
            now_iso=iso(clock.now_ms()),
            files=tuple(git.tracked_files(base)),
            base_commit=base,
            max_active=options.max_active,
            # Loops start from the base: what is not committed says nothing about the gates there.
            read=lambda path: git.read_file(base, path, limit=MAX_FILE),
        )
    )
    write_json(paths.plan, made.as_json())
    Journal(run_dir, clock).append(
        "mission_planned",
        mission_id,
        {"loops": len(made.graph.nodes), "request": request[:500], **graph_of(made)},
    )
    return made


def broken(made: Plan) -> list[str]:
    """Everything that is wrong with a plan as it stands now."""
    return check_plan(made)


def edited_plan(paths: MissionPaths) -> Plan:
    """A plan that somebody edited, checked again: its file lists the blockers and warnings it has now."""
    made = load_plan(paths)
    if made.planner.get("made_by") != MESHTUI:
        return made
    found, told = check_plan(made), made.options.get("warnings")
    warnings = (
        refreshed_warnings([str(text) for text in told], made.graph.nodes) if isinstance(told, list) else told
    )
    if found != made.blockers or warnings != told:
        made.blockers = found
        made.options["warnings"] = warnings
        write_json(paths.plan, made.as_json())
    return made


def open_mission(
    run_dir: RunDir,
    paths: MissionPaths,
    loaded: LoadedConfig,
    engines: EngineFactory,
    *,
    engine: str | None = None,
    max_active: int | None = None,
    clock: Clock | None = None,
) -> MissionRunner:
    """A runner for a planned mission, not started."""
    made = load_plan(paths)
    options = MissionOptions(
        config=loaded.config,
        engine=engine or str(made.options.get("engine") or loaded.config.lane.engine),
        max_active=max_active or made.options.get("max_active"),
    )
    return MissionRunner(run_dir, paths.mission_id, options, engines, clock=clock)


# -- after the run ----------------------------------------------------------------------------------


def land_mission(paths: MissionPaths, *, target: str | None = None) -> LandResult:
    """Fast-forward the target branch to a mission's result; raises :class:`InvalidInput` saying what to do."""
    made = load_plan(paths)
    proof = read_json(paths.graph_proof)
    if proof is None:
        raise InvalidInput(
            f"mission {paths.mission_id} has not ended; run it first: meshtui run {paths.mission_id}"
        )
    if not proof.get("ok"):
        why = "; ".join(str(item) for item in (proof.get("blockers") or [])[:3]) or "its proof is not ok"
        raise InvalidInput(
            f"mission {paths.mission_id} is not done ({why}); see: meshtui proof {paths.mission_id}"
        )
    branch, head = proof.get("branch"), proof.get("head_commit")
    goal = target or made.options.get("target")
    if not isinstance(branch, str) or made.repo is None:
        raise InvalidInput(f"mission {paths.mission_id} has no result branch: nothing was merged")
    if not isinstance(goal, str) or not goal:
        raise InvalidInput("no target branch is known; name one with --target or [mesh] target")
    git = Git(Path(made.repo))
    at = git.branch_commit(branch)
    if at is not None and at != head:
        raise InvalidInput(
            f"branch {branch} is at {at[:12]}, not at {str(head)[:12]} as the proof says: somebody moved it; "
            "look at it, and merge it yourself if it is right"
        )
    return land(git, branch, goal)


def open_loops(paths: MissionPaths) -> list[str]:
    """The loops of a mission that have not ended."""
    states = {node.loop_id: read_state(paths.loop(node.loop_id)) for node in load_plan(paths).graph.nodes}
    return [name for name, state in states.items() if state is None or state.status not in ENDED]


def kill_loops(
    run_dir: RunDir,
    paths: MissionPaths,
    target: str,
    loaded: LoadedConfig,
    engines: EngineFactory,
    *,
    clock: Clock | None = None,
) -> tuple[list[str], list[str], list[str]]:
    """End one loop or all of a mission: ids ended, what would not end, ids that had not started."""
    clock = clock or SystemClock()
    made = load_plan(paths)
    names = [node.loop_id for node in made.graph.nodes]
    if target != control.ALL and target not in names:
        raise NotFound(f"no loop {target!r} in mission {paths.mission_id}; there are: {', '.join(names)}")
    before = {name: state.status for name in names if (state := read_state(paths.loop(name))) is not None}
    targets = names if target == control.ALL else [target]
    waits = [name for name in targets if before.get(name, "planned") not in ENDED]
    if not waits:
        return [], [], []
    held = holder(paths, clock)
    if held.foreign:
        write_json(paths.kill_request, control.kill_request(paths.mission_id, target, clock))
        raise Held(
            f"mission {paths.mission_id} is run by another tool; a kill request was left for it in {paths.kill_request}"
        )
    if not held.alive:
        return open_mission(run_dir, paths, loaded, engines, clock=clock).kill_at_rest(targets)
    request = control.request_kill(paths, target, clock)
    end = time.monotonic() + KILL_SECONDS
    while time.monotonic() < end:
        spent = not request.exists()
        states = {name: read_state(paths.loop(name)) for name in waits}
        if spent and all(state is not None and state.status in ENDED for state in states.values()):
            started = [name for name in waits if before.get(name) == "running"]
            left = [
                text.removeprefix(SURVIVOR)
                for state in states.values()
                if state is not None
                for text in state.blockers
                if text.startswith(SURVIVOR)
            ]
            return started, left, [name for name in waits if name not in started]
        if not holder(paths, clock).alive:
            control.spend([item for item in control.pending_kills(paths) if item.path == request])
            return kill_loops(run_dir, paths, target, loaded, engines, clock=clock)
        time.sleep(0.02)
    raise WorkFailed(
        f"mission {paths.mission_id} did not act on the kill within {KILL_SECONDS:.0f} s; see: meshtui status"
    )


def answer_mission(
    run_dir: RunDir,
    paths: MissionPaths,
    loop_id: str | None,
    verdict: Literal["approve", "reject"],
    reason: str,
    *,
    by: str,
    clock: Clock | None = None,
) -> dict[str, Any]:
    """Record a person's verdict on a loop or on the mission that was handed over.

    The caller resumes the mission afterwards; raises :class:`InvalidInput` where nothing waits for one.
    """
    clock = clock or SystemClock()
    made = load_plan(paths)
    name = loop_id or made.integration_loop_id
    try:
        made.node(name)
    except KeyError:
        raise NotFound(f"no loop {name!r} in mission {paths.mission_id}") from None
    with Lease(paths, clock, what=f"mission {paths.mission_id}") as lease:
        lease.acquire(stand_in=True)
        state = read_state(paths.loop(name))
        if state is None or state.status != "handoff":
            now = state.status if state is not None else "planned"
            raise InvalidInput(f"{paths.mission_id}/{name} is {now}: nothing waits for a person there")
        said = {"verdict": verdict, "reasons": [reason], "by": "human", "who": by, "at": iso(clock.now_ms())}
        proof_path = paths.loop(name).proof
        proof = read_json(proof_path) or {}
        if name == made.integration_loop_id:
            # The integration loop takes the verdict itself, at once or at the next resume.
            value = {
                "schema": ARBITER,
                "mission_id": paths.mission_id,
                **said,
                "head_commit": proof.get("head_commit"),
            }
            write_json(paths.arbiter, value)
            state.status = "queued"
        else:
            state.status = "completed" if verdict == "approve" else "blocked"
            if verdict == "reject":
                _tell_makers(paths, name, reason)
        state.handoff = Handoff(required=False, reason=state.handoff.reason, artifact=state.handoff.artifact)
        state.blockers = [] if verdict == "approve" else [f"rejected by a person: {reason}"]
        proof["human_verdict"] = said
        if state.status != "queued":
            proof["status"], proof["blockers"] = state.status, state.blockers
            proof["handoff"] = {**(proof.get("handoff") or {}), "required": False}
        write_json(proof_path, proof)
        write_state(paths.loop(name), state, clock, durable=True)
        Journal(run_dir, clock).append(
            "handoff_answered",
            f"{paths.mission_id}/{name}",
            {"verdict": verdict, "reason": reason[:500], "who": by, "status": state.status},
        )
    return {"mission_id": paths.mission_id, "loop_id": name, **said}


def _tell_makers(paths: MissionPaths, loop_id: str, reason: str) -> None:
    """Let the makers of the next run read what the person had against their work."""
    path = paths.loop(loop_id).checkpoint
    value = read_json(path) or {}
    progress = value.get("meshtui")
    if isinstance(progress, dict):
        progress["findings"] = [f"a person rejected it: {reason}"]
        write_json(path, value)


def settle_answered(
    run_dir: RunDir,
    paths: MissionPaths,
    loaded: LoadedConfig,
    engines: EngineFactory,
    *,
    clock: Clock | None = None,
) -> MissionOutcome | None:
    """Bring a mission up to date after a verdict, if no command has to be run for that; else ``None``.

    A verdict on the whole result ends the mission; a rejected loop blocks what waits for it.
    """
    made = load_plan(paths)
    runner = open_mission(run_dir, paths, loaded, engines, clock=clock)
    states = {node.loop_id: read_state(paths.loop(node.loop_id)) for node in made.graph.nodes}
    statuses = {name: state.status if state is not None else "planned" for name, state in states.items()}
    last = statuses.pop(made.integration_loop_id, None)
    judged = (read_json(paths.arbiter) or {}).get("by") == "human"
    if last == "queued" and judged and set(statuses.values()) == {"completed"}:
        return runner.run()
    if set(statuses.values()) & {"blocked", "failed", "cancelled"}:
        return runner.settle()
    return None


# -- discarding -------------------------------------------------------------------------------------


def what_discard_loses(run_dir: RunDir, paths: MissionPaths) -> Discard:
    """What a mission has in its repository, and what would be lost with it."""
    made = load_plan(paths)
    if made.repo is None or not Path(made.repo).is_dir():
        raise InvalidInput(
            f"the repository of mission {paths.mission_id} is gone: there is nothing to discard"
        )
    loaded = configuration(run_dir, Path(made.repo))
    root = worktrees_of(loaded.config, Path(made.repo))
    return discardable(Git(Path(made.repo)), paths.mission_id, roots=[root / paths.mission_id])


def discard_mission(run_dir: RunDir, paths: MissionPaths, found: Discard) -> None:
    """Remove a mission's branches and worktrees; its files in the run directory stay. Raises :class:`Held`."""
    clock = SystemClock()
    made = load_plan(paths)
    with Lease(paths, clock, what=f"mission {paths.mission_id}") as lease:
        lease.acquire(stand_in=True)
        discard(Git(Path(str(made.repo))), found)
    Journal(run_dir, clock).append("mission_discarded", paths.mission_id, {"lost": len(found.lost)})
