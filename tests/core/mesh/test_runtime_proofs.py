"""Proofs that hold, and proofs that were tampered with."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from meshtui.core.mesh.places import mission_places
from meshtui.core.mesh.tally import gates_of
from meshtui.core.mesh.verify import Verifier
from meshtui.core.run_dir import RunDir
from tests.support.missions import APPROVE, INTEGRATION, MISSION, Bench, git, meshtui, node, until


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A mission that is done; run once for all tests, which leave it as they found it."""
    bench = Bench(tmp_path_factory.mktemp("once"))
    bench.commands("echo x >> a/one.txt; echo did it", arbiter=APPROVE)
    bench.gate("fine", "echo all well")
    bench.gate("whole", "true", stage="integration")
    bench.plan(node("loop-a", "a/", gates=["fine"], risk={"requires_gpt_final": True}), gates=["whole"])
    assert bench.run().state == "done"
    assert bench.mismatches() == []
    return bench


@pytest.fixture
def done(once: Bench, tmp_path: Path) -> Iterator[Bench]:
    """The mission, put back afterwards."""
    shutil.copytree(once.run_dir.root, tmp_path / "copy")
    heads = git(
        once.repo,
        "for-each-ref",
        "--format=%(refname:short) %(objectname)",
        "refs/heads/meshtui",
        "refs/heads/meshtui-loops",
    )
    yield once
    shutil.rmtree(once.run_dir.root)
    shutil.copytree(tmp_path / "copy", once.run_dir.root)
    for line in heads.splitlines():
        git(once.repo, "branch", "-f", *line.split())


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A mission as another tool leaves it: no repository, no evidence, three loops blocked."""
    loops = tmp_path / "mission" / "loops"
    names = ["loop-docs", INTEGRATION]
    nodes = [{"schema": "sks.loop-node.v1", "loop_id": name, "extra": 1} for name in names]
    plan = {
        "schema": "sks.loop-plan.v1", "mission_id": "M-check-1", "request": "update docs",
        "planner": {"mode": "rules"}, "graph": {"nodes": nodes, "edges": []}, "integration_loop_id": INTEGRATION,
    }  # fmt: skip
    gates = {
        "ok": False,
        "selected_gates": ["x:y"],
        "passed_gates": ["loop:state-valid"],
        "failed_gates": ["x:y"],
    }
    loops.mkdir(parents=True)
    (loops / "loop-plan.json").write_text(json.dumps(plan))
    for name in names:
        (loops / name).mkdir()
        common = {
            "mission_id": "M-check-1",
            "loop_id": name,
            "status": "blocked",
            "blockers": ["unknown_loop_gate:x:y"],
        }
        (loops / name / "loop-state.json").write_text(json.dumps({"schema": "sks.loop-state.v1", **common}))
        proof = {"schema": "sks.loop-proof.v1", **common, "gate_result": gates, "changed_files": []}
        (loops / name / "loop-proof.json").write_text(json.dumps(proof))
    whole = {
        "schema": "sks.loop-graph-proof.v1",
        "mission_id": "M-check-1",
        "ok": False,
        "completed_loops": 0,
    }
    (loops / "loop-graph-proof.json").write_text(json.dumps(whole))
    return tmp_path / "mission"


def edit(path: Path, **fields: Any) -> None:
    value = json.loads(path.read_text())
    value.update(fields)
    path.write_text(json.dumps(value))


def test_every_claim_names_its_evidence(done: Bench) -> None:
    proof = done.proof("loop-a")
    claims = {item["claim"]: item for item in proof["evidence"]}
    assert set(claims) == {
        "maker-1 of iteration 1 ended well", "gate fine passed", "checker-1 of iteration 1 approved",
    }  # fmt: skip
    for item in proof["evidence"]:
        log = done.run_dir.root / item["log"]
        assert not Path(item["log"]).is_absolute()
        assert item["sha256"] == hashlib.sha256(log.read_bytes()).hexdigest()
        assert item["exit_code"] == 0
        assert item["duration_ms"] >= 0
        assert item["command"]
        assert (done.run_dir.calls / item["call"]).is_dir()
    assert proof["base_commit"] == done.base
    assert proof["head_commit"] == git(done.repo, "rev-parse", f"meshtui-loops/{MISSION}/loop-a")
    assert "the final arbiter said approve" in {item["claim"] for item in done.proof(INTEGRATION)["evidence"]}
    claimed = [check for check in done.verify().checks if check.verdict == "claimed"]
    assert any(check.claim == "what makers and checkers say" for check in claimed)
    assert all(check.text.startswith("claimed, not verified") for check in claimed)


@pytest.mark.parametrize("role", ["maker", "gate", "checker", "arbiter"])
def test_a_tampered_log(done: Bench, role: str) -> None:
    with (done.calls(role)[0] / "stdout.log").open("a") as file:
        file.write("and more\n")
    assert any("differs" in text for text in done.mismatches())


def test_a_missing_log(done: Bench) -> None:
    (done.calls("gate")[0] / "stdout.log").unlink()
    assert any("is gone" in text for text in done.mismatches())


def test_a_changed_exit_code(done: Bench) -> None:
    edit(done.calls("gate")[0] / "exit.json", code=1)
    assert any("ended with 1, the proof says 0" in text for text in done.mismatches())


def test_a_changed_artefact(done: Bench) -> None:
    edit(done.paths.loop("loop-a").checker / "0001-checker-1.json", approved=False)
    assert any("0001-checker-1.json differs" in text for text in done.mismatches())


def test_a_moved_branch(done: Bench) -> None:
    git(done.repo, "branch", "-f", f"meshtui-loops/{MISSION}/loop-a", done.base)
    assert any(f"branch meshtui-loops/{MISSION}/loop-a" in text for text in done.mismatches())


def test_a_moved_result(done: Bench) -> None:
    git(done.repo, "branch", "-f", f"meshtui/{MISSION}", done.base)
    assert any(f"branch meshtui/{MISSION}" in text for text in done.mismatches())


def test_claims_that_do_not_fit_the_commits(done: Bench) -> None:
    edit(done.paths.loop("loop-a").proof, changed_files=["a/one.txt", "a/two.txt"])
    assert any("changed files" in text for text in done.mismatches())


def test_a_status_that_is_only_said(done: Bench) -> None:
    proof = done.proof("loop-a")
    gates = {**proof["gate_result"], "failed_gates": ["fine"], "ok": False}
    edit(done.paths.loop("loop-a").proof, gate_result=gates)
    assert any("completed with its gates passed" in text for text in done.mismatches())


def test_verify_on_the_command_line(done: Bench) -> None:
    root = done.run_dir.root
    assert meshtui(root, "proof", MISSION, "--verify")["ok"]
    assert meshtui(root, "proof", MISSION, "loop-a", "--verify")["ok"]
    assert meshtui(root, "proof", MISSION)["ok"]
    (done.calls("maker")[0] / "stdout.log").write_text("")
    assert not meshtui(root, "proof", MISSION, "--verify", code=1)["ok"]
    meshtui(root, "proof", MISSION, "nobody", "--verify", code=3)


def test_another_tools_mission_is_read_without_a_change(tmp_path: Path, sample: Path) -> None:
    before = _hash(sample)
    found = mission_places(RunDir(sample))
    assert [paths.mission_id for paths in found] == ["M-check-1"]
    verifier = Verifier(RunDir(sample), found[0])
    verifier.mission()
    assert verifier.ok
    assert meshtui(sample, "graph", "latest")["mission_id"] == "M-check-1"
    assert meshtui(sample, "kill", "all") == {"ended": [], "survivors": [], "not_started": []}
    (mission,) = meshtui(sample, "status")["missions"]
    assert [loop["status"] for loop in mission["loops"]] == ["blocked", "blocked"]
    assert {item["kind"] for item in meshtui(sample, "status")["attention"]} == {"blocked"}
    assert _hash(sample) == before


def test_missions_under_the_repository_s_own_folder_are_read_beside_those_of_the_run(
    done: Bench, sample: Path
) -> None:
    """As another tool leaves them there; of two with one name meshtui's own counts, and none of them is run."""
    theirs = done.repo / ".sneakoscope" / "missions"
    for name in ("M-check-1", MISSION):
        shutil.copytree(sample, theirs / name)
    before = _hash(theirs)
    root = done.run_dir.root
    found = {paths.mission_id: paths.root for paths in mission_places(done.run_dir)}
    assert found == {"M-check-1": theirs / "M-check-1" / "loops", MISSION: done.paths.root}
    assert meshtui(root, "graph", "M-check-1")["mission_id"] == "M-check-1"
    assert meshtui(root, "proof", "M-check-1", "--verify")["ok"]
    statuses = {
        mission["mission_id"]: {loop["status"] for loop in mission["loops"]}
        for mission in meshtui(root, "status")["missions"]
    }
    assert statuses == {"M-check-1": {"blocked"}, MISSION: {"completed"}}
    assert "another tool runs it" in str(meshtui(root, "run", "M-check-1", code=2))
    assert _hash(theirs) == before


