"""Writes CHANGELOG.md from the log of this repository, newest first."""

import subprocess
from pathlib import Path

log = subprocess.run(
    ["git", "log", "--format=- %s (%h, %as)"], check=True, capture_output=True, text=True
).stdout
Path("CHANGELOG.md").write_text(f"# Changelog\n\n{log}", encoding="utf-8")
print(f"CHANGELOG.md tells of {len(log.splitlines())} commits")
