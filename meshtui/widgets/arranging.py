"""Which rows of a list are shown, and in what order: pure, and no more work than what changed asks for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Generic, Protocol, TypeVar

from meshtui.filters import Fields, Filter, parse

AGAIN_MS = 1000
"""How often a filter by age is asked anew, at most."""
SHARE = 20
"""Asking it anew takes at most this part of the time."""


class Sortable(Protocol):
    """A column as far as sorting goes."""

    @property
    def title(self) -> str: ...
    @property
    def by(self) -> Callable[[Any, int], Any] | None: ...
    @property
    def high_first(self) -> bool: ...
    @property
    def own_order(self) -> bool: ...


class Keyed(Protocol):
    """Something with a key of its own."""

    @property
    def key(self) -> str: ...


R = TypeVar("R", bound=Keyed)


@dataclass(frozen=True, slots=True)
class Order:
    """A column to sort by."""

    title: str
    down: bool = False
    """Highest first."""
    by: Callable[[Any, int], Any] | None = field(default=None, compare=False, repr=False)
    """The column's own."""

    @property
    def arrow(self) -> str:
        """How the head shows it."""
        return "▼" if self.down else "▲"

    @classmethod
    def after(cls, order: Order | None, columns: Sequence[Sortable]) -> Order | None:
        """The next one: each column as it is mostly wanted, then turned round, at last the list's own."""
        ways: list[Order | None] = [None]
        for column in columns:
            if column.by is not None:
                ways += [cls._of(column), cls._of(column, turned=True)]
        # The column it is sorted by may be hidden for want of width: then from the beginning.
        at = ways.index(order) if order in ways else 0
        return ways[(at + 1) % len(ways)]

    @classmethod
    def _of(cls, column: Sortable, *, turned: bool = False) -> Order:
        return cls(column.title, column.high_first is not turned, column.by)

    @classmethod
    def clicked(cls, order: Order | None, column: Sortable) -> Order | None:
        """What a click on the head of ``column`` makes of ``order``."""
        if column.by is None:
            return None if column.own_order else order
        first = cls._of(column)
        if order == first:
            return cls._of(column, turned=True)
        return None if order is not None and order.title == column.title else first


class Arranger(Generic[R]):
    """A filter and an order, and what they made of the rows last time."""

    def __init__(self, fields: Fields) -> None:
        self.order: Order | None = None
        self.filter: Filter = parse("", fields)
        self._known: dict[str, tuple[R, bool]] = {}
        """What the filter said of rows, which never change: only new ones are asked about."""
        self._asked_at = 0
        self._cost_ms = 0.0

    def narrow(self, made: Filter) -> None:
        """Take another filter."""
        self.filter = made
        self._known = {}

    def due(self, now: int) -> bool:
        """Whether time alone may have changed what the filter means, and it may be asked again."""
        waits = max(AGAIN_MS, self._cost_ms * SHARE)
        return self.filter.timed and bool(self.filter) and now - self._asked_at >= waits

    def arrange(self, rows: tuple[R, ...], now: int) -> tuple[tuple[R, ...], Sequence[int] | None]:
        """The rows to show, and the place of each among ``rows``; ``None`` where all stand as they are."""
        order = self.order
        if not self.filter and order is None:
            return rows, None
        places: Sequence[int] = self._matching(rows, now) if self.filter else range(len(rows))
        if order is not None and order.by is not None:
            places = sort(rows, places, order.by, now, down=order.down)
        return tuple([rows[place] for place in places]), places

    def _matching(self, rows: tuple[R, ...], now: int) -> list[int]:
        start = time.perf_counter()
        matches, timed = self.filter.matches, self.filter.timed
        known, fresh = self._known, dict[str, tuple[R, bool]]()
        places: list[int] = []
        for place, row in enumerate(rows):
            key = row.key
            said = None if timed else known.get(key)
            if said is None or said[0] is not row:
                said = (row, matches(row, now))
            if not timed:
                fresh[key] = said
            if said[1]:
                places.append(place)
        self._known, self._asked_at = fresh, now
        self._cost_ms = (time.perf_counter() - start) * 1000
        return places


def sort(
    rows: Sequence[Any], places: Sequence[int], by: Callable[[Any, int], Any], now: int, *, down: bool
) -> list[int]:
    """``places`` in the order of what ``by`` says of their rows; those without it stay last, as they were."""
    keyed = [(by(rows[place], now), place) for place in places]
    with_key = [pair for pair in keyed if pair[0] is not None]
    with_key.sort(key=itemgetter(0), reverse=down)
    return [place for _key, place in with_key] + [place for key, place in keyed if key is None]
