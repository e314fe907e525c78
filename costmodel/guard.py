"""The guard: what may be loaded, and what may be asked.

Loaded: a source of layer times with a number that is missing, negative, infinite or none, with a forward share outside
its range or a hull that is none, is refused with the field's name. What is left is monotone and never negative.

Asked: a micro-batch outside the fitted hull (more tokens than were timed, or longer sequences) is an extrapolation. Its
excess is the larger of both ratios, and its interval is that many times as wide: the floor form fitted to the 7B
profile up to 1,024, 2,048 or 4,096 tokens a sequence errs beyond that 0.6 to 1.8 times as much as inside at twice the
length, 1.6 to 4.2 times at four times, 1.4 to 9 times at eight times. `Strict` refuses it instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

from costmodel.fitted import FittedCost
from costmodel.knotted import KnottedCost
from costmodel.layered import LayeredCost
from costmodel.sources import field
from lobra.batch import Array
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, Replica, ReplicaConfig, Shape
from lobra.protocols import CostModel
from lobra.rates import Provenance, Rates
from lobra.spec import Tenant

PARTS = ("floor_seconds", "fixed_seconds", "run_seconds", "token_seconds", "square_seconds")
LARGEST_SHARE = 0.5  # of forward: above it, backward could shrink while its micro-batch grows


@dataclass(frozen=True, slots=True)
class Hull:
    """The largest micro-batch that was timed: its tokens, and tokens of its sequences."""

    tokens: float
    length: float

    def excess(self, shape: Shape) -> float:
        """How many times beyond the hull a micro-batch is; 1 inside. Length: the mean, weighted by tokens, S2 / N."""
        tokens = shape.tokens / shape.shards
        return max(1.0, tokens / self.tokens, shape.squares / max(1, shape.tokens) / self.length)


def hulls(cost: CostModel) -> dict[int, Hull]:
    """The hull of every tp of a cost model that was fitted; none where nothing was."""
    match cost:
        case FittedCost():
            return hulls(cost.layered)
        case KnottedCost():
            return hulls(cost.planned)
        case Strict():
            return hulls(cost.cost)
        case LayeredCost():
            return {tp: Hull(tokens, length) for tp, (tokens, length) in cost.evidence.hull.items()}
    return {}


def widened(half_width: float, excess: float) -> float:
    """The half-width, of a logarithm, of a prediction so many times beyond the hull."""
    return half_width * max(1.0, excess)


@dataclass(frozen=True, slots=True)
class Strict:
    """A cost model that refuses to extrapolate; a `lobra.protocols.CostModel`."""

    cost: CostModel
    hulls: Mapping[int, Hull]

    def configs(self) -> tuple[ReplicaConfig, ...]:
        """Configurations it can price."""
        return self.cost.configs()

    def max_tokens(self, config: ReplicaConfig, tenants: Sequence[Tenant]) -> int:
        """Tokens that a micro-batch may hold."""
        return self.cost.max_tokens(config, tenants)

    def rates(self, config: ReplicaConfig, widths: Array, shards: int = 1) -> Rates:
        """Prices of micro-batches of these widths, of which nobody says yet that they will be used."""
        return self.cost.rates(config, widths, shards)

    def stage_seconds(self, replica: Replica, stage: int, shape: Shape, kind: Literal["forward", "backward"]) -> float:
        """Seconds of one stage; BadInput for a micro-batch that is larger than any that was timed."""
        hull = self.hulls.get(replica.config.tp)
        if hull is not None and hull.excess(shape) > 1:
            raise BadInput(
                f"strict: a micro-batch of {shape.tokens} tokens, {shape.squares / shape.tokens:.0f} a sequence, on "
                f"{replica.config} lies beyond what was timed ({hull.tokens:.0f} and {hull.length:.0f}); profile "
                "larger ones, or set cost.strict=false"
            )
        return self.cost.stage_seconds(replica, stage, shape, kind)

    def transfer_seconds(self, plan: DeploymentPlan, replica: int, shape: Shape) -> float:
        """Seconds to hand activations to the next stage."""
        return self.cost.transfer_seconds(plan, replica, shape)

    def synchronise_seconds(self, plan: DeploymentPlan) -> float:
        """Seconds to sum the adapters' gradients and to update."""
        return self.cost.synchronise_seconds(plan)

    def provenance(self, config: ReplicaConfig, tenants: Sequence[Tenant], shards: int = 1) -> Provenance:
        """What the answers rest on."""
        return self.cost.provenance(config, tenants, shards)


def strict(cost: CostModel) -> Strict:
    """The same prices without extrapolation; BadInput where there is no hull, since nothing was timed."""
    found = hulls(cost)
    if not found:
        raise BadInput("strict: this cost model was not fitted to layer times, so it has no hull; use cost=fitted")
    return Strict(cost, found)


def check_floor_source(source: Mapping[str, Any]) -> None:
    """Refuse a source of layer times that could price anything negative, infinite, or less for more tokens."""
    fits = field(source, "fits")
    if not isinstance(fits, list) or not fits or not all(isinstance(fit, dict) for fit in fits):
        raise BadInput("source: fits must be a list of mappings, at least one; write the file with `lobra fit`")
    for fit in fits:
        tp = field(fit, "tp")
        if not isinstance(tp, int) or tp < 1:
            raise BadInput(f"source: tp is {tp!r}; it must be a whole number, 1 or more")
        parts = {part: _number(f"tp {tp}: {part}", field(fit, part)) for part in PARTS}
        if not any(parts.values()):
            raise BadInput(f"source: tp {tp}: every part is 0; a layer takes some time")
        for name in ("tokens", "lengths"):
            _check_range(f"tp {tp}: {name}", field(fit, name))
        if (known := fit.get("contention")) is not None:
            _number(f"tp {tp}: contention factor", field(known, "factor"))
        if (room := fit.get("max_tokens")) is not None:
            _number(f"tp {tp}: max_tokens", room)
    tps = [fit["tp"] for fit in fits]
    if len(set(tps)) < len(tps):
        raise BadInput(f"source: tp stands more than once in fits: {tps}")
    for key in ("rest_seconds", "rest_tenant_seconds", "deploy_seconds_per_gib"):
        _number(key, source.get(key, 0.0))
    _check_shares(field(source, "forward_share"))


def _check_shares(share: Mapping[str, Any]) -> None:
    linear, attention = (_number(f"forward_share {name}", field(share, name)) for name in ("linear", "attention"))
    if not 0 < attention <= linear <= LARGEST_SHARE:
        raise BadInput(
            f"source: forward_share is linear {linear:g}, attention {attention:g}; it must be 0 < attention <= linear "
            f"<= {LARGEST_SHARE}, or backward could be negative"
        )


def _check_range(name: str, value: Any) -> None:
    if not isinstance(value, list) or len(value) != 2:
        raise BadInput(f"source: {name} is {value!r}; it must be [smallest, largest]")
    low, high = (_number(name, each) for each in value)
    if not 0 < low <= high:
        raise BadInput(f"source: {name} is {value!r}; it must be [smallest, largest], above 0")


def _number(name: str, value: Any) -> float:
    """A finite number, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < 0:
        raise BadInput(f"source: {name} is {value!r}; it must be a finite number, 0 or more")
    return float(value)
