"""Commands inside the queue: head, edit."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from meshtui.cli.completing import ANYWHERE, engines, envelopes
from meshtui.cli.options import json_option, lane_at, run_dir_option
from meshtui.cli.output import print_json, print_line, warn
from meshtui.cli.queue import read_envelope
from meshtui.core.errors import InvalidInput

_NAMES = {"story": "story_id"}


@click.command()
@run_dir_option
@json_option
@click.argument("envelope_ids", metavar="ID…", nargs=-1, required=True, shell_complete=envelopes("pending"))
def head(run_dir: Path, as_json: bool, envelope_ids: tuple[str, ...]) -> None:
    """Put pending envelopes before everything that waits, in this order; all or none."""
    lane = lane_at(run_dir, by="head")
    receipt = lane.head(envelope_ids)
    warn(lane.warnings)
    if as_json:
        print_json({"moved": list(receipt.moved), "queue_depth": receipt.queue_depth})
        return
    verb = "is" if len(receipt.moved) == 1 else "are"
    print_line(f"{', '.join(receipt.moved)} {verb} at the head of {receipt.queue_depth} pending")


@click.command()
@run_dir_option
@json_option
@click.argument("envelope_id", metavar="ID", shell_complete=envelopes(*ANYWHERE))
@click.argument("source", required=False, metavar="[-]")
@click.option("--file", "file", type=click.Path(path_type=Path), help="The whole envelope, in a JSON file.")
@click.option("--prompt", help="What the phase is to do.")
@click.option("--label", help="What to call it in lists.")
@click.option("--story", help="The story whose session it goes on with.")
@click.option("--phase", help="The phase of the story.")
@click.option("--engine", shell_complete=engines, help="claude, codex, grok or command.")
@click.option("--model", help="The engine's model.")
@click.option("--effort", help="The engine's effort.")
@click.option("--mode", help="single or mesh.")
@click.option("--fresh/--no-fresh", default=None, help="Start a new session, or not.")
@click.option("--deadline-seconds", type=float, help="How long each attempt may take.")
@click.option("--deadline", help="When it must be done (ISO 8601).")
@click.option("--cd", help="Where it runs (absolute).")
@click.option("--repo", help="The repository it works in (absolute).")
@click.option("--result-path", help="Where its result is written too.")
@click.option("--unset", multiple=True, metavar="FIELD", help="Take a field out of it; may be given again.")
def edit(
    run_dir: Path,
    as_json: bool,
    envelope_id: str,
    source: str | None,
    file: Path | None,
    unset: tuple[str, ...],
    **fields: Any,
) -> None:
    """Change an envelope that is not started: withdrawn, changed and queued again in one step.

    A pending one keeps its place; a finished, failed or withdrawn one goes to the end. Without options it is
    opened in $EDITOR.
    """
    if source not in (None, "-"):
        raise click.UsageError(f"unexpected argument {source!r}; use options, --file E.json or -")
    changes = {_NAMES.get(key, key): value for key, value in fields.items() if value is not None}
    whole = [name for name, value in (("-", source), ("--file", file)) if value is not None]
    if len(whole) > 1 or (whole and (changes or unset)):
        raise click.UsageError("give the whole envelope (--file or -) or single fields, not both")
    lane = lane_at(run_dir, by="edit")
    base: dict[str, Any] | None = None
    if whole:
        envelope = read_envelope(file)
    else:
        base = lane.envelope(envelope_id)[1]
        envelope = _changed(base, changes, unset) if changes or unset else _in_editor(base)
    receipt = lane.edit(envelope_id, envelope, base=base)
    warn(f"{envelope_id}: {text}" for text in receipt.warnings)
    warn(lane.warnings)
    if as_json:
        value = receipt.as_json()
        del value["before"], value["folder"]
        print_json(value)
        return
    print_line(f"edited {envelope_id}, {receipt.position} of {receipt.queue_depth} pending")


def _changed(base: dict[str, Any], changes: dict[str, Any], unset: tuple[str, ...]) -> dict[str, Any]:
    missing = [name for name in unset if name not in base]
    if missing:
        raise InvalidInput(f"the envelope has no field {missing[0]!r}; it has {', '.join(base)}")
    return {**{key: value for key, value in base.items() if key not in unset}, **changes}


def _in_editor(base: dict[str, Any]) -> dict[str, Any]:
    from meshtui.core import strict_json

    if not (sys.stdin is not None and sys.stdin.isatty()):
        raise click.UsageError("nothing to change: give fields, --file E.json or -")
    text = click.edit(json.dumps(base, indent=2, ensure_ascii=False) + "\n", extension=".json")
    if text is None:
        raise InvalidInput("the editor saved nothing: nothing was changed")
    return strict_json.load_object(text.encode(), limit=strict_json.MAX_BYTES, what="the edited envelope")
