"""Taking one way out of several items at once: only what every one of them has, in every lane, after a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from meshtui import receipts, undo
from meshtui.core.fleet import Need
from meshtui.core.view import Attention, Exit
from meshtui.missions import KillResult
from meshtui.receipts import Said, count, names
from meshtui.screens.exits import ExitTaking, behind, seconds_in
from meshtui.text import clean

if TYPE_CHECKING:
    from meshtui.bridge import Engine
    from meshtui.core.mesh.view import LoopRow, MissionView

    Loops = Sequence[tuple[MissionView, LoopRow]]

ALONE = ("log", "proof")
"""The ways out that are looked at one by one."""
LONGER = "retry with more time"


@dataclass(frozen=True, slots=True)
class Shared:
    """A way out that several items have."""

    label: str
    action: str
    ways: tuple[tuple[Need, Exit], ...]

    @property
    def command(self) -> str:
        """The command lines that do the same, one after the other."""
        return "; ".join(way.command for _need, way in self.ways)


def shared_ways(needs: Sequence[Need]) -> tuple[Shared, ...]:
    """What can be done with each of ``needs``, in the order of the first one's ways out."""
    if not needs:
        return ()
    found = []
    for way in needs[0].item.exits:
        if way.action in ALONE:
            continue
        same = [next((one for one in need.item.exits if _kind(one) == _kind(way)), None) for need in needs]
        ways = tuple((need, one) for need, one in zip(needs, same, strict=True) if one is not None)
        if len(ways) == len(needs):
            labels = {one.label for _need, one in ways}
            found.append(Shared(way.label if len(labels) == 1 else LONGER, way.action, ways))
    return tuple(found)


def _kind(way: Exit) -> tuple[str, bool]:
    """What a way out does, whatever it is called: a retry is another one with more time."""
    return way.action, "--deadline-seconds" in way.command


def as_item(needs: Sequence[Need]) -> Need:
    """Several items as one, whose ways out are those they share: what the panel below a list draws."""
    ways = shared_ways(needs)
    first = needs[0]
    # An Exit knows what the console may do for it; which of them it stands for is looked up by its number.
    exits = tuple(Exit(way.label, way.command, way.ways[0][1].action) for way in ways)
    item = Attention(first.item.kind, f"{len(needs):,} marked", _listed(needs), None, exits)
    return Need(first.lane, first.run_dir, item)


def _listed(needs: Sequence[Need]) -> str:
    """Their names, by lane where there are several."""
    lanes: dict[str, list[str]] = {}
    for need in needs:
        lanes.setdefault(need.lane, []).append(need.item.subject)
    if len(lanes) == 1:
        return names(next(iter(lanes.values())))
    return "; ".join(f"{lane}: {names(subjects)}" for lane, subjects in lanes.items())


LOSS: Mapping[str, str] = {
    "retry": "Each goes back to the head of its queue and runs again, attempts from 0.",
    "drop": "They will not run again by themselves and count as failed: “dropped by operator”. u undoes it.",
    "requeue": "Each runs again, from the start, after all that waits in its lane.",
    "withdraw": "They leave their queues and will not run. u undoes it.",
    "repair": "Each that can be read as a record by now goes to the end of its queue; the others stay.",
    "drop-file": "What stands in quarantine leaves its lane for good and is only kept as a file under quarantine/.dropped.",
    "run": "A runner starts in this console for each of these lanes.",
    "resume": "These missions go on in this console: what is complete is kept.",
    "kill": "Their calls and everything they started will be ended now; the work of these phases is lost.",
}
VERBS: Mapping[str, str] = {
    "retry": "Back at the head",
    "drop": "Dropped",
    "requeue": "Requeued",
    "withdraw": "Withdrawn",
    "repair": "Repaired",
    "drop-file": "Dropped from quarantine",
}


