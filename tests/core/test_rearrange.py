"""To the head, edited, back in place: with and without a runner, beside other tools, through crashes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshtui.core import identity
from meshtui.core.clock import SystemClock, iso
from meshtui.core.engines.command import CommandEngine
from meshtui.core.errors import Held, InvalidInput, NotFound
from meshtui.core.journal import read_tail
from meshtui.core.lane.index import list_records
from meshtui.core.lane.lane import Lane
from meshtui.core.lane.moves import each
from meshtui.core.lane.reader import LaneReader
from meshtui.core.lane.rearrange import head_names
from meshtui.core.lane.service import open_runner
from meshtui.core.lane.settle import Settler
from meshtui.core.models.config import EngineConfig
from meshtui.core.models.names import RECOVERED, RETRY, RecordName, at_head
from meshtui.core.models.record import load_record
from meshtui.core.run_dir import RunDir
from tests.support.crash import counted, ended_at
from tests.support.lanes import (
    LaterClock,
    check,
    claim_first,
    files_of,
    finish_first,
    new_lane,
    park_first,
    pending_ids,
    phase,
    result_of,
    results,
    where,
)
from tests.support.runners import RunnerThread
from tests.support.waiting import wait_until


def lane_of(root: Path, *ids: str) -> tuple[RunDir, Lane]:
    run_dir, lane = new_lane(root / "run")
    lane.enqueue_many([phase(name) for name in ids])
    return run_dir, lane


def record_of(run_dir: RunDir, envelope_id: str) -> Any:
    [name] = [name for name in list_records(run_dir.lane.pending) if name.endswith(f"-{envelope_id}.json")]
    return load_record(run_dir.lane.pending / name)


def events(run_dir: RunDir) -> list[tuple[str, str]]:
    return [(event.event, event.subject) for event in read_tail(run_dir.events, 1000)]


# -- to the head ------------------------------------------------------------------------------------------


def test_the_head_is_the_first_of_all_each_time(tmp_path: Path) -> None:
    run_dir, lane = lane_of(tmp_path, "a", "b", "c", "d", "e")
    receipt = lane.head(["d", "c"])
    assert (receipt.moved, receipt.queue_depth) == (("d", "c"), 5)
    assert pending_ids(run_dir) == ["d", "c", "a", "b", "e"]
    lane.head(["e"])
    assert pending_ids(run_dir) == ["e", "d", "c", "a", "b"]
    lane.head(["b", "e", "b"])
    assert pending_ids(run_dir) == ["b", "e", "d", "c", "a"]
    assert ("moved_to_head", "e") in events(run_dir)
    check(run_dir, tmp_path)
    assert claim_first(run_dir).envelope_id == "b"
    assert lane.enqueue(phase("f")).position == 5


@pytest.mark.parametrize("prefix", [RETRY, RECOVERED])
def test_it_passes_what_was_put_back_there(prefix: Any, tmp_path: Path) -> None:
    run_dir, lane = lane_of(tmp_path, "a", "b", "c")
    record = record_of(run_dir, "a")
    (run_dir.lane.pending / record.name).rename(run_dir.lane.pending / at_head(record.name, prefix))
    lane.head(["c"])
    assert pending_ids(run_dir) == ["c", "a", "b"]
    lane.head(["b"])
    assert pending_ids(run_dir) == ["b", "c", "a"]
    check(run_dir, tmp_path)


def test_an_attempt_that_only_the_name_told_is_kept(tmp_path: Path) -> None:
    """A record of another tool says by its name that it stalled once."""
    run_dir, lane = lane_of(tmp_path, "a", "b")
    record = record_of(run_dir, "b")
    record.data.pop("attempt", None)
    files_of(run_dir).queue.rewrite(record, "pending")
    (run_dir.lane.pending / record.name).rename(run_dir.lane.pending / at_head(record.name, RETRY))
    lane.head(["a"])
    lane.head(["b"])
    assert pending_ids(run_dir) == ["b", "a"]
    assert record_of(run_dir, "b").attempt == 2


def test_what_cannot_be_moved_moves_nothing(tmp_path: Path) -> None:
    run_dir, lane = lane_of(tmp_path, "run", "a", "b")
    lane.enqueue({"kind": "stop", "id": "halt"})
    claim_first(run_dir)
    before = pending_ids(run_dir)
    for ids, kind, text in (
        (["b", "nowhere"], NotFound, "no envelope 'nowhere'"),
        (["b", "run"], InvalidInput, "is running, not pending"),
        (["b", "halt"], InvalidInput, "stays last"),
    ):
        with pytest.raises(kind, match=text):
            lane.head(ids)
        assert pending_ids(run_dir) == before
    check(run_dir, tmp_path)


def test_another_tools_runner_does_not_know_it(tmp_path: Path) -> None:
    run_dir, lane = lane_of(tmp_path, "a", "b")
    owner = {**identity.current().as_json(), "heartbeat_at": iso(SystemClock().now_ms())}
    run_dir.lane.runner_lock.mkdir()
    (run_dir.lane.runner_lock / "owner.json").write_text(json.dumps(owner))
    with pytest.raises(Held, match="another tool"):
        lane.head(["b"])
    with pytest.raises(Held, match="another tool"):
        lane.edit("b", phase("b", prompt="x"))
    lane.withdraw("a")
    # It has its own list of what comes next: the end is the only place there is.
    assert lane.restore(["a"], in_place=True).restored == ("a",)
    assert pending_ids(run_dir) == ["b", "a"]


names = st.builds(
    lambda prefix, sequence, ms: str(
        RecordName(prefix, sequence, ms, "0" * 8 + "-0000-4000-8000-" + "0" * 12, "x")
    ),
    st.sampled_from(("", RETRY, RECOVERED)),
    st.integers(0, 10**15),
    st.integers(0, 10**13 - 1),
)


@given(names, st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True))
def test_new_names_sort_before_any_other(first: str, ids: list[str]) -> None:
    made = head_names(first, ids, 1_796_083_330_000)
    assert made == sorted(made)
    parts = RecordName.parse(first)
    assert parts is not None
    if (parts.prefix, parts.sequence) != (RECOVERED, 0) or parts.ms > len(ids):
        assert made[-1] < first or (parts.sequence == 0 and parts.ms <= len(ids))


# -- edited ------------------------------------------------------------------------------------------------


def test_an_edited_envelope_keeps_its_place(tmp_path: Path) -> None:
    run_dir, lane = lane_of(tmp_path, "a", "b", "c")
    old = record_of(run_dir, "b")
    reader = LaneReader(run_dir)
    assert [row.engine for row in reader.refresh().pending] == ["command"] * 3
    receipt = lane.edit("b", phase("b", prompt="better", engine="codex"), base=old.envelope)
    assert (receipt.position, receipt.queue_depth, receipt.folder) == (2, 3, "pending")
    assert receipt.before == old.envelope
    new = record_of(run_dir, "b")
    assert new.envelope == phase("b", prompt="better", engine="codex")
    assert (new.queued_at, new.attempt) == (old.queued_at, 1)
    assert pending_ids(run_dir) == ["a", "b", "c"]
    assert [row.engine for row in reader.refresh().pending] == ["command", "codex", "command"]
    assert ("edited", "b") in events(run_dir)
    check(run_dir, tmp_path)


def test_to_look_at_an_envelope_changes_nothing(tmp_path: Path) -> None:
    """Another tool's lane need not have all the folders."""
    run_dir, _lane = lane_of(tmp_path, "a")
    shutil.rmtree(run_dir.lane.ids)
    for name in ("active", "stalled", "withdrawn"):
        run_dir.lane.folder(name).rmdir()
    before = sorted(run_dir.root.rglob("*"))
    assert Lane(run_dir).envelope("a") == ("pending", phase("a"))
    with pytest.raises(NotFound):
        Lane(run_dir).envelope("nowhere")
    assert sorted(run_dir.root.rglob("*")) == before


