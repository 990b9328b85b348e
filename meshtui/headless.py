"""The console's screen as a picture, drawn without a terminal: the same bytes for the same input."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from rich.console import Console
from textual.pilot import Pilot
from textual.strip import Strip

from meshtui.core.clock import ManualClock
from meshtui.core.errors import InvalidInput
from meshtui.core.run_dir import RunDir
from meshtui.core.view import SECTIONS, Detail, LaneView
from meshtui.messages import OutputRead

if TYPE_CHECKING:
    from meshtui.app import MeshtuiApp
    from meshtui.core.fleet import FleetView, Need
    from meshtui.core.history import History
    from meshtui.core.mesh.detail import LoopPart
    from meshtui.core.mesh.view import MissionView
    from meshtui.evidence import Fact
    from meshtui.messages import Planned
    from meshtui.replay import Player
    from meshtui.screens.lane import LaneScreen
    from meshtui.settings import Settings

DIALOGS = ("help", "enqueue", "answer", "kill", "interrupt")
LOOP_PARTS = ("diff", "gates", "proof", "findings", "log")
LOOP_SCREENS = ("loops", *LOOP_PARTS, "timeline", "graph", "plan")
FLEET_SCREENS = ("fleet", "inbox", "help")
"""What can be drawn of several lanes."""
LANE_SCREENS = ("phases", "charts")
SCREENS = (
    "lane",
    "inbox",
    *SECTIONS,
    "envelope",
    "output",
    "result",
    "handoff",
    *DIALOGS,
    *LANE_SCREENS,
    *LOOP_SCREENS,
)
"""What can be drawn: the lane as it opens, one of its lists, one part of the details, a dialog; of missions
the loops, one part of the details of one, the timeline, the graph, the plan; ``phases`` is the timeline of the
lane, ``charts`` what it used."""
SEEING = ("timeline", "phases", "charts")
SETTLE_LIMIT = 50


def render_svg(
    source: LaneView | Path,
    *,
    size: tuple[int, int] = (120, 40),
    now_ms: int,
    screen: str | None = None,
    detail: Callable[[str], Detail | None] | None = None,
    select: str | None = None,
    history: History | None = None,
    settings: Settings | None = None,
) -> str:
    """The screen of a lane as SVG, ``size`` columns by lines, as it looks at ``now_ms``.

    ``source`` is a run directory, or a view that was made before; ``detail`` then reads records. ``screen``
    is one of :data:`SCREENS`; ``select`` names a record to select by its key; ``history`` is what the journal
    tells, read where a screen needs it; ``settings`` are an operator's, else the defaults. Must not be called from
    within a running event loop.
    """
    if screen is not None and screen not in SCREENS:
        raise InvalidInput(f"no screen {screen!r}; one of: {', '.join(SCREENS)}", field="screen")
    view, read = _read(source, now_ms) if isinstance(source, Path) else (source, detail)
    if history is None and screen in SEEING:
        from meshtui.core.history import HistoryReader

        history = HistoryReader(RunDir(view.run_dir).events).read()
    return asyncio.run(_draw(view, read, size, now_ms, screen or "lane", select, settings, history))


def render_replay(
    player: Player,
    *,
    size: tuple[int, int] = (120, 40),
    screen: str | None = None,
    select: str | None = None,
    settings: Settings | None = None,
) -> str:
    """The screen of a recording where its play head stands, as SVG; see :func:`render_svg`."""
    if screen is not None and screen not in SCREENS:
        raise InvalidInput(f"no screen {screen!r}; one of: {', '.join(SCREENS)}", field="screen")
    from meshtui.replay import ReplayReader
    from meshtui.replay_app import ReplayApp
    from meshtui.settings import Settings

    view = player.view()
    app = ReplayApp(player, still=True, settings=settings or Settings())
    return asyncio.run(
        _draw(
            view,
            ReplayReader(player).detail,
            size,
            player.now_ms(),
            screen or "lane",
            select,
            settings,
            player.history(),
            app,
        )
    )


def render_fleet_svg(
    source: FleetView | Sequence[Path],
    *,
    size: tuple[int, int] = (120, 40),
    now_ms: int,
    screen: str | None = None,
    evidence: Callable[[Need, Sequence[MissionView]], tuple[Fact, ...]] | None = None,
    select: str | None = None,
    settings: Settings | None = None,
) -> str:
    """Several lanes as SVG; ``source`` is what the operator names, or a view that was made before.

    ``screen`` is one of :data:`FLEET_SCREENS`; ``evidence`` reads what stands behind an item, from the files
    where it is not given; ``select`` names a lane, or in the inbox an item, by its key.
    """
    from meshtui.core.fleet import FleetView
    from meshtui.evidence import evidence_of

    if screen is not None and screen not in FLEET_SCREENS:
        raise InvalidInput(f"no screen {screen!r}; one of: {', '.join(FLEET_SCREENS)}", field="screen")
    if isinstance(source, FleetView):
        view = source
    else:
        from meshtui.core.fleet_watch import FleetFollower, RunDirs

        follower = FleetFollower(RunDirs(source), on_view=lambda _: None, clock=ManualClock(now_ms))
        view = follower.read_all()
    read = evidence or evidence_of
    return asyncio.run(_draw_fleet(view, read, size, now_ms, screen or "fleet", select, settings))


async def _draw_fleet(
    view: FleetView,
    evidence: Callable[[Need, Sequence[MissionView]], tuple[Fact, ...]],
    size: tuple[int, int],
    now_ms: int,
    screen: str,
    select: str | None,
    settings: Settings | None,
) -> str:
    from meshtui.app import MeshtuiApp
    from meshtui.screens.fleet import FleetScreen
    from meshtui.screens.needs import NeedsScreen
    from meshtui.settings import Settings

    place = view.places[0] if view.places else Path()
    app = MeshtuiApp(
        RunDir(place),
        fleet_view=view,
        clock=ManualClock(now_ms),
        still=True,
        settings=settings if settings is not None else Settings(),
    )
    app.animation_level = "none"
    async with app.run_test(size=size) as pilot:
        await _settle(pilot)
        fleet = app.screen
        assert isinstance(fleet, FleetScreen)
        app.take_fleet(view)
        if screen == "inbox":
            app.open_inbox()
            await _settle(pilot)
        shown = app.screen
        assert isinstance(shown, NeedsScreen)
        if select is not None and not shown.inbox.select(select):
            fleet.table.select(select)
        _show_evidence(app, evidence)
        if screen == "help":
            await shown.run_action("help")
        await _settle(pilot)
        return picture(app, size)


def _show_evidence(app: MeshtuiApp, read: Callable[[Need, Sequence[MissionView]], tuple[Fact, ...]]) -> None:
    """Show what stands behind the selected item."""
    from meshtui.evidence import EvidenceRead
    from meshtui.screens.needs import NeedsScreen

    shown = app.screen
    if isinstance(shown, NeedsScreen) and shown.need is not None:
        facts = read(shown.need, app.missions_in(shown.need.run_dir))
        shown.on_evidence_read(EvidenceRead(shown.need.key, facts))


def _read(run_dir: Path, now_ms: int) -> tuple[LaneView, Callable[[str], Detail | None]]:
    from meshtui.core.overview import RunDirReader

    reader = RunDirReader(RunDir(run_dir), clock=ManualClock(now_ms))
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
    settings: Settings | None,
    history: History | None = None,
    app: MeshtuiApp | None = None,
) -> str:
    from meshtui.app import MeshtuiApp
    from meshtui.evidence import evidence_of
    from meshtui.screens.lane import LaneScreen
    from meshtui.settings import Settings
    from meshtui.widgets.detail import PARTS, DetailPane
    from meshtui.widgets.table import QueueTable

    if app is None:
        app = MeshtuiApp(
            RunDir(view.run_dir),
            view=view,
            clock=ManualClock(now_ms),
            still=True,
            settings=settings if settings is not None else Settings(),
        )
    app.animation_level = "none"
    async with app.run_test(size=size) as pilot:
        await _settle(pilot)
        lane = app.screen
        assert isinstance(lane, LaneScreen)
        lane.history = history
        for section in SECTIONS:
            if section == screen:
                lane.show_section(section)
        if select is not None:
            lane.show_key(select)
        await _settle(pilot)
        if screen in LOOP_SCREENS:
            lane.look_at("loops")
            lane.focus_list()
        row, pane = lane.query_one(QueueTable).selected, lane.query_one(DetailPane)
        if row is not None and detail is not None:
            found = detail(row.key)
            pane.show_detail(row.key, found)
            if found is not None and found.call is not None:
                live = found.call.state in ("starting", "running")
                pane.show_output(OutputRead(row.key, found.call, live=live))
        for part in PARTS:
            if part == screen:
                pane.choose(part)
                lane.add_class("-detail-open")
        _show_loop(lane, screen)
        if screen in LANE_SCREENS:
            lane.open_still(screen)
        if screen == "inbox":
            app.take_view(view)
            app.open_inbox()
            await _settle(pilot)
            _show_evidence(app, evidence_of)
        if screen in DIALOGS:
            await lane.run_action(screen)
        await _settle(pilot)
        return picture(app, size)


def _show_loop(lane: LaneScreen, screen: str) -> None:
    """Read what the details of the selected loop show, and open what is asked for."""
    mission, loop, pane = lane.mission, lane.loop, lane.loop_pane
    if mission is None or loop is None or pane is None:
        if screen in LOOP_SCREENS:
            raise InvalidInput(f"there are no loops here to draw --screen {screen} of", field="screen")
        return
    from meshtui.core.mesh.detail import read_part
    from meshtui.messages import LoopRead

    for part in ("state", *LOOP_PARTS):
        if part == screen or part == pane.part:
            value = read_part(mission, loop, cast("LoopPart", part))
            pane.show_read(LoopRead(loop.key, part, value))
    if screen in LOOP_PARTS:
        pane.choose(screen)
        lane.add_class("-detail-open")
    elif screen == "timeline":
        lane.action_timeline()
    elif screen == "graph":
        lane.action_graph()
    elif screen == "plan":
        lane.show_plan(_plan_of(mission))


def _plan_of(mission: MissionView) -> Planned:
    from meshtui.core.mesh.files import load_plan
    from meshtui.core.mesh.paths import MissionPaths
    from meshtui.core.mesh.service import broken
    from meshtui.messages import Planned

    made = load_plan(MissionPaths(mission.root, mission.mission_id))
    return Planned(made, tuple(broken(made)))


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
