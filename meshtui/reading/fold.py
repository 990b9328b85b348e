"""JSON as a tree of rows that fold: only what is unfolded is made, so that a big document is there at once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from meshtui.reading.needle import Needle

FIRST_ROWS: Final = 60
"""Rows unfolded at first at most, level by level."""
MOST_ROWS: Final = 200_000
"""Rows unfolded at all."""
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")

Key = str | int
Path = tuple[Key, ...]


@dataclass(slots=True, eq=False)
class Node:
    """One value of the document and where it stands."""

    key: Key | None
    """``None`` for the document itself; a line's number for a line of a text."""
    value: Any
    depth: int
    parent: Node | None = None
    open: bool = False
    piece: bool = False
    """Whether it is a line of its parent, a text."""
    children: list[Node] | None = field(default=None, repr=False)

    @property
    def folds(self) -> bool:
        """Whether anything stands below it."""
        value = self.value
        if self.piece:
            return False
        return (
            bool(value)
            if isinstance(value, (dict, list))
            else isinstance(value, str) and "\n" in value.rstrip("\n")
        )

    @property
    def path(self) -> Path:
        """The keys that lead to it, those of the lines of a text not."""
        keys: list[Key] = []
        node: Node | None = self
        while node is not None and node.parent is not None:
            if not node.piece and node.key is not None:
                keys.append(node.key)
            node = node.parent
        return tuple(reversed(keys))

    def below(self) -> list[Node]:
        """What stands directly below it."""
        if self.children is None:
            value, depth = self.value, self.depth + 1
            if self.piece:
                self.children = []
            elif isinstance(value, dict):
                self.children = [Node(str(key), one, depth, self) for key, one in value.items()]
            elif isinstance(value, list):
                self.children = [Node(index, one, depth, self) for index, one in enumerate(value)]
            elif self.folds:
                lines = value.rstrip("\n").split("\n")
                self.children = [Node(index, one, depth, self, piece=True) for index, one in enumerate(lines)]
            else:
                self.children = []
        return self.children

    def shown(self) -> Iterator[Node]:
        """It and what is unfolded below it, in order."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            if node.open:
                stack += reversed(node.below())


def spoken_path(path: Path) -> str:
    """A path as ``envelope.criteria[1]["a b"]``; empty for the document itself."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        elif _PLAIN.fullmatch(key):
            text += f".{key}" if text else key
        else:
            text += f"[{json.dumps(key, ensure_ascii=False)}]"
    return text


def scalar(value: Any) -> str:
    """A value that holds no others, as it stands in the file."""
    return json.dumps(value, ensure_ascii=False)


class Tree:
    """The rows of a document: what is unfolded, in order."""

    def __init__(self, value: Any) -> None:
        self.root = Node(None, value, -1, open=True)
        self.rows: list[Node] = []
        self._unfold_first()
        self._list()

    def _unfold_first(self) -> None:
        """Unfold level by level while there is room on a screen; no text of many lines, no list in a list."""
        level = [self.root]
        count = len(self.root.below())
        while level:
            below = [
                node
                for parent in level
                for node in parent.below()
                if isinstance(node.value, (dict, list)) and node.folds
            ]
            more = sum(len(node.value) for node in below)
            if not below or count + more > FIRST_ROWS:
                return
            for node in below:
                node.open = True
            count, level = count + more, below

    def _list(self) -> None:
        rows = list(self.root.shown())[1:]
        # A document that holds nothing below it is a row of its own.
        self.rows = rows or [self.root]

    def __len__(self) -> int:
        return len(self.rows)

    def toggle(self, index: int) -> int:
        """Fold or unfold the row ``index``; of what does not fold, its parent is folded. Where one is then."""
        node = self.rows[index]
        if not node.folds or node is self.root:
            parent = node.parent
            if parent is None or parent is self.root:
                return index
            parent.open = False
            self._list()
            return self.rows.index(parent)
        if node.open:
            last = index + sum(1 for _ in node.shown())
            del self.rows[index + 1 : last]
            node.open = False
        elif len(self.rows) + len(node.below()) <= MOST_ROWS:
            node.open = True
            self.rows[index + 1 : index + 1] = list(node.shown())[1:]
        return index

    def toggle_all(self, index: int) -> int:
        """Fold everything that is unfolded, else unfold everything, as far as it fits. Where one is then."""
        here = self.rows[index]
        if any(node.open for node in self.rows):
            for node in self.rows:
                node.open = False
            while here.depth > 0 and here.parent is not None:
                here = here.parent
        else:
            count, waiting = len(self.rows), list(self.root.below())
            while waiting and count <= MOST_ROWS:
                node = waiting.pop()
                if node.folds and count + len(node.below()) <= MOST_ROWS:
                    node.open = True
                    count += len(node.below())
                    waiting += node.below()
        self._list()
        return self.rows.index(here)

    def reveal(self, path: Path, line: int | None = None) -> int:
        """The row of what stands at ``path``, unfolded as far as it takes; of a text one of its lines."""
        node = self.root
        changed = False
        for key in path:
            if not node.open:
                node.open = changed = True
            below = node.below()
            if isinstance(key, int) and key < len(below):
                node = below[key]
            else:
                node = next((one for one in below if one.key == key), node)
        if line is not None and node.folds:
            if not node.open:
                node.open = changed = True
            node = node.below()[min(line, len(node.below()) - 1)]
        if changed:
            self._list()
        return self.rows.index(node) if node is not self.root or self.rows == [self.root] else 0

    def row_of(self, path: Path, line: int | None = None) -> int:
        """The row of what stands at ``path``, of a text one of its lines; -1 where it is folded away."""
        node = self.root
        for key in path:
            if not node.open:
                return -1
            node = next((one for one in node.below() if one.key == key), node)
        if line is not None:
            if not node.open:
                return -1
            node = node.below()[min(line, len(node.below()) - 1)]
        try:
            return self.rows.index(node)
        except ValueError:
            return -1


Match = tuple[Path, int | None, int]
"""A path, of a text of many lines the line, and the how manieth match there."""


def find(
    value: Any, needle: Needle, row_of: Callable[[Key | None, Any], str], stop: Callable[[], bool]
) -> Iterator[Match]:
    """The matches in every row ``value`` has when all is unfolded, in order; ``row_of`` says what a row shows."""
    waiting: list[tuple[Path, Key | None, Any]] = [((), None, value)]
    count = 0
    while waiting:
        count += 1
        if count % 512 == 0 and stop():
            return
        path, key, one = waiting.pop()
        many = isinstance(one, str) and "\n" in one.rstrip("\n")
        holds = many or (isinstance(one, (dict, list)) and bool(one))
        if path or not holds:
            for ordinal, _span in enumerate(needle.spans(row_of(key, one))):
                yield path, None, ordinal
        if many:
            for number, text in enumerate(one.rstrip("\n").split("\n")):
                for ordinal, _span in enumerate(needle.spans(text)):
                    yield path, number, ordinal
        elif isinstance(one, dict):
            waiting += [((*path, str(name)), str(name), below) for name, below in reversed(one.items())]
        elif isinstance(one, list):
            waiting += [((*path, at), at, one[at]) for at in range(len(one) - 1, -1, -1)]
