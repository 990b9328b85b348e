from __future__ import annotations

import pytest

from meshtui.core.engines.base import Outcome
from meshtui.core.mesh.checkers import read_verdict
from meshtui.core.mesh.integration import read_arbiter
from meshtui.core.mesh.verdicts import checker_engine, verdict_in

APPROVED = '{"approved": true, "findings": []}'


@pytest.mark.parametrize(
    "text",
    [
        APPROVED,
        f"```json\n{APPROVED}\n```",
        f"I {{looked}} at it.\n\n{APPROVED}\n\nBye.",
        f"{APPROVED}\n{APPROVED}",
    ],
)
def test_an_agents_verdict_is_found(text: str) -> None:
    assert read_verdict(Outcome("done", text), strict=True) == (True, [])


@pytest.mark.parametrize(
    "text",
    [
        "I approve.",
        "Looks wrong to me, do not merge.",
        "",
        '{"approved": "yes"}',
        f'{APPROVED} {{"approved": false}}',
        "{" * 5000,
    ],
)
def test_prose_and_doubt_are_no_approval(text: str) -> None:
    assert read_verdict(Outcome("done", text), strict=True)[0] is False
    assert read_arbiter(Outcome("done", text), strict=True)[0] == "reject"


def test_a_programs_exit_status_decides_as_before() -> None:
    assert read_verdict(Outcome("done", "fine")) == (True, ["fine"])
    assert read_arbiter(Outcome("done", "fine")) == ("approve", ["fine"])


def test_a_failed_agent_approves_nothing() -> None:
    assert read_verdict(Outcome("failed", APPROVED, error="no"), strict=True) == (False, ["no"])
    assert read_arbiter(Outcome("failed", '{"verdict": "approve"}'), strict=True)[0] == "reject"


def test_an_arbiters_verdict() -> None:
    said = Outcome("done", 'So:\n```\n{"verdict": "approve", "reasons": ["good"]}\n```')
    assert read_arbiter(said, strict=True) == ("approve", ["good"])
    assert verdict_in('{"a": {"verdict": 1}}', "verdict") is None


def test_another_agent_checks() -> None:
    both = ["claude", "codex", "claude"]
    assert (checker_engine("claude", both), checker_engine("codex", both)) == ("codex", "claude")
    assert checker_engine("claude", ["claude"]) == "claude"
    assert checker_engine("claude", ["claude", "command"]) == "claude"
    assert checker_engine("command", ["claude", "command"]) == "command"
