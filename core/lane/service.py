"""Starting runners: in this process, or detached in one of their own."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from meshtui.core import storage
from meshtui.core.calls import read_tail, scrubbed_environment
from meshtui.core.clock import Clock, SystemClock
from meshtui.core.config import Config, EngineConfig, LoadedConfig, load_config
from meshtui.core.engines.base import Engine, plain
from meshtui.core.engines.registry import engine_for
from meshtui.core.errors import Held, InvalidInput, WorkFailed
from meshtui.core.lane.create import lane_id_of, repo_of
from meshtui.core.lane.lease import holder
from meshtui.core.lane.phase import EngineFactory
from meshtui.core.lane.runner import Runner, RunnerOptions
from meshtui.core.models.envelope import ENGINES
from meshtui.core.own import own_command
from meshtui.core.run_dir import RunDir
from meshtui.core.trust import require_trust

DETACH_SECONDS = 20.0
_children: list[subprocess.Popen[bytes]] = []
"""Detached runners that this process started and that have not been found ended: somebody has to reap them."""
Ask = Callable[[list[tuple[str, str]]], bool]


def open_runner(
    run_dir: RunDir,
    *,
    lane_id: str | None = None,
    engine: str | None = None,
    run: str | None = None,
    until_idle: bool = False,
    take_over: bool = False,
    repo: Path | None = None,
    trust: bool = False,
    ask: Ask | None = None,
    clock: Clock | None = None,
    engines: EngineFactory | None = None,
) -> Runner:
    """A runner for ``run_dir``, configured and trusted but not started.

    ``run`` is the command of engine ``command``. Raises :class:`InvalidInput` for a broken configuration
    or a repository's commands that nobody trusted.
    """
    if engine is not None and engine not in ENGINES:
        raise InvalidInput(f"engine {engine!r} is unknown; use one of: {', '.join(ENGINES)}", field="engine")
    repository = repo_of(run_dir, asked=repo)
    loaded = load_config(run_dir, repository, environ=os.environ)
    require_trust(loaded, ask=ask, allow=trust)
    config = _with_run(loaded, run)
    if run is not None and engine is None:
        engine = "command"
    options = RunnerOptions(
        lane_id=lane_id_of(run_dir, asked=lane_id, configured=config.lane.lane_id),
        config=config,
        engine=engine,
        until_idle=until_idle,
        take_over=take_over,
        repo=repository,
    )
    return Runner(run_dir, options, engines or engine_factory(config), clock=clock)


def engine_factory(config: Config) -> EngineFactory:
    """Engines by name, each with its settings in ``config``."""

    def make(name: str) -> Engine:
        return engine_for(name, config.engines.get(name))

    return make


def _with_run(loaded: LoadedConfig, run: str | None) -> Config:
    if run is None:
        return loaded.config
    settings = loaded.config.engines.get("command") or EngineConfig()
    engines = {**loaded.config.engines, "command": settings.model_copy(update={"run": run})}
    return loaded.config.model_copy(update={"engines": engines})


def start_detached(run_dir: RunDir, *, arguments: Sequence[str] = (), clock: Clock | None = None) -> int:
    """Start ``meshtui lane`` in a session of its own; its pid, once it holds the lease.

    Raises :class:`Held` if the lane has a runner, :class:`WorkFailed` with the child's last words if it
    ends before that; one that found little to do may have held it and ended already, which is no failure.
    What it prints goes to ``loop/runner.log``.
    """
    clock = clock or SystemClock()
    held = holder(run_dir.lane, clock)
    if held.alive and "--take-over" not in arguments:
        who = held.owner.describe(clock.now_ms()) if held.owner else "another process"
        raise Held(f"the lane already has a runner: {who}")
    storage.make_dirs(run_dir.lane.root)
    log = run_dir.lane.root / "runner.log"
    out = storage.open_log(log)
    said_before = os.fstat(out).st_size
    try:
        child = subprocess.Popen(
            own_command("lane", "--run-dir", str(run_dir.root), *arguments),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=detached_environment(),
            start_new_session=True,
        )
    finally:
        os.close(out)
    _children[:] = [child, *(earlier for earlier in _children if earlier.poll() is None)]
    end = time.monotonic() + DETACH_SECONDS
    while time.monotonic() < end:
        held = holder(run_dir.lane, clock)
        if (
            held.alive
            and held.owner is not None
            and held.owner.who is not None
            and held.owner.who.pid == child.pid
        ):
            return child.pid
        code = child.poll()
        if code is not None:
            words = _last_words(log, said_before)
            if code == 0 or words.startswith("runner_ended "):
                return child.pid
            if code == Held.exit_code:
                raise Held(words)
            if code == InvalidInput.exit_code:
                raise InvalidInput(words)
            raise WorkFailed(f"the runner ended at once (exit {code}): {words or 'it said nothing'}")
        time.sleep(0.01)
    raise WorkFailed(
        f"the runner (pid {child.pid}) did not take the lease within {DETACH_SECONDS:.0f} s; see {log}"
    )


def _last_words(log: Path, said_before: int) -> str:
    """The last line of ``log``, if it is not from an earlier runner."""
    said = max(0, log.stat().st_size - said_before)
    return plain(read_tail(log, min(said, 2000)).decode("utf-8", "replace").strip().rpartition("\n")[2])


def detached_environment() -> dict[str, str]:
    """This process's environment; a runner started from inside a call must not end with that call."""
    environment = scrubbed_environment(os.environ)
    for key, value in os.environ.items():
        if key.startswith("MESHTUI_") and key not in environment and not key.startswith("MESHTUI_CALL"):
            environment[key] = value
    return environment
