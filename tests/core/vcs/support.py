"""What the tests of git share: a repository, what a folder holds, what must stay as it was."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from meshtui.core.vcs import worktree as worktrees
from meshtui.core.vcs.git import Git, dirs_of

LINES = "".join(f"line {number}\n" for number in range(30))
OPERATOR = ("-c", "user.name=Operator", "-c", "user.email=operator@example.org")

_OWN = ("objects", "worktrees", "logs/refs/heads/meshtui", "refs/heads/meshtui", "ORIG_HEAD")


def sh(*argv: str, cwd: Path, env: dict[str, str] | None = None) -> str:
    """Run a command as a worker or operator would; it must succeed."""
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout.decode(errors="surrogateescape").rstrip("\n")


def commit_all(folder: Path, message: str = "work") -> str:
    sh("git", "add", "-A", cwd=folder)
    sh("git", *OPERATOR, "commit", "-q", "--no-verify", "--allow-empty", "-m", message, cwd=folder)
    return sh("git", "rev-parse", "HEAD", cwd=folder)


@dataclass
class Repo:
    top: Path
    base: str

    @classmethod
    def make(cls, top: Path, *init: str) -> Repo:
        top.mkdir(parents=True)
        sh("git", "init", "-q", "-b", "main", *init, cwd=top)
        (top / "one.txt").write_text(LINES)
        (top / "two.txt").write_text(LINES.upper())
        (top / "src").mkdir()
        (top / "src" / "data.bin").write_bytes(bytes(range(256)) * 4)
        (top / "src" / "tool").write_text("#!/bin/sh\n")
        (top / "src" / "tool").chmod(0o755)
        (top / "link").symlink_to("one.txt")
        (top / ".gitignore").write_text("*.log\n/cache/\n")
        return cls(top, commit_all(top, "base"))

    @property
    def git(self) -> Git:
        return Git(self.top)

    def worktree(self, name: str = "loop", *, branch: str | None = None, commit: str | None = None) -> Path:
        path = self.top.parent / "work trees" / name
        return worktrees.add(self.git, path, commit=commit or self.base, branch=branch).path


def contents(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Every file below ``folder`` but ``.git``: kind and bytes."""
    found: dict[str, tuple[str, bytes]] = {}
    for where, folders, files in os.walk(os.fsencode(folder)):
        if where == os.fsencode(folder) and b".git" in folders:
            folders.remove(b".git")
        links = [name for name in folders if os.path.islink(os.path.join(where, name))]
        for name in [*files, *links]:
            path = os.path.join(where, name)
            key = os.fsdecode(os.path.relpath(path, os.fsencode(folder)))
            if key == ".git":
                continue
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                found[key] = ("link", os.readlink(path))
            elif stat.S_ISREG(mode):
                with open(path, "rb") as file:
                    found[key] = ("program" if mode & 0o100 else "file", file.read())
    return found


def fingerprint(top: Path) -> dict[str, str]:
    """Hashes of all that is the operator's in ``top``: files, index, HEAD, refs, configuration, hooks."""
    found = {f"file {name}": f"{kind} {_sha(data)}" for name, (kind, data) in contents(top).items()}
    common = dirs_of(top).common
    for path in sorted(common.rglob("*")):
        name = path.relative_to(common).as_posix()
        if path.is_file() and not name.startswith(_OWN):
            found[f"git {name}"] = _sha(path.read_bytes())
    return found


def index_state(folder: Path) -> tuple[bytes, dict[str, tuple[str, bytes]], str]:
    """The index byte by byte, the files and HEAD of a working tree."""
    return (
        (dirs_of(folder).own / "index").read_bytes(),
        contents(folder),
        sh("git", "rev-parse", "HEAD", cwd=folder),
    )


def leftovers(folder: Path) -> list[str]:
    """Private folders of meshtui's that were not cleaned up."""
    return [entry.name for entry in dirs_of(folder).own.iterdir() if entry.name.startswith("meshtui-")]


def write(folder: Path, name: str, text: str | bytes = "", *, mode: int | None = None) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    if mode is not None:
        path.chmod(mode)
    return path


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
