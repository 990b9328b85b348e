"""Verdicts of checkers and arbiters: what an agent's prose is not, and which agent looks at whose work."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from meshtui.core import strict_json
from meshtui.core.engines.registry import AGENTS
from meshtui.core.errors import InvalidInput

MOST_TRIES = 200
"""Opening braces of a reply that are tried."""
NO_VERDICT = "the reply holds no verdict: one JSON object was asked for"


def verdict_in(text: str, key: str) -> dict[str, Any] | None:
    """The JSON object with ``key`` in a reply: bare, fenced or inside prose; ``None`` for none or several."""
    found: list[dict[str, Any]] = []
    place, tries = text.find("{"), 0
    decoder = json.JSONDecoder()
    while place != -1 and tries < MOST_TRIES:
        tries += 1
        try:
            _, end = decoder.raw_decode(text, place)
            value = strict_json.loads(text[place:end])
        except (ValueError, RecursionError, InvalidInput):
            place = text.find("{", place + 1)
            continue
        if isinstance(value, dict) and key in value and value not in found:
            found.append(value)
        place = text.find("{", end)
    return found[0] if len(found) == 1 else None


def needs_verdict(engine: str | None) -> bool:
    """Whether ``engine`` ends well even when it refuses, so that only its words decide."""
    return engine in AGENTS


def checker_engine(maker: str, engines: Iterable[str]) -> str:
    """Who checks the work of ``maker`` in a mission whose loops use ``engines``.

    Where several agents are at work, another one than made it: two do not share one blind spot.
    """
    others = sorted({name for name in engines if name in AGENTS and name != maker})
    return others[0] if maker in AGENTS and others else maker
