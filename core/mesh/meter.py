"""What a loop has used of its budget: wall time, model calls, tokens, money."""

from __future__ import annotations

from meshtui.core.calls import Call
from meshtui.core.engines.base import Outcome
from meshtui.core.errors import InvalidInput
from meshtui.core.mesh.context import LoopBlocked, MissionContext, Progress
from meshtui.core.models.mesh import Node

WARN_AT = 0.8
"""The share of a token or cost budget from which the journal warns."""


class Meter:
    """Counts what one loop uses into its progress, and raises when a budget ends."""

    def __init__(self, context: MissionContext, node: Node, progress: Progress) -> None:
        self._context = context
        self._node = node
        self._progress = progress

    def attach(self, call_id: str) -> Call | None:
        """A call of the loop by its id; ``None`` if that is no id of a call."""
        try:
            return Call.attach(self._context.run_dir, call_id, clock=self._context.clock)
        except InvalidInput:
            return None

    # -- wall time ----------------------------------------------------------------------------------

    def clock_in(self) -> None:
        """Begin to count wall time; what passed without a runner counts only while a call lived."""
        progress, now = self._progress, self._context.clock.now_ms()
        if progress.wall_recorded_at and progress.calls:
            ends = []
            for call_id in progress.calls.values():
                call = self.attach(call_id)
                if call is None or call.state() == "lost":
                    continue
                done = call.exit()
                ends.append(done.ended_at_ms if done is not None else now)
                call.close()
            if ends:
                progress.used.wall_ms += max(0, min(now, max(ends)) - progress.wall_recorded_at)
        progress.wall_recorded_at = now

    def clock(self) -> int:
        """Bring the used wall time up to date and return it; ms."""
        now = self._context.clock.now_ms()
        self._progress.used.wall_ms += max(0, now - self._progress.wall_recorded_at)
        self._progress.wall_recorded_at = now
        return self._progress.used.wall_ms

    @property
    def left_ms(self) -> int:
        """Wall time that is left."""
        return self._node.budget.max_wall_ms - self.clock()

    def check_wall(self) -> None:
        """Raise :class:`LoopBlocked` when no wall time is left."""
        if self.left_ms <= 0:
            raise LoopBlocked(f"budget: wall time of {self._node.budget.max_wall_ms / 1000:g} s is used up")

    # -- model calls, tokens, money ------------------------------------------------------------------

    def count_model_call(self) -> None:
        """Count one more start of an engine; raises :class:`LoopBlocked` when none is left."""
        used, most = self._progress.used, self._node.budget.max_model_calls
        if used.model_calls >= most:
            raise LoopBlocked(f"budget: {used.model_calls} of {most} model calls are used")
        used.model_calls += 1

    def count_usage(self, call_id: str, outcome: Outcome) -> None:
        """Add what a call reports, once for each call."""
        usage, used = outcome.usage, self._progress.used
        if usage is None or call_id in self._progress.counted:
            return
        self._progress.counted.append(call_id)
        near = self._near_cap()
        tokens = [value for value in (usage.input_tokens, usage.output_tokens) if value is not None]
        if tokens:
            used.tokens = (used.tokens or 0) + sum(tokens)
        if usage.cost_usd is not None:
            used.cost_usd = (used.cost_usd or 0.0) + usage.cost_usd
        if self._near_cap() and not near:
            self._context.note(
                "budget_warning", self._node.loop_id, tokens=used.tokens, cost_usd=used.cost_usd
            )

    def _near_cap(self) -> bool:
        """Whether four fifths of the tokens or of the money are used."""
        used, budget = self._progress.used, self._node.budget
        near = (used.tokens or 0) >= WARN_AT * budget.max_tokens_estimate
        if budget.max_cost_usd is not None:
            near = near or (used.cost_usd or 0.0) >= WARN_AT * budget.max_cost_usd
        return near

    def check_usage(self) -> None:
        """Raise :class:`LoopBlocked` when the engines report more tokens or cost than the budget has."""
        used, budget = self._progress.used, self._node.budget
        if used.tokens is not None and used.tokens > budget.max_tokens_estimate:
            raise LoopBlocked(f"budget: {used.tokens} of {budget.max_tokens_estimate} tokens are used")
        if budget.max_cost_usd is not None and (used.cost_usd or 0.0) > budget.max_cost_usd:
            raise LoopBlocked(f"budget: ${used.cost_usd:.2f} of ${budget.max_cost_usd:.2f} are used")
