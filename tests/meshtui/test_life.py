"""Opening, leaving, and the runner that lives in the console."""

from __future__ import annotations

import asyncio
import threading
import time

from meshtui.core.errors import Held
from meshtui.core.lane.receipts import PauseReceipt
from meshtui.screens.lane import LaneScreen
from meshtui.screens.leave import Leave
from tests.support.engine import FakeEngine, FakeRunner
from tests.support.pilot import console
from tests.support.views import lane


def ours() -> list[str]:
    """The console's threads that live."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("meshtui-")]


async def test_opening_and_closing_leaves_no_thread() -> None:
    for _ in range(25):
        async with console(lane(3), size=(80, 24)) as it:
            assert "meshtui-watch" in ours()
            it.app.leave()
        assert ours() == []


async def test_leaving_is_bounded_while_everything_is_busy() -> None:
    release = threading.Event()

    def pause() -> PauseReceipt:
        release.wait(30)
        return PauseReceipt(True)

    engine = FakeEngine(lane(3))
    engine.the_operations.pause = pause  # type: ignore[method-assign]
    started = 0.0
    try:
        async with console(engine=engine) as it:
            await it.press("P", "d")
            await it.until(lambda: "meshtui-operation" in ours())
            started = time.monotonic()
            await it.press("q")
        assert time.monotonic() - started < 6
    finally:
        release.set()
    end = time.monotonic() + 5
    while ours() and time.monotonic() < end:
        await asyncio.sleep(0.01)
    assert ours() == []


async def test_q_leaves_at_once_without_a_runner() -> None:
    engine = FakeEngine(lane(3))
    async with console(engine=engine) as it:
        await it.press("q")
        await it.until(lambda: it.app._exit)
    assert engine.runners == []


async def test_quitting_with_a_runner_asks_and_stays() -> None:
    engine = FakeEngine(lane(3, running=False))
    async with console(engine=engine) as it:
        await it.press("s")
        await it.until(lambda: it.lane.runner_here)
        await it.until_shown("s stop runner")
        await it.press("q")
        assert isinstance(it.app.screen, Leave)
        assert it.app.focused is not None
        assert it.app.focused.id == "no"
        await it.press("escape")
        assert isinstance(it.app.screen, LaneScreen)
        assert engine.runners[0].asked == []
        await it.press("q", "s")
        await it.until(lambda: it.app._exit)
    assert engine.runners[0].asked == ["stop"]
    assert engine.detached == 0
    assert ours() == []


async def test_quitting_hands_over() -> None:
    engine = FakeEngine(lane(3, running=False))
    async with console(engine=engine) as it:
        await it.press("s")
        await it.until(lambda: it.lane.runner_here)
        await it.press("q", "o")
        await it.until(lambda: it.app._exit)
        assert it.app.farewell == "Handed over: runner 4242 carries the lane on."
    assert engine.runners[0].asked == ["hand over"]
    assert engine.detached == 1


async def test_a_failed_hand_over_keeps_the_console() -> None:
    engine = FakeEngine(lane(3, running=False))
    engine.detach_error = Held("runner 77 has the lane")
    async with console(engine=engine) as it:
        await it.press("s")
        await it.until(lambda: it.lane.runner_here)
        await it.press("q", "o")
        await it.until_shown("runner 77 has the lane")
        assert isinstance(it.app.screen, LaneScreen)
        assert not it.app._exit


async def test_s_stops_the_runner_here_after_asking() -> None:
    engine = FakeEngine(lane(3, running=False))
    async with console(engine=engine) as it:
        await it.press("s")
        await it.until(lambda: it.lane.runner_here)
        await it.press("s")
        await it.until_shown("Stop the runner of this console?")
        await it.press("y")
        await it.until(lambda: not it.lane.runner_here)
        await it.until_shown("The runner ended: waiting, 0 envelopes finished")
    assert engine.runners[0].asked == ["stop"]


async def test_s_stops_a_runner_elsewhere_after_asking() -> None:
    engine = FakeEngine(lane(3))
    async with console(engine=engine) as it:
        await it.press("s")
        await it.until_shown("Stop runner 4121?")
        assert "US-015/backend will be ended" in it.text()
        await it.press("y")
        await it.until(lambda: engine.calls == [("stop", False)])
        await it.until_shown("US-015-backend is back in the queue")
    assert engine.runners == []


async def test_a_runner_that_cannot_start_says_why() -> None:
    class Refusing(FakeEngine):
        def runner(self, *, take_over: bool = False) -> FakeRunner:
            raise Held("another runner (pid 9) works the lane")

    async with console(engine=Refusing(lane(3, running=False))) as it:
        await it.press("s")
        await it.until_shown("another runner (pid 9) works the lane")
        await it.until(lambda: not it.lane.runner_here)
