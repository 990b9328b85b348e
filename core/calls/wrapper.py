"""The shell program around a call: it leads the call's session and writes down how the program ended.

It is plain POSIX shell, so that nothing of meshtui has to stay alive or loadable while a program works for
hours. It starts no process besides the program, but for the ``mv`` that gives ``exit.json`` its name where
nobody follows the call, which it turns into with ``exec``. Times are computed in the shell for the same reason.

Until it is told to go on it does not start the program: a shell takes as long to begin as a disk to make a
file durable, and the two can happen at once; and who it is has been written down by then (``process.json``),
which a shell would take half of its start for. It is told through the line, a socket to whoever started it, and
tells it there when ``exit.json`` lacks only its name: a starter that is still there renames the file, which
takes it less time than a program its start, and says so. When the starter is gone before the first word came,
the wrapper ends and nothing was started.

A shell passes on only variables whose names it could itself use; others (``FOO-BAR``) do not arrive.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from meshtui.core import identity

SHELL = "/bin/sh"
LOCK_FD = 3
"""Where wrapper and program have the call's lock open."""
LINE_FD = 4
"""Where the wrapper, and nobody it starts, has the line to its starter."""
GO = b"go\n"
"""What the wrapper waits to be told before it starts the program."""
NAMED = b"named\n"
"""What it waits to be told at the end; when the line is closed instead it names ``exit.json`` itself."""
EXIT_TEMPORARY = ".exit.json.tmp"
"""What becomes ``exit.json``; whole from the single write that makes it."""

# The wrapper's own `sleep` carries no call id and no lock: it is no part of what the call left behind.
# The variables are named so that no program's own environment is changed by them.
# Positional: folder, working directory, milliseconds between the epoch and /proc/uptime (empty where there
# is none), mv; then the program and its arguments.
SCRIPT = r"""
set +eux
trap '_meshtui_end=143' TERM
trap '_meshtui_end=130' INT
trap '_meshtui_end=129' HUP
_meshtui_end= _meshtui_code=0
_meshtui_dir=$1 _meshtui_cwd=$2 _meshtui_epoch=$3 _meshtui_mv=$4
shift 4
_meshtui_now() {
    if [ -z "$_meshtui_epoch" ] || ! read -r _meshtui_up _meshtui_line < /proc/uptime; then
        _meshtui_ended=$(date -u +%Y-%m-%dT%H:%M:%S.000Z)
        return
    fi
    _meshtui_ms=$((_meshtui_epoch + ${_meshtui_up%%.*} * 1000 + (1${_meshtui_up#*.} - 100) * 10))
    _meshtui_s=$((_meshtui_ms / 1000)) _meshtui_ms=$((_meshtui_ms % 1000 + 1000))
    # A day count to a date, with years that begin in March.
    _meshtui_d=$((_meshtui_s / 86400 + 719468)) _meshtui_s=$((_meshtui_s % 86400))
    _meshtui_y=$((_meshtui_d / 146097)) _meshtui_d=$((_meshtui_d % 146097))
    _meshtui_n=$(((_meshtui_d - _meshtui_d / 1460 + _meshtui_d / 36524 - _meshtui_d / 146096) / 365))
    _meshtui_d=$((_meshtui_d - (365 * _meshtui_n + _meshtui_n / 4 - _meshtui_n / 100)))
    _meshtui_m=$(((5 * _meshtui_d + 2) / 153))
    _meshtui_d=$((_meshtui_d - (153 * _meshtui_m + 2) / 5 + 101))
    _meshtui_m=$((_meshtui_m < 10 ? _meshtui_m + 103 : _meshtui_m + 91))
    _meshtui_y=$((_meshtui_y * 400 + _meshtui_n + (_meshtui_m <= 102)))
    _meshtui_h=$((_meshtui_s / 3600 + 100))
    _meshtui_n=$((_meshtui_s / 60 % 60 + 100))
    _meshtui_s=$((_meshtui_s % 60 + 100))
    _meshtui_ended=$_meshtui_y-${_meshtui_m#1}-${_meshtui_d#1}T${_meshtui_h#1}:${_meshtui_n#1}
    _meshtui_ended=$_meshtui_ended:${_meshtui_s#1}.${_meshtui_ms#1}Z
} 2>/dev/null
read -r _meshtui_line <&4 || [ -n "$_meshtui_end" ] || exit 0
if [ -n "$_meshtui_end" ]; then
    _meshtui_code=$_meshtui_end
elif cd "$_meshtui_cwd"; then
    unset OLDPWD
    case $1 in
        */*) "$@" 4>&- ;;
        *) (exec "$@" 4>&-) ;;
    esac
    _meshtui_code=$?
else
    _meshtui_code=126
fi
umask 077
_meshtui_now
until printf '{"code":%d,"ended_at":"%s"}\n' "$_meshtui_code" "$_meshtui_ended" > "$_meshtui_dir/.exit.json.tmp" \
    && [ -w "$_meshtui_dir" ] && [ ! -d "$_meshtui_dir/exit.json" ]; do
    MESHTUI_CALL_ID= sleep 1 3>&- 4>&-
done 2>/dev/null
# Without a reader the line would end the shell.
trap '' PIPE
exec 2>/dev/null
[ -z "$_meshtui_end" ] && echo >&4 && read -r _meshtui_line <&4 && exit 0
LC_ALL=C exec "$_meshtui_mv" -f "$_meshtui_dir/.exit.json.tmp" "$_meshtui_dir/exit.json" 4>&-
"""

