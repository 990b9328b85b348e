"""The palette's entries beside the actions: every envelope, loop and file by its name, and a jump there.

Names are looked through in plain steps, and only the best of what is found is scored, so that a queue of
50,000 records is answered while somebody types.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from meshtui.commands import PLACE
from meshtui.core.view import SECTIONS, LaneView, Row
from meshtui.status import loop_mark, row_mark
from meshtui.text import clean, number

if TYPE_CHECKING:
    from meshtui.screens.lane import LaneScreen

MOST = 40
"""The entries of one kind that are offered at once."""
STEP = 4000
"""The names that are looked at before the screen may draw again."""

RECORD_FILES = (
    ("envelope", "envelope", ("envelope.json", "record")),
    ("output", "output", ("stdout.log", "stderr.log", "log", "call")),
    ("result", "result", ("result.json",)),
    ("handoff", "handoff", ("handoff.json", "handoff.md")),
)
LOOP_FILES = (
    ("state", "state", ("loop-state.json", "budget")),
    ("diff", "diff", ("patch", "changes")),
    ("gates", "gates", ("gate",)),
    ("proof", "proof", ("loop-proof.json",)),
    ("findings", "findings", ("checker", "review")),
    ("log", "log", ("loop-run-log.jsonl", "output")),
)
"""The part of the details, what it is called, and other words for it."""


class Named(NamedTuple):
    """Something with a name to jump to."""

    name: str
    searched: str
    """The name, case-folded, with what else it is found by."""
    key: str
    what: str
    files: tuple[tuple[str, str, tuple[str, ...]], ...]


def _record(row: Row) -> Named:
    title = row.title if row.title == row.envelope_id else f"{row.title} · {row.envelope_id}"
    word = row_mark(row).word
    return Named(clean(title), f"{title} {word}".casefold(), row.key, f"{word} envelope", _files_of(row))


def _files_of(row: Row) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    if row.section in ("pending", "withdrawn", "quarantined"):
        return RECORD_FILES[:1]
    return RECORD_FILES[:2] if row.section == "active" else RECORD_FILES


class Index:
    """The records' names of a view, made once for each list, a few at a time."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[tuple[Row, ...], list[Named]]] = {}

    async def names(self, rows: tuple[Row, ...], section: str) -> list[Named]:
        """The names of ``rows``, the list ``section``."""
        kept = self._made.get(section)
        if kept is None or kept[0] is not rows:
            made: list[Named] = []
            for start in range(0, len(rows), STEP):
                made += [_record(row) for row in rows[start : start + STEP]]
                await asyncio.sleep(0)
            kept = self._made[section] = (rows, made)
        return kept[1]


def loops_of(view: LaneView) -> list[Named]:
    """The loops' names, newest mission first."""
    found = []
    for mission in reversed(view.missions):
        for loop in mission.loops:
            text = f"{loop.key} {loop.title} {loop_mark(loop).word}".casefold()
            found.append(
                Named(
                    clean(loop.key),
                    text,
                    loop.key,
                    f"{loop_mark(loop).word} loop · {clean(loop.title)}",
                    LOOP_FILES,
                )
            )
    return found


def split(query: str, files: Iterable[tuple[str, str, tuple[str, ...]]]) -> tuple[list[str], set[str]]:
    """The words of ``query`` that are part of a name, and the parts that its other words mean."""
    words, parts = [], set[str]()
    for word in query.casefold().split():
        meant = {part for part, title, also in files if _means(word, (title, *also))}
        if meant:
            parts |= meant
        else:
            words.append(word)
    return words, parts


def _means(word: str, names: tuple[str, ...]) -> bool:
    """Whether ``word`` is the beginning of one of ``names``; one letter says nothing."""
    return len(word) >= 3 and any(name.startswith(word) for name in names)


def score(named: Named, words: list[str]) -> float:
    """How well a name that holds all ``words`` fits: whole and early is best."""
    if not words:
        return PLACE + 0.5
    name = named.searched
    first = name.find(words[0])
    begins = first == 0 or not name[first - 1].isalnum()
    return PLACE + 0.5 + 0.3 * begins + 0.2 * min(1.0, len(words[0]) / max(1, len(named.name)))


