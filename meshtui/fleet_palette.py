"""The palette's entries in a console of several lanes: every lane, item, loop and envelope by name, and a jump there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from meshtui.commands import PLACE
from meshtui.core.fleet import FleetView, records_in
from meshtui.core.models.names import RecordName
from meshtui.palette import MOST, STEP
from meshtui.status import attention_mark, loop_mark, summary_mark
from meshtui.text import clean, number


class FleetConsole(Protocol):
    """The app, as far as going to a lane is concerned."""

    @property
    def fleet_view(self) -> FleetView | None: ...
    def open_lane(self, root: Path, *, key: str | None = None) -> None: ...


class Place(NamedTuple):
    """Something in one of the lanes."""

    name: str
    searched: str
    """The name with its lane, case-folded."""
    about: str
    run_dir: Path
    key: str | None = None
    """The record or loop; ``None`` for the lane itself."""


def places_of(view: FleetView) -> Iterator[Place]:
    """What the view of all lanes holds by name: lanes, what needs somebody, loops."""
    for lane in view.lanes:
        name = clean(lane.name)
        yield Place(name, name.casefold(), f"Open this {summary_mark(lane).word} lane", lane.run_dir)
    for need in view.needs:
        what = f"{clean(need.lane)} · {clean(need.item.subject)}"
        word = attention_mark(need.item).word
        yield Place(what, f"{what} {word}".casefold(), f"Go to what is {word}", need.run_dir, need.item.key)
    for lane in view.lanes:
        for mission in lane.missions:
            for loop in mission.loops:
                what = f"{clean(lane.name)} · {clean(loop.key)}"
                word = loop_mark(loop).word
                searched = f"{what} {loop.title} {word}".casefold()
                yield Place(what, searched, f"Go to this {word} loop", lane.run_dir, loop.key)


def records_of(view: FleetView) -> list[Place]:
    """The records of all lanes; lists their folders, so it is for a thread."""
    found = []
    for lane in view.lanes:
        if not lane.exists or lane.problem is not None:
            continue
        name = clean(lane.name)
        for section, record in records_in(lane.run_dir):
            parts = RecordName.parse(record)
            if parts is not None:
                what = f"{name} · {clean(parts.safe)}"
                word = {"done": "finished", "stalled": "parked"}.get(section, section)
                found.append(
                    Place(what, what.casefold(), f"Go to this {word} envelope", lane.run_dir, record)
                )
    return found


class FleetPlaces(Provider):
    """Offered in the fleet, and in everything that is opened from it."""

    _records: list[Place] | None = None

    @property
    def _console(self) -> FleetConsole:
        return cast("FleetConsole", self.app)

    async def discover(self) -> Hits:
        view = self._console.fleet_view
        for lane in view.lanes[:5] if view is not None else ():
            yield DiscoveryHit(
                clean(lane.name),
                partial(self._console.open_lane, lane.run_dir),
                help=f"Open this {summary_mark(lane).word} lane",
            )

    async def search(self, query: str) -> Hits:
        view, words = self._console.fleet_view, query.casefold().split()
        if view is None or not words:
            return
        # What is in the lane that is looked at is offered as such.
        shown = getattr(self.screen, "run_dir", None)
        view = replace(
            view,
            lanes=tuple(lane for lane in view.lanes if lane.run_dir != shown),
            needs=tuple(need for need in view.needs if need.run_dir != shown),
        )
        for hit in self._hits([one for one in places_of(view) if _holds(one, words)], words):
            yield hit
        if self._records is None:
            # Once while the palette is open: what comes meanwhile is found the next time.
            self._records = await asyncio.to_thread(records_of, view)
        found: list[Place] = []
        for start in range(0, len(self._records), STEP):
            found += [one for one in self._records[start : start + STEP] if _holds(one, words)]
            await asyncio.sleep(0)
        for hit in self._hits(found, words):
            yield hit

    def _hits(self, found: list[Place], words: list[str]) -> Iterable[Hit]:
        """The best of ``found``; the last of them tells how many more there are."""
        found.sort(key=lambda one: -_score(one, words))
        left = len(found) - MOST
        for at, place in enumerate(found[:MOST], start=1):
            about = f"{place.about}; {number(left)} more match" if left > 0 and at == MOST else place.about
            go = partial(self._console.open_lane, place.run_dir, key=place.key)
            yield Hit(_score(place, words), self._lit(place.name, words), go, place.name, about)

    def _lit(self, text: str, words: list[str]) -> Content:
        content, folded, style = Content(text), text.casefold(), self.match_style
        for word in words:
            at = folded.find(word)
            if at >= 0 and style is not None and len(folded) == len(text):
                content = content.stylize(style, at, at + len(word))
        return content


def _holds(place: Place, words: list[str]) -> bool:
    return all(word in place.searched for word in words)


def _score(place: Place, words: list[str]) -> float:
    """Whole and early is best; a lane comes before what is in it."""
    first = place.searched.find(words[0])
    begins = first == 0 or not place.searched[first - 1].isalnum()
    near = min(1.0, len(words[0]) / max(1, len(place.name)))
    return PLACE + 0.3 + 0.2 * (place.key is None) + 0.3 * begins + 0.2 * near
