"""Several run directories from the command line: one document, one picture, one console in a real terminal."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from meshtui.core.run_dir import RunDir
from meshtui.notify import GIVE_BACK_TITLE, KEEP_TITLE
from tests.support.cli import PROJECT, Cli
from tests.support.lanes import finish_first, new_lane, park_first, phase

LIMIT = 30.0


@pytest.fixture
def lanes(tmp_path: Path) -> Path:
    """A folder with two lanes in it and one in a folder below; one has something that failed."""
    root = tmp_path / "lanes"
    for name in ("api", "web", "team/docs"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        run_dir, lane = new_lane(root / name)
        lane.enqueue_many([phase(f"{run_dir.root.name}-{number}") for number in range(3)])
    finish_first(RunDir(root / "web"), "failed", error="exit 1: it broke")
    return root


class TestHeadless:
    def test_a_folder_of_lanes_is_one_document(self, cli: Cli, lanes: Path) -> None:
        document = cli.raw("--run-dir", str(lanes), "--headless", "--json").json
        assert document["kind"] == "fleet"
        assert document["run_dir"] == str(lanes)
        assert [Path(lane["run_dir"]).name for lane in document["lanes"]] == ["api", "docs", "web"]
        assert [lane["counts"]["pending"] for lane in document["lanes"]] == [3, 3, 2]
        assert [item["text"] for item in document["attention"]] == ["exit 1: it broke"]

    def test_so_are_several_that_are_named(self, cli: Cli, lanes: Path) -> None:
        named = ("--run-dir", str(lanes / "web"), "--run-dir", str(lanes / "team"))
        document = cli.raw(*named, "--headless", "--json").json
        assert document["kind"] == "fleet"
        assert document["run_dir"] == str(lanes)
        assert [Path(lane["run_dir"]).name for lane in document["lanes"]] == ["web", "docs"]

    def test_fail_on_looks_at_all_of_them(self, cli: Cli, lanes: Path) -> None:
        where = ("--run-dir", str(lanes), "--headless")
        assert cli.raw(*where, "--fail-on", "failed").code == 1
        assert cli.raw(*where, "--fail-on", "parked").code == 0

    @pytest.mark.parametrize("screen", [None, "fleet", "inbox"])
    def test_a_picture(self, cli: Cli, lanes: Path, tmp_path: Path, screen: str | None) -> None:
        target = tmp_path / "frame.svg"
        more = ("--screen", screen) if screen is not None else ()
        said = cli.raw("--run-dir", str(lanes), "--screenshot", str(target), "--size", "100x30", *more)
        assert said.code == 0, said
        text = target.read_text().replace("&#160;", " ")
        assert "it broke" in text
        assert ("docs" in text) == (screen != "inbox")

    def test_a_screen_of_one_lane_is_refused(self, cli: Cli, lanes: Path, tmp_path: Path) -> None:
        target = str(tmp_path / "frame.svg")
        said = cli.raw("--run-dir", str(lanes), "--screenshot", target, "--screen", "pending")
        assert said.code == 2
        assert "fleet, inbox, help" in said.complaint

    def test_one_that_is_missing_is_named(self, cli: Cli, lanes: Path) -> None:
        said = cli.raw("--run-dir", str(lanes / "api"), "--run-dir", str(lanes / "nope"), "--headless")
        assert said.code == 3
        assert "nope" in said.complaint


class Terminal:
    """``meshtui`` on a pseudo terminal of 100 columns and 30 lines."""

    def __init__(self, *arguments: str, home: Path) -> None:
        import fcntl
        import pty
        import struct
        import termios

        self.main, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.seen = b""
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "meshtui", *arguments],
            stdin=child, stdout=child, stderr=child, start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color", "XDG_CONFIG_HOME": str(home), "PYTHONPATH": str(PROJECT)},
        )  # fmt: skip
        os.close(child)

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Read until ``condition`` holds."""
        end = time.monotonic() + LIMIT
        while not condition():
            assert time.monotonic() < end, (what, self.seen[-3000:])
            if select.select([self.main], [], [], 0.02)[0]:
                try:
                    self.seen += os.read(self.main, 1 << 16)
                except OSError:
                    continue

    def shows(self, text: str) -> None:
        """Wait until ``text`` is written."""
        self.until(lambda: text.encode() in self.seen, text)

    def press(self, keys: str) -> None:
        """Type, and look only at what comes from now on."""
        self.seen = b""
        os.write(self.main, keys.encode())

    def close(self) -> None:
        """End it, however it stands."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.main)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def start(*arguments: str) -> Terminal:
        opened.append(Terminal(*arguments, home=tmp_path / "config"))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def test_a_fleet_in_a_terminal(terminal: Callable[..., Terminal], lanes: Path) -> None:
    it = terminal("--run-dir", str(lanes))
    it.shows("exit 1: it broke")
    it.shows("\x1b]2;1 needs you · 3 lanes: 3 waiting · meshtui\x07")
    assert KEEP_TITLE.encode() in it.seen
    # From the inbox to the first row of the table, wherever the cursor stood when it was sorted, and back.
    it.press("\tg\r")
    it.shows("web-1")
    it.press("F")
    it.shows("Lanes · 3")
    # What happens elsewhere comes by itself, in the title too.
    it.seen = b""
    park_first(RunDir(lanes / "api"))
    it.shows("\x1b]2;2 need you")
    # The most urgent is on top; the selection is where it was. Requeue what failed.
    it.press("\t1")
    it.shows("is queued again")
    it.press("q")
    it.until(lambda: it.process.poll() is not None, "its end")
    it.until(lambda: GIVE_BACK_TITLE.encode() in it.seen, "the old title")
    assert it.process.returncode == 0
    assert len(list((lanes / "web/loop/pending").glob("*.json"))) == 3


def test_a_signal_gives_the_title_back(terminal: Callable[..., Terminal], lanes: Path) -> None:
    it = terminal("--run-dir", str(lanes / "web"))
    it.shows("\x1b]2;1 needs you · lane waiting · meshtui\x07")
    it.process.send_signal(signal.SIGTERM)
    it.until(lambda: it.process.poll() is not None and GIVE_BACK_TITLE.encode() in it.seen, "its end")
    assert it.process.returncode == 130


def test_bell_and_command_tell_of_what_happens_later(
    terminal: Callable[..., Terminal], lanes: Path, tmp_path: Path
) -> None:
    out = tmp_path / "told"
    config = tmp_path / "config" / "meshtui" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        f'[notify]\nbell = true\ntitle = false\ncommand = "echo $MESHTUI_EVENT $MESHTUI_LANE >> {out}"\n'
    )
    it = terminal("--run-dir", str(lanes))
    it.shows("exit 1: it broke")
    park_first(RunDir(lanes / "api"))
    it.until(out.exists, "the command")
    it.until(lambda: b"\x07" in it.seen, "the bell")
    assert b"\x1b]2;" not in it.seen
    it.press("q")
    it.until(lambda: it.process.poll() is not None, "its end")
    # Only what happened since the console began, and only once.
    assert out.read_text() == "parked api\n"
    again = terminal("--run-dir", str(lanes))
    again.shows("exit 1: it broke")
    again.press("q")
    again.until(lambda: again.process.poll() is not None, "its end")
    assert out.read_text() == "parked api\n"
