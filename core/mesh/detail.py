"""What the details of a loop show, read when they are looked at: bounded, lenient, frozen.

Nothing here writes, and nothing that stands in a mission's folder makes it fail.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from meshtui.core.errors import MeshtuiError
from meshtui.core.lane.rows import read_object
from meshtui.core.mesh.paths import LoopPaths
from meshtui.core.mesh.runlog import LogLine, log_lines
from meshtui.core.mesh.view import LoopRow, MissionView, texts
from meshtui.core.run_dir import RunDir
from meshtui.core.view import CallView

LoopPart = Literal["state", "diff", "gates", "proof", "findings", "log"]
LOOP_PARTS: tuple[LoopPart, ...] = ("state", "diff", "gates", "proof", "findings", "log")

DIFF_BYTES = 8 << 20
DIFF_LINES = 200_000
LOG_LINES = 4000
MOST = 200
"""Files, gates, claims, findings shown at most."""
TAIL_LINES = 40
HANDOFF_BYTES = 16 << 10


@dataclass(frozen=True, slots=True)
class Kept:
    """Where a loop's things are, and what a person has to know of them."""

    places: tuple[tuple[str, str], ...] = ()
    """``(what, where)``."""
    handoff: str = ""
    """What it leaves to a person."""
    verdict: tuple[str, ...] = ()
    """What the arbiter or a person decided, the verdict first."""
    merges: tuple[tuple[str, str, bool, str], ...] = ()
    """Of the integration loop: loop, strategy, whether it went well, what it said."""
    effects: tuple[str, ...] = ()
    """What the side-effect report lists."""


@dataclass(frozen=True, slots=True)
class DiffFile:
    """One changed file."""

    path: str
    status: str
    insertions: int = 0
    deletions: int = 0
    binary: bool = False


@dataclass(frozen=True, slots=True)
class Diff:
    """What a loop changed."""

    files: tuple[DiffFile, ...] = ()
    lines: tuple[str, ...] = ()
    """The patch."""
    source: str = ""
    cut: bool = False
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate, run or not."""

    gate_id: str
    result: Literal["passed", "failed", "skipped", "waiting"] = "waiting"
    exit_code: int | None = None
    duration_ms: int | None = None
    iteration: int | None = None
    timed_out: bool = False
    command: str = ""
    log: str = ""
    tail: tuple[str, ...] = ()
    blockers: tuple[str, ...] = ()
    left_behind: tuple[str, ...] = ()
    base_failed: bool = False
    """Whether it fails on the untouched base as well."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of a proof and what it rests on."""

    claim: str
    call: str = ""
    command: str = ""
    exit_code: int | None = None
    duration_ms: int | None = None
    log: str = ""
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Proof:
    """What a loop's proof says."""

    exists: bool = False
    status: str = ""
    base: str = ""
    head: str = ""
    claims: tuple[Claim, ...] = ()
    blockers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """What one checker or gate said."""

    iteration: int
    who: str
    approved: bool | None
    texts: tuple[str, ...] = ()
    fresh: bool | None = None


@dataclass(frozen=True, slots=True)
class Log:
    """A loop's run log, and the calls at work."""

    lines: tuple[LogLine, ...] = ()
    calls: tuple[tuple[str, CallView], ...] = ()
    """Worker slot and its call."""


LoopDetail = Kept | Diff | tuple[Gate, ...] | Proof | tuple[Finding, ...] | Log


def read_part(mission: MissionView, row: LoopRow, part: LoopPart) -> LoopDetail:
    """One part of the details of ``row``."""
    paths = LoopPaths(mission.root / row.loop_id)
    if part == "state":
        return read_kept(mission, row, paths)
    if part == "diff":
        return read_diff(mission, row, paths)
    if part == "gates":
        return read_gates(row, paths)
    if part == "proof":
        return read_proof(paths)
    if part == "findings":
        return read_findings(paths)
    return read_log(mission, row, paths)


def signature(mission: MissionView, row: LoopRow) -> tuple[tuple[int, int], ...]:
    """Changes when one of the loop's files did, or its working copy went."""
    paths = LoopPaths(mission.root / row.loop_id)
    marks = []
    files = (paths.state, paths.checkpoint, paths.proof, paths.log, paths.gates, paths.checker)
    for path in (*files, row.worktree or paths.worktree):
        try:
            state = os.stat(path)
            marks.append((state.st_mtime_ns, state.st_size))
        except OSError:
            marks.append((0, 0))
    return tuple(marks)


