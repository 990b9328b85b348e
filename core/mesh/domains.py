"""Which parts of a repository a request is about: configured domains, or those its tree suggests.

A request mentions a domain by its name, an alias, a path or a file name. Only if it mentions none, words
that are the names of modules count; if that selects nothing either, one general loop owns the source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from meshtui.core.config import plain
from meshtui.core.errors import InvalidInput
from meshtui.core.mesh import risk
from meshtui.core.mesh import scope as paths
from meshtui.core.mesh.risk import names
from meshtui.core.mesh.tree import Domain, Tree, infer, source_of
from meshtui.core.models.config import DomainConfig
from meshtui.core.models.envelope import show

__all__ = ["Domain", "Overlap", "Selection", "Tree", "configured", "domains_of", "infer", "select"]

MIN_LOOPS, MAX_LOOPS, DEFAULT_LOOPS = 1, 32, 8
MAX_GLOB_FILES = 500
MAX_REQUEST_TOKENS = 20_000
MAX_HOLDERS = 16
"""A file name that more folders than this have (``__init__.py``) says nothing about any of them."""
GENERAL = "general"
FILES = "files"

Confidence = Literal["high", "medium", "low"]

_TOKEN = re.compile(r"[^\s\"'`<>(){}\[\],;|]+")
_WORD = re.compile(r"\w+")
_DULL = names(
    "a an and the of to in on for with all any new add fix use run set get let make move put main index utils "
    "util common helpers helper base types init app core lib src mod test tests this that from into"
)
"""Too common to tell what a request is about."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two selected domains whose paths touch, and what was done about it."""

    first: str
    second: str
    paths: tuple[tuple[str, str, str], ...]
    """(path of the first, path of the second, how they touch)."""
    action: Literal["joined", "ordered"]


@dataclass(frozen=True, slots=True)
class Selection:
    """What a request is about."""

    domains: tuple[Domain, ...]
    truncated: tuple[str, ...]
    """Ids of domains it mentions that there was no loop for."""
    overlaps: tuple[Overlap, ...]
    confidence: Confidence
    """high: mentioned by name, alias or path; medium: by a module's name; low: the general loop."""
    reasons: dict[str, str]
    """Why each domain was selected."""


def configured(configs: Sequence[DomainConfig], tree: Tree) -> list[Domain]:
    """The domains of ``[[domains]]``; raises :class:`InvalidInput` for a path no loop may own.

    ``x/**`` is folder ``x``; other globs stand for the tracked files they match now. A path nothing
    tracked has is taken for a folder if it ends in ``/`` or its name has no ending.
    """
    found = []
    for config in configs:
        what = f"domains.{plain(config.id)}.paths"
        files: list[str] = []
        folders: list[str] = []
        for given in config.paths:
            for path, is_folder in _expand(given, tree, what):
                (folders if is_folder else files).append(path)
        if not files and not folders:
            raise InvalidInput(f"{what} names nothing: give the domain at least one path", field=what)
        found.append(
            Domain(
                config.id,
                "configured",
                tuple(dict.fromkeys(files)),
                tuple(dict.fromkeys(folders)),
                config.aliases,
                config.gates,
                config.risk,
                config.engine,
            )
        )
    return found


def _expand(given: str, tree: Tree, what: str) -> list[tuple[str, bool]]:
    path = paths.normalise(given, what=what)
    if paths.is_glob(path) and path not in tree.known:
        stem = path.removesuffix("/**")
        if path == "**":
            return [(paths.ROOT, True)]
        if stem != path and not paths.is_glob(stem):
            return [(stem, True)]
        hits = [file for file in tree.files if paths.matches(path, file)]
        if not hits or len(hits) > MAX_GLOB_FILES:
            many = f"matches {len(hits)} files, more than {MAX_GLOB_FILES}: name their folder"
            said = many if hits else "matches no tracked file"
            raise InvalidInput(f"{what}: {show(given)} {said}", field=what)
        return [(file, False) for file in hits]
    if path in tree.folders:
        return [(path, True)]
    name = path.rpartition("/")[2]
    is_file = path in tree.known or (not given.endswith("/") and "." in name[1:])
    return [(path, not is_file)]


