"""Commands that only look: status, events, logs."""

from __future__ import annotations

import time
from contextlib import closing
from glob import escape as glob_escape
from pathlib import Path
from typing import Any

import click

from meshtui.cli.completing import ANYWHERE, subjects
from meshtui.cli.options import existing, json_option, run_dir_option
from meshtui.cli.output import flush, plain, print_json, print_line
from meshtui.core.clock import SystemClock, iso
from meshtui.core.errors import InvalidInput, NotFound
from meshtui.core.run_dir import RunDir

MOST_CHARACTERS = 200
FOLLOW_SECONDS = 0.1


@click.command()
@run_dir_option
@json_option
def status(run_dir: Path, as_json: bool) -> None:
    """The run directory at this moment."""
    from meshtui.core.snapshot import take_snapshot

    root = existing(run_dir)
    snapshot = take_snapshot(root.root, SystemClock()).as_json()
    if as_json:
        print_json(snapshot)
        return
    for line in status_lines(snapshot, used=_lane_used(root)):
        print_line(line)


def _lane_used(run: RunDir) -> str:
    """What the lane's phases used in all, in words; empty where no engine reported anything."""
    from meshtui.core.engines.base import Usage
    from meshtui.core.lane.rows import read_object

    usage = Usage.from_json((read_object(run.lane.status) or {}).get("usage"))
    return _used(usage.tokens, usage.cost_usd) if usage is not None else ""


def _used(tokens: object, cost_usd: object) -> str:
    """``12,345 tokens, $0.42``, without what is not known."""
    parts = [f"{tokens:,} tokens"] if isinstance(tokens, int) else []
    parts += [f"${cost_usd:,.2f}"] if isinstance(cost_usd, (int, float)) else []
    return ", ".join(parts)


def status_lines(snapshot: dict[str, Any], *, used: str = "") -> list[str]:
    """A snapshot in a few lines for people, with what the lane ``used``."""
    lines: list[str] = []
    if snapshot["kind"] == "fleet":
        for lane in snapshot["lanes"]:
            state = lane["lane"]["state"] if lane["lane"] else "no lane"
            depth = lane["lane"]["queue_depth"] if lane["lane"] else 0
            lines.append(f"{lane['run_dir']}: {state}, {depth} pending")
    elif snapshot["lane"] is None and not snapshot["missions"]:
        lines.append(f"no lane in {snapshot['run_dir']} yet; begin with: meshtui enqueue --prompt …")
    elif snapshot["lane"] is not None:
        lines += _lane_lines(snapshot)
        if used:
            lines.append(f"used: {used}")
    for mission in snapshot["missions"]:
        lines += _mission_lines(mission)
    for item in snapshot["attention"]:
        lines.append(f"needs you: {item['kind']} {item['subject']}: {item['text']}")
        lines += [f"    {way['label']}: {way['command']}" for way in item["exits"]]
    return lines + [f"warning: {text}" for text in snapshot["warnings"]]


def _mission_lines(mission: dict[str, Any]) -> list[str]:
    verdict = {True: "done", False: "not ok", None: "no proof yet"}[mission["ok"]]
    lines = [f"mission {mission['mission_id']}: {verdict}"]
    for loop in mission["loops"]:
        text = f"    {loop['loop_id']}: {loop['status']}"
        if loop["status"] == "running":
            text += (
                f", {loop['phase']}, iteration {loop['iteration']}, {len(loop['workers']['active'])} workers"
            )
        spent = loop["budget"]["used"]
        if used := _used(spent.get("tokens"), spent.get("cost_usd")):
            text += f", {used}"
        if loop["blockers"]:
            text += f": {loop['blockers'][0]}"
        lines.append(text)
    return lines


def _lane_lines(snapshot: dict[str, Any]) -> list[str]:
    lane, counts = snapshot["lane"], snapshot["queue"]["counts"]
    runner = lane["runner"]
    who = "no runner"
    if runner["alive"]:
        age = runner["heartbeat_age_s"]
        who = f"runner {runner['pid'] or 'unknown'}" + ("" if age is None else f", heartbeat {age:.0f} s ago")
    lines = [f"{lane['lane_id']}: {lane['state']}, {who}"]
    if lane["active_envelope_id"]:
        lines.append(f"active: {lane['active_envelope_id']} ({lane['active_phase']})")
    lines.append(", ".join(f"{name} {counts[name]}" for name in counts if name != "claimed"))
    return lines


@click.command()
@run_dir_option
@json_option
@click.option("--tail", default=50, show_default=True, type=click.IntRange(min=1), help="How many.")
@click.option("--follow", "-f", is_flag=True, help="Go on as more happens.")
def events(run_dir: Path, as_json: bool, tail: int, follow: bool) -> None:
    """The journal, newest last."""
    from meshtui.core.journal import JournalFollower

    if as_json and follow:
        raise click.UsageError("--json prints one document and ends; leave --follow out")
    follower = JournalFollower(existing(run_dir).events, tail)
    follower.refresh()
    if as_json:
        print_json(
            [
                {
                    "seq": item.seq,
                    "at": iso(item.at),
                    "event": item.event,
                    "subject": item.subject,
                    "data": item.data,
                    "pid": item.pid,
                }
                for item in follower.events
            ]
        )
        return
    last = 0
    while True:
        for item in follower.events:
            if item.seq > last:
                data = " ".join(f"{key}={_short(value)}" for key, value in item.data.items())
                print_line(f"{iso(item.at)} {item.event} {item.subject}" + (f" {data}" if data else ""))
                last = item.seq
        if not follow:
            return
        # A pipe would keep it until there is more.
        flush()
        time.sleep(FOLLOW_SECONDS)
        follower.refresh()


