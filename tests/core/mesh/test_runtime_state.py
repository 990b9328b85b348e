"""A loop's state that a power cut left empty, cut or lost: it is told again from proof and checkpoint."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from meshtui.core import storage
from meshtui.core.clock import SystemClock
from meshtui.core.mesh.files import read_state
from meshtui.core.mesh.service import answer_mission
from meshtui.core.mesh.view import MissionReader
from tests.support.missions import INTEGRATION, MISSION, Bench, meshtui, node, until

DAMAGE = ["empty", "cut", "other", "lost"]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path)
    log = tmp_path / "log"
    bench.commands(f'echo "$MESHTUI_LOOP_ID" >> {log}; echo x >> "$MESHTUI_LOOP_ID.txt"')
    bench.configure()
    return bench


def damage(bench: Bench, loop_id: str, how: str) -> None:
    path = bench.paths.loop(loop_id).state
    if how == "lost":
        path.unlink()
    else:
        path.write_bytes({"empty": b"", "cut": path.read_bytes()[:40], "other": b'{"status": 7}'}[how])


def seen(bench: Bench) -> dict[str, str]:
    """The loops' statuses as the console and the commands show them; nothing is written for that."""
    before = {path: path.stat().st_mtime_ns for path in bench.paths.root.rglob("*")}
    view = MissionReader(bench.paths).refresh()
    told = meshtui(bench.run_dir.root, "graph", MISSION)
    assert isinstance(told, dict)
    assert {path: path.stat().st_mtime_ns for path in bench.paths.root.rglob("*")} == before
    statuses = {row.loop_id: row.status for row in view.loops}
    for name in statuses:
        state = read_state(bench.paths.loop(name))
        assert state is None or state.status == statuses[name]
    return statuses


@pytest.mark.parametrize("how", DAMAGE)
def test_of_a_complete_loop(bench: Bench, how: str) -> None:
    bench.plan(node("loop-a", "loop-a.txt"), node("loop-b", "loop-b.txt", after=["loop-a"]))
    bench.commands(bench.config["engines"]["command"]["maker"] + '; [ "$MESHTUI_LOOP_ID" = loop-a ]')
    assert bench.run().state == "bad"
    damage(bench, "loop-a", how)
    damage(bench, "loop-b", how)
    assert seen(bench) == {"loop-a": "completed", "loop-b": "blocked", INTEGRATION: "blocked"}
    bench.commands(bench.config["engines"]["command"]["maker"].rpartition(";")[0])
    assert bench.run().state == "done", bench.proof()["blockers"]
    log = (bench.tmp / "log").read_text().split()
    assert log.count("loop-a") == 1
    assert bench.mismatches() == []
    assert bool(list(bench.paths.loop("loop-a").root.glob("loop-state.json.*.damaged"))) == (how != "lost")


@pytest.mark.parametrize("how", DAMAGE)
def test_of_a_loop_at_work(bench: Bench, how: str) -> None:
    go = bench.tmp / "go"
    bench.commands(
        bench.config["engines"]["command"]["maker"] + f"; while [ ! -e {go} ]; do sleep 0.02; done"
    )
    bench.plan(node("loop-a", "loop-a.txt"))
    running = bench.start()
    until(lambda: (bench.tmp / "log").exists())
    running.runner.request_hand_over()
    running.outcome()
    damage(bench, "loop-a", how)
    assert seen(bench)["loop-a"] == "running"
    assert MissionReader(bench.paths).refresh().state == "dead"
    go.touch()
    assert bench.run().state == "done", bench.proof()["blockers"]
    assert (bench.tmp / "log").read_text().split() == ["loop-a"]
    assert bench.mismatches() == []


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize("how", ["empty", "lost"])
def test_of_a_loop_that_waits_for_a_person(bench: Bench, how: str, answered: bool, whole: bool) -> None:
    risk = {"requires_gpt_final": True} if whole else {"requires_human_handoff": True}
    bench.plan(node("loop-a", "loop-a.txt", risk=risk))
    name = INTEGRATION if whole else "loop-a"
    assert bench.run().state == "handoff"
    if not answered:
        damage(bench, name, how)
        assert seen(bench)[name] == "handoff"
        assert bench.run().state == "handoff"
        damage(bench, name, how)
    answer_mission(bench.run_dir, bench.paths, None if whole else name, "approve", "fine", by="me")
    if answered:
        damage(bench, name, how)
        assert seen(bench)[name] == ("queued" if whole else "completed")
    assert bench.run().state == "done", bench.proof()["blockers"]
    assert (bench.tmp / "log").read_text().split() == ["loop-a"]
    assert bench.mismatches() == []


def test_an_end_is_synced_before_it_counts(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = storage.write_atomic

    def noted(path: Path, data: bytes, *, durable: bool = True, **more: object) -> None:
        if os.path.basename(path) == "loop-state.json" and durable:
            synced.append(os.path.basename(os.path.dirname(path)))
        real(path, data, durable=durable, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(storage, "write_atomic", noted)
    bench.plan(node("loop-a", "loop-a.txt", risk={"requires_human_handoff": True}))
    assert bench.run().state == "handoff"
    assert synced == ["loop-a"]
    answer_mission(bench.run_dir, bench.paths, "loop-a", "approve", "fine", by="me", clock=SystemClock())
    assert synced == ["loop-a"] * 2
    assert bench.run().state == "done"
    assert synced == ["loop-a", "loop-a", INTEGRATION]
