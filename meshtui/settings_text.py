"""A file of settings that names everything that can be set, switched off by its comment signs."""

from __future__ import annotations

from meshtui.commands import COMMANDS
from meshtui.keymap import display_all
from meshtui.settings import LEAST_REFRESH, MOST_REFRESH
from meshtui.theme import THEMES
from meshtui.widgets.listed import titles_by_list


def commented() -> str:
    """The text of such a file; as it is it changes nothing."""
    themes = ", ".join(theme.name for theme in THEMES)
    lines = [
        "# How meshtui's console looks and which key does what. Take a # away to set something.",
        "# meshtui config check says whether the file is right.",
        "",
        f"# {themes}, and others: meshtui config themes",
        '# theme = "meshtui"',
        '# contrast = "high"          # or "normal"; of meshtui and meshtui-light',
        '# glyphs = "ascii"           # or "unicode"; without it the locale decides',
        "# motion = false             # nothing blinks or glides",
        f"# refresh = 1.0              # seconds between two looks at the clock, {LEAST_REFRESH:g} to {MOST_REFRESH:g}",
        "",
        "[notify]",
        '# command = "notify-send meshtui"   # run by /bin/sh -c, once for each new thing that needs you',
        "# bell = true",
        "# title = false              # leave the terminal's title alone",
        "",
        "[columns]                    # in this order; what does not fit gives way",
        *(
            f"# {name} = [{', '.join(_text(title) for title in titles)}]"
            for name, titles in titles_by_list().items()
        ),
        "",
        "[keys]                       # one key or a list; the ids of dialogs: meshtui config keys",
    ]
    for command in COMMANDS:
        keys = display_all(command.key).split(" ")
        value = _text(keys[0]) if len(keys) == 1 else f"[{', '.join(map(_text, keys))}]"
        lines.append(f"{f'# {command.id} = {value}':<38} # {command.tooltip}")
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
