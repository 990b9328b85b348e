"""Which repositories' ``meshtui.toml`` the operator lets run commands, remembered with their contents.

The memory is ``trust.json`` in ``$XDG_STATE_HOME/meshtui`` (by default ``~/.local/state/meshtui``). It
holds the SHA-256 of each file as it was when it was trusted: a changed file has to be trusted again.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from meshtui.core import storage, strict_json
from meshtui.core.config import LoadedConfig, plain
from meshtui.core.errors import InvalidInput, StorageError

SCHEMA = "meshtui.trust.v1"

_MAX_BYTES = 16 << 20
_LISTED = 20
_LISTED_CHARACTERS = 200


def state_file() -> Path:
    """Where trust is remembered; a relative ``$XDG_STATE_HOME`` counts as none, as its standard says."""
    base = os.environ.get("XDG_STATE_HOME", "")
    try:
        folder = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    except RuntimeError:
        raise StorageError("there is no home directory to remember trust in: set XDG_STATE_HOME") from None
    return folder / "meshtui" / "trust.json"


def is_trusted(file: Path, *, digest: str | None = None) -> bool:
    """Whether ``file`` was trusted as it is now, or with contents of SHA-256 ``digest`` (hex).

    A file or memory that does not exist or cannot be understood is not trusted.
    """
    wanted = _digest(file) if digest is None else digest
    try:
        files = _load(state_file())["files"]
    except (FileNotFoundError, NotADirectoryError, InvalidInput):
        return False
    return wanted is not None and files.get(_key(file)) == wanted


def trust(file: Path, *, digest: str | None = None) -> None:
    """Remember ``file`` as it is now, or with contents of SHA-256 ``digest`` (hex); durable on return.

    Safe from any number of processes at once. A damaged memory is kept aside as
    ``trust.json.damaged-<hex>`` and a new one begun. Raises :class:`InvalidInput` when there is no
    ``file``, and :class:`StorageError`.
    """
    wanted = _digest(file) if digest is None else digest
    if wanted is None:
        raise InvalidInput(plain(f"{file}: there is no such file to trust"))
    path = state_file()
    storage.make_dirs(path.parent)
    with storage.OsLock(path.with_name("trust.lock"), what="the list of trusted files"):
        try:
            memory = _load(path)
        except FileNotFoundError:
            memory = {"schema": SCHEMA, "files": {}}
        except InvalidInput:
            storage.move(path, path.with_name(f"{path.name}.damaged-{secrets.token_hex(4)}"))
            memory = {"schema": SCHEMA, "files": {}}
        memory["files"][_key(file)] = wanted
        storage.write_atomic(path, strict_json.dump_bytes(memory, indent=2))


def require_trust(
    loaded: LoadedConfig, *, ask: Callable[[list[tuple[str, str]]], bool] | None, allow: bool
) -> None:
    """Return if the repository's configuration may run what it names, else raise :class:`InvalidInput`.

    It may if it names no commands, if ``allow`` is set (for this time only), if it is trusted as it was
    loaded, or if ``ask``, called with its (key, command) pairs, answers yes (remembered). The pairs are
    text from outside: who shows them neutralises them.
    """
    file = loaded.repo_file
    if file is None or not loaded.repo_commands or allow:
        return
    if is_trusted(file, digest=loaded.repo_digest):
        return
    if ask is not None and ask(list(loaded.repo_commands)):
        trust(file, digest=loaded.repo_digest)
        return
    raise InvalidInput(_refusal(file, loaded.repo_commands))


def _refusal(file: Path, commands: tuple[tuple[str, str], ...]) -> str:
    """One line: the file, what it would run, the ways out."""
    import shlex

    listed = [f"{key} = {_short(text)}" for key, text in commands[:_LISTED]]
    if len(commands) > _LISTED:
        listed.append(f"and {len(commands) - _LISTED} more")
    return plain(
        f"{file} is not trusted and would run: {'; '.join(listed)}. Read it, then allow it as it is now with "
        f"`meshtui trust --repo {shlex.quote(str(file.parent))}`, or once with --trust"
    )


def _short(text: str) -> str:
    return text if len(text) <= _LISTED_CHARACTERS else f"{text[:_LISTED_CHARACTERS]}…"


def _key(file: Path) -> str:
    """The real path of ``file`` as JSON can hold it, whatever bytes it has."""
    return os.fsencode(os.path.realpath(file)).decode("utf-8", "backslashreplace")


def _digest(file: Path) -> str | None:
    """The SHA-256 of ``file`` in hex, ``None`` if there is no such file."""
    import hashlib

    try:
        return hashlib.sha256(storage.read_bytes(file)).hexdigest()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _load(path: Path) -> dict[str, Any]:
    """The memory at ``path``; :class:`InvalidInput` when it is not one, ``FileNotFoundError``."""
    try:
        memory = strict_json.load_object(storage.read_bytes(path), limit=_MAX_BYTES, what=str(path))
    except IsADirectoryError:
        raise StorageError(
            plain(f"{path}: a folder stands where the list of trusted files belongs")
        ) from None
    files = memory.get("files")
    if memory.get("schema") != SCHEMA or not isinstance(files, dict):
        raise InvalidInput(plain(f"{path}: not a list of trusted files"))
    return memory
