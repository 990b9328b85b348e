"""The configuration in force: a repository's ``meshtui.toml``, the run directory's, the environment.

Later ones win key by key; flags and the envelope come after all of them and are not read here. Domains
are merged by their ``id``. Environment: ``MESHTUI_PHASE_DEADLINE_SECONDS`` is ``[lane] deadline_seconds``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from meshtui.core import storage
from meshtui.core.errors import InvalidInput
from meshtui.core.models.config import (
    ROLES,
    BudgetConfig,
    Command,
    Config,
    DomainConfig,
    EngineConfig,
    GateConfig,
    LaneConfig,
    MeshConfig,
    NotifyConfig,
)
from meshtui.core.models.envelope import show
from meshtui.core.run_dir import RunDir
from meshtui.core.strict_json import plain

__all__ = [
    "BudgetConfig",
    "Command",
    "Config",
    "DomainConfig",
    "EngineConfig",
    "GateConfig",
    "LaneConfig",
    "LoadedConfig",
    "MeshConfig",
    "NotifyConfig",
    "command_text",
    "load_config",
    "plain",
]

FILE_NAME = "meshtui.toml"
MAX_BYTES = 1 << 20

_ENVIRONMENT = {"MESHTUI_PHASE_DEADLINE_SECONDS": ("lane", "deadline_seconds")}

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)

_TABLES: dict[str, type[BaseModel]] = {
    "lane": LaneConfig,
    "mesh": MeshConfig,
    "budget": BudgetConfig,
    "notify": NotifyConfig,
}
_ENTRIES: dict[str, type[BaseModel]] = {
    "engines": EngineConfig,
    "gates": GateConfig,
    "domains": DomainConfig,
}


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """What :func:`load_config` found, and where."""

    config: Config
    repo_file: Path | None
    """The repository's file, if there is one."""
    repo_commands: tuple[tuple[str, str], ...]
    """What the repository's file would run, or how it would change what is run: (key, text)."""
    repo_digest: str | None
    """SHA-256 of the repository's file as it was read, in hex."""
    sources: Mapping[str, str]
    """Where each key that is set comes from: a file, or a variable of the environment."""


@dataclass(frozen=True, slots=True)
class _Source:
    label: str
    data: dict[str, Any]
    digest: str | None = None


def command_text(command: str | list[str]) -> str:
    """``command`` as one would type it."""
    import shlex

    return command if isinstance(command, str) else shlex.join(command)


def load_config(run_dir: RunDir, repo: Path | None, *, environ: Mapping[str, str]) -> LoadedConfig:
    """The configuration for ``run_dir`` working on ``repo``.

    A file that does not exist says nothing. When both files are one, it is the repository's, which has
    to be trusted. Raises :class:`InvalidInput` for a file or variable that cannot be used, naming it, the
    key and what is allowed; ``field`` is the dotted key.
    """
    repo_file = None if repo is None else repo / FILE_NAME
    theirs = None if repo_file is None else _read(repo_file)
    same = repo_file is not None and os.path.realpath(repo_file) == os.path.realpath(run_dir.config)
    ours = None if same else _read(run_dir.config)
    sources = [source for source in (theirs, ours, _from_environment(environ)) if source is not None]
    merged: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for source in sources:
        merged = _merge(merged, source.data)
        origin.update((key, source.label) for key in _keys(source.data))
    try:
        config = Config.model_validate(merged)
    except ValidationError as error:
        # Each file was fine by itself: what is left is a key that all of them leave out.
        raise _explain(error, _mentions(error, sources)) from None
    return LoadedConfig(
        config=config,
        repo_file=None if theirs is None else repo_file,
        repo_commands=() if theirs is None else tuple(_commands(theirs.data)),
        repo_digest=None if theirs is None else theirs.digest,
        sources=origin,
    )


# --- reading -----------------------------------------------------------------------------------


