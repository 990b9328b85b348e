"""A loop's state, told again from its proof and checkpoint where its own file is damaged.

Both are synced before the state is written; a power cut may leave the state empty or cut.
"""

from __future__ import annotations

from typing import Any

from meshtui.core.clock import from_iso
from meshtui.core.models.mesh_names import ENDED


def rebuilt_state(proof: dict[str, Any], checkpoint: dict[str, Any]) -> dict[str, Any]:
    """The fields of ``loop-state.json`` that are known; empty objects stand for missing files.

    A proof that is not older than the checkpoint is how the loop ended; otherwise it is at work or interrupted.
    """
    mine = checkpoint.get("meshtui")
    progress: dict[str, Any] = mine if isinstance(mine, dict) else {}
    found: dict[str, Any] = {}
    if isinstance(progress.get("iteration"), int):
        found["iteration"] = progress["iteration"]
    if isinstance(progress.get("used"), dict):
        found["budget_used"] = progress["used"]
    status = proof.get("status")
    ended = from_iso(proof.get("generated_at"))
    saved = from_iso(checkpoint.get("created_at"))
    if status in ENDED and ended is not None and (saved is None or ended >= saved):
        verdict = proof.get("human_verdict")
        answered = status == "handoff" and isinstance(verdict, dict)
        handoff = proof.get("handoff")
        blockers = proof.get("blockers")
        found.update(
            # A verdict on the whole result is taken by the integration loop at its next run.
            status="queued" if answered else status,
            current_phase="finalizer" if status == "completed" else "handoff",
            blockers=[str(item) for item in blockers] if isinstance(blockers, list) else [],
            last_action=f"loop_{status}",
        )
        if isinstance(handoff, dict):
            found["handoff"] = handoff
    elif progress.get("started_at"):
        found.update(
            status="running", current_phase=progress.get("phase", "triage"), last_action="interrupted"
        )
    return found
