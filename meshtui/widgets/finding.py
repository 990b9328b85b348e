"""Searching in a text pane: live, in a thread, with what is found marked and counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from textual.message import Message

from meshtui.reading.needle import MOST_HITS, Needle
from meshtui.reading.pump import Pump
from meshtui.text import number
from meshtui.widgets.paint import Line

if TYPE_CHECKING:
    from textual.widget import Widget

    from meshtui.widgets.document import Document

    _Base = Widget
else:
    _Base = object

Range = tuple[int, int, str]
"""Begin and end, in characters, and the look."""


def overlay(spans: Line, ranges: Iterable[Range]) -> Line:
    """``spans`` with looks laid over parts of them, later ranges over earlier ones."""
    for begin, end, look in ranges:
        shown: list[tuple[str, str]] = []
        at = 0
        for text, under in spans:
            until = at + len(text)
            low, high = max(begin, at) - at, min(end, until) - at
            if low >= high:
                shown.append((text, under))
            else:
                parts = ((text[:low], under), (text[low:high], f"{under} {look}"), (text[high:], under))
                shown += [part for part in parts if part[0]]
            at = until
        spans = tuple(shown)
    return spans


class Worked(Message):
    """There is more of a text."""

    def __init__(self, text: object) -> None:
        super().__init__()
        self.text = text


class Found(Message):
    """Matches were found; ``done`` once those are all for now."""

    def __init__(self, search: int, hits: Sequence[object], done: bool) -> None:
        super().__init__()
        self.search = search
        self.hits = hits
        self.done = done


class Finding(_Base):
    """Mixed into a text pane."""

    doc: Document
    follows: bool

    if TYPE_CHECKING:

        @property
        def top(self) -> tuple[int, int]: ...

        def show_line(self, index: int, *, column: int | None = None) -> None: ...

        def stop_following(self) -> None: ...

        def took_more(self) -> None: ...

        def tell_moved(self) -> None: ...

        def layout_again(self, *, top: bool = False) -> None: ...

        def point(self, index: int) -> None: ...

    def _start_finding(self) -> None:
        self.needle: Needle | None = None
        self.hits: list[object] = []
        self.current = -1
        """Which of the matches was gone to; -1 for none."""
        self.searching = False
        self._search = 0
        self._stay = -1
        """The match that was gone to in the text before, to be kept; -1 for none."""
        self._here: tuple[int, int] | None = None
        """Where the match stands that was gone to; ``None`` until it is worked out again."""
        self._origin: tuple[int, int] = (0, 0)
        self._pump: Pump | None = None

    # The thread

    def feed_pump(self) -> None:
        """Have the thread work for the text that is shown."""
        if not self.is_mounted or getattr(self.app, "still", False):
            return
        if self._pump is None and (self.doc.grows or self.needle is not None):
            self._pump = Pump(self._tell_worked, self._tell_found)
        if self._pump is not None:
            self._pump.show(self.doc, wants_end=self.follows)

    def stop_pump(self) -> None:
        """End the thread."""
        if self._pump is not None:
            self._pump.stop(1.0)

    def _tell_worked(self, text: object) -> None:
        self.post_message(Worked(text))

    def _tell_found(self, search: int, hits: Sequence[object], done: bool) -> None:
        self.post_message(Found(search, tuple(hits), done))

    def on_worked(self, message: Worked) -> None:
        message.stop()
        if message.text is self.doc:
            self.took_more()

    # Searching

    def seek(self, text: str) -> None:
        """Look for ``text``, from where the text stands; an empty one ends the search."""
        if self.needle is None:
            self._origin = self.top
        self.needle = Needle(text) if text else None
        self._begin()

    def seek_again(self, *, stay: bool = False) -> None:
        """Look for the same in another text; ``stay`` moves nothing: it is the same text, somewhat changed."""
        if self.needle is not None:
            self._origin = self.top
            self._begin(self.current if stay else -1)

    def _begin(self, current: int = -1) -> None:
        self.hits, self.current, self._stay, self._here = [], -1, current, None
        self.searching = self.needle is not None
        self.feed_pump()
        if self._pump is not None:
            self._search = self._pump.seek(self.needle)
        elif self.needle is not None:
            # A picture has no thread.
            found = self.doc.search(self.needle, lambda: False)
            self.on_found(Found(self._search, tuple(islice(found, MOST_HITS)), True))
        self.refresh()
        self.tell_moved()

    def on_found(self, message: Found) -> None:
        message.stop()
        if message.search != self._search or self.needle is None:
            return
        self.hits += message.hits
        self.searching = not message.done
        if 0 <= self._stay < len(self.hits):
            self.current, self._stay, self._here = self._stay, -1, None
            self.refresh()
        elif self.current < 0 and self.hits and self._stay < 0:
            self._first_from_here(message)
        self.tell_moved()

    def _first_from_here(self, message: Found) -> None:
        """Go to the first match at or after the place where the search began."""
        start = len(self.hits) - len(message.hits)
        for index in range(start, len(self.hits)):
            if self.doc.reveals_later(self.hits[index], self._origin[0]):
                self.go_to(index)
                return
        if message.done:
            self.go_to(0)

    def go_to(self, index: int) -> None:
        """Go to a match."""
        self.current, self._here = index, None
        folded = len(self.doc)
        line, ordinal = self.doc.reveal(self.hits[index])
        if len(self.doc) != folded:
            self.layout_again()
        spans = self.needle.spans(self.doc.line(line).text) if self.needle is not None else []
        self.stop_following()
        if self.doc.pointed:
            self.point(line)
        self.show_line(line, column=spans[min(ordinal, len(spans) - 1)][0] if spans else 0)
        self.refresh()
        self.tell_moved()

    def action_next_match(self, by: int) -> None:
        if self.hits:
            self.go_to((self.current + by) % len(self.hits) if self.current >= 0 else 0)
        else:
            self.app.bell()

    def count_of_matches(self) -> str:
        """``3 of 17``, in words while they are still looked for, or that there are none."""
        if self.needle is None:
            return ""
        found = len(self.hits)
        if not found:
            return "searching…" if self.searching else "not found"
        total = f"{number(found)}{'+' if found >= MOST_HITS else '…' if self.searching else ''}"
        return f"{number(self.current + 1)} of {total}" if self.current >= 0 else f"{total} found"

    def found_in(self, index: int, text: str) -> list[Range]:
        """What of line ``index`` is found, the match that was gone to apart."""
        if self.needle is None:
            return []
        spans = self.needle.spans(text)
        if not spans:
            return []
        if self._here is None:
            known = 0 <= self.current < len(self.hits)
            self._here = self.doc.stands(self.hits[self.current]) if known else (-1, -1)
        here = self._here
        return [
            (begin, end, "match-now" if (index, ordinal) == here else "match")
            for ordinal, (begin, end) in enumerate(spans)
        ]
