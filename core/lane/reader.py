"""Reads a lane into frozen views, again and again, reading only what changed.

It never writes: looking at another tool's directory leaves it as it is. A folder is listed when its
modification time moved, a record is read once under its name (an active one whenever its file changed).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from operator import is_
from pathlib import Path
from typing import Any, cast

from meshtui.core import storage
from meshtui.core.clock import Clock, SystemClock, from_iso
from meshtui.core.engines.base import Usage
from meshtui.core.errors import InvalidInput, MeshtuiError, StorageError
from meshtui.core.journal import JournalFollower
from meshtui.core.lane.attention import MOST_FAILED, attention_of
from meshtui.core.lane.create import lane_id_of
from meshtui.core.lane.index import (
    IndexState,
    Outcomes,
    folder_time,
    list_records,
    read_state,
    tally,
)
from meshtui.core.lane.lease import Holder, holder
from meshtui.core.lane.poll import FolderPoll
from meshtui.core.lane.rows import finished_row, held_of, read_object, record_row, spent_of, unread_row
from meshtui.core.models.names import safe_of
from meshtui.core.run_dir import LanePaths, RunDir
from meshtui.core.view import (
    HISTORY_ROWS,
    JOURNAL_ROWS,
    CallView,
    Counts,
    Detail,
    LaneState,
    LaneView,
    Row,
    RunnerView,
    Section,
)

DEPTH_POINTS = 120
GLANCE_ROWS = 1000
"""More rows than this wait for the second view."""
WARNING_EVENTS = 50
"""How far back in the journal warnings are looked for."""
RAW_LIMIT = 64 << 10


class Budget:
    """How many files a refresh may still read."""

    def __init__(self, files: int) -> None:
        self.left = files
        self.exhausted = False

    def take(self) -> bool:
        """Whether one more file may be read."""
        if self.left <= 0:
            self.exhausted = True
            return False
        self.left -= 1
        return True


class RecordFolder:
    """The rows of one record folder."""

    def __init__(self, path: Path, section: Section, *, restat: bool = False) -> None:
        self._path = path
        self._section = section
        self._restat = restat
        self._poll = FolderPoll(path)
        self._rows: dict[str, Row] = {}
        self._stamps: dict[str, tuple[int, int]] = {}
        self.names: list[str] = []
        self.rows: tuple[Row, ...] = ()
        self._complete = False

    def refresh(self, budget: Budget, *, limit: int | None = None) -> None:
        """List the folder if it changed, and read what is new; with ``limit`` there are no more rows."""
        changed = self._poll.changed()
        if not changed and self._complete and not self._restat:
            return
        if changed:
            names = list_records(self._path)
            if names == self.names and self._complete and not self._restat and len(self._rows) == len(names):
                return
            self.names = names
        if self._restat:
            self._drop_rewritten()
        names = self.names[:limit]
        # In a long folder all but a few rows are there: no step of Python for each of them.
        found = list(map(self._rows.get, names))
        self._complete = len(names) == len(self.names)
        for place in [place for place, row in enumerate(found) if row is None or not row.loaded]:
            if budget.take():
                name = names[place]
                found[place] = record_row(name, self._section, read_object(f"{self._path}/{name}"))
            else:
                self._complete = False
                found[place] = found[place] or unread_row(names[place], self._section)
        rows = cast("tuple[Row, ...]", tuple(found))
        self._rows = dict(zip(names, rows, strict=True))
        if len(rows) != len(self.rows) or not all(map(is_, rows, self.rows)):
            self.rows = rows

    def forget(self) -> None:
        """Read everything again at the next refresh."""
        self._rows.clear()
        self._poll.forget()

    def _drop_rewritten(self) -> None:
        """Forget the rows whose file is not the one that was read."""
        stamps = {}
        for name in self.names:
            try:
                state = os.stat(self._path / name)
                stamps[name] = (state.st_mtime_ns, state.st_ino)
            except OSError:
                stamps[name] = (0, 0)
            if stamps[name] != self._stamps.get(name):
                self._rows.pop(name, None)
        self._stamps = stamps


class FinishedRows:
    """The newest finished envelopes, done and failed, from their results."""

    def __init__(self, run_dir: RunDir, *, only_bad: bool) -> None:
        self._paths = run_dir.lane
        self._only_bad = only_bad
        self._most = MOST_FAILED if only_bad else HISTORY_ROWS
        self._outcomes = Outcomes(self._paths)
        self._results_poll = FolderPoll(self._paths.results)
        self._claimed_poll = FolderPoll(self._paths.claimed)
        self._claimed: dict[str, str] = {}
        self.claimed_count = 0
        self._rows: dict[str, tuple[tuple[int, int, str], Row]] = {}
        self._loaded = False
        self._complete = False
        self.done: tuple[Row, ...] = ()
        self.failed: tuple[Row, ...] = ()
        self.counts = (0, 0, 0)

    def refresh(self, budget: Budget) -> None:
        """Bring rows and counts up to date."""
        claimed = self._claimed_poll.changed()
        results = self._results_poll.changed()
        if claimed:
            names = list_records(self._paths.claimed)
            self.claimed_count = len(names)
            self._claimed = {safe_of(name): name for name in names}
        if not self._loaded:
            self._outcomes.load()
            self._loaded = True
        if results:
            self._outcomes.refresh()
            self.counts = tally(self._outcomes.statuses())
        if claimed or results or not self._complete:
            self._build(budget)

    def _build(self, budget: Budget) -> None:
        newest = sorted(self._outcomes.known.items(), key=lambda item: item[1][0], reverse=True)
        rows: dict[str, tuple[tuple[int, int, str], Row]] = {}
        done: list[Row] = []
        failed: list[Row] = []
        self._complete = True
        for name, stamp in newest:
            into, section = (done, "done") if stamp[2] in ("done", "bad") else (failed, "failed")
            if stamp[2] not in ("done", "bad", "failed") or len(into) >= self._most:
                continue
            if self._only_bad and stamp[2] == "done":
                continue
            row = self._row(name, stamp, "done" if section == "done" else "failed", budget)
            if row.loaded:
                rows[name] = (stamp, row)
            else:
                self._complete = False
            into.append(row)
        self._rows = rows
        self.done, self.failed = tuple(done), tuple(failed)

    def _row(self, name: str, stamp: tuple[int, int, str], section: Section, budget: Budget) -> Row:
        key = self._claimed.get(name.removesuffix(".json"), name)
        known = self._rows.get(name)
        if known is not None and known[0] == stamp and known[1].key == key:
            return known[1]
        if not budget.take():
            return unread_row(key, section)
        result = read_object(self._paths.results / name)
        record = read_object(self._paths.claimed / key)
        if result is None:
            return replace(unread_row(key, section), loaded=True, error="the result cannot be read")
        return finished_row(key, section, record, result)


class LaneReader:
    """Reads one lane. ``refresh`` belongs to one thread; ``detail`` may be called from any.

    Without ``history`` the rows of what is done are left out, and results are only looked at when the
    index does not know that none of them ended badly: for one snapshot of a lane with a long past.
    """

    def __init__(self, run_dir: RunDir, *, clock: Clock | None = None, history: bool = True) -> None:
        self._run_dir = run_dir
        self._paths = run_dir.lane
        self._clock = clock or SystemClock()
        self._history = history
        self._pending = RecordFolder(self._paths.pending, "pending")
        self._active = RecordFolder(self._paths.active, "active", restat=True)
        self._stalled = RecordFolder(self._paths.stalled, "stalled")
        self._withdrawn = RecordFolder(self._paths.withdrawn, "withdrawn")
        self._finished = FinishedRows(run_dir, only_bad=not history)
        self._journal = JournalFollower(run_dir.events, JOURNAL_ROWS if history else WARNING_EVENTS)
        self._quarantine_poll = FolderPoll(self._paths.quarantine)
        self._quarantined: tuple[Row, ...] = ()
        self._index: IndexState | None = None
        self._parked_at: dict[str, int] = {}
        self._glance = True
        """Whether nothing was read yet: the first of many views is to be there soon."""

    def refresh(
        self, *, budget: int = 500, thorough: bool = False, pending_limit: int | None = None
    ) -> LaneView:
        """The lane as it is now, reading at most ``budget`` files that are new.

        ``complete`` is ``False`` until everything was read, and the first view of a long lane has only the
        beginning of its queue; ``thorough`` reads all records again, in case
        one was changed in place. With ``pending_limit`` the view has no more pending rows than that; they
        are counted all the same.
        """
        if not self._paths.root.is_dir():
            # A directory of missions has a journal without having a lane.
            self._journal.refresh()
            return LaneView(self._run_dir.root, exists=False, journal=self._journal.events)
        reads = Budget(budget)
        glance = self._glance and budget < GLANCE_ROWS
        self._glance = False
        if glance and pending_limit is None:
            pending_limit = GLANCE_ROWS
        folders = (self._active, self._stalled, self._pending, self._withdrawn)
        for folder in folders:
            if thorough:
                folder.forget()
            folder.refresh(reads, limit=pending_limit if folder is self._pending else None)
        self._refresh_quarantine()
        later = self._refresh_finished(reads, glance=glance)
        self._journal.refresh()
        cut = glance and len(self._pending.rows) < len(self._pending.names)
        return self._view(complete=not (reads.exhausted or later or cut))

    def _refresh_finished(self, reads: Budget, *, glance: bool) -> bool:
        """Look at what is finished, as far as the index does not tell enough; whether it is left for later."""
        self._index = None if self._history and not glance else valid_index(self._paths)
        if self._index is not None and self._history:
            # Counts at once, the rows with the next view, unless there are only few.
            if self._index.done + self._index.failed > GLANCE_ROWS:
                return True
            self._index = None
        if self._index is None or self._index.failed or self._index.bad:
            self._finished.refresh(reads)
        return False

    def _view(self, *, complete: bool) -> LaneView:
        status = read_object(self._paths.status) or {}
        held = holder(self._paths, self._clock)
        decided = self._decided()
        pending = self._pending.rows
        if decided and len(pending) == len(self._pending.names):
            pending = (*pending, *decided)
        stall_counts = stall_counts_of(status)
        active = self._active.rows
        used = Usage.from_json(status.get("usage"))
        view = LaneView(
            run_dir=self._run_dir.root,
            exists=True,
            lane_id=lane_id_in(self._run_dir),
            state=lane_state(self._paths, status, held, active=bool(self._active.names)),
            updated_at=from_iso(status.get("updated_at")),
            runner=runner_view(held),
            active_envelope_id=active[0].envelope_id if active else None,
            active_phase=(active[0].phase or active[0].label or active[0].envelope_id) if active else None,
            stall_counts=stall_counts,
            pending=pending,
            active=active,
            done=self._finished.done,
            failed=self._finished.failed,
            stalled=tuple(self._parked(row, stall_counts) for row in self._stalled.rows),
            withdrawn=self._withdrawn.rows[::-1][:HISTORY_ROWS],
            quarantined=self._quarantined,
            counts=self._counts(len(self._pending.names) + len(decided)),
            complete=complete,
            depth_history=self._depths(),
            stop_waits=any(row.kind == "stop" for row in self._pending.rows[-1:]),
            held=held_of(status, self._pending.names),
            spent=spent_of(status),
            tokens=used.tokens if used is not None else None,
            cost_usd=used.cost_usd if used is not None else None,
            warnings=self._warnings(),
            journal=self._journal.events,
        )
        return replace(view, attention=attention_of(view, self._paths))

    def _parked(self, row: Row, stall_counts: dict[str, int]) -> Row:
        """A stalled row with how often it stalled, and since when it waits for an answer."""
        since = row.finished_at or self._parked_at.get(row.key)
        if since is None:
            since = parked_since(self._paths, row)
            if since is not None:
                self._parked_at[row.key] = since
        stalls = stall_counts.get(row.envelope_id, row.attempt)
        same = stalls == row.stalls and since == row.finished_at
        return row if same else replace(row, stalls=stalls, finished_at=since)

    # -- parts --------------------------------------------------------------------------------------

    def _counts(self, pending: int) -> Counts:
        if self._index is not None:
            done, failed = self._index.done, self._index.failed
            claimed = self._index.counts.get("claimed", 0)
        else:
            done, failed, _ = self._finished.counts
            claimed = self._finished.claimed_count
        return Counts(
            pending=pending,
            active=len(self._active.names),
            claimed=claimed,
            stalled=len(self._stalled.names),
            withdrawn=len(self._withdrawn.names),
            quarantined=len(self._quarantined),
            done=done,
            failed=failed,
        )

    def _decided(self) -> tuple[Row, ...]:
        """The records of batches that were decided and are not carried through yet."""
        batches = [self._paths.batches / name for name in list_records(self._paths.batches)]
        names = [(batch, name) for batch in batches for name in list_records(batch)]
        have = set(self._pending.names) if names else set()
        return tuple(
            record_row(name, "pending", read_object(batch / name))
            for batch, name in names
            if name not in have
        )

    def _refresh_quarantine(self) -> None:
        if not self._quarantine_poll.changed():
            return
        self._quarantined = quarantined_rows(self._paths)

    def _depths(self) -> tuple[tuple[int, int], ...]:
        points = [
            (event.at, depth)
            for event in self._journal.events
            if isinstance(depth := event.data.get("depth"), int) and not isinstance(depth, bool)
        ]
        return tuple(points[-DEPTH_POINTS:])

    def _warnings(self) -> tuple[str, ...]:
        found = []
        for event in self._journal.events[-WARNING_EVENTS:]:
            if event.event == "call_left_running":
                names = ", ".join(str(name) for name in event.data.get("ended") or ())
                found.append(f"{event.subject}: left running and ended: {names}")
        return tuple(found[-5:])

    # -- detail -------------------------------------------------------------------------------------

    def detail(self, key: str, section: Section | None = None) -> Detail | None:
        """Everything about one row, read now; ``None`` if it is in no folder any more."""
        folders: list[tuple[Path, Section]] = [
            (self._paths.active, "active"),
            (self._paths.pending, "pending"),
            (self._paths.stalled, "stalled"),
            (self._paths.withdrawn, "withdrawn"),
            (self._paths.quarantine, "quarantined"),
            (self._paths.claimed, "done"),
        ]
        for folder, place in folders:
            path = folder / key
            if not os.path.lexists(path):
                continue
            if place == "quarantined":
                return self._quarantined_detail(path)
            return self._record_detail(path, place)
        if (self._paths.results / key).is_file():
            return self._record_detail(self._paths.results / key, "done", result_only=True)
        return None

    def _quarantined_detail(self, path: Path) -> Detail:
        note = read_object(path.with_name(f"{path.name}.reason.json")) or {}
        reason = note.get("reason")
        raw: str | None = None
        try:
            raw = storage.read_bytes(path, limit=RAW_LIMIT).decode("utf-8", "replace")
        except (OSError, StorageError) as error:
            reason = reason or str(error)
        return Detail(path.name, "quarantined", None, raw, problem=str(reason) if reason else None)

    def _record_detail(self, path: Path, section: Section, *, result_only: bool = False) -> Detail:
        # Needed for details only: the first view must not wait for them.
        from meshtui.core.models.envelope import is_handoff_phase
        from meshtui.core.models.handoff import read_handoff

        record = None if result_only else read_object(path)
        envelope_id = record.get("envelope_id") if record else None
        result = self._result_of(path, envelope_id, result_only)
        place: Section = section
        if result is not None and section == "done":
            place = "failed" if result.get("status") == "failed" else "done"
        envelope = record.get("envelope") if record else None
        handoff = None
        if isinstance(envelope, dict) and is_handoff_phase(envelope) and result is not None:
            try:
                handoff = read_handoff(str(result.get("output") or ""), envelope)
            except InvalidInput:
                handoff = None
        question = read_object(self._paths.question(str(envelope_id))) if section == "stalled" else None
        call_id = (result or {}).get("call") if section != "active" else None
        call_id = call_id or (record or {}).get("call")
        return Detail(
            key=path.name,
            section=place,
            record=record,
            raw=None,
            result=result,
            handoff=handoff,
            question=question,
            call=self._call_view(call_id) if isinstance(call_id, str) else None,
            problem=None if record is not None or result_only else "the file cannot be read as a record",
        )

    def _result_of(self, path: Path, envelope_id: object, result_only: bool) -> dict[str, Any] | None:
        if result_only:
            return read_object(path)
        if not isinstance(envelope_id, str):
            return None
        return read_object(self._paths.result(envelope_id))

    def _call_view(self, call_id: str) -> CallView | None:
        from meshtui.core.calls import Call

        try:
            call = Call.attach(self._run_dir, call_id)
        except InvalidInput:
            return None
        done = call.exit()
        who = call.process()
        state = call.state()
        call.close()
        return CallView(
            call_id=call_id,
            folder=call.folder,
            stdout=call.stdout,
            stderr=call.stderr,
            state=state,
            exit_code=done.code if done else None,
            pid=who.pid if who else None,
        )


def lane_state(paths: LanePaths, status: dict[str, Any], held: Holder, *, active: bool) -> LaneState:
    """The state of a lane with this ``loop.json`` and this holder; ``active``: whether a record is active."""
    known = status.get("state")
    if not held.alive and (active or paths.runner_lock.is_dir()):
        return "dead"
    if paths.paused.exists():
        return "paused"
    if known == "running" and not held.alive:
        return "waiting"
    if known in ("waiting", "running", "parked", "stopped", "failed"):
        state: LaneState = known
        return state
    return "running" if held.alive else "waiting"


def valid_index(paths: LanePaths) -> IndexState | None:
    """The index on disk, if no folder of finished work changed since it was saved."""
    state = read_state(paths)
    if state is None:
        return None
    same = all(state.mtimes.get(name) == folder_time(paths, name) for name in ("results", "claimed"))
    return state if same else None


def parked_since(paths: LanePaths, row: Row) -> int | None:
    """Since when a parked record waits for an answer."""
    question = read_object(paths.question(row.envelope_id)) or {}
    since = from_iso(question.get("raised_at"))
    if since is None:
        since = from_iso((read_object(paths.result(row.envelope_id)) or {}).get("finished_at"))
    return since


def quarantined_rows(paths: LanePaths) -> tuple[Row, ...]:
    """What could not be read as a record, with the reasons."""
    rows = []
    for name in list_records(paths.quarantine):
        if name.endswith(".reason.json"):
            continue
        note = read_object(paths.quarantine / f"{name}.reason.json") or {}
        reason = note.get("reason")
        rows.append(
            Row(
                key=name,
                section="quarantined",
                envelope_id=safe_of(name),
                kind="unknown",
                finished_at=from_iso(note.get("at")),
                error=reason if isinstance(reason, str) else None,
            )
        )
    return tuple(rows)


def stall_counts_of(status: dict[str, Any]) -> dict[str, int]:
    """How often each envelope stalled, as ``loop.json`` says."""
    value = status.get("stall_counts")
    if not isinstance(value, dict):
        return {}
    return {key: item for key, item in value.items() if isinstance(item, int) and not isinstance(item, bool)}


def lane_id_in(run_dir: RunDir) -> str:
    """What the lane is called; its folder's name where nothing else is readable."""
    try:
        return lane_id_of(run_dir)
    except MeshtuiError:
        return run_dir.root.name


def runner_view(held: Holder) -> RunnerView:
    """Who holds the lease, as far as it is known."""
    owner = held.owner
    if owner is None:
        return RunnerView(alive=held.alive, foreign=held.foreign)
    return RunnerView(
        alive=held.alive,
        pid=owner.who.pid if owner.who else None,
        host=owner.who.host if owner.who else None,
        heartbeat_at=owner.heartbeat_at,
        foreign=held.foreign,
    )


DetailLoader = Callable[[str], Detail | None]
