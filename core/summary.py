"""Reads of a run directory only what a fleet's table and inbox need, at a cost that its length does not change.

Nothing is written. A look costs a few ``stat`` calls while nothing changed; what is pending is counted and
not read, and of what is finished only what ended badly is looked at.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meshtui.core.clock import Clock, SystemClock, from_iso
from meshtui.core.fleet import Active, LaneSummary
from meshtui.core.journal import read_block
from meshtui.core.journal_sums import DAY_MS, SLICE, JournalSums
from meshtui.core.lane.attention import MOST_FAILED, attention_of
from meshtui.core.lane.index import IndexState, list_records, read_state
from meshtui.core.lane.lease import Holder, holder
from meshtui.core.lane.poll import SETTLED_NS, FolderPoll
from meshtui.core.lane.reader import (
    Budget,
    FinishedRows,
    RecordFolder,
    lane_id_in,
    lane_state,
    parked_since,
    quarantined_rows,
    runner_view,
    stall_counts_of,
    valid_index,
)
from meshtui.core.lane.rows import finished_row, held_of, read_object, record_row, spent_of
from meshtui.core.models.names import safe_of
from meshtui.core.run_dir import LanePaths, RunDir
from meshtui.core.view import Attention, LaneView, Row

if TYPE_CHECKING:
    from meshtui.core.mesh.view import LoopRow, MissionsReader, MissionView

DOUBT_SECONDS = 5.0
"""An index that was out of step for so long is not waited for any more."""
MOST_FILES = 4000
"""Files of records and results that one look reads at most."""


class SummaryReader:
    """Summarises one run directory again and again; belongs to one thread."""

    def __init__(self, run_dir: RunDir, *, name: str | None = None, clock: Clock | None = None) -> None:
        self.run_dir = run_dir
        self.name = name if name is not None else run_dir.root.name
        self._clock = clock or SystemClock()
        self._paths = run_dir.lane
        self._marks: tuple[int, ...] | None = None
        self._active = RecordFolder(self._paths.active, "active", restat=True)
        self._stalled = RecordFolder(self._paths.stalled, "stalled")
        self._quarantine_poll = FolderPoll(self._paths.quarantine)
        self._quarantined: tuple[Row, ...] = ()
        self._pending = PendingCount(self._paths)
        self._bad = BadRows(run_dir)
        self._journal = JournalSums(run_dir.events)
        self._missions: MissionsReader | None = None
        self._parked_at: dict[str, int] = {}
        self._lane_id = lane_id_in(run_dir)
        self._attention_for: LaneView | None = None
        self._attention: tuple[Attention, ...] = ()

    def peek(self) -> bool:
        """Whether something may have changed since the last look: a dozen ``stat`` calls."""
        return self._marks is None or self._marks != self._stamps()

    def _stamps(self) -> tuple[int, ...]:
        paths = self._paths
        found = [
            _stamp(path)
            for path in (
                paths.pending,
                paths.active,
                paths.results,
                paths.stalled,
                paths.quarantine,
                paths.status,
                paths.paused,
                paths.runner_lock,
                *self.run_dir.mission_places,
            )
        ]
        found.append(_size(self.run_dir.events))
        return tuple(found)

    @property
    def unread(self) -> bool:
        """Whether there is more to read of what the last look found."""
        return not self._journal.complete

    def refresh(self) -> LaneSummary:
        """The summary as of now."""
        marks = self._stamps()
        now_ns = time.time_ns()
        # A folder that changed just now may change again without its time telling.
        fresh = any(0 <= now_ns - mark < SETTLED_NS for mark in marks[:-1])
        self._marks = None if fresh else marks
        now = self._clock.now_ms()
        self._journal.refresh(now)
        missions = self._refresh_missions()
        if not self._paths.root.is_dir():
            return self._summary(LaneView(self.run_dir.root, exists=False), missions, now)
        budget = Budget(MOST_FILES)
        self._active.refresh(budget)
        self._stalled.refresh(budget)
        if self._quarantine_poll.changed():
            self._quarantined = quarantined_rows(self._paths)
        self._bad.refresh(budget)
        status = read_object(self._paths.status) or {}
        return self._summary(self._view(status), missions, now)

    def _view(self, status: dict[str, Any]) -> LaneView:
        """As much of the lane as decides what needs somebody."""
        held_by: Holder = holder(self._paths, self._clock)
        stall_counts = stall_counts_of(status)
        waiting = self._held_row(status)
        self._pending.refresh()
        return LaneView(
            run_dir=self.run_dir.root,
            exists=True,
            lane_id=self._lane_id,
            state=lane_state(self._paths, status, held_by, active=bool(self._active.names)),
            updated_at=from_iso(status.get("updated_at")),
            runner=runner_view(held_by),
            stall_counts=stall_counts,
            pending=(waiting,) if waiting is not None else (),
            active=self._active.rows,
            done=tuple(row for row in self._bad.rows if row.section == "done"),
            failed=tuple(row for row in self._bad.rows if row.section == "failed"),
            stalled=tuple(self._parked(row, stall_counts) for row in self._stalled.rows),
            quarantined=self._quarantined,
            stop_waits=self._pending.stop_waits,
            held=held_of(status, [waiting.key] if waiting is not None else ()),
            spent=spent_of(status),
            journal=self._journal.survivors,
        )

    def _held_row(self, status: dict[str, Any]) -> Row | None:
        """The record that waits for a usage limit, as long as it is pending."""
        limit = status.get("limit")
        name = limit.get("record") if isinstance(limit, dict) else None
        if not isinstance(name, str) or not name or "/" in name or name[0] == ".":
            return None
        path = self._paths.pending / name
        return record_row(name, "pending", read_object(path)) if path.is_file() else None

    def _parked(self, row: Row, stall_counts: dict[str, int]) -> Row:
        since = self._parked_at.get(row.key)
        if since is None:
            since = parked_since(self._paths, row)
            if since is not None:
                self._parked_at[row.key] = since
        return replace(row, stalls=stall_counts.get(row.envelope_id, row.attempt), finished_at=since)

    def _refresh_missions(self) -> tuple[MissionView, ...]:
        if self._missions is None:
            if not any(place.is_dir() for place in self.run_dir.mission_places):
                return ()
            from meshtui.core.mesh.view import MissionsReader

            self._missions = MissionsReader(self.run_dir.root, clock=self._clock)
        return self._missions.refresh()

    def _summary(self, view: LaneView, missions: tuple[MissionView, ...], now: int) -> LaneSummary:
        if view != self._attention_for or view.journal:
            # Whether a survivor still runs is asked of the system; all else stands in the view.
            self._attention_for = view
            self._attention = attention_of(view, self._paths) if view.exists else ()
        items = self._attention
        if missions:
            from meshtui.core.mesh.view import mission_attention

            items += tuple(
                item for one in reversed(missions) for item in mission_attention(one, self.run_dir.root)
            )
        pending = self._pending.refresh() if view.exists else 0
        self._journal.point(now, pending)
        return LaneSummary(
            run_dir=self.run_dir.root,
            name=self.name,
            exists=view.exists,
            state=view.state,
            runner=view.runner,
            pending=pending,
            depths=self._journal.depths,
            active=_active(view.active, missions),
            stalls=sum(view.stall_counts.values()),
            cost_today=_cost(self._journal.cost, missions, now - now % DAY_MS),
            missions=missions,
            attention=items,
        )


def _stamp(path: Path) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _active(rows: tuple[Row, ...], missions: tuple[MissionView, ...]) -> Active | None:
    """What runs: the lane's phase, else the loop that entered its phase last."""
    loops: list[tuple[int, LoopRow]] = []
    for mission in missions:
        if mission.runner.alive:
            loops += [
                (loop.marks[-1][0] if loop.marks else loop.started_at or 0, loop)
                for loop in mission.loops
                if loop.status == "running"
            ]
    if rows:
        row = rows[0]
        return Active(row.title, row.started_at, row.deadline_at, more=len(loops), engine=row.engine)
    if not loops:
        return None
    since, loop = max(loops, key=lambda item: item[0])
    title = f"{loop.loop_id}/{loop.phase}" if loop.phase else loop.loop_id
    return Active(title, since or None, more=len(loops) - 1)


