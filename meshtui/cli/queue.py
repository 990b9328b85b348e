"""Commands on the queue: enqueue, interrupt, restore, withdraw, requeue, quarantine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from meshtui.cli.completing import envelopes, quarantined
from meshtui.cli.options import RUN_DIR, envelope_options, existing, json_option, lane_at, run_dir_option
from meshtui.cli.output import print_json, print_line, warn
from meshtui.core.errors import InvalidInput

if TYPE_CHECKING:
    from meshtui.core.lane.lane import Lane
    from meshtui.core.lane.receipts import SeveralReceipt

MAX_JSONL = 1 << 30


@click.command()
@run_dir_option
@json_option
@click.argument("source", required=False, metavar="[-]")
@click.option("--prompt", help="What the phase is to do.")
@click.option("--file", "file", type=click.Path(path_type=Path), help="An envelope in a JSON file.")
@click.option(
    "--jsonl",
    type=click.Path(path_type=Path, allow_dash=True),
    help="Many envelopes, one a line; all or none.",
)
@click.option("--id", "envelope_id", help="The envelope's id (1 to 120 characters, unused in this lane).")
@envelope_options
@click.option("--fresh", is_flag=True, help="Start a new session.")
def enqueue(
    run_dir: Path,
    as_json: bool,
    source: str | None,
    prompt: str | None,
    file: Path | None,
    jsonl: Path | None,
    **fields: Any,
) -> None:
    """Add an envelope to the lane (with - it is read as JSON from standard input).

    \b
    meshtui enqueue --prompt "fix the failing test" --engine claude
    meshtui enqueue --jsonl stories.jsonl
    echo '{"kind": "stop"}' | meshtui enqueue -
    """
    from meshtui.core.clock import SystemClock
    from meshtui.core.lane.create import create_run_dir

    given = {key: value for key, value in fields.items() if value not in (None, False)}
    sources = [
        name
        for name, value in (("-", source), ("--prompt", prompt), ("--file", file), ("--jsonl", jsonl))
        if value is not None
    ]
    if source not in (None, "-"):
        raise click.UsageError(
            f"unexpected argument {source!r}; use --prompt TEXT, --file E.json, --jsonl FILE or -"
        )
    if len(sources) != 1:
        raise click.UsageError("give exactly one of --prompt TEXT, --file E.json, --jsonl FILE or -")
    if prompt is None and given:
        raise click.UsageError(
            f"--{next(iter(given)).replace('_', '-')} goes with --prompt; write it into the envelope instead"
        )
    if jsonl is not None:
        envelopes = _read_lines(jsonl)
    elif prompt is not None:
        envelopes = [_from_options(prompt, given)]
    else:
        envelopes = [read_envelope(file)]
    from meshtui.core.lane.lane import Lane, checked

    if not run_dir.exists():
        # What is refused makes no directory.
        checked(envelopes)
    lane = Lane(create_run_dir(run_dir, SystemClock()), by="enqueue")
    receipts = lane.enqueue_many(envelopes)
    for receipt in receipts:
        warn(f"{receipt.envelope_id}: {text}" for text in receipt.warnings)
    warn(lane.warnings)
    if as_json:
        values = [receipt.as_json() for receipt in receipts]
        print_json(values if jsonl is not None else values[0])
        return
    if jsonl is not None:
        depth = receipts[-1].queue_depth if receipts else 0
        print_line(f"queued {len(receipts)} envelopes; {depth} pending")
        return
    print_line(
        f"queued {receipts[0].envelope_id}, {receipts[0].position} of {receipts[0].queue_depth} pending"
    )


def _from_options(prompt: str, given: dict[str, Any]) -> dict[str, Any]:
    names = {"envelope_id": "id", "story": "story_id"}
    return {"kind": "phase", "prompt": prompt, **{names.get(key, key): value for key, value in given.items()}}


def read_envelope(file: Path | None) -> dict[str, Any]:
    """The envelope in ``file``, ``None`` for standard input."""
    from meshtui.core import storage, strict_json

    limit = strict_json.MAX_BYTES
    if file is None:
        raw, what = _standard_input(2 * limit), "standard input"
    else:
        try:
            raw, what = storage.read_bytes(file, limit=2 * limit), str(file)
        except FileNotFoundError:
            raise InvalidInput(f"{file}: no such file") from None
        except IsADirectoryError:
            raise InvalidInput(f"{file} is a folder, not a JSON file") from None
    return strict_json.load_object(raw, limit=limit, what=what)


def _standard_input(limit: int) -> bytes:
    if sys.stdin is None:
        raise InvalidInput("standard input is closed; use --file or --jsonl with a file")
    return sys.stdin.buffer.read(limit)


def _read_lines(file: Path) -> list[dict[str, Any]]:
    from meshtui.core import storage, strict_json

    if str(file) == "-":
        raw, what = _standard_input(MAX_JSONL), "standard input"
    else:
        try:
            raw, what = storage.read_bytes(file, limit=MAX_JSONL), str(file)
        except FileNotFoundError:
            raise InvalidInput(f"{file}: no such file") from None
        except IsADirectoryError:
            raise InvalidInput(f"{file} is a folder, not a file of JSON lines") from None
    envelopes = []
    for number, line in enumerate(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if line.strip():
            envelopes.append(strict_json.load_object(line, what=f"{what} line {number}"))
    return envelopes


@click.command()
@run_dir_option
@json_option
def interrupt(run_dir: Path, as_json: bool) -> None:
    """Withdraw everything that nobody has taken."""
    lane = lane_at(run_dir, by="interrupt")
    receipt = lane.interrupt()
    warn(lane.warnings)
    warn(f"{name} cannot be read and is in quarantine" for name in receipt.quarantined)
    if as_json:
        print_json(
            {"withdrawn": list(receipt.withdrawn), "already_picked_up": list(receipt.already_picked_up)}
        )
        return
    print_line(f"withdrawn {len(receipt.withdrawn)}: {', '.join(receipt.withdrawn) or 'nothing was pending'}")
    if receipt.already_picked_up:
        print_line(
            f"already picked up: {', '.join(receipt.already_picked_up)} (meshtui kill --envelope ID ends it)"
        )


@click.command()
@run_dir_option
@json_option
@click.argument("envelope_ids", metavar="[ID…]", nargs=-1, shell_complete=envelopes("withdrawn"))
@click.option("--in-place", is_flag=True, help="Where they were before, not at the end.")
def restore(run_dir: Path, as_json: bool, envelope_ids: tuple[str, ...], in_place: bool) -> None:
    """Put withdrawn envelopes, all or those named, back at the end of the queue, in their old order."""
    lane = lane_at(run_dir, by="restore")
    receipt = lane.restore(envelope_ids or None, in_place=in_place)
    warn(lane.warnings)
    if as_json:
        print_json(receipt.as_json())
        return
    print_line(f"restored {len(receipt.restored)}: {', '.join(receipt.restored) or 'nothing was withdrawn'}")
    if receipt.left:
        print_line(f"left withdrawn: {', '.join(receipt.left)} (one stop is enough)")


@click.command()
@run_dir_option
@json_option
@click.argument("envelope_ids", metavar="ID…", nargs=-1, required=True, shell_complete=envelopes("pending"))
def withdraw(run_dir: Path, as_json: bool, envelope_ids: tuple[str, ...]) -> int:
    """Take pending envelopes out of the queue."""
    lane = lane_at(run_dir, by="withdraw")
    if len(envelope_ids) > 1:
        return _tell_several(lane.withdraw_many(envelope_ids), "withdrawn", lane, as_json)
    receipt = lane.withdraw(envelope_ids[0])
    warn(lane.warnings)
    if as_json:
        print_json(receipt.as_json())
    else:
        print_line(f"withdrawn {receipt.envelope_id}; {receipt.queue_depth} pending")
    return 0


@click.command()
@run_dir_option
@json_option
@click.argument(
    "envelope_ids", metavar="ID…", nargs=-1, required=True, shell_complete=envelopes("results", "withdrawn")
)
def requeue(run_dir: Path, as_json: bool, envelope_ids: tuple[str, ...]) -> int:
    """Run finished, failed or withdrawn envelopes again, at the end of the queue."""
    lane = lane_at(run_dir, by="requeue")
    if len(envelope_ids) > 1:
        return _tell_several(lane.requeue_many(envelope_ids), "requeued", lane, as_json)
    receipt = lane.requeue(envelope_ids[0])
    warn(lane.warnings)
    if as_json:
        print_json(receipt.as_json())
    else:
        print_line(f"requeued {receipt.envelope_id}, {receipt.position} of {receipt.queue_depth} pending")
    return 0


def _tell_several(receipt: SeveralReceipt, verb: str, lane: Lane, as_json: bool) -> int:
    """Print what was done with several; the exit code, that of the first refusal if there is one."""
    warn(lane.warnings)
    if as_json:
        value = receipt.as_json()
        print_json({verb: value.pop("done"), **value})
    else:
        print_line(f"{verb} {len(receipt.done)}: {', '.join(receipt.done) or 'none'}")
        for refusal in receipt.refused:
            print_line(f"not {verb}: {refusal.error}")
    return receipt.refused[0].exit_code if receipt.refused else 0


@click.group(invoke_without_command=True)
@run_dir_option
@json_option
@click.pass_context
def quarantine(ctx: click.Context, run_dir: Path, as_json: bool) -> None:
    """What could not be read as a record."""
    ctx.obj = (run_dir, as_json)
    if ctx.invoked_subcommand is None:
        _list_quarantine(run_dir, as_json)


def _common(ctx: click.Context, run_dir: Path | None, as_json: bool) -> tuple[Path, bool]:
    outer_dir, outer_json = ctx.obj
    return run_dir or outer_dir, as_json or outer_json


_run_dir_again = click.option("--run-dir", type=RUN_DIR, default=None, help="The run directory.")


@quarantine.command("list")
@_run_dir_again
@json_option
@click.pass_context
def quarantine_list(ctx: click.Context, run_dir: Path | None, as_json: bool) -> None:
    """List it, with the reasons."""
    _list_quarantine(*_common(ctx, run_dir, as_json))


def _list_quarantine(run_dir: Path, as_json: bool) -> None:
    from meshtui.core.clock import SystemClock, iso
    from meshtui.core.lane.reader import LaneReader

    view = LaneReader(existing(run_dir), clock=SystemClock(), history=False).refresh(budget=0)
    if as_json:
        print_json(
            [
                {
                    "name": row.key,
                    "reason": row.error,
                    "at": None if row.finished_at is None else iso(row.finished_at),
                }
                for row in view.quarantined
            ]
        )
        return
    for row in view.quarantined:
        print_line(f"{row.key}: {row.error or 'no reason recorded'}")
    if not view.quarantined:
        print_line("nothing in quarantine")


@quarantine.command("repair")
@_run_dir_again
@json_option
@click.argument("name", metavar="N", shell_complete=quarantined)
@click.pass_context
def quarantine_repair(ctx: click.Context, run_dir: Path | None, as_json: bool, name: str) -> None:
    """Put a record that can be read now back at the end of the queue."""
    root, as_json = _common(ctx, run_dir, as_json)
    receipt = lane_at(root, by="quarantine").quarantine_repair(name)
    if as_json:
        print_json(receipt.as_json())
        return
    print_line(f"{receipt.envelope_id} is pending again")


@quarantine.command("drop")
@_run_dir_again
@json_option
@click.argument("name", metavar="N", shell_complete=quarantined)
@click.pass_context
def quarantine_drop(ctx: click.Context, run_dir: Path | None, as_json: bool, name: str) -> None:
    """Give an entry up; the file is kept under quarantine/.dropped."""
    root, as_json = _common(ctx, run_dir, as_json)
    receipt = lane_at(root, by="quarantine").quarantine_drop(name)
    if as_json:
        print_json(receipt.as_json())
        return
    print_line(f"dropped {name}")
