"""Whatever is typed over whatever run directory: no traceback, and no file changes that nobody asked for."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from meshtui.app import MeshtuiApp
from meshtui.bridge import LaneEngine
from meshtui.commands import COMMANDS
from meshtui.core.clock import ManualClock
from meshtui.core.errors import InvalidInput
from meshtui.core.run_dir import RunDir
from meshtui.fleet import RunDirFleet
from meshtui.screens.answer import AnswerForm
from meshtui.screens.confirm import Question
from meshtui.screens.fleet import FleetScreen
from tests.support.engine import FakeMissions, FakeRunner
from tests.support.pilot import Console
from tests.support.views import NOW

SAMPLES = sorted((Path(__file__).parents[1] / "data" / "samples").iterdir())
KEYS = sorted(
    {key for command in COMMANDS for key in command.key.split(",")}
    | {"escape", "enter", "tab", "shift+tab", "backspace", "delete", "left", "right", "f1", "f2", "f3"}
    | {
        "ctrl+s",
        "ctrl+p",
        "ctrl+q",
        "ctrl+c",
        "c",
        "f",
        "W",
        "0",
        "z",
        "full_stop",
        "colon",
        "minus",
        "quotation_mark",
    }
)
LOSING = ("withdraw", "withdraw_many", "interrupt", "kill", "stop", "quarantine_drop")
"""The operations that take something away: only after a question."""


class Noted:
    """Operations that are done for real, and noted."""

    def __init__(self, real: Any, done: list[str]) -> None:
        self._real = real
        self._done = done

    def __getattr__(self, name: str) -> Any:
        if name != "envelope":
            self._done.append(name)
        return getattr(self._real, name)


class NotingEngine(LaneEngine):
    """The real engine, but that it starts no agent and no mission: what a sample asks for is not to be run here."""

    def __init__(self, run_dir: RunDir) -> None:
        super().__init__(run_dir)
        self.done: list[str] = []

    def operations(self, *, create: bool = False) -> Any:
        return Noted(super().operations(create=create), self.done)

    def runner(self, *, take_over: bool = False) -> FakeRunner:
        self.done.append("runner")
        return FakeRunner()

    def start_detached(self) -> int:
        self.done.append("detached runner")
        return 1

    def missions(self) -> FakeMissions:
        missions = FakeMissions()
        missions.error = InvalidInput("not here")
        return missions


def contents(root: Path) -> dict[str, bytes | None]:
    """Every file and folder below ``root``."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in root.rglob("*")
    }


async def typed(
    run_dir: RunDir, keys: list[str], size: tuple[int, int], *, read_only: bool
) -> tuple[list[str], int]:
    """The operations that ``keys`` led to, and how many questions were answered with other than no."""
    engine = NotingEngine(run_dir)
    confirmed: list[str] = []
    app = MeshtuiApp(run_dir, engine=engine, clock=ManualClock(NOW), read_only=read_only)
    choose, dismiss = Question.action_choose, AnswerForm.dismiss

    def choosing(self: Question, name: str) -> None:
        if name != "no":
            confirmed.append(name)
        choose(self, name)

    def dismissing(self: AnswerForm, result: Any = None) -> Any:
        if result is not None:
            confirmed.append(result.action)
        return dismiss(self, result)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Question, "action_choose", choosing)
        patch.setattr(AnswerForm, "dismiss", dismissing)
        async with app.run_test(size=size, notifications=True) as pilot:
            it = Console(app, pilot)
            await it.until(lambda: it.lane.view is not None, "a first view")
            for key in keys:
                if app._exit:
                    break
                await pilot.press(key)
            # The way home, once what was asked for is done: a question may open then.
            bridge = it.lane.bridge
            assert bridge is not None
            for _ in range(10):
                if app._exit:
                    break
                await it.until(lambda: app._exit or not bridge._working, "an end of the operations")
                await pilot.pause()
                if app.screen is it.lane:
                    break
                await pilot.press("escape")
                await pilot.pause()
            assert app._exit or app.screen is it.lane, app.screen
    assert app._exception is None
    return engine.done, len(confirmed)


