"""Opens the console on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def run_console(
    run_dir: Path,
    *,
    read_only: bool = False,
    no_color: bool = False,
    runner_options: Mapping[str, Any] | None = None,
    detach_arguments: Sequence[str] = (),
) -> int:
    """Show the lane of ``run_dir`` until the operator leaves; the exit code.

    ``runner_options`` and ``detach_arguments`` say how a runner started from the console works; see
    :class:`meshtui.bridge.LaneEngine`. Needs a terminal on standard input and output.
    """
    import os

    if no_color:
        os.environ["NO_COLOR"] = "1"

    from meshtui.app import MeshtuiApp
    from meshtui.bridge import LaneEngine
    from meshtui.core.run_dir import RunDir

    where = RunDir(run_dir)
    engine = LaneEngine(where, runner_options=runner_options, detach_arguments=detach_arguments)
    app = MeshtuiApp(where, engine=engine, read_only=read_only)
    code = app.run()
    return app.return_code or code or 0
