"""The configuration ``meshtui.toml``, table by table; what is left out has the default given here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from meshtui.core.models.envelope import ENGINES

ROLES = ("run", "maker", "checker", "arbiter")
"""The parts an engine can play; ``run`` is a lane's phase."""


def _refuse(allowed: str) -> PydanticCustomError:
    return PydanticCustomError("value", "must be {allowed}", {"allowed": allowed})


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= sys.float_info.max:
        raise _refuse("a positive finite number")
    return value


def _count(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 1 << 63:
        raise _refuse("a positive whole number")
    return value


def _text(value: object) -> object:
    if not _is_text(value):
        raise _refuse("a non-empty text")
    return value


def _texts(value: object) -> object:
    if not isinstance(value, list) or not all(_is_text(item) for item in value):
        raise _refuse("a list of non-empty texts")
    return tuple(value)


def _arguments(value: object) -> object:
    if not isinstance(value, list) or not all(isinstance(item, str) and "\0" not in item for item in value):
        raise _refuse("a list of texts")
    return tuple(value)


def _command(value: object) -> object:
    if isinstance(value, list):
        fine = bool(value) and _is_text(value[0]) and all(isinstance(x, str) and "\0" not in x for x in value)
    else:
        fine = _is_text(value)
    if not fine:
        raise _refuse('a command: a text for /bin/sh -c, or a list like ["make", "test"]')
    return value


def _table_of(check: Callable[[object], bool], allowed: str) -> BeforeValidator:
    """A table whose values all pass ``check``; the error names the entry."""

    def validate(value: object) -> object:
        if not isinstance(value, dict):
            raise _refuse("a table")
        for key, item in value.items():
            if not check(item):
                raise PydanticCustomError(
                    "entry", "must be {allowed}", {"allowed": allowed, "entry": key, "value": item}
                )
        return value

    return BeforeValidator(validate)


def _one_of(*words: str) -> BeforeValidator:
    def validate(value: object) -> object:
        if value not in words:
            raise _refuse(f"one of {', '.join(words)}")
        return value

    return BeforeValidator(validate)


def _known_names(allowed: tuple[str, ...]) -> AfterValidator:
    """A table whose keys are all known."""

    def validate(value: dict[str, Any]) -> dict[str, Any]:
        for key in value:
            if key not in allowed:
                raise PydanticCustomError("name", "unknown", {"entry": key, "names": list(allowed)})
        return value

    return AfterValidator(validate)


Number = Annotated[float, BeforeValidator(_number)]
Count = Annotated[int, BeforeValidator(_count)]
Text = Annotated[str, BeforeValidator(_text)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]
Command = Annotated[str | list[str], BeforeValidator(_command)]
"""A text is run by ``/bin/sh -c``, a list as it is."""
EngineName = Annotated[Literal["claude", "codex", "grok", "command"], _one_of(*ENGINES)]
RiskLevel = Annotated[
    Literal["low", "medium", "high", "critical"], _one_of("low", "medium", "high", "critical")
]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class LaneConfig(_Table):
    """``[lane]``: the runner of a lane."""

    lane_id: Text | None = None
    """``None``: the run directory's name."""
    engine: EngineName = "claude"
    """Runs a phase that names none."""
    deadline_seconds: Number = 3600.0
    """What an attempt may take when its envelope does not say; ``MESHTUI_PHASE_DEADLINE_SECONDS`` wins."""
    on_park: Annotated[Literal["stop", "continue"], _one_of("stop", "continue")] = "stop"
    """Whether the runner ends when a phase is parked, or goes on with the next one."""
    on_limit: Annotated[Literal["hold", "fail"], _one_of("hold", "fail")] = "hold"
    """Whether a phase waits for an engine's usage limit to pass, or fails."""
    idle_seconds: Number | None = None
    """How long a phase may give no sign of life before it stalls; ``None``: only its deadline counts."""
    max_cost_usd: Number | None = None
    max_tokens_estimate: Count | None = None
    max_output_mb: Number = 1024.0
    """Past this much output a call is ended."""


class EngineConfig(_Table):
    """``[engines.<name>]``: how an engine is started."""

    program: Text | None = None
    args: Annotated[tuple[str, ...], BeforeValidator(_arguments)] = ()
    model: Text | None = None
    effort: Text | None = None
    env: Annotated[
        dict[str, str], _table_of(lambda item: isinstance(item, str) and "\0" not in item, "a text")
    ] = {}
    permissions: Annotated[dict[str, str], _table_of(_is_text, "a non-empty text"), _known_names(ROLES)] = {}
    """What the program may do, by role, in the program's own words."""
    run: Command | None = None
    maker: Command | None = None
    checker: Command | None = None
    arbiter: Command | None = None

    def command(self, role: Literal["run", "maker", "checker", "arbiter"]) -> str | list[str] | None:
        """The command of engine ``command`` for ``role``."""
        found: str | list[str] | None = getattr(self, role)
        return found


class MeshConfig(_Table):
    """``[mesh]``: missions."""

    parallelism: Annotated[Literal["safe", "balanced", "extreme"], _one_of("safe", "balanced", "extreme")] = (
        "balanced"
    )
    max_loops: Count | None = None
    max_active_loops: Count | None = None
    max_active_workers: Count | None = None
    strategy: Annotated[Literal["split", "compete"], _one_of("split", "compete")] = "split"
    worktrees: Text | None = None
    """The folder worktrees are made in; relative to the repository, outside of it at best."""
    setup: Command | None = None
    """Run in each new worktree."""
    target: Text | None = None
    arbiter: EngineName | None = None


class DomainConfig(_Table):
    """One ``[[domains]]``: a part of the repository."""

    id: Text
    paths: Texts = ()
    aliases: Texts = ()
    gates: Texts = ()
    risk: RiskLevel | None = None
    engine: EngineName | None = None


class GateConfig(_Table):
    """``[gates.<id>]``: a check."""

    command: Command
    stage: Annotated[
        Literal["local", "checker", "integration"], _one_of("local", "checker", "integration")
    ] = "local"
    timeout_seconds: Number | None = None
    when: Texts = ()
    """Globs of changed files; none: always."""


class BudgetConfig(_Table):
    """``[budget]``: what one loop may use."""

    max_iterations: Count | None = None
    max_wall_ms: Count | None = None
    max_model_calls: Count | None = None
    max_subagents: Count | None = None
    max_tokens_estimate: Count | None = None
    max_changed_files: Count | None = None
    max_patch_bytes: Count | None = None
    max_cost_usd: Number | None = None


class NotifyConfig(_Table):
    """``[notify]``: how the operator is told."""

    command: Command | None = None


class Config(_Table):
    """A whole configuration."""

    lane: LaneConfig = Field(default_factory=LaneConfig)
    engines: Annotated[dict[str, EngineConfig], _known_names(ENGINES)] = {}
    mesh: MeshConfig = Field(default_factory=MeshConfig)
    domains: tuple[DomainConfig, ...] = ()
    gates: dict[str, GateConfig] = {}
    risk: Annotated[
        dict[str, RiskLevel],
        _table_of(
            lambda item: item in ("low", "medium", "high", "critical"), "one of low, medium, high, critical"
        ),
    ] = {}
    """Globs and the risk of what they match."""
    budget: BudgetConfig = Field(default_factory=BudgetConfig)
    notify: NotifyConfig = Field(default_factory=NotifyConfig)

    def engine(self, name: str) -> EngineConfig:
        """The settings of engine ``name``, the defaults where it has none."""
        return self.engines.get(name) or EngineConfig()
