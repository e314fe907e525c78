"""Where the memory of a replica goes: the heaviest stage at the most tokens that fit, for people and tests."""

from collections.abc import Sequence
from dataclasses import dataclass

from costmodel.fitted import FittedCost
from costmodel.guard import Strict
from costmodel.knotted import KnottedCost
from costmodel.layered import LayeredCost
from costmodel.memory import AnalyticMemory, Breakdown
from costmodel.memory_executor import ExecutorMemory
from costmodel.paper import PaperCost
from costmodel.scaled import Scaled
from costmodel.table import TableMemory
from lobra.plan import ReplicaConfig
from lobra.protocols import CostModel
from lobra.spec import Tenant

Counted = AnalyticMemory | ExecutorMemory
COLUMNS = (
    "replica",
    "stage",
    "max tokens",
    "weights",
    "adapters",
    "activations",
    "logits",
    "workspace",
    "reserve",
    "of",
)


@dataclass(frozen=True, slots=True)
class Account:
    """One configuration with these tenants; the breakdown is at so many tokens, in GiB of one GPU of the stage."""

    config: ReplicaConfig
    stage: int  # the heaviest
    tokens: int  # of a micro-batch: the most that fit, not rounded
    granted: int  # what the cost model gives to planners: rounded, or out of a measured table
    breakdown: Breakdown
    notes: tuple[str, ...]


def account(counted: Counted, config: ReplicaConfig, tenants: Sequence[Tenant], granted: int | None = None) -> Account:
    """The account of a memory model that counts; where not even the weights fit, of micro-batches without tokens."""
    tokens = int(counted.tokens(config, tenants))
    parts = [counted.breakdown(config, tenants, tokens, stage) for stage in range(config.pp)]
    stage = min(range(config.pp), key=lambda number: parts[number].spare)
    rounded = counted.max_tokens(config, tenants) if granted is None else granted
    return Account(config, stage, tokens, rounded, parts[stage], counted.notes(config, tenants))


def account_of(cost: CostModel, config: ReplicaConfig, tenants: Sequence[Tenant]) -> Account | None:
    """The same out of a cost model; None where its max tokens come without a count."""
    counted = _counted(cost)
    return None if counted is None else account(counted, config, tenants, cost.max_tokens(config, tenants))


def account_cells(row: Account) -> tuple[str, ...]:
    """Cells under COLUMNS, GiB; adapters with their gradients and optimiser state."""
    part = row.breakdown
    sizes = (
        part.weights,
        part.adapters + part.gradients + part.optimiser,
        part.activations,
        part.logits,
        part.workspace,
        part.reserve,
        part.capacity,
    )
    return (str(row.config), str(row.stage), f"{row.granted} ({row.tokens} fit)", *(f"{size:.2f}" for size in sizes))


def _counted(cost: CostModel) -> Counted | None:
    match cost:
        case Scaled():
            return _counted(cost.cost)
        case FittedCost():
            return _counted(cost.layered)
        case KnottedCost():
            return _counted(cost.planned)
        case Strict():
            return _counted(cost.cost)
        case LayeredCost() | PaperCost():
            memory = cost.memory.analytic if isinstance(cost.memory, TableMemory) else cost.memory
            return memory if isinstance(memory, AnalyticMemory | ExecutorMemory) else None
    return None
