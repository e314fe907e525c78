"""Small deployment problems, and their optimum by enumeration: every plan is a linear program of its own."""

import itertools

import numpy as np
from scipy.optimize import linprog

import toys
from lobra.plan import ReplicaConfig
from lobra.rates import Loads
from policies.deployment.classes import Table
from policies.deployment.placement import Kind
from policies.deployment.tau import Search

EXACT = Search(relative_gap=1e-9)
ACCURATE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}  # of the judge


def one_node(gpus):
    return toys.cluster(nodes=1, gpus_per_node=gpus)


def prices_of(each, kinds, bubbles=None):
    """A table with these seconds a sequence; a bubble is (pp - 1) times the longest full micro-batch."""
    each = np.asarray(each, dtype=np.float64)
    fits = np.isfinite(each)
    loads = tuple(
        Loads(np.where(row, 1, 0), np.zeros(len(row)), np.where(row, price, 0.0), 0.0, kind.config.pp)
        for kind, price, row in zip(kinds, each, fits, strict=True)
    )
    full = np.zeros(each.shape) if bubbles is None else np.where(fits, np.asarray(bubbles)[:, None], np.inf)
    return Table(tuple(kinds), loads, each, full, np.zeros(each.shape), each)


def random_instance(seed):
    """Three or four kinds of 1, 2, 4 or 8 GPUs; longer classes fit fewer of them."""
    random = np.random.default_rng(seed)
    number, gpus = int(random.integers(3, 5)), int(random.integers(8, 11))
    configs = [(1, 1), (2, 1), (1, 2), (4, 1), (2, 2), (8, 1)]
    chosen = sorted(random.choice(len(configs), number, replace=False).tolist())
    kinds = [Kind(ReplicaConfig(*configs[place]), 100 * configs[place][0] + place) for place in chosen]
    each = random.uniform(0.5, 2.0, (number, 3)) * np.array([1.0, 3.0, 8.0])
    each /= np.array([kind.config.gpus for kind in kinds])[:, None] ** 0.8
    each[0, 2] = np.inf
    if number == 4:
        each[1, 2] = np.inf
    bubbles = random.uniform(0.2, 2.0, number)
    amounts = random.integers(1, 30, 3).astype(float)
    longest = max(kind.budget for kind in kinds) if seed % 2 else 1
    return prices_of(each, kinds, bubbles), amounts, one_node(gpus), longest


def least_seconds(prices, counts, amounts, bubbles):
    """The fluid time of one plan by scipy: columns are the flows of all pairs that fit, and the time."""
    kinds, classes = len(prices.kinds), len(amounts)
    pairs = [(i, j) for i in range(kinds) for j in range(classes) if counts[i] and np.isfinite(prices.each[i, j])]
    if {j for _, j in pairs} != set(range(classes)):
        return np.inf
    served = [[float(j == row) for _, j in pairs] + [0.0] for row in range(classes)]
    loads = [
        [prices.each[i, j] if i == row else 0.0 for i, j in pairs] + [-float(counts[row])]
        for row in range(kinds)
        if counts[row]
    ]
    idle = [-counts[row] * bubbles[row] for row in range(kinds) if counts[row]]
    cost = [0.0] * len(pairs) + [1.0]
    return linprog(cost, A_ub=loads, b_ub=idle, A_eq=served, b_eq=amounts, options=ACCURATE).fun


def every_plan(prices, cluster, longest):
    gpus = prices.gpus.tolist()
    for counts in itertools.product(*(range(cluster.gpus // size + 1) for size in gpus)):
        used = sum(count * size for count, size in zip(counts, gpus, strict=True))
        holds = any(count and kind.budget >= longest for count, kind in zip(counts, prices.kinds, strict=True))
        if used <= cluster.gpus and holds:
            yield counts


def small_instance(seed):
    """Three kinds of 1, 2 or 4 GPUs, two classes; the long one does not fit the smallest."""
    random = np.random.default_rng([7, seed])
    configs = [(1, 1), (2, 1), (1, 2), (4, 1)]
    chosen = sorted(random.choice(4, 3, replace=False).tolist())
    kinds = [Kind(ReplicaConfig(*configs[place]), 100 * configs[place][0] + place) for place in chosen]
    each = random.uniform(0.5, 2.0, (3, 2)) * np.array([1.0, 6.0])
    each /= np.array([kind.config.gpus for kind in kinds])[:, None] ** random.uniform(0.6, 1.2)
    each[0, 1] = np.inf
    amounts = random.integers(1, 30, 2).astype(float)
    longest = max(kind.budget for kind in kinds) if seed % 2 else 1
    return prices_of(each, kinds, random.uniform(0.2, 2.0, 3)), amounts, one_node(int(random.integers(4, 7))), longest
