"""The operator's own file: where it is, whether it can be used, and what it may say."""

from __future__ import annotations

from typing import Any

import click

from meshtui.cli.completing import bindings
from meshtui.cli.options import json_option
from meshtui.cli.output import print_json, print_line, print_text, warn
from meshtui.core.errors import InvalidInput, NotFound

WHAT = ("check", "path", "print", "keys", "columns", "themes")


@click.command()
@click.argument("what", type=click.Choice(WHAT), default="check")
@click.argument("name", required=False, shell_complete=bindings)
@json_option
def config(what: str, name: str | None, as_json: bool) -> int:
    """Look at your own settings: keys, colours, columns, notifications.

    \b
    check    is the file right? exit 2 if something in it is not (the default)
    path     where it is looked for
    print    a file that says all that can be set, to start from
    keys     the ids of all keys, with the keys they have; with a NAME that one
    columns  the lists and the columns each can show
    themes   the names of all themes

    \b
    meshtui config print > ~/.config/meshtui/config.toml
    """
    from meshtui.settings import config_path, theme_names

    if name is not None and what != "keys":
        raise click.UsageError(f"{what} takes no name")

    if what == "path":
        value: Any = {"path": str(config_path())}
        lines = [str(config_path())]
    elif what == "print":
        from meshtui.settings_text import commented

        value = {"text": commented()}
        if not as_json:
            print_text(value["text"])
            return 0
        lines = []
    elif what == "keys":
        value = [one for one in _keys() if name in (None, one["id"])]
        if not value:
            raise NotFound(f"no key has the id {name!r}; see: meshtui config keys")
        lines = [f"{one['id']:<24} {one['keys']:<16} {one['does']}" for one in value]
    elif what == "columns":
        from meshtui.widgets.listed import titles_by_list

        value = {name: list(titles) for name, titles in titles_by_list().items()}
        lines = [f"{name:<12} {', '.join(titles)}" for name, titles in value.items()]
    elif what == "themes":
        value = theme_names()
        lines = list(value)
    else:
        return _check(as_json)
    if as_json:
        print_json(value)
    else:
        for line in lines:
            print_line(line)
    return 0


def _check(as_json: bool) -> int:
    from meshtui.settings import config_path, load_settings

    path = config_path()
    _settings, problems = load_settings()
    if as_json:
        print_json({"path": str(path), "exists": path.exists(), "problems": list(problems)})
    elif problems:
        warn(problems)
    elif path.exists():
        print_line(f"{path} is right")
    else:
        print_line(f"no {path}: the defaults are used; meshtui config print shows what it may say")
    return InvalidInput.exit_code if problems else 0


def _keys() -> list[dict[str, str]]:
    from meshtui.key_check import all_bindings
    from meshtui.keymap import display_all
    from meshtui.settings import load_settings

    chosen = load_settings()[0].keys
    return [
        {"id": name, "keys": display_all(chosen.get(name, bound.keys)), "does": bound.does}
        for name, bound in all_bindings().items()
    ]
