"""Paths: what may stand in a scope, which touch each other, what globs match."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshtui.core.errors import InvalidInput
from meshtui.core.mesh.scope import (
    ScopeIndex,
    could_match,
    holds,
    matches,
    normalise,
    overlaps,
    reduced,
    relation,
    touches,
)
from meshtui.core.models.mesh import OwnerScope

PARTS = st.sampled_from(["a", "b", "ab", "A", "é", "x.py", "-x", "a -> b"])
PATHS = st.lists(PARTS, min_size=1, max_size=4).map("/".join) | st.just(".")
GLOBS = st.lists(
    st.sampled_from(["a", "b", "*", "**", "?", "*.py", "[ab]", "[!a]", "a*"]), min_size=1, max_size=4
).map("/".join)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("src", "src"),
        ("./src/", "src"),
        ("src//a/./b", "src/a/b"),
        (".", "."),
        ("./", "."),
        ("a -> b", "a -> b"),
        ("-x", "-x"),
        ("é.txt", "é.txt"),
        ("new\nline", "new\nline"),
        (".github/workflows", ".github/workflows"),
        ("a..b", "a..b"),
        (".gitignore", ".gitignore"),
    ],
)
def test_paths_are_written_one_way(given: str, path: str) -> None:
    assert normalise(given) == path


@pytest.mark.parametrize(
    "given",
    [
        "",
        " ",
        "/etc/passwd",
        "..",
        "../x",
        "a/../../x",
        "a/..",
        "..\\x",
        "a\\..\\x",
        "C:/x",
        "c:x",
        "\\\\server\\x",
        "~/x",
        "~",
        ".git",
        ".git/hooks",
        "a/.GIT/config",
        "a\0b",
        "\udcff",
        None,
        7,
    ],
)
def test_what_could_leave_the_repository_is_refused(given: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        normalise(given, what="domains.x.paths")
    assert caught.value.field == "domains.x.paths"
    assert str(caught.value).startswith("domains.x.paths ")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("one", "other", "how"),
    [
        ("src", "src", "same"),
        ("src", "src/a", "contains"),
        ("src/a", "src", "inside"),
        ("src/a", "src/ab", None),
        ("src", "srcs", None),
        (".", "x/y", "contains"),
        ("x/y", ".", "inside"),
        ("Docs", "docs", "case"),
        ("Docs/a", "docs", "case"),
        ("a/B", "A/b/c", "case"),
        ("a", "b", None),
    ],
)
def test_how_paths_touch(one: str, other: str, how: str | None) -> None:
    assert relation(one, other) == how


@given(PATHS, PATHS)
def test_touching_is_mutual(one: str, other: str) -> None:
    opposite = {"same": "same", "inside": "contains", "contains": "inside", "case": "case", None: None}
    assert relation(other, one) == opposite[relation(one, other)]


@given(PATHS)
def test_a_written_path_stays_as_it_is(path: str) -> None:
    assert normalise(path) == path


@given(st.lists(PATHS, max_size=8), PATHS)
def test_the_index_finds_what_comparing_finds(entries: list[str], path: str) -> None:
    index = ScopeIndex()
    for owner, entry in enumerate(entries):
        index.add(owner, entry)
    expected = {(owner, entry) for owner, entry in enumerate(entries) if relation(entry, path) is not None}
    found = list(index.touching(path))
    assert set(found) == expected
    assert len(found) == len(expected)


@given(st.lists(PATHS, max_size=8))
def test_reducing_keeps_what_is_owned(entries: list[str]) -> None:
    fewer = reduced(entries)
    assert all(any(holds(one, entry) for one in fewer) for entry in entries)
    assert not any(holds(one, other) for one in fewer for other in fewer if one != other)


def test_overlaps_of_scopes_names_every_pair() -> None:
    one = OwnerScope(files=["a/x.py"], directories=["src"])
    other = OwnerScope(directories=["a", "src/b", "c"])
    assert overlaps(one, other) == [("a/x.py", "a", "inside"), ("src", "src/b", "contains")]


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("*.py", "a/b/c.py", True),
        ("*.py", "c.pyc", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/a/b.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/a/b/c.py", True),
        ("src/**", "src/a/b", True),
        ("src/**", "src", False),
        ("src", "src/a", True),
        ("src", "x/src/a", True),
        ("/src", "x/src/a", False),
        ("src/", "src", False),
        ("src/", "src/a", True),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("[ab].py", "b.py", True),
        ("[!ab].py", "b.py", False),
        ("[!ab].py", "c.py", True),
        ("**", "x", True),
        ("**/x", "x", True),
        ("a/**/b", "a/b", True),
        ("a+b", "a+b", True),
        ("a+b", "aab", False),
        ("[z-a]", "z", False),
        ("*.py", "new\nline.py", True),
        ("[^a]", "^", True),
    ],
)
def test_globs(glob: str, path: str, fits: bool) -> None:
    assert matches(glob, path) is fits


@given(GLOBS, PATHS.filter(lambda path: path != "."), PATHS.filter(lambda path: path != "."))
def test_what_lies_in_a_folder_and_matches_could_match_there(glob: str, folder: str, rest: str) -> None:
    if matches(glob, f"{folder}/{rest}"):
        assert could_match(glob, folder)
        assert could_match(glob, ".")
        assert touches(glob, OwnerScope(directories=[folder]))


@pytest.mark.parametrize(
    ("glob", "folder", "could"),
    [
        ("src/**/*.py", "docs", False),
        ("src/**/*.py", "src/a", True),
        ("src/*.py", "src/a", False),
        ("*.py", "docs", True),
        ("src", "src/a/b", True),
        ("src/a/b.py", "src", True),
    ],
)
def test_whether_a_folder_could_hold_a_match(glob: str, folder: str, could: bool) -> None:
    assert could_match(glob, folder) is could
