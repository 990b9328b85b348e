"""Gates: what tracked files suggest, what is configured, what a loop gets."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from meshtui.core.config import Config
from meshtui.core.mesh.gates_config import (
    DetectedGates,
    GateSpec,
    detect,
    find_program,
    in_force,
    select,
    unknown,
)
from meshtui.core.models.mesh import OwnerScope

Found = Callable[[str], str | None]


def _have(*programs: str) -> Found:
    return lambda name: f"/bin/{name}" if not programs or name in programs else None


def _detect(files: dict[str, str], which: Found | None = None) -> DetectedGates:
    contents = {path: text.encode() for path, text in files.items()}
    return detect(Path("/nowhere"), list(files), read=contents.get, which=which or _have())


def _local(files: dict[str, str]) -> dict[str, object]:
    return {name: gate.command for name, gate in _detect(files).gates.items() if gate.stage == "local"}


def test_a_python_project() -> None:
    pyproject = "[tool.ruff]\n[tool.mypy]\nfiles=['pkg']\n[tool.pytest.ini_options]\n"
    assert _local({"pyproject.toml": pyproject, "pkg/__init__.py": "", "tests/test_a.py": ""}) == {
        "ruff": ["ruff", "check", "."],
        "mypy": ["mypy"],
        "pytest": 'PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" pytest',
    }


def test_older_configuration_files() -> None:
    assert _local({"mypy.ini": "[mypy]\n", ".ruff.toml": "", "test_a.py": ""}).keys() == {
        "ruff",
        "mypy",
        "pytest",
    }
    assert _local({"setup.cfg": "[mypy]\n[tool:pytest]\n"}) == {"mypy": ["mypy", "."], "pytest": ["pytest"]}
    assert _local({"mypy.ini": "", "b/__init__.py": "", "a/__init__.py": "", "tests/__init__.py": ""}) == {
        "mypy": ["mypy", "a", "b"]
    }
    assert _local({"mypy.ini": "", "src/a/b.py": "", "docs/setup.py": ""}) == {"mypy": ["mypy", "src"]}
    assert _local({"setup.cfg": "[metadata]\n", "a.py": ""}) == {}


def test_pytest_checks_the_working_copy_not_an_installed_one(tmp_path: Path) -> None:
    old, new = tmp_path / "installed", tmp_path / "copy"
    for folder, value in ((old, "old"), (new / "src", "new")):
        folder.mkdir(parents=True)
        (folder / "thing.py").write_text(f"value = {value!r}\n")
    command = _local({"src/thing.py": "", "tests/test_a.py": ""})["pytest"]
    assert isinstance(command, str)
    shown = command.replace(" pytest", " python3 -c 'import thing; print(thing.value)'")
    done = subprocess.run(
        ["/bin/sh", "-c", shown],
        cwd=new,
        env={**os.environ, "PYTHONPATH": str(old)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "new\n"


def test_npm_scripts() -> None:
    scripts = {"test": "vitest", "lint": "eslint .", "typecheck": "tsc", "start": "node ."}
    package = json.dumps({"scripts": scripts})
    assert _local({"package.json": package}) == {
        "npm-lint": ["npm", "run", "lint"],
        "npm-typecheck": ["npm", "run", "typecheck"],
        "npm-test": ["npm", "run", "test"],
    }
    assert "pnpm-test" in _local({"package.json": package, "pnpm-lock.yaml": ""})
    assert "yarn-test" in _local({"package.json": package, "yarn.lock": ""})
    dummy = json.dumps({"scripts": {"test": 'echo "Error: no test specified" && exit 1'}})
    assert _local({"package.json": dummy}) == {}


def test_cargo_and_go() -> None:
    assert _local({"Cargo.toml": ""}) == {"cargo-test": ["cargo", "test", "--quiet"]}
    assert _local({"go.mod": ""}) == {"go-vet": ["go", "vet", "./..."], "go-test": ["go", "test", "./..."]}


def test_make_targets_only_for_what_nothing_else_does() -> None:
    makefile = "X := 1\n.PHONY: test\ntest lint: build\n\tpytest\nbuild:\n\tcc\ntestlike:\n"
    assert _local({"Makefile": makefile}) == {"make-lint": ["make", "lint"], "make-test": ["make", "test"]}
    assert _local({"Makefile": makefile, "go.mod": ""}).keys() == {"go-vet", "go-test"}
    assert _local({"Makefile": "check:\n\ttrue\ntest:\n"}) == {"make-check": ["make", "check"]}
    assert _local({"Makefile": "test := 1\ntest::=2\n"}) == {}


def test_each_detected_gate_also_checks_the_merged_result() -> None:
    gates = _detect({"go.mod": ""}).gates
    assert gates["go-test-merged"] == GateSpec(["go", "test", "./..."], "integration", 600.0)
    assert gates["go-test"].when == ("*.go", "go.mod", "go.sum")


def test_a_missing_program_is_a_warning_and_no_gate() -> None:
    found = _detect({"go.mod": "", "Cargo.toml": ""}, _have("cargo"))
    assert found.gates.keys() == {"cargo-test", "cargo-test-merged"}
    assert len(found.warnings) == 1
    assert found.warnings[0].startswith("gate go-vet, go-test is not selected: program go is not on PATH")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("pyproject.toml", "[tool"),
        ("package.json", "{"),
        ("package.json", "[" * 100_000),
        ("pyproject.toml", "a=" + "[" * 9999),
    ],
)
def test_files_that_cannot_be_read_are_warnings(path: str, text: str) -> None:
    found = _detect({path: text, "go.mod": ""})
    assert "go-test" in found.gates
    assert len(found.warnings) == 1
    assert path in found.warnings[0]


@pytest.mark.parametrize(
    "text", ['{"scripts": 7}', '{"scripts": {"test": 7}}', "[]", '{"scripts": {"test": "  "}}', "null"]
)
def test_a_strange_package_json_suggests_nothing(text: str) -> None:
    assert _detect({"package.json": text}) == DetectedGates()


def test_files_are_read_from_the_repository_and_never_through_a_symlink(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "outside").write_text("test:\n\ttrue\n")
    makefile = tmp_path / "repo" / "Makefile"
    makefile.symlink_to(tmp_path / "outside")
    found = detect(tmp_path / "repo", ["Makefile"], which=_have())
    assert (found.gates, len(found.warnings)) == ({}, 1)
    makefile.unlink()
    makefile.write_text("test:\n\ttrue\n")
    assert "make-test" in detect(tmp_path / "repo", ["Makefile"], which=_have()).gates


def test_finding_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_program("tool") is None
    (tmp_path / "tool").chmod(0o755)
    assert find_program("tool") == str(tmp_path / "tool")
    assert find_program("other") is None


GO = _detect({"go.mod": ""})
ANY = OwnerScope(directories=["src"])


def _config(**gates: Mapping[str, object]) -> Config:
    return Config.model_validate({"gates": gates})


def test_detected_gates_serve_only_stages_where_none_is_configured() -> None:
    assert set(in_force(Config(), GO)) == set(GO.gates)
    config = _config(mine={"command": "true"})
    assert set(in_force(config, GO)) == {"mine", "go-vet-merged", "go-test-merged"}
    config = _config(mine={"command": "true", "stage": "integration"})
    assert select(config, GO, ANY, "integration") == ["mine"]
    assert select(config, GO, ANY, "local") == ["go-vet", "go-test"]


def test_a_configured_gate_keeps_its_name() -> None:
    config = _config(**{"go-test": {"command": "mine", "stage": "checker"}})
    assert in_force(config, GO)["go-test"].command == "mine"
    assert select(config, GO, ANY, "checker") == ["go-test"]


def test_when_decides_by_what_the_scope_could_change() -> None:
    config = _config(py={"command": "a", "when": ["src/**/*.py"]}, docs={"command": "b", "when": ["/docs/"]})
    none = DetectedGates()
    assert select(config, none, ANY, "local") == ["py"]
    assert select(config, none, OwnerScope(files=["docs/a.md"]), "local") == ["docs"]
    assert select(config, none, OwnerScope(directories=["."]), "local") == ["py", "docs"]


def test_integration_takes_all_its_gates() -> None:
    config = _config(a={"command": "a", "stage": "integration", "when": ["x/**"]})
    assert select(config, DetectedGates(), OwnerScope(), "integration") == ["a"]


def test_a_domains_own_list_replaces_the_choice_and_keeps_strangers() -> None:
    config = _config(a={"command": "a"}, b={"command": "b"}, c={"command": "c", "stage": "checker"})
    wanted = ["b", "nobody", "c", "b"]
    assert select(config, DetectedGates(), ANY, "local", wanted=wanted) == ["b", "nobody"]
    assert select(config, DetectedGates(), ANY, "checker", wanted=wanted) == ["c"]
    assert unknown(["a", "loop:state-valid", "nobody"], config, DetectedGates()) == ["nobody"]


def test_which_changes_a_gate_is_for() -> None:
    gate = GateSpec("true", "local", when=("*.py",))
    assert gate.applies(["a/b.py", "x.md"])
    assert not gate.applies(["x.md"])
    assert not gate.applies([])
    assert GateSpec("true", "local").applies([])


def test_a_gate_in_a_plan_reads_back() -> None:
    for gate in (*GO.gates.values(), GateSpec("make x", "checker")):
        assert GateSpec.from_json(json.loads(json.dumps(gate.as_json()))) == gate
