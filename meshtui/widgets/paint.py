"""Drawing line by line: what is shown is spans of cleaned text, each with the name of a look.

A look is a CSS component class of the screen, so that colours come from the style sheets and the theme;
of the screen and not of each widget, because Textual works out every component of every widget at each
change of a style. Lines are compared before they are drawn again, so that a refresh costs only the lines
that changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Protocol, cast

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from meshtui.core.clock import Clock
from meshtui.text import cut_end

Span = tuple[str, str]
"""Cleaned text and the name of its look, or of several with spaces between, the last on top."""
Line = tuple[Span, ...]

LOOKS = (
    "text",
    "muted",
    "strong",
    "run",
    "ok",
    "warn",
    "bad",
    "idle",
    "key",
    "cap",
    "tab",
    "rule",
    "cursor",
    "cursor-blur",
    "added",
    "removed",
    "word",
    "string",
    "comment",
    "figure",
    "name",
    "match",
    "match-now",
    "marked",
)
LOOK_CLASSES: set[str] = {f"look--{look}" for look in LOOKS}
"""The component classes of every screen that holds painted widgets."""


class HasClock(Protocol):
    """An app with a clock of its own."""

    clock: Clock


class HasSettings(Protocol):
    """What widgets want to know of an operator's settings; see :class:`meshtui.settings.Settings`."""

    @property
    def keys(self) -> Mapping[str, str]: ...

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]: ...

    @property
    def refresh_seconds(self) -> float: ...


def _settings(widget: Widget) -> HasSettings | None:
    return getattr(widget.app, "settings", None)


def now_of(widget: Widget) -> int:
    """The time to show durations against, from the app's clock."""
    return cast("HasClock", widget.app).clock.now_ms()


def refresh_of(widget: Widget) -> float:
    """How often ages are counted on, in seconds."""
    settings = _settings(widget)
    return settings.refresh_seconds if settings is not None else 1.0


def keys_of(widget: Widget, binding_id: str, default: str) -> str:
    """The keys of a binding, as the operator may have chosen them."""
    settings = _settings(widget)
    # A key may also be changed while the console is open.
    known = str(getattr(widget.app, "_keymap", {}).get(binding_id, default))
    return settings.keys.get(binding_id, known) if settings is not None else known


def titles_of(widget: Widget, name: str) -> tuple[str, ...] | None:
    """The columns that the operator chose for the list ``name``."""
    settings = _settings(widget)
    return settings.columns.get(name) if settings is not None else None


def width_of(line: Iterable[Span]) -> int:
    """How many cells ``line`` takes."""
    return sum(cell_len(text) for text, _look in line)


def crop(line: Iterable[Span], width: int) -> Line:
    """``line`` in at most ``width`` cells, ending in an ellipsis where something is cut."""
    spans = list(line)
    if width_of(spans) <= width:
        return tuple(spans)
    shown: list[Span] = []
    left = width
    for text, look in spans:
        length = cell_len(text)
        if length >= left:
            shown.append((cut_end(text, left) if length > left else cut_end(text + " ", left), look))
            break
        shown.append((text, look))
        left -= length
    return tuple(shown)


class Painter:
    """Mixed into a widget on a screen that declares :data:`LOOK_CLASSES`; turns lines into strips."""

    ALLOW_SELECT: ClassVar[bool] = False
    """Whether the mouse chooses text in it: only where that can be read as text."""
    _styles_of: dict[tuple[str, str | None], Style] | None = None

    def notify_style_update(self) -> None:
        self._styles_of = None
        super().notify_style_update()  # type: ignore[misc]

    def _style(self, look: str, cursor: str | None) -> Style:
        """The style of ``look``, remembered until styles change; ``""`` is the widget's own."""
        if self._styles_of is None:
            self._styles_of = {}
        style = self._styles_of.get((look, cursor))
        if style is None:
            widget = cast("Widget", self)
            style = widget.rich_style
            for name in (cursor, *look.split()):
                if name:
                    style += widget.screen.get_component_rich_style(f"look--{name}", partial=True)
            self._styles_of[look, cursor] = style
        return style

    def strip(self, line: Sequence[Span], width: int, *, cursor: str | None = None) -> Strip:
        """``line`` as a strip of exactly ``width`` cells, on the look ``cursor`` where it is given."""
        base = self._style("", cursor)
        segments = [Segment(text, self._style(look, cursor)) for text, look in line if text]
        return Strip(segments, sum(segment.cell_length for segment in segments)).adjust_cell_length(
            width, base
        )

    def blank(self, width: int) -> Strip:
        """An empty line."""
        return Strip.blank(width, self._style("", None))


class Painted(Painter, Widget, can_focus=False, inherit_bindings=False):
    """A small widget drawn from a few lines, and drawn again only when they changed."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._lines: tuple[Line, ...] = ()
        self._lines_for: Size | None = None

    def compose_lines(self, width: int) -> Sequence[Line]:
        """What to draw now, in ``width`` cells."""
        raise NotImplementedError

    def repaint(self) -> None:
        """Draw again, if what is to be drawn changed."""
        if not self.is_mounted or self._lines_for is None:
            return
        size = self.content_size
        lines = tuple(self.compose_lines(size.width))
        if lines != self._lines or size != self._lines_for:
            self._lines, self._lines_for = lines, size
            self.refresh()

    def render_line(self, y: int) -> Strip:
        size, width = self.content_size, self.content_size.width
        if size != self._lines_for:
            self._lines, self._lines_for = tuple(self.compose_lines(width)), size
        if y < len(self._lines):
            return self.strip(self._lines[y], width)
        return self.blank(width)
