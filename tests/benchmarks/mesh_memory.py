"""The memory of a mission's runner with many loops."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from tests.benchmarks.mesh_cost import many_loops
from tests.benchmarks.table import Row
from tests.support.missions import MISSION

LIMIT_MB = 200.0
LOOPS = 200
AT_ONCE = 8

# What the process itself had at most; where the system does not say, the peak that is its parent's at least.
RUNNER = """
import sys
from pathlib import Path
from meshtui.cli import run
code = run(sys.argv[2:])
try:
    told = Path("/proc/self/status").read_text()
    peak = int(told.partition("VmHWM:")[2].split()[0])
except FileNotFoundError:
    import resource
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)
Path(sys.argv[1]).write_text(str(peak))
sys.exit(code)
"""


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """A whole ``meshtui run`` in a process of its own."""
    loops, at_once = (3, 2) if quick else (LOOPS, AT_ONCE)
    bench = many_loops(folder / "run", loops, max_active=at_once)
    bench.configure()
    peak = folder / "peak"
    arguments = ["run", MISSION, "--run-dir", str(bench.run_dir.root), "--max-active", str(at_once), "--json"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, str(peak), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path) or os.getcwd()},
        check=False,
    )
    seconds = time.perf_counter() - begin
    if done.returncode != 0:
        raise RuntimeError(
            f"the mission ended with {done.returncode}: {done.stderr.decode(errors='replace')}"
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return [
        Row(
            f"memory of a run with {loops} loops, {at_once} at once, at its peak",
            int(peak.read_text()) / 1024,
            "MB",
            LIMIT_MB,
            f"{seconds:.0f} s, {seconds / loops:.2f} s a loop; {cpu / loops:.2f} s of processor time a loop, git and all",
        )
    ]
