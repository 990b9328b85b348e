"""Starting meshtui once more: the very code that runs now, however it was found."""

from __future__ import annotations

import sys
from pathlib import Path

import meshtui


def own_command(*arguments: str) -> tuple[str, ...]:
    """The command that runs meshtui with ``arguments`` in another process, from any folder.

    The package is named by its path, so that a checkout that is not installed needs no ``PYTHONPATH``; with
    ``-P`` nothing is imported from the folder it is started in.
    """
    start = Path(meshtui.__file__).absolute().with_name("__main__.py")
    return (sys.executable, "-P", str(start), *arguments)
