"""``loop.json``, sessions and the stall journal: the small files a runner keeps beside the queue."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from meshtui.core import storage, strict_json
from meshtui.core.clock import Clock, iso
from meshtui.core.engines.base import Usage
from meshtui.core.errors import InvalidInput
from meshtui.core.journal import read_block
from meshtui.core.models.record import SCHEMA_VERSION
from meshtui.core.run_dir import LanePaths

RunState = Literal["waiting", "running", "parked", "stopped", "failed"]
KEY_SEPARATOR = "\0"


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in ``path``, ``None`` if there is no such file; :class:`InvalidInput` if it is damaged."""
    try:
        raw = storage.read_bytes(path, limit=64 << 20)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return strict_json.load_object(raw, limit=64 << 20, what=path.name)


def read_or_set_aside(path: Path, clock: Clock) -> dict[str, Any]:
    """Like :func:`read_json`, but a damaged file is kept aside under another name and read as empty.

    Only for a file about to be written again: what it held must not be lost under the new contents.
    """
    try:
        return read_json(path) or {}
    except (InvalidInput, IsADirectoryError):
        storage.move(path, path.with_name(f"{path.name}.damaged-{clock.now_ms()}"), durable=False)
        return {}


class LaneStatus:
    """``loop.json`` as its runner keeps it; fields of other tools stay."""

    def __init__(self, paths: LanePaths, lane_id: str, clock: Clock) -> None:
        self._path = paths.status
        self._clock = clock
        self._data = read_or_set_aside(self._path, clock)
        self._data["lane_id"] = lane_id
        counts = self._data.get("stall_counts")
        self.stall_counts: dict[str, int] = {
            key: value
            for key, value in (counts.items() if isinstance(counts, dict) else ())
            if isinstance(value, int)
        }
        self.state: RunState = "waiting"
        self.limit: dict[str, Any] | None = _object(self._data.get("limit"))
        """The phase that waits for a usage limit to pass: ``{envelope_id, engine, since, until, …}``."""
        self.used = Usage.from_json(self._data.get("usage")) or Usage()
        """What the lane's phases used so far, as far as their engines reported it."""
        self.budget: dict[str, Any] | None = _object(self._data.get("budget"))
        """How the lane stands to its caps once it comes near them."""
        self.active_envelope_id: str | None = None
        self.active_phase: str | None = None

    def write(self, queue_depth: int, *, pid: int | None = None) -> None:
        """Write the file as things are now."""
        self._data.update(
            {
                "schema_version": SCHEMA_VERSION,
                "mode": "loop",
                "state": self.state,
                "queue_depth": queue_depth,
                "active_envelope_id": self.active_envelope_id,
                "active_phase": self.active_phase,
                "stall_counts": self.stall_counts,
                "pid": os.getpid() if pid is None else pid,
                "updated_at": iso(self._clock.now_ms()),
            }
        )
        extra = {"limit": self.limit, "usage": self.used.as_json() or None, "budget": self.budget}
        for key, value in extra.items():
            if value is None:
                self._data.pop(key, None)
            else:
                self._data[key] = value
        storage.write_atomic(self._path, strict_json.dump_bytes(self._data, indent=2), durable=False)


def _object(value: object) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


class Sessions:
    """The engine sessions of stories, with the directory each belongs to.

    A session can only be resumed from its directory; one whose directory is not known (another tool
    stored it) is resumed from the phase's.
    """

    def __init__(self, paths: LanePaths, clock: Clock) -> None:
        self._paths = paths
        self._clock = clock

    def find(self, story: str, engine: str, directory: str) -> str | None:
        """The session to resume for a phase that runs in ``directory``."""
        key = story + KEY_SEPARATOR + engine
        session = read_or_set_aside(self._paths.sessions, self._clock).get(key)
        if not isinstance(session, str) or not session:
            return None
        known = read_or_set_aside(self._paths.session_dirs, self._clock).get(key)
        if isinstance(known, dict) and known.get("session_id") == session:
            return session if known.get("directory") == directory else None
        return session

    def used(self, story: str, engine: str, session: str) -> Usage | None:
        """What a session had used in all when it was stored, where its engine counts it so."""
        known = read_or_set_aside(self._paths.session_dirs, self._clock).get(story + KEY_SEPARATOR + engine)
        if not isinstance(known, dict) or known.get("session_id") != session:
            return None
        return Usage.from_json(known.get("usage"))

    def store(
        self, story: str, engine: str, session: str, directory: str, usage: Usage | None = None
    ) -> None:
        """Remember the session of a story, and what it used in all."""
        key = story + KEY_SEPARATOR + engine
        sessions = read_or_set_aside(self._paths.sessions, self._clock)
        dirs = read_or_set_aside(self._paths.session_dirs, self._clock)
        entry: dict[str, Any] = {"session_id": session, "directory": directory}
        if usage is not None:
            entry["usage"] = usage.as_json()
        if sessions.get(key) == session and dirs.get(key) == entry:
            return
        dirs[key] = entry
        self._write(self._paths.session_dirs, dirs)
        sessions[key] = session
        self._write(self._paths.sessions, sessions)

    def drop(self, story: str, engine: str) -> None:
        """Forget the session of a story: its next phase starts a new one."""
        key = story + KEY_SEPARATOR + engine
        sessions = read_or_set_aside(self._paths.sessions, self._clock)
        if sessions.pop(key, None) is not None or not self._paths.sessions.exists():
            self._write(self._paths.sessions, sessions)

    def _write(self, path: Path, value: dict[str, Any]) -> None:
        storage.write_atomic(path, strict_json.dump_bytes(value, indent=2))


def append_stall(paths: LanePaths, event: dict[str, Any]) -> None:
    """Add one stall to ``stalls.jsonl``, once: a runner that took over may try to write it again."""
    try:
        size = paths.stalls.stat().st_size
    except FileNotFoundError:
        size = 0
    tail = read_block(paths.stalls, max(0, size - 65536), 65536)
    torn = bool(tail) and not tail.endswith(b"\n")
    same = ("envelope_id", "attempt", "call")
    for line in tail.split(b"\n"):
        try:
            known = strict_json.load_object(line) if line.startswith(b"{") else None
        except InvalidInput:
            continue
        if known is not None and event.get("call") and all(known.get(k) == event.get(k) for k in same):
            return
    storage.append(paths.stalls, (b"\n" if torn else b"") + strict_json.dump_bytes(event))
