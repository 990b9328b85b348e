"""What the details of a loop are read from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from meshtui.core.mesh.detail import (
    LOOP_PARTS,
    Diff,
    Finding,
    Gate,
    Kept,
    Log,
    LoopPart,
    Proof,
    home_of,
    read_part,
    signature,
)
from meshtui.core.mesh.runlog import read_run_log
from meshtui.core.mesh.view import LoopRow, MissionView
from meshtui.core.overview import RunDirReader
from meshtui.core.run_dir import RunDir
from tests.support.mission_screens import on_disk

SAMPLE = Path(__file__).parents[2] / "data" / "samples" / "mission-blocked"


def loop_of(root: Path) -> tuple[MissionView, LoopRow]:
    """The first loop of the newest mission."""
    mission = RunDirReader(RunDir(root)).refresh().missions[-1]
    return mission, mission.loops[0]


def part(root: Path, name: LoopPart) -> object:
    """A part of the details of the first loop."""
    return read_part(*loop_of(root), name)


def test_times_come_from_the_run_log(tmp_path: Path) -> None:
    _mission, row = loop_of(on_disk(tmp_path))
    assert row.started_at is not None
    assert row.elapsed(0) == 60_000
    assert [phase for _at, phase in row.marks] == ["triage", "maker", "gates"]


def test_a_resume_after_an_end_begins_anew_and_one_after_a_stop_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "log"
    line = '{{"ts":"2026-12-01T00:0{0}:00.000Z","event_type":"loop_{1}","status":"x"}}\n'
    log.write_text(line.format(0, "started") + line.format(1, "started"))
    first = read_run_log(log)
    log.write_text(line.format(0, "started") + line.format(1, "blocked") + line.format(2, "started"))
    second = read_run_log(log)
    assert first.started_at is not None
    assert second.started_at == first.started_at + 120_000
    assert second.ended_at is None
    assert read_run_log(tmp_path / "none").started_at is None


def test_the_newest_patch_where_there_are_no_commits(tmp_path: Path) -> None:
    diff = part(on_disk(tmp_path), "diff")
    assert isinstance(diff, Diff)
    assert diff.source == "patches/0002.patch"
    assert [(one.path, one.status, one.insertions, one.deletions) for one in diff.files] == [
        ("src/auth/token.py", "M", 2, 1),
        ("src/auth/new.py", "A", 1, 0),
    ]
    assert not diff.cut


def test_a_huge_patch_is_cut(tmp_path: Path) -> None:
    patch = on_disk(tmp_path) / "missions/m7/loops/loop-auth/patches/0003.patch"
    patch.write_text("diff --git a/x b/x\n@@ -0,0 +1 @@\n" + "+line\n" * 300_000)
    diff = part(tmp_path, "diff")
    assert isinstance(diff, Diff)
    assert diff.cut
    assert len(diff.lines) <= 200_000


def test_gates_in_the_order_of_the_plan(tmp_path: Path) -> None:
    gates = part(on_disk(tmp_path), "gates")
    assert isinstance(gates, tuple)
    known = [gate for gate in gates if isinstance(gate, Gate)]
    assert [(gate.gate_id, gate.result, gate.exit_code) for gate in known] == [
        ("ruff", "passed", 0),
        ("tests", "failed", 1),
    ]
    assert known[1].tail == ("E  AssertionError: expected 401", "1 failed")


def test_findings_by_iteration_newest_first(tmp_path: Path) -> None:
    findings = part(on_disk(tmp_path), "findings")
    assert isinstance(findings, tuple)
    known = [one for one in findings if isinstance(one, Finding)]
    assert [(one.iteration, one.who, one.approved) for one in known] == [
        (2, "checker-1", True),
        (2, "gates", False),
        (1, "checker-1", False),
    ]


def test_proof_log_and_state(tmp_path: Path) -> None:
    root = on_disk(tmp_path)
    proof, log, kept = part(root, "proof"), part(root, "log"), part(root, "state")
    assert isinstance(proof, Proof)
    assert proof.claims[0].exit_code == 1
    assert isinstance(log, Log)
    assert [line.event for line in log.lines][-1] == "loop_blocked"
    assert isinstance(kept, Kept)
    assert ("files", str(root / "missions/m7/loops/loop-auth")) in kept.places


def test_other_tools_missions_are_read(tmp_path: Path) -> None:
    mission, row = loop_of(SAMPLE)
    before = signature(mission, row)
    for name in LOOP_PARTS:
        read_part(mission, row, name)
    assert signature(mission, row) == before
    assert home_of(mission) is None
    assert home_of(loop_of(on_disk(tmp_path))[0]) == RunDir(tmp_path)


def test_nothing_there_is_nothing_shown(tmp_path: Path) -> None:
    mission = MissionView("m", tmp_path / "loops")
    row = LoopRow("m", "loop-x", gates_selected=("ruff",))
    for name in LOOP_PARTS:
        read_part(mission, row, name)
    gates = read_part(mission, row, "gates")
    assert gates == (Gate("ruff"),)


def test_a_working_copy_that_went_is_said_to_be_removed(tmp_path: Path) -> None:
    root = on_disk(tmp_path)
    mission, row = loop_of(root)
    place = tmp_path / "trees" / row.loop_id
    place.mkdir(parents=True)
    row = replace(row, worktree=str(place))
    kept, before = read_part(mission, row, "state"), signature(mission, row)
    assert isinstance(kept, Kept)
    assert ("worktree", str(place)) in kept.places
    place.rmdir()
    assert signature(mission, row) != before
    kept = read_part(mission, row, "state")
    assert isinstance(kept, Kept)
    assert ("worktree", f"{place}  (removed)") in kept.places
