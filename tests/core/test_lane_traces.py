"""The traces recorded from the original, replayed by a runner of ours with real processes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from meshtui.core.clock import SystemClock
from meshtui.core.engines.base import EngineRequest
from meshtui.core.engines.fake import FakeReply
from meshtui.core.errors import InvalidInput
from meshtui.core.snapshot import take_snapshot
from tests.support.runners import LaneBox, MakeBox, Script, envelope_id_of, load

DATA = Path(__file__).parents[1] / "data"
TRACES: dict[str, dict[str, Any]] = {
    trace["name"]: trace for trace in json.loads((DATA / "lane-traces.json").read_text())
}
VALID: dict[str, Any] = next(
    case["value"]
    for case in json.loads((DATA / "handoff-verdicts.json").read_text())
    if case["name"] == "valid"
)
PATHS = ("worktree", "result_path")
"""Fields of envelopes that name places of the machine where the traces were recorded."""
TIMES = {"started_at", "finished_at", "queued_at", "at", "updated_at"}
OURS = {
    "result": {"engine", "handoff_status", "usage", "exit_code", "call"},
    "record": {"attempt", "call", "fresh_fallback"},
    "stall": {"call"},
    "status": {"pid", "schema_version"},
}


def numbered(n: int) -> str:
    return f"sess-{n}"


def script_of(name: str) -> Script:
    """The engine as the trace's ``script`` describes it."""
    count = 0

    def script(request: EngineRequest) -> FakeReply:
        nonlocal count
        count += 1
        envelope_id = envelope_id_of(request)
        match name:
            case "done-then-stop":
                return FakeReply(f"out {envelope_id}", session_id=numbered(count))
            case "failed-continues" if envelope_id == "bad":
                return FakeReply(exit_code=1, stderr="engine exploded")
            case "resume-fallback" if request.session_id is not None:
                return FakeReply(exit_code=75, stderr="no such session")
            case "resume-fallback":
                return FakeReply("ok", session_id=numbered(count))
            case "stall-twice-parks" | "abort-requeues":
                return FakeReply(hang=True)
            case "section8-good":
                return FakeReply(json.dumps(VALID, separators=(",", ":")))
            case "section8-bad-json":
                return FakeReply("not json")
            case "section8-worker-mismatch":
                return FakeReply(json.dumps({**VALID, "worker_id": "other"}))
            case "interrupt-withdraws":
                return FakeReply("ok", delay_seconds=0.3)
            case _:
                return FakeReply("ok")

    return script


