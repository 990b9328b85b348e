from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.missions import end_leftovers


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    """End the runners and workers that a failed test left behind."""
    yield
    end_leftovers()
