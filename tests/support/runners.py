"""A lane in a temporary directory, worked by real runners with a scripted engine or real commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from meshtui.core import identity
from meshtui.core.calls import Call
from meshtui.core.clock import SystemClock, from_iso
from meshtui.core.config import Config, EngineConfig
from meshtui.core.engines.base import Engine, EngineRequest
from meshtui.core.engines.command import CommandEngine
from meshtui.core.engines.fake import FakeEngine, FakeReply
from meshtui.core.journal import parse_lines
from meshtui.core.lane.create import create_run_dir
from meshtui.core.lane.index import list_records
from meshtui.core.lane.lane import Lane
from meshtui.core.lane.receipts import EnqueueReceipt
from meshtui.core.lane.runner import Runner, RunnerOptions, RunOutcome
from meshtui.core.models.names import safe_of
from meshtui.core.run_dir import RECORD_FOLDERS
from tests.support.waiting import wait_until

PROJECT = Path(__file__).parents[2]
Script = Callable[[EngineRequest], FakeReply]

GONE_PID = 2**22 + 12345
"""Above every pid that Linux gives out."""


def envelope_id_of(request: EngineRequest) -> str:
    return request.environment["MESHTUI_ENVELOPE_ID"]


def by_id(**replies: FakeReply) -> Script:
    """A script that answers by envelope id; ``ok`` to everything else."""
    return lambda request: replies.get(envelope_id_of(request), FakeReply("ok"))


def lane_config(**lane: Any) -> Config:
    """The defaults with these keys of ``[lane]``."""
    return Config.model_validate({"lane": lane})


def command(text: str) -> CommandEngine:
    """Engine ``command`` with this shell line."""
    return CommandEngine(EngineConfig(run=text))


def begun(call: Call) -> int:
    """When the attempt of a call began, in ms since the epoch."""
    return int(call.call_id.partition("-")[0])


def deadline_of(call: Call) -> int:
    """The deadline a call was told, in ms since the epoch."""
    told = from_iso((call.about() or {})["deadline_at"])
    assert told is not None
    return told


class RunnerThread:
    """A runner at work in a thread of its own."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self._outcome: RunOutcome | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="test-runner", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._outcome = self.runner.run()
        except BaseException as error:  # noqa: BLE001 - handed to whoever joins
            self.error = error

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, limit: float = 30.0) -> RunOutcome:
        """How it ended; raises what it raised."""
        self.wait(limit)
        if self.error is not None:
            raise self.error
        assert self._outcome is not None
        return self._outcome

    def wait(self, limit: float = 30.0) -> None:
        """Wait for its end, whatever it is."""
        self._thread.join(limit)
        assert not self._thread.is_alive(), "the runner did not end"

    def stop(self) -> RunOutcome:
        self.runner.request_stop()
        return self.join()


