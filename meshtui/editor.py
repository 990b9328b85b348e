"""The operator's editor."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from meshtui.core.errors import InvalidInput

STDERR = 2


def open_in_editor(path: Path, *, quiet: bool = False) -> None:
    """Open ``path`` in ``$VISUAL``, else ``$EDITOR`` (a program with or without arguments), until it ends.

    ``quiet`` keeps what the editor prints off standard output. Raises :class:`InvalidInput` where none is
    set, it cannot be started, or it ends badly.
    """
    name = "VISUAL" if os.environ.get("VISUAL", "").strip() else "EDITOR"
    editor = os.environ.get(name, "").strip()
    if not editor:
        raise InvalidInput(
            f"$EDITOR is not set: set it, or edit {path} by hand; it is checked again when it runs"
        )
    try:
        words = shlex.split(editor)
        done = subprocess.run([*words, str(path)], check=False, stdout=STDERR if quiet else None)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InvalidInput(f"${name} is {editor!r}, which cannot be started: {why}") from None
    if done.returncode != 0:
        raise InvalidInput(f"the editor ended with {done.returncode}; {path} is as it was left")
