from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import PROJECT, Cli


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """The command line in an empty directory outside any repository, without a terminal."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    for name in ("MESHTUI_RUN_DIR", "MESHTUI_PHASE_DEADLINE_SECONDS"):
        monkeypatch.delenv(name, raising=False)
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield Cli(tmp_path, capsys, monkeypatch)
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)
