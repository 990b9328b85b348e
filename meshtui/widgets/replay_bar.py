"""The line of a replay: that it is one, where the play head is, how fast, and what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from textual import events
from textual.message import Message

from meshtui.keymap import typed
from meshtui.text import clean, cut_middle, duration, number, time_of_day
from meshtui.widgets.paint import Line, Painted, Span, crop, width_of

if TYPE_CHECKING:
    from meshtui.replay import Player

LEAST_BAR = 8


class ReplayBar(Painted):
    """A click on the bar goes there."""

    class Sought(Message):
        """A place on the bar was chosen, 0 to 1."""

        def __init__(self, share: float) -> None:
            super().__init__()
            self.share = share

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._bar = (0, 0)

    @property
    def player(self) -> Player:
        """The play head."""
        return cast("Player", self.app.player)  # type: ignore[attr-defined]

    def compose_lines(self, width: int) -> Sequence[Line]:
        player = self.player
        recording = player.recording
        wide = width >= 100
        state = "▶ playing" if player.playing else "‖ paused"
        left: list[Span] = [(" REPLAY ", "cap"), (" ", "text"), (state, "run" if player.playing else "warn")]
        left.append((f"  {time_of_day(player.at)}", "strong"))
        place = f"{number(player.index)}/{number(len(recording))}"
        right: list[Span] = [(f" ×{player.speed}", "text"), (f"  {'event ' if wide else ''}{place}", "muted")]
        room = width - width_of(left) - width_of(right) - 4
        told = self._next(width) if room > LEAST_BAR + 24 else []
        if told:
            # What comes next changes with every event: the bar must not jump with it.
            share = min(room // 2, 60 if wide else 34)
            told = list(crop(told, share))
            told.append((" " * (share - width_of(told)), "text"))
        cells = max(LEAST_BAR, width - width_of(left) - width_of(right) - width_of(told) - 3)
        start = width_of(left) + 2
        self._bar = (start, cells)
        span = max(1, recording.end - recording.start)
        at = min(cells - 1, (player.at - recording.start) * cells // span)
        bar: list[Span] = [("━" * at, "run"), ("●", "strong"), ("─" * (cells - at - 1), "rule")]
        return (crop((*left, ("  ", "text"), *bar, *right, *told), width),)

    def _next(self, width: int) -> list[Span]:
        player = self.player
        coming = player.recording.next_after(player.index)
        if coming is None:
            again = f": {typed('replay.play', 'space')} plays it again" if width >= 110 else ""
            return [(f"  the end{again}", "muted")]
        wait = player.recording.times[player.index] - player.at
        name = cut_middle(clean(coming.subject), 20)
        lull = f" (skipped {duration(player.skipped_ms)})" if player.skipped_ms >= 1000 else ""
        ahead = f"next in {duration(wait)}" if wait >= 1000 else "next"
        shown = clean(coming.event)
        return [(f"  {ahead}{lull} ", "muted"), (shown, "text"), (f" {name}", "muted")]

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        start, cells = self._bar
        if offset is not None and start <= offset.x < start + cells:
            self.post_message(self.Sought((offset.x - start) / max(1, cells - 1)))