def domains_of(configs: Sequence[DomainConfig], tree: Tree) -> list[Domain]:
    """The configured domains, or, where none is configured, the inferred ones."""
    return configured(configs, tree) if configs else infer(tree)


# --- what a request mentions -------------------------------------------------------------------


class _Request:
    """The paths a request mentions and its other words, with the place of each."""

    def __init__(self, text: str, tree: Tree, domains: Sequence[Domain]) -> None:
        known = {name.lower() for domain in domains for name in (domain.id, *domain.aliases)}
        self.tokens: dict[str, int] = {}
        self.paths: dict[str, list[str]] = {}
        """Tokens that are paths, and which ones they may be."""
        self.names: dict[str, int] = {}
        """Tokens that are names of domains as they stand, lower case."""
        self.words: dict[str, int] = {}
        self.line = " "
        for number, found in enumerate(_TOKEN.finditer(text)):
            if number == MAX_REQUEST_TOKENS:
                break
            token = found[0].rstrip(".:!?").removeprefix("./").rstrip("/")
            if token and token not in self.tokens:
                self.tokens[token] = found.start()
                self.paths[token] = _paths_for(token, tree)
            # The parts of a path or of a longer name are no names: a/b.py and a-b are not about a.
            if token.lower() in known and not _WORD.fullmatch(token):
                self.names.setdefault(token.lower(), found.start())
            elif not (self.paths.get(token) and re.search(r"[/.]", token)):
                self._add_words(found[0], found.start())

    def _add_words(self, text: str, place: int) -> None:
        for found in _WORD.finditer(text):
            word = found[0].lower()
            for name in (word, *word.split("_")):
                self.words.setdefault(name, place + found.start())
            self.line += " ".join(part for part in word.split("_") if part) + " "

    def place(self, name: str) -> int | None:
        """Where ``name`` (one word or several, any case) stands; ``None`` if it does not."""
        if name.lower() in self.names:
            return self.names[name.lower()]
        parts = [part for part in _WORD.findall(name.lower().replace("_", " ")) if part]
        if not parts:
            return None
        if len(parts) == 1:
            return self.words.get(parts[0])
        return self.words.get(parts[0]) if f" {' '.join(parts)} " in self.line else None


def select(
    request: str, domains: Sequence[Domain], tree: Tree, *, max_loops: int = DEFAULT_LOOPS
) -> Selection:
    """The domains ``request`` is about, in the order in which it mentions them, at most ``max_loops``.

    Inferred domains inside one another are joined into the outer one; configured ones stay apart and are
    ordered, since each has settings of its own. Raises :class:`InvalidInput` for a limit that is none.
    """
    if isinstance(max_loops, bool) or not MIN_LOOPS <= max_loops <= MAX_LOOPS:
        raise InvalidInput(
            f"max_loops must be {MIN_LOOPS} to {MAX_LOOPS}, not {show(max_loops)}", field="max_loops"
        )
    asked = _Request(request, tree, domains)
    found = _mentioned(asked, domains, tree)
    confidence: Confidence = "high"
    if not found:
        found, confidence = _by_modules(asked, domains, tree), "medium"
    if not found:
        general = _general(domains, tree)
        return Selection(
            (general,), (), (), "low", {general.id: "the request names no part of the repository"}
        )
    ordered = sorted(found.values(), key=lambda hit: (hit.place, hit.number))
    chosen, overlaps = _untangle([hit.domain for hit in ordered])
    kept = chosen[:max_loops]
    ids = {domain.id for domain in kept}
    return Selection(
        tuple(kept),
        tuple(domain.id for domain in chosen[max_loops:]),
        tuple(lap for lap in overlaps if lap.action == "joined" or {lap.first, lap.second} <= ids),
        confidence,
        {hit.domain.id: hit.reason for hit in ordered if hit.domain.id in ids},
    )


@dataclass(frozen=True, slots=True)
class _Hit:
    domain: Domain
    number: int
    place: int
    reason: str


