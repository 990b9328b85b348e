"""What README and docs tell people to type exists: commands, options, pages."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from meshtui.cli.root import root

PROJECT = Path(__file__).parents[2]
PAGES = (PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md")))
LINE = re.compile(r"^    (?:\$ )?(?:[A-Z_]+=\S+ )?(meshtui(?: .*)?)$", re.MULTILINE)
QUOTED = re.compile(r"`(meshtui [^`]+)`")
SUBJECTS = {"TEXT", "ID", "DIR", "NAME"}


def command_lines(page: Path) -> list[str]:
    """Every command line of meshtui on ``page``."""
    text = page.read_text(encoding="utf-8")
    return [*LINE.findall(text), *QUOTED.findall(text)]


CASES = [(page, line) for page in PAGES for line in command_lines(page)]


@pytest.mark.parametrize(("page", "line"), CASES, ids=[f"{page.name}: {line}" for page, line in CASES])
def test_a_command_line_can_be_typed(page: Path, line: str) -> None:
    line = re.split(r"\s+(?:[>&|#]|…)", line)[0].replace("\\|", "|").replace("[", "").replace("]", "")
    words = shlex.split(line)[1:]
    command: click.Command = root
    context = click.Context(root, info_name="meshtui")
    while words and isinstance(command, click.Group) and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        if found is None:
            # Options of the group may hold a value that is no command.
            break
        command, words = found, words[1:]
    options = {
        name: parameter
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    left = []
    while words:
        word = words.pop(0)
        if not word.startswith("-") or word == "-":
            left.append(word)
            continue
        name = word.partition("=")[0]
        assert name in {*options, "--help", "-h", "--version"}, f"{page.name}: {line}: no option {name}"
        option = options.get(name)
        if option is not None and not option.is_flag and "=" not in word:
            assert words, f"{page.name}: {line}: {name} needs a value"
            value = words.pop(0)
            if value not in SUBJECTS and option.type.name in ("integer", "integer range", "choice", "float"):
                option.type.convert(value, option, context)
    arguments = [one for one in command.params if isinstance(one, click.Argument)]
    if command is not root:
        most = sum(1 if one.nargs == 1 else 99 for one in arguments)
        assert len(left) <= most or isinstance(command, click.Group), f"{page.name}: {line}: too many words"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_page_is_named_in_the_readme() -> None:
    readme = PAGES[0].read_text(encoding="utf-8")
    assert len(PAGES) > 6
    for page in PAGES[1:]:
        assert f"docs/{page.name}" in readme
