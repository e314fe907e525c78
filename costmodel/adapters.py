"""The adapters' own kernels: what they take a token, and what one more adapter takes a micro-batch.

A token passes every target module's down- and up-projection, forward and twice backward. Unfused kernels (loop,
grouped) are bound by memory: they move the module's inputs and outputs `passes` times more often than the frozen layer
does; fused ones read them along with the layer. What passes between both projections, and the operations, grow with
the rank. One more adapter run in a micro-batch costs a loop its small products once more, and grouped or fused kernels
half a tile of tokens, filled up.

Layer times that were measured hold one run of adapters of rank 16 (the paper's tasks) and unfused kernels: of these
only the difference is added, and a run is taken out of the fixed part before it is counted. A roofline of assumed
efficiencies holds none. What `lobra fit` wrote has its own, measured price of a run, and whatever ranks were timed.

Everything here is derived: DRAM traffic that LoRAFusion's authors counted, and times of products with 32 rows or
columns (`costmodel.adapter_fit` makes the numbers from the tables). Tenants count by their mean, each by its sequences
a step. Dropout, and kernels whose products of different adapters run side by side, are left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Literal, NamedTuple

from costmodel.knots import Curve
from costmodel.layer import LayerPrice
from costmodel.memory import adapter_widths
from costmodel.sources import FOLDER, field, nearest, read_source
from costmodel.views import Directions
from lobra.errors import BadInput
from lobra.spec import ClusterSpec, GpuSpec, ModelSpec, Tenant

Kernels = Literal["auto", "loop", "grouped", "fused"]
KERNELS = ("auto", "loop", "grouped", "fused")
FILE: Path = FOLDER / "adapters.yaml"
TIMED = (Tenant(name="timed", batch_size=1, context_limit=1, rank=16),)  # whose adapters measured layer times hold
BYTES = 2.0  # an element of bfloat16
BETWEEN = 6  # forward and backward write and read what lies between both projections so often
OPERATIONS = 6.0  # a weight and token: 2 forward, 2 for the gradient of its input, 2 for its own
PRODUCTS = 6  # of a module: 2 forward, 4 backward
TILE = 128  # tokens a kernel of many adapters takes at once
EFFICIENCY = 0.55  # of the dense peak
ROW_MODULES = ("o_proj", "down_proj")  # tensor parallelism cuts their inputs, of the others the outputs


class AdapterPrice(NamedTuple):
    """Seconds of one layer, forward plus backward, for each run and each token."""

    run: float
    token: float


@dataclass(frozen=True, slots=True)
class Adapters:
    """Whose adapters, by which kernels, and how many times its price a run costs."""

    tenants: tuple[Tenant, ...] = ()  # (): those that measured layer times hold
    kernels: Kernels = "auto"  # auto: loop
    run_factor: float = 1.0

    def __post_init__(self) -> None:
        if self.kernels not in KERNELS:
            raise BadInput(nearest("adapters", self.kernels, KERNELS))
        if not (isfinite(self.run_factor) and self.run_factor >= 0):
            raise BadInput(f"adapter_run is {self.run_factor}; it must be a finite number, 0 or more")

    @property
    def usual(self) -> bool:
        """Whether nothing but the tenants was asked for."""
        return self.kernels == "auto" and self.run_factor == 1


@dataclass(frozen=True, slots=True)
class KernelTable:
    """The numbers of the source file."""

    passes: float  # over inputs and outputs, of unfused kernels
    bandwidth_share: float  # of the memory's, that they reach
    products: Mapping[str, float]  # seconds of a small product, by GPU

    def product_seconds(self, gpu: GpuSpec) -> float:
        """Seconds of a small product; where nobody timed this GPU, of the slowest that was."""
        return self.products.get(gpu.name, max(self.products.values()))


def read_kernels() -> KernelTable:
    """The shipped numbers."""
    body = read_source(FILE, "adapters")
    products = {name: float(field(row, "seconds")) for row in field(body, "products") for name in field(row, "gpus")}
    return KernelTable(float(field(body, "passes")), float(field(body, "bandwidth_share")), products)


def adapter_price(table: KernelTable, model: ModelSpec, gpu: GpuSpec, tp: int, adapters: Adapters) -> AdapterPrice:
    """The mean over the tenants, each by its sequences a step."""
    tenants = adapters.tenants or TIMED
    whole = sum(tenant.batch_size for tenant in tenants)
    prices = [
        (tenant.batch_size / whole, _tenant_price(table, model, gpu, tp, tenant=tenant, kernels=adapters.kernels))
        for tenant in tenants
    ]
    run, token = (sum(share * price[part] for share, price in prices) for part in range(2))
    return AdapterPrice(adapters.run_factor * run, token)


def _tenant_price(
    table: KernelTable, model: ModelSpec, gpu: GpuSpec, tp: int, *, tenant: Tenant, kernels: Kernels
) -> AdapterPrice:
    widths = adapter_widths(model, tenant)
    moved = sum(n / tp + k if name not in ROW_MODULES else n + k / tp for name, (k, n) in widths.items())
    passes = 0.0 if kernels == "fused" else table.passes
    size = BYTES * (passes * moved + BETWEEN * tenant.rank * len(widths))
    operations = OPERATIONS * tenant.rank * sum(map(sum, widths.values())) / tp
    token = size / (gpu.memory_gigabytes_per_second * 1e9 * table.bandwidth_share)
    token += operations / (gpu.teraflops * 1e12 * EFFICIENCY)
    loop = kernels in ("auto", "loop")
    return AdapterPrice(PRODUCTS * len(widths) * table.product_seconds(gpu) if loop else TILE / 2 * token, token)


def with_adapters(
    prices: Mapping[int, LayerPrice], model: ModelSpec, cluster: ClusterSpec, adapters: Adapters, *, held: bool
) -> tuple[dict[int, LayerPrice], str]:
    """Prices of a layer by tp with its tenants' adapters, and what a reader must know.

    held: those of TIMED, as one run, are in them already.
    """
    table, found = read_kernels(), {}
    for tp, price in prices.items():
        own = adapter_price(table, model, cluster.gpu, tp, adapters)
        if held:
            more = own.token - adapter_price(table, model, cluster.gpu, tp, Adapters()).token
            run = min(own.run, price.fixed)
            found[tp] = price._replace(fixed=price.fixed - run, run=price.run + run, token=max(0.0, price.token + more))
        else:
            found[tp] = price._replace(run=price.run + own.run, token=price.token + own.token)
    kernels = "loop" if adapters.kernels == "auto" else adapters.kernels
    run = adapter_price(table, model, cluster.gpu, 1, adapters).run
    place = "taken out of the fixed part of the layer times" if held else "on top of the layer"
    return found, f"an adapter run takes {run * 1e6:.0f} us a layer ({kernels} kernels, derived), {place}"


def views_with_adapters(
    views: Mapping[int, Directions],
    before: Mapping[int, LayerPrice],
    after: Mapping[int, LayerPrice],
) -> dict[int, Directions]:
    """The curves of every tp, changed as its planner's price was."""
    found = {}
    for tp, view in views.items():
        share = before[tp].forward_linear
        run, token = after[tp].run - before[tp].run, after[tp].token - before[tp].token
        found[tp] = Directions(
            *(_curve(curve, part * run, part * token) for curve, part in zip(view, (share, 1 - share), strict=True))
        )
    return found


