"""Opens consoles for tests and waits for what they show."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot

from meshtui.app import MeshtuiApp
from meshtui.bridge import Engine
from meshtui.core.clock import Clock, ManualClock
from meshtui.core.run_dir import RunDir
from meshtui.core.view import LaneView
from meshtui.messages import ViewChanged
from meshtui.screens.lane import LaneScreen
from meshtui.settings import Settings
from tests.support.engine import FakeEngine
from tests.support.views import NOW

LIMIT = 10.0
"""Seconds until a condition counts as never met."""


class Console:
    """A console under test."""

    def __init__(self, app: MeshtuiApp, pilot: Pilot[int]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def lane(self) -> LaneScreen:
        """The lane's screen, under whatever question is open."""
        for screen in self.app.screen_stack:
            if isinstance(screen, LaneScreen):
                return screen
        raise AssertionError("no lane screen")

    @property
    def section(self) -> str:
        """The list that is shown."""
        return str(self.lane.section)

    def drawn(self, selector: str) -> bool:
        """Whether a widget of the lane's screen takes part in the layout."""
        return bool(self.lane.query_one(selector).display)

    def text(self) -> str:
        """Everything on the screen, as lines."""
        width, height = self.app.size
        compositor = self.app.screen._compositor
        strips = compositor.render_strips()
        assert len(strips) <= height or width == 0
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)

    async def press(self, *keys: str) -> None:
        """Press keys and let their effects be drawn."""
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def until(self, condition: Callable[[], object], what: str = "") -> None:
        """Wait until ``condition`` holds."""
        end = time.monotonic() + LIMIT
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"never: {what or condition}\n{self.text()}")
            await self.pilot.pause(0.01)

    async def until_shown(self, text: str) -> None:
        """Wait until ``text`` stands on the screen."""
        await self.until(lambda: text in self.text(), f"shown: {text}")

    async def show(self, view: LaneView) -> None:
        """Have another view drawn."""
        self.lane.post_message(ViewChanged(view))
        await self.pilot.pause()


@asynccontextmanager
async def console(
    view: LaneView | None = None,
    *,
    engine: Engine | None = None,
    run_dir: Path | None = None,
    size: tuple[int, int] = (120, 40),
    clock: Clock | None = None,
    read_only: bool = False,
    settings: Settings | None = None,
) -> AsyncIterator[Console]:
    """A console on ``view``, or on what ``engine`` reads."""
    if engine is None and view is not None:
        engine = FakeEngine(view)
    app = MeshtuiApp(
        RunDir(run_dir or Path("/nowhere")),
        engine=engine,
        clock=clock or ManualClock(NOW),
        read_only=read_only,
        settings=settings or Settings(),
    )
    async with app.run_test(size=size, notifications=True, tooltips=True) as pilot:
        opened = Console(app, pilot)
        await opened.until(lambda: opened.lane.view is not None, "a first view")
        await pilot.pause()
        yield opened
