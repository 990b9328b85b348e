"""The loops of a mission as nodes in layers, with edges drawn between them; where it is too narrow, as a tree.

The layout is pure: from rows and a size to lines. An edge leads from what is needed to what needs it, left
to right; edges into the same loop share one vertical line. Where two edges only cross, the vertical one is
drawn through.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len

from meshtui.core.mesh.view import LoopRow
from meshtui.status import loop_mark
from meshtui.text import clean, cut_end, cut_middle, fit
from meshtui.widgets.paint import Line, Span

LEAST_NAME = 8
MOST_NAME = 32
SWEEPS = 6
UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
LIGHT = {
    LEFT | RIGHT: "─", UP | DOWN: "│", DOWN | RIGHT: "┌", DOWN | LEFT: "┐", UP | RIGHT: "└", UP | LEFT: "┘",
    UP | DOWN | RIGHT: "├", UP | DOWN | LEFT: "┤", DOWN | LEFT | RIGHT: "┬", UP | LEFT | RIGHT: "┴",
    UP | DOWN | LEFT | RIGHT: "┼", LEFT: "─", RIGHT: "─", UP: "│", DOWN: "│",
}  # fmt: skip
HEAVY = {
    LEFT | RIGHT: "━", UP | DOWN: "┃", DOWN | RIGHT: "┏", DOWN | LEFT: "┓", UP | RIGHT: "┗", UP | LEFT: "┛",
    UP | DOWN | RIGHT: "┣", UP | DOWN | LEFT: "┫", DOWN | LEFT | RIGHT: "┳", UP | LEFT | RIGHT: "┻",
    UP | DOWN | LEFT | RIGHT: "╋", LEFT: "━", RIGHT: "━", UP: "┃", DOWN: "┃",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Item:
    """One place of a layer: a loop, or the edges into a loop further on, which pass through together."""

    loop: str | None
    into: str | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """Who needs whom, and the layer and order of each."""

    loops: dict[str, LoopRow]
    needs: dict[str, tuple[str, ...]]
    feeds: dict[str, tuple[str, ...]]
    layers: tuple[tuple[Item, ...], ...]

    def place_of(self, name: str) -> tuple[int, int]:
        """Layer and place in it."""
        for layer, items in enumerate(self.layers):
            for place, item in enumerate(items):
                if item.loop == name:
                    return layer, place
        return 0, 0


def graph_of(loops: Sequence[LoopRow]) -> Graph:
    """The graph of ``loops``; what needs itself, however far round, is drawn as if it did not."""
    known = {row.loop_id: row for row in loops}
    needs: dict[str, tuple[str, ...]] = dict.fromkeys(known, ())
    depth: dict[str, int] = {}

    def settle(name: str, above: tuple[str, ...]) -> int:
        if name in depth:
            return depth[name]
        mine = [
            other
            for other in dict.fromkeys(known[name].dependencies)
            if other in known and other != name and other not in above
        ]
        level = max((settle(other, (*above, name)) + 1 for other in mine), default=0)
        if name not in depth:
            needs[name], depth[name] = tuple(mine), level
        return depth[name]

    for name in known:
        settle(name, ())
    # What a cycle left: an edge that does not lead to a later layer is not drawn.
    needs = {name: tuple(one for one in mine if depth[one] < depth[name]) for name, mine in needs.items()}
    feeds: dict[str, list[str]] = {name: [] for name in known}
    for name, mine in needs.items():
        for other in mine:
            feeds[other].append(name)
    layers: list[list[Item]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name in known:
        layers[depth[name]].append(Item(name))
    for name, mine in needs.items():
        first = min((depth[other] for other in mine), default=depth[name])
        for level in range(first + 1, depth[name]):
            layers[level].append(Item(None, name))
    ordered = _ordered(layers, needs, depth)
    return Graph(known, needs, {name: tuple(found) for name, found in feeds.items()}, ordered)


def _ordered(
    layers: list[list[Item]], needs: Mapping[str, tuple[str, ...]], depth: Mapping[str, int]
) -> tuple[tuple[Item, ...], ...]:
    """The layers in an order with few crossings: each item near the middle of what it is joined to."""
    before: dict[Item, list[Item]] = {item: [] for items in layers for item in items}
    after: dict[Item, list[Item]] = {item: [] for items in layers for item in items}
    for name, mine in needs.items():
        for other in mine:
            chain = [Item(other), *[Item(None, name)] * (depth[name] - depth[other] - 1), Item(name)]
            # What passes through is the same item in each layer.
            for first, second in itertools.pairwise(chain):
                after[first].append(second)
                before[second].append(first)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        order = range(1, len(layers)) if down else range(len(layers) - 2, -1, -1)
        joined = before if down else after
        for level in order:
            near = {item: place for place, item in enumerate(layers[level - 1 if down else level + 1])}
            spread = max(1, len(near)) / max(1, len(layers[level]))

            def middle(
                pair: tuple[int, Item],
                near: Mapping[Item, int] = near,
                joined: Mapping[Item, list[Item]] = joined,
                spread: float = spread,
            ) -> tuple[float, int]:
                places = [near[item] for item in joined[pair[1]] if item in near]
                return (sum(places) / len(places) if places else pair[0] * spread, pair[0])

            layers[level] = [item for _, item in sorted(enumerate(layers[level]), key=middle)]
    return tuple(tuple(items) for items in layers)


# -- drawing ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Drawing:
    """The lines, and the line of each loop."""

    lines: tuple[Line, ...]
    at: dict[str, int]
    layered: bool


@dataclass(slots=True)
class _Cell:
    up_down: dict[str, int] = field(default_factory=dict)
    """By the loop whose edges they are, the bits of vertical lines."""
    left_right: dict[str, int] = field(default_factory=dict)
    heavy: bool = False
    chosen: bool = False


def draw(graph: Graph, width: int, height: int, *, chosen: str | None, critical: Sequence[str]) -> Drawing:
    """The graph in layers, or as a tree where those do not fit into ``width`` cells."""
    if not graph.loops:
        return Drawing(((("  This mission has no loops.", "muted"),),), {}, True)
    layout = _Layout(graph, width, height, tuple(critical))
    return layout.draw(chosen) if layout.fits else tree(graph, width, chosen=chosen, critical=critical)


class _Layout:
    """Where everything of a layered graph stands."""

    def __init__(self, graph: Graph, width: int, height: int, critical: tuple[str, ...]) -> None:
        self.graph = graph
        self.critical = critical
        self.chain = set(itertools.pairwise(critical))
        tallest = max(len(items) for items in graph.layers)
        self.step = 2 if tallest * 2 - 1 <= height else 1
        self.rows = (tallest - 1) * self.step + 1
        self.word = max(cell_len(loop_mark(row).word) for row in graph.loops.values())
        self.depth = {
            item.loop: level
            for level, items in enumerate(graph.layers)
            for item in items
            if item.loop is not None
        }
        self.y = [self._heights(items, tallest) for items in graph.layers]
        self.channels = [self._channels(level) for level in range(len(graph.layers) - 1)]
        gaps = sum(3 + max(1, self._count(level)) for level in range(len(graph.layers) - 1))
        names = [self._longest(items) for items in graph.layers]
        # A mark for the critical path and the chosen one, a glyph, a word, and the spaces between them.
        fixed = 2 + 2 + self.word + 1
        room = width - gaps - sum(fixed if longest else 0 for longest in names)
        self.names = _shared(names, room)
        self.fits = all(
            cell >= min(LEAST_NAME, longest) for cell, longest in zip(self.names, names, strict=True)
        )
        self.widths = [fixed + cells if cells else 3 for cells in self.names]

    def _longest(self, items: Sequence[Item]) -> int:
        return min(MOST_NAME, max((cell_len(clean(item.loop)) for item in items if item.loop), default=0))

    def _heights(self, items: Sequence[Item], tallest: int) -> list[int]:
        """The line of each item of a layer, the layer in the middle of the tallest."""
        start = (tallest - len(items)) * self.step // 2
        return [start + place * self.step for place in range(len(items))]

    def _through(self, level: int, into: str) -> frozenset[str]:
        """The loops whose edges into ``into`` pass through ``level``."""
        return frozenset(other for other in self.graph.needs[into] if self.depth[other] < level)

    def _edges(self, level: int) -> Iterator[tuple[int, int, frozenset[str], str]]:
        """The parts of edges between a layer and the next: lines, the loops they come from, where they lead."""
        here = dict(zip(self.graph.layers[level], self.y[level], strict=True))
        for item, y in zip(self.graph.layers[level + 1], self.y[level + 1], strict=True):
            into = item.loop or item.into or ""
            for other in self.graph.needs[into]:
                source = here.get(Item(other))
                if source is not None:
                    yield source, y, frozenset((other,)), into
            source = here.get(Item(None, into))
            if source is not None:
                yield source, y, self._through(level, into), into

    def _heavy(self, names: frozenset[str], into: str) -> bool:
        return any((name, into) in self.chain for name in names)

    def _channels(self, level: int) -> dict[tuple[int, str], int]:
        """The column of the vertical line into each place of the next layer that needs one."""
        spans: dict[tuple[int, str], list[int]] = {}
        for source, target, _, name in self._edges(level):
            spans.setdefault((target, name), [target]).append(source)
        free: list[list[tuple[int, int]]] = []
        found: dict[tuple[int, str], int] = {}
        bent = {key: (min(ends), max(ends)) for key, ends in spans.items() if min(ends) != max(ends)}
        # What leaves a line should bend before what arrives at it: those that rise come last.
        for key, span in sorted(bent.items(), key=lambda item: (item[0][0] - item[1][0], item[1])):
            for column, taken in enumerate(free):
                if all(span[1] < low or high < span[0] for low, high in taken):
                    taken.append(span)
                    found[key] = column
                    break
            else:
                found[key] = len(free)
                free.append([span])
        return found

    def _count(self, level: int) -> int:
        return max(self.channels[level].values(), default=0) + 1

    def draw(self, chosen: str | None) -> Drawing:
        """The lines."""
        rows: list[list[Span]] = [[] for _ in range(self.rows)]
        at: dict[str, int] = {}
        for level, items in enumerate(self.graph.layers):
            filled = dict(zip(self.y[level], items, strict=True))
            for y in range(self.rows):
                item = filled.get(y)
                if item is None:
                    rows[y].append((" " * self.widths[level], "text"))
                elif item.loop is None:
                    assert item.into is not None
                    names = self._through(level, item.into)
                    heavy = self._heavy(names, item.into)
                    on = chosen == item.into or chosen in names
                    look = "key" if on else "strong" if heavy else "muted"
                    rows[y].append((("━" if heavy else "─") * self.widths[level], look))
                else:
                    at[item.loop] = y
                    rows[y] += self._node(item.loop, level, chosen)
            if level + 1 < len(self.graph.layers):
                self._gap(level, rows, chosen)
        return Drawing(tuple(tuple(row) for row in rows), at, True)

    def _node(self, name: str, level: int, chosen: str | None) -> list[Span]:
        row = self.graph.loops[name]
        mark = loop_mark(row)
        cells = self.names[level]
        text = fit(cut_middle(clean(name), cells), cells)
        lead = "›" if name == chosen else "▸" if name in self.critical else " "
        # The line of an edge goes on from the end of the name.
        bare = text.rstrip()
        tail = "─" * (cells - cell_len(bare)) if self.graph.feeds[name] and cells > cell_len(bare) else ""
        spans: list[Span] = [
            (lead + " ", "key" if name == chosen else "warn"),
            (f"{mark.glyph} {fit(clean(mark.word), self.word)} ", mark.look),
            (bare, "cap" if name == chosen else "strong" if name in self.critical else "text"),
        ]
        if tail:
            heavy = any((name, other) in self.chain for other in self.graph.feeds[name])
            shown = (" " + tail[1:].replace("─", "━" if heavy else "─")) if len(tail) > 1 else " "
            spans.append((shown, "key" if name == chosen else "strong" if heavy else "muted"))
        else:
            spans.append((" " * (cells - cell_len(bare)), "text"))
        return spans

    def _gap(self, level: int, rows: list[list[Span]], chosen: str | None) -> None:
        """Draw the edges between a layer and the next."""
        width = 3 + max(1, self._count(level))
        grid: dict[tuple[int, int], _Cell] = {}
        arrows: dict[int, tuple[bool, bool]] = {}

        def mark(x: int, y: int, bits: int, owner: str, heavy: bool, on: bool) -> None:
            cell = grid.setdefault((x, y), _Cell())
            for part, known in ((bits & (UP | DOWN), cell.up_down), (bits & (LEFT | RIGHT), cell.left_right)):
                if part:
                    known[owner] = known.get(owner, 0) | part
            cell.heavy, cell.chosen = cell.heavy or heavy, cell.chosen or on

        for source, target, names, into in self._edges(level):
            heavy, on = self._heavy(names, into), chosen == into or chosen in names
            column = 1 + self.channels[level].get((target, into), 0)
            owner = f"{target}/{into}"
            for x in range(column):
                mark(x, source, LEFT | RIGHT, owner, heavy, on)
            if source == target:
                mark(column, source, LEFT | RIGHT, owner, heavy, on)
            else:
                low, high = min(source, target), max(source, target)
                mark(column, source, LEFT | (DOWN if target > source else UP), owner, heavy, on)
                for y in range(low + 1, high):
                    mark(column, y, UP | DOWN, owner, heavy, on)
                mark(column, target, RIGHT | (UP if target > source else DOWN), owner, heavy, on)
            for x in range(column + 1, width - 1):
                mark(x, target, LEFT | RIGHT, owner, heavy, on)
            if any(
                item.loop == into
                for item, y in zip(self.graph.layers[level + 1], self.y[level + 1], strict=True)
                if y == target
            ):
                known = arrows.get(target, (False, False))
                arrows[target] = (known[0] or heavy, known[1] or on)
            else:
                mark(width - 1, target, LEFT | RIGHT, owner, heavy, on)
        for y, row in enumerate(rows):
            for x in range(width - 1):
                row.append(_sign(grid.get((x, y))))
            if y in arrows:
                heavy, on = arrows[y]
                row.append(("▶", "key" if on else "strong" if heavy else "muted"))
            else:
                row.append(_sign(grid.get((width - 1, y))))


def _sign(cell: _Cell | None) -> Span:
    if cell is None:
        return (" ", "text")
    both = cell.up_down.keys() & cell.left_right.keys()
    bits = 0
    # What bends here comes from the loop at the left, and so does what goes on beside it.
    fans = any(cell.left_right[owner] & LEFT for owner in both)
    for part in (cell.up_down, cell.left_right):
        for owner, value in part.items():
            # Of lines that only cross, the vertical one is drawn.
            if fans or owner in both or part is cell.up_down or not cell.up_down:
                bits |= value
    look = "key" if cell.chosen else "strong" if cell.heavy else "muted"
    return ((HEAVY if cell.heavy else LIGHT)[bits], look)


def _shared(wanted: Sequence[int], room: int) -> list[int]:
    """``wanted`` cells for each, or less for the longest, so that all are within ``room``."""
    cells = list(wanted)
    while sum(cells) > room and max(cells, default=0) > 1:
        cells[cells.index(max(cells))] -= 1
    return cells


# -- the tree ---------------------------------------------------------------------------------------


def tree(graph: Graph, width: int, *, chosen: str | None, critical: Sequence[str]) -> Drawing:
    """What nothing needs first, below each loop what it needs; what was shown already is only named."""
    lines: list[Line] = []
    at: dict[str, int] = {}

    def add(name: str, lead: str, below: str) -> None:
        row = graph.loops[name]
        mark = loop_mark(row)
        at[name] = len(lines)
        needs = sorted(graph.needs[name], key=lambda one: one not in critical)
        known = [other for other in needs if other in at]
        shown = f"{mark.glyph} {clean(mark.word)} "
        room = max(4, width - cell_len(lead) - 2 - cell_len(shown))
        text = cut_middle(clean(name), room)
        spans: list[Span] = [
            (
                "› " if name == chosen else "▸ " if name in critical else "  ",
                "key" if name == chosen else "warn",
            ),
            (lead, "muted"),
            (shown, mark.look),
            (text, "cap" if name == chosen else "strong" if name in critical else "text"),
        ]
        if known and room - cell_len(text) >= LEAST_NAME + 10:
            also = f"  also needs {', '.join(clean(one) for one in known)}"
            spans.append((cut_end(also, room - cell_len(text)), "muted"))
        lines.append(tuple(spans))
        deep = cell_len(below) > width // 3
        left = [other for other in needs if other not in at]
        for place, other in enumerate(left):
            if other in at:
                # One of those before it needed it, too, and has shown it.
                continue
            last = place + 1 == len(left)
            if deep:
                # Deep chains must not be pushed out of a narrow screen.
                add(other, below[: width // 3] + "· ", below)
            else:
                add(other, below + ("└ " if last else "├ "), below + ("  " if last else "│ "))

    ends = [name for name in graph.loops if not graph.feeds[name]]
    for name in ends:
        add(name, "", "")
    return Drawing(tuple(lines), at, False)
