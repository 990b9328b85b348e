"""Tells somebody who looks elsewhere: the terminal's title, a bell, a command; each event once.

What stood there before the console began is no news: a restart tells nothing again.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from meshtui.core.clock import iso
from meshtui.core.errors import MeshtuiError
from meshtui.core.fleet import FleetView, Need
from meshtui.core.run_dir import RunDir
from meshtui.core.view import LaneView
from meshtui.status import lane_mark, summary_mark
from meshtui.text import clean

LIMIT_SECONDS = 10.0
"""How long a command may take."""
MOST_WAITING = 100
"""Events that wait for the command at most; more are dropped, which is told."""
MOST_KNOWN = 20_000
KEEP_TITLE = "\x1b[22;2t"
"""Has the terminal remember its title."""
GIVE_BACK_TITLE = "\x1b[23;2t"
MOST_TITLE = 120
UNDATED = frozenset({"budget", "dead"})
"""Kinds whose time says nothing about when they came to be: the last use, the last heartbeat."""


class News:
    """Which of what needs somebody was not there before."""

    def __init__(self, began_at: int) -> None:
        self._began_at = began_at
        self._known: dict[tuple[str, int | None], None] = {}
        self._looked: set[Path] = set()
        """Run directories that were read as a whole once: all that was there is known."""

    def take(self, needs: Iterable[Need], complete: Collection[Path]) -> tuple[Need, ...]:
        """Those of ``needs`` that are news; ``complete`` are the run directories that were read as a whole."""
        found = []
        for need in needs:
            since = need.item.since
            dated = need.item.kind not in UNDATED and since is not None
            event = (need.key, since if dated else None)
            if event in self._known:
                continue
            self._known[event] = None
            looked = need.run_dir in self._looked
            if (since is not None and since >= self._began_at) if dated else looked:
                found.append(need)
        while len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]
        self._looked.update(complete)
        return tuple(found)


def title_of_lane(view: LaneView) -> str:
    """The terminal's title for one lane."""
    name = clean(view.lane_id or view.run_dir.name)
    return _title(len(view.attention), f"{name} {lane_mark(view).word}")


def title_of_fleet(view: FleetView) -> str:
    """The terminal's title for several lanes."""
    words = [summary_mark(lane).word for lane in view.lanes]
    states = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    lanes = f"{len(view.lanes)} lane{'' if len(view.lanes) == 1 else 's'}"
    return _title(len(view.needs), f"{lanes}{f': {states}' if states else ''}")


def _title(needs: int, rest: str) -> str:
    call = f"{needs} need{'s' if needs == 1 else ''} you · " if needs else ""
    return f"{call}{rest} · meshtui"[:MOST_TITLE]


def set_title(text: str) -> str:
    """What has the terminal show ``text`` as its title."""
    return f"\x1b]2;{clean(text)}\x07"


