"""Exactly one runner works a lane, whoever else tries, and what works towards another tool's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from meshtui.core import identity, storage
from meshtui.core.clock import ManualClock, SystemClock, from_iso, iso
from meshtui.core.engines.fake import FakeReply
from meshtui.core.errors import Held, LeaseLost, MeshtuiError
from meshtui.core.lane import dirlock
from meshtui.core.lane import lease as lease_module
from meshtui.core.lane.lease import Lease, holder
from meshtui.core.snapshot import take_snapshot
from tests.support.runners import GONE_PID, LaneBox, MakeBox, alive, by_id, finished, load
from tests.support.waiting import wait_until

HANG = FakeReply(hang=True)


def lane_of(box: LaneBox) -> dict[str, Any]:
    lane: dict[str, Any] = take_snapshot(box.root, SystemClock()).as_json()["lane"]
    return lane


@pytest.fixture
def bystander() -> Iterator[int]:
    """The pid of a living process that has nothing to do with a lane."""
    child = subprocess.Popen(["/bin/sleep", "600"])
    yield child.pid
    child.kill()
    child.wait()


class TestSecondRunner:
    def test_is_refused_with_pid_host_and_heartbeat_age(self, box: LaneBox) -> None:
        runner = box.start()
        wait_until(lambda: box.lane.holder().alive)
        with pytest.raises(Held) as caught:
            box.run()
        words = str(caught.value)
        assert f"pid {os.getpid()} on {identity.host()}, heartbeat " in words
        assert " s ago" in words
        assert "\n" not in words
        runner.stop()
        assert box.run().state == "waiting"

    def test_what_the_lock_says(self, box: LaneBox) -> None:
        runner = box.start()
        wait_until(lambda: (box.paths.runner_lock / "owner.json").exists())
        owner = load(box.paths.runner_lock / "owner.json")
        assert owner == {**identity.current().as_json(), "heartbeat_at": owner["heartbeat_at"]}
        beat = from_iso(owner["heartbeat_at"])
        assert beat == pytest.approx(SystemClock().now_ms(), abs=30_000)
        lane = lane_of(box)
        assert lane["runner"]["alive"]
        assert (lane["runner"]["pid"], lane["runner"]["host"]) == (os.getpid(), identity.host())
        assert 0 <= lane["runner"]["heartbeat_age_s"] < 30
        runner.stop()
        assert not box.paths.runner_lock.exists()

    def test_the_heartbeat_is_renewed(self, box: LaneBox, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lease_module, "HEARTBEAT_SECONDS", 0.02)
        runner = box.start()
        owner = box.paths.runner_lock / "owner.json"
        wait_until(owner.exists)
        first = load(owner)
        wait_until(lambda: load(owner)["heartbeat_at"] > first["heartbeat_at"])
        assert {**load(owner), "heartbeat_at": None} == {**first, "heartbeat_at": None}
        runner.stop()

    def test_one_of_many_that_start_at_once(self, box: LaneBox) -> None:
        threads = [box.start() for _ in range(6)]
        box.enqueue("a")
        wait_until(lambda: box.ids("claimed") == ["a"])
        wait_until(lambda: sum(thread.alive for thread in threads) == 1)
        (left,) = [thread for thread in threads if thread.alive]
        left.stop()
        assert all(isinstance(thread.error, Held) for thread in threads if thread is not left)
        assert box.starts() == [("a", None)]

    def test_somebody_who_stands_in_for_a_runner_is_waited_for(
        self, box: LaneBox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        box.enqueue("a")
        held = Lease(box.paths, SystemClock())
        held.acquire(stand_in=True)
        looks: list[Path] = []
        read_owner = dirlock.read_owner

        def counted(folder: Path) -> dirlock.Owner | None:
            looks.append(folder)
            return read_owner(folder)

        monkeypatch.setattr(dirlock, "read_owner", counted)
        runner = box.start(until_idle=True)
        wait_until(lambda: len(looks) > 2)
        held.release()
        assert runner.join().completed == 1


class TestFree:
    """Leases that nobody holds any more are taken at once."""

    def test_its_process_is_gone(self, box: LaneBox) -> None:
        box.enqueue("a")
        box.foreign_owner(pid=GONE_PID)
        assert lane_of(box)["state"] == "dead"
        assert box.run().completed == 1
        assert lane_of(box)["state"] == "waiting"

    def test_its_number_was_given_out_again(self, box: LaneBox, bystander: int) -> None:
        box.enqueue("a")
        owner = box.foreign_owner(pid=bystander)
        box.foreign_owner(pid=bystander, process_started_at=owner["process_started_at"] - 1)
        assert not holder(box.paths, SystemClock()).alive
        assert box.run().completed == 1
        assert alive(bystander)

    def test_it_was_before_a_reboot(self, box: LaneBox, bystander: int) -> None:
        box.enqueue("a")
        box.foreign_owner(pid=bystander, boot_id="00000000-0000-4000-8000-000000000000")
        assert box.run().completed == 1

    @pytest.mark.parametrize("where", [{"host": "elsewhere"}, {"pid_namespace": "pid:[1]"}])
    def test_unseen_with_an_old_heartbeat(self, where: dict[str, str], box: LaneBox, bystander: int) -> None:
        box.enqueue("a")
        box.foreign_owner(pid=bystander, age=61, **where)
        assert box.run().completed == 1

    def test_no_owner_for_ten_seconds(self, box: LaneBox) -> None:
        box.enqueue("a")
        box.paths.runner_lock.mkdir()
        then = SystemClock().now_ms() / 1000 - 11
        os.utime(box.paths.runner_lock, (then, then))
        assert box.run().completed == 1


class TestHeld:
    @pytest.mark.parametrize("where", [{"host": "elsewhere"}, {"pid_namespace": "pid:[1]"}])
    def test_unseen_with_a_fresh_heartbeat(self, where: dict[str, str], box: LaneBox) -> None:
        box.enqueue("a")
        box.foreign_owner(pid=GONE_PID, age=50, **where)
        with pytest.raises(Held, match=f"pid {GONE_PID} on .*, heartbeat 5[0-9] s ago"):
            box.run()
        with pytest.raises(Held, match="cannot be ended from here"):
            box.run(take_over=True)
        assert box.ids("pending") == ["a"]

    def test_seen_however_old_its_heartbeat(self, box: LaneBox, bystander: int) -> None:
        box.foreign_owner(pid=bystander, age=3600)
        with pytest.raises(Held):
            box.run()

    def test_a_symlink_where_the_lock_belongs(self, box: LaneBox, tmp_path: Path) -> None:
        victim = tmp_path / "victim"
        victim.write_text("mine")
        box.paths.root.mkdir(exist_ok=True)
        for place in (box.paths.runner_flock, box.paths.runner_lock):
            place.unlink(missing_ok=True)
            place.symlink_to(victim)
            with pytest.raises(MeshtuiError, match="symlink"):
                box.run()
            place.unlink()
            assert victim.read_text() == "mine"


class TestForeignRunner:
    """``owner.json`` of a living process that does not hold our OS lock."""

    @pytest.fixture
    def held(self, box: LaneBox, bystander: int) -> LaneBox:
        for key in "ab":
            box.enqueue(key)
        box.foreign_owner(pid=bystander)
        return box

    def test_what_works(self, held: LaneBox) -> None:
        assert held.enqueue("c").position == 3
        assert held.lane.withdraw("c").queue_depth == 2
        assert held.lane.interrupt().withdrawn == ("a", "b")
        assert held.lane.restore().restored == ("a", "b", "c")
        receipt = held.lane.stop()
        assert not receipt.stopped
        assert receipt.drain is not None
        assert held.ids("pending")[-1] == receipt.drain.envelope_id
        assert lane_of(held)["runner"]["alive"]

    @pytest.mark.parametrize(
        "operation",
        ["kill", "answer", "requeue", "pause", "continue", "quarantine repair", "quarantine drop"],
    )
    def test_the_rest_says_so(self, operation: str, held: LaneBox, bystander: int) -> None:
        lane = held.lane
        operations: dict[str, Callable[[], object]] = {
            "kill": lambda: lane.kill("a"),
            "answer": lambda: lane.answer("a", "retry"),
            "requeue": lambda: lane.requeue("a"),
            "pause": lane.pause,
            "continue": lane.resume,
            "quarantine repair": lambda: lane.quarantine_repair("x"),
            "quarantine drop": lambda: lane.quarantine_drop("x"),
        }
        with pytest.raises(Held) as caught:
            operations[operation]()
        assert f"another tool (pid {bystander} on" in str(caught.value)
        assert repr(operation) in str(caught.value)
        assert caught.value.exit_code == 4
        assert held.ids("pending") == ["a", "b"]

    def test_take_over_ends_it_by_its_identity(self, held: LaneBox, bystander: int) -> None:
        outcome = held.run(take_over=True)
        assert outcome.completed == 2
        assert not alive(bystander)


class TestTakeOver:
    def test_a_hung_runner_is_ended_and_its_call_adopted(
        self, box: LaneBox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lease_module, "TAKE_OVER_GRACE_SECONDS", 0.5)
        note = box.work / "go"
        box.enqueue("a", engine="command")
        child = box.start_process(f"until [ -e {note} ]; do sleep 0.02; done; echo done")
        call = box.active_call("a")
        child.send_signal(signal.SIGSTOP)
        with pytest.raises(Held):
            box.run()
        runner = box.start(until_idle=True, take_over=True)
        wait_until(lambda: box.events("phase_adopted"))
        assert child.wait(10) == -signal.SIGKILL
        assert call.state() == "running"
        note.touch()
        assert runner.join().completed == 1
        assert (box.result("a")["output"], box.result("a")["call"]) == ("done\n", call.call_id)
        assert len(box.calls()) == 1

    def test_a_healthy_one_leaves_its_call_too(self, box: LaneBox) -> None:
        note = box.work / "go"
        box.enqueue("a", engine="command")
        child = box.start_process(f"until [ -e {note} ]; do sleep 0.02; done; echo done")
        call = box.active_call("a")
        runner = box.start(until_idle=True, take_over=True)
        code, out, err = finished(child)
        assert (code, err) == (130, "")
        assert json.loads(out)["state"] == "handed over"
        note.touch()
        assert runner.join().completed == 1
        assert box.result("a")["call"] == call.call_id

    def test_a_free_lane(self, box: LaneBox) -> None:
        box.enqueue("a")
        assert box.run(take_over=True).completed == 1


class TestLost:
    """A runner whose lease went to somebody else writes nothing more."""

    @staticmethod
    def stolen(box: LaneBox) -> bytes:
        """Another tool breaks the lease and takes it."""
        owner = {
            **identity.current().as_json(),
            "heartbeat_at": iso(SystemClock().now_ms()),
            "tool": "theirs",
        }
        fresh = box.paths.root / "theirs"
        fresh.write_text(json.dumps(owner))
        fresh.rename(box.paths.runner_lock / "owner.json")
        return (box.paths.runner_lock / "owner.json").read_bytes()

    def test_while_a_phase_runs(self, make_box: MakeBox) -> None:
        box = make_box(by_id(a=HANG))
        box.enqueue("a")
        box.enqueue("b")
        runner = box.start()
        call = box.active_call("a")
        wait_until(lambda: box.paths.status.exists() and box.status()["state"] == "running")
        theirs = self.stolen(box)
        runner.wait()
        assert isinstance(runner.error, LeaseLost)
        assert runner.error.exit_code == 4
        assert call.state() == "running"
        assert not call.ending_path.exists()
        assert box.everything() == {"active": ["a"], "pending": ["b"]}
        assert box.status()["state"] == "running"
        assert not box.events("runner_ended", "runner_failed")
        assert (box.paths.runner_lock / "owner.json").read_bytes() == theirs
        assert not storage.is_locked(box.paths.runner_flock)

    def test_while_idle(self, box: LaneBox) -> None:
        runner = box.start()
        wait_until(lambda: box.paths.status.exists())
        before = box.status()
        self.stolen(box)
        runner.wait()
        assert isinstance(runner.error, LeaseLost)
        assert box.status() == before

    def test_a_lock_that_was_removed(self, box: LaneBox) -> None:
        runner = box.start()
        wait_until(lambda: box.paths.status.exists())
        (box.paths.runner_lock / "owner.json").unlink()
        box.paths.runner_lock.rmdir()
        runner.wait()
        assert isinstance(runner.error, LeaseLost)

    def test_a_request_to_stop_comes_too_late(self, make_box: MakeBox) -> None:
        box = make_box(by_id(a=HANG))
        box.enqueue("a")
        runner = box.start()
        call = box.active_call("a")
        self.stolen(box)
        runner.runner.request_stop()
        runner.wait()
        assert isinstance(runner.error, LeaseLost)
        assert call.state() == "running"
        assert box.ids("active") == ["a"]


def test_heartbeat_age_by_the_clock(box: LaneBox) -> None:
    box.foreign_owner(pid=GONE_PID, age=0, heartbeat_at=iso(1_000_000), host="elsewhere")
    held = holder(box.paths, ManualClock(1_042_000))
    assert held.alive
    assert held.owner is not None
    assert held.owner.describe(1_042_000) == f"pid {GONE_PID} on elsewhere, heartbeat 42 s ago"
    assert not holder(box.paths, ManualClock(1_061_000)).alive


@pytest.mark.skipif(sys.platform == "darwin", reason="needs /proc")
def test_the_lease_is_not_passed_on(make_box: MakeBox) -> None:
    """A call that outlives its runner does not hold the lane."""
    box = make_box(by_id(a=HANG))
    box.enqueue("a")
    runner = box.start()
    call = box.active_call("a")
    who = call.process()
    assert who is not None
    held = [os.readlink(f"/proc/{who.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{who.pid}/fd")]
    assert [path for path in held if path.endswith(".flock")] == []
    assert str(call.lock_path) in held
    runner.runner.request_hand_over()
    runner.join()
    assert not storage.is_locked(box.paths.runner_flock)
