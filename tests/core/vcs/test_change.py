"""Snapshots, diffs, scopes, resets, and round trips of all three."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from meshtui.core.errors import InvalidInput
from meshtui.core.models.mesh import OwnerScope
from meshtui.core.vcs.change import Change, FileChange, diff, outside, reset_to, snapshot
from meshtui.core.vcs.git import Git, GitError
from meshtui.core.vcs.index import Scratch
from meshtui.core.vcs.merge import integrate
from meshtui.core.vcs.patching import Method, apply_change, merged
from tests.core.vcs.support import (
    LINES,
    OPERATOR,
    Repo,
    commit_all,
    contents,
    fingerprint,
    index_state,
    leftovers,
    sh,
    write,
)


def listed(change: Change) -> list[tuple[str, str]]:
    return [(file.path, file.status) for file in change.files]


def test_everything_a_worker_can_do(repo: Repo) -> None:
    before = fingerprint(repo.top)
    path = repo.worktree(branch="meshtui-loops/m/a")
    write(path, "committed", "x\n")
    commit_all(path)
    write(path, "staged", "x\n")
    sh("git", "add", "staged", cwd=path)
    write(path, "new/deep/é.txt", "x\ny\n")
    write(path, "empty")
    write(path, "program", "#!/bin/sh\n", mode=0o755)
    (path / "dangling").symlink_to("no/where")
    write(path, "one.txt", LINES.replace("line 3\n", "line three\n"))
    (path / "two.txt").rename(path / "src" / "zwei.txt")
    (path / "src" / "tool").chmod(0o644)
    write(path, "src/data.bin", b"\0\xff" * 700)
    (path / "link").unlink()
    write(path, "link", "now a file\n")
    write(path, "noise.log", "ignored")
    write(path, "cache/x", "ignored")
    write(path, "forced.log", "wanted")
    sh("git", "add", "-f", "forced.log", cwd=path)
    worker = index_state(path)
    found = snapshot(path, base=repo.base, message="loop a\n\nbody")
    assert index_state(path) == worker
    assert leftovers(path) == []
    by_path = {file.path: file for file in found.change.files}
    assert {name: file.status for name, file in by_path.items()} == {
        "committed": "A",
        "dangling": "A",
        "empty": "A",
        "forced.log": "A",
        "link": "T",
        "new/deep/é.txt": "A",
        "one.txt": "M",
        "program": "A",
        "src/data.bin": "M",
        "src/tool": "M",
        "src/zwei.txt": "R",
        "staged": "A",
    }
    assert by_path["src/zwei.txt"].old_path == "two.txt"
    assert by_path["program"] == FileChange("program", "A", None, None, "100755", False, 1, 0)
    assert by_path["empty"] == FileChange("empty", "A", None, None, "100644", False, 0, 0)
    assert (by_path["src/tool"].mode_before, by_path["src/tool"].mode_after) == ("100755", "100644")
    assert (by_path["link"].mode_before, by_path["link"].mode_after) == ("120000", "100644")
    assert by_path["src/data.bin"].binary
    assert (by_path["one.txt"].insertions, by_path["one.txt"].deletions) == (1, 1)
    assert found.change.patch_complete
    assert found.change.insertions == sum(file.insertions for file in found.change.files)
    assert sh("git", "log", "--format=%P|%B", "-1", found.commit, cwd=path) == f"{repo.base}|loop a\n\nbody"
    assert repo.git.tree_of(found.commit) == found.tree
    assert fingerprint(repo.top) == before


def test_no_change(repo: Repo) -> None:
    path = repo.worktree()
    os.utime(path / "one.txt", (1, 1))
    write(path, "noise.log")
    write(path, "extra")
    commit_all(path)
    (path / "extra").unlink()
    found = snapshot(path, base=repo.base, message="m")
    assert (found.commit, found.change.files, found.change.patch) == (repo.base, (), b"")


def test_exclude(repo: Repo) -> None:
    path = repo.worktree()
    write(path, ".meshtui/state", "x")
    write(path, "one.txt", "x")
    write(path, ".meshtui-not", "x")
    commit_all(path)
    write(path, "run/loop/a", "x")
    found = snapshot(path, base=repo.base, message="m", exclude=[".meshtui", "run/loop/", "one.txt"])
    assert listed(found.change) == [(".meshtui-not", "A")]


def test_repositories_inside_are_named(repo: Repo) -> None:
    path = repo.worktree()
    for name in ("empty", "with commits"):
        sh("git", "init", "-q", name, cwd=path)
        write(path / name, "file", "x")
    commit_all(path / "with commits")
    write(path, "beside", "x")
    found = snapshot(path, base=repo.base, message="m")
    assert found.unsupported == ("empty", "with commits")
    assert listed(found.change) == [("beside", "A")]
    sh("git", "add", "with commits", cwd=path)
    found = snapshot(path, base=repo.base, message="m")
    assert found.unsupported == ("empty", "with commits")
    assert listed(found.change) == [("beside", "A")]


def test_a_repository_made_around_tracked_files_loses_nothing(repo: Repo) -> None:
    path = repo.worktree()
    sh("git", "init", "-q", "src", cwd=path)
    write(path, "src/tool", "changed")
    write(path, "src/new", "x")
    found = snapshot(path, base=repo.base, message="m")
    named = {*found.unsupported, *(file.path for file in found.change.files)}
    assert named >= {"src/tool", "src/new"} or "src" in named


def test_a_submodule_of_the_repository_is_left_alone(repo: Repo, tmp_path: Path) -> None:
    other = Repo.make(tmp_path / "other")
    sh(
        "git",
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        str(other.top),
        "sub",
        cwd=repo.top,
    )
    base = commit_all(repo.top)
    path = repo.worktree(commit=base)
    write(path, "one.txt", "x")
    found = snapshot(path, base=base, message="m")
    assert (listed(found.change), found.unsupported) == ([("one.txt", "M")], ())
    (path / "sub").rmdir()
    write(path, "sub/plain", "a file where the submodule was")
    found = snapshot(path, base=base, message="m")
    assert (listed(found.change), found.unsupported) == ([("one.txt", "M")], ("sub",))
    assert "sub" in repo.git.tracked_files(found.commit)


def test_case_clashes_are_named(repo: Repo) -> None:
    path = repo.worktree()
    write(path, "ONE.txt", "x")
    write(path, "SRC/other", "x")
    write(path, "caf\u00e9", "x")
    write(path, "cafe\u0301", "x")
    found = snapshot(path, base=repo.base, message="m")
    assert set(found.clashes) >= {"ONE.txt", "SRC/other"}
    assert {"caf\u00e9", "cafe\u0301"} & set(found.clashes)
    assert "one.txt" not in found.clashes


def test_a_damaged_or_lost_index_loses_nothing(repo: Repo) -> None:
    path = repo.worktree()
    write(path, "one.txt", "x")
    index = Git(path).dirs.own / "index"
    for damage in (b"", b"garbage", None):
        if damage is None:
            index.unlink()
        else:
            index.write_bytes(damage)
        assert listed(snapshot(path, base=repo.base, message="m").change) == [("one.txt", "M")]


def test_an_unfinished_merge_counts_as_it_lies_there(repo: Repo) -> None:
    path = repo.worktree(branch="meshtui-loops/m/a")
    write(path, "one.txt", "mine\n")
    commit_all(path)
    sh("git", "checkout", "-q", "--detach", repo.base, cwd=path)
    write(path, "one.txt", "theirs\n")
    commit_all(path)
    Git(path).run(*OPERATOR, "merge", "meshtui-loops/m/a", check=False)
    found = snapshot(path, base=repo.base, message="m")
    assert listed(found.change) == [("one.txt", "M")]
    assert b"<<<<<<<" in found.change.patch
    reset_to(path, repo.base, branch="meshtui-loops/m/a")
    assert Git(path).is_clean()
    assert not (Git(path).dirs.own / "MERGE_HEAD").exists()


def test_pipes_and_sockets_do_not_hang_it(repo: Repo) -> None:
    path = repo.worktree()
    os.mkfifo(path / "pipe")
    write(path, "new", "x")
    assert listed(snapshot(path, base=repo.base, message="m").change) == [("new", "A")]


def test_a_quick_edit_of_the_same_size_is_seen(repo: Repo) -> None:
    path = repo.worktree()
    for turn in range(8):
        write(path, "racy", f"{turn:04}")
        sh("git", "add", "racy", cwd=path)
        write(path, "racy", f"{turn:04}"[::-1] + "")
        found = snapshot(path, base=repo.base, message="m")
        blob = repo.git.run("cat-file", "blob", f"{found.commit}:racy").text
        assert blob == f"{turn:04}"[::-1]


def test_the_patch_is_bounded_its_size_is_not(repo: Repo) -> None:
    path = repo.worktree()
    write(path, "big", os.urandom(1 << 20))
    found = snapshot(path, base=repo.base, message="m")
    part = diff(repo.git, repo.base, found.commit, max_patch=1000)
    assert part.patch == found.change.patch[:1000]
    assert part.patch_bytes == found.change.patch_bytes > 1 << 20
    assert not part.patch_complete
    assert part.files == found.change.files


def test_only_working_trees_of_meshtui_s_kind(repo: Repo) -> None:
    write(repo.top, "one.txt", "the operator's edit")
    before = fingerprint(repo.top)
    for action in (
        lambda: snapshot(repo.top, base=repo.base, message="m"),
        lambda: reset_to(repo.top, repo.base),
        lambda: apply_change(repo.top, diff(repo.git, repo.base, repo.base), three_way=True),
    ):
        with pytest.raises(InvalidInput, match=r"not .* a working tree made by `git worktree add`"):
            action()
    assert fingerprint(repo.top) == before


@pytest.mark.parametrize("how", ["deleted", "own repository", "points at main"])
def test_a_worker_that_tampers_with_dot_git_reaches_no_other_repository(repo: Repo, how: str) -> None:
    path = repo.worktree()
    (path / ".git").unlink()
    if how == "own repository":
        sh("git", "init", "-q", cwd=path)
    elif how == "points at main":
        (path / ".git").write_text(f"gitdir: {repo.top / '.git'}\n")
    before = fingerprint(repo.top)
    with pytest.raises(InvalidInput, match=r"git worktree repair|not the top of a git working tree"):
        snapshot(path, base=repo.base, message="m")
    with pytest.raises(InvalidInput):
        reset_to(path, repo.base)
    assert fingerprint(repo.top) == before


def test_an_unknown_base(repo: Repo) -> None:
    path = repo.worktree()
    with pytest.raises(InvalidInput, match="no commit is called"):
        snapshot(path, base="0" * 40, message="m")
    with pytest.raises(GitError):
        diff(repo.git, repo.base, "1" * 40)


# --- scopes


def _change(*files: FileChange) -> Change:
    return Change("a", "b", files, b"", 0, 0, 0)


def test_outside() -> None:
    change = _change(
        FileChange("src/a.py", "M"),
        FileChange("src2/a.py", "A"),
        FileChange("docs/x", "R", old_path="old/x"),
        FileChange("README.md", "D"),
    )
    everything = ["README.md", "docs/x", "old/x", "src/a.py", "src2/a.py"]
    assert outside(change, OwnerScope()) == everything
    assert outside(change, OwnerScope(directories=["."])) == []
    assert outside(change, OwnerScope(directories=["./"])) == []
    assert outside(change, OwnerScope(directories=["", "/"])) == everything
    assert outside(change, OwnerScope(directories=["src"])) == ["README.md", "docs/x", "old/x", "src2/a.py"]
    assert outside(change, OwnerScope(directories=["./src/", "docs", "README.md"])) == ["old/x", "src2/a.py"]
    assert outside(change, OwnerScope(files=["src/a.py", "README.md"], directories=["old"])) == [
        "docs/x",
        "src2/a.py",
    ]


# --- resets


def test_reset_names_what_goes_and_keeps_what_is_ignored(repo: Repo) -> None:
    before = fingerprint(repo.top)
    path = repo.worktree(branch="meshtui-loops/m/a")
    write(path, "one.txt", "x")
    write(path, "left/over", "x")
    write(path, "noise.log", "kept")
    sh("git", "init", "-q", "inner", cwd=path)
    write(path, "staged", "x")
    sh("git", "add", "staged", cwd=path)
    sh("git", "update-index", "--assume-unchanged", "two.txt", cwd=path)
    write(path, "two.txt", "hidden")
    sh("git", "update-index", "--skip-worktree", "src/tool", cwd=path)
    (path / "src" / "tool").unlink()
    removed = reset_to(path, repo.base, branch="meshtui-loops/m/a")
    assert {"one.txt", "two.txt", "left/over", "inner/", "staged"} <= set(removed)
    assert "noise.log" not in removed
    assert contents(path) == {**contents(repo.top), "noise.log": ("file", b"kept")}
    assert Git(path).is_clean()
    assert Git(path).current_branch() == "meshtui-loops/m/a"
    assert reset_to(path, repo.base, branch="meshtui-loops/m/a") == []
    assert leftovers(path) == []
    assert fingerprint(repo.top) == before


def test_reset_keeps_times_of_files_that_stay(repo: Repo) -> None:
    path = repo.worktree()
    os.utime(path / "two.txt", (1000, 1000))
    write(path, "one.txt", "x")
    reset_to(path, repo.base)
    assert (path / "two.txt").stat().st_mtime == 1000


def test_reset_moves_no_branch_the_worker_switched_to(repo: Repo) -> None:
    sh("git", "branch", "precious", cwd=repo.top)
    path = repo.worktree(branch="meshtui-loops/m/a")
    sh("git", "checkout", "-q", "precious", cwd=path)
    write(path, "one.txt", "x")
    kept = commit_all(path)
    reset_to(path, repo.base, branch="meshtui-loops/m/a")
    assert repo.git.branch_commit("precious") == kept
    assert Git(path).current_branch() == "meshtui-loops/m/a"
    write(path, "two.txt", "x")
    found = snapshot(path, base=repo.base, message="m")
    reset_to(path, found.commit, branch="meshtui-loops/m/a")
    assert repo.git.branch_commit("meshtui-loops/m/a") == found.commit
    reset_to(path, repo.base)
    assert Git(path).current_branch() is None
    assert repo.git.branch_commit("meshtui-loops/m/a") == found.commit


def test_reset_ends_a_rebase(repo: Repo) -> None:
    path = repo.worktree(branch="meshtui-loops/m/a")
    write(path, "one.txt", "x")
    commit_all(path)
    sh(
        "git",
        "rebase",
        "-q",
        "-i",
        "HEAD~1",
        cwd=path,
        env={**os.environ, "GIT_SEQUENCE_EDITOR": "echo break >"},
    )
    assert (Git(path).dirs.own / "rebase-merge").exists()
    reset_to(path, repo.base, branch="meshtui-loops/m/a")
    assert "rebase" not in sh("git", "status", cwd=path)


# --- round trips

NAMES = [
    "one.txt",
    "two.txt",
    "link",
    "src",
    "src/tool",
    "src/data.bin",
    "new",
    "new/inside/deep",
    "é.txt",
    "a -> b",
    "-x",
    "*.py",
    ":(top)x",
    "tab\tname",
    'qu"ote\\',
    "new\nline",
    " blank ",
    os.fsdecode(b"\xff\xfe"),
]
TEXTS = [
    b"",
    b"x",
    b"no newline",
    LINES.encode(),
    LINES.encode().replace(b"7", b"seven"),
    b"\r\n" * 9,
    bytes(range(256)),
]

NAME = st.sampled_from(NAMES)
OPERATION = st.one_of(
    st.tuples(st.just("write"), NAME, st.sampled_from(TEXTS) | st.binary(max_size=40)),
    st.tuples(st.just("program"), NAME, st.sampled_from(TEXTS)),
    st.tuples(
        st.just("link"), NAME, st.sampled_from([b"one.txt", b"no/where", b"..", b"new\nline", b"/dev/null"])
    ),
    st.tuples(st.just("delete"), NAME, st.just(b"")),
    st.tuples(st.just("rename"), NAME, NAME.map(os.fsencode)),
    st.tuples(st.just("mode"), NAME, st.just(b"")),
    st.tuples(st.sampled_from(["add", "commit", "uncache", "assume"]), NAME, st.just(b"")),
)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for entry in path.iterdir():
            _delete(entry)
        path.rmdir()
    elif os.path.lexists(path):
        path.unlink()


def _room(top: Path, name: str) -> Path:
    """The path, with nothing at it and folders above it."""
    path = top
    for part in name.split("/")[:-1]:
        path = path / part
        if not path.is_dir() or path.is_symlink():
            _delete(path)
            path.mkdir()
    path = top / name
    _delete(path)
    return path


def perform(top: Path, kind: str, name: str, data: bytes) -> None:
    path = top / name
    plain = path.is_file() and not path.is_symlink()
    if kind in ("write", "program"):
        _room(top, name).write_bytes(data)
        path.chmod(0o755 if kind == "program" else 0o644)
    elif kind == "link":
        _room(top, name).symlink_to(os.fsdecode(data))
    elif kind == "delete":
        _delete(path)
    elif kind == "rename" and plain:
        kept = (path.read_bytes(), path.stat().st_mode)
        _delete(path)
        target = _room(top, os.fsdecode(data))
        target.write_bytes(kept[0])
        target.chmod(kept[1])
    elif kind == "mode" and plain:
        path.chmod(path.stat().st_mode ^ 0o111)
    elif kind == "add":
        sh("git", "add", "-A", cwd=top)
    elif kind == "commit":
        commit_all(top)
    elif kind == "uncache":
        Git(top).run("rm", "-q", "-r", "--cached", "--", name, check=False)
    elif kind == "assume":
        Git(top).run("update-index", "--assume-unchanged", "--", name, check=False)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Repo, Path, Path]:
    repo = Repo.make(tmp_path_factory.mktemp("round trips") / "the repo")
    return repo, repo.worktree("worker"), repo.worktree("target")


@given(operations=st.lists(OPERATION, max_size=12))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_round_trips(pair: tuple[Repo, Path, Path], operations: list[tuple[str, str, bytes]]) -> None:
    repo, worker, target = pair
    for path in (worker, target):
        reset_to(path, repo.base)
    for operation in operations:
        perform(worker, *operation)
    wanted = contents(worker)
    found = snapshot(worker, base=repo.base, message="m")
    assert contents(worker) == wanted
    assert bool(found.change.files) == (wanted != contents(repo.top))
    reset_to(target, found.commit)
    assert contents(target) == wanted
    reset_to(target, repo.base)
    assert contents(target) == contents(repo.top)
    result = apply_change(target, found.change, three_way=False)
    assert result.ok, result.output
    assert contents(target) == wanted
    methods: list[Method] = ["apply", "apply_3way", "cherry_pick"]
    with Scratch(Git(target)) as scratch:
        for method in methods:
            onto = repo.git.tree_of(repo.base)
            outcome = merged(scratch, method, base=repo.base, head=found.commit, onto=onto)
            assert outcome.tree == found.tree, (method, outcome)
    touched = {
        path for path in {*wanted, *contents(repo.top)} if wanted.get(path) != contents(repo.top).get(path)
    }
    assert set(found.change.paths) == touched


@given(first=st.lists(OPERATION, max_size=6), second=st.lists(OPERATION, max_size=6))
@example(first=[("write", "one.txt", b"")], second=[("rename", "one.txt", b"src")])
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_two_changes_go_together_or_leave_no_trace(
    pair: tuple[Repo, Path, Path],
    first: list[tuple[str, str, bytes]],
    second: list[tuple[str, str, bytes]],
) -> None:
    repo, worker, target = pair
    reset_to(target, repo.base)
    made = []
    for operations in (first, second):
        reset_to(worker, repo.base)
        for operation in operations:
            perform(worker, *operation)
        made.append((snapshot(worker, base=repo.base, message="m"), contents(worker)))
    (one, ones), (two, twos) = made
    assert integrate(target, commit=one.commit, base=repo.base, message="m").ok
    before = index_state(target)
    result = integrate(target, commit=two.commit, base=repo.base, message="m")
    assert Git(target).is_clean()
    assert leftovers(target) == []
    if not result.ok:
        assert index_state(target) == before
        assert all(attempt.output and attempt.conflicts for attempt in result.attempts)
        return
    if result.attempts[-1].strategy == "cherry_pick":
        return  # It follows renames: an edit may end in another file.
    now = contents(target)
    renamed = {file.path: file.old_path for file in two.change.files if file.old_path is not None}
    for path in {*one.change.paths, *two.change.paths}:
        if renamed.get(path) in one.change.paths:
            # What was renamed takes with it what the other one edited in it.
            assert now.get(path) in (twos.get(path), ones.get(renamed[path] or "")), result.attempts
        elif path not in two.change.paths or ones.get(path) == twos.get(path):
            assert now.get(path) == ones.get(path)
        elif path not in one.change.paths:
            assert now.get(path) == twos.get(path), result.attempts
