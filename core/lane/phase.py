"""One attempt of one phase: from a claimed record to a started or adopted call, and to what it came to."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from meshtui.core.calls import (
    Call,
    CallSpec,
    OutputFollower,
    new_call_id,
    read_tail,
    scrubbed_environment,
)
from meshtui.core.clock import SystemClock, iso
from meshtui.core.config import Config
from meshtui.core.engines import mesh
from meshtui.core.engines.base import Engine, EngineEvent, EngineRequest, Outcome, OutputReader, Usage
from meshtui.core.engines.registry import AGENTS
from meshtui.core.errors import InvalidInput
from meshtui.core.lane.claims import check_claims, head_of
from meshtui.core.lane.prompts import build_prompt, restate_prompt
from meshtui.core.lane.settle import LaneFiles
from meshtui.core.lane.vitals import Vitals
from meshtui.core.models.envelope import (
    budget_ms,
    engine_of,
    fresh_of,
    is_handoff_phase,
    phase_of,
    story_of,
    workdir_of,
)
from meshtui.core.models.handoff import read_handoff
from meshtui.core.models.record import Record
from meshtui.core.models.result import make_result

EngineFactory = Callable[[str], Engine]
STDERR_TAIL = 64 << 10


class PastDeadline(Exception):
    """The envelope's deadline had passed before its first start."""


@dataclass(slots=True)
class Attempt:
    """A call at work for a record."""

    record: Record
    call: Call
    engine: str
    story: str
    directory: str
    session_id: str | None
    started_at: str
    deadline_at_ms: int
    reader: OutputReader
    out: OutputFollower
    err: OutputFollower
    vitals: Vitals = field(init=False)
    evidence: dict[str, Any] | None = None
    """How it looked when its deadline passed, before anything was ended."""
    restating: bool = False
    """Whether it only asks the session once more for its handoff."""
    notice: str | None = None
    """What of its request the engine cannot do."""
    decided: bool = False
    """Whether an earlier runner, or somebody in its place, had decided to end it."""

    def __post_init__(self) -> None:
        self.vitals = Vitals(self.call, Path(self.directory), SystemClock())

    @property
    def written(self) -> int:
        """Bytes of output so far."""
        return self.out.total + self.err.total

    def drain(self, limit: int | None = None) -> list[EngineEvent]:
        """Feed what is new, at most about ``limit`` bytes, to the engine's reader; what it says."""
        events: list[EngineEvent] = []
        began = self.out.offset
        while (limit is None or self.out.offset - began < limit) and (chunk := self.out.read()):
            events.extend(self.reader.feed(chunk))
        return events

    def close(self) -> None:
        """Let go of the log files and of the call, which goes on if it has not ended."""
        self.out.close()
        self.err.close()
        self.call.close()


@dataclass(frozen=True, slots=True)
class Restate:
    """A phase that worked and left no valid handoff: it is asked for it once more."""

    attempt: Attempt
    outcome: Outcome
    why: str

    def as_json(self) -> dict[str, Any]:
        """What the record keeps of it."""
        usage = self.outcome.usage
        return {
            "call": self.attempt.call.call_id,
            "why": self.why,
            "started_at": self.attempt.started_at,
            "resumed": self.attempt.session_id is not None,
            "usage": usage.as_json() if usage else None,
            "session_usage": self.outcome.session_usage.as_json() if self.outcome.session_usage else None,
        }


@dataclass(frozen=True, slots=True)
class Settings:
    """What a runner was told: flags over configuration over defaults."""

    config: Config
    engine: str | None
    repo: Path | None
    cwd: Path

    @property
    def default_seconds(self) -> float:
        """The deadline of phases that name none."""
        return float(self.config.lane.deadline_seconds)

    @property
    def max_output_bytes(self) -> int:
        """Where a call that writes on and on is ended."""
        return int(self.config.lane.max_output_mb * (1 << 20))

    def engine_for(self, envelope: Mapping[str, Any]) -> str:
        """Which engine runs an envelope: its own, else the flag's, else the lane's, else claude."""
        return engine_of(dict(envelope)) or self.engine or self.config.lane.engine

    def directory_for(self, envelope: Mapping[str, Any]) -> Path:
        """Where a phase runs."""
        named = workdir_of(dict(envelope)) or envelope.get("repo")
        if isinstance(named, str):
            return Path(named)
        return self.repo or self.cwd


