"""Faults that programs of this kind are known for, each with what has to happen instead."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from meshtui.core.errors import InvalidInput, WorkFailed
from meshtui.core.vcs.change import diff, reset_to, snapshot
from meshtui.core.vcs.git import Git, GitError, top_of
from meshtui.core.vcs.merge import discard, discardable, integrate, land, loop_branch, result_branch
from meshtui.core.vcs.patching import apply_change
from meshtui.core.vcs.worktree import add, list_worktrees, remove, unsaved
from tests.core.vcs.support import (
    LINES,
    Repo,
    commit_all,
    contents,
    fingerprint,
    index_state,
    leftovers,
    sh,
    write,
)

# 1: a clean status hides commits; a writer goes on during cleanup


def test_a_clean_status_is_not_taken_for_saved(repo: Repo) -> None:
    path = repo.worktree()
    write(path, "one.txt", "work")
    commit_all(path, "unmerged")
    assert Git(path).is_clean()
    with pytest.raises(InvalidInput, match=r"holds work that is saved nowhere else: .*unmerged"):
        remove(repo.git, path)
    assert (path / "one.txt").read_text() == "work"


def test_a_writer_that_goes_on_during_cleanup_loses_nothing(repo: Repo) -> None:
    path = repo.worktree()
    for number in range(200):
        write(path, f"src/{number}.txt", str(number))
    saved = snapshot(path, base=repo.base, message="m").commit
    wrote: list[str] = []
    stop = threading.Event()

    def keep_writing() -> None:
        while not stop.is_set():
            name = f"late-{len(wrote)}"
            try:
                (path / name).write_text(name)
            except FileNotFoundError:
                return
            wrote.append(name)

    writer = threading.Thread(target=keep_writing)
    writer.start()
    end = time.monotonic() + 30
    while not wrote and time.monotonic() < end:
        time.sleep(0.001)
    try:
        with pytest.raises((InvalidInput, WorkFailed), match="late-"):
            remove(repo.git, path, saved=[saved])
    finally:
        stop.set()
        writer.join()
    assert wrote
    assert all((path / name).read_text() == name for name in wrote)
    assert path in [each.path for each in list_worktrees(repo.git)]
    assert set(unsaved(path, [saved])) == set(wrote)


def test_refused_work_is_kept(repo: Repo) -> None:
    path = repo.worktree(branch=loop_branch("m", "a"))
    target = repo.worktree("integration", branch=result_branch("m"))
    write(target, "one.txt", "other")
    reset_to(target, snapshot(target, base=repo.base, message="m").commit, branch=result_branch("m"))
    write(path, "one.txt", "refused")
    commit = snapshot(path, base=repo.base, message="refused one").commit
    assert not integrate(target, commit=commit, base=repo.base, message="m").ok
    with pytest.raises(InvalidInput, match=r"one\.txt"):
        remove(repo.git, path)
    reset_to(path, commit, branch=loop_branch("m", "a"))
    remove(repo.git, path)
    assert repo.git.branch_commit(loop_branch("m", "a")) == commit


# 2: one clean, one conflicting file, local edits in the target


@pytest.mark.parametrize("three_way", [False, True])
def test_a_conflict_beside_a_clean_file_leaves_no_trace(repo: Repo, three_way: bool) -> None:
    worker, target = repo.worktree("worker"), repo.worktree("target")
    write(worker, "one.txt", "clean\n")
    write(worker, "two.txt", "theirs\n")
    change = snapshot(worker, base=repo.base, message="m").change
    write(target, "two.txt", "ours\n")
    commit_all(target)
    write(target, "src/tool", "local edit")
    write(target, "staged", "x")
    sh("git", "add", "staged", cwd=target)
    before = index_state(target)
    result = apply_change(target, change, three_way=three_way)
    assert (result.ok, result.conflicts) == (False, ("two.txt",))
    assert result.output
    assert index_state(target) == before
    assert leftovers(target) == []


@pytest.mark.parametrize("three_way", [False, True])
def test_local_edits_in_the_target_survive(repo: Repo, three_way: bool) -> None:
    worker, target = repo.worktree("worker"), repo.worktree("target")
    write(worker, "one.txt", "theirs\n")
    write(worker, "two.txt", "theirs\n")
    write(worker, "new", "theirs\n")
    change = snapshot(worker, base=repo.base, message="m").change
    write(target, "two.txt", "local edit\n")
    before = index_state(target)
    result = apply_change(target, change, three_way=three_way)
    assert (result.ok, result.conflicts) == (False, ("two.txt",))
    assert index_state(target) == before
    sh("git", "checkout", "-q", "two.txt", cwd=target)
    write(target, "new", "untracked\n")
    before = index_state(target)
    result = apply_change(target, change, three_way=three_way)
    assert (result.ok, result.conflicts) == (False, ("new",))
    assert index_state(target) == before
    (target / "new").unlink()
    write(target, "src/tool", "elsewhere")
    assert apply_change(target, change, three_way=three_way).ok
    assert (target / "src" / "tool").read_text() == "elsewhere"
    assert (target / "two.txt").read_text() == "theirs\n"


# 3: only new files


def test_only_new_files_are_a_change(repo: Repo) -> None:
    path = repo.worktree()
    target = repo.worktree("integration", branch=result_branch("m"))
    write(path, "empty")
    write(path, "run", "#!/bin/sh\n", mode=0o755)
    (path / "to").symlink_to("run")
    found = snapshot(path, base=repo.base, message="m")
    assert [(file.path, file.status, file.mode_after) for file in found.change.files] == [
        ("empty", "A", "100644"),
        ("run", "A", "100755"),
        ("to", "A", "120000"),
    ]
    assert integrate(target, commit=found.commit, base=repo.base, message="m").ok
    assert contents(target) == contents(path)


# 4: a source and a binary


@pytest.mark.parametrize("attribute", ["", "*.bin -diff\n*.bin merge=binary\n", "*.bin binary\n"])
def test_a_source_and_a_binary_both_land(repo: Repo, attribute: str) -> None:
    if attribute:
        write(repo.top, ".gitattributes", attribute)
        repo.base = commit_all(repo.top)
    path = repo.worktree()
    target = repo.worktree("integration", branch=result_branch("m"))
    write(path, "one.txt", LINES.replace("line 4\n", ""))
    write(path, "src/data.bin", b"\0\1\2" * 999)
    write(path, "new.bin", os.urandom(5000))
    found = snapshot(path, base=repo.base, message="m")
    assert {file.path: file.binary for file in found.change.files} == {
        "one.txt": False,
        "src/data.bin": True,
        "new.bin": True,
    }
    assert integrate(target, commit=found.commit, base=repo.base, message="m").ok
    land(repo.git, result_branch("m"), "main")
    assert contents(repo.top) == contents(path)


# 5: GIT_* in the environment


def test_git_variables_in_the_environment_lead_nowhere(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Repo.make(tmp_path / "other")
    write(other.top, "one.txt", "unfinished work of another repository")
    before, ours = fingerprint(other.top), fingerprint(repo.top)
    monkeypatch.setenv("GIT_DIR", str(other.top / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.top / ".git" / "index"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.top))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other.top / ".git" / "objects"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.worktree")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(other.top))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody Else")
    monkeypatch.setenv("CLAUDECODE", "1")
    assert top_of(repo.top / "src") == repo.top.resolve()
    path = add(repo.git, tmp_path / "w", commit=repo.base, branch=loop_branch("m", "a")).path
    target = add(repo.git, tmp_path / "i", commit=repo.base, branch=result_branch("m")).path
    write(path, "one.txt", "ours")
    found = snapshot(path, base=repo.base, message="m")
    assert [file.path for file in found.change.files] == ["one.txt"]
    reset_to(path, found.commit, branch=loop_branch("m", "a"))
    assert integrate(target, commit=found.commit, base=repo.base, message="m").ok
    assert "Somebody Else" not in repo.git.run("log", "-1", "--format=%an", result_branch("m")).text
    assert fingerprint(repo.top) == ours
    land(repo.git, result_branch("m"), "main")
    discard(repo.git, discardable(repo.git, "m"))
    for name in list(os.environ):
        if name.startswith("GIT_"):
            monkeypatch.delenv(name)
    assert fingerprint(other.top) == before
    assert (repo.top / "one.txt").read_text() == "ours"


# 6: eight working trees at once, stale locks


def test_eight_loops_at_once(repo: Repo) -> None:
    before = fingerprint(repo.top)

    def loop(number: int) -> str:
        path = repo.worktree(f"loop {number}", branch=loop_branch("m", f"l{number}"))
        write(path, f"part-{number}", f"{number}\n")
        found = snapshot(path, base=repo.base, message=f"loop {number}")
        reset_to(path, found.commit, branch=loop_branch("m", f"l{number}"))
        remove(repo.git, path)
        return found.commit

    with ThreadPoolExecutor(8) as pool:
        commits = list(pool.map(loop, range(8)))
    assert len(set(commits)) == 8
    assert repo.git.branches("meshtui-loops/m") == {
        loop_branch("m", f"l{number}"): commit for number, commit in enumerate(commits)
    }
    assert len(list_worktrees(repo.git)) == 1
    target = repo.worktree("integration", branch=result_branch("m"))
    for commit in commits:
        assert integrate(target, commit=commit, base=repo.base, message="m").ok
    assert {f"part-{number}" for number in range(8)} <= set(contents(target))
    assert fingerprint(repo.top) == before


def test_eight_programs_at_once(repo: Repo) -> None:
    folder = repo.top.parent / "w"
    adds = [
        subprocess.Popen(
            ["git", "worktree", "add", "-q", "-b", f"foreign-{number}", str(folder / f"f{number}")],
            cwd=repo.top,
            stderr=subprocess.PIPE,
        )
        for number in range(4)
    ]
    with ThreadPoolExecutor(4) as pool:
        ours = list(pool.map(lambda n: repo.worktree(f"o{n}", branch=loop_branch("m", str(n))), range(4)))
    for process in adds:
        assert process.communicate(timeout=30)[1] == b""
    assert all(contents(path) == contents(repo.top) for path in ours)
    assert len(list_worktrees(repo.git)) == 9


def test_a_stale_lock_in_the_operator_s_checkout_stops_no_loop(repo: Repo) -> None:
    lock = write(repo.top, ".git/index.lock")
    path = repo.worktree(branch=loop_branch("m", "a"))
    target = repo.worktree("integration", branch=result_branch("m"))
    write(path, "new", "x")
    found = snapshot(path, base=repo.base, message="m")
    assert integrate(target, commit=found.commit, base=repo.base, message="m").ok
    with pytest.raises(GitError, match=r"index.lock is held by another git, .* remove that file"):
        land(Git(repo.top, lock_wait=0.05), result_branch("m"), "main")
    assert repo.git.branch_commit("main") == repo.base
    assert lock.exists()
    lock.unlink()
    assert land(repo.git, result_branch("m"), "main").after == repo.git.branch_commit(result_branch("m"))


@pytest.mark.parametrize("name", ["index.lock", "HEAD.lock"])
def test_a_lock_left_by_a_killed_worker_loses_no_loop(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("meshtui.core.vcs.git.LOCK_WAIT", 0.05)
    path = repo.worktree(branch=loop_branch("m", "a"))
    write(path, "new", "x")
    lock = Git(path).dirs.own / name
    lock.write_bytes(b"half an index")
    found = snapshot(path, base=repo.base, message="m")
    assert [file.path for file in found.change.files] == ["new"]
    assert lock.exists()
    reset_to(path, found.commit, branch=loop_branch("m", "a"))
    assert not lock.exists()
    assert Git(path).is_clean()
    assert repo.git.branch_commit(loop_branch("m", "a")) == found.commit


# 7: signatures and hooks

HOOKS = (
    "applypatch-msg post-checkout post-commit post-index-change post-merge post-rewrite pre-commit "
    "pre-merge-commit pre-rebase prepare-commit-msg commit-msg reference-transaction update"
)


@pytest.mark.parametrize("body", ["sleep 60", "echo refused >&2; exit 1"])
def test_hooks_and_signers_hold_nothing_up(repo: Repo, home: Path, body: str) -> None:
    for name in HOOKS.split():
        write(repo.top, f".git/hooks/{name}", f"#!/bin/sh\n{body}\n", mode=0o755)
    signer = write(home, "signer", f"#!/bin/sh\n{body}\n", mode=0o755)
    (home / ".gitconfig").write_text(
        f"[user]\n\tname = Ada\n\temail = ada@example.org\n\tsigningKey = ada\n[gpg]\n\tprogram = {signer}\n"
        "[commit]\n\tgpgSign = true\n[tag]\n\tgpgSign = true\n[merge]\n\tverifySignatures = true\n"
        f"[core]\n\tfsmonitor = {signer}\n"
    )
    started = time.monotonic()
    path = repo.worktree(branch=loop_branch("m", "a"))
    target = repo.worktree("integration", branch=result_branch("m"))
    write(path, "one.txt", "x")
    found = snapshot(path, base=repo.base, message="m")
    reset_to(path, found.commit, branch=loop_branch("m", "a"))
    assert integrate(target, commit=found.commit, base=repo.base, message="m").ok
    land(repo.git, result_branch("m"), "main")
    discard(repo.git, discardable(repo.git, "m"))
    assert time.monotonic() - started < 20
    assert repo.git.run("log", "-1", "--format=%an", "main").text == "Ada"


def test_a_filter_that_sleeps_is_ended_and_named(repo: Repo) -> None:
    write(repo.top, ".gitattributes", "*.slow filter=slow\n")
    base = commit_all(repo.top)
    path = repo.worktree(commit=base)
    sh("git", "config", "filter.slow.clean", "echo asked the filter >&2; sleep 60", cwd=repo.top)
    write(path, "a.slow", "x")
    with pytest.raises(
        GitError, match=r"`git add -A` in .* was ended after 0.5 s; it said: asked the filter"
    ):
        Git(path).run("add", "-A", timeout=0.5)
    assert not (Git(path).dirs.own / "index.lock").exists()


# 8: checked out elsewhere, exists already


def test_a_target_checked_out_elsewhere_is_named(repo: Repo) -> None:
    target = repo.worktree("integration", branch=result_branch("m"))
    write(target, "one.txt", "x")
    commit_all(target)
    sh("git", "worktree", "add", "-q", "-b", "release", str(repo.top.parent / "else where"), cwd=repo.top)
    with pytest.raises(
        InvalidInput, match=r"branch release is checked out at .*else where; land it from there"
    ):
        land(repo.git, result_branch("m"), "release")
    assert repo.git.branch_commit("release") == repo.base
    elsewhere = Git(repo.top.parent / "else where")
    assert land(elsewhere, result_branch("m"), "release").changed
    assert (elsewhere.top / "one.txt").read_text() == "x"


def test_a_loop_whose_branch_exists_can_be_tried_again(repo: Repo) -> None:
    branch = loop_branch("m", "a")
    path = repo.worktree(branch=branch)
    with pytest.raises(InvalidInput, match=rf"branch {branch} is checked out at .*work trees/loop"):
        repo.worktree("again", branch=branch)
    remove(repo.git, path)
    with pytest.raises(InvalidInput, match=f"branch {branch} exists already"):
        repo.worktree("again", branch=branch)
    again = add(repo.git, path, commit=repo.base, branch=branch, reuse=True)
    assert (again.path, again.branch) == (path, branch)


# 9: names


def test_odd_names_arrive_right_everywhere(repo: Repo) -> None:
    names = [
        "é.txt",
        "a -> b",
        "-x",
        "new\nline",
        'q"uote',
        "tab\tbed",
        os.fsdecode(b"\xff"),
        "*",
        "[a]",
        ":(top)",
    ]
    path = repo.worktree()
    target = repo.worktree("integration", branch=result_branch("m"))
    for name in names:
        write(path, name, name.encode("utf-8", "surrogateescape") + b"\n")
    write(path, "dir -> x/-y", "z")
    first = snapshot(path, base=repo.base, message="m")
    assert sorted(file.path for file in first.change.files) == sorted([*names, "dir -> x/-y"])
    assert integrate(target, commit=first.commit, base=repo.base, message="m").ok
    (path / "a -> b").rename(path / "b -> a")
    (path / "é.txt").unlink()
    (path / "-x").chmod(0o755)
    second = snapshot(path, base=first.commit, message="m")
    assert [(file.path, file.old_path, file.status) for file in second.change.files] == [
        ("-x", None, "M"),
        ("b -> a", "a -> b", "R"),
        ("é.txt", None, "D"),
    ]
    assert unsaved(path, [first.commit]) == ["-x", "b -> a"]
    assert integrate(target, commit=second.commit, base=first.commit, message="m").ok
    assert contents(target) == contents(path)
    assert (
        diff(repo.git, repo.base, result_branch("m")).files == diff(repo.git, repo.base, second.commit).files
    )
    land(repo.git, result_branch("m"), "main")
    assert contents(repo.top) == contents(path)
    removed = reset_to(path, repo.base)
    assert set(removed) >= set(names) - {"a -> b", "é.txt"}
