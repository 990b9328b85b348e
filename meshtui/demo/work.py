"""Works a demo's lane to its end without a screen, and tells what came of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from meshtui.core.clock import Clock, SystemClock
from meshtui.core.lane.lane import Lane
from meshtui.core.lane.rows import read_object
from meshtui.core.lane.runner import Runner
from meshtui.core.lane.service import open_runner
from meshtui.core.mesh.files import load_plan, read_json, read_state
from meshtui.core.mesh.paths import LoopPaths, MissionPaths
from meshtui.core.mesh.service import missions_in
from meshtui.core.mesh.verify import Verifier
from meshtui.core.models.names import RecordName
from meshtui.core.snapshot import read_view
from meshtui.core.view import LaneView, Row
from meshtui.demo.build import Demo, git

ANSWER_SECONDS = 30.0
"""What a parked phase gets when the demo answers for its operator."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Phase:
    """How one envelope stands."""

    envelope_id: str
    title: str
    status: str
    """``done``, ``failed``, ``parked``, or the section it stands in."""
    handoff_status: str | None
    seconds: float | None
    """How long its last attempt took."""
    note: str
    """The handoff's summary, why it failed, or the last line of its reply."""


@dataclass(frozen=True, slots=True)
class Loop:
    """How one loop of the mission stands."""

    loop_id: str
    status: str
    iterations: int
    changed: tuple[str, ...]
    """The files it changed."""
    refused: tuple[str, ...]
    """Why each iteration but the last was refused, a line each."""


@dataclass(frozen=True, slots=True)
class Mission:
    """How the mission stands."""

    mission_id: str
    loops: tuple[Loop, ...]
    branch: str | None
    """Where its result is, once it is merged."""
    commits: int
    """How many the merge made, one a loop."""
    gates: tuple[str, ...]
    """What the merged result passed."""
    verified: int
    """Claims of its proof that were computed again and are true."""
    claimed: int
    """Claims that cannot be computed again."""
    mismatches: tuple[str, ...]
    """Claims that are not true."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a demo came to."""

    phases: tuple[Phase, ...]
    """In the order of the queue."""
    answered: tuple[str, ...]
    """The parked envelopes that the demo answered itself."""
    commits: int
    mission: Mission | None
    """``None`` before it was planned."""


class DemoWork:
    """Runs the lane until nothing is left to run; ``request_stop`` may come from a signal handler."""

    def __init__(self, demo: Demo, say: Say, *, clock: Clock | None = None) -> None:
        self._demo = demo
        self._say = say
        self._clock = clock or SystemClock()
        self._runner: Runner | None = None
        self._stop = threading.Event()

    def request_stop(self) -> None:
        """End the active call, put its record back, return."""
        self._stop.set()
        if self._runner is not None:
            self._runner.request_stop()

    def run(self) -> Report:
        """Work the lane; a parked phase is answered once, with a longer deadline."""
        answered: list[str] = []
        while not self._stop.is_set():
            self._runner = open_runner(self._demo.run_dir, until_idle=True, clock=self._clock)
            if self._stop.is_set():
                self._runner.request_stop()
            self._runner.listen(self._tell)
            self._runner.run()
            parked = [row for row in self._view().stalled if row.envelope_id not in answered]
            if self._stop.is_set() or not parked:
                break
            for row in parked:
                self._answer(row)
                answered.append(row.envelope_id)
        return self.report(tuple(answered))

    def report(self, answered: tuple[str, ...] = ()) -> Report:
        """How everything stands now."""
        view = self._view()
        rows = [*view.done, *view.failed, *view.stalled, *view.active, *view.pending, *view.withdrawn]
        rows.sort(key=_sequence)
        commits = int(git(self._demo.repo, "rev-list", "--count", "HEAD"))
        mission = mission_report(self._demo)
        return Report(tuple(self._phase(row) for row in rows), answered, commits, mission)

    def _view(self) -> LaneView:
        return read_view(self._demo.run_dir, self._clock, history=True)

    def _answer(self, row: Row) -> None:
        self._say(
            f"{row.title} waits for an answer. Nobody is here to give it, so the demo does: "
            f"meshtui answer {row.envelope_id} --deadline-seconds {ANSWER_SECONDS:g}"
        )
        lane = Lane(self._demo.run_dir, clock=self._clock, by="demo")
        lane.answer(row.envelope_id, "retry", deadline_seconds=ANSWER_SECONDS)

    def _tell(self, event: str, subject: str, data: dict[str, Any]) -> None:
        if event == "phase_stalled":
            self._say(
                f"{phase_mark('stalled')} {subject}, at its deadline of {data.get('budget_seconds')} s; once more"
            )
        elif event == "phase_parked":
            self._say(f"{phase_mark('parked')} {subject}: {data.get('cause')}, {data.get('attempts')} times")
        elif event in ("phase_done", "phase_failed"):
            self._say(f"{phase_mark(event.removeprefix('phase_'))} {subject}")

    def _phase(self, row: Row) -> Phase:
        result = read_object(self._demo.run_dir.lane.result(row.envelope_id)) or {}
        seconds = None
        if row.started_at is not None and row.finished_at is not None:
            seconds = (row.finished_at - row.started_at) / 1000
        status = "parked" if row.section == "stalled" else row.section
        return Phase(row.envelope_id, row.title, status, row.handoff_status, seconds, _note(result))


