"""Commands on missions: plan, run, resume, graph, proof, land, discard."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from meshtui.cli.completing import engines, loops, missions
from meshtui.cli.options import existing, has_terminal, json_option, run_dir_option
from meshtui.cli.output import print_json, print_line, print_text, warn
from meshtui.core.clock import SystemClock
from meshtui.core.errors import InvalidInput, NotFound
from meshtui.core.mesh.paths import MissionPaths
from meshtui.core.run_dir import RunDir

if TYPE_CHECKING:
    from meshtui.core.models.mesh import Plan

BY_SIGNAL = 130
MAX_REQUEST = 1 << 20
CODES = {"done": 0, "bad": 1, "handoff": 5, "stopped": BY_SIGNAL, "handed over": BY_SIGNAL}

Command = Callable[..., Any]


def planning_options(command: Command) -> Command:
    """What ``plan`` and ``run`` share."""
    for option in (
        click.option("--max-loops", type=click.IntRange(1, 32), help="Loops at most (1 to 32, default 8)."),
        click.option(
            "--parallelism", type=click.Choice(["safe", "balanced", "extreme"]), help="How much at once."
        ),
        click.option(
            "--engine",
            shell_complete=engines,
            help="The engine of makers and checkers: claude, codex, grok or command.",
        ),
        click.option("--mission", "mission_id", help="The new mission's id."),
        click.option(
            "--repo", type=click.Path(path_type=Path), help="The repository (default: the run directory's)."
        ),
    ):
        command = option(command)
    return command


@click.command()
@run_dir_option
@json_option
@planning_options
@click.option("--edit", is_flag=True, help="Open the plan in $EDITOR, then check it again.")
@click.argument("request", shell_complete=missions)
def plan(run_dir: Path, as_json: bool, edit: bool, request: str, **options: Any) -> None:
    """Plan REQUEST as a graph of loops; nothing runs. With --edit a MISSION's plan is opened again."""
    from meshtui.core.mesh.service import PlanOptions, broken, find_mission, make_plan, missions_in

    run = _made(run_dir, options.get("repo"))
    if edit and request in (*missions_in(run), "latest"):
        # Not read before: what cannot be read is to be corrected there.
        made = _edit(find_mission(run, request), quiet=as_json)
    else:
        made = make_plan(run, request, PlanOptions(**options))
        if edit:
            made = _edit(MissionPaths.of(run, made.mission_id), quiet=as_json)
    blockers = broken(made)
    if as_json:
        print_json({**made.as_json(), "blockers": blockers})
    else:
        for line in plan_lines(made):
            print_line(line)
    if blockers:
        raise InvalidInput(f"the plan of {made.mission_id} is broken: {'; '.join(blockers)}")
    if not as_json:
        print_line(f"run it with: meshtui run {made.mission_id} --run-dir {shlex.quote(str(run.root))}")


def plan_lines(made: Plan) -> list[str]:
    """A plan for people: every loop with its scope, risk, workers, gates, and what overlaps."""
    from meshtui.core.mesh.render import overlap_text

    lines = [f"mission {made.mission_id}: {len(made.graph.nodes)} loops"]
    for node in made.graph.nodes:
        after = f", after {', '.join(node.dependencies)}" if node.dependencies else ""
        lines.append(
            f"{node.loop_id}: {node.risk.level} risk ({', '.join(node.risk.reasons) or 'no reason'}){after}"
        )
        lines.append(f"    scope {', '.join(node.owner_scope.entries) or 'nothing'}")
        gates = [*node.gates.local, *node.gates.integration]
        lines.append(
            f"    {node.maker.worker_count} makers, {node.checker.worker_count} checkers, gates {', '.join(gates) or 'none'}"
        )
    for overlap in made.overlaps:
        lines.append(f"overlap: {overlap_text(overlap)}")
    if made.domains_truncated:
        lines.append(f"left out (more than --max-loops): {', '.join(made.domains_truncated)}")
    lines += [f"warning: {text}" for text in made.options.get("warnings") or []]
    return lines


