"""Small repositories, run directories and plans, and missions that really run in them."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from meshtui.core.calls import Call
from meshtui.core.clock import SystemClock
from meshtui.core.config import Config
from meshtui.core.engines.registry import engine_for
from meshtui.core.lane.create import create_run_dir
from meshtui.core.lane.phase import EngineFactory
from meshtui.core.mesh.files import read_json, read_state, write_json
from meshtui.core.mesh.mission import MissionOptions, MissionOutcome, MissionRunner
from meshtui.core.mesh.paths import MissionPaths
from meshtui.core.mesh.verify import Verifier
from meshtui.core.models.mesh import Edge, Graph, LoopState, Node, Plan

LIMIT = 60.0
INTEGRATION = "loop-integration"
MISSION = "m1"

APPROVE = "cat >/dev/null"
"""A checker that approves."""


def git(where: Path, *args: str) -> str:
    """Run git and return what it printed."""
    done = subprocess.run(
        ["git", "-C", str(where), "-c", "user.name=t", "-c", "user.email=t@t", *args],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def make_repo(path: Path, files: Mapping[str, str] | None = None) -> Path:
    """A repository with one commit on ``main``."""
    path.mkdir(parents=True)
    git(path, "init", "-q", "-b", "main")
    for name, text in (files or {"a/one.txt": "one\n", "b/two.txt": "two\n", "README.md": "hi\n"}).items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    git(path, "add", "-A")
    git(path, "commit", "-q", "-m", "first")
    return path


def node(
    loop_id: str,
    *entries: str,
    makers: int = 1,
    checkers: int = 1,
    gates: Sequence[str] = (),
    after: Sequence[str] = (),
    risk: Mapping[str, Any] | None = None,
    level: str = "L2-action",
    merged: Sequence[str] = (),
    **budget: Any,
) -> Node:
    """A loop that owns ``entries``; those that end in ``/`` are folders."""
    return Node.model_validate(
        {
            "schema": "sks.loop-node.v1",
            "loop_id": loop_id,
            "mission_id": MISSION,
            "title": f"work on {loop_id}",
            "purpose": f"change {', '.join(entries) or 'nothing'}",
            "level": level,
            "owner_scope": {
                "files": [name for name in entries if not name.endswith("/")],
                "directories": [name.rstrip("/") for name in entries if name.endswith("/")],
            },
            "budget": {"max_wall_ms": 60_000, "max_model_calls": 40, **budget},
            "maker": {"worker_count": makers, "backend_preference": ["command"]},
            "checker": {"worker_count": checkers},
            "gates": {"local": list(gates), "integration": list(merged)},
            "dependencies": list(after),
            "risk": dict(risk or {}),
        }
    )


@dataclass
class Bench:
    """A run directory with one mission, in a repository of its own."""

    tmp: Path
    config: dict[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] | None = None
    engines: EngineFactory | None = None
    max_active: int | None = None

    def __post_init__(self) -> None:
        self.repo = make_repo(self.tmp / "re po", self.files)
        self.run_dir = create_run_dir(self.tmp / "run", SystemClock(), repo=self.repo)
        self.paths = MissionPaths.of(self.run_dir, MISSION)
        self.worktrees = self.tmp / "trees"
        self.base = git(self.repo, "rev-parse", "HEAD")
        self.before = fingerprint(self.repo)
        _benches.append(self)

    def settings(self) -> Config:
        """The mission's configuration."""
        mesh = {"worktrees": str(self.worktrees), **self.config.get("mesh", {})}
        return Config.model_validate({"lane": {"engine": "command"}, **self.config, "mesh": mesh})

    def commands(self, maker: str, checker: str | None = APPROVE, arbiter: str | None = None) -> None:
        """What engine ``command`` runs for each role."""
        named = {"maker": maker, "checker": checker, "arbiter": arbiter}
        self.config["engines"] = {
            "command": {key: value for key, value in named.items() if value is not None}
        }

    def gate(self, gate_id: str, command: str, **more: Any) -> None:
        """Configure a gate."""
        self.config.setdefault("gates", {})[gate_id] = {"command": command, **more}

    def plan(self, *nodes: Node, gates: Sequence[str] = (), **options: Any) -> Plan:
        """Write a plan of ``nodes`` and an integration loop after all of them."""
        last = node(INTEGRATION, after=[item.loop_id for item in nodes], checkers=0)
        last = last.model_copy(
            update={
                "route": "$Integration",
                "gates": last.gates.model_copy(update={"integration": list(gates), "checker": []}),
            }
        )
        every = [*nodes, last]
        made = Plan(
            mission_id=MISSION,
            request="make it better",
            graph=Graph(
                nodes=every,
                edges=[
                    Edge.model_validate({"from": name, "to": item.loop_id})
                    for item in every
                    for name in item.dependencies
                ],
            ),
            integration_loop_id=INTEGRATION,
            repo=str(self.repo),
            base_commit=self.base,
            options={"engine": "command", "target": "main", **options},
        )
        write_json(self.paths.plan, made.as_json())
        return made

    def configure(self) -> None:
        """Write the configuration to the run directory, for commands."""
        mesh = {"worktrees": str(self.worktrees), **self.config.get("mesh", {})}
        tables = {"lane": {"engine": "command"}, "mesh": mesh}
        for name, value in self.config.get("engines", {}).items():
            tables[f"engines.{name}"] = value
        for name, value in self.config.get("gates", {}).items():
            tables[f"gates.{name}"] = value
        lines = []
        for name, table in tables.items():
            lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
        self.run_dir.config.write_text("\n".join(lines) + "\n")

    def runner(self) -> MissionRunner:
        """A runner of the mission, not started."""
        config = self.settings()

        def engines(name: str) -> Any:
            return engine_for(name, config.engines.get(name))

        options = MissionOptions(config=config, engine="command", max_active=self.max_active)
        return MissionRunner(self.run_dir, MISSION, options, self.engines or engines)

    def start(self) -> Running:
        """Run the mission in a thread."""
        return Running(self.runner())

    def run(self) -> MissionOutcome:
        """Run the mission to its end."""
        return self.start().outcome()

    def state(self, loop_id: str) -> LoopState:
        """A loop's state."""
        found = read_state(self.paths.loop(loop_id))
        assert found is not None
        return found

    def status(self, loop_id: str) -> str:
        """A loop's status, ``planned`` where there is no state."""
        found = read_state(self.paths.loop(loop_id))
        return found.status if found is not None else "planned"

    def proof(self, loop_id: str | None = None) -> dict[str, Any]:
        """A loop's proof, or the graph's."""
        path = self.paths.loop(loop_id).proof if loop_id else self.paths.graph_proof
        return read_json(path) or {}

    def verify(self) -> Verifier:
        """The verifier, after it has looked at the whole mission."""
        verifier = Verifier(self.run_dir, self.paths)
        verifier.mission()
        return verifier

    def mismatches(self) -> list[str]:
        """What does not hold of the mission's proofs."""
        return [f"{c.subject}: {c.claim}: {c.text}" for c in self.verify().checks if c.verdict == "mismatch"]

    def result(self, path: str) -> str:
        """A file of the result branch."""
        return git(self.repo, "show", f"meshtui/{MISSION}:{path}")

    def calls(self, role: str = "") -> list[Path]:
        """The folders of all calls, oldest first; of one role if asked."""
        if not self.run_dir.calls.is_dir():
            return []
        return sorted(path for path in self.run_dir.calls.iterdir() if f"-{role}" in path.name)

    def prompts(self, role: str) -> list[str]:
        """What the workers of a role were asked, oldest first."""
        return [(path / "prompt.txt").read_text() for path in self.calls(role)]

    def untouched(self) -> bool:
        """Whether the user's checkout, index and branches are as they were."""
        return fingerprint(self.repo) == self.before


