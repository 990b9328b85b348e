"""Builds a demo: ``DIR/almanac``, a git repository, and ``DIR/lane``, the run directory beside it."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from meshtui.core import storage, strict_json
from meshtui.core.calls import scrubbed_environment
from meshtui.core.clock import Clock, SystemClock
from meshtui.core.errors import InvalidInput, WorkFailed
from meshtui.core.lane.create import absolute, create_run_dir
from meshtui.core.lane.lane import Lane
from meshtui.core.run_dir import RunDir
from meshtui.demo.envelopes import demo_envelopes

SCHEMA = "meshtui.demo.v1"
TEMPLATE = Path(__file__).parent / "repo-template"
"""What the repository holds at first; its name is no identifier, so that nothing takes it for a package."""
GIT_SECONDS = 30

_SETTINGS = {
    # Commits need a name, and whatever the user's own configuration does on a commit has no place here.
    "user.name": "agent.sh",
    "user.email": "agent@example.invalid",
    "commit.gpgSign": "false",
    "core.hooksPath": os.devnull,
    "core.excludesFile": os.devnull,
    "core.autocrlf": "false",
    "gc.auto": "0",
}

_CONFIG = """\
# The lane's configuration. It belongs to the operator of this run directory, so it needs no trust.

[lane]
lane_id = "demo"
engine = "command"
on_park = "continue"  # what follows a parked phase does not wait for its answer

[engines.command]
run = "sh tools/agent.sh"  # reads the prompt from standard input; in the phase's working directory
maker = "sh tools/maker.sh"  # the same for a loop of a mission, in a working copy of its own
checker = [{python}, "-B", "tools/review.py"]
env = {{ PYTHON = {python} }}

[mesh]
worktrees = {worktrees}
max_active_loops = 3

[[domains]]
id = "years"
paths = ["almanac/years.py"]

[[domains]]
id = "months"
paths = ["almanac/months.py"]

[[domains]]
id = "weekdays"
paths = ["almanac/weekdays.py"]

[[domains]]
id = "tests"
paths = ["tests"]

[[domains]]
id = "docs"
paths = ["docs"]

[gates.tests]  # after every change of a loop
command = [{python}, "-B", "-m", "unittest", "discover"]

[gates.examples]  # only where examples can change
command = [{python}, "-B", "-m", "doctest", "almanac/months.py"]
when = ["almanac/months.py"]

[gates.merged-tests]  # of all changes together
command = [{python}, "-B", "-m", "unittest", "discover"]
stage = "integration"

[gates.merged-examples]
command = [{python}, "-B", "-m", "doctest", "almanac/years.py", "almanac/months.py", "almanac/weekdays.py"]
stage = "integration"
"""


@dataclass(frozen=True, slots=True)
class Demo:
    """Where the parts of a demo stand."""

    root: Path

    @property
    def repo(self) -> Path:
        return self.root / "almanac"

    @property
    def run_dir(self) -> RunDir:
        return RunDir(self.root / "lane")

    @property
    def worktrees(self) -> Path:
        """Where the loops of the mission work."""
        return self.root / "worktrees"

    @property
    def picture(self) -> Path:
        return self.root / "console.svg"

    @property
    def mark(self) -> Path:
        """What tells a demo from any other folder; written last."""
        return self.root / "demo.json"


def open_demo(root: Path | None, *, clock: Clock | None = None) -> tuple[Demo, bool]:
    """The demo in ``root``, built if there is none, and whether it was built just now.

    ``None`` makes a fresh folder below the system's one for temporary files. Raises
    :class:`InvalidInput` for a folder that holds something else.
    """
    clock = clock or SystemClock()
    if root is None:
        demo = Demo(_fresh_folder())
    else:
        demo = Demo(absolute(root))
        if demo.mark.is_file():
            return demo, False
        if demo.root.exists() and not demo.root.is_dir():
            raise InvalidInput(f"--dir {demo.root} is a file; name an empty folder or a new one")
        if demo.root.is_dir() and any(demo.root.iterdir()):
            raise InvalidInput(
                f"--dir {demo.root} is not empty and holds no earlier demo; name an empty folder or a new one"
            )
        storage.make_dirs(demo.root)
    _build(demo, clock)
    return demo, True


def _fresh_folder() -> Path:
    import tempfile  # noqa: TID251 - asked only where such folders go

    base = Path(tempfile.gettempdir())
    while True:
        folder = base / f"meshtui-demo-{secrets.token_hex(4)}"
        if storage.make_dir(folder):
            return folder


def _build(demo: Demo, clock: Clock) -> None:
    _build_repository(demo.repo)
    run_dir = create_run_dir(demo.run_dir.root, clock, lane_id="demo", repo=demo.repo)
    config = _CONFIG.format(
        python=json.dumps(sys.executable, ensure_ascii=False),
        worktrees=json.dumps(str(demo.worktrees), ensure_ascii=False),
    )
    storage.write_atomic(run_dir.config, config.encode("utf-8", "surrogateescape"))
    Lane(run_dir, clock=clock, by="demo").enqueue_many(demo_envelopes(demo.repo))
    storage.write_atomic(demo.mark, strict_json.dump_bytes({"schema": SCHEMA}))


def _build_repository(repo: Path) -> None:
    _copy(TEMPLATE, repo)
    storage.write_new(repo / ".gitignore", b"__pycache__/\n", durable=False, mode=0o666)
    git(repo, "-c", "init.defaultBranch=main", "init", "--quiet", "--template=")
    for key, value in _SETTINGS.items():
        git(repo, "config", key, value)
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--message", "A very small calendar")


def _copy(source: Path, target: Path) -> None:
    storage.make_dir(target, mode=0o777)
    for path in sorted(source.iterdir()):
        if path.name == "__pycache__":
            # An installed template was compiled together with the package.
            continue
        if path.is_dir():
            _copy(path, target / path.name)
            continue
        mode = 0o777 if path.suffix == ".sh" else 0o666
        storage.write_new(target / path.name, storage.read_bytes(path), durable=False, mode=mode)


def git(repo: Path, *arguments: str) -> str:
    """What git prints for ``arguments`` in ``repo``; raises :class:`WorkFailed` with its words."""
    try:
        done = subprocess.run(
            ["git", "-C", str(repo), *arguments],
            env=scrubbed_environment(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise WorkFailed("the demo works on a git repository, and there is no git here; install it") from None
    except subprocess.TimeoutExpired:
        raise WorkFailed(f"git {arguments[0]} in {repo} took over {GIT_SECONDS} s") from None
    if done.returncode != 0:
        words = done.stderr.decode("utf-8", "replace").strip() or f"exit {done.returncode}"
        raise WorkFailed(f"git {arguments[0]} in {repo}: {words}")
    return done.stdout.decode("utf-8", "replace").strip()
