"""The console: one app around the screen of a lane."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Any, ClassVar

from rich.text import Text
from textual import events
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.filter import LineFilter
from textual.screen import Screen
from textual.theme import Theme
from textual.widgets import Input, TextArea

from meshtui.bridge import Bridge, Ending, Engine
from meshtui.commands import LaneCommands
from meshtui.core.clock import Clock, SystemClock
from meshtui.core.run_dir import RunDir
from meshtui.core.view import LaneView
from meshtui.keymap import display, keymap
from meshtui.screens.lane import LaneScreen
from meshtui.settings import Settings, config_path
from meshtui.text import clean
from meshtui.theme import STYLES, THEMES, AsciiSigns, encoding_of_terminal, fallbacks, theme_for

MOST_TOLD = 3
"""How many problems of the operator's file are shown at once."""


class MeshtuiApp(App[int], inherit_bindings=False):
    """Shows one lane, followed live, or still as a picture where there is no engine."""

    CSS_PATH: ClassVar[list[str | PurePath]] = [STYLES / "base.tcss", STYLES / "lane.tcss"]
    TITLE = "meshtui"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (70, "-medium"), (100, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (8, "-low"), (16, "-normal"), (20, "-high"), (34, "-tall")]  # noqa: RUF012
    COMMANDS = {LaneCommands} | App.COMMANDS
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "explain_quit", show=False, priority=True, id="app.ctrl_q"),
        Binding("ctrl+c", "explain_quit", show=False, system=True, id="app.ctrl_c"),
    ]

    def __init__(
        self,
        run_dir: RunDir,
        *,
        engine: Engine | None = None,
        view: LaneView | None = None,
        clock: Clock | None = None,
        read_only: bool = False,
        work: bool = False,
        still: bool = False,
        settings: Settings = Settings(),  # noqa: B008
        settings_problems: Sequence[str] = (),
        driver_class: type[Driver] | None = None,
    ) -> None:
        super().__init__(driver_class=driver_class)
        self.settings = settings
        self.settings_problems = tuple(settings_problems)
        """What of the operator's file could not be used; told once the console is there."""
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.run_dir = run_dir
        self.bridge: Bridge | None = None
        self._signs = [AsciiSigns(encoding_of_terminal())] if settings.glyphs == "ascii" else []
        if not settings.motion:
            self.animation_level = "none"
        self._engine = engine
        self._read_only = read_only
        self._work = work
        self.still = still
        """Whether this is a picture: nothing moves, blinks or ticks."""
        self._view = view
        self.farewell: str | None = None
        """What to say once the terminal is back."""

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return fallbacks(self.current_theme)

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), *self._signs]

    def get_key_display(self, binding: Binding) -> str:
        return display(binding.key)

    def get_default_screen(self) -> LaneScreen:
        return LaneScreen(self._view, read_only=self._read_only)

    def on_load(self) -> None:
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = theme_for(self.settings.theme, self.settings.contrast)
        self.set_keymap(keymap(self.settings.keys))

    def on_mount(self) -> None:
        self.theme_changed_signal.subscribe(self, self._keep_theme)
        self.call_after_refresh(self._tell_problems)
        if self._engine is not None:
            screen = self.screen
            self.bridge = self.make_bridge(self._engine, screen)
            if isinstance(screen, LaneScreen):
                screen.bridge = self.bridge
            self.bridge.start()
            if self._work:
                self.bridge.start_runner()
        if not self.is_headless:
            self._handle_signals()

    def make_bridge(self, engine: Engine, screen: Screen[Any]) -> Bridge:
        """What connects the screen to the engine."""
        return Bridge(
            self.run_dir,
            engine,
            screen.post_message,
            # Half a second where nothing else was asked for.
            poll_seconds=self.settings.refresh_seconds / 2,
        )

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number, end in ((signal.SIGTERM, self.end_by_signal), (signal.SIGHUP, self.hand_over_by_signal)):
            try:
                loop.add_signal_handler(number, end)
            except (NotImplementedError, RuntimeError, ValueError):
                return

    def end_by_signal(self) -> None:
        """Stop the runner that lives here and leave."""
        self._leave_after("stop")

    def hand_over_by_signal(self) -> None:
        """The terminal is gone: leave the running call to the next runner."""
        self._leave_after("let go")

    def _leave_after(self, how: Ending) -> None:
        if self.bridge is None or not self.bridge.busy:
            self.exit(130, return_code=130)
            return
        self.bridge.end_runner(how, lambda _ended, _text: self.call_from_thread(self.exit, 130, 130))

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """What the palette offers beside the commands: only the choice of colours."""
        return (command for command in super().get_system_commands(screen) if command.title == "Theme")

    async def action_quit(self) -> None:
        """Leave as ``q`` does, whoever asks."""
        if isinstance(self.screen, LaneScreen):
            self.screen.action_quit()

    def action_explain_quit(self) -> None:
        """Say how to leave; never leaves by surprise."""
        self.notify("q quits", timeout=3, markup=False)

    def leave(self, text: str | None = None) -> None:
        """Close the console; ``text`` is printed once the terminal is back."""
        self.farewell = text
        self.exit(0, message=Text(clean(text)) if text else None)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        if (self.still or not self.settings.motion) and isinstance(event.widget, Input | TextArea):
            event.widget.cursor_blink = False

    def _keep_theme(self, theme: Theme) -> None:
        """Say how a theme that was chosen in the palette becomes the one to start with."""
        text = f'theme = "{theme.name}" in {config_path()} keeps it'
        self.notify(clean(text), timeout=8, markup=False)

    def _tell_problems(self) -> None:
        """Say what of the operator's file could not be used."""
        problems = self.settings_problems
        for problem in problems[:MOST_TOLD]:
            self.notify(clean(problem), severity="warning", timeout=15, markup=False)
        if len(problems) > MOST_TOLD:
            more = f"{len(problems) - MOST_TOLD} more: meshtui config check"
            self.notify(more, severity="warning", timeout=15, markup=False)

    async def on_unmount(self) -> None:
        if self.bridge is not None:
            await asyncio.to_thread(self.bridge.close)
