"""What the demo's lane is to do, in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SOAK = "soak"
"""The phase that needs longer than it may: it stalls twice and parks."""
SOAK_DEADLINE_SECONDS = 2
"""Less than the three seconds that ``tools/agent.sh`` lets it take; twice this is enough."""

STORY = "leap-year"
DIAGNOSE_HANDOFF = "handoffs/leap-year-diagnose.json"
REPAIR_HANDOFF = "handoffs/leap-year-repair.json"
"""Relative to the run directory."""

MISSION = "mission"
"""The phase that is planned into loops, which work side by side."""
_REQUEST = (
    "Annotate the functions of years and weekdays, give those of months examples that can be run, compare "
    "with the calendar of the library in tests, and describe every function in docs."
)


def demo_envelopes(repo: Path) -> list[dict[str, Any]]:
    """The envelopes, for the repository at ``repo``."""
    return [
        _plain(repo, "tidy", "four spaces for every tab, no white space at line ends, and commit"),
        _plain(repo, "imports", "sort the imports of every file, and commit"),
        _plain(repo, "compile", "see that every file compiles"),
        _plain(repo, "test", "run the unit tests"),
        _story(
            repo,
            "diagnose",
            incoming=None,
            result=DIAGNOSE_HANDOFF,
            criteria=["The failing tests are named in the handoff."],
        ),
        _story(
            repo,
            "repair",
            incoming=DIAGNOSE_HANDOFF,
            result=REPAIR_HANDOFF,
            criteria=["The tests that were handed over pass.", "All other tests pass too."],
        ),
        _plain(repo, "docs", "write an index of the pages and functions, and commit"),
        {
            **_plain(repo, SOAK, "compare the calendar with Python's own for three seconds"),
            "deadline_seconds": SOAK_DEADLINE_SECONDS,
        },
        _plain(repo, "changelog", "write the changelog from the log, and commit"),
        {**_plain(repo, MISSION, ""), "mode": "mesh", "repo": str(repo), "prompt": _REQUEST},
    ]


def _plain(repo: Path, task: str, text: str) -> dict[str, Any]:
    return {
        "kind": "phase",
        "id": task,
        "engine": "command",
        "cd": str(repo),
        "prompt": f"{task}: {text}",
        "deadline_seconds": 60,
    }


def _story(
    repo: Path, phase: str, *, incoming: str | None, result: str, criteria: list[str]
) -> dict[str, Any]:
    return {
        "schema": "hq-phase-envelope/v1",
        "id": f"{STORY}-{phase}",
        "engine": "command",
        "story_id": STORY,
        "story_title": "Centuries are no leap years",
        "story_description": "A test of the package fails. Find it in the first phase, repair it in the second.",
        "phase": phase,
        "worker_id": "agent.sh",
        "worktree": str(repo),
        "incoming_handoff": incoming,
        "result_path": result,
        "acceptance_criteria": criteria,
        "constraints": ["Change nothing but the package."],
        "fresh_call": True,
        "deadline_seconds": 60,
    }
