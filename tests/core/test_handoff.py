"""Handoffs: the recorded verdicts with their departure, evidence, and finding one in any reply."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from meshtui.core.errors import InvalidInput
from meshtui.core.models.handoff import read_handoff, validate_handoff

# A busy machine is no failure.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

VERDICTS = json.loads((Path(__file__).parent.parent / "data" / "handoff-verdicts.json").read_bytes())
ENVELOPE: dict[str, Any] = VERDICTS[0]["envelope"]
HANDOFF: dict[str, Any] = VERDICTS[0]["value"]
TEXT = json.dumps(HANDOFF)

# The contract wants the envelope's worker; the recorded verdict lets it differ.
DEPARTURES = {"worker mismatch accepted here"}


def refusal(value: object, envelope: dict[str, Any] = ENVELOPE) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        validate_handoff(value, envelope)
    assert str(caught.value).isprintable()
    return caught.value


def unread(reply: str) -> str:
    with pytest.raises(InvalidInput) as caught:
        read_handoff(reply, ENVELOPE)
    assert str(caught.value).isprintable()
    return str(caught.value)


class TestVerdicts:
    @pytest.mark.parametrize("case", VERDICTS, ids=[case["name"] for case in VERDICTS])
    def test_recorded(self, case: dict[str, Any]) -> None:
        if case["ok"] and case["name"] not in DEPARTURES:
            assert validate_handoff(case["value"], case["envelope"]) == case["value"]
            return
        error = refusal(case["value"], case["envelope"])
        assert error.field is not None
        assert error.field in str(error)

    def test_the_worker_must_be_the_envelopes(self) -> None:
        assert refusal({**HANDOFF, "worker_id": "other"}).field == "worker_id"

    def test_surrogates_are_replaced_in_a_copy(self) -> None:
        given = {**HANDOFF, "summary": "\udc80", "more": {"kept": [1, None]}}
        handoff = validate_handoff(given, ENVELOPE)
        assert handoff["summary"] == "\ufffd"
        assert handoff["more"] == {"kept": [1, None]}
        assert given["summary"] == "\udc80"

    def test_too_deep(self) -> None:
        deep: list[Any] = []
        for _ in range(100_000):
            deep = [deep]
        assert "deep" in str(refusal({**HANDOFF, "x": deep}))


class TestEvidence:
    ENTRY: dict[str, Any] = {"index": 1, "met": True, "evidence": "e"}  # noqa: RUF012

    @pytest.mark.parametrize(
        "change", [{}, {"index": 0}, {"index": 1.0}, {"met": False}, {"criterion": "b"}, {"criterion": None}]
    )
    def test_accepted(self, change: dict[str, Any]) -> None:
        value = {**HANDOFF, "ac_evidence": [{**self.ENTRY, **change}]}
        assert validate_handoff(value, ENVELOPE) == value

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("index", 2),
            ("index", -1),
            ("index", True),
            ("index", 0.5),
            ("index", "0"),
            ("index", None),
            ("index", float("inf")),
            ("index", float("nan")),
            ("met", "yes"),
            ("met", 1),
            ("met", None),
            ("evidence", ""),
            ("evidence", " \n"),
            ("evidence", 5),
            ("criterion", 5),
        ],
    )
    def test_refused(self, field: str, value: object) -> None:
        entries = [self.ENTRY, {**self.ENTRY, field: value}]
        assert refusal({**HANDOFF, "ac_evidence": entries}).field == f"ac_evidence[1].{field}"

    def test_shapes(self) -> None:
        assert refusal({**HANDOFF, "ac_evidence": {}}).field == "ac_evidence"
        assert refusal({**HANDOFF, "ac_evidence": ["x"]}).field == "ac_evidence[0]"
        assert validate_handoff({**HANDOFF, "ac_evidence": None}, ENVELOPE)
        assert validate_handoff({**HANDOFF, "ac_evidence": []}, ENVELOPE)

    def test_no_criteria_no_evidence(self) -> None:
        error = refusal({**HANDOFF, "ac_evidence": [self.ENTRY]}, {**ENVELOPE, "acceptance_criteria": []})
        assert "no criteria" in str(error)


class TestReading:
    @pytest.mark.parametrize(
        "reply",
        [
            TEXT,
            f"\ufeff \n{TEXT}\n",
            f"```json\n{json.dumps(HANDOFF, indent=2)}\n```",
            f"Done {{mostly}}. Here it is:\n\n{TEXT}\n\nBye :-}}",
            f"{TEXT}\nand again\n```\n{json.dumps(HANDOFF, indent=4)}\n```",
            f"fn main() {{ let x = {{}}; print({TEXT}) }}",
            f'an open string " and {{"a": [1, {TEXT}',
            f'{{"a": "{{", "b": {TEXT} oops',
            f'{{"other": 1}} {TEXT} {{"schema": "something-else"}}',
            f'see {{"schema": "hq-phase-handoff/v1" | "x"}} then {TEXT}',
            f"[{TEXT}]",
            TEXT.replace("hq-phase-handoff/v1", "hq-phase-handoff\\/v1").replace(
                '"schema"', '"\\u0073chema"'
            ),
            "{" * 150 + TEXT,
            '{"a":' * 150 + TEXT,
            '{"a":[' * 99 + TEXT + "]",
        ],
    )
    def test_found(self, reply: str) -> None:
        assert read_handoff(reply, ENVELOPE) == HANDOFF

    def test_braces_in_strings(self) -> None:
        value = {
            **HANDOFF,
            "summary": '}{ "{" \\" {"schema": "hq-phase-handoff/v1"} ```',
            "notes": {"a": "}"},
        }
        assert read_handoff(f"x {json.dumps(value)} y", ENVELOPE) == value

    def test_surrogates(self) -> None:
        value = {**HANDOFF, "summary": "\ud800", "context_for_next": "ok"}
        for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
            assert read_handoff(text, ENVELOPE)["summary"] == "\ufffd"

    @pytest.mark.parametrize(
        ("reply", "said"),
        [
            ("", "no hq-phase-handoff/v1 object"),
            ("all done!", "no hq-phase-handoff/v1 object"),
            (TEXT[:-1], "incomplete"),
            (f"{TEXT} {json.dumps({**HANDOFF, 'status': 'failed'})}", "different"),
            (f"{TEXT} {json.dumps({**HANDOFF, 'more': 1})}", "different"),
            (TEXT.replace('"passed"', "NaN"), "incomplete"),
            (TEXT[:-1] + ', "status": "failed"}', "duplicate key"),
            (TEXT[:-1] + ', "x": ' + "9" * 9000 + "}", "too many digits"),
            (TEXT[:-1] + ', "x": "' + "y" * (1 << 20) + '"}', "1 MiB"),
            (TEXT[:-1] + ', "x": ' + "[" * 101 + "]" * 101 + "}", "incomplete"),
            (json.dumps({"handoff": HANDOFF}), "incomplete"),
            (json.dumps({"text": TEXT}), "no hq-phase-handoff/v1 object"),
            (json.dumps({**HANDOFF, "phase": "other"}), "phase"),
            (json.dumps({**HANDOFF, "status": "ok"}), "status"),
        ],
    )
    def test_refused(self, reply: str, said: str) -> None:
        assert said in unread(reply)

    def test_a_number_and_a_boolean_are_no_repeat(self) -> None:
        first = json.dumps({**HANDOFF, "x": 1})
        assert "different" in unread(f"{first} {json.dumps({**HANDOFF, 'x': True})}")

    def test_the_inner_one_belongs_to_the_outer(self) -> None:
        value = {**HANDOFF, "earlier": {**HANDOFF, "status": "failed"}}
        assert read_handoff(json.dumps(value), ENVELOPE) == value

    @unhurried
    @given(
        st.text()
        | st.lists(
            st.sampled_from(['{"', '{"a":', '"schema":"hq-phase-handoff/v1"', *'{}[]:,"\\ 1', TEXT])
        ).map("".join)
    )
    def test_anything_is_a_handoff_or_refused(self, reply: str) -> None:
        try:
            assert isinstance(read_handoff(reply, ENVELOPE), dict)
        except InvalidInput:
            return

    @unhurried
    @given(
        before=st.text(alphabet='{}[]:,"\\ \nab1') | st.text(),
        after=st.text(alphabet='{}[]:,"\\ \nab1') | st.text(),
        indent=st.none() | st.integers(0, 3),
        summary=st.text(),
    )
    @example(before='{"a":"{", "b":"', after='"}', indent=None, summary="")
    @example(before='{"":', after="", indent=None, summary='}"{')
    def test_found_in_any_prose(self, before: str, after: str, indent: int | None, summary: str) -> None:
        text = json.dumps({**HANDOFF, "summary": summary}, indent=indent)
        reply = before + text + after
        decoder = json.JSONDecoder(strict=True)
        for start in (place for place, character in enumerate(before) if character == "{"):
            try:
                end = decoder.raw_decode(reply, start)[1]
            except ValueError:
                continue
            # Inside another complete object it is that one's.
            assume(end <= len(before))
        assert read_handoff(reply, ENVELOPE)["summary"] == summary


@pytest.mark.parametrize(
    "unit",
    [
        "{",
        '{"',
        '{"":',
        '{"a":[',
        '{"x":"{',
        '{"a {',
        '{"a":"b","c":"{\\"',
        '[{"":"{"},',
        '{":":",',
        "{ ",
        TEXT,
    ],
)
def test_time_and_memory_grow_with_the_reply_only(unit: str) -> None:
    def seconds(size: int) -> float:
        reply = unit * (size // len(unit))
        start = time.process_time()
        try:
            read_handoff(reply, ENVELOPE)
        except InvalidInput as error:
            assert "hq-phase-handoff/v1" in str(error)
        return time.process_time() - start

    # Quadratic time would be a hundred times as long, and minutes.
    assert seconds(1_000_000) < 3
    small = min(seconds(100_000) for _ in range(3))
    assert seconds(1_000_000) < max(0.2, 40 * small)


def test_ten_megabytes_around_one() -> None:
    noise = 'prose {with} "quotes" and {"json": [1, 2, {"a": "}"}]} '
    noise *= 5_000_000 // len(noise)
    start = time.process_time()
    assert read_handoff(noise + TEXT + noise, ENVELOPE) == HANDOFF
    assert time.process_time() - start < 30