class ManyExits(ExitTaking):
    """Mixed into screens whose list of needs has marks."""

    def take_shared(self, needs: Sequence[Need], number: int, *, hidden: int = 0) -> None:
        """Ask about the ``number``-th way out that ``needs`` share, and take it of all of them."""
        ways = shared_ways(needs)
        if not 1 <= number <= len(ways):
            shared = count(len(ways), "exit") + " in common" if ways else "no exit in common"
            self.tell(f"The {len(needs):,} marked have {shared}", "warning")
            return
        way = ways[number - 1]
        if self.looks_only:
            self.tell("This console is read-only", "warning")
            return
        if way.action in ("approve", "reject"):
            self._ask_verdicts(way)
            return
        kept = f" {count(hidden, 'marked one')} {'is' if hidden == 1 else 'are'} hidden by the filter."
        self.ask(
            f"{clean(way.label).capitalize()}: {count(len(needs), 'item')}?",
            f"{_listed(needs)}.\n{LOSS[way.action]}{kept if hidden else ''}",
            f"{way.label} {len(needs):,}",
            partial(self._take_of_all, way),
            command=way.command,
        )

    def _take_of_all(self, way: Shared) -> None:
        by_lane: dict[Path, list[tuple[Need, Exit]]] = {}
        for need, one in way.ways:
            by_lane.setdefault(need.run_dir, []).append((need, one))
        if way.action == "run":
            self._start_runners(by_lane)
        elif way.action == "resume":
            self._start_missions(way)
        elif way.action == "kill":
            self._kill_loops(by_lane)
        else:
            self.operate_each(
                {root: _work(way.action, pairs) for root, pairs in by_lane.items()},
                lambda found: _told(VERBS[way.action], found),
                undo=_undo_of(way.action),
            )

    def _start_runners(self, by_lane: Mapping[Path, Sequence[tuple[Need, Exit]]]) -> None:
        for root, pairs in by_lane.items():
            bridge = self._doer.bridge_to(root)
            if bridge is not None:
                bridge.start_runner(take_over=any("--take-over" in way.command for _need, way in pairs))
        self.tell(f"Starting {count(len(by_lane), 'runner')} in this console")

    def _loops(self, needs: Sequence[Need]) -> Loops:
        """The loops behind ``needs`` that are still listed."""
        found = [behind(need.item, self.missions_at(need.item)) for need in needs]
        return [(mission, loop) for mission, loop in found if mission is not None and loop is not None]

    def _start_missions(self, way: Shared) -> None:
        started: list[str] = []
        for need, _way in way.ways:
            mission, _loop = behind(need.item, self.missions_at(need.item))
            bridge = self._doer.bridge_to(need.run_dir)
            if mission is not None and bridge is not None and bridge.start_mission(mission.mission_id):
                started.append(mission.mission_id)
        verb = "runs" if len(started) == 1 else "run"
        self.tell(f"{names(started)} {verb} in this console" if started else "They run already")

    def _kill_loops(self, by_lane: Mapping[Path, Sequence[tuple[Need, Exit]]]) -> None:
        targets = {
            root: [(mission, loop.loop_id) for mission, loop in self._loops([need for need, _way in pairs])]
            for root, pairs in by_lane.items()
        }

        def kill(wanted: Sequence[tuple[MissionView, str]], engine: Engine) -> KillResult:
            ops = engine.missions()
            return merged([ops.kill(mission, loop_id) for mission, loop_id in wanted])

        self.operate_each(
            {root: partial(kill, wanted) for root, wanted in targets.items() if wanted},
            lambda found: receipts.loops_killed(merged(list(found.values()))),
            undo=lambda receipt: undo.of_loops_killed(receipt.ended),
        )

    def _ask_verdicts(self, way: Shared) -> None:
        """Ask for one reason, and give the verdict on every loop with it."""
        from meshtui.screens.verdict import Given, VerdictForm

        needs = [need for need, _way in way.ways]
        loops = {
            root: self._loops([need for need in needs if need.run_dir == root]) for root in _roots(needs)
        }
        every = [pair for pairs in loops.values() for pair in pairs]
        if not every:
            self.tell("They are not listed any more", "warning")
            return

        def answer(pairs: Loops, given: Given, engine: Engine) -> Any:
            ops = engine.missions()
            return [ops.answer(mission, loop.loop_id, given.verdict, given.reason) for mission, loop in pairs]

        def decided(given: Given | None) -> None:
            if given is None:
                return
            self.operate_each(
                {root: partial(answer, pairs, given) for root, pairs in loops.items() if pairs},
                lambda found: _verdicts([one for some in found.values() for one in some]),
                undo=lambda found: undo.final(
                    f"the verdict on {names([one['loop_id'] for one in found])}",
                    "it is recorded with its reason",
                ),
            )

        mission, loop = every[0]
        verdict: Literal["approve", "reject"] = "approve" if way.action == "approve" else "reject"
        self.app.push_screen(VerdictForm(mission, loop, verdict, others=every[1:]), decided)


