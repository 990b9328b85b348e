"""The engine ``codex``: ``codex exec --json``, read as a stream of JSON lines."""

from __future__ import annotations

import json
import re
from typing import Any

from meshtui.core.engines.agent import (
    AgentSettings,
    Line,
    LongLines,
    bounded,
    cut_string,
    estimate,
    exit_words,
    failed,
    first_line,
    last,
    own_usage,
    parse,
    shown,
    tokens_of,
)
from meshtui.core.engines.base import (
    EngineEvent,
    EngineRequest,
    Launch,
    Outcome,
    OutputReader,
    Usage,
)
from meshtui.core.models.config import EngineConfig

_UNKNOWN = re.compile(
    r"no rollout found for thread|thread/resume failed|no (?:such )?(?:thread|session|conversation)",
    re.IGNORECASE,
)
_NOISE = re.compile(r"^(?:WARNING: |\s*$)")
_COMPLETED_COMMAND = re.compile(
    rb'^\{"type":"item\.completed","item":\{"id":"[^"]*","type":"command_execution"'
)
"""A command's whole output: it was shown when it started, and is not read again."""
MOST_OF_OUTPUT = 10 << 10
"""Bytes of a command's output that its model is taken to be shown; codex cuts the rest out."""


class CodexEngine:
    """Runs ``codex exec`` in the request's directory."""

    name = "codex"

    def __init__(self, config: EngineConfig | None) -> None:
        self._settings = AgentSettings(
            self.name, config or EngineConfig(), program="codex", writes="workspace-write", reads="read-only"
        )

    def launch(self, request: EngineRequest) -> Launch:
        """The command line; the sandbox is given anew with every call, a resumed one included."""
        settings = self._settings
        mode, more = settings.permission(request)
        argv = [settings.command(request), "exec", "--json", "--skip-git-repo-check"]
        argv += ["-C", str(request.cwd), "--sandbox", mode, *more]
        if model := request.model or settings.config.model:
            argv += ["--model", model]
        if effort := request.effort or settings.config.effort:
            argv += ["-c", f"model_reasoning_effort={json.dumps(effort)}"]
        argv += settings.config.args
        if request.session_id is not None:
            argv += ["resume", request.session_id]
        return settings.launch(request, [*argv, "-"])

    def reader(self, request: EngineRequest) -> OutputReader:
        """Reads ``--json``."""
        return CodexReader(request)


