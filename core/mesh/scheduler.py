"""Which loops start now: pure decisions over graph, states and capacity, without batches.

A loop starts the moment its dependencies are complete and there is room for it, the one with the longest
remaining path first; one that needs more workers than are free lets a smaller one pass. Nothing is known
of how long a loop will take, so a path is as long as its loops' estimates, 1 each by default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Protocol

from meshtui.core.config import plain
from meshtui.core.errors import InvalidInput
from meshtui.core.models.mesh import ENDED, Node, Plan, Status

WAITING: tuple[Status, ...] = ("planned", "queued")
BAD: tuple[Status, ...] = ("blocked", "failed", "handoff", "cancelled")
"""Endings that a dependent loop cannot build on."""


class LoopLike(Protocol):
    """What the scheduler has to know of a loop."""

    @property
    def loop_id(self) -> str:
        """Its id."""

    @property
    def dependencies(self) -> Sequence[str]:
        """Loops that have to be complete before it starts."""

    @property
    def workers(self) -> int:
        """How many workers it has alive at once, at most."""

    @property
    def estimate(self) -> float:
        """How long it takes, in whatever unit all loops share."""


@dataclass(frozen=True, slots=True)
class LoopNode:
    """A loop as the scheduler sees it."""

    loop_id: str
    dependencies: tuple[str, ...] = ()
    workers: int = 1
    estimate: float = 1.0


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much may run at once."""

    max_loops: int
    max_workers: int | None = None
    """``None``: no cap of their own. A loop that needs more gets by with as many."""

    def __post_init__(self) -> None:
        if self.max_loops < 1 or (self.max_workers is not None and self.max_workers < 1):
            raise InvalidInput(
                "at least one loop and one worker have to be allowed at once", field="max_active"
            )

    def need(self, workers: int) -> int:
        """The room a loop with ``workers`` takes."""
        most = workers if self.max_workers is None else min(workers, self.max_workers)
        return max(1, most)


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now."""

    start: tuple[str, ...]
    """Loops to start, most urgent first."""
    blocked: Mapping[str, tuple[str, ...]]
    """Loops that can never start, and the loops that ended badly which they wait for, by name."""


def loops_of(plan: Plan) -> tuple[LoopNode, ...]:
    """The loops of a plan as the scheduler sees them."""
    return tuple(loop_of(node) for node in plan.graph.nodes)


def loop_of(node: Node) -> LoopNode:
    """A node as the scheduler sees it; makers and checkers are never alive together."""
    workers = max(node.maker.worker_count, node.checker.worker_count, 1)
    return LoopNode(node.loop_id, tuple(node.dependencies), workers)


def dependents(plan: Plan) -> dict[str, list[str]]:
    """Which loops wait for each loop of a plan."""
    after: dict[str, list[str]] = {node.loop_id: [] for node in plan.graph.nodes}
    for node in plan.graph.nodes:
        for name in dict.fromkeys(node.dependencies):
            after[name].append(node.loop_id)
    return after


class _Graph:
    """The loops by number, with what waits for what."""

    __slots__ = ("after", "before", "ids", "loops", "numbers", "order", "rank")

    def __init__(self, loops: Sequence[LoopLike]) -> None:
        self.loops = loops
        self.ids = [loop.loop_id for loop in loops]
        self.numbers = {name: number for number, name in enumerate(self.ids)}
        if len(self.numbers) != len(self.ids):
            raise InvalidInput("two loops have one id: correct the plan")
        self.before: list[list[int]] = []
        self.after: list[list[int]] = [[] for _ in loops]
        for number, loop in enumerate(loops):
            known = []
            for name in dict.fromkeys(loop.dependencies):
                if name not in self.numbers:
                    raise InvalidInput(
                        f"{plain(loop.loop_id)} waits for {plain(name)}, which is no loop of the plan"
                    )
                known.append(self.numbers[name])
                self.after[self.numbers[name]].append(number)
            self.before.append(known)
        self.order = self._sorted()
        self.rank = remaining(self.order, self.after, [loop.estimate for loop in loops])

    def _sorted(self) -> list[int]:
        waits = [len(before) for before in self.before]
        order = [number for number, count in enumerate(waits) if not count]
        for number in order:
            for later in self.after[number]:
                waits[later] -= 1
                if not waits[later]:
                    order.append(later)
        if len(order) < len(waits):
            stuck = plain(self.ids[next(number for number, count in enumerate(waits) if count)])
            raise InvalidInput(f"loops wait for each other in a circle, {stuck} among them: correct the plan")
        return order

    def urgency(self, number: int) -> tuple[float, int, int]:
        """Sorts the most urgent first: longest remaining path, then most dependents, then the plan's order."""
        return (-self.rank[number], -len(self.after[number]), number)


