"""Opens consoles of several lanes for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from textual.pilot import Pilot
from textual.screen import Screen

from meshtui.app import MeshtuiApp
from meshtui.core.clock import ManualClock
from meshtui.core.fleet import FleetView
from meshtui.core.run_dir import RunDir
from meshtui.messages import FleetChanged
from meshtui.screens.fleet import FleetScreen
from meshtui.settings import Settings
from tests.support.fleets import ROOT, FakeFleet
from tests.support.pilot import Console
from tests.support.views import NOW


class FleetConsole(Console):
    """A console of several lanes under test."""

    def __init__(self, app: MeshtuiApp, pilot: Pilot[int], fleet: FakeFleet, clock: ManualClock) -> None:
        super().__init__(app, pilot)
        self.fleet = fleet
        self.clock = clock

    @property
    def home(self) -> FleetScreen:
        """The fleet's screen, under whatever is open."""
        screen = self.app.screen_stack[0]
        assert isinstance(screen, FleetScreen)
        return screen

    def shows(self, kind: type[Screen[Any]]) -> bool:
        """Whether a screen of this kind is on top."""
        return isinstance(self.app.screen, kind)

    def covered(self) -> bool:
        """Whether the follower was told that another screen covers the fleet."""
        follower = self.fleet.follower
        return follower is not None and follower.away

    @property
    def selected(self) -> str:
        """The name of the selected lane."""
        lane = self.home.lane
        assert lane is not None
        return lane.name

    @property
    def subject(self) -> str:
        """What the selected item is about."""
        need = self.home.need
        assert need is not None
        return need.item.subject

    async def take(self, view: FleetView) -> None:
        """Have another view of all lanes drawn."""
        self.home.post_message(FleetChanged(view))
        await self.pilot.pause()


@asynccontextmanager
async def fleet_console(
    view: FleetView | None,
    *,
    size: tuple[int, int] = (120, 40),
    read_only: bool = False,
    settings: Settings | None = None,
) -> AsyncIterator[FleetConsole]:
    """A console on ``view``, with a fake engine behind each lane."""
    fleet, clock = FakeFleet(view), ManualClock(NOW)
    app = MeshtuiApp(
        RunDir(ROOT), fleet=fleet, clock=clock, read_only=read_only, settings=settings or Settings()
    )
    async with app.run_test(size=size, notifications=True, tooltips=True) as pilot:
        it = FleetConsole(app, pilot, fleet, clock)
        await it.until(lambda: view is None or it.home.view is not None, "a first view")
        await pilot.pause()
        yield it