def _cost(lane: float | None, missions: tuple[MissionView, ...], midnight: int) -> float | None:
    """What the lane's phases cost today, and the loops that began today."""
    found = [] if lane is None else [lane]
    for mission in missions:
        for loop in mission.loops:
            cost = loop.budget_used.get("cost_usd")
            if isinstance(cost, (int, float)) and (loop.started_at or loop.updated_at or 0) >= midnight:
                found.append(float(cost))
    return sum(found) if found else None


class PendingCount:
    """How many records wait: from the index where it is in step, else counted."""

    def __init__(self, paths: LanePaths) -> None:
        self._paths = paths
        self._poll = FolderPoll(paths.pending)
        self._batches = FolderPoll(paths.batches)
        self._count = 0
        self.stop_waits = False
        """Whether the newest of them is a stop."""

    def refresh(self) -> int:
        """The number now."""
        if self._poll.changed() or self._batches.changed():
            self._count, self.stop_waits = self._look()
        return self._count

    def _look(self) -> tuple[int, bool]:
        decided = list_records(self._paths.batches)
        if not decided:
            state = read_state(self._paths)
            folder = self._paths.pending
            if state is not None and not state.dirty and state.mtimes.get("pending") == _stamp(folder):
                return state.counts.get("pending", 0), state.stop_waits
            return self._of(set(list_records(folder)))
        # A batch that was decided counts, wherever its records stand by now.
        names = set(list_records(self._paths.pending))
        for batch in decided:
            names.update(list_records(self._paths.batches / batch))
        return self._of(names, *decided)

    def _of(self, names: set[str], *batches: str) -> tuple[int, bool]:
        """Their number, and whether the newest is a stop, which is read to know it."""
        if not names:
            return 0, False
        newest = max(names)
        places = [self._paths.pending, *(self._paths.batches / batch for batch in batches)]
        found = next((read_object(place / newest) for place in places if (place / newest).is_file()), None)
        envelope = (found or {}).get("envelope")
        return len(names), isinstance(envelope, dict) and envelope.get("kind") == "stop"


