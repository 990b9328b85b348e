"""Commands on what runs: answer, stop, pause, continue, kill."""

from __future__ import annotations

from getpass import getuser
from pathlib import Path
from typing import Literal

import click

from meshtui.cli.options import existing, json_option, run_dir_option
from meshtui.cli.output import print_json, print_line, warn
from meshtui.core.errors import NotFound
from meshtui.core.lane.lane import Lane
from meshtui.core.run_dir import RunDir


@click.command()
@run_dir_option
@json_option
@click.argument("subject", metavar="(ID | MISSION[/LOOP])")
@click.option("--retry", is_flag=True, help="Back to the head of the queue, attempts from 0.")
@click.option("--drop", is_flag=True, help="Give it up: result failed.")
@click.option("--engine", help="Retry with this engine.")
@click.option("--deadline-seconds", type=float, help="Retry with this long for each attempt.")
@click.option("--approve", is_flag=True, help="Accept what was handed over.")
@click.option("--reject", is_flag=True, help="Refuse what was handed over.")
@click.option("--reason", help="Why; recorded with the verdict.")
def answer(
    run_dir: Path,
    as_json: bool,
    subject: str,
    retry: bool,
    drop: bool,
    engine: str | None,
    deadline_seconds: float | None,
    approve: bool,
    reject: bool,
    reason: str | None,
) -> int:
    """Settle a parked envelope (--retry or --drop), or a mission or loop that was handed over."""
    again = retry or engine is not None or deadline_seconds is not None
    if approve or reject or reason is not None:
        if again or drop or approve == reject:
            raise click.UsageError("give either --approve or --reject, with --reason TEXT")
        if not reason or not reason.strip():
            raise click.UsageError("a verdict needs a --reason")
        return _answer_mission(run_dir, subject, "approve" if approve else "reject", reason, as_json=as_json)
    if again == drop:
        raise click.UsageError(
            "give either --retry (with --engine or --deadline-seconds as you like) or --drop; "
            "for what was handed over --approve or --reject with --reason"
        )
    lane = Lane(existing(run_dir), by="answer")
    receipt = lane.answer(
        subject, "drop" if drop else "retry", engine=engine, deadline_seconds=deadline_seconds
    )
    if as_json:
        print_json(receipt.as_json())
        return 0
    alive = lane.holder().alive
    if drop:
        print_line(f"dropped {subject}")
    else:
        print_line(
            f"{subject} is at the head of the queue" + ("" if alive else "; no runner is there: meshtui lane")
        )
    return 0


def _answer_mission(
    run_dir: Path, subject: str, verdict: Literal["approve", "reject"], reason: str, *, as_json: bool
) -> int:
    from meshtui.core.mesh.service import answer_mission, find_mission

    run = existing(run_dir)
    name, _, loop = subject.partition("/")
    paths = find_mission(run, name)
    said = answer_mission(run, paths, loop or None, verdict, reason, by=getuser())
    if as_json:
        print_json(said)
    else:
        print_line(
            f"{said['mission_id']}/{said['loop_id']}: {verdict}; go on with: meshtui resume {said['mission_id']}"
        )
    return 0


@click.command()
@run_dir_option
@json_option
@click.option("--drain", is_flag=True, help="Let the runner finish what is queued first.")
def stop(run_dir: Path, as_json: bool, drain: bool) -> int:
    """End the runner now; the active phase is ended and its record put back."""
    lane = Lane(existing(run_dir), by="stop")
    receipt = lane.stop(drain=drain)
    warn(lane.warnings)
    warn(f"still running: {name}" for name in receipt.survivors)
    if as_json:
        print_json(receipt.as_json())
    elif receipt.drain is not None:
        print_line(
            f"stop {receipt.drain.envelope_id} queued; the runner ends when {receipt.drain.position - 1} before it are done"
        )
    elif receipt.stopped:
        print_line("stopped" + (f"; {receipt.envelope_id} is put back" if receipt.envelope_id else ""))
    else:
        print_line("no runner was there and nothing was active")
    return 1 if receipt.survivors else 0


@click.command()
@run_dir_option
@json_option
def pause(run_dir: Path, as_json: bool) -> None:
    """Let the active phase end and claim nothing more."""
    receipt = Lane(existing(run_dir), by="pause").pause()
    if as_json:
        print_json(receipt.as_json())
        return
    print_line("paused; go on with: meshtui continue")


@click.command("continue")
@run_dir_option
@json_option
def continue_(run_dir: Path, as_json: bool) -> None:
    """Claim again after a pause."""
    receipt = Lane(existing(run_dir), by="continue").resume()
    if as_json:
        print_json(receipt.as_json())
        return
    print_line("going on")


@click.command()
@run_dir_option
@json_option
@click.argument("loop", required=False, metavar="(LOOP | all)")
@click.option(
    "--mission", "mission_id", help="The loop's mission (default: the newest that has such a loop)."
)
@click.option("--envelope", "envelope_id", help="The active envelope to end.")
def kill(
    run_dir: Path, as_json: bool, loop: str | None, mission_id: str | None, envelope_id: str | None
) -> int:
    """End a loop, all loops, or with --envelope ID the active phase, now; the work is kept."""
    if (loop is None) == (envelope_id is None):
        raise click.UsageError("give LOOP, all, or --envelope ID")
    run = existing(run_dir)
    if envelope_id is not None:
        receipt = Lane(run, by="kill").kill(envelope_id)
        ended, survivors, not_started = receipt.ended, receipt.survivors, receipt.not_started
    else:
        assert loop is not None
        ended, survivors, not_started = _kill_loops(run, loop, mission_id)
    if as_json:
        print_json({"ended": list(ended), "survivors": list(survivors), "not_started": list(not_started)})
        return 1 if survivors else 0
    print_line(f"ended: {', '.join(ended) or 'nothing was running'}")
    if not_started:
        print_line(f"will not start: {', '.join(not_started)}")
    for name in survivors:
        print_line(f"still running: {name}")
    if loop == "all":
        print_line("lanes go on: end a phase with --envelope ID, a runner with meshtui stop")
    return 1 if survivors else 0


Killed = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]


def _kill_loops(run: RunDir, loop: str, mission_id: str | None) -> Killed:
    """Kill a loop or all, in one mission or in all."""
    from meshtui.core.lane.service import engine_factory
    from meshtui.core.mesh.files import load_plan
    from meshtui.core.mesh.service import configuration, find_mission, kill_loops, missions_in

    names = [find_mission(run, mission_id).mission_id] if mission_id is not None else missions_in(run)[::-1]
    found = [find_mission(run, name) for name in names]
    if loop != "all":
        found = [
            paths for paths in found if any(node.loop_id == loop for node in load_plan(paths).graph.nodes)
        ][:1]
    if not found:
        where = f"mission {mission_id}" if mission_id else str(run.root)
        raise NotFound(f"no loop {loop!r} in {where}; a phase is ended with --envelope ID")
    ended: list[str] = []
    survivors: list[str] = []
    not_started: list[str] = []
    for paths in found:
        repo = load_plan(paths).repo
        loaded = configuration(run, Path(repo) if repo else run.root)
        one, two, three = kill_loops(run, paths, loop, loaded, engine_factory(loaded.config))
        ended += one
        survivors += two
        not_started += three
    return tuple(ended), tuple(survivors), tuple(not_started)
