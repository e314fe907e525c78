"""From a good dispatch to a better one: descend by exchanges, kick, descend again.

The slowest machine exchanges chunks with others as long as both end below it. Where that ends, a few random moves, each
off the slowest machine, start another descent; what is worse in the end is taken back (iterated local search). Work is
counted in exchanges looked for, never in seconds: the same input gives the same dispatch everywhere. It grows with the
root of the fleet: 16,384 GPUs take seconds.
"""

import numpy as np

from lobra.batch import Array
from policies.dispatch.exchange import apply, best_exchange, chunk_sizes
from policies.dispatch.state import State

ALL_TARGETS = 12  # fleets up to this size look at every machine
SOME_TARGETS = 8  # that larger fleets look at besides the least loaded
CLOSE = 2e-4  # of the bound: nothing worth looking for is left


def improve(state: State, counts: Array, bound: float, work: int, seed: int) -> None:
    """Lower the state's makespan until it is close to the bound or the work is done; random numbers from the seed.

    At most `work` exchanges are looked for, times sqrt(R / 12) for R > 12 machines; the first descent has R more.
    """
    if len(state.kind) < 2:
        return
    work = int(work * max(1.0, len(state.kind) / ALL_TARGETS) ** 0.5)
    sizes = chunk_sizes(state.tables, counts)
    members = tuple(np.flatnonzero(state.kind == kind) for kind in range(len(state.tables.constant)))
    random = np.random.default_rng(np.random.SeedSequence(seed))
    _descend(state, sizes, members, random, work + len(state.kind))
    state.commit()
    left = work
    while left > 0 and state.makespan > bound * (1 + CLOSE):
        before = state.makespan
        _kick(state, random)
        left -= _descend(state, sizes, members, random, left)
        if state.makespan <= before:
            state.commit()
        else:
            state.revert()


def _descend(state: State, sizes: Array, members: tuple[Array, ...], random: np.random.Generator, limit: int) -> int:
    """Exchange until nothing is gained; says how many exchanges were looked for."""
    for looked in range(limit):
        slowest = int(np.argmax(state.seconds))
        exchange = best_exchange(state, slowest, _targets(state, slowest, members, random), sizes)
        if exchange is None:
            return looked + 1
        apply(state, slowest, exchange)
    return limit


def _targets(state: State, slowest: int, members: tuple[Array, ...], random: np.random.Generator) -> Array:
    """Every other machine of a small fleet; of a large one the two with the least to do of each kind, and some more."""
    machines = len(state.kind)
    if machines <= ALL_TARGETS:
        return np.delete(np.arange(machines), slowest)
    chosen = set(random.integers(machines, size=SOME_TARGETS).tolist())
    for kind in members:  # twice the least: a sort of thousands would be most of the work
        seconds = state.seconds[kind]
        for _ in range(min(2, len(kind))):
            least = int(seconds.argmin())
            chosen.add(int(kind[least]))
            seconds[least] = np.inf
    return np.array(sorted(chosen - {slowest}))


def _kick(state: State, random: np.random.Generator) -> None:
    """Four to seven random moves, each off the machine that is the slowest by then: a ripple through the fleet."""
    for _ in range(int(random.integers(4, 8))):
        giver = int(np.argmax(state.seconds))
        held = np.flatnonzero(state.counts[giver])
        if not len(held):
            return
        bucket = int(held[random.integers(len(held))])
        takers = np.flatnonzero(state.tables.capacity[state.kind, bucket] > 0)
        takers = takers[takers != giver]
        if not len(takers):
            continue
        amount = (1, 2, int(state.tables.capacity[state.kind[giver], bucket]))[random.integers(3)]
        amount = min(amount, int(state.counts[giver, bucket]))
        state.move(bucket, amount, giver, int(takers[random.integers(len(takers))]))
