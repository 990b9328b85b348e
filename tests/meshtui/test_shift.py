"""A whole shift at a real terminal: an operator works a lane in tmux while agents, colleagues and crashes happen."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from meshtui.core.lane.lane import Lane
from meshtui.core.run_dir import RunDir

PROJECT = Path(__file__).parents[2]
TMUX = shutil.which("tmux")
LIMIT = 40.0
AGENT = """
case $MESHTUI_ENVELOPE_ID in
    quick*) echo "did $MESHTUI_ENVELOPE_ID" ;;
    bad) echo "cannot do it" >&2; exit 3 ;;
    slow) until [ -e go ]; do echo "still at it"; sleep 0.1; done; echo "slow is done" ;;
    stuck) sleep 600 ;;
esac
"""

pytestmark = pytest.mark.skipif(TMUX is None, reason="there is no tmux")


class Desk:
    """A terminal of 120 columns and 36 lines with somebody before it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # A short name: a socket's path may have about a hundred characters.
        self._socket = f"meshtui-{os.getpid()}-{folder.name[-20:]}"
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(PROJECT),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "LC_ALL": "C.UTF-8",
        }
        self._environment.pop("TMUX", None)

    def _tmux(self, *arguments: str) -> str:
        assert TMUX is not None
        done = subprocess.run(
            [TMUX, "-f", "/dev/null", "-L", self._socket, *arguments],
            env=self._environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout

    def open(self, *arguments: str) -> None:
        """Start a console and leave word when it has ended."""
        words = [sys.executable, "-P", "-m", "meshtui", *arguments]
        command = " ".join(f"'{word}'" for word in words) + '; echo "ended with $?"; sleep 600'
        self._tmux("new-session", "-d", "-s", "desk", "-x", "120", "-y", "36", command)
        # Or a session that nobody looks at may be made as small as the next one.
        self._tmux("set-option", "-t", "desk", "window-size", "manual")
        self._tmux("resize-window", "-t", "desk", "-x", "120", "-y", "36")

    def text(self) -> str:
        """What is on the screen."""
        return self._tmux("capture-pane", "-p", "-t", "desk")

    def keys(self, *keys: str) -> None:
        """Press keys by tmux's names."""
        self._tmux("send-keys", "-t", "desk", *keys)

    def types(self, text: str) -> None:
        """Type letters."""
        self._tmux("send-keys", "-t", "desk", "-l", text)

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until ``condition`` holds."""
        end = time.monotonic() + LIMIT
        while not condition():
            assert time.monotonic() < end, f"never: {what}\n{self.text()}"
            time.sleep(0.05)

    def shows(self, *words: str) -> None:
        """Wait until all of ``words`` are on the screen."""
        self.until(lambda: all(word in self.text() for word in words), " and ".join(words))

    def hides(self, word: str) -> None:
        """Wait until ``word`` is on the screen no more."""
        self.until(lambda: word not in self.text(), f"without {word}")

    def close(self) -> None:
        """End the terminal and what runs in it."""
        self._tmux("kill-server")


def at_work(run_dir: RunDir) -> list[str]:
    """The ids of what runs, by the names of its records."""
    return [path.stem[68:] for path in run_dir.lane.active.glob("[0-9]*.json")]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    one = Desk(tmp_path)
    yield one
    one.close()


def test_a_shift(desk: Desk, tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path / "lane")
    run_dir.root.mkdir()
    (run_dir.root / "meshtui.toml").write_text(
        f'[lane]\nengine = "command"\non_park = "continue"\n[engines.command]\nrun = """{AGENT}"""\n'
    )
    desk.open("--run-dir", "lane")

    # An empty directory says what to do; the first envelope is typed in.
    desk.shows("No lane here yet", "e enqueues")
    desk.keys("e")
    desk.shows("Enqueue")
    desk.types("tidy the imports")
    desk.keys("C-s")
    desk.shows("is number 1 of 1 pending")

    # A colleague queues more; it appears by itself.
    colleague = Lane(run_dir)
    first = colleague.enqueue_many(
        [
            {"kind": "phase", "id": name, "prompt": name, "cd": str(tmp_path), **more}
            for name, more in (
                ("quick-1", {}),
                ("bad", {}),
                ("slow", {}),
                ("stuck", {"deadline_seconds": 0.4}),
                ("quick-2", {}),
                ("quick-3", {}),
            )
        ]
    )
    assert len(first) == 6
    desk.shows("pending 7", "quick-3")

    # Find, mark, withdraw two at once, and think better of it.
    desk.keys("/")
    desk.types("quick")
    desk.hides("stuck")
    desk.keys("Enter")
    desk.keys("G", "Space", "k", "Space", "w")
    desk.shows("Withdraw 2")
    desk.keys("y")
    desk.shows("withdrawn 2")
    desk.keys("u")
    desk.shows("Undone", "3 of 7")
    desk.keys("Escape")
    desk.shows("pending 7", "stuck")

    # The runner starts here. One phase fails, one works on and is watched, and is ended in the middle.
    desk.keys("s")
    desk.shows("● running", "failed 1", "slow")
    desk.until(lambda: run_dir.lane.result("bad").exists(), "the result of bad")
    desk.shows("exit 3")
    desk.until(lambda: at_work(run_dir) == ["slow"], "slow at work")
    desk.keys("x")
    desk.shows("Kill slow?")
    desk.keys("n")
    (tmp_path / "go").touch()
    desk.until(lambda: run_dir.lane.result("slow").exists(), "the result of slow")

    # Another one stalls twice and is set aside, while the rest of the queue is worked.
    desk.shows("parked", "stuck", "stalled twice")
    desk.until(lambda: run_dir.lane.result("quick-3").exists(), "the end of the queue")
    desk.keys("t")
    desk.shows("stuck", "zoom")
    desk.keys("Escape")
    desk.hides("zoom")
    desk.keys("c")
    desk.shows("Throughput")
    desk.keys("Escape")
    desk.hides("Throughput")
    desk.keys("I")
    desk.shows("Needs you", "cause")
    desk.keys("Escape")
    desk.shows("Queue")

    # It is answered in place: given up.
    desk.keys("a")
    desk.shows("Answer stuck", "Leave it")
    desk.keys("d")
    desk.until(lambda: not list(run_dir.lane.stalled.glob("*.json")), "nothing is parked")

    # A crash elsewhere leaves a file nobody can read; it is set aside by the runner and said.
    (
        run_dir.lane.pending / "0000000000000001-1796083720221-2ab7ec96-b693-456d-9d6b-0189685008f5-x.json"
    ).write_text("{")
    desk.shows("unreadable")

    # The end of the shift: the work is handed over to a runner in the background.
    (tmp_path / "go").unlink()
    colleague.requeue("slow")
    desk.until(lambda: at_work(run_dir) == ["slow"], "slow at work")
    desk.keys("q")
    desk.shows("Hand over")
    desk.keys("o")
    desk.shows("ended with 0", "Handed over")
    (tmp_path / "go").touch()
    desk.until(lambda: run_dir.lane.result("slow").exists(), "slow ends without a console")
    colleague.stop()
    results = {path.stem for path in run_dir.lane.results.glob("*.json")}
    assert {"quick-1", "quick-2", "quick-3", "bad", "slow", "stuck"} <= results
    log = run_dir.root / "events.jsonl"
    assert log.read_text().count('"event":"phase_adopted"') == 1


def test_a_first_start_says_what_to_do(desk: Desk, tmp_path: Path) -> None:
    desk.open()
    desk.shows("No lane here yet", "e enqueues", "n plans")
    assert not (tmp_path / ".meshtui").exists()
    desk.keys("e")
    desk.shows("Enqueue")
    desk.types("tidy the imports")
    desk.keys("C-s")
    desk.shows("is number 1 of 1 pending")
    assert len(list((tmp_path / ".meshtui" / "loop" / "pending").iterdir())) == 1


def test_a_folder_that_is_named_must_be_there(desk: Desk, tmp_path: Path) -> None:
    desk.open("--run-dir", "mistyped")
    desk.shows("no run directory", "ended with 3")
