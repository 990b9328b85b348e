"""The command line that does what a key does: shown in questions, copied with ``y``."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meshtui.core.lane.ways import way_out

if TYPE_CHECKING:
    from meshtui.core.mesh.view import LoopRow, MissionView
    from meshtui.core.view import Row

Line = tuple[str, str]
"""What it does, in a word or two, and the text to copy."""


def on_several(verb: str, ids: Sequence[str], root: Path, *options: str) -> str:
    """``meshtui VERB ID… --run-dir ROOT``, ids that read like options after ``--``."""
    words = ["--run-dir", str(root), *options]
    dashed = any(name.startswith("-") for name in ids)
    words = [*words, "--", *ids] if dashed else [*ids, *words]
    return f"meshtui {verb} {shlex.join(words)}"


def on_each(verb: str, ids: Sequence[str], root: Path, *options: str) -> str:
    """One command for each of ``ids``, in one line."""
    if len(ids) == 1:
        return way_out(verb, ids[0], root, *options)
    rest = shlex.join(["--run-dir", str(root), *options])
    return f'for id in {shlex.join(ids)}; do meshtui {verb} {rest} -- "$id"; done'


def on_lane(verb: str, root: Path, *options: str) -> str:
    """``meshtui VERB --run-dir ROOT``."""
    return f"meshtui {shlex.join([*verb.split(), '--run-dir', str(root), *options])}"


def of_words(*words: str) -> str:
    """``meshtui WORDS…``, quoted for a shell."""
    return f"meshtui {shlex.join(words)}"


def of_envelope(verb: str, envelope: Mapping[str, Any], root: Path, *words: str) -> str:
    """A command that reads an envelope as JSON from standard input."""
    text = shlex.quote(json.dumps(envelope, ensure_ascii=False))
    return f"printf %s {text} | meshtui {shlex.join([verb, *words, '--run-dir', str(root), '-'])}"


def of_row(row: Row, root: Path) -> Iterator[Line]:
    """What can be copied of a record of the queue: its id, and what can be done with it now."""
    name, section = row.envelope_id, row.section
    yield "id", name
    if section == "quarantined":
        yield "repair", way_out("quarantine repair", row.key, root)
        yield "drop", way_out("quarantine drop", row.key, root)
        return
    if section == "pending":
        yield "withdraw", on_several("withdraw", [name], root)
        if row.kind != "stop":
            yield "to the head", on_several("head", [name], root)
    elif section == "active":
        yield "kill", f"meshtui kill {shlex.join(['--envelope', name, '--run-dir', str(root)])}"
        yield "more time", way_out("extend", name, root, "--seconds", "600")
    elif section == "stalled":
        yield "retry", way_out("answer", name, root, "--retry")
        yield "drop", way_out("answer", name, root, "--drop")
    elif section == "withdrawn":
        yield "restore", on_several("restore", [name], root)
        yield "in place", on_several("restore", [name], root, "--in-place")
    if section in ("done", "failed", "withdrawn") and row.kind != "stop":
        yield "requeue", on_several("requeue", [name], root)
    if section in ("pending", "done", "failed", "withdrawn") and row.kind != "stop":
        yield "edit", way_out("edit", name, root)
    if row.call_id is not None:
        yield "log", way_out("logs", name, root)
    if section == "pending" or section == "active":
        yield "wait", way_out("wait", name, root, "--for", "done")


def of_loop(loop: LoopRow, mission: MissionView, root: Path) -> Iterator[Line]:
    """What can be copied of a loop."""
    subject = f"{mission.mission_id}/{loop.loop_id}"
    yield "id", subject
    if not loop.ended:
        yield "kill", way_out("kill", loop.loop_id, root, "--mission", mission.mission_id)
    if loop.status == "handoff":
        yield "approve", way_out("answer", subject, root, "--approve", "--reason", "…")
        yield "reject", way_out("answer", subject, root, "--reject", "--reason", "…")
    if mission.ok:
        yield "land", way_out("land", mission.mission_id, root)
    elif mission.repo is not None and not mission.runner.alive:
        yield "resume", way_out("resume", mission.mission_id, root)
    yield "log", way_out("logs", subject, root)
    yield (
        "proof",
        f"meshtui proof {shlex.join([mission.mission_id, loop.loop_id, '--verify', '--run-dir', str(root)])}",
    )
    yield "graph", way_out("graph", mission.mission_id, root)
