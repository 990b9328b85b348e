"""The console: one app around the screen of a lane, or of a fleet of them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import events
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.filter import LineFilter
from textual.message import Message
from textual.screen import Screen
from textual.theme import Theme

from meshtui.bridge import Bridge, Engine, Severity
from meshtui.bridges import Bridges
from meshtui.commands import LaneCommands, key_of
from meshtui.core.clock import Clock, SystemClock
from meshtui.core.fleet import FleetView, Need, need_rank
from meshtui.core.run_dir import RunDir
from meshtui.core.view import Attention, LaneView
from meshtui.keymap import display, keymap, use
from meshtui.keys_in_turn import KeysInTurn
from meshtui.leaving import Leaves
from meshtui.messages import Did, FleetChanged, Told
from meshtui.notify import Announcer, title_of_fleet, title_of_lane
from meshtui.screens.lane import LaneScreen
from meshtui.settings import Settings, config_path
from meshtui.text import clean
from meshtui.theme import STYLES, THEMES, AsciiSigns, encoding_of_terminal, fallbacks, theme_for
from meshtui.undo import Steps

if TYPE_CHECKING:
    from meshtui.core.mesh.view import MissionView
    from meshtui.fleet import Fleet, Follower

MOST_TOLD = 3
"""How many problems of the operator's file are shown at once."""