def remaining(
    order: Sequence[int], after: Sequence[Sequence[int]], estimates: Sequence[float]
) -> list[float]:
    """The longest path from each loop to an end, itself included; ``order`` sorts dependencies first."""
    longest = [0.0] * len(order)
    for number in reversed(order):
        longest[number] = estimates[number] + max((longest[later] for later in after[number]), default=0.0)
    return longest


def ready(graph: Sequence[LoopLike], states: Mapping[str, Status], capacity: Capacity) -> Decision:
    """What to start now and what can never start; a loop without a state is planned.

    Starting everything in ``start`` keeps both caps, with the running loops counted.
    """
    scheduler = Scheduler(graph, capacity, states)
    return Decision(scheduler.start(), scheduler.blocked())


class Scheduler:
    """The same decisions step by step, for graphs of any size.

    Ask :meth:`start` after every :meth:`finish`; nothing is looked at twice, so a whole graph costs
    about as much as reading it. Not thread-safe.
    """

    def __init__(
        self,
        loops: Sequence[LoopLike],
        capacity: Capacity,
        states: Mapping[str, Status] | None = None,
    ) -> None:
        """``states`` is where the loops stand; those that run already take room. Raises InvalidInput for
        a graph with unknown dependencies or a circle."""
        self._graph = graph = _Graph(loops)
        self._capacity = capacity
        self._states: list[Status] = [(states or {}).get(name, "planned") for name in graph.ids]
        self._waits = [0] * len(loops)
        self._ready: dict[int, list[tuple[tuple[float, int, int], int]]] = {}
        """By workers needed: a heap of loops that could start."""
        self._used_loops = self._used_workers = self._open = 0
        for number, state in enumerate(self._states):
            self._waits[number] = sum(self._states[one] != "completed" for one in graph.before[number])
            if state == "running":
                self._take(number)
            self._open += state not in ENDED
        for number, state in enumerate(list(self._states)):
            if state in BAD:
                self._block_after(number)
        for number, state in enumerate(self._states):
            if state in WAITING and not self._waits[number]:
                self._push(number)

    # -- what is so ---------------------------------------------------------------------------------

    @property
    def states(self) -> dict[str, Status]:
        """Where every loop stands."""
        return dict(zip(self._graph.ids, self._states, strict=True))

    @property
    def running(self) -> int:
        """How many loops run."""
        return self._used_loops

    @property
    def done(self) -> bool:
        """Whether every loop has ended."""
        return self._open == 0

    def state(self, loop_id: str) -> Status:
        """Where one loop stands; ``KeyError`` if there is none of that name."""
        return self._states[self._graph.numbers[loop_id]]

    def blocked(self) -> dict[str, tuple[str, ...]]:
        """Each blocked loop that waits for one that ended badly, and all such loops, by name.

        A loop that is blocked by itself is a cause, not in here.
        """
        graph = self._graph
        causes: dict[int, dict[int, None]] = {}
        for number in graph.order:
            if self._states[number] != "blocked":
                continue
            found: dict[int, None] = {}
            for one in graph.before[number]:
                if one in causes:
                    found.update(causes[one])
                elif self._states[one] in BAD:
                    found[one] = None
            if found:
                causes[number] = found
        return {
            graph.ids[number]: tuple(graph.ids[one] for one in sorted(causes[number]))
            for number in sorted(causes)
        }

    # -- what happens -------------------------------------------------------------------------------

    def start(self) -> tuple[str, ...]:
        """The loops to start now, most urgent first; they count as running from here on."""
        begun = []
        while self._used_loops < self._capacity.max_loops:
            number = self._next()
            if number is None:
                break
            self._states[number] = "running"
            self._take(number)
            begun.append(self._graph.ids[number])
        return tuple(begun)

    def finish(self, loop_id: str, status: Status) -> dict[str, tuple[str, ...]]:
        """Note that a loop ended, also one that never started.

        Returns the loops that this blocks, with ``loop_id`` as the cause. Raises ``ValueError`` for a
        status that is no end, or a loop that has ended already.
        """
        number = self._graph.numbers[loop_id]
        before = self._states[number]
        if status not in ENDED or before in ENDED:
            raise ValueError(f"{loop_id} cannot go from {before} to {status}")
        if before == "running":
            self._used_loops -= 1
            self._used_workers -= self._need(number)
        self._states[number] = status
        self._open -= 1
        if status == "completed":
            for later in self._graph.after[number]:
                self._waits[later] -= 1
                if not self._waits[later] and self._states[later] in WAITING:
                    self._push(later)
            return {}
        return {self._graph.ids[later]: (loop_id,) for later in self._block_after(number)}

    def resize(self, capacity: Capacity) -> None:
        """Change the caps; what runs goes on even if it is too much now."""
        ready = [number for heap in self._ready.values() for _, number in heap]
        self._capacity = capacity
        self._ready.clear()
        self._used_workers = sum(self._need(n) for n, state in enumerate(self._states) if state == "running")
        for number in ready:
            self._push(number)

    # -- inside -------------------------------------------------------------------------------------

    def _need(self, number: int) -> int:
        return self._capacity.need(self._graph.loops[number].workers)

    def _take(self, number: int) -> None:
        self._used_loops += 1
        self._used_workers += self._need(number)

    def _push(self, number: int) -> None:
        heappush(self._ready.setdefault(self._need(number), []), (self._graph.urgency(number), number))

    def _next(self) -> int | None:
        """Take the most urgent loop there is room for."""
        most = self._capacity.max_workers
        best: list[tuple[tuple[float, int, int], int]] | None = None
        for need, heap in self._ready.items():
            if most is not None and self._used_workers + need > most:
                continue
            # Loops that were ended before they started are left in the heap until they come up.
            while heap and self._states[heap[0][1]] not in WAITING:
                heappop(heap)
            if heap and (best is None or heap[0] < best[0]):
                best = heap
        return heappop(best)[1] if best else None

    def _block_after(self, number: int) -> list[int]:
        """Block everything that waits for ``number`` and has not started."""
        found = []
        stack = [number]
        while stack:
            for later in self._graph.after[stack.pop()]:
                if self._states[later] in WAITING:
                    self._states[later] = "blocked"
                    self._open -= 1
                    found.append(later)
                    stack.append(later)
        return sorted(found)


def critical_path(
    loops: Sequence[LoopLike], length: Callable[[LoopLike], float] | None = None
) -> tuple[str, ...]:
    """The loops of the longest path, first to last; ``length`` measures a loop, by default its estimate."""
    if not loops:
        return ()
    graph = _Graph(loops)
    lengths = [loop.estimate if length is None else length(loop) for loop in loops]
    rank = remaining(graph.order, graph.after, lengths)
    at = max(range(len(loops)), key=lambda number: (rank[number], -number))
    path = [at]
    while graph.after[at]:
        at = max(graph.after[at], key=lambda number: (rank[number], -number))
        path.append(at)
    return tuple(graph.ids[number] for number in path)
