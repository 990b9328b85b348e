"""Draws the pictures in this folder from a demo that is built and worked for it: ``make screenshots``.

The work is real, the clock is not: it stands still and is moved at each start of a phase, so that the same
files come out every time, on every machine.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from meshtui.core.lane.lane import Lane
from meshtui.core.lane.reader import LaneReader
from meshtui.core.lane.service import open_runner
from meshtui.core.mesh.detail import read_part
from meshtui.core.overview import RunDirReader
from meshtui.core.view import Detail, LaneView
from meshtui.demo.build import Demo, open_demo
from meshtui.demo.envelopes import SOAK, SOAK_DEADLINE_SECONDS
from meshtui.headless import render_fleet_svg, render_svg
from screenshots.fleet import build_lanes

HERE = Path(__file__).parent
BEGIN_MS = 1_796_115_600_000
"""2026-12-01 09:00:00 UTC."""
GIT_DATE = "2026-12-01T09:00:00+0000"
SHOWN_ROOT = "/home/ada/demo"
SHOWN_PID = 4121
WIDE = (120, 36)

SECONDS = {
    "tidy": 0.4,
    "imports": 0.4,
    "compile": 0.9,
    "test": 1.2,
    "leap-year-diagnose": 1.1,
    "leap-year-repair": 1.6,
    "docs": 0.3,
    "changelog": 0.5,
    "mission": 4.2,
}
"""How long a phase takes by the clock of the pictures."""
SOAK_SECONDS = 3.1
STAND_INS = {
    "output_bytes": 78,
    "last_output_at": "2026-12-01T09:00:10.650Z",
    "output_age_seconds": 0.1,
    "cpu_seconds": 1.4,
    "last_change_at": "2026-12-01T09:00:09.200Z",
}
"""What a stall is told by depends on the machine's speed, to the byte and the millisecond."""


TIMED = ("mission.svg", "diff.svg", "proof.svg")
"""Pictures of a mission: how long its loops took is this machine's, and differs from time to time."""


class StagedClock:
    """A clock that stands still until it is moved; waiting goes by the real one."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return time.monotonic()

    def advance(self, seconds: float) -> None:
        self._now_ms += round(seconds * 1000)


class Moment:
    """What there was to see of the demo's lane at one moment, without anything of this machine."""

    def __init__(self, demo: Demo, clock: StagedClock, *, after: float = 0.0) -> None:
        self.now_ms = clock.now_ms() + round(after * 1000)
        reader = LaneReader(demo.run_dir, clock=clock)
        view = reader.refresh()
        while not view.complete:
            view = reader.refresh()
        self._demo = demo
        self._detail = reader.detail
        # What the mission's own runner noted is of its own time, which nobody can stage.
        journal = tuple(event for event in view.journal if "mission_id" not in event.data)
        journal = tuple(event for event in journal if not event.event.startswith("mission_"))
        self._view: LaneView = self._neutral(dataclasses.replace(view, journal=journal))
        self._held: dict[str, Detail | None] = {}

    def draw(self, *, size: tuple[int, int], select: str | None = None, screen: str | None = None) -> str:
        """One picture; ``select`` is the id of an envelope."""
        key = None if select is None else self._key_of(select)
        return render_svg(
            self._view, size=size, now_ms=self.now_ms, detail=self._read, select=key, screen=screen
        )

    def hold(self, envelope_id: str) -> None:
        """Read an envelope's details now, for a picture that is drawn when they are different."""
        key = self._key_of(envelope_id)
        self._held[key] = self._read(key)

    def _key_of(self, envelope_id: str) -> str:
        rows = [
            row
            for section in ("pending", "active", "done", "failed", "stalled")
            for row in self._view.rows(section)
        ]
        return next(row.key for row in rows if row.envelope_id == envelope_id)

    def _read(self, key: str) -> Detail | None:
        if key in self._held:
            return self._held[key]
        found: Detail | None = self._neutral(self._detail(key))
        return found

    def _neutral(self, value: Any) -> Any:
        return neutral(self._demo, value)


