"""What an operator made of the console: ``$XDG_CONFIG_HOME/meshtui/config.toml``.

It says how things look and which key does what, never what is run: that is ``meshtui.toml``. What is wrong
in it is told, with file, line and key, and only that part keeps its default; a console opens in any case.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from meshtui.core import storage
from meshtui.core.errors import StorageError
from meshtui.core.models.envelope import show
from meshtui.core.strict_json import plain

Glyphs = Literal["unicode", "ascii"]
Contrast = Literal["normal", "high"]

MAX_BYTES = 1 << 20
MOST_MENDED = 20
"""How many lines that are no TOML are left out before the whole file is given up."""
LEAST_REFRESH, MOST_REFRESH = 0.2, 60.0


@dataclass(frozen=True, slots=True)
class Settings:
    """How the console looks and listens; the defaults are those of a file that says nothing."""

    keys: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Keys by the id of their binding, several with commas between them, by Textual's names."""
    theme: str | None = None
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """By list, the titles of the columns it shows, in their order."""
    refresh_seconds: float = 1.0
    """How often ages are counted on; where the system reports no changes, also how often to look for them."""
    notify_command: str | None = None
    """Run by ``/bin/sh -c`` for each new thing that needs somebody."""
    bell: bool = False
    title: bool = True
    """Whether the terminal's title says what needs somebody."""
    glyphs: Glyphs = "unicode"
    motion: bool = True
    contrast: Contrast = "normal"


def config_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the file is looked for, whether it is there or not."""
    base = environ.get("XDG_CONFIG_HOME", "")
    # As the XDG specification has it, a relative one counts as none.
    home = Path(base) if base.startswith("/") else Path(environ.get("HOME") or "~").expanduser() / ".config"
    return home / "meshtui" / "config.toml"


def speaks_utf8(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the locale can write the console's signs; one that nobody set counts as such."""
    names = ("LC_ALL", "LC_CTYPE", "LANG")
    found = next((environ[name] for name in names if environ.get(name)), "")
    if environ.get("LANG") in ("C", "POSIX") and found in ("C.UTF-8", "C.utf8", "UTF-8"):
        # Python itself sets LC_CTYPE so in a locale that is plain C.
        found = environ["LANG"]
    return not found or "utf8" in found.lower().replace("-", "")


def theme_names() -> list[str]:
    """What ``theme`` may be: meshtui's own first."""
    from textual.theme import BUILTIN_THEMES

    from meshtui.theme import THEMES

    return [*(theme.name for theme in THEMES), *BUILTIN_THEMES]


