"""Missions made by hand, to draw, and one on disk to look into."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from meshtui.core.mesh.view import LoopRow, MissionView, mission_attention
from meshtui.core.models.mesh import Plan
from meshtui.core.view import LaneView, RunnerView
from tests.support.views import MINUTE, NOW

ROOT = Path("/srv/lanes/api-lane/missions")
MAX = {
    "max_iterations": 2, "max_wall_ms": 900_000, "max_model_calls": 8, "max_subagents": 6,
    "max_tokens_estimate": 120_000, "max_changed_files": 12, "max_patch_bytes": 256_000,
}  # fmt: skip
GATES = ("loop:state-valid", "ruff", "tests")


def loop(name: str, status: str = "planned", **fields: Any) -> LoopRow:
    """A loop of mission m7."""
    values: dict[str, Any] = {
        "title": f"{name} loop",
        "level": "L2-action",
        "max_iterations": 2,
        "directories": (f"src/{name}",),
        "makers": 2,
        "checkers": 1,
        "gates_selected": GATES,
        "budget_max": MAX,
    }
    return LoopRow("m7", f"loop-{name}", status=status, **{**values, **fields})


API = loop(
    "api", "running", phase="checker", iteration=1, risk="high", risk_reasons=("high: publishing: src/api",),
    active_workers=("checker-1",), workers_used=3, gates_passed=GATES[:2], changed_files=("src/api/app.py",),
    budget_used={"wall_ms": 300_000, "model_calls": 3, "iterations": 1, "subagents": 2, "changed_files": 1},
    started_at=NOW - 370_000, updated_at=NOW - 70_000, marks=((NOW - 369_000, "maker"), (NOW - 70_000, "checker")),
)  # fmt: skip
AUTH = loop(
    "auth", "blocked", phase="handoff", iteration=2, risk="critical", workers_used=4, gates_passed=GATES[:2],
    gates_failed=("tests",), blockers=("gate tests failed (exit 1): 1 failed", "budget: 2 of 2 iterations are used"),
    budget_used={"wall_ms": 880_000, "model_calls": 8, "iterations": 2},
    started_at=NOW - 900_000, ended_at=NOW - 20_000, updated_at=NOW - 20_000, marks=((NOW - 800_000, "gates"),),
)  # fmt: skip
DOCS = loop(
    "docs", "completed", phase="finalizer", iteration=1, workers_used=3, gates_passed=GATES,
    budget_used={"wall_ms": 62_000, "model_calls": 2}, changed_files=("docs/guide.md",),
    started_at=NOW - 900_000, ended_at=NOW - 838_000, updated_at=NOW - 838_000,
)  # fmt: skip
SCHEMA = loop(
    "schema", "handoff", phase="handoff", iteration=1, risk="critical", workers_used=3, gates_passed=GATES,
    handoff_reason="risk critical: it touches migrations", changed_files=("db/0007.sql",),
    budget_used={"wall_ms": 162_000, "model_calls": 4}, started_at=NOW - 830_000, ended_at=NOW - 600_000,
    updated_at=NOW - 600_000, dependencies=("loop-docs",),
)  # fmt: skip
MERGE = loop(
    "integration",
    "queued",
    directories=(),
    dependencies=("loop-api", "loop-auth", "loop-docs", "loop-schema"),
)


def mission(*loops: LoopRow, alive: bool = True, **fields: Any) -> MissionView:
    """Mission m7, which runs unless told otherwise."""
    values: dict[str, Any] = {
        "request": "Refresh tokens before they expire, and say so in the guide",
        "repo": "/srv/repo",
        "base_commit": "b" * 40,
        "runner": RunnerView(True, 5150, "build-3", NOW - 2000) if alive else RunnerView(),
        "loops": loops or (API, AUTH, DOCS, SCHEMA, MERGE),
    }
    return MissionView("m7", ROOT / "m7" / "loops", **{**values, **fields})


def done_mission() -> MissionView:
    """A mission that is done and not landed."""
    loops = tuple(replace(one, status="completed", blockers=(), gates_failed=(), gates_passed=GATES, active_workers=())
                  for one in (DOCS, replace(MERGE, started_at=NOW - 800_000, ended_at=NOW - MINUTE)))  # fmt: skip
    return mission(*loops, alive=False, graph_proof={"ok": True, "branch": "meshtui/m7"})


def with_missions(view: LaneView, *missions: MissionView) -> LaneView:
    """``view`` of a directory that has missions, too."""
    items = [item for one in missions for item in mission_attention(one, view.run_dir)]
    return replace(view, missions=missions, attention=(*view.attention, *items))


def only(*missions: MissionView) -> LaneView:
    """A directory of missions without a lane."""
    return with_missions(LaneView(run_dir=ROOT.parent, exists=False), *missions)


def plan(**fields: Any) -> Plan:
    """A plan of two loops that overlap."""
    node = {
        "loop_id": "loop-auth", "title": "auth loop", "level": "L1-assisted",
        "owner_scope": {"files": [], "directories": ["src/auth"]},
        "risk": {"level": "critical", "reasons": ["critical: migrations: db"], "requires_human_handoff": True},
        "gates": {"triage": [], "local": ["ruff", "tests"], "checker": [], "integration": [], "final": []},
    }  # fmt: skip
    merge = {
        "loop_id": "loop-integration",
        "dependencies": ["loop-auth"],
        "owner_scope": {"files": [], "directories": []},
    }
    value = {
        "mission_id": "m8", "request": "Make tokens refresh [bold]now[/bold]", "graph": {"nodes": [node, merge], "edges": []},
        "overlaps": [{"first": "loop-auth", "second": "loop-api", "action": "ordered", "text": "loop-auth and loop-api both own src/auth: loop-api goes first"}],
        "domains_truncated": ["web"], "options": {"engine": "command", "target": "main", "warnings": ["npm is missing"]},
        **fields,
    }  # fmt: skip
    return Plan.model_validate(value)


def write_json(path: Path, value: object) -> None:
    """Write a file of a mission."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def on_disk(root: Path, *, hostile: bool = False) -> Path:
    """A run directory with mission m7 of one loop that ended badly; its path."""
    bad = "\x1b[31m[bold]x[/bold]\x07\u202e" if hostile else ""
    loops = root / "missions" / "m7" / "loops"
    folder = loops / "loop-auth"
    node = {
        "loop_id": "loop-auth", "title": f"auth{bad}", "level": "L2-action", "dependencies": [],
        "owner_scope": {"files": [], "directories": [f"src/auth{bad}"]}, "budget": MAX,
        "maker": {"worker_count": 1}, "checker": {"worker_count": 1}, "risk": {"level": "high", "reasons": [f"auth{bad}"]},
        "gates": {"triage": [], "local": ["ruff", f"tests{bad}"], "checker": [], "integration": [], "final": []},
    }  # fmt: skip
    write_json(
        loops / "loop-plan.json", {"mission_id": "m7", "request": f"do{bad}", "graph": {"nodes": [node]}}
    )
    write_json(folder / "loop-state.json", {
        "status": "blocked", "iteration": 2, "current_phase": "handoff", "blockers": [f"gate tests failed{bad}"],
        "updated_at": "2026-12-01T00:01:00.000Z", "budget_used": {"wall_ms": 60_000, "model_calls": 4},
    })  # fmt: skip
    write_json(
        folder / "checkpoint-latest.json",
        {
            "calls": {},
            "meshtui": {
                "iteration": 2,
                "findings": [f"gate tests failed (exit 1){bad}"],
                "passed": ["ruff"],
                "failed": [f"tests{bad}"],
            },
        },
    )
    write_json(
        folder / "checkpoints" / "0002-maker.json",
        {"meshtui": {"iteration": 2, "findings": ["checker-1: no test"]}},
    )
    write_json(
        folder / "gates" / "ruff.json",
        {"gate_id": "ruff", "ok": True, "exit_code": 0, "duration_ms": 412, "command": "ruff check"},
    )
    write_json(folder / "gates" / "tests.json", {
        "gate_id": f"tests{bad}", "ok": False, "exit_code": 1, "duration_ms": 12_800, "iteration": 2, "command": f"pytest{bad}",
        "stdout_tail": f"E  AssertionError: expected 401{bad}\n1 failed", "log": "calls/x/stdout.log"})  # fmt: skip
    for iteration, approved in ((1, False), (2, True)):
        write_json(folder / "checker" / f"{iteration:04d}-checker-1.json", {
            "approved": approved, "fresh_session": True, "findings": [] if approved else [f"token refresh is not covered{bad}"]})  # fmt: skip
    write_json(folder / "loop-proof.json", {
        "status": "blocked", "base_commit": "b" * 40, "head_commit": "c" * 40, "blockers": [f"gate tests failed{bad}"],
        "gate_result": {"passed_gates": ["ruff"], "failed_gates": [f"tests{bad}"], "skipped_gates": []},
        "changed_files": ["src/auth/token.py"],
        "evidence": [{"claim": f"gate tests failed{bad}", "call": "x", "command": f"pytest{bad}", "exit_code": 1,
                      "duration_ms": 12_800, "log": "calls/x/stdout.log", "sha256": "9f3c" + "0" * 58 + "e1"}]})  # fmt: skip
    (folder / "patches").mkdir(parents=True)
    (folder / "patches" / "0001.patch").write_text("old\n")
    (folder / "patches" / "0002.patch").write_text(
        "diff --git a/src/auth/token.py b/src/auth/token.py\nindex 1..2 100644\n--- a/src/auth/token.py\n"
        f"+++ b/src/auth/token.py\n@@ -1,2 +1,3 @@\n keep{bad}\n-old line\n+new line\n+another{bad}\n"
        "diff --git a/src/auth/new.py b/src/auth/new.py\nnew file mode 100644\n--- /dev/null\n+++ b/src/auth/new.py\n@@ -0,0 +1 @@\n+x = 1\n"
    )
    lines = [
        ("2026-12-01T00:00:00.000Z", "loop_started", ""), ("2026-12-01T00:00:01.000Z", "loop_maker_started", ""),
        ("2026-12-01T00:00:30.000Z", "loop_gate_started", ""), ("2026-12-01T00:01:00.000Z", "loop_blocked", f"gate tests{bad}"),
    ]  # fmt: skip
    (folder / "loop-run-log.jsonl").write_text(
        "".join(
            json.dumps({"ts": at, "event_type": event, "status": "x", "message": message}) + "\n"
            for at, event, message in lines
        )
        + "not json\n"
    )
    return root