class MeshtuiApp(KeysInTurn, Leaves, App[int], inherit_bindings=False):
    """Shows one lane or several, followed live, or still as a picture where there is no engine."""

    CSS_PATH: ClassVar[list[str | PurePath]] = [STYLES / "base.tcss", STYLES / "lane.tcss"]
    TITLE = "meshtui"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (70, "-medium"), (100, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (8, "-low"), (16, "-normal"), (20, "-high"), (34, "-tall")]  # noqa: RUF012
    COMMANDS = {LaneCommands} | App.COMMANDS
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "explain_quit", show=False, priority=True, id="app.ctrl_q"),
        Binding("ctrl+c", "explain_quit", show=False, system=True, id="app.ctrl_c"),
        # A field takes every letter: what can be asked for in a form needs a key that is none.
        Binding("f1", "keys_here", show=False, priority=True, id="app.keys_here"),
    ]

    def __init__(
        self,
        run_dir: RunDir,
        *,
        engine: Engine | None = None,
        view: LaneView | None = None,
        fleet: Fleet | None = None,
        fleet_view: FleetView | None = None,
        clock: Clock | None = None,
        read_only: bool = False,
        work: bool = False,
        still: bool = False,
        settings: Settings = Settings(),  # noqa: B008
        settings_problems: Sequence[str] = (),
        driver_class: type[Driver] | None = None,
    ) -> None:
        several = fleet is not None or fleet_view is not None
        styles = [*self.CSS_PATH, STYLES / "fleet.tcss"] if several else None
        super().__init__(driver_class=driver_class, css_path=styles)
        self.settings = settings
        self.settings_problems = tuple(settings_problems)
        """What of the operator's file could not be used; told once the console is there."""
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.run_dir = run_dir
        self._signs = [AsciiSigns(encoding_of_terminal())] if settings.glyphs == "ascii" else []
        if not settings.motion:
            self.animation_level = "none"
        self._engine = engine
        self._fleet = fleet
        self._fleet_view = fleet_view
        self._follower: Follower | None = None
        self.read_only = read_only
        self._work = work
        self.still = still
        """Whether this is a picture: nothing moves, blinks or ticks."""
        self._view = view
        self.farewell: str | None = None
        self.needs: tuple[Need, ...] = ()
        """What needs somebody, in every lane shown."""
        self.bridges = Bridges(
            self._engine_of,
            self._post_of,
            self._nudge,
            # Half a second where nothing else was asked for.
            poll_seconds=settings.refresh_seconds / 2,
        )
        self._announcer: Announcer | None = None
        self.steps = Steps()
        """What was done from this console, for ``u``."""

    @property
    def fleet_view(self) -> FleetView | None:
        """All lanes as they were seen last; ``None`` where one is shown."""
        return self._fleet_view

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return fallbacks(self.current_theme)

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), *self._signs]

    def get_key_display(self, binding: Binding) -> str:
        return display(binding.key)

    @property
    def is_fleet(self) -> bool:
        """Whether several lanes are shown."""
        return self._fleet is not None or self._fleet_view is not None

    def get_default_screen(self) -> Screen[Any]:
        if self.is_fleet:
            from meshtui.screens.fleet import FleetScreen

            return FleetScreen(self._fleet_view)
        return LaneScreen(self._view, read_only=self.read_only)

    def on_load(self) -> None:
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = theme_for(self.settings.theme, self.settings.contrast)
        use(self.settings.keys)
        self.set_keymap(keymap(self.settings.keys))

    def on_mount(self) -> None:
        self.theme_changed_signal.subscribe(self, self._keep_theme)
        self.call_after_refresh(self._tell_problems)
        if not self.still:
            self._announce()
        if self._fleet is not None:
            screen = self.screen
            self._follower = self._fleet.follow(lambda view: self._hand_on(screen, view))
            self._follower.start()
        elif self._engine is not None and isinstance(self.screen, LaneScreen):
            bridge = self.bridges.of(self.run_dir.root)
            bridge.talk_to(self.screen.post_message)
            self.screen.bridge = bridge
            bridge.start()
            if self._work:
                bridge.start_runner()
        if not self.is_headless:
            self._handle_signals()

    def get_driver_class(self) -> type[Driver]:
        chosen = super().get_driver_class()
        if chosen.__name__ != "LinuxDriver":
            return chosen
        from meshtui.terminal import TerminalDriver

        return TerminalDriver

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number, end in ((signal.SIGTERM, self.end_by_signal), (signal.SIGHUP, self.hand_over_by_signal)):
            try:
                loop.add_signal_handler(number, end)
            except (NotImplementedError, RuntimeError, ValueError):
                return

    def end_by_signal(self) -> None:
        """Stop the runner that lives here and leave."""
        self.leave_after("stop")

    def hand_over_by_signal(self) -> None:
        """The terminal is gone: leave the running call to the next runner."""
        self.leave_after("let go")

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """What the palette offers beside the commands: only the choice of colours."""
        return (command for command in super().get_system_commands(screen) if command.title == "Theme")

    async def action_quit(self) -> None:
        """Leave as ``q`` does, whoever asks."""
        self.ask_to_leave()

    def action_explain_quit(self) -> None:
        """Say how to leave; never leaves by surprise."""
        self.notify(f"{key_of('quit')} quits", timeout=3, markup=False)

    def action_command_palette(self) -> None:
        """Open the palette, which says what can be looked for."""
        from textual.command import CommandPalette

        if not CommandPalette.is_open(cast("App[object]", self)):
            text = "an action, or the name of an envelope, a loop, a file"
            self.push_screen(CommandPalette(placeholder=text, id="--command-palette"))

    async def action_keys_here(self) -> None:
        """Show the keys of what is open: of a dialog or form its own, else the help."""
        from meshtui.screens.help import Help
        from meshtui.screens.keys_here import KeysHere, lines_of

        screen = self.screen
        if isinstance(screen, (Help, KeysHere)):
            screen.dismiss()
        elif hasattr(screen, "situation"):
            await screen.run_action("help")
        elif lines := lines_of(screen):
            self.push_screen(KeysHere(lines))

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        # What can be typed into; named by what it has, since the first frame has no text area to import.
        if (self.still or not self.settings.motion) and hasattr(event.widget, "cursor_blink"):
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

    # Several lanes

    def _engine_of(self, run_dir: RunDir) -> Engine:
        if self._fleet is not None:
            return self._fleet.engine(run_dir)
        assert self._engine is not None
        return self._engine

    def _post_of(self, root: Path) -> Callable[[Message], object]:
        """Who hears of a run directory that no screen of its own shows: the first screen, of what is told."""
        base = self.screen_stack[0]

        def post(message: Message) -> None:
            if isinstance(message, Told) and self.is_fleet:
                base.post_message(Told(f"{self.name_of(root)}: {message.text}", message.severity))

        return post if self.is_fleet else base.post_message

    def name_of(self, root: Path) -> str:
        """What to call a run directory."""
        lanes = self._fleet_view.lanes if self._fleet_view is not None else ()
        return next((lane.name for lane in lanes if lane.run_dir == root), root.name)

    def tell(self, text: str, severity: Severity = "information") -> None:
        """Have the first screen show a receipt or a problem; may be called from any thread."""
        self.screen_stack[0].post_message(Told(text, severity))

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: Severity = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        # A key that is pressed again says the same again: once is enough, from then on.
        for shown in list(self._notifications):
            if (shown.message, shown.title, shown.severity) == (message, title, severity):
                self._unnotify(shown, refresh=False)
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    def on_did(self, message: Did) -> None:
        self.steps.add(message.steps)
        for screen in self.screen_stack:
            draw_keys = getattr(screen, "draw_keys", None)
            if draw_keys is not None:
                draw_keys()

    def _nudge(self, root: Path) -> None:
        if self._follower is not None:
            self._follower.nudge(root)

    def _hand_on(self, screen: Screen[Any], view: FleetView) -> None:
        try:
            screen.post_message(FleetChanged(view))
        except RuntimeError:
            # The loop ended between two looks: there is nobody left to tell.
            if self._follower is not None:
                self._follower.stop(0.0)

    def take_fleet(self, view: FleetView) -> None:
        """A newer view of all lanes is there."""
        self._fleet_view = view
        complete = [lane.run_dir for lane in view.lanes if lane.loaded]
        self._take_needs(view.needs, complete, title_of_fleet(view))

    def take_view(self, view: LaneView) -> None:
        """A newer view of the lane that is looked at is there."""
        self._view = view
        if self.is_fleet:
            return
        name = view.lane_id or view.run_dir.name
        needs = sorted((Need(name, view.run_dir, item) for item in view.attention), key=need_rank)
        self._take_needs(tuple(needs), [view.run_dir] if view.complete else [], title_of_lane(view))

    def _take_needs(self, needs: tuple[Need, ...], complete: Sequence[Path], title: str) -> None:
        self.needs = needs
        if self._announcer is not None:
            self._announcer.take(needs, complete, title)
        for screen in self.screen_stack:
            take = getattr(screen, "take_needs", None)
            if take is not None:
                take(needs, lanes=self.is_fleet)

    def bridge_to(self, root: Path) -> Bridge | None:
        """The bridge to a run directory; ``None`` in a picture."""
        return self.bridges.of(root) if self._fleet is not None or self._engine is not None else None

    def missions_in(self, root: Path) -> tuple[MissionView, ...]:
        """The missions of a run directory, as they were seen last."""
        for lane in self._fleet_view.lanes if self._fleet_view is not None else ():
            if lane.run_dir == root:
                return lane.missions
        return self._view.missions if self._view is not None and self._view.run_dir == root else ()

    def active_titles(self) -> dict[str, str]:
        lanes = self._fleet_view.lanes if self._fleet_view is not None else ()
        titles = {str(lane.run_dir): lane.active.title for lane in lanes if lane.active is not None}
        view = self._view
        if view is not None and view.active:
            titles[str(view.run_dir)] = view.active[0].title
        return titles

    def open_inbox(self) -> None:
        """Show everything that needs somebody, whatever is open."""
        from meshtui.screens.inbox import InboxScreen

        if not isinstance(self.screen, InboxScreen):
            base = self.screen
            need = getattr(base, "need", None)
            self.push_screen(
                InboxScreen(
                    self.needs, lanes=self.is_fleet, select=need.key if isinstance(need, Need) else None
                )
            )

    def open_lane(self, root: Path, *, key: str | None = None, log: Attention | None = None) -> None:
        """Show one lane with everything that can be done there; ``key`` selects a record of it."""
        from meshtui.screens.inbox import InboxScreen

        if isinstance(self.screen, InboxScreen):
            self.pop_screen()
        shown = self.screen
        if isinstance(shown, LaneScreen) and (not self.is_fleet or shown.run_dir == root):
            lane = shown
        else:
            if isinstance(shown, LaneScreen):
                self.close_lane()
            lane = self._push_lane(root)
        lane.go_to(key, log)

    def _push_lane(self, root: Path) -> LaneScreen:
        self._view = None
        screen = LaneScreen(read_only=self.read_only, run_dir=root, of_fleet=True)
        bridge = self.bridge_to(root)
        if bridge is not None:
            screen.bridge = bridge
            screen.runner_here = bridge.runner_alive
            screen.missions_here = bridge.missions_alive
        if self._follower is not None:
            self._follower.away = True
        self.push_screen(screen)
        if bridge is not None:
            # Only a screen that the app knows can be posted to from a thread.
            bridge.talk_to(screen.post_message)
            bridge.start()
        return screen

    def close_lane(self) -> None:
        """Back to the fleet, from whatever is open over it."""
        while len(self.screen_stack) > 1:
            screen = self.screen
            self.pop_screen()
            if isinstance(screen, LaneScreen) and screen.run_dir is not None:
                self.bridges.rest(screen.run_dir)
        self._view = None
        if self._follower is not None:
            self._follower.away = False
            self._follower.nudge()

    # Somebody who looks elsewhere

    def _announce(self) -> None:
        settings = self.settings
        driver = None if self.is_headless or os.environ.get("TERM") == "linux" else self._driver
        self._announcer = Announcer(
            began_at=self.clock.now_ms(),
            write=driver.write if driver is not None and settings.title else None,
            ring=self.bell if settings.bell else None,
            command=settings.notify_command,
            problem=self._tell_problem,
        )

    def _tell_problem(self, text: str) -> None:
        """Show a problem; may be called from any thread."""
        try:
            self.call_from_thread(self.notify, clean(text), severity="warning", timeout=15, markup=False)
        except RuntimeError:
            # The console ends: nobody sees it any more.
            return

    async def on_unmount(self) -> None:
        if self._announcer is not None:
            self._announcer.close()
        await asyncio.to_thread(self._end_threads)

    def _end_threads(self) -> None:
        if self._follower is not None:
            self._follower.stop(0.0)
        self.bridges.close()
        if self._follower is not None:
            self._follower.stop()
        if self._announcer is not None:
            self._announcer.stop()
