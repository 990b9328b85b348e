"""Playing a recorded journal: where the play head is, and the engine that a console sees behind it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

from meshtui.bridge import Bridge, LocalRunner, Operations
from meshtui.core.clock import from_iso
from meshtui.core.errors import InvalidInput
from meshtui.core.replay.recording import Recording
from meshtui.core.view import Detail, LaneView, Row
from meshtui.inspector import Newest
from meshtui.messages import HistoryRead, ViewChanged

if TYPE_CHECKING:
    from meshtui.core.history import History
    from meshtui.core.mesh.detail import LoopPart
    from meshtui.core.mesh.view import LoopRow, MissionView
    from meshtui.missions import MissionOperations

SPEEDS = (1, 2, 5, 10, 30, 60, 300, 1800)
LULL_SECONDS = 2.0
"""How long a time without events takes at most, whatever the speed."""
SCRUBS = 50
"""How many steps of scrubbing lead from one end to the other."""
REFUSED = "this is a replay of the past: nothing can be done in it"


class Player:
    """The play head of one recording; every method belongs to the console's thread."""

    def __init__(self, recording: Recording, *, at: int | None = None) -> None:
        self.recording = recording
        self.index = len(recording)
        self.at = recording.end
        self.speed = _speed_for(recording.end - recording.start)
        self.playing = False
        self.skipped_ms = 0
        """How much of a time without events was passed over last."""
        if at is not None:
            self.go(at)

    # -- the clock of the console -------------------------------------------------------------------

    def now_ms(self) -> int:
        """The time that is shown."""
        return self.at

    def monotonic(self) -> float:
        """Seconds of the recording, so that ages and rhythms follow it."""
        return self.at / 1000

    # -- moving -------------------------------------------------------------------------------------

    def go(self, at: int) -> None:
        """To a time, within the recording."""
        self.at = max(self.recording.start, min(at, self.recording.end))
        self.index = self.recording.index_at(self.at)
        self.skipped_ms = 0

    def step(self, by: int) -> None:
        """By so many events, and pause."""
        self.playing = False
        self.index = max(0, min(self.index + by, len(self.recording)))
        self.at = self.recording.time_of(self.index)
        self.skipped_ms = 0

    def scrub(self, by: int) -> None:
        """By steps along the bar."""
        span = self.recording.end - self.recording.start
        self.go(self.at + by * max(1, span // SCRUBS))

    def home(self) -> None:
        """To before the first event."""
        self.go(self.recording.start)
        self.index = 0

    def to_end(self) -> None:
        """Behind the last event."""
        self.go(self.recording.end)
        self.playing = False

    def toggle(self) -> None:
        """Pause, or go on; at the end from the beginning."""
        if not self.playing and self.index >= len(self.recording):
            self.home()
        self.playing = not self.playing

    def faster(self, by: int) -> None:
        """The next speed, or the one before."""
        place = SPEEDS.index(self.speed) + by
        self.speed = SPEEDS[max(0, min(place, len(SPEEDS) - 1))]

    def tick(self, seconds: float) -> bool:
        """Let ``seconds`` pass; whether another state is to be shown."""
        if not self.playing:
            return False
        before = self.index
        step = round(seconds * 1000 * self.speed)
        coming = self.recording.next_after(self.index)
        self.skipped_ms = 0
        if coming is not None:
            lull = self.recording.times[self.index] - self.at
            longest = round(LULL_SECONDS * 1000 * self.speed)
            if lull > longest:
                self.skipped_ms = lull - longest
                self.at += self.skipped_ms
        self.at = min(self.at + step, self.recording.end)
        self.index = max(before, self.recording.index_at(self.at))
        if self.index >= len(self.recording):
            self.playing = False
        return self.index != before

    # -- what is shown ------------------------------------------------------------------------------

    def view(self) -> LaneView:
        """What there was to see then."""
        return self.recording.view(self.index)

    def history(self) -> History:
        """The bars and figures of that time."""
        return self.recording.history_at(self.index)


def _speed_for(span_ms: int) -> int:
    """A speed at which a recording takes about a minute."""
    return max((speed for speed in SPEEDS if speed * 60_000 <= span_ms), default=1)


def moment_of(text: str, recording: Recording) -> int:
    """The time that ``--at`` names: ISO 8601, ``HH:MM[:SS]`` of the first day, or a share such as ``50%``."""
    text = text.strip()
    if text.endswith("%"):
        try:
            share = float(text[:-1]) / 100
        except ValueError:
            share = -1
        if not 0 <= share <= 1:
            raise InvalidInput(f"--at {text!r}: a share is 0% to 100%", field="at")
        return recording.start + round(share * (recording.end - recording.start))
    at = from_iso(text)
    if at is None and text[:1].isdigit() and ":" in text:
        from meshtui.text import moment

        at = from_iso(
            f"{moment(recording.start)[:10]}T{text.zfill(5) if text.count(':') == 1 else text.zfill(8)}"
        )
        if at is not None and at < recording.start - 60_000:
            at += 86_400_000
    if at is None:
        raise InvalidInput(
            f"--at {text!r} is no time; use e.g. 2026-11-30T12:00:00Z, 12:00:30 or 50%", field="at"
        )
    return at


class ReplayReader:
    """Views of the play head; details from the files, without what came later."""

    def __init__(self, player: Player) -> None:
        self._player = player

    def refresh(self, *, budget: int = 500) -> LaneView:
        return self._player.view()

    def detail(self, key: str) -> Detail | None:
        row = self._row(key)
        if row is None:
            return None
        from meshtui.core.replay.detail import read_detail

        return read_detail(self._player.recording.run_dir, row)

    def _row(self, key: str) -> Row | None:
        state = self._player.recording.state(self._player.index)
        return next((row for row in state.rows.values() if row.key == key), None)


class ReplayEngine:
    """An engine in which nothing can be done."""

    def __init__(self, player: Player) -> None:
        self.player = player

    def reader(self) -> ReplayReader:
        return ReplayReader(self.player)

    def operations(self, *, create: bool = False) -> Operations:
        raise InvalidInput(REFUSED)

    def runner(self, *, take_over: bool = False) -> LocalRunner:
        raise InvalidInput(REFUSED)

    def start_detached(self) -> int:
        raise InvalidInput(REFUSED)

    def missions(self) -> MissionOperations:
        raise InvalidInput(REFUSED)


class _Shower(Newest[int]):
    """Makes the view of the newest place asked for, in a thread of its own."""

    name = "meshtui-replay"

    def __init__(self, recording: Recording, post: Callable[[Message], object]) -> None:
        super().__init__(post)
        self._recording = recording

    def ask(self, index: int) -> None:
        """Show the state after ``index`` events."""
        self._ask(index)

    def serve(self, request: int, version: int) -> None:
        self._post(ViewChanged(self._recording.view(request)))


class ReplayBridge(Bridge):
    """Shows states of a recording instead of following a directory."""

    def __init__(self, player: Player, post: Callable[[Message], object]) -> None:
        from meshtui.core.run_dir import RunDir

        super().__init__(RunDir(player.recording.run_dir), ReplayEngine(player), post)
        self._player = player
        self._shower = _Shower(player.recording, self._post)

    def start(self) -> None:
        self._reader = self._engine.reader()
        self.seek()

    @property
    def following(self) -> bool:
        return True

    def seek(self) -> None:
        """Show where the play head is."""
        self._shower.ask(self._player.index)

    def read_history(self) -> None:
        self._post(HistoryRead(self._player.history()))

    def inspect_loop(self, mission: MissionView | None, row: LoopRow | None, part: LoopPart) -> None:
        if self._loops is None:
            from meshtui.core.replay.detail import read_loop
            from meshtui.loop_inspector import LoopInspector

            player = self._player
            self._loops = LoopInspector(
                self._post, lambda mission, row, part: read_loop(mission, row, part, player.at)
            )
        super().inspect_loop(mission, row, part)

    def close(self, timeout: float = 3.0) -> bool:
        return self._shower.stop(timeout) and super().close(timeout)


def open_player(path: Path, at: str | None) -> Player:
    """A player for what ``--replay`` and ``--at`` name; it stands at the end unless told otherwise."""
    recording = Recording.open(path)
    player = Player(recording)
    if at is not None:
        player.go(moment_of(at, recording))
    return player
