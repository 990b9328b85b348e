"""An operator's file: what it sets is set, what is wrong in it is named and costs nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType

import pytest
from textual.theme import BUILTIN_THEMES

from meshtui.commands import COMMANDS
from meshtui.key_check import all_bindings, check_keys
from meshtui.keymap import display, keymap, known_key, normal
from meshtui.settings import MAX_BYTES, Settings, config_path, line_of, load_settings, speaks_utf8
from meshtui.widgets.inbox import InboxTable
from tests.support.cli import Cli
from tests.support.fleet_pilot import fleet_console
from tests.support.fleets import fleet
from tests.support.pilot import console
from tests.support.views import lane

Write = Callable[[str], dict[str, str]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes the file; the environment in which it is found."""

    def written(text: str) -> dict[str, str]:
        (tmp_path / "meshtui").mkdir(exist_ok=True)
        (tmp_path / "meshtui" / "config.toml").write_text(text)
        return {"XDG_CONFIG_HOME": str(tmp_path)}

    return written


def problems(write: Write, text: str) -> list[str]:
    """What is wrong with ``text``, without the path in front of each line."""
    environ = write(text)
    prefix = f"{config_path(environ)}: "
    _settings, lines = load_settings(environ)
    assert all(line.startswith(prefix) for line in lines)
    return [line.removeprefix(prefix) for line in lines]


def test_where_it_is_looked_for() -> None:
    assert config_path({"XDG_CONFIG_HOME": "/etc/mine", "HOME": "/home/ada"}) == Path(
        "/etc/mine/meshtui/config.toml"
    )
    assert config_path({"HOME": "/home/ada"}) == Path("/home/ada/.config/meshtui/config.toml")
    # A relative one is none.
    assert config_path({"XDG_CONFIG_HOME": "x", "HOME": "/h"}) == Path("/h/.config/meshtui/config.toml")


def test_no_file_says_nothing(tmp_path: Path) -> None:
    assert load_settings({"XDG_CONFIG_HOME": str(tmp_path)}) == (Settings(), ())


def test_all_that_can_be_set(write: Write) -> None:
    environ = write(
        'theme = "nord"\nrefresh = 2\nglyphs = "ascii"\nmotion = false\ncontrast = "high"\n'
        '[notify]\ncommand = "say done"\nbell = true\ntitle = false\n'
        '[columns]\npending = ["story / phase", "#"]\n'
        '[keys]\nlane.pause = "f7"\n"lane.help" = ["f1", "?"]\n'
    )
    settings, wrong = load_settings(environ)
    assert wrong == ()
    assert settings == Settings(
        keys={"lane.pause": "f7", "lane.help": "f1,question_mark"},
        theme="nord",
        columns={"pending": ("story / phase", "#")},
        refresh_seconds=2.0,
        notify_command="say done",
        bell=True,
        title=False,
        glyphs="ascii",
        motion=False,
        contrast="high",
    )


def test_what_is_wrong_is_named_and_the_rest_is_used(write: Write) -> None:
    text = 'theme = "nrod"\nmotion = false\nrefresh = 100\nmtion = 1\n[notify]\nbell = "yes"\ntitle = false\n'
    assert problems(write, text) == [
        "line 1: theme: 'nrod' is not known; did you mean nord?",
        "line 3: refresh: must be seconds from 0.2 to 60, not 100",
        "line 4: mtion: is not a known key; did you mean motion?",
        "line 6: notify.bell: must be true or false, not 'yes'",
    ]
    settings, _ = load_settings(write(text))
    assert settings == Settings(motion=False, title=False)


@pytest.mark.parametrize("value", ["0", "-1", "true", '"1"', "nan", "inf", "1e300"])
def test_a_rhythm_that_is_none(write: Write, value: str) -> None:
    (line,) = problems(write, f"refresh = {value}\n")
    assert "refresh: must be seconds" in line
    assert load_settings(write(f"refresh = {value}\n"))[0].refresh_seconds == 1.0


@pytest.mark.parametrize("name", ["keys", "columns", "notify"])
def test_a_table_that_is_none(write: Write, name: str) -> None:
    (line,) = problems(write, f"\n{name} = 3\n")
    assert line == f"line 2: {name}: must be a table, [{name}], not 3"


