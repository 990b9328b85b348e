"""Lanes made by hand, to draw."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from meshtui.core.view import Attention, Counts, Event, Exit, LaneView, Row, RunnerView

NOW = 1_796_083_330_000
"""2026-12-01 00:02:10 UTC."""
MINUTE = 60_000

RETRY = Exit("retry", "meshtui answer US-014-backend --retry", "retry")
LONGER = Exit("longer", "meshtui answer US-014-backend --retry --deadline-seconds 7200", "retry")
DROP = Exit("drop", "meshtui answer US-014-backend --drop", "drop")
LOG = Exit("log", "meshtui logs US-012-tests", "log")
REQUEUE = Exit("again", "meshtui requeue US-012-tests", "requeue")
REPAIR = Exit("repair", "meshtui quarantine repair x", "repair")
REMOVE = Exit("delete", "meshtui quarantine drop x", "drop-file")
RUN = Exit("take over", "meshtui lane --take-over", "run")

PHASES = ("plan", "backend", "tests", "review", "docs")
ENGINES = ("claude", "codex", "command", None)


def key(number: int, envelope_id: str) -> str:
    """A record's name."""
    return f"{number:016d}-{NOW - number:013d}-00000000-0000-4000-8000-{number:012d}-{envelope_id}.json"


def pending(count: int, *, start: int = 100) -> tuple[Row, ...]:
    """Records that wait."""
    rows = []
    for index in range(count):
        story, phase = f"US-{15 + index // 5:03d}", PHASES[index % 5]
        rows.append(
            Row(
                key=key(start + index, f"{story}-{phase}"),
                section="pending",
                envelope_id=f"{story}-{phase}",
                phase=phase,
                story_id=story,
                engine=ENGINES[index % 4],
                queued_at=NOW - (2 + index) * MINUTE,
                budget_seconds=(1800, 3600, 600)[index % 3],
                stalls=1 if index == 2 else 0,
            )
        )
    return tuple(rows)


ACTIVE = Row(
    key=key(9, "US-015-backend"),
    section="active",
    envelope_id="US-015-backend",
    phase="backend",
    story_id="US-015",
    engine="claude",
    queued_at=NOW - 20 * MINUTE,
    started_at=NOW - 252_000,
    deadline_at=NOW + 1_548_000,
    budget_seconds=1800,
    call_id="1796083078000-US-015-backend-run-0a1b2c3d",
)
STALLED = Row(
    key=key(4, "US-014-backend"),
    section="stalled",
    envelope_id="US-014-backend",
    phase="backend",
    story_id="US-014",
    engine="claude",
    queued_at=NOW - 120 * MINUTE,
    started_at=NOW - 58 * MINUTE,
    finished_at=NOW - 28 * MINUTE,
    budget_seconds=1800,
    attempt=2,
    stalls=2,
    status="stalled",
    error="deadline exceeded twice",
)
FAILED = Row(
    key=key(3, "US-012-tests"),
    section="failed",
    envelope_id="US-012-tests",
    phase="tests",
    story_id="US-012",
    engine="codex",
    queued_at=NOW - 200 * MINUTE,
    started_at=NOW - 90 * MINUTE,
    finished_at=NOW - 80 * MINUTE,
    status="failed",
    error="exit 1: 3 tests failed in tests/test_token.py",
)
QUARANTINED = Row(
    key="0000000000000005-1796083000000-broken.json",
    section="quarantined",
    envelope_id="0000000000000005-1796083000000-broken.json",
    kind="unknown",
    finished_at=NOW - 5 * MINUTE,
    error="not JSON: line 1 column 17",
)


def done(count: int) -> tuple[Row, ...]:
    """Records that were finished, newest first."""
    return tuple(
        Row(
            key=key(10_000 + index, f"done-{index}"),
            section="done",
            envelope_id=f"done-{index}",
            phase=PHASES[index % 5],
            story_id=f"US-{index:03d}",
            engine="claude",
            queued_at=NOW - (200 + index) * MINUTE,
            started_at=NOW - (31 + index) * MINUTE,
            finished_at=NOW - (10 + index) * MINUTE,
            status="done",
            handoff_status=("passed", None, "failed")[index % 3],
        )
        for index in range(count)
    )


