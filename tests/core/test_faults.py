"""Faults that programs of this kind are known to have: queue, run directory, locks, data."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from meshtui.core import identity, storage, strict_json
from meshtui.core.clock import SystemClock, iso
from meshtui.core.engines.command import CommandEngine
from meshtui.core.errors import Held, InvalidInput, MeshtuiError, StorageError
from meshtui.core.lane import dirlock
from meshtui.core.lane import queue as queue_module
from meshtui.core.lane.index import list_records
from meshtui.core.lane.lane import Lane
from meshtui.core.lane.lease import Lease, holder
from meshtui.core.lane.reader import LaneReader
from meshtui.core.lane.service import open_runner
from meshtui.core.models.config import EngineConfig
from meshtui.core.models.names import RecordName
from meshtui.core.models.record import Record
from meshtui.core.run_dir import RunDir
from tests.support.crash import disk_calls
from tests.support.lanes import (
    AT,
    check,
    claim_first,
    files_of,
    finish_first,
    index_now,
    new_lane,
    park_first,
    phase,
    results,
    run_until_idle,
    where,
)
from tests.support.mounts import small_filesystems
from tests.support.waiting import wait_until

HEAD = "0000000000000001-1796083330000-00000000-0000-4000-8000-000000000001-head.json"


@pytest.fixture
def mounted(quick_path: Path) -> Iterator[Callable[[Path], None]]:
    """Mounts a filesystem of its own over a folder."""
    with small_filesystems(1) as mount:
        yield mount


def put(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def a_record(name: str = HEAD, **fields: Any) -> bytes:
    record = Record.new(name, "head", AT, phase("head"))
    record.data.update(fields)
    return record.as_bytes()


# -- 18, 28: heads that are no records --------------------------------------------------------------------


def _folder_with_files(path: Path) -> None:
    path.mkdir()
    put(path / "x", b"x")


def _unreadable(path: Path) -> None:
    put(path, a_record())
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user reads whatever the mode says")


BAD_HEADS: dict[str, Callable[[Path], None]] = {
    "empty": lambda path: put(path, b""),
    "blanks": lambda path: put(path, b" \n\n"),
    "cut": lambda path: put(path, a_record()[:70]),
    "binary": lambda path: put(path, bytes(range(256)) * 20),
    "utf-16": lambda path: put(path, a_record().decode().encode("utf-16")),
    "list": lambda path: put(path, b"[]"),
    "no envelope": lambda path: put(path, b'{"schema_version": "hq-lane-loop.v1", "envelope_id": "head"}'),
    "other version": lambda path: put(path, a_record(schema_version="hq-lane-loop.v9")),
    "bad envelope": lambda path: put(path, a_record(envelope={"kind": "phase"})),
    "id of another kind": lambda path: put(path, a_record(envelope_id=7)),
    "folder": lambda path: path.mkdir(),
    "folder with files": _folder_with_files,
    "pipe": os.mkfifo,
    "symlink to nothing": lambda path: path.symlink_to("nowhere"),
    "symlink to itself": lambda path: path.symlink_to(path.name),
    "symlink to a folder": lambda path: path.symlink_to(path.parent),
    "brackets": lambda path: put(path, b"[" * 10_000),
    "braces": lambda path: put(path, b'{"a":' * 10_000),
    "deep envelope": lambda path: put(path, a_record().replace(b'"do head"', b"[" * 200 + b"]" * 200)),
    "digits": lambda path: put(path, a_record().replace(b'"do head"', b"9" * 9_000)),
    "infinite": lambda path: put(path, a_record()[:-3] + b', "more": 1e999}'),
    "NaN": lambda path: put(path, a_record()[:-3] + b', "more": NaN}'),
    "duplicate key": lambda path: put(path, a_record()[:-3] + b', "envelope_id": "other"}'),
    "too large": lambda path: put(path, a_record(more="x" * (2 << 20))),
}


@pytest.mark.parametrize("kind", [*BAD_HEADS, "unreadable"])
def test_a_bad_head_is_set_aside_and_the_next_one_runs(kind: str, quick_path: Path) -> None:
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue(phase("good"))
    # Its name sorts before every other.
    make = BAD_HEADS.get(kind, _unreadable)
    make(run_dir.lane.pending / HEAD)
    run_until_idle(run_dir)
    assert results(run_dir) == {"good": "done"}
    assert where(run_dir) == {"good": "claimed"}
    [name] = files_of(run_dir).queue.quarantined()
    assert name == HEAD
    reason = json.loads((run_dir.lane.quarantine / f"{name}.reason.json").read_bytes())
    assert reason["reason"]
    assert reason["folder"] == "active"
    check(run_dir, quick_path)
    view = LaneReader(run_dir).refresh()
    assert view.counts.quarantined == 1
    assert any(item.kind == "quarantined" for item in view.attention)
    with pytest.raises(InvalidInput, match="still no record"):
        lane.quarantine_repair(name)
    lane.quarantine_drop(name)
    assert files_of(run_dir).queue.quarantined() == []


@pytest.mark.parametrize("kind", BAD_HEADS)
@pytest.mark.parametrize("folder", ["active", "stalled", "claimed", "withdrawn"])
def test_a_bad_entry_elsewhere_stops_nothing(kind: str, folder: str, quick_path: Path) -> None:
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue(phase("good"))
    BAD_HEADS[kind](run_dir.lane.folder(folder) / HEAD)
    lane.enqueue(phase("second"))
    lane.withdraw("second")
    assert lane.restore().restored == ("second",)
    assert set(lane.interrupt().withdrawn) == {"good", "second"}
    assert set(lane.restore().restored) == {"good", "second"}
    run_until_idle(run_dir)
    assert results(run_dir) == {"good": "done", "second": "done"}
    quarantined = files_of(run_dir).queue.quarantined()
    assert quarantined == ([HEAD] if folder in ("active", "withdrawn") else [])
    LaneReader(run_dir).refresh()


def test_interrupt_passes_over_what_cannot_be_read(quick_path: Path) -> None:
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue_many([phase("a"), phase("b")])
    put(run_dir.lane.pending / HEAD, b"")
    (run_dir.lane.pending / HEAD.replace("head", "link")).symlink_to("nowhere")
    receipt = lane.interrupt()
    assert receipt.withdrawn == ("a", "b")
    assert len(receipt.quarantined) == 2
    assert list_records(run_dir.lane.pending) == []
    check(run_dir, quick_path)


@pytest.mark.parametrize(
    "name",
    [
        b"\xff\xfe.json",
        b"x\ny.json",
        b"-rf.json",
        b"\x1b]52;c;x\x07.json",
        "…".encode() * 80,
        "😀".encode() * 62 + b".json",
        b"n" * 255,
        b"README",
        b"9" * 200 + b".json",
        b"0000000000000-retry-x.json",
        b"x.reason.json",
    ],
)
def test_strange_names_are_set_aside(name: bytes, quick_path: Path) -> None:
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue(phase("good"))
    with open(os.fsencode(run_dir.lane.pending) + b"/" + name, "wb"):
        pass
    lane.enqueue(phase("after"))
    run_until_idle(run_dir)
    assert results(run_dir) == {"good": "done", "after": "done"}
    assert list_records(run_dir.lane.pending) == []
    kept = [entry for entry in os.listdir(run_dir.lane.quarantine) if "reason.json" not in entry[-11:]]
    assert len(kept) == 1 or name == b"x.reason.json"
    LaneReader(run_dir).refresh()


def test_two_bad_heads_of_one_name_are_both_kept(quick_path: Path) -> None:
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue(phase("good"))
    for content in (b"one", b"two", b"three"):
        put(run_dir.lane.pending / HEAD, content)
        run_until_idle(run_dir)
    kept = {path.read_bytes() for path in run_dir.lane.quarantine.iterdir() if "reason" not in path.name}
    assert kept == {b"one", b"two", b"three"}


BOMBS: dict[str, Any] = {
    "deadline_at_ms": 10**400,
    "deadline_budget_seconds": 10**400,
    "attempt": 10**400,
}


@pytest.mark.parametrize("field", BOMBS)
@pytest.mark.parametrize("value", [10**400, -(10**400), 10**18, -1, 0, True, "x", [], None, 1e300])
def test_numbers_beyond_all_bounds_in_a_record_kill_no_runner(
    field: str, value: Any, quick_path: Path
) -> None:
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue(phase("good"))
    record = claim_first(run_dir)
    record.data.update({"deadline_budget_seconds": 60, "deadline_at_ms": 1_796_083_330_000, field: value})
    put(run_dir.lane.active / record.name, json.dumps(record.data).encode())
    LaneReader(run_dir).refresh()
    run_until_idle(run_dir)
    assert results(run_dir) == {"good": "done"}
    check(run_dir, quick_path)


@pytest.mark.parametrize("seconds", ["1e999", "1e400", "9" * 400, "1" + "0" * 5000])
def test_a_deadline_beyond_all_bounds_is_refused_or_capped(seconds: str, quick_path: Path) -> None:
    run_dir, lane = new_lane(quick_path / "run")
    text = f'{{"kind": "phase", "prompt": "p", "engine": "command", "deadline_seconds": {seconds}}}'
    try:
        lane.enqueue(strict_json.load_object(text))
    except InvalidInput:
        return
    run_until_idle(run_dir)
    assert list(results(run_dir).values()) == ["done"]


# -- 30: half characters --------------------------------------------------------------------------------------


def test_a_lone_surrogate_is_stored_and_shown_with_a_replacement(quick_path: Path) -> None:
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue(phase("good", label="t\ud83d", story_id="s\udc00") | {"prompt": "p\ud800"})
    run_until_idle(run_dir, r"cat; printf '\355\240\200'")
    result = json.loads((run_dir.lane.results / "good.json").read_bytes())
    assert result["output"].startswith("p�")
    result["output"].encode()
    view = LaneReader(run_dir).refresh()
    [row] = view.done
    assert row.story_id == "s�"


def test_a_result_with_half_a_character_is_read(quick_path: Path) -> None:
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue(phase("good"))
    finish_first(run_dir)
    path = run_dir.lane.results / "good.json"
    put(path, path.read_bytes().replace(b'"done"', b'"done", "output": "\\ud800"'))
    view = LaneReader(run_dir).refresh()
    assert view.counts.done == 1
    detail = LaneReader(run_dir)
    detail.refresh()


# -- 21: damaged state files ----------------------------------------------------------------------------------

DAMAGE = {
    "cut": b'{"state": "runn',
    "empty": b"",
    "binary": b"\xff\xfe\x00",
    "list": b"[1]",
    "brackets": b"[" * 10_000,
    "NaN": b'{"a": NaN}',
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", ["loop.json", "sessions.json", "session-dirs.json"])
def test_a_damaged_file_is_kept_aside_and_not_taken_for_empty(
    name: str, damage: str, quick_path: Path
) -> None:
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue_many([phase("a", story_id="s"), phase("b", story_id="s")])
    path = run_dir.lane.root / name
    put(path, DAMAGE[damage])
    run_until_idle(run_dir, "echo MESHTUI_SESSION=one")
    assert results(run_dir) == {"a": "done", "b": "done"}
    kept = [entry for entry in run_dir.lane.root.iterdir() if entry.name.startswith(f"{name}.damaged-")]
    assert [entry.read_bytes() for entry in kept] == [DAMAGE[damage]]
    assert isinstance(json.loads(path.read_bytes()), dict)
    assert json.loads(run_dir.lane.sessions.read_bytes()) == {"s\0command": "one"}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_sequence_is_recomputed_from_the_names(damage: str, quick_path: Path) -> None:
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue_many([phase("a"), phase("b"), phase("c")])
    finish_first(run_dir)
    put(run_dir.lane.sequence, DAMAGE[damage])
    (run_dir.lane.ids / "state.json").unlink()
    lane.enqueue(phase("d"))
    assert json.loads(run_dir.lane.sequence.read_bytes()) == {"sequence": 4}
    check(run_dir, quick_path)


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", ["state.json", "outcomes.jsonl", "used"])
def test_a_damaged_index_is_rebuilt(name: str, damage: str, quick_path: Path) -> None:
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue_many([phase("a"), phase("b"), phase("c")])
    finish_first(run_dir)
    finish_first(run_dir, "failed")
    targets = [run_dir.lane.ids / name] if name != "used" else list((run_dir.lane.ids / "used").iterdir())
    for path in targets:
        put(path, DAMAGE[damage])
    if name != "state.json":
        (run_dir.lane.ids / "state.json").unlink()
    check(run_dir, quick_path)
    for used in ("a", "b", "c"):
        with pytest.raises(InvalidInput, match="already used"):
            lane.enqueue(phase(used))


def test_a_journal_cut_in_a_line_goes_on(quick_path: Path) -> None:
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue_many([phase("a"), phase("b")])
    with run_dir.events.open("ab") as file:
        file.write(b'{"seq": 3, "at": "2026-')
    Lane(run_dir).enqueue(phase("c"))
    run_until_idle(run_dir)
    lines = [
        json.loads(line)
        for line in run_dir.events.read_bytes().splitlines()
        if b"2026-\n" not in line + b"\n"
    ]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))


def test_a_damaged_run_file_is_said_before_anything_is_done(quick_path: Path) -> None:
    """An operation that is refused was not carried out."""
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue(phase("a"))
    put(run_dir.about, b"{")
    for operation in (
        lambda: Lane(run_dir).enqueue(phase("b")),
        lambda: Lane(run_dir).interrupt(),
    ):
        with pytest.raises(InvalidInput, match=r"meshtui\.json"):
            operation()
        assert where(run_dir) == {"a": "pending"}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_result_does_not_count_as_one(damage: str, quick_path: Path) -> None:
    """The phase runs, and what stood there is kept among the earlier results."""
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue(phase("a"))
    claim_first(run_dir)
    put(run_dir.lane.results / "a.json", DAMAGE[damage])
    run_until_idle(run_dir)
    assert results(run_dir) == {"a": "done"}
    assert [path.read_bytes() for path in run_dir.lane.history.iterdir()] == [DAMAGE[damage]]
    check(run_dir, quick_path)


@pytest.mark.parametrize("active", [True, False])
def test_a_folder_in_place_of_a_result_is_moved_away(active: bool, quick_path: Path) -> None:
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue(phase("a"))
    if active:
        claim_first(run_dir)
    (run_dir.lane.results / "a.json").mkdir()
    run_until_idle(run_dir)
    assert results(run_dir) == {"a": "done"}


# -- 24: other filesystems ------------------------------------------------------------------------------------


def test_a_run_works_with_tmpdir_on_another_filesystem(
    quick_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue_many([phase("a"), phase("b")])
    run_until_idle(run_dir)
    assert results(run_dir) == {"a": "done", "b": "done"}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("by_link", [True, False], ids=["symlink", "mount"])
def test_results_may_lie_on_another_filesystem(
    by_link: bool, quick_path: Path, mounted: Callable[[Path], None]
) -> None:
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue_many([phase("a"), phase("b")])
    place = run_dir.lane.results
    if by_link:
        place = quick_path / "elsewhere"
        place.mkdir()
        run_dir.lane.results.rmdir()
        run_dir.lane.results.symlink_to(place)
    mounted(place)
    run_until_idle(run_dir)
    assert results(run_dir) == {"a": "done", "b": "done"}
    check(run_dir, quick_path)


@pytest.mark.parametrize("folder", ["pending", "active", "claimed", "stalled", "withdrawn"])
def test_record_folders_on_other_filesystems_are_said_at_the_start(
    folder: str, quick_path: Path, mounted: Callable[[Path], None]
) -> None:
    run_dir, _ = new_lane(quick_path / "run")
    files_of(run_dir)
    mounted(run_dir.lane.folder(folder))
    with pytest.raises(StorageError, match=f"{folder}.*filesystem"):
        Lane(run_dir).enqueue(phase("a"))
    with pytest.raises(StorageError, match=f"{folder}.*filesystem"):
        run_until_idle(run_dir)
    assert where(run_dir) == {}


# -- 25, 27: locks and leases ---------------------------------------------------------------------------------


def own(folder: Path, **fields: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    put(folder / "owner.json", json.dumps(fields).encode())


def me(**changes: Any) -> dict[str, Any]:
    return {**identity.current().as_json(), "heartbeat_at": iso(SystemClock().now_ms()), **changes}


FREE: dict[str, Callable[[], dict[str, Any]]] = {
    "reused pid": lambda: me(process_started_at=1),
    "another boot": lambda: me(boot_id="00000000-0000-0000-0000-000000000000"),
    "start beyond all bounds": lambda: me(process_started_at=10**400),
    "pid beyond all bounds": lambda: me(pid=10**400),
    "gone": lambda: me(pid=4_000_000, process_started_at=5),
    "another host, old": lambda: me(host="elsewhere", heartbeat_at="2020-01-01T00:00:00.000Z"),
    "another namespace, old": lambda: me(pid_namespace="pid:[1]", heartbeat_at=1_000),
    "another host, no heartbeat": lambda: {"pid": 1, "host": "elsewhere"},
    "heartbeat beyond all bounds": lambda: me(host="elsewhere", heartbeat_at=-(10**400)),
}
HELD: dict[str, Callable[[], dict[str, Any]]] = {
    "living, old heartbeat": lambda: me(heartbeat_at="2020-01-01T00:00:00.000Z"),
    "another host, fresh": lambda: me(host="elsewhere"),
    "another namespace, fresh": lambda: me(pid_namespace="pid:[1]"),
    "heartbeat beyond all bounds": lambda: me(host="elsewhere", heartbeat_at=10**400),
}


@pytest.mark.parametrize("kind", FREE)
def test_a_lock_whose_owner_is_gone_is_free(kind: str, quick_path: Path) -> None:
    run_dir, lane = new_lane(quick_path / "run")
    own(run_dir.lane.runner_lock, **FREE[kind]())
    own(run_dir.lane.enqueue_lock, **FREE[kind]())
    assert not holder(run_dir.lane, SystemClock()).alive
    lane.enqueue(phase("a"))
    run_until_idle(run_dir)
    assert results(run_dir) == {"a": "done"}
    assert not run_dir.lane.runner_lock.exists()
    assert not run_dir.lane.enqueue_lock.exists()


@pytest.mark.parametrize("kind", HELD)
def test_a_lease_that_may_be_alive_is_left_alone(kind: str, quick_path: Path) -> None:
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue(phase("a"))
    owner = HELD[kind]()
    own(run_dir.lane.runner_lock, **owner)
    held = holder(run_dir.lane, SystemClock())
    assert held.alive
    assert held.foreign
    started = time.monotonic()
    with pytest.raises(Held, match=f"pid {os.getpid()}"):
        run_until_idle(run_dir)
    assert time.monotonic() - started < 5
    assert json.loads((run_dir.lane.runner_lock / "owner.json").read_bytes()) == owner
    # Towards another tool's runner these work.
    lane.enqueue(phase("b"))
    lane.withdraw("b")
    lane.interrupt()
    lane.restore()
    for refused in (lambda: lane.kill("a"), lambda: lane.answer("a", "drop"), lane.pause):
        with pytest.raises(Held, match="another tool"):
            refused()


def test_a_damaged_owner_is_waited_for_and_then_broken(quick_path: Path) -> None:
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue(phase("a"))
    for damage in DAMAGE.values():
        run_dir.lane.runner_lock.mkdir()
        put(run_dir.lane.runner_lock / "owner.json", damage)
        with pytest.raises(Held):
            Lease(run_dir.lane, SystemClock()).acquire()
        os.utime(run_dir.lane.runner_lock, (time.time() - 11, time.time() - 11))
        lease = Lease(run_dir.lane, SystemClock())
        lease.acquire()
        lease.release()
        assert not run_dir.lane.runner_lock.exists()


@pytest.mark.parametrize("name", [".queue.flock", ".runner.flock", "enqueue.lock", "runner.lock"])
def test_a_symlink_where_a_lock_belongs_is_refused_at_once(name: str, quick_path: Path) -> None:
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue(phase("a"))
    victim = quick_path / "victim"
    (victim.mkdir if name.endswith(".lock") else victim.touch)()
    before = stat.S_IMODE(victim.stat().st_mode), victim.stat().st_mtime_ns
    place = run_dir.lane.root / name
    place.unlink(missing_ok=True)
    place.symlink_to(victim)
    started = time.monotonic()
    operation: Callable[[], object] = (
        (lambda: run_until_idle(run_dir)) if "runner" in name else (lambda: lane.enqueue(phase("b")))
    )
    with pytest.raises(MeshtuiError, match="symlink"):
        operation()
    assert time.monotonic() - started < 5
    assert place.is_symlink()
    assert (stat.S_IMODE(victim.stat().st_mode), victim.stat().st_mtime_ns) == before
    assert where(run_dir) == {"a": "pending"}


# -- 19, 22: ends in between ----------------------------------------------------------------------------------


def test_a_result_that_was_written_is_not_made_again(quick_path: Path) -> None:
    """The runner ended after the result and before the record's move: no second run, no second result."""
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue(phase("a"))
    record = claim_first(run_dir)
    put(
        run_dir.lane.results / "a.json",
        json.dumps(
            {
                "schema_version": "hq-lane-loop.v1",
                "envelope_id": "a",
                "status": "done",
                "started_at": AT,
                "finished_at": AT,
                "output": "first",
            }
        ).encode(),
    )
    assert record.name in list_records(run_dir.lane.active)
    run_until_idle(run_dir, 'echo again >> "$MESHTUI_RUN_DIR/ran"')
    assert not (run_dir.root / "ran").exists()
    assert json.loads((run_dir.lane.results / "a.json").read_bytes())["output"] == "first"
    assert where(run_dir) == {"a": "claimed"}