def home_of(mission: MissionView) -> RunDir | None:
    """The run directory that holds ``mission``, ``None`` for a folder that was taken out of one."""
    folder = mission.root.parent.parent
    return RunDir(folder.parent) if folder.name == "missions" else None


# -- state ------------------------------------------------------------------------------------------


def read_kept(mission: MissionView, row: LoopRow, paths: LoopPaths) -> Kept:
    """Where its things are, and what was decided."""
    places: list[tuple[str, str]] = []
    worktree = read_object(paths.worktree) or {}
    path = row.worktree or _text(worktree.get("path"))
    if path:
        gone = "" if Path(path).is_dir() else "  (removed)"
        places.append(("worktree", path + gone))
    branch = row.branch or _text(worktree.get("branch"))
    if branch:
        places.append(("branch", branch))
    if row.candidate:
        places.append(("candidate", row.candidate))
    if mission.base_commit:
        places.append(("base", mission.base_commit))
    places.append(("files", str(paths.root)))
    merge = read_object(mission.root / "integration-merge.json") or {}
    effects: list[str] = []
    verdict: tuple[str, ...] = ()
    merges: tuple[tuple[str, str, bool, str], ...] = ()
    if row.loop_id == mission.integration_loop_id:
        merges = tuple(_merges(merge))
        effects = list(_effects(read_object(mission.root / "loop-side-effect-report.json") or {}))
        verdict = _verdict(read_object(mission.root / "loop-gpt-final-arbiter.json"))
    else:
        verdict = _verdict((read_object(paths.proof) or {}).get("human_verdict"))
    return Kept(tuple(places), _head_of(paths.handoff), verdict, merges, tuple(effects[:MOST]))


def read_files(mission: MissionView, row: LoopRow, part: LoopPart) -> tuple[dict[str, Any], Path]:
    """The files behind one part of the details of ``row`` by name, and the one that matters most."""
    paths = LoopPaths(mission.root / row.loop_id)
    main: dict[LoopPart, Path] = {
        "state": paths.state, "diff": paths.worktree, "proof": paths.proof, "log": paths.checkpoint,
        "gates": paths.gates, "findings": paths.checker,
    }  # fmt: skip
    path = main[part]
    if part not in ("gates", "findings"):
        value = read_object(path)
        return ({path.name: value} if value is not None else {}, path)
    try:
        names = sorted(entry.name for entry in os.scandir(path) if entry.name.endswith(".json"))
    except OSError:
        names = []
    found = {name: value for name in names[:MOST] if (value := read_object(path / name)) is not None}
    return found, path


def _verdict(value: object) -> tuple[str, ...]:
    if not isinstance(value, dict) or not value.get("verdict"):
        return ()
    by = " ".join(str(value[name]) for name in ("by", "who") if isinstance(value.get(name), str))
    return (f"{value['verdict']}{' by ' + by if by else ''}", *texts(value.get("reasons")))


def _merges(merge: dict[str, Any]) -> Iterator[tuple[str, str, bool, str]]:
    attempts = merge.get("merge_attempts")
    if isinstance(attempts, dict):
        for loop, tries in list(attempts.items())[:MOST]:
            for one in tries if isinstance(tries, list) else []:
                if isinstance(one, dict):
                    said = ", ".join(texts(one.get("conflicts"))) or str(one.get("output") or "")
                    yield str(loop), str(one.get("strategy") or "?"), one.get("ok") is True, said[:500]


def _effects(report: dict[str, Any]) -> Iterator[str]:
    for name, value in report.items():
        if isinstance(value, list) and value and name != "blockers":
            yield f"{name.replace('_', ' ')}: {', '.join(str(item) for item in value[:10])}"


