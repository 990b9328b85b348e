"""The keys that show a run at a glance: timeline, charts, dependency graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from meshtui.bridge import Bridge
from meshtui.commands import Side, Situation
from meshtui.core.view import LaneView
from meshtui.messages import HistoryRead, SignsRead

if TYPE_CHECKING:
    from textual.screen import Screen

    from meshtui.core.history import History
    from meshtui.screens.seeing import Seeing

    _Base = Screen[None]
else:
    _Base = object


class Looking(_Base):
    """Mixed into the lane's screen; as it is no widget, its handlers go by their names."""

    view: LaneView | None
    side: Side
    history: History | None = None
    bridge: Bridge | None

    if TYPE_CHECKING:

        @property
        def situation(self) -> Situation: ...

        def _refused(self, action: str) -> bool: ...

        def show_key(self, key: str | None) -> bool: ...

        def tell(self, text: str, severity: str = "information") -> None: ...

    def _source(self) -> str | None:
        """The mission to begin with: that of the loop that is looked at, else none where there is a lane."""
        now = self.situation
        if now.mission is not None and (now.side == "loops" or now.view is None or not now.view.exists):
            return now.mission.mission_id
        return None

    def open_seeing(self, kind: type[Seeing], source: str | None) -> None:
        """Show such a screen, and go to what is chosen there."""
        view = self.view
        if view is None:
            return

        def chosen(key: str | None) -> None:
            if key is not None and not self.show_key(key):
                self.tell(f"{key} is not listed: older rows stand in the files only", "warning")

        screen = kind(view, self.history, source=source)
        screen.bridge = self.bridge
        self.app.push_screen(screen, chosen)

    def action_timeline(self) -> None:
        if not self._refused("timeline"):
            from meshtui.screens.timeline import Timeline

            self.open_seeing(Timeline, self._source())

    def action_charts(self) -> None:
        if not self._refused("charts"):
            from meshtui.screens.charts import Charts

            self.open_seeing(Charts, self._source())

    def action_graph(self) -> None:
        mission = self.situation.mission
        if not self._refused("graph") and mission is not None:
            from meshtui.screens.graph import Graph

            self.open_seeing(Graph, mission.mission_id)

    def open_still(self, screen: str) -> None:
        """For a picture: what the lane itself shows of these."""
        from meshtui.screens.charts import Charts
        from meshtui.screens.timeline import Timeline

        lane = None if self.view is None or self.view.exists else self._source()
        self.open_seeing(Charts if screen == "charts" else Timeline, lane)

    def _open_one(self) -> Seeing | None:
        """The screen of this kind that is open, if one is."""
        top = self.app.screen
        return cast("Seeing", top) if hasattr(top, "show_history") else None

    def on_history_read(self, message: HistoryRead) -> None:
        self.history = message.history
        top = self._open_one()
        if top is not None:
            top.show_history(message.history)

    def on_signs_read(self, message: SignsRead) -> None:
        top = self._open_one()
        if top is not None:
            top.show_signs(message.signs)
