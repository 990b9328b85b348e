"""Configuration: every key of the contract, the rank of its sources, and errors one can act on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from meshtui.core.config import Config, LoadedConfig, load_config, plain
from meshtui.core.errors import InvalidInput
from meshtui.core.run_dir import RunDir

EVERYTHING = """
[lane]
lane_id = "api"
engine = "command"
deadline_seconds = 90
on_park = "continue"
on_limit = "fail"
idle_seconds = 0.5
max_cost_usd = 2.5
max_tokens_estimate = 100
max_output_mb = 10

[engines.claude]
program = "/opt/claude"
args = ["--verbose", ""]
model = "m"
effort = "high"
env = { A = "1", B = "" }
permissions = { maker = "acceptEdits", checker = "plan" }

[engines.command]
run = "./agent | tee log"
maker = ["./maker", ""]
checker = "./checker"
arbiter = "./arbiter"

[mesh]
parallelism = "extreme"
max_loops = 3
max_active_loops = 2
max_active_workers = 4
strategy = "compete"
worktrees = "/tmp/w"
setup = ["npm", "ci"]
target = "main"
arbiter = "codex"

[[domains]]
id = "api"
paths = ["src/api"]
aliases = ["backend"]
gates = ["tests"]
risk = "high"
engine = "codex"

[[domains]]
id = "docs"

[gates.tests]
command = "make test"
stage = "integration"
timeout_seconds = 60
when = ["src/**"]

[gates.lint]
command = ["ruff", "check"]

[risk]
"src/auth/**" = "critical"
"*.md" = "low"

[budget]
max_iterations = 2
max_wall_ms = 1000
max_model_calls = 8
max_subagents = 3
max_tokens_estimate = 1000
max_changed_files = 10
max_patch_bytes = 100
max_cost_usd = 1.5

