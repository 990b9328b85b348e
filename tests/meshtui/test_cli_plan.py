"""``plan`` on the command line, in a repository of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from meshtui.core.own import own_command
from tests.support.missions import Bench, git, make_repo, meshtui

TREE = {
    "src/app/core.py": "x = 1\n",
    "src/app/store.py": "x = 1\n",
    "src/auth/login.py": "x = 1\n",
    "tests/test_core.py": "def test_it(): pass\n",
    "docs/index.md": "# it\n",
    "Makefile": "check:\n\ttrue\n",
    "meshtui.toml": '[[domains]]\nid = "src"\npaths = ["src/"]\n\n[[domains]]\nid = "app"\npaths = ["src/app"]\n',
}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, files=TREE)


def said(bench: Bench, *args: str, **environ: str) -> str:
    done = subprocess.run(
        own_command("plan", *args, "--run-dir", str(bench.run_dir.root)),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environ},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_a_reader_is_told(bench: Bench) -> None:
    lines = said(bench, "change app and src", "--mission", "m2").splitlines()
    assert lines[0] == "mission m2: 3 loops"
    assert "loop-src: high risk (high: auth: src/auth/login.py), after loop-app" in lines
    assert "overlap: loop-src waits for loop-app: their paths touch (src/app lies in src)" in lines
    assert bench.calls() == []
    short = said(bench, "change app and src", "--mission", "m3", "--max-loops", "1").splitlines()
    assert "left out (more than --max-loops): src" in short


def test_the_same_plan_whatever_the_order_of_sets_and_the_language(bench: Bench) -> None:
    """Hashes and sorting differ from process to process; what is planned does not."""
    (bench.repo / "meshtui.toml").unlink()
    found: list[dict[str, Any]] = []
    for number, (seed, language) in enumerate((("1", "C"), ("2", "C.UTF-8"), ("77", "en_US.UTF-8"))):
        made = json.loads(
            said(
                bench,
                "core, store, auth, tests and docs/new.md",
                *("--mission", f"s{number}", "--json"),
                PYTHONHASHSEED=seed,
                LC_ALL=language,
            ).replace(f"s{number}", "S")
        )
        del made["generated_at"]
        found.append(made)
    assert found[0]["graph"]["nodes"]
    assert found[0] == found[1] == found[2]


def test_gates_are_those_of_the_base_not_of_the_checkout(tmp_path: Path) -> None:
    """Loops start from the last commit: what was edited since is not there when a gate runs."""
    repo = make_repo(tmp_path / "repo", {"src/one.py": "x = 1\n", "Makefile": "check:\n\ttrue\n"})
    (repo / "Makefile").write_text("test:\n\ttrue\n")
    run = tmp_path / "run"

    def gates(mission: str) -> set[str]:
        made = meshtui(run, "plan", "change src", "--mission", mission, "--repo", str(repo))
        return set(made["options"]["detected_gates"])

    assert gates("m1") == {"make-check", "make-check-merged"}
    git(repo, "commit", "-aqm", "other targets")
    assert gates("m2") == {"make-test", "make-test-merged"}


def test_options_of_a_plan_are_not_ignored_for_one_that_is_made(bench: Bench) -> None:
    said(bench, "change app and src", "--mission", "m2")
    for name, value in (("--max-loops", "1"), ("--parallelism", "safe")):
        text = str(meshtui(bench.run_dir.root, "run", "m2", name, value, code=2))
        assert f"mission m2 is planned already: {name} would change nothing" in text
    assert bench.calls() == []
