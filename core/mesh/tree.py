"""What a repository consists of, told by the names of its tracked files: the domains nobody configured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from meshtui.core.mesh import risk
from meshtui.core.mesh.scope import ROOT, holds, reduced
from meshtui.core.models.config import RiskLevel

DomainKind = Literal["configured", "source", "tests", "docs", "build", "ci", "infra", "other", "files"]

MAX_DOMAINS = 512
MAX_DEPTH = 4
"""How deep below a package folders are domains of their own."""

_CONTAINERS = risk.names("packages apps crates services libs modules plugins cmd internal pkg")
_SOURCE_ROOTS = risk.names("src lib source python")
_EXTRAS = risk.names("examples example samples demo demos scripts tools bin hack benchmarks bench")
_DOC_STEMS = risk.names(
    "readme changelog changes history news contributing authors security license licence copying notice"
)

ALIASES: dict[DomainKind, tuple[str, ...]] = {
    "docs": ("docs", "doc", "documentation", "readme", "changelog", "guide"),
    "tests": ("tests", "test", "testing", "unit tests", "test suite", "test coverage"),
    "build": (
        "build",
        "packaging",
        "dependencies",
        "dependency",
        "deps",
        "lock file",
        "lockfile",
        "requirements",
    ),
    "ci": (
        "ci",
        "workflow",
        "workflows",
        "pipeline",
        "pipelines",
        "github actions",
        "continuous integration",
    ),
    "infra": (
        "infra",
        "infrastructure",
        "docker",
        "dockerfile",
        "container",
        "deployment",
        "terraform",
        "kubernetes",
    ),
}


@dataclass(frozen=True, slots=True)
class Domain:
    """A part of the repository that one loop can own."""

    id: str
    kind: DomainKind
    files: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    """Gates configured for it; none: those that its paths select."""
    risk: RiskLevel | None = None
    engine: str | None = None

    @property
    def entries(self) -> tuple[str, ...]:
        """Files and folders."""
        return (*self.files, *self.directories)

    def owns(self, path: str) -> bool:
        """Whether ``path`` lies in it."""
        return any(holds(entry, path) for entry in self.entries)


class Tree:
    """The folders of the tracked files."""

    def __init__(self, files: Iterable[str]) -> None:
        self.files: list[str] = sorted({path for path in files if _usable(path)})
        self.known = set(self.files)
        self.folders: dict[str, list[str]] = {ROOT: []}
        """Each folder, and the names of the files right in it."""
        self.children: dict[str, list[str]] = {ROOT: []}
        """Each folder, and the folders right in it."""
        self.code: Counter[str] = Counter()
        """How many source files lie in a folder or below it."""
        self.by_name: dict[str, list[str]] = {}
        """Files by the last part of their path, lower case."""
        self.by_stem: dict[str, list[str]] = {}
        """Source files by that part without its ending, lower case."""
        for path in self.files:
            self._add(path)

    def _add(self, path: str) -> None:
        parts = path.split("/")
        code = _is_code(parts[-1])
        parent = ROOT
        self.code[ROOT] += code
        for depth in range(1, len(parts)):
            folder = "/".join(parts[:depth])
            if folder not in self.folders:
                self.folders[folder], self.children[folder] = [], []
                self.children[parent].append(folder)
            parent = folder
            self.code[folder] += code
        self.folders[parent].append(path)
        self.by_name.setdefault(parts[-1].lower(), []).append(path)
        if code:
            self.by_stem.setdefault(_stem(path).lower(), []).append(path)


def _usable(path: str) -> bool:
    """Names that are not Unicode cannot stand in a plan; such a file belongs to its folder only."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return bool(path)


def _is_code(name: str) -> bool:
    return name.rpartition(".")[2].lower() in risk.CODE and "." in name


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def infer(tree: Tree) -> list[Domain]:
    """The domains of a repository nobody described, the general ones first, at most ``MAX_DOMAINS``.

    Each folder with source is one, with the folders of source below it to ``MAX_DEPTH``; all tests, all
    documents, the build files, CI and infrastructure are one each; what else lies at the top is one a
    folder. Hidden folders are nobody's, except CI.
    """
    special = _specials(tree)
    taken = {entry for domain in special for entry in domain.entries}
    found: list[Domain] = []
    loose: list[str] = []
    for folder in tree.children[ROOT]:
        if folder in taken or folder.startswith("."):
            continue
        if not tree.code[folder] or _name(folder).lower() in _EXTRAS:
            found.append(Domain(_name(folder), "other", directories=(folder,)))
        else:
            found += _source(tree, folder, taken)
    for path in tree.folders[ROOT]:
        if path not in taken and not path.startswith(".") and _is_code(path):
            loose.append(path)
    if loose:
        found.append(Domain("root", "source", files=tuple(loose), aliases=tuple(_stem(p) for p in loose)))
    found.sort(key=lambda domain: domain.entries[0].count("/"))
    return _with_ids([*special, *found][:MAX_DOMAINS])


