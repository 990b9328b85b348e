"""The engine ``claude``: Claude Code's print mode, read as a stream of JSON lines."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from meshtui.core.engines.agent import (
    AgentSettings,
    Line,
    LongLines,
    bounded,
    count,
    cut_string,
    estimate,
    exit_words,
    failed,
    first_line,
    last,
    money,
    parse,
    shown,
    tokens_of,
    words_of,
)
from meshtui.core.engines.base import (
    BYTES_PER_TOKEN,
    EngineEvent,
    EngineRequest,
    Launch,
    Outcome,
    OutputReader,
    Usage,
    exit_text,
)
from meshtui.core.models.config import EngineConfig

READ_ONLY = "plan"
FORBIDDEN = "Edit,Write,NotebookEdit,Bash"
"""Tools a role that only looks does not get, whatever its mode would ask about them."""
_UNKNOWN = re.compile(r"No conversation found with session ID", re.IGNORECASE)
_TARGETS = (
    "file_path",
    "notebook_path",
    "command",
    "pattern",
    "path",
    "url",
    "query",
    "description",
    "prompt",
)
BUDGET_ENDED = "error_max_budget_usd"
LEAST_USD = 0.000001
"""Claude takes no cap of nothing; this one ends it with its first answer."""
MOST_MESSAGES = 64
"""Messages of one stream that are counted apart: subagents speak in turn, each in pieces."""
_SKIPPED = b'{"type":"user"'
"""What tools answered: the most of a stream, and nothing in it is used."""


@dataclass(slots=True)
class _Message:
    """One message's tokens, or those of several."""

    reported: bool = False
    taken: int = 0
    cached: int = 0
    given: int = 0
    written: int = 0
    """Bytes of what it says, of several that are over only what was not reported."""

    @property
    def unreported(self) -> int:
        """Tokens that its text must have taken beside those it reports."""
        return max(0, estimate(self.written) - self.given)

    def add(self, other: _Message) -> None:
        """Make this one the sum of both."""
        self.written = BYTES_PER_TOKEN * (self.unreported + other.unreported + self.given + other.given)
        self.reported = self.reported or other.reported
        self.taken += other.taken
        self.cached += other.cached
        self.given += other.given


class ClaudeEngine:
    """Runs ``claude -p`` in the request's directory."""

    name = "claude"

    def __init__(self, config: EngineConfig | None) -> None:
        self._settings = AgentSettings(
            self.name, config or EngineConfig(), program="claude", writes="acceptEdits", reads=READ_ONLY
        )

    def launch(self, request: EngineRequest) -> Launch:
        """The command line; a new session gets an id of ours, so that it is known before it starts."""
        settings = self._settings
        argv = [settings.command(request), "-p", "--output-format", "stream-json", "--verbose"]
        session = request.session_id or str(uuid4())
        argv += ["--session-id" if request.session_id is None else "--resume", session]
        mode, more = settings.permission(request)
        argv += ["--permission-mode", mode]
        if mode == READ_ONLY and "--disallowedTools" not in more:
            argv += ["--disallowedTools", FORBIDDEN]
        argv += more
        if model := request.model or settings.config.model:
            argv += ["--model", model]
        if effort := request.effort or settings.config.effort:
            argv += ["--effort", effort]
        if request.max_cost_usd is not None and "--max-budget-usd" not in settings.config.args:
            # Only claude itself knows prices: while a call runs, this is the one way to end it by cost.
            argv += ["--max-budget-usd", f"{max(request.max_cost_usd, LEAST_USD):.6f}"]
        argv += settings.config.args
        return settings.launch(request, argv, session_id=session)

    def reader(self, request: EngineRequest) -> OutputReader:
        """Reads ``--output-format stream-json``."""
        return ClaudeReader(request)


