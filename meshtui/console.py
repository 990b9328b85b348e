"""Opens the console on a terminal."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from meshtui.core.errors import InvalidInput

if TYPE_CHECKING:
    from meshtui.settings import Settings

SWITCH_SECONDS = 0.001
STARTED_SECONDS = 2.0
"""When a console has been drawn for long; nothing waits for it."""
WEB_DRIVER = "textual.drivers.web_driver:WebDriver"
"""What draws into a page instead of a terminal; ``meshtui serve`` names it in the environment."""


def require_terminal(run_dir: Path) -> None:
    """Raise :class:`InvalidInput`, naming the other way, where the console cannot be drawn."""
    instead = (
        f"for one frame without it: meshtui --run-dir {quote(str(run_dir))} --headless --screenshot frame.svg"
    )
    if os.environ.get("TEXTUAL_DRIVER") == WEB_DRIVER:
        return
    # Closed ones are None.
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        raise InvalidInput(f"the console needs a terminal on standard input and output; {instead}")
    if os.environ.get("TERM", "") in ("", "dumb", "unknown"):
        raise InvalidInput(f"the terminal (TERM={os.environ.get('TERM', '')}) cannot place text; {instead}")


@contextmanager
def quick_start() -> Iterator[None]:
    """Around everything a console does, its imports among it: Python looks for no garbage while it starts.

    What is made then, a hundred thousand objects, stays until the end: looking at it again and again cost a
    tenth of the time to the first frame. Later it is looked for as ever, in what was made since.
    """

    def started() -> None:
        gc.freeze()
        gc.enable()

    gc.disable()
    timer = threading.Timer(STARTED_SECONDS, started)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        gc.enable()


def _prepare(run_dir: Path) -> None:
    """What every console needs before Textual is imported."""
    require_terminal(run_dir)
    # Threads that read must not keep a key waiting: Python lets one of them have the turn for 5 ms else.
    sys.setswitchinterval(SWITCH_SECONDS)


def run_console(
    run_dir: Path,
    *,
    read_only: bool = False,
    work: bool = False,
    settings: Settings | None = None,
    settings_problems: Sequence[str] = (),
    runner_options: Mapping[str, Any] | None = None,
    detach_arguments: Sequence[str] = (),
) -> int:
    """Show what is in ``run_dir`` until the operator leaves; the exit code, 130 after a signal.

    With ``work`` a runner of the lane starts behind the console.
    ``runner_options`` and ``detach_arguments`` say how a runner started from the console works; see
    :class:`meshtui.bridge.LaneEngine`. Without ``settings`` the operator's file is read. Raises :class:`InvalidInput` where there is no terminal.
    """
    _prepare(run_dir)
    from meshtui.app import MeshtuiApp
    from meshtui.bridge import LaneEngine
    from meshtui.core.run_dir import RunDir
    from meshtui.settings import load_settings

    if settings is None:
        settings, settings_problems = load_settings()
    where = RunDir(run_dir)
    engine = LaneEngine(where, runner_options=runner_options, detach_arguments=detach_arguments)
    app = MeshtuiApp(
        where,
        engine=engine,
        view=engine.glance(),
        read_only=read_only,
        work=work,
        settings=settings,
        settings_problems=settings_problems,
    )
    code = app.run()
    return app.return_code or code or 0


def run_fleet(
    places: Sequence[Path],
    *,
    read_only: bool = False,
    settings: Settings | None = None,
    settings_problems: Sequence[str] = (),
) -> int:
    """Show the run directories among and in ``places`` until the operator leaves; the exit code."""
    _prepare(places[0])
    from meshtui.app import MeshtuiApp
    from meshtui.core.run_dir import RunDir
    from meshtui.fleet import RunDirFleet
    from meshtui.settings import load_settings

    if settings is None:
        settings, settings_problems = load_settings()
    app = MeshtuiApp(
        RunDir(places[0]),
        fleet=RunDirFleet(places),
        read_only=read_only,
        settings=settings,
        settings_problems=settings_problems,
    )
    code = app.run()
    return app.return_code or code or 0


def run_replay(
    path: Path, at: str | None, *, settings: Settings | None = None, settings_problems: Sequence[str] = ()
) -> int:
    """Play the journal that ``path`` names until the operator leaves; the exit code.

    ``at`` is where the play head stands first; without it the recording plays from its beginning. Without
    ``settings`` the operator's file is read. Raises :class:`NotFound` or :class:`InvalidInput` for what
    cannot be played.
    """
    from meshtui.replay import open_player
    from meshtui.replay_app import ReplayApp
    from meshtui.settings import load_settings

    if settings is None:
        settings, settings_problems = load_settings()
    player = open_player(path, at)
    if at is None:
        player.home()
        player.playing = True
    app = ReplayApp(player, settings=settings, settings_problems=settings_problems)
    code = app.run()
    return app.return_code or code or 0
