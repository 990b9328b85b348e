"""Plans for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from meshtui.core.config import Config
from meshtui.core.mesh.planner import PlanRequest, plan
from meshtui.core.models.mesh import Plan

FILES = (
    "README.md",
    "api/__init__.py",
    "api/auth.py",
    "cli/__init__.py",
    "docs/guide.md",
    "pyproject.toml",
    "store/__init__.py",
    "store/disk/__init__.py",
    "tests/test_api.py",
    "uv.lock",
)
CONTENTS = {"pyproject.toml": b"[tool.ruff]\n[tool.pytest.ini_options]\n"}


def make_plan(
    request: str = "store, cli and docs", *, config: dict[str, Any] | None = None, **options: Any
) -> Plan:
    """The plan for ``request`` in a small Python repository, where every program is there."""
    given: dict[str, Any] = {
        "repo": Path("/repo"),
        "mission_id": "M-1",
        "engine": "command",
        "files": FILES,
        "base_commit": "0" * 40,
        "now_iso": "2030-01-01T00:00:00.000Z",
        "read": lambda path: CONTENTS.get(path, b""),
        "which": lambda name: f"/bin/{name}",
    }
    return plan(PlanRequest(request=request, config=Config.model_validate(config or {}), **(given | options)))
