"""A place to run the real agents in: empty home, built environment, scripted model, lane and repository."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from meshtui.core.lane.runner import RunOutcome
from meshtui.core.lane.service import open_runner
from tests.support.model_server import Ask, ModelServer, Script
from tests.support.runners import PROJECT, LaneBox, RunnerThread

CONFIGURATION = """
[lane]
engine = "claude"
deadline_seconds = 90

[engines.claude]
program = "{claude}"

[engines.codex]
program = "{codex}"
"""
CODEX = """
model = "gpt-5-codex"
model_provider = "scripted"

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"

[analytics]
enabled = false
"""


class Bench:
    """Everything one test needs; ``environment`` is all that the agents see."""

    def __init__(self, root: Path, programs: Path) -> None:
        modules = programs / "node_modules"
        (claude,) = modules.glob("@anthropic-ai/claude-code-*/claude")
        codex = modules / "@openai" / "codex" / "bin" / "codex.js"
        self.server = ModelServer()
        self.home = root / "home"
        self.home.mkdir()
        codex_home = self.home / ".codex"
        codex_home.mkdir()
        (codex_home / "config.toml").write_text(CODEX.format(url=self.server.url))
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "XDG_STATE_HOME": str(root / "state"),
            "ANTHROPIC_BASE_URL": self.server.url,
            "ANTHROPIC_API_KEY": "dummy",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "CODEX_HOME": str(codex_home),
            "SCRIPTED_KEY": "dummy",
            "PYTHONPATH": str(PROJECT),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self.box = LaneBox(root / "run")
        self.work = self.box.work
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "Test")
        self.git("config", "user.email", "test@localhost")
        (self.work / "README").write_text("A repository.\n")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "First")
        self.configure(claude=str(claude), codex=str(codex))

    def configure(self, *, claude: str, codex: str) -> None:
        self.settings = CONFIGURATION.format(claude=claude, codex=codex)
        (self.box.root / "meshtui.toml").write_text(self.settings)

    def add_settings(self, text: str) -> None:
        """Add to the configuration."""
        self.settings += text
        (self.box.root / "meshtui.toml").write_text(self.settings)

    def lane_setting(self, line: str) -> None:
        """Add a line to ``[lane]``."""
        self.settings = self.settings.replace("[lane]\n", f"[lane]\n{line}\n")
        self.add_settings("")

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.work,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home)},
            capture_output=True,
            check=True,
            timeout=30,
        )
        return done.stdout.decode()

    def enqueue(self, envelope_id: str, engine: str, prompt: str = "do it", **fields: Any) -> None:
        self.box.enqueue(envelope_id, engine=engine, prompt=prompt, **fields)

    def run(self, script: Script | None = None) -> RunOutcome:
        """Work the lane until it is idle."""
        if script is not None:
            self.server.script = script
        return open_runner(self.box.run_dir, until_idle=True).run()

    def start(self, script: Script) -> RunnerThread:
        """Work the lane in a thread."""
        self.server.script = script
        thread = RunnerThread(open_runner(self.box.run_dir))
        self.box._threads.append(thread)
        return thread

    def result(self, envelope_id: str) -> dict[str, Any]:
        return self.box.result(envelope_id)

    def processes(self) -> list[str]:
        """The processes whose environment has this bench's home."""
        needle = f"HOME={self.home}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if needle in (entry / "environ").read_bytes().split(b"\0"):
                    found.append((entry / "comm").read_text().strip())
            except OSError:
                continue
        return found

    def close(self) -> None:
        self.box.close()
        self.server.close()


def directory_of(ask: Ask) -> str:
    """The working directory that an agent told the model."""
    text = str(ask.raw).replace("\\\\n", "\n").replace("\\n", "\n")
    found = re.search(r"(?:[Ww]orking directory:\s*|<cwd>)(/[^\s<'\"]+)", text)
    assert found, text[:3000]
    return found[1]
