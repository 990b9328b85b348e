"""A disk that fills up while a mission runs: it fails loudly, nothing is lost, and it goes on with space."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from meshtui.core.errors import StorageError
from tests.support.missions import Bench, end_leftovers, git, node, until
from tests.support.mounts import small_filesystems


@pytest.fixture
def mounted() -> Iterator[Callable[[Path], None]]:
    """Mounts a small filesystem of its own over a folder."""
    with small_filesystems(6) as mount:
        yield mount
        end_leftovers()


@pytest.mark.parametrize("what", ["run", "trees", ""])
def test_a_maker_fills_it(tmp_path: Path, mounted: Callable[[Path], None], what: str) -> None:
    disk = tmp_path / "bench" / what
    disk.mkdir(parents=True)
    mounted(disk)
    bench = Bench(tmp_path / "bench")
    log, once, ballast = tmp_path / "log", tmp_path / "once", disk / "ballast"
    flood = f"[ -e {once} ] || {{ touch {once}; dd if=/dev/zero of={ballast} bs=4096 2> /dev/null; }}"
    edit = "case $MESHTUI_LOOP_ID in loop-a) echo x >> a/one.txt;; *) echo x >> b/two.txt;; esac"
    bench.commands(f'echo "+ $MESHTUI_LOOP_ID" >> {log}; {edit}; {flood}; echo "- $MESHTUI_LOOP_ID" >> {log}')
    bench.plan(node("loop-a", "a/"), node("loop-b", "b/", after=["loop-a"]))
    running = bench.start()
    # The worker has ended; its end is written down as soon as there is space.
    until(lambda: log.exists() and "- loop-a" in log.read_text())
    assert ballast.exists()
    ballast.unlink()
    try:
        state: str = running.outcome().state
    except StorageError as error:
        state = str(error)
    assert state in ("done", "bad") or "disk is full" in state
    assert git(bench.repo, "rev-parse", "main") == bench.base
    if state != "done":
        assert bench.run().state == "done", bench.proof()["blockers"]
    assert bench.result("a/one.txt").splitlines()[:2] == ["one", "x"]
    assert bench.result("b/two.txt") == "two\nx"
    assert bench.mismatches() == []
    lines = log.read_text().splitlines()
    assert lines.count("+ loop-a") == lines.count("- loop-a")
    assert lines.count("+ loop-b") == 1


def test_a_call_that_cannot_be_ended_for_want_of_space_ends_the_runner(
    tmp_path: Path, mounted: Callable[[Path], None]
) -> None:
    disk = tmp_path / "bench" / "run"
    disk.mkdir(parents=True)
    mounted(disk)
    bench = Bench(tmp_path / "bench")
    once, ballast = tmp_path / "once", disk / "ballast"
    bench.commands('echo "x $MESHTUI_ITERATION" >> a/one.txt')
    bench.gate(
        "slow",
        f"[ -e {once} ] || {{ touch {once}; dd if=/dev/zero of={ballast} bs=4096 2> /dev/null; sleep 600; }}",
        timeout_seconds=1,
    )
    bench.plan(node("loop-a", "a/", gates=["slow"]))
    with pytest.raises(StorageError, match="disk is full"):
        bench.run()
    ballast.unlink()
    assert bench.run().state == "done", bench.proof()["blockers"]
    assert bench.result("a/one.txt") == "one\nx 1\nx 2"
    assert bench.mismatches() == []
