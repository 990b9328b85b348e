"""meshtui's own cost around a call: from claim to process start, from process end to the result on disk."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from meshtui.core.lane.service import open_runner
from tests.benchmarks.lanes import make_lane, phase
from tests.benchmarks.table import Row
from tests.benchmarks.timing import Samples

_LIMIT_MS = 50.0


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Phases of a stand-in claude that writes down when it starts and ends."""
    count = 3 if quick else 30
    program = folder / "claude"
    times = folder / "times"
    times.mkdir()
    result = '{"type":"result","is_error":false,"result":"done","session_id":"s","permission_denials":[]}'
    program.write_text(
        f"#!/bin/sh\ndate +%s.%N > {times}/$MESHTUI_ENVELOPE_ID.start\necho '{result}'\n"
        f"date +%s.%N > {times}/$MESHTUI_ENVELOPE_ID.end\n"
    )
    program.chmod(0o755)
    run_dir, lane = make_lane(folder / "run")
    run_dir.config.write_text(f'[lane]\nengine = "claude"\n[engines.claude]\nprogram = "{program}"\n')
    ids = []
    for number in range(count):
        envelope = {**phase(number), "engine": "claude", "fresh": True}
        ids.append(lane.enqueue(envelope).envelope_id)
    open_runner(run_dir, until_idle=True).run()
    before, after = Samples(), Samples()
    for previous, current in pairwise(ids):
        # The last thing before a claim is the result of the one before.
        written = run_dir.lane.result(previous).stat().st_mtime
        before.add(max(1e-6, float((times / f"{current}.start").read_text()) - written))
        after.add(max(1e-6, written - float((times / f"{previous}.end").read_text())))
    return [
        Row("from claim to the program's start", before.median * 1000, "ms", _LIMIT_MS, str(before)),
        Row("from the program's end to the result", after.median * 1000, "ms", _LIMIT_MS, str(after)),
    ]
