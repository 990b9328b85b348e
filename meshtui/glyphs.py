"""The console's signs in ASCII, one character for each, so that nothing moves."""

from __future__ import annotations

from functools import lru_cache

# Statuses. Each is another sign, because a glyph has to tell them apart where there is no colour.
_STATUS = {
    "●": "*", "○": "o", "◌": ".", "◆": "!", "‖": "=", "■": "#", "✖": "x", "✔": "+", "↩": "<", "▲": "^",
    "⇥": ">", "◷": "@", "⊘": "%", "–": "-", "▶": ">", "◀": "<", "▼": "v", "△": "^", "▽": "v", "◇": "!", "□": "#",
    "✓": "+", "✗": "x", "★": "*", "☆": "*", "◐": "o", "◑": "o", "◒": "o", "◓": "o", "♥": "*", "⚑": "!", "⏸": "=",
    "▸": ">", "▾": "v", "◂": "<", "▴": "^", "►": ">", "◄": "<", "⏵": ">", "↻": "o", "↺": "o", "⟳": "o", "∅": "0",
    "☐": "o", "☑": "x", "☒": "x", "◉": "*", "◎": "o", "⬤": "*", "⚠": "!", "⛔": "!", "ℹ": "i", "♪": "~",
}  # fmt: skip
_TEXT = {
    "…": "~", "·": ".", "•": "*", "—": "-", "−": "-", "×": "x", "÷": "/", "→": ">", "←": "<", "↑": "^", "↓": "v",
    "↔": "-", "↕": "|", "⇒": ">", "⇐": "<", "≤": "<", "≥": ">", "≈": "~", "≠": "!", "±": "~", "∞": "8", "“": '"',
    "”": '"', "„": '"', "‘": "'", "’": "'", "‚": "'", "«": "<", "»": ">", "‹": "<", "›": ">", "°": "o", "§": "S",
    "⏎": "<", "⌫": "<", "␣": "_", "⇧": "^", "Σ": "S", "Δ": "d", "µ": "u", "\u00a0": " ", "\ufffd": "?", "∙": ".",
    "↳": ">", "↪": ">", "⤷": ">", "↵": "<", "⎋": "<", "¶": "P", "│": "|",
}  # fmt: skip
_RAMPS = {"▁▂▃▄▅▆▇█": "_.:-=+*#", "▏▎▍▌▋▊▉": "|||||##", "░▒▓": ".:#", "▔▕▐▀": "-||-"}
_FIRST_LINE, _LAST_LINE = 0x2500, 0x257F
_ACROSS, _DOWN = set("─━┄┅┈┉╌╍═╴╶╸╺╼╾"), set("│┃┆┇┊┋╎╏║╵╷╹╻╽╿")


def _table() -> dict[int, str]:
    table = {**_STATUS, **_TEXT}
    for signs, plain in _RAMPS.items():
        table.update(zip(signs, plain, strict=True))
    for code in range(_FIRST_LINE, _LAST_LINE + 1):
        sign = chr(code)
        table[sign] = "-" if sign in _ACROSS else "|" if sign in _DOWN else "+"
    table.update({"╱": "/", "╲": "\\", "╳": "X"})
    # Bars and the timeline tell these lines apart.
    table.update({"━": "=", "═": "#", "┄": ".", "╌": ".", "╍": ":"})
    # Quadrants, and the eight dots of a braille cell: the more is filled, the darker the sign.
    table.update((chr(code), "#") for code in range(0x2596, 0x25A0))
    for dots in range(256):
        table[chr(0x2800 + dots)] = " ..::++##"[dots.bit_count()]
    table.update((chr(0x2400 + code), "?") for code in range(0x22))
    return {ord(sign): plain for sign, plain in table.items()}


ASCII = _table()
"""For :meth:`str.translate`."""


@lru_cache(4096)
def in_ascii(text: str) -> str:
    """``text`` with the console's own signs in ASCII; letters of other alphabets stay."""
    return text if text.isascii() else text.translate(ASCII)


@lru_cache(4096)
def encodable(text: str, encoding: str) -> str:
    """``text`` as ``encoding`` can write it: the console's signs in ASCII, what else is missing as ``?``."""
    if text.isascii():
        return text
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(ASCII).encode(encoding, "replace").decode(encoding)
    return text
