"""JSON as a document that folds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from meshtui.reading.fold import Key, Tree, find, scalar, spoken_path
from meshtui.reading.needle import Needle
from meshtui.text import clean, cut_end, number
from meshtui.widgets.document import Document, Place
from meshtui.widgets.lines import TextLine
from meshtui.widgets.paint import Line, Span

LONG = 2000
"""Characters of a text shown in its own row; all of it stands below it, or is copied."""


def _said(value: Any, *, folded: bool) -> Line:
    """A value in its row."""
    if isinstance(value, dict):
        return ((f"{{{number(len(value))}}}", "muted"),)
    if isinstance(value, list):
        return ((f"[{number(len(value))}]", "muted"),)
    if isinstance(value, str):
        lines = value.rstrip("\n").split("\n")
        if len(lines) > 1:
            first = scalar(cut_end(lines[0], 60)) if folded else ""
            return ((clean(first), "string"), (f"{' ' * bool(first)}{number(len(lines))} lines", "muted"))
        return ((clean(cut_end(scalar(value), LONG)), "string"),)
    return ((scalar(value), "word" if value is None or isinstance(value, bool) else "figure"),)


def _named(key: Key | None) -> Span:
    return ("", "text") if key is None else (f"{clean(key)}: ", "name" if isinstance(key, str) else "muted")


def row_text(key: Key | None, value: Any) -> str:
    """What a folded row shows, as text."""
    return _named(key)[0] + "".join(text for text, _look in _said(value, folded=True))


class JsonDoc(Document):
    """A JSON value; what is pointed at folds, and is copied."""

    pointed = True
    foldable = True

    def __init__(self, value: Any, *, path: Path | None = None, title: str = "") -> None:
        self.value = value
        self.path = path
        self.title = title
        self.tree = Tree(value)

    def __len__(self) -> int:
        return len(self.tree)

    def line(self, index: int) -> TextLine:
        node = self.tree.rows[index]
        indent = "  " * min(max(0, node.depth), 30)
        if node.piece:
            text = clean(str(node.value).expandtabs(4))
            return TextLine(((text, "string"),), lead=((f"{indent}│ ", "rule"),))
        mark = ("▾ " if node.open else "▸ ") if node.folds and node is not self.tree.root else "  "
        spans = (_named(node.key), *_said(node.value, folded=not node.open))
        return TextLine(
            tuple(span for span in spans if span[0]), hang=2, lead=((indent, "text"), (mark, "muted"))
        )

    def crumb(self, index: int) -> str:
        return clean(spoken_path(self.tree.rows[index].path)) if index < len(self.tree) else ""

    def copied(self, index: int) -> str | None:
        node = self.tree.rows[index]
        value = node.value
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)

    def folds(self, index: int) -> bool:
        return index < len(self.tree)

    def fold(self, index: int) -> int | None:
        return self.tree.toggle(index)

    def fold_all(self, index: int) -> int | None:
        return self.tree.toggle_all(index)

    def texts(self, first: int, last: int) -> Iterator[str]:
        for index in range(max(0, first), min(last + 1, len(self))):
            yield "  " * max(0, self.tree.rows[index].depth) + self.line(index).text

    def search(self, needle: Needle, stop: Callable[[], bool], since: object = None) -> Iterator[object]:
        if since is None:
            yield from find(self.value, needle, row_text, stop)

    def reveal(self, hit: object) -> Place:
        assert isinstance(hit, tuple)
        path, line, ordinal = hit
        return self.tree.reveal(path, line), ordinal

    def stands(self, hit: object) -> Place:
        assert isinstance(hit, tuple)
        path, line, ordinal = hit
        return self.tree.row_of(path, line), ordinal

    def reveals_later(self, hit: object, index: int) -> bool:
        return True

    def like(self, other: Document) -> bool:
        return isinstance(other, JsonDoc) and other.title == self.title
