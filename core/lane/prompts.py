"""The prompt of a phase: a plain one as it is, that of a §-schema phase built from its envelope.

The form of the reply is shown with placeholders that are no JSON, so that an agent which repeats its
prompt has not replied with a handoff.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from meshtui.core import storage
from meshtui.core.clock import iso
from meshtui.core.errors import InvalidInput, StorageError
from meshtui.core.models.envelope import is_handoff_phase, show
from meshtui.core.models.handoff import GATE_RESULTS, GATES, HANDOFF_SCHEMA, STATUSES
from meshtui.core.strict_json import clean_text

INLINE_BYTES = 128 * 1024
"""How much of a handoff file is put into the prompt; the rest stays in its file, which is named."""

_RULES = f"""\
- Reply with this one object and nothing else; it may stand in a ```json fence. Every key shown is needed.
- "status": passed when every criterion is met and checked, failed when you tried and it does not work, \
blocked when something outside this phase has to change first. An honest failed or blocked is worth more \
than a passed that is not true.
- "back_pressure": pass or fail only for what you ran after your last change, skip for what you did not run.
- "files_changed": paths relative to the working directory. "commits": the full ids; [] when there are none.
- "context_for_next": what the next worker must know and cannot see in the files.
- "schema" stays {HANDOFF_SCHEMA}; "story_id", "phase" and "worker_id" stay as they are shown."""


def build_prompt(envelope: Mapping[str, Any], *, deadline_at_ms: int, run_dir: Path | None = None) -> str:
    """The text an agent gets for a valid phase ``envelope``, lone surrogates replaced.

    A relative ``incoming_handoff`` is looked up in ``run_dir``, where a relative ``result_path`` puts it,
    else in the worktree. Raises :class:`InvalidInput` when the file cannot be read.
    """
    if not is_handoff_phase(envelope):
        return clean_text(str(envelope["prompt"]))
    parts = [
        _who(envelope),
        _story(envelope),
        _criteria(envelope),
        _list("Constraints", envelope.get("constraints")),
        _incoming(envelope, run_dir),
        *_again(envelope, run_dir),
        _place(envelope),
        _deadline(deadline_at_ms),
        _reply(envelope),
    ]
    return clean_text("\n\n".join(part for part in parts if part) + "\n")


def restate_prompt(envelope: Mapping[str, Any], why: str) -> str:
    """The text that asks a session for the handoff its last reply lacked."""
    return clean_text(
        "Your work on this phase is done; change nothing any more and run nothing. Your last reply did not "
        f"hold the handoff that is needed: {_line(why)[:500]}\n\n{_reply(envelope)}\n"
    )


def _who(envelope: Mapping[str, Any]) -> str:
    return (
        f"You are the worker {_quoted(envelope['worker_id'])}. You do the phase {_quoted(envelope['phase'])} "
        f"of the story {_quoted(envelope['story_id'])}, this phase and no other, by yourself: nobody answers "
        "questions while you work. When you are done you reply with a handoff, described at the end."
    )


def _story(envelope: Mapping[str, Any]) -> str:
    lines = [f"# Story {_line(envelope['story_id'])}"]
    if title := envelope.get("story_title"):
        lines[0] += f": {_line(title)}"
    facts = (("Project", "project"), ("Repository", "repo"), ("Branch", "branch"))
    known = [f"- {name}: {_quoted(envelope[field])}" for name, field in facts if envelope.get(field)]
    if known:
        lines.append("\n".join(known))
    if description := envelope.get("story_description"):
        lines.append(str(description).strip())
    return "\n\n".join(lines)


def _criteria(envelope: Mapping[str, Any]) -> str:
    criteria = envelope["acceptance_criteria"]
    if not criteria:
        return "# Acceptance criteria\n\nNone are given: do what the story and the phase ask for."
    return "# Acceptance criteria\n\n" + "\n".join(
        _item(f"{number}. ", text) for number, text in enumerate(criteria)
    )


def _list(title: str, items: Any) -> str:
    if not items:
        return ""
    return f"# {title}\n\n" + "\n".join(_item("- ", item) for item in items)


def _incoming(envelope: Mapping[str, Any], run_dir: Path | None) -> str:
    named = envelope["incoming_handoff"]
    if named is None:
        return "# Incoming handoff\n\nThere is none: no earlier phase left one."
    path = _resolve(named, envelope, run_dir)
    try:
        text, cut = _read(path)
    except (OSError, StorageError) as error:
        raise InvalidInput(
            f"incoming_handoff {show(named)} cannot be read: {_reason(error)}; "
            "put the file there and requeue the phase",
            field="incoming_handoff",
        ) from None
    lead = "The phase before yours left this. Build on it, and check what you rely on."
    return f"# Incoming handoff\n\n{lead}\n\n{_inlined(path, text, cut)}"


def _again(envelope: Mapping[str, Any], run_dir: Path | None) -> list[str]:
    """Why this phase is done once more, where that is the case."""
    parts = []
    if note := envelope.get("reopen_note"):
        parts.append(f"# Reopened\n\nThis story was finished and has been opened again:\n\n{_quote(note)}")
    if envelope.get("resumed_after_interrupt"):
        parts.append(
            "# Interrupted before\n\nAn earlier attempt at this phase was interrupted. Its work may still be "
            "in the working directory: look at what is there, committed and uncommitted, and go on from it "
            "instead of starting over."
        )
    if named := envelope.get("prior_handoff"):
        path = _resolve(named, envelope, run_dir)
        try:
            told = _inlined(path, *_read(path))
        except (OSError, StorageError) as error:
            told = f"{_quoted(str(path))} could not be read ({_reason(error)}): go by the working directory."
        parts.append(f"# Earlier handoff\n\nWhat the earlier attempt at this phase left:\n\n{told}")
    return parts


def _place(envelope: Mapping[str, Any]) -> str:
    return (
        f"# Working directory\n\n{_quoted(envelope['worktree'])}\n\n"
        "You are started there. Change nothing outside it."
    )


def _deadline(deadline_at_ms: int) -> str:
    return (
        f"# Deadline\n\n{iso(deadline_at_ms)} (UTC)\n\nAt that moment you are ended, and without a reply the "
        "work counts as stalled. When time gets short, leave the files in order and reply with what you have."
    )


def _reply(envelope: Mapping[str, Any]) -> str:
    def either(words: tuple[str, ...]) -> str:
        return "<" + " or ".join(f'"{word}"' for word in words) + ">"

    same = "\n".join(
        f'  "{field}": {json.dumps(envelope[field], ensure_ascii=False)},'
        for field in ("story_id", "phase", "worker_id")
    )
    gates = ", ".join(f'"{gate}": {either(GATE_RESULTS)}' for gate in GATES)
    criteria = len(envelope["acceptance_criteria"])
    evidence = (
        '\n  "ac_evidence": [{"index": <number of the criterion>, "met": <true or false>, '
        '"evidence": <text>}, …],'
        if criteria
        else ""
    )
    form = (
        f'{{\n  "schema": "{HANDOFF_SCHEMA}",\n{same}\n  "status": {either(STATUSES)},\n'
        '  "summary": <text: what you did, in a few sentences>,\n'
        '  "files_changed": [<text>, …],\n  "commits": [<text>, …],\n'
        f'  "back_pressure": {{{gates}}},{evidence}\n'
        '  "context_for_next": <text>\n}'
    )
    rules = _RULES
    if criteria:
        numbers = "0" if criteria == 1 else f"0 to {criteria - 1}"
        rules += (
            f'\n- "ac_evidence": one entry for each criterion, "index" {numbers}. "evidence" is never empty: '
            "the command you ran and what it showed, or the file and line."
        )
    return (
        "# Your reply\n\nEnd with one JSON object of this form, with the parts in <> replaced:\n\n"
        f"{_fenced(form)}\n\n{rules}"
    )


# --- text from outside -------------------------------------------------------------------------


def _line(text: object) -> str:
    return " ".join(str(text).split())


def _quoted(text: object) -> str:
    """``text`` as code on one line, whatever backticks it holds."""
    line = _line(text)
    fence = "`" * (_longest_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _item(mark: str, text: object) -> str:
    """A list item; its further lines are indented, so that none looks like an item of its own."""
    first, *rest = str(text).strip().splitlines() or [""]
    return "\n".join([mark + first, *(" " * len(mark) + line for line in rest)])