class Running:
    """A mission at work in a thread."""

    def __init__(self, runner: MissionRunner) -> None:
        self.runner = runner
        _running.append(self)
        self._outcome: MissionOutcome | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._outcome = self.runner.run()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            self._error = error

    def abandon(self) -> None:
        """Stop it if it still runs."""
        if self._thread.is_alive():
            self.runner.request_stop()
            self._thread.join(20)

    def outcome(self, limit: float = LIMIT) -> MissionOutcome:
        """Wait for its end; raises what it raised."""
        self._thread.join(limit)
        assert not self._thread.is_alive(), "the mission does not end"
        if self._error is not None:
            raise self._error
        assert self._outcome is not None
        return self._outcome


_benches: list[Bench] = []
_running: list[Running] = []


def end_leftovers() -> None:
    """End the missions and workers that still run, of every bench made so far."""
    for running in _running:
        running.abandon()
    for bench in _benches:
        for folder in bench.calls():
            call = Call.attach(bench.run_dir, folder.name)
            if call.state() in ("starting", "running"):
                call.end("killed", "test")
            call.close()
    _running.clear()
    _benches.clear()


def meshtui(root: Path, *args: str, code: int = 0) -> Any:
    """Run a command with --json in this process; the document it printed, or its error."""
    from meshtui.cli import run

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {number: signal.getsignal(number) for number in numbers}
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            found = run([args[0], "--run-dir", str(root), "--json", *args[1:]])
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert found == code, (found, out.getvalue(), err.getvalue())
    return json.loads(out.getvalue()) if out.getvalue().strip() else err.getvalue()


def until(condition: Callable[[], object], limit: float = LIMIT) -> None:
    """Wait until ``condition`` holds."""
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, "the condition never held"
        time.sleep(0.01)


def fingerprint(repo: Path) -> str:
    """A hash of what is the user's: files, index, HEAD and branches that are not meshtui's."""
    digest = hashlib.sha256()
    for path in sorted(repo.rglob("*")):
        relative = path.relative_to(repo)
        if relative.parts[0] == ".git":
            continue
        digest.update(f"{relative} {path.lstat().st_mode}".encode())
        if path.is_symlink():
            digest.update(os.readlink(path).encode())
        elif path.is_file():
            digest.update(path.read_bytes())
    digest.update((repo / ".git" / "index").read_bytes())
    digest.update((repo / ".git" / "HEAD").read_bytes())
    refs = git(repo, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    digest.update("\n".join(line for line in refs if "refs/heads/meshtui" not in line).encode())
    return digest.hexdigest()


def alive(marker: str) -> list[int]:
    """Processes whose command line holds ``marker``."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if marker.encode() in line and state != "Z" and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found
