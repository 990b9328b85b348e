"""Following a run directory: every change arrives, bursts and errors are survived, stopping is bounded."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from meshtui.core import watch
from meshtui.core.errors import StorageError
from meshtui.core.run_dir import RunDir
from meshtui.core.view import LaneView
from meshtui.core.watch import Watcher

LIMIT = 10.0


def until(condition: Callable[[], object]) -> None:
    """Wait until ``condition`` holds."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, "never"
        time.sleep(0.002)


class Names:
    """A reader whose views name the files of ``pending/``."""

    def __init__(self, run_dir: RunDir) -> None:
        self.run_dir = run_dir
        self.refreshes = 0
        self.error: Exception | None = None
        self.parts = 0
        self._last: tuple[str, ...] | None = None
        self._view = LaneView(run_dir.root, exists=False)

    def refresh(self, *, budget: int = 500) -> LaneView:
        self.refreshes += 1
        if self.error is not None:
            raise self.error
        try:
            names = tuple(sorted(os.listdir(self.run_dir.lane.pending)))
        except FileNotFoundError:
            names = ()
        if self.parts:
            self.parts -= 1
            return replace(self._view, complete=False, warnings=(str(self.parts),))
        if names != self._last:
            self._last = names
            self._view = LaneView(self.run_dir.root, exists=True, warnings=names)
        return self._view


class Followed:
    """A watcher and what it told."""

    def __init__(self, run_dir: RunDir, **options: object) -> None:
        self.reader = Names(run_dir)
        self.views: list[LaneView] = []
        self.modes: list[tuple[str, str | None]] = []
        self.problems: list[str] = []
        self.watcher = Watcher(
            run_dir,
            self.reader,
            on_view=self.views.append,
            on_mode=lambda mode, reason: self.modes.append((mode, reason)),
            on_problem=self.problems.append,
            **options,  # type: ignore[arg-type]
        )

    @property
    def names(self) -> tuple[str, ...]:
        return self.views[-1].warnings if self.views else ()


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDir:
    found = RunDir(tmp_path)
    found.lane.pending.mkdir(parents=True)
    return found


@pytest.fixture
def follow(run_dir: RunDir) -> Iterator[Callable[..., Followed]]:
    opened: list[Followed] = []

    def start(**options: object) -> Followed:
        followed = Followed(run_dir, **options)
        opened.append(followed)
        followed.watcher.start()
        return followed

    yield start
    for followed in opened:
        assert followed.watcher.stop()


