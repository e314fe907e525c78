"""Three machines of a kind share out anew what they hold, where each holds a few long sequences.

Where two machines cannot help each other, three may: of A + B, A + B and C + B, the pair makes A + A and B + B, and
then takes C's B. No chain of exchanges gets there, because its first step gains nothing. Machines that hold the same
are alike, so the partners are looked for among the patterns of the kind, not among its machines. All 3^7 ways to divide
up to seven micro-batches are added up from their prices; the best are priced exactly. Cost: 0.1 ms a pair of patterns,
fifteen pairs at most. Limits: fuller machines do without; their many small parts level them out.
"""

from itertools import combinations_with_replacement

import numpy as np

from lobra.batch import Array
from policies.dispatch.exchange import GAIN
from policies.dispatch.resplit import PROMISING, Heap, chunks_of
from policies.dispatch.state import State, priced

MOST = 7  # micro-batches of three machines together
PATTERNS = 5  # of those with the least to do


def thirds() -> Array:
    """Every way to give MOST micro-batches to three machines; bool [3, 3 ** MOST, MOST]."""
    owner = (np.arange(3**MOST)[:, None] // 3 ** np.arange(MOST)) % 3
    ways: Array = owner == np.arange(3)[:, None, None]
    return ways


def share_among_three(state: State, slowest: int, own: Array, ways: Array) -> tuple[int, bool]:
    """Let the slowest machine share out anew with two others of its kind: how many pairs were tried, and if one did."""
    mine = chunks_of(state, slowest)
    if len(mine.bucket) > MOST - 2:
        return 0, False
    tried = 0
    for one, other in combinations_with_replacement(_alike(state, slowest, own), 2):
        pair = (one[0], other[0]) if one is not other else one[:2]
        heaps = [mine, *(chunks_of(state, machine) for machine in pair)]
        if len(pair) < 2 or sum(len(heap.bucket) for heap in heaps) > MOST:
            continue
        if state.seconds[[slowest, *pair]].mean() >= state.seconds[slowest] * (1 - GAIN):
            continue
        tried += 1
        if _divide(state, [slowest, *pair], heaps, ways):
            return tried, True
    return tried, False


def _alike(state: State, slowest: int, own: Array) -> list[list[int]]:
    """Machines by what they hold, those with the least to do first; the slowest left out."""
    found: dict[bytes, list[int]] = {}
    for machine in own[np.argsort(state.seconds[own], kind="stable")].tolist():
        if machine != slowest:
            found.setdefault(state.counts[machine].tobytes(), []).append(machine)
    return list(found.values())[:PATTERNS]


def _divide(state: State, machines: list[int], heaps: list[Heap], ways: Array) -> bool:
    """Divide the heaps among the three machines as well as can be found; whether all then end below the first."""
    bucket, amount = (np.concatenate(columns) for columns in zip(*heaps, strict=True))
    kind, number = int(state.kind[machines[0]]), len(bucket)
    price = state.tables.total[kind, state.tables.offset[bucket] + amount]
    choices = ways[:, : 3**number, :number]
    most = (choices @ price).max(axis=0)
    first = np.argpartition(most, min(PROMISING, len(most) - 1))[:PROMISING]
    after = np.zeros((len(first), 3, state.counts.shape[1]), dtype=np.int64)
    way, owner, chunk = np.nonzero(choices[:, first].transpose(1, 0, 2))
    np.add.at(after, (way, owner, bucket[chunk]), amount[chunk])
    kinds = np.full(after.shape[0] * 3, kind)
    seconds = priced(state.tables, kinds, after.reshape(-1, after.shape[2]))[2].reshape(-1, 3).max(axis=1)
    best = int(seconds.argmin())
    if not seconds[best] < state.seconds[machines[0]] * (1 - GAIN):
        return False
    state.set_rows(machines, after[best])
    return True
