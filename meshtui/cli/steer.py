"""Commands on what runs: answer, stop, pause, continue, kill."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from meshtui.cli.completing import ANYWHERE, engines, envelopes, loops, missions, subjects
from meshtui.cli.options import existing, json_option, lane_at, run_dir_option
from meshtui.cli.output import print_json, print_line, warn
from meshtui.core.errors import InvalidInput, NotFound
from meshtui.core.run_dir import RunDir

if TYPE_CHECKING:
    from meshtui.core.config import LoadedConfig
    from meshtui.core.mesh.context import EngineFactory
    from meshtui.core.mesh.paths import MissionPaths


@click.command()
@run_dir_option
@json_option
@click.argument("subject", metavar="(ID | MISSION[/LOOP])", shell_complete=subjects("stalled"))
@click.option("--retry", is_flag=True, help="Back to the head of the queue, attempts from 0.")
@click.option("--drop", is_flag=True, help="Give it up: result failed.")
@click.option("--approve", is_flag=True, help="Of a mission or loop that was handed over: it is right.")
@click.option("--reject", is_flag=True, help="It is not.")
@click.option("--reason", help="Why; recorded with the verdict.")
@click.option("--engine", shell_complete=engines, help="Retry with this engine.")
@click.option("--deadline-seconds", type=float, help="Retry with this long for each attempt.")
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
    """Settle a parked envelope, or give a person's verdict on a mission or loop that was handed over.

    \b
    meshtui answer US-12 --retry --deadline-seconds 3600
    meshtui answer M-1/loop-docs --reject --reason "the examples do not run"
    """
    if approve or reject or reason is not None:
        if approve == reject or retry or drop or engine is not None or deadline_seconds is not None:
            raise click.UsageError("give either --approve or --reject, with --reason")
        if (reason or "").strip() in ("", "…", "..."):
            # Command lines that are told leave the reason open: pasted as they are they decide nothing.
            raise click.UsageError("say why: --reason TEXT")
        return _verdict(existing(run_dir), subject, approve, str(reason), as_json)
    again = retry or engine is not None or deadline_seconds is not None
    if again == drop:
        raise click.UsageError(
            "give either --retry (with --engine or --deadline-seconds as you like) or --drop; "
            "for a mission --approve or --reject"
        )
    lane = lane_at(run_dir, by="answer")
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


def _verdict(run: RunDir, subject: str, approve: bool, reason: str, as_json: bool) -> int:
    from meshtui.core.mesh.service import answer_mission, find_mission, settle_answered

    mission, _, loop = subject.partition("/")
    paths = find_mission(run, mission)
    said = answer_mission(
        run, paths, loop or None, "approve" if approve else "reject", reason, by=getpass.getuser()
    )
    loaded, engines = _working(run, paths)
    outcome = settle_answered(run, paths, loaded, engines)
    state = outcome.state if outcome is not None else None
    if as_json:
        print_json({**said, "state": state})
        return 0
    name = f"{said['mission_id']}/{said['loop_id']}"
    print_line(f"{name} is {'approved' if approve else 'rejected'}")
    if state is None:
        print_line(f"go on with: meshtui resume {paths.mission_id}")
    else:
        print_line(f"mission {paths.mission_id} is {'done' if state == 'done' else 'over: it ended badly'}")
    return 0


def _working(run: RunDir, paths: MissionPaths) -> tuple[LoadedConfig, EngineFactory]:
    """The configuration for acting on a mission; a broken one of the repository keeps nobody from it."""
    from meshtui.core.config import load_config
    from meshtui.core.lane.service import engine_factory
    from meshtui.core.mesh.files import load_plan
    from meshtui.core.mesh.service import configuration

    made = load_plan(paths)
    try:
        loaded = configuration(run, Path(made.repo or run.root))
    except InvalidInput as error:
        warn([f"{error}; going on without the repository's configuration"])
        loaded = load_config(run, None, environ={})
    return loaded, engine_factory(loaded.config)


@click.command()
@run_dir_option
@json_option
@click.option("--drain", is_flag=True, help="Let the runner finish what is queued first.")
def stop(run_dir: Path, as_json: bool, drain: bool) -> int:
    """End the runner now; the active phase is ended and its record put back."""
    lane = lane_at(run_dir, by="stop")
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
    receipt = lane_at(run_dir, by="pause").pause()
    if as_json:
        print_json(receipt.as_json())
        return
    print_line("paused; go on with: meshtui continue")


@click.command("continue")
@run_dir_option
@json_option
def continue_(run_dir: Path, as_json: bool) -> None:
    """Claim again after a pause."""
    receipt = lane_at(run_dir, by="continue").resume()
    if as_json:
        print_json(receipt.as_json())
        return
    print_line("going on")


@click.command()
@run_dir_option
@json_option
@click.argument("loop", metavar="[LOOP | all]", required=False, shell_complete=loops)
@click.option(
    "--mission",
    shell_complete=missions,
    help="The loop's mission (default: the one that has it; with all: every one).",
)
@click.option(
    "--envelope", "envelope_id", shell_complete=envelopes("active"), help="The active envelope to end."
)
def kill(run_dir: Path, as_json: bool, loop: str | None, mission: str | None, envelope_id: str | None) -> int:
    """End LOOP, or all loops, as cancelled, or the active phase (--envelope ID) as failed: at once.

    \b
    meshtui kill loop-docs --mission M-1
    meshtui kill --envelope US-12
    """
    if (loop is None) == (envelope_id is None):
        raise click.UsageError("give LOOP, all, or --envelope ID")
    run = existing(run_dir)
    if loop is not None:
        return _kill_loops(run, loop, mission, as_json)
    receipt = lane_at(run_dir, by="kill").kill(str(envelope_id))
    if as_json:
        print_json(receipt.as_json())
    else:
        print_line(f"ended: {', '.join(receipt.ended)}")
        for name in receipt.survivors:
            print_line(f"still running: {name}")
    return 1 if receipt.survivors else 0


@click.command()
@run_dir_option
@json_option
@click.argument("envelope_id", metavar="ID", shell_complete=envelopes("active"))
@click.option("--seconds", type=float, required=True, help="How much more time it gets.")
def extend(run_dir: Path, as_json: bool, envelope_id: str, seconds: float) -> int:
    """Give the phase that runs more time before its deadline."""
    receipt = lane_at(run_dir, by="extend").extend(envelope_id, seconds)
    if as_json:
        print_json(receipt.as_json())
    else:
        print_line(f"{envelope_id} may run until {receipt.deadline_at}")
    return 0


@click.command()
@run_dir_option
@json_option
@click.argument("envelope_id", metavar="ID", shell_complete=envelopes(*ANYWHERE))
@click.option("--text", required=True, help="The instruction.")
@click.option("--id", "message_id", help="Its own id (default: message-XXXXXXXX).")
def message(run_dir: Path, as_json: bool, envelope_id: str, text: str, message_id: str | None) -> int:
    """Queue an instruction for the session of an envelope's story, as its next phase."""
    lane = lane_at(run_dir, by="message")
    receipt = lane.message(envelope_id, text, message_id=message_id)
    warn(lane.warnings)
    if as_json:
        print_json(receipt.as_json())
    else:
        print_line(f"queued {receipt.envelope_id} at the head of {receipt.queue_depth} pending")
    return 0