def test_changes_arrive_soon(run_dir: RunDir, follow: Callable[..., Followed]) -> None:
    followed = follow(force_polling=False, rescan_seconds=600)
    until(lambda: followed.modes == [("watching", None)])
    taken = []
    for index in range(15):
        start = time.monotonic()
        (run_dir.lane.pending / f"{index:02d}.json").write_text("{}")
        until(lambda index=index: len(followed.names) == index + 1)  # type: ignore[misc]
        taken.append(time.monotonic() - start)
    # A loaded machine may be late; the median shows whether it is notified or found by looking.
    assert sorted(taken)[len(taken) // 2] < 0.2


def test_a_burst_of_renames_ends_with_the_last_state(
    run_dir: RunDir, follow: Callable[..., Followed]
) -> None:
    followed = follow(force_polling=False, rescan_seconds=600)
    until(lambda: followed.modes)
    active = run_dir.lane.active
    active.mkdir()
    count = 15_000
    for index in range(count):
        (run_dir.lane.pending / f".{index}").touch()
        os.rename(run_dir.lane.pending / f".{index}", active / f"{index}.json")
    for index in range(0, count, 2):
        os.rename(active / f"{index}.json", run_dir.lane.pending / f"{index:05d}.json")
    until(lambda: len(followed.names) == count // 2)
    assert followed.names == tuple(f"{index:05d}.json" for index in range(0, count, 2))
    assert followed.problems == []


def test_forced_polling_while_files_vanish(run_dir: RunDir, follow: Callable[..., Followed]) -> None:
    stop = threading.Event()

    def churn() -> None:
        index = 0
        while not stop.is_set():
            path = run_dir.lane.pending / f"{index % 50}.json"
            path.touch()
            path.unlink()
            index += 1

    thread = threading.Thread(target=churn)
    followed = follow(force_polling=True, poll_seconds=0.005)
    thread.start()
    try:
        until(lambda: followed.reader.refreshes > 50)
    finally:
        stop.set()
        thread.join()
    assert followed.modes == [("polling", "asked for by the environment")]
    (run_dir.lane.pending / "last.json").touch()
    until(lambda: followed.names == ("last.json",))
    assert followed.problems == []


@pytest.mark.parametrize(
    ("value", "forced"), [("1", True), ("true", True), ("0", False), ("false", False), ("", False)]
)
def test_the_environment_forces_polling(monkeypatch: pytest.MonkeyPatch, value: str, forced: bool) -> None:
    monkeypatch.delenv("WATCHFILES_FORCE_POLLING", raising=False)
    monkeypatch.setenv("MESHTUI_FORCE_POLLING", value)
    assert watch.polling_is_forced() is forced


def test_a_failing_watch_polls_is_reported_and_tried_again(
    run_dir: RunDir, follow: Callable[..., Followed]
) -> None:
    attempts = 0

    def changes(paths: list[Path], stop: threading.Event) -> Iterator[int]:
        nonlocal attempts
        attempts += 1
        if attempts <= 2:
            raise OSError("no space left on device (os error 28)")
        yield from watch.watch_changes(paths, stop)

    followed = follow(force_polling=False, changes=changes, retry_seconds=0.02, poll_seconds=0.005)
    until(lambda: ("watching", None) in followed.modes)
    assert followed.modes == [
        ("polling", "watching failed: no space left on device (os error 28)"),
        ("watching", None),
    ]
    (run_dir.lane.pending / "x.json").touch()
    until(lambda: followed.names == ("x.json",))


def test_a_lane_that_appears_later_or_is_replaced_is_followed(tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path / "later")
    followed = Followed(run_dir, force_polling=False, rescan_seconds=600)
    followed.watcher.start()
    try:
        until(lambda: followed.views)
        run_dir.lane.pending.mkdir(parents=True)
        (run_dir.lane.pending / "a.json").touch()
        until(lambda: followed.names == ("a.json",))
        until(lambda: followed.modes)
        os.rename(run_dir.lane.root, tmp_path / "gone")
        run_dir.lane.pending.mkdir(parents=True)
        (run_dir.lane.pending / "b.json").touch()
        until(lambda: followed.names == ("b.json",))
        (run_dir.lane.pending / "c.json").touch()
        until(lambda: followed.names == ("b.json", "c.json"))
    finally:
        assert followed.watcher.stop()


def test_parts_are_drawn_as_they_come(run_dir: RunDir) -> None:
    followed = Followed(run_dir, force_polling=True, poll_seconds=60)
    followed.reader.parts = 5
    followed.watcher.start()
    try:
        until(lambda: followed.views and followed.views[-1].complete)
        assert len(followed.views) == 6
    finally:
        assert followed.watcher.stop()


def test_a_reader_that_fails_is_reported_once_and_asked_again(
    run_dir: RunDir, follow: Callable[..., Followed]
) -> None:
    followed = follow(force_polling=True, poll_seconds=0.002)
    followed.reader.error = StorageError("disk [/] gone")
    until(lambda: followed.problems)
    seen = followed.reader.refreshes
    until(lambda: followed.reader.refreshes > seen + 10)
    assert len(followed.problems) == 1
    assert "disk [/] gone" in followed.problems[0]
    followed.reader.error = None
    (run_dir.lane.pending / "x.json").touch()
    until(lambda: followed.names == ("x.json",))


def test_everything_is_looked_at_again(run_dir: RunDir, follow: Callable[..., Followed]) -> None:
    def silent(paths: list[Path], stop: threading.Event) -> Iterator[int]:
        while not stop.wait(0.005):
            yield 0

    followed = follow(force_polling=False, changes=silent, rescan_seconds=0.02)
    until(lambda: followed.modes)
    (run_dir.lane.pending / "unseen.json").touch()
    until(lambda: followed.names == ("unseen.json",))


def test_a_nudge_looks_at_once(run_dir: RunDir, follow: Callable[..., Followed]) -> None:
    followed = follow(force_polling=True, poll_seconds=60)
    until(lambda: followed.views)
    (run_dir.lane.pending / "n.json").touch()
    followed.watcher.nudge()
    until(lambda: followed.names == ("n.json",))


@pytest.mark.parametrize("forced", [True, False])
def test_stopping_is_bounded(run_dir: RunDir, forced: bool) -> None:
    for _ in range(10):
        followed = Followed(run_dir, force_polling=forced, poll_seconds=60)
        followed.watcher.start()
        modes = followed.modes
        until(lambda modes=modes: modes)  # type: ignore[misc]
        start = time.monotonic()
        assert followed.watcher.stop()
        assert time.monotonic() - start < 2
        assert not followed.watcher.alive
