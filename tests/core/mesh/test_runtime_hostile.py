"""Workers, gates and repositories that do what they should not: the mission ends with a word, nobody else is harmed."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.missions import MISSION, Bench, git, node

COMMIT = "git -c user.name=w -c user.email=w@w commit -q"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


# -- makers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        f"echo x >> a/one.txt; git add -A; {COMMIT} -m mine",
        f"git checkout -q -b elsewhere; echo x >> a/one.txt; git add -A; {COMMIT} -m mine",
        f"git checkout -q --detach; echo x >> a/one.txt; git add -A; {COMMIT} -m mine",
        f"git checkout -q --orphan alone; echo x >> a/one.txt; git add -A; {COMMIT} -m mine",
        "echo x >> a/one.txt; git stash -q; git stash pop -q",
        "echo x >> a/one.txt; git update-index --assume-unchanged a/one.txt",
        "echo x >> a/one.txt; git add a/one.txt; git rebase --quiet HEAD || true",
        "echo x >> a/one.txt; rm -f $(git rev-parse --git-path index)",
        "echo x >> a/one.txt; touch $(git rev-parse --git-path index).lock",
    ],
)
def test_a_maker_that_uses_git_by_itself(bench: Bench, body: str) -> None:
    bench.commands(f'if [ "$MESHTUI_ITERATION" = 1 ]; then {body}; fi')
    bench.plan(node("loop-a", "a/"))
    assert bench.run().state == "done", bench.proof()["blockers"]
    assert bench.result("a/one.txt") == "one\nx"
    assert bench.proof("loop-a")["changed_files"] == ["a/one.txt"]
    assert bench.mismatches() == []
    branches = git(bench.repo, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()
    assert "main" in branches
    assert git(bench.repo, "rev-parse", "main") == bench.base
    # What a worker made for itself is its own; nothing of the user's was moved.
    for name in ("elsewhere", "alone"):
        if name in branches:
            git(bench.repo, "branch", "-D", name)
    assert bench.untouched()


@pytest.mark.parametrize(
    "body",
    [
        "git config core.hooksPath {tmp}/hooks",
        "git config core.fsmonitor {tmp}/hooks/pre-commit",
        "git config diff.external {tmp}/hooks/pre-commit",
        "git config core.pager {tmp}/hooks/pre-commit",
        "git config gpg.program {tmp}/hooks/pre-commit; git config commit.gpgsign true",
        "cp {tmp}/hooks/* $(git rev-parse --git-common-dir)/hooks/",
        "git config core.worktree {tmp}/other",
        "git config core.bare true",
        "git config extensions.worktreeConfig true; git config --worktree core.hooksPath {tmp}/hooks",
    ],
)
def test_a_maker_that_rewrites_the_configuration_or_hooks(bench: Bench, body: str) -> None:
    """What it put there is never run by meshtui, and the mission ends one way or the other, soon."""
    hooks = bench.tmp / "hooks"
    hooks.mkdir()
    for name in ("pre-commit", "post-checkout", "reference-transaction", "post-commit", "post-index-change"):
        (hooks / name).write_text(f"#!/bin/sh\necho {name} >> {bench.tmp}/owned\ncat\n")
        (hooks / name).chmod(0o755)
    (bench.tmp / "other").mkdir()
    bench.commands(
        f"echo x >> a/one.txt; {body.format(tmp=bench.tmp)} || true; git status > /dev/null || true; rm -f {bench.tmp}/owned"
    )
    bench.plan(node("loop-a", "a/", ".gitattributes"))
    outcome = bench.run()
    assert not (bench.tmp / "owned").exists(), (bench.tmp / "owned").read_text()
    assert outcome.state in ("done", "bad")
    if outcome.state == "done":
        assert bench.result("a/one.txt") == "one\nx"
        assert bench.mismatches() == []
    assert list((bench.tmp / "other").iterdir()) == []
    assert (bench.repo / "a" / "one.txt").read_text() == "one\n"


# -- gates ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        'rm -rf "$PWD"',
        "rm -rf .git",
        "echo broken > .git",
        "git checkout -q --detach HEAD~0; git clean -fdxq; rm -rf a",
        f"echo y >> a/one.txt; git add -A; {COMMIT} -m sneaky",
        'chmod 000 "$PWD/a"',
        'mv "$PWD" "$PWD.away"',
    ],
)
@pytest.mark.parametrize("code", [0, 1])
def test_a_gate_that_harms_its_working_copy(bench: Bench, body: str, code: int) -> None:
    bench.commands('echo "x $MESHTUI_ITERATION" >> a/one.txt')
    bench.gate("evil", f"{body}; exit {code}")
    bench.plan(node("loop-a", "a/", gates=["evil"], max_iterations=1))
    outcome = bench.run()
    assert outcome.state == ("bad" if code else "done"), bench.proof()["blockers"]
    if code:
        assert any("gate evil failed" in text for text in bench.state("loop-a").blockers)
    else:
        assert bench.result("a/one.txt") == "one\nx 1"
    assert git(bench.repo, "show", f"meshtui-loops/{MISSION}/loop-a:a/one.txt") == "one\nx 1"
    assert bench.mismatches() == []
    assert bench.untouched()


def test_a_damaged_working_copy_is_made_anew_and_set_up_for_the_next_gate(bench: Bench) -> None:
    bench.config["mesh"] = {
        "setup": "echo ready > ready.tmp; echo ready.tmp > $(git rev-parse --git-common-dir)/info/exclude"
    }
    bench.commands("echo x >> a/one.txt")
    bench.gate("evil", 'rm -rf "$PWD"')
    bench.gate("next", "test -e ready.tmp && grep -q x a/one.txt")
    bench.plan(node("loop-a", "a/", gates=["evil", "next"]))
    assert bench.run().state == "done", bench.proof()["blockers"]
    left = json.loads(bench.paths.loop("loop-a").gate("evil").read_text())["side_effects"]
    assert left[0] == "the working copy itself, made anew"
    assert bench.mismatches() == []


def test_a_maker_that_destroys_its_working_copy_is_named_and_the_loop_can_be_resumed(bench: Bench) -> None:
    bench.commands("echo precious > a/new.txt; [ -e $MESHTUI_RUN_DIR/ok ] || rm -rf .git")
    bench.plan(node("loop-a", "a/"))
    assert bench.run().state == "bad"
    (bench.run_dir.root / "ok").touch()
    assert bench.run().state == "bad"
    (blocker,) = bench.state("loop-a").blockers
    assert "move it away, then resume" in blocker
    place = bench.worktrees / MISSION / "loop-a"
    assert (place / "a" / "new.txt").read_text() == "precious\n"
    place.rename(bench.tmp / "away")
    assert bench.run().state == "done", bench.proof()["blockers"]
    assert bench.mismatches() == []


# -- repositories -----------------------------------------------------------------------------------


def test_a_dirty_base_stays_as_it_is(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    (bench.repo / "a" / "one.txt").write_text("edited\n")
    (bench.repo / "b" / "staged.txt").write_text("staged\n")
    git(bench.repo, "add", "b/staged.txt")
    (bench.repo / "untracked.txt").write_text("mine\n")
    (bench.repo / "b" / "two.txt").unlink()
    from tests.support.missions import fingerprint

    bench.before = fingerprint(bench.repo)
    bench.commands("echo x >> a/one.txt; test ! -e untracked.txt && test -e b/two.txt")
    bench.plan(node("loop-a", "a/"))
    assert bench.run().state == "done", bench.proof()["blockers"]
    assert bench.result("a/one.txt") == "one\nx"
    assert bench.untouched()


def test_a_detached_head(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    git(bench.repo, "checkout", "-q", "--detach")
    from tests.support.missions import fingerprint

    bench.before = fingerprint(bench.repo)
    bench.commands("echo x >> a/one.txt")
    bench.plan(node("loop-a", "a/"))
    assert bench.run().state == "done", bench.proof()["blockers"]
    assert bench.untouched()


def test_a_repository_with_submodules_filters_and_odd_attributes(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    subprocess.run(["git", "init", "-q", "-b", "main", str(inner)], check=True)
    (inner / "lib.txt").write_text("lib\n")
    git(inner, "add", "-A")
    git(inner, "commit", "-q", "-m", "lib")
    files = {
        "a/one.txt": "one\n",
        "a/big.bin": "POINTER real contents\n",
        "a/dos.txt": "one\r\ntwo\r\n",
        ".gitattributes": "*.bin filter=pointer -text\n*.txt text=auto\na/dos.txt eol=crlf\na/id.c ident\n*.x export-ignore merge=ours\n",
        "a/id.c": "/* $Id$ */\n",
        "a/k.x": "k\n",
    }
    bench = Bench(tmp_path / "bench", files=files)
    git(bench.repo, "config", "filter.pointer.clean", "sed s/real/POINTED/")
    git(bench.repo, "config", "filter.pointer.smudge", "sed s/POINTED/real/")
    git(bench.repo, "config", "filter.pointer.required", "true")
    git(
        bench.repo,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(inner),
        "vendor/inner",
    )
    git(bench.repo, "add", "--renormalize", ".")
    git(bench.repo, "commit", "-q", "-m", "odd")
    bench.base = git(bench.repo, "rev-parse", "HEAD")
    from tests.support.missions import fingerprint

    bench.before = fingerprint(bench.repo)
    bench.commands(
        "grep -q real a/big.bin && echo 'more real' >> a/big.bin; echo x >> a/one.txt; printf 'three\\r\\n' >> a/dos.txt; echo '/* more */' >> a/id.c; echo y >> a/k.x"
    )
    bench.gate("smudged", "grep -q 'more real' a/big.bin && grep -q three a/dos.txt")
    bench.plan(node("loop-a", "a/", gates=["smudged"]))
    assert bench.run().state == "done", bench.proof()["blockers"]
    assert set(bench.proof("loop-a")["changed_files"]) == {
        "a/big.bin",
        "a/one.txt",
        "a/dos.txt",
        "a/id.c",
        "a/k.x",
    }
    assert "more POINTED" in bench.result("a/big.bin")
    assert git(bench.repo, "ls-tree", f"meshtui/{MISSION}", "vendor/inner").startswith("160000")
    assert bench.mismatches() == []
    assert bench.untouched()


@pytest.mark.parametrize("named", ["../beside", ".inside/trees", "~/at home"])
def test_worktrees_are_named_from_the_repository_or_ones_home(
    tmp_path: Path, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    bench = Bench(tmp_path, config={"mesh": {"worktrees": named}})
    bench.commands("pwd > a/where; echo x >> a/one.txt")
    bench.plan(node("loop-a", "a/"))
    assert bench.run().state == "done", bench.proof()["blockers"]
    place = (tmp_path / "at home") if named.startswith("~") else Path(os.path.normpath(bench.repo / named))
    assert bench.result("a/where") == str(place / MISSION / "loop-a")
    assert bench.mismatches() == []


@pytest.mark.parametrize(
    "name", ["a b'c\"d", "-x", "$(touch owned)", "ünï—çødé", "new\nline", "{x}%s", ".hidden"]
)
def test_hostile_names_of_folders(tmp_path: Path, name: str) -> None:
    bench = Bench(tmp_path / name, files={f"{name}/f.txt": "one\n", "README.md": "hi\n"})
    bench.commands('for f in */f.txt .*/f.txt; do [ -e "./$f" ] && echo x >> "./$f"; done; true')
    bench.gate("there", "echo judged")
    bench.plan(node("loop-a", f"{name}/", gates=["there"]))
    assert bench.run().state == "done", bench.proof()["blockers"]
    assert bench.proof("loop-a")["changed_files"] == [f"{name}/f.txt"]
    assert bench.mismatches() == []
    assert bench.untouched()
    assert not list(tmp_path.rglob("owned"))
    assert json.loads(bench.paths.plan.read_text())["mission_id"] == MISSION