def neutral(demo: Demo, value: Any) -> Any:
    """``value`` with the paths, process numbers and random names of every run of this script alike."""
    if isinstance(value, str):
        text = value.replace(str(demo.root), SHOWN_ROOT).replace(sys.executable, "python")
        text = re.sub(r", silent for [^,·]*", "", text)
        return re.sub(r"(-run-|\bm-)[0-9a-f]{8}\b", r"\g<1>00000000", text)
    if isinstance(value, dict):
        return {key: STAND_INS.get(key, neutral(demo, item)) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(neutral(demo, item) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {
            field.name: _field(demo, field.name, getattr(value, field.name))
            for field in dataclasses.fields(value)
            if field.init
        }
        return dataclasses.replace(value, **changed)
    return value


def _field(demo: Demo, name: str, value: Any) -> Any:
    if name == "pid":
        return None if value is None else SHOWN_PID
    if name == "run_dir":
        return Path(neutral(demo, str(value)))
    # A record's name is how it is found again.
    return value if name == "key" else neutral(demo, value)


def build(root: Path, clock: StagedClock) -> Demo:
    """A demo whose commits have the same names every time."""
    demo, _ = open_demo(root, clock=clock)
    dates = {"GIT_AUTHOR_DATE": GIT_DATE, "GIT_COMMITTER_DATE": GIT_DATE}
    amend = ["git", "commit", "--quiet", "--amend", "--no-edit", "--reset-author"]
    subprocess.run(amend, cwd=demo.repo, env={**os.environ, **dates}, check=True)
    config = demo.run_dir.config
    text = config.read_text(encoding="utf-8")
    pairs = "".join(f'{key} = "{value}", ' for key, value in dates.items())
    config.write_text(text.replace("env = { ", f"env = {{ {pairs}"), encoding="utf-8")
    return demo


def work(demo: Demo, clock: StagedClock, seen: Callable[[str, str, dict[str, Any]], None]) -> None:
    """Run the lane until nothing is left that can run."""
    runner = open_runner(demo.run_dir, until_idle=True, clock=clock)
    runner.listen(seen)
    runner.run()


def _wait_for_output(demo: Demo, call_id: str) -> None:
    """Until the call has said something: whether it had makes a difference to what its stall is told by."""
    log = demo.run_dir.calls / call_id / "stdout.log"
    end = time.monotonic() + 30
    while not log.stat().st_size and time.monotonic() < end:
        time.sleep(0.01)


def draw_all(root: Path) -> dict[str, str]:
    """File name to picture, of a demo built in ``root``."""
    clock = StagedClock(BEGIN_MS)
    demo = build(root, clock)
    clock.advance(1)
    pictures: dict[str, str] = {}
    running: list[Moment] = []
    soak_seconds = float(SOAK_DEADLINE_SECONDS)

    def stage(event: str, subject: str, data: dict[str, Any]) -> None:
        if event != "phase_started":
            return
        if subject == SOAK:
            _wait_for_output(demo, data["call"])
            if data["attempt"] == 2:
                # Drawing takes its time, and the phase would end by itself meanwhile.
                running.append(Moment(demo, clock, after=1))
                running[0].hold(SOAK)
        clock.advance(soak_seconds if subject == SOAK else SECONDS[subject])

    work(demo, clock, stage)
    pictures["running.svg"] = running[0].draw(size=WIDE, select=SOAK)
    clock.advance(4)
    parked = Moment(demo, clock)
    pictures["parked.svg"] = parked.draw(size=WIDE, select=SOAK)
    pictures["enqueue.svg"] = parked.draw(size=WIDE, screen="enqueue")
    pictures["narrow.svg"] = parked.draw(size=(60, 18))
    pictures |= draw_fleet(demo, clock)
    Lane(demo.run_dir, clock=clock, by="demo").answer(SOAK, "retry", deadline_seconds=30)
    soak_seconds = SOAK_SECONDS
    work(demo, clock, stage)
    clock.advance(4)
    finished = Moment(demo, clock)
    pictures["handoff.svg"] = finished.draw(size=WIDE, select="leap-year-repair", screen="handoff")
    pictures["output.svg"] = finished.draw(size=WIDE, select="tidy", screen="output")
    return pictures | draw_mission(demo)


def draw_fleet(demo: Demo, clock: StagedClock) -> dict[str, str]:
    """The demo's lane, which waits for an answer, beside others."""
    others = demo.root / "lanes"
    build_lanes(others, clock)
    question = demo.run_dir.lane.question(SOAK)
    told = question.read_text(encoding="utf-8")
    value = json.loads(told)
    value["evidence"] |= {key: STAND_INS[key] for key in STAND_INS if key in value["evidence"]}
    question.write_text(json.dumps(value), encoding="utf-8")
    places = [demo.run_dir.root, *sorted(path for path in others.iterdir() if path.is_dir())]
    clock.advance(30)
    pictures = {
        f"{screen}.svg": render_fleet_svg(places, size=WIDE, now_ms=clock.now_ms(), screen=screen)
        for screen in ("fleet", "inbox")
    }
    question.write_text(told, encoding="utf-8")
    return pictures


def draw_mission(demo: Demo) -> dict[str, str]:
    """The demo's mission when it is done."""
    now_ms = round(time.time() * 1000)
    missions = RunDirReader(demo.run_dir).refresh().missions
    loops = {loop.loop_id: loop.key for mission in missions for loop in mission.loops}
    shown = {
        "mission.svg": ("loops", "loop-months"),
        "diff.svg": ("diff", "loop-docs"),
        "proof.svg": ("proof", "loop-months"),
    }

    def read(*arguments: Any) -> Any:
        return neutral(demo, read_part(*arguments))

    with patch("meshtui.core.mesh.detail.read_part", read):
        return {
            name: render_svg(demo.run_dir.root, size=WIDE, now_ms=now_ms, screen=screen, select=loops[loop])
            for name, (screen, loop) in shown.items()
        }


def main() -> None:
    """Write the pictures that changed, and say which."""
    with tempfile.TemporaryDirectory(prefix="meshtui-screenshots-") as folder:
        pictures = draw_all(Path(folder) / "demo")
    for name, svg in pictures.items():
        path = HERE / name
        same = path.exists() and path.read_text(encoding="utf-8") == svg
        if not same:
            path.write_text(svg, encoding="utf-8")
        print(f"{'as it was' if same else 'drawn    '}  {path.relative_to(HERE.parent)}")


if __name__ == "__main__":
    main()
