"""Released packages under git, and missions on them through the command line."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
REQUIREMENTS = HERE / "requirements.txt"
ARCHIVES = HERE / ".archives"
"""Where fetched archives are kept; git ignores it."""
FETCH_SECONDS = 100
MISSION_SECONDS = 60


def pinned() -> dict[str, tuple[str, str]]:
    """Name to version and sha256 of the archive."""
    pattern = re.compile(r"^(\w+)==(\S+) --hash=sha256:([0-9a-f]{64})$", re.MULTILINE)
    return {name: (version, sha) for name, version, sha in pattern.findall(REQUIREMENTS.read_text())}


def archive(name: str) -> Path:
    """The source archive of a package, from the package index unless it was fetched before."""
    version, sha = pinned()[name]
    path = ARCHIVES / f"{name}-{version}.tar.gz"
    if not path.is_file():
        _fetch(path)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    assert found == sha, f"{path} is not the archive that {REQUIREMENTS} names; delete it"
    return path


def _fetch(path: Path) -> None:
    """Have pip fetch all archives; it checks their hashes."""
    ARCHIVES.mkdir(exist_ok=True)
    scratch = ARCHIVES / f".fetch-{os.getpid()}"
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
        "--retries=1",
    ]
    command += ["--no-deps", "--no-binary", ",".join(pinned()), "--requirement", str(REQUIREMENTS)]
    try:
        done = subprocess.run(
            [*command, "--dest", str(scratch)],
            capture_output=True,
            text=True,
            timeout=FETCH_SECONDS,
            check=False,
        )
        assert done.returncode == 0, (
            "these tests need the source archives of two packages, and pip could not fetch them from the "
            f"package index; with network access they are fetched once, into {ARCHIVES}:\n{done.stderr}"
        )
        for file in scratch.iterdir():
            file.replace(ARCHIVES / file.name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    assert path.is_file(), f"pip fetched no {path.name}"


def git(repo: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(repo), *arguments], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, f"git {' '.join(arguments)}: {done.stderr}"
    return done.stdout.strip()


@dataclass(frozen=True, slots=True)
class Checkout:
    """Everything of a user's repository that a mission may not touch."""

    head: str
    branches: str
    index: bytes
    status: str
    files: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Workshop:
    """A package in a repository, and a run directory beside it."""

    root: Path
    tests: tuple[str, ...]
    """The folders of the package's own tests."""

    @classmethod
    def make(cls, root: Path, package: str, config: str, *, tests: tuple[str, ...]) -> Workshop:
        """Unpack ``package`` into a repository; ``config`` is the run directory's, with the commands' parts."""
        shop = cls(root, tests)
        with tarfile.open(archive(package)) as file:
            file.extractall(root, filter="data")
        (unpacked,) = root.iterdir()
        unpacked.rename(shop.repo)
        git(shop.repo, "init", "--quiet", "--initial-branch=main", "--template=")
        git(shop.repo, "config", "user.name", "Ada")
        git(shop.repo, "config", "user.email", "ada@example.invalid")
        git(shop.repo, "add", "--all", "--force")
        git(shop.repo, "commit", "--quiet", "--message", "As released")
        shop.run_dir.mkdir()
        words = {
            "python": json.dumps(sys.executable),
            "maker": json.dumps(str(HERE / "maker.py")),
            "worktrees": json.dumps(str(root / "worktrees")),
            "pytest": json.dumps(shop.pytest()),
            "released": json.dumps(git(shop.repo, "rev-parse", "HEAD")),
        }
        (shop.run_dir / "meshtui.toml").write_text(config % words)
        return shop

    @property
    def repo(self) -> Path:
        return self.root / "repo"

    @property
    def run_dir(self) -> Path:
        return self.root / "run"

    def pytest(self) -> list[str]:
        """The command that runs the package's own tests in a checkout of it."""
        settings = [
            "-o",
            "addopts=",
            "-o",
            "filterwarnings=",
            "-o",
            "pythonpath=src",
            "--import-mode=prepend",
        ]
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--disable-plugin-autoload",
        ]
        return [*command, "--rootdir=.", *settings, *self.tests]

    def meshtui(self, *arguments: str, code: int = 0) -> Any:
        """What a command of meshtui answers; the exit status must be ``code``."""
        # Programs behave as they do by default, whatever is set around the tests.
        env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "PYTHON"))}
        done = subprocess.run(
            [sys.executable, "-P", "-m", "meshtui", *arguments, "--run-dir", str(self.run_dir), "--json"],
            cwd=self.repo,
            env={**env, "PYTHONPATH": os.getcwd()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=MISSION_SECONDS,
            check=False,
        )
        assert done.returncode == code, f"meshtui {' '.join(arguments)}: {done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)

    def proof(self, mission: str, loop: str) -> Any:
        return self.read(mission, loop, "loop-proof.json")

    def gate(self, mission: str, loop: str, gate: str) -> Any:
        return self.read(mission, loop, f"gates/{gate}.json")

    def read(self, mission: str, loop: str, name: str) -> Any:
        return json.loads((self.run_dir / "missions" / mission / "loops" / loop / name).read_text())

    def checkout(self) -> Checkout:
        """How the user's repository stands."""
        return Checkout(
            head=git(self.repo, "rev-parse", "HEAD", "--symbolic-full-name", "HEAD"),
            branches="\n".join(
                line
                for line in git(self.repo, "for-each-ref").splitlines()
                if "refs/heads/meshtui" not in line
            ),
            index=(self.repo / ".git" / "index").read_bytes(),
            status=git(self.repo, "--no-optional-locks", "status", "--porcelain", "--ignored"),
            files={
                str(path.relative_to(self.repo)): path.read_bytes()
                for path in sorted(self.repo.rglob("*"))
                if path.is_file() and ".git" not in path.parts
            },
        )

    def passes_in_a_clone(self, branch: str) -> None:
        """The package's own tests pass in a fresh clone of ``branch``."""
        clone = self.root / "clone"
        subprocess.run(
            ["git", "clone", "--quiet", "--branch", branch, str(self.repo), str(clone)],
            check=True,
            timeout=30,
        )
        done = subprocess.run(
            self.pytest(), cwd=clone, capture_output=True, text=True, timeout=MISSION_SECONDS, check=False
        )
        assert done.returncode == 0, done.stdout
        assert " passed" in done.stdout
