"""Rows: however a text is broken, no character is lost, none is shown twice, and places agree with rows."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

import meshtui.widgets.lines as lines_module
from meshtui.widgets.finding import overlay
from meshtui.widgets.lines import Rows, TextLine, cut_out, pieces

texts = st.text(alphabet="ab c  d-日é🚀", max_size=60)


@settings(deadline=None, max_examples=400)
@given(texts, st.integers(1, 30), st.integers(0, 12))
def test_a_text_is_broken_without_loss(text: str, width: int, hang: int) -> None:
    found = pieces(text, width, hang)
    indent = hang if hang < width // 2 else 0
    at = 0
    for number, (begin, end) in enumerate(found):
        # Only spaces are left out, between two rows.
        assert not text[at:begin].strip(" ")
        room = width - (indent if number else 0)
        assert cell_len(text[begin:end]) <= max(room, 2)
        at = end
    assert not text[at:].strip(" ")


@settings(deadline=None, max_examples=200)
@given(st.lists(texts, max_size=12), st.integers(4, 20), st.booleans(), st.booleans(), st.integers(1, 6))
def test_moving_by_rows_agrees_with_all_rows(
    many: list[str], width: int, wrap: bool, exact: bool, page: int
) -> None:
    shown = [TextLine(((text, "text"),)) for text in many]
    limit = lines_module.EXACT_LINES
    lines_module.EXACT_LINES = 1000 if exact else -1
    try:
        rows = Rows(len(shown), shown.__getitem__, width, wrap)
    finally:
        lines_module.EXACT_LINES = limit
    everything = [(index, row) for index in range(len(shown)) for row in range(len(rows.pieces(index)))]
    if not everything:
        assert rows.height(page) == 0
        return
    for start, place in enumerate(everything):
        for by in (-7, -1, 0, 1, 5):
            want = everything[max(0, min(start + by, len(everything) - 1))]
            assert rows.move(*place, by) == want
        if rows.exact:
            assert rows.at(rows.place(*place)) == place
    assert rows.last_top(page) == everything[max(0, len(everything) - page)]
    top = rows.last_top(page)
    # The place of the last page is the furthest one a scroll bar reaches.
    assert max(0, rows.height(page) - page) == (
        rows.place(*top) if len(everything) > page or rows.exact else 0
    )


@given(st.lists(st.tuples(texts, st.sampled_from("xy")), max_size=5), st.integers(0, 30), st.integers(0, 30))
def test_cutting_out_and_laying_over_keep_the_text(
    spans: list[tuple[str, str]], begin: int, end: int
) -> None:
    text = "".join(part for part, _look in spans)
    assert "".join(part for part, _look in cut_out(spans, begin, end)) == text[begin : max(begin, end)]
    over = overlay(tuple(spans), [(begin, end, "match")])
    assert "".join(part for part, _look in over) == text
    marked = "".join(part for part, look in over if look.endswith("match"))
    assert marked == text[begin : max(begin, end)]
