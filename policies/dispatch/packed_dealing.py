"""Dealing sequences out: quotas of kinds to the replicas of each, costliest first."""

import heapq

import numpy as np

from lobra.batch import Array
from policies.batching.pack_estimate import in_company
from policies.batching.pack_prices import PackPrices

SHARE = 10  # a kind with a tenth of the short sequences has many
ROUNDS = 2  # of swaps that even out what whole sequences left uneven
EVEN = 5e-4  # of a replica's seconds: smaller differences are left


def kinds_by_quota(quotas: Array) -> Array:
    """The kind of each sequence, int64 [n], where kind k takes quotas[k, j] of class j; [K, J], classes ascending.

    Sequences stand longest class first. Inside a class, every kind takes its part evenly over the lengths.
    """
    counts = quotas.sum(axis=0)[::-1]
    kinds = np.empty(int(counts.sum()), dtype=np.int64)
    ends = np.cumsum(counts).tolist()
    for start, end, column in zip([0, *ends[:-1]], ends, quotas.T[::-1], strict=True):
        takers = np.flatnonzero(column)
        if len(takers) == 1:
            kinds[start:end] = takers[0]
        elif len(takers):
            turns = np.concatenate([(np.arange(column[taker]) + 0.5) / column[taker] for taker in takers])
            kinds[start:end] = np.repeat(takers, column[takers])[np.argsort(turns, kind="stable")]
    return kinds


def level(kinds: Array, means: Array, sizes: Array, each: Array, fits: Array) -> bool:
    """Hand short sequences to the kinds that have time left, in place; whether any changed.

    Quotas are whole sequences, and long ones are a per cent of a step: the short ones level kinds. They come from the
    slowest kind that has many of them, so many that all replicas that gain by it end together. kinds: [n], longest
    first; means: seconds of a replica of each kind, [K]; sizes: replicas of each, [K]; each: seconds, [K, n];
    fits: whether every kind holds a sequence, [n].
    """
    short = fits & (np.arange(len(kinds)) >= len(kinds) // 2)
    many = np.bincount(kinds[short], minlength=len(means)) * SHARE >= short.sum()
    giver = int(np.argmax(np.where(many, means, -np.inf)))
    offered = np.flatnonzero(short & (kinds == giver))
    if not len(offered):
        return False
    price = each[:, offered].mean(axis=1)
    rate = sizes / price  # sequences of a second
    takers = np.flatnonzero(means < means[giver])
    while len(takers):
        both = np.append(takers, giver)
        end = float(rate[both] @ means[both] / rate[both].sum())
        if (means[takers] < end).all():
            break
        takers = takers[means[takers] < end]
    amounts = [int(rate[taker] * (end - means[taker])) for taker in takers]
    if not sum(amounts):
        return False
    total = min(sum(amounts), len(offered))
    given = offered[(np.arange(total) * len(offered)) // total]  # evenly over the lengths
    turns = np.concatenate([(np.arange(amount) + 0.5) / amount for amount in amounts if amount])
    owners = np.repeat(takers, amounts)[np.argsort(turns, kind="stable")]
    kinds[given] = owners[:total]
    return True


def dealt(lengths: Array, kinds: Array, kind: Array, prices: tuple[PackPrices, ...]) -> list[Array]:
    """Positions of every replica's sequences, ascending, for sequences [n] of `kinds` and replicas of `kind` [R]."""
    held: list[Array] = [np.zeros(0, dtype=np.int64)] * len(kind)
    for number, of_kind in enumerate(prices):
        members, taken = np.flatnonzero(kind == number), np.flatnonzero(kinds == number)
        if not len(members) or not len(taken):
            continue
        costs = in_company(lengths[taken], of_kind)
        owner = longest_first(costs, len(members))
        ends = np.cumsum(np.bincount(owner, minlength=len(members)))[:-1]
        parts = np.split(np.argsort(owner.astype(np.min_scalar_type(len(members))), kind="stable"), ends)
        for _ in range(ROUNDS):
            _even_pairs(parts, costs)
        for member, part in zip(members.tolist(), parts, strict=True):
            held[member] = taken[part]
    return held


def _even_pairs(parts: list[Array], costs: Array) -> None:
    """Swap or move one sequence between the machine with most and that with least to do, the second of both, and so on.

    parts: positions in `costs`, ascending, of each machine; costs, descending.
    """
    loads = np.array([costs[part].sum() for part in parts])
    order = np.argsort(loads, kind="stable").tolist()
    for low, high in zip(order[: len(order) // 2], reversed(order), strict=False):
        half = (loads[high] - loads[low]) / 2
        if half < EVEN * loads[high]:
            return
        gone, back = _halving(parts[high], parts[low], costs, half)
        if gone >= 0:
            parts[high], parts[low] = exchanged(parts[high], gone, back), exchanged(parts[low], back, gone)


def _halving(mine: Array, theirs: Array, costs: Array, half: float) -> tuple[int, int]:
    """The sequences to give and to get back (-1: none) whose costs differ by nearly `half`; -1, -1 where none helps."""
    if not len(mine):
        return -1, -1
    offered = np.concatenate([[0.0], costs[theirs][::-1], [np.inf]])  # ascending, nothing first
    wanted = costs[mine] - half
    after = np.maximum(np.searchsorted(offered, wanted), 1)
    nearest = np.where(wanted - offered[after - 1] <= offered[after] - wanted, after - 1, after)
    missed = np.abs(wanted - offered[nearest])
    best = int(missed.argmin())
    if missed[best] >= half * (1 - 1e-6):
        return -1, -1
    return int(mine[best]), int(theirs[len(theirs) - nearest[best]]) if nearest[best] else -1


def exchanged(held: Array, gone: int, come: int) -> Array:
    """Ascending positions without one and with another; -1 is none."""
    kept = held[held != gone]
    return kept if come < 0 else np.insert(kept, np.searchsorted(kept, come), come)


def longest_first(costs: Array, machines: int) -> Array:
    """The machine of each of these costs, descending, so that loads are alike; int64 [n].

    One by one to the least loaded (Graham 1969), a third of a microsecond each. Dealing in rounds, one cost to every
    machine at a time, is faster and was left: a machine that got a very long sequence could never be spared.
    """
    heap = [(0.0, machine) for machine in range(machines)]
    owner = []
    for cost in costs.tolist():
        load, machine = heap[0]
        owner.append(machine)
        heapq.heapreplace(heap, (load + cost, machine))
    return np.array(owner, dtype=np.int64)
