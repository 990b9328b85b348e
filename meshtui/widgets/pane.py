"""Details in parts: tabs over the text of the chosen one, a line to search in it, and what is said of it below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input

from meshtui.commands import key_of
from meshtui.text import cut_middle, cut_start, number
from meshtui.widgets.document import Document
from meshtui.widgets.find_line import FindLine
from meshtui.widgets.json_doc import JsonDoc
from meshtui.widgets.log_doc import LogDoc
from meshtui.widgets.patch_doc import ToFile
from meshtui.widgets.prose import Item, Prose
from meshtui.widgets.tabs import TabLine, TabSpec
from meshtui.widgets.text_pane import TextPane

LONG_TEXT = 400
"""Lines from which on it is said where in them one is."""


@dataclass(frozen=True, slots=True)
class ToLog:
    """Enter opens a log over the details."""

    path: Path
    title: str


@dataclass(frozen=True, slots=True)
class Outside:
    """What ``o`` hands to another program."""

    path: Path | None
    """The file; ``None`` hands over the text that is shown."""
    work: bool = False
    """Whether it is a work file that may be edited; else it is only looked at."""
    line: int = 1


class PartsPane(Vertical):
    """What a pane shows, and in which parts, is the subclass's."""

    PARTS: ClassVar[tuple[str, ...]] = ()
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "find", "search", show=False, id="text.find"),
        Binding("enter", "screen.zoom", "full screen", show=False, id="text.zoom"),
    ]

    class PartChosen(Message):
        """Another part is shown; it may have to be read or followed."""

        def __init__(self, pane: PartsPane) -> None:
            super().__init__()
            self.pane = pane

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.part = self.PARTS[0]
        self.as_json = False
        """Whether the file behind the part is shown as JSON."""
        self.over: Document | None = None
        """What was opened over the part."""
        self._json: tuple[object, JsonDoc] | None = None

    def compose(self) -> ComposeResult:
        yield TabLine(id="parts")
        yield Prose(id="prose")
        yield FindLine(id="find")

    def on_mount(self) -> None:
        self.query_one(FindLine).display = False
        self.draw(top=True)

    @property
    def prose(self) -> Prose:
        """The text."""
        return self.query_one("#prose", Prose)

    # What a kind of pane decides

    def title(self) -> str:
        """What stands in the border, cleaned."""
        raise NotImplementedError

    def tabs(self) -> Sequence[TabSpec]:
        """The parts as tabs."""
        raise NotImplementedError

    def items(self) -> Sequence[Item]:
        """The text of the chosen part."""
        raise NotImplementedError

    def document(self) -> Document | None:
        """The chosen part, where it is no text of items; the same object as long as it is the same."""
        return None

    def json_value(self) -> tuple[Any, Path | None] | None:
        """What stands behind the chosen part, and the file it is in; ``None`` if there is nothing."""
        return None

    def outside(self) -> Outside | None:
        """What ``o`` opens while the part is shown."""
        return None

    def follows(self) -> bool:
        """Whether the text is followed at its end."""
        return False

    def live(self) -> bool:
        """Whether what is shown may still get longer."""
        return True

    # Parts

    def choose(self, part: str) -> None:
        """Show ``part``."""
        if part in self.PARTS and (part != self.part or self.over is not None):
            self.part = part
            self._close_over()
            self.draw(top=True)
            self.post_message(self.PartChosen(self))

    def step(self, by: int) -> None:
        """Show the next part, or the one before."""
        self.choose(self.PARTS[(self.PARTS.index(self.part) + by) % len(self.PARTS)])

    def on_tab_line_chosen(self, event: TabLine.Chosen) -> None:
        event.stop()
        self.choose(event.tab)

    def draw(self, *, top: bool = False) -> None:
        """Show what there is now; ``top`` starts at its beginning."""
        if not self.query("#prose"):
            return
        title = self.title() if self.over is None else f"{self.title()} · {self.over.title}"
        title = cut_middle(title, max(4, self.size.width - 8)) if self.size.width else title
        self.border_title = Content(title)
        self.query_one("#parts", TabLine).show(self.tabs(), self.part)
        doc = self.over or (self._json_doc() if self.as_json else None) or self.document()
        if doc is not None:
            self.prose.show_doc(doc, follows=self.follows(), top=top)
        else:
            self.prose.show(self.items(), follows=self.follows(), top=top)
        self._say()

    # Over a part

    def open_over(self, doc: Document) -> None:
        """Show ``doc`` over the part, until it is left."""
        self._close_over()
        self.over = doc
        self.draw(top=True)

    def _close_over(self) -> None:
        if self.over is not None:
            self.over.close()
            self.over = None

    def toggle_json(self) -> bool:
        """Show the file behind the part as JSON, or the part again; whether there is one."""
        if not self.as_json and self.json_value() is None:
            return False
        self.as_json = not self.as_json
        self._close_over()
        self.draw(top=True)
        return True

    def _json_doc(self) -> Document | None:
        found = self.json_value()
        if found is None:
            return None
        value, path = found
        if self._json is None or self._json[0] != value or self._json[1].title != self.part:
            self._json = (value, JsonDoc(value, path=path, title=self.part))
        return self._json[1]

    def on_text_pane_opened(self, message: TextPane.Opened) -> None:
        target = message.target
        if isinstance(target, ToFile):
            message.stop()
            self.prose.to_place(target.line)
            self.prose.tell_moved()
        elif isinstance(target, ToLog):
            message.stop()
            hint = "Nothing was written there." if target.path.exists() else "The log is gone."
            self.open_over(LogDoc(target.path, hint=hint, title=target.title))

    def shown_outside(self) -> Outside | None:
        """What ``o`` opens now."""
        if self.over is not None:
            return Outside(self.over.path)
        if self.as_json:
            found = self.json_value()
            return Outside(found[1]) if found is not None else None
        return self.outside() or Outside(None)

    def leave(self) -> bool:
        """Leave what was opened or chosen last; whether there was any."""
        prose = self.prose
        if self.query_one(FindLine).display:
            self.end_find()
        elif prose.marking:
            prose.drop_mark()
        elif self.over is not None:
            self._close_over()
            self.draw(top=True)
        elif self.as_json:
            self.as_json = False
            self.draw(top=True)
        else:
            return False
        return True

    def text_select_all(self) -> None:
        """A third click chooses a line of the text, and not all there is."""

    # Searching

    def action_find(self) -> None:
        line = self.query_one(FindLine)
        line.display = True
        # At once, and not after what is in the queue: the next letters are meant for it.
        self.screen.set_focus(line.field)

    def end_find(self) -> None:
        """Search no more."""
        line = self.query_one(FindLine)
        line.display = False
        line.field.value = ""
        self.prose.seek("")
        self.prose.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.prose.seek(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value:
            self.prose.focus()
        else:
            self.end_find()

    # What is said below

    def on_text_pane_moved(self, message: TextPane.Moved) -> None:
        message.stop()
        self.query_one(FindLine).show_count(message.pane.count_of_matches())
        self._say()
        self.post_message(self.Read(self))

    class Read(Message):
        """What can be done with the text may have changed."""

        def __init__(self, pane: PartsPane) -> None:
            super().__init__()
            self.pane = pane

    def on_resize(self, _event: events.Resize) -> None:
        self._say()

    def _say(self) -> None:
        prose = self.prose
        doc = prose.doc
        room = max(8, self.size.width - 6)
        said: list[str] = []
        if doc.note():
            said.append(doc.note())
        if not prose.wrap:
            said.append("not wrapped")
        if len(doc) > LONG_TEXT:
            at = (prose.pointer if doc.pointed else prose.top[0]) + 1
            said.append(f"line {number(at)} of {number(len(doc))}")
        if doc.grows and len(doc) > prose.page and self.live():
            said.append("● following" if prose.follows else "f follows")
        marked = prose.marked
        if marked is not None:
            count = marked[1] - marked[0] + 1
            said.append(
                f"{number(count)} line{'' if count == 1 else 's'} marked: {key_of('copy_text')} copies"
            )
        text = " · ".join(said)
        crumb = doc.crumb(prose.pointer if doc.pointed else prose.top[0])
        if crumb:
            left = room - len(text) - 3 if text else room
            text = " · ".join(one for one in (cut_start(crumb, left) if left > 8 else "", text) if one)
        self.border_subtitle = Content(text if len(text) <= room else cut_start(text, room))
