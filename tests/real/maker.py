"""A maker that is no agent: runs pyupgrade and ruff on the part of the repository that is its own.

``maker.py LOOP=PROGRAM[,PROGRAM…] …`` says which programs each loop runs, in their order. ``bold`` makes
also the fixes that ruff calls unsafe; told that its work was refused, it takes it back and makes safe ones.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

RULES = "UP,F,I,C4"
BOLD_RULES = "UP,F,I,C4,SIM,RET,B"
Paths = list[str]


def run(*command: str, allowed: tuple[int, ...] = (0,)) -> None:
    """Run a program that tells what it did; its failure is this one's."""
    done = subprocess.run(command, check=False)
    if done.returncode not in allowed:
        sys.exit(f"{command[0]} ended with {done.returncode}")


def ruff(*arguments: str) -> None:
    # What it cannot fix is no failure.
    run(sys.executable, "-m", "ruff", *arguments, allowed=(0, 1))


def pyupgrade(paths: Paths) -> None:
    # It ends with 1 where it has rewritten something.
    run(sys.executable, "-m", "pyupgrade", "--py39-plus", *sources(paths), allowed=(0, 1))


def lint(paths: Paths, rules: str = RULES, *more: str) -> None:
    settings = (
        "--isolated",
        "--no-cache",
        "--quiet",
        "--target-version",
        "py39",
        "--output-format",
        "concise",
    )
    ruff("check", *settings, "--select", rules, "--fix", *more, *paths)


def bold(paths: Paths) -> None:
    if int(os.environ["MESHTUI_ITERATION"]) == 1:
        lint(paths, BOLD_RULES, "--unsafe-fixes")
        return
    if "gate suite failed" not in sys.stdin.read():
        sys.exit("refused, and not told why")
    run("git", "checkout", os.environ["RELEASED"], "--", *paths)
    lint(paths)


def layout(paths: Paths) -> None:
    ruff("format", "--isolated", "--no-cache", *paths)


def sources(paths: Paths) -> Paths:
    """Every Python file of ``paths``, folders looked through."""
    found = [path for path in map(Path, paths) if path.is_file()]
    found += [file for path in map(Path, paths) if path.is_dir() for file in sorted(path.rglob("*.py"))]
    return [str(path) for path in found]


PROGRAMS: dict[str, Callable[[Paths], None]] = {
    "pyupgrade": pyupgrade,
    "lint": lint,
    "bold": bold,
    "layout": layout,
}


def main() -> None:
    programs = dict(argument.split("=") for argument in sys.argv[1:])
    scope = json.loads(os.environ["MESHTUI_SCOPE"])
    for name in programs[os.environ["MESHTUI_LOOP_ID"]].split(","):
        PROGRAMS[name]([*scope["files"], *scope["directories"]])
        print(f"ran {name}")


if __name__ == "__main__":
    main()
