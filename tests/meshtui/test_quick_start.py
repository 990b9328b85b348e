"""How a console keeps Python from looking for garbage while it starts."""

from __future__ import annotations

import gc

import pytest

from meshtui import console
from meshtui.console import quick_start
from tests.support.waiting import wait_until


def test_no_garbage_is_looked_for_until_the_console_has_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "STARTED_SECONDS", 0.05)
    frozen = gc.get_freeze_count()
    try:
        with quick_start():
            wait_until(gc.isenabled, what="looking for garbage again")
            assert gc.get_freeze_count() > frozen
    finally:
        gc.unfreeze()


def test_a_console_that_ends_at_once_leaves_it_as_it_was() -> None:
    frozen = gc.get_freeze_count()
    with quick_start():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() == frozen
