"""git, called so that nothing of the operator's surroundings leads it astray and nothing makes it hang.

Every call has a time limit, an environment without ``GIT_*``, no terminal, pager, editor, hook, signature
or background upkeep, and takes paths literally. Paths come and go separated by NUL; bytes that are not
UTF-8 stand in strings as Python's surrogates (``os.fsdecode``).
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from meshtui.core import storage
from meshtui.core.calls.spec import scrubbed_environment
from meshtui.core.errors import InvalidInput, MeshtuiError
from meshtui.core.vcs.process import Outcome, run_bounded

TIMEOUT: Final = 60.0
LONG_TIMEOUT: Final = 600.0
"""For calls that write whole working trees."""
LOCK_WAIT: Final = 5.0
MINIMUM: Final = (2, 30)

_SETTINGS: Final = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.safecrlf=false",
    "core.quotePath=false",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "merge.verifySignatures=false",
    "merge.autoStash=false",
    "merge.renames=true",
    "rerere.enabled=false",
    "submodule.recurse=false",
    "diff.ignoreSubmodules=none",
    "diff.suppressBlankEmpty=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "i18n.commitEncoding=UTF-8",
    "i18n.logOutputEncoding=UTF-8",
    "color.ui=false",
    "advice.addEmbeddedRepo=false",
)
_FLAGS: Final = tuple(part for setting in _SETTINGS for part in ("-c", setting))

_ENVIRONMENT: Final = {
    "LC_ALL": "C",
    "LANGUAGE": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_ASKPASS": "true",
    "SSH_ASKPASS": "true",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_PAGER": "cat",
}

_LOCK = re.compile(rb"Unable to create '(.+?\.lock)': File exists", re.DOTALL)
_CONFIG_LOCK = re.compile(rb"could not lock config file (.+?): File exists", re.DOTALL)

# Another process is making or removing a working tree just now: its entry is not whole.
_HALF_MADE = re.compile(rb"failed to read .*worktrees/[^/]+/\w+: ")

_FULL_NAME = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

_seen_commits: set[tuple[Path, str]] = set()
_locks: dict[Path, threading.RLock] = {}
_locks_guard = threading.Lock()


class GitError(MeshtuiError):
    """git refused, failed or took too long; names the command and git's own last words."""

    def __init__(self, message: str, *, command: str, code: int | None, lock: Path | None = None) -> None:
        super().__init__(message)
        self.command = command
        """The command, shortened."""
        self.code = code
        """Its exit code; ``None`` when its time ran out."""
        self.lock = lock
        """The lock file that stood in the way, if that was it."""


@dataclass(frozen=True, slots=True)
class GitResult:
    """What a git command answered."""

    code: int
    out: bytes
    """The beginning of its output where a limit was given, else all of it."""
    err: bytes
    out_bytes: int
    """Size of the whole output."""

    @property
    def text(self) -> str:
        """The output as one line of text."""
        return os.fsdecode(self.out).removesuffix("\n")

    @property
    def fields(self) -> list[str]:
        """The parts of NUL-separated output."""
        return [os.fsdecode(part) for part in self.out.split(b"\0")[:-1]]

    @property
    def words(self) -> str:
        """All that git said, for records: error output first, as readable text."""
        return (self.err + self.out).decode("utf-8", "replace").strip()


@dataclass(frozen=True, slots=True)
class GitDirs:
    """Where a working tree's repository keeps its files."""

    own: Path
    """This working tree's part: its HEAD and index."""
    common: Path
    """What all working trees of the repository share."""

    @property
    def linked(self) -> bool:
        """Whether this is an additional working tree made by ``git worktree add``."""
        return self.own != self.common and self.own.parent == self.common / "worktrees"


