"""Print what makes a shell complete meshtui's command lines."""

from __future__ import annotations

import click

from meshtui.cli.completing import SHELLS, script
from meshtui.cli.options import json_option
from meshtui.cli.output import print_json, print_text


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@json_option
def completions(shell: str, as_json: bool) -> None:
    """Print the script that makes SHELL complete commands, options, ids and engines.

    \b
    bash  meshtui completions bash > ~/.local/share/bash-completion/completions/meshtui
          or, in ~/.bashrc:  eval "$(meshtui completions bash)"
    zsh   meshtui completions zsh > a folder of your $fpath, as _meshtui
          or, in ~/.zshrc after compinit:  eval "$(meshtui completions zsh)"
    fish  meshtui completions fish > ~/.config/fish/completions/meshtui.fish

    Ids come from the --run-dir on the line, else from $MESHTUI_RUN_DIR or ./.meshtui.
    """
    text = script(shell)
    if as_json:
        print_json({"shell": shell, "script": text})
    else:
        print_text(text)