def _short(value: object) -> str:
    """A value as it stands in a line; what is long is counted, and stands in the document that --json prints."""
    text = str(value)
    return f"({len(value)})" if isinstance(value, (list, dict)) and len(text) > MOST_CHARACTERS else text


@click.command()
@run_dir_option
@json_option
@click.argument("subject", metavar="(ENVELOPE | LOOP | CALL)", shell_complete=subjects(*ANYWHERE))
@click.option("--stderr", "error_log", is_flag=True, help="What it wrote to standard error.")
@click.option("--tail", type=click.IntRange(min=1), help="Only the last lines.")
@click.option("--follow", "-f", is_flag=True, help="Go on until the call ends.")
def logs(run_dir: Path, as_json: bool, subject: str, error_log: bool, tail: int | None, follow: bool) -> None:
    """What the last call of an envelope, a loop (LOOP or MISSION/LOOP) or the call of that name wrote."""
    from meshtui.core.calls import Call, OutputFollower

    run = existing(run_dir)
    call_id = _last_call(run_dir, subject)
    call = Call.attach(run, call_id)
    path = call.stderr if error_log else call.stdout
    if as_json:
        done = call.exit()
        print_json(
            {
                "subject": subject,
                "call": call_id,
                "state": call.state(),
                "exit_code": done.code if done else None,
                "stdout": str(call.stdout),
                "stderr": str(call.stderr),
                "tail": _tail_lines(path, tail or 200),
            }
        )
        return
    if tail is not None:
        for line in _tail_lines(path, tail):
            print_line(line)
        if not follow:
            return
    follower = OutputFollower(path)
    if tail is not None:
        follower.offset = follower.total
    with closing(follower):
        while True:
            over = call.state() in ("ended", "lost")
            while chunk := follower.read():
                click.echo(plain(chunk.decode("utf-8", "replace")), nl=False)
            if over or not follow:
                return
            call.wait(FOLLOW_SECONDS)


def _tail_lines(path: Path, count: int) -> list[str]:
    from meshtui.core.calls import tail_text

    return tail_text(path, 1 << 20).splitlines()[-count:]


def _last_call(run_dir: Path, subject: str) -> str:
    from meshtui.core.lane.queue import Queue
    from meshtui.core.lane.rows import read_object

    run = existing(run_dir)
    found = Queue(run.lane, SystemClock()).find(subject)
    if found is None and (call := _loop_call(run, subject)) is not None:
        return call
    if found is None:
        raise NotFound(f"no envelope {subject!r} in {run.root}; see: meshtui status")
    result = read_object(run.lane.result(subject)) or {}
    for call in (found[1].call, result.get("call")):
        if isinstance(call, str):
            return call
    if (call := _earlier_call(run, subject)) is not None:
        return call
    raise NotFound(f"envelope {subject!r} has not run, or its call was pruned: there is no log")


def _earlier_call(run: RunDir, subject: str) -> str | None:
    """The last call of an envelope that waits to run again: of the attempt that stalled, else of an earlier run."""
    from meshtui.core.lane.rows import read_object
    from meshtui.core.mesh.files import read_lines

    stalled = [line.get("call") for line in read_lines(run.lane.stalls) if line.get("envelope_id") == subject]
    result = run.lane.result(subject)
    stamps = [
        path.name.removeprefix(f"{result.stem}.").removesuffix(".json")
        for path in run.lane.history.glob(f"{glob_escape(result.stem)}.*.json")
    ]
    runs = [
        (read_object(run.lane.history / f"{result.stem}.{stamp}.json") or {}).get("call")
        for stamp in sorted((one for one in stamps if one.isdigit()), key=int)
    ]
    # A call's name begins with the time it was started.
    calls = [call for call in (*stalled, *runs) if isinstance(call, str) and call.partition("-")[0].isdigit()]
    return max(calls, key=lambda call: int(call.partition("-")[0]), default=None)


def _loop_call(run: RunDir, subject: str) -> str | None:
    """The call a loop started last, or ``subject`` itself where it is a call."""
    from meshtui.core.calls import Call
    from meshtui.core.mesh.files import read_lines
    from meshtui.core.mesh.places import mission_places
    from meshtui.core.models.mesh_names import is_mesh_id

    try:
        if Call.attach(run, subject).about() is not None:
            return subject
    except InvalidInput:
        # Not a call's name.
        pass
    mission, _, loop = subject.rpartition("/")
    if not is_mesh_id(loop):
        return None
    for paths in reversed(mission_places(run)):
        if mission and paths.mission_id != mission:
            continue
        lines = [line for line in read_lines(paths.handles) if line.get("loop_id") == loop]
        calls = [str(line["call"]) for line in lines if line.get("event") == "started" and "call" in line]
        if calls:
            return calls[-1]
        if paths.loop(loop).state.exists():
            raise NotFound(f"loop {loop} of mission {paths.mission_id} has started no call yet")
    return None
