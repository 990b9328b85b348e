"""Leaving a console in which runners live: asked first, ended or handed over, then away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from meshtui.bridge import Ending
from meshtui.text import clean

if TYPE_CHECKING:
    from textual.app import App

    from meshtui.bridges import Bridges

    _Base = App[int]
else:
    _Base = object


class Leaves(_Base):
    """Mixed into the app."""

    bridges: Bridges
    farewell: str | None
    """What to say once the terminal is back."""

    def active_titles(self) -> dict[str, str]:
        """What runs now, by the name of its run directory's path."""
        raise NotImplementedError

    def leave(self, text: str | None = None) -> None:
        """Close the console; ``text`` is printed once the terminal is back."""
        self.farewell = text
        self.exit(0, message=Text(clean(text)) if text else None)

    def ask_to_leave(self) -> None:
        """Leave as ``q`` does: at once, or after asking what becomes of the runners here."""
        busy = self.bridges.busy
        if not busy:
            self.leave()
            return
        from meshtui.screens.leave import Leave, Leaving

        def decided(how: str | None) -> None:
            if how in ("stop", "hand over"):
                ending: Ending = "stop" if how == "stop" else "hand over"
                self.push_screen(Leaving(ending))
                self.bridges.end_all(
                    ending, lambda ended, text: self.call_from_thread(self._left, ended, text)
                )

        runners = [bridge for bridge in busy if bridge.runner_alive]
        missions = tuple(name for bridge in busy for name in bridge.missions_alive)
        titles = self.active_titles()
        active = [titles[str(one.run_dir.root)] for one in runners if str(one.run_dir.root) in titles]
        self.push_screen(Leave(tuple(active), len(runners), missions), decided)

    def _left(self, ended: bool, text: str) -> None:
        if ended:
            self.leave(text)
        else:
            self.pop_screen()
            self.notify(clean(text), severity="error", timeout=8, markup=False)

    def leave_after(self, how: Ending) -> None:
        """End what runs here, and leave as after a signal."""
        if not self.bridges.busy:
            self.exit(130, return_code=130)
            return

        def finished(_ended: bool, _text: str) -> Any:
            return self.call_from_thread(self.exit, 130, 130)

        self.bridges.end_all(how, finished)
