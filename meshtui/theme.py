"""The console's colours: its themes, what other themes lack, and its signs where only ASCII is wanted."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme

from meshtui.glyphs import in_ascii

STYLES = Path(__file__).parent / "styles"
"""Where the style sheets are."""
MODALS = STYLES / "modals.tcss"
"""Read when the first question is asked."""

_ANSI = {
    "status-run": "ansi_blue",
    "status-ok": "ansi_green",
    "status-warn": "ansi_yellow",
    "status-bad": "ansi_red",
    "status-idle": "ansi_bright_black",
    "quiet": "ansi_bright_black",
    "line": "ansi_bright_black",
    "line-focus": "ansi_blue",
    "select": "ansi_blue",
    "select-blur": "ansi_bright_black",
    "head": "ansi_default",
    "cap": "ansi_blue",
    "added": "ansi_default",
    "removed": "ansi_default",
    "code-word": "ansi_magenta",
    "code-string": "ansi_cyan",
    "code-figure": "ansi_cyan",
    "code-name": "ansi_blue",
    "match": "ansi_yellow",
    "match-now": "ansi_bright_yellow",
    "match-text": "ansi_black",
    "match-now-text": "ansi_black",
}


def fallbacks(theme: Theme) -> dict[str, str]:
    """The console's own variables for a ``theme`` that does not define them, from its colours."""
    if theme.ansi:
        return _ANSI
    colors = theme.to_color_system().generate()
    background, foreground, primary = (
        Color.parse(colors[name]) for name in ("background", "foreground", "primary")
    )

    def over(color: Color, part: float) -> str:
        return background.blend(color, part).hex

    return {
        "status-run": colors["primary"],
        "status-ok": colors["success"],
        "status-warn": colors["warning"],
        "status-bad": colors["error"],
        "status-idle": over(foreground, 0.65),
        "quiet": over(foreground, 0.65),
        "line": over(foreground, 0.3),
        "line-focus": colors["primary"],
        "select": over(primary, 0.3),
        "select-blur": over(foreground, 0.1),
        "head": over(foreground, 0.06),
        "cap": over(primary, 0.4),
        "added": over(Color.parse(colors["success"]), 0.16),
        "removed": over(Color.parse(colors["error"]), 0.16),
        "code-word": colors["secondary"],
        "code-string": over(foreground, 0.85),
        "code-figure": colors["accent"],
        "code-name": colors["primary"],
        "match": over(Color.parse(colors["warning"]), 0.45),
        "match-now": colors["warning"],
        "match-text": colors["foreground"],
        "match-now-text": Color.parse(colors["warning"]).get_contrast_text(1.0).hex,
    }


DARK = Theme(
    name="meshtui",
    dark=True,
    primary="#7aa2f7",
    secondary="#bb9af7",
    accent="#7aa2f7",
    success="#9ece6a",
    warning="#e0af68",
    error="#f7768e",
    foreground="#c0caf5",
    background="#1a1b26",
    surface="#1a1b26",
    panel="#24283b",
    boost="#292e42",
    variables={
        "status-run": "#7aa2f7",
        "status-ok": "#9ece6a",
        "status-warn": "#e0af68",
        "status-bad": "#f7768e",
        "status-idle": "#8089b3",
        "quiet": "#8089b3",
        "line": "#3b4261",
        "line-focus": "#7aa2f7",
        "select": "#283457",
        "select-blur": "#24283b",
        "head": "#1f2335",
        "cap": "#3d4f8a",
        "added": "#203a30",
        "removed": "#402430",
        "code-word": "#bb9af7",
        "code-string": "#73b8c4",
        "code-figure": "#d8a77f",
        "code-name": "#8fb4ff",
        "match": "#6b5a2e",
        "match-now": "#e0af68",
        "match-text": "#f5f0e3",
        "match-now-text": "#1a1b26",
        "footer-background": "#1f2335",
        "block-cursor-background": "#7aa2f7",
        "block-cursor-foreground": "#1a1b26",
        "input-selection-background": "#7aa2f7 35%",
        "border": "#7aa2f7",
        "border-blurred": "#3b4261",
        "scrollbar": "#3b4261",
        "scrollbar-hover": "#565f89",
        "scrollbar-active": "#7aa2f7",
        "scrollbar-background": "#1a1b26",
        "scrollbar-background-hover": "#1a1b26",
        "scrollbar-background-active": "#1a1b26",
        "scrollbar-corner-color": "#1a1b26",
    },
)

