"""What an operator can do, each defined once.

One :class:`Command` feeds the key binding (with an id, so that keys can be remapped), the key bar and its
tooltip, the help screen and the command palette.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from textual.binding import Binding
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from meshtui.core.view import Attention, LaneView, Row
from meshtui.keymap import typed

if TYPE_CHECKING:
    from meshtui.core.fleet import LaneSummary
    from meshtui.core.mesh.view import LoopRow, MissionView

Scope = Literal["lane", "fleet", "inbox", "table", "detail", "text", "app", "replay"]
Place = Literal["lane", "fleet", "inbox"]
"""The screen that is looked at."""
Side = Literal["queue", "loops"]
"""Which of the two lists a key is about, where it means something else in the other."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What decides whether a command makes sense now."""

    view: LaneView | None = None
    row: Row | None = None
    attention: Attention | None = None
    runner_here: bool = False
    """Whether a runner lives in this console."""
    read_only: bool = False
    replay: bool = False
    """Whether this is a recording that is played."""
    side: Side = "queue"
    loop: LoopRow | None = None
    mission: MissionView | None = None
    """The mission of the selected loop."""
    missions_here: tuple[str, ...] = ()
    """The missions that run in this console."""
    reading: frozenset[str] | None = None
    """While a text has the focus: what can be done with it, by action; ``None`` while it has not."""
    place: Place = "lane"
    fleet: bool = False
    """Whether there is a table of lanes to go back to."""
    lanes: int = 0
    """How many lanes that table lists."""
    needs: int = 0
    """How many things need somebody, in all lanes."""
    marked: int = 0
    """How many records of the list that is looked at are marked."""
    filtering: bool = False
    """Whether that list is narrowed by a filter."""
    undoable: bool = False
    """Whether this console did something that was not undone yet."""
    chosen: tuple[LaneSummary, ...] = ()
    """In the fleet the lanes that are meant: the marked ones, else the selected one; none while the inbox is looked at."""


def _no_mission() -> str:
    return f"There is no mission here: {key_of('plan')} plans one"


def _always(_: Situation) -> str | None:
    return None


def _when_run_dir(now: Situation) -> str | None:
    view = now.view
    if view is None or view.exists or not view.missions:
        return None
    if any(one.root.parent.parent == view.run_dir / "missions" for one in view.missions):
        return None
    return f"{view.run_dir.name} is no run directory: open one with --run-dir for that"


def _when_chosen(now: Situation) -> str | None:
    """Of what is done with a whole lane: in the fleet there has to be one that is meant."""
    if now.place != "fleet":
        return None
    if not now.lanes:
        return "There is no lane yet"
    if not now.chosen:
        return "This is done with a lane: go to the lanes first (tab)"
    if any(lane.exists and lane.problem is None for lane in now.chosen):
        return None
    return f"{now.chosen[0].name} has no lane to do that with"


def _when_lane(now: Situation) -> str | None:
    if now.place == "fleet":
        return _when_chosen(now)
    return (
        None
        if now.view is not None and now.view.exists
        else f"There is no lane here yet: {key_of('enqueue')} enqueues its first envelope"
    )


def _when_pending(now: Situation) -> str | None:
    if now.place == "fleet":
        waits = any(lane.pending for lane in now.chosen)
        return _when_chosen(now) or (None if waits else "Nothing is pending there")
    return None if now.view is not None and now.view.counts.pending else "Nothing is pending"


def _when_withdrawn(now: Situation) -> str | None:
    return None if now.view is not None and now.view.counts.withdrawn else "Nothing was withdrawn"


def _when_active(now: Situation) -> str | None:
    return None if now.view is not None and now.view.active else "Nothing is running"


def _when_parked(now: Situation) -> str | None:
    return None if now.view is not None and now.view.counts.stalled else "Nothing is parked"


def _when_missions(now: Situation) -> str | None:
    return None if now.mission is not None else _no_mission()


def _when_anything(now: Situation) -> str | None:
    if now.view is not None and (now.view.exists or now.view.missions):
        return None
    return f"There is nothing to show yet: {key_of('enqueue')} enqueues a first envelope"


def _when_loop_alive(now: Situation) -> str | None:
    if now.marked:
        return None
    if now.loop is None:
        return "Select a loop to kill it"
    return f"{now.loop.loop_id} has ended already" if now.loop.ended else None


def _when_mission_open(now: Situation) -> str | None:
    if now.mission is None:
        return _no_mission()
    if all(loop.ended for loop in now.mission.loops):
        return f"Every loop of {now.mission.mission_id} has ended already"
    return None


