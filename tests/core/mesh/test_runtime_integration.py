"""Merging loops, what blocks the merge, landing and discarding, and that nothing of the user's is touched."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from meshtui.core.errors import InvalidInput
from meshtui.core.mesh.service import discard_mission, land_mission, what_discard_loses
from tests.support.missions import INTEGRATION, MISSION, Bench, fingerprint, git, meshtui, node

LINES = "".join(f"line {number}\n" for number in range(40))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(
        tmp_path, files={"a/one.txt": "one\n", "b/two.txt": "two\n", "long.txt": LINES, "uv.lock": "x\n"}
    )


def edits(**by_loop: str) -> str:
    """A maker that does something else in each loop."""
    cases = " ".join(f"loop-{name}) {body};;" for name, body in by_loop.items())
    return f"case $MESHTUI_LOOP_ID in {cases} esac"


def merge(bench: Bench) -> dict[str, object]:
    value = json.loads(bench.paths.merge.read_text())
    assert isinstance(value, dict)
    return value


def test_attempts_are_recorded(bench: Bench) -> None:
    bench.commands(edits(a="echo x >> a/one.txt", b="echo x >> b/two.txt"))
    bench.plan(node("loop-a", "a/"), node("loop-b", "b/"))
    assert bench.run().state == "done"
    found = merge(bench)
    assert found["applied_loops"] == ["loop-a", "loop-b"]
    assert [item["strategy"] for item in found["merge_attempts"]["loop-a"]] == ["apply"]  # type: ignore[index]
    assert found["strategy_summary"]["apply_count"] == 2  # type: ignore[index]
    subjects = git(bench.repo, "log", "--format=%s", f"{bench.base}..meshtui/{MISSION}").splitlines()
    assert subjects == ["work on loop-b", "work on loop-a"]
    assert bench.untouched()


def test_the_same_file_merges_cleanly(bench: Bench) -> None:
    bench.commands(edits(a="sed -i '2s/.*/AAA/' long.txt", b="sed -i '35s/.*/BBB/' long.txt"))
    bench.gate("both", "grep -q AAA long.txt && grep -q BBB long.txt", stage="integration")
    bench.plan(node("loop-a", "long.txt"), node("loop-b", "long.txt", after=["loop-a"]), gates=["both"])
    assert bench.run().state == "done", bench.proof()
    assert merge(bench)["same_file_changes"] == {"long.txt": ["loop-a", "loop-b"]}
    assert "AAA" in bench.result("long.txt")
    assert "BBB" in bench.result("long.txt")
    assert [item["strategy"] for item in merge(bench)["merge_attempts"]["loop-b"]] == ["apply", "apply_3way"]  # type: ignore[index]
    assert bench.mismatches() == []


@pytest.mark.parametrize("gate", ["none", "skipped"])
def test_the_same_file_blocks_where_no_gate_judges_the_merge(gate: str, bench: Bench) -> None:
    bench.commands(edits(a="sed -i '2s/.*/AAA/' long.txt", b="sed -i '35s/.*/BBB/' long.txt"))
    loops = (node("loop-a", "long.txt"), node("loop-b", "long.txt", after=["loop-a"]))
    bench.gate("both", "grep -q AAA long.txt && grep -q BBB long.txt", stage="integration", when=["*.py"])
    bench.plan(*loops, gates=[] if gate == "none" else ["both"])
    assert bench.run().state == "bad"
    (blocker,) = bench.state(INTEGRATION).blockers
    assert blocker.startswith(
        "merge: long.txt was changed by loop-a and loop-b, and no gate checks the merged result; "
    )
    assert f"meshtui plan {MISSION} --edit" in blocker
    assert blocker.endswith(f"meshtui resume {MISSION}")
    assert git(bench.repo, "branch", "--list", f"meshtui/{MISSION}") == ""
    # The way out: the loops are kept, the gate is added, the rest goes on.
    bench.gate("both", "grep -q AAA long.txt && grep -q BBB long.txt", stage="integration")
    plan = json.loads(bench.paths.plan.read_text())
    plan["graph"]["nodes"][-1]["gates"]["integration"] = ["both"]
    bench.paths.plan.write_text(json.dumps(plan))
    assert bench.run().state == "done", bench.proof()
    assert len(bench.calls("maker")) == 2
    assert "BBB" in bench.result("long.txt")


def test_a_conflict_blocks_without_a_trace(bench: Bench) -> None:
    bench.commands(edits(a="echo A >> long.txt; echo x >> a/one.txt", b="echo B >> long.txt"))
    bench.plan(node("loop-a", "long.txt", "a/", makers=1), node("loop-b", "long.txt", after=["loop-a"]))
    assert bench.run().state == "bad"
    (blocker,) = bench.state(INTEGRATION).blockers
    told, _, way_out = blocker.partition("; ")
    assert told == "merge: loop-b conflicts in long.txt with loop-a"
    assert way_out == "merge their branches meshtui-loops/m1/… by hand, or plan again with one loop for both"
    found = merge(bench)
    assert found["conflict_loops"] == ["loop-b"]
    tried = found["merge_attempts"]["loop-b"]  # type: ignore[index]
    assert [item["strategy"] for item in tried] == ["apply", "apply_3way", "cherry_pick", "handoff"]
    assert all(item["output"] for item in tried)
    assert git(bench.repo, "branch", "--list", f"meshtui/{MISSION}") == ""
    assert git(bench.repo, "rev-parse", f"meshtui-loops/{MISSION}/{INTEGRATION}") == bench.base
    assert bench.status("loop-a") == "completed"
    assert bench.untouched()
    assert bench.mismatches() == []


def test_an_integration_gate_fails(bench: Bench) -> None:
    bench.commands(edits(a="echo x >> a/one.txt", b="echo x >> b/two.txt"))
    bench.gate(
        "both",
        "! (grep -q x a/one.txt && grep -q x b/two.txt) || { echo together; exit 1; }",
        stage="integration",
    )
    bench.plan(node("loop-a", "a/"), node("loop-b", "b/"), gates=["both"])
    assert bench.run().state == "bad"
    assert bench.state(INTEGRATION).blockers == ["gate both failed (exit 1; it passes on the base): together"]
    assert git(bench.repo, "branch", "--list", f"meshtui/{MISSION}") == ""
    # Loops are kept; with a gate that passes the rest goes on.
    bench.gate("both", "true", stage="integration")
    assert bench.run().state == "done"
    assert len(bench.calls("maker")) == 2


def test_lock_files_belong_to_the_integration(bench: Bench) -> None:
    bench.commands("echo y >> uv.lock; echo x >> a/one.txt")
    bench.plan(node("loop-a", "."))
    assert bench.run().state == "bad"
    assert bench.state(INTEGRATION).blockers == ["dependencies: uv.lock changed outside integration"]
    report = json.loads(bench.paths.side_effects.read_text())
    assert report["unexpected_package_changes"] == ["uv.lock"]
    assert not report["ok"]
    assert git(bench.repo, "branch", "--list", f"meshtui/{MISSION}") == ""


@pytest.mark.parametrize("stage", ["integration", "final"])
@pytest.mark.parametrize("gate", ["nobody:knows", "fails"])
def test_a_gate_that_a_loop_names_for_the_merged_result_is_run_there(
    bench: Bench, stage: str, gate: str
) -> None:
    bench.commands("echo x >> a/one.txt")
    bench.gate("fails", "exit 1", stage="integration")
    loop = node("loop-a", "a/")
    bench.plan(loop.model_copy(update={"gates": loop.gates.model_copy(update={stage: [gate]})}))
    assert bench.run().state == "bad"
    assert bench.status("loop-a") == "completed"
    assert bench.proof(INTEGRATION)["gate_result"]["failed_gates"] == [gate]
    assert git(bench.repo, "branch", "--list", f"meshtui/{MISSION}") == ""


def test_a_plan_that_names_the_final_arbiter_has_one(bench: Bench) -> None:
    bench.commands("echo x >> a/one.txt")
    loop = node("loop-a", "a/")
    bench.plan(
        loop.model_copy(update={"gates": loop.gates.model_copy(update={"final": ["gpt:final-arbiter"]})})
    )
    assert bench.run().state == "handoff", bench.proof()["blockers"]
    assert bench.state(INTEGRATION).handoff.required
    assert len(bench.calls("arbiter")) == 0


@pytest.mark.parametrize(
    "path", ["bun.lock", "mix.lock", "web/deno.json", "requirements-dev.txt", "Pipfile", "sub/Cargo.toml"]
)
def test_dependency_files_of_every_kind_are_known(bench: Bench, path: str) -> None:
    bench.commands(f"mkdir -p web sub; echo y > {path}; echo x > Makefile")
    bench.plan(node("loop-a", "."))
    assert bench.run().state == "bad"
    assert bench.state(INTEGRATION).blockers == [f"dependencies: {path} changed outside integration"]


def test_a_loop_that_owns_just_the_lock_file_may(bench: Bench) -> None:
    bench.commands("echo y >> uv.lock")
    bench.plan(node("loop-a", "uv.lock"))
    assert bench.run().state == "done"


def test_agent_and_ci_files_are_reported(bench: Bench) -> None:
    agents = [".aider.conf.yml", ".grok/config.toml", ".windsurfrules", "CLAUDE.md", "sub/agents.md"]
    pipelines = [".cirrus.yml", ".github/dependabot.yml", ".github/workflows/ci.yml", "Jenkinsfile"]
    made = " ".join([*agents, *pipelines])
    bench.commands(f'for f in {made}; do mkdir -p "$(dirname $f)"; echo x > $f; done')
    bench.plan(node("loop-a", "."))
    bench.run()
    report = json.loads(bench.paths.side_effects.read_text())
    assert report["agent_configuration_changes"] == agents
    assert report["ci_configuration_changes"] == pipelines


def test_a_result_branch_of_somebody_else_is_not_moved(bench: Bench) -> None:
    git(bench.repo, "branch", f"meshtui/{MISSION}", bench.base)
    git(
        bench.repo,
        "branch",
        f"meshtui-loops/{MISSION}/loop-a",
        git(bench.repo, "commit-tree", "-m", "mine", "HEAD^{tree}"),
    )
    bench.commands("echo x >> a/one.txt")
    bench.plan(node("loop-a", "a/"))
    assert bench.run().state == "bad"
    assert "exists already" in bench.state("loop-a").blockers[0]
    git(bench.repo, "branch", "-m", f"meshtui-loops/{MISSION}/loop-a", "mine")
    assert bench.run().state == "bad"
    assert "is not this mission's result" in bench.state(INTEGRATION).blockers[0]
    git(bench.repo, "branch", "-m", f"meshtui/{MISSION}", "theirs")
    assert bench.run().state == "done"
    assert git(bench.repo, "log", "-1", "--format=%s", "mine") == "mine"


# -- landing ----------------------------------------------------------------------------------------


@pytest.fixture
def done(bench: Bench) -> Bench:
    """A mission that is done and not landed."""
    bench.commands("echo x >> a/one.txt")
    bench.plan(node("loop-a", "a/"))
    assert bench.run().state == "done"
    return bench


def test_land_on_a_clean_target(done: Bench) -> None:
    result = land_mission(done.paths)
    assert result.target == "main"
    assert git(done.repo, "rev-parse", "main") == git(done.repo, "rev-parse", f"meshtui/{MISSION}")
    assert (done.repo / "a" / "one.txt").read_text() == "one\nx\n"
    assert git(done.repo, "status", "--porcelain") == ""
    assert done.mismatches() == []


def test_land_refuses_a_dirty_target(done: Bench) -> None:
    (done.repo / "a" / "one.txt").write_text("mine\n")
    before = fingerprint(done.repo)
    with pytest.raises(InvalidInput, match="not clean"):
        land_mission(done.paths)
    assert fingerprint(done.repo) == before


def test_land_refuses_a_moved_target(done: Bench) -> None:
    (done.repo / "new").write_text("x")
    git(done.repo, "add", "new")
    git(done.repo, "commit", "-q", "-m", "moved")
    with pytest.raises(InvalidInput, match="has moved"):
        land_mission(done.paths)


def test_land_refuses_a_target_checked_out_elsewhere(done: Bench, tmp_path: Path) -> None:
    git(done.repo, "switch", "-q", "--detach")
    git(done.repo, "worktree", "add", "-q", str(tmp_path / "other"), "main")
    with pytest.raises(InvalidInput, match="checked out at"):
        land_mission(done.paths)


def test_land_refuses_a_result_that_was_moved(done: Bench) -> None:
    moved = git(
        done.repo,
        "commit-tree",
        "-p",
        f"meshtui/{MISSION}",
        "-m",
        "sneaked in",
        f"meshtui/{MISSION}^{{tree}}",
    )
    git(done.repo, "branch", "-f", f"meshtui/{MISSION}", moved)
    with pytest.raises(InvalidInput, match="somebody moved it"):
        land_mission(done.paths)


def test_run_with_land(bench: Bench) -> None:
    bench.commands("echo x >> a/one.txt")
    bench.configure()
    bench.plan(node("loop-a", "a/"))
    said = meshtui(bench.run_dir.root, "run", MISSION, "--land")
    assert said["landed"] == "main"
    assert git(bench.repo, "show", "main:a/one.txt") == "one\nx"


def test_discard_names_what_is_lost(done: Bench) -> None:
    done.configure()
    found = what_discard_loses(done.run_dir, done.paths)
    assert set(found.branches) == {
        f"meshtui/{MISSION}", f"meshtui-loops/{MISSION}/loop-a", f"meshtui-loops/{MISSION}/{INTEGRATION}",
    }  # fmt: skip
    assert any("work on loop-a" in line for line in found.lost)
    discard_mission(done.run_dir, done.paths, found)
    assert git(done.repo, "branch", "--list", "meshtui*") == ""
    assert done.untouched()


def test_discard_after_landing_loses_nothing_of_the_result(done: Bench) -> None:
    done.configure()
    land_mission(done.paths)
    said = meshtui(done.run_dir.root, "discard", MISSION, "--yes")
    assert git(done.repo, "show", "main:a/one.txt") == "one\nx"
    assert said is not None
    meshtui(done.run_dir.root, "discard", "nobody", "--yes", code=3)


# -- the user's git ---------------------------------------------------------------------------------


def test_identity_signing_and_hooks(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    home = bench.tmp / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = /bin/false\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    hooks = bench.repo / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("pre-commit", "commit-msg", "post-checkout", "reference-transaction", "post-merge"):
        (hooks / name).write_text("#!/bin/sh\nsleep 30\nexit 1\n")
        (hooks / name).chmod(stat.S_IRWXU)
    bench.commands("echo x >> a/one.txt")
    bench.plan(node("loop-a", "a/"))
    assert bench.run().state == "done"
    for name in ("GIT_DIR", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name)
    for name in os.listdir(hooks):
        (hooks / name).unlink()
    who = git(bench.repo, "log", "-1", "--format=%an <%ae>", f"meshtui/{MISSION}")
    assert who == "meshtui <meshtui@localhost>"


def test_the_users_identity_is_used(bench: Bench) -> None:
    git(bench.repo, "config", "user.name", "Ada")
    git(bench.repo, "config", "user.email", "ada@example.org")
    bench.commands("echo x >> a/one.txt")
    bench.plan(node("loop-a", "a/"))
    assert bench.run().state == "done"
    assert git(bench.repo, "log", "-1", "--format=%an <%ae>", f"meshtui/{MISSION}") == "Ada <ada@example.org>"


def test_a_dirty_checkout_stays_as_it_is(bench: Bench) -> None:
    (bench.repo / "a" / "one.txt").write_text("edited\n")
    (bench.repo / "untracked").write_text("x")
    (bench.repo / "staged").write_text("x")
    git(bench.repo, "add", "staged")
    before = fingerprint(bench.repo)
    bench.commands("echo x >> a/one.txt")
    bench.plan(node("loop-a", "a/"))
    assert bench.run().state == "done"
    assert fingerprint(bench.repo) == before
    assert bench.result("a/one.txt") == "one\nx"