def _made(root: Path, repo: Path | None) -> RunDir:
    from meshtui.core.lane.create import create_run_dir

    return create_run_dir(root, SystemClock(), repo=repo)


def _edit(paths: MissionPaths, *, quiet: bool) -> Plan:
    from meshtui.core.mesh.service import edited_plan
    from meshtui.editor import open_in_editor

    open_in_editor(paths.plan, quiet=quiet)
    try:
        return edited_plan(paths)
    except InvalidInput as error:
        raise InvalidInput(
            f"{error}; correct it with: meshtui plan --edit {shlex.quote(paths.mission_id)}"
        ) from None


@click.command("run")
@run_dir_option
@json_option
@planning_options
@click.option("--max-active", type=click.IntRange(min=1), help="Loops at once.")
@click.option("--land", "land_it", is_flag=True, help="Land the result when the mission is done.")
@click.option(
    "--request", "is_request", is_flag=True, help="Take the argument as a request even if it is one word."
)
@click.option(
    "--trust", is_flag=True, help="Allow the commands of the repository's meshtui.toml for this run."
)
@click.argument("subject", metavar="(MISSION | REQUEST)", shell_complete=missions)
def run(
    run_dir: Path,
    as_json: bool,
    max_active: int | None,
    land_it: bool,
    is_request: bool,
    trust: bool,
    subject: str,
    **options: Any,
) -> int:
    """Run a planned MISSION, or plan REQUEST (with - from standard input) and run it.

    \b
    meshtui run "add a --verbose flag" --engine claude
    meshtui run - --land < request.md
    """
    from meshtui.core.mesh.service import PlanOptions, find_mission, make_plan, missions_in

    name = options.get("mission_id")
    if subject == "-":
        if sys.stdin is None:
            raise InvalidInput("standard input is closed: give the request as a word, or pipe it in")
        subject, is_request = sys.stdin.buffer.read(MAX_REQUEST).decode("utf-8", "replace"), True
    missions = missions_in(RunDir(run_dir.absolute())) if run_dir.is_dir() else []
    if is_request and name is not None and name in missions:
        # Planned before under this very id: a lane that runs it again goes on with it.
        where = existing(run_dir)
        paths = find_mission(where, name)
    elif not is_request and subject in (*missions, "latest"):
        given = [f"--{name.replace('_', '-')}" for name in ("max_loops", "parallelism") if options.get(name)]
        if given:
            raise InvalidInput(
                f"mission {subject} is planned already: {' and '.join(given)} would change nothing; "
                f"change its plan with: meshtui plan --edit {shlex.quote(subject)}"
            )
        where = existing(run_dir)
        paths = find_mission(where, subject)
    elif not is_request and len(subject.split()) < 2:
        raise NotFound(f"no mission {subject!r}; a request of one word needs --request")
    else:
        where = _made(run_dir, options.get("repo"))
        made = make_plan(where, subject, PlanOptions(**options, max_active=max_active))
        paths = MissionPaths.of(where, made.mission_id)
        if not as_json:
            for line in plan_lines(made):
                print_line(line)
    return _run(
        where,
        paths,
        as_json=as_json,
        engine=options.get("engine"),
        max_active=max_active,
        trust=trust,
        land_it=land_it,
    )


@click.command()
@run_dir_option
@json_option
@click.option("--max-active", type=click.IntRange(min=1), help="Loops at once.")
@click.option("--land", "land_it", is_flag=True, help="Land the result when the mission is done.")
@click.option(
    "--trust", is_flag=True, help="Allow the commands of the repository's meshtui.toml for this run."
)
@click.argument("mission", metavar="MISSION", shell_complete=missions)
def resume(
    run_dir: Path, as_json: bool, max_active: int | None, land_it: bool, trust: bool, mission: str
) -> int:
    """Go on with a mission: what is complete is kept, running calls are adopted."""
    from meshtui.core.mesh.service import find_mission

    where = existing(run_dir)
    return _run(
        where,
        find_mission(where, mission),
        as_json=as_json,
        engine=None,
        max_active=max_active,
        trust=trust,
        land_it=land_it,
    )


