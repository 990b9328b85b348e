"""The adapters of claude, codex and grok: command lines, and what they make of recorded output."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from meshtui.core.engines.agent import LongLines, cut_string
from meshtui.core.engines.base import MAX_REPLY, Engine, EngineRequest, Launch, Outcome, Role, Usage
from meshtui.core.engines.limits import is_limit, reset_ms
from meshtui.core.engines.registry import AGENTS, engine_for
from meshtui.core.errors import InvalidInput
from meshtui.core.models.config import EngineConfig

DATA = Path(__file__).parents[1] / "data" / "agents"
SESSION = "7c53ad70-e291-43c6-aa2e-48f39e3ab86e"


def config(**fields: object) -> EngineConfig:
    return EngineConfig.model_validate(fields)


def request(role: Role = "run", **fields: object) -> EngineRequest:
    values: dict[str, object] = {"prompt": "do it", "cwd": Path("/srv/wt"), **fields}
    return EngineRequest(role, **values)  # type: ignore[arg-type]


def launch(name: str, asked: EngineRequest, **fields: object) -> Launch:
    return engine_for(name, config(**fields)).launch(asked)


def after(argv: tuple[str, ...], option: str) -> str:
    return argv[argv.index(option) + 1]


def read(
    name: str,
    data: bytes | str,
    *,
    code: int = 0,
    stderr: bytes = b"",
    asked: EngineRequest | None = None,
    piece: int = 1 << 20,
) -> Outcome:
    """What engine ``name`` makes of ``data``, or of the recording of that name."""
    raw = (DATA / f"{data}.jsonl").read_bytes() if isinstance(data, str) else data
    reader = engine_for(name, None).reader(asked or request())
    for start in range(0, len(raw), piece):
        reader.feed(raw[start : start + piece])
    return reader.outcome(code, stderr)


def events(name: str, recording: str) -> list[tuple[str, str]]:
    reader = engine_for(name, None).reader(request())
    return [(event.kind, event.text) for event in reader.feed((DATA / f"{recording}.jsonl").read_bytes())]


def lines(*values: Mapping[str, object]) -> bytes:
    return b"".join(json.dumps(value, separators=(",", ":")).encode() + b"\n" for value in values)


def result(**fields: object) -> dict[str, object]:
    return {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "fine",
        "session_id": SESSION,
    } | fields


class TestCommandLines:
    @pytest.mark.parametrize("name", AGENTS)
    @pytest.mark.parametrize("prompt", ["--version", "- [ ] item", "x" * 200_000, "é\n"])
    def test_the_prompt_goes_by_stdin(self, name: str, prompt: str) -> None:
        made = launch(name, request(prompt=prompt))
        assert made.prompt_bytes == prompt.encode()
        assert prompt not in made.argv

    def test_claude(self) -> None:
        new = launch("claude", request())
        assert new.argv[:5] == ("claude", "-p", "--output-format", "stream-json", "--verbose")
        assert after(new.argv, "--session-id") == new.session_id
        assert after(new.argv, "--permission-mode") == "acceptEdits"
        assert "--disallowedTools" not in new.argv
        assert launch("claude", request()).session_id != new.session_id
        resumed = launch("claude", request(session_id=SESSION))
        assert after(resumed.argv, "--resume") == resumed.session_id == SESSION
        assert "--session-id" not in resumed.argv

    def test_codex(self) -> None:
        new = launch("codex", request())
        assert new.argv == (
            *("codex", "exec", "--json", "--skip-git-repo-check", "-C", "/srv/wt"),
            *("--sandbox", "workspace-write", "-"),
        )
        assert launch("codex", request(session_id="t1")).argv[-3:] == ("resume", "t1", "-")

    def test_grok(self) -> None:
        new = launch("grok", request())
        assert new.argv == (
            *("grok", "--prompt-file", "/dev/stdin", "--output-format", "json"),
            *("--permission-mode", "acceptEdits"),
        )
        assert launch("grok", request(session_id="g1", model="m")).argv[-4:] == ("-m", "m", "--resume", "g1")

    @pytest.mark.parametrize("role", ["checker", "arbiter"])
    def test_who_only_looks_is_read_only_by_the_tools_own_means(self, role: Role) -> None:
        for asked in (request(role), request("run", read_only=True)):
            made = launch("claude", asked)
            assert after(made.argv, "--permission-mode") == "plan"
            assert after(made.argv, "--disallowedTools") == "Edit,Write,NotebookEdit,Bash"
            assert after(launch("codex", asked).argv, "--sandbox") == "read-only"
            assert after(launch("grok", asked).argv, "--permission-mode") == "plan"

    def test_permissions_by_role_with_further_words(self) -> None:
        permissions = {"maker": "acceptEdits --allowedTools 'Bash(make test)'", "checker": "default"}
        made = launch("claude", request("maker"), permissions=permissions)
        assert after(made.argv, "--permission-mode") == "acceptEdits"
        assert after(made.argv, "--allowedTools") == "Bash(make test)"
        assert after(launch("claude", request("run"), permissions=permissions).argv, "--permission-mode") == (
            "acceptEdits"
        )
        looks = launch("claude", request("run", read_only=True), permissions=permissions)
        assert after(looks.argv, "--permission-mode") == "default"
        with pytest.raises(InvalidInput, match=r"engines\.codex\.permissions\.maker"):
            launch("codex", request("maker"), permissions={"maker": "a 'b"})

    def test_model_effort_arguments_and_environment(self) -> None:
        fields = {"model": "m1", "effort": "high", "args": ["--x", "y"], "env": {"A": "1"}}
        claude = launch("claude", request(), **fields)
        assert after(claude.argv, "--model") == "m1"
        assert after(claude.argv, "--effort") == "high"
        assert after(claude.argv, "--x") == "y"
        assert claude.env_extra == {"A": "1", "MESHTUI_ROLE": "run"}
        codex = launch("codex", request(model="m2", effort="low", session_id="t"), **fields)
        assert after(codex.argv, "--model") == "m2"
        assert after(codex.argv, "-c") == 'model_reasoning_effort="low"'
        assert codex.argv.index("--x") < codex.argv.index("resume")

    def test_a_program_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        environment = {"PATH": str(tmp_path)}
        for name in AGENTS:
            with pytest.raises(InvalidInput, match=f"engine {name} is not installed.*'{name}'.*program in"):
                launch(name, request(environment=environment, cwd=tmp_path))
        program = tmp_path / "claude"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        made = launch("claude", request(environment=environment, cwd=tmp_path))
        assert made.argv[0] == str(program)
        made = launch("codex", request(environment=environment, cwd=tmp_path), program=str(program))
        assert made.argv[0] == str(program)


class TestClaude:
    @pytest.mark.parametrize("piece", [1, 7, 1000, 1 << 20])
    def test_done(self, piece: int) -> None:
        assert read("claude", "claude-write", piece=piece) == Outcome(
            "done", "written", session_id=SESSION, usage=Usage(240, 34, 0.00205)
        )

    def test_a_resumed_call_reports_its_own_usage(self) -> None:
        outcome = read("claude", "claude-resumed", asked=request(session_id=SESSION))
        assert (outcome.status, outcome.reply, outcome.session_id) == ("done", "resumed", SESSION)
        assert outcome.usage == Usage(120, 17, 0.0006150000000000001)

    def test_events(self) -> None:
        assert events("claude", "claude-write") == [
            ("session", SESSION),
            ("tool", "Write /srv/wt/a.txt"),
            ("text", "written"),
        ]
        assert ("notice", "waits 1 s for the model's server: attempt 1 of 10, rate_limit 429") in events(
            "claude", "claude-retries"
        )

    def test_an_unknown_session(self) -> None:
        words = b"No conversation found with session ID: dbf08788-7114-4e18-bc90-69b86583efb5\n"
        resumed = request(session_id="dbf08788-7114-4e18-bc90-69b86583efb5")
        assert read("claude", "claude-unknown-session", code=1, asked=resumed).status == "unknown_session"
        assert read("claude", b"", code=1, stderr=words, asked=resumed).status == "unknown_session"
        assert read("claude", b"", code=1, stderr=words).status == "failed"

    def test_a_denied_tool_fails_who_is_to_write_and_nobody_else(self) -> None:
        for role in ("run", "maker"):
            outcome = read("claude", "claude-denied", asked=request(role))
            assert (outcome.status, outcome.error) == ("failed", "claude was denied Write")
            assert outcome.reply == "tried"
        assert read("claude", "claude-denied", asked=request("checker")).status == "done"
        assert read("claude", "claude-denied", asked=request("run", read_only=True)).status == "done"

    def test_failures_with_the_tools_own_words(self) -> None:
        long = read("claude", "claude-too-long", code=1)
        assert long.status == "failed"
        assert (long.error or "").startswith("Prompt is too long · the request is ~250000 tokens")
        out = read("claude", "claude-no-login", code=1)
        assert (out.status, out.error) == (
            "failed",
            "claude is not logged in: Not logged in · Please run /login",
        )

    @pytest.mark.parametrize(
        ("fields", "error"),
        [
            ({"is_error": True, "result": "went wrong"}, "went wrong"),
            ({"is_error": True, "subtype": "error_max_turns", "result": None}, "error_max_turns"),
            ({"is_error": None}, "fine"),
            ({"result": ""}, "claude gave an empty reply"),
            ({"result": " \n"}, "claude gave an empty reply"),
            (
                {"permission_denials": [{"tool_name": "Bash"}, {"tool_name": "Bash"}]},
                "claude was denied Bash",
            ),
        ],
    )
    def test_exit_0_is_not_enough(self, fields: dict[str, object], error: str) -> None:
        outcome = read("claude", lines(result(**fields)))
        assert (outcome.status, outcome.error) == ("failed", error)

    def test_a_good_result_with_a_bad_exit_has_failed(self) -> None:
        outcome = read("claude", lines(result()), code=143)
        assert outcome.status == "failed"
        assert "SIGTERM" in (outcome.error or "")

    def test_no_result_line(self) -> None:
        assert read("claude", b"").error == "claude ended without a result line"
        killed = read("claude", lines({"type": "system", "subtype": "init", "session_id": "s"}), code=143)
        assert (killed.status, killed.session_id) == ("failed", "s")
        assert killed.error == "ended by SIGTERM (exit 143)"

    def test_limits(self) -> None:
        words = "API Error: Request rejected (429) · slow down"
        outcome = read("claude", lines(result(is_error=True, api_error_status=429, result=words)), code=1)
        assert (outcome.status, outcome.session_id, outcome.reset_at_ms) == ("limit", SESSION, None)
        assert outcome.error == f"claude: usage limit: {words}"
        later = round((datetime.now(UTC) + timedelta(hours=3)).timestamp())
        old = read(
            "claude", lines(result(is_error=True, result=f"Claude AI usage limit reached|{later}")), code=1
        )
        assert (old.status, old.reset_at_ms) == ("limit", later * 1000)
        told = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": later}}
        event = read("claude", lines(told, result(is_error=True, result="no")), code=1)
        assert (event.status, event.reset_at_ms) == ("limit", later * 1000)
        # Ended while it waited for the server.
        assert read("claude", "claude-retries", code=1).status == "limit"

    def test_words_of_a_limit_in_a_good_reply_mean_nothing(self) -> None:
        assert read("claude", lines(result(result="the usage limit reached|1900000000"))).status == "done"

    def test_bytes_that_are_no_text(self) -> None:
        raw = lines(result()).replace(b"fine", b"\xff" + b"a" * 1_000_000)
        assert read("claude", raw, piece=65_536).reply == "\ufffd" + "a" * 1_000_000

    def test_hostile_lines_are_passed_over(self) -> None:
        junk = (
            b"[" * 10_000 + b"\n" + b'{"a":' * 20_000 + b'\n{}\n[]\nnull\n{"type":"assistant","message":7}\n'
        )
        junk += lines({"type": "assistant", "message": {"content": [7, {"type": "tool_use", "input": 3}]}})
        assert read("claude", junk + lines(result())).status == "done"


class TestCodex:
    THREAD = "01a22e80-33f2-7b01-8937-92cb46d1f580"

    @pytest.mark.parametrize("piece", [1, 7, 1000, 1 << 20])
    def test_done(self, piece: int) -> None:
        total = Usage(240, 34, cached_input_tokens=40)
        assert read("codex", "codex-write", piece=piece) == Outcome(
            "done", "written", session_id=self.THREAD, usage=total, session_usage=total
        )

    def test_a_resumed_thread_reports_its_total_and_the_call_its_own_part(self) -> None:
        asked = request(session_id=self.THREAD, session_usage=Usage(240, 34, cached_input_tokens=40))
        outcome = read("codex", "codex-resumed", asked=asked)
        assert outcome.usage == Usage(120, 17, cached_input_tokens=20)
        assert outcome.session_usage == Usage(360, 51, cached_input_tokens=60)
        # What the thread had used before is not known: nothing is invented.
        assert read("codex", "codex-resumed", asked=request(session_id=self.THREAD)).usage is None

    def test_events(self) -> None:
        said = events("codex", "codex-write")
        assert said[0] == ("session", self.THREAD)
        assert ("tool", "/bin/bash -lc 'echo hi > x.txt; ls'") in said
        assert said.count(("tool", "/bin/bash -lc 'echo hi > x.txt; ls'")) == 1
        assert said[-1] == ("text", "written")

    def test_an_unknown_session(self) -> None:
        words = (
            b"Error: thread/resume: thread/resume failed: no rollout found for thread id t (code -32600)\n"
        )
        assert read("codex", b"", code=1, stderr=words, asked=request(session_id="t")).status == (
            "unknown_session"
        )
        assert read("codex", b"", code=1, stderr=words).status == "failed"

    def test_failures_with_the_tools_own_words(self) -> None:
        long = read("codex", "codex-too-long", code=1)
        assert (long.status, long.error) == (
            "failed",
            "Your input exceeds the context window of this model.",
        )
        login = read("codex", "codex-401", code=1)
        assert login.status == "failed"
        assert (login.error or "").startswith("codex is not logged in: unexpected status 401 Unauthorized")
        assert read("codex", "codex-empty").error == "codex gave an empty reply"

    def test_exit_0_is_not_enough(self) -> None:
        turn = lines({"type": "turn.started"})
        reply = lines({"type": "item.completed", "item": {"type": "agent_message", "text": "hi"}})
        failure = lines({"type": "turn.failed", "error": {"message": "no"}})
        assert read("codex", turn + reply).error == "codex ended before its turn was complete"
        assert read("codex", turn + reply + failure).error == "no"
        done = lines({"type": "turn.completed", "usage": None})
        assert read("codex", turn + reply + done) == Outcome("done", "hi")
        assert read("codex", turn + reply + done, code=143).error == "ended by SIGTERM (exit 143)"

    def test_noise_on_stderr_is_no_reason(self) -> None:
        outcome = read("codex", b"", code=1, stderr=b"WARNING: proceeding, even though\nError: bad config\n")
        assert outcome.error == "exit 1: Error: bad config"

    def test_limits(self) -> None:
        outcome = read("codex", "codex-limit", code=1)
        assert outcome.status == "limit"
        assert (outcome.error or "").startswith("codex: usage limit: You’ve hit your usage limit.")
        assert read("codex", "codex-429", code=1).status == "limit"


class TestGrok:
    def reply(self, **fields: object) -> bytes:
        value = {"text": "hi", "stopReason": "EndTurn", "sessionId": "g1", "requestId": "r"} | fields
        return json.dumps(value, indent=2).encode()

    @pytest.mark.parametrize("piece", [1, 1 << 20])
    def test_done(self, piece: int) -> None:
        assert read("grok", self.reply(), piece=piece) == Outcome("done", "hi", session_id="g1")
        assert read("grok", b"warming up\n" + self.reply() + b"\n").reply == "hi"

    @pytest.mark.parametrize(
        "stop",
        ["Cancelled", "cancelled", "Error", "Refusal", "Aborted", "MaxTurns", "max_turns", "TokenLimit"],
    )
    def test_a_bad_stop_is_a_failure_with_exit_0(self, stop: str) -> None:
        outcome = read("grok", self.reply(stopReason=stop))
        assert outcome.status == "failed"
        assert f"grok stopped: {stop}" in (outcome.error or "")

    def test_other_failures(self) -> None:
        assert read("grok", self.reply(text=" ")).error == "grok gave an empty reply"
        assert read("grok", b"").error == "grok gave no reply"
        assert read("grok", b"", code=2, stderr=b"boom").error == "exit 2: boom"
        assert read("grok", self.reply(), code=1).status == "failed"
        assert read("grok", b'{"error": {"message": "rate limit reached"}}', code=1).status == "limit"

    def test_an_unknown_session(self) -> None:
        asked = request(session_id="g9")
        assert read("grok", b"", code=1, stderr=b"Error: session g9 not found", asked=asked).status == (
            "unknown_session"
        )


class TestBounds:
    @pytest.mark.parametrize("name", AGENTS)
    @pytest.mark.parametrize("piece", [b"x" * 1000, b"\n" * 1000, b'{"type":"user"' + b"y" * 986])
    def test_twenty_megabytes_stay_bounded(self, name: str, piece: bytes) -> None:
        reader = engine_for(name, None).reader(request())
        chunk = piece * 1000
        tracemalloc.start()
        try:
            for _ in range(20):
                assert len(reader.feed(chunk)) <= 200
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 5 * MAX_REPLY
        assert reader.outcome(0, b"").status == "failed"

    def test_a_reply_of_ten_megabytes_is_cut_and_marked(self) -> None:
        text = "é\\" * 4_000_000
        whole = result(result=text, permission_denials=[], total_cost_usd=0.5, usage={"input_tokens": 3})
        outcome = read("claude", lines(whole))
        assert (outcome.status, outcome.reply_truncated, outcome.session_id) == ("done", True, SESSION)
        assert text.startswith(outcome.reply[:1_000_000])
        assert outcome.usage == Usage(3, None, 0.5)
        denied = result(result=text, permission_denials=[{"tool_name": "Write"}])
        assert read("claude", lines(denied)).error == "claude was denied Write"
        item = {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": text}}
        cut = read("codex", lines(item, {"type": "turn.completed", "usage": {}}))
        assert (cut.status, cut.reply_truncated) == ("done", True)
        assert len(cut.reply.encode()) <= MAX_REPLY

    def test_a_result_whose_end_cannot_be_read_is_not_done(self) -> None:
        whole = result(result="x" * 6_000_000, permission_denials=[{"tool_name": "W" * 100_000}])
        assert read("claude", lines(whole)).status == "failed"

    def test_lines(self) -> None:
        cutter = LongLines(limit=5, tail=3)

        def feed(data: bytes) -> list[tuple[bytes, bytes | None]]:
            return [(line.head, line.tail) for line in cutter.feed(data)]

        assert feed(b"{b\nno\n\n{2345678\n{x") == [(b"{b", None), (b"{2345", b"678")]
        assert feed(b"yzabcdefgh") == []
        assert feed(b"i\n{") == [(b"{xyza", b"ghi")]
        assert feed(b"\n {1}\nno") == [(b"{", None)]
        assert feed(b"{3}\n{4}") == []
        assert [line.head for line in cutter.close()] == [b"{4}"]
        assert list(cutter.close()) == []

    @pytest.mark.parametrize(
        ("head", "text"), [(b'{"a":"x\\n\\u00', "x\n"), (b'{"a":"x","b":1', "x"), (b"{}", None)]
    )
    def test_a_cut_string(self, head: bytes, text: str | None) -> None:
        assert cut_string(head, "a") == text


class TestLimitWords:
    ZONE = timezone(timedelta(hours=2))
    NOW = round(datetime(2026, 11, 30, 20, 0, tzinfo=ZONE).timestamp() * 1000)

    @pytest.mark.parametrize(
        "words",
        [
            "You’ve hit your usage limit. Upgrade to Pro",
            "API Error: Request rejected (429) · x",
            "exceeded retry limit, last status: 429 Too Many Requests",
            "5-hour limit reached ∙ resets 3pm",
            "You've hit your limit · resets 3pm",
            "Quota exceeded. Check your plan and billing details.",
            "You're out of extra usage",
        ],
    )
    def test_limits(self, words: str) -> None:
        assert is_limit(words)

    @pytest.mark.parametrize(
        "words",
        [
            "Prompt is too long · the request is ~250000 tokens (limit 200000)",
            "unexpected status 500",
            "exceeded retry limit, last status: 500",
            "error_max_turns",
            "Not logged in",
        ],
    )
    def test_others(self, words: str) -> None:
        assert not is_limit(words)

    @pytest.mark.parametrize(
        ("words", "when"),
        [
            ("purchase more credits or try again at Dec 1st, 2026 12:38 AM.", (2026, 12, 1, 0, 38)),
            ("or try again at 11:38 PM.", (2026, 11, 30, 23, 38)),
            ("or try again at 7:38 PM.", (2026, 12, 1, 19, 38)),
            ("limit reached ∙ resets 3pm", (2026, 12, 1, 15, 0)),
            ("limit reached · resets Dec 6, 1pm", (2026, 12, 6, 13, 0)),
            ("resets at 12am", (2026, 12, 1, 0, 0)),
            ("resets 6:30pm (UTC)", (2026, 11, 30, 20, 30)),
            ("resets 21:15", (2026, 11, 30, 21, 15)),
            ("try again at 2026-12-01T08:00:00", (2026, 12, 1, 8, 0)),
            ("try again at 2026-12-01T08:00:00Z", (2026, 12, 1, 10, 0)),
            ("Please try again in 20m", (2026, 11, 30, 20, 20)),
            ("try again in 1 day 2 hours 5 minutes", (2026, 12, 1, 22, 5)),
        ],
    )
    def test_when_it_ends(self, words: str, when: tuple[int, int, int, int, int]) -> None:
        expected = datetime(*when, tzinfo=self.ZONE).timestamp() * 1000
        assert reset_ms(words, self.NOW, zone=self.ZONE) == expected

    @pytest.mark.parametrize(
        "words",
        [
            "Please try again later.",
            "resets soon",
            "try again at Feb 30th, 2027 1:00 AM",
            "|1",
            "resets 2001-01-01 10:00",
            "",
        ],
    )
    def test_when_it_does_not_say(self, words: str) -> None:
        assert reset_ms(words, self.NOW, zone=self.ZONE) is None

    def test_local_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now = datetime.now()
        later = (now + timedelta(hours=3)).replace(second=0, microsecond=0)
        text = later.strftime("try again at %b %dth, %Y %I:%M %p.")
        assert reset_ms(text, round(now.timestamp() * 1000)) == round(later.timestamp() * 1000)


def test_every_agent_is_an_engine() -> None:
    made: list[Engine] = [engine_for(name, None) for name in AGENTS]
    assert [engine.name for engine in made] == list(AGENTS)
