"""The console's screen as a picture, drawn without a terminal: the same bytes for the same input."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from textual.pilot import Pilot
from textual.strip import Strip

from meshtui.core.clock import ManualClock
from meshtui.core.errors import InvalidInput
from meshtui.core.run_dir import RunDir
from meshtui.core.view import SECTIONS, Detail, LaneView
from meshtui.messages import OutputRead

DIALOGS = ("help", "enqueue", "answer", "kill", "interrupt")
SCREENS = ("lane", *SECTIONS, "envelope", "output", "result", "handoff", *DIALOGS)
"""What can be drawn: the lane as it opens, one of its lists, one part of the details, a dialog."""
SETTLE_LIMIT = 50


def render_svg(
    source: LaneView | Path,
    *,
    size: tuple[int, int] = (120, 40),
    now_ms: int,
    screen: str | None = None,
    detail: Callable[[str], Detail | None] | None = None,
    select: str | None = None,
) -> str:
    """The screen of a lane as SVG, ``size`` columns by lines, as it looks at ``now_ms``.

    ``source`` is a run directory, or a view that was made before; ``detail`` then reads records. ``screen``
    is one of :data:`SCREENS`; ``select`` names a record to select by its key. Must not be called from
    within a running event loop.
    """
    if screen is not None and screen not in SCREENS:
        raise InvalidInput(f"no screen {screen!r}; one of: {', '.join(SCREENS)}", field="screen")
    view, read = _read(source, now_ms) if isinstance(source, Path) else (source, detail)
    return asyncio.run(_draw(view, read, size, now_ms, screen or "lane", select))


def _read(run_dir: Path, now_ms: int) -> tuple[LaneView, Callable[[str], Detail | None]]:
    from meshtui.core.lane.reader import LaneReader

    reader = LaneReader(RunDir(run_dir), clock=ManualClock(now_ms))
    view: LaneView = reader.refresh()
    while not view.complete:
        view = reader.refresh()
    return view, reader.detail


async def _draw(
    view: LaneView,
    detail: Callable[[str], Detail | None] | None,
    size: tuple[int, int],
    now_ms: int,
    screen: str,
    select: str | None,
) -> str:
    from meshtui.app import MeshtuiApp
    from meshtui.inspector import output_lines
    from meshtui.screens.lane import LaneScreen
    from meshtui.widgets.detail import PARTS, DetailPane
    from meshtui.widgets.table import QueueTable

    app = MeshtuiApp(RunDir(view.run_dir), view=view, clock=ManualClock(now_ms), still=True)
    app.animation_level = "none"
    async with app.run_test(size=size) as pilot:
        await _settle(pilot)
        lane = app.screen
        assert isinstance(lane, LaneScreen)
        for section in SECTIONS:
            if section == screen:
                lane.show_section(section)
        if select is not None:
            lane.show_key(select)
        await _settle(pilot)
        row, pane = lane.query_one(QueueTable).selected, lane.query_one(DetailPane)
        if row is not None and detail is not None:
            found = detail(row.key)
            pane.show_detail(row.key, found)
            if found is not None and found.call is not None:
                live = found.call.state in ("starting", "running")
                pane.show_output(OutputRead(row.key, output_lines(found.call), fresh=True, live=live))
        for part in PARTS:
            if part == screen:
                pane.choose(part)
                lane.add_class("-detail-open")
        if screen in DIALOGS:
            await lane.run_action(screen)
        await _settle(pilot)
        return picture(app, size)


async def _settle(pilot: Pilot[int]) -> None:
    """Wait until what is shown stays the same, however slow the machine."""
    before: list[Strip] | None = None
    for _ in range(SETTLE_LIMIT):
        await pilot.pause()
        shown = pilot.app.screen._compositor.render_strips()
        if shown == before:
            return
        before = shown


def picture(app: object, size: tuple[int, int]) -> str:
    """What ``app`` shows, as SVG with fixed ids."""
    from textual.app import App

    assert isinstance(app, App)
    console = Console(
        width=size[0],
        height=size[1],
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        record=True,
        legacy_windows=False,
        safe_box=False,
    )
    console.print(app.screen._compositor.render_update(full=True, screen_stack=app._background_screens))
    return console.export_svg(title=app.title, unique_id="meshtui")
