"""The group ``meshtui``: without a command it opens the console or draws one frame of it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from meshtui import __version__
from meshtui.cli.options import RUN_DIR, default_run_dir

_COMMANDS = {
    "demo": "demo",
    "lane": "lane",
    "enqueue": "queue",
    "interrupt": "queue",
    "restore": "queue",
    "withdraw": "queue",
    "requeue": "queue",
    "head": "rearrange",
    "edit": "rearrange",
    "quarantine": "queue",
    "answer": "steer",
    "stop": "steer",
    "pause": "steer",
    "continue": "steer",
    "kill": "steer",
    "extend": "steer",
    "message": "steer",
    "plan": "mission",
    "run": "mission",
    "resume": "mission",
    "graph": "mission",
    "proof": "mission",
    "land": "mission",
    "discard": "mission",
    "status": "look",
    "events": "look",
    "logs": "look",
    "wait": "wait",
    "doctor": "doctor",
    "prune": "prune",
    "trust": "doctor",
    "serve": "serve",
    "config": "config",
    "completions": "completions",
}
_ATTRIBUTE = {"continue": "continue_"}
_SECTIONS = {
    "Start here": ("demo", "doctor", "enqueue", "run"),
    "The lane": ("lane", "stop", "pause", "continue", "interrupt", "restore", "withdraw", "requeue", "head", "edit",
                 "extend", "message", "quarantine"),
    "Missions": ("plan", "resume", "graph", "proof", "land", "discard"),
    "Deciding": ("answer", "kill"),
    "Looking": ("status", "events", "logs", "wait", "serve"),
    "Around it": ("config", "completions", "trust", "prune"),
}  # fmt: skip
"""The commands as ``meshtui --help`` tells them."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # From the names alone: asking each command for its help would import them all.
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        if ctx.args or ctx._protected_args:
            return []  # a command that does not exist stands there already
        return [CompletionItem(name) for name in _COMMANDS if name.startswith(incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, names in _SECTIONS.items():
            rows = []
            for name in names:
                command = self.get_command(ctx, name)
                assert command is not None
                rows.append((name, command.get_short_help_str(limit=200)))
            with formatter.section(section):
                formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        module = _COMMANDS.get(name)
        if module is None:
            return None
        command: click.Command = getattr(import_module(f"meshtui.cli.{module}"), _ATTRIBUTE.get(name, name))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            near = get_close_matches(args[0], _COMMANDS, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"no command {args[0]!r}{hint}", ctx) from error


@click.group(
    cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option(
    "--run-dir",
    "run_dirs",
    multiple=True,
    type=RUN_DIR,
    help="The run directory to open (default: $MESHTUI_RUN_DIR, else ./.meshtui).",
)
@click.option("--headless", is_flag=True, help="Draw one frame or print one snapshot, without a terminal.")
@click.option("--screenshot", type=click.Path(path_type=Path), help="Write the frame to this SVG file.")
@click.option("--json", "as_json", is_flag=True, help="Print the snapshot.")
@click.option("--size", default="120x40", show_default=True, help="Columns x rows of the frame.")
@click.option("--now", help="Draw as of this moment (ISO 8601), for frames that do not change.")
@click.option("--screen", help="Which screen to draw.")
@click.option(
    "--fail-on", help="Exit 1 if any of these need attention: parked,failed,blocked,quarantined,dead…"
)
@click.option(
    "--replay", type=click.Path(path_type=Path), help="Play a run directory's journal (or an events.jsonl)."
)
@click.option("--at", "moment", help="Where a replay begins: ISO 8601, HH:MM:SS, or a share such as 50%.")
@click.option("--read-only", is_flag=True, help="Look only: every action is switched off.")
@click.option("--no-color", is_flag=True, help="Draw without colours.")
@click.option("--monochrome", is_flag=True, help="Draw in shades of one colour.")
@click.option("--ascii", "ascii_", is_flag=True, help="Draw every sign and border in ASCII.")
@click.option("--theme", help="Draw in these colours; meshtui config themes lists them.")
@click.version_option(__version__, prog_name="meshtui")
@click.pass_context
def root(
    ctx: click.Context,
    run_dirs: tuple[Path, ...],
    headless: bool,
    screenshot: Path | None,
    as_json: bool,
    size: str,
    now: str | None,
    screen: str | None,
    fail_on: str | None,
    replay: Path | None,
    moment: str | None,
    read_only: bool,
    no_color: bool,
    monochrome: bool,
    ascii_: bool,
    theme: str | None,
) -> int | None:
    """The operator's console for many coding agents, and the engine behind it.

    Without a command it opens the console on a run directory; ? shows its keys.

    \b
    meshtui demo                                     see it work, without an AI
    meshtui enqueue --prompt "fix the failing test"  queue a phase here
    meshtui run "add a --verbose flag"               plan a mission and run it
    meshtui --read-only --run-dir /srv/lane          only look
    meshtui --headless --fail-on parked,failed       in a script: exit 1 if any
    """
    if ctx.invoked_subcommand is not None:
        _belongs_after(ctx)
        return None
    from meshtui.cli.console import Looks, draw, open_console

    looks = Looks(no_color=no_color, monochrome=monochrome, ascii=ascii_, theme=theme)
    if replay is not None:
        if run_dirs:
            raise click.UsageError("--replay names what is shown: leave --run-dir out")
        from meshtui.cli.replay import draw_replay, open_replay

        if headless or screenshot is not None or as_json:
            return draw_replay(
                replay,
                moment,
                screenshot=screenshot,
                as_json=as_json,
                size=size,
                screen=screen,
                looks=looks,
            )
        return open_replay(replay, moment, looks=looks)
    if moment is not None:
        raise click.UsageError("--at is for a recording: give --replay RUN with it")
    roots = run_dirs or (default_run_dir(),)
    if headless or screenshot is not None or as_json:
        return draw(
            roots,
            screenshot=screenshot,
            as_json=as_json,
            size=size,
            now=now,
            screen=screen,
            fail_on=fail_on,
            looks=looks,
        )
    return open_console(roots, read_only=read_only, looks=looks, may_begin=not run_dirs)


def _belongs_after(ctx: click.Context) -> None:
    """Refuse the console's options before a command, but for one run directory: nothing is left unheeded."""
    for param in ctx.command.params:
        given = param.name is not None and ctx.get_parameter_source(param.name) is ParameterSource.COMMANDLINE
        if not given or (param.name == "run_dirs" and len(ctx.params["run_dirs"]) == 1):
            continue
        raise click.UsageError(
            f"{param.opts[0]} before {ctx.invoked_subcommand} would do nothing; "
            f"see what it takes: meshtui {ctx.invoked_subcommand} --help",
            ctx,
        )
