"""Taking a way out of what needs somebody: the same in a lane, in the inbox and in the fleet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from meshtui import receipts, undo
from meshtui.bridge import Bridge
from meshtui.commands import key_of
from meshtui.core.view import Attention, Exit
from meshtui.receipts import count
from meshtui.screens.doing import Doing
from meshtui.steady import Steady
from meshtui.text import clean
from meshtui.widgets.attention import exit_by_number
from meshtui.widgets.paint import now_of

if TYPE_CHECKING:
    from typing import Literal

    from meshtui.core.mesh.view import LoopRow, MissionView


class ExitTaking(Doing):
    """Mixed into screens where number keys take ways out.

    Where an item stands decides which bridge acts: a lane's screen has one, an inbox one for each lane.
    """

    @property
    def looks_only(self) -> bool:
        """Whether nothing may be done here."""
        raise NotImplementedError

    def bridge_to(self, item: Attention) -> Bridge | None:
        """The bridge to the run directory of ``item``."""
        raise NotImplementedError

    def missions_at(self, item: Attention) -> tuple[MissionView, ...]:
        """The missions of the run directory of ``item``."""
        raise NotImplementedError

    def where_is(self, item: Attention) -> str:
        """The lane of ``item`` as a question names it; nothing where there is only one."""
        return ""

    def show_log(self, item: Attention) -> None:
        """Show what ``item`` wrote."""
        raise NotImplementedError

    def name_of(self, item: Attention) -> str:
        """The envelope that an operation is given."""
        return item.envelope_id or item.subject

    # Number keys

    def take_by_number(self, item: Attention | None, number: int, steady: Steady) -> None:
        """Take the ``number``-th way out of ``item``; asks first if it came under the selection just now."""
        if item is None:
            self.tell("Nothing needs you", "information")
            return
        way = exit_by_number(item, number)
        if way is None:
            self.tell(f"{item.subject} has {count(len(item.exits), 'exit')}", "warning")
            return
        if steady.in_doubt(now_of(self)):
            where = self.where_is(item)
            self.ask(
                f"{way.label}: {item.subject}?",
                f"The list changed just now, and this came under the selection{f' ({where})' if where else ''}: "
                f"{item.kind}, {item.text}.",
                way.label,
                lambda: self.take_exit(item, way),
                command=way.command,
            )
            return
        self.take_exit(item, way)

    def ask(
        self, question: str, loss: str, yes: str, then: Callable[[], None], *, command: str | None = None
    ) -> None:
        """Ask before something is lost; "no" is selected."""
        from meshtui.screens.confirm import Confirm

        def answered(answer: str | None) -> None:
            if answer == "yes":
                then()

        self.app.push_screen(Confirm(question, loss, clean(yes), command=command), answered)

    def take_exit(self, item: Attention, way: Exit) -> None:
        """Take one way out."""
        if way.action == "log":
            self.show_log(item)
            return
        bridge = self.bridge_to(item)
        if self.looks_only or bridge is None:
            self.tell("This console is read-only", "warning")
        elif way.action in ("resume", "approve", "reject", "kill"):
            self._take_mission_exit(bridge, item, way)
        else:
            self._take_lane_exit(bridge, item, way)

    def _take_lane_exit(self, bridge: Bridge, item: Attention, way: Exit) -> None:
        name = self.name_of(item)
        if way.action == "retry":
            seconds = seconds_in(way.command)
            self.operate_at(
                bridge,
                lambda lane: lane.answer(name, "retry", deadline_seconds=seconds),
                receipts.answered,
                undo=lambda _: undo.of_answers([name], "retry"),
                command=way.command,
            )
        elif way.action == "drop":
            self.ask(
                f"Drop {item.subject}?",
                "It will not run again by itself and counts as failed: “dropped by operator”.",
                "Drop",
                lambda: self.operate_at(
                    bridge,
                    lambda lane: lane.answer(name, "drop"),
                    receipts.answered,
                    undo=lambda _: undo.of_answers([name], "drop"),
                ),
                command=way.command,
            )
        elif way.action == "requeue":
            self.operate_at(
                bridge,
                lambda lane: lane.requeue(name),
                receipts.requeued,
                undo=lambda receipt: undo.of_return([receipt.envelope_id], "the requeuing of"),
                command=way.command,
            )
        elif way.action == "withdraw":
            self.operate_at(
                bridge,
                lambda lane: lane.withdraw(name),
                receipts.withdrawn,
                undo=lambda receipt: undo.of_withdrawal([receipt.envelope_id]),
                command=way.command,
            )
        elif way.action in ("repair", "drop-file"):
            self.take_file(bridge, item, way)
        elif way.action == "run":
            self.tell("Starting a runner in this console")
            bridge.start_runner(take_over="--take-over" in way.command)

    def take_file(self, bridge: Bridge, item: Attention, way: Exit) -> None:
        """Repair or drop a quarantined file."""
        file = item.key or item.subject
        if way.action == "repair":
            self.operate_at(
                bridge,
                lambda lane: lane.quarantine_repair(file),
                receipts.repaired,
                undo=lambda receipt: undo.of_return([receipt.envelope_id], "the repair of"),
            )
            return
        self.ask(
            f"Drop {file}?",
            "What stands in quarantine leaves the lane for good and is only kept as a file under "
            "quarantine/.dropped.",
            "Drop",
            lambda: self.operate_at(
                bridge,
                lambda lane: lane.quarantine_drop(file),
                receipts.repaired,
                undo=lambda _: undo.of_file_drop([file]),
            ),
            command=way.command,
        )

    # Missions

    def _take_mission_exit(self, bridge: Bridge, item: Attention, way: Exit) -> None:
        mission, loop = behind(item, self.missions_at(item))
        if mission is None:
            self.tell(f"{item.subject} is not listed any more", "warning")
        elif way.action == "resume":
            if bridge.start_mission(mission.mission_id):
                self.tell(f"Mission {mission.mission_id} runs in this console")
        elif loop is not None and way.action == "kill":
            self.ask_kill(bridge, mission, loop, command=way.command)
        elif loop is not None:
            self.ask_verdict(bridge, mission, loop, "approve" if way.action == "approve" else "reject")

    def ask_kill(self, bridge: Bridge | None, mission: MissionView, loop: LoopRow, *, command: str) -> None:
        """Ask whether to end a loop, and do it."""
        if bridge is None:
            return
        after = [one.loop_id for one in mission.loops if loop.loop_id in one.dependencies and not one.ended]
        loss = "It has not started; it will not run."
        if loop.status == "running":
            loss = "Its calls and everything they started will be ended now; the work of this phase is lost, what was committed before is kept."
        if after:
            loss += f" {receipts.names(after)} cannot run without it."
        self.ask(
            f"Kill {loop.loop_id}?",
            f"{loss} {key_of('resume_mission')} resumes the mission later.",
            "Kill",
            lambda: self.operate_missions_at(
                bridge,
                lambda ops: ops.kill(mission, loop.loop_id),
                receipts.loops_killed,
                undo=undo.of_loops_killed([loop.loop_id]),
            ),
            command=command,
        )

    def ask_verdict(
        self,
        bridge: Bridge | None,
        mission: MissionView,
        loop: LoopRow,
        verdict: Literal["approve", "reject"] | None,
        *,
        written: str = "",
        note: str = "",
    ) -> None:
        """Ask for the reason, and give the verdict; what was ``written`` before is kept."""
        from meshtui.screens.verdict import Given, VerdictForm

        def decided(given: Given | None) -> None:
            if given is not None and bridge is not None:
                self.operate_missions_at(
                    bridge,
                    lambda ops: ops.answer(mission, loop.loop_id, given.verdict, given.reason),
                    receipts.verdict_given,
                    undo=undo.final(f"the verdict on {loop.loop_id}", "it is recorded with its reason"),
                    again=lambda why: self.ask_verdict(
                        bridge, mission, loop, given.verdict, written=given.reason, note=why
                    ),
                )

        form = VerdictForm(
            mission,
            loop,
            verdict,
            root=bridge.run_dir.root if bridge is not None else None,
            written=written,
            note=note,
        )
        self.app.push_screen(form, decided)


def behind(item: Attention, missions: tuple[MissionView, ...]) -> tuple[MissionView | None, LoopRow | None]:
    """The mission and the loop that an item is about."""
    for mission in missions:
        if item.key is None and mission.mission_id == item.subject:
            return mission, None
        for loop in mission.loops:
            if loop.key == item.key:
                return mission, loop
    return None, None


def seconds_in(command: str) -> float | None:
    """The deadline that an exit's command line names."""
    words = command.split()
    if "--deadline-seconds" not in words[:-1]:
        return None
    try:
        return float(words[words.index("--deadline-seconds") + 1])
    except ValueError:
        return None
