"""What no dispatch can beat where machines have few sequences: each computes one of its whole patterns.

Starved machines hold two or three micro-batches that cannot be cut, so the fluid is 5-25 % below every dispatch. The
configuration program knows this: within theta, the p_k machines of kind k compute patterns n (counts that the exact
evaluator prices at theta at most), and all together must cover the step. Relaxed to shares of patterns,

    max lambda  s.t.  sum over k, n of n_j x[k, n] >= lambda B_j;  sum over n of x[k, n] <= p_k

no dispatch ends by theta if lambda < 1. Its dual says so without any solver being believed: for every q >= 0 that sums
to 1, lambda <= sum_k p_k V_k(q, theta), where V_k is the best pattern for prices q_j / B_j, a knapsack (see `patterns`,
pipelines included). One knapsack answers for all theta at once, so every q yields a bound: the largest theta whose sum
is below 1. Good q come from column generation in the dual: a small program over the patterns found so far proposes q,
mixed with the best q yet (else proposals jump about); the knapsacks at the first theta not yet excluded return new
patterns. It ends where the program shows that theta to be reachable by shares of patterns, or after `rounds`.

Cost: a knapsack a kind and level in each round, 5-40 rounds, 0.03-1 s in all; it grows with the counts that a machine
can hold, so it is meant for few sequences a machine (Gilmore and Gomory's cutting stock, 1961, with unequal machines).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse

from lobra.batch import Array
from lobra.rates import Loads
from policies.bounds.level import level_bound
from policies.bounds.patterns import Level, Pattern, knapsack, levels_of
from policies.solvers import Program, solve

CELLS = 2000  # of the grid of time: rounding costs up to one a bucket of a pattern, 0.05 % each
STRIDE = 1  # cells beyond what is excluded at which patterns are sought: the bound may be that much too low
ROUNDS = 120
CERTAIN = 1 - 1e-9  # sums from here on may be 1
OLD = 0.6  # share of the best prices yet in those that are tried


@dataclass(slots=True)
class _Search:
    """What is known so far."""

    machines: Array  # float64 [K]
    counts: Array  # int64 [J], all above 0
    levels: tuple[tuple[Level, ...], ...]  # by kind
    cells: int
    excluded: int  # no dispatch ends within so many cells
    patterns: list[tuple[int, Pattern]] = field(default_factory=list)  # with their kinds
    best: Array | None = None  # float64 [J], the shares q that excluded most

    def price(self, shares: Array) -> bool:
        """Exclude what these shares q exclude, and add the best patterns just beyond; whether any was excluded."""
        target = min(self.excluded + STRIDE, self.cells)
        total, found = np.zeros(self.cells + 1), []
        for kind, levels in enumerate(self.levels):
            solved = [knapsack(level, shares / self.counts, self.cells) for level in levels]
            if not solved:
                continue
            values = np.stack([one.best for one in solved])
            total += self.machines[kind] * values.max(axis=0)
            found.append((kind, solved[int(values[:, target].argmax())]))
        excluded = int(np.searchsorted(total, CERTAIN)) - 1  # totals ascend
        improved = excluded > self.excluded
        if improved:
            self.excluded, self.best = excluded, shares
        target = min(self.excluded + STRIDE, self.cells)
        self.patterns += [(kind, one.pattern(target)) for kind, one in found if one.level.bubble <= target]
        return improved

    def propose(self) -> tuple[Array, float]:
        """Shares q [J] that are worst for the patterns found, and the step's part that these can cover in time."""
        kinds = np.array([kind for kind, _ in self.patterns])
        parts = np.stack([pattern.counts for _, pattern in self.patterns]) / self.counts
        number, buckets = parts.shape
        rows = scipy.sparse.csc_matrix(-parts * self.machines[kinds][:, None])
        own = scipy.sparse.csc_matrix((np.ones(number), (np.arange(number), kinds)), (number, len(self.machines)))
        whole = scipy.sparse.csc_matrix(np.append(np.ones(buckets), np.zeros(len(self.machines)))[None])
        program = Program(
            cost=np.append(np.zeros(buckets), np.ones(len(self.machines))),
            matrix=scipy.sparse.vstack([scipy.sparse.hstack([rows, own]), whole]).tocsc(),
            row_low=np.append(np.zeros(number), 1.0),
            row_high=np.append(np.full(number, np.inf), 1.0),
            low=np.zeros(buckets + len(self.machines)),
            high=np.full(buckets + len(self.machines), np.inf),
            integer=np.zeros(buckets + len(self.machines), dtype=bool),
        )
        solution = solve(program)
        if solution.values is None:
            raise RuntimeError(f"the pattern program ended as {solution.status}; it always has an optimum")
        shares = np.maximum(solution.values[:buckets], 0.0)
        return shares / shares.sum(), solution.objective


