"""Patches are taken apart whatever they hold, and those that git makes are read as git means them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from meshtui.reading.patch import parse, unquoted
from meshtui.widgets.patch_doc import PatchDoc

HOSTILE = st.lists(
    st.one_of(
        st.sampled_from([
            "diff --git a/x b/x", 'diff --git "a/\\303\\244" "b/\\303\\244"', "diff --git ", "diff --cc x", "--- a/x", "+++ b/x", "--- ", "+++ ",
            "@@ -1,2 +1,3 @@ def f", "@@ -1 +1 @@", "@@ -999999999,999999999 +1,0 @@", "@@ bad @@", "@@ -0,0 +1,2 @@", "+added", "-gone", " same", "",
            "\\ No newline at end of file", "GIT binary patch", "literal 12", "literal x", "Binary files a/x and b/x differ", "rename from a b",
            "rename to c", "old mode 100644", "new mode 100755", "new file mode 120000", "deleted file mode 100644", "index 1..2 100644",
            "+++ looks like a header", "--- looks like one", "+\x1b[31m\r", "-\u202e", "copy from x", "similarity index 90%",
        ]),
        st.text(max_size=30).filter(lambda text: "\n" not in text),
    ),
    max_size=40,
)  # fmt: skip


@settings(deadline=None, max_examples=400)
@given(HOSTILE, st.integers(5, 120))
def test_nothing_makes_it_fail_and_no_line_is_counted_twice(lines: list[str], width: int) -> None:
    files = parse(lines)
    assert sum(len(hunk.lines) for file in files for hunk in file.hunks) <= len(lines)
    for file in files:
        inside = [line for hunk in file.hunks for line in hunk.lines]
        assert file.added == sum(line.startswith("+") for line in inside)
        assert file.removed == sum(line.startswith("-") for line in inside)
    doc = PatchDoc(lines)
    doc.fit(width)
    for index in range(len(doc)):
        line, shape = doc.line(index), doc.shape(index)
        assert line.text == shape.text
        assert all(ord(one) >= 32 for one in line.text)
        assert "\u202e" not in line.text
    at: int | None = 0
    seen = -1
    while at is not None and at > seen:
        seen, at = at, doc.jump(at, 1, big=False)


def git(repo: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(repo), "-c", "user.name=x", "-c", "user.email=x@x", *arguments],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip


def test_what_git_says_is_said_in_words(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "mode.sh").write_text("#!/bin/sh\n")
    (tmp_path / "old name.txt").write_text("".join(f"{n}\n" for n in range(30)))
    (tmp_path / "gone.txt").write_text("x\n")
    (tmp_path / "bin").write_bytes(bytes(range(256)))
    (tmp_path / "ähnlich.txt").write_text("a\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    (tmp_path / "mode.sh").chmod(0o755)
    (tmp_path / "old name.txt").rename(tmp_path / "new name.txt")
    with (tmp_path / "new name.txt").open("a") as file:
        file.write("--- more\n+++ text\n")
    (tmp_path / "gone.txt").unlink()
    (tmp_path / "bin").write_bytes(bytes(range(255, -1, -1)))
    (tmp_path / "ähnlich.txt").write_text("b")
    (tmp_path / "new.py").write_text("def f():\n    return 1\n")
    git(tmp_path, "add", ".")
    patch = git(tmp_path, "diff", "--cached", "--binary", "--find-renames")
    found = {file.path: file for file in parse(patch.split("\n"))}
    assert set(found) == {"mode.sh", "new name.txt", "gone.txt", "bin", "ähnlich.txt", "new.py"}
    assert found["mode.sh"].words == ["mode 644 to 755"]
    assert found["new name.txt"].words == ["renamed from old name.txt"]
    assert (found["new name.txt"].status, found["new name.txt"].added) == ("R", 2)
    assert found["gone.txt"].words == ["deleted file"]
    assert found["bin"].binary
    assert found["bin"].words == ["binary, 256 bytes"]
    assert (found["ähnlich.txt"].added, found["ähnlich.txt"].removed) == (1, 1)
    assert found["ähnlich.txt"].hunks[0].lines[-1].startswith("\\")
    assert found["new.py"].status == "A"


def test_lines_have_the_numbers_they_have(tmp_path: Path) -> None:
    doc = PatchDoc(
        [
            "diff --git a/x.py b/x.py",
            "--- a/x.py",
            "+++ b/x.py",
            "@@ -10,3 +20,3 @@ def f",
            " a",
            "-b",
            "+c",
            " d",
            "",
        ]
    )
    numbers = [doc.line(at).lead[0][0].strip() for at in range(len(doc)) if doc.line(at).lead]
    assert numbers == ["20", "11", "21", "22"]
    found = doc.file_at(len(doc) - 1)
    assert found is not None
    assert (found[0].path, found[1]) == ("x.py", 22)


def test_code_is_coloured_and_its_text_stays_as_it_is() -> None:
    doc = PatchDoc(
        ["diff --git a/x.py b/x.py", "+++ b/x.py", "@@ -0,0 +1,2 @@", "+def f(a):", "+    return 'x'  # why"]
    )
    looks = {look for at in range(len(doc)) for _text, look in doc.line(at).spans}
    assert {"word", "string", "comment", "name"} <= looks
    grounds = {doc.line(at).ground for at in range(len(doc))}
    assert grounds == {None, "added"}


def test_quoted_names() -> None:
    assert unquoted('"a\\tb\\"c\\\\"') == 'a\tb"c\\'
    assert unquoted('"\\303\\244\\377"') == "ä\ufffd"
    assert unquoted("plain") == "plain"
