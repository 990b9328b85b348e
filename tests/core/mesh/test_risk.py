"""Risk: what a scope touches, how it is adjusted, what follows."""

from __future__ import annotations

import pytest

from meshtui.core.mesh.risk import MAX_REASONS, assess, level_for, may_run, policy, touch_of
from meshtui.core.models.mesh import RISKS, OwnerScope


@pytest.mark.parametrize(
    ("path", "kind", "level"),
    [
        (".env", "credentials", "critical"),
        ("deploy/.env.production", "credentials", "critical"),
        (".env.example", "credentials", "medium"),
        ("certs/server.key", "credentials", "critical"),
        ("config/secrets.yaml", "credentials", "critical"),
        ("src/secret_store.py", "credentials", "high"),
        ("terraform/prod.tfstate", "credentials", "critical"),
        (".npmrc", "credentials", "high"),
        ("src/auth/login.py", "auth", "high"),
        ("src/OAuthClient.ts", "auth", "high"),
        ("app/passwords.py", "auth", "high"),
        ("db/schema.rb", "database", "high"),
        ("queries/report.sql", "database", "high"),
        ("app/migrations/0001_initial.py", "migrations", "high"),
        ("src/billing/charge.py", "payments", "high"),
        ("scripts/publish.sh", "publishing", "high"),
        ("tools/release.py", "publishing", "high"),
        (".github/workflows/test.yml", "ci", "high"),
        (".gitlab-ci.yml", "ci", "high"),
        ("Dockerfile", "infrastructure", "high"),
        ("k8s/app.yaml", "infrastructure", "high"),
        ("etc/crontab", "scheduler", "high"),
        ("src/scheduler.py", "scheduler", "medium"),
        ("CLAUDE.md", "agents", "high"),
        (".grok/settings.json", "agents", "high"),
        ("meshtui.toml", "agents", "high"),
        (".pre-commit-config.yaml", "hooks", "high"),
        ("uv.lock", "lock", "medium"),
        ("web/package-lock.json", "lock", "medium"),
        ("pyproject.toml", "manifest", "medium"),
        ("requirements-dev.txt", "manifest", "medium"),
    ],
)
def test_what_is_dangerous(path: str, kind: str, level: str) -> None:
    assert (kind, level) in [(touch.kind, touch.level) for touch in touch_of(path)]
    assert touch_of(path)[0].level == max((t.level for t in touch_of(path)), key=RISKS.index)


@pytest.mark.parametrize(
    "path",
    [
        "src/parser.py",
        "src/author.py",
        "src/tokenizer.py",
        "README.md",
        "docs/authentication.md",
        "tests/test_auth.py",
        "src/keyboard.py",
        "src/debug.py",
        "styles/app.tcss",
    ],
)
def test_what_is_not(path: str) -> None:
    assert touch_of(path) == ()


def test_keys_among_tests_are_fixtures() -> None:
    assert [touch.level for touch in touch_of("tests/certs/server.key")] == ["medium"]


FILES = ["README.md", "src/app/auth.py", "src/app/parse.py", "src/other/x.py", "deploy.sh", ".env"]


def _level(scope: OwnerScope, **options: object) -> str:
    return assess(scope, FILES, **options).level  # type: ignore[arg-type]


def test_a_scope_is_as_dangerous_as_its_worst_file() -> None:
    found = assess(OwnerScope(directories=["src/app"]), FILES)
    assert (found.level, found.reasons) == ("high", ["high: auth: src/app/auth.py"])
    assert (found.requires_gpt_final, found.requires_human_handoff) == (True, False)
    assert _level(OwnerScope(directories=["src/other"])) == "low"
    assert _level(OwnerScope(files=["src/app/parse.py"])) == "low"


def test_the_whole_repository_is_never_harmless() -> None:
    assert assess(OwnerScope(directories=["."]), ["a.txt"]).reasons == ["medium: whole_repository"]
    found = assess(OwnerScope(directories=["."]), FILES)
    assert (found.level, found.requires_human_handoff) == ("critical", True)


def test_a_harmless_scope_says_so() -> None:
    assert assess(OwnerScope(directories=["src/other"]), FILES).reasons == ["bounded_scope"]


def test_what_does_not_exist_yet_counts_by_its_name() -> None:
    assert _level(OwnerScope(files=["src/new/auth.py"])) == "high"
    assert _level(OwnerScope(directories=["app/migrations"])) == "high"


def test_globs_adjust_up_and_down_and_the_last_wins() -> None:
    scope = OwnerScope(directories=["src/app"])
    assert _level(scope, globs={"src/app/auth.py": "low"}) == "low"
    assert _level(scope, globs={"src/**": "critical"}) == "critical"
    assert _level(scope, globs={"src/**": "critical", "src/app/**": "medium"}) == "medium"
    found = assess(scope, FILES, globs={"*.py": "critical"})
    assert found.reasons == ["critical: set by [risk] *.py: src/app/auth.py and 1 more"]


def test_a_domains_own_risk_settles_it() -> None:
    found = assess(OwnerScope(directories=["src"]), FILES, configured=("app", "low"))
    assert (found.level, found.reasons) == ("low", ["low: set by domain app"])


def test_reasons_are_bounded_and_one_line_each() -> None:
    globs = {f"f{n}\n.x": "high" for n in range(30)}
    files = [f"f{n}\n.x" for n in range(30)]
    found = assess(OwnerScope(directories=["."]), files, globs=globs)  # type: ignore[arg-type]
    assert len(found.reasons) == MAX_REASONS
    assert found.reasons[-1] == "24 more"
    assert all(reason.isprintable() for reason in found.reasons)


@pytest.mark.parametrize("level", RISKS)
def test_policy(level: str) -> None:
    risk = policy(level, ["x"])  # type: ignore[arg-type]
    assert risk.requires_human_handoff is (level == "critical")
    assert risk.requires_gpt_final is (level in ("high", "critical"))
    assert may_run("L3-unattended", risk.level) is (level in ("low", "medium"))
    assert may_run(level_for(risk.level), risk.level)
    assert level_for(risk.level) == ("L1-assisted" if level in ("high", "critical") else "L2-action")
