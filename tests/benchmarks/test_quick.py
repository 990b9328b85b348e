"""The benchmarks' code works; how fast things are is not tested here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks import console, engines, lane, mesh
from tests.benchmarks.table import Row, missed, render


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", dict.fromkeys([*lane.ROWS, *mesh.ROWS, *engines.ROWS, *console.ROWS]))
def test_every_row_is_measured(name: str, tmp_path: Path) -> None:
    rows = lane.run([name], quick=True, where=tmp_path)
    assert rows
    # The system counts processor time in hundredths of a second: what idles half a second may take none.
    least = 0 if name == "idle" else 1e-9
    assert all(row.value >= least and row.limit is None for row in rows)
    assert list(tmp_path.iterdir()) == []


def test_a_row_over_its_limit_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [Row("a", 1.0, "x", 2.0), Row("b", 3.0, "x", 2.0), Row("c", 9.0, "ms")]
    assert [row.name for row in missed(rows)] == ["b"]
    assert [line.split()[0] for line in render(rows).splitlines()] == ["figure", "a", "b", "c"]
    assert "MISSED" in render(rows).splitlines()[2]
    assert missed([Row("less", 1.0, "x", least=1.3), Row("more", 1.4, "x", least=1.3)])[0].name == "less"


def test_an_unknown_row_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        lane.main(["nonsense"])
    assert end.value.code == 2
    assert "nonsense" in capsys.readouterr().err
