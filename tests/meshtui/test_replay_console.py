"""The console on a recording: its keys, its bar, what it refuses, and the command line."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from meshtui.core.errors import InvalidInput
from meshtui.replay import SPEEDS, Player, moment_of, open_player
from meshtui.replay_app import ReplayApp
from meshtui.screens.lane import LaneScreen
from meshtui.screens.timeline import Timeline
from tests.support.cli import Cli
from tests.support.lanes import new_lane, phase, run_until_idle
from tests.support.pilot import Console
from tests.support.recordings import START, recording, write


@asynccontextmanager
async def replayed(player: Player | None = None, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Console]:
    """A console on a recording."""
    player = player or Player(recording())
    app = ReplayApp(player)
    async with app.run_test(size=size, notifications=True, tooltips=True) as pilot:
        it = Console(app, pilot)
        await it.until(lambda: it.lane.view is not None, "a first view")
        await pilot.pause()
        yield it


def player_of(it: Console) -> Player:
    assert isinstance(it.app, ReplayApp)
    return it.app.player


async def test_a_replay_is_visible_as_one_and_refuses_every_change() -> None:
    async with replayed() as it:
        assert "REPLAY" in it.text()
        assert "‖ paused" in it.text()
        for key in ("e", "P", "i", "s"):
            await it.press(key)
            assert isinstance(it.app.screen, LaneScreen)
        await it.until_shown("This is a replay")
        await it.press("1")
        assert isinstance(it.app.screen, LaneScreen)


async def test_stepping_shows_one_event_after_the_other() -> None:
    async with replayed() as it:
        await it.press("home")
        await it.until(lambda: it.lane.view is not None and not it.lane.view.exists)
        await it.press("full_stop")
        await it.until(lambda: it.lane.view is not None and it.lane.view.counts.pending == 1)
        await it.press("full_stop", "full_stop")
        await it.until(lambda: it.lane.view is not None and it.lane.view.counts.pending == 3)
        assert player_of(it).index == 3
        await it.press("comma")
        await it.until(lambda: it.lane.view is not None and it.lane.view.counts.pending == 2)
        await it.press("end")
        await it.until(lambda: it.lane.view is not None and it.lane.view.counts.done == 8)


async def test_scrubbing_and_the_time_of_everything() -> None:
    async with replayed() as it:
        await it.press(*["left"] * 10)
        player = player_of(it)
        assert player.at < player.recording.end
        await it.until(
            lambda: it.lane.view is not None and len(it.lane.view.journal) == min(400, player.index)
        )
        before = player.at
        await it.press("right")
        assert player.at > before
        # Ages are those of then: what was active had just begun.
        assert it.app.clock.now_ms() == player.at


async def test_playing_goes_on_by_itself_and_speeds_change() -> None:
    async with replayed() as it:
        player = player_of(it)
        await it.press("home", *["greater_than_sign"] * 10)
        assert player.speed == SPEEDS[-1]
        await it.press("less_than_sign")
        assert player.speed == SPEEDS[-2]
        await it.press("greater_than_sign", "space")
        await it.until(lambda: player.index == len(player.recording))
        await it.until(lambda: "‖ paused" in it.text())
        await it.until(lambda: it.lane.view is not None and it.lane.view.counts.done == 8)
        await it.press("space")
        assert player.playing
        await it.press("space")
        assert not player.playing


async def test_keys_are_typed_into_a_filter_and_not_played() -> None:
    async with replayed() as it:
        await it.press("slash", *"a.b", "space", "left", "home")
        assert player_of(it).index == len(player_of(it).recording)
        assert not player_of(it).playing


async def test_a_timeline_goes_with_the_play_head() -> None:
    async with replayed() as it:
        await it.press("t")
        shown = it.app.screen
        assert isinstance(shown, Timeline)
        await it.until_shown("US-017/tests")
        assert "REPLAY" in it.text()
        await it.press(*["left"] * 30)
        await it.until(lambda: "US-017/tests" not in it.text())
        assert it.app.screen is shown
        await it.press("escape")
        await it.until(lambda: it.app.screen is it.lane)


@pytest.mark.parametrize("size", [(60, 18), (80, 24), (200, 60)])
async def test_the_bar_fits(size: tuple[int, int]) -> None:
    async with replayed(size=size) as it:
        await it.press("home", "full_stop")
        line = next(line for line in it.text().splitlines() if "REPLAY" in line)
        assert "×30" in line
        assert f"1/{len(player_of(it).recording)}" in line


async def test_a_click_on_the_bar_goes_there() -> None:
    async with replayed() as it:
        await it.pilot.click("#replay", offset=(40, 0))
        await it.until(lambda: player_of(it).index < len(player_of(it).recording))


async def test_details_are_those_of_the_time(tmp_path: Path) -> None:
    run_dir, lane = new_lane(tmp_path / "run")
    lane.enqueue_many([phase("a"), phase("b")])
    run_until_idle(run_dir, "echo said")
    player = open_player(run_dir.root, None)
    async with replayed(player) as it:
        # Both are done now; when only they were queued nobody knew their results.
        player.step(2 - len(player.recording))
        it.app._moved()  # type: ignore[attr-defined]
        await it.until(lambda: it.lane.view is not None and it.lane.view.counts.pending == 2)
        it.lane.show_section("pending")
        await it.until(lambda: it.lane.row is not None and it.lane.row.envelope_id == "a")
        bridge = it.lane.bridge
        assert bridge is not None
        row = it.lane.row
        assert row is not None
        from meshtui.replay import ReplayReader

        early = ReplayReader(player).detail(row.key)
        assert early is not None
        assert early.record is not None
        assert early.record["envelope"]["prompt"] == "do a"
        assert early.result is None
        assert early.call is None
        player.to_end()
        late = ReplayReader(player).detail(player.view().done[0].key)
        assert late is not None
        assert late.result is not None
        assert late.result["status"] == "done"


def test_the_play_head() -> None:
    player = Player(recording())
    player.home()
    assert (player.index, player.at) == (0, START)
    player.playing = True
    player.speed = 1
    assert player.tick(0.1)
    assert player.index == 16
    # The next event is 5 s away: at this speed two of them are passed over.
    player.tick(0.1)
    assert player.skipped_ms > 0
    player.speed = 1800
    for _ in range(200):
        player.tick(0.1)
    assert player.index == len(player.recording)
    assert not player.playing
    player.toggle()
    assert player.index == 0


def test_moments() -> None:
    made = recording()
    assert moment_of("50%", made) == (made.start + made.end) // 2
    assert moment_of("2026-11-30T23:10:00Z", made) - made.start == 470_000
    assert moment_of("23:10", made) - made.start == 470_000
    for wrong in ("soon", "120%", "x%", "25:99"):
        with pytest.raises(InvalidInput, match="--at"):
            moment_of(wrong, made)


def test_one_frame_and_one_snapshot_without_a_terminal(cli: Cli, tmp_path: Path) -> None:
    root = write(tmp_path / "run", recording().events)
    frame = tmp_path / "frame.svg"
    said = cli.raw("--replay", str(root), "--at", "50%", "--headless", "--screenshot", str(frame))
    assert said.code == 0
    assert "REPLAY" in frame.read_text().replace("&#160;", " ")
    told = cli.raw("--replay", str(root / "events.jsonl"), "--at", "23:10", "--json")
    assert told.code == 0
    value = json.loads(told.out)
    assert value["schema"] == "meshtui.snapshot.v1"
    assert value["replay"]["events"] == len(recording())
    assert value["replay"]["event"] < value["replay"]["events"]
    assert value["queue"]["counts"]["pending"] + value["queue"]["counts"]["active"] < 16
    before = sorted(path.name for path in root.iterdir())
    assert before == ["events.jsonl"]


def test_wrong_use_is_one_line(cli: Cli, tmp_path: Path) -> None:
    for arguments, code, words in (
        (("--replay", str(tmp_path), "--json"), 3, "events.jsonl"),
        (("--replay", str(tmp_path / "no"), "--json"), 3, "neither"),
        (("--at", "50%", "--json"), 2, "--replay"),
        (("--replay", str(tmp_path), "--run-dir", str(tmp_path), "--json"), 2, "leave --run-dir out"),
    ):
        said = cli.raw(*arguments)
        assert said.code == code, said
        assert words in said.err


@pytest.mark.parametrize("seed", range(4))
async def test_any_keys_end_without_a_traceback_and_change_nothing(seed: int, tmp_path: Path) -> None:
    root = write(tmp_path / "run", recording().events)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    chosen = random.Random(seed)
    keys = [
        "t",
        "c",
        "p",
        "tab",
        "j",
        "k",
        "g",
        "G",
        "h",
        "l",
        "left",
        "right",
        "home",
        "end",
        "space",
        "full_stop",
        "comma",
        "greater_than_sign",
        "less_than_sign",
        "plus",
        "minus",
        "0",
        "left_square_bracket",
        "right_square_bracket",
        "enter",
        "escape",
        "d",
        "D",
        "N",
        "slash",
        "question_mark",
        "x",
        "e",
        "s",
        "P",
        "r",
        "1",
        "2",
        "ctrl+d",
        "ctrl+u",
    ]
    player = open_player(root, "40%")
    async with replayed(player, size=chosen.choice([(60, 18), (80, 24), (120, 40)])) as it:
        for _ in range(60):
            await it.pilot.press(chosen.choice(keys))
        await it.pilot.pause()
        assert it.app.is_running
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
