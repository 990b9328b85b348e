"""The makers of a loop: who gets which part, what they changed, and how it goes together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from meshtui.core import storage, strict_json
from meshtui.core.clock import iso
from meshtui.core.mesh.context import Checkpoints, LoopBlocked, MissionContext, Progress
from meshtui.core.mesh.files import append_line, write_json
from meshtui.core.mesh.gates import GateRunner
from meshtui.core.mesh.paths import LoopPaths, relative
from meshtui.core.mesh.prompts import maker_prompt
from meshtui.core.mesh.tasks import Finished, Task, worker_evidence
from meshtui.core.mesh.workers import Crew
from meshtui.core.mesh.worktrees import LoopWorktrees
from meshtui.core.models.mesh import Node, OwnerScope
from meshtui.core.vcs.change import Change, Snapshot, outside, snapshot
from meshtui.core.vcs.patching import apply_change, without

FRESH = "-fresh"
"""Ends the slot of a maker that is tried once more without its session."""
MAX_KEPT_REPLY = 200_000
"""Characters of a maker's reply that its artefact holds; the whole is in its call's log."""
MAKER_RESULT = "sks.loop-worker-run-result.v1"
PATCH_CANDIDATE = "sks.loop-patch-candidate.v1"


def parts_of(scope: OwnerScope, makers: int) -> list[OwnerScope]:
    """``scope`` in at most ``makers`` parts of whole entries, in their order."""
    entries: list[tuple[str, bool]] = [(path, True) for path in scope.files]
    entries += [(path, False) for path in scope.directories]
    count = max(1, min(makers, len(entries)))
    size, more = divmod(len(entries), count)
    parts = []
    place = 0
    for number in range(count):
        piece = entries[place : place + size + (number < more)]
        place += len(piece)
        parts.append(
            scope.model_copy(
                update={
                    "files": [path for path, is_file in piece if is_file],
                    "directories": [path for path, is_file in piece if not is_file],
                }
            )
        )
    return parts


class Makers:
    """Runs the makers of one iteration and makes the candidate."""

    def __init__(
        self,
        context: MissionContext,
        node: Node,
        paths: LoopPaths,
        progress: Progress,
        crew: Crew,
        worktrees: LoopWorktrees,
        checkpoints: Checkpoints,
        gates: GateRunner,
    ) -> None:
        self._context = context
        self._node = node
        self._paths = paths
        self._progress = progress
        self._crew = crew
        self._worktrees = worktrees
        self._checkpoints = checkpoints
        self._gates = gates
        self._begun = False

    def run(self) -> Change:
        """Run them, put their work together and return what the candidate changes against the base.

        ``progress.findings`` then holds what went wrong (a maker failed, a patch conflicts, a violation)
        and is empty when the candidate may go to the gates.
        """
        progress, node = self._progress, self._node
        compete = self._context.strategy == "compete" and node.maker.worker_count > 1
        if compete:
            parts = [node.owner_scope] * node.maker.worker_count
        else:
            parts = parts_of(node.owner_scope, node.maker.worker_count)
        start = progress.start
        assert start is not None
        single = len(parts) == 1
        places = self._places(parts, start, single)
        tasks = [
            self._task(number, part, parts, place, compete)
            for number, (part, place) in enumerate(zip(parts, places, strict=True), 1)
        ]
        self._begun = True
        said = list(progress.findings)
        finished = self._run(tasks)
        progress.makers_used = max(progress.makers_used, len(tasks))
        progress.findings = []
        progress.violations = []
        progress.artifacts = []
        progress.rivals, progress.judged = [], 0
        for done in finished:
            self._record(done, said)
        if compete:
            commit = self._best(places)
        elif single:
            commit = self._take(places[0])
        else:
            commit = self._join(parts, places, start)
        return self._candidate(commit)

    def _places(self, parts: Sequence[OwnerScope], start: str, single: bool) -> list[Path]:
        """Where each maker works; what a maker did before a crash is kept while its call is known."""
        main = self._worktrees.main
        if single:
            if not self._crew.takes_over("maker-1"):
                if not self._begun:
                    # A maker that was stopped may have left something.
                    self._worktrees.keep_unfinished(main, self._context.base)
                self._worktrees.ensure_at(start)
            self._worktrees.clean_at = None
            return [main]
        return [
            self._worktrees.copy("maker", number, start, self._crew) for number in range(1, len(parts) + 1)
        ]

    def _task(
        self, number: int, part: OwnerScope, parts: Sequence[OwnerScope], place: Path, compete: bool
    ) -> Task:
        slot = f"maker-{number}"
        node, progress = self._node, self._progress
        siblings = (
            [] if compete else [entry for other in parts if other is not part for entry in other.entries]
        )
        return Task(
            slot=slot,
            role="maker",
            cwd=place,
            engine=self._context.engines(node.engine or self._context.engine),
            prompt=maker_prompt(
                node,
                self._context.plan.request,
                part,
                iteration=progress.iteration,
                findings=progress.findings,
                siblings=siblings,
            ),
            session_id=progress.sessions.get(slot),
            environment={"MESHTUI_SCOPE": scope_variable(part)},
        )

    def _run(self, tasks: list[Task]) -> list[Finished]:
        finished = self._crew.run(tasks)
        again = [
            task
            for task, done in zip(tasks, finished, strict=True)
            if done.outcome is not None
            and done.outcome.status == "unknown_session"
            and task.session_id is not None
        ]
        if not again:
            return finished
        fresh = self._crew.run([replace(task, slot=f"{task.slot}{FRESH}", session_id=None) for task in again])
        replaced = {
            done.slot.removesuffix(FRESH): replace(done, slot=done.slot.removesuffix(FRESH)) for done in fresh
        }
        return [replaced.get(done.slot, done) for done in finished]

    def _record(self, done: Finished, said: list[str]) -> None:
        """Keep a maker's artefact, evidence and session; a failure becomes a finding."""
        progress, run_dir = self._progress, self._context.run_dir
        path = self._paths.maker / f"{progress.iteration:04d}-{done.slot}.json"
        outcome = done.outcome
        error = outcome.error if outcome is not None else (f"ended: {done.ending}" if done.ending else None)
        session = outcome.session_id if outcome is not None else None
        reply = outcome.reply if outcome is not None else ""
        write_json(
            path,
            {
                "schema": MAKER_RESULT,
                "ok": done.ok,
                "mission_id": self._context.plan.mission_id,
                "loop_id": self._node.loop_id,
                "phase": "maker",
                "iteration": progress.iteration,
                "worker_id": f"{self._node.loop_id}-{done.slot}",
                "session_id": session,
                "call": done.call_id,
                "exit_code": done.code,
                "duration_ms": done.duration_ms,
                "reply": reply[:MAX_KEPT_REPLY],
                "reply_truncated": len(reply) > MAX_KEPT_REPLY
                or (outcome is not None and outcome.reply_truncated),
                "error": error,
                "findings_given": said,
                "left_running": list(done.left_running),
                "generated_at": iso(self._context.clock.now_ms()),
            },
        )
        progress.artifacts.append(relative(run_dir, path))
        if session:
            progress.sessions[done.slot] = session
            progress.maker_sessions.append(session)
        claim = f"{done.slot} of iteration {progress.iteration} {'ended well' if done.ok else 'failed'}"
        progress.prove(worker_evidence(run_dir, done, claim, artifact=path))
        if not done.ok:
            progress.findings.append(f"{done.slot} failed: {error or f'exit {done.code}'}")

    # -- putting it together ------------------------------------------------------------------------

    def _snapshot(self, place: Path, base: str) -> Snapshot:
        message = f"{self._node.title or self._node.loop_id}\n\nLoop {self._node.loop_id} of mission {self._context.plan.mission_id}."
        return snapshot(place, base=base, message=message)

    def _take(self, place: Path, *, base: str | None = None, who: str = "maker-1") -> str:
        """The commit of everything a maker changed."""
        found = self._snapshot(place, base or self._context.base)
        self._note_lost(found, place, who)
        return found.commit

    def _note_lost(self, found: Snapshot, place: Path, who: str) -> None:
        if found.unsupported:
            # The next reset would delete them.
            raise LoopBlocked(
                f"{who} left repositories of their own, which cannot be part of a change: "
                f"{', '.join(found.unsupported)} in {place}; move them away, then resume"
            )
        for path in found.clashes:
            self._progress.findings.append(
                f"{who} made {path}, which some filesystems cannot tell from another path: rename it"
            )

    def _keep_patch(self, change: Change, who: str = "") -> str:
        """Write a change down as a patch; its file, relative to the run directory."""
        name = f"{self._progress.iteration:04d}{'-' if who else ''}{who}.patch"
        path = self._paths.patches / name
        storage.make_dirs(path.parent)
        storage.write_atomic(path, change.patch, durable=False)
        return relative(self._context.run_dir, path)

    def _join(self, parts: Sequence[OwnerScope], places: Sequence[Path], start: str) -> str:
        """Put the makers' patches together in maker order; the commit of the whole.

        What a maker wrote outside its part stays out: there it would have to be undone by a second such
        write, or count as the loop's own work once nobody writes it again.
        """
        progress, main = self._progress, self._worktrees.main
        self._worktrees.ensure_at(start)
        self._worktrees.clean_at = None
        for number, (part, place) in enumerate(zip(parts, places, strict=True), 1):
            own = self._snapshot(place, start)
            self._note_lost(own, place, f"maker-{number}")
            if not own.change.files:
                continue
            who, stray = f"maker-{number}", outside(own.change, part)
            result = apply_change(main, own.change, three_way=True, dry=bool(stray))
            kept = self._keep_patch(own.change, who) if stray or not result.ok else ""
            for path in stray:
                inside = not outside_scope(path, self._node.owner_scope)
                where = "in a sibling's part" if inside else "outside the loop's scope"
                progress.violations.append(path)
                progress.findings.append(
                    f"violation: {who} wrote {path}, {where}; it was left out (and kept in {kept})"
                )
            if stray:
                rest = without(place, own.change, stray)
                fits = apply_change(main, rest, three_way=True) if rest.files else result
                result = fits if result.ok else result
            if not result.ok:
                names = ", ".join(result.conflicts) or "its files"
                progress.findings.append(
                    f"the patch of {who} conflicts in {names} (it is kept in {kept}): "
                    f"{result.output[-500:].strip()}"
                )
        return self._snapshot(main, self._context.base).commit

    def _best(self, places: Sequence[Path]) -> str:
        """Of competing candidates the best: without violation, changed, fewest failed gates, in maker order.

        Others that passed all gates become the rivals: the checkers get them next if they refuse this one.
        A maker that failed does not stop the others' work from being taken.
        """
        ranked: list[tuple[tuple[int, bool, int, int], str]] = []
        progress = self._progress
        failed = {text.partition(" ")[0] for text in progress.findings}
        trouble: dict[str, list[str]] = {}
        for number, place in enumerate(places, 1):
            before, progress.findings = progress.findings, []
            commit = self._take(place, who=f"maker-{number}")
            lost, progress.findings = progress.findings, before
            if any(commit == other for _, other in ranked):
                continue
            change = self._worktrees.change_of(commit)
            bad = len(outside(change, self._node.owner_scope)) + len(lost) + (f"maker-{number}" in failed)
            trouble[commit] = lost + [text for text in before if text.startswith(f"maker-{number} ")]
            self._keep_patch(change, f"candidate-{number}")
            self._worktrees.reset(commit)
            report = self._gates.run(
                self._node.gates.local, commit, changed=change.paths, label=f"candidate-{number}-"
            )
            ranked.append(((bad, not change.files, len(report.failed), number), commit))
            self._checkpoints.log(
                "loop_candidate_judged", "running", f"maker-{number}: {len(report.failed)} gates failed"
            )
        ranked.sort()
        best = ranked[0][1]
        progress.findings = trouble[best]
        progress.rivals = [commit for score, commit in ranked[1:] if score[:3] == (0, False, 0)]
        return best

    def adopt(self, commit: str) -> None:
        """Make ``commit`` the loop's candidate and put its working copy and branch there."""
        self._worktrees.ensure_at(commit)
        self._progress.candidate = commit

    def _candidate(self, commit: str) -> Change:
        progress = self._progress
        change = self._worktrees.change_of(commit)
        for path in outside(change, self._node.owner_scope):
            if path not in progress.violations:
                progress.violations.append(path)
                progress.findings.append(f"violation: {path} is outside the loop's scope")
        self.adopt(commit)
        patch = self._keep_patch(change)
        with self._context.files_lock:
            append_line(
                self._context.paths.mutations,
                {
                    "ts": iso(self._context.clock.now_ms()),
                    "loop_id": self._node.loop_id,
                    "iteration": progress.iteration,
                    "commit": commit,
                    "files": [item.path for item in change.files],
                },
            )
        write_json(
            self._paths.maker / "maker-patch-candidate.json",
            {
                "schema": PATCH_CANDIDATE,
                "loop_id": self._node.loop_id,
                "worker_ids": [f"{self._node.loop_id}-maker-{n + 1}" for n in range(progress.makers_used)],
                "changed_files": [item.path for item in change.files],
                "commit": commit,
                "patch": patch,
                "generated_at": iso(self._context.clock.now_ms()),
            },
            durable=False,
        )
        return change


def scope_variable(scope: OwnerScope) -> str:
    """``MESHTUI_SCOPE``."""
    return strict_json.dumps({"files": scope.files, "directories": scope.directories})


def outside_scope(path: str, scope: OwnerScope) -> bool:
    """Whether ``path`` belongs to none of the scope's entries."""
    from meshtui.core.mesh.scope import holds

    return not any(holds(entry, path) for entry in scope.entries)
