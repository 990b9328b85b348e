from __future__ import annotations

import errno
import fcntl
import json
import multiprocessing
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from meshtui.core import identity, storage
from meshtui.core.clock import SystemClock, iso
from meshtui.core.errors import Held, MeshtuiError, StorageError
from meshtui.core.lane import dirlock
from tests.support.crash import counted, disk_calls, ended_at, full_at

OLD, NEW = b"old" * 1000, b"new" * 4000
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 64 KiB."""
    mount = tmp_path / "tiny"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=0777", "none", str(mount)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount program")
    if done.returncode != 0:
        pytest.skip(f"mounting a tmpfs is not allowed here: {done.stderr.strip()}")
    try:
        yield mount
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


# -- atomic files ---------------------------------------------------------------------------------------


def test_a_replaced_file_is_old_or_new_at_every_point(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    calls = counted(lambda: storage.write_atomic(path, OLD))
    assert calls == ["open", "write", "fsync", "rename", "fsync"]
    seen = set()
    for n in range(1, len(calls) + 2):
        for torn in (False, True):
            path.write_bytes(OLD)
            done = ended_at(n, lambda: storage.write_atomic(path, NEW), torn=torn)
            assert path.read_bytes() in (OLD, NEW)
            assert not done or path.read_bytes() == NEW
            seen.add(path.read_bytes())
    assert seen == {OLD, NEW}


def test_a_created_file_is_whole_or_missing_at_every_point(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for n in range(1, len(counted(lambda: storage.create(tmp_path / "other", NEW))) + 2):
        path.unlink(missing_ok=True)
        done = ended_at(n, lambda: storage.create(path, NEW), torn=True)
        assert path.read_bytes() == NEW if path.exists() else not done


@pytest.mark.parametrize("once", [True, False])
def test_a_full_disk_leaves_the_old_file_and_no_temporary_one(tmp_path: Path, once: bool) -> None:
    path = tmp_path / "file"
    for n in range(1, 5):
        path.write_bytes(OLD)
        with disk_calls(full_at(n, once=once)), pytest.raises(StorageError, match="disk is full") as caught:
            storage.write_atomic(path, NEW)
        assert str(path) in str(caught.value)
        assert path.read_bytes() == OLD
        assert names(tmp_path) == ["file"]


def test_a_full_disk_makes_no_new_file_and_leaves_no_temporary_one(tmp_path: Path) -> None:
    for n in range(1, 5):
        with disk_calls(full_at(n, once=True)), pytest.raises(StorageError, match="disk is full"):
            storage.create(tmp_path / "file", NEW)
        assert names(tmp_path) == []


def test_a_really_full_disk(tiny_disk: Path) -> None:
    path = tiny_disk / "file"
    storage.write_atomic(path, OLD)
    with pytest.raises(StorageError, match="disk is full"):
        storage.write_atomic(path, b"x" * (1 << 20))
    assert path.read_bytes() == OLD
    with pytest.raises(StorageError, match="disk is full"):
        storage.create(tiny_disk / "new", b"x" * (1 << 20))
    assert names(tiny_disk) == ["file"]
    log = tiny_disk / "log"
    with pytest.raises(StorageError, match="disk is full"):
        storage.append(log, b"x" * (1 << 20))
    log.unlink()
    storage.write_atomic(path, NEW)
    assert path.read_bytes() == NEW


def test_readers_see_whole_files_while_a_writer_replaces_them(tmp_path: Path) -> None:
    path = tmp_path / "file"
    storage.write_atomic(path, OLD)
    end = threading.Event()

    def write() -> None:
        for turn in range(300):
            storage.write_atomic(path, NEW if turn % 2 else OLD, durable=False)
        end.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = set()
    while not end.is_set():
        seen.add(storage.read_bytes(path))
    writer.join()
    assert seen <= {OLD, NEW}
    assert names(tmp_path) == ["file"]


def test_files_are_synced_before_the_rename_and_the_folder_after(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert counted(lambda: storage.write_atomic(tmp_path / "a" / "f", NEW)) == [
        "open",
        "write",
        "fsync",
        "rename",
        "fsync",
    ]
    assert counted(lambda: storage.move(tmp_path / "a" / "f", tmp_path / "f")) == ["rename", "fsync", "fsync"]


def test_temporary_files_sit_beside_their_target_whatever_tmpdir_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("TMPDIR", str(elsewhere))
    target = tmp_path / "here" / "file"
    target.parent.mkdir()
    opened: list[str] = []

    def note(number: int, name: str, args: tuple[Any, ...]) -> None:
        if name == "open":
            opened.append(str(args[0]))

    with disk_calls(note):
        storage.write_atomic(target, NEW)
        storage.create(target.with_name("second"), NEW)
    assert {Path(path).parent for path in opened} == {target.parent}
    assert all(Path(path).name.startswith(".") and path.endswith(".tmp") for path in opened)
    assert names(elsewhere) == []


def test_new_files_and_folders_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        storage.make_dirs(tmp_path / "a" / "b")
        storage.write_atomic(tmp_path / "a" / "one", b"")
        storage.create(tmp_path / "a" / "two", b"")
        storage.append(tmp_path / "a" / "three", b"")
        storage.write_in_place(tmp_path / "a" / "four", b"")
    finally:
        os.umask(before)
    for folder in ("a", "a/b"):
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o700
    for name in ("one", "two", "three", "four"):
        assert stat.S_IMODE((tmp_path / "a" / name).stat().st_mode) == 0o600


def test_a_long_name_still_has_room_for_its_temporary_one(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    storage.write_atomic(path, NEW)
    assert path.read_bytes() == NEW


# -- symlinks in the way -----------------------------------------------------------------------------------


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_bytes(OLD)
    return path


@pytest.mark.parametrize(
    "write",
    [
        lambda path: storage.append(path, NEW),
        lambda path: storage.write_in_place(path, NEW),
        lambda path: storage.write_new(path, NEW, durable=False),
        lambda path: os.close(storage.open_log(path)),
        lambda path: storage.OsLock(path, what="it").try_acquire(),
        lambda path: storage.create(path, NEW),
    ],
    ids=["append", "in place", "new", "log", "lock", "create"],
)
def test_a_symlink_in_place_of_a_file_is_refused(
    tmp_path: Path, victim: Path, write: Callable[[Path], object]
) -> None:
    link = tmp_path / "link"
    link.symlink_to(victim)
    with pytest.raises((StorageError, FileExistsError)) as caught:
        write(link)
    assert str(link) in str(caught.value) or isinstance(caught.value, FileExistsError)
    assert victim.read_bytes() == OLD
    assert link.is_symlink()
    assert names(tmp_path) == ["link", "victim"]


def test_an_atomic_write_replaces_a_symlink_and_not_what_it_points_to(tmp_path: Path, victim: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(victim)
    storage.write_atomic(link, NEW)
    assert victim.read_bytes() == OLD
    assert link.read_bytes() == NEW
    assert not link.is_symlink()


def test_a_symlink_in_place_of_a_directory_lock_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "owner.json").write_text("{}")
    link = tmp_path / "enqueue.lock"
    link.symlink_to(target)
    with pytest.raises(Held, match="symlink"):
        dirlock.try_take(link, SystemClock())
    assert (target / "owner.json").read_text() == "{}"
    assert link.is_symlink()


def test_removing_a_tree_does_not_follow_symlinks(tmp_path: Path, victim: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").write_text("kept")
    (tree / "sub" / "dir-link").symlink_to(outside)
    (tree / "file-link").symlink_to(victim)
    storage.remove_tree(tree)
    assert not tree.exists()
    assert (outside / "keep").read_text() == "kept"
    assert victim.read_bytes() == OLD


# -- what is not a plain file ------------------------------------------------------------------------------


def test_reading_a_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError, match="not a plain file"):
        storage.read_bytes(tmp_path / "pipe")


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_what_is_no_file_in_place_of_a_lock_is_refused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / ".queue.flock"
    make(path)
    with pytest.raises(StorageError, match=r"queue\.flock"):
        storage.OsLock(path, what="the queue").try_acquire()


def test_a_filesystem_without_locks_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    path = tmp_path / "lock"
    path.touch()
    monkeypatch.setattr(fcntl, "flock", refuse)
    started = time.monotonic()
    with pytest.raises(StorageError, match="no file locks"):
        storage.OsLock(path, what="the queue").acquire(30)
    with pytest.raises(StorageError, match="no file locks"):
        storage.is_locked(path)
    assert time.monotonic() - started < 5


def test_a_read_only_filesystem_is_named(tmp_path: Path) -> None:
    def refuse(number: int, name: str, args: tuple[Any, ...]) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with disk_calls(refuse), pytest.raises(StorageError, match="read-only"):
        storage.write_atomic(tmp_path / "f", NEW)
    assert names(tmp_path) == []


# -- OS locks ----------------------------------------------------------------------------------------------


def test_a_lock_is_free_when_its_holder_dies(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        storage.OsLock(path, what="it").acquire(5)
        os.write(told, b"x")
        threading.Event().wait(60)
        os._exit(0)
    try:
        assert os.read(ready, 1) == b"x"
        assert storage.is_locked(path)
        lock = storage.OsLock(path, what="it")
        assert not lock.try_acquire()
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(ready)
        os.close(told)
    assert not storage.is_locked(path)
    assert lock.try_acquire()
    lock.release()


def test_a_lock_that_is_only_looked_at_is_waited_out(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    probe = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(probe, fcntl.LOCK_SH)
    released = threading.Timer(0.02, os.close, (probe,))
    released.start()
    lock = storage.OsLock(path, what="it")
    assert lock.try_acquire()
    released.join()
    lock.release()


def test_a_lock_looked_at_forever_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_PROBE_SECONDS", 0.05)
    path = tmp_path / "lock"
    probe = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(probe, fcntl.LOCK_SH)
    try:
        assert not storage.OsLock(path, what="it").try_acquire()
    finally:
        os.close(probe)


def test_looking_at_a_lock_never_makes_it_look_held(tmp_path: Path) -> None:
    """A probe holds a shared lock for a moment: whoever wants the lock meanwhile gets it all the same."""
    path = tmp_path / "lock"
    path.touch()
    end = FORK.Event()

    def probe() -> None:
        while not end.wait(0.0005):
            storage.is_locked(path)

    probes = [FORK.Process(target=probe) for _ in range(4)]
    for process in probes:
        process.start()
    try:
        refused = 0
        for _ in range(400):
            lock = storage.OsLock(path, what="it")
            refused += not lock.try_acquire()
            lock.release()
    finally:
        end.set()
        for process in probes:
            process.join(20)
    assert refused == 0


def test_probes_do_not_take_each_other_for_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()

    def probe() -> None:
        os._exit(int(any(storage.is_locked(path) for _ in range(2000))))

    probes = [FORK.Process(target=probe) for _ in range(4)]
    for process in probes:
        process.start()
    for process in probes:
        process.join(60)
    assert [process.exitcode for process in probes] == [0] * 4


def test_waiting_for_a_lock_ends(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with storage.OsLock(path, what="the queue"):
        other = storage.OsLock(path, what="the queue")
        with pytest.raises(Held, match="the queue is busy"):
            other.acquire(0.05)
        assert not other.held


def test_three_processes_around_one_release(tmp_path: Path) -> None:
    """Whoever has the lock is alone, over many releases that others wait for."""
    path, inside = tmp_path / "lock", tmp_path / "inside"

    def work() -> None:
        for _ in range(150):
            with storage.OsLock(path, what="it"):
                os.close(os.open(inside, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                os.unlink(inside)
        os._exit(0)

    workers = [FORK.Process(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * 3


# -- directory locks ---------------------------------------------------------------------------------------


def _dead_owner() -> dict[str, object]:
    process = subprocess.Popen([sys.executable, "-c", ""])
    who = identity.identify(process.pid)
    process.wait()
    return {**who.as_json(), "heartbeat_at": iso(SystemClock().now_ms())}


def test_many_processes_over_one_stale_directory_lock(tmp_path: Path) -> None:
    """Sixteen race for a lock whose owner is dead; exactly one gets it, round after round."""
    rounds, racers = 25, 16
    dead = json.dumps(_dead_owner())
    barrier = FORK.Barrier(racers)
    log = tmp_path / "log"
    log.touch()

    def race() -> None:
        clock = SystemClock()
        for turn in range(rounds):
            folder = tmp_path / f"{turn}.lock"
            barrier.wait(60)
            lock = storage.OsLock(tmp_path / f"{turn}.flock", what="it")
            if not lock.try_acquire():
                barrier.wait(60)
                continue
            won = dirlock.try_take(folder, clock)
            if won:
                with open(log, "a") as file:
                    file.write(f"{turn} {os.getpid()}\n")
            # Nobody gives it back before all have tried.
            barrier.wait(60)
            lock.release()
        os._exit(0)

    for turn in range(rounds):
        folder = tmp_path / f"{turn}.lock"
        folder.mkdir()
        (folder / "owner.json").write_text(dead)
    processes = [FORK.Process(target=race) for _ in range(racers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(100)
    assert [process.exitcode for process in processes] == [0] * racers
    won = [line.split() for line in log.read_text().splitlines()]
    assert sorted(int(turn) for turn, _ in won) == list(range(rounds))
    for number, pid in won:
        owner = dirlock.read_owner(tmp_path / f"{number}.lock")
        assert owner is not None
        assert owner.who is not None
        assert owner.who.pid == int(pid)
    assert [name for name in names(tmp_path) if name.endswith(".stale")] == []


def test_a_lock_that_another_tool_took_in_between_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other tools do not know our OS lock: one may break the stale lock and take it while we look."""
    folder = tmp_path / "enqueue.lock"
    folder.mkdir()
    (folder / "owner.json").write_text(json.dumps(_dead_owner()))
    theirs = json.dumps({**identity.current().as_json(), "heartbeat_at": 1, "tool": "theirs"})
    is_free = dirlock.is_free

    def and_meanwhile(path: Path, clock: SystemClock) -> bool:
        free = is_free(path, clock)
        if free:
            path.rename(tmp_path / "broken by them")
            path.mkdir()
            (path / "owner.json").write_text(theirs)
        return free

    monkeypatch.setattr(dirlock, "is_free", and_meanwhile)
    assert not dirlock.try_take(folder, SystemClock())
    assert (folder / "owner.json").read_text() == theirs
    assert [name for name in names(tmp_path) if name.endswith(".stale")] == []


