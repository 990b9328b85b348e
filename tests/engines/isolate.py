"""``python -m tests.engines.isolate``: the tests of the real claude and codex, where nothing can be reached.

Installs both from the npm registry into a folder that git ignores, then runs the tests of this folder in
a network namespace that holds nothing but loopback.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
FOLDER = PROJECT / ".engines"
PACKAGES = ("@anthropic-ai/claude-code@2.1.197", "@openai/codex@0.171.0")
VARIABLE = "MESHTUI_TEST_ENGINES"
"""Where the programs are; without it these tests are not collected."""
INSIDE = "MESHTUI_TEST_ENGINES_INSIDE"
NAMESPACES = (("unshare", "-n"), ("unshare", "-r", "-n"))
INSTALL_SECONDS = 300


def install() -> None:
    """Have the programs in :data:`FOLDER`, in these versions."""
    stamp = FOLDER / "installed"
    wanted = "\n".join(PACKAGES)
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "package.json").write_text('{"private": true}\n')
    print(f"Installing {' and '.join(PACKAGES)} into {FOLDER.name}", flush=True)
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--save-exact", *PACKAGES]
    try:
        done = subprocess.run(
            command, cwd=FOLDER, stdin=subprocess.DEVNULL, timeout=INSTALL_SECONDS, check=False
        )
    except FileNotFoundError:
        sys.exit("test-engines: found no npm; install Node.js 20 or newer")
    except subprocess.TimeoutExpired:
        sys.exit(f"test-engines: npm did not end within {INSTALL_SECONDS} s")
    if done.returncode != 0:
        sys.exit(f"test-engines: npm install failed (exit {done.returncode})")
    stamp.write_text(wanted)


def namespace() -> tuple[str, ...]:
    """The command that makes a network namespace here; ends the program where none does."""
    said = "found no unshare"
    for command in NAMESPACES:
        try:
            done = subprocess.run([*command, "true"], capture_output=True, timeout=20, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            said = str(error)
            continue
        if done.returncode == 0:
            return command
        said = done.stderr.decode("utf-8", "replace").strip() or said
    sys.exit(
        f"test-engines: cannot make a network namespace here ({said}). The agents are tested only where "
        "they reach no network: run this on Linux as root, or where user namespaces are allowed."
    )


def raise_loopback() -> None:
    """Set the interface ``lo`` of this namespace up."""
    import fcntl
    import socket
    import struct

    get_flags, set_flags, up = 0x8913, 0x8914, 0x1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        asked = struct.pack("16sh22x", b"lo", 0)
        flags = struct.unpack("16sh22x", fcntl.ioctl(handle, get_flags, asked))[1]
        fcntl.ioctl(handle, set_flags, struct.pack("16sh22x", b"lo", flags | up))


def main(arguments: list[str]) -> int:
    """Outside: install, make the namespace, start this again in it. Inside: run the tests."""
    if os.environ.get(INSIDE) == "1":
        raise_loopback()
        os.environ.pop(INSIDE)
        import pytest

        return int(pytest.main(["tests/engines", *arguments]))
    command = namespace()
    install()
    environment = {**os.environ, VARIABLE: str(FOLDER), INSIDE: "1"}
    again = [*command, sys.executable, "-m", "tests.engines.isolate", *arguments]
    return subprocess.run(again, cwd=PROJECT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
