"""Names in a mission's files, for those who only look: nothing here takes long to import."""

from __future__ import annotations

import re
from typing import Literal

Status = Literal["planned", "queued", "running", "blocked", "completed", "failed", "handoff", "cancelled"]
ENDED: tuple[Status, ...] = ("blocked", "completed", "failed", "handoff", "cancelled")

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


def is_mesh_id(text: object) -> bool:
    """Whether ``text`` may name a mission or a loop: it becomes a folder and part of a branch."""
    return (
        isinstance(text, str)
        and _ID.fullmatch(text) is not None
        and ".." not in text
        and not text.endswith((".", ".lock"))
        and text.lower() != "latest"
    )


def gate_file(gate_id: str) -> str:
    """The file of a gate's result: runs of other characters become one ``-``."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", gate_id) + ".json"