def _stem(path: str) -> str:
    return _name(path).rpartition(".")[0] or _name(path)


def _specials(tree: Tree) -> list[Domain]:
    tests = [folder for folder in tree.children[ROOT] if _name(folder).lower() in risk.TEST_FOLDERS]
    docs = [folder for folder in tree.children[ROOT] if _name(folder).lower() in risk.DOC_FOLDERS]
    ci = [folder for folder in tree.folders if any(folder.lower() == known for known in risk.CI_FOLDERS)]
    infra = [folder for folder in tree.children[ROOT] if _name(folder).lower() in risk.INFRA_FOLDERS]
    loose: dict[DomainKind, list[str]] = {"docs": [], "tests": [], "build": [], "ci": [], "infra": []}
    for path in tree.folders[ROOT]:
        kinds = {touch.kind for touch in risk.touch_of(path)}
        if "agents" in kinds:
            # What agents are told is nobody's by default: a request has to name the file.
            continue
        if risk.is_doc(path) or path.lower().partition(".")[0] in _DOC_STEMS:
            loose["docs"].append(path)
        elif kinds & {"lock", "manifest"}:
            loose["build"].append(path)
        elif "ci" in kinds:
            loose["ci"].append(path)
        elif "infrastructure" in kinds:
            loose["infra"].append(path)
        elif risk.is_test(path):
            loose["tests"].append(path)
    folders: dict[DomainKind, list[str]] = {
        "docs": docs,
        "tests": tests,
        "build": [],
        "ci": ci,
        "infra": infra,
    }
    return [
        Domain(kind, kind, tuple(loose[kind]), tuple(folders[kind]), ALIASES[kind])
        for kind in loose
        if loose[kind] or folders[kind]
    ]


def _source(tree: Tree, top: str, taken: set[str]) -> list[Domain]:
    """Folder ``top`` and the folders of source below it."""
    found: list[Domain] = []
    stack = [(top, 0)]
    while stack:
        folder, depth = stack.pop()
        below = [child for child in tree.children[folder] if tree.code[child] and child not in taken]
        below = [child for child in below if not _name(child).startswith(".")]
        name = _name(folder).lower()
        container = depth == 0 and (name in _CONTAINERS or name in _SOURCE_ROOTS)
        if not (container and below and not any(_is_code(path) for path in tree.folders[folder])):
            found.append(Domain(_name(folder), "source", directories=(folder,)))
        if depth < MAX_DEPTH:
            inner = [child for child in below if _name(child).lower() not in risk.TEST_FOLDERS]
            stack += [(child, depth + 1) for child in inner]
    return found


def _with_ids(domains: Sequence[Domain]) -> list[Domain]:
    """``domains`` with ids of their own: a name two of them share gets its folders in front of it."""
    shared = Counter(domain.id.lower() for domain in domains)
    used: set[str] = set()
    found = []
    for domain in domains:
        name = domain.id
        if shared[name.lower()] > 1 and domain.directories and domain.kind in ("source", "other"):
            name = domain.directories[0].replace("/", "-")
        plain, number = name, 1
        while name.lower() in used:
            number += 1
            name = f"{plain}-{number}"
        used.add(name.lower())
        aliases = domain.aliases if name == domain.id else (*domain.aliases, domain.id)
        found.append(Domain(name, domain.kind, domain.files, domain.directories, aliases))
    return found


def source_of(tree: Tree, domains: Sequence[Domain]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(files, directories) of all source in inferred ``domains``; the whole repository if there is none."""
    entries = reduced(entry for domain in domains if domain.kind == "source" for entry in domain.entries)
    files = tuple(entry for entry in entries if entry in tree.known)
    directories = tuple(entry for entry in entries if entry not in tree.known)
    if not entries or len(entries) > 64:
        return (), (ROOT,)
    return files, directories