def _when_resumable(now: Situation) -> str | None:
    mission = now.mission
    if mission is None:
        return _no_mission()
    if mission.runner.alive:
        return f"Mission {mission.mission_id} is running"
    return f"Mission {mission.mission_id} is done: {key_of('land')} lands it" if mission.ok else None


def _when_done(now: Situation) -> str | None:
    mission = now.mission
    if mission is None:
        return _no_mission()
    if mission.ok:
        return None
    return f"Mission {mission.mission_id} is not done: {mission.done} of {len(mission.loops)} loops are"


def _when_mission_rests(now: Situation) -> str | None:
    mission = now.mission
    if mission is None:
        return _no_mission()
    return (
        f"Mission {mission.mission_id} is running: {key_of('kill_mission')} kills its loops first"
        if mission.runner.alive
        else None
    )


def _when_handoff(now: Situation) -> str | None:
    if now.loop is not None and now.loop.status == "handoff":
        return None
    return "Nothing waits for a person there: select a loop that is handed over"


def _when_loop(now: Situation) -> str | None:
    return None if now.loop is not None else "Select a loop to verify its proof"


def _when_fleet(now: Situation) -> str | None:
    return None if now.fleet else "This console shows one lane: give it several --run-dir, or their folder"


def _when_lanes(now: Situation) -> str | None:
    return None if now.lanes else "There is no lane to open yet"


def _when_needs(now: Situation) -> str | None:
    return None if now.needs else "Nothing needs you"


def _when_row_pending(now: Situation) -> str | None:
    if now.row is not None and now.row.section in ("pending", "quarantined"):
        return None
    return "Select a pending envelope to withdraw it"


def _when_row_phase(now: Situation) -> str | None:
    row = now.row
    if row is not None and row.kind == "phase" and row.section != "quarantined":
        return None
    return "Select an envelope: the message goes to the session of its story"


def _when_row_waits(now: Situation) -> str | None:
    if now.row is None or now.row.section != "pending":
        return "Select a pending envelope to put it at the head"
    if now.row.kind == "stop" and not now.marked:
        return "A stop ends what is before it: it stays last"
    return None


def _when_row_editable(now: Situation) -> str | None:
    row = now.row
    if row is None:
        return "Select an envelope to edit it"
    if row.kind == "stop" or row.section == "quarantined":
        return "There is nothing to edit in it"
    if row.section == "active":
        return f"{row.title} is running: it cannot be edited any more"
    if row.section == "stalled":
        return f"{row.title} is parked: drop it ({key_of('answer')}, then {typed('answer.drop', 'd')}), then edit it"
    return None


def _when_row_over(now: Situation) -> str | None:
    row = now.row
    if row is not None and row.section == "quarantined":
        return None
    if row is not None and row.section in ("done", "failed", "withdrawn") and row.kind != "stop":
        return None
    return "Select a done, failed or withdrawn envelope to queue it again"


def _when_undoable(now: Situation) -> str | None:
    return None if now.undoable else "Nothing to undo: this console has changed nothing so far"


def _when_filtering(now: Situation) -> str | None:
    return None if now.filtering else f"No filter is on: {key_of('filter')} narrows the list"


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that can be done."""

    action: str
    """Names the binding (``lane.enqueue``) and the method that does it (``action_enqueue``)."""
    key: str
    label: str
    """The word in the key bar."""
    tooltip: str
    """One sentence: in tooltips, on the help screen and in the palette."""
    scope: Scope = "lane"
    group: str = "Lane"
    title: str | None = None
    """The palette's entry; ``None`` keeps the command out of it."""
    bar: int | None = None
    """Its place in the key bar, lower is kept longer; ``None`` keeps it out."""
    writes: bool = False
    """Refused in a read-only console."""
    destructive: bool = False
    """Asks once, naming what will be lost."""
    refusal: Callable[[Situation], str | None] = _always
    """Why it cannot be done now, ``None`` if it can."""
    side: Side | None = None
    """The list it is about; its key does nothing while the other one is looked at."""
    also: tuple[Place, ...] = ()
    """Screens other than a lane's where it is the same."""
    filtered: bool | None = None
    """Whether its key is meant only while a filter is on (``True``) or off (``False``)."""

    def at(self, place: Place) -> bool:
        """Whether the screen ``place`` has it."""
        if self.scope == "table":
            # Of a lane or an item it is what the other screens call it.
            return self.action != "open" or place == "lane"
        return place in self.also or place == (self.scope if self.scope in ("fleet", "inbox") else "lane")

    def meant(self, side: Side, *, filtering: bool) -> bool:
        """Whether its key means this now."""
        return self.side in (None, side) and self.filtered in (None, filtering)

    @property
    def id(self) -> str:
        """The id of its binding."""
        return f"{self.scope}.{self.action.partition('(')[0]}" + self.action.partition("(")[2].strip("')")

    @property
    def binding(self) -> Binding:
        """The key binding."""
        return Binding(self.key, self.action, self.label, show=False, tooltip=self.tooltip, id=self.id)

    def why_not(self, now: Situation) -> str | None:
        """Why it cannot be done now, ``None`` if it can."""
        if self.writes and now.replay:
            return "This is a replay: what is past cannot be changed"
        if self.writes and now.read_only:
            return "This console is read-only"
        return self.refusal(now)


