"""The details are read in a thread: the newest request only, output as it grows, within bounds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from textual.message import Message

from meshtui.core.view import CallView, Detail
from meshtui.inspector import Inspector, streams_of
from meshtui.messages import DetailRead, OutputRead


def until(condition: Callable[[], object]) -> None:
    """Wait until ``condition`` holds."""
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, "never"
        time.sleep(0.002)


@pytest.fixture
def call(tmp_path: Path) -> CallView:
    (tmp_path / "stdout.log").touch()
    (tmp_path / "stderr.log").touch()
    return CallView("c", tmp_path, tmp_path / "stdout.log", tmp_path / "stderr.log", "running")


@pytest.fixture
def posted() -> list[Message]:
    return []


@pytest.fixture
def inspector(call: CallView, posted: list[Message]) -> Iterator[Inspector]:
    def read(key: str) -> Detail | None:
        if key == "broken":
            raise OSError("cannot [/] read")
        return Detail(key, "active", {}, None, call=call)

    opened = Inspector(read, posted.append)
    yield opened
    assert opened.stop()


def test_it_is_told_which_streams_are_written(
    inspector: Inspector, call: CallView, posted: list[Message]
) -> None:
    inspector.ask("k", output=True)
    until(lambda: len(posted) == 2)
    assert streams_of(call) == ()
    call.stdout.write_text("one\n")
    until(lambda: len(posted) == 3)
    with call.stdout.open("a") as file:
        file.write("two\n")
    call.stderr.write_text("bad\n")
    until(lambda: len(posted) == 4)
    last = posted[-1]
    assert isinstance(last, OutputRead)
    assert last.call is call
    assert last.live
    assert streams_of(call) == ("stdout", "stderr")


def test_another_request_ends_the_following(inspector: Inspector, posted: list[Message]) -> None:
    inspector.ask("a", output=True)
    until(lambda: any(isinstance(one, OutputRead) for one in posted))
    inspector.ask("b", output=False)
    until(lambda: isinstance(posted[-1], DetailRead) and posted[-1].key == "b")
    inspector.rest()
    inspector.ask("c", output=True)
    until(lambda: isinstance(posted[-1], OutputRead) and posted[-1].key == "c")


def test_what_cannot_be_read_is_said(inspector: Inspector, posted: list[Message]) -> None:
    inspector.ask("broken", output=True)
    until(lambda: any(isinstance(one, DetailRead) and one.problem for one in posted))
    first = posted[0]
    assert isinstance(first, DetailRead)
    assert first.problem is not None
    assert "cannot [/] read" in first.problem


def test_skipped_requests_are_not_read(call: CallView) -> None:
    gate = threading.Event()
    asked: list[str] = []

    def read(key: str) -> Detail | None:
        asked.append(key)
        gate.wait(10)
        return None

    inspector = Inspector(read, lambda message: None)
    inspector.ask("first", output=False)
    until(lambda: asked == ["first"])
    for index in range(100):
        inspector.ask(f"{index}", output=False)
    gate.set()
    until(lambda: len(asked) == 2)
    assert asked == ["first", "99"]
    assert inspector.stop()
