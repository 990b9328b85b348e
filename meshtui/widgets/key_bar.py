"""The keys that do something now, one name each."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.dom import DOMNode

from meshtui.commands import BY_ACTION, COMMANDS, REPLAY, Command, Situation
from meshtui.keymap import display, normal
from meshtui.widgets.paint import Line, Painted, Span, keys_of


class KeyBar(Painted):
    """As many commands as fit, the weightiest kept longest; clicking one does it."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.situation = Situation()
        self.labels: dict[str, str] = {}
        self._at: list[tuple[int, int, Command]] = []

    def show(self, situation: Situation, labels: dict[str, str]) -> None:
        """Offer what ``situation`` allows; ``labels`` replaces words by action."""
        self.situation, self.labels = situation, labels
        self.repaint()

    def compose_lines(self, width: int) -> Sequence[Line]:
        offered = self._offered()
        keys = {command: self._key(command) for command in offered}
        sizes = {c: cell_len(keys[c]) + 1 + cell_len(self._label(c)) + 2 for c in offered}
        keep = BY_ACTION["help"]
        while len(offered) > 1 and sum(sizes[command] for command in offered) > width:
            offered.remove(max((c for c in offered if c is not keep), key=lambda c: c.bar or 0))
        self._at = []
        spans: list[Span] = [(" ", "text")]
        x = 1
        for command in offered:
            spans += [(keys[command], "key"), (" " + self._label(command), "muted"), ("  ", "text")]
            self._at.append((x, x + sizes[command] - 2, command))
            x += sizes[command]
        return (tuple(spans),)

    def _offered(self) -> list[Command]:
        """The commands that make sense now: those for a text while one has the focus."""
        side, reading = self.situation.side, self.situation.reading
        if reading is not None:
            return [
                one
                for one in COMMANDS
                if one.bar is not None and (one.action in reading or one.action == "help")
            ]
        return [
            command
            for command in ((*REPLAY, *COMMANDS) if self.situation.replay else COMMANDS)
            if command.bar is not None
            and command.scope != "text"
            and command.group != "Reading"
            and command.at(self.situation.place)
            and command.meant(side, filtering=self.situation.filtering)
            and (side == "queue" or command.group != "Lane")
            and command.why_not(self.situation) is None
        ]

    def _label(self, command: Command) -> str:
        return self.labels.get(command.action, command.label)

    def _key(self, command: Command) -> str:
        return display(normal(keys_of(self, command.id, command.key)).partition(",")[0])

    def _command_at(self, event: events.MouseEvent) -> Command | None:
        offset = event.get_content_offset(self)
        if offset is None:
            return None
        return next((command for start, end, command in self._at if start <= offset.x < end), None)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        command = self._command_at(event)
        self.tooltip = Content(command.tooltip) if command is not None else None

    async def on_click(self, event: events.Click) -> None:
        command = self._command_at(event)
        if command is None:
            return
        owner: DOMNode = self.screen
        if command.scope == "replay":
            owner = self.app
        elif command.scope == "text" and self.screen.focused is not None:
            # The text does it, or the pane around it.
            name = f"action_{command.action.partition('(')[0]}"
            around = self.screen.focused.ancestors_with_self
            owner = next((node for node in around if hasattr(node, name)), owner)
        await self.app.run_action(command.action, owner)
