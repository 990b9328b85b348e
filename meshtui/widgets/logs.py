"""The output of calls as documents: one stream, or both below each other, the one written last at the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from meshtui.core import storage
from meshtui.core.errors import StorageError
from meshtui.core.view import CallView
from meshtui.widgets.document import Chain, Document, heading
from meshtui.widgets.log_doc import LogDoc, written_last

CALL_FILES = ("call.json", "process.json", "ending.json", "exit.json")
MOST_BYTES = 1 << 20


class CallLogs:
    """Keeps the documents of the logs shown, so that each is counted once."""

    def __init__(self) -> None:
        self._docs: dict[Path, LogDoc] = {}
        self._chain: tuple[tuple[Path, ...], Chain] | None = None

    def of(self, call: CallView) -> Document | None:
        """What ``call`` wrote; ``None`` as long as it wrote nothing. Logs of other calls are let go."""
        paths = tuple(written_last([call.stdout, call.stderr]))
        known = (
            self._chain
            if self._chain is not None and self._chain[0][0].parent == call.stdout.parent
            else None
        )
        # A stream that was cut off stays, and their order too: what is read does not change places.
        if known is not None and set(paths) <= set(known[0]):
            return known[1]
        if not paths:
            return None
        self.keep(paths)
        self._chain = (paths, Chain(self.parts(call, paths), path=paths[-1], title=call.call_id))
        return self._chain[1]

    def parts(self, call: CallView, paths: tuple[Path, ...]) -> list[Document]:
        """The streams of ``call``, named where there are two."""
        found: list[Document] = []
        for path in paths:
            if len(paths) > 1:
                found.append(heading("stderr" if path == call.stderr else "stdout"))
            found.append(self.doc(path, "warn" if path == call.stderr else "text"))
        return found

    def doc(self, path: Path, look: str) -> LogDoc:
        """The document of one file."""
        doc = self._docs.get(path)
        if doc is None:
            doc = self._docs[path] = LogDoc(path, look=look)
        return doc

    def keep(self, paths: tuple[Path, ...]) -> None:
        """Let go of every log but these."""
        for path in [path for path in self._docs if path not in paths]:
            self._docs.pop(path).close()


def call_facts(call: CallView) -> dict[str, Any]:
    """What the files of a call say, by file."""
    found: dict[str, Any] = {}
    for name in CALL_FILES:
        try:
            found[name] = json.loads(storage.read_bytes(call.folder / name, limit=MOST_BYTES))
        except FileNotFoundError:
            continue
        except (OSError, StorageError, ValueError, RecursionError) as error:
            found[name] = f"cannot be read: {error}"
    return found