def load_settings(environ: Mapping[str, str] = os.environ) -> tuple[Settings, tuple[str, ...]]:
    """What the file says, and one line for each thing in it that cannot be used."""
    plain_locale: dict[str, Any] = {} if speaks_utf8(environ) else {"glyphs": "ascii"}
    path = config_path(environ)
    try:
        raw = storage.read_bytes(path, limit=MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return Settings(**plain_locale), ()
    except (OSError, StorageError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        return Settings(**plain_locale), (plain(f"{path}: {reason}; the defaults are used"),)
    if len(raw) > MAX_BYTES:
        return Settings(**plain_locale), (
            plain(f"{path}: more than {MAX_BYTES >> 20} MiB; the defaults are used"),
        )
    values, problems = read_settings(raw)
    return Settings(**(plain_locale | values)), tuple(plain(f"{path}: {problem}") for problem in problems)


def read_settings(raw: bytes) -> tuple[dict[str, Any], list[str]]:
    """The fields of :class:`Settings` that ``raw`` sets, and what is wrong with it, line by line."""
    reading = _Reading(raw)
    return reading.values(), reading.problems


class _Reading:
    """One file on its way to settings."""

    def __init__(self, raw: bytes) -> None:
        self.problems: list[str] = []
        try:
            self.text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            self.problems.append(f"line {line}: not UTF-8; the defaults are used")
            self.text = ""
        self.data = self._parse(self.text.replace("\r\n", "\n"))

    def values(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        readers = {
            "theme": self._theme,
            "refresh": self._refresh,
            "glyphs": lambda value: self._choice(("glyphs",), value, ("unicode", "ascii")),
            "motion": lambda value: self._flag(("motion",), value),
            "contrast": lambda value: self._choice(("contrast",), value, ("normal", "high")),
            "keys": self._keys,
            "columns": self._columns,
        }
        names = {"refresh": "refresh_seconds"}
        for key, value in self.data.items():
            if key == "notify":
                found |= self._notify(value)
            elif key in readers:
                taken = readers[key](value)
                if taken is not None:
                    found[names.get(key, key)] = taken
            else:
                self._unknown((key,), [*readers, "notify"])
        return found

    # What each key may say

    def _theme(self, value: object) -> str | None:
        found: str | None = self._choice(("theme",), value, theme_names())
        return found

    def _refresh(self, value: object) -> float | None:
        fine = isinstance(value, (int, float)) and not isinstance(value, bool)
        if fine and LEAST_REFRESH <= value <= MOST_REFRESH:  # type: ignore[operator]
            return float(value)  # type: ignore[arg-type]
        self._wrong(("refresh",), f"must be seconds from {LEAST_REFRESH:g} to {MOST_REFRESH:g}", value)
        return None

    def _notify(self, value: object) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, one in self._table("notify", value):
            if key == "command":
                if isinstance(one, str) and one.strip() and "\0" not in one:
                    found["notify_command"] = one
                else:
                    self._wrong(("notify", key), "must be a command in one text, as for a shell", one)
            elif key in ("bell", "title"):
                flag = self._flag(("notify", key), one)
                found |= {} if flag is None else {key: flag}
            else:
                self._unknown(("notify", key), ["command", "bell", "title"])
        return found

    def _keys(self, value: object) -> Mapping[str, str]:
        from meshtui.key_check import check_keys

        given: dict[str, str] = {}
        for name, one in _leaves(self._table("keys", value)):
            keys = [one] if isinstance(one, str) else one
            if isinstance(keys, list) and keys and all(isinstance(key, str) and key.strip() for key in keys):
                given[name] = ",".join(keys)
            else:
                self._wrong(("keys", name), "must be a key such as 'ctrl+e', or a list of such", one)
        kept, problems = check_keys(given)
        for name, problem in problems:
            self._say(("keys", name), problem)
        return MappingProxyType(kept)

    def _columns(self, value: object) -> Mapping[str, tuple[str, ...]]:
        from meshtui.widgets.listed import titles_by_list

        known = titles_by_list()
        found: dict[str, tuple[str, ...]] = {}
        for name, one in self._table("columns", value):
            if name not in known:
                self._unknown(("columns", name), list(known))
                continue
            if not isinstance(one, list) or not one or not all(isinstance(title, str) for title in one):
                self._wrong(("columns", name), f"must be a list of: {', '.join(known[name])}", one)
                continue
            kept = []
            for title in one:
                if title not in known[name]:
                    self._say(("columns", name), f"no column {show(title)} there{_meant(title, known[name])}")
                elif title not in kept:
                    kept.append(title)
            if kept:
                found[name] = tuple(kept)
        return MappingProxyType(found)

    def _flag(self, path: tuple[str, ...], value: object) -> bool | None:
        if isinstance(value, bool):
            return value
        self._wrong(path, "must be true or false", value)
        return None

    def _choice(self, path: tuple[str, ...], value: object, allowed: list[str] | tuple[str, ...]) -> Any:
        if value in allowed:
            return value
        hint = _meant(value, allowed) if isinstance(value, str) else f"; one of: {', '.join(allowed)}"
        self._say(path, f"{show(value)} is not known{hint}")
        return None

    def _table(self, name: str, value: object) -> Iterable[tuple[str, Any]]:
        if isinstance(value, dict):
            return value.items()
        self._wrong((name,), f"must be a table, [{name}]", value)
        return ()

    # Saying what is wrong

    def _wrong(self, path: tuple[str, ...], what: str, value: object) -> None:
        self._say(path, f"{what}, not {show(value)}")

    def _unknown(self, path: tuple[str, ...], allowed: list[str]) -> None:
        self._say(path, f"is not a known key{_meant(path[-1], allowed)}")

    def _say(self, path: tuple[str, ...], problem: str) -> None:
        parts = (part for name in path for part in ([name] if name != path[-1] else name.split(".")))
        line = line_of(self.text, (*path[:-1], *path[-1].split(".")))
        where = f"line {line}: " if line else ""
        self.problems.append(f"{where}{'.'.join(parts)}: {problem}")

    # TOML

    def _parse(self, text: str) -> dict[str, Any]:
        """``text`` as TOML, without the lines that are none; nothing where that does not help."""
        import tomllib

        lines = text.split("\n")
        for _ in range(MOST_MENDED):
            try:
                return tomllib.loads("\n".join(lines))
            except RecursionError:
                self.problems.append("not TOML: nested too deep; the defaults are used")
                return {}
            except ValueError as error:
                where = re.search(r"\(at line (\d+), column \d+\)", str(error))
                at = int(where[1]) - 1 if where else -1
                if not 0 <= at < len(lines) or not lines[at].strip():
                    self.problems.append(f"not TOML: {error}; the defaults are used")
                    return {}
                reason = str(error)[: where.start()].strip() if where else str(error)
                self.problems.append(f"line {at + 1}: not TOML: {reason}; left out: {lines[at].strip()[:60]}")
                self._leave_out(lines, at)
        self.problems.append("too much that is not TOML; the defaults are used")
        return {}

    @staticmethod
    def _leave_out(lines: list[str], at: int) -> None:
        heading = lines[at].lstrip().startswith("[")
        lines[at] = ""
        while heading and at + 1 < len(lines) and not lines[at + 1].lstrip().startswith("["):
            # What follows a heading that cannot be read would count as another table's.
            at += 1
            lines[at] = ""


def _leaves(pairs: Iterable[tuple[str, Any]], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names, whether they were written with dots, in quotes or as tables."""
    for key, value in pairs:
        if isinstance(value, dict):
            yield from _leaves(value.items(), f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _meant(name: object, allowed: Iterable[str]) -> str:
    """What may have been meant by ``name``, else all that is allowed."""
    names = list(allowed)
    near = get_close_matches(str(name), names, n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else f"; one of: {', '.join(names)}"


_HEADING = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?$")
_ENTRY = re.compile(r"""\s*((?:[A-Za-z0-9_.\s-]|"[^"]*"|'[^']*')+?)\s*=""")


def line_of(text: str, path: tuple[str, ...]) -> int | None:
    """The line, from 1, that sets ``path`` in TOML; the nearest table around it where it is not found."""
    table: tuple[str, ...] = ()
    near: int | None = None
    for number, line in enumerate(text.split("\n"), 1):
        heading = _HEADING.match(line)
        entry = None if heading else _ENTRY.match(line)
        if heading:
            table = here = _path(f"[{heading[1]}]")
        elif entry:
            here = (*table, *_path(f"{entry[1]}=0"))
        else:
            continue
        if here == path:
            return number
        if here == path[: len(here)]:
            near = number
    return near


def _path(key: str) -> tuple[str, ...]:
    """The parts of a TOML key or heading; none for what only looks like one."""
    import tomllib

    try:
        data: Any = tomllib.loads(key)
    except ValueError:
        return ()
    parts = []
    while isinstance(data, dict) and data:
        name, data = next(iter(data.items()))
        parts.extend(name.split("."))
    return tuple(parts)
