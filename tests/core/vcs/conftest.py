"""A repository to work on, away from the configuration of whoever runs the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.vcs.support import Repo


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    return folder


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository in a folder with spaces: two text files, a binary, a program, a symlink."""
    return Repo.make(tmp_path / "the repo")
