"""What stands in a call's folder, read and made: ``call.json``, ``exit.json``, and what a call may be asked for."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meshtui.core import storage, strict_json
from meshtui.core.calls.spec import CallSpec
from meshtui.core.clock import from_iso, iso
from meshtui.core.errors import InvalidInput

CALL_ID = re.compile(r"\d{1,20}-[A-Za-z0-9._-]{0,80}-(?:run|maker|checker|arbiter|gate)-[0-9a-f]{8}")
_READ_LIMIT = 1 << 16


@dataclass(frozen=True, slots=True)
class CallExit:
    """How the program ended."""

    code: int
    """As the shell reports it: 128+n may mean signal n."""
    ended_at_ms: int


def check_spec(spec: CallSpec) -> None:
    """Raise :class:`InvalidInput` for what no program can be started with."""
    if not CALL_ID.fullmatch(spec.call_id):
        raise InvalidInput(f"not a call's name: {spec.call_id!r}", field="call")
    if not spec.argv or not spec.argv[0] or spec.argv[0].startswith("-"):
        raise InvalidInput("the command names no program", field="argv")
    if not spec.cwd.is_absolute():
        raise InvalidInput(f"the working directory is not absolute: {str(spec.cwd)!r}", field="cwd")
    text = "\n".join([*spec.argv, str(spec.cwd), *spec.env.keys(), *spec.env.values()])
    try:
        hostile = b"\0" in os.fsencode(text)
    except UnicodeEncodeError:
        hostile = True
    if hostile:
        raise InvalidInput("a command, working directory or variable holds a NUL or half a character")
    if not spec.cwd.is_dir():
        raise InvalidInput(
            f"no such working directory: {str(spec.cwd)!r}; make it or name another", field="cwd"
        )


def about_bytes(spec: CallSpec, now_ms: int) -> bytes:
    """``call.json``: what is to run, without the values of its environment."""
    return strict_json.dump_bytes(
        {
            "call_id": spec.call_id,
            "subject": spec.subject,
            "role": spec.role,
            "engine": spec.engine,
            "argv": list(spec.argv),
            "cwd": str(spec.cwd),
            "session_id": spec.session_id,
            "attempt": spec.attempt,
            "started_at": iso(now_ms),
            "deadline_at": None if spec.deadline_at_ms is None else iso(spec.deadline_at_ms),
        }
    )


def read_object(path: Path | str, *, limit: int = _READ_LIMIT) -> dict[str, Any] | None:
    """The object in ``path``; ``None`` if it is missing or not whole yet."""
    try:
        return strict_json.load_object(storage.read_bytes(path, limit=limit))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, InvalidInput):
        return None


def exit_in(value: Mapping[str, Any]) -> CallExit | None:
    """What ``exit.json`` says, ``None`` if it does not say how the program ended."""
    code, ended = value.get("code"), from_iso(value.get("ended_at"))
    if isinstance(code, int) and not isinstance(code, bool) and ended is not None:
        return CallExit(code, ended)
    return None
