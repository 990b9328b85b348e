"""Names of records and results: how an id and a place in the queue become a file name.

A record is ``<sequence>-<epoch ms>-<uuid4>-<safe id>.json``; plain sort order of the names is the order
of the queue. A record put back at the head carries one of two prefixes that sort before every number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final, Literal
from uuid import uuid4

RETRY: Final = "0000000000000-retry-"
RECOVERED: Final = "0000000000000-recovered-"

MAX_ID = 120
MAX_SAFE_ID = 150
"""A file name holds 255 bytes; prefix, sequence, time and uuid take 97 of them."""

Prefix = Literal["", "0000000000000-retry-", "0000000000000-recovered-"]

_NAME = re.compile(
    r"(?P<prefix>0000000000000-(?:retry|recovered)-)?"
    r"(?P<sequence>\d{16})-(?P<ms>\d{13})-(?P<uuid>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
    r"-(?P<safe>.*)\.json",
    re.DOTALL,
)
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


def safe_id(envelope_id: str) -> str:
    """The id as file names carry it: each UTF-16 unit outside ``A-Za-z0-9._-`` becomes ``_``."""
    return _UNSAFE.sub(lambda found: "__" if ord(found[0]) > 0xFFFF else "_", envelope_id)


def folded(safe: str) -> str:
    """What two ids must not share: the safe id regardless of case, as some filesystems see names."""
    return safe.lower()


def is_record_name(name: str) -> bool:
    """Whether a folder entry counts as a record: neither a dot-file nor a temporary one."""
    return not name.startswith(".") and not name.endswith(".tmp")


@dataclass(frozen=True, slots=True)
class RecordName:
    """The parts of a record's file name."""

    prefix: Prefix
    sequence: int
    ms: int
    uuid: str
    safe: str

    @classmethod
    def new(cls, sequence: int, ms: int, envelope_id: str) -> RecordName:
        """A name at the end of the queue, with a fresh uuid."""
        return cls("", sequence, ms, str(uuid4()), safe_id(envelope_id))

    @classmethod
    def parse(cls, name: str) -> RecordName | None:
        """The parts of ``name``, ``None`` if it was not made by this rule."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        prefix: Prefix = ""
        if found["prefix"] == RETRY:
            prefix = "0000000000000-retry-"
        elif found["prefix"] == RECOVERED:
            prefix = "0000000000000-recovered-"
        return cls(prefix, int(found["sequence"]), int(found["ms"]), found["uuid"], found["safe"])

    def __str__(self) -> str:
        return f"{self.prefix}{self.sequence:016d}-{self.ms:013d}-{self.uuid}-{self.safe}.json"


def at_head(name: str, prefix: Prefix) -> str:
    """``name`` with ``prefix`` in place of the one it may have, so that it sorts before all others."""
    parts = RecordName.parse(name)
    if parts is not None:
        return str(replace(parts, prefix=prefix))
    for old in (RETRY, RECOVERED):
        if name.startswith(old):
            name = name[len(old) :]
    return prefix + name


def safe_of(name: str) -> str:
    """The safe id in record ``name``, as good as it can be told for a name of another making."""
    found = _NAME.fullmatch(name)
    return found["safe"] if found is not None else name.removesuffix(".json")
