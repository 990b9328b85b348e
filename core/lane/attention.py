"""What of a lane needs the operator, with the only legal ways out."""

from __future__ import annotations

import re
from pathlib import Path
from shlex import quote

from meshtui.core import identity
from meshtui.core.clock import from_iso, iso
from meshtui.core.lane.rows import read_object
from meshtui.core.lane.ways import way_out
from meshtui.core.run_dir import LanePaths
from meshtui.core.view import Attention, Exit, Held, LaneView, Row, Spent

MOST_FAILED = 50


def attention_of(view: LaneView, paths: LanePaths) -> tuple[Attention, ...]:
    """The items for ``view``: what stands still first, then what ended badly, newest first."""
    root = view.run_dir
    items = [_dead(view)] if view.state == "dead" else []
    foreign = view.runner.alive and view.runner.foreign
    items += [_parked(row, paths, root, foreign=foreign) for row in view.stalled]
    if view.held is not None:
        items.append(_held(view, view.held))
    if view.spent is not None:
        items.append(_spent(view, view.spent))
    items += _survivors(view)
    closed = foreign or view.stop_waits
    items += [_quarantined(row, root, foreign=foreign, closed=closed) for row in view.quarantined]
    bad = [row for row in view.done if row.handoff_status in ("failed", "blocked")]
    ended = sorted([*view.failed, *bad], key=lambda row: row.finished_at or 0, reverse=True)
    items += [_ended_badly(row, root, closed=closed) for row in ended[:MOST_FAILED] if row.loaded]
    return tuple(items)


def _dead(view: LaneView) -> Attention:
    left = f"; {view.active[0].title} was active" if view.active else ""
    pid = f" (pid {view.runner.pid})" if view.runner.pid else ""
    return Attention(
        kind="dead",
        subject=view.lane_id or view.run_dir.name,
        text=f"the runner{pid} is gone{left}; a new one takes over at once",
        since=view.runner.heartbeat_at or view.updated_at,
        exits=(Exit("start runner", f"meshtui lane --run-dir {quote(str(view.run_dir))}", "run"),),
    )


def _parked(row: Row, paths: LanePaths, root: Path, *, foreign: bool) -> Attention:
    """``foreign``: the runner is another tool's, which answers there."""
    question = read_object(paths.question(row.envelope_id)) or {}
    result = read_object(paths.result(row.envelope_id)) or {}
    cause = question.get("cause") or result.get("error") or "parked"
    attempts = question.get("attempts", row.stalls)
    evidence = question.get("evidence")
    silent = from_iso(evidence.get("last_output_at")) if isinstance(evidence, dict) else None
    raised = from_iso(question.get("raised_at")) or from_iso(result.get("finished_at"))
    text = str(cause)
    if isinstance(attempts, int) and attempts >= 2:
        text = f"stalled {'twice' if attempts == 2 else f'{attempts} times'}"
        if row.budget_seconds:
            text += f" at {span(row.budget_seconds)}"
        if isinstance(evidence, dict) and "output_bytes" in evidence:
            text += ", no output" if not evidence["output_bytes"] else ""
            if silent is not None and raised is not None and raised - silent >= 1000:
                text += f", silent for {span((raised - silent) / 1000)}"
    longer = max(1, round((row.budget_seconds or 1800) * 2))
    log = Exit("log", way_out("logs", row.envelope_id, root), "log")
    exits: tuple[Exit, ...] = (
        Exit("retry", way_out("answer", row.envelope_id, root, "--retry"), "retry"),
        Exit(
            f"retry with {span(longer)}",
            way_out("answer", row.envelope_id, root, "--deadline-seconds", str(longer)),
            "retry",
        ),
        Exit("drop", way_out("answer", row.envelope_id, root, "--drop"), "drop"),
    )
    if foreign:
        exits = (log,) if row.call_id is not None else ()
        text += "; the runner of another tool works this lane: stop it first, or answer there"
    return Attention(
        kind="parked",
        subject=row.title,
        text=text,
        since=raised,
        exits=exits,
        key=row.key,
        envelope_id=row.envelope_id,
        engine=row.engine,
    )


