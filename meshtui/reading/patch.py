"""A patch taken apart: files, hunks, lines; whatever it holds, nothing makes it fail."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

_HUNK: Final = re.compile(r"^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?(.*)$", re.DOTALL)
_GIT: Final = re.compile(
    r'^diff --git (?:"a/(?P<qa>(?:[^"\\]|\\.)*)"|a/(?P<a>.*?)) (?:"b/(?P<qb>(?:[^"\\]|\\.)*)"|b/(?P<b>.*))$'
)
_ESCAPE: Final = re.compile(r"\\([0-7]{1,3}|.)")
_LETTERS: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_QUIET: Final = ("index ", "--- ", "+++ ", "similarity index", "dissimilarity index")
MOST_NOTES: Final = 200
"""Lines kept of what is no hunk, for each file."""


@dataclass(slots=True)
class Hunk:
    """Lines that changed together."""

    old: int
    """The number its first line had."""
    new: int
    """The number its first line has."""
    heading: str = ""
    """What it stands in, as git says it."""
    lines: list[str] = field(default_factory=list)
    """Each with its mark: ``+``, ``-``, a space, or a backslash for a remark of git."""


@dataclass(slots=True)
class FilePatch:
    """What became of one file."""

    path: str
    old_path: str | None = None
    """Where it was, if it was renamed or copied."""
    status: str = "M"
    words: list[str] = field(default_factory=list)
    """What else changed: ``renamed from x``, ``mode 644 to 755``, ``binary``."""
    binary: bool = False
    added: int = 0
    removed: int = 0
    hunks: list[Hunk] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Lines that are no part of a hunk and say something else."""


def unquoted(name: str) -> str:
    """A path as git quotes it, read: escapes are bytes of UTF-8."""
    if not (len(name) >= 2 and name[0] == name[-1] == '"'):
        return name.rstrip("\t\n")
    return _unescaped(name[1:-1])


def _unescaped(text: str) -> str:
    def byte(match: re.Match[str]) -> str:
        one = match[1]
        if one[0] in "01234567":
            return chr(int(one, 8) & 0xFF)
        return _LETTERS.get(one, one)

    if "\\" not in text:
        return text
    # What is escaped is bytes, what is not may be any character already.
    raw = b"".join(
        byte(found).encode("latin-1", "replace")
        if (found := _ESCAPE.fullmatch(part))
        else part.encode("utf-8", "replace")
        for part in re.split(r"(\\(?:[0-7]{1,3}|.))", text)
        if part
    )
    return raw.decode("utf-8", "replace")


def parse(lines: Sequence[str]) -> list[FilePatch]:
    """The files of a patch, in its order; what stands before the first one is left out."""
    files: list[FilePatch] = []
    reader = _Reader(lines)
    while (line := reader.next()) is not None:
        if line.startswith(("diff --git ", "diff --cc ", "diff --combined ")):
            files.append(FilePatch(_name_of(line)))
        elif not files:
            if line.startswith("--- "):
                # A patch that git did not make.
                files.append(FilePatch(_side(line[4:], "a/") or ""))
            continue
        elif line.startswith("@@ ") and (found := _HUNK.match(line)):
            reader.hunk(files[-1], found)
        elif line.startswith("--- ") and files[-1].hunks:
            files.append(FilePatch(_side(line[4:], "a/") or ""))
        else:
            _header(files[-1], line, reader)
    return files


def _name_of(line: str) -> str:
    found = _GIT.match(line)
    if found is None:
        return unquoted(line.split(" ", 2)[2])
    if found["qb"] is not None:
        return _unescaped(found["qb"])
    # Both names are the same where nothing says otherwise; a name may hold " b/".
    rest = line.removeprefix("diff --git ")
    half = (len(rest) - 1) // 2
    if len(rest) % 2 and rest[half] == " " and rest[2:half] == rest[half + 3 :]:
        return rest[half + 3 :]
    return found["b"] or rest


