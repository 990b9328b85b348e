"""Printing: JSON documents, and text without anything a terminal would act on."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from meshtui.core import strict_json

_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def plain(text: str) -> str:
    """``text`` with control, reordering and half characters made visible; line ends and tabs stay."""
    return _CONTROL.sub(_visible, text)


def plain_line(text: str) -> str:
    """``text`` on one line, control characters made visible."""
    return plain(text.replace("\r\n", " ").replace("\n", " ").replace("\t", " "))


def _visible(found: re.Match[str]) -> str:
    code = ord(found[0])
    return chr(0x2400 + code) if code < 0x20 else "\ufffd"


def print_json(value: Any) -> None:
    """Print one JSON document; what is not ASCII is escaped, so that no terminal or locale minds it."""
    print(strict_json.dumps(value, indent=2, escape=True))


def print_line(text: str) -> None:
    """Print one line of text."""
    _print(plain_line(text))


def _print(text: str, end: str = "\n") -> None:
    if sys.stdout is None:
        return
    encoding = sys.stdout.encoding or "ascii"
    print(text.encode(encoding, "replace").decode(encoding), end=end)


def print_text(text: str) -> None:
    """Print text as it is, line ends included."""
    _print(plain(text), end="")


def warn(lines: Iterable[str]) -> None:
    """Print warnings on stderr."""
    for line in lines:
        try:
            print(f"meshtui: warning: {plain_line(line)}", file=sys.stderr, flush=True)
        except OSError:
            # Nobody reads warnings there: not a reason to leave work undone.
            return


def flush() -> None:
    """Let whoever reads see what was printed so far."""
    if sys.stdout is not None:
        sys.stdout.flush()


def lose_stdout() -> None:
    """Throw away what is printed from now on, and what is still waiting to be written."""
    _lose(sys.stdout)


def settle_streams() -> None:
    """Write what still waits, or throw it away: at its end Python would fail on what cannot be written."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            _lose(stream)


def _lose(stream: TextIO) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
