"""``--jsonl`` of a thousand envelopes: locks and syncs, counted."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from meshtui.core import storage
from tests.benchmarks.lanes import make_lane, phase
from tests.benchmarks.table import Row


class Counter:
    """Counts what :mod:`meshtui.core.storage` asks of the system while it is in force."""

    def __init__(self) -> None:
        self.files = 0
        self.folders = 0
        self.locks: list[str] = []
        """The paths of locks taken, OS locks and directory locks."""

    def __enter__(self) -> Counter:
        proxy = SimpleNamespace(**{name: getattr(os, name) for name in dir(os)})
        proxy.fsync = self._fsync
        proxy.mkdir = self._mkdir
        self._lock = vars(storage)["lock_descriptor"]
        vars(storage)["os"] = proxy
        vars(storage)["lock_descriptor"] = self._flock
        return self

    def __exit__(self, *_: object) -> None:
        vars(storage)["os"] = os
        vars(storage)["lock_descriptor"] = self._lock

    def _fsync(self, fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            self.folders += 1
        else:
            self.files += 1
        os.fsync(fd)

    def _mkdir(self, path: Any, mode: int = 0o777) -> None:
        os.mkdir(path, mode)
        if str(path).endswith(".lock"):
            self.locks.append(str(path))

    def _flock(self, fd: int, **options: Any) -> bool:
        taken = bool(self._lock(fd, **options))
        if taken:
            self.locks.append(os.path.realpath(f"/dev/fd/{fd}"))
        return taken


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Enqueue a batch at once and count."""
    size = 20 if quick else 1000
    _, lane = make_lane(folder / "run")
    lane.enqueue(phase(0, "before"))
    with Counter() as counter:
        receipts = lane.enqueue_many([phase(number) for number in range(size)])
    assert len(receipts) == size
    of_queue = [path for path in counter.locks if "queue" in Path(path).name]
    detail = ", ".join(Path(path).name for path in counter.locks)
    return [
        Row(
            f"batch of {size:,}: queue locks",
            len([p for p in of_queue if p.endswith("flock")]),
            "",
            1,
            detail,
        ),
        Row(f"batch of {size:,}: file syncs", counter.files, "", size),
        Row(f"batch of {size:,}: folder syncs", counter.folders, "", 3),
    ]
