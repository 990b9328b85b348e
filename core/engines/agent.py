"""What the adapters of agents share: their program, their permissions, and streams of JSON lines."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from meshtui.core.calls.wrapper import resolve
from meshtui.core.engines.base import (
    BYTES_PER_TOKEN,
    ERROR_CHARACTERS,
    MAX_COUNT,
    MAX_LINE,
    MAX_REPLY,
    EngineEvent,
    EngineRequest,
    Launch,
    Outcome,
    Usage,
    failure_text,
    plain,
)
from meshtui.core.engines.limits import is_limit, reset_ms, sane_ms
from meshtui.core.errors import InvalidInput
from meshtui.core.models.config import EngineConfig

MAX_JSON = MAX_REPLY + (256 << 10)
"""Bytes of one line that are kept from its beginning: room for the longest reply."""
TAIL = 64 << 10
"""Bytes of a longer line that are kept from its end."""
MOST_EVENTS = 200
"""Events one piece of output gives; of more the last ones."""

_OBJECT = re.compile(rb"^\{[^\n]*", re.MULTILINE)
_NOT_LOGGED_IN = re.compile(
    r"not logged in|please run /login|\b401\b|unauthorized|invalid (?:x-)?api.key|missing environment variable"
    r"|authentication_(?:error|failed)|oauth token has expired|missing bearer",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """``[engines.<name>]`` with what an adapter takes where nothing is configured."""

    name: str
    config: EngineConfig
    program: str
    writes: str
    """The permission of roles that change files."""
    reads: str
    """The permission of roles that only look."""

    def command(self, request: EngineRequest) -> str:
        """The program to start; :class:`InvalidInput` when it is not installed."""
        program = os.path.expanduser(self.config.program or self.program)  # noqa: PTH111 - a name, not a path
        found = resolve(program, request.environment) if request.environment else program
        if request.environment and not ("/" in found and Path(request.cwd, found).is_file()):
            raise InvalidInput(
                f"engine {self.name} is not installed: found no program {plain(program)!r}; install it, or "
                f"set program in [engines.{self.name}] of meshtui.toml",
                field=f"engines.{self.name}.program",
            )
        return found

    def permission(self, request: EngineRequest) -> tuple[str, list[str]]:
        """The mode for ``request`` and further arguments, as configured for its role.

        What a role that only looks may do is configured as the checker's where it is asked of another role.
        """
        role = "checker" if request.read_only and request.role in ("run", "maker") else request.role
        text = self.config.permissions.get(role) or (self.writes if role in ("run", "maker") else self.reads)
        try:
            mode, *more = shlex.split(text)
        except ValueError:
            raise InvalidInput(
                f"engines.{self.name}.permissions.{role} cannot be split into words: {plain(text)!r}",
                field=f"engines.{self.name}.permissions.{role}",
            ) from None
        return mode, more

    def launch(
        self,
        request: EngineRequest,
        argv: list[str],
        *,
        session_id: str | None = None,
        notice: str | None = None,
    ) -> Launch:
        """``argv`` with the prompt on stdin."""
        return Launch(
            argv=tuple(argv),
            env_extra={**self.config.env, "MESHTUI_ROLE": request.role},
            prompt_bytes=request.prompt.encode("utf-8", "replace"),
            session_id=session_id,
            notice=notice,
        )


@dataclass(frozen=True, slots=True)
class Line:
    """One line of output; ``tail`` is the end of one that was too long to be kept whole."""

    head: bytes
    tail: bytes | None = None


class LongLines:
    """Finds the lines of a stream that begin with ``{``, of too long ones the beginning and the end."""

    def __init__(self, limit: int = MAX_JSON, tail: int = TAIL) -> None:
        self._limit = limit
        self._keep = tail
        self._part = bytearray()
        self._tail: bytearray | None = None
        self._open = False
        """Whether the stream stands inside a line."""

    def feed(self, chunk: bytes) -> Iterator[Line]:
        """The lines that ``chunk`` completes."""
        start = 0
        if self._open:
            end = chunk.find(b"\n")
            self._take(chunk, 0, len(chunk) if end == -1 else end)
            if end == -1:
                return
            start = end + 1
            yield from self._emit()
        last = chunk.rfind(b"\n", start) + 1
        if last > start:
            # Runs of other lines are passed over at the speed of a search.
            for found in _OBJECT.finditer(chunk, start, last):
                self._take(chunk, found.start(), found.end())
                yield from self._emit()
            start = last
        if start < len(chunk):
            self._take(chunk, start, len(chunk))

    def close(self) -> Iterator[Line]:
        """The last line where it has no end."""
        yield from self._emit()

    def _take(self, chunk: bytes, start: int, end: int) -> None:
        if not self._open:
            self._open = True
            if chunk[start : start + 1] != b"{":
                return
        elif not self._part:
            return
        room = max(0, self._limit - len(self._part))
        self._part += chunk[start : min(end, start + room)]
        start += room
        if start < end:
            kept = self._tail if self._tail is not None else bytearray()
            kept += chunk[max(start, end - self._keep) : end]
            self._tail = kept[-self._keep :]

    def _emit(self) -> Iterator[Line]:
        self._open = False
        if self._part:
            line = Line(bytes(self._part), None if self._tail is None else bytes(self._tail))
            self._part.clear()
            self._tail = None
            yield line


def parse(line: Line) -> dict[str, Any] | None:
    """The JSON object of a whole line, ``None`` for anything else."""
    if line.tail is not None:
        return None
    try:
        value = json.loads(line.head.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def cut_string(head: bytes, key: str) -> str | None:
    """The text that ``key`` begins in the cut JSON ``head``, as far as it goes."""
    mark = f'"{key}":"'.encode()
    start = head.find(mark)
    if start == -1:
        return None
    raw = head[start + len(mark) :].decode("utf-8", "ignore")
    # An escape that the cut went through is dropped.
    for shorter in range(13):
        try:
            text = json.loads(f'"{raw[: len(raw) - shorter]}"', strict=False)
        except ValueError:
            continue
        return str(text)
    closed = re.match(r'(?:[^"\\]|\\.)*', raw, re.DOTALL)
    try:
        return str(json.loads(f'"{closed[0]}"', strict=False)) if closed else None
    except ValueError:
        return None


def bounded(text: str) -> tuple[str, bool]:
    """``text`` as a reply keeps it, and whether that is less than it was."""
    if len(text) <= MAX_REPLY // 4:
        return text, False
    data = text.encode("utf-8", "replace")
    if len(data) <= MAX_REPLY:
        return text, False
    return data[:MAX_REPLY].decode("utf-8", "ignore"), True


def shown(text: str) -> str:
    """``text`` as an event carries it."""
    return text[:MAX_LINE]


def first_line(text: object, limit: int = 200) -> str:
    """The beginning of ``text`` on one line, as a short word of what a tool does."""
    line = " ".join(str(text)[: limit * 4].split())
    return line if len(line) <= limit else f"{line[:limit]}…"


def count(value: object) -> int | None:
    """``value`` where it is a number of tokens."""
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT
    return value if known else None  # type: ignore[return-value]


def tokens_of(taken: object, given: object, cached: object) -> Usage | None:
    """Usage from counts of input (with what was cached), output, and what of the input was cached."""
    usage = Usage(count(taken), count(given), cached_input_tokens=count(cached) or None)
    return usage if usage != Usage() else None


def estimate(length: int) -> int:
    """How many tokens ``length`` bytes of text are, roughly."""
    return length // BYTES_PER_TOKEN


def money(value: object) -> float | None:
    """``value`` where it is an amount."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e9:
        return float(value)
    return None


def words_of(text: str) -> str:
    """A tool's own words as an error shows them: one plain, bounded line."""
    words = plain(text)
    return words if len(words) <= ERROR_CHARACTERS else f"{words[:ERROR_CHARACTERS]}…"


def failed(
    name: str,
    words: str,
    outcome: Outcome,
    *,
    limited: bool = False,
    reset_at_ms: int | None = None,
    now_ms: int | None = None,
) -> Outcome:
    """``outcome`` as the failure that the tool's ``words`` tell of: a limit, no login, or any other."""
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    text = words_of(words)
    if limited or is_limit(words):
        return replace(
            outcome,
            status="limit",
            error=f"{name}: usage limit: {text}" if text else f"{name}: usage limit",
            reset_at_ms=sane_ms(reset_at_ms, now) or reset_ms(words, now),
        )
    if _NOT_LOGGED_IN.search(words):
        text = f"{name} is not logged in: {text}"
    return replace(outcome, status="failed", error=text)


def exit_words(code: int, stderr_tail: bytes) -> str:
    """Why a program that left no word of its own on stdout failed."""
    return failure_text(code, stderr_tail)


def last(events: list[EngineEvent]) -> list[EngineEvent]:
    """The last events of a burst."""
    return events[-MOST_EVENTS:]


def own_usage(total: Usage | None, request: EngineRequest) -> Usage | None:
    """What a call used of its session's ``total``; ``None`` where what came before is not known."""
    if total is None or request.session_id is None:
        return total
    before = request.session_usage
    if before is None:
        return None

    def less(now: int | None, then: int | None) -> int | None:
        return None if now is None or then is None or now < then else now - then

    return Usage(
        less(total.input_tokens, before.input_tokens),
        less(total.output_tokens, before.output_tokens),
        cached_input_tokens=less(total.cached_input_tokens, before.cached_input_tokens or 0) or None,
    )
