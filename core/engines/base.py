"""What an engine is: a request becomes a program to start, its output becomes events and an outcome.

An engine starts nothing, ends nothing and holds no deadline: calls do that, for every engine alike. Readers
are fed whatever a program writes, so that all of them keep bounded memory and decode with replacement.
"""

from __future__ import annotations

import codecs
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

Role = Literal["run", "maker", "checker", "arbiter"]
ROLES: tuple[Role, ...] = ("run", "maker", "checker", "arbiter")

EventKind = Literal["text", "tool", "session", "notice"]
OutcomeStatus = Literal["done", "failed", "unknown_session", "limit"]

MAX_REPLY = 4 << 20
"""Bytes of a reply that are kept; what comes after them is dropped and the reply marked truncated."""
MAX_LINE = 64 << 10
"""Bytes of one line that an event shows."""
ERROR_LINES = 3
ERROR_CHARACTERS = 500

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """One piece of work for an engine."""

    role: Role
    prompt: str
    cwd: Path
    session_id: str | None = None
    """The session to resume; ``None`` starts a new one."""
    model: str | None = None
    effort: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    """The complete environment the program will get."""
    read_only: bool = False
    """Whether the program may change nothing, whatever its role may do otherwise."""
    session_usage: Usage | None = None
    """What the resumed session had used in all before this call, as far as it is known."""
    max_cost_usd: float | None = None
    """What it may cost at most, for programs that can be told; others are only measured."""

    @property
    def may_write(self) -> bool:
        """Whether changing files is what it is there for."""
        return not self.read_only and self.role in ("run", "maker")


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start the program."""

    argv: tuple[str, ...]
    env_extra: Mapping[str, str]
    """Variables to add to the request's environment."""
    prompt_bytes: bytes
    """What the program reads from its stdin."""
    session_id: str | None = None
    """The session the program will use, where the engine chooses it beforehand."""
    notice: str | None = None
    """What of the request the program cannot do, in one line for the journal."""


@dataclass(frozen=True, slots=True)
class EngineEvent:
    """Something to show while the program runs; ``text`` is as it came and may hold anything."""

    kind: EventKind
    text: str


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call used, in the same units for every engine."""

    input_tokens: int | None = None
    """All that the model took in, as reported; what it read from a cache is a part of it."""
    output_tokens: int | None = None
    """As reported, reasoning included."""
    cost_usd: float | None = None
    """As reported, never computed from prices."""
    cached_input_tokens: int | None = None
    """Of the input what was read from a cache; ``None`` where that is nothing or not told."""
    estimated_tokens: int | None = None
    """Tokens of a call that nobody has reported (yet, or at all where it was ended), told from the length
    of its text: a floor, since neither the program's own instructions nor its reasoning are seen."""

    def as_json(self) -> dict[str, float]:
        """The known figures under their names in results."""
        return {name: value for name in _FIGURES if (value := getattr(self, name)) is not None}

    @classmethod
    def from_json(cls, value: object) -> Usage | None:
        """The figures in a result or another file; ``None`` where there are none."""
        given = value if isinstance(value, dict) else {}
        numbers = {
            key: given[key]
            for key in _FIGURES
            if isinstance(given.get(key), (int, float))
            and not isinstance(given[key], bool)
            and 0 <= given[key] <= MAX_COUNT
        }
        return cls(**numbers) if numbers else None

    def plus(self, other: Usage | None) -> Usage:
        """Both together; what is known of neither stays unknown."""

        def add(one: float | None, two: float | None) -> float | None:
            return two if one is None else one if two is None else one + two

        if other is None:
            return self
        return Usage(*(add(getattr(self, name), getattr(other, name)) for name in _FIGURES))  # type: ignore[arg-type]

    @property
    def tokens(self) -> int:
        """What counts towards caps: tokens taken in anew, given out, or estimated.

        A session reads all it knows from the cache again with each step; that is left out.
        """
        anew = max(0, (self.input_tokens or 0) - (self.cached_input_tokens or 0))
        return anew + (self.output_tokens or 0) + (self.estimated_tokens or 0)


