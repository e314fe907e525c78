"""The phase diagram: which ingredient could give most, if the tail, tensor parallelism or memory were otherwise.

Three things are turned about what the user has. The tail: sequences longer than a quarter of the longest admissible
are weighted so that they hold a given share of all tokens. The penalty: what a kind takes beyond the cheapest kind's
GPU seconds is multiplied. The slack: every kind's micro-batches hold so many times as many tokens. All is work alone
(perfect balance, no bubbles), except that a mix keeps one replica that holds the longest sequence; so it tells which
gain is possible, not that a plan has it. Padding stays what it is.
"""

from dataclasses import dataclass

import numpy as np

from experiments.gain_bounds import LARGEST_GROUP, padding_of, pooled_lengths, single_replica_kinds
from experiments.walk import World
from lobra.batch import Array
from lobra.errors import BadInput
from policies.deployment.expected import longest_sequence

WINNERS = ("none above 5 %", "heterogeneity", "packing", "context parallelism")
LEAST = 0.05  # saved; less is nobody's gain
TAIL = 4  # a sequence belongs to the tail above this part of the longest
CELLS = 64  # lengths looked at
SLACKS = (0.5, 1.0, 2.0)
MASSES = np.geomspace(0.002, 0.9, 24)
PENALTIES = np.geomspace(0.125, 8.0, 19)


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """GPU seconds of one sequence of each length on each kind, by group size; K kinds, J lengths, C sizes."""

    lengths: Array  # float64 [J]
    counts: Array  # float64 [J], a step
    fixed: Array  # float64 [C, K, J], of a micro-batch
    row: Array  # float64 [C, K, J], infinity where no such group can be
    budget: Array  # float64 [K], tokens
    gpus: Array  # int64 [K], of a replica
    filled: Array  # int64 [K], GPUs of as many replicas as there is room for
    cluster: int  # GPUs
    sizes: Array  # int64 [C]
    longest: int

    def gpu_seconds(self, penalty: float, slack: float) -> tuple[Array, Array]:
        """Seconds [C, K, J] so changed, infinity where a sequence does not fit; and the longest's fit [C, K]."""
        room = slack * self.budget[None, :, None] * self.sizes[:, None, None]
        rows = np.maximum(1.0, np.floor(room / self.lengths))
        priced = self.fixed / rows + self.row
        cheapest = np.min(priced[0], axis=0)
        changed = cheapest + penalty * (priced[0] - cheapest)
        each = changed * (priced / priced[0])
        held = (slack * self.budget * self.sizes[:, None] >= self.longest) & np.isfinite(self.row[:, :, 0])
        return np.where(room >= self.lengths, each, np.inf), held


@dataclass(frozen=True, slots=True, eq=False)
class Phase:
    """Winners over penalties and masses for each slack, and where the user stands."""

    winner: dict[float, Array]  # by slack: int64 [penalties, masses], place in WINNERS; -1: nothing holds the longest
    mass: float  # the user's
    padding: float  # padded over real tokens

    def here(self, slack: float) -> str:
        """The winner at the user's tail and penalty."""
        row = int(np.argmin(np.abs(np.log(PENALTIES))))
        column = int(np.argmin(np.abs(np.log(MASSES / max(self.mass, MASSES[0])))))
        place = int(self.winner[slack][row, column])
        return WINNERS[place] if place >= 0 else "nothing fits"


def phase_of(world: World, seed: int) -> Phase:
    """The diagram around this workload on this cluster."""
    prices, padding = prices_of(world, seed), padding_of(world, seed)
    winner = {}
    for slack in SLACKS:
        cells = [[_winner(prices, mass, penalty, slack, padding) for mass in MASSES] for penalty in PENALTIES]
        winner[slack] = np.array(cells)
    return Phase(winner, mass_of(prices), padding)


def mass_of(prices: Prices) -> float:
    """Share of tokens in the tail."""
    tokens = prices.lengths * prices.counts
    return float(tokens[prices.lengths > prices.longest / TAIL].sum() / tokens.sum())