def test_a_lock_that_changes_hands_twice_in_between_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "enqueue.lock"
    move = storage.move

    def and_meanwhile(source: Path, target: Path, *, durable: bool = True) -> None:
        move(source, target, durable=durable)
        if source == folder:
            # It was theirs already when we moved it, and the next of them is quick.
            os.utime(target)
            folder.mkdir()
            (folder / "owner.json").write_text("{}")

    folder.mkdir()
    (folder / "owner.json").write_text(json.dumps(_dead_owner()))
    monkeypatch.setattr(storage, "move", and_meanwhile)
    assert not dirlock.try_take(folder, SystemClock())
    assert (folder / "owner.json").read_text() == "{}"
    assert [name for name in names(tmp_path) if name.endswith(".stale")] == []


def test_an_ownerless_directory_lock_is_broken_after_ten_seconds(tmp_path: Path) -> None:
    folder = tmp_path / "enqueue.lock"
    folder.mkdir()
    clock = SystemClock()
    assert not dirlock.try_take(folder, clock)
    with pytest.raises(Held, match="an unknown process"):
        dirlock.take(folder, clock, timeout=0.05, what="the queue")
    past = time.time() - 11
    os.utime(folder, (past, past))
    assert dirlock.try_take(folder, clock)
    dirlock.give_back(folder)
    assert names(tmp_path) == []


