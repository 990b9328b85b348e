"""JSON folds: what is shown is what is unfolded, and every value can be reached."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from meshtui.reading.fold import Node, Tree, find, spoken_path
from meshtui.reading.needle import Needle
from meshtui.widgets.json_doc import JsonDoc, row_text

scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=6), st.just("one\ntwo\nthree"))
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=25,
)


def model(node: Node) -> list[Node]:
    """The rows below ``node``, by plain recursion."""
    found = []
    for child in node.below():
        found.append(child)
        if child.open:
            found += model(child)
    return found


def rows(tree: Tree) -> list[Node]:
    return model(tree.root) or [tree.root]


@settings(deadline=None, max_examples=200)
@given(values, st.lists(st.one_of(st.integers(0, 50), st.just("all")), max_size=12))
def test_rows_are_what_is_unfolded(value: Any, steps: list[Any]) -> None:
    tree = Tree(value)
    assert tree.rows == rows(tree)
    for step in steps:
        here = 0 if step == "all" else step % len(tree)
        at = tree.toggle_all(here) if step == "all" else tree.toggle(here)
        assert 0 <= at < len(tree)
        assert tree.rows == rows(tree)


@settings(deadline=None, max_examples=200)
@given(values)
def test_unfolding_twice_shows_the_same(value: Any) -> None:
    tree = Tree(value)
    for index in range(len(tree) - 1, -1, -1):
        before = list(tree.rows)
        if tree.rows[index].folds and tree.rows[index] is not tree.root:
            assert tree.toggle(index) == index
            assert tree.toggle(index) == index
            assert tree.rows == before


@settings(deadline=None, max_examples=200)
@given(values, st.sampled_from(["o", "t", "1", "e", "[", ":"]))
def test_what_is_found_is_shown(value: Any, text: str) -> None:
    needle = Needle(text)
    doc = JsonDoc(value)
    for hit in list(find(value, needle, row_text, lambda: False)):
        path, line, ordinal = hit
        row, nth = doc.reveal(hit)
        node = doc.tree.rows[row]
        assert node.path == path
        assert nth == ordinal
        assert doc.stands(hit) == (row, nth)
        if line is not None:
            assert needle.spans(str(node.value))
    doc.fold_all(0)


@settings(deadline=None, max_examples=100)
@given(values)
def test_every_row_is_drawn_and_copied(value: Any) -> None:
    doc = JsonDoc(value)
    doc.fold_all(0)
    doc.fold_all(0)
    for index in range(len(doc)):
        line = doc.line(index)
        assert all(ord(one) >= 32 for one in line.text)
        node = doc.tree.rows[index]
        copied = doc.copied(index)
        assert copied is not None
        if not isinstance(node.value, str):
            assert json.loads(copied) == node.value


def test_a_path_is_said_as_it_is_written() -> None:
    assert spoken_path(("a", 1, "b c", "d")) == 'a[1]["b c"].d'
    assert spoken_path(()) == ""
    assert spoken_path((0,)) == "[0]"


def test_a_big_document_is_there_at_once() -> None:
    value = {"many": [{"number": number, "text": "x\ny"} for number in range(100_000)]}
    tree = Tree(value)
    assert len(tree) == 1
    tree.toggle(0)
    assert len(tree) == 100_001
