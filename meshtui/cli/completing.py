"""What a shell offers after <tab>: read from file names, quickly, without a word of complaint.

A completion runs at every <tab>, in whatever folder the person stands. So nothing here imports the engine's
models, nothing writes, and what cannot be read offers nothing: an error would be printed into the middle of
the line that is being typed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ZshComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

from meshtui.core.errors import MeshtuiError

if TYPE_CHECKING:
    from meshtui.core.run_dir import RunDir

SHELLS: Final = ("bash", "zsh", "fish")
VARIABLE: Final = "_MESHTUI_COMPLETE"
"""What a shell sets when it asks for completions."""
ENGINES: Final = ("claude", "codex", "grok", "command")
ANYWHERE: Final = ("active", "pending", "stalled", "withdrawn", "results")
MOST: Final = 200
"""More ids than this are not offered at once: nobody reads them, and every one costs time."""

Items = list[CompletionItem]
Complete = Callable[[click.Context, click.Parameter, str], Items]
Source = Callable[["RunDir", str], Iterable[str]]
"""The names of a run directory that may be meant by what is typed so far."""


def script(shell: str) -> str:
    """The script for one of :data:`SHELLS`."""
    kind = get_completion_class(shell)
    assert kind is not None
    made = kind(click.Command("meshtui"), {}, "meshtui", VARIABLE)
    return made.source_template % made.source_vars()


def envelopes(*places: str) -> Complete:
    """Ids of the envelopes in ``places``: record folders (``pending``…) or ``results``."""
    return _completes(lambda run, typed: _records(run, places, typed))


def quarantined(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Names of what stands in quarantine."""

    def of(run: RunDir, _: str) -> list[str]:
        return [name for name in _names(run.lane.quarantine) if not name.endswith((".reason.json", ".tmp"))]

    return _completes(of)(ctx, param, incomplete)


