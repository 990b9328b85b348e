"""Options that many commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from meshtui.core.run_dir import RunDir

if TYPE_CHECKING:
    from meshtui.core.lane.lane import Lane

DEFAULT_RUN_DIR = ".meshtui"

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class RunDirType(click.Path):
    """The path of a run directory; an empty one (a variable nobody set) is not taken for this folder."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("it is empty; name a folder", param, ctx)
        return super().convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="dir")]


RUN_DIR = RunDirType()


def default_run_dir() -> Path:
    """``$MESHTUI_RUN_DIR``, else ``./.meshtui``."""
    return Path(os.environ.get("MESHTUI_RUN_DIR") or DEFAULT_RUN_DIR)


def chosen_run_dir() -> Path:
    """The run directory named before the command, else the default one."""
    ctx = click.get_current_context(silent=True)
    named = ctx.find_root().params.get("run_dirs") if ctx is not None else None
    return named[0] if named else default_run_dir()


def run_dir_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--run-dir DIR``, as ``run_dir: Path``."""
    return click.option(
        "--run-dir",
        type=RUN_DIR,
        default=chosen_run_dir,
        help="The run directory (default: $MESHTUI_RUN_DIR, else ./.meshtui).",
    )(command)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--json``, as ``as_json: bool``."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def envelope_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """One option for each field of an envelope that says how its phase is run, ``None`` where not given."""
    from meshtui.cli.completing import engines

    options = (
        click.option("--label", help="What to call it in lists."),
        click.option("--story", help="The story whose session it goes on with."),
        click.option("--phase", help="The phase of the story."),
        click.option("--engine", shell_complete=engines, help="claude, codex, grok or command."),
        click.option("--model", help="The engine's model."),
        click.option("--effort", help="The engine's effort."),
        click.option("--mode", help="single or mesh."),
        click.option("--deadline-seconds", type=float, help="How long each attempt may take."),
        click.option("--deadline", help="When it must be done (ISO 8601)."),
        click.option("--cd", help="Where it runs (absolute)."),
        click.option("--repo", help="The repository it works in (absolute)."),
        click.option("--result-path", help="Where its result is written too."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def existing(root: Path) -> RunDir:
    """The run directory at ``root``; exit 3 if there is none."""
    from meshtui.core.lane.create import open_run_dir

    return open_run_dir(root)


def lane_at(root: Path, *, by: str) -> Lane:
    """The lane of the run directory at ``root``, for the command ``by``; exit 3 if there is none."""
    from meshtui.core.lane.lane import Lane

    return Lane(existing(root), by=by)


def has_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin is not None and sys.stdin.isatty()
