"""Lanes worked by grok, for which a stand-in stands that behaves as its command line is known to."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from meshtui.core.engines.grok import GrokEngine
from meshtui.core.models.config import EngineConfig
from tests.support.runners import LaneBox, lane_config

PROGRAM = """#!{python}
import json, os, sys
arguments = sys.argv[1:]
option = lambda name: arguments[arguments.index(name) + 1] if name in arguments else None
prompt = open(option("--prompt-file")).read()
assert option("--output-format") == "json"
mode = option("--permission-mode")
sessions = {folder!r} + "/sessions"
os.makedirs(sessions, exist_ok=True)
session = option("--resume")
if session and not os.path.exists(sessions + "/" + session):
    sys.exit("Error: session " + session + " not found")
session = session or "grok-" + str(len(os.listdir(sessions)))
with open(sessions + "/" + session, "a") as file:
    file.write(prompt + "\\n")
reply = {{"text": "", "stopReason": "EndTurn", "sessionId": session, "requestId": "r"}}
if prompt.startswith("write "):
    if mode == "acceptEdits":
        open(prompt.split()[1], "w").write("made\\n")
        reply["text"] = "wrote it"
    else:
        reply["stopReason"] = "Cancelled"
elif prompt == "limit":
    sys.exit("Error: rate limit reached, try again in 2 hours")
elif prompt != "nothing":
    reply["text"] = prompt + " " + str(len(open(sessions + "/" + session).read().splitlines()))
print(json.dumps(reply, indent=2))
"""


@pytest.fixture
def grok(tmp_path: Path) -> EngineConfig:
    program = tmp_path / "grok"
    program.write_text(PROGRAM.format(python=sys.executable, folder=str(tmp_path)))
    program.chmod(0o755)
    return EngineConfig(program=str(program))


def work(box: LaneBox, config: EngineConfig, **fields: Any) -> dict[str, Any]:
    envelope_id = f"e{len(box.calls())}"
    box.enqueue(envelope_id, engine="grok", **fields)
    box.run(engine=GrokEngine(config))
    return box.result(envelope_id)


def test_sessions(box: LaneBox, grok: EngineConfig) -> None:
    first = work(box, grok, prompt="one", story_id="s")
    second = work(box, grok, prompt="--version", story_id="s")
    assert (first["output"], second["output"]) == ("one 1", "--version 2")
    assert second["resumed"] is True
    box.paths.sessions.write_text(json.dumps({"s\0grok": "lost"}))
    third = work(box, grok, prompt="three", story_id="s")
    assert (third["output"], third["fresh_fallback"]) == ("three 1", True)


def test_writing_and_not_being_allowed_to(box: LaneBox, grok: EngineConfig) -> None:
    assert work(box, grok, prompt="write made.txt")["status"] == "done"
    assert (box.work / "made.txt").read_text() == "made\n"
    denied = work(box, grok.model_copy(update={"permissions": {"run": "plan"}}), prompt="write other.txt")
    assert (denied["status"], denied["error"]) == ("failed", "grok stopped: Cancelled")
    assert not (box.work / "other.txt").exists()


def test_an_empty_text_is_a_failure(box: LaneBox, grok: EngineConfig) -> None:
    assert work(box, grok, prompt="nothing")["error"] == "grok gave an empty reply"


def test_a_limit(box: LaneBox, grok: EngineConfig) -> None:
    box.enqueue("a", engine="grok", prompt="limit")
    box.run(engine=GrokEngine(grok), config=lane_config(on_limit="fail"))
    assert "try again in 2 hours" in box.result("a")["error"]


def test_an_effort_it_has_no_option_for_is_told(box: LaneBox, grok: EngineConfig) -> None:
    work(box, grok.model_copy(update={"effort": "high"}), prompt="one")
    work(box, grok, prompt="two", effort="low")
    work(box, grok, prompt="three")
    told = [(event["subject"], event["data"]["text"]) for event in box.events("engine_notice")]
    ignored = "grok has no option for an effort: {!r} is ignored"
    assert told == [("e0", ignored.format("high")), ("e1", ignored.format("low"))]
