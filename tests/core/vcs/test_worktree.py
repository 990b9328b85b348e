"""Making working trees, naming what is not saved, removing without loss."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from meshtui.core.errors import InvalidInput, WorkFailed
from meshtui.core.vcs import worktree as worktrees
from meshtui.core.vcs.change import snapshot
from meshtui.core.vcs.git import Git, GitError, dirs_of
from meshtui.core.vcs.worktree import add, branches_of_worktrees, list_worktrees, remove, unsaved
from tests.core.vcs.support import Repo, commit_all, contents, fingerprint, sh, write


def test_add_list_remove(repo: Repo) -> None:
    before = fingerprint(repo.top)
    git = repo.git
    loop = add(git, repo.top.parent / "w" / "a b", commit=repo.base, branch="meshtui-loops/m/a")
    probe = add(git, repo.top.parent / "w" / "probe\n2", commit=repo.base, branch=None)
    assert contents(loop.path) == contents(probe.path) == contents(repo.top)
    main, *others = list_worktrees(git)
    assert (main.path, main.main, main.branch) == (repo.top.resolve(), True, "main")
    assert {(each.path, each.branch, each.commit, each.main) for each in others} == {
        (loop.path, "meshtui-loops/m/a", repo.base, False),
        (probe.path, None, repo.base, False),
    }
    assert branches_of_worktrees(git) == {"main": main.path, "meshtui-loops/m/a": loop.path}
    remove(git, loop.path)
    remove(git, probe.path)
    remove(git, probe.path)
    assert not loop.path.exists()
    assert list_worktrees(git) == [main]
    assert git.branch_commit("meshtui-loops/m/a") == repo.base
    assert fingerprint(repo.top) == before


def test_listing_with_a_git_that_cannot_separate_by_nul(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.worktree("one two", branch="meshtui-loops/m/a")
    repo.worktree("three")
    listed = list_worktrees(repo.git)
    monkeypatch.setattr(worktrees, "git_version", lambda: (2, 30, 2))
    assert list_worktrees(repo.git) == listed
    assert len(listed) == 3


def test_what_is_in_the_way_is_named(repo: Repo, tmp_path: Path) -> None:
    git = repo.git
    write(tmp_path / "w", "mine/file", "x")
    with pytest.raises(InvalidInput, match="mine: exists and is no working tree"):
        add(git, tmp_path / "w" / "mine", commit=repo.base, branch="meshtui-loops/m/a")
    assert not git.branch_exists("meshtui-loops/m/a")
    first = add(git, tmp_path / "w" / "first", commit=repo.base, branch="meshtui-loops/m/a")
    with pytest.raises(InvalidInput, match="first: a working tree is there already"):
        add(git, first.path, commit=repo.base, branch="meshtui-loops/m/a")
    with pytest.raises(InvalidInput, match=r"branch meshtui-loops/m/a is checked out at .*first"):
        add(git, tmp_path / "w" / "second", commit=repo.base, branch="meshtui-loops/m/a", reuse=True)
    remove(git, first.path)
    with pytest.raises(InvalidInput, match="branch meshtui-loops/m/a exists already"):
        add(git, first.path, commit=repo.base, branch="meshtui-loops/m/a")


def test_reuse_takes_things_as_they_stand(repo: Repo) -> None:
    path = repo.worktree(branch="meshtui-loops/m/a")
    write(path, "one.txt", "done")
    done = commit_all(path)
    write(path, "more", "not yet")
    again = add(repo.git, path, commit=repo.base, branch="meshtui-loops/m/a", reuse=True)
    assert (again.commit, (path / "more").read_text()) == (done, "not yet")
    with pytest.raises(InvalidInput, match="is on branch meshtui-loops/m/a, not detached"):
        add(repo.git, path, commit=repo.base, branch=None, reuse=True)
    (path / "more").unlink()
    remove(repo.git, path)
    again = add(repo.git, path, commit=repo.base, branch="meshtui-loops/m/a", reuse=True)
    assert (again.commit, (path / "one.txt").read_text()) == (done, "done")


def test_a_folder_that_vanished_is_made_again(repo: Repo) -> None:
    path = repo.worktree(branch="meshtui-loops/m/a")
    for entry in sorted(path.rglob("*"), reverse=True):
        entry.unlink() if not entry.is_dir() or entry.is_symlink() else entry.rmdir()
    path.rmdir()
    assert [each.missing for each in list_worktrees(repo.git)] == [False, True]
    assert unsaved(path) == []
    again = add(repo.git, path, commit=repo.base, branch="meshtui-loops/m/a", reuse=True)
    assert contents(again.path) == contents(repo.top)


def test_a_failed_add_leaves_neither_folder_nor_branch(repo: Repo) -> None:
    sh("git", "config", "filter.broken.smudge", "false", cwd=repo.top)
    sh("git", "config", "filter.broken.required", "true", cwd=repo.top)
    write(repo.top, ".gitattributes", "two.txt filter=broken\n")
    sh("git", "config", "filter.broken.clean", "cat", cwd=repo.top)
    commit = commit_all(repo.top)
    before = fingerprint(repo.top)
    path = repo.top.parent / "w" / "a"
    with pytest.raises(GitError, match="git worktree add"):
        add(repo.git, path, commit=commit, branch="meshtui-loops/m/a")
    assert not path.exists()
    assert len(list_worktrees(repo.git)) == 1
    assert not repo.git.branch_exists("meshtui-loops/m/a")
    assert fingerprint(repo.top) == before
    sh("git", "config", "filter.broken.smudge", "cat", cwd=repo.top)
    assert add(repo.git, path, commit=commit, branch="meshtui-loops/m/a").commit == commit


def test_a_branch_whose_name_collides_with_a_folder_of_branches(repo: Repo) -> None:
    repo.git.set_branch("meshtui-loops", repo.base, old=None)
    with pytest.raises(GitError, match="'refs/heads/meshtui-loops' exists"):
        add(repo.git, repo.top.parent / "w", commit=repo.base, branch="meshtui-loops/m/a")
    assert len(list_worktrees(repo.git)) == 1


def test_a_sparse_checkout_still_gives_whole_working_trees(repo: Repo) -> None:
    sh("git", "sparse-checkout", "set", "--no-cone", "/one.txt", cwd=repo.top)
    before = fingerprint(repo.top)
    path = repo.worktree()
    assert (path / "src" / "tool").exists()
    (path / "two.txt").unlink()
    found = snapshot(path, base=repo.base, message="m")
    assert [(file.path, file.status) for file in found.change.files] == [("two.txt", "D")]
    assert fingerprint(repo.top) == before
    assert not (repo.top / "src").exists()


def test_unsaved_names_files_repositories_and_commits(repo: Repo) -> None:
    path = repo.worktree()
    assert unsaved(path) == []
    write(path, "one.txt", "edit")
    write(path, "new\nfile", "x")
    write(path, "build.log", "ignored")
    write(path, ".meshtui/note", "ours")
    (path / "two.txt").unlink()
    sh("git", "init", "-q", "inner", cwd=path)
    expected = ["new\nfile", "one.txt", "inner/ (a repository of its own)"]
    assert unsaved(path, exclude=[".meshtui"]) == expected
    saved = snapshot(path, base=repo.base, message="m", exclude=[".meshtui"]).commit
    assert unsaved(path, [saved], exclude=[".meshtui"]) == ["inner/ (a repository of its own)"]
    assert unsaved(path, [repo.base], exclude=[".meshtui"]) == expected


def test_commits_of_a_detached_worker_count_until_they_are_saved(repo: Repo) -> None:
    path = repo.worktree()
    write(path, "one.txt", "edit")
    head = commit_all(path, "the worker's own\n\nbody")
    assert unsaved(path) == [f"commit {head[:7]} the worker's own"]
    with pytest.raises(InvalidInput, match=r"holds work that is saved nowhere else: .*the worker's own"):
        remove(repo.git, path)
    saved = snapshot(path, base=repo.base, message="m").commit
    assert unsaved(path, [saved]) == []
    sh("git", "branch", "kept", head, cwd=path)
    assert unsaved(path) == []
    remove(repo.git, path)
    assert not path.exists()


def test_an_assumed_unchanged_file_is_not_overlooked(repo: Repo) -> None:
    path = repo.worktree()
    sh("git", "update-index", "--assume-unchanged", "one.txt", cwd=path)
    sh("git", "update-index", "--skip-worktree", "two.txt", cwd=path)
    write(path, "one.txt", "hidden")
    write(path, "two.txt", "hidden")
    assert unsaved(path) == ["one.txt", "two.txt"]


def test_only_meshtui_s_kind_is_removed(repo: Repo, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="the repository's own checkout"):
        remove(repo.git, repo.top, force=True)
    write(tmp_path, "other/file", "x")
    with pytest.raises(InvalidInput, match="no working tree of"):
        remove(repo.git, tmp_path / "other", force=True)
    assert (tmp_path / "other" / "file").exists()


def test_force_removes_even_a_damaged_one(repo: Repo) -> None:
    path = repo.worktree()
    write(path, "deep/new", "x")
    (path / ".git").unlink()
    assert unsaved(path) == ["everything in it (its .git file is gone or was replaced)"]
    with pytest.raises(InvalidInput, match="everything in it"):
        remove(repo.git, path)
    remove(repo.git, path, force=True)
    assert not path.exists()
    assert len(list_worktrees(repo.git)) == 1


def test_symlinks_are_removed_not_followed(repo: Repo, tmp_path: Path) -> None:
    write(tmp_path, "victim/file", "x")
    path = repo.worktree()
    (path / "out").symlink_to(tmp_path / "victim")
    remove(repo.git, path, force=True)
    assert (tmp_path / "victim" / "file").read_text() == "x"


def test_what_is_written_meanwhile_stays(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    path = repo.worktree()
    real = worktrees.unsaved

    def then_a_writer(*args: object, **options: object) -> list[str]:
        found = real(*args, **options)  # type: ignore[arg-type]
        write(path, "src/late", "new")
        write(path, "one.txt", "changed late")
        return found

    monkeypatch.setattr(worktrees, "unsaved", then_a_writer)
    with pytest.raises(WorkFailed, match=r"something still writes there: 'one.txt', 'src', 'src/late'"):
        remove(repo.git, path)
    assert (path / "src" / "late").read_text() == "new"
    assert (path / "one.txt").read_text() == "changed late"
    assert [each.path for each in list_worktrees(repo.git)][1:] == [path]
    monkeypatch.undo()
    assert unsaved(path) == ["one.txt", "src/late"]


def test_locked_by_its_user(repo: Repo) -> None:
    path = repo.worktree()
    sh("git", "worktree", "lock", str(path), cwd=repo.top)
    assert [each.locked for each in list_worktrees(repo.git)] == [False, True]
    remove(repo.git, path)
    assert not path.exists()


def test_shallow_repositories(repo: Repo, tmp_path: Path) -> None:
    commit_all(repo.top, "second")
    sh("git", "clone", "-q", "--depth=1", repo.top.as_uri(), str(tmp_path / "clone"), cwd=tmp_path)
    clone = Repo(tmp_path / "clone", sh("git", "rev-parse", "HEAD", cwd=tmp_path / "clone"))
    path = clone.worktree(branch="meshtui-loops/m/a")
    write(path, "new", "x")
    found = snapshot(path, base=clone.base, message="m")
    assert [file.path for file in found.change.files] == ["new"]
    assert unsaved(path, [found.commit]) == []


def test_a_repository_whose_git_folder_is_elsewhere(tmp_path: Path) -> None:
    repo = Repo.make(tmp_path / "work", "--separate-git-dir", str(tmp_path / "store"))
    assert dirs_of(repo.top).own == (tmp_path / "store").resolve()
    path = repo.worktree()
    assert dirs_of(path).linked
    assert Git(path).dirs.common == (tmp_path / "store").resolve()
    assert os.listdir(path) != []


def test_listing_while_another_process_makes_one(repo: Repo) -> None:
    """git itself fails on an entry that is not whole yet; it is waited for."""
    place = add(repo.git, repo.top.parent / "w" / "half", commit=repo.base, branch=None).path
    link = dirs_of(place).own / "commondir"
    whole = link.read_bytes()
    link.write_bytes(b"")
    with pytest.raises(GitError, match="commondir"):
        list_worktrees(Git(repo.top, lock_wait=0.05))
    later = threading.Timer(0.1, link.write_bytes, (whole,))
    later.start()
    assert [each.path for each in list_worktrees(repo.git)][1:] == [place]
    later.join()


def test_many_at_once(repo: Repo) -> None:
    """Threads that make, list and remove working trees do not get in each other's way."""

    def work(number: int) -> None:
        for _ in range(4):
            place = repo.top.parent / "w" / f"copy-{number}"
            add(repo.git, place, commit=repo.base, branch=None)
            assert any(each.path.name == place.name for each in list_worktrees(repo.git))
            remove(repo.git, place, force=True)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work, number) for number in range(4)]:
            done.result(timeout=60)
    assert len(list_worktrees(repo.git)) == 1
