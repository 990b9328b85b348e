"""``plan --edit`` with real editors: programs that change a file, fail, or are not there."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from meshtui.core.own import own_command
from tests.support.missions import Bench, meshtui

REQUEST = "improve the readme"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    bench = Bench(tmp_path)
    bench.commands("echo x >> README.md")
    bench.configure()
    return bench


def editor(bench: Bench, body: str, name: str = "my editor") -> str:
    """A program that edits the file named last; how to name it in a variable."""
    path = bench.tmp / name
    path.write_text(f'#!/bin/sh\nfor file; do :; done\necho "$@" >> {bench.tmp}/asked\n{body}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return f"'{path}'"


def plan_file(bench: Bench, mission: str = "m2") -> Path:
    return bench.run_dir.missions / mission / "loops" / "loop-plan.json"


def edit(bench: Bench, *more: str, code: int = 0) -> object:
    return meshtui(bench.run_dir.root, "plan", REQUEST, "--mission", "m2", "--edit", *more, code=code)


def test_what_it_saves_counts(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    change = 'sed -i \'s/"max_iterations": 2/"max_iterations": 1/\' "$file"'
    monkeypatch.setenv("EDITOR", editor(bench, change) + " --wait -n '+1 2'")
    made = edit(bench)
    assert isinstance(made, dict)
    assert {node["budget"]["max_iterations"] for node in made["graph"]["nodes"]} == {1}
    assert (bench.tmp / "asked").read_text() == f"--wait -n +1 2 {plan_file(bench)}\n"
    assert json.loads(plan_file(bench).read_text())["graph"] == made["graph"]


@pytest.mark.parametrize("visual", [True, False])
def test_visual_comes_before_editor(bench: Bench, visual: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", editor(bench, "echo editor >> asked-who", "editor"))
    monkeypatch.setenv("VISUAL", editor(bench, "echo visual >> asked-who", "visual") if visual else " ")
    monkeypatch.chdir(bench.tmp)
    edit(bench)
    assert (bench.tmp / "asked-who").read_text().split() == ["visual" if visual else "editor"]


def test_one_that_fails(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", editor(bench, "exit 3"))
    said = edit(bench, code=2)
    assert "the editor ended with 3" in str(said)
    assert str(plan_file(bench)) in str(said)
    assert json.loads(plan_file(bench).read_text())["request"] == REQUEST


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("/no/such/editor", "No such file"),
        ("'unclosed", "No closing quotation"),
        ("/", "Permission denied"),
        ("", "$EDITOR is not set"),
    ],
)
def test_one_that_cannot_be_started(
    bench: Bench, value: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", value)
    said = str(edit(bench, code=2))
    assert why in said
    assert said.count("\n") == 1
    assert plan_file(bench).exists()


@pytest.mark.parametrize("damage", ["echo '{' > \"$file\"", ': > "$file"', 'rm "$file"'])
def test_a_plan_that_cannot_be_read_can_be_corrected(
    bench: Bench, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = editor(bench, f'cp {bench.tmp}/good "$file"', "good-editor")
    monkeypatch.setenv("EDITOR", "cp -t " + str(bench.tmp))
    edit(bench)
    (bench.tmp / "loop-plan.json").rename(bench.tmp / "good")
    monkeypatch.setenv("EDITOR", editor(bench, damage))
    said = meshtui(bench.run_dir.root, "plan", "m2", "--edit", code=3 if "rm" in damage else 2)
    if "rm" in damage:
        return
    assert "correct it with: meshtui plan --edit m2" in str(said)
    assert meshtui(bench.run_dir.root, "run", "m2", code=2)
    monkeypatch.setenv("EDITOR", good)
    made = meshtui(bench.run_dir.root, "plan", "m2", "--edit")
    assert made["mission_id"] == "m2"
    assert made["blockers"] == []


def test_a_broken_plan_is_refused_with_all_its_blockers(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = ('s/"max_wall_ms": [0-9]*/"max_wall_ms": 0/', 's/"level": "low"/"level": "critical"/')
    monkeypatch.setenv("EDITOR", editor(bench, "".join(f"sed -i '{fault}' \"$file\"\n" for fault in faults)))
    wanted = [
        "loop-docs: budget.max_wall_ms must be a positive whole number, not 0",
        "loop-docs: risk is critical: the final arbiter cannot be left out",
        "loop-docs: risk is critical: it has to end with a person",
        "loop-integration: budget.max_wall_ms must be",
    ]
    for said in (str(edit(bench, code=2)), str(meshtui(bench.run_dir.root, "run", "m2", code=2))):
        assert [text for text in wanted if text not in said] == [], said
    assert bench.calls() == []


def test_a_plan_that_was_broken_from_the_start_can_be_mended(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the planner had against it does not outlive its cause."""
    with bench.run_dir.config.open("a") as config:
        config.write("[budget]\nmax_model_calls = 1\n")
    assert "does not pay for one round" in str(
        meshtui(bench.run_dir.root, "plan", REQUEST, "--mission", "m2", code=2)
    )
    wanted = "".join(
        f's/"max_model_calls": {old},/"max_model_calls": {new},/;' for old, new in ((1, 8), (2, 16))
    )
    monkeypatch.setenv("EDITOR", editor(bench, f"sed -i '{wanted}' \"$file\""))
    made = meshtui(bench.run_dir.root, "plan", "m2", "--edit")
    assert made["blockers"] == []
    assert json.loads(plan_file(bench).read_text())["blockers"] == []
    assert meshtui(bench.run_dir.root, "run", "m2")["state"] == "done"


def test_a_gate_that_was_added_is_not_missed_any_more(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(made: object) -> list[str]:
        assert isinstance(made, dict)
        return [text for text in made["options"]["warnings"] if " gate" in text]

    before = missing(meshtui(bench.run_dir.root, "plan", REQUEST, "--mission", "m2"))
    assert len(before) == 2
    assert (
        before[-1] == "loop-integration: no gate checks the merged result; add one with stage = integration"
    )
    bench.gate("both", "true", stage="integration")
    bench.configure()
    script = """
        import json, sys
        plan = json.load(open(sys.argv[-1]))
        plan["graph"]["nodes"][-1]["gates"]["integration"] = ["both"]
        json.dump(plan, open(sys.argv[-1], "w"))
    """
    (bench.tmp / "add.py").write_text(textwrap.dedent(script))
    monkeypatch.setenv("EDITOR", editor(bench, f'{sys.executable} {bench.tmp}/add.py "$file"'))
    assert missing(meshtui(bench.run_dir.root, "plan", "m2", "--edit")) == before[:-1]
    assert missing(json.loads(plan_file(bench).read_text())) == before[:-1]


def test_everything_of_the_wrong_kind_is_told_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = ('s/"max_wall_ms": [0-9]*/"max_wall_ms": "long"/', 's/"dependencies": \\[\\]/"dependencies": 7/')
    monkeypatch.setenv("EDITOR", editor(bench, "".join(f"sed -i '{fault}' \"$file\"\n" for fault in faults)))
    said = str(edit(bench, code=2))
    for where in (
        "graph.nodes.0.budget.max_wall_ms: ",
        "graph.nodes.0.dependencies: ",
        "graph.nodes.1.budget",
    ):
        assert where in said, said
    assert said.count("\n") == 1


def test_what_it_prints_stays_off_the_document(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", editor(bench, "echo hello from the editor"))
    command = own_command("plan", REQUEST, "--edit", "--json", "--run-dir", str(bench.run_dir.root))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["request"] == REQUEST
    assert "hello from the editor" in done.stderr
