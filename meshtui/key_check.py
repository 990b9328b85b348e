"""Whether an operator's keys fit the console: ids there are, keys there are, no key for two things."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import NamedTuple

from textual.binding import Binding

from meshtui.commands import COMMANDS, Side
from meshtui.keymap import NAMED, known_key, normal


class Bound(NamedTuple):
    """One binding that can have another key."""

    keys: str
    place: str
    """Bindings of one place must not share a key."""
    side: Side | None
    does: str


def console_bindings() -> dict[str, Bound]:
    """The bindings of the console itself, by id."""
    return {
        command.id: Bound(
            normal(command.key),
            "the console" if command.scope != "detail" else "details",
            command.side,
            command.tooltip,
        )
        for command in COMMANDS
    }


def all_bindings() -> dict[str, Bound]:
    """Every binding that has an id: the console's, and those of its dialogs, screens and panels."""
    found = console_bindings()
    for binding in _declared():
        assert binding.id is not None
        if binding.id not in found:
            place = binding.id.partition(".")[0]
            found[binding.id] = Bound(normal(binding.key), place, None, binding.description)
    return found


def _declared() -> Iterator[Binding]:
    import meshtui.app
    import meshtui.screens
    import meshtui.widgets

    modules = [meshtui.app]
    for package in (meshtui.screens, meshtui.widgets):
        modules += [
            import_module(f"{package.__name__}.{one.name}") for one in pkgutil.iter_modules(package.__path__)
        ]
    for module in modules:
        for value in vars(module).values():
            for binding in getattr(value, "BINDINGS", ()) if isinstance(value, type) else ():
                if isinstance(binding, Binding) and binding.id:
                    yield binding


def check_keys(given: Mapping[str, str]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """What of ``given``, keys by id, can be used, and (id, problem) for the rest.

    Of two that want one key in one place, the one that moved there gives way; of two that moved, the later.
    """
    problems: list[tuple[str, str]] = []
    if not given:
        return {}, problems
    known = console_bindings()
    if any(name not in known for name in given):
        known = all_bindings()
    kept: dict[str, str] = {}
    for name, keys in given.items():
        if name not in known:
            near = get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]}?" if near else "; meshtui config keys lists them"
            problems.append((name, f"is the id of no key{hint}"))
            continue
        normalized = normal(keys)
        wrong = next((key for key in normalized.split(",") if not known_key(key)), None)
        if wrong is not None:
            close = get_close_matches(wrong, NAMED, n=1, cutoff=0.6)
            hint = f"; did you mean {close[0]}?" if close else ""
            problems.append((name, f"{wrong!r} is no key{hint}"))
            continue
        kept[name] = normalized
    while (clash := _clash(known, kept)) is not None:
        loser, key, winner = clash
        del kept[loser]
        problems.append((loser, f"{key} is {winner} there already ({known[winner].does})"))
    return kept, problems


def _clash(known: Mapping[str, Bound], kept: Mapping[str, str]) -> tuple[str, str, str] | None:
    """The last of ``kept`` whose key another one has in the same place: (id, key, the other id)."""
    for name in reversed(list(kept)):
        mine = known[name]
        for other, bound in known.items():
            if other == name or bound.place != mine.place:
                continue
            if None not in (mine.side, bound.side) and mine.side != bound.side:
                continue
            taken = set(kept.get(other, bound.keys).split(","))
            # What shares a key as delivered (escape closes, and goes back) may go on sharing it.
            shared = taken & set(kept[name].split(",")) - set(mine.keys.split(","))
            if shared:
                return name, sorted(shared)[0], other
    return None
