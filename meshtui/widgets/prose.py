"""Text to read: facts, headings and bodies, wrapped to the width and scrolled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from meshtui.text import clean, clean_lines, number
from meshtui.widgets.document import Document
from meshtui.widgets.lines import TextLine
from meshtui.widgets.paint import Line, Span
from meshtui.widgets.text_pane import TextPane

LABEL = 12
MOST_LINES = 5000
"""Of one body; the rest stands in the file."""
MOST_CHARACTERS = 1_000_000


@dataclass(frozen=True, slots=True)
class Fact:
    """A label and what it says."""

    label: str
    text: str
    look: str = "text"


@dataclass(frozen=True, slots=True)
class Head:
    """The title of what follows."""

    text: str
    look: str = "muted"


@dataclass(frozen=True, slots=True)
class Raw:
    """A line made of spans, cut and not wrapped."""

    line: Line
    target: object = None
    """What enter opens on it, and on what stands below it up to the next one."""
    hang: int | None = None
    """Given, it is wrapped after all, its further rows indented so far."""


@dataclass(frozen=True, slots=True)
class Body:
    """Text of any length, from outside."""

    text: str
    look: str = "text"
    indent: int = 0
    mark: str = ""
    """Stands before the first line."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Lines that are cleaned already."""

    lines: tuple[tuple[str, str], ...]


Item = Fact | Head | Raw | Body | Ready


class ItemsDoc(Document):
    """Facts, headings and bodies as a document."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = tuple(items)
        self.pointed = any(isinstance(item, Raw) and item.target is not None for item in self.items)
        self._lines: list[TextLine] = []
        self._narrow: bool | None = None

    def fit(self, width: int) -> bool:
        narrow = width < LABEL + 12
        if narrow == self._narrow:
            return False
        self._narrow = narrow
        self._lines = list(lay_out(self.items, narrow=narrow))
        return True

    def __len__(self) -> int:
        if self._narrow is None:
            self.fit(LABEL * 4)
        return len(self._lines)

    def line(self, index: int) -> TextLine:
        return self._lines[index]

    def start(self) -> int:
        return next((at for at, line in enumerate(self._lines) if line.target is not None), 0)


def lay_out(items: Iterable[Item], *, narrow: bool = False) -> Iterator[TextLine]:
    """The lines of ``items``; ``narrow`` leaves no room beside labels."""
    target: object = None
    for item in items:
        match item:
            case Fact():
                text = clean(item.text)
                if narrow:
                    yield TextLine(((f"{item.label} {text}".strip(), item.look),))
                else:
                    yield TextLine(((item.label.ljust(LABEL), "muted"), (text, item.look)), hang=LABEL)
            case Head():
                target = None
                yield TextLine(((clean(item.text), item.look),), whole=True)
            case Raw():
                # What stands below it belongs to it, up to the next one.
                target = item.target
                yield TextLine(item.line, whole=item.hang is None, hang=item.hang or 0, target=target)
            case Body():
                yield from _body(item, target)
            case Ready():
                for text, look in item.lines:
                    yield TextLine(((text, look),), hang=_indent(text), target=target)


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip(" "))


def _body(item: Body, target: object) -> Iterator[TextLine]:
    lines = clean_lines(item.text[:MOST_CHARACTERS])
    mark = item.mark.ljust(item.indent)
    for line in lines[:MOST_LINES]:
        shown = line[:20_000]
        spans: list[Span] = [(mark, "muted")] if mark else []
        yield TextLine((*spans, (shown, item.look)), hang=item.indent + _indent(shown), target=target)
        mark = " " * item.indent
    if len(lines) > MOST_LINES:
        more = f"… {number(len(lines) - MOST_LINES)} more lines"
        yield TextLine(((" " * item.indent + more, "muted"),), target=target)


class Prose(TextPane):
    """A text pane that is given items to lay out."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.items: tuple[Item, ...] = ()

    def show(self, items: Sequence[Item], *, follows: bool = False, top: bool = False) -> None:
        """Show ``items``; ``top`` starts at their beginning, or, where they are followed, at their end."""
        value = tuple(items)
        if value == self.items and not top and isinstance(self.doc, ItemsDoc):
            return
        self.items = value
        self.open(ItemsDoc(value), follow=follows, top=top or not isinstance(self.doc, ItemsDoc))

    def show_doc(self, doc: Document, *, follows: bool = False, top: bool = False) -> None:
        """Show ``doc``; the same one goes on where it stands."""
        self.items = ()
        if doc is not self.doc or top:
            self.open(doc, follow=follows, top=top or not self.doc.like(doc))


def bar(part: float, cells: int, look: str) -> Line:
    """A bar, ``part`` of it thick and in ``look``; the rest is thin, so that it can be read without colours."""
    full = max(0, min(cells, round(part * cells)))
    return (("━" * full, look), ("─" * (cells - full), "rule"))