class CodexReader:
    """Takes what codex says: the reply is its last message, ``turn.completed`` says that it is whole."""

    def __init__(self, request: EngineRequest) -> None:
        self._request = request
        self._lines = LongLines()
        self._session: str | None = None
        self._reply = ""
        self._truncated = False
        self._completed = False
        self._failure: str | None = None
        self._error: str | None = None
        self._total: Usage | None = None
        self._seen = len(request.prompt)
        """Bytes of text that must have been taken in or given out."""

    def feed(self, chunk: bytes) -> list[EngineEvent]:
        """Take ``chunk``."""
        events: list[EngineEvent] = []
        for line in self._lines.feed(chunk):
            self._take(line, events)
        return last(events)

    @property
    def usage(self) -> Usage | None:
        """As reported once the turn is over; until then codex reports nothing, and text is measured."""
        if self._total is not None:
            return own_usage(self._total, self._request)
        tokens = estimate(self._seen)
        return Usage(estimated_tokens=tokens) if tokens else None

    @property
    def settled(self) -> bool:
        """Whether the turn is over."""
        return self._completed or self._failure is not None

    def outcome(self, exit_code: int, stderr_tail: bytes) -> Outcome:
        """Done only with exit 0, a completed turn and a reply."""
        for line in self._lines.close():
            self._take(line, [])
        outcome = Outcome(
            "done",
            self._reply,
            self._truncated,
            self._session or self._request.session_id,
            usage=own_usage(self._total, self._request),
            session_usage=self._total,
        )
        if exit_code == 0 and self._failure is None and self._completed:
            if self._reply.strip():
                return outcome
            return failed("codex", "codex gave an empty reply", outcome)
        words = self._failure or self._error or exit_words(exit_code, _without_noise(stderr_tail))
        if self._request.session_id is not None and self._session is None and _UNKNOWN.search(words):
            return Outcome("unknown_session", error=words)
        if exit_code == 0 and self._failure is None and self._error is None:
            words = "codex ended before its turn was complete"
        elif exit_code not in (0, 1) and (self._failure or self._error):
            words = f"{words}; {exit_words(exit_code, b'')}"
        return failed("codex", _unwrapped(words), outcome)

    def _take(self, line: Line, events: list[EngineEvent]) -> None:
        if _COMPLETED_COMMAND.match(line.head):
            self._seen += min(len(line.head), MOST_OF_OUTPUT)
            return
        value = parse(line) if line.tail is None else _salvage(line)
        if value is None:
            return
        kind = value.get("type")
        if kind == "thread.started":
            session = value.get("thread_id")
            if isinstance(session, str) and 0 < len(session) <= 200:
                self._session = session
                events.append(EngineEvent("session", session))
        elif kind in ("item.started", "item.completed") and isinstance(value.get("item"), dict):
            self._item(kind == "item.completed", value["item"], line.tail is not None, events)
        elif kind == "turn.started":
            self._completed, self._failure, self._error = False, None, None
        elif kind == "turn.completed":
            self._completed = True
            self._total = _usage(value.get("usage"))
        elif kind == "turn.failed":
            self._failure = _message(value.get("error")) or "the turn failed"
        elif kind == "error":
            self._error = _message(value)
            events.append(EngineEvent("notice", first_line(self._error, 500)))

    def _item(self, completed: bool, item: dict[str, Any], cut: bool, events: list[EngineEvent]) -> None:
        kind = item.get("type")
        if kind == "agent_message" and completed:
            self._reply, short = bounded(str(item.get("text") or ""))
            self._seen += len(self._reply)
            self._truncated = cut or short
            if self._reply.strip():
                events.append(EngineEvent("text", shown(self._reply)))
        elif kind == "command_execution":
            events.append(EngineEvent("tool", first_line(item.get("command"))))
        elif kind == "file_change" and completed:
            changes = item.get("changes")
            paths = [
                f"{change.get('kind')} {change.get('path')}"
                for change in (changes if isinstance(changes, list) else ())
                if isinstance(change, dict)
            ]
            events.append(EngineEvent("tool", first_line(", ".join(paths) or "changes files", 500)))
        elif kind in ("mcp_tool_call", "web_search", "collab_tool_call") and not completed:
            events.append(EngineEvent("tool", first_line(item.get("tool") or item.get("query") or kind)))
        elif kind == "error" and completed:
            events.append(EngineEvent("notice", first_line(item.get("message"), 500)))
        elif kind == "reasoning" and completed:
            self._seen += len(str(item.get("text") or ""))


def _message(value: object) -> str:
    return str(value.get("message") or "") if isinstance(value, dict) else str(value or "")


def _unwrapped(words: str) -> str:
    """The message inside the JSON that a model's server answered with, where ``words`` are such."""
    try:
        value = json.loads(words)
    except (ValueError, RecursionError):
        return words
    inner = value.get("error") if isinstance(value, dict) else None
    return _message(inner) or words


def _without_noise(stderr_tail: bytes) -> bytes:
    lines = stderr_tail.decode("utf-8", "replace").splitlines()
    return "\n".join(line for line in lines if not _NOISE.match(line)).encode()


def _usage(value: object) -> Usage | None:
    given = value if isinstance(value, dict) else {}
    return tokens_of(*(given.get(name) for name in ("input_tokens", "output_tokens", "cached_input_tokens")))


def _salvage(line: Line) -> dict[str, Any] | None:
    """The beginning of a message that was too long to be kept."""
    if b'"type":"agent_message"' not in line.head[:400]:
        return None
    text = cut_string(line.head, "text")
    if text is None:
        return None
    return {"type": "item.completed", "item": {"type": "agent_message", "text": text}}
