"""The only module that changes the disk: atomic files, moves, locks, all with ``os`` calls.

Everything else in meshtui goes through here (a lint rule keeps other writers out), so that one place
decides what survives a crash or a power cut, and tests can end a process at each single call.

Temporary files sit beside their target under a dot-name that ends in ``.tmp``, never in ``$TMPDIR``:
a rename does not cross filesystems. New files are 0600 and new folders 0700 unless told otherwise.
Failures of the disk are raised as :class:`StorageError` naming the path.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from filelock import lock_descriptor

from meshtui.core.errors import Held, StorageError

FILE_MODE = 0o600
DIR_MODE = 0o700

_WRITE_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

# Without O_NONBLOCK a pipe that stands where a file belongs would hold its writer for ever.
_WRITE = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_PROBE_SECONDS = 1.0
"""Most that a lock which others only look at is waited for; a look takes microseconds."""

_HINTS = {
    errno.ENOSPC: "the disk is full: free some space and try again",
    errno.EDQUOT: "the disk quota is used up: free some space and try again",
    errno.EROFS: "the filesystem is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "not permitted",
    errno.EXDEV: "it is on another filesystem: a run directory must lie on one",
    errno.ELOOP: "a symlink stands where meshtui keeps a file of its own; remove it",
    errno.ENXIO: "a pipe stands where meshtui keeps a file of its own; remove it",
    errno.EMFILE: "too many open files",
}


def explain(error: OSError, path: Path | str) -> StorageError:
    """The one line an operator gets for ``error`` at ``path``."""
    hint = _HINTS.get(error.errno or 0, error.strerror or str(error))
    return StorageError(f"{path}: {hint}")


class _named:
    """Turn what the disk refuses into one line; what callers decide by (missing, existing) passes."""

    __slots__ = ("_path",)

    def __init__(self, path: Path | str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError) and not isinstance(error, _DECIDING):
            raise explain(error, self._path) from error


_DECIDING = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _write_temporary(target: Path | str, data: bytes, *, durable: bool, mode: int) -> str:
    """Write ``data`` into a new temporary file beside ``target`` and return its path."""
    folder, name = os.path.split(target)
    temporary = f"{folder or '.'}/.{name[:100]}.{secrets.token_hex(6)}.tmp"
    fd = os.open(temporary, _WRITE_NEW, mode)
    try:
        try:
            _write_all(fd, data)
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
    except OSError:
        _forget(temporary)
        raise
    return temporary


def _forget(path: str) -> None:
    """Remove a temporary file of ours; one that cannot be removed is a dot-file nobody reads."""
    try:
        os.unlink(path)
    except OSError:
        return


def sync_dir(path: Path | str) -> None:
    """Make the names in folder ``path`` survive a power cut."""
    with _named(path):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def sync_file(path: Path) -> None:
    """Make the contents of file ``path`` survive a power cut."""
    with _named(path):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def write_atomic(
    path: Path | str, data: bytes, *, durable: bool = True, at_once: bool = True, mode: int = FILE_MODE
) -> None:
    """Replace file ``path`` by ``data``: a reader sees the old or the new one, never a part.

    With ``durable`` the new contents survive a power cut from the moment this returns; with ``durable`` but
    not ``at_once`` there is the old or the new one after it, whole, until something else syncs the folder.
    Raises :class:`StorageError`; then ``path`` is as it was.
    """
    with _named(path):
        temporary = _write_temporary(path, data, durable=durable, mode=mode)
        try:
            os.rename(temporary, path)
        except OSError:
            _forget(temporary)
            raise
    if durable and at_once:
        sync_dir(os.path.dirname(path) or ".")


def create(path: Path, data: bytes, *, durable: bool = True, mode: int = FILE_MODE) -> None:
    """Make a new file ``path`` that appears whole; raises ``FileExistsError`` if the name is taken."""
    with _named(path):
        temporary = _write_temporary(path, data, durable=durable, mode=mode)
        try:
            os.link(temporary, path)
        finally:
            _forget(temporary)
    if durable:
        sync_dir(path.parent)


def write_new(path: Path | str, data: bytes, *, durable: bool, mode: int = FILE_MODE) -> None:
    """Write a new file straight under its name, for folders nobody reads yet; no folder sync."""
    with _named(path):
        fd = os.open(path, _WRITE_NEW, mode)
        try:
            _write_all(fd, data)
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)


def write_in_place(path: Path | str, data: bytes, *, mode: int = FILE_MODE) -> None:
    """Overwrite small file ``path`` without a second name or a sync.

    A crash in the middle can leave it damaged: only for what can be computed again.
    """
    with _named(path):
        fd = os.open(path, _WRITE | os.O_CREAT, mode)
        try:
            os.pwrite(fd, data, 0)
            os.ftruncate(fd, len(data))
        finally:
            os.close(fd)


def append(path: Path | str, data: bytes, *, mode: int = FILE_MODE) -> None:
    """Add ``data`` to the end of ``path`` with one write; makes the file if there is none."""
    with _named(path):
        fd = os.open(path, _WRITE | os.O_CREAT | os.O_APPEND, mode)
        try:
            if os.write(fd, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(fd)


def move(source: Path | str, target: Path | str, *, durable: bool = True) -> None:
    """Rename ``source`` to ``target``, which nobody may hold; raises ``FileNotFoundError``.

    Of several processes that move one file exactly one succeeds. With ``durable`` both folders are
    synced.
    """
    with _named(source):
        os.rename(source, target)
    if durable:
        folders = (os.path.dirname(target) or ".", os.path.dirname(source) or ".")
        for folder in dict.fromkeys(folders):
            sync_dir(folder)


def move_new(source: Path | str, target: Path | str) -> None:
    """Rename ``source`` to ``target`` unless that name is taken: then ``FileExistsError``; no sync.

    Raises ``NotImplementedError`` where the system or the filesystem cannot do it in one step.
    """
    rename = _renameat2()
    if rename is None:
        raise NotImplementedError
    code = rename(os.fsencode(source), os.fsencode(target))
    if code in _NO_FLAGS:
        raise NotImplementedError
    if code:
        with _named(source):
            raise OSError(code, os.strerror(code), str(source), None, str(target))


_NO_FLAGS = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)


@cache
def _renameat2() -> Callable[[bytes, bytes], int] | None:
    """Linux's rename that replaces nothing; returns an errno, 0 if it worked. ``None`` elsewhere."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):
        return None
    function = library.renameat2
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    here, no_replace = -100, 1

    def rename(source: bytes, target: bytes) -> int:
        return ctypes.get_errno() if function(here, source, here, target, no_replace) else 0

    return rename