def _mentioned(asked: _Request, domains: Sequence[Domain], tree: Tree) -> dict[str, _Hit]:
    found: dict[str, _Hit] = {}

    def note(number: int, place: int, reason: str) -> None:
        domain = domains[number]
        if domain.id not in found or place < found[domain.id].place:
            found[domain.id] = _Hit(domain, number, place, reason)

    for number, domain in enumerate(domains):
        for name in (domain.id, *domain.aliases):
            place = asked.place(name)
            if place is not None and not (domain.kind == "source" and name.lower() in _DULL):
                note(number, place, f"the request names {plain(name)}")
    owners = _Owners(domains)
    orphans: dict[str, int] = {}
    for token, place in asked.tokens.items():
        for path in asked.paths[token]:
            numbers = owners.of(path)
            for number in numbers:
                note(number, place, f"the request mentions {plain(path)}")
            if not numbers and path in tree.known:
                orphans.setdefault(path, place)
        if _is_new(token, tree):
            orphans.setdefault(token, place)
    docs = next((hit for hit in found.values() if hit.domain.kind == "docs"), None)
    if docs is not None:
        files = (*docs.domain.files, *(path for path in orphans if risk.is_doc(path)))
        found[docs.domain.id] = replace(docs, domain=replace(docs.domain, files=files))
        orphans = {path: place for path, place in orphans.items() if not risk.is_doc(path)}
    if orphans:
        name = _free(FILES, domains)
        extra = Domain(name, "files", tuple(orphans))
        found[name] = _Hit(extra, len(domains), min(orphans.values()), "files the request mentions")
    return found


def _is_new(token: str, tree: Tree) -> bool:
    """Whether ``token`` names a document or build file at the top that is still to be made."""
    if "/" in token or token.lower() in tree.by_name or token in tree.folders:
        return False
    known = token.lower() in risk.LOCK_FILES | risk.MANIFESTS or token.rpartition(".")[2] in risk.DOC_ENDINGS
    return known and token[0].isalnum() and token.isprintable()


def _free(name: str, domains: Iterable[Domain]) -> str:
    used = {domain.id.lower() for domain in domains}
    number, free = 1, name
    while free in used:
        number += 1
        free = f"{name}-{number}"
    return free


class _Owners:
    """Finds the domains that a path lies in, the innermost ones."""

    def __init__(self, domains: Sequence[Domain]) -> None:
        self._by_entry: dict[str, list[int]] = {}
        for number, domain in enumerate(domains):
            for entry in domain.entries:
                self._by_entry.setdefault(entry, []).append(number)
        self._entries = list(self._by_entry)

    def of(self, path: str) -> list[int]:
        """The domains with the longest entry that holds ``path``, else those inside folder ``path``."""
        at = path
        while at:
            if at in self._by_entry:
                return self._by_entry[at]
            at = at.rpartition("/")[0]
        if paths.ROOT in self._by_entry:
            return self._by_entry[paths.ROOT]
        inside = [
            number for entry in self._entries if paths.holds(path, entry) for number in self._by_entry[entry]
        ]
        return list(dict.fromkeys(inside))


def _paths_for(token: str, tree: Tree) -> list[str]:
    """The tracked paths ``token`` may mean; a path in a tracked folder that is still to be made counts."""
    if token in tree.known or token in tree.folders:
        return [token] if token != paths.ROOT else []
    if "/" in token:
        return _inner_paths(token, tree)
    named = tree.by_name.get(token.lower(), [])
    if named:
        return named if len(named) <= MAX_HOLDERS else []
    if re.fullmatch(r"\w+(?:\.\w+)+", token):
        return _dotted(token, tree)
    return []


def _inner_paths(token: str, tree: Tree) -> list[str]:
    try:
        path = paths.normalise(token)
    except InvalidInput:
        return []
    if path in tree.known or (path in tree.folders and path != paths.ROOT):
        return [path]
    ends = [
        file for file in tree.by_name.get(path.rpartition("/")[2].lower(), []) if file.endswith("/" + path)
    ]
    if ends:
        return ends[:MAX_HOLDERS]
    parent = path.rpartition("/")[0]
    while parent:
        if parent in tree.folders:
            return [path]
        parent = parent.rpartition("/")[0]
    return []


