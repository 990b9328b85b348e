"""How dangerous a scope is, told by the names of what it touches, and what follows from that.

A path is judged by the most dangerous rule that fits it, a scope by its most dangerous path. Tests and
documents about a dangerous thing are not dangerous themselves: only rules about files as such (keys, CI,
databases on disk) count there, and key material among tests is taken for a fixture.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from meshtui.core.config import plain
from meshtui.core.mesh import scope as paths
from meshtui.core.models.mesh import RISKS, Level, OwnerScope, Risk, RiskLevel

Kind = Literal[
    "credentials",
    "auth",
    "database",
    "migrations",
    "payments",
    "publishing",
    "ci",
    "hooks",
    "infrastructure",
    "scheduler",
    "agents",
    "lock",
    "manifest",
]


def names(text: str) -> frozenset[str]:
    """The words of ``text`` as a set."""
    return frozenset(text.split())


MAX_REASONS = 8
BOUNDED = "bounded_scope"
WHOLE = "whole_repository"

CODE = names(
    "py pyi pyx js jsx mjs cjs ts tsx vue svelte rs go java kt kts scala rb php c h cc cpp cxx hpp hh cs "
    "swift m mm ex exs erl hs ml clj cljs lua pl pm r jl dart zig nim sh bash zsh fish ps1"
)
"""Endings of source files."""

LOCK_FILES = names(
    "poetry.lock uv.lock pdm.lock pipfile.lock package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml "
    "bun.lock bun.lockb cargo.lock go.sum gemfile.lock composer.lock mix.lock flake.lock pixi.lock "
    "conda-lock.yml"
)
MANIFESTS = names(
    "pyproject.toml setup.py setup.cfg pipfile package.json cargo.toml go.mod go.work gemfile composer.json "
    "mix.exs pom.xml build.gradle build.gradle.kts settings.gradle cmakelists.txt makefile gnumakefile "
    "meson.build build.zig justfile tox.ini noxfile.py environment.yml manifest.in deno.json "
    "pnpm-workspace.yaml rust-toolchain.toml"
)
_REQUIREMENTS = re.compile(r"(?:.*[-_.])?(?:requirements|constraints)(?:[-_.].*)?\.(?:txt|in)")
_SAMPLES = (".example", ".sample", ".template", ".dist")

_KEY_FILE = re.compile(
    r"\.env(?:\..+)?|\.envrc|.+\.(?:pem|key|p12|pfx|jks|keystore|kdbx|tfstate)|id_(?:rsa|dsa|ecdsa|ed25519)"
    r"|\.(?:netrc|pypirc|htpasswd|pgpass|git-credentials|vault_pass)"
)
_SECRET_WORDS = {"secret", "secrets", "credential", "credentials", "apikey", "apikeys"}
_AUTH_WORDS = names(
    "auth authn authz authentication authorization authorisation oauth oauth2 oidc saml sso login signin "
    "password passwords passwd permission permissions rbac acl crypto cryptography encryption jwt keyring "
    "keychain"
)
_DATABASE_WORDS = {"database", "databases", "db", "sql"}
_MIGRATION_WORDS = {"migration", "migrations", "alembic", "flyway", "liquibase"}
_PAYMENT_WORDS = {"payment", "payments", "billing", "checkout", "invoice", "invoices", "payroll"}
_PUBLISH_WORDS = {"release", "releases", "releasing", "publish", "publishing", "deploy", "deployment"}
_SCHEDULER_WORDS = {"scheduler", "schedulers", "schedule", "scheduling", "cron", "crontab", "cronjob"}
INFRA_FOLDERS = names(
    "terraform k8s kubernetes helm ansible pulumi infra infrastructure systemd deploy deployment"
)
CI_FOLDERS = (
    ".github/workflows",
    ".github/actions",
    ".circleci",
    ".buildkite",
    ".ci",
    ".gitlab/ci",
    ".teamcity",
)
_CI_FILES = names(
    ".gitlab-ci.yml .travis.yml jenkinsfile azure-pipelines.yml bitbucket-pipelines.yml .drone.yml "
    "appveyor.yml .appveyor.yml .cirrus.yml codemagic.yaml cloudbuild.yaml buildspec.yml"
)
_AGENT_FOLDERS = {".claude", ".codex", ".grok", ".cursor", ".gemini", ".aider", ".windsurf", ".continue"}
_AGENT_FILES = names(
    "claude.md agents.md gemini.md meshtui.toml .mcp.json .cursorrules .windsurfrules "
    "copilot-instructions.md .aider.conf.yml"
)
_HOOK_FOLDERS = {".husky", ".githooks"}
_HOOK_FILES = {".gitattributes", ".gitmodules", ".gitconfig", ".pre-commit-config.yaml", "lefthook.yml"}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+\d*|\d+")

TEST_FOLDERS = names("test tests testing __tests__ spec specs e2e fixtures testdata")
DOC_FOLDERS = frozenset({"docs", "doc", "documentation"})
DOC_ENDINGS = frozenset({"md", "mdx", "rst", "adoc"})


@dataclass(frozen=True, slots=True)
class Touch:
    """One reason why a path is dangerous."""

    kind: Kind
    level: RiskLevel


def words_of(text: str) -> list[str]:
    """The words in a name, lower case: ``HTTPServer_v2`` is ``http``, ``server``, ``v2``."""
    return [word.lower() for word in _WORD.findall(text)]


def is_test(path: str) -> bool:
    """Whether ``path`` is a test or lies among tests."""
    *folders, name = path.lower().split("/")
    return (
        bool(TEST_FOLDERS.intersection(folders))
        or re.match(r"(?:test_.*|.*_tests?\.\w+|.*\.(?:test|spec)\.\w+|conftest\.py)\Z", name) is not None
    )


def is_doc(path: str) -> bool:
    """Whether ``path`` is a document."""
    *folders, name = path.lower().split("/")
    return name.rpartition(".")[2] in DOC_ENDINGS or (bool(folders) and folders[0] in DOC_FOLDERS)


def is_requirements(name: str) -> bool:
    """Whether a file called ``name`` (lower case) lists requirements for pip."""
    return _REQUIREMENTS.fullmatch(name) is not None


@lru_cache(maxsize=200_000)
def touch_of(path: str) -> tuple[Touch, ...]:
    """Everything dangerous about ``path``, told by its name alone; most dangerous first."""
    low = path.lower()
    *folders, name = low.split("/")
    found = _by_file(low, folders, name)
    if is_test(path):
        found = [Touch(t.kind, "medium") if t.kind == "credentials" else t for t in found]
    elif not is_doc(path):
        found += _by_words(path, name)
    return tuple(sorted(dict.fromkeys(found), key=lambda touch: -RISKS.index(touch.level)))


def _by_file(low: str, folders: list[str], name: str) -> list[Touch]:
    """What a path is, whatever it is about."""
    found: list[Touch] = []
    ending = name.rpartition(".")[2]
    if _KEY_FILE.fullmatch(name):
        found.append(Touch("credentials", "medium" if name.endswith(_SAMPLES) else "critical"))
    elif name in (".npmrc", ".yarnrc.yml") or ending == "tfvars":
        found.append(Touch("credentials", "high"))
    elif _SECRET_WORDS.intersection(words_of(name)) and ending not in CODE and ending not in DOC_ENDINGS:
        found.append(Touch("credentials", "medium" if name.endswith(_SAMPLES) else "critical"))
    if any(paths.holds(folder, low) for folder in CI_FOLDERS) or name in _CI_FILES:
        found.append(Touch("ci", "high"))
    if _AGENT_FOLDERS.intersection(folders) or name in _AGENT_FILES:
        found.append(Touch("agents", "high"))
    if _HOOK_FOLDERS.intersection(folders) or name in _HOOK_FILES:
        found.append(Touch("hooks", "high"))
    if (
        ending in ("tf", "tfvars", "service", "timer", "nomad")
        or name.startswith(("dockerfile", "docker-compose", "containerfile"))
        or name in ("compose.yml", "compose.yaml", "procfile", "vagrantfile", "nginx.conf", "fly.toml")
        or INFRA_FOLDERS.intersection(folders)
    ):
        found.append(Touch("infrastructure", "high"))
    if name in ("crontab", "cron") or ending == "cron" or any(f.startswith("cron.") for f in folders):
        found.append(Touch("scheduler", "high"))
    if name in LOCK_FILES:
        found.append(Touch("lock", "medium"))
    if name in MANIFESTS or is_requirements(name):
        found.append(Touch("manifest", "medium"))
    return found


def _by_words(path: str, name: str) -> list[Touch]:
    """What a path is about, as its words say."""
    words = set(words_of(path))
    found: list[Touch] = []
    if _SECRET_WORDS & words:
        found.append(Touch("credentials", "high"))
    if _AUTH_WORDS & words:
        found.append(Touch("auth", "high"))
    if _MIGRATION_WORDS & words:
        found.append(Touch("migrations", "high"))
    if _DATABASE_WORDS & words or name.endswith((".prisma", ".sqlite", ".sqlite3")):
        found.append(Touch("database", "high"))
    if _PAYMENT_WORDS & words:
        found.append(Touch("payments", "high"))
    if _PUBLISH_WORDS & words or name.startswith((".goreleaser", ".releaserc")):
        found.append(Touch("publishing", "high"))
    if _SCHEDULER_WORDS & words:
        found.append(Touch("scheduler", "medium"))
    return found


def worst(levels: Iterable[RiskLevel]) -> RiskLevel:
    """The most dangerous of ``levels``; ``low`` for none."""
    return max(levels, key=RISKS.index, default="low")


def adjusted(path: str, globs: Mapping[str, RiskLevel]) -> tuple[str, RiskLevel] | None:
    """The ``[risk]`` entry for ``path`` and its level: the last that matches, as in ``.gitignore``."""
    found = None
    for glob, level in globs.items():
        if paths.matches(glob, path):
            found = (glob, level)
    return found


def assess(
    scope: OwnerScope,
    files: Sequence[str],
    *,
    globs: Mapping[str, RiskLevel] | None = None,
    configured: tuple[str, RiskLevel] | None = None,
) -> Risk:
    """The risk of a loop that owns ``scope`` in a repository that tracks ``files``.

    ``globs`` is ``[risk]``: it settles the level of the paths it matches, up or down. ``configured`` names
    a domain and the level set for it, which settles the whole scope. An entry nothing tracked lies in is
    judged by its own name.
    """
    if configured is not None:
        where, level = configured
        return policy(level, [f"{level}: set by domain {plain(where)}"])
    found: dict[tuple[RiskLevel, str], list[str]] = {}
    for path in touched(scope, files):
        setting = adjusted(path, globs or {})
        if setting is not None:
            found.setdefault((setting[1], f"set by [risk] {plain(setting[0])}"), []).append(path)
            continue
        for touch in touch_of(path):
            found.setdefault((touch.level, touch.kind), []).append(path)
    if paths.ROOT in scope.entries:
        found.setdefault(("medium", WHOLE), [])
    ranked = sorted(found, key=lambda key: (-RISKS.index(key[0]), key[1]))
    reasons = [_reason(key, found[key]) for key in ranked if key[0] != "low"]
    if len(reasons) > MAX_REASONS:
        reasons = [*reasons[: MAX_REASONS - 1], f"{len(reasons) - MAX_REASONS + 1} more"]
    return policy(worst(level for level, _ in ranked), reasons or [BOUNDED])


def _reason(key: tuple[RiskLevel, str], where: list[str]) -> str:
    level, what = key
    if not where:
        return f"{level}: {what}"
    more = f" and {len(where) - 1} more" if len(where) > 1 else ""
    return f"{level}: {what}: {plain(where[0])}{more}"


def touched(scope: OwnerScope, files: Sequence[str]) -> list[str]:
    """The tracked files in ``scope``, and its entries that hold none, in the order of the names."""
    entries = paths.reduced(scope.entries)
    have = set(entries)
    if paths.ROOT in have:
        return list(files)
    found, used = [], set()
    for path in files:
        parts = path.split("/")
        for length in range(1, len(parts) + 1):
            entry = "/".join(parts[:length])
            if entry in have:
                found.append(path)
                used.add(entry)
                break
    return sorted([*found, *(entry for entry in entries if entry not in used)])


def policy(level: RiskLevel, reasons: Sequence[str]) -> Risk:
    """What follows from ``level``: high and critical go before the final arbiter, critical to a person."""
    return Risk(
        level=level,
        reasons=list(reasons),
        requires_worktree=True,
        requires_gpt_final=level in ("high", "critical"),
        requires_human_handoff=level == "critical",
    )


def level_for(level: RiskLevel) -> Level:
    """How freely a loop of that risk acts; ``L3-unattended`` is never planned, only chosen."""
    return "L1-assisted" if level in ("high", "critical") else "L2-action"


def may_run(level: Level, risk: RiskLevel) -> bool:
    """Whether a loop of ``risk`` may run at ``level``."""
    return level != "L3-unattended" or risk in ("low", "medium")