[notify]
command = "notify-send hi"
"""


class Place:
    """A run directory and a repository with configuration files."""

    def __init__(self, folder: Path) -> None:
        self.run = folder / "run"
        self.repo = folder / "repo"
        self.run.mkdir()
        self.repo.mkdir()

    def load(
        self, run: str | bytes | None = None, repo: str | bytes | None = None, **environ: str
    ) -> LoadedConfig:
        for folder, text in ((self.run, run), (self.repo, repo)):
            file = folder / "meshtui.toml"
            file.unlink(missing_ok=True)
            if text is not None:
                file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_config(RunDir(self.run), self.repo, environ=environ)

    def refusal(self, run: str | bytes | None = None, **more: Any) -> InvalidInput:
        with pytest.raises(InvalidInput) as caught:
            self.load(run, **more)
        assert str(caught.value).isprintable()
        return caught.value


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


class TestKeys:
    def test_nothing(self, place: Place) -> None:
        loaded = place.load()
        assert loaded.config == Config()
        assert (loaded.repo_file, loaded.repo_commands, loaded.repo_digest) == (None, (), None)
        assert loaded.sources == {}
        lane = loaded.config.lane
        assert (lane.engine, lane.deadline_seconds, lane.on_park) == ("claude", 3600, "stop")
        assert (lane.on_limit, lane.max_output_mb) == ("hold", 1024)
        assert load_config(RunDir(place.run / "missing"), None, environ={}).config == Config()

    def test_every_key_of_the_contract(self, place: Place) -> None:
        config = place.load(EVERYTHING).config
        assert config.model_dump(exclude_unset=True) == {
            "lane": {
                "lane_id": "api",
                "engine": "command",
                "deadline_seconds": 90,
                "on_park": "continue",
                "on_limit": "fail",
                "idle_seconds": 0.5,
                "max_cost_usd": 2.5,
                "max_tokens_estimate": 100,
                "max_output_mb": 10,
            },
            "engines": {
                "claude": {
                    "program": "/opt/claude",
                    "args": ("--verbose", ""),
                    "model": "m",
                    "effort": "high",
                    "env": {"A": "1", "B": ""},
                    "permissions": {"maker": "acceptEdits", "checker": "plan"},
                },
                "command": {
                    "run": "./agent | tee log",
                    "maker": ["./maker", ""],
                    "checker": "./checker",
                    "arbiter": "./arbiter",
                },
            },
            "mesh": {
                "parallelism": "extreme",
                "max_loops": 3,
                "max_active_loops": 2,
                "max_active_workers": 4,
                "strategy": "compete",
                "worktrees": "/tmp/w",
                "setup": ["npm", "ci"],
                "target": "main",
                "arbiter": "codex",
            },
            "domains": (
                {
                    "id": "api",
                    "paths": ("src/api",),
                    "aliases": ("backend",),
                    "gates": ("tests",),
                    "risk": "high",
                    "engine": "codex",
                },
                {"id": "docs"},
            ),
            "gates": {
                "tests": {
                    "command": "make test",
                    "stage": "integration",
                    "timeout_seconds": 60,
                    "when": ("src/**",),
                },
                "lint": {"command": ["ruff", "check"]},
            },
            "risk": {"src/auth/**": "critical", "*.md": "low"},
            "budget": {
                "max_iterations": 2,
                "max_wall_ms": 1000,
                "max_model_calls": 8,
                "max_subagents": 3,
                "max_tokens_estimate": 1000,
                "max_changed_files": 10,
                "max_patch_bytes": 100,
                "max_cost_usd": 1.5,
            },
            "notify": {"command": "notify-send hi"},
        }
        assert config.engine("command").command("maker") == ["./maker", ""]
        assert config.engine("codex").command("run") is None

    def test_frozen(self, place: Place) -> None:
        config = place.load(EVERYTHING).config
        with pytest.raises(ValidationError):
            config.lane.engine = "codex"
        with pytest.raises(ValidationError):
            config.gates["tests"].command = "rm"


class TestRank:
    def test_later_wins_key_by_key(self, place: Place) -> None:
        loaded = place.load(
            '[lane]\nengine = "codex"\n[engines.command.env]\nB = "run"\n',
            repo='[lane]\nengine = "grok"\nidle_seconds = 3\n[engines.command.env]\nA = "repo"\nB = "repo"\n',
        )
        assert (loaded.config.lane.engine, loaded.config.lane.idle_seconds) == ("codex", 3)
        assert loaded.config.engines["command"].env == {"A": "repo", "B": "run"}
        repo, run = str(place.repo / "meshtui.toml"), str(place.run / "meshtui.toml")
        assert loaded.sources == {
            "lane.engine": run,
            "lane.idle_seconds": repo,
            "engines.command.env.A": repo,
            "engines.command.env.B": run,
        }

    def test_environment(self, place: Place) -> None:
        name = "MESHTUI_PHASE_DEADLINE_SECONDS"
        loaded = place.load("[lane]\ndeadline_seconds = 5\n", **{name: " 7.5 "})
        assert loaded.config.lane.deadline_seconds == 7.5
        assert loaded.sources["lane.deadline_seconds"] == name
        assert place.load("[lane]\ndeadline_seconds = 5\n", **{name: ""}).config.lane.deadline_seconds == 5

    @pytest.mark.parametrize("text", ["0", "-1", "inf", "nan", "1h", "1e999", "\x1b[0m"])
    def test_environment_refused(self, place: Place, text: str) -> None:
        error = place.refusal(MESHTUI_PHASE_DEADLINE_SECONDS=text)
        assert error.field == "MESHTUI_PHASE_DEADLINE_SECONDS"
        assert "positive finite number" in str(error)

    def test_domains_by_id(self, place: Place) -> None:
        loaded = place.load(
            '[[domains]]\nid = "b"\nrisk = "low"\n[[domains]]\nid = "c d"\n',
            repo='[[domains]]\nid = "a"\n[[domains]]\nid = "b"\nrisk = "high"\npaths = ["x"]\n',
        )
        assert [(domain.id, domain.risk, domain.paths) for domain in loaded.config.domains] == [
            ("a", None, ()),
            ("b", "low", ("x",)),
            ("c d", None, ()),
        ]
        assert 'domains."c d".id' in loaded.sources

    def test_a_gate_may_be_completed_by_a_later_file(self, place: Place) -> None:
        timeout = "[gates.t]\ntimeout_seconds = 5\n"
        gate = place.load(timeout, repo='[gates.t]\ncommand = "x"\n').config.gates["t"]
        assert (gate.command, gate.timeout_seconds) == ("x", 5)
        error = place.refusal(timeout)
        assert error.field == "gates.t.command"
        assert str(place.run / "meshtui.toml") in str(error)
        assert str(place.repo / "meshtui.toml") in str(place.refusal(None, repo=timeout))

    def test_without_a_repository(self, place: Place) -> None:
        place.load("", repo='[lane]\nengine = "grok"\n')
        assert load_config(RunDir(place.run), None, environ={}).config.lane.engine == "claude"


class TestRepoCommands:
    def test_all_that_runs(self, place: Place) -> None:
        loaded = place.load(None, repo=EVERYTHING)
        assert loaded.repo_file == place.repo / "meshtui.toml"
        assert loaded.repo_commands == (
            ("engines.claude.program", "/opt/claude"),
            ("engines.claude.args", "--verbose ''"),
            ("engines.claude.env.A", "1"),
            ("engines.claude.env.B", ""),
            ("engines.claude.permissions.maker", "acceptEdits"),
            ("engines.claude.permissions.checker", "plan"),
            ("engines.command.run", "./agent | tee log"),
            ("engines.command.maker", "./maker ''"),
            ("engines.command.checker", "./checker"),
            ("engines.command.arbiter", "./arbiter"),
            ("gates.tests.command", "make test"),
            ("gates.lint.command", "ruff check"),
            ("mesh.setup", "npm ci"),
            ("notify.command", "notify-send hi"),
        )

    def test_none_from_the_run_directory_or_without_commands(self, place: Place) -> None:
        assert place.load(EVERYTHING).repo_commands == ()
        loaded = place.load(EVERYTHING, repo='[lane]\nengine = "codex"\n[risk]\n"*" = "low"\n')
        assert loaded.repo_commands == ()
        assert loaded.repo_file is not None

    def test_a_run_directory_that_is_the_repository_is_not_trusted(self, place: Place) -> None:
        place.load(None, repo=EVERYTHING)
        loaded = load_config(RunDir(place.repo), place.repo, environ={})
        assert len(loaded.repo_commands) == 14
        link = place.run / "meshtui.toml"
        link.symlink_to(place.repo / "meshtui.toml")
        assert load_config(RunDir(place.run), place.repo, environ={}).repo_commands


class TestErrors:
    @pytest.mark.parametrize(
        ("text", "field", "said"),
        [
            ('[lane]\nlane_idd = "x"', "lane.lane_idd", "did you mean lane_id?"),
            ("deadline_seconds = 5", "deadline_seconds", "it belongs to [lane]"),
            ("[lane]\nmax_wall_ms = 5", "lane.max_wall_ms", "it belongs to [budget]"),
            ("[lane]\nfoo = 1", "lane.foo", "allowed here are lane_id, engine"),
            ("[lan]", "lan", "did you mean lane?"),
            ("[engines.claud]", "engines.claud", "did you mean claude?"),
            ('[engines.claude]\nrun = "x"', "engines.claude.run", "engine command only"),
            ("[engines.claude]\nenv = { A = 1 }", "engines.claude.env.A", "must be a text"),
            ("[engines.claude]\nenv = 1", "engines.claude.env", "must be a table"),
            ("[engines.claude]\nargs = [1]", "engines.claude.args", "a list of texts"),
            (
                '[engines.grok.permissions]\nmakr = "x"',
                "engines.grok.permissions.makr",
                "did you mean maker?",
            ),
            ('[engines.grok.permissions]\nmaker = ""', "engines.grok.permissions.maker", "non-empty"),
            ("[engines.command]\nrun = []", "engines.command.run", "a command"),
            ('[engines.command]\nrun = " "', "engines.command.run", "a command"),
            ('[engines.command]\nrun = [""]', "engines.command.run", "a command"),
            ('[engines.command]\nrun = ["a", 1]', "engines.command.run", "a command"),
            ('[engines.command]\nrun = "a\\u0000"', "engines.command.run", "a command"),
            ('[[domains]]\npaths = ["a"]', "domains.1.id", "is missing"),
            ('[domains]\nid = "x"', "domains", "[[domains]]"),
            ("domains = [1]", "domains.1", "must be a table"),
            ('[[domains]]\nid = "a b"\nrisk = "hi"', 'domains."a b".risk', "low, medium, high, critical"),
            ('[[domains]]\nid = "a"\nid2 = 1', "domains.a.id2", "did you mean id?"),
            ('[[domains]]\nid = "a"\n[[domains]]\nid = "a"', "domains.a", "given twice"),
            ("gates = [1]", "gates", "must be a table"),
            ('[gates.t]\nstage = "x"', "gates.t.stage", "local, checker, integration"),
            ('[gates.t]\ncommand = "x"\nwhen = "y"', "gates.t.when", "a list of non-empty texts"),
            ('[gates.t]\ncommand = "x"\ntimeout_seconds = 0', "gates.t.timeout_seconds", "positive"),
            ('[risk]\n"src/**" = "hi"', 'risk."src/**"', "low, medium, high, critical"),
            ("[budget]\nmax_wall_ms = 0", "budget.max_wall_ms", "positive whole number"),
            ("[budget]\nmax_wall_ms = 1.5", "budget.max_wall_ms", "positive whole number"),
            ("[budget]\nmax_wall_ms = true", "budget.max_wall_ms", "positive whole number"),
            ("[budget]\nmax_cost_usd = inf", "budget.max_cost_usd", "positive finite number"),
            ("[lane]\ndeadline_seconds = nan", "lane.deadline_seconds", "positive finite number"),
            ("[lane]\ndeadline_seconds = -1", "lane.deadline_seconds", "positive finite number"),
            ('[lane]\ndeadline_seconds = "5"', "lane.deadline_seconds", "positive finite number"),
            (f"[lane]\nidle_seconds = 1{'0' * 400}", "lane.idle_seconds", "positive finite number"),
            ('[lane]\nengine = "gemini"', "lane.engine", "claude, codex, grok, command, not 'gemini'"),
            ("[lane]\nengine = []", "lane.engine", "not an array"),
            ('[lane]\non_park = "go"', "lane.on_park", "stop, continue"),
            ('[lane]\nlane_id = ""', "lane.lane_id", "non-empty text"),
            ("[lane]\nlane_id = 2020-01-01", "lane.lane_id", "not a date"),
            ("lane = 1", "lane", "must be a table"),
            ("[notify]\ncommand = 5", "notify.command", "a command"),
            ('[mesh]\narbiter = "x"', "mesh.arbiter", "claude, codex, grok, command"),
        ],
    )
    def test_names_file_key_and_what_is_allowed(self, place: Place, text: str, field: str, said: str) -> None:
        for more in ({"run": text}, {"repo": text}):
            error = place.refusal(**more)
            assert error.field == field
            (folder,) = more
            assert str(error).startswith(f"{getattr(place, folder) / 'meshtui.toml'}: {field} ")
            assert said in str(error)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("[lane]\nx\n", "line 2"),
            ("[lane]\n[lane]", "line 2"),
            ("a = 1\na = 2\n", "line 2"),
            ('a = "\x00\x1b[0m"', "line 1"),
            (b"a = 1\nb = '\xff'", "not UTF-8 (at line 2)"),
            ("a = " + "[" * 100_000, "not TOML"),
            ("a = " + "9" * 5000, "too many digits"),
            ("#" * ((1 << 20) + 1), "more than 1 MiB"),
        ],
        ids=["end", "table", "key", "control", "bytes", "deep", "digits", "size"],
    )
    def test_files_that_are_no_toml(self, place: Place, text: str | bytes, said: str) -> None:
        error = place.refusal(text)
        assert str(place.run / "meshtui.toml") in str(error)
        assert said in str(error)

    def test_a_folder_in_its_place(self, place: Place) -> None:
        (place.run / "meshtui.toml").mkdir()
        with pytest.raises(InvalidInput, match="a folder stands"):
            load_config(RunDir(place.run), None, environ={})

    def test_an_environment_value_is_not_repeated(self, place: Place) -> None:
        error = place.refusal("[engines.claude.env]\nTOKEN = 1234567\n")
        assert "1234567" not in str(error)

    def test_hostile_names_are_escaped(self, place: Place) -> None:
        error = place.refusal('[lane]\n"\\u001b]0;x\\u0007\\n" = 1')
        assert "\\x1b" in str(error)
        assert plain("a\x1b\n\u202e\udc80é") == "a\\x1b\\n\\u202e\\udc80é"

    def test_a_byte_order_mark(self, place: Place) -> None:
        assert place.load(b'\xef\xbb\xbf[lane]\nengine = "grok"').config.lane.engine == "grok"


def test_importing_it_loads_nothing_heavy() -> None:
    heavy = ("textual", "rich", "click", "psutil", "watchfiles", "tomllib", "hashlib", "difflib", "asyncio")
    code = (
        "import sys; from pydantic import BaseModel\n"
        "class Any(BaseModel): x: int = 1\n"
        "before = set(sys.modules)\n"
        f"import meshtui.core.config; print([m for m in {heavy!r} if m in set(sys.modules) - before])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
