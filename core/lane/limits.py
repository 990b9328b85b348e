"""What holds a lane up: an engine's usage limit until it passes, and the lane's own caps."""

from __future__ import annotations

from typing import Any

from meshtui.core.clock import iso
from meshtui.core.engines.base import Metered, Outcome, Usage, usage_so_far
from meshtui.core.engines.limits import hold_until
from meshtui.core.lane.phase import Attempt
from meshtui.core.lane.settle import LaneFiles, Settler
from meshtui.core.models.config import LaneConfig
from meshtui.core.models.record import Record

WARN_AT = 0.8


class Limits:
    """Holds phases and counts usage for one runner, which has the lease."""

    def __init__(self, files: LaneFiles, settler: Settler, config: LaneConfig) -> None:
        self._files = files
        self._settler = settler
        self._config = config
        self._held: tuple[str, int] | None = None
        """The name of the record that is held, and until when."""

    # -- usage limits -------------------------------------------------------------------------------

    def hold(self, attempt: Attempt, outcome: Outcome) -> None:
        """Put a phase back that ran into a limit, until that passes; its stall retry is not touched."""
        record = attempt.record
        now = self._files.clock.now_ms()
        earlier = record.limit
        holds = int(earlier.get("holds") or 0) + 1
        until, known = hold_until(outcome.reset_at_ms, now, holds)
        limit = {
            "engine": attempt.engine,
            "since": earlier.get("since") or iso(now),
            "until": iso(until),
            "until_ms": until,
            "reset_known": known,
            "holds": holds,
            "error": outcome.error,
            "session_id": outcome.session_id,
            "directory": attempt.directory,
        }
        self._settler.hold(record, limit, engine=attempt.engine)
        self._show(record)

    def put_back_held(self, record: Record) -> bool:
        """Return a claimed record to its place if a limit still holds it; whether it did."""
        if record.held_until_ms <= self._files.clock.now_ms():
            return False
        self._files.queue.shift(record, "active", "pending", name=record.name)
        self._show(record)
        return True

    def holds(self, name: str) -> bool:
        """Whether record ``name``, the next one, is still held."""
        if self._held is None or self._held[0] != name:
            return False
        if self._files.clock.now_ms() >= self._held[1] or not (self._files.paths.pending / name).exists():
            self._held = None
            return False
        return True

    def begun(self) -> None:
        """Note that a phase runs: nothing is held."""
        self._held = None
        self._files.status.limit = None

    def _show(self, record: Record) -> None:
        self._held = (record.name, record.held_until_ms)
        limit = {key: value for key, value in record.limit.items() if key not in ("directory", "until_ms")}
        status = self._files.status
        status.limit = {"envelope_id": record.envelope_id, "record": record.name, **limit}
        status.state = "waiting"
        status.active_envelope_id = status.active_phase = None
        self._files.write_status()

    # -- caps ---------------------------------------------------------------------------------------

    def watch(self, attempt: Attempt) -> bool:
        """Warn of a cap that a running call comes near; whether it is reached and the call is to be ended.

        One whose program has said what it used in all is not: it has nothing more to use.
        """
        reader = attempt.reader
        if not self._capped or not isinstance(reader, Metered):
            return False
        used = self._files.status.used.plus(reader.usage)
        self._warn(used)
        return self._share(used) >= 1 and not reader.settled

    def take(self, attempt: Attempt, outcome: Outcome | None = None) -> Usage | None:
        """Count what an attempt used, and return it: as reported, else what could be told of one that was ended."""
        attempt.drain()
        usage = outcome.usage if outcome is not None else usage_so_far(attempt.reader)
        status = self._files.status
        status.used = status.used.plus(usage)
        self._warn(status.used)
        return usage

    def used_up(self) -> bool:
        """Whether a cap is reached: the runner claims nothing more and ends."""
        status = self._files.status
        share = self._share(status.used)
        if share < WARN_AT:
            status.budget = None
            return False
        status.budget = self._budget(status.used)
        if share < 1:
            return False
        self._files.note("budget_reached", status_subject(self._files), **status.budget)
        return True

    @property
    def full(self) -> bool:
        """Whether a cap is reached, of which nobody is told yet."""
        return self._share(self._files.status.used) >= 1

    def reached(self) -> str:
        """Why a call was ended, once what it used is counted; names the cap."""
        used = self._files.status.used
        if not self._capped:
            return "ended: budget"
        found = self._budget(used)
        money = found["cap"] == "max_cost_usd"
        amount, most = (
            (f"${found['used']:.2f}", f"${found['max']:.2f}")
            if money
            else (f"{found['used']:,}", f"{found['max']:,} tokens")
        )
        guessed = f", {found['estimated']:,} of them estimated" if found.get("estimated") else ""
        return f"budget: {amount} of {most} are used ([lane] {found['cap']}){guessed}"

    def _warn(self, used: Usage) -> None:
        """Warn once; ``loop.json`` remembers it for the next runner."""
        status = self._files.status
        if status.budget is None and self._share(used) >= WARN_AT:
            status.budget = self._budget(used)
            self._files.note("budget_warning", status_subject(self._files), **status.budget)
            self._files.write_status()

    @property
    def _capped(self) -> bool:
        return self._config.max_tokens_estimate is not None or self._config.max_cost_usd is not None

    def _caps(self, used: Usage) -> list[tuple[str, float, float]]:
        caps: list[tuple[str, float, float]] = []
        if self._config.max_tokens_estimate is not None:
            caps.append(("max_tokens_estimate", used.tokens, self._config.max_tokens_estimate))
        if self._config.max_cost_usd is not None:
            caps.append(("max_cost_usd", used.cost_usd or 0.0, self._config.max_cost_usd))
        return caps

    def _share(self, used: Usage) -> float:
        return max((amount / most for _, amount, most in self._caps(used)), default=0.0)

    def _budget(self, used: Usage) -> dict[str, Any]:
        key, amount, most = max(self._caps(used), key=lambda cap: cap[1] / cap[2])
        found = {"cap": key, "used": amount, "max": most, "reached": amount >= most}
        if key == "max_tokens_estimate" and used.estimated_tokens:
            found["estimated"] = used.estimated_tokens
        return found


def status_subject(files: LaneFiles) -> str:
    """What events about the whole lane are about."""
    return files.run_dir.root.name
