"""A mission's runner in a process of its own, which outlives who started it."""

from __future__ import annotations

import os
import subprocess
import time

from meshtui.core import storage
from meshtui.core.calls import read_tail
from meshtui.core.clock import Clock, SystemClock
from meshtui.core.engines.base import plain
from meshtui.core.errors import Held, WorkFailed
from meshtui.core.lane.lease import holder
from meshtui.core.lane.service import DETACH_SECONDS, detached_environment
from meshtui.core.mesh.paths import MissionPaths
from meshtui.core.own import own_command
from meshtui.core.run_dir import RunDir


def start_detached_mission(run_dir: RunDir, paths: MissionPaths, *, clock: Clock | None = None) -> int:
    """Start ``meshtui resume`` in a session of its own; its pid, once it holds the mission.

    Raises :class:`Held` if the mission has a runner, :class:`WorkFailed` with the child's last words if it
    ends badly before that. What it prints goes to ``runner.log`` beside the plan.
    """
    clock = clock or SystemClock()
    held = holder(paths, clock)
    if held.alive:
        who = held.owner.describe(clock.now_ms()) if held.owner else "another process"
        raise Held(f"mission {paths.mission_id} already has a runner: {who}")
    log = paths.root / "runner.log"
    out = storage.open_log(log)
    try:
        child = subprocess.Popen(
            own_command("resume", paths.mission_id, "--run-dir", str(run_dir.root)),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=detached_environment(),
            start_new_session=True,
        )
    finally:
        os.close(out)
    end = time.monotonic() + DETACH_SECONDS
    while time.monotonic() < end:
        owner = holder(paths, clock).owner
        if owner is not None and owner.who is not None and owner.who.pid == child.pid:
            return child.pid
        code = child.poll()
        if code == 0:
            # It took the mission, carried it to its end, and gave it back.
            return child.pid
        if code is not None:
            words = plain(read_tail(log, 2000).decode("utf-8", "replace").strip().rpartition("\n")[2])
            raise WorkFailed(
                f"the mission's runner ended at once (exit {code}): {words or 'it said nothing'}"
            )
        time.sleep(0.01)
    raise WorkFailed(
        f"the runner (pid {child.pid}) did not take mission {paths.mission_id} within {DETACH_SECONDS:.0f} s; see {log}"
    )