class ClaudeReader:
    """Takes what Claude Code says; its last ``result`` line decides, with the exit status."""

    def __init__(self, request: EngineRequest) -> None:
        self._request = request
        self._lines = LongLines()
        self._session: str | None = None
        self._result: dict[str, Any] | None = None
        self._truncated = False
        self._reset_ms: int | None = None
        self._retry: str | None = None
        """The last wait for the model's server, while nothing else came after it."""
        self._messages: dict[str, _Message] = {}
        self._before = _Message()
        """Messages that are over and no longer kept apart."""

    def feed(self, chunk: bytes) -> list[EngineEvent]:
        """Take ``chunk``."""
        events: list[EngineEvent] = []
        for line in self._lines.feed(chunk):
            self._take(line, events)
        return last(events)

    @property
    def usage(self) -> Usage | None:
        """Input as reported with each message; output is reported only at the end and told from its text."""
        if self._result is not None:
            return _usage(self._result) or self._streamed()
        streamed = self._streamed()
        unreported = sum(one.unreported for one in (self._before, *self._messages.values()))
        if not unreported:
            return streamed
        return replace(streamed or Usage(), estimated_tokens=unreported)

    @property
    def settled(self) -> bool:
        """Whether the result line is there."""
        return self._result is not None

    def _streamed(self) -> Usage | None:
        """What the messages reported themselves."""
        found = [one for one in (self._before, *self._messages.values()) if one.reported]
        if not found:
            return None
        return tokens_of(*(sum(getattr(one, name) for one in found) for name in ("taken", "given", "cached")))

    def outcome(self, exit_code: int, stderr_tail: bytes) -> Outcome:
        """Done only with exit 0, no error flag, a reply, and no tool denied to who is to write."""
        for line in self._lines.close():
            self._take(line, [])
        result = self._result
        session = self._session or self._request.session_id
        if result is None:
            words = exit_words(exit_code, stderr_tail)
            if self._request.session_id is not None and _UNKNOWN.search(words):
                return Outcome("unknown_session", error=words)
            if exit_code == 0:
                words = "claude ended without a result line"
            unfinished = Outcome("failed", session_id=session, usage=self._streamed())
            return failed(self.name, words, unfinished, limited=self._retry == "429")
        reply, cut = bounded(str(result.get("result") or ""))
        errors = result.get("errors")
        words = reply.strip() or "; ".join(str(item) for item in errors or () if isinstance(errors, list))
        outcome = Outcome(
            "done",
            reply,
            cut or self._truncated,
            session,
            usage=_usage(result) or self._streamed(),
        )
        if result.get("subtype") == BUDGET_ENDED and self._request.max_cost_usd is not None:
            return replace(
                outcome,
                status="failed",
                error=f"budget: max_cost_usd is reached: claude: {words_of(words or BUDGET_ENDED)}",
            )
        if result.get("is_error") is not False or exit_code != 0:
            if self._request.session_id is not None and _UNKNOWN.search(words):
                return Outcome("unknown_session", error=words)
            if not words:
                subtype = str(result.get("subtype") or "error")
                words = subtype if exit_code == 0 else f"{subtype}; {exit_words(exit_code, stderr_tail)}"
            elif exit_code not in (0, 1):
                words = f"{words} ({exit_text(exit_code)})"
            limited = result.get("api_error_status") == 429 or self._reset_ms is not None
            return failed(self.name, words, outcome, limited=limited, reset_at_ms=self._reset_ms)
        denied = _denied(result.get("permission_denials"))
        if denied and self._request.may_write:
            return failed(self.name, f"claude was denied {', '.join(denied)}", outcome)
        if not reply.strip():
            return failed(self.name, "claude gave an empty reply", outcome)
        return outcome

    name = "claude"

    def _take(self, line: Line, events: list[EngineEvent]) -> None:
        if line.head.startswith(_SKIPPED):
            self._retry = None
            return
        value = parse(line) if line.tail is None else _salvage(line)
        if value is None:
            return
        kind = value.get("type")
        if kind == "result":
            self._result = value
            self._truncated = line.tail is not None
            self._name_session(value, events)
        elif kind == "assistant":
            self._retry = None
            self._count(value.get("message"))
            events.extend(_said(value))
        elif kind == "system":
            self._system(value, events)
        elif kind == "rate_limit_event":
            self._limit(value.get("rate_limit_info"), events)

    def _count(self, message: object) -> None:
        """Take what a message, or a piece of one, says about its tokens; each piece repeats its usage."""
        if not isinstance(message, dict):
            return
        name = str(message.get("id"))[:100]
        one = self._messages.pop(name, None) or _Message()
        self._messages[name] = one
        given = message.get("usage")
        if isinstance(given, dict):
            one.reported = True
            one.taken = max(one.taken, _taken(given) or 0)
            one.cached = max(one.cached, count(given.get("cache_read_input_tokens")) or 0)
            one.given = max(one.given, count(given.get("output_tokens")) or 0)
        one.written += _written(message.get("content"))
        while len(self._messages) > MOST_MESSAGES:
            self._before.add(self._messages.pop(next(iter(self._messages))))

    def _name_session(self, value: dict[str, Any], events: list[EngineEvent]) -> None:
        session = value.get("session_id")
        if isinstance(session, str) and session and session != self._session and len(session) <= 200:
            self._session = session
            events.append(EngineEvent("session", session))

    def _system(self, value: dict[str, Any], events: list[EngineEvent]) -> None:
        if value.get("subtype") == "init":
            self._name_session(value, events)
        elif value.get("subtype") == "api_retry":
            status, error = value.get("error_status"), value.get("error")
            self._retry = str(status)
            delay = money(value.get("retry_delay_ms")) or 0.0
            events.append(
                EngineEvent(
                    "notice",
                    f"waits {delay / 1000:.0f} s for the model's server: attempt {value.get('attempt')} of "
                    f"{value.get('max_retries')}, {first_line(error or '')} {first_line(status or '')}".rstrip(),
                )
            )

    def _limit(self, info: object, events: list[EngineEvent]) -> None:
        if not isinstance(info, dict) or info.get("status") != "rejected":
            return
        resets = count(info.get("resetsAt"))
        if resets:
            self._reset_ms = resets * 1000
        events.append(EngineEvent("notice", f"usage limit: {first_line(info.get('rateLimitType') or '')}"))


