"""Which gates a loop has to pass: built in, configured, or, where none is, told by the tracked files.

A gate checks the working copy it runs in, not an installed one: tests of a Python project run with the
copy's own source first on the path. Ids that nobody knows stay in a plan and fail when they are run.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from meshtui.core.config import Command, Config, GateConfig, plain
from meshtui.core.errors import MeshtuiError
from meshtui.core.mesh import risk
from meshtui.core.mesh import scope as paths
from meshtui.core.models.mesh import OwnerScope

Stage = Literal["local", "checker", "integration"]
STAGES: tuple[Stage, ...] = ("local", "checker", "integration")

STATE_VALID = "loop:state-valid"
BUDGET_VALID = "loop:budget-valid"
FRESH_SESSION = "loop:checker-fresh-session"
FINAL_ARBITER = "gpt:final-arbiter"
TRIAGE_GATES = (STATE_VALID, BUDGET_VALID)
CHECKER_GATES = (FRESH_SESSION,)
BUILTIN = (*TRIAGE_GATES, *CHECKER_GATES, FINAL_ARBITER)
"""Gates that meshtui answers itself, without a command."""

MAX_FILE = 1 << 20
DETECTED_TIMEOUT = 600.0
MERGED = "-merged"
"""Ends the ids of detected gates at the integration stage."""

_PYTHON = ("*.py", "*.pyi", "*.pyx", "pyproject.toml", "setup.py", "setup.cfg")
_SCRIPT = ("*.js", "*.jsx", "*.mjs", "*.cjs", "*.ts", "*.tsx", "*.vue", "*.svelte", "*.css", "package.json")
_TARGET = re.compile(r"^([A-Za-z0-9][\w.-]*(?:[ \t]+[A-Za-z0-9][\w.-]*)*)[ \t]*::?(?![:=])", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class GateSpec:
    """One gate's command and when it runs."""

    command: Command
    stage: Stage
    timeout_seconds: float | None = None
    when: tuple[str, ...] = ()
    """Globs of changed files; none: always."""

    def applies(self, changed: Iterable[str]) -> bool:
        """Whether a change of these files has to pass it."""
        return not self.when or any(paths.matches(glob, path) for path in changed for glob in self.when)

    def as_json(self) -> dict[str, Any]:
        """The gate as a plan records it."""
        return {
            "command": self.command if isinstance(self.command, str) else list(self.command),
            "stage": self.stage,
            "timeout_seconds": self.timeout_seconds,
            "when": list(self.when),
        }

    @classmethod
    def from_config(cls, config: GateConfig) -> GateSpec:
        """A gate as it is configured."""
        return cls(config.command, config.stage, config.timeout_seconds, config.when)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> GateSpec:
        """A gate as a plan records it; raises ``ValidationError`` where that is broken."""
        return cls.from_config(GateConfig.model_validate({k: v for k, v in value.items() if v is not None}))


@dataclass(frozen=True, slots=True)
class DetectedGates:
    """Gates the tracked files suggest."""

    gates: dict[str, GateSpec] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    """Gates that were left out because their program is missing, and files that could not be read."""


def find_program(name: str) -> str | None:
    """The program ``name`` on ``PATH``."""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        candidate = Path(folder or ".") / name
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return str(candidate)
    return None


def detect(
    repo: Path,
    files: Sequence[str],
    *,
    read: Callable[[str], bytes | None] | None = None,
    which: Callable[[str], str | None] = find_program,
) -> DetectedGates:
    """The gates that ``files``, tracked in ``repo``, suggest: for the stages local and integration.

    ``read`` returns a tracked file's contents; by default they are read from ``repo``, symlinks refused.
    Only files at the top count. A gate whose program ``which`` does not find is a warning, not a gate.
    """
    detector = _Detector(set(files), read or (lambda path: _read(repo, path)))
    detector.python(files)
    detector.npm()
    detector.others()
    detector.make()
    warnings = list(detector.warnings)
    gates: dict[str, GateSpec] = {}
    missing: dict[str, list[str]] = {}
    for name, (program, command, when) in detector.found.items():
        if which(program) is None:
            missing.setdefault(program, []).append(name)
            continue
        gates[name] = GateSpec(command, "local", DETECTED_TIMEOUT, when)
        gates[name + MERGED] = GateSpec(command, "integration", DETECTED_TIMEOUT)
    for program, names in missing.items():
        warnings.append(
            f"gate {', '.join(names)} is not selected: program {program} is not on PATH; "
            "install it, or configure [gates]"
        )
    return DetectedGates(gates, tuple(warnings))


