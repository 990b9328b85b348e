from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from meshtui.core.calls import Call, CallSpec, OutputFollower, new_call_id, read_tail, scrubbed_environment
from meshtui.core.engines.base import (
    MAX_REPLY,
    Engine,
    EngineRequest,
    LineSplitter,
    Outcome,
    Role,
    Usage,
    exit_text,
    failure_text,
    plain,
)
from meshtui.core.engines.command import Command, CommandEngine
from meshtui.core.engines.fake import FakeEngine, FakeReply
from meshtui.core.engines.registry import engine_for
from meshtui.core.errors import InvalidInput
from meshtui.core.models.envelope import ENGINES
from meshtui.core.run_dir import RunDir


@dataclass(frozen=True)
class Settings:
    run: Command | None = None
    maker: Command | None = None
    checker: Command | None = None
    arbiter: Command | None = None
    env: Mapping[str, str] = field(default_factory=dict)


def request(role: Role = "run", *, session: str | None = None, prompt: str = "do it") -> EngineRequest:
    return EngineRequest(role, prompt, Path("/tmp"), session_id=session)


def perform(engine: Engine, asked: EngineRequest, root: Path) -> Outcome:
    """Run ``asked`` through a call, as a runner does."""
    launch = engine.launch(asked)
    call = Call.start(
        RunDir(root),
        CallSpec(
            call_id=new_call_id(time.time_ns() // 1_000_000, "x", "run"),
            subject="x",
            role="run",
            engine=engine.name,
            argv=launch.argv,
            cwd=root,
            env={**scrubbed_environment(os.environ), **asked.environment, **launch.env_extra},
            prompt=launch.prompt_bytes,
        ),
    )
    assert call.wait(30)
    ended = call.exit()
    assert ended is not None
    reader, follower = engine.reader(asked), OutputFollower(call.stdout)
    while chunk := follower.read():
        reader.feed(chunk)
    follower.close()
    return reader.outcome(ended.code, read_tail(call.stderr, 4096))


def read(data: bytes, *, code: int = 0, piece: int | None = None, session: str | None = None) -> Outcome:
    """What the command engine makes of ``data``, fed in pieces."""
    reader = CommandEngine(Settings()).reader(request(session=session))
    size = piece or max(1, len(data))
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
    return reader.outcome(code, b"")


class TestCommand:
    def test_a_string_is_run_by_the_shell_and_a_list_as_it_is(self) -> None:
        settings = Settings(run="fmt $X", maker=["/bin/x", "a b"])
        assert CommandEngine(settings).launch(request()).argv == ("/bin/sh", "-c", "fmt $X")
        assert CommandEngine(settings).launch(request("maker")).argv == ("/bin/x", "a b")

    @pytest.mark.parametrize("role", ["run", "maker", "checker", "arbiter"])
    def test_a_role_without_a_command_is_refused_by_name(self, role: Role) -> None:
        for settings in (None, Settings()):
            with pytest.raises(InvalidInput, match=rf"{role} in \[engines.command\]") as caught:
                CommandEngine(settings).launch(request(role))
            assert ("--run" in str(caught.value)) == (role == "run")

    def test_the_environment_it_adds(self) -> None:
        engine = CommandEngine(Settings(checker="x", env={"A": "1"}))
        assert engine.launch(request("checker")).env_extra == {"A": "1", "MESHTUI_ROLE": "checker"}
        extra = engine.launch(request("checker", session="s 1")).env_extra
        assert extra["MESHTUI_SESSION_ID"] == "s 1"

    def test_for_real(self, tmp_path: Path) -> None:
        engine = CommandEngine(Settings(run='cat; echo "$MESHTUI_ROLE"; echo MESHTUI_SESSION=abc'))
        outcome = perform(engine, request(prompt="- [ ] item\n"), tmp_path)
        assert outcome == Outcome("done", "- [ ] item\nrun\n", session_id="abc")

    def test_a_failure_names_status_and_last_words(self, tmp_path: Path) -> None:
        engine = CommandEngine(
            Settings(run="echo part; echo one >&2; printf 'two \\033[31mred\\n\\n' >&2; exit 3")
        )
        outcome = perform(engine, request(), tmp_path)
        assert outcome == Outcome("failed", "part\n", error="exit 3: one · two red")

    def test_a_signal_is_named(self, tmp_path: Path) -> None:
        outcome = perform(CommandEngine(Settings(run="kill -KILL $$")), request(), tmp_path)
        assert outcome.status == "failed"
        assert outcome.error is not None
        assert outcome.error.startswith("ended by SIGKILL (exit 137)")

    def test_no_reply_is_done(self) -> None:
        assert read(b"") == Outcome("done")

    def test_an_unknown_session(self) -> None:
        assert read(b"", code=75, session="old").status == "unknown_session"
        # Without a session to resume, 75 is a failure like any other.
        assert read(b"", code=75).status == "failed"

    def test_a_resumed_session_is_kept_unless_another_is_named(self) -> None:
        assert read(b"x", session="old").session_id == "old"
        assert read(b"MESHTUI_SESSION=new\nx", session="old").session_id == "new"
        assert read(b"x", session="old", code=1).session_id == "old"

    @pytest.mark.parametrize("piece", [1, 2, 3, 7, 1000])
    @pytest.mark.parametrize(
        ("data", "reply", "session"),
        [
            (b"MESHTUI_SESSION=a\n", "", "a"),
            (b"MESHTUI_SESSION=a", "", "a"),
            (b"x\nMESHTUI_SESSION=a\r\ny\n", "x\ny\n", "a"),
            (b"MESHTUI_SESSION=a\nMESHTUI_SESSION=b\nz", "z", "b"),
            (b"not MESHTUI_SESSION=a\n", "not MESHTUI_SESSION=a\n", None),
            (b"x\nMESHTUI_SESSION=\ny", "x\nMESHTUI_SESSION=\ny", None),
            (b"x\nMESHTUI_SES", "x\nMESHTUI_SES", None),
            (b"MESHTUI_SESSION=" + b"l" * 5000 + b"\n", "MESHTUI_SESSION=" + "l" * 5000 + "\n", None),
            (b"MESHTUI_SESSION=\x1b[2J\nx", "MESHTUI_SESSION=\x1b[2J\nx", None),
            (b"\n\nMMESHTUI_SESSION=a\nMESHTUI_SESSION=c\n\n", "\n\nMMESHTUI_SESSION=a\n\n", "c"),
            (b"x MESHTUI_SESSION=a MESHTUI_SESSION=b\n", "x MESHTUI_SESSION=a MESHTUI_SESSION=b\n", None),
        ],
    )
    def test_the_line_that_names_the_session(
        self, data: bytes, reply: str, session: str | None, piece: int
    ) -> None:
        outcome = read(data, piece=piece)
        assert (outcome.reply, outcome.session_id) == (reply, session)

    def test_bytes_that_are_no_text_are_replaced(self) -> None:
        assert read(b"\xff" + b"a" * 1_000_000, piece=65_536).reply == "\ufffd" + "a" * 1_000_000
        assert read("é".encode(), piece=1).reply == "é"

    @pytest.mark.parametrize("line", [b"x" * 1000, b"x" * 999 + b"\n", b"\n" * 1000])
    def test_ten_megabytes_stay_bounded_and_are_marked(self, line: bytes) -> None:
        reader = CommandEngine(Settings()).reader(request())
        chunk = line * 1000
        tracemalloc.start()
        try:
            for _ in range(10):
                assert len(reader.feed(chunk)) <= 201
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        reader.feed(b"\nMESHTUI_SESSION=late\n")
        outcome = reader.outcome(0, b"")
        assert peak < 3 * MAX_REPLY
        assert (outcome.status, outcome.reply_truncated, outcome.session_id) == ("done", True, "late")
        assert len(outcome.reply) == MAX_REPLY

    def test_a_reply_that_just_fits_is_whole(self) -> None:
        outcome = read(b"x" * MAX_REPLY, piece=1 << 20)
        assert (len(outcome.reply), outcome.reply_truncated) == (MAX_REPLY, False)

    def test_a_character_cut_by_the_limit_is_dropped(self) -> None:
        outcome = read(b"x" + "é".encode() * (MAX_REPLY // 2), piece=1 << 20)
        assert outcome.reply_truncated
        assert "\ufffd" not in outcome.reply

    def test_events_as_the_output_comes(self) -> None:
        reader = CommandEngine(Settings()).reader(request())
        assert [event.text for event in reader.feed(b"one\ntw")] == ["one"]
        events = reader.feed(b"o\n\nMESHTUI_SESSION=a\n")
        assert [(event.kind, event.text) for event in events] == [("text", "two"), ("session", "a")]


class TestWords:
    def test_how_a_program_ended(self) -> None:
        assert exit_text(3) == "exit 3"
        assert exit_text(143) == "ended by SIGTERM (exit 143)"
        assert exit_text(255) == "exit 255"
        assert exit_text(128 + 50) == "exit 178" or "SIG" in exit_text(128 + 50)

    def test_errors_are_one_bounded_plain_line(self) -> None:
        text = failure_text(1, b"\xff\n" + b"a" * 10_000 + b"\x1b]52;c;eHg=\x07\r\x9b\n\n")
        assert len(text) < 600
        assert all(char.isprintable() for char in text)
        assert "eHg" not in text
        assert failure_text(2, b" \n\n") == "exit 2"
        assert plain("a\tb\x00\x85c\n") == "a b c"

    def test_lines_are_cut_and_the_last_one_may_lack_its_end(self) -> None:
        lines = LineSplitter(limit=5)
        assert lines.feed(b"ab") == []
        assert lines.feed(b"c\r\n1234567") == ["abc"]
        assert lines.feed(b"89\n\xff") == ["12345"]
        assert lines.close() == ["\ufffd"]
        assert lines.close() == []

    def test_usage_holds_only_what_was_reported(self) -> None:
        assert Usage(input_tokens=5, cost_usd=0.0).as_json() == {"input_tokens": 5, "cost_usd": 0.0}


class TestRegistry:
    def test_every_engine_that_may_be_named_is_there(self) -> None:
        assert engine_for("command", Settings(run="x")).launch(request()).argv[-1] == "x"
        for name in ENGINES:
            assert engine_for(name, None).name == name
        with pytest.raises(InvalidInput, match="no engine is called 'x'"):
            engine_for("x", None)


class TestFake:
    def test_it_really_runs_what_the_script_says(self, tmp_path: Path) -> None:
        answers = {
            "one": FakeReply("first\nreply", session_id="s1"),
            "two": FakeReply("é" * 70_000, exit_code=4, stderr="went wrong"),
        }
        engine = FakeEngine(lambda asked: answers[asked.prompt])
        assert perform(engine, request(prompt="one"), tmp_path) == Outcome(
            "done", "first\nreply", session_id="s1"
        )
        failed = perform(engine, request(prompt="two"), tmp_path)
        assert failed == Outcome("failed", "é" * 70_000, error="exit 4: went wrong")
        assert [asked.prompt for asked in engine.requests] == ["one", "two"]

    def test_it_hangs_when_told_to(self, tmp_path: Path) -> None:
        engine = FakeEngine(lambda asked: FakeReply("part\n", hang=True, delay_seconds=0.01))
        launch = engine.launch(request())
        spec = CallSpec(
            new_call_id(1, "x", "run"), "x", "run", "fake", launch.argv, tmp_path, dict(os.environ), b""
        )
        call = Call.start(RunDir(tmp_path), spec)
        end = time.monotonic() + 20
        while not call.stdout.read_bytes().endswith(b"\n"):
            assert time.monotonic() < end
            time.sleep(0.005)
        assert not call.wait(0.02)
        assert call.end("killed", "test").ended
