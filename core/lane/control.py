"""Requests to a running runner: ``loop/control/<uuid>.json`` and the answers beside them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from meshtui.core import storage, strict_json
from meshtui.core.clock import Clock, from_iso, iso
from meshtui.core.errors import Held, InvalidInput, MeshtuiError, NotFound, StorageError, WorkFailed
from meshtui.core.run_dir import LanePaths

ANSWER_SUFFIX = ".answer.json"
ASK_SECONDS = 30.0
MOST_BYTES = 1 << 24
"""A request may hold an envelope of the largest size twice, or the ids of a long queue."""
FORGOTTEN_SECONDS = 60.0
"""An answer this old was left by an asker that ended."""
_KINDS: dict[str, type[MeshtuiError]] = {
    "invalid": InvalidInput,
    "not_found": NotFound,
    "held": Held,
    "failed": WorkFailed,
}


class RunnerGone(Exception):
    """The runner ended before it answered; the asker may act itself."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request as the runner reads it."""

    path: Path
    request: str
    subject: str | None
    by: str
    at: int | None
    data: dict[str, Any]


def ask(
    paths: LanePaths,
    clock: Clock,
    request: str,
    subject: str | None,
    *,
    by: str,
    alive: Callable[[], bool],
    **fields: Any,
) -> dict[str, Any]:
    """Send a request to the runner and wait for its answer.

    Raises what the runner answers with, or :class:`RunnerGone` once ``alive`` says it is gone.
    """
    key = str(uuid4())
    path = paths.control / f"{key}.json"
    answer = paths.control / f"{key}{ANSWER_SUFFIX}"
    value = {"request": request, "subject": subject, "by": by, "at": iso(clock.now_ms()), **fields}
    storage.write_atomic(path, strict_json.dump_bytes(value), durable=False)
    end = time.monotonic() + ASK_SECONDS
    pause = 0.002
    try:
        while True:
            lives = alive()
            try:
                reply = strict_json.load_object(
                    storage.read_bytes(answer, limit=MOST_BYTES),
                    limit=MOST_BYTES,
                    depth=strict_json.MAX_DEPTH + 2,
                )
            except FileNotFoundError:
                reply = None
            if reply is not None:
                return _unpack(reply)
            if not lives or not path.exists():
                # Gone, or a new one started since and discarded what it was not asked.
                raise RunnerGone
            if time.monotonic() > end:
                raise Held(
                    f"the runner did not answer {request!r} within {ASK_SECONDS:.0f} s; "
                    "if it hangs: meshtui lane --take-over"
                )
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)
    finally:
        storage.remove_file(path)
        storage.remove_file(answer)


def _unpack(reply: dict[str, Any]) -> dict[str, Any]:
    if reply.get("ok"):
        value = reply.get("value")
        return value if isinstance(value, dict) else {}
    kind = _KINDS.get(str(reply.get("kind")), WorkFailed)
    raise kind(str(reply.get("error") or "the runner refused"))


def pending(paths: LanePaths) -> list[Request]:
    """The requests nobody answered yet, oldest first; damaged ones are passed over."""
    found = []
    try:
        entries = list(paths.control.iterdir())
    except FileNotFoundError:
        return []
    names = {entry.name for entry in entries}
    for entry in entries:
        if (
            entry.name.startswith(".")
            or not entry.name.endswith(".json")
            or entry.name.endswith(ANSWER_SUFFIX)
        ):
            continue
        if entry.name.removesuffix(".json") + ANSWER_SUFFIX in names:
            continue
        try:
            data = strict_json.load_object(
                storage.read_bytes(entry, limit=MOST_BYTES), limit=MOST_BYTES, depth=strict_json.MAX_DEPTH + 2
            )
        except (OSError, InvalidInput, StorageError):
            continue
        subject = data.get("subject")
        found.append(
            Request(
                path=entry,
                request=str(data.get("request") or ""),
                subject=subject if isinstance(subject, str) else None,
                by=str(data.get("by") or "unknown"),
                at=from_iso(data.get("at")),
                data=data,
            )
        )
    return sorted(found, key=lambda request: (request.at or 0, request.path.name))


def answer(request: Request, value: dict[str, Any] | None = None, error: MeshtuiError | None = None) -> None:
    """Answer ``request`` with a value or an error."""
    reply: dict[str, Any] = {"ok": error is None, "value": value or {}}
    if error is not None:
        reply["error"] = str(error)
        reply["kind"] = next((name for name, kind in _KINDS.items() if type(error) is kind), "failed")
    path = request.path.with_name(request.path.name.removesuffix(".json") + ANSWER_SUFFIX)
    if not request.path.exists():
        return
    storage.write_atomic(path, strict_json.dump_bytes(reply), durable=False)


def discard_old(paths: LanePaths, before_ms: int) -> None:
    """Remove requests from before a runner's start, and answers nobody fetched."""
    for request in pending(paths):
        if request.at is None or request.at < before_ms:
            storage.remove_file(request.path)
    try:
        entries = list(paths.control.iterdir())
    except FileNotFoundError:
        return
    for entry in entries:
        if not entry.name.endswith(ANSWER_SUFFIX) or entry.name.startswith("."):
            continue
        try:
            age_ms = before_ms - entry.stat().st_mtime * 1000
        except FileNotFoundError:
            continue
        if age_ms > FORGOTTEN_SECONDS * 1000:
            storage.remove_file(entry)
            storage.remove_file(entry.with_name(entry.name.removesuffix(ANSWER_SUFFIX) + ".json"))
