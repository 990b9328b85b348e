"""What makers, checkers and the arbiter are asked."""

from __future__ import annotations

from collections.abc import Sequence

from meshtui.core import strict_json
from meshtui.core.models.mesh import Node, OwnerScope

MAX_DIFF = 400_000
"""Characters of a diff that a prompt holds; the whole is in the worktree."""
MAX_ARTIFACT = 20_000


def maker_prompt(
    node: Node,
    request: str,
    part: OwnerScope,
    *,
    iteration: int,
    findings: Sequence[str],
    siblings: Sequence[str],
) -> str:
    """The prompt of a maker that owns ``part`` of a loop's scope."""
    lines = [
        f"You are a maker of loop {node.loop_id} ({node.title or node.purpose or 'no title'}).",
        "",
        "Request:",
        request,
        "",
        f"Your part of it: {node.purpose}" if node.purpose else "Your part is what your scope covers.",
        "",
        "You may change only these paths of the repository, relative to the working directory:",
        *_scope_lines(part),
    ]
    if siblings:
        lines += ["", "Other makers of this loop work on these at the same time; leave them alone:"]
        lines += [f"- {entry}" for entry in siblings]
    lines += [
        "",
        "A change anywhere else is a violation and makes the loop fail. You need not commit: what differs in",
        "the working directory when you end is your change.",
    ]
    if iteration > 1 or findings:
        lines += [
            "",
            f"This is iteration {iteration}. The working directory holds the last candidate, which was refused:",
        ]
        lines += [f"- {finding}" for finding in findings] or ["- no reason was given"]
    if node.gates.local:
        lines += ["", f"These gates will be run on the result: {', '.join(node.gates.local)}"]
    return "\n".join(lines) + "\n"


def checker_prompt(
    node: Node,
    request: str,
    diff: str,
    artifacts: Sequence[tuple[str, str]],
    *,
    passed: Sequence[str],
) -> str:
    """The prompt of a fresh, read-only checker: the diff, and what the makers said."""
    lines = [
        f"You are a fresh checker of loop {node.loop_id}. You have not seen its makers. Look, change nothing:",
        "a checker after which the working directory differs has failed.",
        "",
        "Request:",
        request,
        "",
        f"Purpose of this loop: {node.purpose or 'what its scope covers'}",
        "Scope:",
        *_scope_lines(node.owner_scope),
        "",
        f"Gates that passed: {', '.join(passed) or 'none'}",
        "",
        "The working directory is at the candidate. The whole change as a diff:",
        "",
        _cut(diff, MAX_DIFF, "diff"),
    ]
    for name, text in artifacts:
        lines += ["", f"What {name} said:", "", _cut(text, MAX_ARTIFACT, "text")]
    lines += [
        "",
        "Reply with one JSON object and nothing else:",
        strict_json.dumps({"approved": False, "findings": ["what is wrong, one string each"]}),
    ]
    return "\n".join(lines) + "\n"


def arbiter_prompt(request: str, diff: str, report: str, loops: Sequence[str]) -> str:
    """The prompt of the final arbiter: the whole diff and the side-effect report."""
    lines = [
        "You are the final arbiter of a mission: a fresh reviewer of the merged result. Look, change nothing.",
        "",
        "Request:",
        request,
        "",
        "Loops that were merged:",
        *(f"- {line}" for line in loops),
        "",
        "Side-effect report:",
        report,
        "",
        "The whole change as a diff:",
        "",
        _cut(diff, MAX_DIFF, "diff"),
        "",
        "Reply with one JSON object and nothing else; verdict is approve or reject:",
        strict_json.dumps({"verdict": "reject", "reasons": ["why, one string each"]}),
    ]
    return "\n".join(lines) + "\n"


def _scope_lines(scope: OwnerScope) -> list[str]:
    return [
        *(f"- file {path}" for path in scope.files),
        *(f"- folder {path}" for path in scope.directories),
    ] or ["- nothing"]


def _cut(text: str, limit: int, what: str) -> str:
    if len(text) <= limit:
        return text
    return (
        f"{text[:limit]}\n[the {what} goes on for {len(text) - limit} characters; see the working directory]"
    )