def _side(name: str, prefix: str) -> str | None:
    name = name.split("\t")[0]
    shown = unquoted(name)
    return None if shown == "/dev/null" else shown.removeprefix(prefix)


def _mode(text: str) -> str:
    """A mode as people write it: the rights, and what it is where it is no file."""
    kinds = {"120": "symlink", "160": "submodule", "040": "folder"}
    return kinds.get(text[:3], text[-3:])


def _header(file: FilePatch, line: str, reader: _Reader) -> None:
    head, _, rest = line.partition(" ")
    if line.startswith("new file mode "):
        file.status = "A"
        file.words.append(f"new {_kind(line)}")
    elif line.startswith("deleted file mode "):
        file.status = "D"
        file.words.append(f"deleted {_kind(line)}")
    elif line.startswith("old mode "):
        file.words.append(f"mode {_mode(line.removeprefix('old mode '))}")
    elif line.startswith("new mode "):
        mode = _mode(line.removeprefix("new mode "))
        if file.words and file.words[-1].startswith("mode ") and " to " not in file.words[-1]:
            file.words[-1] += f" to {mode}"
        else:
            file.words.append(f"mode {mode}")
    elif line.startswith(("rename from ", "copy from ")):
        file.old_path = unquoted(rest.removeprefix("from "))
        file.status = "R" if head == "rename" else "C"
        file.words.append(f"{'renamed' if head == 'rename' else 'copied'} from {file.old_path}")
    elif line.startswith(("rename to ", "copy to ")):
        file.path = unquoted(rest.removeprefix("to "))
    elif line.startswith("+++ ") and not file.hunks:
        file.path = _side(line[4:], "b/") or file.path
    elif line.startswith("Binary files "):
        _binary(file, "binary")
    elif line.startswith("GIT binary patch"):
        _binary(file, f"binary{reader.skip_binary()}")
    elif line and not line.startswith(_QUIET) and len(file.notes) < MOST_NOTES:
        file.notes.append(line)


def _kind(line: str) -> str:
    mode = line.rpartition(" ")[2]
    kind = _mode(mode)
    if kind in ("symlink", "submodule", "folder"):
        return kind
    return (
        "file"
        if kind in ("644", "664", "600")
        else "executable file"
        if kind in ("755", "775")
        else f"file, mode {kind}"
    )


def _binary(file: FilePatch, word: str) -> None:
    if not file.binary:
        file.binary = True
        file.words.append(word)


class _Reader:
    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._at = 0

    def next(self) -> str | None:
        if self._at >= len(self._lines):
            return None
        self._at += 1
        return self._lines[self._at - 1]

    def skip_binary(self) -> str:
        """Pass over encoded bytes; how many they are, in words."""
        said = ""
        while self._at < len(self._lines) and not self._lines[self._at].startswith(
            ("diff --", "@@ ", "--- ")
        ):
            line = self._lines[self._at]
            size = line.removeprefix("literal ")
            if (
                not said
                and line.startswith("literal ")
                and size.isascii()
                and size.isdecimal()
                and len(size) < 16
            ):
                said = f", {int(size):,} bytes"
            self._at += 1
        return said

    def hunk(self, file: FilePatch, found: re.Match[str]) -> None:
        """Take as many lines as the hunk says it has, fewer where they are not there."""
        old_left = int(found[2]) if found[2] is not None else 1
        new_left = int(found[4]) if found[4] is not None else 1
        hunk = Hunk(int(found[1]), int(found[3]), found[5])
        file.hunks.append(hunk)
        lines, at = self._lines, self._at
        while at < len(lines):
            line = lines[at]
            mark = line[:1] or " "
            if mark == "\\":
                hunk.lines.append(line)
                at += 1
                continue
            if mark not in "+- " or (old_left <= 0 and new_left <= 0):
                break
            if mark == "+":
                new_left, file.added = new_left - 1, file.added + 1
            elif mark == "-":
                old_left, file.removed = old_left - 1, file.removed + 1
            else:
                old_left, new_left = old_left - 1, new_left - 1
            hunk.lines.append(line or " ")
            at += 1
        self._at = at
