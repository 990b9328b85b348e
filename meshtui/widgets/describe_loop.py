"""What the details say of a loop: state, diff, gates, proof, findings, log, as items to lay out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from rich.cells import cell_len

from meshtui.commands import key_of
from meshtui.core.mesh.detail import Diff, Finding, Gate, Kept, Log
from meshtui.core.mesh.view import LoopRow, MissionView
from meshtui.receipts import count
from meshtui.status import RISK_LOOKS, Mark, event_look, loop_mark, mission_mark
from meshtui.text import clean, clean_output, moment, number, stopwatch, time_of_day
from meshtui.widgets.describe import doing_items, used_text
from meshtui.widgets.describe_proof import took
from meshtui.widgets.loops import bar_look, phase_of, used_of
from meshtui.widgets.paint import Line, Span
from meshtui.widgets.pane import ToLog
from meshtui.widgets.prose import LABEL, Body, Fact, Head, Item, Raw, Ready, bar

Where = Callable[[str], Path | None]
"""Finds a log by the name a gate or a proof gives it."""
GAP = Raw(())
READING: list[Item] = [Body("Reading…", "muted")]
_BAR = 16
_GATE_MARKS = {
    "passed": Mark("✔", "passed", "ok"),
    "failed": Mark("✖", "failed", "bad"),
    "skipped": Mark("–", "skipped", "idle"),
    "waiting": Mark("◌", "not run", "idle"),
}
_BUDGET = (
    ("wall_ms", "wall time"),
    ("model_calls", "calls"),
    ("iterations", "iterations"),
    ("subagents", "workers"),
    ("changed_files", "files"),
    ("patch_bytes", "patch"),
    ("tokens", "tokens"),
)
_PHASES = {
    "triage": "checks its state and budget",
    "maker": "its makers change the files",
    "gates": "its gates run on the candidate",
    "checker": "its checkers look at the candidate",
    "integration": "the loops' commits are put together",
    "finalizer": "the result is judged",
    "handoff": "it waits for a person",
}


# -- state ------------------------------------------------------------------------------------------


def state_items(row: LoopRow, mission: MissionView | None, kept: Kept | None, now: int) -> list[Item]:
    """What the loop does now, what it may, what stands in its way, what is kept where."""
    mark = loop_mark(row)
    items: list[Item] = [
        Raw(
            (
                (f"{mark.glyph} {clean(mark.word)}", mark.look),
                ("  ", "text"),
                (clean(row.title or row.loop_id), "strong"),
            )
        )
    ]
    items += _doing(row, now)
    if row.handoff_reason and row.status == "handoff":
        items += [
            GAP,
            Head(f"a person decides  ({key_of('answer_loop')})", "warn"),
            Body(row.handoff_reason, indent=2),
        ]
    if row.blockers and row.status != "handoff":
        items += [GAP, Head(f"blockers · {len(row.blockers)}", "bad")]
        items += [Body(text, "text", indent=2, mark="·") for text in row.blockers[:50]]
    items += [GAP, *_scope(row), GAP, *_budget(row, now)]
    if kept is not None:
        items += _decided(kept)
    if mission is not None:
        items += [GAP, *_mission(mission)]
    if kept is not None and kept.places:
        items += [GAP, Head("kept")]
        commits = ("candidate", "base")
        items += [Fact(f"  {label}", text[:12] if label in commits else text) for label, text in kept.places]
    if kept is not None and kept.handoff:
        items += [GAP, Head("handoff.md"), Body(kept.handoff, indent=2)]
    return items


def _doing(row: LoopRow, now: int) -> Iterator[Item]:
    if row.status == "running":
        words = _PHASES.get(row.phase or "", row.phase or "")
        yield Fact("now", f"{phase_of(row) or 'starts'}: {words}" if words else "starts", "run")
        if row.active_workers:
            yield Fact("at work", ", ".join(row.active_workers))
        for held in row.held:
            until = f" until {moment(held.until)}" if held.until is not None else ""
            yield Fact("held", f"{held.envelope_id}{until}: {held.text or held.engine}", "warn")
        for doing in row.doing:
            yield from doing_items(doing, now)
    elif phase_of(row) and row.ended:
        yield Fact("ended in", phase_of(row))
    if row.iteration:
        yield Fact("iteration", f"{row.iteration} of {row.max_iterations or '?'}")
    value = row.elapsed(now)
    if value is not None:
        yield Fact("time", stopwatch(value))
    if row.started_at is not None:
        yield Fact("started", moment(row.started_at))
    if row.dependencies:
        yield Fact("after", ", ".join(row.dependencies))


def _scope(row: LoopRow) -> Iterator[Item]:
    owns = [*row.directories, *row.files]
    yield Fact(
        "owns", ", ".join(owns[:40]) + (f" and {len(owns) - 40} more" if len(owns) > 40 else "") or "nothing"
    )
    said = [reason.removeprefix(f"{row.risk}: ") for reason in row.risk_reasons]
    reasons = f": {'; '.join(said)}" if said and said != ["bounded_scope"] else ""
    yield Fact("risk", row.risk + reasons, RISK_LOOKS.get(row.risk, "warn"))
    if row.level:
        yield Fact("level", row.level)
    yield Fact(
        "workers",
        f"{count(row.makers, 'maker')}, {count(row.checkers, 'checker')} planned, {row.workers_used} used",
    )
    passed, failed = len(row.gates_passed), len(row.gates_failed)
    text = f"{passed} of {len(row.gates_selected)} passed" + (f", {failed} failed" if failed else "")
    yield Fact("gates", text, "bad" if failed else "text")
    if row.changed_files:
        yield Fact("changed", count(len(row.changed_files), "file"))


def _budget(row: LoopRow, now: int) -> Iterator[Item]:
    yield Head("budget")
    for part, label in _BUDGET:
        found = used_of(row, part, now)
        if found is None:
            continue
        used, most = found
        if part == "wall_ms":
            text = f"{stopwatch(round(used))} of {stopwatch(round(most))}"
        else:
            text = f"{number(round(used))} of {number(round(most))}"
        # Using every iteration or worker is no alarm: that is what they are for.
        look = "ok" if part in ("iterations", "subagents") else bar_look(used / most)
        yield Raw(
            ((f"  {label}".ljust(LABEL + 1), "muted"), *bar(used / most, _BAR, look), (f"  {text}", "text"))
        )
    cost, most_cost = row.budget_used.get("cost_usd"), row.budget_max.get("max_cost_usd")
    if isinstance(cost, (int, float)):
        of = f" of ${most_cost:,.2f}" if isinstance(most_cost, (int, float)) else ""
        yield Fact("  cost", f"${cost:,.2f}{of}")


def _decided(kept: Kept) -> Iterator[Item]:
    if kept.verdict:
        yield GAP
        good = kept.verdict[0].startswith("approve")
        yield Fact("verdict", kept.verdict[0], "ok" if good else "bad")
        for reason in kept.verdict[1:]:
            yield Body(reason, indent=LABEL)
    if kept.merges:
        yield GAP
        yield Head("merged")
        for loop, strategy, good, said in kept.merges:
            mark = _GATE_MARKS["passed" if good else "failed"]
            words = f"  {clean(strategy).replace('_', ' ')}" + (f": {clean(said)}" if said else "")
            spans: list[Span] = [
                ("  ", "text"),
                (f"{mark.glyph} ", mark.look),
                (clean(loop), "text"),
                (words, "muted"),
            ]
            yield Raw(tuple(spans))
    if kept.effects:
        yield GAP
        yield Head("side effects", "warn")
        for text in kept.effects:
            yield Body(text, indent=2, mark="·")


def _mission(mission: MissionView) -> Iterator[Item]:
    mark = mission_mark(mission)
    yield Head(f"mission {mission.mission_id}")
    yield Fact(
        "  state", f"{mark.glyph} {mark.word}, {mission.done} of {len(mission.loops)} loops done", mark.look
    )
    if mission.runner.alive:
        where = f" on {mission.runner.host}" if mission.runner.host else ""
        kind = "another tool's runner" if mission.runner.foreign else "runner"
        yield Fact("  runner", f"{kind} {mission.runner.pid or ''}{where}")
    used = used_text(*mission.used)
    if used:
        yield Fact("  used", used)
    proof = mission.graph_proof or {}
    if isinstance(proof.get("branch"), str):
        yield Fact(
            "  result", f"branch {proof['branch']}" + (f"  ({key_of('land')} lands it)" if mission.ok else "")
        )
    if mission.repo:
        yield Fact("  repo", mission.repo)
    if mission.request:
        yield Fact("  request", mission.request)


# -- diff -------------------------------------------------------------------------------------------


def diff_items(row: LoopRow, diff: Diff | None) -> list[Item]:
    """Why there is no patch to show."""
    if diff is None:
        return READING
    items: list[Item] = [Fact("problem", diff.problem, "bad"), GAP] if diff.problem else []
    if diff.files:
        items += [Body(f"{one.status} {one.path}") for one in diff.files]
        return items
    text = (
        "It changed nothing." if row.ended else "Nothing to compare yet: the makers have left no candidate."
    )
    return [*items, Body(text, "muted")]


# -- gates ------------------------------------------------------------------------------------------


def gate_items(row: LoopRow, gates: tuple[Gate, ...] | None, where: Where) -> list[Item]:
    """Every gate with its result, and what it printed; those that failed first to be read.

    ``where`` finds a log.
    """
    if gates is None:
        return READING
    if not gates:
        return [Body("No gates are planned for it.", "muted")]
    passed = sum(1 for gate in gates if gate.result == "passed")
    items: list[Item] = [Raw((("gates".ljust(LABEL), "muted"), (f"{passed} of {len(gates)} passed", "text")))]
    width = min(34, max(cell_len(clean(gate.gate_id)) for gate in gates))
    items += [Raw(_gate_line(gate, width), _gate_target(gate, where)) for gate in gates]
    for gate in sorted(gates, key=lambda one: one.result != "failed"):
        items += _gate_log(gate, where)
    return items


def _gate_target(gate: Gate, where: Where) -> ToLog | None:
    path = where(gate.log)
    return ToLog(path, f"log of gate {clean(gate.gate_id)}") if path is not None else None


def _gate_line(gate: Gate, width: int) -> Line:
    mark = _GATE_MARKS[gate.result]
    name = clean(gate.gate_id)
    facts = []
    if gate.timed_out:
        facts.append("timed out")
    elif gate.exit_code is not None:
        facts.append(f"exit {gate.exit_code}")
    if gate.duration_ms and gate.command and not gate.command.startswith("builtin:"):
        facts.append(took(gate.duration_ms))
    if gate.iteration:
        facts.append(f"it {gate.iteration}")
    if gate.base_failed:
        facts.append("fails on the base too")
    filling = " " * max(0, width - cell_len(name))
    return (
        ("  ", "text"),
        (f"{mark.glyph} {mark.word}".ljust(10), mark.look),
        (name + filling + "  ", "text"),
        (" · ".join(facts), "muted"),
    )


def _gate_log(gate: Gate, where: Where) -> Iterator[Item]:
    if not (gate.tail or gate.blockers or gate.left_behind or gate.base_failed):
        return
    mark = _GATE_MARKS[gate.result]
    yield GAP
    yield Raw(((f"{mark.glyph} ", mark.look), (clean(gate.gate_id), "strong")), _gate_target(gate, where))
    if gate.command and not gate.command.startswith("builtin:"):
        yield Body(f"$ {gate.command}", "muted", indent=2)
    for text in gate.blockers:
        yield Body(text, "bad", indent=2)
    if gate.base_failed:
        yield Body("It fails on the untouched base as well.", "warn", indent=2)
    if gate.left_behind:
        yield Body(f"left behind and removed: {', '.join(gate.left_behind[:20])}", "warn", indent=2)
    yield Ready(
        tuple((f"  {line}", "text") for line in clean_output("\n".join(gate.tail))) if gate.tail else ()
    )
    if gate.log:
        yield Body(f"{gate.log}  ({key_of('fold')} opens it)", "muted", indent=2)


# -- findings ---------------------------------------------------------------------------------------


def finding_items(row: LoopRow, findings: tuple[Finding, ...] | None) -> list[Item]:
    """What was said, the newest iteration first."""
    if findings is None:
        return READING
    if not findings:
        text = "Nothing was found." if row.ended else "Nobody has looked at it yet."
        return [Body(text, "muted")]
    items: list[Item] = []
    for iteration in dict.fromkeys(one.iteration for one in findings):
        if items:
            items.append(GAP)
        items.append(Head(f"iteration {iteration}"))
        for one in findings:
            if one.iteration == iteration:
                items += _finding(one)
    return items


def _finding(one: Finding) -> Iterator[Item]:
    word, look = "said", "text"
    if one.approved is not None:
        word, look = ("✔ approved", "ok") if one.approved else ("✖ rejected", "bad")
    if one.who == "gates":
        word = "✖ failed"
    spans: list[Span] = [("  ", "text"), (word, look), (f"  {clean(one.who)}", "text")]
    if one.fresh is False:
        spans.append(("  not a fresh session", "bad"))
    yield Raw(tuple(spans))
    for text in one.texts:
        yield Body(text, indent=4, mark="  ·")


# -- log --------------------------------------------------------------------------------------------


def log_items(log: Log | None) -> list[Item]:
    """The loop's events."""
    if log is None:
        return READING
    items: list[Item] = []
    for line in log.lines:
        at = time_of_day(line.at) if line.at is not None else "        "
        spans: list[Span] = [
            (at + " ", "muted"),
            (clean(line.event.removeprefix("loop_").replace("_", " ")), event_look(line.event)),
        ]
        if line.message:
            spans.append((f"  {clean(line.message)}", "text"))
        items.append(Raw(tuple(spans)))
    if not items and not log.calls:
        items.append(Body("Nothing happened yet: the loop has not started.", "muted"))
    return items
