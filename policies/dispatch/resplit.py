"""Two machines share out anew what they hold: every way to divide up to twelve of their chunks is weighed at once.

Where machines hold a few long sequences each, one chunk for one other seldom helps: it takes two for two, or three for
one. So the micro-batches of two machines (full ones, and what overhangs them) are put in one heap, at most six from
each, and all 4096 ways to divide it are added up from the prices of single chunks; the most promising are priced
exactly. Cost: an array of 4096 x 12, about 0.1 ms. It finds what chains of exchanges cannot, since these must gain at
every step.
"""

from typing import NamedTuple

import numpy as np

from lobra.batch import Array
from policies.dispatch.exchange import GAIN
from policies.dispatch.state import State, priced

EACH = 6  # chunks of one machine in the heap at most
PROMISING = 12  # divisions priced exactly


class Heap(NamedTuple):
    """Chunks of two machines; [U] each."""

    bucket: Array
    amount: Array


def divisions() -> Array:
    """Every way to divide a heap of twice EACH chunks; bool [2 ** U, U], True: to the first machine."""
    number = 2 * EACH
    ways: Array = (np.arange(1 << number)[:, None] >> np.arange(number)) & 1 == 1
    return ways


def resplit(state: State, slowest: int, other: int, ways: Array, random: np.random.Generator) -> bool:
    """Divide what the two hold as well as can be found; whether both then end below the slowest."""
    pair = np.array([slowest, other])
    parts = [_some_chunks(state, machine, random) for machine in pair.tolist()]
    heap = Heap(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    held, number = state.counts[pair], len(heap.bucket)
    if number < 2:
        return False
    kind = state.kind[pair][:, None]
    price = state.tables.total[kind, state.tables.offset[heap.bucket] + heap.amount]  # [2, U]
    price = np.where(np.isfinite(price), price, 1e9 * state.makespan)
    mine = np.arange(number) < len(parts[0].bucket)
    rest = state.seconds[pair] - [price[0] @ mine, price[1] @ ~mine]
    choices = ways[: 1 << number, :number]
    worse = np.maximum(rest[0] + choices @ price[0], rest[1] + price[1].sum() - choices @ price[1])
    first = np.argpartition(worse, min(PROMISING, len(worse) - 1))[:PROMISING]
    moved = choices[first].astype(np.int64) - mine  # [C, U]: 1 from the other, -1 to it
    gained = np.zeros((len(first), held.shape[1]), dtype=np.int64)
    np.add.at(gained, (np.arange(len(first))[:, None], heap.bucket), moved * heap.amount)
    mine_after, others_after = held[0] + gained, held[1] - gained
    exact = np.maximum(_seconds(state, slowest, mine_after), _seconds(state, other, others_after))
    best = int(exact.argmin())
    if not exact[best] < state.seconds[slowest] * (1 - GAIN):
        return False
    state.set_rows(pair.tolist(), np.stack([mine_after[best], others_after[best]]))
    return True


def _seconds(state: State, machine: int, counts: Array) -> Array:
    """Seconds of one machine for counts [C, J]."""
    return priced(state.tables, np.full(len(counts), state.kind[machine]), counts)[2]


def chunks_of(state: State, machine: int) -> Heap:
    """What a machine holds, as micro-batches: of each bucket EACH full ones at most, and what overhangs them."""
    held = np.flatnonzero(state.counts[machine])
    counts = state.counts[machine, held]
    capacity = state.tables.room[state.kind[machine], held]
    full = np.minimum(counts // capacity, EACH)
    rest = counts % capacity
    bucket = np.concatenate([np.repeat(held, full), held[rest > 0]])
    amount = np.concatenate([np.repeat(capacity, full), rest[rest > 0]])
    return Heap(bucket, amount)


def _some_chunks(state: State, machine: int, random: np.random.Generator) -> Heap:
    """The same; EACH of them at random where there are more."""
    bucket, amount = chunks_of(state, machine)
    if len(bucket) > EACH:
        chosen = np.sort(random.permutation(len(bucket))[:EACH])
        bucket, amount = bucket[chosen], amount[chosen]
    return Heap(bucket, amount)