class Phases:
    """Starts, adopts and judges attempts; settling them is the runner's."""

    def __init__(self, files: LaneFiles, settings: Settings, engines: EngineFactory) -> None:
        self._files = files
        self._settings = settings
        self._engines = engines
        self._base_environment = scrubbed_environment(os.environ)

    def start(
        self, record: Record, *, fallback: Attempt | None = None, restate: Restate | None = None
    ) -> Attempt:
        """Start a record's next call; its name is durable in the record before it starts.

        With ``fallback``, the attempt whose session the engine did not know, the call is fresh and within
        the same deadline; with ``restate`` it asks the session for the handoff, read-only. Raises :class:`InvalidInput` for what cannot be started and
        :class:`PastDeadline`.
        """
        envelope = record.envelope
        now = self._files.clock.now_ms()
        is_mesh = envelope.get("mode") == "mesh"
        name = mesh.NAME if is_mesh else self._settings.engine_for(envelope)
        if is_mesh and not isinstance(record.data.get("mission_id"), str):
            # Written down with the call, before anything is planned under it.
            record.data["mission_id"] = f"m-{secrets.token_hex(4)}"
        engine = self._engine(name, record)
        directory = self._settings.directory_for(envelope)
        if not directory.is_dir():
            raise InvalidInput(f"working directory {directory} does not exist; make it, then requeue")
        if restate is not None:
            record.data["restating"] = restate.as_json()
        elif fallback is not None:
            record.data["fresh_fallback"] = True
        else:
            self._fix_deadline(record, now)
            if is_handoff_phase(envelope):
                self._note_head(record, directory)
        deadline = record.deadline_at_ms or now
        story = story_of(envelope)
        session = self._session(record, name, str(directory)) if fallback is None and not is_mesh else None
        if restate is not None:
            session = restate.outcome.session_id
        call_id = new_call_id(now, record.envelope_id, "run")
        prompt = (
            restate_prompt(envelope, restate.why)
            if restate is not None
            else build_prompt(envelope, deadline_at_ms=deadline, run_dir=self._files.run_dir.root)
        )
        request = EngineRequest(
            role="run",
            prompt=prompt,
            cwd=directory,
            session_id=session,
            model=envelope.get("model"),
            effort=envelope.get("effort"),
            environment=self._environment(record, call_id, story, session, deadline),
            read_only=restate is not None,
            session_usage=self._session_usage(record, story, name, session),
            max_cost_usd=self._cost_left(),
        )
        launch = engine.launch(request)
        earlier = restate.attempt if restate is not None else fallback
        spec = CallSpec(
            call_id=call_id,
            subject=record.envelope_id,
            role="run",
            engine=name,
            argv=launch.argv,
            cwd=directory,
            env={**request.environment, **launch.env_extra},
            prompt=launch.prompt_bytes,
            session_id=session,
            attempt=record.attempt,
            deadline_at_ms=deadline,
        )
        record.data["attempt"] = record.attempt
        record.data["call"] = call_id
        call = Call.prepare(self._files.run_dir, spec, clock=self._files.clock)
        try:
            self._files.queue.rewrite(record)
        except BaseException:
            call.abandon()
            raise
        call.go()
        return Attempt(
            record=record,
            call=call,
            engine=name,
            story=story,
            directory=str(directory),
            session_id=session,
            started_at=earlier.started_at if earlier is not None else iso(now),
            deadline_at_ms=deadline,
            reader=engine.reader(request),
            out=OutputFollower(call.stdout),
            err=OutputFollower(call.stderr),
            restating=restate is not None,
            notice=launch.notice,
        )

    def _cost_left(self) -> float | None:
        """What of the lane's cost cap is left; ``None`` where there is none."""
        most = self._settings.config.lane.max_cost_usd
        return None if most is None else max(0.0, most - (self._files.status.used.cost_usd or 0.0))

    def _note_head(self, record: Record, directory: Path) -> None:
        """Keep where the worktree stands, for what the handoff will claim."""
        head = head_of(directory)
        if head is not None:
            record.data["head"] = head

    def _session(self, record: Record, engine: str, directory: str) -> str | None:
        """The session to resume: the one a usage limit interrupted, else the story's."""
        limit = record.limit
        own = limit.get("session_id")
        if isinstance(own, str) and (limit.get("engine"), limit.get("directory")) == (engine, directory):
            return own
        if record.attempt > 1 or fresh_of(record.envelope):
            return None
        return self._files.sessions.find(story_of(record.envelope), engine, directory)

    def _session_usage(self, record: Record, story: str, engine: str, session: str | None) -> Usage | None:
        """What the session used in all before the record's call, as far as that is known."""
        if session is None:
            return None
        restating = record.data.get("restating")
        if isinstance(restating, dict) and restating.get("session_usage") is not None:
            return Usage.from_json(restating["session_usage"])
        return self._files.sessions.used(story, engine, session)

    def adopt(self, record: Record, call: Call) -> Attempt:
        """Take over a call that another runner started: same attempt, same deadline."""
        about = call.about() or {}
        name = str(about.get("engine") or self._settings.engine_for(record.envelope))
        session = about.get("session_id")
        directory = Path(str(about.get("cwd") or self._settings.directory_for(record.envelope)))
        engine = self._engine(name, record)
        request = EngineRequest(
            role="run",
            prompt="",
            cwd=directory,
            session_id=session if isinstance(session, str) else None,
            read_only=record.data.get("restating") is not None,
            session_usage=self._session_usage(
                record, story_of(record.envelope), name, session if isinstance(session, str) else None
            ),
            max_cost_usd=self._settings.config.lane.max_cost_usd,
        )
        restating = record.data.get("restating")
        started = restating.get("started_at") if isinstance(restating, dict) else about.get("started_at")
        now = self._files.clock.now_ms()
        return Attempt(
            record=record,
            call=call,
            engine=name,
            story=story_of(record.envelope),
            directory=str(directory),
            session_id=request.session_id,
            started_at=str(started or iso(now)),
            deadline_at_ms=record.deadline_at_ms or now,
            reader=engine.reader(request),
            out=OutputFollower(call.stdout),
            err=OutputFollower(call.stderr),
            restating=restating is not None,
        )

    def _engine(self, name: str, record: Record) -> Engine:
        """The engine called ``name``; for a mission the one that runs it with the envelope's engine."""
        if name != mesh.NAME:
            return self._engines(name)
        repo = record.envelope.get("repo")
        return mesh.MeshEngine(
            run_dir=self._files.run_dir.root,
            mission_id=str(record.data.get("mission_id")),
            engine=self._settings.engine_for(record.envelope),
            repo=repo if isinstance(repo, str) else None,
        )

    def _fix_deadline(self, record: Record, now: int) -> None:
        """Give the attempt its full budget, which is decided at the first start."""
        if record.budget_seconds is None:
            budget = budget_ms(
                record.envelope, first_started_ms=now, default_seconds=self._settings.default_seconds
            )
            if budget <= 0:
                raise PastDeadline
            record.data["deadline_budget_seconds"] = budget // 1000 if budget % 1000 == 0 else budget / 1000
        record.data["deadline_at_ms"] = now + round((record.budget_seconds or 0.0) * 1000)

    def _environment(
        self, record: Record, call_id: str, story: str, session: str | None, deadline: int
    ) -> dict[str, str]:
        environment = dict(self._base_environment)
        engine = self._settings.config.engines.get(self._settings.engine_for(record.envelope))
        if engine is not None and engine.env:
            environment.update(engine.env)
        environment.update(
            {
                "MESHTUI_ROLE": "run",
                "MESHTUI_RUN_DIR": str(self._files.run_dir.root),
                "MESHTUI_CALL_ID": call_id,
                "MESHTUI_ENVELOPE_ID": record.envelope_id,
                "MESHTUI_STORY_ID": story,
                "MESHTUI_PHASE": phase_of(record.envelope) or "",
                "MESHTUI_DEADLINE": iso(deadline),
            }
        )
        if session is not None:
            environment["MESHTUI_SESSION_ID"] = session
        return environment

    # -- judging ------------------------------------------------------------------------------------

    def outcome(self, attempt: Attempt) -> tuple[Outcome, int]:
        """What the engine makes of a call that ended by itself, and its exit code."""
        attempt.drain()
        done = attempt.call.exit()
        code = done.code if done is not None else 1
        return attempt.reader.outcome(code, read_tail(attempt.call.stderr, STDERR_TAIL)), code

    def lacks_handoff(self, attempt: Attempt, outcome: Outcome) -> str | None:
        """Why the session is to be asked once more for its handoff; ``None`` if it is not.

        Only an agent can be: it has a session that can be resumed without leave to change anything.
        """
        if attempt.restating or attempt.engine not in AGENTS or outcome.session_id is None:
            return None
        if outcome.status != "done" or not is_handoff_phase(attempt.record.envelope):
            return None
        if self._files.clock.now_ms() >= attempt.deadline_at_ms:
            return None
        try:
            read_handoff(outcome.reply, attempt.record.envelope)
        except InvalidInput as problem:
            return str(problem)
        return None

    def result(
        self, attempt: Attempt, outcome: Outcome, code: int
    ) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """The result of an attempt, and its handoff where the phase gives one."""
        record = attempt.record
        handoff = None
        error = None if outcome.status == "done" else outcome.error or "the engine failed"
        if error is None and is_handoff_phase(record.envelope):
            try:
                handoff = read_handoff(outcome.reply, record.envelope)
            except InvalidInput as problem:
                error = str(problem)
        restating = record.data.get("restating") if attempt.restating else None
        usage = outcome.usage
        if isinstance(restating, dict):
            usage = (Usage.from_json(restating.get("usage")) or Usage()).plus(usage)
            if error is not None:
                error = f"{restating.get('why')}; asked once more: {error}"
        claims = None
        if handoff is not None:
            claims = check_claims(
                Path(attempt.directory),
                record.data.get("head"),
                handoff,
                phase=phase_of(record.envelope) or "",
            )
        common: dict[str, Any] = {
            "session_id": outcome.session_id,
            "engine": attempt.engine,
            "usage": usage.as_json() or None if usage else None,
            "handoff_restated": True if restating is not None else None,
            "claims": claims or None,
            "exit_code": code,
            "call": attempt.call.call_id,
            "fresh_fallback": True if record.data.get("fresh_fallback") else None,
        }
        times = {"started_at": attempt.started_at, "finished_at": iso(self._files.clock.now_ms())}
        if error is not None:
            return make_result(record.envelope_id, "failed", **times, error=error, **common), None
        return (
            make_result(
                record.envelope_id,
                "done",
                **times,
                output=outcome.reply,
                output_truncated=True if outcome.reply_truncated else None,
                resumed=bool(restating["resumed"])
                if isinstance(restating, dict) and "resumed" in restating
                else attempt.session_id is not None,
                handoff_status=_handoff_status(attempt, handoff, code),
                **common,
            ),
            handoff,
        )

    def keep_session(self, attempt: Attempt, outcome: Outcome) -> None:
        """Remember the session the engine named, whatever came of the phase."""
        if outcome.session_id:
            self._files.sessions.store(
                attempt.story,
                attempt.engine,
                outcome.session_id,
                attempt.directory,
                outcome.session_usage,
            )


def _handoff_status(attempt: Attempt, handoff: Mapping[str, Any] | None, code: int) -> str | None:
    """What the phase's handoff says; a mission that waits for a person is blocked until then."""
    if attempt.engine == mesh.NAME and code == mesh.HANDED_OVER:
        return "blocked"
    return handoff.get("status") if handoff else None