def test_a_phase_at_a_limit_stays_held_unless_another_engine_is_named(tmp_path: Path) -> None:
    run_dir, lane = lane_of(tmp_path, "a")
    record = record_of(run_dir, "a")
    record.data.update(attempt=2, deadline_budget_seconds=60, limit={"until_ms": 1, "holds": 2})
    files_of(run_dir).queue.rewrite(record, "pending")
    lane.edit("a", phase("a", prompt="other"))
    changed = record_of(run_dir, "a")
    assert changed.limit == {"until_ms": 1, "holds": 2}
    assert (changed.attempt, changed.budget_seconds) == (1, None)
    lane.edit("a", phase("a", prompt="other", engine="codex"))
    assert record_of(run_dir, "a").limit == {}


def test_what_is_over_is_edited_and_queued_again(tmp_path: Path) -> None:
    run_dir, lane = lane_of(tmp_path, "a", "b", "c")
    finish_first(run_dir, "failed")
    lane.withdraw("b")
    assert lane.edit("a", phase("a", prompt="again")).position == 2
    assert lane.edit("b", phase("b", prompt="again")).position == 3
    assert pending_ids(run_dir) == ["c", "a", "b"]
    assert results(run_dir) == {}
    check(run_dir, tmp_path)


def test_what_is_refused_changes_nothing(tmp_path: Path) -> None:
    run_dir, lane = lane_of(tmp_path, "taken", "parked", "a")
    claimed = claim_first(run_dir)
    park_first(run_dir)
    lane.enqueue({"kind": "stop", "id": "halt"})
    old = record_of(run_dir, "a")
    tree = {path: path.read_bytes() for path in run_dir.lane.pending.iterdir()}
    for name, value, text in (
        ("a", {"kind": "phase", "prompt": ""}, "prompt must be"),
        ("a", phase("other"), "id must stay 'a'"),
        ("a", {"kind": "stop"}, "a stop cannot be edited"),
        ("halt", phase("halt"), "a stop cannot be edited"),
        ("taken", phase("taken"), "was taken by the runner and is running: nothing was changed"),
        ("parked", phase("parked"), "is parked: settle it"),
    ):
        with pytest.raises(InvalidInput, match=text):
            lane.edit(name, value)
    with pytest.raises(NotFound, match="no envelope 'nowhere'"):
        lane.edit("nowhere", phase("nowhere"))
    with pytest.raises(InvalidInput, match="changed by somebody else"):
        lane.edit("a", phase("a", prompt="mine"), base={**old.envelope, "prompt": "theirs"})
    assert {path: path.read_bytes() for path in run_dir.lane.pending.iterdir()} == tree
    assert load_record(run_dir.lane.active / claimed.name).envelope == claimed.envelope
    finish_first_of_active(run_dir)
    with pytest.raises(InvalidInput, match=r"a stop \(halt\) is waiting"):
        lane.edit("taken", phase("taken", prompt="again"))


