"""A loop's run log: when it started, when which phase began, when it ended."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meshtui.core.clock import from_iso
from meshtui.core.strict_json import clean_text

MAX_BYTES = 256 << 10
"""Of a log that is longer, its end."""
ENDINGS = ("loop_completed", "loop_blocked", "loop_failed", "loop_handoff", "loop_cancelled")
PHASES = {
    "loop_maker_started": "maker",
    "loop_gate_started": "gates",
    "loop_checker_started": "checker",
    "loop_integration_merged": "integration",
}


@dataclass(frozen=True, slots=True)
class RunLog:
    """The times of a loop's last run; ms since the epoch."""

    started_at: int | None = None
    ended_at: int | None = None
    marks: tuple[tuple[int, str], ...] = ()
    """When which phase began, oldest first."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One event of a loop."""

    at: int | None
    event: str
    status: str = ""
    message: str = ""


def log_lines(path: Path) -> tuple[LogLine, ...]:
    """The events in a run log, oldest first; what cannot be read as one is left out."""
    found = []
    for raw in _tail(path).splitlines():
        try:
            value = json.loads(raw)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and isinstance(value.get("event_type"), str):
            found.append(
                LogLine(
                    from_iso(value.get("ts")),
                    clean_text(value["event_type"]),
                    _text(value.get("status")),
                    _text(value.get("message")),
                )
            )
    return tuple(found)


def read_run_log(path: Path) -> RunLog:
    """The times of the last run in the log at ``path``."""
    started: int | None = None
    ended: int | None = None
    marks: list[tuple[int, str]] = []
    for line in log_lines(path):
        if line.at is None:
            continue
        if line.event == "loop_started":
            if ended is not None or started is None:
                # A resume after an end begins anew; one after a stop goes on.
                started, marks = line.at, [(line.at, "triage")]
            ended = None
        elif line.event in ENDINGS:
            ended = line.at
        elif line.event in PHASES:
            marks.append((line.at, PHASES[line.event]))
    return RunLog(started, ended, tuple(marks))


def _tail(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - MAX_BYTES))
            return file.read(MAX_BYTES)
    except OSError:
        return b""


def _text(value: Any) -> str:
    return clean_text(value) if isinstance(value, str) else ""
