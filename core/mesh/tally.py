"""The gates of a whole mission, each with one result, counted from its loops' proofs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def gates_of(proofs: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The gates of several loops together: ``selected``, and each of them in one of the other three lists.

    One that failed anywhere has failed; one that passed in one loop and was not run in another has passed.
    """
    found: dict[str, dict[str, None]] = {}
    for name in ("selected", "failed", "passed", "skipped"):
        listed = found[name] = {}
        for proof in proofs:
            gates = proof.get("gate_result")
            ids = gates.get(f"{name}_gates") if isinstance(gates, Mapping) else None
            listed.update((str(gate), None) for gate in (ids if isinstance(ids, list) else []))
    worse: set[str] = set()
    for name in ("failed", "passed", "skipped"):
        found[name] = {gate: None for gate in found[name] if gate not in worse}
        worse.update(found[name])
    return {name: list(found[name]) for name in ("selected", "passed", "failed", "skipped")}