class Commands:
    """Runs the operator's command for each event, one after the other, in a thread of its own.

    The facts are in the environment (``MESHTUI_EVENT``, ``MESHTUI_LANE``, ``MESHTUI_RUN_DIR``,
    ``MESHTUI_SUBJECT``, ``MESHTUI_TEXT``, ``MESHTUI_SINCE``) and, as JSON, on standard input. ``problem`` is
    called from the thread, once for each different failure.
    """

    def __init__(
        self,
        command: str | None,
        problem: Callable[[str], object],
        *,
        limit_seconds: float = LIMIT_SECONDS,
    ) -> None:
        self._command = command
        self._problem = problem
        self._limit = limit_seconds
        self._events: queue.Queue[Need | None] = queue.Queue(MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._told: set[str] = set()
        self._ended = threading.Event()

    def tell(self, needs: Sequence[Need]) -> None:
        """Run the command for each of ``needs``; returns at once."""
        for need in needs:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="meshtui-notify", daemon=True)
                self._thread.start()
            try:
                self._events.put_nowait(need)
            except queue.Full:
                self._fail("the notify command is too slow: some events were not handed to it")

    def stop(self, timeout: float = 1.0) -> bool:
        """Run nothing more; whether the thread ended within ``timeout`` seconds."""
        self._ended.set()
        if self._thread is None:
            return True
        try:
            self._events.put_nowait(None)
        except queue.Full:
            # It looks whether it is to end before each event.
            pass
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _fail(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._problem(text)

    def _run(self) -> None:
        while (need := self._events.get()) is not None and not self._ended.is_set():
            try:
                command = self._command_for(need)
                if command is not None:
                    self._call(command, need)
            except (MeshtuiError, OSError) as error:
                self._fail(f"the notify command failed: {error}")

    def _command_for(self, need: Need) -> list[str] | None:
        """The command line: the run directory's own, else the operator's; ``None`` if there is neither."""
        if RunDir(need.run_dir).config.exists():
            from meshtui.core.config import load_config

            own = load_config(RunDir(need.run_dir), None, environ={}).config.notify.command
            if own is not None:
                return ["/bin/sh", "-c", own] if isinstance(own, str) else list(own)
        return ["/bin/sh", "-c", self._command] if self._command else None

    def _call(self, command: list[str], need: Need) -> None:
        """Run it detached: in a session of its own, without the terminal, for a limited time."""
        facts = facts_of(need)
        names = {
            "event": "MESHTUI_EVENT",
            "lane": "MESHTUI_LANE",
            "run_dir": "MESHTUI_RUN_DIR",
            "subject": "MESHTUI_SUBJECT",
            "text": "MESHTUI_TEXT",
            "since": "MESHTUI_SINCE",
        }
        values = {name: str(facts[key] or "").replace("\0", "") for key, name in names.items()}
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **values},
            start_new_session=True,
        ) as process:
            try:
                process.communicate(json.dumps(facts).encode() + b"\n", timeout=self._limit)
            except subprocess.TimeoutExpired:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    # It ended just now.
                    pass
                self._fail(f"the notify command took longer than {self._limit:g} s and was ended")
                return
        if process.returncode:
            self._fail(f"the notify command failed: exit {process.returncode}")


def facts_of(need: Need) -> dict[str, object]:
    """What the command is told."""
    item = need.item
    return {
        "event": item.kind,
        "lane": need.lane,
        "run_dir": str(need.run_dir),
        "subject": item.subject,
        "text": item.text,
        "since": iso(item.since) if item.since is not None else None,
        "exits": [{"label": way.label, "command": way.command} for way in item.exits],
    }


class Announcer:
    """Says what is new in the ways an operator chose.

    ``write`` sends to the terminal, ``ring`` rings its bell; ``problem`` may be called from any thread.
    """

    def __init__(
        self,
        *,
        began_at: int,
        write: Callable[[str], object] | None,
        ring: Callable[[], object] | None,
        command: str | None,
        problem: Callable[[str], object],
    ) -> None:
        self._news = News(began_at)
        self._write = write
        self._ring = ring
        self._commands = Commands(command, problem)
        self._title: str | None = None

    def take(self, needs: Sequence[Need], complete: Collection[Path], title: str) -> None:
        """Show ``title``, and tell what of ``needs`` is new."""
        if self._write is not None and title != self._title:
            before = KEEP_TITLE if self._title is None else ""
            self._title = title
            self._write(before + set_title(title))
        news = self._news.take(needs, complete)
        if news:
            if self._ring is not None:
                self._ring()
            self._commands.tell(news)

    def close(self) -> None:
        """Give the terminal its title back, and run nothing more."""
        if self._write is not None and self._title is not None:
            self._write(GIVE_BACK_TITLE)
            self._title = None

    def stop(self, timeout: float = 1.0) -> bool:
        """End the thread; whether it ended within ``timeout`` seconds."""
        return self._commands.stop(timeout)
