"""meshtui: the operator's console for many coding agents, and the engine behind it."""

__version__ = "0.1.0"
