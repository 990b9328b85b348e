from __future__ import annotations

from pathlib import Path

from meshtui.core.engines.check import check_agent
from meshtui.core.models.config import EngineConfig


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_what_is_not_there(tmp_path: Path) -> None:
    found = check_agent("claude", None, {"PATH": str(tmp_path)})
    assert (found.found, found.usable, found.version) == (False, False, None)
    assert "not installed" in found.text
    found = check_agent("codex", EngineConfig(program="/no/such"), {"PATH": str(tmp_path)})
    assert "'/no/such'" in found.text


def test_claude(tmp_path: Path) -> None:
    environment = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path), "CLAUDECODE": "1"}
    program(
        tmp_path / "bin",
        "claude",
        """[ -z "$CLAUDECODE" ] || exit 9
[ "$1" = auth ] || { echo "9.9.9 (Claude Code)"; exit 0; }
[ -n "$KEY" ] && echo '{"loggedIn": true, "authMethod": "api_key"}' && exit 0
echo '{"loggedIn": false}'; exit 1""",
    )
    out = check_agent("claude", None, environment)
    assert (out.found, out.usable, out.version) == (True, False, "9.9.9 (Claude Code)")
    assert "not logged in" in out.text
    logged_in = check_agent("claude", EngineConfig(env={"KEY": "1"}), environment)
    assert logged_in.usable
    assert logged_in.text.endswith("logged in (api_key)")


def test_codex(tmp_path: Path) -> None:
    environment = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path)}
    program(
        tmp_path / "bin",
        "codex",
        '[ "$1" = login ] || { echo codex-cli 9; exit 0; }\necho "Not logged in" >&2; exit 1',
    )
    assert not check_agent("codex", None, environment).usable
    assert check_agent("codex", None, {**environment, "CODEX_API_KEY": "x"}).usable
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "config.toml").write_text(
        'model_provider = "mine"\n[model_providers.mine]\nenv_key = "MY_KEY"\n'
    )
    assert "needs the variable MY_KEY" in check_agent("codex", None, environment).text
    assert check_agent("codex", None, {**environment, "MY_KEY": "x"}).usable


def test_a_program_that_fails_or_says_nothing(tmp_path: Path) -> None:
    environment = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path)}
    program(tmp_path / "bin", "grok", "printf 'no \\033[31mlicence' >&2; exit 3")
    broken = check_agent("grok", None, environment)
    assert (broken.found, broken.usable) == (True, False)
    assert broken.text.endswith("--version failed (exit 3): no licence")
    program(tmp_path / "bin", "grok", "exit 0")
    assert "XAI_API_KEY" in check_agent("grok", None, environment).text
    assert check_agent("grok", None, {**environment, "XAI_API_KEY": "x"}).usable
    asked = check_agent("grok", EngineConfig(effort="high"), {**environment, "XAI_API_KEY": "x"})
    assert asked.text.endswith("grok has no option for an effort: 'high' is ignored")
