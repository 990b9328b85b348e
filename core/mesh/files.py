"""Reading and writing a mission's files; fields that other tools put there are kept."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from meshtui.core import storage, strict_json
from meshtui.core.clock import Clock, iso
from meshtui.core.errors import InvalidInput, NotFound
from meshtui.core.mesh.paths import LoopPaths, MissionPaths
from meshtui.core.mesh.rebuild import rebuilt_state
from meshtui.core.models.mesh_names import ENDED

if TYPE_CHECKING:
    # Whoever only reads plain objects need not wait for the models.
    from pydantic import BaseModel, ValidationError

    from meshtui.core.models.mesh import LoopState, Plan

MAX_BYTES = 64 << 20
MAX_FAULTS = 20
"""So many faults of a file are told one by one."""
Model = TypeVar("Model", bound="BaseModel")


def write_json(path: Path, value: Any, *, durable: bool = True, at_once: bool = True) -> None:
    """Write one JSON file of a mission, making its folder; ``durable`` and ``at_once`` as of ``write_atomic``."""
    storage.make_dirs(path.parent, durable=durable)
    storage.write_atomic(path, strict_json.dump_bytes(value, indent=2), durable=durable, at_once=at_once)


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in ``path``, ``None`` if there is none; :class:`InvalidInput` if it is damaged."""
    try:
        raw = storage.read_bytes(path, limit=MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return strict_json.load_object(raw, limit=MAX_BYTES, what=str(path))


def read_model(path: Path, model: type[Model]) -> Model | None:
    """The object in ``path`` as ``model``."""
    from pydantic import ValidationError

    value = read_json(path)
    if value is None:
        return None
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise InvalidInput(f"{path}: {one_line(error)}") from None


def one_line(error: ValidationError) -> str:
    """What a model has against a file, everything at once."""
    found = error.errors(include_url=False, include_input=False)
    said = [f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in found[:MAX_FAULTS]]
    more = [f"{len(found) - MAX_FAULTS} more"] if len(found) > MAX_FAULTS else []
    return "; ".join([*said, *more])


def load_plan(paths: MissionPaths) -> Plan:
    """The mission's plan; :class:`NotFound` if there is none."""
    from meshtui.core.models.mesh import Plan

    plan = read_model(paths.plan, Plan)
    if plan is None:
        raise NotFound(f"no mission {paths.mission_id!r} here; see: meshtui status")
    return plan


def read_state(paths: LoopPaths) -> LoopState | None:
    """A loop's state; where its file is damaged or lost, what proof and checkpoint tell of it."""
    return load_state(paths)[0]


def load_state(paths: LoopPaths) -> tuple[LoopState | None, str | None]:
    """:func:`read_state`, and what is wrong with the file if it is damaged or lost."""
    from meshtui.core.models.mesh import LoopState

    problem = None
    try:
        found = read_model(paths.state, LoopState)
    except InvalidInput as error:
        found, problem = None, str(error)
    if found is None and (problem is not None or paths.checkpoint.exists()):
        # Damaged ones of these count as missing; the checkpoint is repaired by who runs the loop.
        told = rebuilt_state(_readable(paths.proof), _readable(paths.checkpoint))
        about = {"mission_id": paths.root.parent.parent.name, "loop_id": paths.root.name}
        found = LoopState.model_validate({**about, **told})
        problem = problem or f"{paths.state} is lost"
    return found, problem


def _readable(path: Path) -> dict[str, Any]:
    try:
        return read_json(path) or {}
    except InvalidInput:
        return {}


def write_state(paths: LoopPaths, state: LoopState, clock: Clock, *, durable: bool | None = None) -> None:
    """Write a loop's state; synced by default only where the loop has ended.

    Until then its checkpoint is what a restart goes by.
    """
    state.updated_at = iso(clock.now_ms())
    write_json(paths.state, state.as_json(), durable=state.status in ENDED if durable is None else durable)


def append_line(path: Path, value: Mapping[str, Any]) -> None:
    """Add one line to a JSON Lines file of a mission."""
    storage.make_dirs(path.parent)
    storage.append(path, strict_json.dump_bytes(value))


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file; lines that are none are left out."""
    try:
        raw = storage.read_bytes(path, limit=MAX_BYTES)
    except FileNotFoundError:
        return []
    found = []
    for line in raw.splitlines():
        try:
            found.append(strict_json.load_object(line))
        except InvalidInput:
            continue
    return found


def sha256_of(path: Path) -> str | None:
    """The hash of a file's contents in hex, ``None`` if there is none."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except (FileNotFoundError, IsADirectoryError):
        return None
    return digest.hexdigest()


def read_text(path: Path, limit: int) -> str:
    """The beginning of a text file, decoded with replacement."""
    try:
        return storage.read_bytes(path, limit=limit).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
