"""Fresh, read-only checkers: each in a throwaway working copy of the candidate."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from meshtui.core import strict_json
from meshtui.core.clock import iso
from meshtui.core.engines.base import Outcome
from meshtui.core.errors import InvalidInput
from meshtui.core.mesh.context import MissionContext, Progress
from meshtui.core.mesh.files import read_json, write_json
from meshtui.core.mesh.paths import LoopPaths, relative
from meshtui.core.mesh.prompts import checker_prompt
from meshtui.core.mesh.tasks import Finished, Task, worker_evidence
from meshtui.core.mesh.verdicts import NO_VERDICT, checker_engine, needs_verdict, verdict_in
from meshtui.core.mesh.workers import Crew
from meshtui.core.mesh.worktrees import LoopWorktrees
from meshtui.core.models.mesh import FINDINGS, CheckerFindings, Node
from meshtui.core.vcs.change import Change, snapshot

MAX_FINDING = 4000


@dataclass(slots=True)
class Verdict:
    """What all checkers of an iteration said together."""

    approved: bool = True
    findings: list[str] = field(default_factory=list)


def read_verdict(outcome: Outcome, *, strict: bool = False) -> tuple[bool, list[str]]:
    """A checker's reply: its JSON, else its exit status with its text as the finding.

    With ``strict`` there is no approval without the JSON: an agent that refuses in prose ends well too.
    """
    text = outcome.reply.strip()
    value: object
    if strict:
        value = verdict_in(text, "approved")
    else:
        try:
            value = strict_json.loads(_unfenced(text))
        except InvalidInput:
            value = None
    if isinstance(value, dict) and isinstance(value.get("approved"), bool):
        found = value.get("findings")
        findings = [str(item)[:MAX_FINDING] for item in found] if isinstance(found, list) else []
        approved = value["approved"] and outcome.status == "done"
        if outcome.status != "done":
            findings.append(outcome.error or "the checker failed")
        return approved, findings
    if strict and outcome.status == "done":
        return False, [NO_VERDICT, text[:MAX_FINDING]]
    if outcome.status == "done":
        return True, [text[:MAX_FINDING]] if text else []
    return False, [text[:MAX_FINDING] or outcome.error or "the checker failed"]


def _unfenced(text: str) -> str:
    if text.startswith("```") and text.endswith("```"):
        return text.strip("`").partition("\n")[2]
    return text


class Checkers:
    """Runs the checkers of one iteration."""

    def __init__(
        self,
        context: MissionContext,
        node: Node,
        paths: LoopPaths,
        progress: Progress,
        crew: Crew,
        worktrees: LoopWorktrees,
    ) -> None:
        self._context = context
        self._node = node
        self._paths = paths
        self._progress = progress
        self._crew = crew
        self._worktrees = worktrees

    def run(self, change: Change) -> Verdict:
        """Have every checker look at the candidate; all must approve."""
        candidate = self._progress.candidate
        assert candidate is not None
        count = self._node.checker.worker_count
        prompt = checker_prompt(
            self._node,
            self._context.plan.request,
            change.patch.decode("utf-8", "replace"),
            self._artifacts(),
            passed=self._progress.passed,
        )
        context = self._context
        makers = (node.engine or context.engine for node in context.plan.graph.nodes)
        engine = checker_engine(self._node.engine or context.engine, makers)
        tasks = []
        places = []
        for number in range(1, count + 1):
            place = self._worktrees.copy("checker", number, candidate, self._crew)
            places.append(place)
            tasks.append(
                Task(
                    slot=f"checker-{number}",
                    role="checker",
                    cwd=place,
                    engine=context.engines(engine),
                    prompt=prompt,
                    environment={"MESHTUI_SCOPE": '{"files":[],"directories":[]}'},
                )
            )
        finished = self._crew.run(tasks)
        self._progress.checkers_used = max(self._progress.checkers_used, count)
        self._progress.checker_files = []
        verdict = Verdict()
        for done, place in zip(finished, places, strict=True):
            self._judge(done, place, candidate, verdict, strict=needs_verdict(engine))
        write_json(
            self._paths.checker / "checker-findings.json",
            {
                "schema": FINDINGS,
                "loop_id": self._node.loop_id,
                "iteration": self._progress.iteration,
                "fresh_session": self._fresh,
                "reviewed_maker_artifacts": self._progress.artifacts,
                "side_effects_detected": [
                    item for item in verdict.findings if item.startswith("side effect: ")
                ],
                "approved": verdict.approved,
                "findings": verdict.findings,
                "worker_ids": [f"{self._node.loop_id}-{done.slot}" for done in finished],
                "generated_at": iso(self._context.clock.now_ms()),
            },
            durable=False,
        )
        self._worktrees.drop_copies("checker")
        return verdict

    @property
    def _fresh(self) -> bool:
        return not set(self._progress.checker_sessions) & set(self._progress.maker_sessions)

    def _artifacts(self) -> list[tuple[str, str]]:
        found = []
        for name in self._progress.artifacts:
            value: dict[str, Any] = read_json(self._context.run_dir.root / name) or {}
            found.append((str(value.get("worker_id") or name), str(value.get("reply") or "")))
        return found

    def _judge(self, done: Finished, place: Path, candidate: str, verdict: Verdict, *, strict: bool) -> None:
        after = snapshot(place, base=candidate, message="what the checker left")
        effects = [item.path for item in after.change.files]
        if done.outcome is not None:
            approved, findings = read_verdict(done.outcome, strict=strict)
            session = done.outcome.session_id
        else:
            approved, findings, session = (
                False,
                [f"{done.slot} ended: {done.ending or 'without a reply'}"],
                None,
            )
        if effects:
            approved = False
            findings.append(f"side effect: {done.slot} changed {', '.join(effects[:20])} and has failed")
        if session is not None and session in self._progress.maker_sessions:
            approved = False
            findings.append(f"{done.slot} shared the session {session} with a maker: its word does not count")
        if session and session not in self._progress.checker_sessions:
            self._progress.checker_sessions.append(session)
        value = CheckerFindings(
            fresh_session=done.session_id is None
            and (session is None or session not in self._progress.maker_sessions),
            reviewed_maker_artifacts=self._progress.artifacts,
            side_effects_detected=effects,
            approved=approved,
            findings=findings,
        )
        nth = f"-{self._progress.judged + 1}" if self._progress.judged else ""
        path = self._paths.checker / f"{self._progress.iteration:04d}-{done.slot}{nth}.json"
        write_json(
            path, {"schema": FINDINGS, "loop_id": self._node.loop_id, "call": done.call_id, **value.as_json()}
        )
        self._progress.checker_files.append(relative(self._context.run_dir, path))
        said = "approved" if approved else "rejected"
        self._progress.prove(
            worker_evidence(
                self._context.run_dir,
                done,
                f"{done.slot} of {self._progress.round} {said}",
                artifact=path,
            )
        )
        verdict.approved = verdict.approved and approved
        if not approved:
            verdict.findings += [f"{done.slot}: {item}" for item in findings] or [
                f"{done.slot} rejected without a reason"
            ]