LIGHT = Theme(
    name="meshtui-light",
    dark=False,
    primary="#2e5fc7",
    secondary="#7847bd",
    accent="#2e5fc7",
    success="#3f6f1c",
    warning="#8a5a00",
    error="#b3244a",
    foreground="#2b3050",
    background="#f4f5fa",
    surface="#f4f5fa",
    panel="#e3e6f1",
    boost="#dadeec",
    variables={
        "status-run": "#2e5fc7",
        "status-ok": "#3f6f1c",
        "status-warn": "#8a5a00",
        "status-bad": "#b3244a",
        "status-idle": "#5c6384",
        "quiet": "#5c6384",
        "line": "#b6bcd4",
        "line-focus": "#2e5fc7",
        "select": "#cfdaf5",
        "select-blur": "#e3e6f1",
        "head": "#e3e6f1",
        "cap": "#c3cff0",
        "added": "#dcefd6",
        "removed": "#f7dde3",
        "code-word": "#7847bd",
        "code-string": "#17697a",
        "code-figure": "#8f4f17",
        "code-name": "#2456b8",
        "match": "#f3dd9c",
        "match-now": "#e0a72e",
        "match-text": "#2b3050",
        "match-now-text": "#2b3050",
        "footer-background": "#e3e6f1",
        "border": "#2e5fc7",
        "border-blurred": "#b6bcd4",
    },
)


def _of_few(
    name: str, *, dark: bool, status: tuple[str, str, str, str, str], shades: tuple[str, str, str, str, str]
) -> Theme:
    """A theme of few colours: ``status`` for run, ok, warn, bad, idle; ``shades`` from paper to ink."""
    run, ok, warn, bad, idle = status
    paper, head, select, line, ink = shades
    return Theme(
        name=name,
        dark=dark,
        primary=run,
        secondary=run,
        accent=run,
        success=ok,
        warning=warn,
        error=bad,
        foreground=ink,
        background=paper,
        surface=paper,
        panel=head,
        boost=head,
        variables={
            "status-run": run,
            "status-ok": ok,
            "status-warn": warn,
            "status-bad": bad,
            "status-idle": idle,
            "quiet": idle,
            "line": line,
            "line-focus": ink,
            "select": select,
            "select-blur": head,
            "head": head,
            "cap": select,
            "footer-background": head,
            "block-cursor-background": ink,
            "block-cursor-foreground": paper,
            "border": ink,
            "border-blurred": line,
        },
    )


CONTRAST = _of_few(
    "meshtui-contrast",
    dark=True,
    status=("#7fc4ff", "#7dff7d", "#ffd75f", "#ff9c9c", "#d6d6d6"),
    shades=("#000000", "#1c1c1c", "#004080", "#a8a8a8", "#ffffff"),
)
CONTRAST_LIGHT = _of_few(
    "meshtui-contrast-light",
    dark=False,
    status=("#003399", "#004d00", "#5c3700", "#8f001a", "#333333"),
    shades=("#ffffff", "#ececec", "#cfe2ff", "#5c5c5c", "#000000"),
)
MONO = _of_few(
    "meshtui-mono",
    dark=True,
    status=("#ffffff", "#d0d0d0", "#ffffff", "#ffffff", "#a0a0a0"),
    shades=("#101010", "#202020", "#484848", "#606060", "#e6e6e6"),
)
MONO_LIGHT = _of_few(
    "meshtui-mono-light",
    dark=False,
    status=("#000000", "#303030", "#000000", "#000000", "#5c5c5c"),
    shades=("#f8f8f8", "#e8e8e8", "#cccccc", "#a0a0a0", "#181818"),
)

THEMES = (DARK, LIGHT, CONTRAST, CONTRAST_LIGHT, MONO, MONO_LIGHT)

_WITH_CONTRAST = {DARK.name: CONTRAST.name, LIGHT.name: CONTRAST_LIGHT.name}


def theme_for(theme: str | None, contrast: Literal["normal", "high"] = "normal") -> str:
    """The name of the theme to use; ``theme`` is the one that was asked for.

    Without one ``NO_COLOR`` means the theme that was made for it: red turned to grey is fainter than what is well.
    """
    name = theme or (MONO.name if "NO_COLOR" in os.environ else DARK.name)
    return _WITH_CONTRAST.get(name, name) if contrast == "high" else name


def encoding_of_terminal() -> str | None:
    """What the terminal's stream can write; ``None`` for everything."""
    name = getattr(sys.__stdout__, "encoding", None) or "utf-8"
    return None if name.lower().replace("-", "") == "utf8" else name


class AsciiSigns(LineFilter):
    """Draws the console's own signs, borders and bars in ASCII; what others wrote stays as it is."""

    def __init__(self, encoding: str | None = None) -> None:
        """``encoding``, where it is given, is all that the terminal takes: the rest becomes ``?``."""
        super().__init__()
        self._encoding = encoding

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment
            if segment.control or segment.text.isascii()
            else Segment(self._plain(segment.text), segment.style)
            for segment in segments
        ]

    def _plain(self, text: str) -> str:
        shown = in_ascii(text)
        if self._encoding is None or shown.isascii():
            return shown
        return "".join(sign if _fits(sign, self._encoding) else "?" * cell_len(sign) for sign in shown)


def _fits(sign: str, encoding: str) -> bool:
    try:
        sign.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
