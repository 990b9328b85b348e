"""``meshtui --replay``: the console, one frame or one snapshot of a recorded journal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from meshtui.cli.console import Looks, cells_of
from meshtui.cli.output import print_json, print_line, warn
from meshtui.core.clock import iso
from meshtui.core.errors import InvalidInput

if TYPE_CHECKING:
    from meshtui.replay import Player


def draw_replay(
    path: Path,
    moment: str | None,
    *,
    screenshot: Path | None,
    as_json: bool,
    size: str,
    screen: str | None,
    looks: Looks,
) -> int:
    """Write a picture of the moment, print its snapshot or a summary."""
    from meshtui.cli.look import status_lines
    from meshtui.core.snapshot import snapshot_of
    from meshtui.replay import open_player

    cells = cells_of(size)
    player = open_player(path.absolute(), moment)
    recording, view = player.recording, player.view()
    snapshot = snapshot_of(view, player.now_ms(), kind="lane", missions=view.missions)
    value = snapshot.as_json()
    value["replay"] = {
        "at": iso(player.at),
        "event": player.index,
        "events": len(recording),
        "starts_at": iso(recording.start),
        "ends_at": iso(recording.end),
        "damaged_lines": recording.damage.lines,
        "missing_events": recording.damage.missing,
    }
    if screenshot is not None:
        _write_picture(player, screenshot, cells, screen, looks)
    if as_json:
        print_json(value)
    elif screenshot is not None:
        print_line(f"wrote {screenshot}")
    else:
        print_line(f"replay at {iso(player.at)}, after {player.index} of {len(recording)} events")
        for line in status_lines(value):
            print_line(line)
    return 0


def _write_picture(
    player: Player, target: Path, size: tuple[int, int], screen: str | None, looks: Looks
) -> None:
    from meshtui.core import storage
    from meshtui.headless import render_replay

    settings, problems = looks.settings()
    warn(problems)
    svg = render_replay(player, size=size, screen=screen, settings=settings)
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise InvalidInput(f"--screenshot {target}: name a file in a folder that exists")
    storage.write_atomic(target.absolute(), svg.encode(), durable=False, mode=0o666)


def open_replay(path: Path, moment: str | None, *, looks: Looks) -> int:
    """Open the console on the recording; its exit code."""
    from meshtui.console import quick_start, require_terminal, run_replay

    require_terminal(path)
    with quick_start():
        settings, problems = looks.settings()
        return run_replay(path.absolute(), moment, settings=settings, settings_problems=problems)