def _dotted(token: str, tree: Tree) -> list[str]:
    """A module's name, ``package.module``, as paths."""
    path = token.replace(".", "/")
    for root in ("", "src/", "lib/"):
        if root + path in tree.folders:
            return [root + path]
        for ending in (".py", ".pyi", ".java", ".kt", ".scala"):
            if root + path + ending in tree.known:
                return [root + path + ending]
    return []


def _by_modules(asked: _Request, domains: Sequence[Domain], tree: Tree) -> dict[str, _Hit]:
    """Domains with a file whose name without its ending is a word of the request."""
    owners = _Owners(domains)
    found: dict[str, _Hit] = {}
    for word, place in asked.words.items():
        files = tree.by_stem.get(word, []) if len(word) >= 4 and word not in _DULL else []
        if not 0 < len(files) <= MAX_HOLDERS:
            continue
        for path in files:
            for number in owners.of(path):
                hit = _Hit(domains[number], number, place, f"{plain(path)} is called {word}")
                found.setdefault(domains[number].id, hit)
    return found


def _general(domains: Sequence[Domain], tree: Tree) -> Domain:
    """One domain with all the source."""
    inferred = domains if all(domain.kind != "configured" for domain in domains) else infer(tree)
    files, folders = source_of(tree, inferred)
    return Domain(_free(GENERAL, domains), "source", files, folders)


# --- overlaps ----------------------------------------------------------------------------------


def _untangle(domains: Sequence[Domain]) -> tuple[list[Domain], list[Overlap]]:
    """``domains`` with inferred ones that touch joined, and a note of every two that touch.

    The outermost of a group keeps its id, the first one mentioned gives it its place.
    """
    group = list(range(len(domains)))

    def leader(number: int) -> int:
        while group[number] != number:
            number = group[number]
        return number

    overlaps: list[Overlap] = []
    for first, second in _touching(domains):
        if "configured" in (domains[first].kind, domains[second].kind):
            pairs = _pairs(domains[first], domains[second])
            overlaps.append(Overlap(domains[first].id, domains[second].id, pairs, "ordered"))
        else:
            low, high = sorted((leader(first), leader(second)))
            group[high] = low
    members: dict[int, list[Domain]] = {}
    for number, domain in enumerate(domains):
        members.setdefault(leader(number), []).append(domain)
    chosen = []
    for group_members in members.values():
        outer = max(group_members, key=lambda one: sum(_covers(one, other) for other in group_members))
        for inner in group_members:
            if inner is not outer:
                overlaps.append(Overlap(outer.id, inner.id, _pairs(outer, inner), "joined"))
        chosen.append(_join(outer, group_members))
    return chosen, overlaps


def _touching(domains: Sequence[Domain]) -> list[tuple[int, int]]:
    """Every two domains that touch, in their order."""
    index = paths.ScopeIndex()
    found: set[tuple[int, int]] = set()
    for number, domain in enumerate(domains):
        for entry in domain.entries:
            found.update((other, number) for other, _ in index.touching(entry))
        for entry in domain.entries:
            index.add(number, entry)
    return sorted(found)


def _pairs(one: Domain, other: Domain) -> tuple[tuple[str, str, str], ...]:
    found = []
    for mine in one.entries:
        for theirs in other.entries:
            how = paths.relation(mine, theirs)
            if how is not None:
                found.append((mine, theirs, how))
    return tuple(found)


def _covers(outer: Domain, inner: Domain) -> bool:
    return all(outer.owns(entry) for entry in inner.entries)


def _join(outer: Domain, members: Sequence[Domain]) -> Domain:
    if len(members) == 1:
        return outer
    every = [outer, *members]
    entries = set(paths.reduced(entry for one in every for entry in one.entries))
    return replace(
        outer,
        files=tuple(dict.fromkeys(f for one in every for f in one.files if f in entries)),
        directories=tuple(dict.fromkeys(d for one in every for d in one.directories if d in entries)),
    )
