"""Every key and what it does, from the one list of commands."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from meshtui.commands import COMMANDS, REPLAY, Command, Place
from meshtui.status import LANE_STATES, LOOP_MARKS, SECTION_MARKS
from meshtui.text import fit, wrap
from meshtui.theme import MODALS
from meshtui.widgets.paint import LOOK_CLASSES, Span
from meshtui.widgets.prose import Head, Item, Prose, Raw

KEYS = {
    "slash": "/",
    "question_mark": "?",
    "colon": ":",
    "plus": "+",
    "escape": "esc",
    "right_square_bracket": "]",
    "left_square_bracket": "[",
    "full_stop": ".",
    "comma": ",",
    "greater_than_sign": ">",
    "less_than_sign": "<",
}


def keys_of(command: Command) -> str:
    """The keys of a command as they are typed."""
    return " ".join(
        KEYS.get(key, key.replace("ctrl+", "^").replace("pagedown", "pgdn").replace("pageup", "pgup"))
        for key in command.key.split(",")
    )


def shared(command: Command) -> bool:
    """Whether one of its keys means something else in the other list."""
    mine = set(command.key.split(","))
    return any(
        one.side not in (None, command.side) and mine & set(one.key.split(","))
        for one in COMMANDS
        if one.scope == command.scope
    )


def help_items(width: int, place: Place = "lane", *, replay: bool = False) -> list[Item]:
    """The help text of the screen ``place``, group by group; those of a ``replay`` first where there is one."""
    items: list[Item] = []
    here = [command for command in COMMANDS if command.at(place)]
    if replay:
        here = [*REPLAY, *here]
    for group in dict.fromkeys(command.group for command in here):
        if items:
            items.append(Raw(()))
        items.append(Head(group, "strong"))
        for command in here:
            if command.group != group or (command.action.startswith("exit(") and command.action != "exit(1)"):
                continue
            keys, text = keys_of(command), command.tooltip
            if command.side is not None and shared(command):
                text = f"{text} (in the {command.side})"
            if command.filtered:
                text = f"{text} (while a filter is on)"
            if command.action == "exit(1)":
                keys, text = "1…9", "Take that exit of the selected item"
            label = 12
            for piece in wrap(text, max(10, width - label - 3)):
                items.append(
                    Raw((("  ", "text"), (fit(keys, label - 1), "key"), (" ", "text"), (piece, "text")))
                )
                keys = ""
    items += [Raw(()), Head("Signs", "strong"), *_signs("lane", list(LANE_STATES.values()), width)]
    items += _signs("records", list(SECTION_MARKS.values()), width)
    return [*items, *_signs("loops", list(LOOP_MARKS.values()), width)]


def _signs(label: str, marks: list[tuple[str, str, str]], width: int) -> list[Item]:
    lines: list[list[Span]] = [[(f"  {label:<13} ", "muted")]]
    used = 16
    for glyph, word, look in marks:
        text = f"{glyph} {word}   "
        if used + cell_len(text) > width and used > 16:
            lines.append([(" " * 16, "text")])
            used = 16
        lines[-1].append((text, look))
        used += cell_len(text)
    return [Raw(tuple(line)) for line in lines]


class Help(ModalScreen[None]):
    """Closed by any of the usual keys."""

    CSS_PATH = MODALS
    COMPONENT_CLASSES = LOOK_CLASSES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "dismiss", "Close", show=False, id="help.close")
    ]

    def __init__(self, place: Place = "lane") -> None:
        super().__init__()
        self.place: Place = place

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -large") as dialog:
            dialog.border_title = Content("Keys")
            dialog.border_subtitle = Content("esc closes")
            yield Prose(id="help")

    def on_mount(self) -> None:
        self.query_one(Prose).focus()

    def on_resize(self) -> None:
        self.call_after_refresh(self._fill)

    def _fill(self) -> None:
        prose = self.query_one(Prose)
        replay = hasattr(self.app, "player")
        prose.show(help_items(max(20, prose.outer_size.width - 4), self.place, replay=replay))

    async def action_dismiss(self, result: None = None) -> None:
        self.dismiss()
