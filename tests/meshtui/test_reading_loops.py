"""A loop's texts: its diff, its gates and their logs, its proof, and what is handed to another program."""

from __future__ import annotations

import os
import stat
import sys
from ast import literal_eval
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from textual.app import App

from meshtui.core.clock import ManualClock
from meshtui.core.mesh.verify import Check
from meshtui.core.overview import RunDirReader
from meshtui.core.run_dir import RunDir
from meshtui.screens.outside import open_outside
from meshtui.widgets.loop_detail import LoopPane
from meshtui.widgets.pane import Outside
from meshtui.widgets.patch_doc import PatchDoc
from tests.support.engine import FakeEngine
from tests.support.mission_screens import on_disk
from tests.support.pilot import Console, console
from tests.support.views import NOW

LOOP = "missions/m7/loops/loop-auth"


@asynccontextmanager
async def loop(root: Path, part: str, *, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Console]:
    """The details of the one loop in ``root`` at ``part``, with the focus."""
    view = RunDirReader(RunDir(root), clock=ManualClock(NOW)).refresh()
    engine = FakeEngine(view)
    engine.the_missions.checks = (
        Check("loop-auth", "gate tests failed", "mismatch", "its log calls/x/stdout.log differs"),
        Check(
            "loop-auth", "gate ruff passed", "claimed", "claimed, not verified: the proof names no evidence"
        ),
    )
    async with console(engine=engine, run_dir=root, size=size) as it:
        assert it.lane.show_key("m7/loop-auth")
        pane(it).choose(part)
        it.lane.open_details()
        await it.until(lambda: part in pane(it).read, f"{part} was read")
        await it.pilot.pause()
        yield it


def pane(it: Console) -> LoopPane:
    return it.lane.query_one(LoopPane)


def said(it: Console) -> str:
    return str(pane(it).border_subtitle or "")


def long_patch(root: Path, files: int = 3) -> None:
    """A patch of several files with two hunks each."""
    text = ""
    for number in range(files):
        text += f"diff --git a/src/f{number}.py b/src/f{number}.py\n--- a/src/f{number}.py\n+++ b/src/f{number}.py\n"
        for hunk in (1, 100):
            body = "".join(f" line {at} of {number}\n" for at in range(30))
            text += f"@@ -{hunk},31 +{hunk},31 @@ def f{hunk}\n{body}-old {hunk} of {number}\n+new {hunk} of {number}\n"
    (root / LOOP / "patches" / "0003.patch").write_text(text)


async def test_a_diff_lists_its_files_and_is_jumped_through(tmp_path: Path) -> None:
    root = on_disk(tmp_path / "run")
    long_patch(root)
    async with loop(root, "diff") as it:
        await it.until_shown("in 3 files")
        assert isinstance(pane(it).prose.doc, PatchDoc)
        await it.press("right_curly_bracket")
        assert it.text().index("src/f0.py") > 0
        await it.press("right_curly_bracket")
        await it.until(lambda: said(it).startswith("src/f1.py · file 2 of 3"))
        assert "line 0 of 1" in it.text()
        await it.press("right_square_bracket", "right_square_bracket")
        await it.until(lambda: "line 100  def f100" in it.text().split("\n")[7])
        await it.press("left_curly_bracket", "left_curly_bracket")
        await it.until(lambda: said(it).startswith("src/f0.py · file 1 of 3"))
        await it.press("slash", *"new 100 of 2", "enter")
        await it.until_shown("new 100 of 2")


async def test_a_click_on_a_file_goes_to_it(tmp_path: Path) -> None:
    root = on_disk(tmp_path / "run")
    long_patch(root)
    async with loop(root, "diff") as it:
        await it.until_shown("in 3 files")
        await it.pilot.click(pane(it).prose, offset=(20, 2))
        await it.until(lambda: said(it).startswith("src/f1.py · file 2 of 3"))


async def test_enter_on_a_gate_opens_its_log_and_esc_comes_back(tmp_path: Path) -> None:
    root = on_disk(tmp_path / "run")
    log = root / "calls" / "x" / "stdout.log"
    log.parent.mkdir(parents=True)
    log.write_text("all that the gate wrote\n" * 50)
    async with loop(root, "gates") as it:
        await it.until_shown("1 of 2 passed")
        await it.press("enter")
        await it.until_shown("all that the gate wrote")
        assert "log of gate tests" in it.text()
        await it.press("escape")
        await it.until_shown("1 of 2 passed")


async def test_a_proof_is_verified_again_and_leads_to_its_logs(tmp_path: Path) -> None:
    root = on_disk(tmp_path / "run")
    async with loop(root, "proof", size=(160, 50)) as it:
        await it.until_shown("○ not verified yet  gate tests failed")
        shown = it.text()
        for text in ("$ pytest", "exit 1 · 12.8 s · call x", "calls/x/stdout.log", "sha256 9f3c"):
            assert text in shown
        await it.press("v")
        await it.until_shown("✖ MISMATCH  gate tests failed")
        assert "its log calls/x/stdout.log differs" in it.text()
        assert "▲ claimed, not verified  gate ruff passed" in it.text()
        while pane(it).prose.doc.line(pane(it).prose.pointer).target is None:
            await it.press("j")
        await it.press("enter")
        await it.until_shown("The log is gone.")


