"""The selected loop, in six parts: state, diff, gates, proof, findings, log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

from meshtui.core.mesh.detail import (
    LOOP_PARTS,
    Diff,
    Kept,
    Log,
    LoopDetail,
    LoopPart,
    Proof,
    home_of,
    read_files,
)
from meshtui.core.mesh.verify import Check
from meshtui.core.mesh.view import LoopRow, MissionView
from meshtui.messages import LoopRead
from meshtui.text import clean
from meshtui.widgets import describe_loop as describe
from meshtui.widgets.describe_proof import proof_items
from meshtui.widgets.document import Chain, Document, heading
from meshtui.widgets.log_doc import written_last
from meshtui.widgets.logs import CallLogs
from meshtui.widgets.paint import now_of
from meshtui.widgets.pane import Outside, PartsPane
from meshtui.widgets.patch_doc import PatchDoc
from meshtui.widgets.prose import Body, Item, ItemsDoc
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
        self._logs = CallLogs()
        self._patch: tuple[Diff, PatchDoc] | None = None
        self._log: tuple[object, Chain] | None = None
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
            self.read, self._patch, self._log = {}, None, None
            self._logs.keep(())
        self.draw(top=another)

    def show_read(self, message: LoopRead) -> None:
        """Show a part that was read of the loop, if it is still the selected one."""
        if self.row is None or self.row.key != message.key or message.value is None:
            return
        self.read[message.part] = message.value
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

    def on_unmount(self) -> None:
        self._logs.keep(())

    def tick(self) -> None:
        """Let times go on."""
        if self.row is not None and self.row.status == "running" and self.part == "state":
            self.draw()

    def title(self) -> str:
        return clean(self.row.loop_id) if self.row is not None else "Loop"

    def follows(self) -> bool:
        return self.part == "log"

    def live(self) -> bool:
        return self.row is None or not self.row.ended

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
            return [Body("Select a loop to see what it does, what it changed and what proves it.", "muted")]
        if self.part == "state":
            kept = value if isinstance(value, Kept) else None
            return describe.state_items(row, self.mission, kept, now_of(self))
        if self.part == "diff":
            return describe.diff_items(row, value if isinstance(value, Diff) else None)
        if self.part == "proof":
            proof = value if isinstance(value, Proof) else None
            return proof_items(proof, self.checks.get(row.key), self.verifying == row.key, self._log_path)
        if self.part == "log":
            return describe.log_items(value if isinstance(value, Log) else None)
        return self._listed(row, value)

    def document(self) -> Document | None:
        value = self.read.get(self.part)
        if isinstance(value, Diff) and value.lines:
            if self._patch is None or self._patch[0] is not value:
                doc = PatchDoc(value.lines, source=value.source, cut=value.cut, problem=value.problem)
                # The same patch, read again, stays the same document.
                doc = self._patch[1] if self._patch is not None and self._patch[1].same(doc) else doc
                self._patch = (value, doc)
            return self._patch[1] if self._patch[1].files else None
        if isinstance(value, Log) and self.part == "log" and value.calls:
            return self._workers(value)
        return None

    def _workers(self, log: Log) -> Document:
        """The loop's events, and below them what its workers print."""
        written = [(slot, call, tuple(written_last([call.stdout, call.stderr]))) for slot, call in log.calls]
        key = (log.lines, tuple((slot, paths) for slot, _call, paths in written))
        if self._log is None or self._log[0] != key:
            parts: list[Document] = [ItemsDoc(describe.log_items(log))]
            for slot, call, paths in written:
                parts.append(heading(clean(slot)))
                parts += self._logs.parts(call, paths) or [heading("nothing written yet")]
            self._logs.keep(tuple(path for _slot, _call, paths in written for path in paths))
            last = [path for _slot, _call, paths in written for path in paths]
            self._log = (key, Chain(parts, path=last[-1] if last else None, title="log"))
        return self._log[1]

    def _log_path(self, name: str) -> Path | None:
        """A log as a proof or a gate names it, if it lies in the run directory."""
        home = home_of(self.mission) if self.mission is not None else None
        if home is None or not name:
            return None
        root = home.root.resolve()
        path = (root / name).resolve()
        return path if path.is_relative_to(root) else None

    def json_value(self) -> tuple[Any, Path | None] | None:
        if self.row is None or self.mission is None:
            return None
        found, path = read_files(self.mission, self.row, cast("LoopPart", self.part))
        if not found:
            return None
        return (next(iter(found.values())) if path.suffix == ".json" else found), path

    def outside(self) -> Outside | None:
        if self.row is None or self.mission is None:
            return None
        if self.part == "diff":
            return self._work_file()
        if self.part == "log":
            doc = self.document()
            return Outside(doc.path) if doc is not None else None
        return None

    def _work_file(self) -> Outside | None:
        """The file whose change is in sight, where its worktree still is; else the patch is handed over."""
        doc = self.prose.doc
        found = doc.file_at(self.prose.top[0]) if isinstance(doc, PatchDoc) else None
        if found is None or self.row is None or not self.row.worktree:
            return None
        tree = Path(self.row.worktree).resolve()
        path = tree / found[0].path
        inside = path.resolve().is_relative_to(tree) and path.is_file() and not path.is_symlink()
        return Outside(path, work=True, line=found[1]) if inside else None

    def _listed(self, row: LoopRow, value: LoopDetail | None) -> Sequence[Item]:
        from meshtui.core.mesh.detail import Finding, Gate

        entries = value if isinstance(value, tuple) else None
        if self.part == "gates":
            gates = None if entries is None else tuple(one for one in entries if isinstance(one, Gate))
            return describe.gate_items(row, gates, self._log_path)
        findings = None if entries is None else tuple(one for one in entries if isinstance(one, Finding))
        return describe.finding_items(row, findings)