class Git:
    """git in one working tree; safe from any thread."""

    def __init__(
        self,
        top: Path,
        *,
        timeout: float = TIMEOUT,
        lock_wait: float | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.top = top
        """The top level of the working tree; see :func:`top_of`."""
        self.timeout = timeout
        self.lock_wait = LOCK_WAIT if lock_wait is None else lock_wait
        self._env = dict(env or {})

    def at(self, top: Path) -> Git:
        """git in another working tree, with the same limits."""
        other = Git(top, timeout=self.timeout, lock_wait=self.lock_wait)
        other._surroundings = self._surroundings
        return other

    def run(
        self,
        *args: str,
        input: bytes | None = None,
        timeout: float | None = None,
        check: bool = True,
        env_extra: Mapping[str, str] | None = None,
        settings: tuple[str, ...] = (),
        keep: int | None = None,
        output: Path | None = None,
        cwd: Path | None = None,
    ) -> GitResult:
        """Run ``git args``; tries again for a while when a lock file or a half-made working tree is in the way.

        ``settings`` are further ``name=value`` settings for this call; ``keep`` bounds the bytes of output
        kept in memory, ``output`` is a new file that gets it instead. Raises :class:`GitError` when the time is
        up, and with ``check`` for any exit code but 0.
        """
        flags = (*_FLAGS, *(part for setting in settings for part in ("-c", setting)))
        environment = self._environment(env_extra)
        limit = self.timeout if timeout is None else timeout
        end = time.monotonic() + self.lock_wait
        pause = 0.01
        while True:
            result = self._once(("git", *flags, *args), args, environment, limit, input, keep, output, cwd)
            lock = _lock_in(result.err, self.top) if result.code else None
            if lock is None and not (result.code and _HALF_MADE.search(result.err)):
                break
            if time.monotonic() >= end:
                if lock is None:
                    break
                raise GitError(
                    f"{short(args)} in {self.top}: {lock} is held by another git, or was left by one that died: "
                    "if no git works there, remove that file and try again",
                    command=short(args),
                    code=result.code,
                    lock=lock,
                )
            time.sleep(pause)
            pause = min(pause * 2, 0.25)
        if check and result.code:
            raise self.failed(args, result)
        return result

    def failed(self, args: tuple[str, ...], result: GitResult) -> GitError:
        """The error for a ``result`` that its caller does not accept."""
        return GitError(
            f"{short(args)} in {self.top} failed with exit code {result.code}: {last_words(result.err or result.out)}",
            command=short(args),
            code=result.code,
        )

    @functools.cached_property
    def _surroundings(self) -> dict[str, str]:
        """What every call gets of this process's environment; looked at once."""
        return {**scrubbed_environment(os.environ), **_ENVIRONMENT}

    def _environment(self, extra: Mapping[str, str] | None) -> dict[str, str]:
        environment = dict(self._surroundings)
        if os.pathsep not in str(self.top):
            # A folder that lost its .git must not make git find a repository around it.
            environment["GIT_CEILING_DIRECTORIES"] = str(self.top.parent)
        return {**environment, **self._env, **(extra or {})}

    def _once(
        self,
        argv: tuple[str, ...],
        args: tuple[str, ...],
        environment: Mapping[str, str],
        limit: float,
        input: bytes | None,
        keep: int | None,
        output: Path | None,
        cwd: Path | None,
    ) -> GitResult:
        stdout = storage.open_log(output) if output is not None else None
        try:
            outcome: Outcome = run_bounded(
                argv,
                cwd=cwd or self.top,
                env=environment,
                timeout=limit,
                input=input,
                keep=keep,
                stdout=stdout,
            )
        except FileNotFoundError:
            if not (cwd or self.top).is_dir():
                raise InvalidInput(f"{cwd or self.top}: no such folder") from None
            raise MeshtuiError("git is not installed, or not on PATH") from None
        except OSError as error:
            raise MeshtuiError(f"git could not be started in {self.top}: {error.strerror}") from error
        finally:
            if stdout is not None:
                os.close(stdout)
        if outcome.code is None:
            said = f"; it said: {last_words(outcome.err)}" if outcome.err.strip() else ""
            raise GitError(
                f"{short(args)} in {self.top} was ended after {limit:g} s{said}",
                command=short(args),
                code=None,
            )
        return GitResult(outcome.code, outcome.out, outcome.err, outcome.out_bytes)

    @functools.cached_property
    def dirs(self) -> GitDirs:
        """Where the repository of this working tree keeps its files; raises :class:`InvalidInput`."""
        return dirs_of(self.top)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold this process's lock for changes to what the repository's working trees share."""
        with _locks_guard:
            lock = _locks.setdefault(self.dirs.common, threading.RLock())
        with lock:
            yield

    def head_commit(self, ref: str = "HEAD") -> str:
        """The commit ``ref`` names, in full; raises :class:`InvalidInput` if there is none."""
        found = None if ref.startswith("-") else self._commit(ref)
        if found is not None:
            return found
        if ref == "HEAD":
            raise InvalidInput(
                f"{self.top}: the repository has no commits yet; make a first one and try again"
            )
        raise InvalidInput(f"{self.top}: no commit is called {ref!r}")

    def _commit(self, ref: str) -> str | None:
        if not _FULL_NAME.fullmatch(ref):
            return self._asked(ref)
        # What a full name names never changes: once seen it need not be asked for again.
        known = (self.dirs.common, ref)
        if known in _seen_commits:
            return ref
        found = self._asked(ref)
        if found == ref:
            _seen_commits.add(known)
        return found

    def _asked(self, ref: str) -> str | None:
        result = self.run("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", check=False)
        return result.text if result.code == 0 else None

    def tree_of(self, commit: str) -> str:
        """The tree of ``commit``."""
        return self.run("rev-parse", "--verify", f"{commit}^{{tree}}").text

    def branch_commit(self, branch: str) -> str | None:
        """The commit local ``branch`` points to; ``None`` if there is no such branch."""
        return self._commit(f"refs/heads/{branch}")

    def branch_exists(self, branch: str) -> bool:
        """Whether there is a local ``branch``."""
        return self.branch_commit(branch) is not None

    def head_or_none(self) -> str | None:
        """The commit of HEAD; ``None`` before the first one."""
        return self._commit("HEAD")

    def current_branch(self) -> str | None:
        """The branch HEAD stands on, born or not; ``None`` when it is detached."""
        result = self.run("symbolic-ref", "--quiet", "HEAD", check=False)
        return result.text.removeprefix("refs/heads/") if result.code == 0 else None

    def branches(self, prefix: str) -> dict[str, str]:
        """Local branches called ``prefix`` or below it, with their commits."""
        listed = self.run(
            "for-each-ref", "--format=%(objectname) %(refname)", f"refs/heads/{prefix.rstrip('/')}"
        ).text
        pairs = (line.split(" ", 1) for line in listed.split("\n") if line)
        return {name.removeprefix("refs/heads/"): commit for commit, name in pairs}

    def set_branch(self, branch: str, commit: str, *, old: str | None, reason: str = "meshtui") -> None:
        """Point ``branch`` at ``commit``, only if it still is at ``old`` (``None``: only if it is new)."""
        expected = old if old is not None else "0" * len(commit)
        self.run("update-ref", "-m", reason, f"refs/heads/{branch}", commit, expected)

    def delete_branch(self, branch: str, *, old: str) -> None:
        """Delete ``branch``, only if it still is at ``old``; the configuration is not touched."""
        self.run("update-ref", "-d", f"refs/heads/{branch}", old)

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Whether ``newer`` contains ``older``."""
        args = ("merge-base", "--is-ancestor", older, newer)
        result = self.run(*args, check=False)
        if result.code not in (0, 1):
            raise self.failed(args, result)
        return result.code == 0

    def dirty(self, *, untracked: bool = True) -> list[str]:
        """Paths whose state differs from HEAD; untracked ones unless left out."""
        files = "all" if untracked else "no"
        status = self.run(
            "status", "--porcelain=v2", "-z", f"--untracked-files={files}", "--no-renames"
        ).fields
        return [line.split(" ", _STATUS_FIELDS[line[0]])[-1] for line in status]

    def is_clean(self) -> bool:
        """Whether nothing differs from HEAD and nothing is untracked."""
        return not self.dirty()

    def tracked_files(self, commit: str = "HEAD") -> list[str]:
        """Every path in ``commit``."""
        return self.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit).fields

    def read_file(self, commit: str, path: str, *, limit: int) -> bytes | None:
        """The contents of a regular file of ``commit``; ``None`` for anything else and for more than ``limit`` bytes."""
        for line in self.run("ls-tree", "-z", "--full-tree", commit, "--", path).fields:
            meta, found = line.split("\t", 1)
            mode, _, name = meta.split(" ")
            if found == path and mode in ("100644", "100755"):
                blob = self.run("cat-file", "blob", name, keep=limit)
                return blob.out if blob.out_bytes <= limit else None
        return None

    def commit_tree(self, tree: str, *, parents: tuple[str, ...], message: str) -> str:
        """Make a commit object by the operator's identity, or meshtui's where none is configured."""
        flags = [part for parent in parents for part in ("-p", parent)]
        text = message.encode("utf-8", "replace").replace(b"\0", b"") or b"meshtui"
        settings = self._identity()
        return self.run("commit-tree", tree, *flags, "-F", "-", input=text, settings=settings).text

    def _identity(self) -> tuple[str, ...]:
        found = self.run("config", "-z", "--get-regexp", r"^user\.(name|email)$", check=False).fields
        values = dict(field.split("\n", 1) for field in found if "\n" in field)
        if values.get("user.name", "").strip() and values.get("user.email", "").strip():
            return ()
        return ("user.name=meshtui", "user.email=meshtui@localhost")


