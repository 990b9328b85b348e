"""The pictures of the demo hold nothing of the machine they were drawn on, and come out the same again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from screenshots.make import HERE, SHOWN_ROOT, TIMED, draw_all

README = HERE.parent / "README.md"


@pytest.fixture(scope="module", autouse=True)
def _importable() -> Iterator[None]:
    """The mission of the demo is run by a meshtui of its own: this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(HERE.parent))
        yield


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return draw_all(tmp_path_factory.mktemp("one") / "demo")


def test_all_are_there(pictures: dict[str, str]) -> None:
    assert {path.name for path in HERE.glob("*.svg")} == set(pictures)
    shown = re.findall(r"screenshots/([\w-]+\.svg)", README.read_text(encoding="utf-8"))
    assert shown
    assert set(shown) <= set(pictures)


def test_nothing_of_this_machine(pictures: dict[str, str], tmp_path: Path) -> None:
    committed = [path.read_text(encoding="utf-8") for path in HERE.glob("*.svg")]
    for svg in [*pictures.values(), *committed]:
        assert svg.startswith("<svg")
        assert str(tmp_path.parent) not in svg
        paths = set(re.findall(r"/(?:home|root|tmp|Users|work|var)/[\w./-]*", svg))
        assert all(path.startswith(SHOWN_ROOT) for path in paths)


def test_the_same_again(pictures: dict[str, str], tmp_path: Path) -> None:
    again = draw_all(tmp_path / "another" / "demo")
    assert again.keys() == pictures.keys()
    assert [name for name, svg in again.items() if svg != pictures[name] and name not in TIMED] == []