EVERYWHERE: tuple[Place, ...] = ("fleet", "inbox")
COMMANDS: tuple[Command, ...] = (
    Command(
        "enqueue", "e", "enqueue", "Add an envelope to the end of the queue", title="Enqueue an envelope", bar=1, writes=True,
        refusal=_when_run_dir,
    ),
    Command(
        "answer", "a", "answer", "Answer what is parked: again, longer, with another engine, or give it up",
        title="Answer a parked envelope", bar=0, writes=True, refusal=_when_parked, side="queue",
    ),
    Command(
        "runner", "s", "start/stop", "Start a runner in this console, or stop the lane's runner",
        title="Start or stop the runner", bar=2, writes=True, side="queue",
        refusal=_when_chosen, also=("fleet",),
    ),
    Command(
        "pause", "P", "pause", "Let the active phase end and claim nothing more, or continue",
        title="Pause or continue the lane", bar=7, writes=True, refusal=_when_lane, also=("fleet",),
    ),
    Command(
        "kill", "x", "kill", "End the active phase now; it counts as failed",
        title="Kill the active phase", bar=3, writes=True, destructive=True, refusal=_when_active, side="queue",
    ),
    Command(
        "extend", "plus", "longer", "Give the phase that runs more time before its deadline",
        title="Extend the running deadline", writes=True, refusal=_when_active, side="queue",
    ),
    Command(
        "interrupt", "i", "interrupt", "Withdraw everything that is pending; restore brings it back",
        title="Interrupt: withdraw all pending", bar=6, writes=True, destructive=True, refusal=_when_pending,
        also=("fleet",),
    ),
    Command(
        "restore", "R", "restore", "Put withdrawn envelopes back at the end of the queue",
        title="Restore what was withdrawn", bar=8, writes=True, refusal=_when_withdrawn,
    ),
    Command(
        "withdraw", "w", "withdraw", "Take the selected or marked envelopes out of the queue; of quarantine for good", side="queue",
        group="Selected", title="Withdraw the selected envelopes", bar=5, writes=True, destructive=True, refusal=_when_row_pending,
    ),
    Command(
        "requeue", "r", "requeue", "Queue the selected or marked envelopes once more, at the end; repair them in quarantine",
        side="queue", group="Selected", title="Requeue the selected envelopes", bar=4, writes=True, refusal=_when_row_over,
    ),
    Command(
        "head", "H", "to head", "Put the selected or marked envelopes before everything that waits", side="queue",
        group="Selected", title="Put the selected envelopes at the head of the queue", bar=16, writes=True, refusal=_when_row_waits,
    ),
    Command(
        "edit", "E", "edit", "Change the selected envelope: withdrawn, changed and queued again in one step", side="queue",
        group="Selected", title="Edit the selected envelope", bar=15, writes=True, refusal=_when_row_editable,
    ),
    Command(
        "undo", "u", "undo", "Undo what this console did last: withdrawn, enqueued, edited, dropped, put at the head",
        group="Selected", title="Undo what was done last", bar=14, writes=True, refusal=_when_undoable, also=EVERYWHERE,
    ),
    Command(
        "copy", "y", "copy", "Copy the id, or the command line of what can be done with it, from a menu",
        group="Selected", title="Copy an id or a command line", bar=17, also=EVERYWHERE,
    ),
    Command(
        "mark", "space", "mark", "Mark the selected one: what is done next is done with all that are marked",
        scope="table", group="Selected", title="Mark or unmark the selected one",
    ),
    Command(
        "mark_all", "asterisk", "mark all", "Mark everything that the list shows, or nothing",
        scope="table", group="Selected", title="Mark all that the list shows, or nothing",
    ),
    Command(
        "message", "m", "message", "Send an instruction to the session of the selected envelope's story, as its next phase",
        side="queue", group="Selected", title="Message to the selected story's session", writes=True,
        refusal=_when_row_phase,
    ),
    Command("open", "enter", "open", "Open the details of what is selected", group="Selected", scope="table"),
    Command(
        "plan", "n", "new mission", "Plan a request: see its loops, risks and overlaps before anything starts",
        group="Missions", title="Plan a new mission", bar=9, writes=True, refusal=_when_run_dir, filtered=False,
    ),
    Command(
        "answer_loop", "a", "answer", "Approve or reject what the selected loop hands over, with a reason", side="loops",
        group="Missions", title="Answer a handoff", bar=0, writes=True, refusal=_when_handoff,
    ),
    Command(
        "resume_mission", "r", "resume", "Go on with the mission: what is complete is kept", side="loops",
        group="Missions", title="Resume the mission", bar=2, writes=True, refusal=_when_resumable,
    ),
    Command(
        "stop_mission", "s", "start/stop", "Stop the mission that runs in this console, or go on with it", side="loops",
        group="Missions", title="Start or stop the mission", writes=True, refusal=_when_missions,
    ),
    Command(
        "kill_loop", "x", "kill", "End the selected loop now, whatever it is doing", side="loops",
        group="Missions", title="Kill the selected loop", bar=3, writes=True, destructive=True, refusal=_when_loop_alive,
    ),
    Command(
        "kill_mission", "X", "kill all", "End all loops of the mission now",
        group="Missions", title="Kill all loops of the mission", bar=5, writes=True, destructive=True, refusal=_when_mission_open,
    ),
    Command(
        "land", "l", "land", "Fast-forward the target branch to the mission's result", side="loops",
        group="Missions", title="Land the mission's result", bar=1, writes=True, refusal=_when_done,
    ),
    Command(
        "discard", "delete,backspace", "discard", "Remove the mission's branches and working copies, after naming what is lost",
        side="loops", group="Missions", title="Discard the mission", writes=True, destructive=True, refusal=_when_mission_rests,
    ),
    Command("verify", "v", "verify", "Verify the proof of the selected loop; of the last one, the whole mission's", side="loops",
            group="Missions", title="Verify the proof", bar=6, refusal=_when_loop),
    Command("timeline", "t", "timeline", "Phases and loops against time: attempts, stalls, holds, runners, the critical path",
            group="Seeing", title="Show the timeline", bar=8, refusal=_when_anything),
    Command("charts", "c", "charts", "Queue, throughput, durations, budget and its forecast, signs of life",
            group="Seeing", title="Show the charts", bar=9, refusal=_when_anything),
    Command("graph", "p", "graph", "How the loops of the mission depend on each other", group="Seeing",
            title="Show the dependency graph", bar=9, refusal=_when_missions),
    Command(
        "prune", "C", "prune", "Remove the calls and working copies of finished work, after naming them",
        group="Console", title="Prune what finished work left behind", writes=True, destructive=True, refusal=_when_run_dir,
    ),
    Command("open_lane", "enter", "open lane", "Open the selected lane with everything that can be done there", scope="fleet",
            group="Fleet", title="Open the selected lane", bar=1, refusal=_when_lanes),
    Command("open_need", "enter", "open lane", "Go to the lane of the selected item, and to its record", scope="inbox",
            group="Needs you", title="Go to the lane of the selected item", bar=1, refusal=_when_needs),
    Command("next_attention", "N", "next", "Go to the next thing that needs you", group="Needs you", also=EVERYWHERE,
            title="Go to the next thing that needs you", filtered=False),
    Command("inbox", "I", "inbox", "Everything that needs you, in every lane, with evidence and the ways out", group="Needs you",
            title="Open the inbox", bar=9, refusal=_when_needs, also=("fleet",)),
    *(
        Command(f"exit({number})", str(number), str(number), f"Take exit {number} of the selected item", group="Needs you",
                also=EVERYWHERE)
        for number in range(1, 10)
    ),
    Command("filter", "slash", "filter", "Show only rows that match what you type: words, status:failed, age>10m, -not",
            group="List", title="Filter the list", bar=10, also=EVERYWHERE),
    Command("match(1)", "n", "next match", "The next row that the filter means, in this list or the next", group="List",
            refusal=_when_filtering, filtered=True, bar=9, also=EVERYWHERE),
    Command("match(-1)", "N", "match before", "The row before that the filter means", group="List",
            refusal=_when_filtering, filtered=True, also=EVERYWHERE),
    Command("sort", "S", "sort", "Sort by the next column; again turns it round, at last the list's own order", scope="table",
            group="List", title="Sort by the next column"),
    Command("down", "j,down", "down", "Next row", scope="table", group="List"),
    Command("up", "k,up", "up", "Previous row", scope="table", group="List"),
    Command("top", "g,home", "top", "First row", scope="table", group="List"),
    Command("bottom", "G,end", "bottom", "Last row", scope="table", group="List"),
    Command("page_down", "ctrl+d,pagedown", "page down", "Half a page down", scope="table", group="List"),
    Command("page_up", "ctrl+u,pageup", "page up", "Half a page up", scope="table", group="List"),
    Command("section(1)", "l,right,right_square_bracket", "next list", "The next list: pending, active, done …", group="List",
            side="queue"),
    Command("section(-1)", "h,left,left_square_bracket", "previous list", "The list before", group="List", side="queue"),
    Command("turn(1)", "tab", "next panel", "From loops to queue to details to what needs you", group="List", also=("fleet",)),
    Command("turn(-1)", "shift+tab", "panel before", "The same way back", group="List", also=("fleet",)),
    Command("detail(1)", "d", "details", "The next part of the details: envelope, output …, or state, diff, gates …",
            group="Details", title="Show the next part of the details"),
    Command("detail(-1)", "D", "details back", "The part of the details before", group="Details"),
    # A text that has the focus: a key means this only where the text has such a thing.
    Command("zoom", "z", "full screen", "The details on the whole screen, and back", group="Reading",
            title="Show the details on the whole screen", bar=2),
    Command("outside", "o", "open file", "Open what is shown: a work file in $VISUAL or $EDITOR, all else in $PAGER, to look at",
            group="Reading", title="Open the shown file in an editor or pager", bar=6),
    Command("json", "J", "as JSON", "The file behind what is shown as JSON that folds, and back", group="Reading",
            title="Show the file behind the details as JSON", bar=9),
    Command("find", "slash", "search", "Search in the text while you type; next match goes on", scope="text", group="Reading", bar=1),
    Command("next_match(1)", "n", "next match", "The next match", scope="text", group="Reading", bar=0),
    Command("next_match(-1)", "N", "match before", "The match before", scope="text", group="Reading"),
    Command("fold", "enter,space", "fold", "Fold or unfold what is pointed at, or open the log it names", scope="text", group="Reading", bar=0),
    Command("fold_all", "minus", "fold all", "Fold everything, or unfold it", scope="text", group="Reading", bar=3),
    Command("jump(1)", "right_square_bracket", "next change", "The next hunk of a diff", scope="text", group="Reading", bar=3),
    Command("jump(-1)", "left_square_bracket", "change before", "The hunk before", scope="text", group="Reading"),
    Command("jump_file(1)", "right_curly_bracket", "next file", "The next file of a diff", scope="text", group="Reading", bar=4),
    Command("jump_file(-1)", "left_curly_bracket", "file before", "The file before", scope="text", group="Reading"),
    Command("follow", "f", "follow", "Stay at the end as the text grows; scrolling up ends it, end goes on", scope="text",
            group="Reading", bar=3),
    Command("wrap", "W", "wrap", "Wrap long lines, or not: left and right scroll then", scope="text", group="Reading", bar=7),
    Command("mark_lines", "V", "mark lines", "Mark lines with the arrows; again, or back, ends it", scope="text", group="Reading", bar=8),
    Command("extend(1)", "shift+down", "mark down", "Mark one line more", scope="text", group="Reading"),
    Command("extend(-1)", "shift+up", "mark up", "Mark one line more above", scope="text", group="Reading"),
    Command("copy_text", "c", "copy", "Copy what is marked or chosen with the mouse, else the value pointed at, else the text",
            scope="text", group="Reading", bar=5),
    Command("fleet", "F", "fleet", "Back to the table of all lanes", group="Fleet", title="Back to the fleet", bar=10,
            refusal=_when_fleet, also=("inbox",)),
    Command("back", "escape", "back", "Back to the list, drop the filter, or return to the fleet", group="Console", also=EVERYWHERE),
    Command("help", "question_mark", "help", "Every key and what it does", group="Console", title="Help: every key", bar=11,
            also=EVERYWHERE),
    Command("palette", "colon", "palette", "Find any action by its name", group="Console", bar=13, also=EVERYWHERE),
    Command("quit", "q", "quit", "Leave; asks first when a runner lives in this console", group="Console", title="Quit", bar=12,
            also=EVERYWHERE),
)  # fmt: skip

