"""The pictures of the screens, byte for byte."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from meshtui.core.errors import InvalidInput
from meshtui.core.view import CallView, Detail, LaneView
from meshtui.headless import render_svg
from tests.support.snapshots import compare
from tests.support.views import FAILED, NOW, STALLED, empty, lane, wide

SIZES = ((60, 18), (80, 24), (120, 40), (200, 60))

ENVELOPE = {
    "schema": "hq-phase-envelope/v1", "id": "US-014-backend", "story_id": "US-014", "phase": "backend",
    "worker_id": "backend-dev", "worktree": "/srv/wt/US-014", "incoming_handoff": None, "fresh_call": True,
    "story_title": "Token refresh", "constraints": ["No new dependency"],
    "acceptance_criteria": ["A token is refreshed before it expires", "close() may be called [bold]twice[/bold]"],
}  # fmt: skip
HANDOFF = {
    "schema": "hq-phase-handoff/v1", "story_id": "US-014", "phase": "backend", "worker_id": "backend-dev",
    "status": "passed", "summary": "Refresh is done and covered by tests.",
    "files_changed": ["src/auth/token.py", "src/auth/session.py"], "commits": ["9f3c1e1 Refresh tokens"],
    "back_pressure": {"tests": "pass", "lint": "pass", "typecheck": "fail", "build": "skip"},
    "ac_evidence": [{"index": 0, "met": True, "evidence": "tests/test_token.py::test_refresh"},
                    {"index": 1, "met": False, "evidence": "close() raises the second time"}],
    "context_for_next": "Look at session.close().",
}  # fmt: skip


def details(folder: Path) -> dict[str, Detail]:
    """What stands behind the records."""
    (folder / "stdout.log").write_text(
        "\x1b[32mcollecting\x1b[0m\n"
        + "\n".join(f"tests/test_token.py::test_{index} PASSED" for index in range(60))
    )
    (folder / "stderr.log").write_text("warning: slow\n")
    call = CallView("c", folder, folder / "stdout.log", folder / "stderr.log", "ended", 1)
    result = {
        "status": "failed", "error": "exit 1", "exit_code": 1, "engine": "codex", "output": "Three tests fail:\n- a\n- b",
        "usage": {"input_tokens": 12_345, "output_tokens": 678, "cost_usd": 0.31},
    }  # fmt: skip
    question = {
        "cause": "deadline exceeded twice",
        "attempts": 2,
        "evidence": {"output_bytes": 1820, "last_output_at": "2026-11-30T23:06:10.000Z"},
    }
    return {
        FAILED.key: Detail(FAILED.key, "failed", {"envelope": ENVELOPE}, None, result, HANDOFF, call=call),
        STALLED.key: Detail(
            STALLED.key, "stalled", {"envelope": ENVELOPE}, None, question=question, call=call
        ),
    }


FRAMES: dict[str, tuple[LaneView, str | None, str | None]] = {
    "busy": (lane(12, attention=2), None, None),
    "many": (lane(10_000), None, None),
    "nothing": (empty(), None, None),
    "waiting": (lane(0, running=False), None, None),
    "attention": (lane(3, attention=4), "failed", None),
    "wide": (wide(), None, None),
    "dead": (replace(lane(3, attention=4), state="dead"), None, None),
}


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", ["busy", "attention"])
def test_the_screen_at_every_size(name: str, size: tuple[int, int], tmp_path: Path) -> None:
    view, screen, select = FRAMES[name]
    svg = render_svg(view, size=size, now_ms=NOW, screen=screen, select=select)
    compare(f"{name}-{size[0]}x{size[1]}", svg, tmp_path)


@pytest.mark.parametrize("name", ["many", "nothing", "waiting", "wide", "dead"])
def test_other_lanes(name: str, tmp_path: Path) -> None:
    view, screen, select = FRAMES[name]
    compare(
        f"{name}-80x24", render_svg(view, size=(80, 24), now_ms=NOW, screen=screen, select=select), tmp_path
    )


@pytest.mark.parametrize(
    "size", [(60, 18), (80, 24), (120, 36), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}"
)
@pytest.mark.parametrize("part", ["envelope", "output", "result", "handoff"])
def test_the_details(part: str, size: tuple[int, int], tmp_path: Path) -> None:
    read = details(tmp_path).get
    svg = render_svg(lane(3, attention=2), size=size, now_ms=NOW, screen=part, select=FAILED.key, detail=read)
    compare(f"detail-{part}-{size[0]}x{size[1]}", svg, tmp_path)


@pytest.mark.parametrize(
    "size", [(60, 18), (80, 24), (100, 30), (120, 40), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}"
)
@pytest.mark.parametrize("dialog", ["help", "enqueue", "answer", "kill"])
def test_the_dialogs(dialog: str, size: tuple[int, int], tmp_path: Path) -> None:
    read = details(tmp_path).get
    svg = render_svg(
        lane(3, attention=1), size=size, now_ms=NOW, screen=dialog, select=STALLED.key, detail=read
    )
    compare(f"{dialog}-{size[0]}x{size[1]}", svg, tmp_path)


def test_the_same_bytes_every_time() -> None:
    view = lane(12, attention=2)
    first = render_svg(view, size=(120, 40), now_ms=NOW)
    assert render_svg(view, size=(120, 40), now_ms=NOW) == first
    assert render_svg(view, size=(120, 40), now_ms=NOW + 1000) != first


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (40, 5)])
def test_any_size_is_drawn(size: tuple[int, int]) -> None:
    assert render_svg(lane(3, attention=4), size=size, now_ms=NOW).startswith("<svg")


def test_an_unknown_screen_is_refused() -> None:
    with pytest.raises(InvalidInput, match="handoff"):
        render_svg(empty(), size=(20, 5), now_ms=NOW, screen="nothing")


def test_no_loop_is_left_behind() -> None:
    render_svg(empty(), size=(20, 5), now_ms=NOW)
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
