"""Calling git: limits, surroundings, errors, identity."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

import psutil
import pytest

from meshtui.core.errors import InvalidInput, MeshtuiError
from meshtui.core.vcs.git import Git, GitError, dirs_of, git_version, last_words, short, top_of
from tests.core.vcs.support import Repo, commit_all, sh, write


def test_top_and_folders(repo: Repo) -> None:
    assert top_of(repo.top / "src") == repo.top.resolve()
    assert dirs_of(repo.top).own == dirs_of(repo.top).common == (repo.top / ".git").resolve()
    assert not dirs_of(repo.top).linked
    path = repo.worktree()
    assert top_of(path) == path.resolve()
    assert dirs_of(path).linked
    assert dirs_of(path).common == dirs_of(repo.top).common
    assert git_version() >= (2, 30)


def test_a_name_that_ends_in_a_newline(tmp_path: Path) -> None:
    repo = Repo.make(tmp_path / "odd\n")
    assert top_of(repo.top / "src") == repo.top.resolve()
    assert repo.git.head_commit() == repo.base


def test_no_repository_no_folder_bare(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="not inside a git repository"):
        top_of(tmp_path)
    with pytest.raises(InvalidInput, match="no such folder"):
        top_of(tmp_path / "nothing")
    sh("git", "init", "-q", "--bare", "bare.git", cwd=tmp_path)
    with pytest.raises(InvalidInput, match="bare repository"):
        top_of(tmp_path / "bare.git")
    with pytest.raises(InvalidInput, match="no such folder"):
        Git(tmp_path / "nothing").run("status")


def test_a_repository_without_commits(tmp_path: Path) -> None:
    sh("git", "init", "-q", "-b", "main", cwd=tmp_path)
    git = Git(top_of(tmp_path))
    with pytest.raises(InvalidInput, match="no commits yet; make a first one"):
        git.head_commit()
    assert git.head_or_none() is None
    assert git.current_branch() == "main"
    assert not git.branch_exists("main")


def test_commits_and_branches(repo: Repo) -> None:
    git = repo.git
    assert git.head_commit() == git.head_commit("main") == repo.base
    for wrong in ("nope", "--all", "-h"):
        with pytest.raises(InvalidInput, match="no commit is called"):
            git.head_commit(wrong)
    git.set_branch("meshtui-loops/m/a", repo.base, old=None)
    assert git.branches("meshtui-loops/m") == {"meshtui-loops/m/a": repo.base}
    with pytest.raises(GitError, match="update-ref"):
        git.set_branch("meshtui-loops/m/a", repo.base, old=None)
    second = commit_all(repo.top, "second")
    with pytest.raises(GitError):
        git.delete_branch("meshtui-loops/m/a", old=second)
    assert git.branch_exists("meshtui-loops/m/a")
    git.delete_branch("meshtui-loops/m/a", old=repo.base)
    assert git.branches("meshtui-loops/m") == {}
    assert git.is_ancestor(repo.base, second)
    assert not git.is_ancestor(second, repo.base)
    with pytest.raises(GitError):
        git.is_ancestor("f" * 40, second)


def test_dirty_names_every_kind(repo: Repo) -> None:
    git = repo.git
    assert git.is_clean()
    write(repo.top, "new\nline")
    write(repo.top, "deep/er/é")
    (repo.top / "one.txt").unlink()
    write(repo.top, "two.txt", "x")
    sh("git", "mv", "link", "a -> b", cwd=repo.top)
    assert sorted(git.dirty()) == sorted(["new\nline", "deep/er/é", "one.txt", "two.txt", "link", "a -> b"])
    assert "new\nline" not in git.dirty(untracked=False)
    sh("git", "config", "status.showUntrackedFiles", "no", cwd=repo.top)
    assert "deep/er/é" in git.dirty()


def test_tracked_files_take_odd_names_literally(repo: Repo) -> None:
    names = ["é.txt", "-x", "*.py", ":(top)x", "new\nline", "tab\tname", '"quoted"']
    for name in names:
        write(repo.top, name, "x")
    write(repo.top, os.fsdecode(b"\xff\xfe"), "x")
    commit = commit_all(repo.top)
    assert set(repo.git.tracked_files(commit)) >= {*names, os.fsdecode(b"\xff\xfe")}


def test_files_are_read_as_they_were_committed(repo: Repo) -> None:
    for name in ("é.txt", "-x", "*.py", ":(top)x", "new\nline"):
        write(repo.top, name, f"<{name}>")
    write(repo.top, "program", "#!", mode=0o755)
    (repo.top / "away").symlink_to("/etc/passwd")
    commit = commit_all(repo.top)
    for name in ("é.txt", "-x", "*.py", ":(top)x", "new\nline"):
        write(repo.top, name, "edited since")
        assert repo.git.read_file(commit, name, limit=100) == f"<{name}>".encode()
    assert repo.git.read_file(commit, "program", limit=2) == b"#!"
    assert repo.git.read_file(commit, "program", limit=1) is None
    for nothing in ("away", "src", "no/such"):
        assert repo.git.read_file(commit, nothing, limit=100) is None


def test_the_time_limit_ends_the_whole_group(repo: Repo, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    sh("git", "config", "alias.slow", f"!sleep 60 & echo $! > '{mark}'; echo waiting >&2; wait", cwd=repo.top)
    started = time.monotonic()
    with pytest.raises(GitError, match=r"`git slow` in .* was ended after 0.5 s; it said: waiting"):
        repo.git.run("slow", timeout=0.5)
    assert time.monotonic() - started < 5
    assert not _alive(int(mark.read_text()))


def test_a_child_that_keeps_the_output_open_delays_nothing(repo: Repo, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    sh("git", "config", "alias.leave", f"!sleep 60 & echo $! > '{mark}'; echo done", cwd=repo.top)
    started = time.monotonic()
    result = repo.git.run("leave", timeout=30)
    assert result.text == "done"
    assert time.monotonic() - started < 5
    assert not _alive(int(mark.read_text()))


def _alive(pid: int) -> bool:
    end = time.monotonic() + 5
    while time.monotonic() < end:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return False
        except psutil.NoSuchProcess:
            return False
        time.sleep(0.01)
    return True


def test_input_output_limits(repo: Repo, tmp_path: Path) -> None:
    big = os.urandom(3 << 20)
    blob = repo.git.run("hash-object", "-w", "--stdin", input=big).text
    whole = repo.git.run("cat-file", "blob", blob)
    assert whole.out == big
    part = repo.git.run("cat-file", "blob", blob, keep=1000)
    assert (part.out, part.out_bytes) == (big[:1000], len(big))
    repo.git.run("cat-file", "blob", blob, output=tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == big
    # A program that does not read what it is given ends all the same.
    assert repo.git.run("rev-parse", "HEAD", input=big).text == repo.base


def test_errors_name_command_code_and_last_words(repo: Repo) -> None:
    with pytest.raises(GitError) as caught:
        repo.git.run("cat-file", "blob", "nope\x1b[31m")
    assert caught.value.code == 128
    assert "exit code 128: fatal: Not a valid object name" in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 1
    assert short(("a" * 300,)).endswith("…`")
    assert last_words(b"hint: do this\nfatal: bad\x07\n") == "fatal: bad?"


def test_git_is_missing(repo: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MeshtuiError, match="git is not installed"):
        repo.git.run("version")


def test_identity(repo: Repo, home: Path) -> None:
    git = repo.git
    tree = git.tree_of(repo.base)

    def author(commit: str) -> str:
        return sh("git", "log", "-1", "--format=%an <%ae> %cn <%ce>|%B", commit, cwd=repo.top)

    text = "Ünï\n\n# not a comment\nbody"
    ours = author(git.commit_tree(tree, parents=(repo.base,), message=text))
    assert ours == f"meshtui <meshtui@localhost> meshtui <meshtui@localhost>|{text}"
    (home / ".gitconfig").write_text("[user]\n\tname = Only A Name\n\tuseConfigOnly = true\n")
    assert author(git.commit_tree(tree, parents=(), message="m")).startswith("meshtui <meshtui@localhost>")
    (home / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    assert author(git.commit_tree(tree, parents=(), message="m")).startswith("Ada <ada@example.org> Ada")


def test_a_lock_given_up_in_time_is_waited_for(repo: Repo) -> None:
    lock = write(repo.top, ".git/refs/heads/other.lock")
    timer = threading.Timer(0.2, lock.unlink)
    timer.start()
    try:
        repo.git.set_branch("other", repo.base, old=None)
    finally:
        timer.join()
    assert repo.git.branch_exists("other")


@pytest.mark.parametrize("name", ["index.lock", "config.lock", "refs/heads/other.lock"])
def test_a_lock_nobody_gives_up_is_named(repo: Repo, name: str) -> None:
    lock = write(repo.top, f".git/{name}")
    command = {
        "index.lock": ("read-tree", "HEAD"),
        "config.lock": ("config", "x.y", "z"),
        "refs/heads/other.lock": ("update-ref", "refs/heads/other", repo.base),
    }[name]
    with pytest.raises(GitError) as caught:
        Git(repo.top, lock_wait=0.05).run(*command)
    assert caught.value.lock is not None
    assert caught.value.lock.resolve() == lock.resolve()
    assert f"{name} is held by another git" in str(caught.value)
    assert "remove that file and try again" in str(caught.value)
    assert lock.exists()


def test_a_lost_git_folder_does_not_lead_to_an_outer_repository(repo: Repo) -> None:
    inner = repo.top / "inner"
    inner.mkdir()
    (inner / ".git").mkdir()
    with pytest.raises(GitError, match="not a git repository"):
        Git(inner).run("status")


def test_prompts_and_editors_are_off(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "sleep 60")
    monkeypatch.setenv("GIT_EDITOR", "sleep 60")
    monkeypatch.setenv("GIT_PAGER", "sleep 60")
    assert repo.git.run("var", "GIT_EDITOR").text == "true"
    assert repo.git.run("-p", "log", "--format=%H").text == repo.base
    assert repo.git.run("var", "GIT_PAGER").text == "cat"


def test_threads_share_one_lock_a_repository(repo: Repo) -> None:
    path = repo.worktree()
    order: list[str] = []
    with Git(path).exclusive():
        other = threading.Thread(target=lambda: _take(repo.git, order))
        other.start()
        order.append("first")
        assert not _ended(other, 0.05)
        order.append("still")
    other.join(10)
    assert order == ["first", "still", "second"]


def _take(git: Git, order: list[str]) -> None:
    with git.exclusive():
        order.append("second")


def _ended(thread: threading.Thread, seconds: float) -> bool:
    thread.join(seconds)
    return not thread.is_alive()


def test_sha256_repositories(tmp_path: Path) -> None:
    probe = subprocess.run(
        ["git", "init", "-q", "--object-format=sha256", str(tmp_path / "probe")],
        capture_output=True,
        check=False,
    )
    if probe.returncode:
        pytest.skip("this git has no sha256 repositories")
    repo = Repo.make(tmp_path / "repo", "--object-format=sha256")
    assert len(repo.base) == 64
    repo.git.set_branch("new", repo.base, old=None)
    assert repo.git.branch_commit("new") == repo.base
