"""A mission's runner in a process of its own that can be made to die at any of its writes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from meshtui.core import storage
from meshtui.core.calls import Call
from meshtui.core.config import load_config
from meshtui.core.lane.service import engine_factory
from meshtui.core.mesh.paths import MissionPaths
from meshtui.core.mesh.service import open_mission
from meshtui.core.run_dir import RunDir
from meshtui.core.vcs.git import Git

WRITES = ("write_atomic", "create", "write_new", "append", "move", "remove_file", "make_dir")

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.support.mission_child"])


class _Fuse:
    """Counts steps and kills the process at the n-th, before or after it is done."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.count = 0
        self._lock = threading.Lock()

    def burn(self) -> None:
        with self._lock:
            self.count += 1
            if self.count == self.at:
                os.kill(os.getpid(), signal.SIGKILL)

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*args: Any, **kwargs: Any) -> Any:
            self.burn()
            value = function(*args, **kwargs)
            self.burn()
            return value

        return stepped


def _work(root: str, mission: str, at: int, count_to: str, max_active: int) -> None:
    os.setsid()
    run_dir = RunDir(Path(root))
    paths = MissionPaths.of(run_dir, mission)
    loaded = load_config(run_dir, None, environ={})
    runner = open_mission(run_dir, paths, loaded, engine_factory(loaded.config), max_active=max_active)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: runner.request_stop())
    signal.signal(signal.SIGHUP, lambda *_: runner.request_hand_over())
    fuse = _Fuse(at)
    for name in WRITES:
        setattr(storage, name, fuse.around(getattr(storage, name)))
    Call._launch = fuse.around(Call._launch)  # type: ignore[method-assign]
    Git.run = fuse.around(Git.run)  # type: ignore[method-assign]
    outcome = runner.run()
    Path(count_to).write_text(f"{fuse.count} {outcome.state}")


def start_child(root: Path, mission: str, *, at: int = 0, max_active: int = 4) -> BaseProcess:
    """Run the mission in another process; with ``at`` it is killed at its n-th step."""
    process = _context.Process(
        target=_work, args=(str(root), mission, at, str(root.parent / "count"), max_active), daemon=True
    )
    process.start()
    return process
