"""The timeline of a mission, over everything else; it goes on while the mission runs."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from meshtui.core.mesh.view import MissionView
from meshtui.text import clean
from meshtui.theme import MODALS
from meshtui.widgets.paint import LOOK_CLASSES, now_of, refresh_of
from meshtui.widgets.prose import Prose
from meshtui.widgets.timeline import timeline_items


class Timeline(ModalScreen[None]):
    """Closed by any of the usual keys."""

    CSS_PATH = MODALS
    COMPONENT_CLASSES = LOOK_CLASSES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,t,enter", "dismiss", "Close", show=False, id="timeline.close")
    ]

    def __init__(self, mission: MissionView) -> None:
        super().__init__()
        self.mission = mission

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -large -wide") as dialog:
            dialog.border_title = Content(f"Timeline of {clean(self.mission.mission_id)}")
            dialog.border_subtitle = Content("esc closes")
            yield Prose(id="timeline")

    def on_mount(self) -> None:
        self.query_one(Prose).focus()
        self.set_interval(refresh_of(self), self.fill, name="tick")

    def show_missions(self, missions: tuple[MissionView, ...]) -> None:
        """Go on with the newest view of the mission."""
        for mission in missions:
            if mission.mission_id == self.mission.mission_id and mission != self.mission:
                self.mission = mission
                self.fill()

    def on_resize(self) -> None:
        self.call_after_refresh(self.fill)

    def fill(self) -> None:
        """Draw it as it is now."""
        prose = self.query_one(Prose)
        items = timeline_items(self.mission, max(20, prose.outer_size.width - 3), now_of(self))
        self.query_one(".dialog").styles.height = len(items) + 3
        prose.show(items)

    async def action_dismiss(self, result: None = None) -> None:
        self.dismiss()
