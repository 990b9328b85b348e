"""A stand-in for an agent's program: answers from a script file and writes down what it was asked."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

PROGRAM = """#!{python}
import json, os, sys
folder = {folder!r}
number = len([name for name in os.listdir(folder) if name.startswith("asked-")])
with open(f"{{folder}}/asked-{{number:03}}.json", "w") as file:
    json.dump({{"argv": sys.argv[1:], "prompt": sys.stdin.read(), "cwd": os.getcwd()}}, file)
answers = json.load(open(f"{{folder}}/answers.json"))
answer = answers[min(number, len(answers) - 1)]
for path, text in (answer.get("files") or {{}}).items():
    open(path, "w").write(text)
if answer.get("run"):
    os.system(answer["run"])
sys.stderr.write(answer.get("stderr", ""))
for line in answer["lines"]:
    print(json.dumps(line), flush=True)
if answer.get("after"):
    os.system(answer["after"])
sys.exit(answer.get("code", 0))
"""


class StandIn:
    """One program in ``folder`` and its answers, the last of which is given again and again."""

    def __init__(self, folder: Path, *answers: dict[str, Any]) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.program = folder / "agent"
        self.program.write_text(PROGRAM.format(python=sys.executable, folder=str(folder)))
        self.program.chmod(0o755)
        self.answer(*answers)

    def answer(self, *answers: dict[str, Any]) -> None:
        """What it says, call by call."""
        temporary = self.folder / "answers.tmp"
        temporary.write_text(json.dumps(answers))
        os.replace(temporary, self.folder / "answers.json")

    @property
    def asked(self) -> list[dict[str, Any]]:
        """How it was called, oldest first."""
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("asked-*.json"))]


def claude_says(
    text: str, *, session: str = "11111111-1111-4111-8111-111111111111", **fields: Any
) -> dict[str, Any]:
    """A whole answer of claude."""
    extra: dict[str, Any] = {
        key: fields.pop(key) for key in ("files", "run", "code", "stderr") if key in fields
    }
    result: dict[str, Any] = {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": text,
        "session_id": session,
        "total_cost_usd": 0.25,
        "usage": {"input_tokens": 100, "output_tokens": 10},
        "permission_denials": [],
        **fields,
    }
    return {"lines": [{"type": "system", "subtype": "init", "session_id": session}, result], **extra}


def claude_limited(
    text: str = "API Error: Request rejected (429) · slow down", **fields: Any
) -> dict[str, Any]:
    """Claude at its usage limit."""
    return claude_says(text, is_error=True, api_error_status=429, code=1, **fields)


def claude_at_work(
    *messages: tuple[int, int, str],
    then: str = "sleep 300",
    session: str = "1" * 8 + "-1111-4111-8111-111111111111",
) -> dict[str, Any]:
    """Claude in the middle: messages of so many tokens taken and given, with a text; then a shell command."""
    lines: list[dict[str, Any]] = [{"type": "system", "subtype": "init", "session_id": session}]
    for number, (taken, given, text) in enumerate(messages):
        message = {
            "id": f"msg_{number}",
            "content": [{"type": "text", "text": text}],
            "usage": {"input_tokens": taken, "output_tokens": given},
        }
        lines.append({"type": "assistant", "message": message, "session_id": session})
    return {"lines": lines, "after": then}


def codex_at_work(text: str, *, then: str = "sleep 300") -> dict[str, Any]:
    """Codex in the middle of a turn: it has said ``text``."""
    item = {"id": "item_0", "type": "agent_message", "text": text}
    lines = [
        {"type": "thread.started", "thread_id": "t-1"},
        {"type": "turn.started"},
        {"type": "item.completed", "item": item},
    ]
    return {"lines": lines, "after": then}