_DEFAULT_SIGNALS = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGPIPE,
    signal.SIGALRM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCHLD,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGXFSZ,
)
"""A shell cannot catch what was ignored when it started, and programs would inherit it."""


def resolve(program: str, env: Mapping[str, str]) -> str:
    """The path of ``program`` as ``env`` finds it; the name itself where it does not.

    With a path the shell can start it directly, and no name is taken for one of the shell's own commands.
    """
    if "/" in program:
        return program
    for folder in env.get("PATH", os.defpath).split(os.pathsep):
        if not folder.startswith("/"):
            continue
        candidate = f"{folder}/{program}"
        if os.access(candidate, os.X_OK) and not Path(candidate).is_dir():
            return candidate
    return program


def spawn(
    folder: Path, argv: Sequence[str], cwd: Path, env: Mapping[str, str], *, now_ms: int, fds: tuple[int, ...]
) -> int:
    """Start the wrapper of the call in ``folder`` and return its pid; a child that must be reaped.

    ``fds`` are stdin, stdout, stderr, the lock and the wrapper's end of the line. No other descriptor, signal
    mask or ignored signal of this process is passed on. Raises ``OSError``.
    """
    arguments = [
        SHELL,
        "-c",
        SCRIPT,
        "meshtui-call",
        str(folder),
        str(cwd),
        _epoch(now_ms),
        _mv(),
        resolve(argv[0], env),
        *argv[1:],
    ]
    safe = [_above(fd) for fd in fds]
    try:
        while True:
            actions: list[tuple[int, ...]] = [
                (os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(safe)
            ]
            actions += [(os.POSIX_SPAWN_CLOSE, fd) for fd in _inheritable() if fd > LINE_FD]
            try:
                return os.posix_spawn(
                    SHELL,
                    arguments,
                    env,
                    file_actions=actions,
                    setsid=True,
                    setsigmask=(),
                    setsigdef=_DEFAULT_SIGNALS,
                )
            except OSError as error:
                # Another thread closed one of them in between; some systems mind.
                if error.errno != errno.EBADF:
                    raise
    finally:
        for fd, own in zip(safe, fds, strict=True):
            if fd != own:
                os.close(fd)


def _above(fd: int) -> int:
    """``fd`` under a number that none of the wrapper's own descriptors takes."""
    if fd > LINE_FD:
        return fd
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, LINE_FD + 1)


def _inheritable() -> list[int]:
    found = []
    for name in os.listdir("/dev/fd"):
        try:
            fd = int(name)
            if os.get_inheritable(fd):
                found.append(fd)
        except OSError:
            continue
    return found


def _epoch(now_ms: int) -> str:
    """What to add to ``/proc/uptime`` to get ``now_ms``, in milliseconds; empty where there is none."""
    if not sys.platform.startswith("linux"):
        return ""
    try:
        seconds, hundredths = identity.read_proc("/proc/uptime").split()[0].split(b".")
    except (OSError, ValueError, IndexError):
        return ""
    if len(hundredths) != 2:
        return ""
    return str(now_ms - int(seconds) * 1000 - int(hundredths) * 10)


@cache
def _mv() -> str:
    return next((path for path in ("/bin/mv", "/usr/bin/mv") if os.access(path, os.X_OK)), "mv")
