"""A record of the lane: an envelope with what the queue and the runner know about it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meshtui.core import storage, strict_json
from meshtui.core.clock import MAX_TIME_MS
from meshtui.core.errors import InvalidInput, StorageError
from meshtui.core.models.envelope import MAX_WAIT_MS, validate_envelope, validate_id
from meshtui.core.models.names import RETRY

SCHEMA_VERSION = "hq-lane-loop.v1"

MAX_RECORD_BYTES = strict_json.MAX_BYTES + (64 << 10)
"""An envelope of the largest size with what the runner adds to it."""

_STARTED = ("deadline_at_ms", "call", "__active_dir", "fresh_fallback")


@dataclass(slots=True)
class Record:
    """One record and its file name; ``data`` is the whole file, unknown fields included."""

    name: str
    data: dict[str, Any]

    @classmethod
    def new(cls, name: str, envelope_id: str, queued_at: str, envelope: dict[str, Any]) -> Record:
        """A record that has not run yet."""
        return cls(
            name,
            {
                "schema_version": SCHEMA_VERSION,
                "envelope_id": envelope_id,
                "queued_at": queued_at,
                "envelope": envelope,
            },
        )

    @property
    def envelope_id(self) -> str:
        value: str = self.data["envelope_id"]
        return value

    @property
    def envelope(self) -> dict[str, Any]:
        value: dict[str, Any] = self.data["envelope"]
        return value

    @property
    def queued_at(self) -> str:
        return str(self.data.get("queued_at") or "")

    @property
    def call(self) -> str | None:
        """The call that works on it, or did when its runner ended."""
        value = self.data.get("call")
        return value if isinstance(value, str) and value else None

    @property
    def attempt(self) -> int:
        """1 plus the stalls so far; for a record of another tool its place at the head tells."""
        value = self.data.get("attempt")
        if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
            return value
        return 2 if self.name.startswith(RETRY) else 1

    @property
    def budget_seconds(self) -> float | None:
        """What each attempt may take, fixed at the first start."""
        value = self.data.get("deadline_budget_seconds")
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
            return float(min(value, MAX_WAIT_MS // 1000))
        return None

    @property
    def deadline_at_ms(self) -> int | None:
        value = self.data.get("deadline_at_ms")
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return int(min(max(value, 0), MAX_TIME_MS))
        return None

    def put_back(self, *, attempt: int | None = None, forget_budget: bool = False) -> None:
        """Drop what belongs to a start, so that the record can be queued again."""
        for key in _STARTED:
            self.data.pop(key, None)
        if attempt is not None:
            self.data["attempt"] = attempt
        if forget_budget:
            self.data.pop("deadline_budget_seconds", None)

    def as_bytes(self) -> bytes:
        """The file's contents."""
        return strict_json.dump_bytes(self.data, indent=2)


def parse_record(name: str, raw: bytes) -> Record:
    """The record in file ``name``; raises :class:`InvalidInput` saying why it is none."""
    if not raw.strip():
        raise InvalidInput("the file is empty")
    # The envelope may use all the levels there are; the record is one around it.
    data = strict_json.load_object(
        raw, limit=MAX_RECORD_BYTES, depth=strict_json.MAX_DEPTH + 1, what="the record"
    )
    version = data.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InvalidInput(f"schema_version is {version!r}, not {SCHEMA_VERSION!r}", field="schema_version")
    if "envelope" not in data:
        raise InvalidInput("the record holds no envelope", field="envelope")
    data["envelope_id"] = validate_id(data.get("envelope_id"))
    data["envelope"] = validate_envelope(data["envelope"])
    return Record(name, data)


def load_record(path: Path) -> Record:
    """The record at ``path``; ``FileNotFoundError`` if it is gone, :class:`InvalidInput` if it is none."""
    try:
        return parse_record(path.name, storage.read_bytes(path, limit=MAX_RECORD_BYTES + 1))
    except IsADirectoryError:
        raise InvalidInput("a folder stands where a record belongs") from None
    except FileNotFoundError:
        if path.is_symlink():
            # The name is there and will stay: not a record that somebody else moved away.
            raise InvalidInput("a symlink that leads nowhere stands where a record belongs") from None
        raise
    except StorageError as error:
        raise InvalidInput(f"cannot be read: {error}") from None
