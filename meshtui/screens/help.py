"""Every key and what it does, from the one list of commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input

from meshtui.commands import COMMANDS, REPLAY, Command, Situation
from meshtui.keymap import display, normal
from meshtui.screens.keys_here import key_in
from meshtui.status import LANE_STATES, LOOP_MARKS, SECTION_MARKS
from meshtui.text import fit, wrap
from meshtui.theme import MODALS
from meshtui.widgets.paint import LOOK_CLASSES, Span
from meshtui.widgets.paint import keys_of as chosen_keys
from meshtui.widgets.prose import Head, Item, Prose, Raw

LABEL = 12
"""How many cells the keys take."""


def keys_of(command: Command, chosen: str | None = None) -> str:
    """The keys of a command as they are typed; ``chosen`` are those an operator gave it."""
    keys = normal(chosen or command.key).split(",")
    return " ".join(display(key).replace("ctrl+", "^") for key in keys)


def where(now: Situation) -> str:
    """What the keys are about now, in a word or two."""
    if now.reading is not None:
        return "the text"
    if now.place != "lane":
        return f"the {now.place}"
    return "the loops" if now.side == "loops" else "the queue"


def means_here(command: Command, now: Situation) -> bool:
    """Whether a key does something where the operator is."""
    if not command.at(now.place):
        return False
    if now.reading is not None and command.scope in ("text", "table"):
        return command.scope == "text" and command.action in now.reading
    if command.scope == "text":
        return False
    return command.meant(now.side, filtering=now.filtering) and command.why_not(now) is None


def shared(command: Command) -> bool:
    """Whether one of its keys means something else in the other list."""
    mine = set(command.key.split(","))
    return any(
        one.side not in (None, command.side) and mine & set(one.key.split(","))
        for one in COMMANDS
        if one.scope == command.scope
    )


def _told_with(command: Command, words: Sequence[str], keys: Callable[[Command], str]) -> bool:
    """Whether what is told of a command has every one of ``words``; a single sign is looked for as a key too."""
    text = f"{command.label} {command.tooltip} {command.title or ''} {command.group}".lower()
    return all(word in text or word in keys(command).lower().split() for word in words)


def help_items(
    width: int, now: Situation | None = None, keys: Callable[[Command], str] = keys_of, only: str = ""
) -> list[Item]:
    """The help text: first what the keys do where the operator is, then the others, group by group.

    ``keys`` says how a command is typed. Without a situation every command of a lane is told once, by groups.
    ``only`` leaves what has these words.
    """
    now = now if now is not None else Situation()
    own = {key for one in COMMANDS if one.scope == now.place for key in one.key.split(",")}
    known = [
        command
        for command in COMMANDS
        # A list's key that the screen takes for itself does what the screen says.
        if command.at(now.place) and not (command.scope == "table" and own & set(command.key.split(",")))
    ]
    if now.replay:
        known = [*REPLAY, *known]
    here = [command for command in known if command.scope == "replay" or means_here(command, now)]
    words = only.lower().split()
    here = [command for command in here if _told_with(command, words, keys)]
    known = [command for command in known if _told_with(command, words, keys)]
    if words and not known:
        return [Raw((("Nothing here has those words or keys.", "muted"),))]
    items: list[Item] = []
    if here:
        items = [Head(f"Now, in {where(now)}", "strong"), *_told(here, width, keys, here=True)]
    others = [command for command in known if command not in here]
    for group in dict.fromkeys(command.group for command in others):
        items += [*([Raw(())] if items else []), Head(f"{group}, elsewhere or later", "strong")]
        items += _told([command for command in others if command.group == group], width, keys)
    if words:
        return items
    items += [Raw(()), Head("Signs", "strong"), *_signs("lane", list(LANE_STATES.values()), width)]
    items += _signs("records", list(SECTION_MARKS.values()), width)
    return [*items, *_signs("loops", list(LOOP_MARKS.values()), width)]


def _told(
    commands: Sequence[Command], width: int, keys: Callable[[Command], str], *, here: bool = False
) -> list[Item]:
    items: list[Item] = []
    exits = [command for command in commands if command.action.startswith("exit(")]
    for command in commands:
        if command in exits[1:]:
            continue
        typed, text = keys(command), command.tooltip
        if command.side is not None and shared(command) and not here:
            text = f"{text} (in the {command.side})"
        if command.filtered and not here:
            text = f"{text} (while a filter is on)"
        if command in exits:
            typed, text = "1…9", "Take that exit of the selected item"
        for piece in wrap(text, max(10, width - LABEL - 3)):
            items.append(
                Raw((("  ", "text"), (fit(typed, LABEL - 1), "key"), (" ", "text"), (piece, "text")))
            )
            typed = ""
    return items


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
        Binding("escape,q,question_mark,enter", "dismiss", "Close", show=False, id="help.close"),
        Binding("slash", "find", "Find a key by what it does", show=False, id="help.find"),
    ]

    def __init__(self, situation: Situation) -> None:
        super().__init__()
        self.situation = situation
        """Where the operator was who asked."""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -large") as dialog:
            dialog.border_title = Content("Keys")
            dialog.border_subtitle = Content(
                f"{key_in(self, 'help.find')} finds · {key_in(self, 'help.close')} closes"
            )
            find = Input(placeholder="words, or a key", id="help-find", compact=True)
            find.display = False
            yield find
            yield Prose(id="help")

    def on_mount(self) -> None:
        self.query_one(Prose).focus()

    def on_resize(self) -> None:
        self.call_after_refresh(self._fill)

    def _fill(self) -> None:
        prose = self.query_one(Prose)
        width = max(20, prose.outer_size.width - 4)
        prose.show(help_items(width, self.situation, self._keys, self.query_one(Input).value))

    @on(Input.Changed)
    def _narrow(self) -> None:
        self._fill()
        self.query_one(Prose).scroll_home(animate=False)

    @on(Input.Submitted)
    def _found(self) -> None:
        self.query_one(Prose).focus()

    def action_find(self) -> None:
        """Leave only what has the words that are typed next."""
        find = self.query_one(Input)
        find.display = True
        self.set_focus(find)

    def _keys(self, command: Command) -> str:
        return keys_of(command, chosen_keys(self, command.id, command.key))

    async def action_dismiss(self, result: None = None) -> None:
        find = self.query_one(Input)
        if find.display:
            # The first esc takes back what was looked for.
            find.value = ""
            find.display = False
            self.query_one(Prose).focus()
            return
        self.dismiss()
