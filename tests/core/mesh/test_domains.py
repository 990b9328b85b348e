"""Domains: those a tree suggests, those configured, and which of them a request is about."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshtui.core.errors import InvalidInput
from meshtui.core.mesh.domains import Selection, Tree, configured, domains_of, infer, select
from meshtui.core.mesh.risk import names
from meshtui.core.mesh.scope import relation
from meshtui.core.mesh.tree import MAX_DOMAINS, Domain
from meshtui.core.models.config import DomainConfig

FILES = sorted(
    names("""
.github/workflows/ci.yml .gitignore CHANGELOG.md Dockerfile LICENSE Makefile README.md app/__init__.py app/cli.py
app/api/__init__.py app/api/routes.py app/api/v2/routes_v2.py app/store/__init__.py app/store/leases.py
assets/logo.svg docs/guide.md docs/conf.py examples/demo.py pyproject.toml tests/test_api.py tests/api/test_routes.py
tests/conftest.py uv.lock web/index.ts web/store/state.ts
""")
)
TREE = Tree(FILES)
DOMAINS = infer(TREE)


def _domain(**settings: object) -> DomainConfig:
    """A domain as a file has it: lists, not tuples."""
    return DomainConfig.model_validate(
        {k: list(v) if isinstance(v, tuple) else v for k, v in settings.items()}
    )


def _by_id(domains: list[Domain]) -> dict[str, tuple[str, ...]]:
    return {domain.id: domain.entries for domain in domains}


def _pick(request: str, *, files: list[str] | None = None, max_loops: int = 8) -> Selection:
    tree = TREE if files is None else Tree(files)
    return select(request, infer(tree), tree, max_loops=max_loops)


def _ids(request: str) -> list[str]:
    return [domain.id for domain in _pick(request).domains]


def test_what_a_tree_suggests() -> None:
    assert _by_id(DOMAINS) == {
        "docs": ("CHANGELOG.md", "LICENSE", "README.md", "docs"),
        "tests": ("tests",),
        "build": ("Makefile", "pyproject.toml", "uv.lock"),
        "ci": (".github/workflows",),
        "infra": ("Dockerfile",),
        "app": ("app",),
        "assets": ("assets",),
        "examples": ("examples",),
        "web": ("web",),
        "app-store": ("app/store",),
        "api": ("app/api",),
        "web-store": ("web/store",),
        "v2": ("app/api/v2",),
    }


def test_a_source_layout_and_a_workspace_are_seen_through() -> None:
    tree = Tree(
        ["src/one/__init__.py", "src/two/a.py", "packages/x/index.ts", "packages/y/z/w.ts", "setup.py"]
    )
    assert _by_id(infer(tree)) == {
        "build": ("setup.py",),
        "one": ("src/one",),
        "two": ("src/two",),
        "x": ("packages/x",),
        "y": ("packages/y",),
        "z": ("packages/y/z",),
    }


def test_source_right_in_src_and_at_the_top() -> None:
    tree = Tree(["src/main.rs", "src/net/tcp.rs", "Cargo.toml", "single.py"])
    found = _by_id(infer(tree))
    assert found["src"] == ("src",)
    assert found["root"] == ("single.py",)


def test_the_order_of_the_files_does_not_matter() -> None:
    assert infer(Tree(reversed(FILES))) == DOMAINS


def test_names_that_are_not_unicode_are_left_to_their_folder() -> None:
    tree = Tree(["a/x.py", "a/\udcff.py", "\udcff/y.py"])
    assert _by_id(infer(tree)) == {"a": ("a",)}


@pytest.mark.parametrize(
    ("request_text", "ids"),
    [
        ("make the API faster", ["api"]),
        ("docs and api", ["docs", "api"]),
        ("api and docs", ["api", "docs"]),
        ("update README", ["docs"]),
        ("raise the test coverage", ["tests"]),
        ("bump the dependencies", ["build"]),
        ("speed up GitHub Actions", ["ci"]),
        ("edit app/store/leases.py", ["app-store"]),
        ("edit `leases.py`.", ["app-store"]),
        ("edit app.store.leases, please", ["app-store"]),
        ("edit ./web/store/", ["web-store"]),
        ("the store", ["app-store", "web-store"]),
        ("new file app/api/errors.py", ["api"]),
        ("api/test_routes.py is slow", ["tests"]),
        ("change .gitignore", ["files"]),
        ("see https://example.org/a/b.html", ["general"]),
        ("fix it", ["general"]),
        ("the web-store, quickly", ["web-store"]),
        ("the app store", ["app", "web-store"]),
        ("rapid apiary", ["general"]),
        ("the leases get lost", ["app-store"]),
        ("../../etc/passwd and /etc/passwd", ["general"]),
    ],
)
def test_what_a_request_selects(request_text: str, ids: list[str]) -> None:
    assert _ids(request_text) == ids


def test_how_sure_the_selection_is() -> None:
    assert _pick("the api").confidence == "high"
    assert _pick("the leases").confidence == "medium"
    assert _pick("something").confidence == "low"


def test_the_general_loop_owns_the_source() -> None:
    (general,) = _pick("make everything better").domains
    assert general.directories == ("app", "web")
    assert general.files == ()
    (general,) = _pick("anything", files=["a.txt"]).domains
    assert general.entries == (".",)
    (general,) = _pick("anything", files=[]).domains
    assert general.entries == (".",)


def test_a_new_document_belongs_to_the_docs() -> None:
    (docs,) = _pick("write docs in SECURITY.md").domains
    assert "SECURITY.md" in docs.files
    (lone,) = _pick("write TODO.md", files=["a.py"]).domains
    assert (lone.id, lone.files) == ("files", ("TODO.md",))


def test_what_agents_are_told_is_owned_only_where_it_is_named() -> None:
    files = ["AGENTS.md", "README.md", "a.py"]
    (docs,) = _pick("the docs", files=files).domains
    assert docs.files == ("README.md",)
    (lone,) = _pick("edit AGENTS.md", files=files).domains
    assert lone.files == ("AGENTS.md",)


def test_an_inferred_domain_inside_another_is_joined_into_it() -> None:
    found = _pick("api v2, then the app and web")
    assert [domain.id for domain in found.domains] == ["app", "web"]
    assert [(lap.first, lap.second, lap.action) for lap in found.overlaps] == [
        ("app", "api", "joined"),
        ("app", "v2", "joined"),
    ]
    assert found.overlaps[0].paths == (("app", "app/api", "contains"),)


def test_folders_that_differ_by_case_only_are_joined() -> None:
    found = _pick("Parser", files=["Parser/a.py", "parser/b.py"])
    (domain,) = found.domains
    assert sorted(domain.directories) == ["Parser", "parser"]
    assert found.overlaps[0].paths[0][2] == "case"


def test_what_there_is_no_loop_for_is_told() -> None:
    found = _pick("docs, api, web-store, ci and tests", max_loops=2)
    assert [domain.id for domain in found.domains] == ["docs", "api"]
    assert found.truncated == ("web-store", "ci", "tests")
    assert set(found.reasons) == {"docs", "api"}


@pytest.mark.parametrize("limit", [0, 33, -1, True])
def test_a_limit_that_is_none(limit: int) -> None:
    with pytest.raises(InvalidInput, match="1 to 32"):
        _pick("x", max_loops=limit)


def test_configured_domains_replace_the_inferred_ones() -> None:
    configs = (
        _domain(id="Front end", paths=("web/**", "assets"), aliases=("UI",), risk="high", gates=("g",)),
        _domain(id="api", paths=("app/api/*.py", "app/api/new.py", "app/api/later/"), engine="codex"),
    )
    front, api = domains_of(configs, TREE)
    assert (front.directories, front.risk, front.gates) == (("web", "assets"), "high", ("g",))
    assert api.files == ("app/api/__init__.py", "app/api/routes.py", "app/api/new.py")
    assert (api.directories, api.engine) == (("app/api/later",), "codex")
    for request in ("the front end", "the ui", "web/index.ts"):
        assert [d.id for d in select(request, [front, api], TREE).domains] == ["Front end"], request


def test_configured_domains_that_touch_stay_apart_and_are_told() -> None:
    parts = configured((_domain(id="all", paths=("app",)), _domain(id="api", paths=("app/api",))), TREE)
    found = select("all of the api", parts, TREE)
    assert [domain.id for domain in found.domains] == ["all", "api"]
    (lap,) = found.overlaps
    assert (lap.first, lap.second, lap.action) == ("all", "api", "ordered")
    assert lap.paths == (("app", "app/api", "contains"),)


def test_a_path_selects_the_innermost_configured_domain() -> None:
    parts = configured((_domain(id="all", paths=(".",)), _domain(id="api", paths=("app/api",))), TREE)
    assert [d.id for d in select("app/api/routes.py", parts, TREE).domains] == ["api"]
    assert [d.id for d in select("web/index.ts", parts, TREE).domains] == ["all"]


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../b", ".git/hooks", "nothing/*.zig"])
def test_configured_paths_no_loop_may_own(path: str) -> None:
    with pytest.raises(InvalidInput, match=r"domains\.api\.paths"):
        configured((_domain(id="api", paths=(path,)),), TREE)


def test_a_configured_domain_without_paths_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least one path"):
        configured((_domain(id="api"),), TREE)


def test_a_huge_tree_has_a_bounded_number_of_domains() -> None:
    tree = Tree(f"pkg{n}/m{n % 7}/f.py" for n in range(3000))
    assert len(infer(tree)) == MAX_DOMAINS


NAMES = st.sampled_from(
    ["app", "App", "api", "tests", "docs", "x.py", "README.md", "src", "new\nline", ".hidden", "é"]
)
TREES = st.lists(st.lists(NAMES, min_size=1, max_size=4).map("/".join), max_size=15)


@settings(max_examples=200, deadline=None)
@given(TREES, st.text(max_size=30) | st.lists(NAMES, max_size=6).map(" ".join), st.integers(1, 4))
def test_any_selection_is_bounded_apart_and_repeatable(files: list[str], request: str, limit: int) -> None:
    found = _pick(request, files=files, max_loops=limit)
    assert 1 <= len(found.domains) <= limit
    entries = [(number, entry) for number, domain in enumerate(found.domains) for entry in domain.entries]
    for number, one in entries:
        for other_number, other in entries:
            assert number == other_number or relation(one, other) is None
    assert len({domain.id.lower() for domain in found.domains}) == len(found.domains)
    assert _pick(request, files=list(reversed(files)), max_loops=limit) == found
