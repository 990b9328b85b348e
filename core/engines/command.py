"""The engine ``command``: any program that reads a prompt on stdin and writes its reply to stdout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from meshtui.core.engines.base import (
    EngineEvent,
    EngineRequest,
    Launch,
    LineSplitter,
    Outcome,
    OutputReader,
    ReplyBuffer,
    exit_text,
    failure_text,
)
from meshtui.core.errors import InvalidInput

Command = str | Sequence[str]
"""A string is run by ``/bin/sh -c``, a list as it is."""

UNKNOWN_SESSION = 75
"""The exit status that says so (EX_TEMPFAIL)."""
SESSION_LINE = b"MESHTUI_SESSION="
MAX_SESSION = 1024
"""Bytes of a session's name; a longer line is text like any other."""
_SHOWN_BYTES = 32 << 10
_SHOWN_LINES = 200


class CommandSettings(Protocol):
    """What ``[engines.command]`` says, as far as this engine needs it."""

    @property
    def run(self) -> Command | None: ...
    @property
    def maker(self) -> Command | None: ...
    @property
    def checker(self) -> Command | None: ...
    @property
    def arbiter(self) -> Command | None: ...
    @property
    def env(self) -> Mapping[str, str]: ...


class CommandEngine:
    """Runs the command configured for a role."""

    name = "command"

    def __init__(self, settings: CommandSettings | None) -> None:
        self._settings = settings

    def launch(self, request: EngineRequest) -> Launch:
        """The configured command with the prompt on stdin; ``InvalidInput`` where there is none."""
        command = None if self._settings is None else getattr(self._settings, request.role)
        if not command:
            flag = " or give --run CMD" if request.role == "run" else ""
            raise InvalidInput(
                f"engine command has no command for role {request.role}: "
                f"set {request.role} in [engines.command] of meshtui.toml{flag}",
                field=f"engines.command.{request.role}",
            )
        extra = {} if self._settings is None else dict(self._settings.env)
        extra["MESHTUI_ROLE"] = request.role
        if request.session_id is not None:
            extra["MESHTUI_SESSION_ID"] = request.session_id
        return Launch(
            argv=("/bin/sh", "-c", command) if isinstance(command, str) else tuple(command),
            env_extra=extra,
            prompt_bytes=request.prompt.encode("utf-8", "replace"),
        )

    def reader(self, request: EngineRequest) -> OutputReader:
        """A reader that takes all of stdout for the reply, less the line that names the session."""
        return CommandReader(request)


class CommandReader:
    """Collects a command's reply as it comes."""

    def __init__(self, request: EngineRequest) -> None:
        self._resumed = request.session_id
        self._session: str | None = None
        self._reply = ReplyBuffer()
        self._held = b""
        """The beginning of a line that may yet name the session."""
        self._at_start = True
        """Whether the next byte, held ones included, begins a line."""
        self._lines = LineSplitter()

    def feed(self, chunk: bytes) -> list[EngineEvent]:
        """Take ``chunk``; of a burst only the last lines become events."""
        before = self._session
        self._collect(self._held + chunk)
        lines = [line for line in self._lines.feed(chunk[-_SHOWN_BYTES:]) if line]
        events = [
            EngineEvent("text", line)
            for line in lines[-_SHOWN_LINES:]
            if not line.startswith(SESSION_LINE.decode())
        ]
        if self._session is not None and self._session != before:
            events.append(EngineEvent("session", self._session))
        return events

    def outcome(self, exit_code: int, stderr_tail: bytes) -> Outcome:
        """Done with exit 0, an empty reply included: a formatter has nothing to say."""
        held, self._held = self._held, b""
        if (name := _session_name(held)) is not None:
            self._session = name
        else:
            self._reply.add(held)
        reply, truncated = self._reply.text(), self._reply.truncated
        if exit_code == UNKNOWN_SESSION and self._resumed is not None:
            return Outcome(
                "unknown_session",
                reply,
                truncated,
                error=f"the command does not know session {self._resumed!r} ({exit_text(exit_code)})",
            )
        session = self._session or self._resumed
        if exit_code == 0:
            return Outcome("done", reply, truncated, session)
        return Outcome("failed", reply, truncated, session, error=failure_text(exit_code, stderr_tail))

    def _collect(self, data: bytes) -> None:
        """Add ``data`` to the reply, without lines that name the session; hold back what may be one."""
        self._held = b""
        if not data:
            return
        begin = 0
        found = data.find(SESSION_LINE)
        while found != -1:
            after = found + len(SESSION_LINE)
            if self._at_start if found == 0 else data[found - 1] == 0x0A:
                end = data.find(b"\n", found)
                if end == -1 and len(data) - found <= len(SESSION_LINE) + MAX_SESSION:
                    self._flush(data[begin:found], data[found:])
                    return
                if end != -1 and (name := _session_name(data[found:end])) is not None:
                    self._session = name
                    self._reply.add(data[begin:found])
                    begin = after = end + 1
            found = data.find(SESSION_LINE, after)
        last = data.rfind(b"\n") + 1
        if (last or self._at_start) and SESSION_LINE.startswith(data[last:]):
            self._flush(data[begin:last], data[last:])
        else:
            self._flush(data[begin:], b"")
            self._at_start = data.endswith(b"\n")

    def _flush(self, text: bytes, held: bytes) -> None:
        self._reply.add(text)
        self._held = held
        self._at_start = True


def _session_name(line: bytes) -> str | None:
    """The session that ``line`` names, ``None`` if it names none."""
    if not line.startswith(SESSION_LINE) or len(line) > len(SESSION_LINE) + MAX_SESSION:
        return None
    name = line[len(SESSION_LINE) :].decode("utf-8", "replace").strip()
    return name if name and name.isprintable() else None
