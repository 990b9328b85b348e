"""JSON as the contract wants it: UTF-8, no NaN, no duplicate keys, bounded size and depth.

Lone surrogates are replaced by U+FFFD, so that whatever was read can be written and shown.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any

from meshtui.core.errors import InvalidInput

MAX_BYTES = 1 << 20
MAX_DEPTH = 100

_SURROGATE = re.compile("[\ud800-\udfff]")
_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_ASCII = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InvalidInput(f"duplicate key {key!r}", field=key)
            seen.add(key)
    return value


def _constant(name: str) -> Any:
    raise InvalidInput(f"{name} is not JSON")


def _float(text: str) -> float:
    """A number that can be written again: ``1e999`` reads as Infinity, which cannot."""
    value = float(text)
    if math.isinf(value):
        raise InvalidInput("a number is too large")
    return value


_STRICT = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant, parse_float=_float)


def check_depth(value: Any, limit: int = MAX_DEPTH) -> None:
    """Raise :class:`InvalidInput` if ``value`` nests more than ``limit`` objects and arrays."""
    level: list[Any] = [value]
    depth = 0
    while level:
        below: list[Any] = []
        containers = False
        for item in level:
            if isinstance(item, dict):
                containers = True
                below.extend(item.values())
            elif isinstance(item, list):
                containers = True
                below.extend(item)
        depth += containers
        if depth > limit:
            raise InvalidInput(f"nested more than {limit} deep")
        level = below


def plain(text: str) -> str:
    """``text`` on one line that no terminal acts upon: other characters are shown as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def clean_text(text: str) -> str:
    """``text`` with every lone surrogate replaced by U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


def clean(value: Any) -> Any:
    """``value`` with lone surrogates replaced in every key and string, however deep."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(str(key)): clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [clean(item) for item in value]
    return value


def loads(data: bytes | str, *, limit: int = MAX_BYTES, depth: int = MAX_DEPTH, what: str = "JSON") -> Any:
    """The value of JSON document ``data``.

    Raises :class:`InvalidInput` for bytes that are not UTF-8 (a byte order mark is accepted), NaN or
    Infinity, duplicate keys, more than ``limit`` bytes or more than ``depth`` levels.
    """
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(raw) > limit:
        raise InvalidInput(f"{what} exceeds the {_size(limit)} limit")
    try:
        text = raw.decode("utf-8-sig", "surrogatepass" if isinstance(data, str) else "strict")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{what} is not UTF-8 (byte {error.start})") from None
    try:
        value = _STRICT.decode(text)
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"{what} is not valid: {error.msg} at line {error.lineno} column {error.colno}"
        ) from None
    except RecursionError:
        raise InvalidInput(f"{what} is nested more than {MAX_DEPTH} deep") from None
    except InvalidInput as error:
        raise InvalidInput(f"{what} is not valid: {error}", field=error.field) from None
    except ValueError:
        # int() refuses numbers of more than 4,300 digits.
        raise InvalidInput(f"{what} holds a number with too many digits") from None
    # Depth is bounded by the bytes themselves: no document nests deeper than it has brackets.
    if raw.count(b"{") + raw.count(b"[") > depth:
        try:
            check_depth(value, depth)
        except InvalidInput as error:
            raise InvalidInput(f"{what} is {error}") from None
    if isinstance(data, str) or _SURROGATE_ESCAPE.search(raw):
        value = clean(value)
    return value


def load_object(
    data: bytes | str, *, limit: int = MAX_BYTES, depth: int = MAX_DEPTH, what: str = "JSON"
) -> dict[str, Any]:
    """Like :func:`loads`, but anything except an object is refused."""
    value = loads(data, limit=limit, depth=depth, what=what)
    if not isinstance(value, dict):
        raise InvalidInput(f"{what} is not an object")
    return value


def dumps(value: Any, *, indent: int | None = None, escape: bool = False) -> str:
    """``value`` as JSON text; NaN is refused.

    With ``escape`` what is not ASCII becomes escapes, else the characters themselves are written.
    """
    if indent is None:
        return (_ASCII if escape else _COMPACT).encode(value)
    return _pretty(value, "\n", " " * indent, _ASCII if escape else _COMPACT)


def _pretty(value: Any, margin: str, step: str, encoder: json.JSONEncoder) -> str:
    """What ``json.dumps`` makes with an indent, in a third of the time; ``margin`` begins a line."""
    inner = margin + step
    text = encode_basestring_ascii if encoder is _ASCII else encode_basestring
    if isinstance(value, dict) and value:
        fields = [
            f"{inner}{text(key if isinstance(key, str) else str(key))}: {_pretty(item, inner, step, encoder)}"
            for key, item in value.items()
        ]
        return f"{{{','.join(fields)}{margin}}}"
    if isinstance(value, (list, tuple)) and value:
        return f"[{','.join([inner + _pretty(item, inner, step, encoder) for item in value])}{margin}]"
    if isinstance(value, str):
        return text(value)
    if type(value) is int:
        return repr(value)
    return "null" if value is None else encoder.encode(value)


def dump_bytes(value: Any, *, indent: int | None = None) -> bytes:
    """``value`` as UTF-8 JSON with a line end, lone surrogates replaced."""
    return (dumps(value, indent=indent) + "\n").encode("utf-8", "replace")


def dump_lines(values: Iterable[Any]) -> bytes:
    """``values`` as JSON Lines."""
    return b"".join(dump_bytes(value) for value in values)


def _size(limit: int) -> str:
    return f"{limit >> 20} MiB" if limit >= 1 << 20 else f"{limit} byte"
