"""Which record a runner works next: names in order from a list, each claimed when its turn comes."""

from __future__ import annotations

from meshtui.core.errors import InvalidInput
from meshtui.core.lane.index import Index, list_records
from meshtui.core.lane.lease import Lease
from meshtui.core.lane.limits import Limits
from meshtui.core.lane.poll import FolderPoll
from meshtui.core.lane.settle import LaneFiles
from meshtui.core.models.record import Record


class Intake:
    """Claims for one runner, which has the lease.

    The list of names is refreshed only when it is used up or something was put back at the head, so that
    no claim costs more the more is waiting.
    """

    def __init__(self, files: LaneFiles, limits: Limits, lease: Lease) -> None:
        self._files = files
        self._paths = files.paths
        self._limits = limits
        self._lease = lease
        self._poll = FolderPoll(files.paths.pending)
        self._names: list[str] = []
        """What waits, the next one last."""
        self._ahead: Record | None = None
        """Claimed already, and not begun."""
        self._bad: list[tuple[str, str]] = []
        """Names and reasons of what was quarantined while the queue was held."""

    @property
    def used_up(self) -> bool:
        """Whether no record is known to wait."""
        return not self._names and self._ahead is None

    def next(self) -> Record | None:
        """Claim the next record; ``None`` when there is nothing to do."""
        while True:
            record = self._take()
            self._tell_bad()
            if record is None:
                return None
            if not self._limits.put_back_held(record):
                return record
            self._names.append(record.name)

    def _take(self) -> Record | None:
        record, self._ahead = self._ahead, None
        while record is None:
            if self._names and self._limits.holds(self._names[-1]):
                return None
            if not self._names and not self._list():
                return None
            self._lease.verify()
            with self._files.queue.locked() as index:
                record = self._claim(index)
        return record

    def _list(self) -> bool:
        if self._paths.batches.is_dir():
            # Its enqueuer may have ended after it was decided.
            self._lease.verify()
            self._files.write_status()
        if self._poll.changed():
            self._names = list_records(self._paths.pending)[::-1]
        return bool(self._names)

    def _claim(self, index: Index) -> Record | None:
        """Claim the first name; ``None`` if somebody was quicker, or what it names is no record."""
        name = self._names.pop()
        try:
            return self._files.queue.claim_locked(index, name)
        except InvalidInput as error:
            self._bad.append((name, str(error)))
            return None

    def _tell_bad(self) -> None:
        while self._bad:
            name, reason = self._bad.pop(0)
            self._files.note("record_quarantined", name, reason=reason, folder="pending")

    def ahead(self, index: Index) -> None:
        """Claim the next record while the queue is held anyway: it is begun, or given back, at once."""
        if self._ahead is None and self._names and not self._limits.holds(self._names[-1]):
            self._ahead = self._claim(index)

    def give_back(self) -> None:
        """Return what was claimed ahead to its place."""
        self._tell_bad()
        if self._ahead is not None:
            record, self._ahead = self._ahead, None
            self._files.queue.shift(record, "active", "pending", name=record.name)
            self._names.append(record.name)

    def relist(self) -> None:
        """Forget the list of names: something was put back at the head."""
        self.give_back()
        self._names = []
        self._poll.forget()
