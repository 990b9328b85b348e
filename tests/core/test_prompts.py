"""Prompts: a plain one untouched, a §-schema one with everything a worker needs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meshtui.core.errors import InvalidInput
from meshtui.core.lane.prompts import INLINE_BYTES, build_prompt
from meshtui.core.models.handoff import read_handoff

# A busy machine is no failure.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

DEADLINE = 1_900_000_000_000
SECTION: dict[str, Any] = {
    "schema": "hq-phase-envelope/v1",
    "story_id": "US-005",
    "phase": "backend",
    "worker_id": "backend-dev",
    "worktree": "/srv/wt",
    "incoming_handoff": None,
    "acceptance_criteria": ["list users", "sorted\n1. by name"],
    "fresh_call": True,
}


def prompt(run_dir: Path | None = None, **fields: object) -> str:
    return build_prompt({**SECTION, **fields}, deadline_at_ms=DEADLINE, run_dir=run_dir)


def refused(run_dir: Path | None = None, **fields: object) -> str:
    with pytest.raises(InvalidInput) as caught:
        prompt(run_dir, **fields)
    assert caught.value.field == "incoming_handoff"
    assert str(caught.value).isprintable()
    return str(caught.value)


@pytest.mark.parametrize("text", ["do it", "--version", "- [ ] item\n\n", " \t{x}`\x1b[0m", "x" * 200_000])
def test_a_plain_prompt_is_as_it_is(text: str) -> None:
    assert build_prompt({"kind": "phase", "prompt": text}, deadline_at_ms=DEADLINE) == text


def test_a_lone_surrogate_is_replaced() -> None:
    assert build_prompt({"kind": "phase", "prompt": "a\ud800"}, deadline_at_ms=DEADLINE) == "a\ufffd"
    assert "\ufffd" in prompt(story_title="\udfff")


class TestSections:
    def test_the_least(self) -> None:
        text = prompt()
        for part in (
            "`backend-dev`",
            "`backend`",
            "# Story US-005\n",
            "\n0. list users\n1. sorted\n   1. by name\n",
            "`/srv/wt`",
            "2030-03-17T17:46:40.000Z",
            '"schema": "hq-phase-handoff/v1"',
            '"story_id": "US-005"',
            '"phase": "backend"',
            '"worker_id": "backend-dev"',
            '"ac_evidence"',
            "0 to 1",
            "# Incoming handoff\n\nThere is none",
        ):
            assert part in text
        for heading in ("# Constraints", "# Reopened", "# Interrupted", "# Earlier", "Branch", "None"):
            assert heading not in text

    def test_everything(self, tmp_path: Path) -> None:
        earlier = tmp_path / "earlier.json"
        earlier.write_text('{"half": "done"}')
        text = prompt(
            story_title="Users",
            story_description="As an admin\nI want a list.",
            project="shop",
            repo="/srv/repo",
            branch="story/us-005",
            constraints=["no new packages", "Python 3.11"],
            reopen_note="the list was empty\nfor guests",
            resumed_after_interrupt=True,
            prior_handoff=str(earlier),
        )
        for part in (
            "# Story US-005: Users",
            "As an admin\nI want a list.",
            "- Project: `shop`",
            "- Repository: `/srv/repo`",
            "- Branch: `story/us-005`",
            "# Constraints\n\n- no new packages\n- Python 3.11",
            "> the list was empty\n> for guests",
            "# Interrupted before",
            '{"half": "done"}',
        ):
            assert part in text
        order = [
            "# Story",
            "# Acceptance",
            "# Constraints",
            "# Incoming",
            "# Working",
            "# Deadline",
            "# Your reply",
        ]
        places = [text.index(heading) for heading in order]
        assert places == sorted(places)

    def test_no_criteria_no_evidence(self) -> None:
        text = prompt(acceptance_criteria=[])
        assert "None are given" in text
        assert "ac_evidence" not in text

    @pytest.mark.parametrize("value", [None, "", []])
    def test_optionals_without_a_value_leave_no_trace(self, value: object) -> None:
        names = (
            "story_title",
            "story_description",
            "project",
            "repo",
            "branch",
            "reopen_note",
            "prior_handoff",
        )
        fields = dict.fromkeys((*names, "constraints", "resumed_after_interrupt"), value)
        assert build_prompt({**SECTION, **fields}, deadline_at_ms=DEADLINE) == prompt()

    def test_a_prompt_repeated_is_no_handoff(self) -> None:
        with pytest.raises(InvalidInput):
            read_handoff(prompt(), SECTION)

    def test_the_form_filled_in_is_a_handoff(self) -> None:
        form = prompt().rpartition("```\n{")[2].partition("\n```")[0]
        filled = "{" + form.replace("…", "").replace(", ]", "]")
        for placeholder, value in (
            ('<"passed" or "failed" or "blocked">', '"passed"'),
            ('<"pass" or "fail" or "skip">', '"skip"'),
            ("<number of the criterion>", "1"),
            ("<true or false>", "true"),
            ("<text: what you did, in a few sentences>", '"s"'),
            ("<text>", '"t"'),
        ):
            assert placeholder in filled
            filled = filled.replace(placeholder, value)
        assert read_handoff(filled, SECTION)["ac_evidence"] == [{"index": 1, "met": True, "evidence": "t"}]

    @unhurried
    @given(st.text(min_size=1).filter(str.strip))
    def test_hostile_ids_stay_on_their_line(self, text: str) -> None:
        told = prompt(story_id=text, phase=text, worker_id=text)
        assert told.count("\n# ") == prompt().count("\n# ")
        assert f'"phase": {json.dumps(text, ensure_ascii=False)}' in told or "\ufffd" in told


class TestIncoming:
    def test_inlined(self, tmp_path: Path) -> None:
        path = tmp_path / "h.json"
        path.write_text('{"summary": "use ```` here"}\n')
        text = prompt(incoming_handoff=str(path))
        assert f"`{path}`" in text
        assert '`````\n{"summary": "use ```` here"}\n`````' in text

    def test_relative_to_the_run_directory_else_the_worktree(self, tmp_path: Path) -> None:
        run, tree = tmp_path / "run", tmp_path / "tree"
        for folder in (run, tree):
            folder.mkdir()
            (folder / "h.json").write_text(f"from {folder.name}")
        assert "from run" in prompt(run, incoming_handoff="h.json", worktree=str(tree))
        assert "from tree" in prompt(incoming_handoff="h.json", worktree=str(tree))

    def test_bounded(self, tmp_path: Path) -> None:
        path = tmp_path / "h"
        path.write_bytes(b"x" * INLINE_BYTES)
        assert "read the rest" not in prompt(incoming_handoff=str(path))
        path.write_bytes(b"x" * (INLINE_BYTES * 10))
        text = prompt(incoming_handoff=str(path))
        assert "The first 128 KiB of" in text
        assert text.count("x") < INLINE_BYTES + 100

    def test_bytes_that_are_no_text(self, tmp_path: Path) -> None:
        path = tmp_path / "h"
        path.write_bytes(b"a\xffb")
        assert "a\ufffdb" in prompt(incoming_handoff=str(path))
        path.write_bytes(b" \n")
        assert "is empty" in prompt(incoming_handoff=str(path))

    def test_unreadable(self, tmp_path: Path) -> None:
        assert "no such file" in refused(incoming_handoff=str(tmp_path / "missing\n\x1b.json"))
        assert "a folder" in refused(incoming_handoff=str(tmp_path))
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        assert "plain file" in refused(incoming_handoff=str(pipe))
        (tmp_path / "file").write_text("")
        assert "no folder" in refused(incoming_handoff=str(tmp_path / "file" / "h.json"))
        loop = tmp_path / "loop"
        loop.symlink_to(loop)
        refused(incoming_handoff=str(loop))
        refused(incoming_handoff="/" + "x" * 5000)

    def test_an_earlier_handoff_may_be_missing(self, tmp_path: Path) -> None:
        text = prompt(prior_handoff=str(tmp_path / "gone.json"))
        assert "could not be read (there is no such file)" in text
