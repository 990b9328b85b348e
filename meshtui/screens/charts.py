"""Charts of a lane or of a mission's budgets; they go on while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from meshtui.core.history import History
from meshtui.core.mesh.view import MissionView
from meshtui.screens.seeing import Page, Seeing
from meshtui.text import clean
from meshtui.widgets.charts import (
    budget_block,
    depth_block,
    durations_block,
    loop_blocks,
    place,
    signs_block,
    throughput_block,
)
from meshtui.widgets.paint import now_of

TWO_COLUMNS = 110
"""From these cells on charts stand side by side."""


class Charts(Seeing):
    """Queue, throughput, durations, budgets, signs of life."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c,enter", "close", "Close", show=False, id="charts.close"),
    ]
    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("seeing.down seeing.up", "scroll"),
        ("seeing.next", "lane/missions"),
        ("seeing.keys", "keys"),
        ("seeing.close", "close"),
    )

    def keys(self) -> Sequence[tuple[str, str]]:
        return [item for item in self.KEYS if item[0] != "seeing.next" or len(self.sources()) > 1]

    @property
    def mission(self) -> MissionView | None:
        """The mission that is shown, if one is."""
        return next((one for one in self.view.missions if one.mission_id == self.source), None)

    def tick(self) -> None:
        super().tick()
        bridge = self.bridge
        if bridge is not None and not self.replayed and self.source is None:
            bridge.read_signs(self.view.active[0] if self.view.active else None)

    def page(self, width: int, height: int) -> Page:
        now, mission, history = now_of(self), self.mission, self.history
        name = clean(
            mission.mission_id if mission is not None else self.view.lane_id or self.view.run_dir.name
        )
        title = f"Charts · {name}" if mission is None else f"Budgets · {name}"
        if history is None and mission is None:
            return Page(title, ((("  Reading the journal…", "muted"),),))
        history = history or History()
        columns = width >= TWO_COLUMNS
        part = (width - 3) // 2 if columns else width
        if mission is not None:
            loops = loop_blocks(mission, history, now, part)
            return Page(title, tuple(place(loops, width, columns=columns and len(loops) > 1)))
        rows = 3 if height < 30 else 6 if height < 44 else 10
        blocks = [
            depth_block(history, now, part, rows),
            throughput_block(history, self.view, now, part, rows),
            durations_block(history, part),
            signs_block(self.view, history, self.signs, now, part, replayed=self.replayed),
            budget_block(history, self.view, now, part),
        ]
        if not columns:
            # What is to be decided by comes first where not all is in sight.
            blocks = [blocks[3], blocks[4], blocks[0], blocks[1], blocks[2]]
        return Page(title, tuple(place(blocks, width, columns=columns)))
