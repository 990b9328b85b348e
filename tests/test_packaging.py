"""What is installed: only ``meshtui``, with its styles and everything else it reads at run time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from meshtui import __version__

PROJECT = Path(__file__).parent.parent
DIST_INFO = f"meshtui-{__version__}.dist-info"
OURS = {".git", ".venv", ".demo", "build", "dist", "tests"}

pytestmark = pytest.mark.timeout(600)


@dataclass(frozen=True)
class Built:
    sdist: Path
    wheel: Path
    """Made from the sdist."""
    source: Path


@dataclass(frozen=True)
class Installed:
    python: Path
    site: Path
    before: frozenset[str]
    """What stood in ``site`` before."""

    @property
    def script(self) -> Path:
        return self.python.parent / "meshtui"


def run(*command: str | Path, cwd: Path) -> str:
    """What a program prints; without this process's Python settings and meshtui's variables."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "MESHTUI_"))}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def make_venv(folder: Path) -> Installed:
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    site = Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    )
    return Installed(python, site, frozenset(os.listdir(site)))


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("packaging")
    source = folder / "source"

    def leave_out(where: str, names: list[str]) -> set[str]:
        top = OURS if Path(where) == PROJECT else set()
        return {
            name
            for name in names
            if name in top or name == "__pycache__" or name.endswith((".egg-info", "_cache"))
        }

    shutil.copytree(PROJECT, source, symlinks=True, ignore=leave_out)
    # Whoever tries the demo's files out leaves this behind.
    cache = source / "meshtui" / "demo" / "repo-template" / "almanac" / "__pycache__"
    cache.mkdir()
    (cache / "years.cpython-311.pyc").write_bytes(b"x")
    run(sys.executable, "-m", "build", "--outdir", folder / "dist", source, cwd=folder)
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    (wheel,) = (folder / "dist").glob("*.whl")
    return Built(sdist, wheel, source)


@pytest.fixture(scope="session")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel and what it depends on in an environment of its own, as pipx would have it."""
    found = make_venv(tmp_path_factory.mktemp("installed") / "venv")
    run(found.python, "-m", "pip", "install", "--quiet", built.wheel, cwd=built.wheel.parent)
    return found


def data_files() -> set[str]:
    """What the package needs besides its modules."""
    template = PROJECT / "meshtui" / "demo" / "repo-template"
    found = {path for path in template.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    found |= set((PROJECT / "meshtui" / "styles").glob("*.tcss"))
    names = {str(path.relative_to(PROJECT)) for path in found}
    assert {"meshtui/styles/base.tcss", "meshtui/demo/repo-template/tools/agent.sh"} <= names
    return names | {"meshtui/py.typed"}


def modules() -> set[str]:
    found = {path.relative_to(PROJECT) for path in (PROJECT / "meshtui").rglob("*.py")}
    found |= {
        Path("meshtui") / path.relative_to(PROJECT)
        for name in ("core", "styles")
        for path in (PROJECT / name).rglob("*.py")
    }
    return {str(path) for path in found if "__pycache__" not in path.parts}


def test_wheel(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        names = set(wheel.namelist())
        storage = wheel.read("meshtui/core/storage.py")
    assert {name.partition("/")[0] for name in names} == {"meshtui", DIST_INFO}
    assert names >= data_files() | modules()
    assert "meshtui/core/lane/runner.py" in names
    assert not [name for name in names if name.endswith(".pyc")]
    assert storage == (PROJECT / "core" / "storage.py").read_bytes()


def test_sdist_holds_what_the_symlinks_mean(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        members = {member.name.partition("/")[2]: member for member in archive}
    assert not [name for name, member in members.items() if member.issym() or member.islnk()]
    assert set(members) >= data_files() | modules() | {"README.md", "LICENSE", "pyproject.toml"}
    tops = {name.partition("/")[0] for name in members}
    assert not tops & {"core", "styles", "tests", "screenshots"}


def test_only_meshtui_reaches_site_packages(installed: Installed) -> None:
    record = (installed.site / DIST_INFO / "RECORD").read_text(encoding="utf-8")
    tops = {line.partition("/")[0].partition(",")[0] for line in record.splitlines()}
    assert tops == {"meshtui", DIST_INFO, ".."}
    assert "../../../bin/meshtui," in record
    new = set(os.listdir(installed.site)) - installed.before
    assert not new & {"core", "styles", "tests", "screenshots", "meshtui.egg-link"}
    for name in ("core", "styles"):
        found = run(
            installed.python,
            "-c",
            f"import importlib.util; print(importlib.util.find_spec({name!r}))",
            cwd=installed.site.parent,
        )
        assert found == "None\n"


def test_pip_install_of_the_folder_installs_the_same(built: Built, tmp_path: Path) -> None:
    found = make_venv(tmp_path / "venv")
    run(found.python, "-m", "pip", "install", "--quiet", "--no-deps", ".", cwd=built.source)
    record = (found.site / DIST_INFO / "RECORD").read_text(encoding="utf-8")
    lines = {line for line in record.splitlines() if line.startswith("meshtui/") and ".pyc," not in line}
    with zipfile.ZipFile(built.wheel) as wheel:
        original = wheel.read(f"{DIST_INFO}/RECORD").decode()
    assert lines == {line for line in original.splitlines() if line.startswith("meshtui/")}


def test_it_runs_beside_another_core(installed: Installed, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    for name in ("core", "styles"):
        (repo / name).mkdir(parents=True)
        (repo / name / "__init__.py").write_text("raise SystemExit('the wrong one')\n")
    assert run(installed.script, "--version", cwd=repo) == f"meshtui, version {__version__}\n"
    run(installed.python, "-m", "meshtui", "enqueue", "--run-dir", "run", "--prompt", "hello", cwd=repo)
    run(
        installed.python,
        "-m",
        "meshtui",
        "lane",
        "--run-dir",
        "run",
        "--until-idle",
        "--run",
        "cat",
        cwd=repo,
    )
    value = json.loads(
        run(installed.python, "-m", "meshtui", "status", "--run-dir", "run", "--json", cwd=repo)
    )
    assert value["queue"]["counts"]["done"] == 1
    run(
        installed.python,
        *("-m", "meshtui", "--run-dir", "run", "--headless", "--screenshot", "frame.svg"),
        cwd=repo,
    )
    assert (repo / "frame.svg").read_text(encoding="utf-8").startswith("<svg")


def test_the_installed_demo_has_its_files(installed: Installed, tmp_path: Path) -> None:
    code = "from meshtui.demo.build import open_demo; from pathlib import Path; open_demo(Path('demo'))"
    run(installed.python, "-c", code, cwd=tmp_path)
    tracked = run("git", "ls-files", cwd=tmp_path / "demo" / "almanac").splitlines()
    template = {name.partition("repo-template/")[2] for name in data_files() if "repo-template/" in name}
    assert set(tracked) == template | {".gitignore"}
    state = json.loads(run(installed.script, "status", "--run-dir", "demo/lane", "--json", cwd=tmp_path))
    assert state["queue"]["counts"]["pending"] == 10
