"""Command lines that are told to the operator: what is copied from them runs as it stands."""

from __future__ import annotations

import shlex
from pathlib import Path


def way_out(verb: str, subject: str, root: Path, *options: str) -> str:
    """``meshtui VERB SUBJECT --run-dir ROOT OPTIONS…``, quoted for a shell.

    A subject that reads like an option comes last, after ``--``.
    """
    words = ["--run-dir", str(root), *options]
    words = [*words, "--", subject] if subject.startswith("-") else [subject, *words]
    return f"meshtui {verb} {shlex.join(words)}"
