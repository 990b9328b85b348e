"""What a handoff claims, checked where that is possible: changed files and commits against git."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from meshtui.core.errors import MeshtuiError
from meshtui.core.vcs.git import Git, top_of

UNVERIFIED = "claimed, not verified"
MOST = 200
"""Claims of one kind that are looked at; the rest is reported as not looked at."""
_COMMIT = re.compile(r"[0-9a-fA-F]{7,64}")
_LOOKING = re.compile(
    r"review|check|verif|audit|inspect|research|plan|analy|design|triage|test|qa", re.IGNORECASE
)
"""Names of phases that need not change anything."""


def head_of(worktree: Path) -> str | None:
    """The commit a worktree stands at, ``None`` where there is none."""
    try:
        return Git(top_of(worktree)).head_or_none()
    except (MeshtuiError, OSError):
        return None


def check_claims(
    worktree: Path, head: str | None, handoff: Mapping[str, Any], *, phase: str
) -> list[dict[str, str]]:
    """What of ``handoff`` git does not confirm, each ``{claim, verdict, why}``.

    ``head`` is the commit the worktree stood at when the phase began; without one nothing can be checked.
    """
    if head is None:
        return []
    try:
        top = top_of(worktree)
        git = Git(top)
        changed = _changed(git, head)
        now = git.head_or_none()
    except (MeshtuiError, OSError) as error:
        return [_claim("files_changed, commits", f"git cannot say: {error}")]
    found = []
    files = handoff.get("files_changed") or []
    for text in files[:MOST]:
        path = _relative(str(text), worktree, top)
        if path is None:
            found.append(_claim(f"files_changed: {text}", "the path is outside the worktree"))
        elif path not in changed:
            found.append(_claim(f"files_changed: {text}", "git shows no change of it"))
    commits = handoff.get("commits") or []
    for text in commits[:MOST]:
        why = _commit_problem(git, str(text), head, now)
        if why is not None:
            found.append(_claim(f"commits: {text}", why))
    for name, items in (("files_changed", files), ("commits", commits)):
        if len(items) > MOST:
            found.append(_claim(f"{name}: {len(items) - MOST} more", "too many to look at"))
    if handoff.get("status") == "passed" and not changed and now == head and not _LOOKING.search(phase):
        found.append(_claim("status: passed", "nothing in the worktree has changed"))
    return found


def _claim(claim: str, why: str) -> dict[str, str]:
    return {"claim": claim[:500], "verdict": UNVERIFIED, "why": why[:500]}


def _changed(git: Git, head: str) -> set[str]:
    """The paths that differ from ``head``, committed or not, new ones included."""
    env = {"GIT_OPTIONAL_LOCKS": "0"}
    changed = git.run("diff", "--name-only", "--no-renames", "-z", head, "--", env_extra=env).fields
    new = git.run("ls-files", "--others", "--exclude-standard", "-z", env_extra=env).fields
    return {*changed, *new}


def _relative(text: str, worktree: Path, top: Path) -> str | None:
    """The path that a claim names, relative to the repository's top level."""
    path = os.path.normpath(os.path.join(os.path.realpath(worktree), text))  # noqa: PTH118 - no resolve()
    root = os.path.realpath(top)
    if not path.startswith(root + os.sep):
        return None
    return os.path.relpath(path, root)


def _commit_problem(git: Git, text: str, head: str, now: str | None) -> str | None:
    if not _COMMIT.fullmatch(text):
        return "it is no commit id"
    found = git.run("rev-parse", "--verify", "--quiet", f"{text}^{{commit}}", check=False)
    if found.code != 0:
        return "there is no such commit"
    commit = found.text.strip()
    if now is None or not git.is_ancestor(commit, now):
        return "it is not in the worktree's history"
    if git.is_ancestor(commit, head):
        return "it was there before the phase began"
    return None
