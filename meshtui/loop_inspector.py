"""Reads what the details of a loop show, in a thread of its own, and again whenever its files change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual.message import Message

from meshtui.core.mesh.detail import Diff, Log, LoopDetail, LoopPart, read_part, signature
from meshtui.core.mesh.view import LoopRow, MissionView
from meshtui.inspector import Newest, streams_of
from meshtui.messages import LoopRead


@dataclass(frozen=True)
class Question:
    """Which part of which loop is looked at."""

    mission: MissionView
    row: LoopRow
    part: LoopPart


ReadPart = Callable[[MissionView, LoopRow, LoopPart], LoopDetail]


class LoopInspector(Newest[Question]):
    """Serves the newest question, and follows a running loop until another is asked."""

    name = "meshtui-inspect-loop"

    def __init__(self, post: Callable[[Message], object], read: ReadPart = read_part) -> None:
        super().__init__(post)
        self._read = read

    def ask(self, mission: MissionView, row: LoopRow, part: LoopPart) -> None:
        """Read ``part`` of ``row``."""
        self._ask(Question(mission, row, part))

    def serve(self, request: Question, version: int) -> None:
        mission, row, part = request.mission, request.row, request.part
        seen: object = None
        while True:
            mark: object = signature(mission, row)
            if mark != seen:
                seen = mark
                try:
                    value = self._read(mission, row, part)
                except Exception as error:  # noqa: BLE001 - shown; the thread goes on with the next loop
                    self._post(LoopRead(row.key, part, None, problem=f"cannot read {row.key}: {error}"))
                    return
                self._tell(row, part, value)
                if isinstance(value, Log) and value.calls:
                    if self._follow(row, value, version, mission, seen):
                        return
                    continue
            if row.status != "running" or self._interrupted(version):
                return

    def _follow(self, row: LoopRow, log: Log, version: int, mission: MissionView, seen: object) -> bool:
        """Tell when a worker begins to write, to another file; ``True`` once something else is asked for."""
        known = [streams_of(call) for _slot, call in log.calls]
        while True:
            if self._interrupted(version):
                return True
            if signature(mission, row) != seen:
                return False
            now = [streams_of(call) for _slot, call in log.calls]
            if now != known:
                known = now
                self._tell(row, "log", log)

    def _tell(self, row: LoopRow, part: LoopPart, value: LoopDetail) -> None:
        if isinstance(value, Diff):
            # What colours the first files is loaded here, and not while somebody waits for the page.
            from meshtui.widgets.syntax import lexer_of

            for file in value.files[:3]:
                lexer_of(file.path)
        self._post(LoopRead(row.key, part, value))