def _hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(f"{path.relative_to(folder)} {path.stat().st_mtime_ns}".encode())
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


# -- prune ------------------------------------------------------------------------------------------


def test_prune_keeps_what_a_proof_names(done: Bench) -> None:
    done.configure()
    extra = done.run_dir.calls / done.calls("gate")[0].name.replace("-gate-", "-gate-")[:-8].__add__(
        "00000000"
    )
    extra.mkdir()
    (extra / "exit.json").write_text('{"code": 0, "ended_at": "2030-01-01T00:00:00.000Z"}')
    said = meshtui(done.run_dir.root, "prune", "--yes")
    assert said["removed"] == [extra.name]
    assert len(said["kept"]) == 5
    assert done.mismatches() == []


def test_prune_shows_worktrees_and_refuses_what_is_dirty_or_alive(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.commands(
        "echo x >> a/one.txt", "cat > /dev/null; while [ ! -e ../../go ]; do sleep 0.02; done; exit 1"
    )
    bench.configure()
    loop = node("loop-a", "a/", max_iterations=1)
    loop.worktree.cleanup = "always-keep"
    bench.plan(loop)
    running = bench.start()
    until(lambda: bench.calls("checker"))
    said = meshtui(bench.run_dir.root, "prune", "--yes")
    assert set(said["refused"].values()) == {"its mission is at work"}
    (bench.worktrees / "go").touch()
    assert running.outcome().state == "bad"
    place = bench.worktrees / MISSION / "loop-a"
    (place / "a" / "mine.txt").write_text("x")
    said = meshtui(bench.run_dir.root, "prune", "--yes")
    assert said["refused"] == {str(place): "not saved elsewhere: a/mine.txt"}
    (place / "a" / "mine.txt").unlink()
    meshtui(bench.run_dir.root, "prune", code=2)
    assert place.exists()
    assert meshtui(bench.run_dir.root, "prune", "--yes")["worktrees"] == [str(place)]
    assert not place.exists()
    assert bench.mismatches() == []


def test_a_gate_has_one_result_in_the_mission_s_proof(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.commands('echo x >> "$MESHTUI_LOOP_ID.txt"')
    bench.gate("texts", "true", when=["loop-a.txt"])
    bench.gate("notes", "true", when=["*.md"])
    bench.gate("whole", "true", stage="integration")
    bench.plan(
        node("loop-a", "loop-a.txt", gates=["texts", "notes"], merged=["whole"]),
        node("loop-b", "loop-b.txt", gates=["texts"], merged=["whole"]),
        gates=["whole"],
    )
    assert bench.run().state == "done", bench.proof()["blockers"]
    assert "texts" in bench.proof("loop-b")["gate_result"]["skipped_gates"]
    assert "whole" in bench.proof("loop-a")["gate_result"]["skipped_gates"]
    gates = bench.proof()["gates"]
    assert {"texts", "whole"} <= set(gates["passed"])
    assert gates["skipped"] == ["notes"]
    assert gates["failed"] == []
    assert sorted(gates["selected"]) == sorted(gates["passed"] + gates["skipped"])
    assert bench.mismatches() == []
    edit(bench.paths.graph_proof, gates={**gates, "passed": [*gates["passed"], "notes"], "skipped": []})
    assert bench.mismatches() == [f"{MISSION}: gates as the loops' proofs have them: notes"]


def test_one_failed_gate_is_no_passed_one() -> None:
    def proof(**gates: list[str]) -> dict[str, Any]:
        return {"gate_result": {f"{name}_gates": ids for name, ids in gates.items()}}

    proofs = [
        proof(selected=["a", "b", "c"], passed=["a", "b"], skipped=["c"]),
        proof(selected=["a", "b", "d"], failed=["a"], passed=["d"], skipped=["b"]),
        {"gate_result": None},
        {},
    ]
    assert gates_of(proofs) == {
        "selected": ["a", "b", "c", "d"],
        "passed": ["b", "d"],
        "failed": ["a"],
        "skipped": ["c"],
    }
