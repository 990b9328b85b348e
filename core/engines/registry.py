"""From an engine's name to the engine."""

from __future__ import annotations

from meshtui.core.engines.base import Engine
from meshtui.core.engines.command import CommandEngine, CommandSettings
from meshtui.core.errors import InvalidInput
from meshtui.core.models.config import EngineConfig
from meshtui.core.models.envelope import ENGINES

AGENTS = ("claude", "codex", "grok")
"""Engines with a model of their own: they have sessions that can be resumed read-only."""


def engine_for(name: str, settings: CommandSettings | EngineConfig | None) -> Engine:
    """The engine called ``name``; ``settings`` is its ``[engines.<name>]``, if there is one.

    Raises :class:`InvalidInput` for one that does not exist.
    """
    if name == "command":
        return CommandEngine(settings)
    config = settings if isinstance(settings, EngineConfig) else None
    # Imported where they are used: a lane of commands needs none of them.
    if name == "claude":
        from meshtui.core.engines.claude import ClaudeEngine

        return ClaudeEngine(config)
    if name == "codex":
        from meshtui.core.engines.codex import CodexEngine

        return CodexEngine(config)
    if name == "grok":
        from meshtui.core.engines.grok import GrokEngine

        return GrokEngine(config)
    raise InvalidInput(f"no engine is called {name!r}: use one of {', '.join(ENGINES)}", field="engine")