def _run(
    where: RunDir,
    paths: MissionPaths,
    *,
    as_json: bool,
    engine: str | None,
    max_active: int | None,
    trust: bool,
    land_it: bool,
) -> int:
    from meshtui.core.journal import JournalFollower
    from meshtui.core.lane.service import engine_factory
    from meshtui.core.mesh.files import load_plan
    from meshtui.core.mesh.service import configuration, land_mission, open_mission
    from meshtui.core.trust import require_trust

    made = load_plan(paths)
    if made.repo is None:
        raise InvalidInput(f"the plan of {paths.mission_id} names no repository: another tool runs it")
    loaded = configuration(where, Path(made.repo))
    require_trust(loaded, ask=_ask if has_terminal() and not as_json else None, allow=trust)
    runner = open_mission(
        where, paths, loaded, engine_factory(loaded.config), engine=engine, max_active=max_active
    )
    ended_by: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        ended_by.append(number)
        (runner.request_hand_over if number == signal.SIGHUP else runner.request_stop)()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    follower = JournalFollower(where.events, 1)
    follower.refresh()
    seen = follower.events[-1].seq if follower.events else 0
    outcome = runner.run()
    landed = None
    if land_it and outcome.state == "done":
        landed = land_mission(paths)
    if as_json:
        print_json(
            {
                "mission_id": paths.mission_id,
                "state": outcome.state,
                "graph_proof": dict(outcome.graph_proof),
                "landed": landed.target if landed else None,
            }
        )
    else:
        _say_events(where, seen)
        _say_outcome(paths, outcome.state, outcome.graph_proof)
        if landed is not None:
            print_line(f"landed on {landed.target} at {landed.after[:12]}")
    return BY_SIGNAL if ended_by else CODES[outcome.state]


def _say_events(where: RunDir, seen: int) -> None:
    from meshtui.core.journal import read_tail

    for event in read_tail(where.events, 5000):
        if event.seq > seen and event.event.startswith("loop_"):
            message = event.data.get("message")
            print_line(f"{event.event} {event.subject}" + (f": {message}" if message else ""))


def _say_outcome(paths: MissionPaths, state: str, proof: Any) -> None:
    name = paths.mission_id
    if state == "done":
        print_line(f"mission {name} is done: branch {proof.get('branch')}; land it with: meshtui land {name}")
    elif state == "handoff":
        print_line(
            f"mission {name} waits for a person: meshtui answer {name}[/LOOP] --approve|--reject --reason …, then meshtui resume {name}"
        )
    elif state == "bad":
        print_line(
            f"mission {name} ended badly: {'; '.join((proof.get('blockers') or ['see its proof'])[:5])}"
        )
    else:
        print_line(f"mission {name} is {state}; go on with: meshtui resume {name}")


def _ask(commands: list[tuple[str, str]]) -> bool:
    warn(["the repository's meshtui.toml runs these commands:"])
    for key, command in commands:
        print_line(f"  {key}: {command}")
    return click.confirm("Trust them as they are now?", default=False)


@click.command()
@run_dir_option
@json_option
@click.option("--dot", is_flag=True, help="Print it for graphviz.")
@click.argument("mission", metavar="MISSION", shell_complete=missions)
def graph(run_dir: Path, as_json: bool, dot: bool, mission: str) -> None:
    """The graph of a mission's loops."""
    from meshtui.core.mesh.files import load_plan, read_state
    from meshtui.core.mesh.render import graph_dot, graph_json, graph_text
    from meshtui.core.mesh.service import find_mission

    paths = find_mission(existing(run_dir), mission)
    made = load_plan(paths)
    states = {
        node.loop_id: state
        for node in made.graph.nodes
        if (state := read_state(paths.loop(node.loop_id))) is not None
    }
    if as_json:
        print_json(graph_json(made, states))
    else:
        print_text((graph_dot if dot else graph_text)(made, states))


