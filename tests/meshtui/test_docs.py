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
TABLE = re.compile(r"^\| command \| does \|\n\|[-| ]+\|\n((?:\|.*\n)+)", re.MULTILINE)
STANDS_FOR = {"N": "1", "F.svg": "f.svg"}


def command_lines(page: Path) -> list[str]:
    """Every command line of meshtui on ``page``."""
    text = page.read_text(encoding="utf-8")
    cells = [
        row.replace("\\|", "\0").split("|")[1] for rows in TABLE.findall(text) for row in rows.splitlines()
    ]
    told = [span.replace("\0", "|") for cell in cells for span in re.findall(r"`([^`]+)`", cell)]
    return [*LINE.findall(text), *QUOTED.findall(text), *(f"meshtui {one}" for one in told)]


def variants(line: str) -> list[str]:
    """The lines that ``line`` stands for: with what is in brackets, and each side of a ``|`` in turn."""
    line = re.sub(r"\s#\s.*", "", line.replace("\\|", "|")).replace("…", "").strip()
    found = re.search(r"\[([^]]*)\]", line)
    if found is not None:
        inner = [part.strip() for part in found[1].split(" | ")]
        whole = [line.replace(found[0], one) for one in ("", *inner)]
        return [one for each in whole for one in variants(each)]
    found = re.search(r"(\S+(?:\|\S+)+)", line)
    if found is not None:
        return [line.replace(found[0], one) for one in found[0].split("|")]
    return [line]


def parse(line: str) -> None:
    """Have the command line's own parser read ``line``; nothing is carried out."""
    words = [STANDS_FOR.get(word, word) for word in shlex.split(line)[1:]]
    command: click.Command = root
    context = root.make_context("meshtui", words)
    while isinstance(command, click.Group):
        left = [*context._protected_args, *context.args]
        if not left:
            return
        name, found, words = command.resolve_command(context, left)
        assert found is not None
        command = found
        context = command.make_context(name, words, parent=context)


CASES = [(page, one) for page in PAGES for line in command_lines(page) for one in variants(line)]


@pytest.mark.parametrize(("page", "line"), CASES, ids=[f"{page.name}: {line}" for page, line in CASES])
def test_a_command_line_can_be_typed(page: Path, line: str) -> None:
    try:
        parse(line)
    except click.exceptions.Exit as ended:
        assert ended.exit_code == 0
    except click.ClickException as error:
        pytest.fail(f"{page.name}: {line}: {error.format_message()}")


@pytest.mark.parametrize(
    "line",
    [
        "meshtui frobnicate",
        "meshtui --run-dir x frobnicate",
        "meshtui quarantine explode x",
        "meshtui enqueue --nope x",
        "meshtui wait lane --timeout soon",
        "meshtui land",
        "meshtui land one two",
    ],
)
def test_what_cannot_be_typed_is_found(line: str) -> None:
    with pytest.raises(click.UsageError):
        parse(line)


def test_brackets_and_bars_stand_for_several_lines() -> None:
    assert variants("meshtui quarantine [list | drop N]") == [
        "meshtui quarantine", "meshtui quarantine list", "meshtui quarantine drop N",
    ]  # fmt: skip
    assert variants("meshtui answer M --approve|--reject") == [
        "meshtui answer M --approve",
        "meshtui answer M --reject",
    ]


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