def test_lines_that_are_no_toml_are_left_out(write: Write) -> None:
    text = "motion = false\nrefresh = = 2\n[keys\nlane.pause = 'f7'\n[notify]\nbell = true\n"
    first, second = problems(write, text)
    assert first.startswith("line 2: not TOML:")
    assert second.startswith("line 3: not TOML:")
    # What stood below the broken heading is not taken for anything else.
    assert load_settings(write(text))[0] == Settings(motion=False, bell=True)


@pytest.mark.parametrize("text", ['motion = """', "keys = [", "[[[" * 50, "=\n" * 60, "x = " + "[" * 5000])
def test_no_toml_at_all_leaves_the_defaults(write: Write, text: str) -> None:
    assert problems(write, text)
    assert load_settings(write(text))[0] == Settings()


def test_other_things_than_a_readable_file(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    file = tmp_path / "meshtui" / "config.toml"
    file.parent.mkdir()
    file.mkdir()
    assert load_settings(environ)[0] == Settings()
    assert "folder" in load_settings(environ)[1][0] or "directory" in load_settings(environ)[1][0]
    file.rmdir()
    os.mkfifo(file)
    assert "not a plain file" in load_settings(environ)[1][0]
    file.unlink()
    file.write_bytes(b"motion = false\n\xff\n")
    assert "line 2: not UTF-8" in load_settings(environ)[1][0]
    file.write_bytes(b"#" * (MAX_BYTES + 1))
    assert "more than 1 MiB" in load_settings(environ)[1][0]
    file.write_bytes(b"\xef\xbb\xbfmotion = false\r\n")
    assert load_settings(environ) == (Settings(motion=False), ())


def test_problems_are_one_line_that_no_terminal_acts_upon(write: Write) -> None:
    (line,) = problems(write, '"a\\u001b[31m\\nb" = 1\n')
    assert line.isprintable()


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("theme",), 1), (("keys", "lane", "pause"), 4), (("keys", "lane", "help"), 5),
        (("notify", "bell"), 7), (("columns", "done"), 2), (("nothing",), None),
    ],
)  # fmt: skip
def test_the_line_of_a_key(path: tuple[str, ...], line: int | None) -> None:
    text = 'theme = 1 # x = y\ncolumns = { done = [] }\n[ keys ] # mine\nlane.pause = 1\n"lane.help" = 2\n[notify]\nbell = 1\n'
    assert line_of(text, path) == line


# Keys


def test_ids_and_keys_that_are_none_name_the_nearest() -> None:
    kept, wrong = check_keys({"lane.paus": "f7", "lane.pause": "ctrl+pagdown", "lane.help": "f1"})
    assert kept == {"lane.help": "f1"}
    assert dict(wrong) == {
        "lane.paus": "is the id of no key; did you mean lane.pause?",
        "lane.pause": "'ctrl+pagdown' is no key; did you mean ctrl+pagedown?",
    }


def test_a_key_that_is_taken_gives_way() -> None:
    kept, ((name, why),) = check_keys({"lane.pause": "e"})
    assert kept == {}
    assert name == "lane.pause"
    assert why.startswith("e is lane.enqueue there already")


def test_two_that_want_one_key() -> None:
    kept, ((name, why),) = check_keys({"lane.pause": "f7", "lane.restore": "f7"})
    assert kept == {"lane.pause": "f7"}
    assert name == "lane.restore"
    assert "f7 is lane.pause there already" in why


def test_two_may_change_their_keys() -> None:
    pause, restore = (normal(c.key) for c in COMMANDS if c.id in ("lane.pause", "lane.restore"))
    assert check_keys({"lane.pause": restore, "lane.restore": pause})[1] == []


def test_the_two_lists_may_share_a_key() -> None:
    # kill means the active phase in one and the loop in the other.
    assert check_keys({"lane.kill": "f8", "lane.kill_loop": "f8"})[1] == []


def test_dialogs_have_ids_too() -> None:
    assert "question.yes" in all_bindings()
    assert check_keys({"question.yes": "j"}) == ({"question.yes": "j"}, [])


def test_the_delivered_keys_fit_together() -> None:
    for name, bound in all_bindings().items():
        for key in bound.keys.split(","):
            assert known_key(key), (name, key)
    assert check_keys({name: bound.keys for name, bound in all_bindings().items()})[1] == []


