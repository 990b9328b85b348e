"""Lines to look through: drawn where they are in sight, one of them under the cursor."""

from __future__ import annotations

from collections.abc import Sequence

from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from meshtui.widgets.paint import Line, Painted, Painter


class Sheet(Painter, ScrollView, can_focus=True, inherit_bindings=False):
    """Its keys are its screen's."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.lines: tuple[Line, ...] = ()
        self.cursor: tuple[int, int] | None = None

    def show(self, lines: Sequence[Line], cursor: tuple[int, int] | None = None) -> None:
        """Show ``lines``; those from ``cursor[0]`` to ``cursor[1]`` are kept in sight."""
        value = tuple(lines)
        moved = cursor != self.cursor
        if value == self.lines and not moved:
            return
        self.lines, self.cursor = value, cursor
        self.virtual_size = Size(0, len(value))
        if moved:
            self.call_after_refresh(self.reveal)
        self.refresh()

    def reveal(self) -> None:
        """Scroll as little as it takes to have the cursor in sight."""
        if self.cursor is None:
            return
        first, last = self.cursor
        top, height = self.scroll_offset.y, self.size.height
        # Of what is above the first line a heading may stand.
        target = min(top, max(0, first - 1)) if first <= top else max(top, last - height + 1)
        if target != top:
            self.scroll_to(y=target, animate=False, force=True)

    def page(self) -> int:
        """How many lines half a page is."""
        return max(1, self.size.height // 2)

    def scroll_by(self, lines: int) -> None:
        """Scroll on, or back."""
        self.scroll_to(y=self.scroll_offset.y + lines, animate=False, force=True)

    def on_resize(self) -> None:
        self.call_after_refresh(self.reveal)

    def text(self) -> str:
        """Everything shown, as plain lines."""
        return "\n".join("".join(text for text, _look in line) for line in self.lines)

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        index = self.scroll_offset.y + y
        return self.strip(self.lines[index], width) if index < len(self.lines) else self.blank(width)


class Pinned(Painted):
    """Lines that stay where they are, above or below a sheet."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.shown: tuple[Line, ...] = ()

    def show(self, lines: Sequence[Line]) -> None:
        """Show ``lines``, and take as much room as they need."""
        value = tuple(lines)
        if len(value) != len(self.shown):
            self.styles.height = len(value)
            self.display = bool(value)
        self.shown = value
        self.repaint()

    def compose_lines(self, width: int) -> Sequence[Line]:
        return self.shown
