"""Parts of speech of source text as looks, by the name of its file; none where they are not known."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from meshtui.widgets.paint import Line, Span

if TYPE_CHECKING:
    from pygments.lexer import Lexer

LONGEST = 600
"""Characters of a line that is coloured; what is longer was not written by hand."""
MOST = 60_000
"""Characters coloured at once."""


@lru_cache(maxsize=32)
def lexer_of(path: str) -> Lexer | None:
    """What reads files of this name."""
    from pygments.lexers import get_lexer_for_filename
    from pygments.util import ClassNotFound

    try:
        return get_lexer_for_filename(PurePath(path).name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


def _look(kind: Any) -> str:
    from pygments.token import Token

    for group, look in (
        (Token.Comment, "comment"),
        (Token.Keyword, "word"),
        (Token.Operator.Word, "word"),
        (Token.Literal.String, "string"),
        (Token.Literal.Number, "figure"),
        (Token.Name.Function, "name"),
        (Token.Name.Class, "name"),
        (Token.Name.Decorator, "name"),
        (Token.Name.Tag, "name"),
        (Token.Name.Attribute, "name"),
        (Token.Generic.Heading, "strong"),
        (Token.Generic.Strong, "strong"),
    ):
        if kind in group:
            return look
    return "text"


_looks: dict[Any, str] = {}


def coloured(path: str, lines: Sequence[str]) -> list[Line] | None:
    """``lines`` that follow each other, each as spans; ``None`` where nothing is known of such files."""
    if not lines or max(map(len, lines)) > LONGEST or sum(map(len, lines)) > MOST:
        return None
    lexer = lexer_of(path)
    if lexer is None:
        return None
    found: list[Line] = []
    row: list[Span] = []
    for kind, value in lexer.get_tokens("\n".join(lines)):
        look = _looks.get(kind)
        if look is None:
            look = _looks[kind] = _look(kind)
        head, *more = value.split("\n")
        if head:
            row.append((head, look))
        for part in more:
            found.append(tuple(row))
            row = [(part, look)] if part else []
    found.append(tuple(row))
    # A lexer that loses or adds characters is not believed.
    if len(found) != len(lines) or any(
        "".join(t for t, _ in one) != line for one, line in zip(found, lines, strict=True)
    ):
        return None
    return found
