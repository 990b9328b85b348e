"""Envelopes: the recorded verdicts with their departures, meshtui's own fields, deadlines, limits."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meshtui.core.errors import InvalidInput
from meshtui.core.models import envelope as module
from meshtui.core.models.envelope import (
    budget_ms,
    engine_of,
    fresh_of,
    is_handoff_phase,
    kind_of,
    label_of,
    parse_deadline,
    phase_of,
    story_of,
    validate_envelope,
    validate_id,
    warnings_for,
    workdir_of,
)

# A busy machine is no failure.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

VERDICTS = json.loads((Path(__file__).parent.parent / "data" / "envelope-verdicts.json").read_bytes())

# The contract refuses these deadlines, which the recorded verdicts accept.
DEPARTURES = {
    'deadline "2030-1-1"',
    'deadline "2030-02-30T00:00:00Z"',
    'deadline "2030"',
    'deadline "+002030-01-01T00:00:00Z"',
    'deadline "Tue, 01 Jan 2030 00:00:00 GMT"',
}

PHASE: dict[str, Any] = {"kind": "phase", "prompt": "do it"}
SECTION: dict[str, Any] = {
    "schema": "hq-phase-envelope/v1",
    "story_id": "US-005",
    "phase": "backend",
    "worker_id": "backend-dev",
    "worktree": "/srv/wt",
    "incoming_handoff": None,
    "acceptance_criteria": ["a", "b"],
    "fresh_call": True,
}


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def refusal(value: object) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        validate_envelope(value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).isprintable()
    return caught.value


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


class TestVerdicts:
    @pytest.mark.parametrize("case", VERDICTS, ids=[case["name"] for case in VERDICTS])
    def test_recorded(self, case: dict[str, Any]) -> None:
        if case["ok"] and case["name"] not in DEPARTURES:
            assert validate_envelope(case["input"]) == case["input"]
            return
        error = refusal(case["input"])
        if isinstance(case["input"], dict):
            assert error.field is not None
            assert error.field in str(error)
        else:
            assert error.field is None

    def test_the_departures_are_in_the_recording(self) -> None:
        assert {case["name"] for case in VERDICTS if case["ok"]} >= DEPARTURES

    def test_the_input_is_not_changed(self) -> None:
        given = {**PHASE, "prompt": "a\ud800b", "deep": {"x": ["\udfff"]}}
        kept = json.dumps(given)
        cleaned = validate_envelope(given)
        assert json.dumps(given) == kept
        assert cleaned["prompt"] == "a\ufffdb"
        assert cleaned["deep"] == {"x": ["\ufffd"]}

    def test_engine_command(self) -> None:
        assert validate_envelope({**PHASE, "engine": "command"})["engine"] == "command"


class TestFields:
    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("label", 5),
            ("story_id", ["s"]),
            ("story_id", "a\0b"),
            ("phase", {}),
            ("model", 1),
            ("effort", True),
            ("repo", 3),
            ("fresh", "yes"),
            ("fresh", 1),
            ("cd", ""),
            ("cd", "sub"),
            ("cd", "~/x"),
            ("cd", "/a\0b"),
            ("worktree", "sub"),
            ("mode", "both"),
            ("mode", 1),
            ("engine", ["claude"]),
            ("engine", {"a": 1}),
            ("mode", ["mesh"]),
            ("id", None),
            ("id", ""),
            ("id", "a\nb"),
            ("deadline_seconds", 10**400),
            ("deadline_seconds", []),
        ],
    )
    def test_plain_phase_refuses(self, field: str, value: object) -> None:
        error = refusal({**PHASE, field: value})
        assert error.field == field
        assert str(error).startswith(field)

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("label", "L"),
            ("story_id", ""),
            ("story_id", None),
            ("phase", "plan"),
            ("cd", "/srv"),
            ("cd", None),
            ("mode", "single"),
            ("mode", "mesh"),
            ("repo", "/srv/repo"),
            ("fresh", False),
            ("fresh", None),
            ("id", "a/b c·😀"),
            ("x-unknown", [None, {"a": 1.5}]),
        ],
    )
    def test_plain_phase_accepts(self, field: str, value: object) -> None:
        assert validate_envelope({**PHASE, field: value}) == {**PHASE, field: value}

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("project", 1),
            ("story_title", []),
            ("story_description", 1),
            ("constraints", "none"),
            ("constraints", [1]),
            ("repo", 1),
            ("branch", False),
            ("reopen_note", 5),
            ("resumed_after_interrupt", "yes"),
            ("prior_handoff", {"a": 1}),
            ("mode", "mesh"),
            ("story_id", "a\0"),
            ("acceptance_criteria", None),
            ("incoming_handoff", 5),
            ("id", "x" * 121),
        ],
    )
    def test_handoff_phase_refuses(self, field: str, value: object) -> None:
        assert refusal({**SECTION, field: value}).field == field

    def test_handoff_phase_accepts_its_optionals(self) -> None:
        optional = {
            "id": "e1",
            "deadline_seconds": 60,
            "engine": "command",
            "result_path": "h.json",
            "project": "p",
            "story_title": "t",
            "story_description": "d",
            "constraints": ["c"],
            "repo": "r",
            "branch": "b",
            "reopen_note": "n",
            "resumed_after_interrupt": True,
            "prior_handoff": "/p.json",
            "mode": "single",
        }
        assert validate_envelope({**SECTION, **optional}) == {**SECTION, **optional}
        assert validate_envelope({**SECTION, "branch": None, "constraints": None})["branch"] is None

    def test_an_unknown_kind_is_refused_even_with_the_schema(self) -> None:
        assert refusal({**SECTION, "kind": "review"}).field == "kind"

    def test_a_stop_needs_nothing_but_a_good_id(self) -> None:
        assert validate_envelope({"kind": "stop", "engine": "x"}) == {"kind": "stop", "engine": "x"}
        assert refusal({"kind": "stop", "id": 5}).field == "id"

    def test_errors_quote_hostile_values_on_one_short_line(self) -> None:
        error = refusal({**PHASE, "engine": "\x1b]52;c;x\x07\n\u202e" + "x" * 100_000})
        assert len(str(error)) < 200


class TestLimits:
    def test_one_mebibyte_serialised(self) -> None:
        room = (1 << 20) - len(json.dumps({**PHASE, "prompt": ""}, separators=(",", ":")))
        assert validate_envelope({**PHASE, "prompt": "x" * room})
        assert "1 MiB" in str(refusal({**PHASE, "prompt": "x" * (room + 1)}))
        assert "1 MiB" in str(refusal({**PHASE, "prompt": "é" * (room // 2 + 1)}))

    def test_a_hundred_levels(self) -> None:
        def nested(levels: int) -> list[Any]:
            value: list[Any] = []
            for _ in range(levels - 1):
                value = [value]
            return value

        assert validate_envelope({**PHASE, "deep": nested(99)})
        assert "100 deep" in str(refusal({**PHASE, "deep": nested(100)}))
        assert "100 deep" in str(refusal({**PHASE, "deep": nested(200_000)}))

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**5000], ids=["nan", "inf", "digits"])
    def test_what_json_cannot_hold(self, value: object) -> None:
        assert "JSON" in str(refusal({**PHASE, "x": value}))


class TestId:
    @pytest.mark.parametrize("good", ["a", " ", "x" * 120, "ü" * 120, "😀" * 75, "..", "a/b"])
    def test_good(self, good: str) -> None:
        assert validate_id(good) == good

    @pytest.mark.parametrize(
        "bad", ["", "x" * 121, "a\0b", "a\tb", "a\x7fb", "a\x9bb", "😀" * 76, None, 5, ["a"], b"a"]
    )
    def test_bad(self, bad: object) -> None:
        with pytest.raises(InvalidInput) as caught:
            validate_id(bad)
        assert caught.value.field == "id"
        assert str(caught.value).isprintable()

    def test_surrogates_are_replaced(self) -> None:
        assert validate_id("a\ud800") == "a\ufffd"


class TestDeadline:
    @pytest.mark.parametrize(
        ("text", "utc"),
        [
            ("2030-01-01", "2030-01-01T00:00:00+00:00"),
            ("2028-02-29", "2028-02-29T00:00:00+00:00"),
            ("2030-01-01T10:20Z", "2030-01-01T10:20:00+00:00"),
            ("2030-01-01T10:20:30z", "2030-01-01T10:20:30+00:00"),
            ("2030-01-01 10:20:30+0200", "2030-01-01T08:20:30+00:00"),
            ("2030-01-01T10:20:30.5-02:30", "2030-01-01T12:50:30.500+00:00"),
            ("2030-01-01T00:00:00.123456789Z", "2030-01-01T00:00:00.123+00:00"),
            ("2030-01-01T00:00:00.9999Z", "2030-01-01T00:00:00.999+00:00"),
            ("1969-12-31T23:59:59.25Z", "1969-12-31T23:59:59.250+00:00"),
            ("2030-01-01T00:00-00:00", "2030-01-01T00:00:00+00:00"),
        ],
    )
    def test_accepted(self, text: str, utc: str) -> None:
        assert parse_deadline(text) == ms(utc)

    @pytest.mark.usefixtures("berlin")
    @pytest.mark.parametrize(
        ("text", "utc"),
        [
            ("2030-01-15T12:00", "2030-01-15T11:00:00+00:00"),
            ("2030-07-15 12:00:00.25", "2030-07-15T10:00:00.250+00:00"),
            ("2030-07-15", "2030-07-15T00:00:00+00:00"),
            ("2030-07-15T12:00Z", "2030-07-15T12:00:00+00:00"),
            ("2030-03-31T02:30", "2030-03-31T01:30:00+00:00"),
            ("2030-10-27T02:30", "2030-10-27T00:30:00+00:00"),
        ],
    )
    def test_without_an_offset_local(self, text: str, utc: str) -> None:
        assert parse_deadline(text) == ms(utc)

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "2030",
            "2030-01",
            "2030-1-1",
            "20300101",
            "2030-02-30",
            "2029-02-29",
            "2030-13-01",
            "2030-00-10",
            "0000-01-01",
            "2030-01-01T",
            "2030-01-01T10",
            "2030-01-01T1:00",
            "2030-01-01t10:00",
            "2030-01-01  10:00",
            "2030-01-01T24:00:00Z",
            "2030-01-01T10:60",
            "2030-01-01T10:00:60Z",
            "2030-01-01T10:00:00.Z",
            "2030-01-01T10:00:00,5Z",
            "2030-01-01T10:00Z ",
            " 2030-01-01",
            "2030-01-01\n",
            "2030-01-01Z",
            "2030-01-01+02:00",
            "2030-01-01T10:00+02",
            "2030-01-01T10:00+24:00",
            "2030-01-01T10:00+02:60",
            "2030-01-01T10:00 +02:00",
            "2030-01-01T10:00+02:00:00",
            "2030-W01-1",
            "2030-001",
            "+002030-01-01T00:00:00Z",
            "-002030-01-01T00:00:00Z",
            "Tue, 01 Jan 2030 00:00:00 GMT",
            "tomorrow",
            "٢٠٣٠-٠١-٠١",
            "0001-01-01T00:00+05:00",
            "9999-12-31T23:59-05:00",
            None,
            5,
            True,
            ["2030-01-01"],
        ],
    )
    def test_refused(self, text: object) -> None:
        with pytest.raises(InvalidInput) as caught:
            parse_deadline(text)
        assert caught.value.field == "deadline"
        assert str(caught.value).startswith("deadline")
        assert str(caught.value).isprintable()

    def test_a_day_that_does_not_exist_is_named_so(self) -> None:
        with pytest.raises(InvalidInput, match="'2030-02-30' does not exist"):
            parse_deadline("2030-02-30")

    @unhurried
    @given(
        moment=st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31)),
        minutes=st.integers(-23 * 60 - 59, 23 * 60 + 59),
        between=st.sampled_from("T "),
        colon=st.sampled_from(["", ":"]),
        extra=st.text("0123456789", max_size=20),
    )
    def test_round_trip_with_an_offset(
        self, moment: datetime, minutes: int, between: str, colon: str, extra: str
    ) -> None:
        size = abs(minutes)
        text = (
            f"{moment.year:04d}"
            f"{moment:-%m-%d}{between}{moment:%H:%M:%S}.{moment.microsecond:06d}{extra}"
            f"{'-' if minutes < 0 else '+'}{size // 60:02d}{colon}{size % 60:02d}"
        )
        expected = (
            moment.replace(tzinfo=UTC) - timedelta(minutes=minutes) - datetime(1970, 1, 1, tzinfo=UTC)
        ) // timedelta(milliseconds=1)
        assert parse_deadline(text) == expected

    @unhurried
    @given(st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1)))
    def test_round_trip_local(self, moment: datetime) -> None:
        assert parse_deadline(moment.isoformat(timespec="milliseconds")) == (
            round(moment.replace(microsecond=0).timestamp() * 1000) + moment.microsecond // 1000
        )

    @unhurried
    @given(st.text() | st.from_regex(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2})?(\.\d+)?Z?", fullmatch=True))
    def test_anything_is_a_number_or_refused(self, text: str) -> None:
        try:
            found = parse_deadline(text)
        except InvalidInput:
            return
        assert datetime.fromtimestamp(found / 1000, UTC)


class TestBudget:
    NOW = 1_900_000_000_000

    def budget(self, **fields: object) -> int:
        return budget_ms({**PHASE, **fields}, first_started_ms=self.NOW, default_seconds=3600)

    def test_order(self) -> None:
        deadline = datetime.fromtimestamp(self.NOW / 1000 + 90, UTC).isoformat()
        assert self.budget() == 3_600_000
        assert self.budget(deadline=deadline) == 90_000
        assert self.budget(deadline=deadline, deadline_seconds=5) == 5_000
        assert self.budget(deadline_seconds=0.5) == 500

    def test_a_deadline_that_was_past_leaves_nothing(self) -> None:
        assert self.budget(deadline="2000-01-01") < 0

    def test_capped_at_ten_years_and_never_nothing(self) -> None:
        ten_years = 3650 * 86_400_000
        assert self.budget(deadline_seconds=1e308) == ten_years
        assert self.budget(deadline="9999-12-31") == ten_years
        assert self.budget(deadline_seconds=5e-324) == 1
        assert budget_ms(PHASE, first_started_ms=0, default_seconds=1e300) == ten_years

    def test_an_unreadable_deadline_is_said(self) -> None:
        with pytest.raises(InvalidInput):
            self.budget(deadline="2030")


class TestReading:
    def test_plain(self) -> None:
        full = {**PHASE, "story_id": "S", "phase": "p", "label": "l", "cd": "/d", "engine": "codex"}
        assert kind_of(full) == "phase"
        assert not is_handoff_phase(full)
        assert (story_of(full), phase_of(full), engine_of(full)) == ("S", "p", "codex")
        assert (label_of(full, "id"), workdir_of(full)) == ("p", "/d")
        assert not fresh_of(full)
        assert fresh_of({**full, "fresh": True})

    def test_bare_and_damaged(self) -> None:
        for envelope in (PHASE, {"story_id": 5, "phase": [], "engine": None, "cd": 1, "fresh": "x"}):
            assert (story_of(envelope), phase_of(envelope), engine_of(envelope)) == ("", None, None)
            assert (label_of(envelope, "id"), workdir_of(envelope)) == ("id", None)
            assert not fresh_of(envelope)
        assert label_of({**PHASE, "label": "l"}, "id") == "l"

    def test_handoff_phase(self) -> None:
        assert is_handoff_phase(SECTION)
        assert not is_handoff_phase({**SECTION, "kind": "stop"})
        assert kind_of({**SECTION, "kind": "stop"}) == "stop"
        assert fresh_of(SECTION)
        assert workdir_of(SECTION) == "/srv/wt"


class TestWarnings:
    NOW = 1_900_000_000_000

    def warnings(self, **fields: object) -> list[str]:
        return warnings_for(validate_envelope({**PHASE, **fields}), now_ms=self.NOW)

    def test_none(self) -> None:
        assert self.warnings() == []
        assert self.warnings(engine="command", mode="single", deadline="2200-01-01") == []
        assert warnings_for({"kind": "stop", "engine": "claude"}) == []

    @pytest.mark.parametrize("engine", module.ENGINES)
    def test_every_engine_can_be_run(self, engine: str) -> None:
        assert self.warnings(engine=engine) == []

    def test_mode_and_deadline(self) -> None:
        assert self.warnings(mode="mesh") == []
        (past,) = self.warnings(deadline="2000-01-01")
        assert "past" in past
        (both,) = self.warnings(deadline="2000-01-01", deadline_seconds=5)
        assert "deadline_seconds" in both
        assert "past" in warnings_for({**PHASE, "deadline": "2000-01-01"})[0]
