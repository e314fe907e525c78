"""The best exchange between the slowest machine and others: one chunk away, at most one chunk back.

All pairs of chunks are priced at once, exactly, from the tables. Chunks are one, two or three sequences, a full
micro-batch of any kind, what overhangs the full micro-batches, or all of a bucket. Cost: X Y prices for X chunks
of the slowest machine and Y of all the others.

Names of shapes: x chunks given, y chunks returned (the last T of them nothing), T targets, J buckets.
"""

from typing import NamedTuple

import numpy as np

from lobra.batch import Array
from policies.dispatch.state import State
from policies.dispatch.tables import Tables

GAIN = 1e-9  # relative; less is rounding noise, and could go on for ever
NOTHING = -1  # the bucket of a chunk that is none


class Exchange(NamedTuple):
    """Chunks that change places; back_amount 0: nothing returns."""

    taker: int
    bucket: int
    amount: int
    back_bucket: int
    back_amount: int


class Chunks(NamedTuple):
    """Parts of what machines hold; three columns of equal length."""

    owner: Array  # position among the machines asked for
    bucket: Array
    amount: Array


def best_exchange(state: State, slowest: int, targets: Array, sizes: Array) -> Exchange | None:
    """The exchange after which the slower of the two is fastest; None where no exchange is a gain for the slowest."""
    given = chunks_of(state, np.array([slowest]), sizes)
    back = _returns(state, slowest, targets, sizes)
    if not len(given.bucket):
        return None
    worse = _slowest_after(state, slowest, given, back)
    np.maximum(worse, _targets_after(state, targets, given, back), out=worse)
    y, x = divmod(int(worse.argmin()), worse.shape[1])
    if back.amount[y] and back.bucket[y] == given.bucket[x]:  # the difference is a chunk of its own
        returned = np.where(back.amount > 0, back.bucket, NOTHING)
        np.copyto(worse, np.inf, where=returned[:, None] == given.bucket)
        y, x = divmod(int(worse.argmin()), worse.shape[1])
    if not worse[y, x] < state.seconds[slowest] * (1 - GAIN):
        return None
    taker = int(targets[back.owner[y]])
    return Exchange(taker, int(given.bucket[x]), int(given.amount[x]), int(back.bucket[y]), int(back.amount[y]))


def apply(state: State, giver: int, exchange: Exchange) -> None:
    """Let the chunks change places."""
    back = exchange.back_bucket, exchange.back_amount
    state.move(exchange.bucket, exchange.amount, giver, exchange.taker, back=back)


def chunk_sizes(tables: Tables, counts: Array) -> Array:
    """Sizes worth trying for chunks of every bucket, whoever holds them; int64 [J, Q], unused places 0."""
    columns = [np.full(len(counts), size) for size in (1, 2, 3)]
    sizes = np.stack([*columns, *tables.capacity], axis=-1)
    sizes = np.sort(np.where(sizes <= counts[:, None], sizes, 0), axis=-1)
    sizes[:, 1:][sizes[:, 1:] == sizes[:, :-1]] = 0
    return sizes[:, sizes.any(axis=0)]


def chunks_of(state: State, machines: Array, sizes: Array) -> Chunks:
    """What these machines could give away, by owner."""
    held = state.counts[machines]  # [T, J]
    capacity = state.tables.room[state.kind[machines]]
    chunks = np.empty((*held.shape, sizes.shape[-1] + 2), dtype=np.int64)
    np.multiply(sizes, sizes <= held[:, :, None], out=chunks[:, :, 2:])
    np.multiply(held % capacity, held > capacity, out=chunks[:, :, 0])
    np.multiply(held, held > 3, out=chunks[:, :, 1])
    flat = chunks.reshape(-1)
    places = flat.nonzero()[0]
    row = places // chunks.shape[2]
    owner = row // held.shape[1]
    return Chunks(owner, row - owner * held.shape[1], flat[places])


