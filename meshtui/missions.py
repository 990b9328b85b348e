"""What the console does with missions, each in a thread of the bridge: the protocol and the real thing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from meshtui.core.clock import Clock
from meshtui.core.errors import InvalidInput, NotFound
from meshtui.core.run_dir import RunDir

if TYPE_CHECKING:
    from meshtui.core.mesh.mission import MissionRunner
    from meshtui.core.mesh.paths import MissionPaths
    from meshtui.core.mesh.verify import Check
    from meshtui.core.mesh.view import MissionView
    from meshtui.core.models.mesh import Plan
    from meshtui.core.prune import Prunable
    from meshtui.core.vcs.merge import Discard


@dataclass(frozen=True, slots=True)
class PlanWish:
    """What the operator asks for."""

    request: str
    engine: str | None = None
    parallelism: Literal["safe", "balanced", "extreme"] | None = None
    max_loops: int | None = None


@dataclass(frozen=True, slots=True)
class KillResult:
    """What a kill ended."""

    ended: tuple[str, ...]
    survivors: tuple[str, ...]
    not_started: tuple[str, ...]


class MissionRunnerLike(Protocol):
    """A runner of one mission."""

    def run(self) -> Any: ...
    def request_stop(self) -> None: ...
    def request_hand_over(self) -> None: ...


class MissionOperations(Protocol):
    """The operations on missions; each may block."""

    def plan(self, wish: PlanWish) -> tuple[Plan, Sequence[str]]: ...
    def reload(self, mission_id: str) -> tuple[Plan, Sequence[str]]: ...
    def forget(self, mission_id: str) -> None: ...
    def kill(self, mission: MissionView, target: str) -> KillResult: ...
    def answer(
        self, mission: MissionView, loop_id: str, verdict: Literal["approve", "reject"], reason: str
    ) -> Any: ...
    def land(self, mission: MissionView) -> Any: ...
    def verify(self, mission: MissionView, loop_id: str | None) -> Sequence[Check]: ...
    def losses(self, mission: MissionView) -> Discard: ...
    def discard(self, mission: MissionView, found: Discard) -> Discard: ...
    def prunable(self) -> Prunable: ...
    def prune(self, found: Prunable) -> tuple[int, int]: ...
    def runner(self, mission_id: str) -> MissionRunnerLike: ...
    def start_detached(self, mission_id: str) -> int: ...
    def plan_file(self, mission_id: str) -> Path: ...


class MeshMissions:
    """The real operations, on the missions of one directory."""

    def __init__(self, run_dir: RunDir, *, clock: Clock | None = None) -> None:
        self._run_dir = run_dir
        self._clock = clock

    def plan(self, wish: PlanWish) -> tuple[Plan, Sequence[str]]:
        """Make the run directory if there is none, and write a plan there."""
        from meshtui.core.clock import SystemClock
        from meshtui.core.lane.create import create_run_dir
        from meshtui.core.mesh.service import PlanOptions, broken, make_plan

        if not self._run_dir.missions.is_dir() and (
            (self._run_dir.root / "loops").is_dir() or (self._run_dir.root / ".sneakoscope").is_dir()
        ):
            raise InvalidInput(
                f"{self._run_dir.root} is no run directory: open one with --run-dir to plan there"
            )
        where = create_run_dir(self._run_dir.root, self._clock or SystemClock())
        options = PlanOptions(engine=wish.engine, parallelism=wish.parallelism, max_loops=wish.max_loops)
        made = make_plan(where, wish.request, options, clock=self._clock)
        return made, broken(made)

    def reload(self, mission_id: str) -> tuple[Plan, Sequence[str]]:
        """The plan as it stands in its file, checked again."""
        from meshtui.core.mesh.service import broken, edited_plan

        made = edited_plan(self._paths(mission_id))
        return made, broken(made)

    def forget(self, mission_id: str) -> None:
        """Delete a plan that never ran; raises :class:`InvalidInput` where something stands beside it."""
        from meshtui.core import storage
        from meshtui.core.clock import SystemClock
        from meshtui.core.journal import Journal

        paths = self._paths(mission_id)
        others = sorted(entry.name for entry in paths.root.iterdir() if entry != paths.plan)
        if others:
            raise InvalidInput(f"mission {mission_id} has run ({others[0]}): discard it instead")
        storage.remove_file(paths.plan)
        storage.remove_dir(paths.root)
        storage.remove_dir(paths.root.parent)
        Journal(self._run_dir, self._clock or SystemClock()).append("mission_forgotten", mission_id)

    def kill(self, mission: MissionView, target: str) -> KillResult:
        """End a loop, or ``all``."""
        from meshtui.core.lane.service import engine_factory
        from meshtui.core.mesh.service import configuration, kill_loops

        home = self._home(mission)
        paths = _paths_of(mission)
        loaded = configuration(home, Path(mission.repo or home.root))
        found = kill_loops(home, paths, target, loaded, engine_factory(loaded.config), clock=self._clock)
        return KillResult(*(tuple(names) for names in found))

    def answer(
        self, mission: MissionView, loop_id: str, verdict: Literal["approve", "reject"], reason: str
    ) -> Any:
        """Record a person's verdict."""
        import getpass

        from meshtui.core.mesh.service import answer_mission

        home = self._home(mission)
        try:
            who = getpass.getuser()
        except (KeyError, OSError):
            who = "operator"
        paths = _paths_of(mission)
        return answer_mission(home, paths, loop_id, verdict, reason, by=who, clock=self._clock)

    def land(self, mission: MissionView) -> Any:
        """Fast-forward the target branch."""
        from meshtui.core.mesh.service import land_mission

        self._home(mission)
        return land_mission(_paths_of(mission))

    def verify(self, mission: MissionView, loop_id: str | None) -> Sequence[Check]:
        """Check a loop's proof, or with ``None`` every proof of the mission."""
        from meshtui.core.mesh.verify import Verifier

        verifier = Verifier(self._home(mission), _paths_of(mission))
        return verifier.loop(loop_id) if loop_id is not None else verifier.mission()

    def losses(self, mission: MissionView) -> Discard:
        """What discarding a mission would remove and lose."""
        from meshtui.core.mesh.service import what_discard_loses

        return what_discard_loses(self._home(mission), _paths_of(mission))

    def discard(self, mission: MissionView, found: Discard) -> Discard:
        """Remove what was ``found``; raises where there is more by now."""
        from meshtui.core.mesh.service import discard_mission

        discard_mission(self._home(mission), _paths_of(mission), found)
        return found

    def prunable(self) -> Prunable:
        """What finished work left behind in this run directory."""
        from meshtui.core.lane.create import open_run_dir
        from meshtui.core.prune import find_prunable

        return find_prunable(open_run_dir(self._run_dir.root))

    def prune(self, found: Prunable) -> tuple[int, int]:
        """Remove what was ``found`` and is still free; how many calls and working copies that were."""
        from meshtui.core.mesh.prune import remove_worktrees
        from meshtui.core.prune import Prunable, remove_calls

        now = self.prunable()
        calls = tuple(item for item in now.calls if item in found.calls)
        known = {item.path for item in found.worktrees if item.refused is None}
        places = remove_worktrees(self._run_dir, [item for item in now.worktrees if item.path in known])
        removed = remove_calls(self._run_dir, Prunable(calls, now.kept))
        return len(removed), len(places)

    def runner(self, mission_id: str) -> MissionRunner:
        """A runner for a mission, configured and trusted, not started."""
        from meshtui.core.lane.service import engine_factory
        from meshtui.core.mesh.files import load_plan
        from meshtui.core.mesh.service import configuration, open_mission
        from meshtui.core.trust import require_trust

        paths = self._paths(mission_id)
        made = load_plan(paths)
        if made.repo is None:
            raise InvalidInput(f"the plan of {mission_id} names no repository: another tool runs it")
        loaded = configuration(self._run_dir, Path(made.repo))
        require_trust(loaded, ask=None, allow=False)
        return open_mission(self._run_dir, paths, loaded, engine_factory(loaded.config), clock=self._clock)

    def start_detached(self, mission_id: str) -> int:
        """Start a runner of its own for a mission; its pid."""
        from meshtui.core.mesh.detach import start_detached_mission

        return start_detached_mission(self._run_dir, self._paths(mission_id), clock=self._clock)

    def plan_file(self, mission_id: str) -> Path:
        """Where the plan of a mission stands."""
        return self._paths(mission_id).plan

    def _paths(self, mission_id: str) -> MissionPaths:
        from meshtui.core.mesh.paths import MissionPaths

        paths = MissionPaths.of(self._run_dir, mission_id)
        if not paths.plan.exists():
            raise NotFound(
                f"mission {mission_id} does not stand in {self._run_dir.root}: open its run directory for that"
            )
        return paths

    def _home(self, mission: MissionView) -> RunDir:
        from meshtui.core.mesh.detail import home_of

        home = home_of(mission)
        if home is None:
            raise InvalidInput(
                f"mission {mission.mission_id} stands alone, without its run directory: it can only be looked at"
            )
        return home


def _paths_of(mission: MissionView) -> MissionPaths:
    from meshtui.core.mesh.paths import MissionPaths

    return MissionPaths(mission.root, mission.mission_id)
