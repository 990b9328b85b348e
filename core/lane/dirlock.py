"""The format's directory locks ``enqueue.lock/`` and ``runner.lock/``, shared with other tools.

Making the folder takes the lock, ``owner.json`` in it says who has it. meshtui takes its own OS lock
first, so that at most one of its processes ever looks at the folder.
"""

from __future__ import annotations

import os
import secrets
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from meshtui.core import identity, storage, strict_json
from meshtui.core.clock import MAX_TIME_MS, Clock, from_iso, iso
from meshtui.core.errors import Held, InvalidInput, StorageError
from meshtui.core.identity import ProcessIdentity

OWNERLESS_SECONDS = 10.0
HEARTBEAT_STALE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Owner:
    """Who a directory lock says it belongs to."""

    who: ProcessIdentity | None
    heartbeat_at: int | None
    data: dict[str, Any]

    def heartbeat_age(self, now_ms: int) -> float | None:
        """Seconds since the last heartbeat."""
        return None if self.heartbeat_at is None else max(0.0, (now_ms - self.heartbeat_at) / 1000)

    def describe(self, now_ms: int) -> str:
        """``pid 4121 on host-a, heartbeat 3 s ago``."""
        if self.who is None:
            return "an unknown process"
        age = self.heartbeat_age(now_ms)
        beat = "no heartbeat" if age is None else f"heartbeat {age:.0f} s ago"
        return f"pid {self.who.pid} on {self.who.host or 'this host'}, {beat}"


def owner_bytes(clock: Clock, **fields: Any) -> bytes:
    """``owner.json`` of this process, with a heartbeat of now."""
    beat = iso(clock.now_ms())
    if not fields:
        return f'{_who(identity.current())},"heartbeat_at":"{beat}"}}\n'.encode()
    return strict_json.dump_bytes({**identity.current().as_json(), "heartbeat_at": beat, **fields})


@cache
def _who(process: ProcessIdentity) -> str:
    """The beginning of ``owner.json``, which is the same for every lock a process takes."""
    return strict_json.dumps(process.as_json())[:-1]


def read_owner(folder: Path) -> Owner | None:
    """The owner in lock ``folder``, ``None`` if there is none or it cannot be read (yet)."""
    try:
        data = strict_json.load_object(storage.read_bytes(folder / "owner.json", limit=1 << 16))
    except (OSError, InvalidInput):
        return None
    beat = data.get("heartbeat_at")
    if isinstance(beat, (int, float)) and not isinstance(beat, bool):
        at: int | None = int(min(max(beat, 0), MAX_TIME_MS))
    else:
        at = from_iso(beat)
    return Owner(ProcessIdentity.from_json(data), at, data)


def is_free(folder: Path, clock: Clock) -> bool:
    """Whether nobody holds lock ``folder`` any more, by the rules for leases.

    Its process is gone; or its heartbeat is over 60 s old and the process cannot be seen from here; or
    it has had no readable owner for 10 s.
    """
    owner = read_owner(folder)
    if owner is None or owner.who is None:
        try:
            age = clock.now_ms() / 1000 - os.lstat(folder).st_mtime
        except FileNotFoundError:
            return True
        return age > OWNERLESS_SECONDS
    seen = identity.presence(owner.who)
    if seen == "gone":
        return True
    if seen == "alive":
        return False
    now = clock.now_ms()
    if owner.heartbeat_at is not None and owner.heartbeat_at > now + HEARTBEAT_STALE_SECONDS * 1000:
        # Another clock runs ahead. When it was written is told by the filesystem.
        try:
            return now / 1000 - os.lstat(folder / "owner.json").st_mtime > HEARTBEAT_STALE_SECONDS
        except FileNotFoundError:
            return False
    age_s = owner.heartbeat_age(now)
    return age_s is None or age_s > HEARTBEAT_STALE_SECONDS


def try_take(folder: Path, clock: Clock, *, kept: Path | None = None, **fields: Any) -> bool:
    """Take lock ``folder``, breaking one that nobody holds any more; ``False`` if somebody has it.

    ``fields`` go into ``owner.json`` beside who and when. ``kept`` is where a caller whose processes use it
    one at a time keeps the folder while the lock is free: it is renamed and neither made nor removed, which
    is slow on filesystems that give a number back to use only after a while (ext4).
    """
    for _ in range(2):
        try:
            taken = _take_kept(folder, kept, clock, fields) if kept is not None else None
            if taken or (taken is None and _make_owned(folder, owner_bytes(clock, **fields))):
                return True
        except NotADirectoryError:
            pass
        if not _break_stale(folder, clock):
            return False
    return False


def _take_kept(folder: Path, kept: Path, clock: Clock, fields: dict[str, Any]) -> bool | None:
    """Put the kept folder, with an owner of now, in the lock's place; ``None`` where that cannot be done."""
    owner, content = f"{kept}/owner.json", owner_bytes(clock, **fields)
    try:
        storage.write_in_place(owner, content)
    except FileNotFoundError:
        storage.make_dir(kept)
        storage.write_in_place(owner, content)
    try:
        storage.move_new(kept, folder)
    except FileExistsError:
        _refuse_symlink(folder)
        return False
    except NotImplementedError:
        return None
    return True


def _make_owned(folder: Path, content: bytes) -> bool:
    _refuse_symlink(folder)
    if not storage.make_dir(folder):
        return False
    try:
        storage.write_new(folder / "owner.json", content, durable=False)
    except FileExistsError:
        # Another tool put its own lock back over ours.
        return False
    except BaseException:
        give_back(folder)
        raise
    return True


def _refuse_symlink(folder: Path) -> None:
    if folder.is_symlink():
        raise Held(f"{folder}: a symlink stands where a lock belongs; remove it")


def _break_stale(folder: Path, clock: Clock) -> bool:
    try:
        before = os.lstat(folder)
    except FileNotFoundError:
        return True
    if not is_free(folder, clock):
        return False
    aside = folder.with_name(f"{folder.name}.{secrets.token_hex(4)}.stale")
    try:
        storage.move(folder, aside, durable=False)
    except FileNotFoundError:
        return True
    moved = os.lstat(aside)
    if (moved.st_ino, moved.st_mtime_ns) != (before.st_ino, before.st_mtime_ns):
        # Another tool broke it too and took it anew between our look and our move: it is theirs.
        try:
            storage.move(aside, folder, durable=False)
        except StorageError:
            # And yet another one was quicker than this: the lock is not ours in any case.
            storage.remove_tree(aside)
        return False
    storage.remove_tree(aside)
    return True


def take(folder: Path, clock: Clock, *, timeout: float, what: str, kept: Path | None = None) -> None:
    """Take lock ``folder``, waiting at most ``timeout`` seconds; raises :class:`Held` naming the holder."""
    end = time.monotonic() + timeout
    while not try_take(folder, clock, kept=kept):
        if time.monotonic() >= end:
            owner = read_owner(folder)
            who = owner.describe(clock.now_ms()) if owner else "an unknown process"
            raise Held(f"{what} is held by {who} ({folder}); try again when it is done")
        time.sleep(0.005)


def give_back(folder: Path, *, kept: Path | None = None) -> None:
    """Release lock ``folder``, which this process holds; with ``kept`` the folder waits there for the next."""
    if kept is not None:
        try:
            storage.move(folder, kept, durable=False)
        except (OSError, StorageError):
            # Something stands there already, or nothing stands here any more.
            pass
        else:
            return
    storage.remove_file(folder / "owner.json")
    storage.remove_dir(folder)
