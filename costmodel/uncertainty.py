"""Draws of what the truth may be: the same cost model with other coefficients, jointly, and a systematic term.

Two parts. The coefficients of a tp are drawn together, from the covariance of relative least squares over a grid of the
fitted hull: where the fixed part comes out higher the part a token comes out lower, as points would allow. Then every
(tp, pp) gets one factor for all its stages: what repeats of one session cannot show (another day, another machine, how
stages compose). A draw is a function of (seed, draw) alone, so two policies compared under one draw see one truth.

The systematic term, as the standard deviation of a logarithm: of measured layer times 4.7 %, since three measurements
of one layer by the same authors differ by 7.8 % up and down, taken as a 90 % interval; of what is composed from layers
7.0 %: without a head that composition is off by 5.6 % on average against 32 published step times, with one by 2.2 %,
and recomputation and shared micro-batches, which nobody timed, may be further off; of rooflines 25 %, since sums of
kernel times without the adapters' own kernels are 18 to 28 % low on four published LoRA runs (with measured
efficiencies 4 % on these and 13 % on the 32 step times, so that it may be too wide there). The half-width that `lobra
fit` found takes the first one's place; of models of 7B and more it is never below it.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import exp, log2

import numpy as np

from costmodel.calibration import LEAST_HALF_WIDTH
from costmodel.guard import Strict, widened
from costmodel.layer import LayerPrice
from costmodel.scaled import Layered, Scaled, floor_form, with_factors
from lobra.batch import Array
from lobra.errors import BadInput
from lobra.plan import ReplicaConfig
from lobra.protocols import CostModel
from lobra.spec import Tenant

NINETY = 1.645  # standard deviations from the middle to the end of a 90 % interval
COMPOSED_SIGMA = 0.07
ROOFLINE_SIGMA = 0.25
FIT_ERROR = 0.05  # root mean square relative error of the shipped fits, rounded up
FIT_POINTS = 60  # of a tp, as in the shipped profile
_STREAM = 0xD2A7  # keeps these streams apart from others of the same seed


def systematic_sigma(status: str, excess: float = 1.0, half_width: float = 0.0) -> float:
    """Standard deviation of the logarithm, by what an answer rests on; so many times wider beyond the hull.

    half_width: of a 90 % interval of one's own calibration, of the logarithm; 0: there is none.
    """
    measured = (half_width or LEAST_HALF_WIDTH) / NINETY
    known = {"measured": measured, "derived": max(measured, COMPOSED_SIGMA)}
    return widened(max(known.get(status, ROOFLINE_SIGMA), measured), excess)


def drawn(cost: CostModel, sigmas: Mapping[tuple[int, int], float], *, seed: int, draw: int) -> CostModel:
    """The draw-th of a seed's cost models; sigmas: the systematic term of each (tp, pp)."""
    if seed < 0 or draw < 0:
        raise BadInput(f"intervals: seed {seed} and draw {draw} must not be negative")
    for key, sigma in sigmas.items():
        if not 0 <= sigma < float("inf"):
            raise BadInput(f"intervals: sigma of {key} is {sigma}; it must be a finite number, 0 or more")
    factors: dict[int | tuple[int, int], float] = {
        key: exp(sigma * _normal(seed, draw, 0, *key)[0]) for key, sigma in sigmas.items()
    }
    synchronise = exp(COMPOSED_SIGMA * _normal(seed, draw, 1)[0])
    return Scaled(_redrawn(cost, seed, draw), factors, None, synchronise, "coefficients drawn from their uncertainty")


def coefficient_factors(price: LayerPrice, hull: tuple[float, float], normal: Array) -> dict[str, float]:
    """Factors of the price's coefficients, drawn jointly by standard normal numbers [3]; none is negative.

    The floor and the part of a run go with the fixed part: no grid tells them apart.
    """
    names = [name for name in ("fixed", "token", "square") if getattr(price, name) > 0]
    if not names:
        return {}
    tokens, squares = _grid(*hull)
    columns = {"fixed": np.ones(len(tokens)), "token": tokens, "square": squares}
    seconds = np.maximum(price.floor, price.fixed + price.token * tokens + price.square * squares)
    # relative coefficients of relative least squares: column k is the share of coefficient k in each point
    shares = np.stack([getattr(price, name) * columns[name] / seconds for name in names], axis=1)
    covariance = np.linalg.pinv(shares.T @ shares * (FIT_POINTS / len(tokens))) * FIT_ERROR**2
    values, vectors = np.linalg.eigh(covariance)
    moved = 1 + vectors @ (np.sqrt(np.maximum(values, 0.0)) * normal[: len(names)])
    factors = {name: max(0.0, float(factor)) for name, factor in zip(names, moved, strict=True)}
    start = factors.get("fixed", 1.0)
    return factors | {"floor": start, "run": start}


def _redrawn(cost: CostModel, seed: int, draw: int) -> CostModel:
    """The model with coefficients of its own drawn anew, in both views; as it is in any other form, or unfitted."""
    if isinstance(cost, Strict):
        return _redrawn(cost.cost, seed, draw)
    if not isinstance(cost, Layered):
        return cost
    known = floor_form(cost)
    factors = {
        tp: coefficient_factors(known.prices[tp, 1, False], hull, _normal(seed, draw, 2, tp))
        for tp, hull in known.evidence.hull.items()
        if (tp, 1, False) in known.prices
    }
    return with_factors(cost, factors) if factors else cost


def _grid(tokens: float, length: float) -> tuple[Array, Array]:
    """N and S2 of uniform micro-batches with 128 tokens a sequence and more, in powers of two, inside the hull."""
    lengths = [length / 2**step for step in range(max(1, int(log2(max(2.0, length / 128))) + 1))]
    points = [
        (each * 2**step, each**2 * 2**step)
        for each in lengths
        for step in range(int(log2(max(1.0, tokens / each))) + 1)
    ]
    table = np.array(points)
    return table[:, 0], table[:, 1]


def _normal(seed: int, draw: int, *key: int) -> Array:
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_STREAM, draw, *key)))
    return generator.standard_normal(3)


def sigmas_of(
    cost: CostModel,
    configs: Iterable[ReplicaConfig],
    tenants: Sequence[Tenant],
    excesses: Mapping[tuple[int, int], float],
    half_width: float = 0.0,
) -> dict[tuple[int, int], float]:
    """The systematic term of every (tp, pp) in use, by its provenance and by how far beyond the hull it is asked."""
    found: dict[tuple[int, int], float] = {}
    for config in sorted(set(configs)):
        key, status = (config.tp, config.pp), cost.provenance(config, tenants).status
        found[key] = max(found.get(key, 0.0), systematic_sigma(status, excesses.get(key, 1.0), half_width))
    return found
