"""The dependency graph of a mission: the selection moves along its edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from meshtui.core.history import History
from meshtui.core.mesh.view import LoopRow, MissionView
from meshtui.core.view import LaneView
from meshtui.screens.seeing import Page, Seeing
from meshtui.status import loop_mark, phase_word
from meshtui.text import clean, stopwatch
from meshtui.widgets.graph import Drawing, draw, graph_of
from meshtui.widgets.graph import Graph as Layers
from meshtui.widgets.paint import Line, Span, crop, now_of
from meshtui.widgets.timeline import path_of

FACTS = 4
"""Lines below the graph, with the rule above them."""


class Graph(Seeing):
    """Loops in layers; one of them is chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "close", "Close", show=False, id="graph.close"),
        Binding("h,left", "along(-1)", "What it needs", show=False, id="graph.needs"),
        Binding("l,right", "along(1)", "What needs it", show=False, id="graph.feeds"),
        Binding("enter", "go", "Go to", show=False, id="graph.go"),
    ]
    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("graph.needs", "what it needs"),
        ("graph.feeds", "what needs it"),
        ("seeing.down seeing.up", "beside it"),
        ("graph.go", "go to"),
        ("seeing.next", "next mission"),
        ("seeing.keys", "keys"),
        ("seeing.close", "close"),
    )

    def __init__(self, view: LaneView, history: History | None = None, *, source: str | None = None) -> None:
        super().__init__(view, history, source=source)
        self.chosen: str | None = None
        self._drawing: Drawing | None = None

    @property
    def mission(self) -> MissionView | None:
        """The mission that is shown."""
        return next((one for one in self.view.missions if one.mission_id == self.source), None)

    def sources(self) -> list[str | None]:
        return [mission.mission_id for mission in self.view.missions]

    def keys(self) -> Sequence[tuple[str, str]]:
        return [item for item in self.KEYS if item[0] != "seeing.next" or len(self.sources()) > 1]

    def turned(self) -> None:
        self.chosen = None

    def ask(self) -> None:
        """It shows loops only: no journal is read for it."""

    def _selected(self, graph: Layers) -> str | None:
        if self.chosen in graph.loops:
            return self.chosen
        mission = self.mission
        running = [row.loop_id for row in mission.loops if row.status == "running"] if mission else []
        return next(iter(running or graph.loops), None)

    def page(self, width: int, height: int) -> Page:
        mission, now = self.mission, now_of(self)
        if mission is None:
            return Page("Graph", ((("  This mission is not there any more.", "muted"),),))
        graph = graph_of(mission.loops)
        critical = path_of(mission, now)
        chosen = self._selected(graph)
        foot = self._facts(graph, chosen, critical, now, width) if chosen is not None else ()
        drawing = draw(graph, width, max(1, height - FACTS - 1), chosen=chosen, critical=critical)
        self._drawing = drawing
        at = drawing.at.get(chosen or "", 0)
        edges = sum(len(needs) for needs in graph.needs.values())
        title = (
            f"Graph · {clean(mission.mission_id)} · {mission.done} of {len(mission.loops)} done · "
            f"{edges} edge{'' if edges == 1 else 's'}"
        )
        return Page(title, drawing.lines, (), tuple(foot), (at, at))

    def _facts(
        self, graph: Layers, name: str, critical: Sequence[str], now: int, width: int
    ) -> Sequence[Line]:
        row = graph.loops[name]
        mark = loop_mark(row)
        took = row.elapsed(now)
        head: list[Span] = [
            ("  ", "text"),
            (clean(name), "strong"),
            (f"  {mark.glyph} {clean(mark.word)}", mark.look),
            (f"  {phase_word(row.phase)}" if row.phase and row.status == "running" else "", "text"),
            (f"  {stopwatch(took)}" if took is not None else "", "text"),
            ("  ▸ on the critical path" if name in critical else "", "warn"),
            (f"  {clean(row.title)}" if row.title and row.title != name else "", "muted"),
        ]
        said = "; ".join(row.blockers) or row.handoff_reason or ""
        lines: list[Sequence[Span]] = [
            (("─" * width, "rule"),),
            head,
            self._named("needs ", graph.needs[name], graph.loops),
            self._named("needed by ", graph.feeds[name], graph.loops)
            if not said
            else (("  because ", "muted"), (clean(said), mark.look)),
        ]
        return [crop(line, width) for line in lines]

    def _named(self, label: str, names: Sequence[str], loops: dict[str, LoopRow]) -> Sequence[Span]:
        spans: list[Span] = [(f"  {label}", "muted")]
        if not names:
            return [*spans, ("nothing", "muted")]
        for place, name in enumerate(names):
            mark = loop_mark(loops[name])
            spans += [(", " if place else "", "muted"), (f"{mark.glyph} ", mark.look), (clean(name), "text")]
        return spans

    # -- keys ---------------------------------------------------------------------------------------

    def _graph(self) -> Layers:
        mission = self.mission
        return graph_of(mission.loops if mission is not None else ())

    def action_along(self, by: int) -> None:
        """To a loop this one needs, or that needs it: the nearest of them."""
        graph = self._graph()
        chosen = self._selected(graph)
        if chosen is None:
            return
        ways = graph.feeds[chosen] if by > 0 else graph.needs[chosen]
        at = self._drawing.at if self._drawing is not None else {}
        here = at.get(chosen, 0)
        if ways:
            self.chosen = min(ways, key=lambda name: abs(at.get(name, 0) - here))
            self.fill()

    def action_move(self, by: int) -> None:
        graph = self._graph()
        chosen = self._selected(graph)
        if chosen is None or self._drawing is None:
            return
        if self._drawing.layered:
            layer, _ = graph.place_of(chosen)
            names = [item.loop for item in graph.layers[layer] if item.loop is not None]
        else:
            names = sorted(self._drawing.at, key=lambda name: self._drawing.at[name] if self._drawing else 0)
        self.chosen = names[max(0, min(names.index(chosen) + by, len(names) - 1))]
        self.fill()

    def action_edge(self, end: int) -> None:
        self.action_move(end * 10_000)

    def action_leaf(self, by: int) -> None:
        self.action_move(by * self.sheet.page())

    def action_go(self) -> None:
        mission, chosen = self.mission, self._selected(self._graph())
        self.dismiss(f"{mission.mission_id}/{chosen}" if mission is not None and chosen is not None else None)
