"""What a benchmark found, one row a figure, and the table of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One figure beside its limit."""

    name: str
    """What was measured."""
    value: float
    unit: str
    """``x`` for a ratio of two things measured in the same run, else the unit of ``value``."""
    limit: float | None = None
    """The most it may be; ``None`` for what is only reported."""
    detail: str = ""
    """Both sides as measured, and how much they scattered."""
    least: float | None = None
    """The least it may be, where more is better."""

    @property
    def verdict(self) -> str:
        """``ok``, ``MISSED``, or nothing where there is no limit."""
        if self.limit is None and self.least is None:
            return ""
        low = self.least is not None and self.value < self.least
        high = self.limit is not None and self.value > self.limit
        return "MISSED" if low or high else "ok"


def missed(rows: Iterable[Row]) -> list[Row]:
    """The rows beyond their limit."""
    return [row for row in rows if row.verdict == "MISSED"]


def render(rows: Iterable[Row]) -> str:
    """The table as text, columns aligned."""
    lines = [("figure", "value", "limit", "", "measured")]
    for row in rows:
        limit = "" if row.limit is None else f"<= {_number(row.limit)}"
        if row.least is not None:
            limit = f">= {_number(row.least)}"
        lines.append((row.name, f"{_number(row.value)} {row.unit}".rstrip(), limit, row.verdict, row.detail))
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    return "\n".join(
        "  ".join(
            [
                line[0].ljust(widths[0]),
                line[1].rjust(widths[1]),
                line[2].ljust(widths[2]),
                line[3].ljust(widths[3]),
                line[4],
            ]
        ).rstrip()
        for line in lines
    )


def _number(value: float) -> str:
    return f"{value:.0f}" if value == round(value) and value >= 10 else f"{value:.2f}"