_STATUS_FIELDS: Final = {"1": 8, "u": 10, "?": 1, "!": 1}
"""Blanks before the path in a line of ``status --porcelain=v2``, by the line's kind."""


def top_of(folder: Path, *, timeout: float = TIMEOUT) -> Path:
    """The top level of the working tree ``folder`` lies in; raises :class:`InvalidInput` if in none."""
    if not folder.is_dir():
        raise InvalidInput(f"{folder}: no such folder")
    git = Git(folder, timeout=timeout)
    result = git.run("rev-parse", "--show-toplevel", check=False, env_extra={"GIT_CEILING_DIRECTORIES": ""})
    if result.code == 0 and result.text:
        return Path(result.text)
    if result.code == 0 or b"must be run in a work tree" in result.err:
        raise InvalidInput(f"{folder}: a bare repository; meshtui needs one with a working tree")
    if b"not a git repository" in result.err:
        raise InvalidInput(f"{folder}: not inside a git repository; make one with `git init`")
    raise git.failed(("rev-parse", "--show-toplevel"), result)


def dirs_of(top: Path) -> GitDirs:
    """Read from ``.git`` where the repository of working tree ``top`` keeps its files."""
    entry = top / ".git"
    if entry.is_dir():
        own = entry.resolve()
    else:
        try:
            line = storage.read_bytes(entry, limit=1 << 14)
        except (FileNotFoundError, NotADirectoryError):
            raise InvalidInput(f"{top}: not the top of a git working tree (no .git in it)") from None
        if not line.startswith(b"gitdir: "):
            raise InvalidInput(f"{entry}: not a file of git's")
        own = (top / os.fsdecode(line.removeprefix(b"gitdir: ").rstrip(b"\n"))).resolve()
    try:
        shared = os.fsdecode(storage.read_bytes(own / "commondir", limit=1 << 14).rstrip(b"\n"))
    except (FileNotFoundError, NotADirectoryError):
        return GitDirs(own, own)
    return GitDirs(own, (own / shared).resolve())


