from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.lanes import quick_folder
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


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """A folder of this test's, in memory where the system has such a place."""
    memory = quick_folder()
    if memory is None:
        yield tmp_path
        return
    with TemporaryDirectory(dir=memory, ignore_cleanup_errors=True) as folder:
        yield Path(folder)
