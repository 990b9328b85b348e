"""A proof as a document: each claim with its evidence, and after verification what became of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from meshtui.commands import key_of
from meshtui.core.mesh.detail import Claim, Proof
from meshtui.core.mesh.verify import Check
from meshtui.status import VERDICT_MARKS, Mark
from meshtui.text import clean, duration
from meshtui.widgets.pane import ToLog
from meshtui.widgets.prose import Body, Fact, Head, Item, Raw

GAP = Raw(())
UNCHECKED = Mark("○", "not verified yet", "idle")
_ORDER = ("mismatch", "claimed", "verified")
_INDENT = 4


def took(ms: int) -> str:
    """How long something took: ``310 ms``, ``12.8 s``, then as :func:`duration`."""
    if ms < 1000:
        return f"{ms} ms"
    return f"{ms / 1000:.1f} s" if ms < 60_000 else duration(ms)


def proof_items(
    proof: Proof | None,
    checks: tuple[Check, ...] | None,
    verifying: bool,
    where: Callable[[str], Path | None] = lambda _name: None,
) -> list[Item]:
    """The claims with their evidence; after verification what became of each. ``where`` finds a log."""
    if proof is None:
        return [Body("Reading…", "muted")]
    items: list[Item] = []
    if verifying:
        items.append(Body("Verifying…", "run"))
    elif checks is not None:
        items.append(_verdict(checks))
    elif proof.exists:
        items.append(Raw(((key_of("verify"), "key"), (" verifies: what can be computed again is", "muted"))))
    if not proof.exists:
        if checks:
            items += [GAP, *_checked(checks)]
        return [*items, Body("No proof yet: it is written when the loop ends.", "muted")]
    items += [GAP, Fact("status", proof.status or "?")]
    for label, commit in (("base", proof.base), ("head", proof.head)):
        if commit:
            items.append(Fact(label, commit[:12]))
    left = list(checks or ())
    if proof.claims:
        items += [GAP, Head(f"claims · {len(proof.claims)}")]
    for claim in proof.claims:
        mine = next((one for one in left if one.claim == claim.claim), None)
        if mine is not None:
            left.remove(mine)
        items += _claim(claim, mine, checks is not None, where)
    if left:
        items += [GAP, Head("also checked"), *_checked(tuple(left))]
    if proof.blockers:
        items += [GAP, Head("blockers", "bad"), *(Body(text, indent=2, mark="·") for text in proof.blockers)]
    return items


def _verdict(checks: tuple[Check, ...]) -> Item:
    bad = sum(1 for check in checks if check.verdict == "mismatch")
    claimed = sum(1 for check in checks if check.verdict == "claimed")
    if bad:
        return Head(f"✖ the proof does not hold · {bad} of {len(checks)} differ", "bad")
    if not checks:
        return Head("nothing to verify yet: no loop has ended", "muted")
    words = f", {claimed} only claimed" if claimed else ""
    return Head(f"✔ the proof holds · {len(checks) - claimed} of {len(checks)} verified{words}", "ok")


def _checked(checks: tuple[Check, ...]) -> Iterator[Item]:
    """Checks that belong to no claim listed: what differs first."""
    subjects = {check.subject for check in checks}
    for check in sorted(checks, key=lambda one: _ORDER.index(one.verdict)):
        mark = VERDICT_MARKS[check.verdict]
        subject = f"{clean(check.subject)}: " if len(subjects) > 1 else ""
        yield Raw(
            (
                ("  ", "text"),
                (f"{mark.glyph} {mark.word}", mark.look),
                (f"  {subject}{clean(check.claim)}", "text"),
            ),
            hang=_INDENT,
        )
        yield Body(_said(check), "bad" if check.verdict == "mismatch" else "muted", indent=_INDENT)


def _said(check: Check) -> str:
    return check.text.removeprefix("claimed, not verified: ")


def _claim(
    claim: Claim, check: Check | None, verified: bool, where: Callable[[str], Path | None]
) -> Iterator[Item]:
    mark = VERDICT_MARKS[check.verdict if check is not None else "claimed"] if verified else UNCHECKED
    path = where(claim.log)
    bad = claim.claim.endswith(("failed", "rejected"))
    yield Raw(
        (
            ("  ", "text"),
            (f"{mark.glyph} {mark.word}", mark.look),
            (f"  {clean(claim.claim)}", "bad" if bad else "strong"),
        ),
        ToLog(path, f"log of {clean(claim.claim)}") if path is not None else None,
        hang=_INDENT,
    )
    if check is not None and check.verdict != "verified":
        yield Body(_said(check), "bad", indent=_INDENT)
    if claim.command:
        yield Body(f"$ {claim.command}", indent=_INDENT)
    facts = []
    if claim.exit_code is not None:
        facts.append(f"exit {claim.exit_code}")
    if claim.duration_ms is not None:
        facts.append(took(claim.duration_ms))
    if claim.call:
        facts.append(f"call {claim.call}")
    if facts:
        yield Body(" · ".join(facts), "muted", indent=_INDENT)
    if claim.log:
        more = f"  ({key_of('fold')} opens it)" if path is not None else ""
        yield Body(f"{claim.log}{more}", "muted", indent=_INDENT)
    if claim.sha256:
        yield Body(f"sha256 {claim.sha256[:16]}…", "muted", indent=_INDENT)
