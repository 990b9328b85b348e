"""Fleets made by hand, to draw and to steer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from meshtui.core.fleet import Active, FleetView, LaneSummary, Need
from meshtui.core.mesh.view import MissionView, mission_attention
from meshtui.core.run_dir import RunDir
from meshtui.core.view import Attention, Exit, LaneView, RunnerView
from meshtui.evidence import Fact
from tests.support.engine import FakeEngine
from tests.support.mission_screens import mission
from tests.support.views import ATTENTION, MINUTE, NOW, lane

ROOT = Path("/srv/lanes")
PLACES = (ROOT,)
WITHDRAW = Exit("withdraw", "meshtui withdraw US-021-plan", "withdraw")
START = Exit("start runner", "meshtui lane --run-dir /srv/lanes/docs", "run")


def summary(name: str, *items: Attention, **fields: Any) -> LaneSummary:
    """A lane called ``name`` that needs somebody for ``items``."""
    values: dict[str, Any] = {
        "state": "running",
        "runner": RunnerView(True, 4121, "build-3", NOW - 3000),
        "pending": 12,
        "depths": tuple((NOW - (12 - at) * MINUTE, depth) for at, depth in enumerate((1, 3, 6, 9, 12, 12, 9, 7, 5, 4))),
        "active": Active("US-015/backend", NOW - 252_000, NOW + 1_548_000),
    }  # fmt: skip
    return LaneSummary(ROOT / name, name, attention=items, **{**values, **fields})


def parked(story: str, minutes: int = 28) -> Attention:
    """A parked phase."""
    item = ATTENTION[0]
    return replace(
        item, subject=f"{story}/backend", key=f"k-{story}", envelope_id=f"{story}-backend", since=NOW - minutes * MINUTE
    )  # fmt: skip


def failed(story: str, text: str = "exit 1: 3 tests failed in tests/test_token.py") -> Attention:
    """A failed phase."""
    return replace(
        ATTENTION[1], subject=f"{story}/tests", key=f"k-{story}", envelope_id=f"{story}-tests", text=text
    )


HELD = Attention("limit", "US-021/plan", "held until 2026-12-01T03:00:00Z; usage limit reached", NOW - 40 * MINUTE, (WITHDRAW,), "k-21", "US-021-plan")  # fmt: skip
DEAD = Attention("dead", "docs", "the runner (pid 4119) is gone; US-030/docs was active; a new one takes over at once", NOW - 3 * MINUTE, (START,))  # fmt: skip
BROKEN = replace(ATTENTION[2], subject="0000000000000005-1796083000000-broken.json")
SPENT = Attention("budget", "billing", "used 8.4 of 10 ([lane] max_cost_usd)", None)


def of_mission(name: str) -> tuple[MissionView, tuple[Attention, ...]]:
    """Mission m7 in the lane ``name``, and what of it needs somebody."""
    view = replace(mission(), root=ROOT / name / "missions" / "m7" / "loops")
    return view, mission_attention(view, ROOT / name)


def fleet(count: int = 8) -> FleetView:
    """Several lanes in all states, at most ``count``."""
    view, items = of_mission("checkout")
    idle = {"active": None, "runner": RunnerView(), "depths": ()}
    lanes = [
        summary("api", parked("US-014"), failed("US-012"), cost_today=3.21, stalls=2),
        summary("docs", DEAD, state="dead", pending=3, active=Active("US-030/docs", NOW - 900_000), cost_today=0.4),
        summary("checkout", *items, state="waiting", pending=0, missions=(view,), cost_today=12.08, stalls=1,
                active=Active("loop-api/checker", NOW - 70_000)),
        summary("billing", SPENT, cost_today=8.4, active=Active("US-040/plan", NOW - 2_100_000, NOW - 300_000)),
        summary("web", pending=1204, cost_today=1.5, active=Active("US-051/frontend", NOW - 31_000, NOW + 900_000)),
        summary("search", HELD, state="waiting", pending=7, **idle),
        summary("mobile", state="paused", pending=2, **idle),
        summary("infra", state="stopped", pending=0, **idle),
        summary("a-lane-whose-name-goes-on-and-on-for-a-while", BROKEN, state="parked", pending=5, **idle),
        summary("物語-レーン", state="waiting", pending=0, **idle),
        summary("gone", loaded=True, exists=False, pending=0, problem="the folder is gone", **idle),
        summary("new", loaded=False, pending=0, **idle),
    ]  # fmt: skip
    lanes += [
        summary(f"team-{number:02d}", pending=number * 17, cost_today=number / 7) for number in range(20)
    ]
    return FleetView.of(lanes[:count], places=PLACES)


def crowd(count: int) -> FleetView:
    """Two lanes in which ``count`` things need somebody."""
    items = [parked(f"US-{number:03d}", number) for number in range(count)]
    half = count // 2
    return FleetView.of([summary("api", *items[:half]), summary("web", *items[half:])], places=PLACES)


def facts(need: Need, missions: Sequence[MissionView]) -> tuple[Fact, ...]:
    """Evidence as it is read from files."""
    if need.item.kind == "parked":
        return (
            Fact("output", "1,820 bytes written, the last 2026-11-30 23:34:10 UTC"),
            Fact("budget", "30 min"),
            Fact("idle", "28 min without output, work or a change"),
            Fact("asked", "Token refresh", "muted"),
            Fact("stdout", "tests/test_token.py::test_refresh PASSED", "muted"),
            Fact("", "tests/test_token.py::test_close …", "muted"),
        )
    if need.item.kind == "failed":
        return (Fact("engine", "codex"), Fact("took", "10 min, ended 2026-11-30 22:42:10 UTC"))
    return ()


class FakeFollower:
    """Hands out the view it was given last."""

    def __init__(self, view: FleetView | None, on_view: Callable[[FleetView], None]) -> None:
        self.away = False
        self.nudged: list[Path | None] = []
        self._view, self._on_view = view, on_view

    def start(self) -> None:
        if self._view is not None:
            self._on_view(self._view)

    def stop(self, timeout: float = 2.0) -> bool:
        return True

    def nudge(self, run_dir: Path | None = None) -> None:
        self.nudged.append(run_dir)


class FakeFleet:
    """Everything behind a console of several lanes, without a file: one fake engine for each."""

    def __init__(self, view: FleetView | None) -> None:
        self.view = view
        self.engines: dict[Path, FakeEngine] = {}
        self.follower: FakeFollower | None = None

    def follow(self, on_view: Callable[[FleetView], None]) -> FakeFollower:
        self.follower = FakeFollower(self.view, on_view)
        return self.follower

    def lane_view(self, root: Path) -> LaneView:
        """What the lane at ``root`` looks like when it is opened."""
        return replace(lane(3, attention=2), run_dir=root, lane_id=root.name)

    def engine(self, run_dir: RunDir) -> FakeEngine:
        if run_dir.root not in self.engines:
            self.engines[run_dir.root] = FakeEngine(self.lane_view(run_dir.root))
        return self.engines[run_dir.root]

    def calls(self, name: str) -> list[tuple[Any, ...]]:
        """What was done to the lane ``name``."""
        engine = self.engines.get(ROOT / name)
        return engine.calls if engine is not None else []
