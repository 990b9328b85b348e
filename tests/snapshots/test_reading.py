"""The pictures of texts that are read, byte for byte."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from textual.filter import Monochrome

from meshtui.app import MeshtuiApp
from meshtui.core.clock import ManualClock
from meshtui.core.overview import RunDirReader
from meshtui.core.run_dir import RunDir
from meshtui.core.view import CallView, Detail, LaneView
from meshtui.headless import _settle, _show_loop, picture
from meshtui.messages import OutputRead
from meshtui.screens.lane import LaneScreen
from meshtui.widgets.detail import DetailPane
from tests.snapshots.test_frames import ENVELOPE, HANDOFF, SIZES
from tests.support.mission_screens import on_disk
from tests.support.snapshots import compare
from tests.support.views import FAILED, NOW, lane

PATCH = """diff --git a/src/auth/token.py b/src/auth/token.py
index 1..2 100644
--- a/src/auth/token.py
+++ b/src/auth/token.py
@@ -12,9 +12,11 @@ class Token:
     def __init__(self, value: str, expires: float) -> None:
         self.value = value
-        self.expires = expires
+        # A minute early: a token that ends on its way is worth nothing.
+        self.expires = expires - 60
.
     def fresh(self, now: float) -> bool:
-        return now < self.expires
+        \"\"\"Whether it can still be sent.\"\"\"
+        return now < self.expires and bool(self.value)
.
     def __repr__(self) -> str:
@@ -80,4 +82,4 @@ def refresh(session: Session) -> Token:
     reply = session.post("/token", json={"grant": "refresh", "tries": 3})
     if reply.status != 200:
-        raise Refused(reply.text)
+        raise Refused(f"{reply.status}: {reply.text[:200]}")
     return Token(reply["token"], reply["expires"])
diff --git a/docs/old.md b/docs/guide/tokens.md
similarity index 90%
rename from docs/old.md
rename to docs/guide/tokens.md
--- a/docs/old.md
+++ b/docs/guide/tokens.md
@@ -1,2 +1,2 @@
 # Tokens
-They end.
+They end, and are refreshed a minute before.
diff --git a/tools/check.sh b/tools/check.sh
old mode 100644
new mode 100755
diff --git a/docs/flow.png b/docs/flow.png
new file mode 100644
GIT binary patch
literal 48123
zcmV

""".replace("\n.\n", "\n \n")


def diff_of(root: Path) -> Path:
    """A run directory with a loop whose patch has everything in it."""
    on_disk(root)
    (root / "missions/m7/loops/loop-auth/patches/0003.patch").write_text(PATCH)
    return root


def drawn(
    view: LaneView,
    show: tuple[str, Detail | None],
    keys: list[str],
    size: tuple[int, int],
    theme: str = "meshtui",
) -> str:
    """The screen after ``keys``, with a part of the details open and in focus."""

    async def draw() -> str:
        app = MeshtuiApp(RunDir(view.run_dir), view=view, clock=ManualClock(NOW), still=True)
        app.animation_level = "none"
        async with app.run_test(size=size) as pilot:
            await _settle(pilot)
            if theme == "monochrome":
                # As with NO_COLOR in the environment.
                app._filters.append(Monochrome())
            else:
                app.theme = theme
            screen = app.screen
            assert isinstance(screen, LaneScreen)
            part, detail = show
            if detail is not None:
                assert screen.show_key(detail.key)
                await _settle(pilot)
                pane = screen.query_one(DetailPane)
                pane.show_detail(detail.key, detail)
                pane.show_output(OutputRead(detail.key, detail.call, live=True))
                pane.choose(part)
            else:
                screen.show_key("m7/loop-auth")
                await _settle(pilot)
                _show_loop(screen, part)
            screen.open_details()
            await _settle(pilot)
            for key in keys:
                await pilot.press(key)
            await _settle(pilot)
            return picture(app, size)

    return asyncio.run(draw())


def loop_view(root: Path) -> LaneView:
    return RunDirReader(RunDir(root), clock=ManualClock(NOW)).refresh()


def record(folder: Path) -> Detail:
    """A record with a handoff, a result and a long log."""
    lines = [
        f"{n:02d}:{n % 60:02d} worker {n} handles request {n * 7919 % 1000} of the batch" for n in range(500)
    ]
    lines[490] = "Traceback: " + "a long line that says what went wrong " * 6
    (folder / "stdout.log").write_text("\n".join(lines) + "\n")
    (folder / "stderr.log").touch()
    (folder / "call.json").write_text(
        json.dumps({"call_id": "c1", "argv": ["my-agent", "--print"], "cwd": "/srv/wt/US-014"})
    )
    call = CallView("c1", folder, folder / "stdout.log", folder / "stderr.log", "running")
    result = {
        "status": "done", "engine": "codex", "exit_code": 0, "output": "Three tests fail:\n- a\n- b\n- c",
        "usage": {"input_tokens": 12_345, "output_tokens": 678, "cost_usd": 0.31},
        "claims": [{"claim": "files_changed: src/auth/session.py", "verdict": "claimed, not verified", "why": "git shows no change of it"}],
    }  # fmt: skip
    return Detail(
        FAILED.key, "failed", {"envelope": ENVELOPE, "head": "a" * 40}, None, result, HANDOFF, call=call
    )


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", ["search", "json", "diff", "proof"])
def test_the_texts_at_every_size(name: str, size: tuple[int, int], tmp_path: Path) -> None:
    if name in ("diff", "proof"):
        svg = drawn(loop_view(diff_of(tmp_path / "run")), (name, None), [], size)
    elif name == "search":
        svg = drawn(
            lane(3, attention=2), ("output", record(tmp_path)), ["slash", *"request 9", "enter", "n"], size
        )
    else:
        svg = drawn(lane(3, attention=2), ("result", record(tmp_path)), ["J", "j", "j", "j"], size)
    assert str(tmp_path) not in svg
    compare(f"read-{name}-{size[0]}x{size[1]}", svg, tmp_path)


@pytest.mark.parametrize("theme", ["meshtui-light", "monochrome"])
@pytest.mark.parametrize("name", ["search", "diff", "handoff"])
def test_the_texts_in_other_colours(name: str, theme: str, tmp_path: Path) -> None:
    if name == "diff":
        svg = drawn(loop_view(diff_of(tmp_path / "run")), (name, None), ["z"], (100, 34), theme)
    elif name == "handoff":
        svg = drawn(lane(3, attention=2), (name, record(tmp_path)), [], (120, 36), theme)
    else:
        keys = ["slash", *"request 9", "enter", "n", "V", "j", "j"]
        svg = drawn(lane(3, attention=2), ("output", record(tmp_path)), keys, (100, 30), theme)
    compare(f"read-{name}-{theme}", svg, tmp_path)


@pytest.mark.parametrize(
    "keys", [["z"], ["z", "W"], ["z", "V", "k", "k", "k"]], ids=["full", "unwrapped", "marked"]
)
def test_the_whole_screen(keys: list[str], tmp_path: Path) -> None:
    svg = drawn(lane(3, attention=2), ("output", record(tmp_path)), keys, (100, 30))
    compare(f"read-{'-'.join(keys)}-100x30", svg, tmp_path)


def test_a_log_over_a_gate(tmp_path: Path) -> None:
    root = on_disk(tmp_path / "run")
    (root / "calls" / "x").mkdir(parents=True)
    (root / "calls" / "x" / "stdout.log").write_text("".join(f"tests/test_{n}.py ok\n" for n in range(80)))
    svg = drawn(loop_view(root), ("gates", None), ["enter"], (100, 30))
    compare("read-gate-log-100x30", svg, tmp_path)
