"""Commands on what runs: answer, stop, pause, continue, kill."""

from __future__ import annotations

from pathlib import Path

import click

from meshtui.cli.options import existing, json_option, run_dir_option
from meshtui.cli.output import print_json, print_line, warn
from meshtui.core.errors import NotFound
from meshtui.core.lane.lane import Lane


@click.command()
@run_dir_option
@json_option
@click.argument("subject", metavar="ID")
@click.option("--retry", is_flag=True, help="Back to the head of the queue, attempts from 0.")
@click.option("--drop", is_flag=True, help="Give it up: result failed.")
@click.option("--engine", help="Retry with this engine.")
@click.option("--deadline-seconds", type=float, help="Retry with this long for each attempt.")
def answer(
    run_dir: Path,
    as_json: bool,
    subject: str,
    retry: bool,
    drop: bool,
    engine: str | None,
    deadline_seconds: float | None,
) -> None:
    """Settle a parked envelope."""
    again = retry or engine is not None or deadline_seconds is not None
    if again == drop:
        raise click.UsageError(
            "give either --retry (with --engine or --deadline-seconds as you like) or --drop"
        )
    lane = Lane(existing(run_dir), by="answer")
    receipt = lane.answer(
        subject, "drop" if drop else "retry", engine=engine, deadline_seconds=deadline_seconds
    )
    if as_json:
        print_json(receipt.as_json())
        return
    alive = lane.holder().alive
    if drop:
        print_line(f"dropped {subject}")
    else:
        print_line(
            f"{subject} is at the head of the queue" + ("" if alive else "; no runner is there: meshtui lane")
        )


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
@click.argument("loop", required=False)
@click.option("--envelope", "envelope_id", help="The active envelope to end.")
def kill(run_dir: Path, as_json: bool, loop: str | None, envelope_id: str | None) -> int:
    """End the active phase now (--envelope ID); its result is failed, its session is kept."""
    if (loop is None) == (envelope_id is None):
        raise click.UsageError("give --envelope ID")
    run = existing(run_dir)
    if envelope_id is None:
        raise NotFound(
            f"no loop {loop!r} in {run.root}: it holds no mission; a phase is ended with --envelope ID"
        )
    receipt = Lane(run, by="kill").kill(envelope_id)
    if as_json:
        print_json(receipt.as_json())
    else:
        print_line(f"ended: {', '.join(receipt.ended)}")
        for name in receipt.survivors:
            print_line(f"still running: {name}")
    return 1 if receipt.survivors else 0
