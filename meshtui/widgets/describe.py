"""What the details say of a record: the envelope, its result, its handoff, as items to lay out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from rich.cells import cell_len

from meshtui.commands import key_of
from meshtui.core.clock import from_iso
from meshtui.core.lane.attention import span
from meshtui.core.view import Detail, Doing, Row
from meshtui.status import row_mark
from meshtui.text import clean, duration, moment, stopwatch
from meshtui.widgets.describe_handoff import handoff_items
from meshtui.widgets.prose import LABEL, Body, Fact, Head, Item, Raw, bar

_BAR = 24
_SHOWN_APART = {
    "id", "kind", "schema", "label", "story_id", "phase", "engine", "prompt", "acceptance_criteria", "constraints",
    "worktree", "cd", "result_path", "deadline", "deadline_seconds", "story_title", "story_description", "worker_id",
}  # fmt: skip
GAP = Raw(())


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def envelope_items(row: Row, detail: Detail | None, now: int) -> list[Item]:
    """Everything that says what was asked for."""
    items: list[Item] = [*_standing(row, now)]
    if detail is not None and detail.problem:
        items.append(Fact("problem", detail.problem, "bad"))
    if detail is not None and detail.question:
        items += [GAP, *_question(detail.question)]
    record = detail.record if detail is not None else None
    envelope = record.get("envelope") if isinstance(record, dict) else None
    items += [GAP, *_times(row)]
    if isinstance(envelope, dict):
        items += _asked(envelope)
    elif detail is not None and detail.raw is not None:
        items += [GAP, Head("the file as it stands"), Body(detail.raw or "(empty)")]
    return items


def _standing(row: Row, now: int) -> Iterator[Item]:
    mark = row_mark(row)
    yield Raw(((f"{mark.glyph} {mark.word}", mark.look), ("  ", "text"), (clean(row.title), "strong")))
    if row.error:
        yield Body(row.error, "bad")
    if row.section == "active" and row.started_at is not None:
        spent = now - row.started_at
        total = row.budget_seconds
        if total is None and row.deadline_at is not None:
            total = (row.deadline_at - row.started_at) / 1000
        if total:
            part = spent / (total * 1000)
            look = "bad" if part >= 1 else "warn" if part > 0.8 else "ok"
            spoken = (f"  {stopwatch(spent)} of {stopwatch(round(total * 1000))}", "text")
            yield Raw((("budget".ljust(LABEL), "muted"), *bar(part, _BAR, look), spoken))
        else:
            yield Fact("running", stopwatch(spent), "run")
    for doing in row.doing:
        yield from doing_items(doing, now)


def doing_items(doing: Doing, now: int) -> Iterator[Item]:
    """What an agent does, how long ago it began to, and what it has used so far."""
    who = f"{doing.worker}: " if doing.worker else ""
    quiet = now - doing.at
    since = f"  {duration(quiet)} ago" if quiet >= 5000 else ""
    yield Fact("does", f"{who}{doing.text}{since}", "run")
    used = used_text(doing.tokens, doing.cost_usd)
    if used:
        yield Fact("used", used + (", partly estimated" if doing.estimated else ""))


def used_text(tokens: int | None, cost_usd: float | None) -> str:
    """``12,345 tokens, $0.42``, without what is not known."""
    parts = [f"{tokens:,} tokens"] if tokens is not None else []
    parts += [f"${cost_usd:,.2f}"] if cost_usd is not None else []
    return ", ".join(parts)


def _used(key: str, value: object) -> str:
    """One entry of a usage: ``input tokens 12,345``, ``cost $0.42``."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if key == "cost_usd":
            return f"cost ${value:,.2f}"
        return f"{clean(key).replace('_', ' ')} {value:,}"
    return f"{clean(key).replace('_', ' ')} {_text(value)}"


def _question(question: dict[str, Any]) -> Iterator[Item]:
    yield Head(f"needs an answer  ({key_of('answer')})", "warn")
    for name in ("cause", "attempts", "raised_at"):
        if question.get(name) not in (None, ""):
            yield labelled(name, question[name])
    yield from evidence_items(question.get("evidence"))


def evidence_items(evidence: object) -> Iterator[Item]:
    """What speaks for the cause of a question, whatever its shape."""
    if evidence in (None, "", [], {}):
        return
    if isinstance(evidence, dict):
        for name, value in evidence.items():
            yield labelled(name, value)
    elif isinstance(evidence, list):
        for value in evidence:
            yield Body(_text(value), indent=2, mark="·")
    else:
        yield Fact("evidence", _text(evidence))


