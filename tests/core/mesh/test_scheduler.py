"""The scheduler: caps, dependencies, progress, urgency, and its figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshtui.core.errors import InvalidInput
from meshtui.core.mesh.scheduler import (
    BAD,
    Capacity,
    LoopNode,
    Scheduler,
    critical_path,
    loops_of,
    ready,
)
from meshtui.core.models.mesh import ENDED, Plan, Status
from tests.benchmarks import mesh_scheduler as bench

PLAN = Path(__file__).parents[2] / "data/samples/mission-blocked/loops/loop-plan.json"


def _loop(name: str, *before: str, workers: int = 1) -> LoopNode:
    return LoopNode(name, before, workers)


DIAMOND = [
    _loop("last", "left", "right"),
    _loop("left", "first"),
    _loop("right", "first"),
    _loop("first"),
    _loop("alone"),
]


def test_a_loop_starts_when_its_dependencies_are_complete() -> None:
    wide = Capacity(9)
    assert ready(DIAMOND, {}, wide).start == ("first", "alone")
    assert ready(DIAMOND, {"first": "running", "alone": "running"}, wide).start == ()
    assert ready(DIAMOND, {"first": "completed"}, wide).start == ("left", "right", "alone")
    states: dict[str, Status] = {"first": "completed", "left": "completed", "right": "running"}
    assert ready(DIAMOND, states, wide).start == ("alone",)


def test_the_longest_remaining_path_goes_first() -> None:
    assert ready(DIAMOND, {}, Capacity(1)).start == ("first",)
    slow = [LoopNode("a", (), 1, 1.0), LoopNode("b", (), 1, 5.0), LoopNode("c", ("a",), 1, 9.0)]
    assert ready(slow, {}, Capacity(2)).start == ("a", "b")


def test_workers_have_a_cap_of_their_own() -> None:
    loops = [_loop("big", workers=3), _loop("other", workers=3), _loop("small")]
    assert ready(loops, {}, Capacity(9, 4)).start == ("big", "small")
    assert ready(loops, {"big": "running", "small": "running"}, Capacity(9, 4)).start == ()


def test_a_loop_with_more_workers_than_there_may_be_still_runs() -> None:
    loops = [_loop("huge", workers=50), _loop("small")]
    assert ready(loops, {}, Capacity(9, 4)).start == ("huge",)
    assert ready(loops, {"huge": "completed"}, Capacity(9, 4)).start == ("small",)


@pytest.mark.parametrize("status", BAD)
def test_a_bad_end_blocks_what_waits_for_it_by_name(status: Status) -> None:
    decision = ready(DIAMOND, {"left": status, "first": "completed"}, Capacity(9))
    assert decision.start == ("right", "alone")
    assert decision.blocked == {"last": ("left",)}


def test_blocking_goes_all_the_way_and_names_every_cause() -> None:
    loops = [_loop("a"), _loop("b"), _loop("c", "a"), _loop("d", "c", "b"), _loop("e", "d")]
    assert ready(loops, {"a": "failed", "b": "cancelled"}, Capacity(9)).blocked == {
        "c": ("a",),
        "d": ("a", "b"),
        "e": ("a", "b"),
    }
    # What was written as blocked stays a consequence, not a cause.
    states: dict[str, Status] = {
        "a": "failed",
        "b": "running",
        "c": "blocked",
        "d": "blocked",
        "e": "blocked",
    }
    assert ready(loops, states, Capacity(9)).blocked["e"] == ("a",)
    # A loop that its own gates blocked is a cause.
    assert ready(loops, {"c": "blocked"}, Capacity(9)).blocked == {"d": ("c",), "e": ("c",)}


def test_a_failure_blocks_while_other_dependencies_still_run() -> None:
    scheduler = Scheduler(DIAMOND, Capacity(9), {"first": "completed"})
    scheduler.start()
    assert scheduler.finish("left", "failed") == {"last": ("left",)}
    assert scheduler.finish("right", "completed") == {}
    assert scheduler.finish("alone", "handoff") == {}
    assert scheduler.done
    assert scheduler.states["last"] == "blocked"


def test_a_loop_may_end_before_it_starts() -> None:
    scheduler = Scheduler(DIAMOND, Capacity(1))
    assert scheduler.finish("alone", "cancelled") == {}
    assert scheduler.start() == ("first",)
    assert scheduler.finish("left", "cancelled") == {"last": ("left",)}
    scheduler.finish("first", "completed")
    assert scheduler.start() == ("right",)
    scheduler.finish("right", "completed")
    assert (scheduler.start(), scheduler.done, scheduler.running) == ((), True, 0)


def test_a_loop_ends_once_and_with_an_end() -> None:
    scheduler = Scheduler(DIAMOND, Capacity(1))
    with pytest.raises(ValueError, match="planned to running"):
        scheduler.finish("first", "running")
    scheduler.finish("first", "failed")
    with pytest.raises(ValueError, match="failed to completed"):
        scheduler.finish("first", "completed")
    with pytest.raises(KeyError):
        scheduler.finish("nobody", "failed")


def test_caps_can_change_while_loops_run() -> None:
    loops = [_loop(f"l{n}", workers=2) for n in range(6)]
    scheduler = Scheduler(loops, Capacity(1))
    assert scheduler.start() == ("l0",)
    scheduler.resize(Capacity(4, 6))
    assert scheduler.start() == ("l1", "l2")
    scheduler.resize(Capacity(1, 6))
    assert scheduler.start() == ()
    for name in ("l0", "l1", "l2"):
        scheduler.finish(name, "completed")
    assert scheduler.start() == ("l3",)


@pytest.mark.parametrize(("loops", "workers"), [(0, 1), (1, 0), (-1, None)])
def test_no_capacity_is_refused(loops: int, workers: int | None) -> None:
    with pytest.raises(InvalidInput):
        Capacity(loops, workers)


@pytest.mark.parametrize(
    ("loops", "text"),
    [
        ([_loop("a", "b"), _loop("b", "a")], "in a circle, a among them"),
        ([_loop("a", "a")], "in a circle"),
        ([_loop("a", "x\n")], r"a waits for x\\n, which is no loop"),
        ([_loop("a"), _loop("a")], "one id"),
    ],
)
def test_a_broken_graph_is_refused(loops: list[LoopNode], text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        ready(loops, {}, Capacity(1))


def test_nothing_to_do() -> None:
    scheduler = Scheduler([], Capacity(1))
    assert (scheduler.start(), scheduler.done, critical_path([])) == ((), True, ())


def test_the_critical_path() -> None:
    assert critical_path(DIAMOND) == ("first", "left", "last")
    took = {"right": 5.0}
    assert critical_path(DIAMOND, lambda loop: took.get(loop.loop_id, 1.0)) == ("first", "right", "last")


def test_a_recorded_plan() -> None:
    loops = loops_of(Plan.model_validate_json(PLAN.read_bytes()))
    assert [(loop.loop_id, loop.workers) for loop in loops] == [
        ("loop-naruto", 2),
        ("loop-docs", 3),
        ("loop-integration", 1),
    ]
    assert ready(loops, {}, Capacity(8, 4)).start == ("loop-naruto",)


# --- properties --------------------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """A graph with what will come of each loop."""

    loops: tuple[LoopNode, ...]
    capacity: Capacity
    ends: tuple[Status, ...]
    order: tuple[int, ...]
    """Which of the running loops ends next."""


@st.composite
def worlds(draw: st.DrawFn) -> World:
    count = draw(st.integers(1, 14))
    loops = []
    for number in range(count):
        before = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set()
        workers, estimate = draw(st.integers(1, 5)), draw(st.sampled_from([1.0, 1.0, 2.0, 7.0]))
        loops.append(LoopNode(f"l{number}", tuple(f"l{one}" for one in sorted(before)), workers, estimate))
    return World(
        tuple(draw(st.permutations(loops))),
        Capacity(draw(st.integers(1, 4)), draw(st.none() | st.integers(1, 6))),
        tuple(draw(st.lists(st.sampled_from(["completed"] * 6 + list(BAD)), min_size=count, max_size=count))),
        tuple(draw(st.lists(st.integers(0, 99), min_size=count, max_size=count))),
    )


def _rank(loops: tuple[LoopNode, ...]) -> dict[str, float]:
    """The longest remaining paths, told the slow way."""
    after = {loop.loop_id: [one for one in loops if loop.loop_id in one.dependencies] for loop in loops}

    def length(loop: LoopNode) -> float:
        return loop.estimate + max((length(one) for one in after[loop.loop_id]), default=0.0)

    return {loop.loop_id: length(loop) for loop in loops}


@settings(max_examples=300, deadline=None)
@given(worlds())
def test_any_run_keeps_caps_and_dependencies_and_comes_to_an_end(world: World) -> None:
    by_id = {loop.loop_id: loop for loop in world.loops}
    rank = _rank(world.loops)
    scheduler = Scheduler(world.loops, world.capacity)
    running: list[str] = []
    states: dict[str, Status] = dict.fromkeys(by_id, "planned")

    def room() -> float:
        most = world.capacity.max_workers
        return (
            float("inf")
            if most is None
            else most - sum(world.capacity.need(by_id[n].workers) for n in running)
        )

    for step in range(len(by_id) + 1):
        begun = scheduler.start()
        assert ready(world.loops, states, world.capacity).start == begun
        for name in begun:
            assert all(states[one] == "completed" for one in by_id[name].dependencies)
            # Nobody more urgent that fits was passed over.
            for other, state in states.items():
                could = state == "planned" and all(
                    states[one] == "completed" for one in by_id[other].dependencies
                )
                if could and world.capacity.need(by_id[other].workers) <= room():
                    assert rank[name] >= rank[other]
            running.append(name)
            states[name] = "running"
        assert len(running) <= world.capacity.max_loops
        assert room() >= 0
        if not running:
            break
        name = running.pop(world.order[step % len(world.order)] % len(running))
        states[name] = world.ends[step % len(world.ends)]
        for later, cause in scheduler.finish(name, states[name]).items():
            assert (states[later], cause) == ("planned", (name,))
            states[later] = "blocked"
        assert scheduler.states == states
    assert scheduler.done
    assert all(state in ENDED for state in states.values())
    for loop in world.loops:
        bad = any(states[one] in BAD for one in loop.dependencies)
        assert (loop.loop_id in scheduler.blocked()) is bad
    for causes in scheduler.blocked().values():
        assert all(states[one] in BAD and one not in scheduler.blocked() for one in causes)


@settings(max_examples=100, deadline=None)
@given(worlds())
def test_no_slot_stays_empty_while_a_loop_could_use_it(world: World) -> None:
    scheduler = Scheduler(world.loops, world.capacity)
    scheduler.start()
    assert scheduler.start() == ()
    assert ready(world.loops, scheduler.states, world.capacity).start == ()
    assert scheduler.running >= 1


# --- figures -----------------------------------------------------------------------------------


def test_makespans_are_near_the_bound_and_never_longer_than_in_batches() -> None:
    figures = bench.compare(range(bench.GRAPHS))
    assert sum(figures.ratios) / len(figures.ratios) <= bench.MAX_RATIO
    assert min(figures.ratios) >= 1 - 1e-9
    assert min(figures.speedups) >= 1 - 1e-9
    assert sum(figures.speedups) / len(figures.speedups) >= bench.MIN_SPEEDUP


@pytest.mark.parametrize("make", [bench.wide, bench.chain, bench.mixed])
def test_ten_thousand_loops_cost_at_most_a_second(make: object) -> None:
    assert callable(make)
    assert bench.cpu_of(make) <= bench.MAX_CPU
