"""The keys of the dialog, form or screen that is open, as they are now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from meshtui.keymap import display_all, typed, typed_all
from meshtui.theme import MODALS

LEAVING = ("Leave", "No:", "Send nothing")
"""How the words of the keys begin that leave what is open."""


def declared(screen: type[object]) -> Iterator[Binding]:
    """The bindings of a screen with an id, its own before those it inherits; each key's first meaning."""
    seen: set[str] = set()
    for kind in screen.__mro__:
        for binding in kind.__dict__.get("BINDINGS", ()):
            if isinstance(binding, Binding) and binding.id and binding.id not in seen:
                seen.add(binding.id)
                yield binding


def key_in(screen: object, binding_id: str) -> str:
    """The key of a binding that ``screen`` declares, as it is typed now."""
    for binding in declared(type(screen)):
        if binding.id == binding_id:
            return typed(binding_id, binding.key)
    raise KeyError(binding_id)


def last_key_in(screen: object, binding_id: str) -> str:
    """The same, where several keys do it and the last of them is the one to name."""
    for binding in declared(type(screen)):
        if binding.id == binding_id:
            return typed_all(binding_id, binding.key).split()[-1]
    raise KeyError(binding_id)


def lines_of(screen: Screen[Any]) -> list[tuple[str, str]]:
    """(keys, what they do) on ``screen``; bindings that do the same are told once."""
    told: dict[str, list[str]] = {}
    for binding in declared(type(screen)):
        if binding.action != "app.keys_here":
            told.setdefault(binding.description, []).append(typed_all(binding.id or "", binding.key))
    # What leaves comes last, as among the buttons.
    leaving = [text for text in told if text == "Close" or text.startswith(LEAVING)]
    order = [text for text in told if text not in leaving] + leaving
    lines = [(" ".join(told[text]), text) for text in order]
    if not lines:
        return []
    if screen.query("Input, TextArea"):
        lines += [(display_all("tab,shift+tab"), "The next field, and the one before")]
    if screen.query("TextArea"):
        lines += [("enter", "A new line in the large text; else what the form is for")]
    elif screen.query("Button"):
        lines += [("enter", "What is chosen")]
    return lines


class KeysHere(ModalScreen[None]):
    """Closed by any of the usual keys."""

    CSS_PATH = MODALS
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,f1,question_mark,enter", "dismiss", "Close", show=False, id="keys_here.close"),
    ]

    def __init__(self, lines: list[tuple[str, str]]) -> None:
        super().__init__()
        self.lines = lines

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog", can_focus=True) as dialog:
            dialog.border_title = Content("Keys here")
            dialog.border_subtitle = Content(f"{key_in(self, 'keys_here.close')} closes")
            for keys, text in self.lines:
                with Horizontal(classes="key-line"):
                    yield Static(Content(keys), classes="keys")
                    yield Static(Content(text), classes="does")