def spoken(name: str, value: object) -> tuple[str, str]:
    """A field of a file as label and text: times, sizes and lengths of time in words."""
    at = from_iso(value) if name.endswith("_at") else None
    if at is not None:
        return name.removesuffix("_at").replace("_", " "), moment(at)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if name.endswith("_bytes"):
            return name.removesuffix("_bytes").replace("_", " "), f"{value:,} bytes"
        if name.endswith("_seconds"):
            return name.removesuffix("_seconds").replace("_", " "), span(value)
    return clean(name).replace("_", " "), _text(value)


def labelled(name: str, value: object) -> Fact:
    """A field of a file, its name as the label where there is room for it."""
    label, text = spoken(name, value)
    return Fact(label, text) if cell_len(label) < LABEL else Fact("", f"{label}: {text}")


def _times(row: Row) -> Iterator[Item]:
    yield Fact("id", row.envelope_id)
    # The title names story and phase only where there are both.
    if row.story_id and not row.phase:
        yield Fact("story", row.story_id)
    if row.phase and not row.story_id:
        yield Fact("phase", row.phase)
    if row.engine:
        yield Fact("engine", row.engine + (" · mesh" if row.mode == "mesh" else ""))
    if row.queued_at is not None:
        yield Fact("queued", moment(row.queued_at))
    if row.started_at is not None:
        yield Fact("started", moment(row.started_at))
    if row.finished_at is not None:
        took = f"  took {duration(row.finished_at - row.started_at)}" if row.started_at is not None else ""
        yield Fact("finished", moment(row.finished_at) + took)
    if row.deadline_at is not None:
        yield Fact("deadline", moment(row.deadline_at))
    if row.budget_seconds is not None:
        yield Fact("budget", span(row.budget_seconds) + " an attempt")
    if row.attempt > 1 or row.stalls:
        yield Fact(
            "attempt", f"{row.attempt}, stalled {row.stalls} time{'' if row.stalls == 1 else 's'}", "warn"
        )


def _asked(envelope: dict[str, Any]) -> Iterator[Item]:
    for name, label in (
        ("worker_id", "worker"),
        ("worktree", "worktree"),
        ("cd", "directory"),
        ("result_path", "result to"),
        ("deadline", "due"),
    ):
        if envelope.get(name):
            yield Fact(label, _text(envelope[name]))
    for name, value in envelope.items():
        if name not in _SHOWN_APART and value not in (None, "", [], {}):
            yield labelled(name, value)
    title = envelope.get("story_title")
    if title or envelope.get("story_description"):
        yield GAP
        yield Head("story")
        if title:
            yield Body(_text(title), "strong")
        if envelope.get("story_description"):
            yield Body(_text(envelope["story_description"]))
    for name, label in (("acceptance_criteria", "acceptance criteria"), ("constraints", "constraints")):
        values = envelope.get(name)
        if isinstance(values, list) and values:
            yield GAP
            yield Head(label)
            for index, value in enumerate(values):
                yield Body(_text(value), indent=4, mark=f"{index:>2}")
    if envelope.get("prompt"):
        yield GAP
        yield Head("prompt")
        yield Body(_text(envelope["prompt"]))


def result_items(row: Row, detail: Detail | None, now: int) -> list[Item]:
    """How it ended."""
    result = detail.result if detail is not None else None
    if not result:
        return [Body("No result yet: it is written when the envelope is finished.", "muted")]
    mark = row_mark(row)
    status = _text(result.get("status", "?"))
    look = {"done": "ok", "failed": "bad", "stalled": "warn"}.get(status, mark.look)
    glyph = {"done": "✔", "failed": "✖", "stalled": "◆"}.get(status, "■")
    items: list[Item] = [
        Raw(((f"{glyph} {clean(status)}", look), ("  ", "text"), (clean(row.title), "strong")))
    ]
    if result.get("error"):
        items.append(Body(_text(result["error"]), "bad"))
    items.append(GAP)
    for name, label in (
        ("handoff_status", "handoff"),
        ("exit_code", "exit code"),
        ("engine", "engine"),
        ("session_id", "session"),
        ("resumed", "resumed"),
        ("fresh_fallback", "fresh again"),
        ("result_path_error", "result path"),
        ("started_at", "started"),
        ("finished_at", "finished"),
        ("call", "call"),
    ):
        if result.get(name) not in (None, ""):
            bad = name == "result_path_error" or (name == "exit_code" and result[name] != 0)
            items.append(Fact(label, _text(result[name]), "bad" if bad else "text"))
    usage = result.get("usage")
    if isinstance(usage, dict):
        spoken = ", ".join(_used(str(key), value) for key, value in usage.items())
        items.append(Fact("usage", spoken))
    if result.get("output"):
        items += [GAP, Head("reply"), Body(_text(result["output"]))]
    return items


DESCRIBE: dict[str, Callable[[Row, Detail | None, int], list[Item]]] = {
    "envelope": envelope_items,
    "result": result_items,
    "handoff": handoff_items,
}