def _quote(text: object) -> str:
    return "\n".join(f"> {line}".rstrip() for line in str(text).strip().splitlines())


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _fenced(text: str) -> str:
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}\n{text.rstrip()}\n{fence}"


# --- handoff files -----------------------------------------------------------------------------


def _resolve(named: str, envelope: Mapping[str, Any], run_dir: Path | None) -> Path:
    path = Path(named)
    if path.is_absolute():
        return path
    return (run_dir if run_dir is not None else Path(envelope["worktree"])) / path


def _read(path: Path) -> tuple[str, bool]:
    """The first part of file ``path`` and whether there is more of it."""
    data = storage.read_bytes(path, limit=INLINE_BYTES + 1)
    return data[:INLINE_BYTES].decode("utf-8-sig", "replace"), len(data) > INLINE_BYTES


def _inlined(path: Path, text: str, cut: bool) -> str:
    if not text.strip():
        return f"{_quoted(str(path))} is empty."
    lead = f"{_quoted(str(path))}:"
    if cut:
        lead = f"The first {INLINE_BYTES // 1024} KiB of {_quoted(str(path))}; read the rest there:"
    return f"{lead}\n\n{_fenced(text)}"


def _reason(error: OSError | StorageError) -> str:
    if isinstance(error, OSError):
        return {
            FileNotFoundError: "there is no such file",
            IsADirectoryError: "it is a folder",
            NotADirectoryError: "a part of the path is no folder",
        }.get(type(error), error.strerror or "the system refuses")
    # The disk's own errors start with the path, which is named already.
    return str(error).rpartition(": ")[2]
