"""What the screens have in common that show a run at a glance: they go on while it does, live or replayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from meshtui.bridge import Bridge
from meshtui.core.history import History
from meshtui.core.lane.signs import Signs
from meshtui.core.view import LaneView
from meshtui.screens.keys_here import key_in
from meshtui.theme import MODALS
from meshtui.widgets.paint import LOOK_CLASSES, Line, Span, crop, width_of
from meshtui.widgets.sheet import Pinned, Sheet

HISTORY_SECONDS = 1.0
LEAST_SECONDS = 0.2
"""How soon a live view is drawn again at the earliest."""
LEAST_WIDTH = 20


@dataclass(frozen=True, slots=True)
class Page:
    """What such a screen shows now."""

    title: str
    body: tuple[Line, ...]
    head: tuple[Line, ...] = ()
    foot: tuple[Line, ...] = ()
    cursor: tuple[int, int] | None = None


SURE = 2
"""How many of the last keys of a screen are named however little room there is."""


class Seeing(ModalScreen[str | None]):
    """Closed with what to go to: the key of a record or a loop, or nothing."""

    CSS_PATH = MODALS
    COMPONENT_CLASSES = LOOK_CLASSES
    AUTO_FOCUS = "Sheet"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "close", "Close", show=False, id="seeing.close"),
        Binding("j,down", "move(1)", "Down", show=False, id="seeing.down"),
        Binding("k,up", "move(-1)", "Up", show=False, id="seeing.up"),
        Binding("g", "edge(-1)", "To the start", show=False, id="seeing.first"),
        Binding("G", "edge(1)", "To the end", show=False, id="seeing.last"),
        Binding("ctrl+d,pagedown", "leaf(1)", "Page down", show=False, id="seeing.page_down"),
        Binding("ctrl+u,pageup", "leaf(-1)", "Page up", show=False, id="seeing.page_up"),
        Binding("tab", "source(1)", "The next mission, or the lane", show=False, id="seeing.next"),
        Binding("shift+tab", "source(-1)", "The lane, or the mission before", show=False, id="seeing.before"),
        Binding("question_mark", "app.keys_here", "These keys", show=False, id="seeing.keys"),
    ]
    KEYS: ClassVar[tuple[tuple[str, str], ...]] = ()
    """The bindings whose keys the last line names, by id with a space between two, and what they do."""

    def __init__(self, view: LaneView, history: History | None = None, *, source: str | None = None) -> None:
        super().__init__()
        self.view = view
        self.history = history
        self.signs: Signs | None = None
        self.bridge: Bridge | None = None
        """What reads history and signs; ``None`` in a picture."""
        self.source = source
        """The mission that is shown, ``None`` for the lane."""
        self._filled_at = 0.0

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -seeing"):
            yield Pinned(id="head")
            yield Sheet(id="sheet")
            yield Pinned(id="foot")
            yield Pinned(id="seeing-keys")
        if hasattr(self.app, "player"):
            from meshtui.widgets.replay_bar import ReplayBar

            yield ReplayBar()

    def on_mount(self) -> None:
        self.set_interval(HISTORY_SECONDS, self.tick, name="tick")
        self.ask()

    def ask(self) -> None:
        """Have the history read; it comes with a message."""
        if self.bridge is not None:
            self.bridge.read_history()

    def show_view(self, view: LaneView) -> None:
        """Go on with the newest view."""
        self.view = view
        if self.replayed:
            self.ask()
        # A lane in a hurry changes hundreds of times a second: the next tick shows what is left out here.
        if self.replayed or monotonic() - self._filled_at >= LEAST_SECONDS:
            self.fill()

    def show_history(self, history: History) -> None:
        """Go on with what the journal tells now."""
        if history != self.history:
            self.history = history
            self.fill()

    def show_signs(self, signs: Signs | None) -> None:
        """Go on with the newest signs of life."""
        self.signs = signs
        self.fill()

    def tick(self) -> None:
        """Let times go on."""
        if not self.replayed:
            self.ask()
        self.fill()

    def on_resize(self) -> None:
        self.call_after_refresh(self.fill)

    # What is drawn

    def page(self, width: int, height: int) -> Page:
        """Everything there is to draw in ``width`` cells; ``height`` lines are in sight."""
        raise NotImplementedError

    @property
    def sheet(self) -> Sheet:
        """Where it is drawn."""
        return self.query_one(Sheet)

    def room(self) -> tuple[int, int]:
        """The cells and lines inside the frame."""
        size = self.query_one(".dialog").content_size
        return max(LEAST_WIDTH, size.width - 1), max(1, size.height)

    def fill(self) -> None:
        """Draw what there is now."""
        if not self.is_mounted or not self.query(Sheet):
            return
        self._filled_at = monotonic()
        width, height = self.room()
        page = self.page(width, height)
        self.query_one(".dialog").border_title = Content(page.title)
        self.query_one("#head", Pinned).show(page.head)
        self.query_one("#foot", Pinned).show(page.foot if height >= 9 else ())
        self.query_one("#seeing-keys", Pinned).show((self.key_line(width),) if height >= 7 else ())
        self.sheet.show(page.body, page.cursor)

    def key_line(self, width: int) -> Line:
        """The keys of this screen, as many as fit."""
        told: list[Line] = []
        between: Span = ("  ", "text")
        for names, word in self.keys():
            key = "/".join(key_in(self, name) for name in names.split())
            told.append(((key, "key"), (f" {word}", "muted"), between))
        # How to see the others, and how to leave, is said whatever the room.
        kept, sure = list(told[:-SURE]), told[-SURE:]
        while kept and sum(width_of(one) for one in (*kept, *sure)) - 2 > width:
            kept.pop()
        return crop([span for one in (*kept, *sure) for span in one][:-1], width)

    def keys(self) -> Sequence[tuple[str, str]]:
        """What of :attr:`KEYS` makes sense now."""
        return self.KEYS

    @property
    def replayed(self) -> bool:
        """Whether a recording is shown."""
        return hasattr(self.app, "player")

    # What the keys do

    def sources(self) -> list[str | None]:
        """What can be shown: the lane, and each mission."""
        lane: list[str | None] = [None] if self.view.exists else []
        return lane + [mission.mission_id for mission in self.view.missions]

    def action_source(self, by: int) -> None:
        known = self.sources()
        if len(known) > 1:
            at = known.index(self.source) if self.source in known else 0
            self.source = known[(at + by) % len(known)]
            self.turned()
            self.fill()

    def turned(self) -> None:
        """Something else is shown from now on."""

    def action_close(self) -> None:
        self.dismiss(None)

    def action_move(self, by: int) -> None:
        self.sheet.scroll_by(by)

    def action_edge(self, end: int) -> None:
        self.sheet.scroll_by(end * 10_000)

    def action_leaf(self, by: int) -> None:
        self.sheet.scroll_by(by * self.sheet.page())