class LaneBox:
    """One lane and everything started on it; ``close`` ends what is left."""

    def __init__(self, root: Path, script: Script | None = None) -> None:
        self.root = root
        self.work = root.parent / f"{root.name}-work"
        self.work.mkdir(exist_ok=True)
        self.run_dir = create_run_dir(root, SystemClock(), lane_id="lane-1", repo=self.work)
        self.paths = self.run_dir.lane
        self.lane = Lane(self.run_dir, by="test")
        self.engine = FakeEngine(script or (lambda request: FakeReply("ok")))
        self._threads: list[RunnerThread] = []
        self._processes: list[subprocess.Popen[bytes]] = []

    # -- acting -------------------------------------------------------------------------------------

    def enqueue(self, envelope_id: str, **fields: Any) -> EnqueueReceipt:
        return self.lane.enqueue({"kind": "phase", "prompt": "do it", "id": envelope_id, **fields})

    def enqueue_stop(self, envelope_id: str = "stop") -> EnqueueReceipt:
        return self.lane.enqueue({"kind": "stop", "id": envelope_id})

    def runner(
        self,
        *,
        config: Config | None = None,
        engine: Engine | None = None,
        **options: Any,
    ) -> Runner:
        chosen = engine or self.engine
        settings = RunnerOptions(
            lane_id=self.lane.lane_id, config=config or Config(), cwd=self.work, **options
        )
        return Runner(self.run_dir, settings, lambda name: chosen)

    def run(self, **options: Any) -> RunOutcome:
        """Work the lane until it is idle, in this thread."""
        return self.runner(until_idle=True, **options).run()

    def start(self, **options: Any) -> RunnerThread:
        """Work the lane in a thread until told otherwise."""
        thread = RunnerThread(self.runner(**options))
        self._threads.append(thread)
        return thread

    def start_process(
        self, command: str, *more: str, env: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """``meshtui lane`` with engine command in a process of its own."""
        child = subprocess.Popen(
            [
                sys.executable, "-P", "-m", "meshtui", "lane", "--run-dir", str(self.root),
                "--engine", "command", "--run", command, "--json", *more,
            ],
            cwd=self.work,
            env={**os.environ, "PYTHONPATH": str(PROJECT), **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        self._processes.append(child)
        return child

    # -- looking ------------------------------------------------------------------------------------

    def ids(self, folder: str) -> list[str]:
        """The safe ids in a record folder, in queue order."""
        return [safe_of(name) for name in list_records(self.paths.folder(folder))]

    def everything(self) -> dict[str, list[str]]:
        """The ids by folder, empty folders left out."""
        return {name: ids for name in RECORD_FOLDERS if (ids := self.ids(name))}

    def record(self, folder: str, envelope_id: str) -> dict[str, Any]:
        (name,) = [n for n in list_records(self.paths.folder(folder)) if safe_of(n) == envelope_id]
        return load(self.paths.folder(folder) / name)

    def result(self, envelope_id: str) -> dict[str, Any]:
        return load(self.paths.result(envelope_id))

    def status(self) -> dict[str, Any]:
        return load(self.paths.status)

    def sessions(self) -> dict[str, Any] | None:
        return load(self.paths.sessions) if self.paths.sessions.exists() else None

    def stalls(self) -> list[dict[str, Any]]:
        if not self.paths.stalls.exists():
            return []
        return [json.loads(line) for line in self.paths.stalls.read_text().splitlines()]

    def events(self, *names: str) -> list[dict[str, Any]]:
        """The journal, or of it the events with these names."""
        if not self.run_dir.events.exists():
            return []
        found = [json.loads(line) for line in self.run_dir.events.read_text().splitlines()]
        return [event for event in found if not names or event["event"] in names]

    def calls(self) -> list[Call]:
        """Every call that was made, oldest first."""
        if not self.run_dir.calls.is_dir():
            return []
        return [Call.attach(self.run_dir, path.name) for path in sorted(self.run_dir.calls.iterdir())]

    def active_call(self, envelope_id: str, limit: float = 20.0) -> Call:
        """The running call of an envelope, once its program was told to begin.

        Its record names it a moment earlier; that it has begun is in the journal.
        """

        def running() -> Call | None:
            journal = self.run_dir.events.read_bytes() if self.run_dir.events.exists() else b""
            begun = {
                event.data.get("call") for event in parse_lines(journal) if event.event == "phase_started"
            }
            for name in list_records(self.paths.active):
                try:
                    record = load(self.paths.active / name)
                except FileNotFoundError:
                    continue
                if safe_of(name) != envelope_id or "call" not in record:
                    continue
                call = Call.attach(self.run_dir, record["call"])
                if record["call"] in begun and call.state() == "running":
                    return call
            return None

        return wait_until(running, limit, f"{envelope_id} running")

    def starts(self) -> list[tuple[str, str | None]]:
        """What the fake engine was asked to start: envelope id and session."""
        return [(envelope_id_of(request), request.session_id) for request in self.engine.requests]

    # -- what others left ---------------------------------------------------------------------------

    def foreign_owner(self, *, pid: int | None = None, age: float = 0.0, **fields: Any) -> dict[str, Any]:
        """Make ``runner.lock/owner.json`` as another process would hold it; ours by default."""
        who = identity.current() if pid is None else identity.identify(pid)
        beat = SystemClock().now_ms() - round(age * 1000)
        owner = {**who.as_json(), "heartbeat_at": beat, **fields}
        self.paths.runner_lock.mkdir(parents=True, exist_ok=True)
        (self.paths.runner_lock / "owner.json").write_text(json.dumps(owner))
        return owner

    def close(self) -> None:
        for thread in self._threads:
            if thread.alive:
                thread.runner.request_stop()
                thread.wait()
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.communicate()
        for call in self.calls():
            if call.state() in ("starting", "running"):
                call.end("killed", "test", grace=0)
            call.sweep(grace=0)
            call.close()


MakeBox = Callable[..., LaneBox]


def load(path: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    value = json.loads(path.read_bytes())
    assert isinstance(value, dict)
    return value


def dump(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON object as another tool might, not atomically."""
    path.write_text(json.dumps(value))


def finished(process: subprocess.Popen[bytes], limit: float = 30.0) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a process, once it ended."""
    out, err = process.communicate(timeout=limit)
    return process.returncode, out.decode(), err.decode()


def alive(pid: int) -> bool:
    """Whether process ``pid`` runs (a zombie does not)."""
    return identity.started_at(pid) is not None


def pid_in(path: Path, limit: float = 20.0) -> int:
    """The pid a program wrote into a file, once it did."""
    text = wait_until(lambda: path.read_text().strip() if path.exists() else "", limit, f"a pid in {path}")
    return int(text)
