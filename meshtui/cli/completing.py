"""What a shell offers after <tab>: read from file names, quickly, without a word of complaint.

A completion runs at every <tab>, in whatever folder the person stands. So nothing here imports the engine's
models, nothing writes, and what cannot be read offers nothing: an error would be printed into the middle of
the line that is being typed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

if TYPE_CHECKING:
    from meshtui.core.run_dir import RunDir

SHELLS: Final = ("bash", "zsh", "fish")
VARIABLE: Final = "_MESHTUI_COMPLETE"
ENGINES: Final = ("claude", "codex", "grok", "command")
MOST: Final = 200
"""More ids than this are not offered at once: nobody reads them, and every one costs time."""

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
Source = Callable[["RunDir"], Iterable[str]]


def script(shell: str) -> str:
    """The script for one of :data:`SHELLS`."""
    classes: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
    made = classes[shell](click.Command("meshtui"), {}, "meshtui", VARIABLE)
    return made.source_template % made.source_vars()


def envelopes(*places: str) -> Complete:
    """Ids of the envelopes in ``places``: record folders (``pending``…), ``results`` or ``quarantine``."""
    return _completes(lambda run: _unique(_records(run, places)))


def missions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Ids of missions."""
    return _completes(_missions)(ctx, param, incomplete)


def subjects(*places: str, loops: bool = True, words: tuple[str, ...] = ()) -> Complete:
    """Ids of envelopes in ``places``, of missions and of their loops as MISSION/LOOP, and ``words``."""

    def of(run: RunDir) -> Iterator[str]:
        yield from words
        yield from _unique(_records(run, places))
        for mission in _missions(run):
            yield mission
            if loops:
                yield from (f"{mission}/{loop}" for loop in _loops(run, mission))

    return _completes(of)


def loops(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Ids of the loops of the mission on the line, else of every mission, and ``all`` where that is meant."""
    chosen = ctx.params.get("mission")

    def of(run: RunDir) -> Iterator[str]:
        if ctx.command.name == "kill":
            yield "all"
        names = _missions(run) if chosen is None else [chosen]
        yield from _unique(loop for name in names for loop in _loops(run, name))

    return _completes(of)(ctx, param, incomplete)


def engines(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of engines."""
    return [CompletionItem(name) for name in ENGINES if name.startswith(incomplete)]


def _completes(source: Source) -> Complete:
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        run = _run_dir(ctx)
        try:
            fitting = (name for name in source(run) if name.startswith(incomplete) and name.isprintable())
            return [CompletionItem(name) for name in islice(fitting, MOST)]
        except (OSError, ValueError):
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
        if named is not None:
            return RunDir(Path(named).expanduser())
        at = at.parent
    return RunDir(default_run_dir())


def _records(run: RunDir, places: Iterable[str]) -> Iterator[str]:
    from meshtui.core.models.names import safe_of

    for place in places:
        if place == "results":
            folder = run.lane.results
        elif place == "quarantine":
            folder = run.lane.quarantine
        else:
            folder = run.lane.folder(place)
        for name in _names(folder):
            if name.startswith(".") or name.endswith((".tmp", ".reason.json")):
                continue
            yield name if place == "quarantine" else safe_of(name)


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
            yield from (name for name in _names(paths.root) if (paths.root / name).is_dir())


def _unique(names: Iterable[str]) -> Iterator[str]:
    return iter(dict.fromkeys(names))
