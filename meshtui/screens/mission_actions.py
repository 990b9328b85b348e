"""What the keys do with missions and loops: ask where something would be lost, then hand it to the bridge."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

from meshtui import command_lines, receipts, undo
from meshtui.bridge import Bridge
from meshtui.commands import Situation, key_of
from meshtui.core.lane.ways import way_out
from meshtui.core.view import LaneView
from meshtui.messages import Planned, Refused, Verified, WouldLose
from meshtui.missions import KillResult
from meshtui.receipts import count
from meshtui.screens.doing import Doing
from meshtui.widgets.loops import Heading

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from meshtui.core.mesh.view import LoopRow, MissionView
    from meshtui.core.prune import Prunable
    from meshtui.core.vcs.merge import Discard
    from meshtui.missions import MissionOperations, PlanWish
    from meshtui.widgets.loop_detail import LoopPane
    from meshtui.widgets.loops import LoopTable


class MissionActions(Doing):
    """Mixed into the lane's screen."""

    view: LaneView | None
    bridge: Bridge | None
    missions_here: tuple[str, ...]

    if TYPE_CHECKING:

        @property
        def situation(self) -> Situation: ...

        @property
        def loop_pane(self) -> LoopPane | None: ...

        def tell(self, text: str, severity: str = "information") -> None: ...

        def show_key(self, key: str | None) -> bool: ...

        def open_details(self) -> None: ...

        def _refused(self, action: str) -> bool: ...

        def ask_verdict(
            self,
            bridge: Bridge | None,
            mission: MissionView,
            loop: LoopRow,
            verdict: Literal["approve", "reject"] | None,
        ) -> None: ...

        def ask_kill(
            self, bridge: Bridge | None, mission: MissionView, loop: LoopRow, *, command: str
        ) -> None: ...

        def _confirm(
            self, question: str, loss: str, yes: str, then: Callable[[], None], *, command: str | None = None
        ) -> None: ...

        @property
        def root(self) -> Path: ...

        @property
        def loop_table(self) -> LoopTable | None: ...

    # A loop, a mission

    def action_kill_loop(self) -> None:
        now = self.situation
        if self._refused("kill_loop") or now.loop is None or now.mission is None:
            return
        table = self.loop_table
        marked = [row for row in table.marked if not isinstance(row, Heading)] if table is not None else []
        if len(marked) > 1:
            self._kill_several(marked)
            return
        loop = marked[0] if marked else now.loop
        mission = next((one for one in self._missions if loop in one.loops), now.mission)
        command = way_out("kill", loop.loop_id, self.root, "--mission", mission.mission_id)
        self.ask_kill(self.bridge, mission, loop, command=command)

    @property
    def _missions(self) -> tuple[MissionView, ...]:
        return self.view.missions if self.view is not None else ()

    def _kill_several(self, loops: list[LoopRow]) -> None:
        """Ask about all that are marked; those that have ended are left as they are."""
        alive = [loop for loop in loops if not loop.ended]
        bridge, table = self.bridge, self.loop_table
        if not alive or bridge is None or table is None:
            self.tell(f"All {len(loops)} marked loops have ended already", "warning")
            return
        running = [loop.loop_id for loop in alive if loop.status == "running"]
        waiting = [loop.loop_id for loop in alive if loop.status != "running"]
        parts = []
        if running:
            phases = "its phase" if len(running) == 1 else "their phases"
            parts.append(f"{receipts.names(running)} will be ended now: the work of {phases} is lost.")
        if waiting:
            parts.append(f"{receipts.names(waiting)} will not start.")
        if len(alive) < len(loops):
            parts.append(f"{count(len(loops) - len(alive), 'marked loop')} ended already.")
        if table.hidden_marks:
            parts.append(f"{count(table.hidden_marks, 'marked one')} hidden by the filter.")
        targets = [
            (mission, loop.loop_id) for mission in self._missions for loop in alive if loop in mission.loops
        ]
        commands = [
            way_out("kill", loop_id, self.root, "--mission", mission.mission_id)
            for mission, loop_id in targets
        ]
        self._confirm(
            f"Kill {count(len(alive), 'loop')}?",
            f"{' '.join(parts)} What is complete is kept; {key_of('resume_mission')} resumes the mission later.",
            f"Kill {len(alive)}",
            lambda: self.operate_missions_at(
                bridge,
                lambda ops: kill_each(ops, targets),
                receipts.loops_killed,
                undo=undo.of_loops_killed([loop.loop_id for loop in alive]),
            ),
            command="; ".join(commands),
        )

    def action_kill_mission(self) -> None:
        now = self.situation
        if self._refused("kill_mission") or now.mission is None:
            return
        mission, bridge = now.mission, self.bridge
        running = [one.loop_id for one in mission.loops if one.status == "running"]
        waiting = [one for one in mission.loops if not one.ended and one.status != "running"]
        parts = []
        if running:
            phases = "its phase" if len(running) == 1 else "their phases"
            parts.append(f"{receipts.names(running)} will be ended now: the work of {phases} is lost.")
        if waiting:
            parts.append(f"{count(len(waiting), 'loop')} will not start.")
        parts.append(f"What is complete is kept; {key_of('resume_mission')} resumes the mission later.")
        if bridge is not None:
            self._confirm(
                f"Kill all loops of {mission.mission_id}?",
                " ".join(parts),
                "Kill all",
                lambda: self.operate_missions_at(
                    bridge,
                    lambda ops: ops.kill(mission, "all"),
                    receipts.loops_killed,
                    undo=undo.of_loops_killed([f"all loops of {mission.mission_id}"]),
                ),
                command=way_out("kill", "all", self.root, "--mission", mission.mission_id),
            )

    def action_resume_mission(self) -> None:
        mission = self.situation.mission
        if not self._refused("resume_mission") and mission is not None:
            self.run_mission(mission.mission_id)

    def run_mission(self, mission_id: str) -> None:
        """Run a mission behind this console."""
        if self.bridge is not None and self.bridge.start_mission(mission_id):
            command = way_out("resume", mission_id, self.root)
            self.tell(f"Mission {mission_id} runs in this console{receipts.WITH}{command}")

    def action_stop_mission(self) -> None:
        mission, bridge = self.situation.mission, self.bridge
        if self._refused("stop_mission") or mission is None or bridge is None:
            return
        if mission.mission_id in self.missions_here:
            self._confirm(
                f"Stop mission {mission.mission_id}?",
                "Its calls will be ended now: the work of the phases they are in is lost. "
                f"{key_of('resume_mission')} goes on from the last checkpoints.",
                "Stop",
                lambda: bridge.stop_mission(mission.mission_id),
            )
        elif mission.runner.alive:
            who = "another tool" if mission.runner.foreign else f"runner {mission.runner.pid}"
            self.tell(
                f"Mission {mission.mission_id} is run by {who}; {key_of('kill_mission')} kills its loops",
                "warning",
            )
        else:
            self.action_resume_mission()

    def action_land(self) -> None:
        mission, bridge = self.situation.mission, self.bridge
        if self._refused("land") or mission is None or bridge is None:
            return
        branch = (mission.graph_proof or {}).get("branch")
        self._confirm(
            f"Land {mission.mission_id}?",
            f"The target branch is fast-forwarded to {branch or 'the result'}; a checkout of it follows. Nothing is merged or overwritten: if the branch has moved or is not clean, it is left alone.",
            "Land",
            lambda: self.operate_missions_at(
                bridge,
                lambda ops: ops.land(mission),
                receipts.landed,
                undo=undo.final(f"the landing of {mission.mission_id}", "git moves branches back, not this"),
            ),
            command=way_out("land", mission.mission_id, self.root),
        )

    # What is over

    def action_discard(self) -> None:
        mission, bridge = self.situation.mission, self.bridge
        if self._refused("discard") or mission is None or bridge is None:
            return

        def ask(found: Discard) -> WouldLose:
            question, loss = receipts.would_discard(mission.mission_id, found)
            work = partial(
                self.operate_missions_at,
                bridge,
                lambda ops: ops.discard(mission, found),
                receipts.discarded,
                undo=undo.final(f"the discarding of {mission.mission_id}", "what is removed is gone"),
            )
            command = way_out("discard", mission.mission_id, self.root)
            return WouldLose(question, loss, "Discard", work, command=command)

        bridge.ask_missions(lambda ops: ops.losses(mission), ask)

    def action_prune(self) -> None:
        bridge = self.bridge
        if self._refused("prune") or bridge is None:
            return

        def ask(found: Prunable) -> WouldLose:
            question, loss = receipts.would_prune(found)
            work = partial(
                self.operate_missions_at,
                bridge,
                lambda ops: ops.prune(found),
                receipts.pruned,
                undo=undo.final("the pruning", "what is removed is gone"),
            )
            command = command_lines.on_lane("prune", self.root)
            return WouldLose(question, loss, "Remove", work, command=command)

        bridge.ask_missions(lambda ops: ops.prunable(), ask)

    # Handoffs

    def action_answer_loop(self) -> None:
        now = self.situation
        if not self._refused("answer_loop") and now.loop is not None and now.mission is not None:
            self.ask_verdict(self.bridge, now.mission, now.loop, None)

    # Proof

    def action_verify(self) -> None:
        now, pane, bridge = self.situation, self.loop_pane, self.bridge
        if (
            self._refused("verify")
            or now.loop is None
            or now.mission is None
            or bridge is None
            or pane is None
        ):
            return
        loop, mission = now.loop, now.mission
        whole = loop.loop_id == mission.integration_loop_id and mission.graph_proof is not None
        pane.choose("proof")
        pane.show_checks(loop.key, None)
        self.open_details()
        bridge.ask_missions(
            lambda ops: tuple(ops.verify(mission, None if whole else loop.loop_id)),
            lambda checks: Verified(loop.key, checks),
            lambda _: Verified(loop.key, None),
        )

    # Planning

    def action_plan(self) -> None:
        if not self._refused("plan"):
            self._ask_for_request()

    def _ask_for_request(self, wish: PlanWish | None = None, note: str = "") -> None:
        from meshtui.screens.plan import PlanForm

        def entered(made: PlanWish | None) -> None:
            if made is not None and self.bridge is not None:
                self.tell("Planning…")
                self.bridge.ask_missions(
                    lambda ops: ops.plan(made),
                    lambda found: Planned(found[0], tuple(found[1])),
                    lambda error: Refused(error, lambda why: self._ask_for_request(made, why)),
                )

        self.app.push_screen(PlanForm(wish, root=self.root, note=note), entered)

    def show_plan(self, message: Planned) -> None:
        """Show a plan before anything starts."""
        from meshtui.screens.plan import PlanPreview

        name = message.plan.mission_id

        def decided(how: str | None) -> None:
            bridge = self.bridge
            if bridge is None:
                return
            if how == "start":
                self.run_mission(name)
            elif how == "edit":
                self._edit_plan(name)
            elif how == "cancel":
                bridge.operate_missions(
                    lambda ops: ops.forget(name), lambda _: (f"Plan {name} is deleted", "information")
                )
            else:
                self.tell(f"Planned: {name}; {key_of('resume_mission')} starts it")
                self.show_mission(name)

        self.app.push_screen(PlanPreview(message.plan, message.blockers, edited=message.edited), decided)

    def show_mission(self, mission_id: str) -> None:
        """Select the first loop of a mission, once it is listed."""
        for mission in self.view.missions if self.view is not None else ():
            if mission.mission_id == mission_id and mission.loops:
                self.show_key(mission.loops[0].key)

    def _edit_plan(self, mission_id: str) -> None:
        from meshtui.screens.plan import edit

        bridge = self.bridge
        if bridge is None:
            return
        problem = edit(self.app, bridge.missions().plan_file(mission_id))
        if problem is not None:
            self.tell(problem, "error")
        bridge.ask_missions(
            lambda ops: ops.reload(mission_id),
            lambda found: Planned(found[0], tuple(found[1]), edited=problem is None),
        )


def kill_each(ops: MissionOperations, targets: list[tuple[MissionView, str]]) -> KillResult:
    found = [ops.kill(mission, loop_id) for mission, loop_id in targets]
    return KillResult(
        tuple(name for one in found for name in one.ended),
        tuple(name for one in found for name in one.survivors),
        tuple(name for one in found for name in one.not_started),
    )
