"""Hands what is shown to another program, with the terminal, and comes back whatever that does."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

from textual.app import SuspendNotSupported

from meshtui.text import clean

if TYPE_CHECKING:
    from textual.app import App

    from meshtui.widgets.pane import Outside

PAGERS: Final = ("less", "more")
"""Tried where no pager is named."""
TAKE_A_LINE: Final = frozenset(
    {"vi", "vim", "nvim", "nano", "emacs", "micro", "kak", "joe", "mg", "ne", "jed"}
)
"""Editors that go to line N when they are given ``+N``."""


def open_outside(app: App[Any], target: Outside, text: Callable[[], str]) -> str | None:
    """Open ``target``; what went wrong, in one line, if anything did.

    Only work files go to an editor. What a run directory holds belongs to the record of what happened: it
    goes to a pager, told not to start an editor on it. What has no file is handed over as text.
    """
    if target.path is not None and not target.path.exists():
        return f"{target.path} is not there any more"
    if target.work and target.path is not None:
        return _edit(app, target.path, target.line)
    return _page(app, target.path, text)


def _words(name: str) -> list[str] | str | None:
    """The program the environment names: its words, what is wrong with them, or ``None``."""
    value = os.environ.get(name, "").strip()
    if not value:
        return None
    try:
        return shlex.split(value) or None
    except ValueError as error:
        return f"${name} cannot be read as a command: {error}"


def _edit(app: App[Any], path: Path, line: int) -> str | None:
    for name in ("VISUAL", "EDITOR"):
        words = _words(name)
        if isinstance(words, str):
            return words
        if words:
            place = [f"+{line}"] if PurePath(words[0]).name in TAKE_A_LINE and line > 1 else []
            return _run(app, [*words, *place, str(path)], None, dict(os.environ))
    return f"Neither $VISUAL nor $EDITOR is set; the file is {path}"


def _page(app: App[Any], path: Path | None, text: Callable[[], str]) -> str | None:
    named = _words("PAGER")
    if isinstance(named, str):
        return named
    data = text().encode("utf-8", "replace") if path is None or path.is_dir() else None
    last = [str(path)] if data is None else []
    problem: str | None = None
    for words in [named] if named else [[name] for name in PAGERS]:
        # less starts no editor, shell or other file then.
        problem = _run(app, [*words, *last], data, {**os.environ, "LESSSECURE": "1"})
        if problem is None or not problem.endswith(NOT_FOUND):
            return problem
    return problem if named else "No pager is there: set $PAGER"


NOT_FOUND: Final = "is not there"


def _run(
    app: App[Any], command: Sequence[str], data: bytes | None, environment: dict[str, str]
) -> str | None:
    name = clean(command[0])
    try:
        with app.suspend():
            return _attached(command, name, data, environment)
    except SuspendNotSupported:
        return f"This terminal cannot be given to {name}"


def _attached(
    command: Sequence[str], name: str, data: bytes | None, environment: dict[str, str]
) -> str | None:
    """Run ``command`` on the terminal, where ctrl+c is its own and not ours."""
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        done = subprocess.run(command, input=data, env=environment, check=False)
    except FileNotFoundError:
        return f"{name} {NOT_FOUND}"
    except (OSError, ValueError) as error:
        return f"{name} cannot be started: {error}"
    finally:
        signal.signal(signal.SIGINT, before)
    if done.returncode < 0:
        return f"{name} was ended by signal {-done.returncode}"
    return None if done.returncode == 0 else f"{name} ended with {done.returncode}"
