"""The console in a browser."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from meshtui.cli.options import RUN_DIR, chosen_run_dir, existing, json_option
from meshtui.cli.output import flush, print_json, print_line
from meshtui.core.errors import Held, InvalidInput

TOKEN = "MESHTUI_SERVE_TOKEN"
SHORTEST_TOKEN = 16


@click.command()
@click.option(
    "--run-dir",
    "run_dirs",
    multiple=True,
    type=RUN_DIR,
    help="A run directory to show; may be given several times (default: $MESHTUI_RUN_DIR, else ./.meshtui).",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="0: any free one."
)
@click.option(
    "--allow-control", is_flag=True, help="Let whoever opens the page act; without it they only look."
)
@click.option("--token", help=f"What to open the page with; better in ${TOKEN}, which others cannot list.")
@click.option("--name", "names", multiple=True, help="Another name this machine is reached by.")
@json_option
def serve(
    run_dirs: tuple[Path, ...],
    host: str,
    port: int,
    allow_control: bool,
    token: str | None,
    names: tuple[str, ...],
    as_json: bool,
) -> int:
    """Show the console in a browser, on this machine only and read-only unless told otherwise.

    \b
    meshtui serve --run-dir .meshtui
    MESHTUI_SERVE_TOKEN=$(openssl rand -hex 16) meshtui serve --host 0.0.0.0
    """
    try:
        from meshtui.web import ConsoleServer, is_loopback
    except ImportError as error:
        raise InvalidInput(
            f"serve needs the extra web ({error.name} is missing): pip install 'meshtui[web]'"
        ) from error
    # The consoles behind the pages have no use for it.
    token = token if token is not None else os.environ.get(TOKEN)
    os.environ.pop(TOKEN, None)
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise InvalidInput(
            f"the token is too short to keep anybody out: at least {SHORTEST_TOKEN} characters"
        )
    if token is None and not is_loopback(host):
        raise InvalidInput(
            f"--host {host} can be reached by others: set a token, in ${TOKEN} or with --token"
        )
    roots = run_dirs or (chosen_run_dir(),)
    for root in roots:
        existing(root)
    server = ConsoleServer(_command(roots, allow_control), host, port, token=token, names=names)

    def ready(actual: int) -> None:
        address = f"[{host}]" if ":" in host else host
        url = f"http://{address}:{actual}/"
        if as_json:
            print_json({"url": url, "pid": os.getpid(), "read_only": not allow_control})
        else:
            may = "who opens it may act" if allow_control else "read-only"
            opened = f"{url}?token=… (the one you set)" if token is not None else url
            print_line(f"{opened}: {may}; ctrl+c ends it")
        flush()

    try:
        return asyncio.run(server.run(ready))
    except OSError as error:
        raise Held(
            f"cannot listen on {host} port {port}: {error.strerror or error}; name another --port"
        ) from error


def _command(roots: Sequence[Path], allow_control: bool) -> str:
    """The line that starts one console."""
    words = [sys.executable, "-P", "-m", "meshtui"]
    for root in roots:
        words += ["--run-dir", str(root.absolute())]
    return "exec " + shlex.join(words if allow_control else [*words, "--read-only"])
