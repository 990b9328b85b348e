"""Screens of the console as an operator gets to them: what is there, and the keys that lead to what is drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from meshtui.app import MeshtuiApp
from meshtui.core.clock import ManualClock
from meshtui.core.errors import NotFound
from meshtui.core.fleet import FleetView
from meshtui.core.mesh.prune import PrunableWorktree
from meshtui.core.prune import Prunable, PrunableCall
from meshtui.core.run_dir import RunDir
from meshtui.core.vcs.merge import Discard
from meshtui.core.view import LaneView, RunnerView
from meshtui.headless import _settle, picture
from meshtui.settings import Settings
from tests.support.engine import FakeEngine
from tests.support.fleets import ROOT, FakeFleet, fleet
from tests.support.mission_screens import done_mission, mission, only, plan, with_missions
from tests.support.pilot import Console
from tests.support.views import NOW, empty, lane

SIZES = ((60, 18), (80, 24), (120, 40), (200, 60))
IDS = tuple(f"{width}x{height}" for width, height in SIZES)


def both() -> LaneView:
    """A lane with work and a mission that runs."""
    return with_missions(lane(12, attention=1), mission())


def ended() -> LaneView:
    """A lane with a mission that is done."""
    return with_missions(lane(1), replace(done_mission(), runner=RunnerView()))


def quiet() -> LaneView:
    """A lane where nothing has happened yet."""
    return replace(lane(0, running=False), journal=(), depth_history=())


@dataclass(frozen=True)
class Scene:
    """One screen."""

    keys: tuple[str, ...]
    """What is pressed, one after the other."""
    shows: str
    """Words that stand on the screen once it is there."""
    view: Callable[[], LaneView | FleetView] = both
    prepare: Callable[[FakeEngine], None] = lambda engine: None
    """Gives the engine what it answers."""
    read_only: bool = False


def _planned(engine: FakeEngine) -> None:
    engine.the_missions.made = plan()


def _broken(engine: FakeEngine) -> None:
    _planned(engine)
    engine.the_missions.blockers = ("cycle: loop-auth, loop-api", "loop-web owns nothing")


def _lost(engine: FakeEngine) -> None:
    engine.the_missions.lost = Discard(
        {"meshtui/m7": "a" * 40, "meshtui-loops/m7/loop-auth": "b" * 40},
        (Path("/trees/m7/loop-auth"),),
        ("commit bbbbbbb on meshtui-loops/m7/loop-auth: half a login",),
    )


def _left(engine: FakeEngine) -> None:
    engine.the_missions.left_behind = Prunable(
        (PrunableCall("c1", 1000), PrunableCall("c2", 234)),
        ("c3",),
        (
            PrunableWorktree("m7", Path("/trees/m7/loop-docs"), 50),
            PrunableWorktree("m7", Path("/trees/m7/loop-auth"), 60, "not saved elsewhere: x"),
        ),
    )


def _refused(engine: FakeEngine) -> None:
    engine.the_operations.error = NotFound(
        "US-015-plan was claimed a moment ago: it cannot be withdrawn any more"
    )


def _lane() -> LaneView:
    return lane(12, attention=2)


LANES: dict[str, Scene] = {
    # Without a word the order of what is offered is that of who answers first.
    "palette": Scene(("colon", *"show"), "Show the timeline", _lane),
    "palette-found": Scene(("colon", *"kill"), "Kill", both),
    "go-to": Scene(("colon", *"us-016"), "US-016", _lane),
    "palette-nothing": Scene(("colon", *"zzz"), "zzz", _lane),
    "interrupt": Scene(("i",), "No  n", _lane),
    "withdraw": Scene(("w",), "No  n", _lane),
    "kill-loop": Scene(("shift+tab", "x"), "No  n", both),
    "kill-mission": Scene(("X",), "No  n", both),
    "land": Scene(("shift+tab", "l"), "No  n", ended),
    "discard": Scene(("shift+tab", "delete"), "Discard mission", ended, _lost),
    "prune": Scene(("C",), "Prune this", both, _left),
    "leave": Scene(("s", "q"), "Hand over", lambda: lane(3, running=False)),
    "receipt": Scene(("w", "y"), "withdrawn", _lane),
    "refused": Scene(("w", "y"), "claimed a moment ago", _lane, _refused),
    "enqueue-wrong": Scene(("e", "g", "o", *["tab"] * 5, *"soon"), "✖", _lane),
    "enqueue-json": Scene(("e", *"Write the docs", "f2"), "kind", _lane),
    "keys-of-a-form": Scene(("e", "f1"), "Keys here", _lane),
    "keys-of-a-question": Scene(("i", "question_mark"), "Keys here", _lane),
    "keys-of-the-timeline": Scene(("t", "question_mark"), "Keys here", lambda: only(mission())),
    "message": Scene(("j", "m"), "Message to", _lane),
    "message-empty": Scene(("j", "m", "enter"), "say what", _lane),
    "extend": Scene(("plus",), "More time", _lane),
    "extend-wrong": Scene(("plus", "x"), "a number of minutes", _lane),
    "verdict": Scene(("shift+tab", "j", "j", "j", "a"), "Decide on", both),
    "plan": Scene(("n",), "Plan a mission", both),
    "plan-wrong": Scene(("n", "tab", *"gpt", "ctrl+s"), "say what", both),
    "plan-preview": Scene(("n", *"do it", "ctrl+s"), "nothing runs yet", both, _planned),
    "plan-broken": Scene(("n", *"do it", "ctrl+s"), "cannot run", both, _broken),
    "help-loops": Scene(("shift+tab", "question_mark"), "Keys", both),
    "help-text": Scene(("enter", "question_mark"), "Keys", _lane),
    "help-found": Scene(("question_mark", "slash", *"undo"), "Undo", _lane),
    "help-nothing": Scene(("question_mark", "slash", *"zzz"), "Nothing here", _lane),
    "list-empty": Scene(("l", "l", "l"), "failed", lambda: lane(3)),
    "nothing-yet": Scene((), "", empty),
    "nothing-charts": Scene(("c",), "Charts", quiet),
    "nothing-timeline": Scene(("t",), "Timeline", quiet),
    "loop-open": Scene(("j", "enter"), "gate tests failed", lambda: only(mission())),
    "read-only-mission": Scene((), "read-only", both, read_only=True),
    "timeline": Scene(("t",), "Timeline", lambda: only(mission())),
    "charts": Scene(("c",), "Charts", both),
    "inbox": Scene(("I",), "goes back", lambda: with_missions(lane(3, attention=4), mission())),
}
"""Of one run directory."""

FLEETS: dict[str, Scene] = {
    "palette": Scene(("colon", *"open"), "Open the inbox", lambda: fleet(12)),
    "help": Scene(("question_mark",), "Keys", lambda: fleet(12)),
    "help-inbox": Scene(("I", "question_mark"), "Keys", lambda: fleet(12)),
    "filter": Scene(("slash", *"status:dead", "enter"), "docs", lambda: fleet(12)),
    "filter-nothing": Scene(("slash", *"zzz", "enter"), "zzz", lambda: fleet(12)),
}
"""Of several."""


async def drawn(
    scene: Scene, size: tuple[int, int], *, theme: str | None = None, settings: Settings | None = None
) -> str:
    """The screen as SVG."""
    view, clock = scene.view(), ManualClock(NOW)
    made = settings or Settings()
    if theme is not None:
        made = replace(made, theme=theme)
    if isinstance(view, LaneView):
        engine = FakeEngine(view)
        scene.prepare(engine)
        app = MeshtuiApp(
            RunDir(view.run_dir),
            engine=engine,
            clock=clock,
            read_only=scene.read_only,
            still=True,
            settings=made,
        )
    else:
        app = MeshtuiApp(RunDir(ROOT), fleet=FakeFleet(view), clock=clock, still=True, settings=made)
    app.animation_level = "none"
    async with app.run_test(size=size, notifications=True) as pilot:
        it = Console(app, pilot)
        await it.until(lambda: getattr(app.screen, "view", None) is not None, "a first view")
        await _settle(pilot)
        for key in scene.keys:
            # Each key meets what the one before led to, as with a person.
            await it.press(key)
        await it.until_shown(scene.shows)
        await _settle(pilot)
        return picture(app, size)
