"""Telling somebody who looks elsewhere: each event once, never what was there before."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from meshtui.core.fleet import FleetView, Need
from meshtui.notify import (
    GIVE_BACK_TITLE,
    KEEP_TITLE,
    MOST_WAITING,
    Announcer,
    Commands,
    News,
    set_title,
    title_of_fleet,
    title_of_lane,
)
from tests.support.fleets import fleet
from tests.support.views import ATTENTION, NOW, empty, lane

LIMIT = 10.0
RUN = Path("/srv/lanes/api")


def need(kind: str = "parked", subject: str = "US-1", since: int | None = NOW, run_dir: Path = RUN) -> Need:
    """Something that needs somebody."""
    item = replace(ATTENTION[0], kind=kind, subject=subject, since=since, key=f"k-{subject}")  # type: ignore[arg-type]
    return Need(run_dir.name, run_dir, item)


def until(condition: Callable[[], object], what: str) -> None:
    """Wait until ``condition`` holds."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.01)


# What is news


def test_what_was_there_before_is_no_news() -> None:
    news = News(NOW)
    old, new = need(since=NOW - 1), need(subject="US-2", since=NOW + 5)
    assert news.take([old], []) == ()
    assert news.take([old, new], [RUN]) == (new,)
    assert news.take([old, new], [RUN]) == ()


def test_each_event_is_told_once_and_a_later_one_of_the_same_thing_again() -> None:
    news = News(NOW)
    first = need(since=NOW + 1)
    assert news.take([first], [RUN]) == (first,)
    assert news.take([], [RUN]) == ()
    assert news.take([first], [RUN]) == ()
    again = need(since=NOW + 9)
    assert news.take([again], [RUN]) == (again,)


def test_a_restart_tells_nothing_again() -> None:
    item = need(since=NOW + 1)
    assert News(NOW).take([item], [RUN]) == (item,)
    assert News(NOW + 1000).take([item], [RUN]) == ()


@pytest.mark.parametrize("kind", ["dead", "budget"])
def test_what_has_no_time_of_its_own_counts_once_it_was_not_there(kind: str) -> None:
    news = News(NOW)
    before = need(kind, "before", since=NOW - 99_000)
    later = need(kind, "later", since=NOW - 99_000)
    assert news.take([before], [RUN]) == ()
    assert news.take([before, later], [RUN]) == (later,)
    assert news.take([replace(later, item=replace(later.item, since=NOW + 7))], [RUN]) == ()


def test_an_old_item_that_comes_into_sight_is_no_news() -> None:
    news = News(NOW)
    news.take([], [RUN])
    assert news.take([need("failed", since=NOW - 5000)], [RUN]) == ()


def test_a_lane_that_is_read_later_has_its_own_beginning() -> None:
    news = News(NOW)
    other = Path("/srv/lanes/web")
    news.take([], [RUN])
    dead = need("dead", run_dir=other, since=None)
    assert news.take([dead], [RUN]) == ()
    assert news.take([dead], [RUN, other]) == ()


# The title


def test_titles_say_state_and_how_many_need_somebody() -> None:
    assert title_of_lane(lane(3)) == "api-lane running · meshtui"
    assert title_of_lane(lane(3, attention=1)) == "1 needs you · api-lane running · meshtui"
    assert title_of_lane(lane(3, attention=4)) == "4 need you · api-lane running · meshtui"
    assert title_of_lane(empty()) == "new no lane yet · meshtui"
    assert title_of_fleet(fleet(4)) == "6 need you · 4 lanes: 1 dead, 3 running · meshtui"
    assert title_of_fleet(FleetView()) == "0 lanes · meshtui"


def test_a_title_cannot_leave_its_sequence() -> None:
    text = set_title(title_of_lane(replace(lane(1), lane_id="a\x07\x1b]2;b\x9c")))
    assert text.count("\x07") == 1
    assert text.count("\x1b") == 1
    assert "\x9c" not in text


def test_the_title_is_kept_before_it_is_set_and_given_back() -> None:
    written: list[str] = []
    announcer = Announcer(began_at=NOW, write=written.append, ring=None, command=None, problem=print)
    announcer.take([], [], "one")
    announcer.take([], [], "one")
    announcer.take([], [], "two")
    announcer.close()
    announcer.close()
    assert written == [KEEP_TITLE + set_title("one"), set_title("two"), GIVE_BACK_TITLE]
    assert announcer.stop()


