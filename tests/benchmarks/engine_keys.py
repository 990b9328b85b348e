"""How soon the console answers a key while eight agents stream into one run directory."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.benchmarks.table import Row
from tests.benchmarks.terminal import Terminal
from tests.benchmarks.timing import Samples
from tests.support.mission_child import start_child
from tests.support.missions import MISSION, Bench, end_leftovers, node, until

AGENTS = 8
LIMIT_MS = 50.0
START_SECONDS = 60.0
PROGRAM = """#!{python}
import json, sys, time
sys.stdin.read()
print(json.dumps({{"type": "system", "subtype": "init", "session_id": str(time.time_ns())}}), flush=True)
number = 0
while True:
    number += 1
    use = {{"type": "tool_use", "name": "Read", "input": {{"file_path": f"src/part-{{number}}.py"}}}}
    message = {{"id": f"msg_{{number}}", "content": [use], "usage": {{"input_tokens": 90, "output_tokens": 9}}}}
    print(json.dumps({{"type": "assistant", "message": message}}), flush=True)
    answer = {{"type": "tool_result", "content": "x" * 4000}}
    print('{{"type":"user","message":' + json.dumps({{"content": [answer]}}) + "}}", flush=True)
    time.sleep(0.05)
"""


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Eight loops of one mission, each with a maker that says something twenty times a second."""
    presses = 4 if quick else 60
    program = folder / "agent"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    bench = Bench(folder, files={f"d{number}/file": "" for number in range(AGENTS)})
    bench.config["engines"] = {"claude": {"program": str(program)}}
    bench.configure()
    loops = [
        node(f"loop-{number}", f"d{number}/", max_wall_ms=3_600_000, max_tokens_estimate=10**12)
        for number in range(AGENTS)
    ]
    bench.plan(
        *(one.model_copy(update={"engine": "claude", "title": f"title{one.loop_id}"}) for one in loops)
    )
    child = start_child(bench.run_dir.root, MISSION, max_active=AGENTS)
    try:
        until(lambda: _streaming(bench) == AGENTS, START_SECONDS)
        return [_keys(bench, presses)]
    finally:
        child.terminate()
        child.join(30)
        end_leftovers()


def _streaming(bench: Bench) -> int:
    """How many agents have said something."""
    logs = [path / "stdout.log" for path in bench.calls("maker")]
    return sum(1 for log in logs if log.exists() and log.stat().st_size)


def _keys(bench: Bench, presses: int) -> Row:
    """Another loop is selected again and again, until its title stands in the details."""
    seen = Samples()
    at, by = 0, 1
    with Terminal(["-m", "meshtui", "--run-dir", str(bench.run_dir.root)]) as terminal:
        terminal.shows("titleloop-0")
        # The first key is about finding the widgets, not about repainting.
        for number in range(presses + 1):
            if not 0 <= at + by < AGENTS:
                by = -by
            at += by
            pressed = terminal.press(b"j" if by > 0 else b"k")
            seconds = terminal.shows(f"titleloop-{at}") - pressed
            if number:
                seen.add(seconds)
            # Not in step with anything that has a rhythm.
            time.sleep(0.1 + (number % 7) * 0.037)
    slowest = sorted(seen.seconds)[int(len(seen.seconds) * 0.9)]
    return Row(
        f"key to repaint while {AGENTS} agents stream",
        seen.median * 1000,
        "ms",
        LIMIT_MS,
        f"{seen}; nine of ten within {slowest * 1000:.0f} ms",
    )
