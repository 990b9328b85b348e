"""What ``y`` copies does the same when it is pasted into a shell, whatever the ids are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from meshtui import command_lines
from meshtui.core.lane.lane import Lane
from meshtui.core.overview import RunDirReader
from meshtui.core.run_dir import RunDir
from meshtui.core.view import LaneView, Row, Section
from tests.support.lanes import finish_first, new_lane, park_first, phase

ODD = "it's $HOME; `x`"
DASHED = "-dashed"


@pytest.fixture
def lane(tmp_path: Path) -> tuple[RunDir, Lane]:
    """A lane in a folder whose name a shell would take apart."""
    return new_lane(tmp_path / "the lane's")


def view(run_dir: RunDir) -> LaneView:
    """Everything there is to see."""
    return RunDirReader(run_dir).refresh(budget=1 << 20)


def row(run_dir: RunDir, section: Section, name: str) -> Row:
    """The record of ``name`` in a list."""
    return next(one for one in view(run_dir).rows(section) if one.envelope_id == name)


def paste(command: str, tmp_path: Path) -> str:
    """Run ``command`` in a shell that finds this meshtui; what it printed."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    program = folder / "meshtui"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m meshtui "$@"\n')
    program.chmod(0o755)
    environ = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": os.getcwd()}
    environ.pop("MESHTUI_RUN_DIR", None)
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def offered(run_dir: RunDir, section: Section, name: str) -> dict[str, str]:
    """The lines of the menu, by what they do."""
    return dict(command_lines.of_row(row(run_dir, section, name), run_dir.root))


@pytest.mark.parametrize("name", [ODD, DASHED])
def test_what_is_copied_of_one_envelope(name: str, lane: tuple[RunDir, Lane], tmp_path: Path) -> None:
    run_dir, queue = lane
    queue.enqueue_many([phase("first"), phase(name)])
    paste(offered(run_dir, "pending", name)["withdraw"], tmp_path)
    assert [one.envelope_id for one in view(run_dir).withdrawn] == [name]
    paste(offered(run_dir, "withdrawn", name)["in place"], tmp_path)
    assert [one.envelope_id for one in view(run_dir).pending] == ["first", name]
    paste(offered(run_dir, "pending", name)["to the head"], tmp_path)
    assert [one.envelope_id for one in view(run_dir).pending] == [name, "first"]
    park_first(run_dir)
    paste(offered(run_dir, "stalled", name)["retry"], tmp_path)
    assert view(run_dir).pending[0].envelope_id == name
    park_first(run_dir)
    paste(offered(run_dir, "stalled", name)["drop"], tmp_path)
    paste(offered(run_dir, "failed", name)["requeue"], tmp_path)
    assert [one.envelope_id for one in view(run_dir).pending] == ["first", name]


def test_what_is_copied_of_several_and_of_ways_out(lane: tuple[RunDir, Lane], tmp_path: Path) -> None:
    run_dir, queue = lane
    queue.enqueue_many([phase("a"), phase(ODD), phase(DASHED)])
    paste(command_lines.on_several("withdraw", [ODD, DASHED], run_dir.root), tmp_path)
    paste(command_lines.on_several("restore", [ODD, DASHED], run_dir.root), tmp_path)
    assert [one.envelope_id for one in view(run_dir).pending] == ["a", ODD, DASHED]
    for _ in range(3):
        park_first(run_dir)
    paste(command_lines.on_each("answer", [ODD, DASHED], run_dir.root, "--drop"), tmp_path)
    assert {one.envelope_id for one in view(run_dir).failed} == {ODD, DASHED}
    # The ways out of what needs somebody are command lines, too.
    for item in view(run_dir).attention:
        [way] = [one for one in item.exits if one.label in ("retry", "requeue")]
        paste(way.command, tmp_path)
    assert {one.envelope_id for one in view(run_dir).pending} == {"a", ODD, DASHED}


def test_what_a_form_copies(lane: tuple[RunDir, Lane], tmp_path: Path) -> None:
    run_dir, _queue = lane
    text = "say 'hello' and %s, \\n is no line\nthis is one: $HOME"
    envelope = {"kind": "phase", "prompt": text, "id": ODD}
    paste(command_lines.of_envelope("enqueue", envelope, run_dir.root), tmp_path)
    assert Lane(run_dir).envelope(ODD) == ("pending", envelope)
    changed = {**envelope, "prompt": text.upper()}
    paste(command_lines.of_envelope("edit", changed, run_dir.root, ODD), tmp_path)
    assert Lane(run_dir).envelope(ODD) == ("pending", changed)


def test_what_is_copied_of_a_lane(lane: tuple[RunDir, Lane], tmp_path: Path) -> None:
    run_dir, queue = lane
    queue.enqueue_many([phase("a"), phase("b")])
    finish_first(run_dir)
    paste(command_lines.on_lane("pause", run_dir.root), tmp_path)
    assert view(run_dir).state == "paused"
    paste(command_lines.on_lane("continue", run_dir.root), tmp_path)
    assert view(run_dir).state == "waiting"
    paste(command_lines.on_lane("interrupt", run_dir.root), tmp_path)
    assert [one.envelope_id for one in view(run_dir).withdrawn] == ["b"]
    assert "pending 0" in paste(command_lines.on_lane("status", run_dir.root), tmp_path)
