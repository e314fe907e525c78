"""Levelling kinds of replicas: sequences change kinds until all would end together, whole packs counted.

A fluid pays for parts of packs, a replica for whole ones: the last pack of each is a half per cent to one per cent of a
step, and one that a few tokens opened is paid like a full one. So every kind has steps: while a pack is being filled, a
token costs only itself, at its end the fixed part of the next. One sample replica of each kind, packed, says how full
its packs get and what they cost besides their sequences; the least makespan at which the kinds can hold all tokens says
how many each should hold. They are handed on from kind to kind along the budgets, short ones first, since what a kind
holds fits all that hold more. Pipelines choose their packs themselves and count as without steps.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lobra.batch import Array
from policies.dispatch.packed_shares import PackedShares

MAKESPANS = 512  # looked at, evenly between kinds that are all as fast as the fastest and all as slow as the slowest


@dataclass(frozen=True, slots=True)
class Sample:
    """What a replica of a kind takes with about the sequences that it will get."""

    seconds: float
    expected: float  # what the prices of its sequences add up to
    pack: float  # tokens of a pack, the emptiest left out
    opening: float  # seconds of a pack besides its sequences


def sample_of(shares: PackedShares, kind: int, taken: Array, size: int) -> Sample | None:
    """One of `size` replicas of a kind that takes these sequences; None where it takes nothing.

    Every size-th sequence is about what one of them will get.
    """
    held = taken[min(size // 2, max(0, len(taken) - 1)) :: size]
    if not len(held):
        return None
    prices, bins = shares.prices[kind], shares.bins(kind, held)
    alone = float(prices.sequence_seconds(shares.sequences.length[held]).sum())
    widths = np.sort(bins.widths)
    return Sample(
        seconds=bins.total,
        expected=float(shares.each[kind][held].sum()),
        pack=float(widths[1:].mean()) if len(widths) > 1 else float(prices.room),
        opening=max(0.0, float(bins.seconds.sum()) - alone) / len(widths),
    )


def level(shares: PackedShares, kinds: Array, samples: tuple[Sample | None, ...]) -> None:
    """Change the kind of sequences, int64 [n], in place, until all kinds would end about together."""
    lengths = shares.sequences.length.astype(np.int64)
    sizes = np.bincount(shares.kind)
    tokens = np.bincount(kinds, weights=lengths, minlength=len(sizes))
    steps = [
        _held(shares, number, np.flatnonzero(kinds == number), float(tokens[number] / size), sample)
        for number, (size, sample) in enumerate(zip(sizes.tolist(), samples, strict=True))
    ]
    start = [step.seconds for step in steps]
    makespans = np.linspace(min(start), max(start), MAKESPANS)
    held = np.stack([step.tokens_within(makespans) for step in steps], axis=1)  # of a replica
    enough = int(np.argmax(held @ sizes >= tokens.sum()))  # the slowest is enough: all hold what they hold and more
    rooms = np.array([prices.room for prices in shares.prices])
    _hand_on(lengths, kinds, held[enough] * sizes - tokens, rooms)


@dataclass(frozen=True, slots=True)
class _Steps:
    """A replica that holds `tokens` now: what it would take with more or fewer of them."""

    tokens: float
    token: float  # seconds
    pack: float  # tokens; 0: no steps
    opening: float  # seconds
    rest: float  # seconds that it takes in any case

    @property
    def seconds(self) -> float:
        """With the tokens that it holds now."""
        packs = np.ceil(self.tokens / self.pack - 1e-9) if self.pack else 0.0
        return float(self.rest + self.token * self.tokens + self.opening * packs)

    def tokens_within(self, makespans: Array) -> Array:
        """The most that it can hold; elementwise."""
        time = np.maximum(makespans - self.rest, 0.0)
        if not self.pack:
            return time / self.token
        whole = np.floor(time / (self.token * self.pack + self.opening))
        more = (time - (whole + 1) * self.opening) / self.token
        most: Array = np.maximum(whole * self.pack, more)
        return most


def _held(shares: PackedShares, kind: int, taken: Array, tokens: float, sample: Sample | None) -> _Steps:
    prices = shares.prices[kind]
    if sample is None or not tokens:
        return _Steps(0.0, prices.token, float(prices.room), prices.fixed + prices.run, 0.0)
    if prices.stages > 1:
        return _Steps(tokens, sample.seconds / tokens, 0.0, 0.0, 0.0)
    replicas = float((shares.kind == kind).sum())
    alone = float(prices.sequence_seconds(shares.sequences.length[taken]).sum()) / replicas
    return _Steps(tokens, alone / tokens, sample.pack, sample.opening, 0.0)


def _hand_on(lengths: Array, kinds: Array, wanted: Array, rooms: Array) -> None:
    """Give every kind about so many tokens more (or fewer), in place; wanted: [K], rooms: tokens of a pack, [K]."""
    order = np.argsort(-rooms, kind="stable").tolist()
    for large, small in pairwise(order):
        giver, taker = (large, small) if wanted[large] < 0 else (small, large)
        offered = np.flatnonzero((kinds == giver) & (lengths <= rooms[taker]))
        short = offered[len(offered) // 2 :]
        tokens = abs(wanted[large])
        if lengths[short].sum() < tokens:
            short = offered
        total = int(lengths[short].sum())
        count = int(len(short) * min(1.0, tokens / max(total, 1)))
        given = short[(np.arange(count) * len(short)) // max(count, 1)]  # evenly over the lengths
        kinds[given] = taker
        moved = int(lengths[given].sum())
        wanted[giver] += moved
        wanted[taker] -= moved
