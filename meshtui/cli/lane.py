"""``meshtui lane``: run a lane, here or detached."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path
from types import FrameType
from typing import Any

import click

from meshtui.cli.completing import engines
from meshtui.cli.options import has_terminal, json_option, run_dir_option
from meshtui.cli.output import flush, lose_stdout, print_json, print_line, warn

BY_SIGNAL = 130


@click.command()
@run_dir_option
@json_option
@click.option("--lane-id", help="The lane's id (default: the folder's name).")
@click.option(
    "--engine",
    shell_complete=engines,
    help="The engine of envelopes that name none: claude, codex, grok or command.",
)
@click.option("--run", "run", help="The command of engine command, run by /bin/sh -c.")
@click.option("--repo", type=click.Path(path_type=Path), help="Where phases run that do not say it.")
@click.option("--until-idle", is_flag=True, help="End when nothing is pending, or at a park.")
@click.option("--detach", is_flag=True, help="Run in the background; answers once it holds the lease.")
@click.option("--take-over", is_flag=True, help="End a runner that hangs first; its call is adopted.")
@click.option(
    "--trust", is_flag=True, help="Allow the commands of the repository's meshtui.toml for this run."
)
def lane(
    run_dir: Path,
    as_json: bool,
    lane_id: str | None,
    engine: str | None,
    run: str | None,
    repo: Path | None,
    until_idle: bool,
    detach: bool,
    take_over: bool,
    trust: bool,
) -> int:
    """Work the lane: claim envelopes in order and run each to its end.

    \b
    meshtui lane --engine codex --until-idle
    meshtui lane --engine command --run "./work.sh" --detach
    """
    from meshtui.core.clock import SystemClock
    from meshtui.core.lane.create import create_run_dir
    from meshtui.core.lane.service import open_runner, start_detached

    where = create_run_dir(run_dir, SystemClock(), lane_id=lane_id, repo=repo)
    options: dict[str, Any] = {
        "lane_id": lane_id,
        "engine": engine,
        "run": run,
        "repo": repo,
        "until_idle": until_idle,
        "take_over": take_over,
    }
    runner = open_runner(where, **options, trust=trust, ask=None if as_json or not has_terminal() else _ask)
    if detach:
        runner.close()
        pid = start_detached(where, arguments=_arguments({**options, "trust": trust}))
        if as_json:
            print_json({"pid": pid, "run_dir": str(where.root)})
        else:
            print_line(
                f"runner {pid} works {where.root}; see: meshtui --run-dir {shlex.quote(str(where.root))}"
            )
        return 0
    ended_by: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        ended_by.append(number)
        if number == signal.SIGHUP:
            runner.request_hand_over()
        else:
            runner.request_stop()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    if not as_json:
        runner.listen(_say)
    outcome = runner.run()
    code = BY_SIGNAL if ended_by else 5 if outcome.parked else 1 if outcome.bad else 0
    if as_json:
        print_json(
            {
                "lane_id": runner.lane_id,
                "state": outcome.state,
                "completed": outcome.completed,
                "parked": outcome.parked,
                "ended_badly": outcome.bad,
            }
        )
    return code


def _arguments(options: dict[str, Any]) -> list[str]:
    found = []
    for key, value in options.items():
        name = f"--{key.replace('_', '-')}"
        if value is True:
            found.append(name)
        elif value not in (None, False):
            found += [name, str(Path(value).absolute() if key == "repo" else value)]
    return found


def _ask(commands: list[tuple[str, str]]) -> bool:
    warn(["the repository's meshtui.toml runs these commands:"])
    for key, command in commands:
        print_line(f"  {key}: {command}")
    return click.confirm("Trust them as they are now?", default=False)


def _say(event: str, subject: str, data: dict[str, Any]) -> None:
    """One line for what the runner just did."""
    words = [
        f"{key} {data[key]}"
        for key in ("attempt", "error", "cause", "reason", "handoff_status", "state")
        if data.get(key)
    ]
    try:
        print_line(f"{event} {subject}" + (f": {', '.join(words)}" if words else ""))
        flush()
    except OSError as error:
        # Who listened has left, or the disk under it is full: the work goes on all the same.
        lose_stdout()
        warn([f"standard output cannot be written ({error.strerror}); the runner goes on without it"])
