"""The index ``loop/ids/``: which ids are used and how phases ended, so that nothing reads old records.

It is a cache. ``state.json`` remembers the modification time of every record folder as it was after
meshtui's own last change; a folder that differs was changed by another tool, and only then is it listed
again. Before a change it is marked ``dirty``, so that after a crash everything is listed once, however
coarsely the filesystem's clock ticks. It is read and written under the queue's lock.

Layout: ``state.json``; ``used/<2 hex>`` one folded safe id a line; ``outcomes.jsonl`` one
``[file name, mtime_ns, size, status]`` a line.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from meshtui.core import storage, strict_json
from meshtui.core.errors import InvalidInput, StorageError
from meshtui.core.identity import boot_id
from meshtui.core.models.names import RecordName, folded, safe_of
from meshtui.core.run_dir import RECORD_FOLDERS, LanePaths

SCHEMA = "meshtui.ids.v1"
MAX_SEQUENCE = 10**15
"""Names have 16 digits for it; a greater number in a file is damage."""
BAD_HANDOFF = ("failed", "blocked")
CLOSELY_SECONDS = 5.0
"""How often a reader that looks again and again looks closely at every result."""


@dataclass(slots=True)
class IndexState:
    """What is known of the lane after meshtui's last change of it."""

    boot: str | None = None
    dirty: bool = False
    """Whether a change was begun and not brought to its end."""
    sequence: int = 0
    mtimes: dict[str, int] = field(default_factory=dict)
    """Folder name to its modification time in ns; 0 for a folder that is missing."""
    counts: dict[str, int] = field(default_factory=dict)
    newest: str | None = None
    """The last name in ``pending/``."""
    stop_waits: bool = False
    """Whether that record is a stop (a stop is always the newest one)."""
    done: int = 0
    failed: int = 0
    bad: int = 0
    """How many of the done ones gave a handoff that says failed or blocked."""


_HEAD = f'{{"schema":"{SCHEMA}","dirty":'.encode()
_FIELDS = tuple(item.name for item in fields(IndexState) if item.name != "dirty")


class Memory:
    """What an object that uses the index again and again knows of the file: its bytes and what they say."""

    def __init__(self) -> None:
        self.raw = b""
        self.value: dict[str, Any] = {}
        self.sequence: tuple[bytes | None, int] = (None, 0)
        """What the file with the last sequence held, and what that says."""
        self.taken: set[str] = set()
        """Records that this object moved to ``active/``, whose ids are known."""


