"""A scripted model server on loopback that speaks to the real claude and codex: no network, no account.

It answers ``POST /v1/messages`` (claude) and ``POST /v1/responses`` (codex) with what a script says for
the conversation so far, as a stream of events.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

Api = Literal["claude", "codex"]


@dataclass(frozen=True)
class Ask:
    """What a program asks the model."""

    api: Api
    prompt: str
    """The last thing the user said."""
    results: tuple[str, ...]
    """What tools answered since then, oldest first."""
    said: tuple[str, ...]
    """Everything the user said, oldest first: more than one in a resumed session."""
    raw: dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Say:
    """A reply that ends the turn."""

    text: str


@dataclass(frozen=True)
class Use:
    """A tool to use; the program calls back with its result."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Refuse:
    """An HTTP error."""

    status: int
    kind: str
    message: str
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Hang:
    """No answer until the server is closed."""


Answer = Say | Use | Refuse | Hang
Script = Callable[[Ask], Answer]
USAGE = (120, 17)
"""Tokens that every answer claims to have taken and given."""


class ModelServer:
    """Answers as ``script`` says; which may be exchanged at any time."""

    def __init__(self, script: Script | None = None) -> None:
        self.script: Script = script or (lambda ask: Say("nothing to say"))
        self.asked: list[Ask] = []
        self.closing = threading.Event()
        self._lock = threading.Lock()
        server = self

        class Handler(_Handler):
            model = server

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def answer(self, ask: Ask) -> Answer:
        """What to say, remembered with who asked."""
        with self._lock:
            self.asked.append(ask)
        return self.script(ask)

    def close(self) -> None:
        """Let hanging answers go and end."""
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(10)


class _Handler(BaseHTTPRequestHandler):
    model: ModelServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._send(200, b"")

    def do_GET(self) -> None:
        self._send(404, b"{}")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        path = self.path.partition("?")[0]
        if path.endswith("/count_tokens"):
            self._send(200, b'{"input_tokens": 100}')
        elif path.endswith("/messages"):
            self._reply("claude", _ask_of_claude(body))
        elif path.endswith("/responses"):
            self._reply("codex", _ask_of_codex(body))
        else:
            self._send(404, b"{}")

    def _reply(self, api: Api, ask: Ask) -> None:
        answer = self.model.answer(ask)
        if isinstance(answer, Hang):
            self.model.closing.wait(300)
            return
        if isinstance(answer, Refuse):
            error = {"type": answer.kind, "message": answer.message, **answer.extra}
            self._send(answer.status, json.dumps({"type": "error", "error": error}).encode())
            return
        events = _claude_events(answer) if api == "claude" else _codex_events(answer)
        data = b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)
        self._send(200, data, "text/event-stream")

    def _send(self, status: int, data: bytes, kind: str = "application/json") -> None:
        try:
            self.send_response(status)
            self.send_header("content-type", kind)
            # Without this claude tries ten times, with growing waits.
            self.send_header("x-should-retry", "false" if status >= 400 else "true")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True


def _ask_of_claude(body: dict[str, Any]) -> Ask:
    said: list[str] = []
    results: list[str] = []
    for message in body.get("messages") or []:
        if message.get("role") != "user":
            continue
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        found = [_flat(block.get("content")) for block in blocks if block.get("type") == "tool_result"]
        if found:
            results += found
            continue
        texts = [block["text"] for block in blocks if block.get("type") == "text"]
        own = [text for text in texts if not text.startswith("<system-reminder>")]
        if own:
            said.append("\n".join(own))
            results = []
    return Ask("claude", said[-1] if said else "", tuple(results), tuple(said), body)


def _ask_of_codex(body: dict[str, Any]) -> Ask:
    said: list[str] = []
    results: list[str] = []
    for item in body.get("input") or []:
        if item.get("type") == "function_call_output":
            results.append(_flat(item.get("output")))
        elif item.get("type") == "message" and item.get("role") == "user":
            text = "\n".join(part.get("text", "") for part in item.get("content") or [])
            if not text.startswith(("<environment_context>", "<user_instructions>", "# AGENTS.md")):
                said.append(text)
                results = []
    return Ask("codex", said[-1] if said else "", tuple(results), tuple(said), body)


def _flat(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(str(part.get("text", "")) for part in value)
    return value if isinstance(value, str) else json.dumps(value)


_number = iter(range(1, 1 << 30))


def _claude_events(answer: Say | Use) -> Iterator[dict[str, Any]]:
    number = next(_number)
    usage = {"input_tokens": USAGE[0], "output_tokens": 1}
    message: dict[str, Any] = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    yield {"type": "message_start", "message": message}
    block: dict[str, Any]
    if isinstance(answer, Say):
        block, reason = {"type": "text", "text": ""}, "end_turn"
        delta = {"type": "text_delta", "text": answer.text}
    else:
        block, reason = (
            {"type": "tool_use", "id": f"toolu_{number}", "name": answer.name, "input": {}},
            "tool_use",
        )
        delta = {"type": "input_json_delta", "partial_json": json.dumps(answer.arguments)}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": {"output_tokens": USAGE[1]},
    }
    yield {"type": "message_stop"}


def _codex_events(answer: Say | Use) -> Iterator[dict[str, Any]]:
    number = next(_number)
    yield {"type": "response.created", "response": {"id": f"resp_{number}"}}
    item: dict[str, Any]
    if isinstance(answer, Say):
        item = {
            "type": "message",
            "role": "assistant",
            "id": f"msg_{number}",
            "content": [{"type": "output_text", "text": answer.text}],
        }
    else:
        item = {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": answer.name,
            "arguments": json.dumps(answer.arguments),
        }
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    usage = {
        "input_tokens": USAGE[0],
        "input_tokens_details": {"cached_tokens": 20},
        "output_tokens": USAGE[1],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": sum(USAGE),
    }
    yield {"type": "response.completed", "response": {"id": f"resp_{number}", "usage": usage}}
