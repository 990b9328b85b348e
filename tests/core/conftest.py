from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.lanes import quick_folder


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """A folder of this test's, in memory where the system has such a place."""
    memory = quick_folder()
    if memory is None:
        yield tmp_path
        return
    with TemporaryDirectory(dir=memory, ignore_cleanup_errors=True) as folder:
        yield Path(folder)
