"""From a run description to the engine of one rank: device, weights, tokens."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from executor.config import ModelConfig
from executor.data import SyntheticTokens, TokenSource
from executor.description import Execution
from executor.engine import Engine
from executor.huggingface import open_huggingface
from executor.identity import store_places
from executor.mesh import own_rank
from executor.patterns import PatternedTokens
from executor.settings import Settings
from executor.timing import Clock, ClockMaker
from executor.tokens import StoredTokens
from executor.weights import RandomWeights, WeightSource
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan
from lobra.store import TokenStore, read_store


@dataclass(slots=True)
class Stores:
    """Token stores, one a tenant, opened when a plan brings the tenant: named each, or below one folder."""

    root: Path | None
    named: dict[str, Path]
    verify: bool  # their checksums
    opened: dict[str, TokenStore] = field(default_factory=dict)

    def admit(self, plan: DeploymentPlan) -> None:
        """Open what the plan's tenants need; BadInput where a tenant has no store."""
        for tenant in plan.tenants:
            if tenant.name not in self.opened:
                self.opened[tenant.name] = read_store(self._place(tenant.name), verify=self.verify)

    def _place(self, name: str) -> Path:
        if name in self.named:
            return self.named[name]
        if self.root is None:
            raise BadInput(f"tenant '{name}': no token store is named for it; make one with `lobra prepare`")
        return self.root / name


@dataclass(frozen=True, slots=True)
class Assembly:
    """An engine, its model's configuration, and what must happen before it takes a plan into service."""

    engine: Engine
    config: ModelConfig
    admit: Callable[[DeploymentPlan], None]


def settings_of(execution: Execution) -> Settings:
    """The settings named in the description; BadInput for one that does not exist."""
    made: Settings = _called("settings", Settings, dict(execution.settings))
    return made


def device_of(execution: Execution, local_rank: int) -> torch.device:
    """The device of this rank."""
    usable = torch.cuda.is_available() and torch.cuda.device_count() > local_rank
    if execution.device == "cuda" and not usable:
        raise BadInput(f"execution: device is cuda, but there is no GPU {local_rank} here; use cpu or fewer ranks")
    return torch.device("cuda", local_rank) if usable and execution.device != "cpu" else torch.device("cpu")


def assemble(
    execution: Execution, plan: DeploymentPlan, device: torch.device, origin: float, clock: ClockMaker = Clock
) -> Assembly:
    """The engine for the model of the first plan; one rank of a job is enough to verify the stores."""
    weights, config = _model(dict(execution.model), plan)
    tokens, admit = _data(dict(execution.data), config, verify=own_rank() == 0)
    engine = Engine(config, weights, tokens, settings_of(execution), device=device, origin=origin, clock=clock)
    return Assembly(engine, config, admit)


def _model(knobs: dict[str, Any], plan: DeploymentPlan) -> tuple[WeightSource, ModelConfig]:
    kind = knobs.pop("kind", None)
    if kind == "random":
        config = ModelConfig.of(plan.model)
        return _called("model", RandomWeights, {"config": config, **knobs}), config
    if kind == "directory" and set(knobs) == {"path"}:
        opened = open_huggingface(Path(knobs["path"]))
        return opened, opened.config
    raise BadInput(
        f"execution: model is {kind!r} with {sorted(knobs)}; use random with a seed, or directory with a path"
    )


def _data(
    knobs: dict[str, Any], config: ModelConfig, *, verify: bool
) -> tuple[TokenSource, Callable[[DeploymentPlan], None]]:
    kind = knobs.pop("kind", None)
    if kind == "synthetic":
        return _called("data", SyntheticTokens, {"vocabulary": config.vocabulary, **knobs}), lambda _: None
    if kind == "patterns":
        return _called("data", PatternedTokens, {"vocabulary": config.vocabulary, **knobs}), lambda _: None
    if kind == "store" and set(knobs) == {"path"}:
        stores = Stores(Path(knobs["path"]), {}, verify)
        return StoredTokens(stores.opened), stores.admit
    if kind == "stores":
        stores = Stores(None, store_places(knobs), verify)
        return StoredTokens(stores.opened), stores.admit
    raise BadInput(
        f"execution: data is {kind!r} with {sorted(knobs)}; use synthetic or patterns with a seed, store with a path, "
        "or stores with a path for each tenant"
    )


def _called(owner: str, make: Callable[..., Any], knobs: dict[str, Any]) -> Any:
    try:
        return make(**knobs)
    except TypeError as error:
        raise BadInput(f"execution: {owner}: {error}") from None
