"""What a person or the final arbiter decides, and how a mission goes on after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshtui.core.errors import InvalidInput
from meshtui.core.mesh.service import answer_mission, land_mission
from tests.support.missions import APPROVE, MISSION, Bench, git, meshtui, node

CRITICAL = {
    "level": "critical",
    "reasons": ["secrets"],
    "requires_human_handoff": True,
    "requires_gpt_final": True,
}
JUDGED = {"level": "high", "reasons": ["auth"], "requires_gpt_final": True}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_critical_risk_waits_for_a_person(bench: Bench) -> None:
    bench.commands("echo x >> $MESHTUI_LOOP_ID.txt", arbiter=APPROVE)
    bench.configure()
    bench.plan(node("loop-a", "loop-a.txt", risk=CRITICAL), node("loop-b", "loop-b.txt"))
    assert bench.run().state == "handoff"
    assert bench.status("loop-a") == "handoff"
    assert bench.status("loop-b") == "completed"
    assert bench.status("loop-integration") == "queued"
    text = bench.paths.loop("loop-a").handoff.read_text()
    assert f"meshtui answer {MISSION}/loop-a --approve" in text
    assert "- loop-a.txt" in text
    # Resuming without an answer changes nothing.
    assert bench.run().state == "handoff"
    assert len(bench.calls("maker")) == 2

    said = meshtui(bench.run_dir.root, "answer", f"{MISSION}/loop-a", "--approve", "--reason", "looked at it")
    assert said["verdict"] == "approve"
    assert said["state"] is None
    assert bench.proof("loop-a")["human_verdict"]["by"] == "human"
    assert bench.status("loop-a") == "completed"
    assert bench.run().state == "done"
    assert bench.result("loop-a.txt") == "x"
    assert bench.mismatches() == []


def test_a_rejected_loop_blocks_and_its_makers_are_told(bench: Bench) -> None:
    bench.commands("echo x >> a/one.txt", arbiter=APPROVE)
    bench.configure()
    bench.plan(node("loop-a", "a/", risk=CRITICAL))
    assert bench.run().state == "handoff"
    said = meshtui(bench.run_dir.root, "answer", f"{MISSION}/loop-a", "--reject", "--reason", "never do that")
    assert said["state"] == "bad"
    assert bench.status("loop-a") == "blocked"
    assert bench.status("loop-integration") == "blocked"
    assert bench.proof()["blocked_loops"] == 2
    with pytest.raises(InvalidInput, match="nothing waits"):
        answer_mission(bench.run_dir, bench.paths, "loop-a", "approve", "no", by="me")
    assert bench.run().state == "handoff"
    assert "a person rejected it: never do that" in bench.prompts("maker")[1]


@pytest.mark.parametrize(
    ("arbiter", "state", "blockers"),
    [
        ('cat > /dev/null; echo \'{"verdict": "approve", "reasons": ["fine"]}\'', "done", []),
        (
            'cat > /dev/null; echo \'{"verdict": "reject", "reasons": ["bad idea"]}\'',
            "bad",
            ["arbiter: bad idea"],
        ),
        ("cat > /dev/null; echo ok", "done", []),
        ("cat > /dev/null; echo no; exit 1", "bad", ["arbiter: no"]),
        (
            "cat > /dev/null; echo x > left; echo ok",
            "bad",
            ["arbiter: ok", "arbiter: the arbiter changed left"],
        ),
    ],
)
def test_the_final_arbiter(bench: Bench, arbiter: str, state: str, blockers: list[str]) -> None:
    bench.commands("echo x >> a/one.txt", arbiter=arbiter)
    bench.plan(node("loop-a", "a/", risk=JUDGED))
    assert bench.run().state == state
    assert bench.state("loop-integration").blockers == blockers
    prompt = bench.prompts("arbiter")[0]
    assert "+x" in prompt
    assert '"owner_scope_violations": []' in prompt
    verdict = bench.proof()["gpt_final_arbiter"]
    assert verdict["by"] == "command"
    assert verdict["verdict"] == ("approve" if state == "done" else "reject")
    assert bench.mismatches() == []
    assert bench.untouched()


@pytest.mark.parametrize(("flag", "state"), [("--approve", "done"), ("--reject", "bad")])
def test_without_an_arbiter_a_person_decides(bench: Bench, flag: str, state: str) -> None:
    bench.commands("echo x >> a/one.txt")
    bench.configure()
    bench.plan(node("loop-a", "a/", risk=JUDGED))
    assert bench.run().state == "handoff"
    assert bench.proof()["ok"] is False
    assert bench.status("loop-integration") == "handoff"
    assert bench.paths.loop("loop-integration").handoff.exists()
    with pytest.raises(InvalidInput, match="not done"):
        land_mission(bench.paths)
    said = meshtui(bench.run_dir.root, "answer", MISSION, flag, "--reason", "I looked")
    assert said["state"] == state
    verdict = bench.proof()["gpt_final_arbiter"]
    assert verdict["by"] == "human"
    assert verdict["reasons"] == ["I looked"]
    assert bench.proof()["ok"] is (state == "done")
    assert len(bench.calls()) == 2
    assert bench.mismatches() == []
    if state == "done":
        land_mission(bench.paths)
        assert git(bench.repo, "show", "main:a/one.txt") == "one\nx"
    else:
        assert bench.state("loop-integration").blockers == ["arbiter: I looked"]


def test_answers_that_make_no_sense(bench: Bench) -> None:
    bench.commands("echo x >> a/one.txt")
    bench.configure()
    bench.plan(node("loop-a", "a/"))
    meshtui(bench.run_dir.root, "answer", MISSION, "--approve", "--reason", "x", code=2)
    meshtui(bench.run_dir.root, "answer", MISSION, "--approve", code=2)
    meshtui(bench.run_dir.root, "answer", MISSION, "--approve", "--reject", "--reason", "x", code=2)
    meshtui(bench.run_dir.root, "answer", "nobody", "--approve", "--reason", "x", code=3)
    meshtui(bench.run_dir.root, "answer", f"{MISSION}/nobody", "--approve", "--reason", "x", code=3)


def test_exit_codes_of_run(bench: Bench) -> None:
    bench.commands('[ "$MESHTUI_LOOP_ID" = loop-b ] || echo x >> $MESHTUI_LOOP_ID.txt', arbiter=APPROVE)
    bench.configure()
    bench.plan(node("loop-a", "loop-a.txt", risk=CRITICAL))
    meshtui(bench.run_dir.root, "run", MISSION, code=5)
    meshtui(bench.run_dir.root, "answer", f"{MISSION}/loop-a", "--approve", "--reason", "x")
    said = meshtui(bench.run_dir.root, "resume", MISSION)
    assert said["state"] == "done"
    assert meshtui(bench.run_dir.root, "land", MISSION)["target"] == "main"
    assert git(bench.repo, "show", "main:loop-a.txt") == "x"
    meshtui(bench.run_dir.root, "run", "word", code=3)
    meshtui(bench.run_dir.root, "resume", "word", code=3)


def test_a_mission_that_ends_badly_exits_1(bench: Bench) -> None:
    bench.commands("true")
    bench.configure()
    bench.plan(node("loop-a", "a/"))
    assert meshtui(bench.run_dir.root, "run", MISSION, code=1)["state"] == "bad"


def test_resume_takes_a_verdict_that_was_only_recorded(bench: Bench) -> None:
    bench.commands("echo x >> a/one.txt")
    bench.plan(node("loop-a", "a/", risk=JUDGED))
    assert bench.run().state == "handoff"
    answer_mission(bench.run_dir, bench.paths, None, "approve", "fine", by="ada")
    assert bench.run().state == "done"
    assert bench.proof()["gpt_final_arbiter"]["who"] == "ada"
    assert len(bench.calls()) == 2