def test_a_claim_without_a_start_is_recovered_once(quick_path: Path) -> None:
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue_many([phase("a"), phase("b")])
    for _ in range(3):
        claim_first(run_dir)
        lane.stop()
    claim_first(run_dir)
    run_until_idle(run_dir, 'echo "$MESHTUI_ENVELOPE_ID" >> "$MESHTUI_RUN_DIR/ran"')
    assert (run_dir.root / "ran").read_text().split() == ["a", "b"]
    names = list_records(run_dir.lane.claimed)
    assert all(name.count("recovered") <= 1 for name in names)
    assert results(run_dir) == {"a": "done", "b": "done"}


# -- 20: a really full disk -----------------------------------------------------------------------------------


def _fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def test_a_lane_on_a_full_disk_goes_on_when_there_is_space(
    quick_path: Path, mounted: Callable[[Path], None]
) -> None:
    disk = quick_path / "disk"
    disk.mkdir()
    mounted(disk)
    run_dir, lane = new_lane(disk / "run")
    lane.enqueue_many([phase("a"), phase("b")])
    park = park_first(run_dir)
    ballast = disk / "ballast"
    _fill(ballast)
    acknowledged = []
    for number in range(5):
        try:
            acknowledged.append(lane.enqueue(phase(f"n{number}", label="x" * 5000)).envelope_id)
        except StorageError as error:
            assert "disk is full" in str(error)
    assert acknowledged == []
    for operation in (lambda: lane.answer(park, "drop"), lambda: run_until_idle(run_dir)):
        with pytest.raises(StorageError, match="disk is full"):
            operation()
    empty = [
        path for folder in ("pending", "active", "results") for path in run_dir.lane.folder(folder).iterdir()
    ]
    assert all(path.stat().st_size for path in empty if path.is_file())
    ballast.unlink()
    lane.answer(park, "drop")
    lane.enqueue(phase("n0"))
    run_until_idle(run_dir)
    assert results(run_dir) == {"a": "failed", "b": "done", "n0": "done"}
    check(run_dir, quick_path)


