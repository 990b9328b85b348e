"""A process ends, or its disk is full, at every single call with which an operation changes the disk."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from meshtui.core.errors import InvalidInput, MeshtuiError
from meshtui.core.lane.index import list_records
from meshtui.core.lane.lane import Lane
from meshtui.core.lane.settle import Settler
from meshtui.core.models.record import Record, load_record
from meshtui.core.run_dir import RECORD_FOLDERS, RunDir
from tests.support.crash import counted, disk_calls, ended_at, full_at
from tests.support.lanes import (
    AT,
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
    run_until_idle,
    temporary_files,
    where,
)

PROJECT = Path(__file__).parents[2]
Prepare = Callable[[RunDir, Lane], None]
Act = Callable[[RunDir, Lane], object]


@dataclass(frozen=True)
class Case:
    """An operation, what it starts from, and what it comes to."""

    name: str
    prepare: Prepare
    act: Act
    before: dict[str, str]
    """Folder of each record before it."""
    after: dict[str, str]
    results: tuple[dict[str, str], ...]
    """What the results may be on the way; the last one once it is done."""
    atomic: bool = False
    """Whether no state between the two may be seen."""
    again: Act | None = None
    """What carries it on where it did not come to its end, if that is not the same once more."""


def _base(run_dir: RunDir, lane: Lane) -> None:
    """One done, one failed, one withdrawn, one parked, two pending."""
    lane.enqueue_many([phase(name) for name in ("done", "failed", "parked", "gone", "p1", "p2")])
    finish_first(run_dir)
    finish_first(run_dir, "failed")
    park_first(run_dir)
    lane.withdraw("gone")


BASE = {
    "done": "claimed",
    "failed": "claimed",
    "parked": "stalled",
    "gone": "withdrawn",
    "p1": "pending",
    "p2": "pending",
}
RESULTS = {"done": "done", "failed": "failed", "parked": "stalled"}
BATCH = tuple(f"b{number}" for number in range(4))


def _with_active(run_dir: RunDir, lane: Lane) -> None:
    _base(run_dir, lane)
    record = claim_first(run_dir)
    record.data.update(
        {
            "attempt": 1,
            "deadline_budget_seconds": 60,
            "deadline_at_ms": 1_796_083_330_000,
            "call": "1796083270000-p1-run-00000000",
        }
    )
    files_of(run_dir).queue.rewrite(record)


def _active(run_dir: RunDir) -> tuple[Settler, Record]:
    [name] = list_records(run_dir.lane.active)
    return Settler(files_of(run_dir)), load_record(run_dir.lane.active / name)


def carried_on(act: Act) -> Act:
    """What the next runner does with a record in ``active/`` whose settling by ``act`` was cut off."""

    def again(run_dir: RunDir, lane: Lane) -> None:
        settler, record = _active(run_dir)
        if settler.complete(record) is not None:
            return
        if record.call is None:
            settler.put_back(record, event="phase_recovered", recovered=True)
        else:
            act(run_dir, lane)

    return again


def _finish(run_dir: RunDir, lane: Lane) -> None:
    settler, record = _active(run_dir)
    settler.finish(record, result_of(record.envelope_id))


def _stall(run_dir: RunDir, lane: Lane) -> None:
    settler, record = _active(run_dir)
    settler.stall(record, engine="command", story="", started_at=AT, evidence={})


def _stall_again(run_dir: RunDir, lane: Lane) -> None:
    settler, record = _active(run_dir)
    record.data["attempt"] = 2
    settler.stall(record, engine="command", story="", started_at=AT, evidence={})


def _put_back(run_dir: RunDir, lane: Lane) -> None:
    settler, record = _active(run_dir)
    settler.put_back(record, event="phase_aborted")


def _recover(run_dir: RunDir, lane: Lane) -> None:
    settler, record = _active(run_dir)
    settler.put_back(record, event="phase_recovered", recovered=True)


def _bad_head(run_dir: RunDir, lane: Lane) -> None:
    _base(run_dir, lane)
    head = list_records(run_dir.lane.pending)[0]
    (run_dir.lane.pending / head).write_bytes(b"{")


def _claim_bad(run_dir: RunDir, lane: Lane) -> None:
    with pytest.raises(InvalidInput):
        claim_first(run_dir)


def _claim_bad_again(run_dir: RunDir, lane: Lane) -> None:
    if len(pending_ids(run_dir)) == 2:
        _claim_bad(run_dir, lane)
    else:
        # Whoever stands in for a runner, or the next one, finds it among the active ones.
        assert not lane.stop().stopped


def _readable_again(run_dir: RunDir, lane: Lane) -> None:
    _base(run_dir, lane)
    head = list_records(run_dir.lane.pending)[0]
    run_dir.lane.quarantine.mkdir()
    (run_dir.lane.pending / head).rename(run_dir.lane.quarantine / "set aside")


def _withdrawn_with_stop(run_dir: RunDir, lane: Lane) -> None:
    _base(run_dir, lane)
    lane.enqueue({"kind": "stop", "id": "halt"})
    lane.interrupt()


def _edit(name: str) -> Act:
    return lambda run_dir, lane: lane.edit(name, phase(name, prompt="something else"))


def _dropped(run_dir: RunDir, lane: Lane) -> None:
    _base(run_dir, lane)
    lane.answer("parked", "drop")


def changed(**more: str) -> dict[str, str]:
    return {key: value for key, value in {**BASE, **more}.items() if value}


ACTIVE = changed(p1="active")
WITHDRAWN = changed(p1="withdrawn", p2="withdrawn", halt="withdrawn")

CASES = [
    Case(
        "enqueue",
        _base,
        lambda run_dir, lane: lane.enqueue(phase("new")),
        BASE,
        changed(new="pending"),
        (RESULTS,),
        atomic=True,
    ),
    Case(
        "batch",
        _base,
        lambda run_dir, lane: lane.enqueue_many([phase(name) for name in BATCH]),
        BASE,
        changed(**dict.fromkeys(BATCH, "pending")),
        (RESULTS,),
        atomic=True,
    ),
    Case(
        "claim",
        _base,
        lambda run_dir, lane: claim_first(run_dir),
        BASE,
        ACTIVE,
        (RESULTS,),
        atomic=True,
    ),
    Case(
        "claim a bad head",
        _bad_head,
        _claim_bad,
        BASE,
        changed(p1=""),
        (RESULTS,),
        again=_claim_bad_again,
    ),
    Case(
        "finish",
        _with_active,
        _finish,
        ACTIVE,
        changed(p1="claimed"),
        (RESULTS, {**RESULTS, "p1": "done"}),
        atomic=True,
        again=carried_on(_finish),
    ),
    Case("stall", _with_active, _stall, ACTIVE, BASE, (RESULTS,), atomic=True, again=carried_on(_stall)),
    Case(
        "stall again",
        _with_active,
        _stall_again,
        ACTIVE,
        changed(p1="stalled"),
        (RESULTS, {**RESULTS, "p1": "stalled"}),
        atomic=True,
        again=carried_on(_stall_again),
    ),
    Case(
        "put back",
        _with_active,
        _put_back,
        ACTIVE,
        BASE,
        (RESULTS,),
        atomic=True,
        again=carried_on(_put_back),
    ),
    Case(
        "recover", _with_active, _recover, ACTIVE, BASE, (RESULTS,), atomic=True, again=carried_on(_recover)
    ),
    Case(
        "answer retry",
        _base,
        lambda run_dir, lane: lane.answer("parked", "retry"),
        BASE,
        changed(parked="pending"),
        (RESULTS, {"done": "done", "failed": "failed"}),
        atomic=True,
    ),
    Case(
        "answer drop",
        _base,
        lambda run_dir, lane: lane.answer("parked", "drop"),
        BASE,
        changed(parked="claimed"),
        (RESULTS, {"done": "done", "failed": "failed"}, {**RESULTS, "parked": "failed"}),
        atomic=True,
    ),
    Case(
        "interrupt",
        _base,
        lambda run_dir, lane: lane.interrupt(),
        BASE,
        changed(p1="withdrawn", p2="withdrawn"),
        (RESULTS,),
    ),
    Case(
        "withdraw",
        _base,
        lambda run_dir, lane: lane.withdraw("p1"),
        BASE,
        changed(p1="withdrawn"),
        (RESULTS,),
        atomic=True,
    ),
    Case(
        "withdraw several",
        _base,
        lambda run_dir, lane: lane.withdraw_many(["p2", "p1", "nowhere"]),
        BASE,
        changed(p1="withdrawn", p2="withdrawn"),
        (RESULTS,),
    ),
    Case("head", _base, lambda run_dir, lane: lane.head(["p2"]), BASE, BASE, (RESULTS,), atomic=True),
    Case("edit", _base, _edit("p2"), BASE, BASE, (RESULTS,), atomic=True),
    Case(
        "edit what failed",
        _base,
        _edit("failed"),
        BASE,
        changed(failed="pending"),
        (RESULTS, {"done": "done", "parked": "stalled"}),
        atomic=True,
    ),
    Case(
        "restore in place",
        _withdrawn_with_stop,
        lambda run_dir, lane: lane.restore(in_place=True),
        WITHDRAWN,
        changed(p1="pending", p2="pending", gone="pending", halt="pending"),
        (RESULTS,),
    ),
    Case(
        "park again",
        _dropped,
        lambda run_dir, lane: lane.park_again("parked"),
        changed(parked="claimed"),
        BASE,
        ({**RESULTS, "parked": "failed"}, {"done": "done", "failed": "failed"}, RESULTS),
        atomic=True,
    ),
    Case(
        "restore",
        _withdrawn_with_stop,
        lambda run_dir, lane: lane.restore(),
        WITHDRAWN,
        changed(p1="pending", p2="pending", gone="pending", halt="pending"),
        (RESULTS,),
    ),
    Case(
        "repair",
        _readable_again,
        lambda run_dir, lane: lane.quarantine_repair("set aside"),
        changed(p1=""),
        BASE,
        (RESULTS,),
        atomic=True,
    ),
    Case(
        "requeue",
        _base,
        lambda run_dir, lane: lane.requeue("failed"),
        BASE,
        changed(failed="pending"),
        (RESULTS, {"done": "done", "parked": "stalled"}),
        atomic=True,
    ),
]
by_name = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


class Shelf:
    """Gives fresh copies of what a case starts from."""

    def __init__(self, case: Case, root: Path) -> None:
        self.case = case
        self.scratch = root
        self._model, lane = new_lane(root / "model" / "run")
        case.prepare(self._model, lane)
        assert where(self._model) == case.before
        self.run_dir = RunDir(root / "run")
        self._times: dict[str, int] = {}

    def fresh(self) -> None:
        shutil.rmtree(self.run_dir.root, ignore_errors=True)
        shutil.copytree(self._model.root, self.run_dir.root, symlinks=True)
        # The index knows the folders as they are now.
        files_of(self.run_dir).write_status()
        self._times = {name: self._folder(name).stat().st_mtime_ns for name in (*RECORD_FOLDERS, "results")}

    def act(self) -> None:
        self.case.act(self.run_dir, Lane(self.run_dir))

    def set_back_times(self) -> None:
        """Give the folders the times that the index knows, as a clock that ticks coarsely would have."""
        for name, at in self._times.items():
            os.utime(self._folder(name), ns=(at, at))

    def _folder(self, name: str) -> Path:
        return self.run_dir.lane.folder(name)

    def verify(self, *, done: bool) -> None:
        """What holds after the process ended at some point, and once the operation was carried on."""
        case, run_dir, clock = self.case, self.run_dir, LaterClock()
        lane = Lane(run_dir, clock=clock)
        here = where(run_dir)
        assert here.keys() >= case.before.keys() & case.after.keys(), "something is lost"
        assert here == case.after or not done
        if case.atomic:
            assert here in (case.before, case.after)
        assert results(run_dir) in case.results
        if here != case.after:
            again = case.again or case.act
            again(run_dir, lane)
        elif case.name in ("enqueue", "batch"):
            with pytest.raises(InvalidInput, match="already used"):
                case.act(run_dir, lane)
        assert where(run_dir) == case.after
        assert results(run_dir) in case.results[-1:] if here != case.after else case.results
        waiting = len(pending_ids(run_dir))
        if "halt" in here:
            with pytest.raises(InvalidInput, match="after a stop"):
                lane.enqueue(phase("next"))
        else:
            receipt = lane.enqueue(phase("next"))
            assert (receipt.position, receipt.queue_depth) == (waiting + 1, waiting + 1)
            assert not run_dir.lane.enqueue_lock.exists()
        check(run_dir, self.scratch, clock)


@contextmanager
def noted(text: str) -> Iterator[None]:
    """Have a failure say at which point it happened."""
    try:
        yield
    except BaseException as error:
        error.add_note(text)
        raise


def _done_on_full_disk(n: int, operation: Callable[[], object], *, once: bool) -> bool:
    """Whether ``operation`` comes to its end although the disk is full from its ``n``-th call on."""
    refusal: MeshtuiError | None = None
    with disk_calls(full_at(n, once=once)):
        try:
            operation()
        except MeshtuiError as error:
            refusal = error
    assert refusal is None or "disk is full" in str(refusal)
    return refusal is None


@by_name
def test_a_process_ends_at_every_call(case: Case, quick_path: Path) -> None:
    shelf = Shelf(case, quick_path)
    shelf.fresh()
    calls = counted(shelf.act)
    shelf.verify(done=True)
    for n in range(1, len(calls) + 1):
        for torn in (False, True) if calls[n - 1] in ("write", "pwrite") else (False,):
            shelf.fresh()
            assert not ended_at(n, shelf.act, torn=torn)
            if n % 2:
                shelf.set_back_times()
            with noted(f"ended at call {n}, {calls[n - 1]}{' (torn)' if torn else ''}"):
                shelf.verify(done=False)


@by_name
@pytest.mark.parametrize("once", [True, False], ids=["for one call", "from there on"])
def test_the_disk_is_full_at_every_call(case: Case, once: bool, quick_path: Path) -> None:
    """It fails with one line, or it was done; either way the lane is whole and goes on with space."""
    shelf = Shelf(case, quick_path)
    shelf.fresh()
    for n in range(1, len(counted(shelf.act)) + 1):
        shelf.fresh()
        done = _done_on_full_disk(n, shelf.act, once=once)
        if n % 2 and not done:
            shelf.set_back_times()
        if not once:
            # One refused removal may leave one; a full disk removes its temporary files.
            assert temporary_files(shelf.run_dir) == []
        with noted(f"full at call {n}, done: {done}"):
            shelf.verify(done=done)


# -- a whole runner --------------------------------------------------------------------------------------

STAMP = 'echo "start $MESHTUI_ENVELOPE_ID" >> "$MESHTUI_RUN_DIR/ran"; echo "end $MESHTUI_ENVELOPE_ID" >> "$MESHTUI_RUN_DIR/ran"'


def _two_phases(root: Path) -> RunDir:
    run_dir, lane = new_lane(root)
    lane.enqueue_many([phase("one", story_id="s"), phase("two", story_id="s")])
    return run_dir


def _whole_runner(root: Path) -> Callable[[], object]:
    return lambda: run_until_idle(RunDir(root), STAMP)


def test_a_runner_ends_at_every_call(quick_path: Path) -> None:
    """Each phase runs once, whenever its runner ends: its call outlives the runner and is adopted."""
    root = quick_path / "run"
    _two_phases(root)
    calls = counted(_whole_runner(root))
    for n in range(1, len(calls) + 3):
        shutil.rmtree(root)
        run_dir = _two_phases(root)
        done = ended_at(n, _whole_runner(root))
        with noted(f"ended at call {n} of {len(calls)}, done: {done}"):
            # A lock that nobody had written a name into is waited for: ten seconds by the clock.
            outcome = run_until_idle(run_dir, STAMP, LaterClock())
            assert outcome.state == "waiting"
            assert not outcome.parked
            ran = (root / "ran").read_text().splitlines()
            assert ran == ["start one", "end one", "start two", "end two"]
            assert where(run_dir) == {"one": "claimed", "two": "claimed"}
            assert results(run_dir) == {"one": "done", "two": "done"}
            assert not run_dir.lane.history.exists(), "a result was written twice"
            assert not run_dir.lane.runner_lock.exists()
            check(run_dir, quick_path)


def test_a_disk_is_full_for_a_runner_at_every_call(quick_path: Path) -> None:
    """The runner says so and ends, or goes on; once there is space the next one brings all to its end."""
    root = quick_path / "run"
    _two_phases(root)
    calls = counted(_whole_runner(root))
    for n in range(1, len(calls) + 1):
        shutil.rmtree(root)
        run_dir = _two_phases(root)
        with noted(f"full at call {n} of {len(calls)}"):
            _done_on_full_disk(n, lambda: run_until_idle(RunDir(root), STAMP), once=True)
            outcome = run_until_idle(run_dir, STAMP)
            assert outcome.state == "waiting"
            ran = (root / "ran").read_text().splitlines()
            assert ran == ["start one", "end one", "start two", "end two"]
            assert where(run_dir) == {"one": "claimed", "two": "claimed"}
            assert results(run_dir) == {"one": "done", "two": "done"}
            check(run_dir, quick_path)


# -- the same from outside -------------------------------------------------------------------------------


def _strace(*arguments: str) -> list[str]:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("there is no strace")
    return [strace, "-f", "-qq", "-o", "/dev/null", *arguments]


@pytest.fixture(scope="module")
def strace_works() -> None:
    inject = ["-e", "trace=rename", "-e", "inject=rename:signal=SIGKILL:when=1"]
    tried = subprocess.run(
        [*_strace(*inject), sys.executable, "-c", "import os; os.rename('/nowhere', '/nowhere')"],
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode not in (-9, 137):
        pytest.skip(f"strace cannot inject signals here: {tried.stderr.strip()[-200:] or tried.returncode}")


def _cli(run_dir: RunDir, *arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "meshtui", *arguments, "--run-dir", str(run_dir.root)]


@pytest.mark.parametrize(
    ("name", "arguments", "syscalls"),
    [
        (
            "enqueue",
            ("enqueue", "--prompt", "p", "--id", "new", "--engine", "command"),
            ("fsync", "rename", "renameat2", "pwrite64", "mkdir"),
        ),
        ("restore", ("restore",), ("rename",)),
        ("head", ("head", "p2"), ("rename", "fsync", "pwrite64")),
        ("edit", ("edit", "p2", "--prompt", "something else"), ("rename", "fsync", "pwrite64")),
        ("answer retry", ("answer", "parked", "--retry"), ("rename",)),
        ("answer drop", ("answer", "parked", "--drop"), ("rename",)),
    ],
    ids=["enqueue", "restore", "head", "edit", "retry", "drop"],
)
@pytest.mark.usefixtures("strace_works")
def test_the_command_is_killed_at_every_system_call(
    name: str, arguments: tuple[str, ...], syscalls: tuple[str, ...], quick_path: Path
) -> None:
    [case] = [case for case in CASES if case.name == name]
    shelf = Shelf(case, quick_path)
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "PYTHONDONTWRITEBYTECODE": "1"}
    killed = 0
    for syscall in syscalls:
        for n in range(1, 40):
            shelf.fresh()
            traced = _strace("-e", f"trace={syscall}", "-e", f"inject={syscall}:signal=SIGKILL:when={n}")
            done = subprocess.run(
                [*traced, *_cli(shelf.run_dir, *arguments)],
                cwd=quick_path,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            ended = done.returncode in (-9, 137)
            assert ended or done.returncode == 0, done.stderr
            with noted(f"killed at {syscall} {n}"):
                shelf.verify(done=not ended)
            if not ended:
                break
            killed += 1
    assert killed > len(syscalls)