def envelopes_of(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """What was enqueued, in order."""
    records = [record for folder, found in trace["files"].items() if folder != "results" for record in found]
    records.sort(key=lambda item: re.findall(r"\d{16}", item["name"])[0])
    return [record["record"]["envelope"] for record in records]


def moved_here(value: dict[str, Any], box: LaneBox) -> dict[str, Any]:
    """An envelope with this machine's places."""
    here = {"worktree": str(box.work), "result_path": str(box.root / "out" / "h1.json")}
    return {key: here.get(key, item) if key in PATHS else item for key, item in value.items()}


def comparable(value: dict[str, Any], kind: str) -> dict[str, Any]:
    """Without times, places, what only one side has, and how an error is worded."""
    drop = TIMES | OURS[kind] | {"__active_dir"}
    kept = {k: v for k, v in value.items() if k not in drop and not k.startswith("deadline_")}
    if "envelope" in kept:
        kept["envelope"] = {k: v for k, v in kept["envelope"].items() if k not in PATHS}
    if "error" in kept:
        kept["error"] = True
    return kept


def pattern(name: str) -> str:
    """A record's name without its time and uuid."""
    return re.sub(r"-\d{13}-[0-9a-f-]{36}-", "-<ms>-<uuid>-", name)


def files_in(folder: Path, kind: str) -> list[tuple[str, dict[str, Any]]]:
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    return [(pattern(name), comparable(load(folder / name), kind)) for name in names]


def check(box: LaneBox, trace: dict[str, Any]) -> None:
    """Compare calls, files, status, sessions and stalls with the trace."""
    calls = [call for call in trace["calls"] if "question" not in call]
    assert box.starts() == [(call["envelope_id"], call["session_id"]) for call in calls]
    assert [session is None for _, session in box.starts()] == [call["fresh"] for call in calls]
    for folder, records in trace["files"].items():
        kind = "result" if folder == "results" else "record"
        expected = [(item["name"], comparable(item["record"], kind)) for item in records]
        assert files_in(box.paths.root / folder, kind) == expected, folder
    if "withdrawn" not in trace["files"]:
        assert box.ids("withdrawn") == []
    if "stalled" not in trace["files"]:
        assert box.ids("stalled") == []
    assert comparable(box.status(), "status") == comparable(trace["status"], "status")
    assert box.sessions() == trace["sessions"]
    stalls = [comparable(stall, "stall") for stall in box.stalls()]
    assert stalls == [comparable(stall, "stall") for stall in trace["stalls"]]
    questions = {call["question"]: call for call in trace["calls"] if "question" in call}
    found = {path.stem: load(path) for path in box.paths.questions.glob("*.json")}
    assert {key: (q["cause"], q["attempts"]) for key, q in found.items()} == {
        key: (call["error"], call["attempt"]) for key, call in questions.items()
    }


@pytest.mark.parametrize(
    "name",
    [
        "done-then-stop",
        "failed-continues",
        "resume-fallback",
        "stall-twice-parks",
        "section8-good",
        "section8-bad-json",
        "section8-worker-mismatch",
    ],
)
def test_a_queue_worked_to_its_end(name: str, make_box: MakeBox) -> None:
    trace = TRACES[name]
    box = make_box(script_of(name))
    for envelope in envelopes_of(trace):
        box.lane.enqueue(moved_here(envelope, box))
    outcome = box.start().join()
    assert {"state": outcome.state, "completed": outcome.completed} == trace["run_result"]
    check(box, trace)
    if name.startswith("section8") and "result_path" in envelopes_of(trace)[0]:
        handoff = load(box.root / "out" / "h1.json")
        expected = {"section8-good": "passed", "section8-bad-json": "failed"}
        assert handoff["schema"] == "hq-phase-handoff/v1"
        assert handoff["status"] == expected[name]


def test_the_words_of_the_original_are_in_ours(make_box: MakeBox) -> None:
    trace = TRACES["failed-continues"]
    box = make_box(script_of("failed-continues"))
    for envelope in envelopes_of(trace):
        box.lane.enqueue(envelope)
    box.start().join()
    assert "engine exploded" in box.result("bad")["error"]


def test_abort_requeues(make_box: MakeBox) -> None:
    trace = TRACES["abort-requeues"]
    box = make_box(script_of("abort-requeues"))
    for envelope in envelopes_of(trace):
        box.lane.enqueue(envelope)
    runner = box.start()
    call = box.active_call("long")
    outcome = runner.stop()
    assert {"state": outcome.state, "completed": outcome.completed} == trace["run_result"]
    check(box, trace)
    assert call.state() == "ended"
    record = box.record("pending", "long")
    assert not {"deadline_at_ms", "call", "__active_dir"} & record.keys()


def test_interrupt_withdraws(make_box: MakeBox) -> None:
    trace = TRACES["interrupt-withdraws"]
    box = make_box(script_of("interrupt-withdraws"))
    *phases, stop = envelopes_of(trace)
    for envelope in phases:
        box.lane.enqueue(envelope)
    runner = box.start()
    box.active_call("a")
    receipt = box.lane.interrupt()
    note = trace["notes"]["interrupt"]
    assert list(receipt.withdrawn) == note["withdrawn"]
    assert list(receipt.already_picked_up) == note["already_picked_up"]
    # The original's answer was computed when it was asked for, as a snapshot is.
    expected = comparable(trace["notes"]["status_after"], "status")
    lane = take_snapshot(box.root, SystemClock()).as_json()["lane"]
    assert {key: lane[key] for key in expected if key != "mode"} == {
        key: value for key, value in expected.items() if key != "mode"
    }
    box.lane.enqueue(stop)
    outcome = runner.join()
    assert {"state": outcome.state, "completed": outcome.completed} == trace["run_result"]
    check(box, trace)


def test_enqueue_refusals(make_box: MakeBox) -> None:
    trace = TRACES["enqueue-refusals"]
    box = make_box()
    notes = trace["notes"]
    seen: dict[str, Any] = {}
    for key, envelope in {
        "first": {"kind": "phase", "prompt": "do it", "id": "x"},
        "dup": {"kind": "phase", "prompt": "do it", "id": "x"},
        "stop": {"kind": "stop", "id": "st"},
        "second_stop": {"kind": "stop", "id": "st2"},
        "after_stop": {"kind": "phase", "prompt": "do it", "id": "y"},
        "too_big": {"kind": "phase", "prompt": "x" * (1 << 20), "id": "big"},
    }.items():
        try:
            receipt = box.lane.enqueue(envelope).as_json()
        except InvalidInput as error:
            receipt = {"error": str(error)}
        seen[key] = receipt
    for key, note in notes.items():
        if "error" in note:
            assert "error" in seen[key], key
        else:
            assert comparable(seen[key], "status") == comparable(note, "status"), key
    outcome = box.start().join()
    assert {"state": outcome.state, "completed": outcome.completed} == trace["run_result"]
    check(box, trace)