_FIGURES = ("input_tokens", "output_tokens", "cost_usd", "cached_input_tokens", "estimated_tokens")
MAX_COUNT = 10**15
"""No program has used more of anything: such a figure is a mistake and is left out."""
BYTES_PER_TOKEN = 4
"""Of text, for estimates."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a call that ended by itself."""

    status: OutcomeStatus
    reply: str = ""
    reply_truncated: bool = False
    session_id: str | None = None
    error: str | None = None
    """One line; ``None`` when done."""
    usage: Usage | None = None
    reset_at_ms: int | None = None
    """When a usage limit ends, where the program said so; milliseconds since the epoch."""
    session_usage: Usage | None = None
    """What the session has used in all by now, where the program reports that instead of the call's own."""


class OutputReader(Protocol):
    """Reads one call's stdout, in order, from its beginning."""

    def feed(self, chunk: bytes) -> list[EngineEvent]:
        """Take the next bytes of stdout and return what they say."""
        ...

    def outcome(self, exit_code: int, stderr_tail: bytes) -> Outcome:
        """What the call came to, once all of stdout has been fed."""
        ...


@runtime_checkable
class Metered(Protocol):
    """A reader that can tell what a call uses while it runs."""

    @property
    def usage(self) -> Usage | None:
        """What was used by what has been fed so far."""
        ...

    @property
    def settled(self) -> bool:
        """Whether the program has said what it used in all: nothing is gained by ending it."""
        ...


def usage_so_far(reader: object) -> Usage | None:
    """What a reader can tell of a call that runs; ``None`` where it cannot."""
    return reader.usage if isinstance(reader, Metered) else None


class Engine(Protocol):
    """A kind of program that works on prompts."""

    @property
    def name(self) -> str:
        """As envelopes and configuration call it."""
        ...

    def launch(self, request: EngineRequest) -> Launch:
        """How to start the program for ``request``; raises ``InvalidInput`` when it is not configured."""
        ...

    def reader(self, request: EngineRequest) -> OutputReader:
        """A fresh reader for the output of the program started for ``request``."""
        ...


def plain(text: str) -> str:
    """``text`` without control characters and terminal sequences, on one line."""
    return " ".join(_CONTROL.sub(" ", text).split())


def exit_text(code: int) -> str:
    """How a program ended, e.g. ``exit 3`` or ``ended by SIGTERM (exit 143)``."""
    if 128 < code <= 192:
        try:
            return f"ended by {signal.Signals(code - 128).name} (exit {code})"
        except ValueError:
            return f"exit {code}"
    return f"exit {code}"


def failure_text(code: int, stderr_tail: bytes) -> str:
    """One line on why a call failed: its exit status and the last words on its stderr, bounded."""
    lines = [line for raw in stderr_tail.decode("utf-8", "replace").splitlines() if (line := plain(raw))]
    words = " · ".join(lines[-ERROR_LINES:])
    if len(words) > ERROR_CHARACTERS:
        words = "…" + words[-ERROR_CHARACTERS:]
    return f"{exit_text(code)}: {words}" if words else exit_text(code)


class LineSplitter:
    """Cuts a stream of bytes into lines of text, of each at most :data:`MAX_LINE` bytes.

    A longer line is cut there and its rest dropped, so that memory stays bounded without a newline in
    sight. Bytes that are not UTF-8 become U+FFFD.
    """

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._part = bytearray()

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that ``chunk`` completes, without their ends."""
        *whole, rest = chunk.split(b"\n")
        lines = []
        for piece in whole:
            self._take(piece)
            lines.append(self._emit())
        self._take(rest)
        return lines

    def close(self) -> list[str]:
        """The last line where it has no end."""
        return [self._emit()] if self._part else []

    def _take(self, piece: bytes) -> None:
        self._part += piece[: max(0, self._limit - len(self._part))]

    def _emit(self) -> str:
        line = self._part.decode("utf-8", "replace").removesuffix("\r")
        self._part.clear()
        return line


class ReplyBuffer:
    """Collects text up to :data:`MAX_REPLY` bytes."""

    def __init__(self, limit: int = MAX_REPLY) -> None:
        self._limit = limit
        self._data = bytearray()
        self.truncated = False

    def add(self, data: bytes) -> None:
        """Append ``data`` as far as there is room."""
        room = self._limit - len(self._data)
        self._data += data[: max(0, room)]
        self.truncated = self.truncated or len(data) > room

    def text(self) -> str:
        """What was kept, decoded with replacement; a character cut by the limit is dropped."""
        if not self.truncated:
            return self._data.decode("utf-8", "replace")
        return codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self._data))
