"""The selected loop, in six parts: state, diff, gates, proof, findings, log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from meshtui.core.mesh.detail import LOOP_PARTS, Diff, Kept, Log, LoopDetail, Proof
from meshtui.core.mesh.verify import Check
from meshtui.core.mesh.view import LoopRow, MissionView
from meshtui.messages import LoopRead
from meshtui.text import clean
from meshtui.widgets import describe_loop as describe
from meshtui.widgets.paint import now_of
from meshtui.widgets.pane import PartsPane
from meshtui.widgets.prose import Fact, Item
from meshtui.widgets.tabs import TabSpec


class LoopPane(PartsPane):
    """The files of a loop."""

    PARTS: ClassVar[tuple[str, ...]] = LOOP_PARTS

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.row: LoopRow | None = None
        self.mission: MissionView | None = None
        self.read: dict[str, LoopDetail] = {}
        """What was read of each part."""
        self.output: tuple[tuple[str, str], ...] = ()
        self.live = False
        self.checks: dict[str, tuple[Check, ...]] = {}
        """What verifying came to, by the key of the loop."""
        self.verifying: str | None = None

    def show_loop(self, mission: MissionView | None, row: LoopRow | None) -> None:
        """Show what the list knows of ``row`` until its files are read."""
        another = row is None or self.row is None or row.key != self.row.key
        if not another and row == self.row and mission == self.mission:
            return
        self.row, self.mission = row, mission
        if another:
            self.read, self.output, self.live = {}, (), False
        self.draw(top=another)

    def show_read(self, message: LoopRead) -> None:
        """Show a part that was read of the loop, if it is still the selected one."""
        if self.row is None or self.row.key != message.key or message.value is None:
            return
        self.read[message.part] = message.value
        if message.part == "log":
            self.output, self.live = message.output, message.live
        self.draw()

    def show_checks(self, key: str, checks: tuple[Check, ...] | None) -> None:
        """Show what verifying the proof of the loop ``key`` came to; ``None`` while it is not known."""
        if checks is None:
            self.checks.pop(key, None)
            self.verifying = key
        else:
            self.checks[key] = checks
            self.verifying = None if self.verifying == key else self.verifying
        self.draw(top=self.part == "proof")

    def verified_nothing(self, key: str) -> None:
        """Verifying failed; say nothing about the proof."""
        if self.verifying == key:
            self.verifying = None
            self.draw()

    def tick(self) -> None:
        """Let times go on."""
        if self.row is not None and self.row.status == "running" and self.part == "state":
            self.draw()

    def title(self) -> str:
        return clean(self.row.loop_id) if self.row is not None else "Loop"

    def follows(self) -> bool:
        return self.part == "log"

    def tabs(self) -> Sequence[TabSpec]:
        row = self.row
        files = gates = ""
        if row is not None:
            diff = self.read.get("diff")
            count = len(diff.files) if isinstance(diff, Diff) else len(row.changed_files)
            files = str(count) if count else ""
            gates = f"{len(row.gates_passed)}/{len(row.gates_selected)}" if row.gates_selected else ""
        checks = self.checks.get(row.key) if row is not None else None
        bad = checks is not None and any(check.verdict == "mismatch" for check in checks)
        seal = "" if checks is None else "✖" if bad else "✔"
        return (
            TabSpec("state", "State"),
            TabSpec("diff", "Diff", files),
            TabSpec("gates", "Gates", gates, "bad" if row is not None and row.gates_failed else "muted"),
            TabSpec("proof", "Proof", seal, "bad" if bad else "ok"),
            TabSpec("findings", "Findings"),
            TabSpec("log", "Log", "●" if row is not None and row.active_workers else "", "run"),
        )

    def items(self) -> Sequence[Item]:
        row, value = self.row, self.read.get(self.part)
        if row is None:
            return [
                Fact("", "Select a loop to see what it does, what it changed and what proves it.", "muted")
            ]
        if self.part == "state":
            kept = value if isinstance(value, Kept) else None
            return describe.state_items(row, self.mission, kept, now_of(self))
        if self.part == "diff":
            return describe.diff_items(row, value if isinstance(value, Diff) else None)
        if self.part == "proof":
            proof = value if isinstance(value, Proof) else None
            return describe.proof_items(proof, self.checks.get(row.key), self.verifying == row.key)
        if self.part == "log":
            return describe.log_items(value if isinstance(value, Log) else None, self.output)
        return self._listed(row, value)

    def _listed(self, row: LoopRow, value: LoopDetail | None) -> Sequence[Item]:
        from meshtui.core.mesh.detail import Finding, Gate

        entries = value if isinstance(value, tuple) else None
        if self.part == "gates":
            gates = None if entries is None else tuple(one for one in entries if isinstance(one, Gate))
            return describe.gate_items(row, gates)
        findings = None if entries is None else tuple(one for one in entries if isinstance(one, Finding))
        return describe.finding_items(row, findings)
