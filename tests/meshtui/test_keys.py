"""Every key does what its command says, asks first where something is lost, and shows a receipt."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.widgets import Button

from meshtui.commands import BY_ACTION, COMMANDS, Side
from meshtui.core.errors import InvalidInput
from meshtui.core.view import Counts, LaneView
from meshtui.screens.confirm import Confirm
from meshtui.screens.fleet import FleetScreen
from meshtui.screens.help import Help
from meshtui.screens.inbox import InboxScreen
from meshtui.screens.lane import LaneScreen
from meshtui.settings import Settings
from meshtui.widgets.attention import NeedsYou
from meshtui.widgets.detail import DetailPane
from meshtui.widgets.journal import JournalLine
from meshtui.widgets.key_bar import KeyBar
from meshtui.widgets.pane import PartsPane
from meshtui.widgets.prose import Prose
from meshtui.widgets.table import QueueTable
from tests.support.engine import FakeEngine
from tests.support.pilot import console
from tests.support.views import QUARANTINED, empty, lane

SIDES: tuple[Side, ...] = ("queue", "loops")


def withdrawn(view: LaneView) -> LaneView:
    """``view`` with something withdrawn."""
    row = replace(view.pending[0], section="withdrawn", key="w-" + view.pending[0].key)
    return replace(view, withdrawn=(row,), counts=replace(view.counts, withdrawn=1))


def test_commands_are_defined_once() -> None:
    ids = [command.id for command in COMMANDS]
    assert len(ids) == len(set(ids))
    for scope in ("lane", "table"):
        for side in SIDES:
            for filtering in (False, True):
                keys = [
                    key
                    for command in COMMANDS
                    if command.scope == scope and command.meant(side, filtering=filtering)
                    for key in command.key.split(",")
                ]
                assert len(keys) == len(set(keys))
    for command in COMMANDS:
        name = f"action_{command.action.partition('(')[0]}"
        owners: dict[str, tuple[type, ...]] = {
            "table": (QueueTable,),
            "lane": (LaneScreen,),
            "text": (Prose, PartsPane),
            "fleet": (FleetScreen,),
            "inbox": (InboxScreen,),
        }
        for place in (command.scope, *command.also):
            assert any(hasattr(owner, name) for owner in owners[place]), (command.action, place)
        assert command.tooltip[0].isupper()
        assert command.binding.id == command.id
        assert command.binding.tooltip == command.tooltip


async def test_interrupt_asks_with_no_selected_then_says_what_happened() -> None:
    engine = FakeEngine(lane(3))
    async with console(engine=engine) as it:
        await it.press("i")
        assert isinstance(it.app.screen, Confirm)
        assert "3 pending envelopes will be withdrawn" in it.text()
        assert isinstance(it.app.focused, Button)
        assert it.app.focused.id == "no"
        await it.press("enter")
        assert engine.calls == []
        await it.press("i", "y")
        await it.until(lambda: engine.calls == [("interrupt",)])
        await it.until_shown("Withdrawn: 2 envelopes (a, b); already running: c")


@pytest.mark.parametrize("key", ["escape", "n", "q"])
async def test_a_question_is_left_without_doing_anything(key: str) -> None:
    engine = FakeEngine(lane(3))
    async with console(engine=engine) as it:
        await it.press("x")
        assert isinstance(it.app.screen, Confirm)
        await it.press(key)
        assert isinstance(it.app.screen, LaneScreen)
        assert engine.calls == []
        assert it.app.is_running


async def test_kill_names_the_phase_and_proves_itself() -> None:
    engine = FakeEngine(lane(3))
    async with console(engine=engine) as it:
        await it.press("x")
        assert "Kill US-015/backend?" in it.text()
        await it.press("right", "enter")
        await it.until(lambda: engine.calls == [("kill", "US-015-backend")])
        await it.until_shown("Ended: US-015-backend; no survivors")


async def test_withdraw_takes_the_selected_one() -> None:
    engine = FakeEngine(lane(3))
    async with console(engine=engine) as it:
        await it.press("j", "w")
        assert "Withdraw US-015/backend?" in it.text()
        await it.press("y")
        await it.until(lambda: engine.calls == [("withdraw", "US-015-backend")])
        await it.until_shown("US-015-backend is withdrawn, 2 pending")


async def test_requeue_takes_the_selected_one() -> None:
    engine = FakeEngine(lane(3, attention=2))
    async with console(engine=engine) as it:
        await it.press("r")
        await it.until_shown("Select a done, failed or withdrawn envelope")
        await it.press("l", "l", "l", "r")
        await it.until(lambda: engine.calls == [("requeue", "US-012-tests")])
        await it.until_shown("queued again as number 3")


async def test_restore_and_pause() -> None:
    engine = FakeEngine(withdrawn(lane(3)))
    async with console(engine=engine) as it:
        await it.press("R", "P")
        await it.until(lambda: sorted(engine.calls) == [("pause",), ("restore",)])
        await it.until_shown("left withdrawn: stop")
        await it.show(replace(engine.the_reader.view, state="paused"))
        await it.until_shown("P continue")
        await it.press("P")
        await it.until(lambda: ("resume",) in engine.calls)


async def test_what_cannot_be_done_says_why() -> None:
    engine = FakeEngine(lane(0, running=False))
    async with console(engine=engine) as it:
        for key, why in (
            ("x", "Nothing is running"),
            ("i", "Nothing is pending"),
            ("R", "Nothing was withdrawn"),
            ("a", "Nothing is parked"),
            ("w", "Select a pending envelope"),
            ("N", "Nothing needs you"),
            ("1", "Nothing needs you"),
        ):
            await it.press(key)
            await it.until_shown(why)
        assert engine.calls == []


async def test_read_only_refuses_every_change() -> None:
    engine = FakeEngine(withdrawn(lane(3, attention=4)))
    async with console(engine=engine, read_only=True) as it:
        for command in COMMANDS:
            if command.writes:
                await it.press(command.key)
                assert isinstance(it.app.screen, LaneScreen), command.action
        await it.press("1")
        await it.until_shown("This console is read-only")
        assert engine.calls == []
        assert engine.runners == []
        assert "enqueue" not in it.text().splitlines()[-1]


async def test_an_error_is_shown_literally() -> None:
    engine = FakeEngine(lane(3))
    engine.the_operations.error = InvalidInput("id '[/foo]' is used; choose another [bold]one")
    async with console(engine=engine) as it:
        await it.press("P")
        await it.until_shown("id '[/foo]' is used; choose another [bold]one")


async def test_exits_are_taken_by_number() -> None:
    engine = FakeEngine(lane(3, attention=4))
    async with console(engine=engine) as it:
        await it.press("1")
        await it.until(lambda: engine.calls == [("answer", "US-014-backend", "retry", None, None)])
        await it.press("2")
        await it.until(lambda: engine.calls[-1] == ("answer", "US-014-backend", "retry", None, 7200.0))
        await it.press("3")
        assert "Drop" in it.text()
        await it.press("y")
        await it.until(lambda: engine.calls[-1] == ("answer", "US-014-backend", "drop", None, None))
        await it.press("9")
        await it.until_shown("has 3 exits")


async def test_next_goes_to_what_needs_the_operator() -> None:
    engine = FakeEngine(lane(3, attention=4))
    async with console(engine=engine) as it:
        await it.press("N")
        selected = it.lane.query_one(NeedsYou).selected
        assert selected is not None
        assert selected.subject == "US-012-tests"
        assert it.section == "failed"
        assert it.lane.row is not None
        assert it.lane.row.envelope_id == "US-012-tests"
        await it.press("2")
        await it.until(lambda: engine.calls == [("requeue", "US-012-tests")])
        await it.press("1")
        assert it.lane.query_one(DetailPane).part == "output"
        await it.press("escape", "N")
        assert it.section == "quarantined"
        await it.press("1")
        await it.until(lambda: engine.calls[-1] == ("repair", QUARANTINED.key))
        await it.press("2")
        assert "leaves the lane for good" in it.text()
        await it.press("y")
        await it.until(lambda: engine.calls[-1] == ("drop-file", QUARANTINED.key))
        await it.press("N", "1")
        await it.until(lambda: len(engine.runners) == 1)
        assert engine.took_over


async def test_sections_by_keys() -> None:
    async with console(lane(3, attention=4)) as it:
        seen = [it.section]
        for _ in range(6):
            await it.press("l")
            seen.append(it.section)
        assert seen == ["pending", "active", "done", "failed", "stalled", "quarantined", "pending"]
        await it.press("h")
        assert it.section == "quarantined"


async def test_filter_is_live_and_dropped_by_escape() -> None:
    async with console(lane(12)) as it:
        await it.press("slash", *"TESTS")
        table = it.lane.query_one(QueueTable)
        assert {row.phase for row in table.rows} == {"tests"}
        assert len(table.rows) == 2
        await it.press("enter")
        assert it.app.focused is table
        await it.press("escape")
        assert len(table.rows) == 12
        assert not it.lane.query_one("#filter").display
        await it.press("slash", *"zzz")
        assert "Nothing here matches zzz." in it.text()
        assert "esc drops the filter" in it.text()


async def test_details_by_keys() -> None:
    async with console(lane(3)) as it:
        pane = it.lane.query_one(DetailPane)
        parts = []
        for _ in range(4):
            await it.press("d")
            parts.append(pane.part)
        assert parts == ["output", "result", "handoff", "envelope"]
        await it.press("D")
        assert pane.part == "handoff"
        await it.press("enter")
        assert it.app.focused is not None
        assert it.app.focused.id == "prose"
        await it.press("escape")
        assert it.app.focused is it.lane.query_one(QueueTable)


async def test_narrow_details_open_over_the_list() -> None:
    async with console(lane(3), size=(80, 24)) as it:
        assert not it.drawn("#detail")
        await it.press("enter")
        assert it.drawn("#detail")
        assert not it.drawn("#lists")
        await it.press("escape")
        assert it.drawn("#lists")
        assert it.app.focused is it.lane.query_one(QueueTable)


async def test_help_lists_every_command() -> None:
    async with console(lane(3), size=(120, 140)) as it:
        await it.press("question_mark")
        assert isinstance(it.app.screen, Help)
        await it.pilot.pause()
        shown = it.text()
        for command in COMMANDS:
            if command.at("lane") and not command.action.startswith("exit("):
                assert command.tooltip[:60] in shown, command.action
        await it.press("escape")
        assert isinstance(it.app.screen, LaneScreen)


async def test_palette_runs_commands() -> None:
    engine = FakeEngine(lane(3))
    async with console(engine=engine) as it:
        await it.press("colon")
        await it.until_shown("an action, or")
        await it.press(*"pause or")
        await it.until_shown("Pause or continue the lane")
        await it.press("enter")
        await it.pilot.pause()
        await it.press("enter")
        await it.until(lambda: engine.calls == [("pause",)])


async def test_ctrl_q_does_not_quit() -> None:
    async with console(lane(3)) as it:
        await it.press("ctrl+q")
        assert it.app.is_running
        await it.until_shown("q quits")


async def test_keys_can_be_remapped() -> None:
    engine = FakeEngine(lane(3))
    async with console(engine=engine) as it:
        it.app.set_keymap({"lane.pause": "f9"})
        await it.pilot.pause()
        await it.press("P")
        assert engine.calls == []
        await it.press("f9")
        await it.until(lambda: engine.calls == [("pause",)])
        it.lane.draw_keys()
        await it.until_shown("f9 pause")


async def test_an_empty_directory_says_what_to_do() -> None:
    engine = FakeEngine(empty())
    async with console(engine=engine) as it:
        assert "e enqueues its first envelope" in it.text()
        await it.press("P")
        await it.until_shown("There is no lane here yet")


async def test_mouse_selects_rows_tabs_exits_and_keys() -> None:
    engine = FakeEngine(lane(3, attention=1))
    async with console(engine=engine) as it:
        lines = it.text().splitlines()
        row = next(index for index, line in enumerate(lines) if "US-015/tests" in line)
        await it.pilot.click(offset=(10, row))
        await it.pilot.pause()
        assert it.lane.row is not None
        assert it.lane.row.phase == "tests"
        tabs = next(index for index, line in enumerate(lines) if "pending 3" in line)
        await it.pilot.click(offset=(lines[tabs].index("done 41"), tabs))
        await it.pilot.pause()
        assert it.section == "done"
        exits = next(index for index, line in enumerate(lines) if "retry" in line)
        await it.pilot.click(offset=(lines[exits].index("retry"), exits))
        await it.until(lambda: engine.calls == [("answer", "US-014-backend", "retry", None, None)])
        await it.pilot.click(offset=(lines[-1].index("pause"), len(lines) - 1))
        await it.until(lambda: ("pause",) in engine.calls)


async def test_counts_alone_decide_what_is_offered() -> None:
    view = replace(lane(0, running=False), counts=Counts(pending=0))
    async with console(view) as it:
        bar = it.text().splitlines()[-1]
        assert "kill" not in bar
        assert "interrupt" not in bar
        assert "start runner" in bar


async def test_y_copies_the_id() -> None:
    async with console(lane(3)) as it:
        await it.press("y", "y")
        await it.until_shown("Copied US-015-plan")
        assert it.app.clipboard == "US-015-plan"


async def test_the_palette_cannot_quit_behind_the_question() -> None:
    engine = FakeEngine(lane(3, running=False))
    async with console(engine=engine) as it:
        await it.press("s")
        await it.until(lambda: it.lane.runner_here)
        titles = {command.title for command in it.app.get_system_commands(it.app.screen)}
        assert titles == {"Theme"}
        await it.app.action_quit()
        await it.until_shown("A runner lives in this console")


async def test_warnings_of_the_lane_are_shown_once() -> None:
    view = replace(lane(3), warnings=("US-1: left running and ended: [sleep]",))
    async with console(view) as it:
        await it.until_shown("US-1: left running and ended: [sleep]")
        notes = len(it.lane.query_one(JournalLine).notes)
        await it.show(replace(view, updated_at=1))
        assert len(it.lane.query_one(JournalLine).notes) == notes


async def test_hovering_an_exit_shows_its_command() -> None:
    async with console(lane(3, attention=1)) as it:
        lines = it.text().splitlines()
        y = next(index for index, line in enumerate(lines) if "longer" in line)
        await it.pilot.hover(offset=(lines[y].index("longer"), y))
        tooltip = it.lane.query_one(NeedsYou).tooltip
        assert str(tooltip) == "meshtui answer US-014-backend --retry --deadline-seconds 7200"
        await it.pilot.hover(offset=(lines[-1].index("pause"), len(lines) - 1))
        assert "claim nothing more" in str(it.lane.query_one(KeyBar).tooltip)


async def test_opening_what_runs_shows_its_output() -> None:
    async with console(lane(3)) as it:
        await it.press("l", "enter")
        assert it.lane.query_one(DetailPane).part == "output"


async def test_help_begins_with_where_one_is() -> None:
    async with console(lane(3), size=(120, 140)) as it:
        await it.press("question_mark")
        await it.until_shown("Now, in the queue")
        now, _, later = it.text().partition("elsewhere or later")
        assert BY_ACTION["withdraw"].tooltip[:40] in now
        assert BY_ACTION["restore"].tooltip[:40] in later
        await it.press("escape", "enter", "question_mark")
        await it.until_shown("Now, in the text")
        now, _, later = it.text().partition("elsewhere or later")
        assert BY_ACTION["find"].tooltip[:40] in now


async def test_help_tells_the_keys_an_operator_chose() -> None:
    async with console(lane(3), size=(120, 140), settings=Settings(keys={"lane.pause": "f7"})) as it:
        await it.press("question_mark")
        await it.until_shown("Now, in the queue")
        line = next(line for line in it.text().splitlines() if BY_ACTION["pause"].tooltip[:40] in line)
        assert "f7" in line


async def test_help_finds_a_key_by_words() -> None:
    async with console(lane(3), size=(120, 40)) as it:
        await it.press("question_mark", "slash", *"head")
        await it.until_shown(BY_ACTION["head"].tooltip[:40])
        await it.until(lambda: BY_ACTION["pause"].tooltip[:40] not in it.text())
        await it.press(*"less")
        await it.until_shown("Nothing here has those words")
        await it.press("escape")
        await it.until_shown(BY_ACTION["pause"].tooltip[:40])
        await it.press("escape")
        assert isinstance(it.app.screen, LaneScreen)