@functools.cache
def git_version() -> tuple[int, ...]:
    """The installed git's version, e.g. ``(2, 39, 5)``; raises :class:`MeshtuiError` below 2.30."""
    text = Git(Path("/")).run("version").text
    numbers = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    version = tuple(int(part) for part in numbers.groups("0")) if numbers else (0,)
    if version < MINIMUM:
        raise MeshtuiError(f"{text}: meshtui needs git 2.30 or later")
    return version


def short(args: tuple[str, ...]) -> str:
    """The command in at most about a hundred characters of one line."""
    line = shlex.join(("git", *args))
    line = "".join(char if char.isprintable() else "?" for char in line)
    return f"`{line if len(line) <= 100 else line[:99] + '…'}`"


def last_words(said: bytes) -> str:
    """The last lines of ``said`` that are not hints, as one line."""
    text = said.decode("utf-8", "replace")
    lines = [line.strip() for line in re.split(r"[\r\n]+", text) if line.strip()]
    lines = [line for line in lines if not line.startswith("hint:")] or lines
    joined = "; ".join(lines[-4:])
    return "".join(char if char.isprintable() else "?" for char in joined[-600:]) or "(it said nothing)"


def _lock_in(err: bytes, top: Path) -> Path | None:
    """The lock file that git's error names, if a lock was in the way."""
    found = _LOCK.search(err)
    if found:
        return top / os.fsdecode(found[1])
    found = _CONFIG_LOCK.search(err)
    return top / (os.fsdecode(found[1]) + ".lock") if found else None