def patch(path: Path | str, data: bytes, offset: int) -> None:
    """Overwrite a few bytes inside file ``path``, which exists and holds more than these; no sync."""
    with _named(path):
        fd = os.open(path, _WRITE)
        try:
            os.pwrite(fd, data, offset)
        finally:
            os.close(fd)


def set_aside(path: Path, now_ms: int) -> Path:
    """Keep a file that cannot be read beside its place, out of everybody's way; where it is now."""
    target = path.with_name(f"{path.name}.{now_ms}.damaged")
    move(path, target)
    return target


def make_dir(path: Path, *, mode: int = DIR_MODE) -> bool:
    """Make folder ``path`` (its parent exists); ``False`` if it was there already."""
    with _named(path):
        try:
            os.mkdir(path, mode)
        except FileExistsError:
            if path.is_dir():
                return False
            raise explain(OSError(errno.ENOTDIR, "a file stands where a folder belongs"), path) from None
    return True


def make_dirs(path: Path, *, durable: bool = True, mode: int = DIR_MODE) -> None:
    """Make folder ``path`` and the parents it lacks; with ``durable`` each survives a power cut."""
    missing = []
    here = path
    while not here.is_dir():
        missing.append(here)
        if here.parent == here:
            break
        here = here.parent
    for folder in reversed(missing):
        if make_dir(folder, mode=mode) and durable:
            sync_dir(folder.parent)


def remove_file(path: Path | str) -> bool:
    """Remove a file of meshtui's own; ``False`` if there was none."""
    with _named(path):
        try:
            os.unlink(path)
        except FileNotFoundError:
            return False
    return True


def remove_dir(path: Path) -> bool:
    """Remove an empty folder of meshtui's own; ``False`` if it is missing or not empty."""
    with _named(path):
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            raise
    return True


def remove_tree(path: Path) -> None:
    """Remove a folder of meshtui's own with all it holds; symlinks in it are not followed."""
    with _named(path):
        for entry in os.scandir(path):
            if entry.is_dir(follow_symlinks=False):
                remove_tree(Path(entry.path))
            else:
                remove_file(Path(entry.path))
    remove_dir(path)


def touch(path: Path, *, at_ns: int | None = None) -> None:
    """Set the times of ``path`` to now, or to ``at_ns`` (epoch ns)."""
    with _named(path):
        if at_ns is None:
            os.utime(path)
        else:
            os.utime(path, ns=(at_ns, at_ns))