def _read(repo: Path, path: str) -> bytes | None:
    from meshtui.core import storage

    full = repo / path
    if full.is_symlink() or not full.is_file():
        return None
    try:
        return storage.read_bytes(full, limit=MAX_FILE)
    except (OSError, MeshtuiError):
        return None


class _Detector:
    """Collects (program, command, globs) by gate id."""

    def __init__(self, files: set[str], read: Callable[[str], bytes | None]) -> None:
        self.files = files
        self._read = read
        self.found: dict[str, tuple[str, Command, tuple[str, ...]]] = {}
        self.purposes: set[str] = set()
        self.warnings: list[str] = []

    def add(
        self, name: str, command: Command, when: tuple[str, ...], purpose: str, program: str | None = None
    ) -> None:
        """Note a gate; ``program`` is the command's first word where that is its program."""
        self.found[name] = (program or command[0], command, when)
        self.purposes.add(purpose)

    def text(self, path: str) -> str:
        """The contents of a tracked file; empty if there is none."""
        if path not in self.files:
            return ""
        raw = self._read(path)
        if raw is None:
            self.warnings.append(f"{plain(path)} could not be read: gates it may define are not detected")
            return ""
        return raw[:MAX_FILE].decode("utf-8-sig", "replace")

    def table(self, path: str) -> dict[str, Any]:
        """A TOML file's contents; empty, with a warning, if it is none."""
        try:
            return tomllib.loads(self.text(path))
        except (ValueError, RecursionError):
            self.warnings.append(f"{path} is not TOML: gates it may define are not detected")
            return {}

    def python(self, files: Sequence[str]) -> None:
        """ruff, mypy, pytest."""
        found = self.table("pyproject.toml").get("tool", {})
        tool: dict[str, Any] = found if isinstance(found, dict) else {}
        ini = self.text("setup.cfg") + "\n" + self.text("tox.ini")
        if "ruff" in tool or self.files & {"ruff.toml", ".ruff.toml"}:
            self.add("ruff", ["ruff", "check", "."], (*_PYTHON, "ruff.toml", ".ruff.toml"), "lint")
        if "mypy" in tool or self.files & {"mypy.ini", ".mypy.ini"} or re.search(r"^\[mypy", ini, re.M):
            self.add("mypy", self._mypy(tool.get("mypy"), files), (*_PYTHON, "mypy.ini"), "types")
        tests = any(re.search(r"(?:^|/)(?:test_[^/]*|[^/]*_test|conftest)\.py$", path) for path in files)
        configured = (
            "pytest" in tool or "pytest.ini" in self.files or re.search(r"^\[(?:tool:)?pytest\]", ini, re.M)
        )
        if tests or configured:
            command = _with_source("pytest", files)
            self.add("pytest", command, (*_PYTHON, "pytest.ini", "tox.ini"), "test", "pytest")

    def _mypy(self, settings: object, files: Sequence[str]) -> Command:
        given = settings if isinstance(settings, dict) else {}
        ini = self.text("mypy.ini") + self.text(".mypy.ini") + self.text("setup.cfg")
        names_files = any(key in given for key in ("files", "packages", "modules"))
        names_files = names_files or re.search(r"^(?:files|packages|modules)\s*=", ini, re.M) is not None
        return ["mypy"] if names_files else ["mypy", *(_packages(files) or ["."])]

    def npm(self) -> None:
        """Scripts of ``package.json``: test, lint, type checks."""
        text = self.text("package.json")
        if not text:
            return
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            self.warnings.append("package.json is not JSON: gates it may define are not detected")
            return
        scripts = value.get("scripts") if isinstance(value, dict) else None
        if not isinstance(scripts, dict):
            return
        locks = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun", "bun.lockb": "bun"}
        program = next((locks[lock] for lock in locks if lock in self.files), "npm")
        wanted = {"lint": "lint", "typecheck": "types", "type-check": "types", "test": "test"}
        for script, purpose in wanted.items():
            body = scripts.get(script)
            if isinstance(body, str) and body.strip() and "no test specified" not in body:
                self.add(f"{program}-{script}", [program, "run", script], _SCRIPT, purpose)

    def others(self) -> None:
        """cargo and go."""
        if "Cargo.toml" in self.files:
            when = ("*.rs", "Cargo.toml", "Cargo.lock")
            self.add("cargo-test", ["cargo", "test", "--quiet"], when, "test")
        if "go.mod" in self.files:
            when = ("*.go", "go.mod", "go.sum")
            self.add("go-vet", ["go", "vet", "./..."], when, "lint")
            self.add("go-test", ["go", "test", "./..."], when, "test")

    def make(self) -> None:
        """Targets of the Makefile for what no other gate does: lint, typecheck, test, or else check."""
        name = next((name for name in ("GNUmakefile", "makefile", "Makefile") if name in self.files), None)
        if name is None:
            return
        targets = {word for line in _TARGET.findall(self.text(name)) for word in line.split()}
        have = set(self.purposes)
        if "check" in targets and not have:
            self.add("make-check", ["make", "check"], (), "test")
            return
        for target, purpose in {"lint": "lint", "typecheck": "types", "test": "test"}.items():
            if target in targets and purpose not in have:
                self.add(f"make-{target}", ["make", target], (), purpose)


