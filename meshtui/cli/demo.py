"""``meshtui demo``: real work in a small repository, to look at and to play with."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from meshtui.cli.options import has_terminal, json_option
from meshtui.cli.output import print_json, print_line
from meshtui.core.errors import WorkFailed

if TYPE_CHECKING:
    from meshtui.demo.build import Demo
    from meshtui.demo.work import Mission, Report

BY_SIGNAL = 130
PICTURE_SIZE = (120, 40)


@click.command()
@click.option(
    "--dir",
    "root",
    type=click.Path(path_type=Path),
    help="Where to build it: a new or empty folder, or an earlier demo to go on with "
    "(default: a fresh folder among the system's temporary files).",
)
@click.option("--headless", is_flag=True, help="Work it to its end without the console, and tell.")
@json_option
def demo(root: Path | None, headless: bool, as_json: bool) -> int:
    """Build a small git repository and a lane, run real work in it, show it.

    The work is done by scripts in that repository's tools/, and no AI. One phase fails, and one stalls
    twice and waits for an answer: on a terminal yours, otherwise the demo gives it. One is a mission:
    loops that work side by side, each in a working copy of its own, are checked and merged.
    """
    from meshtui.demo.build import open_demo

    where, fresh = open_demo(root)
    if not as_json:
        print_line(f"{'A new demo' if fresh else 'An earlier demo'} in {where.root}")
        print_line("  almanac/  a small git repository with real files")
        print_line("  lane/     the run directory of a lane that works on it, by scripts and no AI")
    if headless or as_json or not _has_terminal():
        return _work(where, as_json=as_json)
    from meshtui.cli.console import open_console

    code = open_console([where.run_dir.root], read_only=False, work=True)
    print_line(f"The demo stays in {where.root}; to go on with it:")
    print_line(f"  {_program()} demo --dir {shlex.quote(str(where.root))}")
    return code


def _program() -> str:
    """How to call meshtui from here: the name where the shell finds it, else the path."""
    if any((Path(folder) / "meshtui").is_file() for folder in os.get_exec_path()):
        return "meshtui"
    script = Path(sys.executable).parent / "meshtui"
    if not script.is_file():
        return f"{shlex.quote(sys.executable)} -m meshtui"
    near = os.path.relpath(script)
    return shlex.quote(near if len(near) < len(str(script)) else str(script))


def _has_terminal() -> bool:
    able = os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")
    return able and has_terminal() and sys.stdout.isatty()


def _work(where: Demo, *, as_json: bool) -> int:
    from meshtui.demo.work import DemoWork

    say = (lambda text: None) if as_json else print_and_flush
    work = DemoWork(where, say)
    signals: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        signals.append(number)
        work.request_stop()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    report = work.run()
    if signals:
        return BY_SIGNAL
    _draw(where)
    if as_json:
        _print_document(where, report)
    else:
        _print_summary(where, report)
    left = [phase for phase in report.phases if phase.status not in ("done", "failed")]
    if left:
        raise WorkFailed(
            f"{left[0].envelope_id} is {left[0].status} still; see: meshtui status --run-dir {where.run_dir.root}"
        )
    return 0


def print_and_flush(text: str) -> None:
    """Print one line at once: somebody may watch through a pipe."""
    print_line(text)
    sys.stdout.flush()


def _draw(where: Demo) -> None:
    from meshtui.core import storage
    from meshtui.core.clock import SystemClock
    from meshtui.headless import render_svg

    svg = render_svg(where.run_dir.root, size=PICTURE_SIZE, now_ms=SystemClock().now_ms())
    storage.write_atomic(where.picture, svg.encode(), durable=False, mode=0o666)


def _print_document(where: Demo, report: Report) -> None:
    print_json(
        {
            "dir": str(where.root),
            "repo": str(where.repo),
            "run_dir": str(where.run_dir.root),
            "picture": str(where.picture),
            **asdict(report),
        }
    )


def _print_summary(where: Demo, report: Report) -> None:
    from meshtui.demo.envelopes import DIAGNOSE_HANDOFF
    from meshtui.demo.work import phase_mark

    counts = [(word, sum(phase.status == word for phase in report.phases)) for word in ("done", "failed")]
    print_line("")
    print_line(f"{len(report.phases)} phases: {', '.join(f'{count} {word}' for word, count in counts)}")
    for phase in report.phases:
        seconds = "" if phase.seconds is None else f"{phase.seconds:.1f} s"
        print_line(f"  {phase_mark(phase.status)} {phase.title:<19} {seconds:>6}  {phase.note}")
    quoted = shlex.quote(str(where.run_dir.root))
    if report.mission is not None:
        _print_mission(report.mission, quoted)
    print_line("")
    print_line(f"repository  {where.repo}  ({report.commits} commits: git log --stat)")
    print_line(f"lane        {where.run_dir.root}")
    print_line(
        f"handoff     {where.run_dir.root / DIAGNOSE_HANDOFF}  (what one phase of leap-year left the next)"
    )
    print_line(f"picture     {where.picture}")
    print_line(f"console     {_program()} --run-dir {quoted}")


def _print_mission(mission: Mission, run_dir: str) -> None:
    from meshtui.demo.work import phase_mark

    done = sum(loop.status == "completed" for loop in mission.loops)
    name = mission.mission_id
    print_line("")
    print_line(f"mission {name}: {len(mission.loops)} loops, {done} completed")
    for loop in mission.loops:
        rounds = f"{loop.iterations} iteration{'' if loop.iterations == 1 else 's'}"
        changed = ", ".join(loop.changed) if len(loop.changed) < 2 else f"{len(loop.changed)} files"
        print_line(f"  {phase_mark(loop.status)} {loop.loop_id:<17} {rounds:>12}  {changed}")
        for why in loop.refused:
            print_line(f"      refused: {why}")
    if mission.branch is not None:
        gates = f"passes {', '.join(mission.gates)}" if mission.gates else "was not tried"
        print_line(f"  merged      {mission.commits} commits on {mission.branch}; the whole {gates}")
        print_line(f"  land it     {_program()} land {name} --run-dir {run_dir}")
    if mission.verified:
        verdict = "does not hold" if mission.mismatches else "holds"
        print_line(
            f"  proof       {verdict}: {mission.verified} claims computed again, {mission.claimed} are words only; "
            f"{_program()} proof {name} --verify --run-dir {run_dir}"
        )
    for mismatch in mission.mismatches:
        print_line(f"      not true: {mismatch}")