class Places(Provider):
    """Envelopes, loops and their files of the lane that is looked at."""

    _index: Index | None = None

    @property
    def _lane(self) -> LaneScreen | None:
        """The lane that is looked at, or that an inbox was opened over."""
        from meshtui.screens.lane import LaneScreen

        lanes = [screen for screen in self.app.screen_stack if isinstance(screen, LaneScreen)]
        return lanes[-1] if lanes else None

    async def discover(self) -> Hits:
        lane = self._lane
        view = lane.view if lane is not None else None
        if lane is None or view is None:
            return
        for row in (*view.active, *view.stalled)[:3]:
            named = _record(row)
            yield DiscoveryHit(
                named.name, partial(go, lane, named.key, None), help=f"Go to this {named.what}"
            )

    async def search(self, query: str) -> Hits:
        lane = self._lane
        view = lane.view if lane is not None else None
        if lane is None or view is None or not query.strip():
            return
        if self._index is None:
            self._index = Index()
        words, parts = split(query, RECORD_FILES)
        for section in SECTIONS:
            names = await self._index.names(view.rows(section), section)
            for hit in await self._found(lane, names, query.casefold().split(), words, parts):
                yield hit
        words, parts = split(query, LOOP_FILES)
        for hit in await self._found(lane, loops_of(view), query.casefold().split(), words, parts):
            yield hit

    async def _found(
        self, lane: LaneScreen, names: list[Named], all_words: list[str], words: list[str], parts: set[str]
    ) -> list[Hit]:
        """Hits among ``names``: those with all words in the name, and files of those with the rest of them."""
        whole: list[Named] = []
        of_files: list[Named] = []
        for start in range(0, len(names), STEP):
            for named in names[start : start + STEP]:
                text = named.searched
                if all(word in text for word in all_words):
                    whole.append(named)
                elif parts and all(word in text for word in words):
                    of_files.append(named)
            await asyncio.sleep(0)
        return self._hits(lane, whole, all_words, set()) + self._hits(lane, of_files, words, parts)

    def _hits(self, lane: LaneScreen, found: list[Named], words: list[str], parts: set[str]) -> list[Hit]:
        found.sort(key=lambda named: -score(named, words))
        hits: list[Hit] = []
        left = len(found) - MOST
        for named in found[:MOST]:
            good = score(named, words)
            if not parts:
                hits.append(self._hit(lane, good, named, None, f"Go to this {named.what}", words))
                continue
            hits += [
                self._hit(lane, good - 0.05, named, part, f"Show the {title} of this {named.what}", words)
                for part, title, _also in named.files
                if part in parts
            ]
        if left > 0 and hits:
            last = hits[-1]
            hits[-1] = Hit(
                last.score,
                last.match_display,
                last.command,
                last.text,
                f"{last.help}; {number(left)} more match",
            )
        return hits

    def _hit(
        self, lane: LaneScreen, good: float, named: Named, part: str | None, about: str, words: list[str]
    ) -> Hit:
        shown = named.name if part is None else f"{named.name} · {part}"
        return Hit(good, self._lit(shown, words), partial(go, lane, named.key, part), shown, about)

    def _lit(self, text: str, words: list[str]) -> Content:
        """``text`` with what was looked for standing out."""
        content, folded = Content(text), text.casefold()
        style = self.match_style
        for word in words:
            at = folded.find(word)
            if at >= 0 and style is not None and len(folded) == len(text):
                content = content.stylize(style, at, at + len(word))
        return content


def go(lane: LaneScreen, key: str, part: str | None) -> None:
    """Select the record or loop ``key``, and open a part of its details."""
    from meshtui.screens.inbox import InboxScreen

    if isinstance(lane.app.screen, InboxScreen):
        lane.app.pop_screen()
    if not lane.show_key(key):
        lane.tell("It is not listed any more", "warning")
        return
    lane.focus_list()
    if part is not None:
        lane.pane.choose(part)
        lane.open_details()
