"""From an engine's name to the engine."""

from __future__ import annotations

from meshtui.core.engines.base import Engine
from meshtui.core.engines.command import CommandEngine, CommandSettings
from meshtui.core.errors import InvalidInput

AVAILABLE = ("command",)
NAMED = ("claude", "codex", "grok")
"""Engines that envelopes may name and that this version cannot run."""


def engine_for(name: str, settings: CommandSettings | None) -> Engine:
    """The engine called ``name``; ``settings`` is its ``[engines.<name>]``, if there is one.

    Raises :class:`InvalidInput` for one that this version does not have.
    """
    if name == "command":
        return CommandEngine(settings)
    if name in NAMED:
        raise InvalidInput(
            f"engine {name} is not available in this version: "
            "use engine command, with the program's own command line in [engines.command]",
            field="engine",
        )
    raise InvalidInput(f"no engine is called {name!r}: use one of {', '.join(AVAILABLE)}", field="engine")
