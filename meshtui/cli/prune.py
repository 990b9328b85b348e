"""``meshtui prune``: remove the call folders of finished work."""

from __future__ import annotations

from pathlib import Path

import click

from meshtui.cli.options import existing, has_terminal, json_option, run_dir_option
from meshtui.cli.output import print_json, print_line
from meshtui.core.errors import InvalidInput


@click.command()
@run_dir_option
@json_option
@click.option("--yes", is_flag=True, help="Do it without asking.")
def prune(run_dir: Path, as_json: bool, yes: bool) -> None:
    """Show what finished calls take up and, once confirmed, remove their folders."""
    from meshtui.core.prune import find_prunable, remove_calls

    run = existing(run_dir)
    found = find_prunable(run)
    size = sum(item.size for item in found.calls)
    if not as_json:
        print_line(
            f"{len(found.calls)} finished calls take {size:,} bytes; {len(found.kept)} stay (alive or needed)"
        )
    if found.calls and not yes:
        if as_json or not has_terminal():
            raise InvalidInput(
                f"{len(found.calls)} finished calls ({size} bytes) would be removed; say --yes to do it"
            )
        if not click.confirm("Remove their prompts and logs for good?", default=False):
            raise InvalidInput("nothing removed")
    removed = remove_calls(run, found)
    if as_json:
        print_json({"removed": removed, "bytes": size, "kept": list(found.kept)})
    else:
        print_line(f"removed {len(removed)}")