def _head_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(HANDOFF_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


# -- diff -------------------------------------------------------------------------------------------


def read_diff(mission: MissionView, row: LoopRow, paths: LoopPaths) -> Diff:
    """The loop's change from its commits, else from the last patch it kept."""
    problem: str | None = None
    if mission.repo and mission.base_commit and row.candidate and Path(mission.repo).is_dir():
        from meshtui.core.vcs.change import diff
        from meshtui.core.vcs.git import Git

        try:
            change = diff(Git(Path(mission.repo)), mission.base_commit, row.candidate, max_patch=DIFF_BYTES)
        except MeshtuiError as error:
            problem = str(error)
        else:
            files = tuple(
                DiffFile(
                    f"{item.old_path} → {item.path}" if item.old_path else item.path,
                    item.status,
                    item.insertions,
                    item.deletions,
                    item.binary,
                )
                for item in change.files[:MOST]
            )
            lines = change.patch.decode("utf-8", "replace").split("\n")
            where = f"{mission.base_commit[:12]}..{row.candidate[:12]}"
            cut = not change.patch_complete or len(lines) > DIFF_LINES or len(change.files) > MOST
            return Diff(files, tuple(lines[:DIFF_LINES]), where, cut)
    patch = _newest_patch(paths.patches)
    if patch is None:
        return Diff(problem=problem)
    try:
        with patch.open("rb") as file:
            raw = file.read(DIFF_BYTES + 1)
    except OSError as error:
        return Diff(problem=str(error))
    lines = raw[:DIFF_BYTES].decode("utf-8", "replace").split("\n")
    cut, where = len(raw) > DIFF_BYTES or len(lines) > DIFF_LINES, f"patches/{patch.name}"
    return Diff(tuple(_files_in(lines)), tuple(lines[:DIFF_LINES]), where, cut, problem)


def _newest_patch(folder: Path) -> Path | None:
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(".patch"))
    except OSError:
        return None
    return folder / names[-1] if names else None


_HEADER = re.compile(r"^diff --git (?:a/.*|\".*\") (?:b/|\"b/)(.*?)\"?$")


def _files_in(lines: list[str]) -> Iterator[DiffFile]:
    name, status, added, removed, binary = "", "M", 0, 0, False
    hunk = False
    for line in [*lines, "diff --git a/ b/"]:
        found = _HEADER.match(line)
        if found is not None:
            if name:
                yield DiffFile(name, status, added, removed, binary)
            name, status, added, removed, binary, hunk = found[1], "M", 0, 0, False, False
        elif not hunk and line.startswith("new file"):
            status = "A"
        elif not hunk and line.startswith("deleted file"):
            status = "D"
        elif not hunk and line.startswith("rename to"):
            status = "R"
        elif line.startswith(("Binary files", "GIT binary patch")):
            binary = True
        elif line.startswith("@@"):
            hunk = True
        elif hunk and line.startswith("+"):
            added += 1
        elif hunk and line.startswith("-"):
            removed += 1


# -- gates ------------------------------------------------------------------------------------------


def read_gates(row: LoopRow, paths: LoopPaths) -> tuple[Gate, ...]:
    """Every gate of the loop in the order of its plan, then others that left a result."""
    from meshtui.core.models.mesh_names import gate_file

    results: dict[str, dict[str, Any]] = {}
    try:
        names = sorted(entry.name for entry in os.scandir(paths.gates) if entry.name.endswith(".json"))
    except OSError:
        names = []
    for name in names[:MOST]:
        value = read_object(paths.gates / name)
        if value is not None:
            results[name] = value
    gates = []
    for gate_id in row.gates_selected[:MOST]:
        gates.append(_gate(gate_id, results.pop(gate_file(gate_id), None), row))
    gates += [_gate(str(value.get("gate_id") or name), value, row) for name, value in results.items()]
    return tuple(gates)


def _gate(gate_id: str, value: dict[str, Any] | None, row: LoopRow) -> Gate:
    if value is None:
        known = gate_id in row.gates_skipped and row.ended
        return Gate(gate_id, "skipped" if known else "waiting")
    result: Literal["passed", "failed", "skipped"] = (
        "skipped" if value.get("skipped") is True else "passed" if value.get("ok") is True else "failed"
    )
    command = value.get("command")
    words = " ".join(str(item) for item in command) if isinstance(command, list) else _text(command)
    out, err = _text(value.get("stdout_tail")), _text(value.get("stderr_tail"))
    tail = [line for text in (out, err) for line in text.rstrip("\n").split("\n") if text.strip()]
    return Gate(
        gate_id,
        result,
        exit_code=_number(value.get("exit_code")),
        duration_ms=_number(value.get("duration_ms")),
        iteration=_number(value.get("iteration")),
        timed_out=value.get("timed_out") is True,
        command=words,
        log=_text(value.get("log")),
        tail=tuple(tail[-TAIL_LINES:]),
        blockers=texts(value.get("blockers")),
        left_behind=texts(value.get("side_effects")),
        base_failed=isinstance(base := value.get("base"), dict) and base.get("ok") is False,
    )