def _read(path: Path) -> _Source | None:
    import hashlib
    import tomllib

    label = str(path)
    try:
        raw = storage.read_bytes(path, limit=MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except IsADirectoryError:
        raise InvalidInput(plain(f"{label}: a folder stands where the configuration file belongs")) from None
    if len(raw) > MAX_BYTES:
        raise InvalidInput(plain(f"{label}: more than {MAX_BYTES >> 20} MiB"))
    try:
        data = tomllib.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InvalidInput(plain(f"{label}: not UTF-8 (at line {line})")) from None
    except RecursionError:
        raise InvalidInput(plain(f"{label}: not TOML: nested too deep")) from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(plain(f"{label}: not TOML: {error}")) from None
    except ValueError:
        # int() refuses numbers of more than 4,300 digits.
        raise InvalidInput(plain(f"{label}: not TOML: a number has too many digits")) from None
    source = _Source(label, data, hashlib.sha256(raw).hexdigest())
    _check(source)
    return source


def _from_environment(environ: Mapping[str, str]) -> _Source | None:
    for name, (table, key) in _ENVIRONMENT.items():
        text = environ.get(name, "").strip()
        if not text:
            continue
        try:
            source = _Source(name, {table: {key: float(text)}})
            Config.model_validate(source.data)
        except (ValueError, ValidationError):
            raise InvalidInput(
                plain(f"{name} must be a positive finite number, not {show(text)}; unset or correct it"),
                field=name,
            ) from None
        return source
    return None


def _check(source: _Source) -> None:
    """Refuse what is wrong with one file, except a key that another file may supply."""
    try:
        Config.model_validate(source.data)
    except ValidationError as error:
        if any(not _may_come_later(problem) for problem in error.errors(include_url=False)):
            raise _explain(error, source) from None
    for name, engine in source.data.get("engines", {}).items():
        for role in ROLES:
            if name != "command" and role in engine:
                key = f"engines.{name}.{role}"
                raise InvalidInput(plain(f"{source.label}: {key} is for engine command only"), field=key)
    seen = set()
    for domain in source.data.get("domains", ()):
        if domain["id"] in seen:
            key = f"domains.{_quote(domain['id'])}"
            raise InvalidInput(plain(f"{source.label}: {key} is given twice: an id names one"), field=key)
        seen.add(domain["id"])


def _may_come_later(problem: Any) -> bool:
    return bool(problem["type"] == "missing" and problem["loc"][0] == "gates")


def _merge(low: dict[str, Any], high: dict[str, Any]) -> dict[str, Any]:
    merged = dict(low)
    for key, value in high.items():
        mine = merged.get(key)
        if isinstance(mine, dict) and isinstance(value, dict):
            merged[key] = _merge(mine, value)
        elif key == "domains" and isinstance(mine, list):
            domains = {domain["id"]: domain for domain in mine}
            for domain in value:
                domains[domain["id"]] = _merge(domains.get(domain["id"], {}), domain)
            merged[key] = list(domains.values())
        else:
            merged[key] = value
    return merged


def _quote(key: str) -> str:
    """``key`` as a dotted path in TOML has it."""
    return key if _BARE.fullmatch(key) else '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _keys(data: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The dotted paths of every value in ``data``."""
    for key, value in data.items():
        path = prefix + _quote(key)
        if isinstance(value, dict):
            yield from _keys(value, path + ".")
        elif path == "domains":
            for domain in value:
                yield from _keys(domain, f"domains.{_quote(domain['id'])}.")
        else:
            yield path


def _commands(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Everything a file runs, the options and variables that change what a program does included."""
    for name, engine in data.get("engines", {}).items():
        base = f"engines.{_quote(name)}"
        for key in ("program", "args", *ROLES):
            if key in engine:
                yield f"{base}.{key}", command_text(engine[key])
        for table in ("env", "permissions"):
            for key, value in engine.get(table, {}).items():
                yield f"{base}.{table}.{_quote(key)}", value
    for name, gate in data.get("gates", {}).items():
        if "command" in gate:
            yield f"gates.{_quote(name)}.command", command_text(gate["command"])
    for table, key in (("mesh", "setup"), ("notify", "command")):
        if key in data.get(table, {}):
            yield f"{table}.{key}", command_text(data[table][key])


# --- saying what is wrong ----------------------------------------------------------------------


def _mentions(error: ValidationError, sources: list[_Source]) -> _Source:
    """The last of ``sources`` that has the table ``error`` is about."""
    table, name = (*error.errors(include_url=False)[0]["loc"], None)[:2]
    holders = [source for source in sources if name in source.data.get(str(table), {})]
    return holders[-1]


def _explain(error: ValidationError, source: _Source) -> InvalidInput:
    """The first problem of ``error`` as one line: file, key, what is allowed."""
    problems = [p for p in error.errors(include_url=False) if not _may_come_later(p)]
    problem = (problems or error.errors(include_url=False))[0]
    path = [part for part in problem["loc"] if part != "[key]"]
    context = problem.get("ctx", {})
    if "entry" in context:
        path.append(context["entry"])
    names = list(path)
    if names[0] == "domains" and len(names) > 1 and isinstance(names[1], int):
        domain = source.data["domains"][names[1]]
        known = isinstance(domain, dict) and isinstance(domain.get("id"), str)
        names[1] = domain["id"] if known else f"{names[1] + 1}"
    key = ".".join(_quote(str(part)) for part in names)
    return InvalidInput(plain(f"{source.label}: {key} {_verdict(problem, path, context)}"), field=key)


def _verdict(problem: Any, path: list[Any], context: Mapping[str, Any]) -> str:
    kind = problem["type"]
    if kind == "extra_forbidden":
        return f"is not a known key{_hint(str(path[-1]), _allowed(path[:-1]), path)}"
    if kind == "name":
        return f"is not a known key{_hint(str(path[-1]), context['names'], path)}"
    if kind == "missing":
        return "is missing"
    if kind == "tuple_type":
        return f"must be a list of tables, as [[{path[0]}]] makes it"
    if kind in ("value", "entry"):
        value = context["value"] if kind == "entry" else problem["input"]
        # What stands in an environment may be a secret.
        told = "" if "env" in path else f", not {show(value)}"
        return f"must be {context['allowed']}{told}"
    if kind in ("model_type", "dict_type"):
        return f"must be a table, not {show(problem['input'])}"
    return f"is not valid: {problem['msg']}"


def _allowed(path: list[Any]) -> list[str]:
    """The keys of the table at ``path``."""
    if not path:
        return list(Config.model_fields)
    model = _TABLES.get(path[0]) or _ENTRIES.get(path[0])
    return list(model.model_fields) if model is not None else []


def _hint(key: str, allowed: list[str], path: list[Any]) -> str:
    """What may have been meant by the unknown ``key``."""
    from difflib import get_close_matches

    homes = [table for table, model in _TABLES.items() if key in model.model_fields and table != path[0]]
    if homes:
        return f": it belongs to [{homes[0]}]"
    close = get_close_matches(key, allowed, n=1, cutoff=0.6)
    meant = f": did you mean {close[0]}? " if close else ": "
    return f"{meant}allowed here are {', '.join(allowed)}"