def test_claims_do_not_slow_down_with_the_queue(quick_path: Path) -> None:
    """A claim reads its record and no other, however many wait and are finished."""
    run_dir, lane = new_lane(quick_path / "run")
    files_of(run_dir)
    for number in range(1, 3001):
        name = str(RecordName.new(number, 1_796_083_330_000, f"p{number}"))
        put(run_dir.lane.pending / name, Record.new(name, f"p{number}", AT, phase(f"p{number}")).as_bytes())
    put(run_dir.lane.sequence, b'{"sequence": 3000}')
    queue = files_of(run_dir).queue
    names = list_records(run_dir.lane.pending)
    assert queue.claim(names[0]) is not None
    opened: list[str] = []

    read = storage.read_bytes

    def noted(path: Any, **more: Any) -> bytes:
        opened.append(str(path))
        return read(path, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "read_bytes", noted)
        assert queue.claim(names[1]) is not None
        lane.enqueue(phase("last"))
    records = [path for path in opened if "/pending/" in path or "/claimed/" in path]
    assert records == []
    assert [path for path in opened if "/active/" in path] == [str(run_dir.lane.active / names[1])]


def test_a_runner_outwaits_a_long_batch(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever holds the queue longer than others would wait does not end the runner."""
    monkeypatch.setattr(queue_module, "LOCK_SECONDS", 0.05)
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue(phase("a"))
    lock = storage.OsLock(run_dir.lane.queue_flock, what="the queue")
    lock.acquire(1)
    with pytest.raises(Held, match="the queue is busy"):
        Lane(run_dir).enqueue(phase("b"))
    released = threading.Timer(0.3, lock.release)
    released.start()
    run_until_idle(run_dir)
    released.join()
    assert results(run_dir) == {"a": "done"}


def test_what_another_tool_claims_meanwhile_is_noticed(
    quick_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its runner takes the record while our enqueue still syncs the folder."""
    run_dir, lane = new_lane(quick_path / "run")
    files_of(run_dir)
    own(run_dir.lane.runner_lock, **me(host="elsewhere"))
    sync = storage.sync_dir

    def and_meanwhile(path: Path | str) -> None:
        sync(path)
        if str(path) == str(run_dir.lane.pending):
            for name in list_records(run_dir.lane.pending):
                (run_dir.lane.pending / name).rename(run_dir.lane.active / name)

    monkeypatch.setattr(storage, "sync_dir", and_meanwhile)
    for name in ("a", "b", "c"):
        receipt = lane.enqueue(phase(name))
        assert (receipt.position, receipt.queue_depth) == (1, 1)
    assert index_now(run_dir)["counts"]["pending"] == 0
    assert index_now(run_dir)["counts"]["active"] == 3


def test_a_sequence_beyond_all_bounds_in_a_name_moves_no_other(quick_path: Path) -> None:
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue(phase("a"))
    name = str(RecordName.new(10**16 - 1, 1_796_083_330_000, "huge"))
    put(run_dir.lane.pending / name, Record.new(name, "huge", AT, phase("huge")).as_bytes())
    lane.enqueue(phase("b"))
    run_until_idle(run_dir, 'echo "$MESHTUI_ENVELOPE_ID" >> "$MESHTUI_RUN_DIR/ran"')
    assert (run_dir.root / "ran").read_text().split() == ["a", "b", "huge"]
    assert json.loads(run_dir.lane.sequence.read_bytes()) == {"sequence": 2}


def test_what_does_not_belong_among_batches_is_left_alone(quick_path: Path) -> None:
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue(phase("a"))
    run_dir.lane.batches.mkdir()
    put(run_dir.lane.batches / ".DS_Store", b"x")
    lane.enqueue_many([phase("b"), phase("c")])
    run_until_idle(run_dir)
    assert len(results(run_dir)) == 3
    assert (run_dir.lane.batches / ".DS_Store").exists()


def test_a_long_name_in_quarantine_can_be_dropped(quick_path: Path) -> None:
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue(phase("a"))
    for length in (200, 220, 230, 240, 255):
        put(run_dir.lane.pending / ("n" * length), b"")
    run_until_idle(run_dir)
    quarantined = files_of(run_dir).queue.quarantined()
    assert len(quarantined) == 5
    for name in quarantined:
        lane.quarantine_drop(name)
    assert len(list((run_dir.lane.quarantine / ".dropped").iterdir())) == 10


def test_a_batch_whose_enqueuer_ended_is_run_by_an_idle_runner(quick_path: Path) -> None:
    """It counts from the moment it is decided; nobody has to touch the queue for it to run."""
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue(phase("first"))

    def enqueue_and_end() -> None:
        def act(number: int, name: str, args: tuple[Any, ...]) -> None:
            if name == "rename" and str(args[1]).startswith(str(run_dir.lane.pending)):
                os._exit(0)

        with disk_calls(act):
            lane.enqueue_many([phase("b1"), phase("b2")])

    runner = open_runner(
        run_dir, engine="command", engines=lambda name: CommandEngine(EngineConfig(run="cat"))
    )
    thread = threading.Thread(target=runner.run)
    thread.start()
    try:
        wait_until(lambda: results(run_dir) == {"first": "done"})
        child = multiprocessing.get_context("fork").Process(target=enqueue_and_end)
        child.start()
        child.join(20)
        assert child.exitcode == 0
        wait_until(lambda: len(results(run_dir)) == 3)
    finally:
        runner.request_stop()
        thread.join(20)
    assert set(results(run_dir).values()) == {"done"}


def test_a_foreign_lock_taken_and_left_does_not_outlive_its_process(quick_path: Path) -> None:
    folder = quick_path / "enqueue.lock"
    child = subprocess.Popen(["sleep", "60"])
    try:
        own(folder, pid=child.pid, heartbeat_at=iso(SystemClock().now_ms()))
        assert not dirlock.try_take(folder, SystemClock())
    finally:
        child.kill()
        child.wait()
    assert dirlock.try_take(folder, SystemClock())
    dirlock.give_back(folder)


def test_ids_that_share_a_file_name_are_refused_by_both_names(quick_path: Path) -> None:
    _, lane = new_lane(quick_path / "run")
    lane.enqueue(phase("a/b"))
    for other in ("a_b", "A/B", "a b"):
        with pytest.raises(InvalidInput) as caught:
            lane.enqueue(phase(other))
        assert "'a/b'" in str(caught.value)
        assert repr(other) in str(caught.value)


def test_a_run_directory_is_private(quick_path: Path) -> None:
    run_dir, lane = new_lane(quick_path / "run")
    lane.enqueue(phase("a"))
    run_until_idle(run_dir)
    for folder, folders, files in os.walk(run_dir.root):
        for name in folders:
            assert stat.S_IMODE(os.stat(f"{folder}/{name}").st_mode) == 0o700, name
        for name in files:
            assert stat.S_IMODE(os.stat(f"{folder}/{name}").st_mode) == 0o600, name
    assert (run_dir.root / ".gitignore").read_text() == "*\n"
    assert RunDir(run_dir.root).about.exists()