def _packages(files: Sequence[str]) -> list[str]:
    """Where the Python source is: ``src``, or the packages at the top that are not tests or documents."""
    if any(re.match(r"src/.+\.py$", path) for path in files):
        return ["src"]
    packages = (path.split("/")[0] for path in files if re.fullmatch(r"[^/.]+/__init__\.py", path))
    return sorted(name for name in packages if name.lower() not in risk.TEST_FOLDERS | risk.DOC_FOLDERS)


def _with_source(program: str, files: Sequence[str]) -> Command:
    """``program`` with the working copy's source first on Python's path."""
    packages = _packages(files)
    modules = any("/" not in path and path.endswith(".py") and path != "setup.py" for path in files)
    folders = ["$PWD/src"] if packages == ["src"] else []
    folders += ["$PWD"] if modules or (packages and packages != ["src"]) else []
    if not folders:
        return [program]
    return f'PYTHONPATH="{":".join(folders)}${{PYTHONPATH:+:$PYTHONPATH}}" {program}'


def in_force(config: Config, detected: DetectedGates) -> dict[str, GateSpec]:
    """Every gate by id: the configured ones, and the detected ones of stages where none is configured."""
    gates = {name: GateSpec.from_config(gate) for name, gate in config.gates.items()}
    settled = {gate.stage for gate in gates.values()}
    for name, gate in detected.gates.items():
        if gate.stage not in settled and name not in gates:
            gates[name] = gate
    return gates


def select(
    config: Config,
    detected: DetectedGates,
    scope: OwnerScope,
    stage: Stage,
    *,
    wanted: Sequence[str] = (),
) -> list[str]:
    """Ids of the gates of ``stage`` for a loop that owns ``scope``.

    Those whose ``when`` a change inside the scope could match. ``wanted``, a domain's own list, replaces
    the choice at the stages local and checker; an id in it that nobody knows is kept, at stage local.
    """
    gates = in_force(config, detected)
    if wanted and stage != "integration":
        return [name for name in dict.fromkeys(wanted) if _stage_of(name, gates) == stage]
    return [
        name
        for name, gate in gates.items()
        if gate.stage == stage
        and (stage == "integration" or not gate.when or any(paths.touches(glob, scope) for glob in gate.when))
    ]


def _stage_of(name: str, gates: Mapping[str, GateSpec]) -> Stage | None:
    if name in BUILTIN:
        return None
    return gates[name].stage if name in gates else "local"


def unknown(ids: Iterable[str], config: Config, detected: DetectedGates) -> list[str]:
    """Those of ``ids`` that are neither built in nor in force: they will fail."""
    known = {*in_force(config, detected), *BUILTIN}
    return [name for name in dict.fromkeys(ids) if name not in known]
