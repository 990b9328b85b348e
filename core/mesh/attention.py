"""What of missions needs the operator, with the only legal ways out."""

from __future__ import annotations

from shlex import quote

from meshtui.core.mesh.view import LoopView, MissionView
from meshtui.core.run_dir import RunDir
from meshtui.core.view import Attention, AttentionKind, Exit

SURVIVOR = "still running: "
DEPENDENCY = "dependency "


def mission_attention(missions: tuple[MissionView, ...], run_dir: RunDir) -> tuple[Attention, ...]:
    """The items of every mission: runners that are gone first, then loops in the order of the plan.

    A loop that is only blocked by another one is not listed: the other one is.
    """
    where = f"--run-dir {quote(str(run_dir.root))}"
    items: list[Attention] = []
    for mission in missions:
        if mission.state == "dead":
            items.append(_dead(mission, where))
        for loop in mission.loops:
            items += _loop(mission, loop, where)
    return tuple(items)


def _dead(mission: MissionView, where: str) -> Attention:
    name = mission.mission_id
    pid = f" (pid {mission.runner.pid})" if mission.runner.pid else ""
    return Attention(
        kind="dead",
        subject=name,
        text=f"the mission's runner{pid} is gone; what it left running is adopted by the next one",
        since=mission.runner.heartbeat_at,
        exits=(_resume(name, where),) if mission.repo is not None else (),
        key=name,
    )


def _resume(name: str, where: str) -> Exit:
    return Exit("resume", f"meshtui resume {quote(name)} {where}", "resume")


def _loop(mission: MissionView, loop: LoopView, where: str) -> list[Attention]:
    name = quote(mission.mission_id)
    proof = Exit("proof", f"meshtui proof {name} {quote(loop.loop_id)} {where}", "proof")
    again = (_resume(mission.mission_id, where), proof) if mission.repo is not None else (proof,)
    if loop.status == "handoff":
        merged = loop.loop_id == mission.integration_loop_id
        subject = name if merged else f"{name}/{quote(loop.loop_id)}"
        ways: tuple[Exit, ...] = (
            Exit("approve", f"meshtui answer {subject} --approve --reason … {where}", "approve"),
            Exit("reject", f"meshtui answer {subject} --reject --reason … {where}", "reject"),
        )
        return [_item("handoff", loop, loop.blockers, ways if mission.repo is not None else (proof,))]
    left = [text for text in loop.blockers if text.startswith(SURVIVOR)]
    found = [_item("survivor", loop, left, (proof,))] if left else []
    own = [text for text in loop.blockers if not text.startswith((DEPENDENCY, SURVIVOR))]
    if loop.status == "failed":
        found.append(_item("failed", loop, own, again))
    elif loop.status == "blocked" and (own or not loop.blockers):
        spent = all(text.startswith("budget: ") for text in own) and bool(own)
        kind: AttentionKind = "budget" if spent else "blocked"
        found.append(_item(kind, loop, own, again))
    return found


def _item(kind: AttentionKind, loop: LoopView, why: object, exits: tuple[Exit, ...]) -> Attention:
    lines = [str(text) for text in why] if isinstance(why, (list, tuple)) else []
    more = f" (and {len(lines) - 3} more)" if len(lines) > 3 else ""
    return Attention(
        kind=kind,
        subject=loop.key,
        text="; ".join(lines[:3]) + more if lines else loop.status,
        since=loop.updated_at,
        exits=exits,
        key=loop.key,
    )