def mission_report(demo: Demo) -> Mission | None:
    """How the demo's mission stands, its proof checked."""
    names = missions_in(demo.run_dir)
    if not names:
        return None
    paths = MissionPaths.of(demo.run_dir, names[-1])
    plan = load_plan(paths)
    proof = read_json(paths.graph_proof) or {}
    merged = read_json(paths.loop(plan.integration_loop_id).proof) or {}
    checks = Verifier(demo.run_dir, paths).mission() if proof else []
    branch = proof.get("branch")
    return Mission(
        mission_id=paths.mission_id,
        loops=tuple(_loop(paths.loop(node.loop_id)) for node in plan.graph.nodes),
        branch=branch,
        commits=int(git(demo.repo, "rev-list", "--count", f"{plan.base_commit}..{branch}")) if branch else 0,
        gates=tuple(
            name for name in (merged.get("gate_result") or {}).get("passed_gates") or [] if ":" not in name
        ),
        verified=sum(check.verdict == "verified" for check in checks),
        claimed=sum(check.verdict == "claimed" for check in checks),
        mismatches=tuple(
            f"{check.subject}: {check.claim}: {check.text}" for check in checks if check.verdict == "mismatch"
        ),
    )


def _loop(paths: LoopPaths) -> Loop:
    state = read_state(paths)
    proof = read_json(paths.proof) or {}
    iterations = int(proof.get("iterations") or 0)
    refused = []
    for number in range(2, iterations + 1):
        given = (read_json(paths.maker / f"{number:04d}-maker-1.json") or {}).get("findings_given") or []
        refused.append("; ".join(str(text).partition(":\n")[0].partition(": ***")[0] for text in given))
    return Loop(
        loop_id=paths.root.name,
        status=state.status if state is not None else "planned",
        iterations=iterations,
        changed=tuple(proof.get("changed_files") or ()),
        refused=tuple(refused),
    )


def _note(result: dict[str, Any]) -> str:
    if result.get("error"):
        # The exit status and the last of its last words.
        first, _, rest = str(result["error"]).partition(": ")
        return f"{first}: {rest.rpartition(' · ')[2]}" if rest else first
    output = str(result.get("output") or "").strip()
    if result.get("handoff_status"):
        return _summary(output)
    return output.rpartition("\n")[2].strip()


def _sequence(row: Row) -> int:
    name = RecordName.parse(row.key)
    return name.sequence if name is not None else 0


def _summary(reply: str) -> str:
    """What the handoff in ``reply`` says was done; the engine has checked it already."""
    begin = reply.find("{")
    try:
        handoff = json.loads(reply[begin:])
    except ValueError:
        return "gave a handoff"
    return f"handoff {handoff.get('status')}: {handoff.get('summary')}"


def phase_mark(status: str) -> str:
    """A glyph and the word for a status, padded to a column."""
    glyph = {"done": "✔", "completed": "✔", "failed": "✖", "blocked": "✖", "parked": "◆", "stalled": "…"}.get(
        status, "·"
    )
    return f"{glyph} {status:<9}"
