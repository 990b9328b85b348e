"""Missions on released packages: real programs change real code, and the packages' own tests judge it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.workshop import Workshop, git

# The first run may have to wait for the package index.
pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]

CONFIG = """\
[lane]
engine = "command"

[engines.command]
maker = [%(python)s, %(maker)s, {programs}]
# What is no Python any more is refused, by a program that has seen no maker.
checker = [%(python)s, "-m", "ruff", "check", "--isolated", "--no-cache", "--quiet", "--select", "E9,F63,F7", "."]
env = {{ RELEASED = %(released)s }}

[mesh]
worktrees = %(worktrees)s
max_active_loops = 2

[budget]
max_changed_files = 40

[gates.suite]
command = %(pytest)s
when = [{suite}]

[gates.merged]
command = %(pytest)s
stage = "integration"
"""

# Three parts that no tree would suggest; one of them has two makers, each with a file of its own.
CACHETOOLS = """
[[domains]]
id = "caches"
paths = ["src/cachetools/__init__.py", "src/cachetools/_decorators.py"]
gates = ["suite"]

[[domains]]
id = "functions"
paths = ["src/cachetools/func.py", "src/cachetools/keys.py"]
gates = ["suite"]

[[domains]]
id = "tests"
paths = ["tests"]
gates = ["suite"]
"""

# Loops are as the tree suggests. Only the big one waits for the whole suite; the merged result has to, too.
TOOLZ = """
[gates.imports]
command = [%(python)s, "-c", "import tlz, toolz.curried, toolz.sandbox, versioneer"]
when = ["tlz/**", "versioneer.py"]
"""


def config(programs: str, more: str, *, suite: str) -> str:
    """A configuration: which loop runs which programs, and the paths that the whole suite is run for."""
    return (
        CONFIG.format(programs=", ".join(f'"{item}"' for item in programs.split()), suite=f'"{suite}"') + more
    )


def lands(shop: Workshop, mission: str, *, commits: int) -> None:
    """The result holds: verified, its tests pass elsewhere, and it becomes the user's branch when told to."""
    verified = shop.meshtui("proof", mission, "--verify")
    assert verified["ok"]
    told = {check["verdict"] for check in verified["checks"]}
    assert "verified" in told
    assert "mismatch" not in told
    shop.passes_in_a_clone(f"meshtui/{mission}")
    landed = shop.meshtui("land", mission)
    assert landed["target"] == "main"
    assert (
        git(shop.repo, "rev-parse", "HEAD")
        == landed["after"]
        == git(shop.repo, "rev-parse", f"meshtui/{mission}")
    )
    assert git(shop.repo, "status", "--porcelain") == ""
    assert git(shop.repo, "log", "--format=%an", "main").splitlines() == ["Ada"] * (commits + 1)


def test_cachetools_in_parts_side_by_side(tmp_path: Path) -> None:
    programs = "loop-caches=pyupgrade,lint loop-functions=lint loop-tests=lint,layout"
    shop = Workshop.make(tmp_path, "cachetools", config(programs, CACHETOOLS, suite="**"), tests=("tests",))
    before = shop.checkout()
    request = "Modernise the caches, the functions and the tests"
    done = shop.meshtui("run", request, "--mission", "modern")
    assert done["state"] == "done"
    proof = done["graph_proof"]
    assert (proof["ok"], proof["total_loops"], proof["completed_loops"]) == (True, 4, 4)
    assert proof["parallelism"]["max_active_loops"] == 2
    assert shop.checkout() == before

    # Two files, two makers, each in a working copy of its own.
    for number in (1, 2):
        assert shop.read("modern", "loop-caches", f"maker/0001-maker-{number}.json")["ok"] is True
    caches = shop.proof("modern", "loop-caches")
    assert caches["changed_files"] == ["src/cachetools/__init__.py"]
    assert caches["checker_result"]["fresh_session"] is True
    assert shop.proof("modern", "loop-functions")["changed_files"] == ["src/cachetools/func.py"]
    tests = shop.proof("modern", "loop-tests")["changed_files"]
    assert tests
    assert all(path.startswith("tests/") for path in tests)
    for loop, gate in (
        ("caches", "suite"),
        ("functions", "suite"),
        ("tests", "suite"),
        ("integration", "merged"),
    ):
        result = shop.gate("modern", f"loop-{loop}", gate)
        assert (result["ok"], result["exit_code"]) == (True, 0)
        assert "216 passed" in result["stdout_tail"]
    changed = git(shop.repo, "diff", "--name-only", "main", "meshtui/modern").splitlines()
    assert changed == sorted(["src/cachetools/__init__.py", "src/cachetools/func.py", *tests])
    lands(shop, "modern", commits=3)


def test_toolz_whose_tests_refuse_what_ruff_calls_unsafe(tmp_path: Path) -> None:
    """The first iteration breaks three tests for real; the second takes it back and comes through."""
    programs = "loop-toolz=bold loop-tlz=lint,layout loop-root=pyupgrade,lint"
    shop = Workshop.make(tmp_path, "toolz", config(programs, TOOLZ, suite="toolz/**"), tests=("toolz", "tlz"))
    before = shop.checkout()
    done = shop.meshtui("run", "Modernise toolz, tlz and versioneer.py", "--mission", "modern")
    assert done["state"] == "done"
    assert done["graph_proof"]["completed_loops"] == 4
    assert shop.checkout() == before

    toolz = shop.proof("modern", "loop-toolz")
    assert toolz["iterations"] == 2
    assert toolz["gate_result"]["ok"] is True
    (given,) = shop.read("modern", "loop-toolz", "maker/0002-maker-1.json")["findings_given"]
    assert given.startswith("gate suite failed (exit 1; it passes on the base)")
    assert "test_dicttoolz.py::TestDict::test_factory" in given
    patch = git(shop.repo, "diff", "main", "meshtui/modern", "--", "toolz/dicttoolz.py")
    assert patch
    # pytest leaves compiled files behind, and this package ignores none of them.
    left = shop.gate("modern", "loop-toolz", "suite")["side_effects"]
    assert any("__pycache__" in path for path in left), left
    assert shop.proof("modern", "loop-tlz")["gate_result"]["passed_gates"].count("imports") == 1
    changed = git(shop.repo, "diff", "--name-only", "main", "meshtui/modern").splitlines()
    assert changed
    assert all(path.startswith(("toolz/", "tlz/")) or path == "versioneer.py" for path in changed)
    assert not any("__pycache__" in path for path in changed)
    lands(shop, "modern", commits=3)
