"""The details are read in a thread: the newest request only, output as it grows, within bounds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from textual.message import Message

from meshtui.core.view import CallView, Detail
from meshtui.inspector import TAIL_LINES, Inspector, output_lines
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


def test_output_is_followed_as_it_grows(inspector: Inspector, call: CallView, posted: list[Message]) -> None:
    inspector.ask("k", output=True)
    until(lambda: len(posted) == 2)
    for index in range(3):
        with call.stdout.open("a") as file:
            file.write(f"line {index}\n")
        until(lambda index=index: isinstance(posted[-1], OutputRead) and len(posted[-1].lines) == index + 1)  # type: ignore[misc]
    last = posted[-1]
    assert isinstance(last, OutputRead)
    assert last.lines == (("line 0", "text"), ("line 1", "text"), ("line 2", "text"))
    assert last.live


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


def test_a_huge_log_is_read_at_its_end_only(call: CallView) -> None:
    with call.stdout.open("wb") as file:
        file.truncate(50_000_000)
        file.seek(0, 2)
        file.write(b"\n".join(b"%d" % index for index in range(100_000)))
    lines = output_lines(call)
    assert len(lines) == TAIL_LINES + 1
    assert lines[-1] == ("99999", "text")
    assert lines[0][0].startswith("… ")


def test_output_without_a_line_end_and_with_bad_bytes(call: CallView) -> None:
    call.stdout.write_bytes(b"\xff" + b"x" * 1_000_000)
    lines = output_lines(call)
    assert sum(len(text) for text, _look in lines) < 70_000
    call.stdout.write_bytes(b"a\xff\x1b]52;c;x\x07b")
    assert output_lines(call) == (("a\ufffdb", "text"),)


def test_the_stream_written_last_stands_last(call: CallView) -> None:
    call.stdout.write_text("out\n")
    call.stderr.write_text("err\n")
    import os

    os.utime(call.stdout, (1, 1))
    assert [text for text, _look in output_lines(call)] == ["── stdout", "out", "── stderr", "err"]
    os.utime(call.stderr, (0, 0))
    assert [text for text, _look in output_lines(call)] == ["── stderr", "err", "── stdout", "out"]
    assert output_lines(replace(call, stdout=call.folder / "none")) == (
        ("── stderr", "muted"),
        ("err", "warn"),
    )