def _said(value: dict[str, Any]) -> list[EngineEvent]:
    message = value.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    events = []
    for block in content if isinstance(content, list) else ():
        if not isinstance(block, dict):
            continue
        if block.get("type") == "text" and str(block.get("text") or "").strip():
            events.append(EngineEvent("text", shown(str(block["text"]))))
        elif block.get("type") == "tool_use":
            given = block.get("input")
            given = given if isinstance(given, dict) else {}
            target = next((given[key] for key in _TARGETS if given.get(key)), "")
            events.append(
                EngineEvent("tool", f"{first_line(block.get('name'))} {first_line(target)}".rstrip())
            )
    return events


def _denied(value: object) -> list[str]:
    """The names of denied tools, each once."""
    if not isinstance(value, list):
        return []
    names = [str(item.get("tool_name") or "a tool") if isinstance(item, dict) else "a tool" for item in value]
    return [first_line(name, 60) for name in dict.fromkeys(names)]


_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_MODEL_INPUT = ("inputTokens", "cacheCreationInputTokens", "cacheReadInputTokens")


def _taken(given: dict[str, Any], names: Sequence[str] = _INPUT) -> int | None:
    """All that was taken in; claude counts what it wrote to the cache and read from it apart."""
    known = [part for name in names if (part := count(given.get(name))) is not None]
    return sum(known) if known else None


def _written(content: object) -> int:
    """Bytes of what a message says: its text, its thoughts, what it gives its tools."""
    length = 0
    for block in content if isinstance(content, list) else ():
        if not isinstance(block, dict):
            continue
        given = block.get("input")
        texts = [
            block.get("text"),
            block.get("thinking"),
            *(given.values() if isinstance(given, dict) else ()),
        ]
        length += sum(len(text) for text in texts if isinstance(text, str))
    return length


def _usage(result: dict[str, Any]) -> Usage | None:
    """What the result line reports: its own sum, or that over all models where it is larger.

    Of a call that ended at its cost cap only the latter is filled in.
    """
    given = result.get("usage")
    given = given if isinstance(given, dict) else {}
    models = result.get("modelUsage")
    every = [one for one in models.values() if isinstance(one, dict)] if isinstance(models, dict) else []
    taken, wrote = _taken(given), count(given.get("output_tokens"))
    cached = count(given.get("cache_read_input_tokens"))
    if every:
        taken = max(taken or 0, sum(_taken(one, _MODEL_INPUT) or 0 for one in every))
        wrote = max(wrote or 0, sum(count(one.get("outputTokens")) or 0 for one in every))
        cached = max(cached or 0, sum(count(one.get("cacheReadInputTokens")) or 0 for one in every))
    usage = replace(tokens_of(taken, wrote, cached) or Usage(), cost_usd=money(result.get("total_cost_usd")))
    return usage if usage != Usage() else None


def _salvage(line: Line) -> dict[str, Any] | None:
    """What can be said of a result line that was too long to be kept: the reply's beginning, the rest's end."""
    if not line.head.startswith(b'{"type":"result"'):
        return None
    head, tail = line.head[:4096].decode("utf-8", "replace"), (line.tail or b"").decode("utf-8", "replace")
    value: dict[str, Any] = {"type": "result", "result": cut_string(line.head, "result") or ""}
    value["is_error"] = '"is_error":false' not in head
    if (status := re.search(r'"api_error_status":(\d+)', head)) is not None:
        value["api_error_status"] = int(status[1])
    for key in ("usage", "modelUsage", "permission_denials", "total_cost_usd", "session_id"):
        place = tail.rfind(f'"{key}":')
        if place == -1:
            continue
        try:
            value[key] = json.JSONDecoder().raw_decode(tail[place + len(key) + 3 :])[0]
        except (ValueError, RecursionError):
            continue
    if "permission_denials" not in value:
        # Not known to be allowed: a reply that hides its own verdict is none.
        value["is_error"] = True
        value["errors"] = ["the result line is too long to be read"]
    return value
