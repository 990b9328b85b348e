"""The newest events of the journal, in a line or two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from meshtui.core.lane.doing import ACTIVITIES
from meshtui.core.view import LaneView
from meshtui.status import event_look
from meshtui.text import clean, cut_middle, time_of_day
from meshtui.widgets.paint import Line, Painted, Span, crop, width_of


@dataclass(frozen=True, slots=True)
class Note:
    """Something this console did or was told."""

    at: int
    text: str
    look: str


class JournalLine(Painted):
    """Newest first, as many as fit; what this console did stands among it."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.view: LaneView | None = None
        self.notes: list[Note] = []

    def show(self, view: LaneView | None) -> None:
        """Draw the journal of ``view``."""
        self.view = view
        self.repaint()

    def note(self, note: Note) -> None:
        """Add what this console did."""
        # Said again, it stands there once, as of now.
        before = self.notes[:-1] if self.notes and self.notes[-1].text == note.text else self.notes
        self.notes = [*before[-19:], note]
        self.repaint()

    def compose_lines(self, width: int) -> Sequence[Line]:
        rows = max(1, self.content_size.height)
        # What agents do stands where they are looked at; eight of them would leave room for nothing else.
        known = self.view.journal if self.view is not None else ()
        journal = [event for event in known if event.event not in ACTIVITIES][-40:]
        entries: list[tuple[int, Line]] = []
        for event in journal:
            subject = cut_middle(clean(event.subject), 32)
            entries.append(
                (event.at, ((time_of_day(event.at) + " ", "muted"), (clean(event.event), event_look(event.event)), (" " + subject, "text")))
            )  # fmt: skip
        for note in self.notes:
            entries.append((note.at, ((time_of_day(note.at) + " ", "muted"), (clean(note.text), note.look))))
        # Of what happened at once, the last told comes first.
        entries.reverse()
        entries.sort(key=lambda entry: -entry[0])
        if not entries:
            return (((" no events yet", "muted"),),)
        return self._flow([line for _at, line in entries], width, rows)

    def _flow(self, entries: list[Line], width: int, rows: int) -> list[Line]:
        lines: list[list[Span]] = [[(" ", "text")]]
        for entry in entries:
            if len(lines[-1]) > 1:
                if width_of(lines[-1]) + 3 + width_of(entry) > width - 1:
                    if len(lines) == rows:
                        break
                    lines.append([(" ", "text")])
                else:
                    lines[-1].append(("   ", "text"))
            lines[-1].extend(entry)
        return [crop(line, width - 1) for line in lines]