def _curve(curve: Curve, run: float, token: float) -> Curve:
    run = min(run, curve.heights[0])
    if token == 0:
        heights = tuple(height - run for height in curve.heights)
        return Curve(curve.knots, heights, curve.slopes, curve.run + run, curve.row, curve.square)
    slopes = tuple(max(0.0, slope + token) for slope in curve.slopes)
    risen = [curve.heights[0] - run]
    for low, high, slope in zip(curve.knots, curve.knots[1:], slopes, strict=False):
        risen.append(risen[-1] + slope * (high - low))
    return Curve(curve.knots, tuple(risen), slopes, curve.run + run, curve.row, curve.square)


def with_run_factor(prices: Mapping[int, LayerPrice], factor: float) -> dict[int, LayerPrice]:
    """Prices whose own part of a run, which was measured, is multiplied."""
    return {tp: price._replace(run=factor * price.run) for tp, price in prices.items()}


def curves_with_run_factor(views: Mapping[int, Directions], factor: float) -> dict[int, Directions]:
    """Curves whose own part of a run, which was measured, is multiplied."""
    return {tp: Directions(*(replace(curve, run=factor * curve.run) for curve in view)) for tp, view in views.items()}


def refuse_kernels(form: str, adapters: Adapters, *, runs: bool) -> None:
    """BadInput where a form is asked for what it does not have; runs: it has a price of a run."""
    if adapters.kernels != "auto":
        raise BadInput(
            f"adapters: {form} has the kernels that were timed, so adapters={adapters.kernels} cannot be priced; "
            "use adapters=auto, or form=auto without a file"
        )
    if not runs and adapters.run_factor != 1:
        raise BadInput(
            f"adapter_run is {adapters.run_factor}, but {form} has no price of an adapter run; leave it at 1"
        )