def test_keys_as_they_are_typed() -> None:
    for typed, named in {
        "?": "question_mark",
        "^d": "ctrl+d",
        "pgdn": "pagedown",
        "+": "plus",
        ",": "comma",
    }.items():
        assert normal(typed) == named
        assert display(named) == typed
    assert normal("j, down") == "j,down"


def test_every_key_is_named_where_one_is_changed() -> None:
    # Textual forgets the other list's x when the x of this one goes elsewhere.
    assert keymap({}) == {}
    made = keymap({"lane.kill": "f8"})
    assert made["lane.kill"] == "f8"
    assert made["lane.kill_loop"] == "x"


# The locale


@pytest.mark.parametrize(
    ("environ", "fine"),
    [
        ({}, True),
        ({"LANG": "C.UTF-8"}, True),
        ({"LANG": "de_DE.utf8"}, True),
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, False),
        ({"LANG": "de_DE.ISO-8859-1"}, False),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, False),
        ({"LC_CTYPE": "en_US.UTF-8", "LANG": "de_DE.ISO-8859-1"}, True),
    ],
)
def test_a_locale_that_cannot_write_the_signs_gets_ascii(
    environ: dict[str, str], fine: bool, tmp_path: Path
) -> None:
    assert speaks_utf8(environ) is fine
    settings, _ = load_settings({**environ, "XDG_CONFIG_HOME": str(tmp_path)})
    assert settings.glyphs == ("unicode" if fine else "ascii")


def test_the_file_goes_before_the_locale(write: Write) -> None:
    assert load_settings({**write('glyphs = "unicode"'), "LC_ALL": "C"})[0].glyphs == "unicode"


# The command


def test_the_commented_file_is_right_as_it_is_and_with_all_switched_on(cli: Cli, write: Write) -> None:
    printed = cli.raw("config", "print").out
    assert load_settings(write(printed)) == (Settings(), ())
    on = "\n".join(
        line[2:] if line.startswith("# ") and " = " in line else line for line in printed.splitlines()
    )
    settings, wrong = load_settings(write(on))
    assert wrong == ()
    assert settings.contrast == "high"
    assert set(settings.keys) == {command.id for command in COMMANDS}


def test_config_check(cli: Cli, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in write("motion = 1\n").items():
        monkeypatch.setenv(name, value)
    said = cli.raw("config", "check")
    assert said.code == 2
    assert "line 1: motion: must be true or false, not 1" in said.err
    document = cli.raw("config", "check", "--json")
    assert document.code == 2
    assert len(document.json["problems"]) == 1
    write("motion = true\n")
    assert cli.raw("config", "check").out.endswith("config.toml is right\n")


def test_themes_and_columns_are_listed(cli: Cli) -> None:
    assert set(BUILTIN_THEMES) < set(cli.raw("config", "themes").out.split())
    assert cli.raw("config", "columns", "--json").json["pending"][:2] == ["#", "story / phase"]


async def test_the_columns_of_the_fleet_and_the_inbox_are_chosen_too() -> None:
    settings = Settings(
        columns=MappingProxyType({"fleet": ("needs you", "lane"), "inbox": ("subject", "lane", "what")})
    )
    async with fleet_console(fleet(3), settings=settings) as it:
        assert [column.title for column, _ in it.home.table.layout_of(110).columns] == ["needs you", "lane"]
        inbox = [column.title for column, _ in it.home.inbox.layout_of(110).columns]
        assert inbox == ["subject", "lane", "what"]
    async with console(lane(3, attention=2), settings=settings) as it:
        await it.press("I")
        [table] = it.app.screen.query(InboxTable)
        assert [column.title for column, _ in table.layout_of(110).columns] == ["subject", "what"]


def test_a_frame_is_drawn_as_set_and_problems_go_to_stderr(
    cli: Cli, write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cli("enqueue", "--prompt", "x")
    for name, value in write('glyphs = "ascii"\ntheme = "nrod"\n').items():
        monkeypatch.setenv(name, value)
    target = tmp_path / "frame.svg"
    said = cli.raw("--run-dir", str(cli.run_dir), "--headless", "--screenshot", str(target))
    assert said.code == 0
    assert "line 2: theme: 'nrod' is not known; did you mean nord?" in said.err
    assert "╭" not in target.read_text()
    refused = cli.raw(
        "--run-dir", str(cli.run_dir), "--headless", "--screenshot", str(target), "--theme", "x"
    )
    assert refused.code == 2