def configuration_bound(
    loads: Sequence[Loads],
    replicas: Sequence[int],
    counts: Array,
    at_most: float = float("inf"),
    *,
    cells: int = CELLS,
    rounds: int = ROUNDS,
) -> float:
    """Seconds that no dispatch of these counts [J] over `replicas[k]` machines of each kind can beat; whole patterns.

    Bounds every dispatch by the exact evaluator; a simulator too where no kind is a pipeline. Never below the level
    bound. `at_most`: seconds of a dispatch already known; the bound is looked for below it, in `cells` cells.
    """
    lower = level_bound(loads, replicas, counts)
    upper = min(at_most, 2 * lower)
    if lower <= 0 or upper <= lower:
        return lower
    cell, present = upper / cells, np.flatnonzero(counts > 0)
    used = [kind for kind, number in enumerate(replicas) if number > 0]
    kinds = [_of_buckets(loads[kind], present) for kind in used]
    search = _Search(
        machines=np.array([replicas[kind] for kind in used], dtype=np.float64),
        counts=counts[present],
        levels=tuple(levels_of(kind, counts[present], cell, cells) for kind in kinds),
        cells=cells,
        excluded=max(-1, int(lower / cell) - 1),
    )
    _run(search, rounds)
    return max(lower, min(upper, (search.excluded + 1) * cell * (1 - 1e-12)))


def _run(search: _Search, rounds: int) -> None:
    """Exclude more and more, until what is next is reachable by shares of patterns."""
    search.patterns += _single(search)
    mixed = True
    for _ in range(rounds):
        shares, reachable = search.propose()
        if reachable >= CERTAIN or search.excluded >= search.cells:
            break
        best = search.best if mixed else None
        improved = search.price(shares if best is None else OLD * best + (1 - OLD) * shares)
        mixed = improved or best is None  # where mixing did not help, once without


def _single(search: _Search) -> list[tuple[int, Pattern]]:
    """The most of every single bucket, on each kind: patterns to begin with."""
    found = []
    target = min(search.excluded + STRIDE, search.cells)
    for kind, levels in enumerate(search.levels):
        for bucket in range(len(search.counts)):
            alone = np.zeros(len(search.counts))
            alone[bucket] = 1.0
            most = [_most(level, bucket, target) for level in levels]
            best = max(most, default=0)
            found.append((kind, Pattern(np.rint(alone * best).astype(np.int64), target)))
    return found


def _most(level: Level, bucket: int, cells: int) -> int:
    """How many sequences of one bucket a machine of this level computes in so many cells."""
    for options in level.options:
        if options.bucket == bucket:
            inside = options.weights <= cells - level.bubble
            return int(options.amounts[inside].max(initial=0))
    return 0


def _of_buckets(loads: Loads, present: Array) -> Loads:
    """The loads of these buckets alone."""
    least = None if loads.least is None else loads.least[present]
    return replace(
        loads, capacity=loads.capacity[present], fixed=loads.fixed[present], each=loads.each[present], least=least
    )
