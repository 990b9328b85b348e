"""The side-effect report: what the merged change touches beyond what its loops own."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from meshtui.core.clock import iso
from meshtui.core.mesh import risk
from meshtui.core.mesh.context import MissionContext
from meshtui.core.mesh.files import read_json
from meshtui.core.mesh.paths import relative
from meshtui.core.mesh.scope import holds
from meshtui.core.models.mesh import SIDE_EFFECTS
from meshtui.core.vcs.change import Change

DEPENDENCY_FILES = frozenset(
    {
        "package.json", "pyproject.toml", "setup.py", "setup.cfg", "pipfile", "cargo.toml", "go.mod", "go.work",
        "gemfile", "composer.json", "mix.exs", "pom.xml", "build.gradle", "build.gradle.kts", "environment.yml",
        "deno.json", "requirements.lock",
    }
)  # fmt: skip
"""Manifests that say what is installed, lower case; others, a Makefile say, are a part of the source."""


def _kinds(path: str) -> set[str]:
    return {touch.kind for touch in risk.touch_of(path)}


def _is_package(path: str) -> bool:
    name = PurePosixPath(path).name.lower()
    return name in DEPENDENCY_FILES or risk.is_requirements(name) or "lock" in _kinds(path)


def side_effect_report(context: MissionContext, change: Change) -> dict[str, Any]:
    """What ``change``, the whole mission's, touches that somebody should know of.

    A path that no loop owns blocks. So does a lock or dependency file that no loop names in its scope by
    itself: such files change in the integration loop or where a loop owns just them.
    """
    owners = [
        entry
        for node in context.plan.graph.nodes
        if node.loop_id != context.plan.integration_loop_id
        for entry in node.owner_scope.entries
    ]
    paths = sorted({path for item in change.files for path in (item.path, item.old_path) if path is not None})
    violations = [path for path in paths if not any(holds(entry, path) for entry in owners)]
    named = set(owners)
    packages = [path for path in paths if path not in named and _is_package(path)]
    agents = [path for path in paths if "agents" in _kinds(path)]
    pipelines = [path for path in paths if "ci" in _kinds(path) or holds(".github", path)]
    left = []
    for node in context.plan.graph.nodes:
        folder = context.paths.loop(node.loop_id).gates
        for file in sorted(folder.glob("*.json")) if folder.is_dir() else []:
            value = read_json(file) or {}
            left += [
                f"{node.loop_id}/{value.get('gate_id')}: {path}" for path in value.get("side_effects") or []
            ]
    blockers = [f"scope: {path} belongs to no loop" for path in violations]
    blockers += [
        f"dependencies: {path} changed outside integration" for path in packages if path not in violations
    ]
    return {
        "schema": SIDE_EFFECTS,
        "ok": not blockers,
        "artifact_path": relative(context.run_dir, context.paths.side_effects),
        "mission_id": context.plan.mission_id,
        "changed_files": paths,
        "owner_scope_violations": violations,
        "unexpected_package_changes": packages,
        "agent_configuration_changes": agents,
        "ci_configuration_changes": pipelines,
        "global_config_mutations": [],
        "network_or_install_side_effects": [],
        "gate_side_effects": left,
        "mutation_ledger_path": relative(context.run_dir, context.paths.mutations),
        "blockers": blockers,
        "generated_at": iso(context.clock.now_ms()),
    }
