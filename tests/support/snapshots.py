"""Compares pictures with those that were looked at and kept."""

from __future__ import annotations

import os
from pathlib import Path

KEPT = Path(__file__).parent.parent / "snapshots" / "kept"
UPDATE = "MESHTUI_SNAPSHOT_UPDATE"
"""Environment variable: keep what is drawn now instead of comparing."""


def compare(name: str, svg: str, got: Path) -> None:
    """Fail unless ``svg`` is byte for byte the kept picture ``name``; the new one is left in ``got``."""
    kept = KEPT / f"{name}.svg"
    if os.environ.get(UPDATE):
        KEPT.mkdir(exist_ok=True)
        kept.write_text(svg, encoding="utf-8")
        return
    actual = got / f"{name}.svg"
    actual.write_text(svg, encoding="utf-8")
    assert kept.exists(), f"no kept picture {kept}: look at {actual}, then run again with {UPDATE}=1"
    assert svg == kept.read_text(encoding="utf-8"), (
        f"{actual} differs from {kept}: look at both; if the new one is right, run again with {UPDATE}=1"
    )
