"""What stands behind an item that needs somebody: read from its files when it is selected, a few lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual.message import Message

from meshtui.core.clock import from_iso
from meshtui.core.errors import MeshtuiError
from meshtui.core.fleet import Need
from meshtui.core.run_dir import RunDir
from meshtui.core.view import CallView, Detail
from meshtui.inspector import Newest
from meshtui.text import clean, clean_output, duration, moment

if TYPE_CHECKING:
    from meshtui.core.mesh.view import LoopRow, MissionView

TAIL_BYTES = 8 << 10
TAIL_LINES = 12
RAW_LINES = 8
NAMES = {
    "budget_seconds": ("budget", ""),
    "idle_seconds": ("idle", " without output, work or a change"),
    "cpu_seconds": ("processor", " used"),
    "last_change_at": ("worktree", ", its last change"),
    "deadline": ("deadline", ""),
}
"""What a question's evidence is called here, and what it means."""
Missions = Sequence["MissionView"]


@dataclass(frozen=True, slots=True)
class Fact:
    """One piece of evidence, cleaned."""

    label: str
    text: str
    look: str = "text"


class EvidenceRead(Message):
    """The evidence for an item was read."""

    def __init__(self, key: str, facts: tuple[Fact, ...]) -> None:
        super().__init__()
        self.key = key
        self.facts = facts


class EvidenceReader(Newest[tuple[Need, Missions]]):
    """Reads the evidence for what is selected, in a thread of its own."""

    name = "meshtui-evidence"

    def __init__(self, post: Callable[[Message], object]) -> None:
        super().__init__(post)

    def ask(self, need: Need, missions: Missions) -> None:
        """Read what stands behind ``need``, and post it."""
        self._ask((need, missions))

    def serve(self, request: tuple[Need, Missions], version: int) -> None:
        need, missions = request
        try:
            facts = evidence_of(need, missions)
        except (MeshtuiError, OSError) as error:
            facts = (Fact("evidence", clean(f"cannot be read: {error}"), "warn"),)
        self._post(EvidenceRead(need.key, facts))


def evidence_of(need: Need, missions: Missions = ()) -> tuple[Fact, ...]:
    """What is known beyond the one line of the item; reads its files."""
    mission, loop = _behind(need, missions)
    if mission is not None:
        return tuple(_of_loop(mission, loop, need) if loop is not None else _of_mission(mission))
    facts: list[Fact] = []
    if need.item.key is not None:
        from meshtui.core.lane.reader import LaneReader

        detail = LaneReader(RunDir(need.run_dir)).detail(need.item.key)
        if detail is not None:
            facts = _of_record(detail)
    return tuple(facts)


def _behind(need: Need, missions: Missions) -> tuple[MissionView | None, LoopRow | None]:
    for mission in missions:
        if need.item.key is None and mission.mission_id == need.item.subject:
            return mission, None
        for loop in mission.loops:
            if loop.key == need.item.key:
                return mission, loop
    return None, None


def _fact(label: str, value: object, look: str = "text") -> list[Fact]:
    return [Fact(label, clean(value), look)] if value not in (None, "", [], {}) else []


def _of_record(detail: Detail) -> list[Fact]:
    if detail.raw is not None:
        lines = [clean(line) for line in detail.raw.splitlines()[:RAW_LINES]]
        facts = _fact("reason", detail.problem)
        return facts + [Fact("file" if not index else "", line, "muted") for index, line in enumerate(lines)]
    result, question = detail.result or {}, detail.question or {}
    facts = []
    evidence = question.get("evidence")
    if isinstance(evidence, dict):
        facts += _words(evidence)
    facts += _fact("engine", result.get("engine"))
    if isinstance(result.get("exit_code"), int) and result["exit_code"]:
        facts += _fact("exit", result["exit_code"], "bad")
    started, ended = from_iso(result.get("started_at")), from_iso(result.get("finished_at"))
    if started is not None and ended is not None:
        facts += _fact("took", f"{duration(ended - started)}, ended {moment(ended)}")
    if detail.handoff is not None:
        facts += _fact("handoff", detail.handoff.get("summary"))
        facts += _fact("next", detail.handoff.get("context_for_next"))
    record = detail.record or {}
    envelope = record.get("envelope")
    if isinstance(envelope, dict):
        facts += _fact("asked", envelope.get("story_title") or envelope.get("prompt"), "muted")
    return facts + (_tail(detail.call) if detail.call is not None else [])


def _words(evidence: dict[str, Any]) -> list[Fact]:
    """The evidence of a question, whatever the runner noted."""
    facts: list[Fact] = []
    size = evidence.get("output_bytes")
    last = from_iso(evidence.get("last_output_at"))
    if isinstance(size, int):
        text = f"{size:,} bytes written" if size else "nothing was written"
        facts.append(Fact("output", text + (f", the last {moment(last)}" if last is not None else "")))
    for key, value in evidence.items():
        known = NAMES.get(key)
        if known is None:
            continue
        at = from_iso(value) if isinstance(value, str) else None
        seconds = isinstance(value, (int, float)) and not isinstance(value, bool)
        text = moment(at) if at is not None else duration(round(value * 1000)) if seconds else value
        facts += _fact(known[0], f"{text}{known[1]}")
    return facts


def _tail(call: CallView) -> list[Fact]:
    """The last lines that a call wrote: what went wrong stands on standard error, if anything does."""
    from meshtui.core.calls import tail_text

    for path, name in ((call.stderr, "stderr"), (call.stdout, "stdout")):
        try:
            text = tail_text(path, TAIL_BYTES)
        except OSError:
            continue
        lines = [line for line in clean_output(text) if line.strip()][-TAIL_LINES:]
        if lines:
            return [Fact(name if not index else "", line, "muted") for index, line in enumerate(lines)]
    return []


def _of_mission(mission: MissionView) -> list[Fact]:
    running = [loop.loop_id for loop in mission.loops if loop.status == "running"]
    return [
        *_fact("request", mission.request, "muted"),
        *_fact("loops", f"{mission.done} of {len(mission.loops)} done"),
        *_fact("left", ", ".join(running)),
    ]


def _of_loop(mission: MissionView, loop: LoopRow, need: Need) -> list[Fact]:
    from meshtui.core.mesh.detail import Gate, read_part

    said = need.item.text
    facts = [Fact("blocker", clean(text), "bad") for text in loop.blockers[:6] if text not in said]
    facts += _fact("loop", loop.title)
    where = f"{loop.phase or loop.status}, iteration {loop.iteration} of {loop.max_iterations}"
    facts += _fact("phase", where)
    if loop.risk in ("high", "critical"):
        facts += _fact("risk", f"{loop.risk}: {'; '.join(loop.risk_reasons)}".rstrip(": "), "warn")
    facts += _fact("changed", ", ".join(loop.changed_files[:6]))
    if loop.gates_failed:
        part = read_part(mission, loop, "gates")
        for gate in part if isinstance(part, tuple) else ():
            if isinstance(gate, Gate) and gate.result == "failed":
                facts += _fact("gate", f"{gate.gate_id}: {gate.command}".rstrip(": "), "bad")
                facts += [Fact("", clean(line), "muted") for line in gate.tail[-TAIL_LINES:]]
    return facts
