"""The structure of a training iteration, its constants fitted: slots of layers that compute or wait for launches.

An iteration of m micro-batches on pp stages takes (m + pp - 1) L / pp times max(kernels, launches) of a layer, plus
head, gradient sums, update and a start a micro-batch. Kernels and launches are sums of known quantities times constants
>= 0; all-reduces come from a measured table. Which layers wait for launches is found by turns: given that, the
constants are one non-negative least squares problem of relative errors, reweighted towards their least absolute sum.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from lobra.batch import Array

Columns = Mapping[str, Array]
Ring = Mapping[int, tuple[Array, Array]]  # by members: bytes, seconds
VOCABULARY, NODE = 51200, 8
TURNS, STARTS, SMALLEST = 30, (0.2, 0.5, 0.8), 0.01


@dataclass(frozen=True)
class Parts:
    """What the constants multiply; matrices [n, constants]."""

    kernels: Array
    launches: Array
    rest: Array
    size: Array  # [n] work of a layer, to begin the turns with

    @property
    def constants(self) -> int:
        """How many there are to fit."""
        return int(self.kernels.shape[1] + self.launches.shape[1] + self.rest.shape[1])


@dataclass(frozen=True)
class Iteration:
    """Constants that were fitted."""

    kernels: Array
    launches: Array
    rest: Array

    def seconds(self, parts: Parts) -> Array:
        """What an iteration takes."""
        layers = np.maximum(parts.kernels @ self.kernels, parts.launches @ self.launches)
        whole: Array = layers + parts.rest @ self.rest
        return whole


def parts_of(table: Columns, ring: Ring) -> Parts:
    """The quantities of every iteration of a table; ring: measured all-reduces inside a node."""
    h, layers, s, b = (table[key] for key in ("hidden_size", "num_layers", "sequence_length", "micro_batch"))
    tp, dp, pp = (table[f"{key}_parallelism"] for key in ("tensor", "data", "pipeline"))
    n, m, one = b * s, table["global_batch"] / dp / b, np.ones_like(b)
    slots = m + pp - 1
    weights = 12 * h * h * layers / (tp * pp) + h * VOCABULARY / tp
    message = all_reduce(ring, tp, 2 * n * h)
    kernels = [n * h * h / tp, n * h, n * h * s / tp, message, (tp > NODE) * n * h, one]
    launches = [one, np.log2(tp), message]
    rest = [slots * n * h * VOCABULARY / tp, all_reduce(ring, dp, 2 * weights), dp > 1, (pp > 1) * slots, m, weights]
    of_layers = (slots * layers / pp)[:, None]
    return Parts(
        of_layers * np.stack(kernels, axis=1),
        of_layers * np.stack(launches, axis=1),
        np.stack(rest, axis=1).astype(np.float64),
        n * h * h / tp,
    )


def all_reduce(ring: Ring, members: Array, size: Array) -> Array:
    """Seconds of so many bytes among so many members, between measured sizes; in proportion beyond them."""
    out = np.zeros_like(size)
    for count, (sizes, seconds) in ring.items():
        here = np.minimum(members, max(ring)) == count
        inside = np.interp(size[here], sizes, seconds)
        small, large = size[here] / sizes[0], size[here] / sizes[-1]
        out[here] = np.where(small < 1, seconds[0] * (1 + small) / 2, np.where(large > 1, seconds[-1] * large, inside))
    return out


def fit_iteration(parts: Parts, seconds: Array, chosen: Array) -> Iteration:
    """The constants that predict the chosen points [n] best."""
    scale = [np.maximum(matrix.max(axis=0), 1e-300) for matrix in (parts.kernels, parts.launches, parts.rest)]
    kernels, launches, rest = (
        matrix[chosen] / scale[number] / seconds[chosen, None]
        for number, matrix in enumerate((parts.kernels, parts.launches, parts.rest))
    )
    cuts = np.cumsum([kernels.shape[1], launches.shape[1]])
    best, least = None, np.inf
    for start in STARTS:
        computes = parts.size[chosen] >= np.quantile(parts.size[chosen], start)
        weight = np.ones(len(kernels))
        for _ in range(TURNS):
            design = np.concatenate([kernels * computes[:, None], launches * ~computes[:, None], rest], axis=1)
            tall = np.maximum(np.abs(design).max(axis=0), 1e-300)
            found = np.split(nnls(design * weight[:, None] / tall, weight)[0] / tall, cuts)
            waiting = launches @ found[1]
            errors = np.abs(np.maximum(kernels @ found[0], waiting) + rest @ found[2] - 1)
            if errors.mean() < least:
                least, best = float(errors.mean()), found
            computes = kernels @ found[0] >= waiting
            weight = 1 / np.sqrt(np.maximum(errors, SMALLEST))
    assert best is not None
    return Iteration(*(values / factor for values, factor in zip(best, scale, strict=True)))