def open_log(path: Path | str, *, mode: int = FILE_MODE) -> int:
    """A descriptor that appends to ``path``, for a process to write to; the caller closes it."""
    with _named(path):
        return os.open(path, _WRITE | os.O_CREAT | os.O_APPEND, mode)


def open_plain(path: Path | str) -> int:
    """A descriptor to read plain file ``path`` with; the caller closes it.

    Raises ``FileNotFoundError``, ``IsADirectoryError``, and :class:`StorageError` for a pipe or a device.
    """
    with _named(path):
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        mode = os.fstat(fd).st_mode
        if stat.S_ISREG(mode):
            return fd
        os.close(fd)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "a folder stands where a file belongs", str(path))
        raise StorageError(f"{path}: not a plain file")


def read_bytes(path: Path | str, *, limit: int | None = None) -> bytes:
    """The contents of ``path``, at most ``limit`` bytes; raises ``FileNotFoundError``.

    What is not a plain file (a pipe, a device) is refused, so that a reader never hangs on one.
    """
    with _named(path):
        fd = open_plain(path)
        try:
            wanted = os.fstat(fd).st_size + 1 if limit is None else limit
            parts = []
            while wanted > 0:
                asked = min(wanted, 1 << 20)
                part = os.read(fd, asked)
                parts.append(part)
                if len(part) < asked:
                    break
                wanted -= len(part)
                if limit is None and wanted == 0:
                    wanted = 1 << 16
            return b"".join(parts)
        finally:
            os.close(fd)


class OsLock:
    """An exclusive lock of the operating system (flock) on file ``path``, released when its holder dies.

    The file is made when it is missing and never removed, so that all waiters share one inode. A symlink
    in its place is refused (its target is not touched), and so is a filesystem without file locks.
    """

    def __init__(self, path: Path, *, what: str) -> None:
        self.path = path
        self._what = what
        self._fd: int | None = None

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._fd is not None

    def fileno(self) -> int:
        """The descriptor that holds the lock; a process that inherits it holds the lock as well."""
        assert self._fd is not None, "the lock is not held"
        return self._fd

    def try_acquire(self) -> bool:
        """Take the lock if nobody holds it."""
        assert self._fd is None, "an OsLock is taken once at a time"
        fd = self._open()
        try:
            taken = lock_descriptor(fd, blocking=False)
            end = time.monotonic() + _PROBE_SECONDS
            while not taken and _only_probed(fd) and time.monotonic() < end:
                time.sleep(0.0002 * (1 + secrets.randbelow(4)))
                taken = lock_descriptor(fd, blocking=False)
        except OSError as error:
            os.close(fd)
            raise _no_locks(self.path, error) from error
        if not taken:
            os.close(fd)
            return False
        self._fd = fd
        return True

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            with _named(self.path):
                fd = os.open(self.path, flags, FILE_MODE)
        except IsADirectoryError as error:
            raise StorageError(
                f"{self.path}: a folder stands where a lock file belongs; remove it"
            ) from error
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise StorageError(f"{self.path}: not a plain file where a lock file belongs; remove it")
        return fd

    def acquire(self, timeout: float) -> None:
        """Take the lock, waiting at most ``timeout`` seconds; raises :class:`Held`."""
        end = time.monotonic() + timeout
        pause = 0.0002
        while not self.try_acquire():
            if time.monotonic() >= end:
                raise Held(f"{self._what} is busy: no lock on {self.path} within {timeout:g} s")
            time.sleep(pause)
            pause = min(pause * 1.5, 0.005)

    def release(self) -> None:
        """Give the lock back; nothing happens if it is not held."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> Self:
        self.acquire(30.0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def is_locked(path: Path) -> bool:
    """Whether some process holds the lock on ``path``; a missing file is not locked.

    Asks with a shared lock, so that two who ask at once do not take each other for the holder.
    """
    import fcntl

    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as error:
        raise _no_locks(path, error) from error
    finally:
        os.close(fd)
    return False


def _only_probed(fd: int) -> bool:
    """Whether the lock that ``fd`` did not get is merely looked at by :func:`is_locked` elsewhere."""
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(fd, fcntl.LOCK_UN)
    return True


def _no_locks(path: Path, error: OSError) -> StorageError:
    return StorageError(
        f"{path}: this filesystem has no file locks ({error.strerror}); keep the run directory on a local one"
    )
