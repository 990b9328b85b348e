"""``head``, ``edit``, and what is done with several at once, on the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.cli import Cli, spawn


@pytest.fixture
def queue(cli: Cli) -> Cli:
    """A lane with a, b, c and d pending."""
    for name in "abcd":
        assert cli("enqueue", "--prompt", f"do {name}", "--id", name, "--engine", "command").code == 0
    return cli


def order(cli: Cli) -> list[str]:
    return [row["envelope_id"] for row in cli.json("status")["queue"]["pending"]]


def envelope(cli: Cli, name: str) -> dict[str, object]:
    [path] = (cli.run_dir / "loop" / "pending").glob(f"*-{name}.json")
    found: dict[str, object] = json.loads(path.read_bytes())["envelope"]
    return found


def test_the_head(queue: Cli) -> None:
    assert queue("head", "c").out == "c is at the head of 4 pending\n"
    assert queue.json("head", "d", "b") == {"moved": ["d", "b"], "queue_depth": 4}
    assert order(queue) == ["d", "b", "c", "a"]
    assert queue("head", "nowhere").code == 3
    assert "no envelope 'nowhere'" in queue("head", "nowhere").complaint
    assert queue("head").code == 2
    queue("withdraw", "a")
    refused = queue("head", "b", "a")
    assert refused.code == 2
    assert refused.complaint == (
        "envelope 'a' is withdrawn, not pending: bring it back with meshtui restore or meshtui requeue ID"
    )
    assert order(queue) == ["d", "b", "c"]


def test_edit_by_fields(queue: Cli) -> None:
    assert queue("edit", "b", "--prompt", "do b well", "--story", "US-1").out == "edited b, 2 of 4 pending\n"
    assert envelope(queue, "b") == {
        "kind": "phase", "prompt": "do b well", "id": "b", "engine": "command", "story_id": "US-1",
    }  # fmt: skip
    receipt = queue.json("edit", "b", "--unset", "story_id", "--fresh", "--deadline", "2020-01-01")
    assert receipt["position"] == 2
    assert receipt["queue_depth"] == 4
    assert "is already past" in receipt["warnings"][0]
    assert envelope(queue, "b")["fresh"] is True
    assert "story_id" not in envelope(queue, "b")
    assert order(queue) == ["a", "b", "c", "d"]


def test_edit_as_a_whole(queue: Cli, tmp_path: Path) -> None:
    new = {"kind": "phase", "prompt": "other", "custom": [1]}
    assert queue("edit", "c", "-", stdin=json.dumps(new).encode()).code == 0
    assert envelope(queue, "c") == new
    file = tmp_path / "e.json"
    file.write_text(json.dumps({**new, "id": "c"}))
    assert queue("edit", "c", "--file", str(file)).code == 0
    assert envelope(queue, "c")["id"] == "c"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["b"], 2, "nothing to change"),
        (["b", "--file", "x", "--prompt", "y"], 2, "not both"),
        (["b", "-", "--file", "x"], 2, "not both"),
        (["b", "other"], 2, "unexpected argument 'other'"),
        (["b", "--file", "nowhere.json"], 2, "no such file"),
        (["b", "--engine", "gpt"], 2, "engine must be one of claude, codex, grok, command, not 'gpt'"),
        (["b", "--unset", "story_id"], 2, "has no field 'story_id'; it has kind, prompt"),
        (["b", "--unset", "prompt"], 2, "prompt is missing"),
        (["b", "--deadline-seconds", "0"], 2, "deadline_seconds must be"),
        (["nowhere", "--prompt", "x"], 3, "no envelope 'nowhere'"),
        ([], 2, "ID"),
    ],
)
def test_edit_refuses_and_changes_nothing(queue: Cli, arguments: list[str], code: int, words: str) -> None:
    before = {path.name: path.read_bytes() for path in (queue.run_dir / "loop" / "pending").iterdir()}
    said = queue("edit", *arguments)
    assert said.code == code
    assert words in said.complaint
    assert {path.name: path.read_bytes() for path in (queue.run_dir / "loop" / "pending").iterdir()} == before


def test_edit_in_an_editor(queue: Cli, tmp_path: Path) -> None:
    """On a terminal, without options: what the editor saves is what is queued."""
    import pty

    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/do d/done by hand/" "$1"\n')
    editor.chmod(0o755)
    master, slave = pty.openpty()
    try:
        said = spawn(
            "edit", "d", "--run-dir", str(queue.run_dir), cwd=tmp_path, stdin=slave,
            env={**os.environ, "VISUAL": "", "EDITOR": str(editor)},
        )  # fmt: skip
    finally:
        os.close(master)
        os.close(slave)
    assert said.code == 0, said
    assert envelope(queue, "d")["prompt"] == "done by hand"


def test_several_at_once(queue: Cli) -> None:
    assert queue("withdraw", "b", "d").out == "withdrawn 2: b, d\n"
    said = queue.json("withdraw", "c", "b", code=2)
    assert said["withdrawn"] == ["c"]
    assert said["queue_depth"] == 1
    assert [one["envelope_id"] for one in said["refused"]] == ["b"]
    assert queue("restore", "d", "b", "--in-place").out == "restored 2: b, d\n"
    assert order(queue) == ["a", "b", "d"]
    assert queue.json("requeue", "c", "nowhere", code=3)["requeued"] == ["c"]
    assert queue("withdraw", "a", "b").code == 0
    assert queue.json("restore", "b") == {"restored": ["b"], "left": []}
    assert order(queue) == ["d", "c", "b"]
    assert queue("restore", "d").code == 2
    assert queue("restore", "nowhere").code == 3