def _roots(needs: Sequence[Need]) -> list[Path]:
    return list(dict.fromkeys(need.run_dir for need in needs))


def merged(results: Sequence[Any]) -> KillResult:
    """Several receipts of kills as one."""
    return KillResult(
        tuple(name for one in results for name in one.ended),
        tuple(name for one in results for name in one.survivors),
        tuple(name for one in results for name in one.not_started),
    )


def _work(action: str, pairs: Sequence[tuple[Need, Exit]]) -> Callable[[Engine], Any]:
    """What is done in one lane."""
    seconds = {need.item.envelope_id or need.item.subject: seconds_in(way.command) for need, way in pairs}
    ids = list(seconds)
    files = [need.item.key or need.item.subject for need, _way in pairs]

    def work(engine: Engine) -> Any:
        from meshtui.core.lane.moves import each

        lane = engine.operations()
        if action == "retry":
            return each(ids, lambda one: lane.answer(one, "retry", deadline_seconds=seconds[one]))
        if action == "drop":
            return each(ids, lambda one: lane.answer(one, "drop"))
        if action == "requeue":
            return lane.requeue_many(ids)
        if action == "withdraw":
            return lane.withdraw_many(ids)
        return each(files, lane.quarantine_repair if action == "repair" else lane.quarantine_drop)

    return work


def _undo_of(action: str) -> Callable[[Any], undo.Step | None]:
    if action in ("retry", "drop"):
        return lambda receipt: undo.of_answers(receipt.done, action)
    if action == "requeue":
        return lambda receipt: undo.of_return(receipt.done, "the requeuing of")
    if action == "withdraw":
        return lambda receipt: undo.of_withdrawal(receipt.done)
    if action == "repair":
        return lambda receipt: (
            undo.final(f"the repair of {names(receipt.done)}", "w withdraws what it put back")
            if receipt.done
            else None
        )
    return lambda receipt: undo.of_file_drop(receipt.done) if receipt.done else None


def _told(verb: str, found: Mapping[str, Any]) -> Said:
    """One receipt of all lanes: what was done, and what was not with the first reason."""
    done = [name for one in found.values() for name in one.done]
    refused = [one for receipt in found.values() for one in receipt.refused]
    where = f" in {count(len(found), 'lane')}" if len(found) > 1 else ""
    text = f"{verb}: {count(len(done), 'envelope')}{where}" + (f" ({names(done)})" if done else "")
    if refused:
        first = refused[0]
        return f"{text}; not {names([one.envelope_id for one in refused])}: {first.error}", "warning"
    return text, "information"


def _verdicts(found: Sequence[Any]) -> Said:
    verdict = found[0]["verdict"] if found else "approve"
    who = names([f"{one['mission_id']}/{one['loop_id']}" for one in found])
    be = "is" if len(found) == 1 else "are"
    if verdict == "approve":
        return f"{who} {be} approved; r goes on with the mission", "information"
    return (
        f"{who} {be} rejected; {'it counts' if len(found) == 1 else 'they count'} as blocked",
        "information",
    )
