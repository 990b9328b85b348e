"""Whether an engine can be used here: found, its version, logged in; no model is called for it."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from meshtui.core import storage
from meshtui.core.calls import scrubbed_environment
from meshtui.core.calls.wrapper import resolve
from meshtui.core.engines.base import plain
from meshtui.core.engines.grok import no_effort
from meshtui.core.errors import StorageError
from meshtui.core.models.config import EngineConfig

SECONDS = 15
_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class EngineCheck:
    """What is known of one agent."""

    name: str
    program: str
    found: bool
    version: str | None = None
    usable: bool = False
    text: str = ""
    """The whole in one line, with what is missing."""


def check_agent(name: str, config: EngineConfig | None, environ: Mapping[str, str]) -> EngineCheck:
    """Look at the program of engine ``name``; runs at most its own version and login commands."""
    config = config or EngineConfig()
    environment = {**scrubbed_environment(environ), **config.env}
    wanted = os.path.expanduser(config.program or name)  # noqa: PTH111 - a name, not a path
    program = resolve(wanted, environment)
    if not ("/" in program and os.access(program, os.X_OK)):
        text = f"not installed: found no program {plain(wanted)!r}; install it, or set program in [engines.{name}]"
        return EngineCheck(name, wanted, found=False, text=text)
    code, said = _run([program, "--version"], environment)
    version = plain(said.strip().partition("\n")[0])[:100] or None
    if code != 0:
        text = f"{program}: --version failed (exit {code}): {plain(said)[:200]}"
        return EngineCheck(name, program, found=True, version=version, text=text)
    problem, how = _LOGINS[name](program, environment)
    where = f"{version or 'version unknown'} at {program}"
    text = f"{where}: {problem}" if problem else f"{where}, {how}"
    if name == "grok" and config.effort:
        text += f"; {no_effort(config.effort)}"
    return EngineCheck(name, program, found=True, version=version, usable=problem is None, text=text)


def _run(command: list[str], environment: Mapping[str, str]) -> tuple[int, str]:
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 127, str(error)
    out, err = (part[:_LIMIT].decode("utf-8", "replace") for part in (done.stdout, done.stderr))
    return done.returncode, out if out.strip() else err


def _claude(program: str, environment: Mapping[str, str]) -> tuple[str | None, str]:
    """Why claude cannot be used, else how it is logged in."""
    code, said = _run([program, "auth", "status"], environment)
    try:
        value = json.loads(said)
    except ValueError:
        value = None
    if isinstance(value, dict) and isinstance(value.get("loggedIn"), bool):
        if value["loggedIn"]:
            return None, f"logged in ({plain(str(value.get('authMethod') or 'unknown'))})"
        return "not logged in: run `claude` and /login, or set ANTHROPIC_API_KEY", ""
    # A version that has no such command.
    keys = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
    named = next((key for key in keys if environment.get(key)), None)
    folder = environment.get("CLAUDE_CONFIG_DIR") or f"{environment.get('HOME', '')}/.claude"
    if named or Path(folder, ".credentials.json").is_file():
        return None, f"logged in ({named or 'credentials file'})"
    return f"cannot tell whether it is logged in (auth status: exit {code})", ""


def _codex(program: str, environment: Mapping[str, str]) -> tuple[str | None, str]:
    """Why codex cannot be used, else how it is logged in."""
    provider, key = _codex_provider(environment)
    if provider is not None:
        if key is None:
            return None, f"model provider {plain(provider)}"
        if environment.get(key):
            return None, f"model provider {plain(provider)} with {plain(key)}"
        return f"not logged in: model provider {plain(provider)} needs the variable {plain(key)}", ""
    if environment.get("CODEX_API_KEY"):
        return None, "logged in (CODEX_API_KEY)"
    code, said = _run([program, "login", "status"], environment)
    words = plain(said.strip().rpartition("\n")[2])[:100]
    if code == 0:
        return None, words[:1].lower() + words[1:] or "logged in"
    return "not logged in: run `codex login`, or set CODEX_API_KEY", ""


def _codex_provider(environment: Mapping[str, str]) -> tuple[str | None, str | None]:
    """A model provider of the user's own and the variable that holds its key."""
    home = environment.get("CODEX_HOME") or f"{environment.get('HOME', '')}/.codex"
    try:
        data = tomllib.loads(
            storage.read_bytes(Path(home, "config.toml"), limit=_LIMIT).decode("utf-8", "replace")
        )
    except (OSError, StorageError, ValueError):
        return None, None
    name = data.get("model_provider")
    providers = data.get("model_providers")
    known = providers.get(name) if isinstance(providers, dict) and isinstance(name, str) else None
    if not isinstance(known, dict) or known.get("requires_openai_auth") is True:
        return None, None
    key = known.get("env_key")
    return name, key if isinstance(key, str) else None


def _grok(program: str, environment: Mapping[str, str]) -> tuple[str | None, str]:
    """Why grok cannot be used, else how it is logged in."""
    key = next((key for key in ("XAI_API_KEY", "GROK_API_KEY") if environment.get(key)), None)
    if key is not None:
        return None, f"logged in ({key})"
    if Path(environment.get("HOME", ""), ".grok").is_dir():
        return None, "has been set up (~/.grok)"
    return "not logged in: run `grok` once, or set XAI_API_KEY", ""


_LOGINS = {"claude": _claude, "codex": _codex, "grok": _grok}
