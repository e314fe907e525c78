"""Many exchanges at once, for fleets where one after another would take too long: the slowest each with a partner.

In a round, each of the slowest machines is paired with one with little to do, of one kind in turn, and every pair makes
its own best exchange (chunks as in `exchange`: one away, at most one back) if both then end below the slower of the
two. All pairs are priced in a few array operations, so an exchange costs a sixth of what it costs alone; for that it
knows one partner only. Rounds end when no kind has a partner that helps.

Names of shapes: P pairs, C chunks of a machine (padded, amount 0; the last returned chunk is nothing), J buckets.
"""

from typing import NamedTuple

import numpy as np

from lobra.batch import Array
from policies.dispatch.exchange import GAIN, Chunks, chunks_of
from policies.dispatch.state import State

PAIRS = 32
PATIENCE = 3


class _Padded(NamedTuple):
    """Chunks of every pair's giver or taker; [P, C] each."""

    bucket: Array
    amount: Array  # 0: no chunk


def level_out(state: State, sizes: Array, members: tuple[Array, ...], rounds: int) -> None:
    """Exchange in pairs, at most so many rounds, until a turn of all kinds brings nothing."""
    partners = [*members, np.arange(len(state.kind))]
    idle = 0
    for turn in range(rounds):
        givers, takers = _pairs(state, partners[turn % len(partners)], turn // len(partners))
        idle = 0 if _exchange(state, givers, takers, sizes) else idle + 1
        if idle >= PATIENCE * len(partners):
            break


def _pairs(state: State, partners: Array, shift: int) -> tuple[Array, Array]:
    """The slowest machines, slowest first, and as many of the least loaded partners, shifted; none twice."""
    slowest = np.argsort(-state.seconds, kind="stable")[: min(PAIRS, len(state.kind) // 2)]
    free = partners[~np.isin(partners, slowest)]
    takers = free[np.argsort(state.seconds[free], kind="stable")][: len(slowest)]
    takers = takers[(np.arange(len(takers)) + shift) % max(1, len(takers))]
    return slowest[: len(takers)], takers


def _exchange(state: State, givers: Array, takers: Array, sizes: Array) -> bool:
    """The best exchange of every pair for which there is one; whether there was any."""
    if not len(givers):
        return False
    given, back = _padded(state, givers, sizes), _padded(state, takers, sizes)
    back = _Padded(*(np.pad(column, ((0, 0), (0, 1))) for column in back))  # nothing
    worse = np.maximum(_after(state, givers, given, back, sign=-1), _after(state, takers, given, back, sign=1))
    returned = np.where(back.amount > 0, back.bucket, -1)
    wrong = (returned[:, None, :] == given.bucket[:, :, None]) | (given.amount == 0)[:, :, None]
    padding = back.amount == 0
    padding[:, -1] = False
    worse[wrong | padding[:, None, :]] = np.inf
    flat = worse.reshape(len(givers), -1)
    best = flat.argmin(axis=1)
    pair = np.flatnonzero(flat[np.arange(len(best)), best] < state.seconds[givers] * (1 - GAIN))
    if not len(pair):
        return False
    x, y = np.divmod(best[pair], worse.shape[2])
    state.exchange(
        givers[pair],
        takers[pair],
        (given.bucket[pair, x], given.amount[pair, x]),
        (back.bucket[pair, y], back.amount[pair, y]),
    )
    return True


def _padded(state: State, machines: Array, sizes: Array) -> _Padded:
    """What each of these machines could give away, in rows of equal length."""
    chunks: Chunks = chunks_of(state, machines, sizes)
    first = np.searchsorted(chunks.owner, np.arange(len(machines)))
    place = np.arange(len(chunks.owner)) - first[chunks.owner]
    shape = (len(machines), int(place.max(initial=0)) + 1)
    bucket, amount = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    bucket[chunks.owner, place] = chunks.bucket
    amount[chunks.owner, place] = chunks.amount
    return _Padded(bucket, amount)


def _after(state: State, machines: Array, given: _Padded, back: _Padded, *, sign: int) -> Array:
    """Seconds of the givers (sign -1) or takers (1) after every exchange of their pair; float64 [P, x, y]."""
    tables, kind = state.tables, state.kind[machines][:, None]
    now = tables.offset + state.counts[machines]  # [P, J]
    row = np.arange(len(machines))[:, None]
    first, second = now[row, given.bucket], now[row, back.bucket]
    moved, returned = first + sign * given.amount, second - sign * back.amount
    moved, returned = np.maximum(moved, 0), np.maximum(returned, 0)  # padding
    one = tables.total[kind, moved] - tables.total[kind, first]
    other = tables.total[kind, returned] - tables.total[kind, second]
    start = state.total[machines] + tables.constant[state.kind[machines]]
    seconds: Array = (start[:, None] + one)[:, :, None] + other[:, None, :]
    if tables.bubbles[kind].any():
        kept = np.where(back.amount > 0, tables.bubble[kind, returned], 0.0)
        greatest = _others(state.bubble[machines], given, back)
        np.maximum(greatest, tables.bubble[kind, moved][:, :, None], out=greatest)
        seconds += np.maximum(greatest, kept[:, None, :], out=greatest)
    return seconds


def _others(bubble: Array, given: _Padded, back: _Padded) -> Array:
    """The greatest bubble of every machine, float64 [P, J], in buckets that an exchange leaves alone; [P, x, y]."""
    top = np.argsort(-bubble, axis=1, kind="stable")[:, :3]
    value = np.take_along_axis(bubble, top, axis=1)
    one, other = given.bucket[:, :, None], np.where(back.amount > 0, back.bucket, -1)[:, None, :]
    greatest = np.zeros(np.broadcast_shapes(one.shape, other.shape))
    for place in reversed(range(top.shape[1])):
        bucket = top[:, place, None, None]
        greatest = np.where((bucket != one) & (bucket != other), value[:, place, None, None], greatest)
    return greatest
