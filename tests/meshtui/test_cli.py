"""The commands on a lane without a runner: what they answer, and what they refuse."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from meshtui import __version__
from meshtui.cli.root import _COMMANDS
from meshtui.core.run_dir import RunDir
from tests.support.cli import Cli

HOSTILE = [
    "../../etc/passwd",
    "/etc/passwd",
    "--help-me",
    "[bold]x[/]",
    "[/",
    "a b'c\"d",
    "é漢😀",
    "..",
    ".",
    "$(touch pwned)",
    "x" * 120,
    "\u202eevil",
    "%s{0}",
]


def envelope(envelope_id: str, **fields: Any) -> dict[str, Any]:
    return {"kind": "phase", "prompt": "do it", "id": envelope_id, **fields}


def lines(*envelopes: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(item).encode() + b"\n" for item in envelopes)


class TestRoot:
    def test_version_and_help(self, cli: Cli) -> None:
        assert cli.raw("--version").out == f"meshtui, version {__version__}\n"
        said = cli.raw("--help")
        assert said.code == 0
        assert all(name in said.out for name in _COMMANDS)

    @pytest.mark.parametrize("command", _COMMANDS)
    def test_every_command_has_help_and_json(self, command: str, cli: Cli) -> None:
        said = cli.raw(command, "--help")
        assert (said.code, said.err) == (0, "")
        assert "--json" in said.out

    @pytest.mark.parametrize("command", ["enqueue --prompt x", "status", "quarantine list", "--headless"])
    def test_an_empty_run_directory_is_not_this_one(
        self, command: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        here = tmp_path / "here"
        here.mkdir()
        monkeypatch.chdir(here)
        said = cli.raw(*command.split(), "--run-dir", "")
        assert said.code == 2
        assert "it is empty; name a folder" in said.complaint
        assert list(here.iterdir()) == []

    def test_an_unknown_command_or_option(self, cli: Cli) -> None:
        said = cli.raw("enqeue")
        assert said.code == 2
        assert "did you mean enqueue?" in said.complaint
        said = cli("status", "--wrong")
        assert said.code == 2
        assert "--wrong" in said.complaint

    def test_without_a_terminal_the_console_names_headless(self, cli: Cli) -> None:
        cli("enqueue", "--prompt", "x")
        said = cli.raw("--run-dir", str(cli.run_dir))
        assert said.code == 2
        assert "--headless" in said.complaint

    def test_headless(self, cli: Cli) -> None:
        cli("enqueue", "--prompt", "x", "--id", "a")
        where = ("--run-dir", str(cli.run_dir), "--headless")
        snapshot = cli.raw(*where, "--json").json
        assert snapshot["schema"] == "meshtui.snapshot.v1"
        status = cli.json("status")
        assert {**snapshot, "taken_at": None} == {**status, "taken_at": None}
        assert cli.raw(*where, "--json", "--fail-on", "parked,failed").code == 0
        (cli.run_dir / "loop" / "pending" / "x.json").write_text("{")
        cli("interrupt")
        assert cli.raw(*where, "--json").code == 0
        assert cli.raw(*where, "--json", "--fail-on", "quarantined").code == 1
        assert cli.raw(*where, "--fail-on", "nonsense").code == 2
        assert cli.raw("--run-dir", str(cli.run_dir / "missing"), "--headless").code == 3


EVERYTHING_ELSE = [
    ["interrupt"], ["restore"], ["withdraw", "a"], ["requeue", "a"], ["quarantine"],
    ["quarantine", "list"], ["quarantine", "repair", "x"], ["quarantine", "drop", "x"],
    ["answer", "a", "--retry"], ["stop"], ["stop", "--drain"], ["pause"], ["continue"],
    ["kill", "--envelope", "a"], ["status"], ["events"], ["logs", "a"], ["wait", "a"],
    ["wait", "lane"], ["prune"], ["doctor"],
]  # fmt: skip
"""Every command that does not make a missing run directory."""


class TestMissingRunDirectory:
    @pytest.mark.parametrize("command", EVERYTHING_ELSE, ids=" ".join)
    @pytest.mark.parametrize("flag", [[], ["--json"]], ids=["text", "json"])
    def test_exits_3_and_makes_nothing(self, command: list[str], flag: list[str], cli: Cli) -> None:
        said = cli.raw(*command, "--run-dir", str(cli.run_dir), *flag)
        assert said.code == 3
        if command == ["doctor"]:
            assert "no run directory" in said.err
            assert "engine claude" in said.out
        else:
            assert str(cli.run_dir) in said.complaint
        assert not cli.run_dir.exists()

    @pytest.mark.parametrize("command", EVERYTHING_ELSE, ids=" ".join)
    def test_an_empty_directory_has_no_lane(self, command: list[str], cli: Cli) -> None:
        cli.run_dir.mkdir()
        said = cli.raw(*command, "--run-dir", str(cli.run_dir))
        looks = (
            command[0] in ("status", "events", "doctor", "prune", "quarantine", "wait") and len(command) < 3
        )
        if command == ["wait", "a"]:
            assert said.code == 3
        elif looks:
            assert said.code == 0
        else:
            assert said.code == 3
        assert not list(cli.run_dir.iterdir())

    def test_a_file_in_its_place(self, cli: Cli) -> None:
        cli.run_dir.write_text("x")
        assert cli("enqueue", "--prompt", "x").code == 2
        assert cli("status").code == 3


class TestEnqueue:
    def test_a_prompt(self, cli: Cli) -> None:
        answer = cli.json(
            "enqueue", "--prompt", "do it", "--id", "a", "--story", "S", "--phase", "p", "--engine", "command",
            "--deadline-seconds", "5", "--mode", "single", "--fresh", "--label", "l",
        )  # fmt: skip
        assert answer.keys() == {"lane_id", "envelope_id", "position", "queue_depth", "queued_at"}
        assert (answer["lane_id"], answer["envelope_id"]) == ("run", "a")
        assert (answer["position"], answer["queue_depth"]) == (1, 1)
        (path,) = (cli.run_dir / "loop" / "pending").iterdir()
        assert json.loads(path.read_text())["envelope"] == envelope(
            "a",
            story_id="S",
            phase="p",
            engine="command",
            deadline_seconds=5,
            mode="single",
            fresh=True,
            label="l",
        )

    def test_it_makes_a_private_run_directory(self, cli: Cli) -> None:
        cli("enqueue", "--prompt", "x")
        assert stat.S_IMODE(cli.run_dir.stat().st_mode) == 0o700
        assert (cli.run_dir / ".gitignore").read_text() == "*\n"
        about = json.loads((cli.run_dir / "meshtui.json").read_text())
        assert (about["schema"], about["lane_id"], about["repo"]) == ("meshtui.run.v1", "run", None)
        for folder, folders, files in os.walk(cli.run_dir):
            assert all(stat.S_IMODE(Path(folder, name).stat().st_mode) == 0o700 for name in folders)
            assert all(stat.S_IMODE(Path(folder, name).stat().st_mode) == 0o600 for name in files), files

    @pytest.mark.parametrize(("there", "hidden"), [("meshtui.toml", True), ("notes.txt", False)])
    def test_git_does_not_see_a_directory_that_is_a_lane_only(
        self, there: str, hidden: bool, cli: Cli
    ) -> None:
        cli.run_dir.mkdir()
        (cli.run_dir / there).write_text("")
        assert cli("enqueue", "--prompt", "x").code == 0
        assert (cli.run_dir / ".gitignore").exists() is hidden

    def test_where_it_is_by_default(self, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert cli.raw("enqueue", "--prompt", "x").code == 0
        assert Path(".meshtui", "loop").is_dir()
        monkeypatch.setenv("MESHTUI_RUN_DIR", str(tmp_path / "named"))
        assert cli.raw("enqueue", "--prompt", "x").code == 0
        assert (tmp_path / "named" / "loop").is_dir()

    def test_ids_made_up(self, cli: Cli) -> None:
        assert cli.json("enqueue", "--prompt", "x")["envelope_id"].startswith("phase-")
        assert cli.json("enqueue", "-", stdin=b'{"kind":"stop"}')["envelope_id"].startswith("stop-")

    def test_a_file_and_standard_input(self, cli: Cli, tmp_path: Path) -> None:
        file = tmp_path / "e.json"
        file.write_bytes(b"\xef\xbb\xbf" + json.dumps(envelope("a")).encode())
        assert cli.json("enqueue", "--file", str(file))["position"] == 1
        assert cli.json("enqueue", "-", stdin=json.dumps(envelope("b")).encode())["position"] == 2

    def test_many(self, cli: Cli, tmp_path: Path) -> None:
        answers = cli.json("enqueue", "--jsonl", "-", stdin=lines(envelope("a"), envelope("b")) + b"\n")
        assert [(item["envelope_id"], item["position"], item["queue_depth"]) for item in answers] == [
            ("a", 1, 2),
            ("b", 2, 2),
        ]
        file = tmp_path / "e.jsonl"
        file.write_bytes(lines(envelope("c"), {"kind": "stop", "id": "s"}))
        assert [item["position"] for item in cli.json("enqueue", "--jsonl", str(file))] == [3, 4]
        assert cli.json("enqueue", "--jsonl", "-", stdin=b"") == []

    @pytest.mark.parametrize(
        ("data", "words"),
        [
            (lines(envelope("a"), envelope("a")), "'a' was already used"),
            (lines(envelope("a"), envelope("A")), "share the file name of 'a'"),
            (lines(envelope("a"), {"kind": "stop"}, envelope("b")), "must be the last"),
            (lines(envelope("a"), {"kind": "phase", "id": "b"}), "envelope 2: prompt is missing"),
            (lines(envelope("a")) + b"{\n", "line 2"),
            (lines(envelope("a"), envelope("used")), "'used' was already used"),
            (lines(envelope("a")) + b'{"kind":"phase","prompt":"\xff"}\n', "line 2 is not UTF-8"),
            (lines(envelope("a"), envelope("b", deadline="2030-1-1")), "envelope 2: deadline"),
        ],
    )
    def test_many_are_all_or_none(self, data: bytes, words: str, cli: Cli) -> None:
        cli("enqueue", "--prompt", "x", "--id", "used")
        said = cli("enqueue", "--jsonl", "-", "--json", stdin=data)
        assert said.code == 2
        assert words in said.complaint
        assert cli.json("status")["queue"]["counts"]["pending"] == 1
        assert cli.json("enqueue", "--prompt", "x", "--id", "a")["position"] == 2

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ([], "exactly one of --prompt"),
            (["--prompt", "x", "-"], "exactly one of --prompt"),
            (["somewhere"], "unexpected argument 'somewhere'"),
            (["--prompt", " "], "prompt must be"),
            (["--prompt", "x", "--id", "a\nb"], "control character"),
            (["--prompt", "x", "--id", "x" * 121], "121 characters"),
            (["--prompt", "x", "--engine", "gpt"], "engine must be one of"),
            (["--prompt", "x", "--deadline-seconds", "nan"], "NaN"),
            (["--prompt", "x", "--deadline-seconds", "-1"], "deadline_seconds must be"),
            (["--prompt", "x", "--deadline-seconds", "soon"], "deadline-seconds"),
            (["--prompt", "x", "--deadline", "+002030-01-01"], "deadline must be like"),
            (["--prompt", "x", "--cd", "relative"], "cd must be an absolute path"),
            (["--prompt", "x", "--mode", "both"], "mode must be"),
            (["--file", "missing.json"], "missing.json: no such file"),
            (["--file", "."], "is a folder"),
            (["--jsonl", "missing.jsonl"], "missing.jsonl: no such file"),
            (["--jsonl", "."], "is a folder"),
            (["--file", "e.json", "--id", "a"], "goes with --prompt"),
            (["-"], "standard input is not valid"),
        ],
    )
    def test_refusals(self, arguments: list[str], words: str, cli: Cli) -> None:
        said = cli("enqueue", *arguments, "--json")
        assert said.code == 2
        assert words in said.complaint
        assert not cli.run_dir.exists() or cli.json("status")["lane"]["queue_depth"] == 0

    @pytest.mark.parametrize(
        ("data", "words"),
        [
            (b"[1]", "not an object"),
            (b'{"kind":"phase","prompt":"x","prompt":"y"}', "duplicate key 'prompt'"),
            (b'{"kind":"phase","prompt":"x","n":NaN}', "NaN"),
            (b"[" * 10_000, "nested"),
            (b'{"kind":"phase","prompt":"x","n":' + b"9" * 9_000 + b"}", "too many digits"),
            (b'{"kind":"phase","prompt":"' + b"x" * (1 << 20) + b'"}', "1 MiB"),
            (b"\xff", "not UTF-8"),
        ],
        ids=["array", "twice", "nan", "deep", "digits", "big", "bytes"],
    )
    def test_strict_json(self, data: bytes, words: str, cli: Cli) -> None:
        said = cli("enqueue", "-", stdin=data)
        assert said.code == 2
        assert words in said.complaint

    def test_stops(self, cli: Cli) -> None:
        cli("enqueue", "-", stdin=b'{"kind":"stop","id":"s"}')
        said = cli("enqueue", "--prompt", "x")
        assert said.code == 2
        assert "after a stop (s)" in said.complaint
        said = cli("stop", "--drain")
        assert said.code == 2
        assert "already queued" in said.complaint
        assert cli("withdraw", "s").code == 0
        assert cli("enqueue", "--prompt", "x").code == 0

    def test_warnings_are_no_part_of_the_document(self, cli: Cli) -> None:
        past = {"kind": "phase", "id": "a", "prompt": "x", "deadline": "2000-01-01"}
        said = cli("enqueue", "-", "--json", stdin=json.dumps(past).encode())
        assert said.code == 0
        assert "already past" in said.json["warnings"][0]
        assert said.err.startswith("meshtui: warning: a: deadline")

    def test_a_lone_surrogate(self, cli: Cli) -> None:
        cli("enqueue", "--prompt", "x\udcff", "--id", "a\udcff")
        (row,) = cli.json("status")["queue"]["pending"]
        assert row["envelope_id"] == "a\ufffd"


class TestHostileIds:
    @pytest.mark.parametrize("envelope_id", HOSTILE)
    def test_they_are_only_ids(self, envelope_id: str, cli: Cli, tmp_path: Path) -> None:
        outside = sorted(str(path) for path in tmp_path.rglob("*") if cli.run_dir not in path.parents)
        said = cli("enqueue", "--prompt", "x", f"--id={envelope_id}")
        assert said.code == 0
        assert "\x1b" not in said.out
        assert "\u202e" not in said.out
        (row,) = cli.json("status")["queue"]["pending"]
        assert row["envelope_id"] == envelope_id
        assert envelope_id in cli.json("withdraw", "--", envelope_id)["envelope_id"]
        assert cli.json("requeue", "--", envelope_id)["envelope_id"] == envelope_id
        assert cli.json("interrupt") == {"withdrawn": [envelope_id], "already_picked_up": []}
        assert cli.json("restore")["restored"] == [envelope_id]
        for command in (["answer", "--retry"], ["kill", "--envelope", envelope_id], ["logs"]):
            rest = [] if command[0] == "kill" else ["--", envelope_id]
            assert cli(command[0], *command[1:], *rest).code == 3
        assert cli("wait", "--for", "pending", "--", envelope_id).code == 0
        after = sorted(str(path) for path in tmp_path.rglob("*") if cli.run_dir not in path.parents)
        assert set(after) - set(outside) <= {str(cli.run_dir)}

    @pytest.mark.parametrize(
        "command", ["withdraw", "requeue", "answer --retry", "kill --envelope", "logs", "wait"]
    )
    @pytest.mark.parametrize("envelope_id", ["", "../x", "\x1b]0;title\x07", "a\nb", "\udcff", "x" * 5000])
    def test_unknown_ones(self, command: str, envelope_id: str, cli: Cli) -> None:
        cli("enqueue", "--prompt", "x", "--id", "a")
        name, *options = command.split()
        said = cli(name, *options, *([] if options == ["--envelope"] else ["--"]), envelope_id)
        assert said.code == 3
        assert said.complaint

    def test_quarantined_names(self, cli: Cli) -> None:
        cli("enqueue", "--prompt", "x", "--id", "a")
        for name in ("../meshtui.json", "/etc/passwd", "a\nb"):
            for verb in ("repair", "drop"):
                said = cli.raw("quarantine", verb, "--run-dir", str(cli.run_dir), "--", name)
                assert said.code == 3
                assert "in quarantine" in said.complaint
        assert (cli.run_dir / "meshtui.json").exists()


class TestQueueCommands:
    def test_words_for_people(self, cli: Cli) -> None:
        assert cli("enqueue", "--prompt", "x", "--id", "a").out == "queued a, 1 of 1 pending\n"
        assert (
            cli("enqueue", "--jsonl", "-", stdin=lines(envelope("b"))).out
            == "queued 1 envelopes; 2 pending\n"
        )
        assert cli("withdraw", "b").out == "withdrawn b; 1 pending\n"
        assert cli("requeue", "b").out == "requeued b, 2 of 2 pending\n"
        assert cli("interrupt").out == "withdrawn 2: a, b\n"
        assert cli("interrupt").out == "withdrawn 0: nothing was pending\n"
        assert cli("restore").out == "restored 2: a, b\n"
        assert cli("restore").out == "restored 0: nothing was withdrawn\n"
        assert cli("pause").out.startswith("paused")
        assert "paused, no runner" in cli("status").out
        assert cli("continue").out == "going on\n"
        assert cli("stop").out == "no runner was there and nothing was active\n"
        assert cli("quarantine").out == "nothing in quarantine\n"

    def test_documents(self, cli: Cli) -> None:
        cli("enqueue", "--prompt", "x", "--id", "a")
        assert cli.json("pause") == {"paused": True}
        assert cli.json("continue") == {"paused": False}
        assert cli.json("withdraw", "a") == {"envelope_id": "a", "queue_depth": 0}
        assert cli.json("restore") == {"restored": ["a"], "left": []}
        cli("withdraw", "a")
        assert cli.json("requeue", "a") == {"envelope_id": "a", "position": 1, "queue_depth": 1}
        assert cli.json("interrupt") == {"withdrawn": ["a"], "already_picked_up": []}
        assert cli.json("stop")["stopped"] is False
        drain = cli.json("stop", "--drain")
        assert drain["stopped"] is False
        assert drain["drain"]["position"] == 1
        assert cli.json("quarantine") == []
        assert [item["event"] for item in cli.json("events")][:2] == ["enqueued", "lane_paused"]
        assert cli.json("doctor")["ok"] is True

    def test_quarantine(self, cli: Cli) -> None:
        cli("enqueue", "--prompt", "x", "--id", "a")
        (path,) = (cli.run_dir / "loop" / "pending").iterdir()
        whole = path.read_bytes()
        path.write_bytes(b"")
        said = cli("interrupt")
        assert said.code == 0
        assert f"{path.name} cannot be read and is in quarantine" in said.err
        where = ("--run-dir", str(cli.run_dir), "--json")
        for arguments in (
            ["quarantine", *where],
            ["quarantine", "list", *where],
            ["quarantine", *where, "list"],
        ):
            (item,) = cli.raw(*arguments).json
            assert (item["name"], item["reason"]) == (path.name, "the file is empty")
        assert cli.json("status")["attention"][0]["kind"] == "quarantined"
        said = cli.raw("quarantine", "repair", path.name, "--run-dir", str(cli.run_dir))
        assert said.code == 2
        assert "still no record" in said.complaint
        (cli.run_dir / "loop" / "quarantine" / path.name).write_bytes(whole)
        assert cli.raw("quarantine", "repair", path.name, *where).json["envelope_id"] == "a"
        path = next((cli.run_dir / "loop" / "pending").iterdir())
        path.write_bytes(b"{")
        cli("interrupt")
        assert cli.raw("quarantine", "drop", path.name, *where).json == {"name": path.name}
        assert cli.json("quarantine") == []

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["answer", "a"], "--retry"),
            (["answer", "a", "--retry", "--drop"], "--drop"),
            (["answer", "a", "--drop", "--engine", "command"], "--drop"),
            (["answer"], "ID"),
            (["kill"], "--envelope"),
            (["kill", "all", "--envelope", "a"], "--envelope"),
            (["events", "--tail", "0"], "tail"),
            (["events", "--json", "--follow"], "--follow"),
            (["wait", "lane", "--for", "done"], "no state of 'lane'"),
            (["wait", "a", "--for", "parked"], "no state of 'a'"),
            (["wait", "a", "--timeout", "soon"], "timeout"),
            (["withdraw"], "ID"),
            (["lane", "--engine", "gpt"], "engine 'gpt' is unknown"),
        ],
    )
    def test_wrong_usage(self, arguments: list[str], words: str, cli: Cli) -> None:
        cli("enqueue", "--prompt", "x", "--id", "a")
        said = cli.raw(*arguments, "--run-dir", str(cli.run_dir))
        assert said.code == 2
        assert words in said.complaint

    def test_a_loop_that_is_not_there(self, cli: Cli) -> None:
        cli("enqueue", "--prompt", "x")
        said = cli("kill", "loop-1")
        assert said.code == 3
        assert "no loop 'loop-1'" in said.complaint

    def test_a_run_directory_with_a_name_that_is_no_text(self, cli: Cli, tmp_path: Path) -> None:
        cli.run_dir = Path(os.fsdecode(bytes(tmp_path) + b"/run \xff"))
        assert cli.json("enqueue", "--prompt", "x", "--id", "a")["envelope_id"] == "a"
        assert cli.json("status")["lane"]["queue_depth"] == 1
        assert "pending 1" in cli("status").out
        assert cli.json("stop", "--drain")["drain"]["position"] == 2

    def test_a_file_of_meshtui_that_cannot_be_understood(self, cli: Cli) -> None:
        cli("enqueue", "--prompt", "x")
        (cli.run_dir / "meshtui.json").write_text("{")
        said = cli("lane", "--until-idle")
        assert said.code == 2
        assert "meshtui.json" in said.complaint
        assert cli.json("status")["lane"]["queue_depth"] == 1


class TestReadOnlyCommands:
    def test_they_change_nothing(self, cli: Cli) -> None:
        cli("enqueue", "--prompt", "x", "--id", "a")

        def state() -> list[tuple[str, int]]:
            return sorted((str(path), path.stat().st_mtime_ns) for path in cli.run_dir.rglob("*"))

        before = state()
        for command in (
            ["status"],
            ["events"],
            ["quarantine"],
            ["wait", "a", "--for", "pending"],
            ["logs", "a"],
        ):
            cli.raw(*command, "--run-dir", str(cli.run_dir))
        cli.raw("--run-dir", str(cli.run_dir), "--headless", "--json")
        assert state() == before

    def test_lanes_of_several_directories(self, cli: Cli, tmp_path: Path) -> None:
        folder = tmp_path / "fleet"
        for name in ("one", "two"):
            cli.run_dir = folder / name
            cli("enqueue", "--prompt", "x")
        cli.run_dir = folder
        snapshot = cli.json("status")
        assert snapshot["kind"] == "fleet"
        assert [Path(lane["run_dir"]).name for lane in snapshot["lanes"]] == ["one", "two"]
        assert [lane["counts"]["pending"] for lane in snapshot["lanes"]] == [1, 1]
        assert "1 pending" in cli("status").out


def test_documents_are_ascii(cli: Cli) -> None:
    cli("enqueue", "--prompt", "x", "--id", "é\u202e")
    assert cli("status", "--json").out.isascii()
    assert RunDir(cli.run_dir).lane.pending.is_dir()


class TestBeforeTheCommand:
    def test_the_run_directory_named_there_counts(self, cli: Cli) -> None:
        cli("enqueue", "--prompt", "x", "--id", "a")
        assert cli.raw("--run-dir", str(cli.run_dir), "status", "--json").json["run_dir"] == str(cli.run_dir)
        assert cli.raw("--run-dir", "elsewhere", "withdraw", "--run-dir", str(cli.run_dir), "a").code == 0

    @pytest.mark.parametrize(
        "options",
        [["--json"], ["--read-only"], ["--fail-on", "parked"], ["--run-dir", "one", "--run-dir", "two"]],
        ids=" ".join,
    )
    def test_what_would_do_nothing_there_is_refused(self, options: list[str], cli: Cli) -> None:
        cli("enqueue", "--prompt", "x", "--id", "a")
        said = cli.raw(*options, "interrupt", "--run-dir", str(cli.run_dir))
        assert said.code == 2
        assert f"{options[0]} before interrupt" in said.complaint
        assert len(list((cli.run_dir / "loop" / "pending").iterdir())) == 1


class TestHelp:
    def test_every_command_is_told_once_in_full(self, cli: Cli) -> None:
        from meshtui.cli.root import _COMMANDS, _SECTIONS

        told = [name for names in _SECTIONS.values() for name in names]
        assert sorted(told) == sorted(_COMMANDS)
        said = cli.raw("--help")
        assert said.code == 0
        assert "..." not in said.out.partition("Start here")[2]
        assert max(map(len, said.out.splitlines())) <= 80

    def test_every_command_has_json(self, cli: Cli) -> None:
        from meshtui.cli.root import _COMMANDS

        for name in _COMMANDS:
            assert "--json" in cli.raw(name, "--help").out, name


def test_a_key_by_its_id(cli: Cli) -> None:
    (one,) = cli.raw("config", "keys", "lane.enqueue", "--json").json
    assert (one["id"], one["keys"]) == ("lane.enqueue", "e")
    assert "'lane.enqueu'" in cli.raw("config", "keys", "lane.enqueu").complaint
    assert "takes no name" in cli.raw("config", "path", "lane.enqueue").complaint