ATTENTION = (
    Attention("parked", "US-014-backend", "stalled twice at 30 min, silent for 28 min", NOW - 28 * MINUTE, (RETRY, LONGER, DROP), STALLED.key),
    Attention("failed", "US-012-tests", "exit 1: 3 tests failed", NOW - 80 * MINUTE, (LOG, REQUEUE), FAILED.key),
    Attention("quarantined", "…05-broken.json", "not JSON: line 1 column 17", NOW - 5 * MINUTE, (REPAIR, REMOVE), QUARANTINED.key),
    Attention("dead", "api-lane", "runner 4119 is gone, its phase still runs", NOW - 3 * MINUTE, (RUN,), None),
)  # fmt: skip

JOURNAL = tuple(
    Event(index, NOW - (40 - index) * 12_000, event, subject)
    for index, (event, subject) in enumerate(
        [
            ("envelope_enqueued", "US-015-tests"),
            ("phase_started", "US-014-backend"),
            ("phase_stalled", "US-014-backend"),
            ("phase_parked", "US-014-backend"),
            ("runner_started", "api-lane"),
            ("phase_completed", "US-013-docs"),
            ("phase_failed", "US-012-tests"),
            ("phase_started", "US-015-backend"),
        ]
        * 5
    )
)


def lane(count: int = 3, *, attention: int = 0, running: bool = True) -> LaneView:
    """A lane with ``count`` pending records and ``attention`` things that need the operator."""
    rows = pending(count)
    finished = done(41 if count else 0)
    stalled = (STALLED,) if attention else ()
    failed = (FAILED,) if attention > 1 else ()
    quarantined = (QUARANTINED,) if attention > 2 else ()
    return LaneView(
        run_dir=Path("/srv/lanes/api-lane"),
        exists=True,
        lane_id="api-lane",
        state="running" if running else "waiting",
        updated_at=NOW - 3000,
        runner=RunnerView(True, 4121, "build-3", NOW - 3000) if running else RunnerView(),
        active_envelope_id=ACTIVE.envelope_id if running else None,
        active_phase="backend" if running else None,
        pending=rows,
        active=(ACTIVE,) if running else (),
        done=finished,
        failed=failed,
        stalled=stalled,
        quarantined=quarantined,
        counts=Counts(
            pending=count,
            active=int(running),
            claimed=len(finished) + len(failed),
            stalled=len(stalled),
            quarantined=len(quarantined),
            done=len(finished),
            failed=len(failed),
        ),
        depth_history=tuple(
            (NOW - (12 - index) * MINUTE, depth)
            for index, depth in enumerate((1, 3, 6, 9, 12, 12, 9, 7, 5, 4, 3, count))
        ),
        attention=ATTENTION[:attention],
        journal=JOURNAL,
    )


def empty() -> LaneView:
    """A run directory without a lane."""
    return LaneView(run_dir=Path("/srv/lanes/new"), exists=False)


def without(view: LaneView, index: int) -> LaneView:
    """``view`` after one pending record is gone."""
    rows = (*view.pending[:index], *view.pending[index + 1 :])
    return replace(view, pending=rows, counts=replace(view.counts, pending=len(rows)))


def wide() -> LaneView:
    """A lane of long ids and wide characters."""
    view = lane(4, attention=1)
    rows = (
        replace(view.pending[0], envelope_id="x" * 120, story_id=None, phase=None, label="US-2041-migrate-the-whole-billing-schema-to-the-new-tenant-layout/backend"),
        replace(view.pending[1], story_id="物語-十五", phase="日本語のフェーズ名はとても長い"),
        replace(view.pending[2], story_id="🚀-emoji", phase="👩‍👩‍👧 family ⚠️ sign"),
        replace(view.pending[3], story_id=None, phase=None, label="[bold]not markup[/bold] [/foo] \x1b[31mred", engine="[a=b]"),
    )  # fmt: skip
    return replace(view, pending=rows, lane_id="ラン-レーン-とても長い名前のレーン-with-a-long-name")
