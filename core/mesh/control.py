"""Kill requests of a mission: each names its target, several coexist, each is spent once acted on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from meshtui.core import storage
from meshtui.core.clock import Clock, from_iso, iso
from meshtui.core.errors import InvalidInput
from meshtui.core.mesh.files import read_json, write_json
from meshtui.core.mesh.paths import MissionPaths
from meshtui.core.models.mesh import KILL_REQUEST

ALL = "all"


@dataclass(frozen=True, slots=True)
class KillRequest:
    """One request."""

    path: Path
    target: str
    """A loop's id, or ``all``."""
    requested_at: int
    """ms since the epoch; 0 where the request does not say."""


def request_kill(paths: MissionPaths, target: str, clock: Clock) -> Path:
    """Ask the mission's runner to kill ``target``; the request's file."""
    path = paths.kill_requests / f"{uuid4()}.json"
    write_json(path, kill_request(paths.mission_id, target, clock))
    return path


def kill_request(mission_id: str, target: str, clock: Clock) -> dict[str, str]:
    """A kill request as the format has it."""
    return {
        "schema": KILL_REQUEST,
        "mission_id": mission_id,
        "target": target,
        "requested_at": iso(clock.now_ms()),
    }


def pending_kills(paths: MissionPaths) -> list[KillRequest]:
    """The requests that nobody acted on yet; another tool's single one among them."""
    found = []
    try:
        files = sorted(
            path
            for path in paths.kill_requests.iterdir()
            if path.suffix == ".json" and not path.name.startswith(".")
        )
    except FileNotFoundError:
        files = []
    if paths.kill_request.exists():
        files.append(paths.kill_request)
    for path in files:
        try:
            value = read_json(path)
        except InvalidInput:
            continue
        target = (value or {}).get("target")
        if isinstance(target, str):
            found.append(KillRequest(path, target, from_iso((value or {}).get("requested_at")) or 0))
    return found


def older_than(requests: list[KillRequest], at: int) -> list[KillRequest]:
    """Those requests that were made before ``at``; ms."""
    return [request for request in requests if request.requested_at < at]


def spend(requests: list[KillRequest]) -> None:
    """Remove requests that were acted on."""
    for request in requests:
        storage.remove_file(request.path)
