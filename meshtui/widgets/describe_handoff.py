"""A handoff as a document: its summary and gates, what it says it changed, and what of that git confirms."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from meshtui.core.view import Detail, Row
from meshtui.status import VERDICT_MARKS, gate_mark, handoff_mark
from meshtui.text import clean
from meshtui.widgets.prose import LABEL, Body, Head, Item, Raw

GAP = Raw(())
UNVERIFIED = VERDICT_MARKS["claimed"].word
_SHOWN_APART = {
    "schema", "story_id", "phase", "worker_id", "status", "summary", "back_pressure", "ac_evidence", "files_changed",
    "commits", "context_for_next", "open_questions",
}  # fmt: skip


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def handoff_items(row: Row, detail: Detail | None, now: int) -> list[Item]:
    """What the phase hands on, its gates first."""
    handoff = detail.handoff if detail is not None else None
    if not handoff:
        return [Body("No handoff: only phases of the schema hq-phase-envelope/v1 leave one.", "muted")]
    status = handoff_mark(_text(handoff.get("status", "?")))
    who = " · ".join(clean(handoff[name]) for name in ("story_id", "phase", "worker_id") if handoff.get(name))
    items: list[Item] = [
        Raw(((f"{status.glyph} {clean(status.word)}", status.look), ("  ", "text"), (who, "strong")))
    ]
    claims = _Claims(detail)
    items += claims.of("status: passed")
    if handoff.get("summary"):
        items.append(Body(_text(handoff["summary"])))
    items += _gates(handoff.get("back_pressure"))
    items += _evidence(handoff.get("ac_evidence"), _criteria(detail))
    for name, label in (("files_changed", "files changed"), ("commits", "commits")):
        values = handoff.get(name)
        if isinstance(values, list) and values:
            items += [GAP, Head(f"{label} · {len(values)}")]
            for value in values:
                items += claims.line(name, _text(value))
            items += claims.more(name)
    items += claims.rest()
    for name, label in (("open_questions", "open questions"), ("context_for_next", "for the next phase")):
        value = handoff.get(name)
        if value:
            items += [GAP, Head(label)]
            many = value if isinstance(value, list) else [value]
            items += [Body(_text(one), indent=2, mark="·" if len(many) > 1 else "") for one in many]
    for name, value in handoff.items():
        if name not in _SHOWN_APART and value not in (None, "", [], {}):
            items += [GAP, Head(clean(name).replace("_", " ")), Body(_text(value), indent=2)]
    return items


class _Claims:
    """What of a handoff was looked at when its phase ended, and what git did not confirm."""

    def __init__(self, detail: Detail | None) -> None:
        record = (detail.record if detail is not None else None) or {}
        result = (detail.result if detail is not None else None) or {}
        found = result.get("claims")
        self._open = {
            _text(one.get("claim")): _text(one.get("why") or "")
            for one in (found if isinstance(found, list) else [])
            if isinstance(one, dict)
        }
        # Without a commit to compare with nothing could be looked at.
        self._looked = bool(record.get("head")) and not any(
            one.startswith("files_changed, commits") for one in self._open
        )

    def line(self, name: str, text: str) -> Iterator[Item]:
        """One claimed file or commit, with what became of it."""
        why = self._open.pop(f"{name}: {text}"[:500], None)
        mark = VERDICT_MARKS["verified" if why is None and self._looked else "claimed"]
        yield Raw(
            (
                ("  ", "text"),
                (f"{mark.glyph} ", mark.look),
                (clean(text), "text"),
                ("  " + mark.word, mark.look),
            ),
            hang=4,
        )
        if why:
            yield Body(why, "bad", indent=4)

    def of(self, claim: str) -> Iterator[Item]:
        """What is wrong with a claim, if anything is."""
        why = self._open.pop(claim, None)
        if why is not None:
            yield Body(f"▲ {UNVERIFIED}: {why}", "bad")

    def more(self, name: str) -> Iterator[Item]:
        """Of many claims those that were not looked at."""
        for claim in [one for one in self._open if one.startswith(f"{name}: ")]:
            yield Body(f"{claim.partition(': ')[2]}: {self._open.pop(claim)}", "muted", indent=2)

    def rest(self) -> Iterator[Item]:
        """What was not confirmed and stands nowhere else."""
        if self._open:
            yield GAP
            yield Head(f"▲ {UNVERIFIED}", "bad")
            for claim, why in self._open.items():
                yield Body(f"{claim}: {why}", indent=2, mark="·")


def _gates(gates: object) -> Iterator[Item]:
    if not isinstance(gates, dict):
        return
    passed = sum(1 for value in gates.values() if value == "pass")
    yield GAP
    yield Raw((("gates".ljust(LABEL), "muted"), (f"{passed} of {len(gates)} passed", "text")))
    for name, value in gates.items():
        mark = gate_mark(_text(value))
        word = f"{mark.glyph} {clean(mark.word)}".ljust(11)
        yield Raw((("  ", "text"), (word, mark.look), (clean(name), "text")))


def _criteria(detail: Detail | None) -> list[Any]:
    """The acceptance criteria that the envelope names."""
    record = detail.record if detail is not None else None
    envelope = record.get("envelope") if record else None
    values = envelope.get("acceptance_criteria") if isinstance(envelope, dict) else None
    return values if isinstance(values, list) else []


def _evidence(entries: object, criteria: list[Any]) -> list[Item]:
    if not isinstance(entries, list) or not entries:
        return []
    items: list[Item] = [GAP, Head("acceptance criteria")]
    for entry in entries:
        if isinstance(entry, dict):
            met = entry.get("met") is True
            word = "✔ met    " if met else "✖ not met"
            index = entry.get("index", "?")
            criterion = entry.get("criterion")
            if not criterion and isinstance(index, int) and 0 <= index < len(criteria):
                criterion = criteria[index]
            name = f"{_text(index)}  {clean(criterion or '')}"
            line = (("  ", "text"), (word, "ok" if met else "bad"), ("  " + name, "text"))
            items.append(Raw(line, hang=16))
            items.append(Body(_text(entry.get("evidence", "")), "muted", indent=13))
    return items