REPLAY: tuple[Command, ...] = (
    Command(
        "play",
        "space",
        "play/pause",
        "Play the recording, or pause it",
        scope="replay",
        group="Replay",
        bar=-6,
    ),
    Command(
        "replay_step(1)",
        "full_stop",
        "step",
        "The next event, paused",
        scope="replay",
        group="Replay",
        bar=-5,
    ),
    Command("replay_step(-1)", "comma", "back", "The event before", scope="replay", group="Replay", bar=7),
    Command(
        "replay_speed(1)",
        "greater_than_sign",
        "faster",
        "Play faster",
        scope="replay",
        group="Replay",
        bar=-3,
    ),
    Command(
        "replay_speed(-1)", "less_than_sign", "slower", "Play slower", scope="replay", group="Replay", bar=10
    ),
    Command(
        "replay_scrub(1)",
        "right",
        "forward",
        "A fiftieth of the recording forward",
        scope="replay",
        group="Replay",
        bar=6,
    ),
    Command(
        "replay_scrub(-1)",
        "left",
        "rewind",
        "A fiftieth of the recording back",
        scope="replay",
        group="Replay",
        bar=7,
    ),
    Command(
        "replay_home",
        "home",
        "start",
        "To the start of the recording",
        scope="replay",
        group="Replay",
        bar=14,
    ),
    Command("replay_end", "end", "end", "To its end", scope="replay", group="Replay", bar=14),
)
"""Only where a recording is played."""

