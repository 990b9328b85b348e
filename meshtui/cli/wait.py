"""``meshtui wait``: block until an envelope or the lane reaches a state."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from meshtui.cli.completing import ANYWHERE, subjects
from meshtui.cli.options import existing, json_option, run_dir_option
from meshtui.cli.output import print_json, print_line
from meshtui.core.clock import SystemClock
from meshtui.core.errors import NeedsOperator, NotFound, WorkFailed
from meshtui.core.run_dir import RunDir

if TYPE_CHECKING:
    from meshtui.core.mesh.paths import MissionPaths

POLL_SECONDS = 0.05
LANE_STATES = ("waiting", "running", "parked", "stopped", "failed", "paused", "dead", "idle")
ENVELOPE_STATES = ("pending", "active", "done", "failed", "stalled", "withdrawn", "stopped", "finished")
LONGEST_ID = 80
"""Characters of a mission's id."""
MISSION_STATES = ("planned", "running", "handoff", "done", "bad", "dead", "finished")
_FINAL = ("done", "failed", "stopped")
PARKED = "stalled"


@click.command()
@run_dir_option
@json_option
@click.argument(
    "subject",
    metavar="(ENVELOPE | MISSION | lane)",
    shell_complete=subjects(*ANYWHERE, loops=False, words=("lane",)),
)
@click.option(
    "--for",
    "wanted",
    help="The state; envelopes and missions: finished (default), done, failed, bad, handoff…; "
    "lane: idle (default), parked…",
)
@click.option("--timeout", type=float, help="Give up after so many seconds (exit 1).")
def wait(run_dir: Path, as_json: bool, subject: str, wanted: str | None, timeout: float | None) -> None:
    """Wait until an envelope, a mission or the lane is in a state.

    \b
    meshtui wait lane --timeout 3600
    meshtui wait US-12 --for done
    """
    run = existing(run_dir)
    mission = None if subject == "lane" else _mission(run, subject)
    states = LANE_STATES if subject == "lane" else MISSION_STATES if mission else ENVELOPE_STATES
    wanted = wanted or ("idle" if subject == "lane" else "finished")
    if wanted not in states:
        raise click.UsageError(f"--for {wanted} is no state of {subject!r}; use one of: {', '.join(states)}")
    end = None if timeout is None else time.monotonic() + timeout
    look = _Lane(run) if subject == "lane" else mission or _Envelope(run, subject)
    while True:
        state = look.state()
        if look.reached(state, wanted):
            if as_json:
                print_json({"subject": subject, "state": state})
            else:
                print_line(f"{subject} is {state}")
            return
        if state == PARKED:
            raise NeedsOperator(
                f"{subject} is parked and will not become {wanted} before somebody answers it: "
                f"meshtui answer {subject} --retry or --drop"
            )
        if look.over(state):
            raise WorkFailed(f"{subject} is {state} and will not become {wanted} by itself")
        if end is not None and time.monotonic() >= end:
            raise WorkFailed(f"{subject} is {state}, not {wanted}, after {timeout:g} s")
        time.sleep(POLL_SECONDS)


class _Lane:
    def __init__(self, run: RunDir) -> None:
        from meshtui.core.lane.reader import LaneReader

        self._reader = LaneReader(run, clock=SystemClock(), history=False)

    def state(self) -> str:
        view = self._reader.refresh(budget=0)
        idle = not view.pending and not view.active
        return f"{view.state}, idle" if idle else view.state

    def reached(self, state: str, wanted: str) -> bool:
        return wanted in state.split(", ")

    def over(self, state: str) -> bool:
        return False


class _Mission:
    def __init__(self, paths: MissionPaths) -> None:
        from meshtui.core.mesh.view import MissionReader

        self._reader = MissionReader(paths)

    def state(self) -> str:
        return self._reader.refresh().state

    def reached(self, state: str, wanted: str) -> bool:
        return state == wanted or (wanted == "finished" and state in ("done", "bad", "handoff"))

    def over(self, state: str) -> bool:
        return state in ("done", "bad")


def _mission(run: RunDir, name: str) -> _Mission | None:
    """The mission called ``name``, unless an envelope has that id."""
    folders = _mission_folders(run)
    if not folders or "/" in name or len(name) > LONGEST_ID:
        return None
    if name != "latest" and not any((folder / name).exists() for folder in folders):
        return None
    from meshtui.core.lane.queue import Queue
    from meshtui.core.mesh.service import find_mission

    if run.lane.root.is_dir() and Queue(run.lane, SystemClock()).find(name) is not None:
        return None
    try:
        return _Mission(find_mission(run, name))
    except NotFound:
        return None


def _mission_folders(run: RunDir) -> list[Path]:
    """Where missions may be, looked at before their room is imported."""
    from meshtui.core.lane.create import repo_of

    repo = repo_of(run) if run.about.exists() else None
    below = [root / ".sneakoscope" / "missions" for root in (run.root, repo) if root is not None]
    return [folder for folder in (run.missions, *below) if folder.is_dir()]


class _Envelope:
    def __init__(self, run: RunDir, envelope_id: str) -> None:
        from meshtui.core.lane.queue import Queue

        self._run = run
        self._id = envelope_id
        self._queue = Queue(run.lane, SystemClock())

    def state(self) -> str:
        from meshtui.core.lane.rows import read_object

        # A record that moves while its folder is looked for may be missed once.
        found = self._queue.find(self._id) or self._queue.find(self._id)
        if found is None:
            raise NotFound(f"no envelope {self._id!r} in {self._run.root}; see: meshtui status")
        if found[0] != "claimed":
            return found[0]
        result = read_object(self._run.lane.result(self._id)) or {}
        return str(result.get("status") or "active")

    def reached(self, state: str, wanted: str) -> bool:
        return state == wanted or (wanted == "finished" and state in _FINAL)

    def over(self, state: str) -> bool:
        return state in _FINAL
