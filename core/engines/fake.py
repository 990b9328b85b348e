"""A fake engine for tests and demonstrations: scripted in Python, yet really run as a call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from meshtui.core.engines.base import EngineRequest, Launch, OutputReader
from meshtui.core.engines.command import CommandReader

_PIECE = 30_000
"""Characters an argument holds: systems take at most 128 KiB for one."""
# Arguments: delay, hang, session, stderr, exit status; then the pieces of the reply.
_SCRIPT = """
delay=$1 hang=$2 session=$3 words=$4 code=$5
shift 5
[ "$delay" = 0 ] || sleep "$delay"
printf %s "$words" >&2
[ -z "$session" ] || printf 'MESHTUI_SESSION=%s\\n' "$session"
for piece; do printf %s "$piece"; done
[ "$hang" = 0 ] || exec sleep 1000000
exit "$code"
"""


@dataclass(frozen=True, slots=True)
class FakeReply:
    """How the fake program behaves once."""

    reply: str = ""
    """At most about a million characters, none of them NUL."""
    session_id: str | None = None
    exit_code: int = 0
    stderr: str = ""
    hang: bool = False
    """Whether it never ends by itself, once it has written everything."""
    delay_seconds: float = 0.0
    """How long it works before it writes anything."""


class FakeEngine:
    """Answers each request as ``script`` says, through a real process.

    Reply, session and failures go the way that those of ``command`` go.
    """

    def __init__(self, script: Callable[[EngineRequest], FakeReply], *, name: str = "fake") -> None:
        self.name = name
        self._script = script
        self._lock = threading.Lock()
        self._requests: list[EngineRequest] = []

    @property
    def requests(self) -> tuple[EngineRequest, ...]:
        """Every request that was launched, oldest first."""
        with self._lock:
            return tuple(self._requests)

    def launch(self, request: EngineRequest) -> Launch:
        """A small shell program that behaves as the script says."""
        with self._lock:
            self._requests.append(request)
        reply = self._script(request)
        pieces = [reply.reply[start : start + _PIECE] for start in range(0, len(reply.reply), _PIECE)]
        return Launch(
            argv=(
                "/bin/sh",
                "-c",
                _SCRIPT,
                "fake",
                f"{reply.delay_seconds:g}",
                str(int(reply.hang)),
                reply.session_id or "",
                reply.stderr,
                str(reply.exit_code),
                *pieces,
            ),
            env_extra={"MESHTUI_ROLE": request.role},
            prompt_bytes=request.prompt.encode("utf-8", "replace"),
        )

    def reader(self, request: EngineRequest) -> OutputReader:
        """Reads what the program of :meth:`launch` writes."""
        return CommandReader(request)
