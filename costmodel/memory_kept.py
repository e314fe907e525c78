"""What backward keeps of a token: counted tensor by tensor for an engine that saves the inputs of its adapters.

The layer is that of this project's executor: norms, rotation and gate keep their inputs alone; a frozen product keeps
nothing; a product with adapters keeps its input (dA needs it) and the rank-wide h; attention keeps q, k, v, its output
and a float32 number a head. Dropout keeps nothing, since masks are made again. Under tensor parallelism with sequence
parallelism the input of q, k, v, gate and up is the gathered one, so that part does not divide by tp: what an adapter
costs a long sequence at tp 8. Checked against the executor's own count of saved tensors, which it meets exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lobra.spec import TARGET_MODULES, ModelSpec, Tenant

PRECISE_BYTES = 4  # of norms' scales and attention's sums, whatever the type of activations


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes a token of the micro-batch that one rank keeps from forward to backward."""

    layer: float  # of one layer that is not recomputed
    inputs: float  # of one that is: its input
    first: float  # less on a model's first layer, whose input needs no gradient
    head: float  # on the last stage: input of the last norm, gradient of the loss
    angles: float  # of the rotation, once a stage, while any layer keeps its own
    output: float  # of every stage but the last: what it sent


def kept(model: ModelSpec, tenants: Sequence[Tenant], tp: int, item: int) -> Kept:
    """item: bytes of an activation. Every module that one tenant adapts counts, at the rank of the widest tenant."""
    hidden, narrow = model.hidden / tp, max(model.kv_heads // tp, 1) * model.head_size
    trained = {module for tenant in tenants for module in tenant.target_modules if module in TARGET_MODULES}
    gathered = model.hidden * (
        bool(trained & {"q_proj", "k_proj", "v_proj"}) + bool(trained & {"gate_proj", "up_proj"})
    )
    inner = model.intermediate / tp * (3 if "down_proj" in trained else 2)
    ranks = max((tenant.rank * len(tenant.target_modules) for tenant in tenants), default=0)
    numbers = 4 * hidden + gathered + 2 * narrow + inner + ranks  # both norms' inputs, q, attention's output
    scale = PRECISE_BYTES / tp
    return Kept(
        layer=item * numbers + scale * (model.heads + 2),
        inputs=item * hidden,
        first=item * hidden + scale,
        head=2 * item * hidden + scale,
        angles=item * model.head_size,
        output=item * hidden,
    )


def stage_kept(part: Kept, layers: int, recomputed: int, *, first: bool, last: bool) -> float:
    """Bytes a token of one micro-batch on one stage; the first layers of a stage are the recomputed ones."""
    whole = (layers - recomputed) * part.layer + recomputed * part.inputs
    if first and not recomputed:
        whole -= part.first
    if recomputed < layers:
        whole += part.angles
    return whole + (part.head if last else part.output)


def dropped_numbers(model: ModelSpec, tenants: Sequence[Tenant], tp: int) -> float:
    """Numbers a token and layer that engines keep besides where they hold dropped inputs instead of making them again.

    One copy of the input of every adapted module of a tenant with dropout; 0 without one.
    """
    wide = {"down_proj": model.intermediate}
    dropping = {module for tenant in tenants if tenant.dropout for module in tenant.target_modules}
    return sum(wide.get(module, model.hidden) for module in dropping) / tp