def test_the_bell_rings_once_for_news_only() -> None:
    rings: list[None] = []
    announcer = Announcer(
        began_at=NOW, write=None, ring=lambda: rings.append(None), command=None, problem=print
    )
    announcer.take([need(since=NOW - 1)], [RUN], "t")
    assert rings == []
    announcer.take([need(since=NOW - 1), need("failed", since=NOW), need("dead")], [RUN], "t")
    announcer.take([need(since=NOW - 1), need("failed", since=NOW), need("dead")], [RUN], "t")
    assert len(rings) == 1
    assert announcer.stop()


# The command


class Told:
    """Commands whose problems are remembered."""

    def __init__(self, command: str | None, limit_seconds: float = 20.0) -> None:
        self.problems: list[str] = []
        self.commands = Commands(command, self.problems.append, limit_seconds=limit_seconds)


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Callable[..., Told]]:
    """Makes commands, and ends their threads."""
    made: list[Told] = []

    def make(command: str | None, limit_seconds: float = 20.0) -> Told:
        made.append(Told(command, limit_seconds))
        return made[-1]

    yield make
    for one in made:
        assert one.commands.stop(LIMIT)


def test_the_command_gets_the_facts_in_environment_and_on_standard_input(
    tmp_path: Path, told: Callable[..., Told]
) -> None:
    out = tmp_path / "out"
    it = told(
        f'{{ echo "$MESHTUI_EVENT|$MESHTUI_LANE|$MESHTUI_SUBJECT|$MESHTUI_SINCE"; cat; }} > {out}.tmp && mv {out}.tmp {out}'
    )
    it.commands.tell([need(subject="US-1 $(touch no)")])
    until(out.exists, "the command's output")
    line, document = out.read_text().splitlines()
    assert line == "parked|api|US-1 $(touch no)|2026-12-01T00:02:10.000Z"
    facts = json.loads(document)
    assert facts["event"] == "parked"
    assert facts["run_dir"] == "/srv/lanes/api"
    assert facts["exits"][0] == {"label": "retry", "command": "meshtui answer US-014-backend --retry"}
    assert it.problems == []


def test_each_event_runs_it_once(tmp_path: Path, told: Callable[..., Told]) -> None:
    out = tmp_path / "out"
    it = told(f'echo "$MESHTUI_SUBJECT" >> {out}')
    it.commands.tell([need(subject="a"), need(subject="b")])
    it.commands.tell([need(subject="c")])
    until(lambda: out.exists() and out.read_text().split() == ["a", "b", "c"], "three lines")


def test_a_failure_is_told_once(told: Callable[..., Told]) -> None:
    it = told("exit 3")
    it.commands.tell([need(subject="a"), need(subject="b")])
    until(lambda: it.problems, "a problem")
    assert it.commands.stop(LIMIT)
    assert it.problems == ["the notify command failed: exit 3"]


def test_one_that_hangs_is_ended_with_what_it_started(tmp_path: Path, told: Callable[..., Told]) -> None:
    out = tmp_path / "pid"
    it = told(f"sleep 300 & echo $! > {out}; wait", limit_seconds=1.0)
    it.commands.tell([need()])
    until(lambda: it.problems, "a problem")
    assert it.problems == ["the notify command took longer than 1 s and was ended"]
    child = Path("/proc") / out.read_text().strip()
    if child.parent.is_dir():
        until(lambda: not child.exists() or "Z" in (child / "stat").read_text().split()[2], "its end")


def test_a_run_directory_s_own_command_comes_first(tmp_path: Path, told: Callable[..., Told]) -> None:
    own, mine = tmp_path / "own", tmp_path / "mine"
    run = tmp_path / "run"
    run.mkdir()
    (run / "meshtui.toml").write_text(f'[notify]\ncommand = ["/bin/sh", "-c", "touch {own}"]\n')
    it = told(f"touch {mine}")
    it.commands.tell([need(run_dir=run)])
    until(own.exists, "the run directory's command")
    it.commands.tell([need()])
    until(mine.exists, "the operator's command")


def test_a_broken_file_is_told(tmp_path: Path, told: Callable[..., Told]) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "meshtui.toml").write_text("[notify]\ncomand = 1\n")
    it = told(None)
    it.commands.tell([need(run_dir=run)])
    until(lambda: it.problems, "a problem")
    assert "comand" in it.problems[0]


def test_without_a_command_nothing_runs(told: Callable[..., Told]) -> None:
    it = told(None)
    it.commands.tell([need()])
    assert it.commands.stop(LIMIT)
    assert it.problems == []


def test_more_events_than_it_can_take_are_dropped_and_told(told: Callable[..., Told]) -> None:
    it = told("sleep 300", limit_seconds=0.3)
    it.commands.tell([need(subject=str(number)) for number in range(MOST_WAITING + 20)])
    until(lambda: any("too slow" in text for text in it.problems), "what was dropped")
    it.commands._ended.set()