def _held(view: LaneView, held: Held) -> Attention:
    row = next((row for row in view.pending if row.envelope_id == held.envelope_id), None)
    until = iso(held.until) if held.until is not None else "later"
    text = f"held until {until}" if held.known else f"held, tried again at {until}"
    return Attention(
        kind="limit",
        subject=row.title if row is not None else held.envelope_id,
        text=f"{text}; {held.text or f'usage limit of {held.engine}'}",
        since=held.since,
        exits=(Exit("withdraw", way_out("withdraw", held.envelope_id, view.run_dir), "withdraw"),),
        key=row.key if row is not None else None,
        envelope_id=held.envelope_id,
        engine=held.engine,
    )


def _spent(view: LaneView, spent: Spent) -> Attention:
    share = f"{spent.used:g} of {spent.most:g} ([lane] {spent.cap})"
    reached = f"the cap is reached, {share}: raise it and start the runner again"
    return Attention(
        kind="budget",
        subject=view.lane_id or view.run_dir.name,
        text=reached if spent.reached else f"used {share}; what runs is ended when that is reached",
        since=None,
        exits=(Exit("start runner", f"meshtui lane --run-dir {quote(str(view.run_dir))}", "run"),)
        if spent.reached
        else (),
    )


def _survivors(view: LaneView) -> list[Attention]:
    """What did not end when its call was ended, as far as it still runs."""
    found: dict[str, Attention] = {}
    for event in view.journal:
        if event.event != "call_survivors":
            continue
        names = [str(name) for name in event.data.get("survivors") or ()]
        alive = [name for name in names if _runs(name)]
        if alive:
            found[event.subject] = Attention(
                kind="survivor",
                subject=event.subject,
                text=f"would not end: {', '.join(alive)}",
                since=event.at,
                exits=(Exit("log", way_out("logs", event.subject, view.run_dir), "log"),),
            )
    return list(found.values())


def _runs(name: str) -> bool:
    """Whether the process that a receipt names as ``sleep (pid 4121)`` is there."""
    pid = re.search(r"\(pid (\d+)\)", name)
    return pid is not None and identity.started_at(int(pid[1])) is not None


def _quarantined(row: Row, root: Path, *, foreign: bool, closed: bool) -> Attention:
    """``closed``: nothing can be queued, for a stop waits or the runner is another tool's (``foreign``)."""
    repair = Exit("repair", way_out("quarantine repair", row.key, root), "repair")
    drop = Exit("drop", way_out("quarantine drop", row.key, root), "drop-file")
    return Attention(
        kind="quarantined",
        subject=row.key,
        text=row.error or "cannot be read as a record",
        since=row.finished_at,
        exits=() if foreign else (drop,) if closed else (repair, drop),
        key=row.key,
    )


def _ended_badly(row: Row, root: Path, *, closed: bool) -> Attention:
    """``closed``: nothing can be queued again now."""
    blocked = row.handoff_status == "blocked"
    text = row.error or (f"handoff says {row.handoff_status}" if row.handoff_status else "failed")
    exits = [] if closed else [Exit("requeue", way_out("requeue", row.envelope_id, root), "requeue")]
    if row.call_id is not None:
        exits.append(Exit("log", way_out("logs", row.envelope_id, root), "log"))
    return Attention(
        kind="blocked" if blocked else "failed",
        subject=row.title,
        text=text,
        since=row.finished_at,
        exits=tuple(exits),
        key=row.key,
        envelope_id=row.envelope_id,
        engine=row.engine,
    )


def span(seconds: float) -> str:
    """A duration in words: ``45 s``, ``30 min``, ``2 h 5 min``."""
    if seconds < 1:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{round(seconds, 1):g} s" if seconds < 10 else f"{round(seconds)} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