# -- proof ------------------------------------------------------------------------------------------


def read_proof(paths: LoopPaths) -> Proof:
    """The loop's proof as it stands, not verified."""
    value = read_object(paths.proof)
    if value is None:
        return Proof()
    evidence = value.get("evidence")
    claims = [
        Claim(
            _text(item.get("claim")),
            _text(item.get("call")),
            _text(item.get("command")),
            _number(item.get("exit_code")),
            _number(item.get("duration_ms")),
            _text(item.get("log")),
            _text(item.get("sha256")),
        )
        for item in (evidence if isinstance(evidence, list) else [])[:MOST]
        if isinstance(item, dict)
    ]
    return Proof(
        True,
        _text(value.get("status")),
        _text(value.get("base_commit")),
        _text(value.get("head_commit")),
        tuple(claims),
        texts(value.get("blockers")),
    )


# -- findings ---------------------------------------------------------------------------------------

_CHECKER = re.compile(r"^(\d{4,})-(.+)\.json$")


def read_findings(paths: LoopPaths) -> tuple[Finding, ...]:
    """What checkers and gates said, newest iteration first."""
    found: list[Finding] = []
    try:
        names = sorted(entry.name for entry in os.scandir(paths.checker))
    except OSError:
        names = []
    for name in names[:MOST]:
        match = _CHECKER.match(name)
        value = read_object(paths.checker / name) if match is not None else None
        if match is not None and value is not None:
            found.append(_said(int(match[1]), match[2], value))
    if not found:
        value = read_object(paths.checker / "checker-findings.json")
        if value is not None:
            found.append(_said(_number(value.get("iteration")) or 1, "checkers", value))
    for iteration, said in _refused(paths):
        gates = tuple(text for text in said if not text.startswith("checker-"))
        if gates:
            found.append(Finding(iteration, "gates", False, gates))
    return tuple(sorted(found, key=lambda one: (-one.iteration, one.who)))


def _said(iteration: int, who: str, value: dict[str, Any]) -> Finding:
    approved, fresh = value.get("approved"), value.get("fresh_session")
    said = (
        *texts(value.get("findings")),
        *(f"side effect: {text}" for text in texts(value.get("side_effects_detected"))),
    )
    return Finding(
        iteration,
        who,
        approved if isinstance(approved, bool) else None,
        said[:MOST],
        fresh if isinstance(fresh, bool) else None,
    )


def _refused(paths: LoopPaths) -> Iterator[tuple[int, tuple[str, ...]]]:
    """For each iteration that was sent back, what was said against it."""
    try:
        names = sorted(e.name for e in os.scandir(paths.checkpoints) if e.name.endswith("-maker.json"))
    except OSError:
        names = []
    for name in names[:MOST]:
        progress = (read_object(paths.checkpoints / name) or {}).get("meshtui")
        if isinstance(progress, dict):
            iteration = _number(progress.get("iteration")) or 0
            if iteration > 1 and progress.get("findings"):
                yield iteration - 1, texts(progress["findings"])
    state, latest = read_object(paths.state) or {}, read_object(paths.checkpoint) or {}
    progress = latest.get("meshtui")
    if isinstance(progress, dict) and state.get("status") in ("blocked", "failed"):
        findings = texts(progress.get("findings"))
        if findings:
            yield _number(progress.get("iteration")) or 0, findings


# -- log --------------------------------------------------------------------------------------------


def read_log(mission: MissionView, row: LoopRow, paths: LoopPaths) -> Log:
    """The run log, and the calls of the workers at work."""
    calls: list[tuple[str, CallView]] = []
    home = home_of(mission)
    if row.status == "running" and home is not None:
        slots = (read_object(paths.checkpoint) or {}).get("calls")
        for slot, call_id in sorted(slots.items()) if isinstance(slots, dict) else []:
            call = _call(home, call_id)
            if call is not None:
                calls.append((str(slot), call))
    return Log(log_lines(paths.log)[-LOG_LINES:], tuple(calls))


def _call(home: RunDir, call_id: object) -> CallView | None:
    from meshtui.core.calls import Call
    from meshtui.core.errors import InvalidInput

    if not isinstance(call_id, str):
        return None
    try:
        call = Call.attach(home, call_id)
    except InvalidInput:
        return None
    done, state = call.exit(), call.state()
    view = CallView(call_id, call.folder, call.stdout, call.stderr, state, done.code if done else None)
    call.close()
    return view


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