def finish_first_of_active(run_dir: RunDir) -> None:
    [name] = list_records(run_dir.lane.active)
    record = load_record(run_dir.lane.active / name)
    Settler(files_of(run_dir)).finish(record, result_of(record.envelope_id))


@pytest.mark.parametrize("torn", [False, True])
def test_an_edit_that_is_cut_off_left_the_old_or_the_new_one(torn: bool, quick_path: Path) -> None:
    model, lane = lane_of(quick_path / "model", "a", "b", "c")
    lane.withdraw("c")
    run_dir = RunDir(quick_path / "run")
    new = phase("b", prompt="new " * 500)

    def fresh() -> None:
        shutil.rmtree(run_dir.root, ignore_errors=True)
        shutil.copytree(model.root, run_dir.root)

    fresh()
    calls = counted(lambda: Lane(run_dir).edit("b", new))
    seen = set()
    for n in range(1, len(calls) + 1):
        fresh()
        ended_at(n, lambda: Lane(run_dir).edit("b", new), torn=torn)
        assert pending_ids(run_dir) == ["a", "b"], f"ended at call {n}, {calls[n - 1]}"
        prompt = record_of(run_dir, "b").envelope["prompt"]
        assert prompt in ("do b", new["prompt"])
        seen.add(prompt)
        check(run_dir, quick_path, LaterClock())
    assert len(seen) == 2


def test_a_living_runner_does_it_between_two_claims(tmp_path: Path) -> None:
    """It had listed what comes next before; the new order is the one it works in."""
    run_dir, lane = lane_of(tmp_path, "a", "b", "c", "d")
    ready, go = tmp_path / "ready", tmp_path / "go"
    script = (
        f'echo "$MESHTUI_ENVELOPE_ID" >> {tmp_path}/ran; cat >> {tmp_path}/said; echo >> {tmp_path}/said; '
        f"if [ $MESHTUI_ENVELOPE_ID = a ]; then touch {ready}; while [ ! -e {go} ]; do sleep 0.02; done; fi"
    )
    engine = CommandEngine(EngineConfig(run=script))
    runner = RunnerThread(
        open_runner(run_dir, engine="command", until_idle=True, engines=lambda name: engine)
    )
    try:
        wait_until(ready.exists, what="the first phase")
        lane.head(["d"])
        lane.edit("b", phase("b", prompt="edited"))
        with pytest.raises(InvalidInput, match="was taken by the runner"):
            lane.edit("a", phase("a", prompt="too late"))
        lane.withdraw("c")
        assert lane.restore(["c"], in_place=True).restored == ("c",)
    finally:
        go.touch()
        runner.join()
    assert (tmp_path / "ran").read_text().split() == ["a", "d", "b", "c"]
    assert "edited" in (tmp_path / "said").read_text()


