"""The real agents, a scripted model, and lanes and repositories for them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.bench import Bench
from tests.engines.isolate import VARIABLE

collect_ignore_glob = [] if os.environ.get(VARIABLE) else ["test_*.py"]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """One lane, one repository, one model, and an environment made from nothing."""
    made = Bench(tmp_path, Path(os.environ[VARIABLE]))
    for name in list(os.environ):
        if not name.startswith("PYTEST"):
            monkeypatch.delenv(name)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    try:
        yield made
    finally:
        made.close()
