"""Opening the console on a run directory, and drawing one frame of it without a terminal."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from meshtui.cli.options import existing, has_terminal
from meshtui.cli.output import print_json, print_line
from meshtui.core.clock import Clock, ManualClock, SystemClock, from_iso
from meshtui.core.errors import InvalidInput
from meshtui.core.view import AttentionKind

KINDS: tuple[str, ...] = get_args(AttentionKind)
MOST_CELLS = 1_000_000


def draw(
    roots: Sequence[Path],
    *,
    screenshot: Path | None,
    as_json: bool,
    size: str,
    now: str | None,
    screen: str | None,
    fail_on: str | None,
    no_color: bool,
) -> int:
    """Write a picture, print the snapshot or a summary; 1 if something of ``fail_on`` needs attention."""
    from meshtui.core.snapshot import take_snapshot

    clock = _clock(now)
    kinds = _kinds(fail_on)
    cells = _size(size)
    root = _one(roots)
    snapshot = take_snapshot(existing(root).root, clock)
    if screenshot is not None:
        _write_picture(root, screenshot, cells, clock, screen, no_color=no_color)
    value = snapshot.as_json()
    if as_json:
        print_json(value)
    elif screenshot is not None:
        print_line(f"wrote {screenshot}")
    else:
        from meshtui.cli.look import status_lines

        for line in status_lines(value):
            print_line(line)
    found = sorted({item.kind for item in snapshot.attention} & kinds)
    if found:
        print(f"meshtui: needs attention: {', '.join(found)}", file=sys.stderr)
    return 1 if found else 0


def _write_picture(
    root: Path, target: Path, size: tuple[int, int], clock: Clock, screen: str | None, *, no_color: bool
) -> None:
    from meshtui.core import storage
    from meshtui.core.snapshot import kind_of_directory

    if kind_of_directory(root) != "lane":
        raise InvalidInput(
            f"{root}: only lanes can be drawn in this version; use --json, or name a lane's folder"
        )
    if no_color:
        os.environ["NO_COLOR"] = "1"
    from meshtui.headless import SCREENS, render_svg

    if screen is not None and screen not in SCREENS:
        raise InvalidInput(f"--screen {screen!r} is unknown; use one of: {', '.join(SCREENS)}")
    svg = render_svg(existing(root).root, size=size, now_ms=clock.now_ms(), screen=screen)
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise InvalidInput(f"--screenshot {target}: name a file in a folder that exists")
    storage.write_atomic(target.absolute(), svg.encode(), durable=False, mode=0o666)


def open_console(roots: Sequence[Path], *, read_only: bool, no_color: bool, work: bool = False) -> int:
    """Open the console, with ``work`` together with a runner behind it; its exit code."""
    if not (has_terminal() and sys.stdout is not None and sys.stdout.isatty()):
        raise InvalidInput(
            "the console needs a terminal; without one use --headless (with --screenshot F.svg or --json)"
        )
    if os.environ.get("TERM", "dumb") in ("", "dumb", "unknown"):
        raise InvalidInput("this terminal (TERM=dumb) cannot show the console; use --headless")
    from meshtui.core.snapshot import kind_of_directory, lanes_in

    root = _one(roots)
    run_dir = existing(root)
    if kind_of_directory(run_dir.root) == "fleet":
        lanes = ", ".join(path.name for path in lanes_in(run_dir.root))
        raise InvalidInput(f"{run_dir.root} holds several lanes ({lanes}); name one of them with --run-dir")
    if no_color:
        os.environ["NO_COLOR"] = "1"
    from meshtui.app import MeshtuiApp
    from meshtui.bridge import LaneEngine

    app = MeshtuiApp(run_dir, engine=LaneEngine(run_dir), read_only=read_only, work=work)
    return app.run() or 0


def _one(roots: Sequence[Path]) -> Path:
    if len(roots) > 1:
        raise InvalidInput(
            "one --run-dir at a time in this version; for several use: meshtui status --json on their folder"
        )
    return roots[0]


def _clock(now: str | None) -> Clock:
    if now is None:
        return SystemClock()
    ms = from_iso(now)
    if ms is None:
        raise InvalidInput(f"--now {now!r} is no ISO 8601 time, e.g. 2026-11-30T12:00:00Z", field="now")
    return ManualClock(ms)


def _kinds(fail_on: str | None) -> set[str]:
    kinds = {part.strip() for part in (fail_on or "").split(",") if part.strip()}
    unknown = sorted(kinds - set(KINDS))
    if unknown:
        raise InvalidInput(
            f"--fail-on {unknown[0]!r} is unknown; use any of: {', '.join(KINDS)}", field="fail-on"
        )
    return kinds


def _size(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,5})[xX×](\d{1,5})", text.strip())
    width, height = (int(found[1]), int(found[2])) if found else (0, 0)
    if not (width and height) or width * height > MOST_CELLS:
        raise InvalidInput(f"--size {text!r} is no size; use COLUMNSxROWS, e.g. 120x40", field="size")
    return width, height
