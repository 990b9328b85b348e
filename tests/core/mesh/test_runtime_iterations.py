"""A loop goes round until it passes or a budget ends, and nothing passes that should not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meshtui.core.engines.base import Outcome, Usage
from meshtui.core.engines.registry import engine_for
from meshtui.core.mesh.files import write_json
from tests.support.missions import MISSION, Bench, git, node, until


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_mission_runs_and_its_proof_holds(bench: Bench) -> None:
    bench.commands("echo changed >> a/one.txt")
    bench.plan(node("loop-a", "a/"))
    outcome = bench.run()
    assert outcome.state == "done", bench.proof()["blockers"]
    assert bench.result("a/one.txt") == "one\nchanged"
    assert bench.mismatches() == []
    assert bench.untouched()
    assert not bench.worktrees.exists() or not list(bench.worktrees.rglob("*"))


def test_a_failed_gate_returns_to_the_maker_with_its_words(bench: Bench) -> None:
    bench.commands('echo "$MESHTUI_ITERATION" > a/one.txt')
    bench.gate("two", 'grep -q 2 a/one.txt || { echo "want a two"; exit 4; }')
    bench.plan(node("loop-a", "a/", gates=["two"]))
    assert bench.run().state == "done", bench.proof()["blockers"]
    first, second = bench.prompts("maker")
    assert "want a two" not in first
    assert "gate two failed (exit 4; on the base too, exit 4): want a two" in second
    assert "want a two" in second
    proof = bench.proof("loop-a")
    assert proof["iterations"] == 2
    assert proof["gate_result"]["passed_gates"].count("two") == 1
    assert bench.mismatches() == []


def test_a_checker_that_rejects_once(bench: Bench) -> None:
    reject = json.dumps({"approved": False, "findings": ["say it twice"]})
    approve = json.dumps({"approved": True, "findings": []})
    bench.commands(
        'echo "more $MESHTUI_ITERATION" >> a/one.txt',
        f"cat > /dev/null; if [ $MESHTUI_ITERATION = 1 ]; then echo '{reject}'; else echo '{approve}'; fi",
    )
    bench.plan(node("loop-a", "a/", checkers=2))
    assert bench.run().state == "done", bench.proof()["blockers"]
    first, second = bench.prompts("maker")
    assert "checker-1: say it twice" in second
    assert "say it twice" not in first
    assert bench.result("a/one.txt") == "one\nmore 1\nmore 2"
    prompts = bench.prompts("checker")
    assert len(prompts) == 4
    assert "+more 1" in prompts[0]
    findings = json.loads((bench.paths.loop("loop-a").checker / "0002-checker-2.json").read_text())
    assert findings["approved"]
    assert findings["fresh_session"]
    assert findings["side_effects_detected"] == []
    assert findings["reviewed_maker_artifacts"] == bench.proof("loop-a")["maker_result"]["artifacts"]


def test_all_checkers_must_approve(bench: Bench) -> None:
    bench.commands(
        'echo "$MESHTUI_ITERATION" >> a/one.txt',
        'cat > /dev/null; case "$PWD" in *checker-2) echo no; exit 1;; esac',
    )
    bench.plan(node("loop-a", "a/", checkers=2, max_iterations=1))
    assert bench.run().state == "bad", bench.proof()
    assert "checker-2: no" in bench.state("loop-a").blockers
    assert bench.proof("loop-a")["checker_result"]["ok"] is False


def test_a_checker_that_changes_its_worktree_has_failed(bench: Bench) -> None:
    bench.commands(
        'echo "$MESHTUI_ITERATION" >> a/one.txt', "cat > /dev/null; echo x >> a/one.txt; touch new"
    )
    bench.plan(node("loop-a", "a/", max_iterations=1))
    assert bench.run().state == "bad", bench.proof()
    findings = json.loads((bench.paths.loop("loop-a").checker / "0001-checker-1.json").read_text())
    assert findings["side_effects_detected"] == ["a/one.txt", "new"]
    assert not findings["approved"]
    assert not list(bench.worktrees.glob("**/loop-a.checker-*"))
    assert "new" not in git(bench.repo, "ls-tree", "-r", "--name-only", f"meshtui-loops/{MISSION}/loop-a")


def test_a_checker_in_a_makers_session_does_not_count(bench: Bench) -> None:
    bench.commands(
        'echo MESHTUI_SESSION=same; echo "$MESHTUI_ITERATION" >> a/one.txt',
        "cat > /dev/null; echo MESHTUI_SESSION=same",
    )
    plan = node("loop-a", "a/", max_iterations=1)
    plan = plan.model_copy(update={"gates": plan.gates.model_copy(update={"checker": []})})
    bench.plan(plan)
    assert bench.run().state == "bad", bench.proof()
    assert any("session same" in text for text in bench.state("loop-a").blockers)
    assert bench.proof("loop-a")["checker_result"]["fresh_session"] is False
    assert all("MESHTUI_SESSION_ID" not in text for text in bench.prompts("checker"))


def test_an_unknown_gate_fails(bench: Bench) -> None:
    bench.commands("echo x >> a/one.txt")
    bench.plan(node("loop-a", "a/", gates=["nobody:knows"], max_iterations=1))
    assert bench.run().state == "bad", bench.proof()
    assert bench.proof("loop-a")["gate_result"]["blockers"] == ["unknown_loop_gate:nobody:knows"]
    assert bench.status("loop-integration") == "blocked"
    assert bench.state("loop-integration").blockers == ["dependency loop-a: blocked"]


@pytest.mark.parametrize(
    ("carried", "why"),
    [
        ({"iteration": -1}, "the loop's state is not valid"),
        ({"used": {"model_calls": 40}}, "budget: nothing is left (0 ms, 40 model calls used)"),
        ({"used": {"wall_ms": 60_000}}, "budget: nothing is left (60000 ms, 0 model calls used)"),
    ],
)
def test_triage_gates_check_state_and_budget(bench: Bench, carried: dict[str, object], why: str) -> None:
    bench.commands("echo x >> a/one.txt")
    loop = node("loop-a", "a/")
    triage = ["loop:state-valid", "loop:budget-valid"]
    bench.plan(loop.model_copy(update={"gates": loop.gates.model_copy(update={"triage": triage})}))
    write_json(bench.paths.loop("loop-a").checkpoint, {"meshtui": {"phase": "triage", **carried}})
    assert bench.run().state == "bad"
    assert bench.state("loop-a").blockers == [why]
    assert len(bench.proof("loop-a")["gate_result"]["failed_gates"]) == 1
    assert bench.calls() == []


def test_an_unknown_triage_gate_fails(bench: Bench) -> None:
    bench.commands("echo x >> a/one.txt")
    loop = node("loop-a", "a/")
    bench.plan(loop.model_copy(update={"gates": loop.gates.model_copy(update={"triage": ["who:knows"]})}))
    assert bench.run().state == "bad"
    assert bench.state("loop-a").blockers == ["unknown_loop_gate:who:knows"]
    assert bench.calls() == []


def test_a_gate_times_out(bench: Bench) -> None:
    bench.commands("echo x >> a/one.txt")
    bench.gate("slow", "sleep 600", timeout_seconds=0.3)
    bench.plan(node("loop-a", "a/", gates=["slow"], max_iterations=1))
    assert bench.run().state == "bad", bench.proof()
    result = json.loads(bench.paths.loop("loop-a").gate("slow").read_text())
    assert result["timed_out"]
    assert not result["ok"]
    assert any("gate slow failed (timed out)" in text for text in bench.state("loop-a").blockers)


def test_what_a_gate_leaves_is_recorded_and_removed(bench: Bench) -> None:
    bench.commands("echo x >> a/one.txt")
    bench.gate("messy", "echo junk > a/junk.txt; echo more >> a/one.txt")
    bench.gate("clean", "test ! -e a/junk.txt && test $(wc -l < a/one.txt) = 2")
    bench.plan(node("loop-a", "a/", gates=["messy", "clean"]))
    assert bench.run().state == "done", bench.proof()["blockers"]
    result = json.loads(bench.paths.loop("loop-a").gate("messy").read_text())
    assert result["side_effects"] == ["a/junk.txt", "a/one.txt"]
    assert bench.proof("loop-a")["changed_files"] == ["a/one.txt"]
    report = json.loads(bench.paths.side_effects.read_text())
    assert report["gate_side_effects"] == ["loop-a/messy: a/junk.txt", "loop-a/messy: a/one.txt"]


def test_a_gate_whose_files_did_not_change_is_skipped(bench: Bench) -> None:
    bench.commands("echo x >> a/one.txt")
    bench.gate("docs", "exit 1", when=["*.md"])
    bench.gate("texts", "true", when=["*.txt"])
    bench.plan(node("loop-a", "a/", gates=["docs", "texts"]))
    assert bench.run().state == "done", bench.proof()["blockers"]
    gates = bench.proof("loop-a")["gate_result"]
    assert "docs" in gates["skipped_gates"]
    assert "texts" in gates["passed_gates"]
    assert json.loads(bench.paths.loop("loop-a").gate("docs").read_text())["skipped"]


def test_no_change_does_not_complete(bench: Bench) -> None:
    bench.commands("true")
    bench.plan(node("loop-a", "a/"))
    assert bench.run().state == "bad", bench.proof()
    assert bench.status("loop-a") == "blocked"
    assert any(text.startswith("no change") for text in bench.state("loop-a").blockers)
    assert len(bench.calls("maker")) == 2


def test_a_report_completes_without_a_change(bench: Bench) -> None:
    bench.commands('if [ "$MESHTUI_LOOP_ID" = loop-b ]; then echo x >> b/two.txt; fi')
    bench.plan(node("loop-a", "a/", level="L0-report"), node("loop-b", "b/"))
    assert bench.run().state == "done", bench.proof()["blockers"]
    assert bench.proof("loop-a")["changed_files"] == []
    assert bench.mismatches() == []


def test_a_failed_maker_is_told_so(bench: Bench) -> None:
    bench.commands('echo x >> a/one.txt; if [ "$MESHTUI_ITERATION" = 1 ]; then echo broken >&2; exit 3; fi')
    bench.plan(node("loop-a", "a/"))
    assert bench.run().state == "done", bench.proof()["blockers"]
    assert "maker-1 failed" in bench.prompts("maker")[1]
    assert "broken" in bench.prompts("maker")[1]


# -- scope ------------------------------------------------------------------------------------------


def test_a_violation_is_never_approved(bench: Bench) -> None:
    bench.commands("echo x >> a/one.txt; echo x >> b/two.txt")
    bench.plan(node("loop-a", "a/"))
    assert bench.run().state == "bad", bench.proof()
    assert bench.status("loop-a") == "blocked"
    assert "violation: b/two.txt" in bench.state("loop-a").blockers
    assert bench.calls("checker") == []
    assert bench.proof("loop-a")["scope_violations"] == ["b/two.txt"]
    assert "b/two.txt" not in str(bench.proof().get("integration_merge"))


def test_a_violation_that_is_undone_passes(bench: Bench) -> None:
    bench.commands(
        'echo x >> a/one.txt; if [ "$MESHTUI_ITERATION" = 1 ]; then mv b/two.txt a/two.txt; else mkdir b; mv a/two.txt b/two.txt; fi'
    )
    bench.plan(node("loop-a", "a/"))
    assert bench.run().state == "done", bench.proof()["blockers"]
    assert "violation: b/two.txt is outside the loop's scope" in bench.prompts("maker")[1]
    assert bench.proof("loop-a")["changed_files"] == ["a/one.txt"]


def test_a_siblings_part_is_a_violation(bench: Bench) -> None:
    bench.commands(
        'case "$PWD" in *maker-1) echo x >> a/one.txt; echo x >> b/three.txt;; *) echo x >> b/two.txt;; esac'
    )
    bench.plan(node("loop-a", "a/", "b/", makers=2, max_iterations=1))
    assert bench.run().state == "bad", bench.proof()
    assert bench.proof("loop-a")["scope_violations"] == ["b/three.txt"]
    assert "violation: b/three.txt" in bench.state("loop-a").blockers


@pytest.mark.parametrize("beyond", ["b/three.txt", "b/two.txt", "elsewhere.txt"])
def test_what_a_maker_wrote_elsewhere_stays_out_and_need_not_be_undone(bench: Bench, beyond: str) -> None:
    """Neither does the write get in because nobody makes it a second time, nor is its undoing a new one."""
    bench.commands(
        f'case "$PWD" in *maker-1) echo x >> a/one.txt; [ "$MESHTUI_ITERATION" = 2 ] || echo stray >> {beyond};; '
        "*) echo mine > b/four.txt;; esac"
    )
    bench.plan(node("loop-a", "a/", "b/", makers=2))
    assert bench.run().state == "done", bench.proof()["blockers"]
    assert f"violation: maker-1 wrote {beyond}" in bench.prompts("maker")[2]
    assert bench.proof("loop-a")["iterations"] == 2
    assert bench.proof("loop-a")["changed_files"] == ["a/one.txt", "b/four.txt"]
    kept = next(bench.paths.loop("loop-a").patches.glob("0001-maker-1.patch"))
    assert b"+stray" in kept.read_bytes()
    assert bench.mismatches() == []


def test_makers_share_a_scope(bench: Bench) -> None:
    bench.commands(
        'for f in a/one.txt b/two.txt; do case "$MESHTUI_SCOPE" in *\\"$f\\"*) echo "by $PWD" >> $f;; esac; done'
    )
    bench.plan(node("loop-a", "a/one.txt", "b/two.txt", makers=4))
    assert bench.run().state == "done", bench.proof()["blockers"]
    assert len(bench.calls("maker")) == 2
    assert bench.result("a/one.txt").endswith("maker-1")
    assert bench.result("b/two.txt").endswith("maker-2")
    assert (
        "leave them alone:\n- b/two.txt" in bench.prompts("maker")[0]
        or "leave them alone:\n- b/two.txt" in bench.prompts("maker")[1]
    )


def test_patches_that_conflict_come_back_as_a_finding(bench: Bench) -> None:
    bench.commands(
        'if [ "$MESHTUI_ITERATION" = 1 ]; then echo "$PWD" > a/one.txt; fi\n'
        'case "$PWD" in *maker-1) date +%N >> a/one.txt;; *) echo x >> b/two.txt;; esac'
    )
    bench.plan(node("loop-a", "a/", "b/", makers=2))
    bench.run()
    second = bench.prompts("maker")[2]
    assert "the patch of maker-2 conflicts in a/one.txt" in second


def test_competing_makers_the_best_wins(bench: Bench) -> None:
    bench.config["mesh"] = {"strategy": "compete"}
    bench.commands('n=${PWD##*-}; echo "by $n" >> a/one.txt')
    bench.gate("not-one", "! grep -q 'by 1' a/one.txt")
    bench.plan(node("loop-a", "a/", makers=3, gates=["not-one"]), strategy="compete")
    assert bench.run().state == "done", bench.proof()["blockers"]
    assert bench.result("a/one.txt") == "one\nby 2"
    assert bench.proof("loop-a")["iterations"] == 1
    assert bench.mismatches() == []


def test_competing_makers_checkers_decide_among_equals(bench: Bench) -> None:
    bench.commands(
        'n=${PWD##*-}; echo "by $n" >> a/one.txt',
        "cat > /dev/null; grep -q 'by 3' a/one.txt || { echo not this; exit 1; }",
    )
    bench.gate("fine", "true")
    bench.plan(node("loop-a", "a/", makers=3, gates=["fine"], max_iterations=1), strategy="compete")
    assert bench.run().state == "done", bench.proof()["blockers"]
    assert bench.result("a/one.txt") == "one\nby 3"
    assert bench.proof("loop-a")["checker_result"]["ok"]
    assert bench.mismatches() == []


# -- budgets ----------------------------------------------------------------------------------------


def test_iterations_end(bench: Bench) -> None:
    bench.commands('echo "$MESHTUI_ITERATION" >> a/one.txt')
    bench.gate("never", "false")
    bench.plan(node("loop-a", "a/", gates=["never"], max_iterations=3))
    assert bench.run().state == "bad", bench.proof()
    assert len(bench.calls("maker")) == 3
    assert "budget: 3 of 3 iterations are used" in bench.state("loop-a").blockers


def test_wall_time_ends_a_maker(bench: Bench) -> None:
    bench.commands("sleep 600")
    bench.plan(node("loop-a", "a/", max_wall_ms=400))
    assert bench.run().state == "bad", bench.proof()
    assert bench.state("loop-a").blockers == ["budget: wall time of 0.4 s is used up"]
    ending = json.loads((bench.calls("maker")[0] / "ending.json").read_text())
    assert ending["reason"] in ("budget", "deadline")
    assert bench.proof("loop-a")["budget"]["used"]["wall_ms"] >= 400


def test_model_calls_end(bench: Bench) -> None:
    bench.commands('echo "$MESHTUI_ITERATION" >> a/one.txt', "exit 1")
    bench.plan(node("loop-a", "a/", max_model_calls=3, max_iterations=5))
    assert bench.run().state == "bad", bench.proof()
    assert "budget: 3 of 3 model calls are used" in bench.state("loop-a").blockers
    assert len(bench.calls("maker")) + len(bench.calls("checker")) == 3


def test_workers_have_a_cap_over_all_loops(bench: Bench) -> None:
    log = bench.tmp / "log"
    bench.config["mesh"] = {"max_active_workers": 2}
    bench.commands(f'echo + >> {log}; sleep 0.1; echo - >> {log}; echo x > "$MESHTUI_LOOP_ID.txt"')
    bench.max_active = 6
    bench.plan(*[node(f"loop-{n}", f"loop-{n}.txt") for n in range(6)])
    bench.run()
    depth = most = 0
    for sign in log.read_text().split():
        depth += 1 if sign == "+" else -1
        most = max(most, depth)
    assert most == 2


def test_changed_files_and_patch_bytes_have_limits(bench: Bench) -> None:
    bench.commands(
        'if [ "$MESHTUI_LOOP_ID" = loop-a ]; then touch a/1 a/2 a/3; else head -c 4000 /dev/zero | tr "\\0" x > b/two.txt; fi'
    )
    bench.plan(node("loop-a", "a/", max_changed_files=2), node("loop-b", "b/", max_patch_bytes=1000))
    assert bench.run().state == "bad", bench.proof()
    assert bench.state("loop-a").blockers == ["budget: 3 files changed, 2 allowed"]
    assert bench.state("loop-b").blockers[0].startswith("budget: a patch of ")


class _Counting:
    """An engine that reports tokens and cost for what it runs."""

    def __init__(self, inner: Any, tokens: int, cost: float) -> None:
        self.name = inner.name
        self._inner = inner
        self._usage = Usage(input_tokens=tokens, output_tokens=0, cost_usd=cost)

    def launch(self, request: Any) -> Any:
        return self._inner.launch(request)

    def reader(self, request: Any) -> Any:
        reader, usage = self._inner.reader(request), self._usage

        class Reader:
            def feed(self, chunk: bytes) -> Any:
                return reader.feed(chunk)

            def outcome(self, code: int, tail: bytes) -> Outcome:
                found: Outcome = reader.outcome(code, tail)
                return replace(found, usage=usage)

        return Reader()


@pytest.mark.parametrize(
    ("budget", "blocker"),
    [
        ({"max_tokens_estimate": 1500}, "budget: 2000 of 1500 tokens are used (max_tokens_estimate)"),
        ({"max_cost_usd": 0.15}, "budget: $0.20 of $0.15 are used (max_cost_usd)"),
    ],
)
def test_tokens_and_cost_are_enforced_where_reported(
    bench: Bench, budget: dict[str, Any], blocker: str
) -> None:
    bench.commands("echo x >> a/one.txt")
    bench.engines = lambda name: _Counting(engine_for(name, bench.settings().engines.get(name)), 1000, 0.1)
    bench.plan(node("loop-a", "a/", **budget))
    assert bench.run().state == "bad", bench.proof()
    assert bench.state("loop-a").blockers == [blocker]


# -- what is a change -------------------------------------------------------------------------------


def test_everything_that_differs_is_the_change(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path,
        files={
            "a/old.txt": "moved\n" * 9,
            "a/gone.txt": "x",
            "a/edit.txt": "x",
            "a/run": "#!/bin/sh\n",
            ".gitignore": "*.log\n",
        },
    )
    bench.commands(
        "cd a; git -c user.name=w -c user.email=w@w commit -q --allow-empty -m mine; echo y >> edit.txt; "
        "git add edit.txt; git -c user.name=w -c user.email=w@w commit -q -m worked; "
        "git mv old.txt new.txt; rm gone.txt; chmod +x run; ln -s edit.txt link; : > empty; "
        "printf '\\000\\377' > binary; echo z > 'é.txt'; echo z > 'a -> b'; echo z > ./-x; echo z > build.log"
    )
    bench.plan(node("loop-a", "a/", max_changed_files=20))
    assert bench.run().state == "done", bench.proof()["blockers"]
    changed = set(bench.proof("loop-a")["changed_files"])
    assert changed == {
        "a/edit.txt", "a/new.txt", "a/gone.txt", "a/run", "a/link", "a/empty", "a/binary", "a/é.txt", "a/a -> b", "a/-x",
    }  # fmt: skip
    tree = git(bench.repo, "ls-tree", "-r", f"meshtui/{MISSION}", "a/").splitlines()
    modes = {line.partition("\t")[2]: line.split()[0] for line in tree}
    assert modes["a/run"] == "100755"
    assert modes["a/link"] == "120000"
    assert "a/gone.txt" not in modes
    assert bench.mismatches() == []
    assert bench.untouched()


def test_a_repository_inside_is_named_not_lost(bench: Bench) -> None:
    bench.commands("echo x >> a/one.txt; git init -q a/inner; echo y > a/inner/f")
    bench.plan(node("loop-a", "a/", max_iterations=1))
    assert bench.run().state == "bad", bench.proof()
    assert any("a/inner" in text for text in bench.state("loop-a").blockers)
    kept = bench.proof("loop-a")["worktree"]["kept"]
    assert kept
    assert (bench.worktrees / MISSION / "loop-a" / "a" / "inner" / "f").exists()


def test_setup_runs_in_each_new_worktree_and_is_nobodys_change(bench: Bench) -> None:
    log = bench.tmp / "log"
    bench.config["mesh"] = {"setup": f'echo "${{PWD##*/}}" >> {log}; echo s > setup.txt'}
    bench.commands("echo x >> a/one.txt")
    bench.plan(node("loop-a", "a/"))
    assert bench.run().state == "done", bench.proof()["blockers"]
    assert sorted(log.read_text().split()) == ["loop-a", "loop-a.checker-1", "loop-integration"]
    assert bench.proof("loop-a")["changed_files"] == ["a/one.txt"]


def test_a_failed_setup_blocks(bench: Bench) -> None:
    bench.config["mesh"] = {"setup": "exit 7"}
    bench.commands("true")
    bench.plan(node("loop-a", "a/"))
    assert bench.run().state == "bad", bench.proof()
    assert "[mesh] setup failed" in bench.state("loop-a").blockers[0]


def test_what_a_worker_leaves_running_is_ended(bench: Bench) -> None:
    # Until it is a sleep it is a copy of the shell, and named so.
    bench.commands("sleep 611 & until ps -o comm= -p $! | grep -q sleep; do :; done; echo x >> a/one.txt")
    bench.plan(node("loop-a", "a/"))
    assert bench.run().state == "done", bench.proof()["blockers"]
    from tests.support.missions import alive

    until(lambda: not alive("sleep 611"), 5)
    artifact = json.loads(
        (bench.run_dir.root / bench.proof("loop-a")["maker_result"]["artifacts"][0]).read_text()
    )
    assert any("sleep" in name for name in artifact["left_running"])
