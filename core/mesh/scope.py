"""Paths a loop may change: how they are written, which of them touch each other, what a glob matches.

Paths are relative to the repository with ``/`` between their parts; ``.`` is all of it. Two paths touch
when one is the other or lies inside it, part by part: ``src/a`` and ``src/ab`` do not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Literal

from meshtui.core.errors import InvalidInput
from meshtui.core.models.envelope import show
from meshtui.core.models.mesh import OwnerScope

ROOT = "."
Relation = Literal["same", "inside", "contains", "case"]

_GLOB = re.compile(r"[*?\[]")
_DRIVE = re.compile(r"[A-Za-z]:")


def normalise(path: object, *, what: str = "path") -> str:
    """``path`` as scopes write it; raises :class:`InvalidInput` if it could leave the repository.

    Refused: absolute paths, ``..``, anything in a ``.git``, backslashes before a drive or as separators
    of ``..``, NUL, and names that are not Unicode, which no plan can hold.
    """
    if not isinstance(path, str) or not path.strip():
        raise InvalidInput(f"{what} must be a non-empty path, not {show(path)}", field=what)
    problem = _problem(path)
    if problem:
        raise InvalidInput(f"{what} {show(path)} {problem}", field=what)
    parts = [part for part in path.split("/") if part not in ("", ROOT)]
    return "/".join(parts) or ROOT


def _problem(path: str) -> str:
    if "\0" in path:
        return "holds a NUL character"
    if path.startswith(("/", "~/", "\\")) or path == "~" or _DRIVE.match(path):
        return "is not relative to the repository"
    parts = re.split(r"[/\\]", path)
    if ".." in parts:
        return "leaves the repository: .. is not allowed"
    if any(part.lower() == ".git" for part in parts):
        return "lies in .git, which no loop may change"
    try:
        path.encode()
    except UnicodeEncodeError:
        return "is not Unicode"
    return ""


def parts_of(path: str) -> tuple[str, ...]:
    """The parts of a normalised path; none for the whole repository."""
    return () if path == ROOT else tuple(path.split("/"))


def holds(entry: str, path: str) -> bool:
    """Whether ``path`` is ``entry`` or lies inside it."""
    return entry in (ROOT, path) or path.startswith(entry + "/")


def relation(one: str, other: str) -> Relation | None:
    """How two normalised paths touch, seen from ``one``; ``case`` where only case keeps them apart."""
    if one == other:
        return "same"
    if holds(other, one):
        return "inside"
    if holds(one, other):
        return "contains"
    low, high = one.casefold(), other.casefold()
    if holds(low, high) or holds(high, low):
        return "case"
    return None


def overlaps(one: OwnerScope, other: OwnerScope) -> list[tuple[str, str, Relation]]:
    """Every pair of entries of two scopes that touch, in the order of the entries."""
    found = []
    for mine in one.entries:
        for theirs in other.entries:
            how = relation(mine, theirs)
            if how is not None:
                found.append((mine, theirs, how))
    return found


class ScopeIndex:
    """Who owns which paths: finds the owners that touch a path without looking at all of them."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, ...], list[tuple[int, str]]] = {}
        self._below: dict[tuple[str, ...], list[tuple[int, str]]] = {}

    def touching(self, path: str) -> Iterator[tuple[int, str]]:
        """(owner, its entry) for each entry that touches ``path``, case ignored."""
        parts = parts_of(path.casefold())
        for length in range(len(parts)):
            yield from self._owners.get(parts[:length], ())
        yield from self._below.get(parts, ())

    def add(self, owner: int, path: str) -> None:
        """Note that ``owner`` has ``path``."""
        parts = parts_of(path.casefold())
        self._owners.setdefault(parts, []).append((owner, path))
        for length in range(len(parts) + 1):
            self._below.setdefault(parts[:length], []).append((owner, path))


def reduced(entries: Iterable[str]) -> list[str]:
    """``entries`` without those that lie inside another one, in their order."""
    listed = list(dict.fromkeys(entries))
    have = set(listed)
    if ROOT in have:
        return [ROOT]

    def covered(entry: str) -> bool:
        parts = entry.split("/")
        return any("/".join(parts[:length]) in have for length in range(1, len(parts)))

    return [entry for entry in listed if not covered(entry)]


# --- globs -------------------------------------------------------------------------------------


def is_glob(text: str) -> bool:
    """Whether ``text`` has characters that stand for others."""
    return _GLOB.search(text) is not None


def glob_parts(glob: str) -> tuple[str, ...]:
    """The parts of ``glob``; one without an inner ``/`` may match at any depth, as in ``.gitignore``."""
    anchored = "/" in glob.rstrip("/")
    parts = tuple(part for part in glob.split("/") if part not in ("", ROOT))
    return parts if anchored or not parts or parts[0] == "**" else ("**", *parts)


@lru_cache(maxsize=1024)
def _matcher(glob: str) -> Callable[[str], object]:
    """A regular expression for whole paths: a match of a folder matches all that lies in it."""
    parts = glob_parts(glob)
    if not parts:
        return re.compile(r"(?s:.*)").match
    pieces = []
    for part in parts[:-1]:
        pieces.append("(?:[^/]+/)*" if part == "**" else _part_regex(part) + "/")
    last = parts[-1]
    if last == "**":
        pieces.append("(?s:.+)")
    elif glob.endswith("/"):
        pieces.append(_part_regex(last) + "/(?s:.+)")
    else:
        pieces.append(_part_regex(last) + "(?:/(?s:.+))?")
    return re.compile("".join(pieces) + r"\Z").match


def _part_regex(part: str) -> str:
    """``part`` as a regular expression whose wildcards stay within one part of a path."""
    out, at = [], 0
    while at < len(part):
        char = part[at]
        if char == "*":
            while at + 1 < len(part) and part[at + 1] == "*":
                at += 1
            out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "[" and (end := part.find("]", at + 2)) > 0:
            inside = part[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            inside = "^/" + inside[1:] if inside[0] == "!" else inside.replace("^", "\\^")
            out.append(f"[{inside}]")
            at = end
        else:
            out.append(re.escape(char))
        at += 1
    return "".join(out)


def matches(glob: str, path: str) -> bool:
    """Whether ``glob`` matches ``path`` or a folder it lies in.

    ``*`` and ``?`` stay within one part, ``**`` is any number of parts, a glob without ``/`` matches at
    any depth, a ``/`` at its end matches folders only. A class that is no regular one matches nothing.
    """
    try:
        return _matcher(glob)(path) is not None
    except re.error:
        return False


def could_match(glob: str, directory: str) -> bool:
    """Whether ``glob`` might match a path inside ``directory``, whatever its name."""
    want, have = glob_parts(glob), parts_of(directory)
    seen = {0}
    for part in have:
        after = set()
        for at in seen:
            while at < len(want) and want[at] == "**":
                after.add(at)
                at += 1
            if at < len(want) and _matches_part(want[at], part):
                after.add(at + 1)
        if len(want) in after:
            return True
        seen = after
    return bool(seen)


def _matches_part(pattern: str, part: str) -> bool:
    try:
        return re.fullmatch(_part_regex(pattern), part) is not None
    except re.error:
        return False


def touches(glob: str, scope: OwnerScope) -> bool:
    """Whether a change inside ``scope`` might match ``glob``."""
    return any(matches(glob, path) for path in scope.files) or any(
        could_match(glob, path) for path in scope.directories
    )