def test_a_directory_lock_whose_owner_cannot_be_written_is_given_back(tmp_path: Path) -> None:
    folder = tmp_path / "enqueue.lock"
    for n in (2, 3):
        with disk_calls(full_at(n, once=True)), pytest.raises(StorageError):
            dirlock.try_take(folder, SystemClock())
        assert not folder.exists()


def test_errors_are_one_line_with_the_path(tmp_path: Path) -> None:
    for write in (storage.write_atomic, storage.create):
        with disk_calls(full_at(1, once=True)), pytest.raises(MeshtuiError) as caught:
            write(tmp_path / "f", b"")
        assert "\n" not in str(caught.value)
        assert str(tmp_path / "f") in str(caught.value)


@pytest.mark.parametrize(
    "write",
    [
        lambda path: storage.append(path, NEW),
        lambda path: storage.write_in_place(path, NEW),
        lambda path: storage.patch(path, NEW, 0),
        lambda path: storage.open_log(path),
        lambda path: storage.read_bytes(path),
        lambda path: storage.open_plain(path),
    ],
)
def test_a_pipe_where_a_file_belongs_holds_nobody(write: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(StorageError, match=r"pipe: (a pipe stands|not a plain file)"):
        write(path)


@pytest.mark.parametrize(
    ("durable", "at_once", "syncs"), [(True, True, 2), (True, False, 1), (False, True, 0)]
)
def test_what_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool, at_once: bool, syncs: int
) -> None:
    """The file, then the folder; not the folder where something else will sync it."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    storage.write_atomic(tmp_path / "a", b"x", durable=durable, at_once=at_once)
    assert (tmp_path / "a").read_bytes() == b"x"
    assert len(synced) == syncs


def test_a_holder_whose_clock_runs_ahead_is_judged_by_when_it_wrote(tmp_path: Path) -> None:
    folder = tmp_path / "runner.lock"
    folder.mkdir()
    clock = SystemClock()
    owner = {"pid": 7, "host": "elsewhere", "heartbeat_at": iso(clock.now_ms() + 86_400_000)}
    (folder / "owner.json").write_text(json.dumps(owner))
    assert not dirlock.is_free(folder, clock)
    past = time.time() - dirlock.HEARTBEAT_STALE_SECONDS - 1
    os.utime(folder / "owner.json", (past, past))
    assert dirlock.is_free(folder, clock)
