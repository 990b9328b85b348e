"""Which lists there are and the titles of their columns, for those who choose among them."""

from __future__ import annotations

from collections.abc import Sequence

from meshtui.widgets import fleet, inbox, loops
from meshtui.widgets.columns import COLUMNS, Column


def titles_by_list() -> dict[str, tuple[str, ...]]:
    """The titles of the columns of every list, by the list's name."""
    lists: list[tuple[str, Sequence[Column]]] = [
        *COLUMNS.items(),
        ("loops", loops.COLUMNS),
        ("fleet", fleet.COLUMNS),
        ("inbox", inbox.COLUMNS),
    ]
    return {name: tuple(column.title for column in columns) for name, columns in lists}
