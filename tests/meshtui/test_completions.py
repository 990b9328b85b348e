"""Completion in shells: what is offered, and that the real shells offer it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from meshtui.cli.completing import MOST
from tests.support.cli import Cli

PROJECT = Path(__file__).parents[2]
SAMPLES = PROJECT / "tests" / "data" / "samples"


def complete(cli: Cli, *words: str) -> list[str]:
    """What is offered for the last of ``words`` to a bash that stands in another folder."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "meshtui"],
        env=asking(cli, *words),
        cwd=cli.run_dir.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def asking(cli: Cli, *words: str) -> dict[str, str]:
    """The environment in which bash asks for what could come next."""
    return {
        **os.environ,
        "_MESHTUI_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("meshtui", *words)),
        "COMP_CWORD": str(len(words[-1])),
        "MESHTUI_RUN_DIR": str(cli.run_dir),
        "PYTHONPATH": str(PROJECT),
    }


def test_commands_and_options(cli: Cli) -> None:
    assert complete(cli, "enq") == ["enqueue"]
    assert {"status", "stop"} <= set(complete(cli, "st"))
    assert "--until-idle" in complete(cli, "lane", "--un")
    assert set(complete(cli, "completions", "")) == {"bash", "zsh", "fish"}
    assert complete(cli, "config", "keys", "lane.enq") == ["lane.enqueue"]
    assert complete(cli, "no-such-command", "") == []


def test_ids_by_what_can_be_done_with_them(cli: Cli) -> None:
    for name in ("US-1", "US-2", "other"):
        assert cli("enqueue", "--prompt", "p", "--id", name).code == 0
    assert cli("withdraw", "US-2").code == 0
    assert complete(cli, "withdraw", "US") == ["US-1"]
    assert complete(cli, "restore", "") == ["US-2"]
    assert complete(cli, "head", "o") == ["other"]
    assert complete(cli, "enqueue", "--engine", "c") == ["claude", "codex", "command"]


def test_the_run_directory_that_is_named_counts(cli: Cli, tmp_path: Path) -> None:
    assert cli("enqueue", "--prompt", "p", "--id", "here").code == 0
    assert complete(cli, "withdraw", "--run-dir", str(tmp_path / "nothing"), "") == []
    assert complete(cli, "withdraw", "--run-dir", str(cli.run_dir), "") == ["here"]
    assert not (tmp_path / "nothing").exists()


def test_missions_and_loops(cli: Cli) -> None:
    assert cli("enqueue", "--prompt", "p", "--id", "a").code == 0
    shutil.copytree(SAMPLES / "mission-blocked", cli.run_dir / "missions" / "m1")
    assert complete(cli, "graph", "") == ["m1"]
    assert complete(cli, "kill", "loop-d") == ["loop-docs"]
    (cli.run_dir / "missions" / "m1" / "loops" / "loop-plan.json").write_text("[")
    assert complete(cli, "graph", "x") == []


def test_a_long_queue_is_cut_and_left_as_it_is(cli: Cli) -> None:
    assert cli("enqueue", "--prompt", "p", "--id", "first").code == 0
    pending = cli.run_dir / "loop" / "pending"
    for number in range(MOST + 20):
        (
            pending / f"{number:016d}-1796083720221-2ab7ec96-b693-456d-9d6b-0189685008f5-p-{number}.json"
        ).touch()
    before = sorted(os.listdir(pending))
    assert len(complete(cli, "withdraw", "p-")) == MOST
    assert "p-219" in complete(cli, "withdraw", "p-21")
    assert sorted(os.listdir(pending)) == before


def test_a_key_press_imports_nothing_heavy(cli: Cli) -> None:
    code = (
        "import sys; from meshtui.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'pydantic', 'textual', 'rich', 'psutil', 'watchfiles', 'aiohttp'}\n"
        "print(sorted(set(sys.modules) & heavy), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=asking(cli, "withdraw", "U"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.strip() == "[]"


DRIVERS = {
    "bash": """
source <(meshtui completions bash)
COMP_WORDS=(meshtui withdraw US) COMP_CWORD=2
COMP_LINE="meshtui withdraw US" COMP_POINT=19
_meshtui_completion meshtui
printf '%s\\n' "${COMPREPLY[@]}"
""",
    "zsh": """
autoload -U compinit; compinit -u -D
source <(meshtui completions zsh)
words=(meshtui withdraw US) CURRENT=3
compadd() { print -l -- $completions; }
_meshtui_completion
""",
    "fish": """
meshtui completions fish | source
complete -C "meshtui withdraw US"
""",
}


@pytest.mark.parametrize("shell", list(DRIVERS))
def test_in_a_real_shell(shell: str, cli: Cli, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"there is no {shell}")
    for name in ("US-1", "US-2", "other"):
        assert cli("enqueue", "--prompt", "p", "--id", name).code == 0
    folder = tmp_path / "bin"
    folder.mkdir()
    command = folder / "meshtui"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m meshtui "$@"\n')
    command.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "MESHTUI_RUN_DIR": str(cli.run_dir),
        "HOME": str(tmp_path),
        "PYTHONPATH": str(PROJECT),
    }
    done = subprocess.run(
        [program, "-c", DRIVERS[shell]],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    said = done.stdout.split()
    assert {"US-1", "US-2"} <= set(said), done.stderr
    assert "other" not in said
