"""The paper's own cost form, to re-derive its estimates exactly.

The idea: a layer of b sequences padded to s tokens takes t(b, s) = (c1 b + c2) s^2 + (c3 b + c4) s + (c5 b + c6),
forward plus backward, six numbers a tp fitted by unweighted least squares; a stage takes t L / pp (L / pp a fraction).
Source: the appendix of LobRA (arXiv 2509.01193), Eq. 10-12, and its released code. Its limits: coefficients may be
negative; undefined for packs, recomputation, sharded weights and context parallelism, which it refuses; transfers and
gradient synchronisation cost nothing, as in the paper.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from costmodel.layered import Memory
from lobra.batch import Array, frozen
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, Replica, ReplicaConfig, Shape
from lobra.rates import Provenance, Rates
from lobra.spec import ModelSpec, Tenant

Coefficients = tuple[float, float, float, float, float, float]
MILLISECOND = 1e-3
FORWARD = (
    0.473  # the paper does not split; backward / forward 1.116 is the mean of LoRAFusion's 30 measured LoRA layers
)


@dataclass(frozen=True, slots=True)
class PaperCost:
    """Six coefficients a tp, in milliseconds."""

    model: ModelSpec
    coefficients: Mapping[int, Coefficients]
    memory: Memory
    candidates: tuple[ReplicaConfig, ...]
    source: str

    def configs(self) -> tuple[ReplicaConfig, ...]:
        """Configurations it can price."""
        return self.candidates

    def max_tokens(self, config: ReplicaConfig, tenants: Sequence[Tenant]) -> int:
        """Tokens that a micro-batch may hold."""
        self._coefficients(config, 1)
        return self.memory.max_tokens(config, tenants)

    def rates(self, config: ReplicaConfig, widths: Array, shards: int = 1) -> Rates:
        """Prices of padded micro-batches; packs have none."""
        c1, c2, c3, c4, c5, c6 = self._coefficients(config, shards)
        scale = MILLISECOND * self.model.layers / config.pp
        width = np.asarray(widths, dtype=np.float64)
        return Rates(
            floor=0.0,
            fixed=frozen((c2 * width**2 + c4 * width + c6) * scale, np.float64),
            row=frozen((c1 * width**2 + c3 * width + c5) * scale, np.float64),
            pack=None,
        )

    def stage_seconds(self, replica: Replica, stage: int, shape: Shape, kind: Literal["forward", "backward"]) -> float:
        """Seconds of any stage for a padded micro-batch: all stages are equal."""
        del stage
        rows, width = shape.rows, shape.width
        if shape.squares != rows * width * width:
            raise BadInput(
                f"paper form: a micro-batch of {rows} rows of {width} tokens is packed, and the form has no price for "
                "packs; use form=floor"
            )
        if replica.layers is not None:
            raise BadInput(f"paper form: replica {replica.config} has its own layers; the form divides them evenly")
        c1, c2, c3, c4, c5, c6 = self._coefficients(replica.config, shape.shards)
        layer = (c1 * rows + c2) * width**2 + (c3 * rows + c4) * width + (c5 * rows + c6)
        whole = layer * MILLISECOND * self.model.layers / replica.config.pp
        backward = whole - FORWARD * whole
        return backward if kind == "backward" else whole - backward  # their sum is the whole to the last bit

    def transfer_seconds(self, plan: DeploymentPlan, replica: int, shape: Shape) -> float:
        """Nothing: the paper does not model it."""
        del plan, replica, shape
        return 0.0

    def synchronise_seconds(self, plan: DeploymentPlan) -> float:
        """Nothing: the paper does not model it."""
        del plan
        return 0.0

    def provenance(self, config: ReplicaConfig, tenants: Sequence[Tenant], shards: int = 1) -> Provenance:
        """What the answers rest on; groups are refused where they are priced."""
        del shards
        note = "the paper's form: transfers between stages and gradient synchronisation cost nothing"
        status = "derived" if config.pp > 1 else "measured"  # pp only divides the layers
        return Provenance(status, self.source, (note, *self.memory.notes(config, tenants)))

    def _coefficients(self, config: ReplicaConfig, shards: int) -> Coefficients:
        if config.recompute or config.fsdp > 1:
            raise BadInput(
                f"paper form: configuration {config} has recompute {config.recompute} and fsdp {config.fsdp}, which "
                "the form does not price; use recompute 0 and fsdp 1, or form=floor"
            )
        if shards > 1:
            raise BadInput(f"paper form: shards is {shards}; it has no context parallelism; use form=floor")
        found = self.coefficients.get(config.tp)
        if found is None:
            known = ", ".join(map(str, self.coefficients))
            raise BadInput(f"paper form: tp is {config.tp}; it has coefficients for tp {known}")
        return found


def paper_coefficients(source: Mapping[str, Any]) -> dict[int, Coefficients]:
    """The coefficients of a source by tp."""
    table: dict[int, Coefficients] = {}
    for tp, values in source["coefficients_milliseconds"].items():
        c1, c2, c3, c4, c5, c6 = map(float, values)
        table[int(tp)] = (c1, c2, c3, c4, c5, c6)
    return table
