"""A few small lanes beside the demo's, worked for real, for the pictures of several lanes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from meshtui.core.clock import Clock
from meshtui.core.lane.create import create_run_dir
from meshtui.core.lane.lane import Lane
from meshtui.core.lane.service import open_runner
from meshtui.core.run_dir import RunDir


class Advancing(Clock, Protocol):
    """A clock that can be moved."""

    def advance(self, seconds: float) -> None:
        """Move it on by ``seconds``."""
        ...


LANES: dict[str, tuple[tuple[str, str, str], ...]] = {
    "billing": (
        ("US-031", "invoices", "echo 'tests/test_invoice.py::test_rounding failed'; exit 1"),
        ("US-031", "review", ""),
        ("US-032", "plan", ""),
    ),
    "search": (
        ("US-040", "index", "echo indexed"),
        ("US-040", "ranking", "echo ranked"),
        ("US-041", "plan", ""),
    ),
    "website": (("US-050", "home", "echo built"),),
}
"""Story, phase and command of the phases of each lane; without a command it still waits."""


def build_lanes(root: Path, clock: Advancing) -> None:
    """Make the lanes below ``root`` and work what has a command."""
    for name, phases in LANES.items():
        run_dir = create_run_dir(root / name, clock, lane_id=name, repo=root)
        lane = Lane(run_dir, clock=clock, by="demo")
        worked = [phase for phase in phases if phase[2]]
        for story, phase, command in worked:
            lane.enqueue(_envelope(story, phase, command))
            clock.advance(20)
            _work(run_dir, command, clock)
        for story, phase, command in phases[len(worked) :]:
            lane.enqueue(_envelope(story, phase, command))
            clock.advance(20)


def _envelope(story: str, phase: str, command: str) -> dict[str, Any]:
    return {
        "kind": "phase",
        "id": f"{story}-{phase}",
        "story_id": story,
        "phase": phase,
        "engine": "command",
        "prompt": command or f"{phase} of {story}",
    }


def _work(run_dir: RunDir, command: str, clock: Advancing) -> None:
    runner = open_runner(run_dir, run=command, until_idle=True, clock=clock)
    runner.listen(lambda event, *_: clock.advance(95) if event == "phase_started" else None)
    runner.run()
