from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.runners import LaneBox, MakeBox, Script


@pytest.fixture
def make_box(tmp_path: Path) -> Iterator[MakeBox]:
    """Makes lanes below ``tmp_path`` and ends what still runs on them after the test."""
    boxes: list[LaneBox] = []

    def make(script: Script | None = None, *, name: str = "run") -> LaneBox:
        box = LaneBox(tmp_path / name, script)
        boxes.append(box)
        return box

    yield make
    for box in boxes:
        box.close()


@pytest.fixture
def box(make_box: MakeBox) -> LaneBox:
    """A lane whose engine says ok to everything."""
    return make_box()