@click.command()
@run_dir_option
@json_option
@click.option("--verify", is_flag=True, help="Compute again what can be; exit 1 on a mismatch.")
@click.argument("mission", metavar="MISSION", shell_complete=missions)
@click.argument("loop", required=False, shell_complete=loops)
def proof(run_dir: Path, as_json: bool, verify: bool, mission: str, loop: str | None) -> int:
    """The proof of a mission or one of its loops."""
    from meshtui.core.mesh.files import read_json
    from meshtui.core.mesh.service import find_mission
    from meshtui.core.mesh.verify import Verifier

    where = existing(run_dir)
    paths = find_mission(where, mission)
    if not verify:
        value = read_json(paths.loop(loop).proof if loop else paths.graph_proof)
        if value is None:
            raise NotFound(f"{mission}{'/' + loop if loop else ''} has no proof yet: it has not ended")
        print_json(value)
        return 0
    verifier = Verifier(where, paths)
    checks = verifier.loop(loop) if loop else verifier.mission()
    if as_json:
        print_json(
            {
                "ok": verifier.ok,
                "checks": [
                    {"subject": c.subject, "claim": c.claim, "verdict": c.verdict, "text": c.text}
                    for c in checks
                ],
            }
        )
    else:
        marks = {"verified": "ok      ", "mismatch": "MISMATCH", "claimed": "claimed "}
        for check in checks:
            print_line(f"{marks[check.verdict]} {check.subject}: {check.claim}: {check.text}")
        print_line("the proof holds" if verifier.ok else "the proof does not hold")
    return 0 if verifier.ok else 1


@click.command()
@run_dir_option
@json_option
@click.option("--target", help="The branch to fast-forward (default: the one the mission was planned on).")
@click.argument("mission", metavar="MISSION", shell_complete=missions)
def land(run_dir: Path, as_json: bool, target: str | None, mission: str) -> None:
    """Fast-forward the target branch to a mission's result."""
    from meshtui.core.mesh.service import find_mission, land_mission

    paths = find_mission(existing(run_dir), mission)
    result = land_mission(paths, target=target)
    if as_json:
        print_json(
            {
                "mission_id": paths.mission_id,
                "target": result.target,
                "before": result.before,
                "after": result.after,
            }
        )
        return
    print_line(f"{result.target} is at {result.after[:12]} now (was {result.before[:12]})")


@click.command()
@run_dir_option
@json_option
@click.option("--yes", is_flag=True, help="Do it without asking.")
@click.argument("mission", metavar="MISSION", shell_complete=missions)
def discard(run_dir: Path, as_json: bool, yes: bool, mission: str) -> None:
    """Remove a mission's branches and worktrees, after naming what is lost."""
    from meshtui.core.mesh.service import discard_mission, find_mission, what_discard_loses

    where = existing(run_dir)
    paths = find_mission(where, mission)
    found = what_discard_loses(where, paths)
    if not as_json:
        for name, commit in found.branches.items():
            print_line(f"branch {name} at {commit[:12]}")
        for place in found.worktrees:
            print_line(f"worktree {place}")
        for line in found.lost:
            print_line(f"lost: {line}")
    if not yes:
        if as_json or not has_terminal():
            raise InvalidInput(
                f"{len(found.branches)} branches and {len(found.worktrees)} worktrees would go, {len(found.lost)} things be lost; say --yes to do it"
            )
        if not click.confirm("Remove them for good?", default=False):
            raise InvalidInput("nothing removed")
    discard_mission(where, paths, found)
    if as_json:
        print_json(
            {
                "branches": sorted(found.branches),
                "worktrees": [str(place) for place in found.worktrees],
                "lost": list(found.lost),
            }
        )
    else:
        print_line(f"discarded {paths.mission_id}")
