"""What is done with whole lanes from their table: start and stop runners, pause, interrupt, copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meshtui import command_lines, receipts, undo
from meshtui.commands import Situation
from meshtui.core.fleet import LaneSummary
from meshtui.receipts import Said, count, names
from meshtui.screens.needs import NeedsScreen
from meshtui.text import clean, number
from meshtui.widgets.fleet import FleetTable

if TYPE_CHECKING:
    from meshtui.bridge import Engine
    from meshtui.command_lines import Line


class FleetActing(NeedsScreen):
    """Mixed into the fleet's screen."""

    if TYPE_CHECKING:

        @property
        def table(self) -> FleetTable: ...

        @property
        def situation(self) -> Situation: ...

    @property
    def chosen(self) -> tuple[LaneSummary, ...]:
        """The marked lanes, else the selected one; none while the inbox is looked at."""
        table = self.table
        if self.listing is not table:
            return ()
        return table.marked or ((table.selected,) if table.selected is not None else ())

    @property
    def _lanes(self) -> tuple[LaneSummary, ...]:
        """Those of them that something can be done with."""
        return tuple(lane for lane in self.chosen if lane.exists and lane.problem is None)

    def lane_labels(self) -> dict[str, str]:
        """The words of the key bar, by action."""
        lanes = self._lanes
        labels = {
            "runner": "stop runner" if any(map(self._works, lanes)) else "start runner",
            "pause": "continue" if lanes and all(lane.state == "paused" for lane in lanes) else "pause",
            "interrupt": "interrupt",
        }
        if self.table.marks and lanes:
            labels = {action: f"{label} {number(len(lanes))}" for action, label in labels.items()}
        return labels

    def _works(self, lane: LaneSummary) -> bool:
        return lane.runner.alive or self._here(lane)

    def _here(self, lane: LaneSummary) -> bool:
        """Whether a runner of the lane lives in this console."""
        return any(
            bridge.runner_alive and bridge.run_dir.root == lane.run_dir for bridge in self._doer.bridges.busy
        )

    def _hidden_lanes(self) -> str:
        hidden = self.table.hidden_marks
        if not hidden:
            return ""
        return f" {count(hidden, 'marked lane')} {'is' if hidden == 1 else 'are'} hidden by the filter."

    # Runners

    def action_runner(self) -> None:
        if self._refused("runner"):
            return
        lanes = self._lanes
        works = [lane for lane in lanes if self._works(lane)]
        if works:
            self._ask_to_stop(works, rest=len(lanes) - len(works))
        elif len(lanes) == 1:
            self._start(lanes)
        else:
            self.ask(
                f"Start {count(len(lanes), 'runner')}?",
                f"{_called(lanes)}: a runner in this console works each of them.{self._hidden_lanes()}",
                f"Start {len(lanes):,}",
                lambda: self._start(lanes),
                command=_commands("lane --detach", lanes),
            )

    def _start(self, lanes: Sequence[LaneSummary]) -> None:
        for lane in lanes:
            bridge = self._doer.bridge_to(lane.run_dir)
            if bridge is not None:
                bridge.start_runner()
        self.tell(f"Starting {count(len(lanes), 'runner')} in this console: {_called(lanes)}")

    def _ask_to_stop(self, lanes: Sequence[LaneSummary], *, rest: int) -> None:
        active = [f"{lane.name}: {lane.active.title}" for lane in lanes if lane.active is not None]
        parts = []
        if active:
            where = "its queue" if len(active) == 1 else "their queues"
            work = "this attempt" if len(active) == 1 else "these attempts"
            parts.append(
                f"Ended and put back at the head of {where}, the work of {work} is lost: {names(active)}."
            )
        calm = [lane for lane in lanes if lane.active is None]
        if calm:
            parts.append(f"Nothing is running in {_called(calm)}.")
        if rest:
            parts.append(f"{count(rest, 'other lane')} marked {'has' if rest == 1 else 'have'} no runner.")
        title = f"Stop the runner of {lanes[0].name}?" if len(lanes) == 1 else f"Stop {len(lanes)} runners?"
        self.ask(
            title,
            f"{' '.join(parts)}{self._hidden_lanes()}",
            "Stop" if len(lanes) == 1 else f"Stop {len(lanes):,}",
            lambda: self._stop(lanes),
            command=_commands("stop", lanes),
        )

    def _stop(self, lanes: Sequence[LaneSummary]) -> None:
        elsewhere: dict[Path, Callable[[Engine], Any]] = {}
        for lane in lanes:
            bridge = self._doer.bridge_to(lane.run_dir)
            if bridge is not None and bridge.runner_alive:
                bridge.stop_runner()
            else:
                elsewhere[lane.run_dir] = lambda engine: engine.operations().stop()
        if elsewhere:
            self.operate_each(
                elsewhere,
                _stopped,
                undo=lambda _: undo.final("the stop of the runner", "s starts one again"),
            )

    # What waits

    def action_pause(self) -> None:
        if self._refused("pause"):
            return
        lanes = self._lanes
        goes_on = all(lane.state == "paused" for lane in lanes)
        which = lanes if goes_on else [lane for lane in lanes if lane.state != "paused"]

        def told(found: Mapping[str, Any]) -> Said:
            if goes_on:
                return f"{names(list(found))} {_verb(found, 'continues', 'continue')}", "information"
            what = "the active phase ends, nothing more is claimed; P continues"
            return f"Paused: {names(list(found))}; {what}", "information"

        def work(engine: Engine) -> Any:
            lane = engine.operations()
            return lane.resume() if goes_on else lane.pause()

        self.operate_each({lane.run_dir: work for lane in which}, told, undo=undo.of_pause)

    def action_interrupt(self) -> None:
        if self._refused("interrupt"):
            return
        lanes = [lane for lane in self._lanes if lane.pending]
        many = sum(lane.pending for lane in lanes)
        running = [f"{lane.name}: {lane.active.title}" for lane in lanes if lane.active is not None]
        goes_on = f" What runs goes on: {names(running)}." if running else ""
        where = lanes[0].name if len(lanes) == 1 else count(len(lanes), "lane")
        each = "" if len(lanes) == 1 else f" ({names([f'{lane.name} {lane.pending:,}' for lane in lanes])})"

        def told(found: Mapping[str, Any]) -> Said:
            taken = [name for one in found.values() for name in one.withdrawn]
            late = [name for one in found.values() for name in one.already_picked_up]
            text = f"Withdrawn in {names(list(found))}: {count(len(taken), 'envelope')}"
            return f"{text}; already running: {names(late)}" if late else text, "information"

        self.ask(
            f"Interrupt {where}?",
            f"{count(many, 'pending envelope')}{each} will be withdrawn and not run.{goes_on}{self._hidden_lanes()} u undoes it.",
            "Withdraw all",
            lambda: self.operate_each(
                {lane.run_dir: _interrupt for lane in lanes},
                told,
                undo=lambda receipt: undo.of_withdrawal(receipt.withdrawn),
            ),
            command=_commands("interrupt", lanes),
        )

    # Copied

    def copyable(self) -> tuple[str, list[Line]]:
        lanes = self.chosen
        if not lanes:
            return super().copyable()
        places = "\n".join(str(lane.run_dir) for lane in lanes)
        options = [word for lane in lanes for word in ("--run-dir", str(lane.run_dir))]
        lines = [
            ("folder" if len(lanes) == 1 else "folders", places),
            ("console", command_lines.of_words(*options)),
            ("status", _commands("status", lanes)),
        ]
        usable = self._lanes
        if usable:
            lines += [
                (label, _commands(verb, usable))
                for label, verb in (
                    ("runner", "lane --detach"),
                    ("stop", "stop"),
                    ("pause", "pause"),
                    ("continue", "continue"),
                    ("interrupt", "interrupt"),
                )
            ]
        return clean(lanes[0].name) if len(lanes) == 1 else f"{len(lanes)} lanes", lines


def _interrupt(engine: Engine) -> Any:
    return engine.operations().interrupt()


def _called(lanes: Sequence[LaneSummary]) -> str:
    return names([lane.name for lane in lanes])


def _commands(verb: str, lanes: Sequence[LaneSummary]) -> str:
    """One command a lane, in one line."""
    return "; ".join(command_lines.on_lane(verb, lane.run_dir) for lane in lanes)


def _verb(found: Mapping[str, Any], one: str, more: str) -> str:
    return one if len(found) == 1 else more


def _stopped(found: Mapping[str, Any]) -> Said:
    if len(found) == 1:
        return receipts.stopped(next(iter(found.values())))
    back = [one.envelope_id for one in found.values() if one.envelope_id]
    left = [str(name) for one in found.values() for name in one.survivors]
    calm = [lane for lane, one in found.items() if not one.stopped]
    text = f"Ended: {count(len(found) - len(calm), 'runner')} ({names([n for n in found if n not in calm])})"
    if back:
        text += f"; back in the queue: {names(back)}"
    if calm:
        text += f"; no runner was alive in {names(calm)}"
    if left:
        return f"{text}; SURVIVED: {names(left)}", "error"
    return f"{text}; no survivors", "information"
