"""The command line, run in this process or in one of its own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from meshtui.cli import run as run_cli

PROJECT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Said:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout; nothing else may be there."""
        return json.loads(self.out)

    @property
    def complaint(self) -> str:
        """The one line on stderr, without the program's name."""
        assert self.out == ""
        assert self.err.endswith("\n")
        assert self.err.count("\n") == 1, self.err
        assert self.err.startswith("meshtui: ")
        assert "Traceback" not in self.err
        assert all(character.isprintable() for character in self.err.removesuffix("\n"))
        return self.err.removeprefix("meshtui: ").removesuffix("\n")


class Cli:
    """Runs commands on ``run_dir``, which is made by the first that makes one."""

    def __init__(
        self, root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.run_dir = root / "run"
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, command: str, *arguments: str, stdin: bytes = b"") -> Said:
        """``meshtui COMMAND --run-dir D ARGUMENTS…`` in this process."""
        return self.raw(command, "--run-dir", str(self.run_dir), *arguments, stdin=stdin)

    def raw(self, *arguments: str, stdin: bytes = b"") -> Said:
        """``meshtui ARGUMENTS…`` in this process."""
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        self._capsys.readouterr()
        code = run_cli(arguments)
        out, err = self._capsys.readouterr()
        return Said(code, out, err)

    def json(self, command: str, *arguments: str, stdin: bytes = b"", code: int = 0) -> Any:
        """The document that a command with ``--json`` prints."""
        said = self(command, "--json", *arguments, stdin=stdin)
        assert said.code == code, said
        return said.json


def environment(**more: str) -> dict[str, str]:
    """For a ``meshtui`` in a process of its own."""
    return {**os.environ, "PYTHONPATH": str(PROJECT), **more}


def start(
    *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, **popen: Any
) -> subprocess.Popen[bytes]:
    """``meshtui ARGUMENTS…`` in a process of its own; stdin is empty unless told otherwise."""
    options: dict[str, Any] = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        **popen,
    }
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "meshtui", *arguments], cwd=cwd, env=env or environment(), **options
    )


def spawn(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None, **popen: Any) -> Said:
    """Like :func:`start`, and wait for its end."""
    process = start(*arguments, cwd=cwd, env=env, **popen)
    out, err = process.communicate(timeout=30)
    return Said(process.returncode, (out or b"").decode(), (err or b"").decode())
