"""Streams no agent should write: whatever arrives, a reader gives an outcome that can be written down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from meshtui.core import strict_json
from meshtui.core.clock import iso
from meshtui.core.engines.base import EngineRequest, usage_so_far
from meshtui.core.engines.registry import engine_for
from meshtui.core.lane.activity import Activity
from meshtui.core.models.config import EngineConfig
from tests.support.agent import StandIn, claude_at_work, claude_says
from tests.support.runners import LaneBox, lane_config

DEEP = "[" * 900 + "]" * 900
DEEPER = "[" * 100_000 + "]" * 100_000
HUGE = "9" * 400
TOOL = '{"type":"tool_use","name":["x"],"input":{"command":%s}}' % DEEP  # noqa: UP031 - full of braces
LINES = {
    "content that is no list": '{"type":"assistant","message":{"id":{"a":1},"content":"x","usage":[1]}}',
    "a tool as deep as a well": f'{{"type":"assistant","message":{{"content":[{TOOL}]}}}}',
    "too deep to parse": f'{{"type":"assistant","message":{{"content":{DEEPER}}}}}',
    "numbers that are none": '{"type":"assistant","message":{"content":[],"usage":{"input_tokens":NaN,"output_tokens":-5}}}',
    "numbers beyond counting": f'{{"type":"assistant","message":{{"usage":{{"input_tokens":1e999,"output_tokens":{HUGE}}}}}}}',
    "half a character": '{"type":"assistant","message":{"content":[{"type":"text","text":"\\ud800"}]}}',
    "a wait that is none": '{"type":"system","subtype":"api_retry","error_status":[429],"retry_delay_ms":NaN,"error":{}}',
    "a session with an end of line": '{"type":"system","subtype":"init","session_id":"a\\u0000\\nb"}',
    "a limit that ends in the year 3,000,000": '{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":99999999999999}}',
    "a result of other types": '{"type":"result","subtype":["x"],"is_error":false,"result":{"a":1},"usage":"x","total_cost_usd":Infinity,"permission_denials":{},"session_id":5,"modelUsage":{"a":null,"b":{"inputTokens":"x"}}}',
    "keys that come twice": '{"type":"system","type":"result","is_error":false,"is_error":true,"result":"twice"}',
    "an error as deep as a well": f'{{"type":"result","is_error":null,"result":null,"errors":[{DEEP}]}}',
    "a kind that is an object": '{"type":{"a":1}}',
    "a kind of the future": '{"type":"thought.started","thought":{"id":"1"}}',
    "an item of the future": '{"type":"item.completed","item":{"type":"future","x":1}}',
    "a thread that is none": '{"type":"thread.started","thread_id":{"a":1}}',
    "a message that is no text": '{"type":"item.completed","item":{"type":"agent_message","text":{"a":[1]}}}',
    "changes of anything": f'{{"type":"item.completed","item":{{"type":"file_change","changes":[1,{{"path":{DEEP}}}]}}}}',
    "usage that is none": '{"type":"turn.completed","usage":{"input_tokens":"12","output_tokens":true,"cached_input_tokens":-1}}',
    "more from the cache than in all": '{"type":"turn.completed","usage":{"input_tokens":5,"cached_input_tokens":50,"output_tokens":1}}',
    "a failure in a failure": '{"type":"turn.failed","error":{"message":"%s"}}' % ("[" * 200_000),
    "a limit at no time": '{"type":"turn.failed","error":{"message":"usage limit, try again at 99:99 PM"}}',
    "a reply of other types": f'{{"text":{{"a":1}},"stopReason":["x"],"sessionId":{{}},"usage":{{"input_tokens":NaN}},"error":{{"message":{DEEP}}}}}',
    "a line without an end": "{" + "x" * 300_000,
    "no text at all": "\x00\x01\x7f",
}  # fmt: skip


@pytest.mark.parametrize("resumed", [None, "s-1"])
@pytest.mark.parametrize("engine", ["claude", "codex", "grok"])
@pytest.mark.parametrize("line", LINES, ids=lambda name: name.replace(" ", "-"))
def test_any_line_gives_an_outcome(line: str, engine: str, resumed: str | None) -> None:
    raw = LINES[line].encode("utf-8", "surrogatepass")
    for data in (raw + b"\n", raw, b"\xff\xfe" + raw + b"\r\n", raw[: len(raw) // 2]):
        for code in (0, 1, 143):
            request = EngineRequest("run", "do it", Path("/"), session_id=resumed)
            reader = engine_for(engine, None).reader(request)
            said: list[Any] = []
            activity = Activity(
                lambda kind, text, usage: said.append((kind, text, usage.as_json() if usage else None)),  # noqa: B023
                agent=True,
            )
            for start in range(0, len(data), 4096):
                activity.saw(reader.feed(data[start : start + 4096]), usage_so_far(reader))
            activity.flush()
            outcome = reader.outcome(code, b"\xff\x1b[31m")
            # Nothing of it keeps a result from being written.
            strict_json.dump_bytes(
                {
                    "said": said,
                    "output": outcome.reply,
                    "error": outcome.error,
                    "session_id": outcome.session_id,
                    "usage": outcome.usage.as_json() if outcome.usage else None,
                }
            )
            if outcome.reset_at_ms is not None:
                iso(outcome.reset_at_ms)
            assert code == 0 or outcome.status != "done"


def engine(tmp_path: Path, answer: dict[str, Any]) -> Any:
    made = StandIn(tmp_path / "agent", answer)
    return engine_for("claude", EngineConfig(program=str(made.program)))


def test_one_that_floods_is_ended_and_leaves_a_short_journal(box: LaneBox, tmp_path: Path) -> None:
    use = {"type": "tool_use", "name": "Read", "input": {"file_path": "x" * 500}}
    line = json.dumps({"type": "assistant", "message": {"id": "m", "content": [use]}})
    answer = claude_at_work((1, 1, "begins"), then=f"yes '{line}'")
    box.enqueue("a", deadline_seconds=100)
    box.run(engine=engine(tmp_path, answer), config=lane_config(max_output_mb=8))
    assert box.result("a")["error"] == "output limit"
    assert len(box.events("phase_activity")) < 30
    assert box.run_dir.events.stat().st_size < 100_000


def test_one_that_says_what_it_used_and_hangs_has_used_it(box: LaneBox, tmp_path: Path) -> None:
    said = {**claude_says("done, really"), "after": "sleep 300"}
    box.enqueue("a", deadline_seconds=1.5)
    box.run(engine=engine(tmp_path, said), config=lane_config(max_tokens_estimate=10_000))
    assert box.ids("stalled") == ["a"]
    assert box.status()["usage"] == {"input_tokens": 200, "output_tokens": 20, "cost_usd": 0.5}


def test_one_that_dies_in_the_middle_of_a_line(box: LaneBox, tmp_path: Path) -> None:
    half = '{"type":"result","is_error":false,"result":"all go'
    answer = claude_at_work((70, 7, "works"), then=f"printf '%s' '{half}'; kill -9 $PPID")
    box.enqueue("a", deadline_seconds=100)
    box.run(engine=engine(tmp_path, answer))
    result = box.result("a")
    assert result["status"] == "failed"
    assert result["error"].startswith("ended by SIGKILL")
    assert result["usage"] == {"input_tokens": 70, "output_tokens": 7}
