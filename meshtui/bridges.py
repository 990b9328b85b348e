"""The bridges of a console: one a run directory that is looked at, or where something was done or runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from textual.message import Message

from meshtui.bridge import Bridge, Ending, Engine
from meshtui.core.run_dir import RunDir
from meshtui.core.watch import POLL_SECONDS

Post = Callable[[Message], object]


class MakeBridge(Protocol):
    """Makes the bridge to a run directory."""

    def __call__(self, run_dir: RunDir, engine: Engine, post: Post, *, poll_seconds: float) -> Bridge: ...


class Bridges:
    """Makes a bridge when it is asked for, and keeps it as long as anything of it is alive.

    ``engine_of`` makes the engine of a run directory, ``post_of`` says who hears of one that is not looked
    at, and ``done`` is called from any thread after something was done to one.
    """

    def __init__(
        self,
        engine_of: Callable[[RunDir], Engine],
        post_of: Callable[[Path], Post],
        done: Callable[[Path], object] = lambda path: None,
        *,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._engine_of = engine_of
        self._post_of = post_of
        self._done = done
        self._poll_seconds = poll_seconds
        self._bridges: dict[Path, Bridge] = {}
        self.make: MakeBridge = Bridge
        """What makes one."""

    def of(self, root: Path) -> Bridge:
        """The bridge to the run directory ``root``."""
        bridge = self._bridges.get(root)
        if bridge is None:
            self._forget_idle()
            run_dir = RunDir(root)
            bridge = self._bridges[root] = self.make(
                run_dir, self._engine_of(run_dir), self._post_of(root), poll_seconds=self._poll_seconds
            )
            bridge.on_done = lambda: self._done(root)
        return bridge

    def operate_each(
        self, works: Mapping[Path, Callable[[Engine], Any]], finished: Callable[[Mapping[Path, Any]], object]
    ) -> None:
        """Do each of ``works`` at its run directory, all at the same time.

        ``finished`` is called once, from a thread, with what each gave, or the error it ended with.
        """
        found: dict[Path, Any] = {}
        lock = threading.Lock()

        def take(root: Path, one: Any) -> None:
            with lock:
                found[root] = one
                through = len(found) == len(works)
            if through:
                finished({root: found[root] for root in works})

        for root, work in works.items():
            self.of(root).gather(work, partial(take, root))

    def rest(self, root: Path) -> None:
        """Look at ``root`` no more; what runs there goes on, and its end is told."""
        bridge = self._bridges.get(root)
        if bridge is not None:
            bridge.talk_to(self._post_of(root))
            bridge.rest()

    def _forget_idle(self) -> None:
        """Let go of bridges that nobody looks through and nothing runs behind."""
        for root, bridge in list(self._bridges.items()):
            if not (bridge.following or bridge.busy or bridge.operating):
                del self._bridges[root]
                bridge.close(0.0)

    @property
    def busy(self) -> tuple[Bridge, ...]:
        """Those behind which something runs that leaving would end."""
        return tuple(bridge for bridge in self._bridges.values() if bridge.busy)

    def end_all(self, how: Ending, finished: Callable[[bool, str], object]) -> None:
        """End every runner here and call ``finished(whether they ended, what to say)`` from a thread."""
        bridges = self.busy
        several = len(bridges) > 1

        def end(bridge: Bridge, into: dict[Path, tuple[bool, str]]) -> None:
            try:
                into[bridge.run_dir.root] = bridge.end(how)
            except Exception as error:  # noqa: BLE001 - shown by who asked
                into[bridge.run_dir.root] = (False, str(error))

        def run() -> None:
            said: dict[Path, tuple[bool, str]] = {}
            threads = [threading.Thread(target=end, args=(bridge, said), daemon=True) for bridge in bridges]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            texts = [f"{root.name}: {text}" if several else text for root, (_, text) in said.items()]
            finished(all(ended for ended, _ in said.values()), " ".join(texts))

        threading.Thread(target=run, name="meshtui-ending", daemon=True).start()

    def close(self, timeout: float = 3.0) -> bool:
        """End every thread; whether all ended within ``timeout`` seconds."""
        until = time.monotonic() + timeout
        # Told at once, then waited for one by one.
        for bridge in self._bridges.values():
            bridge.rest()
        ended = [bridge.close(max(0.1, until - time.monotonic())) for bridge in self._bridges.values()]
        return all(ended)