# -- several, and back in place ----------------------------------------------------------------------------


def test_several_are_withdrawn_as_far_as_they_wait(tmp_path: Path) -> None:
    run_dir, lane = lane_of(tmp_path, "taken", "a", "b", "c")
    claim_first(run_dir)
    receipt = lane.withdraw_many(["c", "taken", "a", "nowhere", "a"])
    assert receipt.done == ("c", "a")
    assert [(one.envelope_id, one.exit_code) for one in receipt.refused] == [("taken", 2), ("nowhere", 3)]
    assert receipt.queue_depth == 1
    assert where(run_dir) == {"taken": "active", "a": "withdrawn", "b": "pending", "c": "withdrawn"}
    again = lane.requeue_many(["c", "b"])
    assert again.done == ("c",)
    assert [one.envelope_id for one in again.refused] == ["b"]
    assert pending_ids(run_dir) == ["b", "c"]
    check(run_dir, tmp_path)


def test_restored_in_place_they_are_where_they_were(tmp_path: Path) -> None:
    run_dir, lane = lane_of(tmp_path, "a", "b", "c", "d")
    lane.withdraw_many(["a", "c"])
    lane.enqueue(phase("e"))
    assert lane.restore(["c", "a"], in_place=True).restored == ("a", "c")
    assert pending_ids(run_dir) == ["a", "b", "c", "d", "e"]
    with pytest.raises(InvalidInput, match="is pending, not withdrawn"):
        lane.restore(["a"])
    with pytest.raises(NotFound):
        lane.restore(["nowhere"])
    lane.withdraw_many(["a", "b"])
    assert lane.restore(["b"]).restored == ("b",)
    assert pending_ids(run_dir) == ["c", "d", "e", "b"]
    assert where(run_dir)["a"] == "withdrawn"
    check(run_dir, tmp_path)


def test_a_stop_stays_the_last(tmp_path: Path) -> None:
    run_dir, lane = lane_of(tmp_path, "a", "b")
    lane.enqueue({"kind": "stop", "id": "halt"})
    lane.withdraw("halt")
    lane.enqueue(phase("c"))
    with pytest.raises(InvalidInput, match="before the stop"):
        lane.restore(["halt"], in_place=True)
    lane.withdraw("c")
    lane.restore(["halt"], in_place=True)
    with pytest.raises(InvalidInput, match="before the stop"):
        lane.restore(["c"], in_place=True)
    assert pending_ids(run_dir) == ["a", "b", "halt"]
    check(run_dir, tmp_path)


def test_what_was_at_the_head_goes_back(tmp_path: Path) -> None:
    run_dir, lane = lane_of(tmp_path, "a", "b", "c")
    receipt = lane.head(["c"])
    assert lane.place(receipt.names) == ("c",)
    assert pending_ids(run_dir) == ["a", "b", "c"]
    with pytest.raises(InvalidInput, match="no record name"):
        lane.place({"c": "../../evil.json"})
    check(run_dir, tmp_path)


def test_a_dropped_phase_is_parked_again(tmp_path: Path) -> None:
    run_dir, lane = lane_of(tmp_path, "a", "b")
    park_first(run_dir)
    result = json.loads(run_dir.lane.result("a").read_bytes())
    with pytest.raises(InvalidInput, match="was not dropped"):
        lane.park_again("a")
    lane.answer("a", "drop")
    lane.park_again("a")
    assert where(run_dir) == {"a": "stalled", "b": "pending"}
    assert json.loads(run_dir.lane.result("a").read_bytes()) == result
    question = json.loads(run_dir.lane.question("a").read_bytes())
    assert question["cause"] == "test"
    assert json.loads(run_dir.lane.status.read_bytes())["state"] == "parked"
    check(run_dir, tmp_path)
    lane.answer("a", "retry")
    assert pending_ids(run_dir) == ["a", "b"]


def test_each_goes_on_after_a_refusal(tmp_path: Path) -> None:
    _run_dir, lane = lane_of(tmp_path, "a", "b", "c")
    receipt = each(["a", "nowhere", "c"], lane.withdraw)
    assert receipt.done == ("a", "c")
    assert [one.envelope_id for one in receipt.refused] == ["nowhere"]
