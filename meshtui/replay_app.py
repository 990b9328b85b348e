"""The console on a recording: the same screens, a play head instead of a clock, and nothing that changes anything."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widgets import Input, TextArea

from meshtui.app import MeshtuiApp
from meshtui.bridge import Bridge, Engine
from meshtui.bridges import Post
from meshtui.commands import REPLAY
from meshtui.core.run_dir import RunDir
from meshtui.replay import Player, ReplayBridge, ReplayEngine
from meshtui.screens.lane import LaneScreen
from meshtui.screens.seeing import Seeing
from meshtui.theme import STYLES
from meshtui.widgets.replay_bar import ReplayBar

TICK_SECONDS = 0.1


class ReplayApp(MeshtuiApp, inherit_bindings=True):
    """Plays ``player``; its keys come before those of lists, but not while something is typed."""

    CSS_PATH: ClassVar[list[str | PurePath]] = [
        STYLES / "base.tcss",
        STYLES / "lane.tcss",
        STYLES / "replay.tcss",
    ]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            command.key,
            command.action,
            command.label,
            show=False,
            priority=True,
            tooltip=command.tooltip,
            id=command.id,
        )
        for command in REPLAY
    ]

    def __init__(self, player: Player, **options: Any) -> None:
        still = bool(options.get("still"))
        super().__init__(
            RunDir(player.recording.run_dir),
            engine=None if still else ReplayEngine(player),
            view=player.view(),
            clock=player,
            read_only=True,
            **options,
        )
        self.player = player
        self.bridges.make = self._make_bridge
        self._shown: tuple[int, int] | None = None

    def _make_bridge(self, run_dir: RunDir, engine: Engine, post: Post, *, poll_seconds: float) -> Bridge:
        return ReplayBridge(self.player, post)

    def _announce(self) -> None:
        """What needed somebody in the past is no reason to call anybody now."""

    def on_mount(self) -> None:
        if not self.still:
            self.set_interval(TICK_SECONDS, self._tick, name="replay")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "play" or action.startswith("replay_"):
            typing = isinstance(self.focused, (Input, TextArea))
            return not typing and isinstance(self.screen, (LaneScreen, Seeing))
        return super().check_action(action, parameters)

    def _tick(self) -> None:
        if self._exit:
            return
        if self.player.playing:
            self._moved(self.player.tick(TICK_SECONDS))

    def _moved(self, another: bool = True) -> None:
        """Show where the play head is, and with ``another`` the state there."""
        bridge = self.bridge_to(self.run_dir.root)
        if another and isinstance(bridge, ReplayBridge):
            bridge.seek()
        for screen in self.screen_stack:
            for bar in screen.query(ReplayBar):
                bar.repaint()
            if isinstance(screen, (LaneScreen, Seeing)):
                screen.tick()

    @on(ReplayBar.Sought)
    def _sought(self, message: ReplayBar.Sought) -> None:
        recording = self.player.recording
        self.player.go(recording.start + round(message.share * (recording.end - recording.start)))
        self._moved()

    def action_play(self) -> None:
        self.player.toggle()
        self._moved()

    def action_replay_step(self, by: int) -> None:
        self.player.step(by)
        self._moved()

    def action_replay_speed(self, by: int) -> None:
        self.player.faster(by)
        self._moved(False)

    def action_replay_scrub(self, by: int) -> None:
        self.player.scrub(by)
        self._moved()

    def action_replay_home(self) -> None:
        self.player.home()
        self._moved()

    def action_replay_end(self) -> None:
        self.player.to_end()
        self._moved()
