"""What needs the operator, and when it no longer does."""

from __future__ import annotations

import subprocess
from pathlib import Path

from meshtui.core.clock import SystemClock
from meshtui.core.journal import Journal
from meshtui.core.lane.create import create_run_dir
from meshtui.core.lane.lane import Lane
from meshtui.core.lane.reader import LaneReader


def test_a_survivor_of_a_kill_needs_the_operator_while_it_runs(tmp_path: Path) -> None:
    run_dir = create_run_dir(tmp_path / "lane", SystemClock())
    Lane(run_dir).enqueue({"kind": "phase", "prompt": "p", "id": "a", "engine": "command"})
    with subprocess.Popen(["sleep", "60"]) as process:
        names = [f"sleep (pid {process.pid})", "gone (pid 999999999)"]
        Journal(run_dir, SystemClock()).append("call_survivors", "a", {"call": "c", "survivors": names})
        (item,) = LaneReader(run_dir).refresh().attention
        assert (item.kind, item.subject) == ("survivor", "a")
        assert item.text == f"would not end: sleep (pid {process.pid})"
        process.kill()
    assert LaneReader(run_dir).refresh().attention == ()
