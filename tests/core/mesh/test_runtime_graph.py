"""Many loops: caps, order, and what a loop that ended badly means for the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from meshtui.core.mesh import scheduler
from meshtui.core.mesh.scheduler import LoopLike, LoopNode
from tests.support.missions import INTEGRATION, Bench, node


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def depths(log: Path) -> int:
    """The most that were at work at once."""
    depth = most = 0
    for line in log.read_text().splitlines():
        depth += 1 if line == "+" else -1
        most = max(most, depth)
    return most


def test_a_blocked_dependency_blocks_by_name(bench: Bench) -> None:
    bench.commands('[ "$MESHTUI_LOOP_ID" = loop-b ] || echo x >> $MESHTUI_LOOP_ID.txt')
    bench.plan(
        node("loop-a", "loop-a.txt"),
        node("loop-b", "loop-b.txt", max_iterations=1),
        node("loop-c", "loop-c.txt", after=["loop-b"]),
        node("loop-d", "loop-d.txt", after=["loop-c", "loop-a"]),
    )
    assert bench.run().state == "bad"
    assert bench.status("loop-a") == "completed"
    assert bench.state("loop-c").blockers == ["dependency loop-b: blocked"]
    assert bench.state("loop-d").status == "blocked"
    assert any(text.startswith("dependency loop-") for text in bench.state("loop-d").blockers)
    assert bench.status(INTEGRATION) == "blocked"
    assert bench.proof()["blocked_loops"] == 4
    assert bench.proof("loop-d")["status"] == "blocked"
    assert bench.mismatches() == []


def test_eight_at_once(bench: Bench) -> None:
    log = bench.tmp / "log"
    wait = f'while [ "$(grep -c + {log})" -lt 8 ]; do sleep 0.02; done'
    bench.commands(f"echo + >> {log}; {wait}; echo x >> $MESHTUI_LOOP_ID.txt; echo - >> {log}")
    bench.max_active = 8
    bench.plan(*[node(f"loop-{number}", f"loop-{number}.txt") for number in range(8)])
    assert bench.run().state == "done"
    assert depths(log) == 8
    assert bench.proof()["parallelism"]["max_active_loops"] == 8
    assert bench.mismatches() == []
    assert bench.untouched()


def test_thirty_loops_never_exceed_three(bench: Bench) -> None:
    log = bench.tmp / "log"
    bench.commands(f"echo + >> {log}; echo x >> $MESHTUI_LOOP_ID.txt; echo - >> {log}")
    bench.max_active = 3
    bench.plan(
        *[
            node(f"loop-{number}", f"loop-{number}.txt", after=[f"loop-{number - 7}"] if number >= 7 else [])
            for number in range(30)
        ]
    )
    assert bench.run().state == "done"
    assert depths(log) <= 3
    assert bench.proof()["parallelism"]["max_active_loops"] == 3
    assert bench.proof()["completed_loops"] == 31


def test_the_graph_is_read_once_however_many_loops_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: Counter[str] = Counter()
    real_init, real_after = scheduler._Graph.__init__, LoopNode.__getattribute__

    def init(self: scheduler._Graph, loops: Sequence[LoopLike]) -> None:
        reads["graphs"] += 1
        real_init(self, loops)

    def attribute(self: LoopNode, name: str) -> object:
        reads[name] += 1
        return real_after(self, name)

    monkeypatch.setattr(scheduler._Graph, "__init__", init)
    monkeypatch.setattr(LoopNode, "__getattribute__", attribute)
    found = {}
    for count in (4, 16):
        reads.clear()
        bench = Bench(tmp_path / str(count))
        bench.commands("echo x >> $MESHTUI_LOOP_ID.txt")
        bench.max_active = 4
        bench.plan(*[node(f"loop-{number}", f"loop-{number}.txt") for number in range(count)])
        assert bench.run().state == "done", bench.proof()["blockers"]
        found[count] = Counter(reads)
    assert found[4]["graphs"] == found[16]["graphs"] <= 2
    # Four times the loops are four times the work and not sixteen.
    for name, times in found[16].items():
        assert times <= 5 * found[4][name], name


def test_a_failing_loop_does_not_stop_others(bench: Bench) -> None:
    bench.commands("case $MESHTUI_LOOP_ID in loop-a) exit 3;; *) echo x >> $MESHTUI_LOOP_ID.txt;; esac")
    bench.plan(node("loop-a", "loop-a.txt"), node("loop-b", "loop-b.txt"))
    assert bench.run().state == "bad"
    assert bench.status("loop-b") == "completed"
    assert bench.status("loop-a") == "blocked"


def test_an_engine_without_the_command_fails_by_name(bench: Bench) -> None:
    bench.commands("echo x >> $MESHTUI_LOOP_ID.txt", checker=None)
    bench.plan(node("loop-a", "loop-a.txt"))
    assert bench.run().state == "bad"
    assert bench.status("loop-a") == "failed"
    assert "no command for role checker" in bench.state("loop-a").blockers[0]


def test_resume_of_a_finished_mission_keeps_its_proof(bench: Bench) -> None:
    bench.commands("echo x >> $MESHTUI_LOOP_ID.txt")
    bench.plan(node("loop-a", "loop-a.txt"))
    assert bench.run().state == "done"
    before = bench.proof()
    assert bench.run().state == "done"
    after = bench.proof()
    assert after["parallelism"] == before["parallelism"]
    assert after["head_commit"] == before["head_commit"]
    assert len(bench.calls()) == 2
