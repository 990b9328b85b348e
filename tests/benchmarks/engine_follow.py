"""Following 100 MB of an agent's stream: how fast, and how much memory it takes."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from tests.benchmarks.table import Row

_SIZE = 100 << 20
_LEAST_MB_S, _MOST_MB = 100.0, 50.0


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Each engine in a process of its own, so that its memory can be told."""
    rows = []
    for name in ("claude", "codex", "grok"):
        path = folder / f"{name}.log"
        size = write(path, name, 1 << 20 if quick else _SIZE)
        done = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.engine_follow", name, str(path)],
            capture_output=True,
            check=True,
            timeout=300,
        )
        seconds, grown = json.loads(done.stdout)
        what = f"{name}: following {size >> 20} MB"
        rows.append(Row(what, size / (1 << 20) / seconds, "MB/s", least=_LEAST_MB_S))
        rows.append(Row(f"{what}, memory above the start", max(grown, 0.001), "MB", limit=_MOST_MB))
    return rows


def write(path: Path, name: str, size: int) -> int:
    """A stream as ``name`` writes it: mostly what tools answered, words in between; its size."""
    answer = "x" * 20_000
    lines: list[dict[str, object]]
    if name == "claude":
        lines = [
            {"type": "assistant", "message": {"content": [{"type": "text", "text": "looking " * 20}]}},
            {"type": "user", "message": {"content": [{"type": "tool_result", "content": answer}]}},
        ]
    elif name == "codex":
        command = {"id": "i", "type": "command_execution", "command": "make", "aggregated_output": answer}
        lines = [
            {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": "looking " * 20}},
            {"type": "item.completed", "item": command},
        ]
    else:
        lines = [{"text": answer, "stopReason": "EndTurn"}]
    block = b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)
    with path.open("wb") as file:
        for _ in range(size // len(block)):
            file.write(block)
    return path.stat().st_size


def _follow(name: str, path: Path) -> None:
    from meshtui.core.calls import OutputFollower
    from meshtui.core.engines.base import EngineRequest
    from meshtui.core.engines.registry import engine_for

    reader = engine_for(name, None).reader(EngineRequest("run", "", path.parent))
    follower = OutputFollower(path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.perf_counter()
    while chunk := follower.read():
        reader.feed(chunk)
    reader.outcome(0, b"")
    seconds = time.perf_counter() - begin
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps([seconds, grown / (1 << 20 if sys.platform == "darwin" else 1 << 10)]))


if __name__ == "__main__":
    _follow(sys.argv[1], Path(sys.argv[2]))
