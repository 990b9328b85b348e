"""The command line: one line for every error, one JSON document where ``--json`` asks for it.

Commands live in modules that are imported when they are used, so that ``meshtui status`` in a script's
loop does not pay for the console.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from meshtui.core.errors import MeshtuiError


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with the contract's code."""
    if "_MESHTUI_COMPLETE" in os.environ:
        from meshtui.cli.completing import answer

        answer()
        sys.exit(0)
    from meshtui.cli.output import settle_streams

    code = run(arguments)
    settle_streams()
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    from meshtui.cli.output import flush, lose_stdout
    from meshtui.cli.root import root

    try:
        code = root.main(
            args=list(arguments) if arguments is not None else None,
            prog_name="meshtui",
            standalone_mode=False,
        )
        flush()
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx is not None else "meshtui"
        return _say(f"{error.format_message()} (see: {where} --help)", 2)
    except click.Abort:
        return _say("cancelled", 130)
    except click.ClickException as error:
        return _say(error.format_message(), 2)
    except MeshtuiError as error:
        return _say(str(error), error.exit_code)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output left; nothing more can be said to it, not even at exit.
        lose_stdout()
        return 0
    except OSError as error:
        subject = f"{error.filename}: " if error.filename else ""
        return _say(f"{subject}{error.strerror or error}", 1)
    return code if isinstance(code, int) else 0


def _say(text: str, code: int) -> int:
    from meshtui.cli.output import plain_line

    try:
        print(f"meshtui: {plain_line(text)}", file=sys.stderr, flush=True)
    except OSError:
        # Nobody reads our errors; the exit code still tells.
        return code
    return code