def missions(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Ids of missions."""
    return _completes(lambda run, _: _missions(run))(ctx, param, incomplete)


def loops(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Ids of the loops of the mission on the line, else of every mission; ``all`` where that is meant."""
    chosen = ctx.params.get("mission")

    def of(run: RunDir, _: str) -> Iterator[str]:
        if ctx.command.name == "kill":
            yield "all"
        for mission in _missions(run):
            if chosen in (None, mission):
                yield from _loops(run, mission)

    return _completes(of)(ctx, param, incomplete)


def subjects(*places: str, loops: bool = True, words: tuple[str, ...] = ()) -> Complete:
    """``words``, ids of envelopes in ``places``, of missions and of their loops as MISSION/LOOP."""

    def of(run: RunDir, typed: str) -> Iterator[str]:
        yield from words
        yield from _records(run, places, typed)
        for mission in _missions(run):
            yield mission
            if loops:
                yield from (f"{mission}/{loop}" for loop in _loops(run, mission))

    return _completes(of)


def engines(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Names of engines."""
    return [CompletionItem(name) for name in ENGINES if name.startswith(incomplete)]


def bindings(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Ids of key bindings; the one completion that has to know the console's screens."""
    if ctx.params.get("what") != "keys":
        return []
    from meshtui.key_check import all_bindings

    return [CompletionItem(name) for name in all_bindings() if name.startswith(incomplete)]


def _completes(source: Source) -> Complete:
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
        try:
            names = (name for name in source(_run_dir(ctx), incomplete) if name.startswith(incomplete))
            fitting = (name for name in names if name.isprintable() and not name.startswith((".", "-")))
            return [CompletionItem(name) for name in dict.fromkeys(islice(fitting, MOST))]
        except (OSError, ValueError, LookupError, TypeError, MeshtuiError):
            # A half-built or unreadable directory has nothing to offer, and nobody can be told.
            return []

    return complete


def _run_dir(ctx: click.Context) -> RunDir:
    """The run directory on the line, wherever it stands on it; else the default one."""
    from meshtui.cli.options import default_run_dir
    from meshtui.core.run_dir import RunDir

    at: click.Context | None = ctx
    while at is not None:
        named = at.params.get("run_dir") or next(iter(at.params.get("run_dirs") or ()), None)
        if isinstance(named, Path):
            return RunDir(named.expanduser())
        at = at.parent
    return RunDir(default_run_dir())


def _records(run: RunDir, places: Iterable[str], typed: str) -> Iterator[str]:
    from meshtui.core.models.names import is_record_name, safe_id, safe_of

    start = safe_id(typed)
    for place in places:
        folder = run.lane.results if place == "results" else run.lane.folder(place)
        for name in _names(folder):
            safe = safe_of(name)
            if is_record_name(name) and safe.startswith(start):
                # Only the file itself tells what an underscore stands for.
                yield _id_in(folder / name, safe) if "_" in safe else safe


def _id_in(path: Path, safe: str) -> str:
    try:
        found = json.loads(path.read_bytes()).get("envelope_id")
    except (OSError, ValueError, AttributeError, RecursionError):
        return safe
    return found if isinstance(found, str) else safe


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _missions(run: RunDir) -> list[str]:
    from meshtui.core.mesh.places import mission_places

    return [paths.mission_id for paths in mission_places(run)]


def _loops(run: RunDir, mission: str) -> Iterator[str]:
    from meshtui.core.mesh.places import mission_places

    for paths in mission_places(run):
        if paths.mission_id == mission:
            yield from (
                str(node["loop_id"]) for node in json.loads(paths.plan.read_bytes())["graph"]["nodes"]
            )


class _Bash(BashComplete):
    """click's, with a script of our own: ids may hold colons, spaces and stars, and nothing is printed.

    Bash cuts words at ``=`` and ``:`` too. The script hands over the line as far as it is typed and the
    length of what bash takes for the word, and gets back what follows the last cut.
    """

    source_template = """\
%(complete_func)s() {
    local line cur=${COMP_WORDS[COMP_CWORD]}
    COMPREPLY=()
    [[ $cur == [=:] ]] && cur=
    while IFS= read -r line; do
        case $line in
            dir,*) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return 0 ;;
            file,*) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return 0 ;;
            plain,*) COMPREPLY+=("${line#plain,}") ;;
        esac
    done < <(COMP_WORDS=${COMP_LINE:0:COMP_POINT} COMP_CWORD=${#cur} %(complete_var)s=bash_complete \\
        "$1" 2>/dev/null)
    return 0
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""

    _head = 0
    """How much of the value bash has cut off and does not want back."""

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ.get("COMP_WORDS", "")
        words = split_arg_string(line)[1:]
        incomplete = "" if not words or line[-1].isspace() else words.pop()
        value = incomplete.partition("=")[2] if incomplete.startswith("-") else incomplete
        cut = max(value.rfind(":"), value.rfind("=")) + 1
        self._head = cut if int(os.environ.get("COMP_CWORD", "0")) < len(value) else 0
        return words, incomplete

    def format_completion(self, item: CompletionItem) -> str:
        value = item.value
        if item.type == "plain" and not value.startswith("-"):
            value = quote(value[self._head :])
        return f"{item.type},{value}"


class _Zsh(ZshComplete):
    source_template = ZshComplete.source_template.replace(
        "=zsh_complete %(prog_name)s)", "=zsh_complete %(prog_name)s 2>/dev/null)"
    )


class _Fish(FishComplete):
    source_template = FishComplete.source_template.replace(
        "(commandline -t) %(prog_name)s)", "(commandline -t) %(prog_name)s 2>/dev/null)"
    ).replace('split ","', 'split -m 1 ","')


for _kind in (_Bash, _Zsh, _Fish):
    add_completion_class(_kind)


def answer() -> None:
    """Answer the shell that asks for completions. Whatever goes wrong offers nothing."""
    from meshtui.cli.root import root

    shell, _, wanted = os.environ.get(VARIABLE, "").partition("_")
    kind = get_completion_class(shell) if wanted == "complete" else None
    if kind is None:
        return
    try:
        made = kind(root, {}, "meshtui", VARIABLE).complete()
    except (click.ClickException, MeshtuiError, OSError, ValueError):
        # The line makes no sense yet, e.g. a command that does not exist; there is nobody to tell.
        return
    print(made, flush=True)
