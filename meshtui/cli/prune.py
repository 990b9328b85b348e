"""``meshtui prune``: remove the call folders and working copies of finished work."""

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
    """Show what finished calls and working copies take up and, once confirmed, remove them."""
    from meshtui.core.mesh.prune import remove_worktrees
    from meshtui.core.prune import find_prunable, remove_calls

    run = existing(run_dir)
    found = find_prunable(run)
    size = sum(item.size for item in found.calls)
    free = [item for item in found.worktrees if item.refused is None]
    if not as_json:
        print_line(
            f"{len(found.calls)} finished calls take {size:,} bytes; {len(found.kept)} stay (alive or needed)"
        )
        for item in found.worktrees:
            print_line(
                f"worktree {item.path}: {item.size:,} bytes"
                + (f", stays: {item.refused}" if item.refused else "")
            )
    if (found.calls or free) and not yes:
        what = f"{len(found.calls)} finished calls ({size} bytes) and {len(free)} worktrees"
        if as_json or not has_terminal():
            raise InvalidInput(f"{what} would be removed; say --yes to do it")
        if not click.confirm(f"Remove {what} for good?", default=False):
            raise InvalidInput("nothing removed")
    gone = remove_worktrees(run, free)
    removed = remove_calls(run, found)
    if as_json:
        print_json(
            {
                "removed": removed,
                "bytes": size + sum(item.size for item in free),
                "kept": list(found.kept),
                "worktrees": [str(path) for path in gone],
                "refused": {str(item.path): item.refused for item in found.worktrees if item.refused},
            }
        )
    else:
        print_line(f"removed {len(removed)}" + (f" and {len(gone)} worktrees" if gone else ""))
