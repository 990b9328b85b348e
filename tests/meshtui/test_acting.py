"""Finding and acting: filter, order, marks, what is done with them, edit, head, undo, copy, the palette."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from textual import events
from textual.widgets import Input, Static, TextArea

from meshtui.commands import COMMANDS
from meshtui.core.clock import ManualClock
from meshtui.core.errors import InvalidInput
from meshtui.core.lane.receipts import Refusal
from meshtui.core.view import LaneView, Section
from meshtui.palette import Places
from meshtui.screens.confirm import Confirm, Several
from meshtui.screens.copying import CopyMenu
from meshtui.screens.enqueue import EnqueueForm
from meshtui.screens.lane import LaneScreen
from meshtui.widgets.detail import PARTS as RECORD_PARTS
from meshtui.widgets.filter_bar import FilterBar
from meshtui.widgets.journal import JournalLine
from meshtui.widgets.loops import LoopTable
from meshtui.widgets.table import QueueTable
from tests.support.engine import FakeEngine
from tests.support.mission_screens import mission, with_missions
from tests.support.pilot import Console, console
from tests.support.views import MINUTE, NOW, STALLED, lane, pending


def listed(it: Console) -> list[str]:
    return [row.envelope_id for row in it.lane.query_one(QueueTable).rows]


def marked(it: Console) -> list[str]:
    return [row.envelope_id for row in it.lane.query_one(QueueTable).marked]


def says(it: Console) -> str:
    return str(it.lane.filter_bar.query_one(".says", Static).content)


def in_section(view: LaneView, section: Section, count: int) -> LaneView:
    """``view`` with its first ``count`` pending records in another list."""
    rows = tuple(replace(row, section=section, key=f"x-{row.key}") for row in view.pending[:count])
    many: dict[str, Any] = {section: count}
    moved: dict[str, Any] = {section: rows}
    return replace(view, counts=replace(view.counts, **many), **moved)


# -- filter ------------------------------------------------------------------------------------------------


async def test_a_filter_narrows_while_it_is_typed_and_says_what_is_wrong() -> None:
    async with console(lane(12)) as it:
        await it.press("slash")
        assert "status engine story" in says(it)
        await it.press(*"engine:cod")
        assert listed(it) == ["US-015-backend", "US-016-plan", "US-016-docs"]
        assert says(it) == ""
        await it.press(*" status:pau")
        assert "status is never pau: pending, active" in says(it)
        assert len(listed(it)) == 3
        assert "3 of 12" in it.text()
        await it.press(*["backspace"] * 3)
        assert says(it).startswith("status: pending")
        assert len(listed(it)) == 3
        await it.press(*"pend", "enter")
        assert it.app.focused is it.lane.query_one(QueueTable)
        assert it.drawn("#filter")
        assert "pending 3/12" in it.text()


async def test_the_place_in_the_queue_is_shown_though_others_are_hidden() -> None:
    async with console(lane(12)) as it:
        await it.press("slash", *"docs", "enter")
        lines = [line for line in it.text().splitlines() if "/docs" in line and "claude" not in line]
        assert any(line.split("US-016")[0].strip(" │▌").endswith("10") for line in lines)


async def test_a_filter_by_age_follows_the_time() -> None:
    clock = ManualClock(NOW)
    async with console(lane(4), clock=clock) as it:
        await it.press("slash", *"age>3m", "enter")
        assert len(listed(it)) == 2
        clock.advance(2 * MINUTE / 1000)
        it.lane.tick()
        await it.pilot.pause()
        assert len(listed(it)) == 4


async def test_a_filter_stays_when_the_queue_changes() -> None:
    async with console(lane(12)) as it:
        await it.press("slash", *"tests", "enter")
        assert len(listed(it)) == 2
        await it.show(lane(20))
        assert len(listed(it)) == 4
        await it.press("l")
        assert it.section == "active"
        assert listed(it) == []
        assert "n goes to pending 4, done 8" in it.text()


async def test_n_goes_on_in_the_next_list_and_is_the_new_mission_without_a_filter() -> None:
    engine = FakeEngine(lane(12, attention=2))
    async with console(engine=engine) as it:
        await it.press("slash", *"US-014", "enter")
        assert it.section == "pending"
        await it.press("n")
        assert it.section == "done"
        await it.press("n")
        assert it.section == "stalled"
        assert it.lane.row is not None
        assert it.lane.row.envelope_id == STALLED.envelope_id
        await it.press("N")
        assert it.section == "done"
        await it.press("escape", "n")
        assert not isinstance(it.app.screen, LaneScreen)
        await it.press("escape", "N")
        assert isinstance(it.app.screen, LaneScreen)


async def test_n_goes_round_in_one_list() -> None:
    async with console(lane(12, running=False)) as it:
        await it.press("slash", *"status:pending tests", "enter", "n", "n")
        assert it.lane.row is not None
        assert it.lane.row.envelope_id == "US-015-tests"
        await it.press("N")
        assert it.lane.row.envelope_id == "US-016-tests"


async def test_what_a_filter_hides_is_still_gone_to() -> None:
    async with console(lane(12, attention=2)) as it:
        await it.press("slash", *"zzz", "enter")
        assert it.lane.show_key(STALLED.key)
        await it.pilot.pause()
        assert it.lane.row == STALLED
        assert not it.drawn("#filter")


async def test_down_and_an_empty_enter_leave_the_field() -> None:
    async with console(lane(3)) as it:
        await it.press("slash", "down")
        assert it.app.focused is it.lane.query_one(QueueTable)
        assert not it.drawn("#filter")


async def test_loops_are_filtered_too() -> None:
    async with console(with_missions(lane(3), mission())) as it:
        await it.press("tab", "tab", "tab")
        it.lane.look_at("loops")
        it.lane.focus_list()
        await it.press("slash", *"risk:crit budget>80%")
        table = it.lane.query_one(LoopTable)
        assert [row.key for row in table.rows] == ["m7/loop-auth"]
        await it.press(*" story:x")
        assert "loops have no story" in says(it)
        assert len(it.lane.query_one(QueueTable).rows) == 3
        await it.press("enter", "escape")
        assert len(table.rows) == len(mission().loops)
        assert all(not bar.display for bar in it.lane.query(FilterBar))


async def test_loops_are_filtered_by_their_engine() -> None:
    made = mission()
    loops = (replace(made.loops[0], engine="codex"), *made.loops[1:])
    async with console(with_missions(lane(3), replace(made, loops=loops))) as it:
        await it.press("tab", "tab", "tab")
        it.lane.look_at("loops")
        it.lane.focus_list()
        await it.press("slash", *"engine:codex")
        table = it.lane.query_one(LoopTable)
        assert [row.key for row in table.rows] == [loops[0].key]
        await it.press(*["backspace"] * len("codex"), *"none")
        assert [row.key for row in table.rows] == [row.key for row in loops[1:]]


# -- order -------------------------------------------------------------------------------------------------


async def test_s_sorts_by_the_next_column_and_at_last_not_at_all() -> None:
    async with console(lane(6)) as it:
        table = it.lane.query_one(QueueTable)
        own = listed(it)
        await it.press("j", "j")
        chosen = table.selected
        seen = []
        for _ in range(20):
            await it.press("S")
            assert table.selected is chosen
            if table.order is None:
                break
            seen.append((table.order.title, table.order.down))
            assert f"{table.order.arrow}" in it.text()
        assert seen == [
            ("story / phase", False), ("story / phase", True), ("engine", False), ("engine", True), ("waiting", False),
            ("waiting", True), ("budget", True), ("budget", False), ("stalls", True), ("stalls", False),
        ]  # fmt: skip
        assert listed(it) == own


async def test_a_click_on_a_head_sorts_turns_round_and_ends() -> None:
    async with console(lane(6)) as it:
        table = it.lane.query_one(QueueTable)
        own = listed(it)
        x = next(
            offset for offset in range(3, 80) if (column := table.layout_of(table.size.width - 2).at(offset)) and column.title == "engine"
        )  # fmt: skip
        await it.pilot.click(QueueTable, offset=(x + 1, 0))
        assert [row.engine for row in table.rows] == ["claude", "claude", "codex", "codex", "command", None]
        await it.pilot.click(QueueTable, offset=(x + 1, 0))
        assert [row.engine for row in table.rows] == ["command", "codex", "codex", "claude", "claude", None]
        await it.pilot.click(QueueTable, offset=(x + 1, 0))
        assert listed(it) == own
        await it.pilot.click(QueueTable, offset=(x + 1, 0))
        await it.pilot.click(QueueTable, offset=(3, 0))
        assert listed(it) == own


async def test_each_list_keeps_its_order_through_refreshes() -> None:
    async with console(lane(6)) as it:
        await it.press("S", "S")
        by_name = sorted(listed(it), reverse=True)
        assert listed(it) == by_name
        await it.press("l", "l", "h", "h")
        assert listed(it) == by_name
        await it.show(lane(7))
        assert listed(it)[0] == "US-016-plan"


async def test_loops_are_sorted_within_their_mission() -> None:
    async with console(with_missions(lane(3), mission())) as it:
        it.lane.look_at("loops")
        it.lane.focus_list()
        table = it.lane.query_one(LoopTable)
        before = [row.key for row in table.rows]
        await it.press("S", "S", "S", "S")
        assert [row.key for row in table.rows] == sorted(before, reverse=True)


# -- marks -------------------------------------------------------------------------------------------------


async def test_marks_belong_to_records() -> None:
    view = lane(12)
    async with console(view) as it:
        await it.press("space", "j", "space")
        assert marked(it) == ["US-015-plan", "US-015-tests"]
        assert "Queue · 2 marked" in it.text()
        assert it.text().count("▌") == 2
        await it.show(replace(view, pending=(*pending(2, start=1), *view.pending[1:])))
        assert marked(it) == ["US-015-tests"]
        assert "Queue · 1 marked" in it.text()
        await it.press("l", "h")
        assert len(marked(it)) == 1
        await it.press("escape")
        assert marked(it) == []
        assert "marked" not in it.text()


async def test_star_marks_what_is_shown_or_nothing() -> None:
    async with console(lane(12)) as it:
        table = it.lane.query_one(QueueTable)
        await it.press("space", "slash", *"tests", "enter", "asterisk")
        assert len(marked(it)) == 3
        assert table.hidden_marks == 1
        await it.press("w")
        assert isinstance(it.app.screen, Confirm)
        assert "1 marked one is hidden by the filter" in it.app.screen.loss
        await it.press("n", "asterisk")
        assert len(marked(it)) == 1
        await it.press("escape", "asterisk")
        assert len(marked(it)) == 12
        await it.press("asterisk")
        assert marked(it) == []


async def test_a_click_with_ctrl_marks() -> None:
    async with console(lane(6)) as it:
        await it.pilot.click(QueueTable, offset=(5, 3), control=True)
        assert marked(it) == ["US-015-tests"]


Prepare = Callable[[], LaneView]


@pytest.mark.parametrize(
    ("section", "keys", "question", "call"),
    [
        ("pending", ("w",), "Withdraw 2 envelopes?", ("withdraw_many", ("US-015-plan", "US-015-backend"))),
        ("pending", ("H",), "Put 2 envelopes at the head?", ("head", ("US-015-plan", "US-015-backend"))),
        ("withdrawn", ("R",), "Restore 2 envelopes?", ("restore", ("US-015-plan", "US-015-backend"))),
        ("withdrawn", ("r",), "Requeue 2 envelopes?", ("requeue_many", ("US-015-backend", "US-015-plan"))),
        ("failed", ("r",), "Requeue 2 envelopes?", ("requeue_many", ("US-015-backend", "US-015-plan"))),
    ],
)
async def test_what_is_done_with_marks(
    section: Section, keys: tuple[str, ...], question: str, call: tuple[Any, ...]
) -> None:
    engine = FakeEngine(in_section(lane(4), section, 2) if section != "pending" else lane(4))
    async with console(engine=engine) as it:
        it.lane.show_section(section)
        await it.press("space", "space", *keys)
        assert isinstance(it.app.screen, Confirm)
        shown = it.text()
        assert question in shown
        assert "US-015-plan, US-015-backend" in shown
        assert "$ meshtui " in shown
        command = it.app.screen.command or ""
        assert command.split()[2:] == ["US-015-plan", "US-015-backend", "--run-dir", "/srv/lanes/api-lane"]
        assert engine.calls == []
        await it.press("n")
        assert engine.calls == []
        await it.press(*keys, "y")
        await it.until(lambda: engine.calls == [call])


async def test_parked_ones_are_answered_together() -> None:
    engine = FakeEngine(in_section(lane(4), "stalled", 3))
    async with console(engine=engine) as it:
        it.lane.show_section("stalled")
        await it.press("space", "space", "a")
        assert isinstance(it.app.screen, Several)
        assert "Answer 2 parked envelopes" in it.text()
        await it.press("r")
        await it.until(lambda: len(engine.calls) == 2)
        assert [call[:3] for call in engine.calls] == [
            ("answer", "US-015-plan", "retry"), ("answer", "US-015-backend", "retry"),
        ]  # fmt: skip
        await it.press("a", "d")
        await it.until(lambda: len(engine.calls) == 4)
        assert engine.calls[-1][:3] == ("answer", "US-015-backend", "drop")
        await it.press("u")
        await it.until(lambda: engine.calls[-1] == ("park again", "US-015-backend"))
        await it.until_shown("parked again, as before")
        await it.press("u")
        await it.until_shown("cannot be undone: it may run already")


async def test_quarantined_ones_are_repaired_or_dropped_together() -> None:
    engine = FakeEngine(in_section(lane(4), "quarantined", 2))
    async with console(engine=engine) as it:
        it.lane.show_section("quarantined")
        await it.press("asterisk")
        assert "r repair 2" in it.text()
        await it.press("r")
        assert "Repair 2 files?" in it.text()
        await it.press("y")
        await it.until(lambda: [call[0] for call in engine.calls] == ["repair", "repair"])
        await it.press("w")
        assert isinstance(it.app.screen, Confirm)
        assert "leaves the lane for good" in it.app.screen.loss
        await it.press("y")
        await it.until(lambda: [call[0] for call in engine.calls[2:]] == ["drop-file", "drop-file"])


async def test_loops_are_killed_together() -> None:
    engine = FakeEngine(with_missions(lane(3), mission()))
    async with console(engine=engine) as it:
        it.lane.look_at("loops")
        it.lane.focus_list()
        await it.press("asterisk", "x")
        assert isinstance(it.app.screen, Confirm)
        alive = [loop for loop in mission().loops if not loop.ended]
        assert it.app.screen.question == f"Kill {len(alive)} loops?"
        assert "ended already" in it.app.screen.loss
        await it.press("y")
        await it.until(lambda: len(engine.the_missions.calls) == len(alive))
        assert engine.the_missions.calls == [("kill", "m7", loop.loop_id) for loop in alive]


async def test_what_could_not_be_done_is_named() -> None:
    engine = FakeEngine(lane(4))
    engine.the_operations.refused = (Refusal("US-015-plan", "envelope 'US-015-plan' was just taken", 2),)
    async with console(engine=engine) as it:
        await it.press("space", "space", "w", "y")
        said = "not US-015-plan: envelope 'US-015-plan' was just taken"
        await it.until(lambda: any(said in note.text for note in it.lane.query_one(JournalLine).notes))


# -- questions and copies ----------------------------------------------------------------------------------


async def test_a_question_shows_its_command_and_c_copies_it() -> None:
    engine = FakeEngine(lane(3))
    async with console(engine=engine) as it:
        for key, command in (
            ("w", "meshtui withdraw US-015-plan --run-dir /srv/lanes/api-lane"),
            ("i", "meshtui interrupt --run-dir /srv/lanes/api-lane"),
            ("x", "meshtui kill --run-dir /srv/lanes/api-lane --envelope US-015-backend"),
            ("s", "meshtui stop --run-dir /srv/lanes/api-lane"),
        ):
            await it.press(key, "c")
            assert isinstance(it.app.screen, Confirm)
            assert it.app.clipboard == command
            assert it.app.screen.command == command
            await it.press("n")
        assert engine.calls == []


async def test_the_menu_copies_by_number() -> None:
    async with console(lane(3, attention=2)) as it:
        await it.press("y")
        assert isinstance(it.app.screen, CopyMenu)
        assert "meshtui head US-015-plan --run-dir /srv/lanes/api-lane" in it.text()
        await it.press("3")
        assert it.app.clipboard == "meshtui head US-015-plan --run-dir /srv/lanes/api-lane"
        await it.until_shown("Copied the command: to the head")
        await it.press("y", "y")
        assert it.app.clipboard == "US-015-plan"
        await it.press("y", "9", "escape")
        assert isinstance(it.app.screen, LaneScreen)
        await it.press("space", "space", "y", "2")
        assert it.app.clipboard == "meshtui withdraw US-015-plan US-015-backend --run-dir /srv/lanes/api-lane"
        it.lane.query_one("#attention").focus()
        await it.press("y", "2")
        assert it.app.clipboard == "meshtui answer US-014-backend --retry"


@pytest.mark.parametrize(
    "section", ["pending", "active", "done", "failed", "stalled", "withdrawn", "quarantined"]
)
async def test_every_copied_command_is_one_that_exists(section: Section) -> None:
    import click

    from meshtui.cli.root import root

    view = lane(3, attention=4) if section not in ("withdrawn",) else in_section(lane(3), "withdrawn", 2)
    async with console(view) as it:
        it.lane.show_section(section)
        await it.pilot.pause()
        _title, lines = it.lane._copyable()
        assert lines[0][0] == "id"
        for _what, text in lines[1:]:
            words = text.split()
            assert words[0] == "meshtui"
            command = root.get_command(click.Context(root), words[1])
            assert command is not None, text
            if isinstance(command, click.Group):
                assert words[2] in command.commands
                continue
            context = command.make_context(words[1], words[2:], resilient_parsing=False)
            assert context.params["run_dir"] == view.run_dir


# -- head, edit, undo --------------------------------------------------------------------------------------


async def test_the_head_is_undone() -> None:
    engine = FakeEngine(lane(4))
    async with console(engine=engine) as it:
        await it.press("u")
        await it.until_shown("Nothing to undo")
        await it.press("G", "H")
        await it.until(lambda: engine.calls == [("head", ("US-015-review",))])
        await it.until_shown("is at the head of 3 pending · $ meshtui head US-015-review")
        await it.press("u")
        await it.until(lambda: engine.calls[-1] == ("place", {"US-015-review": "old US-015-review"}))
        await it.until_shown("the old order is back")
        await it.press("l", "H")
        await it.until_shown("Select a pending envelope to put it at the head")


async def test_undo_goes_back_newest_first() -> None:
    engine = FakeEngine(lane(4, attention=2))
    async with console(engine=engine) as it:
        await it.press("w", "y")
        await it.until(lambda: len(engine.calls) == 1)
        await it.press("i", "y")
        await it.until(lambda: len(engine.calls) == 2)
        await it.press("x", "y")
        await it.until(lambda: len(engine.calls) == 3)
        await it.press("u")
        await it.until_shown("cannot be undone: what was ended is over")
        await it.press("u")
        await it.until(lambda: engine.calls[-1] == ("restore", ("a", "b"), "in place"))
        await it.press("u")
        await it.until(lambda: engine.calls[-1] == ("restore", ("US-015-plan",), "in place"))
        await it.until_shown("Undone: the withdrawal of US-015-plan; US-015-plan is back in place")
        assert len(engine.calls) == 5


async def test_what_cannot_be_undone_any_more_says_why() -> None:
    engine = FakeEngine(lane(4))
    async with console(engine=engine) as it:
        await it.press("w", "y")
        await it.until(lambda: len(engine.calls) == 1)
        await it.until(lambda: len(it.app.steps) == 1)
        engine.the_operations.error = InvalidInput("a stop is waiting")
        await it.press("u")
        await it.until_shown("Cannot undo the withdrawal of US-015-plan: a stop is waiting")


async def test_an_enqueued_envelope_is_withdrawn_by_undo() -> None:
    engine = FakeEngine(lane(3))
    async with console(engine=engine) as it:
        await it.press("e", *"new", "ctrl+s")
        await it.until(lambda: len(engine.calls) == 1)
        await it.until(lambda: len(it.app.steps) == 1)
        await it.press("u")
        await it.until(lambda: engine.calls[-1] == ("withdraw", "phase-1"))


async def test_an_envelope_is_edited_and_the_edit_undone() -> None:
    engine = FakeEngine(lane(3))
    engine.the_operations.kept = {"kind": "phase", "prompt": "do it", "custom": {"kept": True}}
    async with console(engine=engine) as it:
        await it.press("j", "E")
        await it.until(lambda: isinstance(it.app.screen, EnqueueForm))
        await it.pilot.pause()
        assert "Edit US-015-backend: it keeps its place" in it.text()
        form = it.app.screen
        assert form.query_one("#field-prompt", TextArea).text == "do it"
        assert form.query_one("#field-id", Input).disabled
        await it.press("end", *" well", "ctrl+s")
        changed = {"kind": "phase", "prompt": "do it well", "custom": {"kept": True}}
        await it.until(lambda: engine.calls == [("edit", "US-015-backend", changed)])
        await it.until_shown("US-015-backend is changed, number 2 of 3 pending")
        await it.press("u")
        await it.until(lambda: engine.calls[-1] == ("edit", "US-015-backend", engine.the_operations.kept))
        await it.until_shown("US-015-backend is as it was")


async def test_what_is_typed_right_before_it_is_saved_is_saved() -> None:
    """A paste and ctrl+s in one go: the priority key must not outrun the text."""
    engine = FakeEngine(lane(3))
    async with console(engine=engine) as it:
        await it.press("E")
        await it.until(lambda: isinstance(it.app.screen, EnqueueForm))
        await it.pilot.pause()
        for character in "really ":
            it.app.post_message(events.Key("space" if character == " " else character, character))
        it.app.post_message(events.Key("ctrl+s", None))
        await it.until(lambda: engine.calls)
        assert engine.calls == [("edit", "US-015-plan", {"kind": "phase", "prompt": "really do it"})]


async def test_an_edit_that_changes_nothing_does_nothing_and_a_wrong_one_stays_in_the_form() -> None:
    engine = FakeEngine(lane(3))
    async with console(engine=engine) as it:
        await it.press("E")
        await it.until(lambda: isinstance(it.app.screen, EnqueueForm))
        await it.press(*["delete"] * 6, "ctrl+s")
        assert isinstance(it.app.screen, EnqueueForm)
        await it.press("escape", "E")
        await it.until(lambda: isinstance(it.app.screen, EnqueueForm))
        await it.press("f3")
        assert it.app.clipboard.endswith("| meshtui edit US-015-plan --run-dir /srv/lanes/api-lane -")
        await it.press("ctrl+s")
        await it.until_shown("is as it was: nothing was changed")
        assert engine.calls == []


async def test_a_phase_with_a_schema_is_edited_as_json() -> None:
    engine = FakeEngine(lane(3, attention=2))
    engine.the_operations.kept = {
        "schema": "hq-phase-envelope/v1", "story_id": "US-1", "phase": "backend", "worker_id": "w", "worktree": "/w",
        "incoming_handoff": None, "acceptance_criteria": ["a"], "fresh_call": True,
    }  # fmt: skip
    engine.the_operations.folder = "claimed"
    async with console(engine=engine) as it:
        it.lane.show_section("failed")
        await it.press("E")
        await it.until(lambda: isinstance(it.app.screen, EnqueueForm))
        await it.pilot.pause()
        assert "it is queued again, at the end" in it.text()
        form = it.app.screen
        assert isinstance(form, EnqueueForm)
        assert form.tab == "json"
        area = form.query_one("#json", TextArea)
        area.text = area.text.replace('"US-1"', '"US-2"')
        await it.pilot.pause()
        await it.press("ctrl+s")
        changed = {**engine.the_operations.kept, "story_id": "US-2"}
        await it.until(lambda: engine.calls == [("edit", "US-012-tests", changed)])
        await it.press("u")
        await it.until(lambda: engine.calls[-1] == ("withdraw", "US-012-tests"))


@pytest.mark.parametrize(
    ("section", "why"),
    [
        ("active", "is running: it cannot be edited"),
        ("stalled", "is parked"),
        ("quarantined", "nothing to edit"),
    ],
)
async def test_what_cannot_be_edited_says_why(section: Section, why: str) -> None:
    engine = FakeEngine(lane(3, attention=4))
    async with console(engine=engine) as it:
        it.lane.show_section(section)
        await it.press("E")
        await it.until_shown(why)


# -- read-only ---------------------------------------------------------------------------------------------


async def test_read_only_is_said_and_every_key_that_writes_says_why() -> None:
    engine = FakeEngine(with_missions(in_section(lane(6, attention=4), "withdrawn", 2), mission()))
    async with console(engine=engine, read_only=True, size=(200, 60)) as it:
        assert "read-only" in it.text().splitlines()[0]
        for side in ("queue", "loops"):
            it.lane.look_at("queue" if side == "queue" else "loops")
            it.lane.focus_list()
            await it.press("asterisk")
            bar = it.text().splitlines()[-1]
            for command in COMMANDS:
                if command.writes and command.meant(it.lane.side, filtering=False):
                    assert f" {command.label} " not in f" {bar} ".replace("show", ""), command.action
                    it.app.clear_notifications()
                    await it.press(command.key)
                    assert isinstance(it.app.screen, LaneScreen), command.action
                    await it.until_shown("This console is read-only")
        assert engine.calls == []
        assert engine.the_missions.calls == []
        assert engine.runners == []
        await it.press("escape", "slash", *"x", "escape", "S", "y", "y", "d")
        assert isinstance(it.app.screen, LaneScreen)


# -- the palette -------------------------------------------------------------------------------------------


async def hits(it: Console, query: str) -> list[str]:
    found = sorted([hit async for hit in Places(it.lane).search(query)], key=lambda hit: -hit.score)
    return [str(hit.text) for hit in found if hasattr(hit, "score")]


async def choose(it: Console, query: str) -> None:
    found = sorted([hit async for hit in Places(it.lane).search(query)], key=lambda hit: -hit.score)
    found[0].command()
    await it.pilot.pause()


async def test_every_envelope_loop_and_file_is_reached_by_name() -> None:
    async with console(with_missions(lane(6, attention=2), mission())) as it:
        assert await hits(it, "us-016/plan") == ["US-016/plan · US-016-plan"]
        await choose(it, "us-016/plan")
        assert it.lane.row is not None
        assert it.lane.row.envelope_id == "US-016-plan"
        await choose(it, "us-012-tests handoff")
        assert it.section == "failed"
        assert it.lane.pane.part == "handoff"
        assert it.app.focused is it.lane.pane.prose
        await choose(it, "auth proof")
        assert it.lane.side == "loops"
        assert it.lane.loop is not None
        assert it.lane.loop.loop_id == "loop-auth"
        assert it.lane.pane.part == "proof"
        await choose(it, "stdout.log done-3")
        assert it.lane.pane.PARTS == RECORD_PARTS
        assert it.lane.pane.part == "output"
        assert await hits(it, "nothing like it") == []
        await it.press("colon", *"US-014")
        await it.until_shown("US-014/backend")


async def test_the_palette_offers_what_lists_do() -> None:
    async with console(lane(6)) as it:
        await it.press("colon", *"mark all")
        await it.until_shown("Mark all that the list shows")
        await it.press("enter")
        await it.until(lambda: len(it.lane.query_one(QueueTable).marks) == 6)


async def test_a_long_queue_is_answered_while_typing() -> None:
    async with console(lane(50_000)) as it:
        found = await hits(it, "US-")
        assert len(found) <= 120
        assert await hits(it, "us-9014/docs") == ["US-9014/docs · US-9014-docs"]
