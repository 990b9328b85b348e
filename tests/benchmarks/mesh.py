"""Measures a mission and prints a table: ``python -m tests.benchmarks.mesh [ROW ...] [--quick]``.

Makespans are compared with bounds of the same graphs; durations and memory are as they are, with their
scatter and what they consist of beside them: on a busy disk most of a loop's cost is waiting for it. The
exit status is 1 if a limit was missed.
"""

from __future__ import annotations

import sys

from tests.benchmarks.lane import drive

ROWS = {
    "mesh_scheduler": "makespans of random graphs, processor time of the scheduler",
    "mesh_cost": "what the engine costs a loop beside its workers, gates and git",
    "mesh_kill": "from a kill to the end of the last process",
    "mesh_memory": "memory of a run with 200 loops",
}

if __name__ == "__main__":
    sys.exit(drive("mesh", ROWS))
