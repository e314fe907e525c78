"""From a good dispatch to a better one: descend by exchanges, kick, descend again.

The slowest machine exchanges chunks with others as long as both end below it. Where that ends, a few random moves, each
off the slowest machine, start another descent; what is worse in the end is taken back (iterated local search). Large
fleets are levelled out by many exchanges at once before (see `pairs`), and where the slowest of them finds no exchange
any more, it shares out anew what it and others hold (see `triples`, `resplit`). Work is counted in exchanges looked
for, never in seconds: the same input gives the same dispatch everywhere. It grows with the root of the fleet while
exchanges look at most machines; in large fleets, where rounding is a small part of a step and pairs have done the rest,
it is less, so that the default takes 25-65 ms on 1,024 GPUs.
"""

from dataclasses import dataclass

import numpy as np

from lobra.batch import Array
from policies.dispatch.exchange import apply, best_exchange, chunk_sizes
from policies.dispatch.pairs import level_out
from policies.dispatch.resplit import divisions, resplit
from policies.dispatch.state import State
from policies.dispatch.triples import share_among_three, thirds

ALL_TARGETS = 12  # fleets up to this size look at every machine
LARGE = 64  # machines from which on pairs, and sharing out anew, pay for themselves
LATE = 0.3  # of the work that large fleets do
FIRST = 20  # exchanges looked for in a large fleet's first descent, besides the work: most is done in pairs before
SOME_TARGETS = 8  # that larger fleets look at besides the least loaded
CLOSE = 2e-4  # of the bound: nothing worth looking for is left
ROUNDS = 10  # of exchanges in pairs: later ones win little
PER_LOOK = 3  # divisions among three that take as long as looking for an exchange
PARTNERS = 4  # with which the slowest machine shares out anew: so many each of the least loaded of its kind, and any


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """What descents of one step have in common."""

    state: State
    sizes: Array  # of chunks
    members: tuple[Array, ...]  # machines of each kind
    random: np.random.Generator
    ways: Array | None  # to divide a heap between two; None: small fleets do without
    thirds: Array | None  # among three, likewise


def improve(state: State, counts: Array, bound: float, work: int, seed: int) -> None:
    """Lower the state's makespan until it is close to the bound or the work is done; random numbers from the seed.

    At most `work` exchanges are looked for, times sqrt(R / 12) for R > 12 machines, but times 0.3 in large fleets; the
    first descent has R more, or 20 in large fleets.
    """
    if len(state.kind) < 2:
        return
    large = len(state.kind) >= LARGE
    work = int(work * (LATE if large else max(1.0, len(state.kind) / ALL_TARGETS) ** 0.5))
    sizes = chunk_sizes(state.tables, counts)
    members = tuple(np.flatnonzero(state.kind == kind) for kind in range(len(state.tables.constant)))
    random = np.random.default_rng(np.random.SeedSequence(seed))
    search = _Search(state, sizes, members, random, divisions() if large else None, thirds() if large else None)
    if large:
        level_out(state, sizes, members, ROUNDS)
    _settle(search, work + (FIRST if large else len(state.kind)))
    state.commit()
    left = work
    while left > 0 and state.makespan > bound * (1 + CLOSE):
        before = state.makespan
        _kick(state, random)
        left -= _settle(search, left)
        if state.makespan <= before:
            state.commit()
        else:
            state.revert()


def _settle(search: _Search, limit: int) -> int:
    """Exchange and share out anew until nothing is gained; says how much was looked for."""
    looked = _descend(search, limit)
    while search.ways is not None and looked < limit:
        tried, gained = _share_out(search)
        looked += tried
        if not gained:
            break
        looked += _descend(search, limit - looked)
    return looked


def _descend(search: _Search, limit: int) -> int:
    """Exchange until nothing is gained; says how many exchanges were looked for."""
    state = search.state
    for looked in range(limit):
        slowest = int(np.argmax(state.seconds))
        exchange = best_exchange(state, slowest, _targets(search, slowest), search.sizes)
        if exchange is None:
            return looked + 1
        apply(state, slowest, exchange)
    return limit


def _share_out(search: _Search) -> tuple[int, bool]:
    """Let the slowest machine share out anew with two others or one: how much was looked for, and whether it helped."""
    state, random = search.state, search.random
    slowest = int(np.argmax(state.seconds))
    own = search.members[int(state.kind[slowest])]
    assert search.ways is not None
    assert search.thirds is not None
    threes, gained = share_among_three(state, slowest, own, search.thirds)
    if gained:
        return -(-threes // PER_LOOK), True
    least = own[np.argsort(state.seconds[own], kind="stable")[:PARTNERS]]
    others = (least, random.choice(own, PARTNERS), random.integers(len(state.kind), size=PARTNERS))
    partners = dict.fromkeys(np.concatenate(others).tolist())
    partners.pop(slowest, None)
    for tried, other in enumerate(partners, -(-threes // PER_LOOK) + 1):
        if resplit(state, slowest, other, search.ways, random):
            return tried, True
    return -(-threes // PER_LOOK) + len(partners), False


def _targets(search: _Search, slowest: int) -> Array:
    """Every other machine of a small fleet; of a large one the two with the least to do of each kind, and some more."""
    machines = len(search.state.kind)
    if machines <= ALL_TARGETS:
        return np.delete(np.arange(machines), slowest)
    chosen = set(search.random.integers(machines, size=SOME_TARGETS).tolist())
    for kind in search.members:  # twice the least: a sort of thousands would be most of the work
        seconds = search.state.seconds[kind]
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
