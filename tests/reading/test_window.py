"""Files read by windows show the same lines as files read at once, whatever is in them and happens to them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meshtui.reading.needle import Needle, search_file
from meshtui.reading.window import TextFile, has_return, shown

BLOCK = 8
EVERYTHING = 1 << 40

pieces = st.sampled_from(
    [b"\n", b"\r", b"\r\n", b"a", b"bc", b" ", b"xyz" * 5, b"\xc3\xa9", b"\xe2\x82\xac", b"\xff", b"\x1b[31m", b"\x80", b"\t", b"\n\n"]
)  # fmt: skip
contents = st.lists(pieces, max_size=40).map(b"".join)
within = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def model(data: bytes, block: int = BLOCK) -> list[bytes]:
    """The lines of ``data``, by the rule said plainly: where they end, one byte after the other."""
    ends = {at + 1 for at, byte in enumerate(data) if byte == 10}
    for begin in range(block, len(data), block):
        before = data[begin - block : begin]
        head = data[begin : begin + block].partition(b"\n")[0]
        if b"\n" not in before and not has_return(head):
            ends.add(begin)
    ends.add(len(data))
    ends.discard(0)
    starts = [0, *sorted(ends)]
    return [data[begin:end] for begin, end in pairwise(starts)]


def expected(data: bytes, block: int = BLOCK) -> list[str]:
    """What those lines show, in ASCII, where no character is cut."""
    return [shown(line) for line in model(data, block)]


@contextmanager
def opened(path: Path, block: int = BLOCK, start: int = 0) -> Iterator[TextFile]:
    file = TextFile(path, block=block, start=start)
    file.refresh()
    yield file
    file.close()


def whole(file: TextFile) -> list[str]:
    while not file.index(BLOCK * 3):
        pass
    return file.lines(0, EVERYTHING)


@within
@given(contents)
def test_lines_are_those_of_the_model(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    with opened(path) as file:
        found = whole(file)
        assert len(found) == len(file) == len(model(data))
        if data.isascii():
            assert found == expected(data)
        # Of bytes that are no ASCII those are right which no cut goes through.
        before = b"\n"
        for got, line in zip(found, model(data), strict=True):
            if line.endswith(b"\n") and before.endswith(b"\n") and len(line) < BLOCK:
                assert got == shown(line)
            before = line


@within
@given(contents, st.integers(0, 50), st.integers(0, 20))
def test_a_window_is_a_part_of_the_whole(tmp_path: Path, data: bytes, first: int, count: int) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    with opened(path) as file:
        found = whole(file)
        assert file.lines(first, count) == found[first : first + count]


@within
@given(
    contents, st.lists(st.tuples(st.sampled_from(["append", "cut", "replace", "gone"]), contents), max_size=6)
)
def test_a_file_that_changes_is_shown_as_it_is_now(
    tmp_path: Path, data: bytes, edits: list[tuple[str, bytes]]
) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    with opened(path) as file:
        whole(file)
        for what, more in edits:
            if what == "append":
                data += more
                with path.open("ab") as out:
                    out.write(more)
                if not path.exists():
                    path.write_bytes(data)
            elif what == "cut":
                data = data[: len(data) // 2]
                path.write_bytes(data)
            elif what == "replace":
                other = tmp_path / "other"
                data = more
                other.write_bytes(more)
                other.replace(path)
            else:
                data = b""
                path.unlink(missing_ok=True)
            file.refresh()
            assert len(whole(file)) == len(model(data))
            if data.isascii():
                assert whole(file) == expected(data)


@within
@given(contents, st.sampled_from(["a", "bc", "x", "A", "é", "c a", "zx"]))
def test_a_search_finds_what_is_drawn(tmp_path: Path, data: bytes, text: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    needle = Needle(text)
    with opened(path) as file:
        found = whole(file)
        want = [(at, nth) for at, line in enumerate(found) for nth, _ in enumerate(needle.spans(line))]
        assert list(search_file(file, needle, lambda: False)) == want
        middle = len(found) // 2
        assert list(search_file(file, needle, lambda: False, middle)) == [
            one for one in want if one[0] >= middle
        ]


@within
@given(contents, st.integers(0, 4))
def test_the_end_alone_is_the_end_of_the_whole(tmp_path: Path, data: bytes, blocks: int) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    start = min(blocks, len(data) // BLOCK) * BLOCK
    with opened(path) as file, opened(path, start=start) as tail:
        found, end = whole(file), whole(tail)
        if b"\n" in data[start:] and data.isascii():
            # From the first line that begins there on they are the same.
            first = file.line_at(start)
            assert len(found) - first == len(end)
            if data[start - 1 : start] == b"\n":
                assert found[first:] == end


def test_a_character_cut_by_a_block_is_whole_on_one_side(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes("a€".encode() * 16)
    with opened(path) as file:
        assert "".join(whole(file)) == "a€" * 16


def test_a_progress_bar_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"begin\n" + b"".join(b"%6d of 200000 done\r" % n for n in range(200_000)) + b"\nend\n")
    file = TextFile(path)
    file.refresh()
    file.index(EVERYTHING)
    assert file.lines(0, 10) == ["begin", "199999 of 200000 done", "end"]
    file.close()


def test_one_endless_line_costs_little(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 30_000_000)
    tracemalloc.start()
    file = TextFile(path)
    file.refresh()
    file.index(EVERYTHING)
    assert len(file) > 1000
    assert all(len(line) < 40_000 for line in file.lines(len(file) // 2, 20))
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    file.close()
    assert peak < 6_000_000


def test_a_search_is_given_up(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"needle\n" * 200_000)
    file = TextFile(path)
    file.refresh()
    file.index(EVERYTHING)
    count = 0

    def stop() -> bool:
        return count > 10

    for _hit in search_file(file, Needle("needle"), stop):
        count += 1
    assert count < 200_000
    file.close()


@pytest.mark.parametrize("make", ["folder", "pipe", "nothing"])
def test_what_is_no_file_has_no_lines(tmp_path: Path, make: str) -> None:
    import os

    path = tmp_path / "log"
    if make == "folder":
        path.mkdir()
    elif make == "pipe":
        os.mkfifo(path)
    with opened(path) as file:
        assert file.index(100)
        assert len(file) == 0
        assert file.lines(0, 5) == []


def test_nothing_a_terminal_acts_on_is_left(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\x1b]52;c;x\x07a\x1b[2Jb\x9b1m\x00\xff\xfe\xe2\x80\xae!\n")
    with opened(path, block=4096) as file:
        (line,) = whole(file)
    assert line.isprintable()
    assert "\u202e" not in line


def test_an_overwritten_line_by_cursor_to_its_start(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\x1b[2K\x1b[1Gone\x1b[2K\x1b[1Gtwo\n")
    with opened(path, block=4096) as file:
        assert whole(file) == ["two"]