BY_ACTION: dict[str, Command] = {command.action: command for command in COMMANDS}


def key_of(action: str) -> str:
    """The first key of an action as it is typed, whatever the operator chose: for texts that name a key."""
    command = BY_ACTION[action]
    return typed(command.id, command.key)


def bindings(scope: Scope) -> list[Binding]:
    """The key bindings of one part of the console."""
    return [
        command.binding
        for command in COMMANDS
        if command.scope == scope or (scope in EVERYWHERE and scope in command.also)
    ]


SURE, PLACE = 2000, 1000
"""How much better than a likeness an action is that has the words, and a place that has."""
REFUSED = 0.001
"""What cannot be done now comes after all that can."""


class LaneCommands(Provider):
    """The palette's entries for a lane: what can be done now."""

    def _offers(self) -> Iterator[tuple[Command, Callable[[], object]]]:
        situation = getattr(self.screen, "situation", None)
        if not isinstance(situation, Situation):
            return
        for command in COMMANDS:
            if command.title is None or not command.at(situation.place):
                continue
            if command.why_not(situation) is None:
                # A key is about the list that is looked at; a name says what it is about.
                owner = getattr(self.screen, "listing", None) if command.scope == "table" else self.screen
                if owner is not None:
                    method = getattr(owner, f"action_{command.action}", None)
                    yield command, method or partial(owner.run_action, command.action)

    def _refused(self, typed: str) -> Iterator[tuple[str, str]]:
        """The titles with what was typed that cannot be done now, and why."""
        situation = getattr(self.screen, "situation", None)
        if not isinstance(situation, Situation):
            return
        for command in COMMANDS:
            if (
                command.title is not None
                and command.at(situation.place)
                and typed in command.title.casefold()
            ):
                why = command.why_not(situation)
                if why is not None:
                    yield command.title, why

    async def discover(self) -> Hits:
        for command, run in self._offers():
            yield DiscoveryHit(command.title or "", run, help=command.tooltip)

    async def search(self, query: str) -> Hits:
        matcher, typed = self.matcher(query), query.casefold()
        for command, run in self._offers():
            title = command.title or ""
            score = matcher.match(title)
            if score > 0:
                # What contains what was typed comes before places, and those before a likeness.
                score += SURE if typed in title.casefold() else 0
                yield Hit(score, matcher.highlight(title), run, help=command.tooltip)
        for title, why in self._refused(typed):
            # Named last, so that nobody looks for it in vain; choosing it says why again.
            tell = partial(self.app.notify, why, severity="warning", markup=False)
            yield Hit(REFUSED, Content.styled(title, "$quiet"), tell, text=title, help=f"Not now: {why}")
