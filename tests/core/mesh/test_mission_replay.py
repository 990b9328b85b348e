"""What a mission's journal tells is what stands in its files, at its end and on the way there."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshtui.core.mesh.view import MissionsReader, MissionView
from meshtui.core.replay.recording import Recording
from tests.support.missions import INTEGRATION, Bench, node


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def both(bench: Bench) -> tuple[MissionView, MissionView]:
    """The mission as its files and as its journal have it."""
    recording = Recording.open(bench.run_dir.root)
    (shown,) = MissionsReader(bench.run_dir.root).refresh()
    (replayed,) = recording.view(len(recording)).missions
    return shown, replayed


def agree(shown: MissionView, replayed: MissionView) -> None:
    assert [row.loop_id for row in replayed.loops] == [row.loop_id for row in shown.loops]
    for mine, row in zip(replayed.loops, shown.loops, strict=True):
        assert (mine.status, mine.phase, mine.iteration) == (row.status, row.phase, row.iteration), (
            row.loop_id
        )
        assert (mine.dependencies, mine.title, mine.risk, mine.level) == (
            row.dependencies,
            row.title,
            row.risk,
            row.level,
        )
        assert mine.engine == row.engine == "command"
        assert (mine.makers, mine.checkers, mine.max_iterations) == (
            row.makers,
            row.checkers,
            row.max_iterations,
        )
        assert set(mine.gates_passed) == set(row.gates_passed), row.loop_id
        assert set(mine.gates_failed) == set(row.gates_failed)
        assert mine.active_workers == row.active_workers == ()
        for key in ("model_calls", "iterations", "tokens", "cost_usd"):
            assert (mine.budget_used.get(key) or 0) == (row.budget_used.get(key) or 0), (row.loop_id, key)
    assert (replayed.ok, replayed.state, replayed.request) == (shown.ok, shown.state, shown.request)


def test_a_mission_that_is_done(bench: Bench) -> None:
    bench.commands("echo x >> $MESHTUI_LOOP_ID.txt")
    bench.gate("there", "true")
    bench.plan(node("loop-a", "loop-a.txt"), node("loop-b", "loop-b.txt", after=["loop-a"]), gates=["there"])
    assert bench.run().state == "done"
    shown, replayed = both(bench)
    agree(shown, replayed)
    recording = Recording.open(bench.run_dir.root)
    seen = set()
    for index in range(len(recording) + 1):
        for mission in recording.view(index).missions:
            seen |= {(row.loop_id, row.status, row.active_workers[:1]) for row in mission.loops}
    assert ("loop-a", "running", ("maker-1",)) in seen
    assert ("loop-b", "queued", ()) in seen
    assert (INTEGRATION, "completed", ()) in seen


def test_a_mission_that_ended_badly_and_is_resumed(bench: Bench) -> None:
    bench.commands('[ "$MESHTUI_LOOP_ID" = loop-b ] || echo x >> $MESHTUI_LOOP_ID.txt')
    bench.plan(
        node("loop-a", "loop-a.txt"),
        node("loop-b", "loop-b.txt", max_iterations=1),
        node("loop-c", "loop-c.txt", after=["loop-b"]),
    )
    assert bench.run().state == "bad"
    shown, replayed = both(bench)
    agree(shown, replayed)
    assert [item.blockers for item in replayed.loops] == [item.blockers for item in shown.loops]
    bench.commands("echo x >> $MESHTUI_LOOP_ID.txt")
    assert bench.run().state == "done"
    agree(*both(bench))
