"""Any keys, in any order, over texts with anything in them: nothing fails, nothing is written."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from meshtui.core.clock import ManualClock
from meshtui.core.overview import RunDirReader
from meshtui.core.run_dir import RunDir
from meshtui.widgets.text_pane import TextPane
from tests.support.engine import FakeEngine
from tests.support.mission_screens import on_disk
from tests.support.pilot import console
from tests.support.views import NOW

KEYS = [
    *"jkgGfWVcJdDznN/[]{}-", "enter", "space", "escape", "up", "down", "left", "right", "home", "end", "pageup", "pagedown",
    "ctrl+d", "ctrl+u", "shift+down", "shift+up", "slash", "right_curly_bracket", "left_curly_bracket", "minus", "tab",
    "t", "e", "backspace",
]  # fmt: skip
SIZES = ((120, 40), (60, 18), (30, 9), (200, 60))


def hostile(root: Path) -> Path:
    """A run directory of texts that nobody would write."""
    on_disk(root, hostile=True)
    log = root / "calls" / "x" / "stdout.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(
        b"\x1b]0;x\x07\xff" * 500
        + b"\r" * 5000
        + b"tests\n" * 3000
        + "日本語".encode() * 20_000
        + b"\x00\nthe end"
    )
    (root / "missions/m7/loops/loop-auth/patches/0003.patch").write_bytes(
        b"diff --git a/x.py b/x.py\n@@ -1,9 +1,9 @@\n"
        + b"+\t\xff\x1b[2Jtext\r\n- old\n" * 300
        + b"@@ -1 +1 @@ \xe2\x80\xae\n"
    )
    return root


def files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
    }


@pytest.mark.parametrize("seed", range(4))
async def test_any_keys_in_any_order(seed: int, tmp_path: Path) -> None:
    root = hostile(tmp_path / "run")
    before = files(root)
    view = RunDirReader(RunDir(root), clock=ManualClock(NOW)).refresh()
    chance = random.Random(seed)
    pressed: list[str] = []
    async with console(
        engine=FakeEngine(view), run_dir=root, size=SIZES[seed % len(SIZES)], read_only=True
    ) as it:
        it.lane.show_key("m7/loop-auth")
        pane = it.lane.loop_pane
        assert pane is not None
        for part in chance.sample(["diff", "gates", "proof", "findings", "log", "state"], 6):
            while len(it.app.screen_stack) > 1:
                await it.press("escape")
            pane.choose(part)
            it.lane.open_details()
            await it.until(lambda part=part: part in pane.read, f"{part} was read")  # type: ignore[misc]
            for _ in range(25):
                # Most keys are for the text; where one led elsewhere, back to it.
                if len(it.app.screen_stack) == 1 and chance.random() < 0.3:
                    pane.prose.focus()
                pressed.append(chance.choice(KEYS))
                await it.pilot.press(pressed[-1])
            await it.pilot.pause()
            for text in it.app.screen.query(TextPane):
                assert 0 <= text.pointer <= max(0, len(text.doc))
                assert text.top <= (len(text.doc), 10_000)
            assert it.app.is_running, pressed
    assert files(root) == before
