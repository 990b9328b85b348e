"""What agents used, in the words of ``status``."""

from __future__ import annotations

from pathlib import Path

from meshtui.core.engines.claude import ClaudeEngine
from meshtui.core.models.config import EngineConfig
from tests.support.agent import StandIn, claude_says
from tests.support.cli import Cli
from tests.support.runners import LaneBox


def test_the_lane_says_what_its_phases_used(cli: Cli, tmp_path: Path) -> None:
    box = LaneBox(cli.run_dir)
    agent = StandIn(
        tmp_path / "agent", claude_says("fine", usage={"input_tokens": 12_000, "output_tokens": 345})
    )
    try:
        box.enqueue("a")
        box.enqueue("b")
        assert "used: " not in cli("status").out
        box.run(engine=ClaudeEngine(EngineConfig(program=str(agent.program))))
        assert "used: 24,690 tokens, $0.50\n" in cli("status").out
    finally:
        box.close()
