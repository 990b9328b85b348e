"""The engine ``grok``: its headless mode, which prints one JSON object at its end."""

from __future__ import annotations

import json
import re
from typing import Any

from meshtui.core.engines.agent import (
    AgentSettings,
    bounded,
    exit_words,
    failed,
    first_line,
    tokens_of,
)
from meshtui.core.engines.base import (
    EngineEvent,
    EngineRequest,
    Launch,
    LineSplitter,
    Outcome,
    OutputReader,
    ReplyBuffer,
    Usage,
)
from meshtui.core.models.config import EngineConfig

PROMPT_FILE = "/dev/stdin"
"""The call's prompt is a file and stands at stdin: read from there it needs no second copy."""
_SHOWN_BYTES = 32 << 10
_BAD_STOP = re.compile(r"cancel|error|refus|abort|limit|max.?turn|fail|den(?:y|ied)|timeout", re.IGNORECASE)
_UNKNOWN = re.compile(
    r"(?:session|conversation)\b.{0,80}\b(?:not found|does not exist|unknown)"
    r"|(?:no|unknown) (?:such )?(?:session|conversation)",
    re.IGNORECASE | re.DOTALL,
)


def no_effort(effort: str) -> str:
    """What becomes of an effort that is asked of grok."""
    return f"grok has no option for an effort: {first_line(effort, 40)!r} is ignored"


class GrokEngine:
    """Runs ``grok`` in the request's directory."""

    name = "grok"

    def __init__(self, config: EngineConfig | None) -> None:
        self._settings = AgentSettings(
            self.name, config or EngineConfig(), program="grok", writes="acceptEdits", reads="plan"
        )

    def launch(self, request: EngineRequest) -> Launch:
        """The command line; grok has no option for an effort, which is told and not sent."""
        settings = self._settings
        mode, more = settings.permission(request)
        argv = [settings.command(request), "--prompt-file", PROMPT_FILE, "--output-format", "json"]
        argv += ["--permission-mode", mode, *more]
        if model := request.model or settings.config.model:
            argv += ["-m", model]
        argv += settings.config.args
        if request.session_id is not None:
            argv += ["--resume", request.session_id]
        effort = request.effort or settings.config.effort
        notice = no_effort(effort) if effort else None
        return settings.launch(request, argv, notice=notice)

    def reader(self, request: EngineRequest) -> OutputReader:
        """Reads ``--output-format json``."""
        return GrokReader(request)


class GrokReader:
    """Takes the object grok prints: its ``stopReason`` tells a good end from a bad one, not its exit status."""

    def __init__(self, request: EngineRequest) -> None:
        self._request = request
        self._data = ReplyBuffer()
        self._lines = LineSplitter()

    def feed(self, chunk: bytes) -> list[EngineEvent]:
        """Take ``chunk``; lines that are no part of the object are shown."""
        self._data.add(chunk)
        shown = self._lines.feed(chunk[-_SHOWN_BYTES:])
        lines = [line for line in shown if line.strip() and line.lstrip()[0] not in '{}"[]']
        return [EngineEvent("text", line) for line in lines[-50:]]

    def outcome(self, exit_code: int, stderr_tail: bytes) -> Outcome:
        """Done only with exit 0, a text, and no word of an early end."""
        value = _object(self._data.text())
        resumed = self._request.session_id
        if value is None:
            words = exit_words(exit_code, stderr_tail)
            if resumed is not None and exit_code != 0 and _UNKNOWN.search(words):
                return Outcome("unknown_session", error=words)
            if exit_code == 0:
                words = (
                    "grok's reply is too long to be read" if self._data.truncated else "grok gave no reply"
                )
            return failed("grok", words, Outcome("failed", session_id=resumed))
        session = value.get("sessionId")
        reply, cut = bounded(str(value.get("text") or ""))
        outcome = Outcome(
            "done",
            reply,
            cut,
            session if isinstance(session, str) and 0 < len(session) <= 200 else resumed,
            usage=_usage(value.get("usage")),
        )
        stop = str(value.get("stopReason") or "")
        error = value.get("error")
        if exit_code != 0 or error or _BAD_STOP.search(stop):
            words = str(error.get("message") if isinstance(error, dict) else error or "") or reply.strip()
            if resumed is not None and _UNKNOWN.search(words):
                return Outcome("unknown_session", error=words)
            parts = [f"grok stopped: {first_line(stop, 80)}"] if stop else []
            parts += [words or exit_words(exit_code, stderr_tail)] if words or exit_code else []
            limited = "limit" in stop.lower() and "turn" not in stop.lower() and "token" not in stop.lower()
            return failed("grok", ": ".join(parts) or "grok failed", outcome, limited=limited)
        if not reply.strip():
            return failed("grok", "grok gave an empty reply", outcome)
        return outcome


def _object(text: str) -> dict[str, Any] | None:
    """The last JSON object in ``text`` that is a reply; other lines may stand around it."""
    for start in (0, text.find("\n{") + 1):
        candidate = text[start:].strip()
        if candidate.startswith("{"):
            try:
                value, _ = json.JSONDecoder().raw_decode(candidate)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict) and ("text" in value or "stopReason" in value or "error" in value):
                return value
    return None


def _usage(value: object) -> Usage | None:
    given = value if isinstance(value, dict) else {}
    return tokens_of(
        given.get("input_tokens", given.get("inputTokens")),
        given.get("output_tokens", given.get("outputTokens")),
        given.get("cached_input_tokens", given.get("cachedInputTokens")),
    )
