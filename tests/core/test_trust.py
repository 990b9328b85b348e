"""Trust: a repository's commands run only as the operator has seen them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from meshtui.core.config import LoadedConfig, load_config
from meshtui.core.errors import InvalidInput, StorageError
from meshtui.core.run_dir import RunDir
from meshtui.core.trust import is_trusted, require_trust, state_file, trust

COMMANDS = '[gates.tests]\ncommand = "make test"\n'


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder / "meshtui" / "trust.json"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "repo").mkdir()
    path = tmp_path / "repo" / "meshtui.toml"
    path.write_text(COMMANDS)
    return path


def load(file: Path) -> LoadedConfig:
    return load_config(RunDir(file.parent.parent / "run"), file.parent, environ={})


def never(commands: list[tuple[str, str]]) -> bool:
    raise AssertionError(f"asked about {commands}")


class TestMemory:
    def test_as_it_is_now(self, file: Path, state: Path) -> None:
        assert not is_trusted(file)
        assert not state.exists()
        trust(file)
        assert is_trusted(file)
        file.write_text(COMMANDS + "#")
        assert not is_trusted(file)
        file.write_text(COMMANDS)
        assert is_trusted(file)
        trust(file)
        assert state.stat().st_mode & 0o777 == 0o600
        assert state.parent.stat().st_mode & 0o777 == 0o700

    def test_only_the_last_contents_count(self, file: Path) -> None:
        trust(file)
        file.write_text("# new")
        trust(file)
        file.write_text(COMMANDS)
        assert not is_trusted(file)

    def test_another_file_with_the_same_contents_is_not_trusted(self, file: Path, tmp_path: Path) -> None:
        trust(file)
        other = tmp_path / "meshtui.toml"
        other.write_text(COMMANDS)
        assert not is_trusted(other)
        link = tmp_path / "link"
        link.symlink_to(file.parent)
        assert is_trusted(link / "meshtui.toml")

    def test_a_missing_file(self, tmp_path: Path) -> None:
        assert not is_trusted(tmp_path / "none.toml")
        with pytest.raises(InvalidInput, match="no such file"):
            trust(tmp_path / "none.toml")

    def test_a_name_that_is_no_text(self, tmp_path: Path) -> None:
        folders = [tmp_path / os.fsdecode(b"r\xff"), tmp_path / os.fsdecode(b"r\xfe")]
        for folder in folders:
            folder.mkdir()
            (folder / "meshtui.toml").write_text(COMMANDS)
        trust(folders[0] / "meshtui.toml")
        assert is_trusted(folders[0] / "meshtui.toml")
        assert not is_trusted(folders[1] / "meshtui.toml")

    @pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"{}", b'{"schema": "x", "files": {}}', b"\xff"])
    def test_damage_is_kept_aside(self, file: Path, state: Path, damage: bytes) -> None:
        state.parent.mkdir(parents=True)
        state.write_bytes(damage)
        assert not is_trusted(file)
        assert state.read_bytes() == damage
        trust(file)
        assert is_trusted(file)
        (aside,) = state.parent.glob("trust.json.damaged-*")
        assert aside.read_bytes() == damage

    def test_unknown_fields_and_entries_are_kept(self, file: Path, state: Path) -> None:
        state.parent.mkdir(parents=True)
        state.write_text('{"schema": "meshtui.trust.v1", "files": {"/x": "y"}, "more": 1}')
        trust(file)
        memory = json.loads(state.read_bytes())
        assert memory["more"] == 1
        assert memory["files"]["/x"] == "y"

    def test_a_folder_in_its_place_is_said(self, file: Path, state: Path) -> None:
        state.mkdir(parents=True)
        with pytest.raises(StorageError, match="a folder stands"):
            is_trusted(file)

    def test_where(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        for value in ("", "relative"):
            monkeypatch.setenv("XDG_STATE_HOME", value)
            assert state_file() == tmp_path / ".local" / "state" / "meshtui" / "trust.json"

    def test_many_writers_lose_nothing(self, tmp_path: Path) -> None:
        files = []
        for number in range(24):
            path = tmp_path / f"r{number}" / "meshtui.toml"
            path.parent.mkdir()
            path.write_text(f"# {number}")
            files.append(path)
        code = (
            "import sys, pathlib; from meshtui.core.trust import trust\n"
            "for name in sys.argv[1:]: trust(pathlib.Path(name))"
        )
        writers = [
            subprocess.Popen([sys.executable, "-c", code, *map(str, files[part::4])]) for part in range(4)
        ]
        assert [writer.wait(timeout=60) for writer in writers] == [0] * 4
        assert all(is_trusted(path) for path in files)


class TestRequire:
    def test_nothing_to_run_needs_no_trust(self, file: Path) -> None:
        file.write_text('[lane]\nengine = "codex"\n')
        require_trust(load(file), ask=never, allow=False)
        file.unlink()
        require_trust(load(file), ask=never, allow=False)

    def test_refused_with_the_way_out(self, file: Path) -> None:
        file.write_text(COMMANDS + '[notify]\ncommand = ["say", "a\\nb\\u001b]0;x"]\n')
        with pytest.raises(InvalidInput) as caught:
            require_trust(load(file), ask=None, allow=False)
        text = str(caught.value)
        assert caught.value.exit_code == 2
        assert text.isprintable()
        for part in (str(file), "gates.tests.command = make test", "notify.command = say", "--trust"):
            assert part in text
        assert f"meshtui trust --repo {file.parent}" in text
        assert not is_trusted(file)

    def test_a_long_list_is_counted(self, file: Path) -> None:
        file.write_text("".join(f'[gates.g{number}]\ncommand = "{"x" * 5000}"\n' for number in range(50)))
        with pytest.raises(InvalidInput, match="and 30 more") as caught:
            require_trust(load(file), ask=None, allow=False)
        assert len(str(caught.value)) < 10_000

    def test_allowed_for_once(self, file: Path) -> None:
        require_trust(load(file), ask=never, allow=True)
        assert not is_trusted(file)

    def test_asked_and_remembered(self, file: Path) -> None:
        asked: list[list[tuple[str, str]]] = []

        def answer(commands: list[tuple[str, str]]) -> bool:
            asked.append(commands)
            return len(asked) > 1

        with pytest.raises(InvalidInput):
            require_trust(load(file), ask=answer, allow=False)
        require_trust(load(file), ask=answer, allow=False)
        assert asked == [[("gates.tests.command", "make test")]] * 2
        require_trust(load(file), ask=never, allow=False)
        file.write_text(COMMANDS.replace("test", "evil"))
        with pytest.raises(InvalidInput, match="make evil"):
            require_trust(load(file), ask=None, allow=False)

    def test_what_was_loaded_counts_not_what_stands_there_later(self, file: Path) -> None:
        loaded = load(file)
        file.write_text(COMMANDS.replace("test", "evil"))
        require_trust(loaded, ask=lambda _: True, allow=False)
        assert not is_trusted(file)
        with pytest.raises(InvalidInput, match="make evil"):
            require_trust(load(file), ask=None, allow=False)
        file.write_text(COMMANDS)
        assert is_trusted(file)