def _returns(state: State, slowest: int, targets: Array, sizes: Array) -> Chunks:
    """What the targets could return to the slowest machine; nothing, at the end, once for each."""
    owner, bucket, amount = chunks_of(state, targets, sizes)
    fits = (state.tables.capacity[state.kind[slowest]] > 0)[bucket]
    if not fits.all():
        owner, bucket, amount = owner[fits], bucket[fits], amount[fits]
    nothing = np.zeros(len(targets), dtype=np.int64)
    return Chunks(
        np.concatenate([owner, np.arange(len(targets))]),
        np.concatenate([bucket, nothing]),
        np.concatenate([amount, nothing]),
    )


def _slowest_after(state: State, slowest: int, given: Chunks, back: Chunks) -> Array:
    """Seconds of the slowest machine after each exchange; float64 [y, x]."""
    tables, kind = state.tables, state.kind[slowest]
    total, now = tables.total[kind], tables.offset + state.counts[slowest]
    before = now[given.bucket]
    gained = now[back.bucket]
    start = state.total[slowest] + tables.constant[kind]
    away = start + total[before - given.amount] - total[before]
    returned = total[gained + back.amount] - total[gained]
    seconds: Array = returned[:, None] + away
    if tables.bubbles[kind]:
        bubble = tables.bubble[kind]
        added = np.where(back.amount > 0, bubble[gained + back.amount], 0.0)
        greatest = _others(state.bubble[slowest][None], np.zeros_like(back.owner), given, back)
        np.maximum(greatest, bubble[before - given.amount], out=greatest)
        seconds += np.maximum(greatest, added[:, None], out=greatest)
    return seconds


def _targets_after(state: State, targets: Array, given: Chunks, back: Chunks) -> Array:
    """Seconds of the target of each exchange after it; float64 [y, x]."""
    tables, kind = state.tables, state.kind[targets]
    now = tables.offset + state.counts[targets]  # [T, J]
    before = now[:, given.bucket]  # [T, x]
    grown, row = before + given.amount, kind[:, None]
    start = (state.total[targets] + tables.constant[kind])[:, None]
    taken = tables.total[row, grown] - tables.total[row, before] + start
    owner, left = kind[back.owner], now[back.owner, back.bucket]
    returned = tables.total[owner, left - back.amount] - tables.total[owner, left]
    seconds: Array = taken.take(back.owner, axis=0)
    seconds += returned[:, None]
    if tables.bubbles[kind].any():
        kept = np.where(back.amount > 0, tables.bubble[owner, left - back.amount], 0.0)
        greatest = _others(state.bubble[targets], back.owner, given, back)
        np.maximum(greatest, tables.bubble[row, grown].take(back.owner, axis=0), out=greatest)
        seconds += np.maximum(greatest, kept[:, None], out=greatest)
    return seconds


def _others(bubble: Array, owner: Array, given: Chunks, back: Chunks) -> Array:
    """The greatest of the owners' bubbles, float64 [T, J], in buckets that an exchange leaves alone; float64 [y, x].

    Tabulated first for every pair of buckets: the first of the owner's three greatest that is neither of the pair.
    """
    machines, buckets = bubble.shape
    top = np.argsort(-bubble, axis=1, kind="stable")[:, :3]
    value = np.take_along_axis(bubble, top, axis=1)
    one, other = np.arange(buckets), np.arange(buckets + 1)  # the last column: nothing returns
    pairs = np.zeros((machines, buckets + 1, buckets))
    for place in reversed(range(top.shape[1])):
        first = top[:, place, None, None]
        pairs = np.where((first != other[:, None]) & (first != one), value[:, place, None, None], pairs)
    row = owner * (buckets + 1) + np.where(back.amount > 0, back.bucket, buckets)
    chosen: Array = pairs.reshape(-1, buckets).take(given.bucket, axis=1).take(row, axis=0)
    return chosen