def _kill_loops(run: RunDir, loop: str, mission: str | None, as_json: bool) -> int:
    from meshtui.core.mesh.service import kill_loops

    targets = _missions_of(run, loop, mission)
    receipt: dict[str, list[str]] = {"ended": [], "survivors": [], "not_started": []}
    for paths in targets:
        loaded, engines = _working(run, paths)
        ended, survivors, not_started = kill_loops(run, paths, loop, loaded, engines)
        prefix = f"{paths.mission_id}/" if len(targets) > 1 else ""
        receipt["ended"] += [f"{prefix}{name}" for name in ended]
        receipt["not_started"] += [f"{prefix}{name}" for name in not_started]
        receipt["survivors"] += survivors
    if loop == "all" and run.lane.root.is_dir():
        warn(["the lane is not touched; end its phase with: meshtui kill --envelope ID"])
    if as_json:
        print_json(receipt)
        return 1 if receipt["survivors"] else 0
    for title, names in (("ended", "ended"), ("not started yet, and will not be", "not_started")):
        if receipt[names]:
            print_line(f"{title}: {', '.join(receipt[names])}")
    for name in receipt["survivors"]:
        print_line(f"still running: {name}")
    if not any(receipt.values()):
        print_line("nothing to end: all of it had ended")
    return 1 if receipt["survivors"] else 0


def _missions_of(run: RunDir, loop: str, mission: str | None) -> list[MissionPaths]:
    """The missions a kill is for; exit 3 where none has the loop, 2 where several do."""
    from meshtui.core.mesh.files import load_plan
    from meshtui.core.mesh.places import mission_places
    from meshtui.core.mesh.service import find_mission, open_loops

    if mission is not None:
        return [find_mission(run, mission)]
    found = mission_places(run)
    if loop == "all":
        if not found:
            raise NotFound(f"no mission in {run.root}; a phase is ended with: meshtui kill --envelope ID")
        return [paths for paths in found if open_loops(paths)]
    having = [paths for paths in found if any(n.loop_id == loop for n in load_plan(paths).graph.nodes)]
    if not having:
        raise NotFound(f"no loop {loop!r} in {run.root}; a phase is ended with: meshtui kill --envelope ID")
    at_work = [paths for paths in having if loop in open_loops(paths)]
    if len(at_work) > 1:
        names = ", ".join(paths.mission_id for paths in at_work)
        raise InvalidInput(f"several missions have a loop {loop}: {names}; name one with --mission")
    return at_work or having[-1:]
