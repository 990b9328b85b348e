"""The console's colours: a dark and a light theme, and what other themes lack."""

from __future__ import annotations

from pathlib import Path

from textual.color import Color
from textual.theme import Theme

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

THEMES = (DARK, LIGHT)