async def test_the_files_of_a_loop_as_json(tmp_path: Path) -> None:
    root = on_disk(tmp_path / "run")
    async with loop(root, "proof") as it:
        await it.press("J")
        await it.until_shown("evidence: [1]")
        pane(it).choose("gates")
        await it.until_shown("tests.json: {")
        pane(it).choose("diff")
        await it.until_shown("in 2 files")


# -- other programs -----------------------------------------------------------------------------------


@contextmanager
def suspended(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Apps in tests have no terminal to give away: what is recorded is that it was given and came back."""
    seen: list[str] = []

    @contextmanager
    def suspend(_app: object) -> Iterator[None]:
        seen.append("given")
        yield
        seen.append("back")

    monkeypatch.setattr(App, "suspend", suspend)
    yield seen


def program(folder: Path, name: str, body: str) -> Path:
    path = folder / name
    path.write_text(f"#!{sys.executable}\nimport os, sys\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


NOTES = "open(os.environ['NOTES'], 'w').write(repr((sys.argv[1:], os.environ.get('LESSSECURE'), '' if sys.stdin.isatty() or sys.argv[1:] else sys.stdin.read())))"


async def test_a_work_file_goes_to_the_editor_at_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = tmp_path / "notes"
    vi = program(tmp_path, "vi", NOTES)
    monkeypatch.setenv("NOTES", str(notes))
    monkeypatch.setenv("VISUAL", f"'{vi}' --quick")
    root = on_disk(tmp_path / "run")
    tree = tmp_path / "tree"
    (tree / "src" / "auth").mkdir(parents=True)
    work = tree / "src" / "auth" / "token.py"
    work.write_text("keep\n")
    (root / LOOP / "worktree.json").write_text(f'{{"path": "{tree}", "branch": "b"}}')
    with suspended(monkeypatch) as seen:
        async with loop(root, "diff") as it:
            await it.press("right_curly_bracket", "right_square_bracket")
            assert it.lane.loop is not None
            pane(it).row = replace(it.lane.loop, worktree=str(tree))
            await it.press("o")
            assert seen == ["given", "back"]
            assert literal_eval(notes.read_text())[0] == ["--quick", str(work)]
            assert it.app.is_running


async def test_files_of_the_run_directory_are_only_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = tmp_path / "notes"
    monkeypatch.setenv("NOTES", str(notes))
    monkeypatch.setenv("VISUAL", "/nowhere/editor")
    monkeypatch.setenv("PAGER", str(program(tmp_path, "pager", NOTES)))
    root = on_disk(tmp_path / "run")
    with suspended(monkeypatch):
        async with loop(root, "proof") as it:
            await it.press("J", "o")
            arguments, secure, _ = literal_eval(notes.read_text())
            assert arguments == [str(root / LOOP / "loop-proof.json")]
            assert secure == "1"
            await it.press("J", "o")
            arguments, _, text = literal_eval(notes.read_text())
            assert arguments == []
            assert "gate tests failed" in text


@pytest.mark.parametrize(
    ("variables", "body", "said_so"),
    [
        ({"VISUAL": "/nowhere/editor"}, "", "/nowhere/editor is not there"),
        ({"VISUAL": "'unbalanced"}, "", "$VISUAL cannot be read as a command: No closing quotation"),
        ({"VISUAL": "", "EDITOR": ""}, "", "Neither $VISUAL nor $EDITOR is set"),
        ({"VISUAL": "EDITOR"}, "sys.exit(3)", "editor ended with 3"),
        ({"VISUAL": "EDITOR"}, "os.kill(os.getpid(), 9)", "editor was ended by signal 9"),
    ],
)
async def test_an_editor_that_fails_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], body: str, said_so: str
) -> None:
    path = tmp_path / "file.py"
    path.write_text("x")
    editor = program(tmp_path, "editor", body)
    for name, value in variables.items():
        monkeypatch.setenv(name, str(editor) if value == "EDITOR" else value)
    with suspended(monkeypatch):
        app: App[None] = App()
        problem = open_outside(app, Outside(path, work=True), lambda: "")
    assert problem is not None
    assert said_so in problem
    assert "\n" not in problem


async def test_ctrl_c_in_a_pager_is_the_pagers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    monkeypatch.setenv("PAGER", str(program(tmp_path, "pager", "os.kill(os.getppid(), 2)")))
    with suspended(monkeypatch):
        app: App[None] = App()
        assert open_outside(app, Outside(path), lambda: "") is None


async def test_a_file_that_is_gone_is_not_opened(tmp_path: Path) -> None:
    app: App[None] = App()
    problem = open_outside(app, Outside(tmp_path / "gone"), lambda: "")
    assert problem == f"{tmp_path / 'gone'} is not there any more"


async def test_a_terminal_that_cannot_be_given_away_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGER", "true")
    root = on_disk(tmp_path / "run")
    async with loop(root, "proof") as it:
        await it.press("o")
        await it.until_shown("This terminal cannot be given to true")
        assert os.environ["PAGER"] == "true"
