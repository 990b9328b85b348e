"""What a text pane shows: lines by number, of any length, that may be searched, followed and folded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from meshtui.reading.needle import Needle
from meshtui.widgets.lines import TextLine
from meshtui.widgets.paint import Line

Place = tuple[int, int]
"""A line and the how manieth match in it."""


class Document:
    """A text of lines. Only :meth:`search` and :meth:`work` are called from another thread."""

    pointed: bool = False
    """Whether a row is pointed at, to open or fold what it stands for."""
    foldable: bool = False
    """Whether its lines fold."""
    grows: bool = False
    """Whether it may be followed at its end."""
    jumps: bool = False
    """Whether it has parts to jump between."""

    title: str = ""
    """Stands in the border while it is opened over a part of the details."""
    path: Path | None = None
    """The file it shows."""

    def fit(self, width: int) -> bool:
        """Make the lines for ``width`` cells; whether they changed."""
        return False

    def __len__(self) -> int:
        raise NotImplementedError

    def line(self, index: int) -> TextLine:
        """One line; raises ``IndexError``."""
        raise NotImplementedError

    def shape(self, index: int) -> TextLine:
        """One line, not necessarily in its colours: for what only its text matters to."""
        return self.line(index)

    def texts(self, first: int, last: int) -> Iterator[str]:
        """The lines ``first`` to ``last`` as they are copied."""
        for index in range(max(0, first), min(last + 1, len(self))):
            yield self.shape(index).text

    def start(self) -> int:
        """The line that is pointed at first."""
        return 0

    def prepare(self) -> None:
        """Read what is cheap to read before it is shown first."""

    def work(self, wants_end: bool) -> bool:
        """In the thread: look whether there is more; whether anything changed."""
        return False

    def take(self) -> int:
        """Take over what :meth:`work` found; by how many lines everything moved down."""
        return 0

    def note(self) -> str:
        """What is to be known of it now, in few words."""
        return ""

    def search(self, needle: Needle, stop: Callable[[], bool], since: object = None) -> Iterator[object]:
        """In the thread: the matches in order, in the document's own terms, those after ``since``."""
        for index in range(len(self)):
            if index % 256 == 0 and stop():
                return
            try:
                text = self.shape(index).text
            except IndexError:
                # It became shorter meanwhile; then it is searched anew.
                return
            for ordinal, _span in enumerate(needle.spans(text)):
                yield index, ordinal

    def reveal(self, hit: object) -> Place:
        """Where a match stands now, unfolded if it was folded."""
        assert isinstance(hit, tuple)
        return hit

    def stands(self, hit: object) -> Place:
        """Where a match stands as things are; a line below 0 where it is folded away."""
        return self.reveal(hit)

    def reveals_later(self, hit: object, index: int) -> bool:
        """Whether a match stands in line ``index`` or below."""
        return self.reveal(hit)[0] >= index

    def jump(self, index: int, by: int, big: bool) -> int | None:
        """The next part after line ``index``, or the one before; ``big`` skips small ones."""
        return None

    def crumb(self, index: int) -> str:
        """Where line ``index`` stands, as a path."""
        return ""

    def copied(self, index: int) -> str | None:
        """What line ``index`` stands for, to copy."""
        return None

    def folds(self, index: int) -> bool:
        """Whether line ``index`` stands for something that folds."""
        return False

    def fold(self, index: int) -> int | None:
        """Fold or unfold what line ``index`` stands for, and where it is then; ``None`` if it does not fold."""
        return None

    def fold_all(self, index: int) -> int | None:
        """Fold everything, or unfold it; where line ``index`` is then."""
        return None

    def like(self, other: Document) -> bool:
        """Whether ``other`` shows the same thing somewhat later, so that one stays where one is."""
        return False

    def close(self) -> None:
        """Let go of files."""


class Lines(Document):
    """Lines that are there already."""

    def __init__(self, lines: Sequence[TextLine]) -> None:
        self.lines = lines

    def __len__(self) -> int:
        return len(self.lines)

    def line(self, index: int) -> TextLine:
        return self.lines[index]


def heading(text: str) -> Lines:
    """A line between two parts."""
    line: Line = ((f"── {text}", "muted"),)
    return Lines([TextLine(line)])


class Chain(Document):
    """Documents one below the other."""

    def __init__(self, parts: Sequence[Document], *, path: Path | None = None, title: str = "") -> None:
        self.parts = tuple(parts)
        self.path = path
        self.title = title
        self.grows = any(part.grows for part in self.parts)
        self._starts: list[int] = []
        self._measure()

    def _measure(self) -> None:
        starts = [0]
        for part in self.parts:
            starts.append(starts[-1] + len(part))
        self._starts = starts

    def _find(self, index: int) -> tuple[int, int]:
        for number in range(len(self.parts)):
            if index < self._starts[number + 1]:
                return number, index - self._starts[number]
        raise IndexError(index)

    def fit(self, width: int) -> bool:
        changed = sum(part.fit(width) for part in self.parts) > 0  # each of them, not only the first
        self._measure()
        return changed

    def __len__(self) -> int:
        return self._starts[-1]

    def line(self, index: int) -> TextLine:
        number, rest = self._find(index)
        return self.parts[number].line(rest)

    def shape(self, index: int) -> TextLine:
        number, rest = self._find(index)
        return self.parts[number].shape(rest)

    def prepare(self) -> None:
        for part in self.parts:
            part.prepare()
        self._measure()

    def work(self, wants_end: bool) -> bool:
        return sum(part.work(wants_end) for part in self.parts) > 0

    def take(self) -> int:
        moved = sum(part.take() for part in self.parts)
        self._measure()
        return moved

    def note(self) -> str:
        return next((text for part in self.parts if (text := part.note())), "")

    def search(self, needle: Needle, stop: Callable[[], bool], since: object = None) -> Iterator[object]:
        first, inner = since if isinstance(since, tuple) else (0, None)
        for number, part in enumerate(self.parts):
            if number >= first:
                for hit in part.search(needle, stop, inner if number == first else None):
                    yield number, hit

    def reveal(self, hit: object) -> Place:
        assert isinstance(hit, tuple)
        number, inner = hit
        line, ordinal = self.parts[number].reveal(inner)
        return self._starts[number] + line, ordinal

    def like(self, other: Document) -> bool:
        return isinstance(other, Chain) and other.title == self.title

    def close(self) -> None:
        for part in self.parts:
            part.close()