class NotingFleet(RunDirFleet):
    """The real one, with engines that start nothing."""

    def __init__(self, place: Path) -> None:
        super().__init__([place])
        self.engines: dict[Path, NotingEngine] = {}

    def engine(self, run_dir: RunDir) -> NotingEngine:
        return self.engines.setdefault(run_dir.root, NotingEngine(run_dir))

    @property
    def done(self) -> list[str]:
        """What was done in any lane."""
        return [name for engine in self.engines.values() for name in engine.done]


async def typed_in_a_fleet(
    place: Path, keys: list[str], size: tuple[int, int], *, read_only: bool
) -> tuple[list[str], int]:
    """The same in a console of all the lanes below ``place``."""
    fleet = NotingFleet(place)
    confirmed: list[str] = []
    app = MeshtuiApp(RunDir(place), fleet=fleet, clock=ManualClock(NOW), read_only=read_only)
    choose = Question.action_choose

    def choosing(self: Question, name: str) -> None:
        if name != "no":
            confirmed.append(name)
        choose(self, name)

    def resting() -> bool:
        return app._exit is True or not any(one.operating for one in app.bridges._bridges.values())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Question, "action_choose", choosing)
        async with app.run_test(size=size, notifications=True) as pilot:
            it = Console(app, pilot)
            home = app.screen_stack[0]
            assert isinstance(home, FleetScreen)
            await it.until(lambda: home.view is not None and home.view.complete, "a first view")
            for key in keys:
                if app._exit:
                    break
                await pilot.press(key)
            for _ in range(15):
                await it.until(resting, "an end of the operations")
                await pilot.pause()
                if app._exit or app.screen is home:
                    break
                await pilot.press("escape")
                await pilot.pause()
            assert app._exit or app.screen is home, app.screen
    assert app._exception is None
    return fleet.done, len(confirmed)


sequences = st.lists(st.sampled_from(KEYS), min_size=1, max_size=25)
places = st.sampled_from(SAMPLES)
sizes = st.sampled_from([(60, 18), (80, 24), (120, 40), (30, 8)])
patient = settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    # Making a failing sequence shorter takes minutes.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


def check(sample: Path, keys: list[str], size: tuple[int, int], *, read_only: bool) -> None:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        root = Path(folder) / "run"
        shutil.copytree(sample, root)
        before = contents(root)
        done, confirmed = asyncio.run(typed(RunDir(root), keys, size, read_only=read_only))
        if read_only:
            assert done == []
        if not done:
            assert contents(root) == before
        # What undo does was asked for when it was done.
        if "u" not in keys:
            assert sum(1 for name in done if name in LOSING) <= confirmed, done


@patient
@given(places, sequences, sizes)
def test_any_keys_over_any_directory(sample: Path, keys: list[str], size: tuple[int, int]) -> None:
    check(sample, keys, size, read_only=False)


@patient
@given(places, sequences, sizes)
def test_any_keys_where_one_only_looks(sample: Path, keys: list[str], size: tuple[int, int]) -> None:
    check(sample, keys, size, read_only=True)


def check_fleet(keys: list[str], size: tuple[int, int], *, read_only: bool) -> None:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        place = Path(folder) / "lanes"
        for sample in SAMPLES:
            shutil.copytree(sample, place / sample.name)
        before = contents(place)
        done, confirmed = asyncio.run(typed_in_a_fleet(place, keys, size, read_only=read_only))
        if read_only:
            assert done == []
        if not done:
            assert contents(place) == before
        if confirmed == 0 and "u" not in keys:
            assert not set(done) & set(LOSING), done


@patient
@given(sequences, sizes)
def test_any_keys_in_a_fleet(keys: list[str], size: tuple[int, int]) -> None:
    check_fleet(keys, size, read_only=False)


@patient
@given(sequences, sizes)
def test_any_keys_in_a_fleet_where_one_only_looks(keys: list[str], size: tuple[int, int]) -> None:
    check_fleet(keys, size, read_only=True)
