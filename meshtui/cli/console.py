"""Opening the console on a run directory, and drawing one frame of it without a terminal."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from meshtui.cli.options import existing
from meshtui.cli.output import print_json, print_line, warn
from meshtui.core.clock import Clock, ManualClock, SystemClock, from_iso
from meshtui.core.errors import InvalidInput
from meshtui.core.view import AttentionKind

if TYPE_CHECKING:
    from meshtui.settings import Settings

KINDS: tuple[str, ...] = get_args(AttentionKind)
MOST_CELLS = 1_000_000


@dataclass(frozen=True, slots=True)
class Looks:
    """How the command line asks the console to look; it goes before the operator's file."""

    no_color: bool = False
    monochrome: bool = False
    ascii: bool = False
    theme: str | None = None

    def settings(self) -> tuple[Settings, tuple[str, ...]]:
        """The operator's settings with this on top, and what is wrong with their file."""
        from meshtui.settings import load_settings, theme_names

        if self.theme is not None and self.theme not in theme_names():
            raise InvalidInput(
                f"--theme {self.theme!r} is unknown; use one of: {', '.join(theme_names())}", field="theme"
            )
        if self.no_color:
            os.environ["NO_COLOR"] = "1"
        settings, problems = load_settings()
        if self.ascii:
            settings = replace(settings, glyphs="ascii")
        theme = self.theme or ("meshtui-mono" if self.monochrome else None)
        return (settings if theme is None else replace(settings, theme=theme)), problems


def draw(
    roots: Sequence[Path],
    *,
    screenshot: Path | None,
    as_json: bool,
    size: str,
    now: str | None,
    screen: str | None,
    fail_on: str | None,
    looks: Looks,
) -> int:
    """Write a picture, print the snapshot or a summary; 1 if something of ``fail_on`` needs attention."""
    from meshtui.core.snapshot import take_fleet_snapshot, take_snapshot

    clock = _clock(now)
    kinds = _kinds(fail_on)
    cells = cells_of(size)
    roots = [existing(root).root for root in roots]
    snapshot = take_snapshot(roots[0], clock) if len(roots) == 1 else take_fleet_snapshot(roots, clock)
    if screenshot is not None:
        _write_picture(roots, screenshot, cells, clock, screen, looks)
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
    roots: Sequence[Path],
    target: Path,
    size: tuple[int, int],
    clock: Clock,
    screen: str | None,
    looks: Looks,
) -> None:
    from meshtui.core import storage
    from meshtui.headless import FLEET_SCREENS, SCREENS, render_fleet_svg, render_svg

    fleet = _is_fleet(roots)
    known = FLEET_SCREENS if fleet else SCREENS
    if screen is not None and screen not in known:
        raise InvalidInput(f"--screen {screen!r} is unknown; use one of: {', '.join(known)}")
    settings, problems = looks.settings()
    warn(problems)
    now = clock.now_ms()
    if fleet:
        svg = render_fleet_svg(roots, size=size, now_ms=now, screen=screen, settings=settings)
    else:
        svg = render_svg(roots[0], size=size, now_ms=now, screen=screen, settings=settings)
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise InvalidInput(f"--screenshot {target}: name a file in a folder that exists")
    storage.write_atomic(target.absolute(), svg.encode(), durable=False, mode=0o666)


def open_console(
    roots: Sequence[Path],
    *,
    read_only: bool,
    looks: Looks = Looks(),
    work: bool = False,
    may_begin: bool = False,
) -> int:
    """Open the console, with ``work`` together with a runner behind it; its exit code.

    With ``may_begin`` a folder that does not exist yet is shown as an empty lane: the first thing that is
    enqueued or planned there makes it.
    """
    from meshtui.console import quick_start, require_terminal

    require_terminal(roots[0])
    with quick_start():
        return _open(roots, read_only=read_only, looks=looks, work=work, may_begin=may_begin)


def _open(roots: Sequence[Path], *, read_only: bool, looks: Looks, work: bool, may_begin: bool) -> int:
    from meshtui.console import run_console, run_fleet
    from meshtui.core.lane.create import absolute

    if may_begin and not read_only and not os.path.lexists(roots[0]):
        roots = [absolute(roots[0])]
    else:
        roots = [existing(root).root for root in roots]
    settings, problems = looks.settings()
    if _is_fleet(roots):
        return run_fleet(roots, read_only=read_only, settings=settings, settings_problems=problems)
    return run_console(
        roots[0], read_only=read_only, work=work, settings=settings, settings_problems=problems
    )


def _is_fleet(roots: Sequence[Path]) -> bool:
    """Whether several run directories are meant: named one by one, or by a folder that holds them."""
    from meshtui.core.snapshot import kind_of_directory

    return len(roots) > 1 or kind_of_directory(roots[0]) == "fleet"


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


def cells_of(text: str) -> tuple[int, int]:
    """Columns and rows of ``--size``."""
    found = re.fullmatch(r"(\d{1,5})[xX×](\d{1,5})", text.strip())
    width, height = (int(found[1]), int(found[2])) if found else (0, 0)
    if not (width and height) or width * height > MOST_CELLS:
        raise InvalidInput(f"--size {text!r} is no size; use COLUMNSxROWS, e.g. 120x40", field="size")
    return width, height
