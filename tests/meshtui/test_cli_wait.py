"""``meshtui wait`` says at once what will not come by itself."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from meshtui.cli import run

PARKED = Path(__file__).parents[1] / "data" / "samples" / "lane-stall-twice-parks"


def test_a_parked_envelope_waits_for_the_operator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(PARKED, tmp_path / "lane")
    where = ["--run-dir", str(tmp_path / "lane"), "--timeout", "30"]
    assert run(["wait", "slow", *where]) == 5
    assert "meshtui answer slow --retry or --drop" in capsys.readouterr().err
    assert run(["wait", "slow", "--for", "stalled", *where]) == 0
