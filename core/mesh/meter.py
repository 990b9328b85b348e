"""What a loop has used of its budget: wall time, model calls, tokens, money."""

from __future__ import annotations

from collections.abc import Iterable

from meshtui.core.calls import Call
from meshtui.core.engines.base import Metered, Usage, usage_so_far
from meshtui.core.errors import InvalidInput
from meshtui.core.mesh.context import LoopBlocked, MissionContext, Progress, Spent
from meshtui.core.models.mesh import Node

WARN_AT = 0.8
"""The share of a token or cost budget from which the operator is warned."""
COST = "max_cost_usd"


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

    def count_usage(self, call_id: str, usage: Usage | None) -> None:
        """Add what a call used, once for each call."""
        if usage is None or call_id in self._progress.counted:
            return
        self._progress.counted.append(call_id)
        used = self._progress.used
        total = Usage.from_json(used.as_json()) or Usage()
        for name, value in total.plus(usage).as_json().items():
            setattr(used, name, value)
        if usage != Usage(cost_usd=usage.cost_usd):
            used.tokens = (used.tokens or 0) + usage.tokens
        self.warn(())

    def warn(self, readers: Iterable[object]) -> bool:
        """Warn once when four fifths of a cap are used, what runs included; whether it did just now."""
        caps = self._caps(readers)
        cap, amount, most = max(caps, key=lambda one: one[1] / one[2])
        if self._progress.warned is not None or amount < WARN_AT * most:
            return False
        self._progress.warned = Spent(cap=cap, used=amount, max=most)
        self._context.note("budget_warning", self._node.loop_id, cap=cap, used=amount, max=most)
        return True

    def check_usage(self, readers: Iterable[object] = ()) -> None:
        """Raise :class:`LoopBlocked` when a token or cost cap is reached, what ``readers`` tell included.

        Programs that have said what they used in all do not raise it while they run: they are at their end.
        """
        readers = list(readers)
        if readers and all(not isinstance(one, Metered) or one.settled for one in readers):
            return
        for cap, amount, most in self._caps(readers):
            if amount >= most:
                told = (
                    f"${amount:.2f} of ${most:.2f}" if cap == COST else f"{amount:.0f} of {most:.0f} tokens"
                )
                raise LoopBlocked(f"budget: {told} are used ({cap})")

    def cost_left(self) -> float | None:
        """What may still be spent; ``None`` where there is no cap on it."""
        most = self._node.budget.max_cost_usd
        return None if most is None else max(0.0, most - (self._progress.used.cost_usd or 0.0))

    def _caps(self, readers: Iterable[object]) -> list[tuple[str, float, float]]:
        used, budget = self._progress.used, self._node.budget
        running = [usage for one in readers if (usage := usage_so_far(one)) is not None]
        tokens = (used.tokens or 0) + sum(one.tokens for one in running)
        caps: list[tuple[str, float, float]] = [("max_tokens_estimate", tokens, budget.max_tokens_estimate)]
        if budget.max_cost_usd is not None:
            cost = (used.cost_usd or 0.0) + sum(one.cost_usd or 0.0 for one in running)
            caps.append((COST, cost, budget.max_cost_usd))
        return caps