def read_state(paths: LanePaths, memory: Memory | None = None) -> IndexState | None:
    """The saved state, ``None`` if there is none or it is damaged."""
    try:
        raw = storage.read_bytes(f"{paths.ids}/state.json", limit=1 << 16)
        if memory is not None and raw == memory.raw:
            known = memory.value
            return IndexState(**{**known, "mtimes": dict(known["mtimes"]), "counts": dict(known["counts"])})
        value = json.loads(raw)
        # Written in place, it may be half old and half new and still be JSON.
        whole = value["check"] == zlib.crc32(raw[raw.index(b"{", 1) : raw.rindex(b"}")])
        if not whole or not raw.startswith(_HEAD) or type(value["dirty"]) is not bool:
            return None
        return IndexState(dirty=value["dirty"], **value["state"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, StorageError):
        return None


def folder_times(paths: LanePaths) -> dict[str, int]:
    """The modification times of all record folders and of ``results/`` now, 0 where there is none."""
    return {name: folder_time(paths, name) for name in (*RECORD_FOLDERS, "results")}


def folder_time(paths: LanePaths, name: str) -> int:
    """The modification time of one of those folders, 0 where there is none."""
    try:
        return os.stat(f"{paths.root}/{name}").st_mtime_ns
    except OSError:
        return 0


def list_records(folder: Path) -> list[str]:
    """The record names in ``folder``, in queue order; none if it is missing."""
    try:
        # As is_record_name() says, spelled out: this is asked of tens of thousands of names at a time.
        return sorted([name for name in os.listdir(folder) if name[0] != "." and not name.endswith(".tmp")])
    except (FileNotFoundError, NotADirectoryError):
        return []


def result_status(raw: bytes) -> str:
    """How a result file ended: its status, or ``bad`` for a done one whose handoff failed or is blocked."""
    try:
        return status_in(strict_json.load_object(raw, limit=16 << 20))
    except InvalidInput:
        return "unreadable"


def status_in(result: Mapping[str, Any]) -> str:
    """The same of a result that was read, or is about to be written."""
    status = result.get("status")
    if status == "done" and result.get("handoff_status") in BAD_HANDOFF:
        return "bad"
    return status if isinstance(status, str) else "unreadable"


def tally(statuses: dict[str, str]) -> tuple[int, int, int]:
    """Counts of ``done`` (whatever its handoff says), ``failed``, and done with a bad handoff."""
    values = list(statuses.values())
    bad = values.count("bad")
    return values.count("done") + bad, values.count("failed"), bad


class Outcomes:
    """The status of every result, by file name, reading only files that are new or changed."""

    def __init__(self, paths: LanePaths) -> None:
        self._paths = paths
        self.known: dict[str, tuple[int, int, str]] = {}
        """File name to ``(mtime_ns, size, status)``."""
        self._files: dict[str, int] = {}
        """File name to the file's number: a result that was replaced is another file."""
        self._looked_at = 0.0

    def load(self) -> None:
        """Take over what the index on disk knows."""
        try:
            raw = storage.read_bytes(self._paths.ids / "outcomes.jsonl")
        except OSError:
            return
        for line in raw.splitlines():
            try:
                name, mtime, size, status = json.loads(line)
                self.known[name] = (mtime, size, status)
            except (ValueError, TypeError, RecursionError):
                continue

    def refresh(self) -> bool:
        """Bring it up to date with ``results/``; whether anything differed.

        Asked again soon, it looks closer only at files that are new or were replaced.
        """
        found: dict[str, tuple[int, int, str]] = {}
        files: dict[str, int] = {}
        now = time.monotonic()
        closely = now - self._looked_at >= CLOSELY_SECONDS
        if closely:
            self._looked_at = now
        try:
            entries = list(os.scandir(self._paths.results))
        except OSError:
            entries = []
        changed = False
        for entry in entries:
            if not is_result_name(entry.name):
                continue
            try:
                known = self.known.get(entry.name)
                number = files[entry.name] = entry.inode()
                if not closely and known is not None and self._files.get(entry.name) == number:
                    found[entry.name] = known
                    continue
                state = entry.stat()
                if known is None or known[:2] != (state.st_mtime_ns, state.st_size):
                    status = result_status(storage.read_bytes(Path(entry.path), limit=16 << 20))
                    known = (state.st_mtime_ns, state.st_size, status)
                    changed = True
            except (OSError, StorageError):
                continue
            found[entry.name] = known
        changed = changed or len(found) != len(self.known)
        self.known, self._files = found, files
        return changed

    def statuses(self) -> dict[str, str]:
        """File name to status."""
        return {name: known[2] for name, known in self.known.items()}


def is_result_name(name: str) -> bool:
    """Whether an entry of ``results/`` is a result (a safe id may well begin with a dot)."""
    return name.endswith(".json")


class Index:
    """The index while the queue's lock is held: ``load``, ask, ``begin``, change, ``save``."""

    def __init__(self, paths: LanePaths, memory: Memory | None = None) -> None:
        self._paths = paths
        self._memory = memory if memory is not None else Memory()
        self.state = IndexState()
        self._saved = False
        """Whether the file holds this state, but for the mark of a change under way."""
        self._ours: set[str] = set()
        """Folders changed since ``load``; others keep the times at which they were looked at."""

    # -- life ---------------------------------------------------------------------------------------

    def load(self) -> bool:
        """Read the state and look again at every folder that somebody else changed; whether there was any."""
        state = read_state(self._paths, self._memory)
        times = folder_times(self._paths)
        sequence = self._sequence_in_file()
        if state is None or state.boot != boot_id():
            # After a power cut neither the index nor the sequence need have reached the disk.
            self.state = IndexState(boot=boot_id(), sequence=sequence or 0)
            self._rescan([*RECORD_FOLDERS, "results"], times)
            return True
        self.state = state
        stale = [name for name, at in times.items() if state.mtimes.get(name) != at]
        if state.dirty or sequence != state.sequence:
            # A change was cut off; or another tool enqueued, whose record may be finished already.
            stale = [*RECORD_FOLDERS, "results"]
            self.state.sequence = max(sequence or 0, state.sequence)
        elif self._worked_by_another_tool():
            # Its claims take no lock of ours: one may have fallen between a change of ours and the look
            # at the folder's time after it.
            stale = [name for name in times if name in stale or name in ("pending", "active")]
        elif stale == ["active"] and self._only_rewritten():
            self.state.mtimes["active"] = times["active"]
            stale = []
        self._saved = not stale
        if stale:
            self._rescan(stale, times)
        return bool(stale)

    def _only_rewritten(self) -> bool:
        """Whether ``active/`` holds just what this object moved there: its own rewriting changed the time."""
        names = list_records(self._paths.active)
        return len(names) == self.state.counts.get("active") and self._memory.taken.issuperset(names)

    def _worked_by_another_tool(self) -> bool:
        return os.path.isdir(self._paths.runner_lock) and not storage.is_locked(  # noqa: PTH112 - cheaper
            self._paths.runner_flock
        )

    def begin(self) -> None:
        """Say on disk that a change is under way."""
        self.state.dirty = True
        if self._saved:
            storage.patch(f"{self._paths.ids}/state.json", b"true ", len(_HEAD))
        else:
            self._write()

    def save(self) -> None:
        """Remember the state together with the times of the changed folders as they are now."""
        self.state.mtimes.update({name: folder_time(self._paths, name) for name in self._ours})
        self.state.dirty = False
        self._write()

    def _write(self) -> None:
        value = {name: getattr(self.state, name) for name in _FIELDS}
        content = strict_json.dumps(value).encode("utf-8", "replace")
        dirty = b"true " if self.state.dirty else b"false"
        check = b"%d" % zlib.crc32(content)
        raw = b"".join((_HEAD, dirty, b',"check":', check, b',"state":', content, b"}\n"))
        storage.write_in_place(f"{self._paths.ids}/state.json", raw)
        self._saved = True
        if not self.state.dirty:
            self._memory.raw, self._memory.value = raw, value

    def write_sequence(self) -> None:
        """Write down the last sequence that was given out, where other tools look for it."""
        raw = b'{"sequence":%d}\n' % self.state.sequence
        storage.write_in_place(self._paths.sequence, raw)
        self._memory.sequence = raw, self.state.sequence

    def _sequence_in_file(self) -> int | None:
        try:
            raw = storage.read_bytes(self._paths.sequence, limit=4096)
            if raw == self._memory.sequence[0]:
                return self._memory.sequence[1]
            sequence = json.loads(raw)["sequence"]
        except (OSError, ValueError, TypeError, KeyError, RecursionError, StorageError):
            return None
        if type(sequence) is not int or not 0 <= sequence < MAX_SEQUENCE:
            return None
        self._memory.sequence = raw, sequence
        return sequence

    def _rescan(self, folders: list[str], times: dict[str, int]) -> None:
        if not (self._paths.ids / "used").is_dir():
            storage.make_dir(self._paths.ids)
            storage.make_dir(self._paths.ids / "used")
        safes: set[str] = set()
        for name in folders:
            if name == "results":
                safes.update(self._rescan_results())
                continue
            records = list_records(self._paths.folder(name))
            self.state.counts[name] = len(records)
            safes.update(folded(safe_of(record)) for record in records)
            for record in records:
                parts = RecordName.parse(record)
                if parts is not None and parts.sequence < MAX_SEQUENCE:
                    self.state.sequence = max(self.state.sequence, parts.sequence)
            if name == "pending":
                self._set_newest(records)
        self._add_missing(safes)
        self.state.mtimes = times

    def _rescan_results(self) -> set[str]:
        outcomes = Outcomes(self._paths)
        outcomes.load()
        if outcomes.refresh() or not (self._paths.ids / "outcomes.jsonl").exists():
            lines = ([name, *known] for name, known in outcomes.known.items())
            storage.write_atomic(
                self._paths.ids / "outcomes.jsonl", strict_json.dump_lines(lines), durable=False
            )
        self.state.done, self.state.failed, self.state.bad = tally(outcomes.statuses())
        return {folded(name.removesuffix(".json")) for name in outcomes.known}

    def _set_newest(self, records: list[str]) -> None:
        self.state.newest = records[-1] if records else None
        self.state.stop_waits = bool(records) and self._is_stop(records[-1])

    def _is_stop(self, name: str) -> bool:
        try:
            value = strict_json.load_object(
                storage.read_bytes(self._paths.pending / name, limit=2 << 20), limit=2 << 20
            )
        except (OSError, InvalidInput, StorageError):
            return False
        envelope = value.get("envelope")
        return isinstance(envelope, dict) and envelope.get("kind") == "stop"

    # -- used ids -----------------------------------------------------------------------------------

    def _shard(self, folded_id: str) -> str:
        key = hashlib.sha1(_encoded(folded_id), usedforsecurity=False).hexdigest()[:2]
        return f"{self._paths.ids}/used/{key}"

    def is_used(self, folded_id: str) -> bool:
        """Whether some record or result has this folded safe id, as far as the index knows."""
        try:
            raw = storage.read_bytes(self._shard(folded_id))
        except FileNotFoundError:
            return False
        return b"\n" + _encoded(folded_id) + b"\n" in b"\n" + raw

    def add_used(self, folded_ids: list[str]) -> None:
        """Remember ids whose records stand in their folder now."""
        shards: dict[str, list[str]] = {}
        for folded_id in folded_ids:
            shards.setdefault(self._shard(folded_id), []).append(folded_id)
        for shard, ids in shards.items():
            storage.append(shard, b"".join(_encoded(item) + b"\n" for item in ids))

    def _add_missing(self, folded_ids: set[str]) -> None:
        shards: dict[str, set[bytes]] = {}
        for folded_id in folded_ids:
            shards.setdefault(self._shard(folded_id), set()).add(_encoded(folded_id))
        for shard, ids in shards.items():
            try:
                have = storage.read_bytes(shard)
            except FileNotFoundError:
                have = b""
            # A full disk may have cut the last line.
            if missing := sorted(ids - set(have.split(b"\n")[:-1])):
                block = b"" if have.endswith(b"\n") or not have else b"\n"
                storage.append(shard, block + b"".join(item + b"\n" for item in missing))

    # -- changes ------------------------------------------------------------------------------------

    def moved(self, source: str | None, target: str | None, count: int = 1) -> None:
        """Adjust the counts after ``count`` records went from one folder to another."""
        for name, change in ((source, -count), (target, count)):
            if name is not None:
                self._ours.add(name)
                self.state.counts[name] = max(0, self.state.counts.get(name, 0) + change)

    def removed_result(self, status: str) -> None:
        """Uncount a result that left ``results/``."""
        self._count_result(status, -1)

    def _count_result(self, status: str, change: int) -> None:
        self._ours.add("results")
        if status in ("done", "bad"):
            self.state.done += change
            self.state.bad += change if status == "bad" else 0
        elif status == "failed":
            self.state.failed += change

    def added_result(self, name: str, status: str) -> None:
        """Count a result that was just written."""
        self._count_result(status, 1)
        try:
            state = os.stat(f"{self._paths.results}/{name}")
        except FileNotFoundError:
            return
        line = [name, state.st_mtime_ns, state.st_size, status]
        storage.append(f"{self._paths.ids}/outcomes.jsonl", strict_json.dump_bytes(line))

    def refresh_newest(self) -> None:
        """Look at ``pending/`` again after records left it at the end."""
        self._set_newest(list_records(self._paths.pending))

    def as_json(self) -> dict[str, Any]:
        """The state as a plain value, for tests and inspection."""
        return asdict(self.state)


def _encoded(folded_id: str) -> bytes:
    """An id as the index stores it; a name from a folder need not be text."""
    return folded_id.encode("utf-8", "surrogateescape")