class BadRows:
    """The newest finished envelopes that ended badly, newest first, at most :data:`MOST_FAILED` of each kind.

    Which those are is followed in the index's own log, so that a long past costs neither time nor memory.
    Where the index is out of step, because another tool works the lane, the results are looked at instead.
    """

    def __init__(self, run_dir: RunDir) -> None:
        self._run_dir = run_dir
        self._paths = run_dir.lane
        self._log = self._paths.ids / "outcomes.jsonl"
        self._poll = FolderPoll(self._paths.results)
        self._claimed_poll = FolderPoll(self._paths.claimed)
        self._offset = 0
        self._inode: int | None = None
        self._bad: dict[str, int] = {}
        """File name of a result to its time, of those that ended badly, as far as the log tells."""
        self._rows: dict[str, tuple[int, Row]] = {}
        self._doubt: float | None = None
        self._scan: FinishedRows | None = None
        self.rows: tuple[Row, ...] = ()

    def refresh(self, budget: Budget) -> None:
        """Bring the rows up to date."""
        changed = self._poll.changed() or self._claimed_poll.changed()
        if not changed and self._doubt is None and self._scan is None:
            return
        index = valid_index(self._paths)
        if index is not None and not index.dirty:
            self._doubt, self._scan = None, None
            self._follow(index)
            return
        now = time.monotonic()
        self._doubt = now if self._doubt is None else self._doubt
        # For a moment it always is: between a change and the note of it.
        if self._inode is None or now - self._doubt >= DOUBT_SECONDS:
            self._scan = self._scan or FinishedRows(self._run_dir, only_bad=True)
            self._scan.refresh(budget)
            self.rows = tuple(row for row in (*self._scan.failed, *self._scan.done) if row.loaded)

    def _follow(self, index: IndexState) -> None:
        if not index.failed and not index.bad:
            self.rows = ()
        self._read_log()
        if not (index.failed or index.bad):
            self._bad.clear()
            self._rows.clear()
            return
        newest = sorted(self._bad.items(), key=lambda item: -item[1])
        kept: list[tuple[str, int]] = []
        for name, at in newest:
            if (self._paths.results / name).is_file():
                kept.append((name, at))
                if len(kept) >= 2 * MOST_FAILED:
                    break
            else:
                # It was archived: the envelope is queued again, or was dropped.
                del self._bad[name]
        self._build(kept)

    def _read_log(self) -> None:
        try:
            state = os.stat(self._log)
        except OSError:
            self._bad, self._offset, self._inode = {}, 0, None
            return
        if state.st_ino != self._inode or state.st_size < self._offset:
            self._bad, self._offset, self._inode = {}, 0, state.st_ino
        while self._offset < state.st_size:
            block = read_block(self._log, self._offset, SLICE * 4)
            whole = block[: block.rfind(b"\n") + 1]
            if not whole:
                return
            self._offset += len(whole)
            for line in whole.splitlines():
                self._take(line)

    def _take(self, line: bytes) -> None:
        """One line of the log: nearly all say ``done``, which only matters for what was bad before."""
        if line.endswith(b'"done"]') and not self._bad:
            return
        try:
            name, at, _size, status = json.loads(line)
        except (ValueError, TypeError, RecursionError):
            return
        if status in ("failed", "bad") and isinstance(name, str) and isinstance(at, int) and "/" not in name:
            self._bad[name] = at
        elif isinstance(name, str):
            self._bad.pop(name, None)

    def _build(self, kept: list[tuple[str, int]]) -> None:
        new = {
            name.removesuffix(".json")
            for name, at in kept
            if (known := self._rows.get(name)) is None or known[0] != at
        }
        claimed = {}
        if new:
            for record in list_records(self._paths.claimed):
                safe = safe_of(record)
                if safe in new:
                    claimed[safe] = record
        rows: dict[str, tuple[int, Row]] = {}
        for name, at in kept:
            known = self._rows.get(name)
            if known is not None and known[0] == at:
                rows[name] = known
            else:
                row = self._row(name, claimed.get(name.removesuffix(".json"), name))
                if row is not None:
                    rows[name] = (at, row)
        self._rows = rows
        self.rows = tuple(row for _, row in rows.values())

    def _row(self, name: str, key: str) -> Row | None:
        result = read_object(self._paths.results / name)
        if result is None:
            return None
        record = read_object(self._paths.claimed / key)
        return finished_row(key, "failed" if result.get("status") == "failed" else "done", record, result)
