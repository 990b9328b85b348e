"""Measures what agents cost beside their own work: ``python -m tests.benchmarks.engines [ROW ...] [--quick]``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.benchmarks.lane import drive

ROWS = {
    "engine_follow": "following a long stream: speed and memory",
    "engine_call": "what a call costs around its program",
    "engine_keys": "the console's keys while eight agents stream",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what was asked for, and print the table."""
    return drive("engines", ROWS, arguments)


if __name__ == "__main__":
    sys.exit(main())
