"""Text from outside, made safe to draw: no control characters, no markup, the right number of cells.

Everything that is drawn, notified, shown as a tooltip or printed passes through :func:`clean`; lengths
are counted in terminal cells, of which a wide character takes two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from rich.cells import cell_len, set_cell_size

REPLACEMENT = "\ufffd"
ELLIPSIS = "…"

# C0 and C1 controls, DEL, surrogates, line and paragraph separators, and the characters that reorder,
# join or hide their neighbours.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe0e\ufe0f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|\x9c)"  # OSC and the other strings
    r"|\x1b[ -/]*[0-Z\\^-~]",
    re.DOTALL,
)


_TO_START = re.compile(r"\x1b\[1?G")
"""The cursor goes to the line's beginning, as a carriage return does."""


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code in (0x200D, 0xFE0E, 0xFE0F):
        return ""  # Terminals disagree about the width of what these join or select.
    if match[0] in "\t\n\r\u2028\u2029":
        return " "
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return REPLACEMENT


def clean(text: object) -> str:
    """``text`` as one line without a character that a terminal would act on."""
    value = text if isinstance(text, str) else str(text)
    return value if value.isascii() and value.isprintable() else _UNSAFE.sub(_visible, value)


def clean_lines(text: object) -> list[str]:
    """``text`` line by line, each as :func:`clean` leaves it, tabs as spaces."""
    value = text if isinstance(text, str) else str(text)
    lines = re.split(r"\r\n|\n|\u2028|\u2029", value)
    return [clean(line.expandtabs(4) if "\t" in line else line) for line in lines]


def clean_output(text: str) -> list[str]:
    """A program's output line by line: colour sequences dropped, of an overwritten line its last state."""
    lines = []
    if "\x1b[" in text:
        text = _TO_START.sub("\r", text)
    for line in _ESCAPES.sub("", text).split("\n"):
        shown = line.rstrip("\r")
        shown = shown.rpartition("\r")[2]
        lines.append(clean(shown.expandtabs(8)))
    return lines


def fit(text: str, width: int, *, right: bool = False) -> str:
    """``text`` in exactly ``width`` cells: cut at its end with an ellipsis, or filled with spaces."""
    length = cell_len(text)
    if length > width:
        text = cut_end(text, width)
        length = cell_len(text)
    filling = " " * (width - length)
    return filling + text if right else text + filling


def cut_end(text: str, width: int) -> str:
    """``text`` in at most ``width`` cells, its end given up."""
    if cell_len(text) <= width:
        return text
    if width <= 0:
        return ""
    return set_cell_size(text, width - 1).rstrip() + ELLIPSIS


def cut_middle(text: str, width: int) -> str:
    """``text`` in at most ``width`` cells, its middle given up: for ids, which differ at both ends."""
    if cell_len(text) <= width:
        return text
    if width <= 3:
        return cut_end(text, width)
    tail = (width - 1) // 2
    return set_cell_size(text, width - 1 - tail).rstrip() + ELLIPSIS + _last_cells(text, tail)


def cut_start(text: str, width: int) -> str:
    """``text`` in at most ``width`` cells, its start given up: for paths."""
    if cell_len(text) <= width:
        return text
    return ELLIPSIS + _last_cells(text, width - 1) if width > 0 else ""


def _last_cells(text: str, width: int) -> str:
    start = len(text)
    while start > 0 and cell_len(text[start - 1 :]) <= width:
        start -= 1
    return text[start:]


def wrap(text: str, width: int) -> Iterator[str]:
    """``text``, one line, as lines of at most ``width`` cells, broken at spaces where there are any."""
    if width <= 0 or cell_len(text) <= width:
        yield text
        return
    indent = re.match(r"\s*", text)
    lead = indent[0] if indent is not None and len(indent[0]) < width // 2 else ""
    line = ""
    for word in re.findall(r"\s*\S+", text):
        if cell_len(line) + cell_len(word) <= width:
            line += word
            continue
        if line.strip():
            yield line
        line = word if not line else lead + word.lstrip()
        while cell_len(line) > width:
            head = set_cell_size(line, width)
            if cell_len(head) and head.rstrip() and not line.startswith(head):
                head = head[:-1]
            head = head or line[0]
            yield head
            line = line[len(head) :]
    if line:
        yield line


def duration(ms: int) -> str:
    """A length of time in words: ``12 s``, ``4 min``, ``2 h 05``, ``3 d``."""
    seconds = max(0, ms) // 1000
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min"
    if seconds < 86_400:
        return f"{seconds // 3600} h {seconds % 3600 // 60:02d}"
    return f"{seconds // 86_400} d"


def stopwatch(ms: int) -> str:
    """A length of time as on a stopwatch: ``04:12``, ``1:04:12``."""
    seconds = max(0, ms) // 1000
    if seconds < 3600:
        return f"{seconds // 60:02d}:{seconds % 60:02d}"
    return f"{seconds // 3600}:{seconds % 3600 // 60:02d}:{seconds % 60:02d}"


def time_of_day(ms: int) -> str:
    """``14:02:10``, UTC, as the files have it."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%H:%M:%S}"


def moment(ms: int) -> str:
    """The exact time: ``2026-11-30 14:02:10 UTC``."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def number(value: int) -> str:
    """``10,000``."""
    return f"{value:,}"


def money(dollars: float) -> str:
    """``$3.21``, ``$1,234``."""
    return f"${dollars:,.2f}" if dollars < 1000 else f"${dollars:,.0f}"
