"""Applying, the integration ladder, landing, discarding."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from meshtui.core.errors import InvalidInput
from meshtui.core.vcs.change import reset_to, snapshot
from meshtui.core.vcs.git import Git, GitError
from meshtui.core.vcs.merge import (
    IntegrateResult,
    discard,
    discardable,
    integrate,
    land,
    loop_branch,
    result_branch,
)
from meshtui.core.vcs.patching import apply_change, without
from meshtui.core.vcs.worktree import list_worktrees
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


class Loops:
    """Loops that each start at the base, and the integration working tree."""

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        self.worker = repo.worktree("worker")
        self.target = repo.worktree("integration", branch=result_branch("m"))

    def commit(self, **files: str | bytes | None) -> str:
        """What a loop made; ``None`` deletes, names carry ``__`` for a dot."""
        reset_to(self.worker, self.repo.base)
        for name, text in files.items():
            path = name.replace("__", ".")
            if text is None:
                (self.worker / path).unlink()
            else:
                write(self.worker, path, text)
        return snapshot(self.worker, base=self.repo.base, message="loop").commit

    def integrate(self, commit: str) -> IntegrateResult:
        return integrate(self.target, commit=commit, base=self.repo.base, message="integrate loop")


@pytest.fixture
def loops(repo: Repo) -> Loops:
    return Loops(repo)


def strategies(result: IntegrateResult) -> list[tuple[str, bool]]:
    return [(attempt.strategy, attempt.ok) for attempt in result.attempts]


def test_untouched_files_apply(loops: Loops) -> None:
    before = fingerprint(loops.repo.top)
    first = loops.integrate(loops.commit(one__txt="new\n", added="x"))
    assert strategies(first) == [("apply", True)]
    second = loops.integrate(loops.commit(two__txt="new\n"))
    assert strategies(second) == [("apply", True)]
    assert loops.repo.git.branch_commit(result_branch("m")) == second.commit
    log = sh("git", "log", "--format=%H %s", f"{loops.repo.base}..{result_branch('m')}", cwd=loops.repo.top)
    assert log.split("\n") == [f"{second.commit} integrate loop", f"{first.commit} integrate loop"]
    assert (loops.target / "one.txt").read_text() == (loops.target / "two.txt").read_text() == "new\n"
    assert Git(loops.target).is_clean()
    assert leftovers(loops.target) == []
    assert fingerprint(loops.repo.top) == before


def test_two_parts_of_one_file_are_merged(loops: Loops) -> None:
    loops.integrate(loops.commit(one__txt=LINES.replace("line 2\n", "line two\n")))
    result = loops.integrate(loops.commit(one__txt=LINES.replace("line 25\n", "line twenty-five\n")))
    assert strategies(result) == [("apply", False), ("apply_3way", True)]
    assert result.attempts[0].conflicts == ("one.txt",)
    assert "one.txt" in result.attempts[1].output
    merged = LINES.replace("line 2\n", "line two\n").replace("line 25\n", "line twenty-five\n")
    assert (loops.target / "one.txt").read_text() == merged


def test_a_patch_is_never_put_in_a_place_found_by_searching(tmp_path: Path) -> None:
    # The block stands twice; a sibling removed the first: by context alone the edit fits the second.
    block = "def check():\n    a = 1\n    b = 2\n    c = 3\n    return a\n\n\n"
    repo = Repo.make(tmp_path / "repo")
    write(repo.top, "twice.py", "# top\n" + block + "# middle\n" * 3 + block)
    repo.base = commit_all(repo.top)
    loops = Loops(repo)
    loops.integrate(loops.commit(twice__py="# top\n" + "# middle\n" * 3 + block))
    edited = block.replace("b = 2", "b = 20")
    result = loops.integrate(loops.commit(twice__py="# top\n" + edited + "# middle\n" * 3 + block))
    assert not result.ok
    assert "b = 20" not in (loops.target / "twice.py").read_text()


def test_a_file_renamed_by_the_other_is_followed(loops: Loops) -> None:
    loops.integrate(loops.commit(one__txt=None, moved__txt=LINES))
    result = loops.integrate(loops.commit(one__txt=LINES.replace("line 9\n", "line nine\n")))
    assert strategies(result) == [("apply", False), ("apply_3way", False), ("cherry_pick", True)]
    assert (loops.target / "moved.txt").read_text() == LINES.replace("line 9\n", "line nine\n")
    assert not (loops.target / "one.txt").exists()


@pytest.mark.parametrize(
    ("first", "second", "where"),
    [
        ({"one__txt": "mine\n"}, {"one__txt": "theirs\n"}, {"one.txt"}),
        ({"one__txt": None}, {"one__txt": LINES + "more\n"}, {"one.txt"}),
        ({"new": "a\n"}, {"new": "b\n"}, {"new"}),
        ({"src/data__bin": b"\0" * 9}, {"src/data__bin": b"\1" * 9}, {"src/data.bin"}),
        ({"a\nb": "a\n"}, {"a\nb": "b\n", "fine": "x"}, {"a\nb"}),
    ],
)
def test_what_does_not_go_together_is_handed_over_without_a_trace(
    loops: Loops, first: dict[str, str | bytes | None], second: dict[str, str | bytes | None], where: set[str]
) -> None:
    loops.integrate(loops.commit(**first))
    commit = loops.commit(**second)
    write(loops.target, "noise.log", "ignored")
    before = index_state(loops.target)
    result = loops.integrate(commit)
    assert strategies(result) == [
        ("apply", False),
        ("apply_3way", False),
        ("cherry_pick", False),
        ("handoff", False),
    ]
    assert all(set(attempt.conflicts) == where for attempt in result.attempts), result.attempts
    assert all(attempt.output for attempt in result.attempts)
    assert (result.commit, result.ok) == (None, False)
    assert index_state(loops.target) == before
    assert Git(loops.target).is_clean()
    assert leftovers(loops.target) == []
    assert sh("git", "status", "--porcelain", cwd=loops.target) == ""


def test_a_folder_where_a_file_is(loops: Loops) -> None:
    loops.integrate(loops.commit(thing="a file\n"))
    before = contents(loops.target)
    result = loops.integrate(loops.commit(**{"thing/inside": "x"}))
    assert not result.ok
    assert contents(loops.target) == before
    assert Git(loops.target).is_clean()


def test_what_is_in_already_makes_no_commit(loops: Loops) -> None:
    commit = loops.commit(one__txt="new\n")
    first = loops.integrate(commit)
    again = loops.integrate(commit)
    assert (again.ok, again.changed, again.commit) == (True, False, first.commit)
    nothing = loops.integrate(loops.repo.base)
    assert (nothing.ok, nothing.changed, nothing.commit) == (True, False, first.commit)


def test_local_edits_in_the_way(loops: Loops) -> None:
    commit = loops.commit(one__txt="new\n", two__txt="new\n")
    write(loops.target, "two.txt", "somebody's edit")
    before = index_state(loops.target)
    result = loops.integrate(commit)
    assert strategies(result) == [("apply", False), ("handoff", False)]
    assert "two.txt" in result.attempts[0].output
    assert index_state(loops.target) == before


def test_files_that_only_look_changed_are_not_in_the_way(loops: Loops) -> None:
    for name in ("one.txt", "two.txt"):
        os.utime(loops.target / name, (1000, 1000))
    assert loops.integrate(loops.commit(one__txt="new\n")).ok
    assert (loops.target / "one.txt").read_text() == "new\n"


def test_patches_of_makers_go_together_in_order(loops: Loops) -> None:
    base = loops.repo.base
    made = []
    for name, text in (("one__txt", "first\n"), ("two__txt", "second\n"), ("one__txt", "third\n")):
        commit = loops.commit(**{name: text})
        made.append(snapshot(loops.worker, base=base, message="m").change)
        assert made[-1].head_tree == loops.repo.git.tree_of(commit)
    assert apply_change(loops.target, made[0], three_way=True).method == "apply"
    assert apply_change(loops.target, made[1], three_way=True).ok
    before = index_state(loops.target)
    third = apply_change(loops.target, made[2], three_way=True)
    assert (third.ok, third.conflicts) == (False, ("one.txt",))
    assert index_state(loops.target) == before
    candidate = snapshot(loops.target, base=base, message="candidate")
    assert [file.path for file in candidate.change.files] == ["one.txt", "two.txt"]


def test_a_change_without_some_of_its_paths(loops: Loops) -> None:
    base, place = loops.repo.base, loops.worker
    (place / "one.txt").write_text("edited\n")
    (place / "two.txt").rename(place / "zwei.txt")
    (place / "link").unlink()
    (place / "link").mkdir()
    (place / "link" / "inside").write_text("x\n")
    (place / "new").write_text("x\n")
    found = snapshot(place, base=base, message="m").change
    before = index_state(place)
    rest = without(place, found, ["one.txt", "two.txt", "link", "link/inside"])
    assert index_state(place) == before
    assert [(file.path, file.status) for file in rest.files] == [("new", "A"), ("zwei.txt", "A")]
    assert without(place, found, found.paths).head_tree == loops.repo.git.tree_of(base)
    whole = apply_change(loops.target, found, three_way=True, dry=True)
    assert whole.ok
    assert snapshot(loops.target, base=base, message="m").change.files == ()


def test_sha256_repositories_and_operators_without_a_name(tmp_path: Path) -> None:
    try:
        repo = Repo.make(tmp_path / "repo", "--object-format=sha256")
    except AssertionError:
        pytest.skip("this git has no sha256 repositories")
    loops = Loops(repo)
    loops.integrate(loops.commit(one__txt="new\n"))
    result = loops.integrate(loops.commit(two__txt="new\n", src__new="x"))
    assert result.commit is not None
    assert len(result.commit) == 64
    assert land(repo.git, result_branch("m"), "main").after == result.commit
    assert repo.git.run("log", "-1", "--format=%an <%ae>").text == "meshtui <meshtui@localhost>"


# --- landing


def _result(loops: Loops) -> str:
    result = loops.integrate(loops.commit(one__txt="new\n", added="x\n"))
    assert result.commit is not None
    return result.commit


def test_land_where_it_is_checked_out(loops: Loops) -> None:
    repo = loops.repo
    commit = _result(loops)
    write(repo.top, "untracked", "stays")
    landed = land(repo.git, result_branch("m"), "main")
    assert (landed.before, landed.after, landed.changed) == (repo.base, commit, True)
    assert landed.checkout == repo.top.resolve()
    assert (repo.top / "one.txt").read_text() == "new\n"
    assert repo.git.dirty() == ["untracked"]
    assert repo.git.current_branch() == "main"
    assert not land(repo.git, result_branch("m"), "main").changed


def test_land_on_a_branch_checked_out_nowhere(loops: Loops) -> None:
    repo = loops.repo
    commit = _result(loops)
    sh("git", "branch", "release", cwd=repo.top)
    before = contents(repo.top)
    landed = land(repo.git, result_branch("m"), "release")
    assert (landed.after, landed.checkout) == (commit, None)
    assert repo.git.branch_commit("release") == commit
    assert repo.git.branch_commit("main") == repo.base
    assert contents(repo.top) == before


def test_land_refuses_and_says_what_to_do(loops: Loops) -> None:
    repo = loops.repo
    _result(loops)
    branch = result_branch("m")
    with pytest.raises(InvalidInput, match="there is no branch nothing"):
        land(repo.git, branch, "nothing")
    with pytest.raises(InvalidInput, match="there is no branch meshtui/other"):
        land(repo.git, result_branch("other"), "main")
    write(repo.top, "one.txt", "the operator's edit")
    before = fingerprint(repo.top)
    with pytest.raises(InvalidInput, match=r"not clean, 1 changed \('one.txt'\); commit or stash that"):
        land(repo.git, branch, "main")
    assert fingerprint(repo.top) == before
    sh("git", "checkout", "-q", "one.txt", cwd=repo.top)
    write(repo.top, "added", "untracked, in the way")
    before = fingerprint(repo.top)
    with pytest.raises(InvalidInput, match=r"cannot be brought to meshtui/m: .*move what is in the way"):
        land(repo.git, branch, "main")
    assert fingerprint(repo.top) == before
    (repo.top / "added").unlink()
    moved = commit_all(repo.top, "the operator goes on")
    with pytest.raises(
        InvalidInput, match="branch main has moved since meshtui/m was made; merge it yourself"
    ):
        land(repo.git, branch, "main")
    assert repo.git.branch_commit("main") == moved


def test_land_refuses_while_a_merge_or_rebase_is_unfinished(loops: Loops) -> None:
    repo = loops.repo
    _result(loops)
    (repo.top / ".git" / "MERGE_HEAD").write_text(f"{repo.base}\n")
    with pytest.raises(InvalidInput, match="unfinished there"):
        land(repo.git, result_branch("m"), "main")
    (repo.top / ".git" / "MERGE_HEAD").unlink()
    sh("git", "checkout", "-q", "-b", "topic", cwd=repo.top)
    commit_all(repo.top, "to be rebased")
    sh(
        "git",
        "rebase",
        "-q",
        "-i",
        "HEAD~1",
        cwd=repo.top,
        env={**os.environ, "GIT_SEQUENCE_EDITOR": "echo break >"},
    )
    with pytest.raises(InvalidInput, match="branch topic is being rebased in"):
        land(repo.git, result_branch("m"), "topic")


# --- discarding


def test_discard_names_what_is_lost_and_removes_the_rest(loops: Loops) -> None:
    repo = loops.repo
    loop = repo.worktree("loop", branch=loop_branch("m", "a"))
    throwaway = repo.worktree("mission m/checker")
    other = repo.worktree("other", branch=loop_branch("m2", "a"))
    write(loop, "one.txt", "kept on the branch")
    reset_to(
        loop, snapshot(loop, base=repo.base, message="candidate of a").commit, branch=loop_branch("m", "a")
    )
    write(loop, "not\ncommitted", "x")
    write(throwaway, "note", "x")
    before = fingerprint(repo.top)
    found = discardable(repo.git, "m", roots=[throwaway.parent])
    assert set(found.branches) == {result_branch("m"), loop_branch("m", "a")}
    assert set(found.worktrees) == {loop, throwaway, loops.target}
    at = found.branches[loop_branch("m", "a")]
    assert set(found.lost) == {
        f"{loop}: not\ncommitted",
        f"{throwaway}: note",
        f"commit {at[:7]} candidate of a",
    }
    discard(repo.git, found)
    assert {each.path for each in list_worktrees(repo.git)} == {repo.top.resolve(), loops.worker, other}
    assert repo.git.branches("meshtui-loops") == {loop_branch("m2", "a"): repo.base}
    assert repo.git.branches("meshtui") == {}
    assert fingerprint(repo.top) == before
    again = discardable(repo.git, "m")
    assert (again.branches, again.worktrees, again.lost) == ({}, (), ())
    discard(repo.git, again)


def test_discard_of_landed_work_loses_nothing(loops: Loops) -> None:
    _result(loops)
    land(loops.repo.git, result_branch("m"), "main")
    assert discardable(loops.repo.git, "m").lost == ()


def test_discard_loses_nothing_that_landed_as_another_commit(loops: Loops) -> None:
    repo = loops.repo
    branch = loop_branch("m", "a")
    loop = repo.worktree("loop", branch=branch)
    for number in (1, 2):
        # Two candidates, of which the second landed as one commit.
        write(loop, "one.txt", f"iteration {number}\n")
        reset_to(loop, snapshot(loop, base=repo.base, message=f"candidate {number}").commit, branch=branch)
    write(repo.top, "before.txt", "somebody else's\n")
    commit_all(repo.top, "before")
    write(repo.top, "one.txt", "iteration 2\n")
    commit_all(repo.top, "landed in other words")
    assert discardable(repo.git, "m").lost == ()
    write(loop, "two.txt", "more\n")
    reset_to(loop, snapshot(loop, base=repo.base, message="candidate 3").commit, branch=branch)
    assert any(line.endswith(" candidate 3") for line in discardable(repo.git, "m").lost)


def test_discard_names_a_binary_change_even_if_it_may_have_landed(loops: Loops) -> None:
    repo = loops.repo
    branch = loop_branch("m", "a")
    loop = repo.worktree("loop", branch=branch)
    for place, data in ((loop, b"\0one"), (repo.top, b"\0two")):
        (place / "picture.png").write_bytes(data)
    reset_to(loop, snapshot(loop, base=repo.base, message="a picture").commit, branch=branch)
    commit_all(repo.top, "another picture")
    assert len(discardable(repo.git, "m").lost) == 1


def test_discard_stops_at_what_is_new_since(loops: Loops) -> None:
    repo = loops.repo
    found = discardable(repo.git, "m")
    write(loops.target, "late", "x")
    with pytest.raises(InvalidInput, match="written since: 'late'"):
        discard(repo.git, found)
    (loops.target / "late").unlink()
    _result(loops)
    with pytest.raises(InvalidInput, match="branch meshtui/m has moved since"):
        discard(repo.git, found)
    assert loops.target.exists()


def test_a_branch_moved_by_another_process_stops_the_commit(
    loops: Loops, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = loops.commit(one__txt="new\n")
    real = Git.commit_tree

    def meanwhile(self: Git, *args: object, **options: object) -> str:
        sh("git", "commit", "-q", "--allow-empty", "-m", "x", cwd=loops.target, env=_operator())
        return real(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Git, "commit_tree", meanwhile)
    with pytest.raises(GitError, match="update-ref"):
        loops.integrate(commit)


def _operator() -> dict[str, str]:
    who = {f"GIT_{role}_{part}": "o@x" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    return {**os.environ, **who}