def prices_of(world: World, seed: int) -> Prices:
    """Lengths in cells of equal tokens, at most CELLS, with the longest admissible as the last one."""
    lengths, counts = _cells(*pooled_lengths(world, seed))
    longest = longest_sequence(world.workload).tokens
    if lengths[-1] < longest:
        lengths, counts = np.append(lengths, longest), np.append(counts, 0.0)
    options = single_replica_kinds(world)
    sizes = 1 << np.arange(LARGEST_GROUP.bit_length())
    fixed, row = (np.full((len(sizes), len(options), len(lengths)), np.inf) for _ in range(2))
    for k, (kind, number) in enumerate(options):
        for c, size in enumerate(sizes.tolist()):
            if number < size or (size > 1 and kind.config.pp > 1):
                continue
            try:
                rates = world.cost.rates(kind.config, lengths.astype(np.int64), size)
            except BadInput:  # the model's heads cannot be shared out to a group of this size
                continue
            fixed[c, k], row[c, k] = (kind.config.gpus * size * part for part in (rates.fixed, rates.row))
    budget = np.array([float(kind.budget) for kind, _ in options])
    gpus, numbers = (np.array(column) for column in zip(*((k.config.gpus, n) for k, n in options), strict=True))
    total = world.cluster.gpus
    return Prices(lengths.astype(float), counts, fixed, row, budget, gpus, gpus * numbers, total, sizes, longest)


def _cells(lengths: Array, counts: Array) -> tuple[Array, Array]:
    """Neighbouring lengths put together, at the upper end of each cell."""
    share = np.cumsum(lengths * counts)
    cell = np.minimum((CELLS * share / share[-1]).astype(np.int64), CELLS - 1)
    ends = np.flatnonzero(np.append(np.diff(cell) > 0, True))
    tokens = np.diff(np.append(0.0, share[ends]))
    return lengths[ends], tokens / lengths[ends]


def _winner(prices: Prices, mass: float, penalty: float, slack: float, padding: float) -> int:
    """The place in WINNERS of what could save most; -1 where no kind holds the longest sequence."""
    each, held = prices.gpu_seconds(penalty, slack)
    counts = _weighted(prices, mass)
    present = counts > 0
    each, counts = each[:, :, present], counts[present]
    equal = _equal_seconds(each[0][held[0]], counts, prices.filled[held[0]])
    able = np.any(held, axis=0)
    shared = _equal_seconds(np.min(each, axis=0)[able], counts, prices.filled[able])
    if not np.isfinite(equal):
        return WINNERS.index("context parallelism") if np.isfinite(shared) else -1
    mixed = min(equal, _mixed_seconds(each[0], counts, held[0], prices))
    saved = np.array((LEAST, 1 - mixed / equal, 1 - 1 / padding, 1 - shared / equal))
    return int(np.argmax(np.round(saved, 9)))


def _equal_seconds(each: Array, counts: Array, filled: Array) -> float:
    """Seconds of a step on the best single kind, each float64 [k, J]; infinity without a kind."""
    return float(np.min(each @ counts / filled, initial=np.inf))


def _mixed_seconds(each: Array, counts: Array, held: Array, prices: Prices) -> float:
    """Seconds of a step on the best mix: a replica that holds the longest, all other GPUs whatever suits each length.

    That replica takes first what it does at the least loss, until both sides end together. each: float64 [K, J].
    """
    cheapest = np.min(each, axis=0)
    best = np.inf
    for own, gpus in zip(each[held], prices.gpus[held].tolist(), strict=True):
        order = np.argsort(own / cheapest, kind="stable")
        there = np.append(0.0, np.cumsum((own * counts)[order])) / gpus
        if gpus >= prices.cluster:
            best = min(best, float(there[-1]))
            continue
        elsewhere = np.append(0.0, np.cumsum((cheapest * counts)[order]))
        rest = (elsewhere[-1] - elsewhere) / (prices.cluster - gpus)
        ahead = there - rest  # ascending, below 0 at first
        part = np.interp(0.0, ahead, np.arange(len(ahead)))
        best = min(best, float(np.interp(part, np.arange(len(there)), there)))
    return best


def _weighted(prices: Prices, mass: float) -> Array:
    """Counts such that the tail holds this share of all tokens."""
    tail = prices.lengths > prices.longest / TAIL
    tokens = prices.lengths * np.where(tail & (prices.counts == 0), 0.0, prices.counts)
    if not tokens[tail].any():  # nobody brings one: the longest stands for them
        tokens = np.where(prices.lengths == prices.longest, 1.0, tokens)
    counts: Array = tokens / prices.lengths
    if not tokens[~tail].any():
        return counts
    counts[tail] *= mass / tokens[tail].sum()
    counts[~tail] *= (1 - mass) / tokens[~tail].sum()
    return counts
