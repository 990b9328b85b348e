"""Small filesystems of their own, where they may be mounted."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_filesystems(megabytes: int) -> Iterator[Callable[[Path], None]]:
    """Gives what mounts a filesystem of that size over a folder; skips the test where that is not allowed."""
    done: list[Path] = []

    def mount(folder: Path) -> None:
        command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", str(folder)]
        try:
            tried = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            pytest.skip("there is no mount program")
        if tried.returncode != 0:
            pytest.skip(f"mounting a tmpfs is not allowed here: {tried.stderr.strip()}")
        done.append(folder)

    try:
        yield mount
    finally:
        for folder in reversed(done):
            subprocess.run(["umount", "-l", str(folder)], check=True)
