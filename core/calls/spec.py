"""What a call is to do, its name, and the environment it starts from."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from meshtui.core.models.names import safe_id

CallRole = Literal["run", "maker", "checker", "arbiter", "gate"]

CALL_ID_VARIABLE = "MESHTUI_CALL_ID"
"""Carried by every process of a call: how those that left its group and session are found."""

_AGENT_PREFIXES = ("CLAUDE_CODE_", "CODEX_SANDBOX", "CODEX_INTERNAL_")
_AGENT_NAMES = frozenset(
    {"CLAUDECODE", "CODEX_CI", "CODEX_THREAD_ID", "GEMINI_CLI", "CURSOR_AGENT", "CURSOR_TRACE_ID", "OPENCODE"}
)
_AGENT_SETTINGS = (
    "CLAUDE_CODE_API_",
    "CLAUDE_CODE_CLIENT_",
    "CLAUDE_CODE_DISABLE_",
    "CLAUDE_CODE_MAX_",
    "CLAUDE_CODE_OAUTH_",
    "CLAUDE_CODE_SKIP_",
    "CLAUDE_CODE_USE_",
)
"""Beginnings of what a user sets on purpose: credentials, provider, limits."""


@dataclass(frozen=True, slots=True)
class CallSpec:
    """One program to start."""

    call_id: str
    subject: str
    """The envelope's or the loop's id."""
    role: CallRole
    engine: str
    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    """The complete environment; ``MESHTUI_CALL_ID`` is added."""
    prompt: bytes
    """What the program reads from its stdin, to the end."""
    session_id: str | None = None
    attempt: int = 1
    deadline_at_ms: int | None = None


def new_call_id(now_ms: int, subject: str, role: CallRole) -> str:
    """A fresh name for a call, also the name of its folder."""
    return f"{now_ms}-{safe_id(subject)[:80]}-{role}-{secrets.token_hex(4)}"


def scrubbed_environment(base: Mapping[str, str]) -> dict[str, str]:
    """``base`` without what would lead a program to something other than its own work.

    ``GIT_*`` sends git to another repository, index or identity than the working directory's. Marks that
    agents set for their children (``CLAUDECODE``, ``CODEX_SANDBOX``, …) make an agent believe it runs
    inside another one; what a user sets for them on purpose stays. ``MESHTUI_*`` belongs to the call this
    process may itself run in. Everything else stays, ``VIRTUAL_ENV`` and ``PATH`` included.
    """
    return {key: value for key, value in base.items() if not _is_foreign(key)}


def _is_foreign(key: str) -> bool:
    if key.startswith(("GIT_", "MESHTUI_")) or key in _AGENT_NAMES:
        return True
    return key.startswith(_AGENT_PREFIXES) and not key.startswith(_AGENT_SETTINGS)
