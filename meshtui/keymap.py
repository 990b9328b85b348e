"""The names of keys: as Textual has them, as they are typed, and what the console hands to Textual."""

from __future__ import annotations

import re
from collections.abc import Mapping

from textual.keys import Keys, _character_to_key

MODIFIERS = ("ctrl", "shift", "alt", "super", "hyper", "meta")
NAMED = frozenset(key.value for key in Keys if not key.value.startswith("<")) | {
    "space", "enter", "tab", "escape", "backspace", "delete", "slash", "backslash", "colon", "semicolon", "comma",
    "full_stop", "question_mark", "exclamation_mark", "quotation_mark", "apostrophe", "number_sign", "dollar_sign",
    "percent_sign", "ampersand", "left_parenthesis", "right_parenthesis", "asterisk", "plus", "minus", "equals_sign",
    "less_than_sign", "greater_than_sign", "at", "left_square_bracket", "right_square_bracket", "circumflex_accent",
    "underscore", "grave_accent", "left_curly_bracket", "right_curly_bracket", "vertical_line", "tilde",
}  # fmt: skip


_TYPED = {"esc": "escape", "pgdn": "pagedown", "pgup": "pageup", "bksp": "backspace", "del": "delete"}


def normal(keys: str) -> str:
    """``keys`` by Textual's names: ``?`` is ``question_mark``; a comma by itself is that key."""
    parts = re.split(r",(?!$)", keys.strip()) if keys.strip() != "," else [","]
    return ",".join(_normal(part) for part in parts)


def _normal(key: str) -> str:
    key = key.strip() or key
    *modifiers, last = key.split("+") if key not in ("+",) and not key.endswith("++") else _with_plus(key)
    if last.startswith("^") and len(last) > 1:
        modifiers, last = [*modifiers, "ctrl"], last[1:]
    last = _TYPED.get(last, last)
    if len(last) == 1:
        last = _character_to_key(last)
    return "+".join([*(modifier.lower() for modifier in modifiers), last])


def _with_plus(key: str) -> list[str]:
    return [*key[:-1].rstrip("+").split("+"), "+"] if len(key) > 1 else ["+"]


def known_key(key: str) -> bool:
    """Whether a terminal can send ``key``, a name as :func:`normal` makes it."""
    if key in NAMED:
        return True
    *modifiers, last = key.split("+")
    if not all(modifier in MODIFIERS for modifier in modifiers):
        return False
    return last in NAMED or (len(last) == 1 and last.isprintable())


_SHOWN = {
    "slash": "/", "backslash": "\\", "colon": ":", "semicolon": ";", "comma": ",", "full_stop": ".", "question_mark": "?",
    "exclamation_mark": "!", "quotation_mark": '"', "apostrophe": "'", "number_sign": "#", "dollar_sign": "$",
    "percent_sign": "%", "ampersand": "&", "left_parenthesis": "(", "right_parenthesis": ")", "asterisk": "*",
    "plus": "+", "minus": "-", "equals_sign": "=", "less_than_sign": "<", "greater_than_sign": ">", "at": "@",
    "left_square_bracket": "[", "right_square_bracket": "]", "circumflex_accent": "^", "underscore": "_",
    "grave_accent": "`", "left_curly_bracket": "{", "right_curly_bracket": "}", "vertical_line": "|", "tilde": "~",
    "escape": "esc", "pagedown": "pgdn", "pageup": "pgup", "backspace": "bksp", "delete": "del",
}  # fmt: skip


def display(key: str) -> str:
    """One key as it is typed: ``?``, ``^d``, ``pgdn``."""
    *modifiers, last = normal(key).split("+")
    shown = _SHOWN.get(last, last)
    for modifier in reversed(modifiers):
        shown = f"^{shown}" if modifier == "ctrl" else f"{modifier}+{shown}"
    return shown


def display_all(keys: str) -> str:
    """Several keys, with spaces between them."""
    return " ".join(display(key) for key in normal(keys).split(","))


_chosen: dict[str, str] = {}
"""The keys of the console that runs in this process, by the id of their binding, where they are not the delivered ones."""


def use(keys: Mapping[str, str]) -> None:
    """Let texts name ``keys``, those of the console that opens, by the id of their binding."""
    _chosen.clear()
    _chosen.update(keys)


def typed(binding_id: str, default: str) -> str:
    """The first key of a binding as it is typed now; ``default`` are those it is delivered with."""
    return display(normal(_chosen.get(binding_id, default)).partition(",")[0])


def typed_all(binding_id: str, default: str) -> str:
    """All keys of a binding as they are typed now, with spaces between them."""
    return display_all(_chosen.get(binding_id, default))


def keymap(keys: Mapping[str, str]) -> dict[str, str]:
    """What to hand to :meth:`textual.app.App.set_keymap` for ``keys``.

    Textual forgets every binding of a key that one of them leaves or takes, so that the others are named too.
    """
    from meshtui.commands import COMMANDS

    if not keys:
        return {}
    return {command.id: normal(command.key) for command in COMMANDS} | dict(keys)
