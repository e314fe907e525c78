"""A flow made better: slots joined, slots moved, sequences shifted, as long as the pipeline ends earlier.

Every change is judged by the seconds of the whole flow, the empty slots that it needs included, then by its number of
slots. Cost: a judgement is O(slots * stages). The limit counts work, not time, so that the result is the same on every
machine: a judgement counts as many units as the flow has slots, a change that does not fit counts one.
"""

from collections.abc import Iterator, Sequence

from policies.adaptive.flow import Entry, Judge
from policies.adaptive.nouns import Pack, Slot

AHEAD = 8  # slots that a slot or a sequence may move, or look for a partner

Changes = Iterator[list[Entry] | None]  # None: one that does not fit


def improved(flow: Sequence[Entry], judge: Judge, work: int) -> tuple[list[Entry], tuple[float, int]]:
    """The best flow found within so much work, and its cost; never a worse one. The flow must be in order."""
    best = list(flow)
    cost = judge.cost(best)
    if cost is None:
        raise AssertionError("the flow has an adapter's batches out of order")
    found = True
    while found and work > 0:
        found = False
        for changes in (_joined, _moved, _shifted):
            for candidate in changes(best, judge):
                work -= len(best) if candidate is not None else 1
                after = judge.cost(candidate) if candidate is not None else None
                if candidate is not None and after is not None and after < cost:
                    best, cost, found = candidate, after, True
                    break
                if work <= 0:
                    return best, cost
    return best, cost


def _joined(flow: list[Entry], judge: Judge) -> Changes:
    """Two slots made one, the cheapest first; at the place of either."""
    for one in sorted(range(len(flow)), key=lambda place: flow[place].seconds):
        for other in _near(one, len(flow)):
            if flow[other].seconds < flow[one].seconds:
                continue
            slot = together(flow[one].slot, flow[other].slot)
            if not judge.fits(slot):
                yield None
                continue
            rest = [entry for place, entry in enumerate(flow) if place not in (one, other)]
            for place in (min(one, other), max(one, other) - 1):
                yield [*rest[:place], judge.entry(slot), *rest[place:]]


def _moved(flow: list[Entry], judge: Judge) -> Changes:
    """One slot elsewhere."""
    del judge
    for place in range(len(flow)):
        rest = flow[:place] + flow[place + 1 :]
        for target in _near(place, len(flow)):
            yield [*rest[:target], flow[place], *rest[target:]]


def _shifted(flow: list[Entry], judge: Judge) -> Changes:
    """One sequence to a cheaper slot, out of the costliest slots first."""
    for source in sorted(range(len(flow)), key=lambda place: -flow[place].seconds):
        for lane, pack in enumerate(flow[source].slot):
            for taken in range(len(pack)):
                for target in _near(source, len(flow)):
                    if flow[target].seconds > flow[source].seconds:
                        continue
                    slot = with_pack(flow[target].slot, lane, (*flow[target].slot[lane], pack[taken]))
                    smaller = with_pack(flow[source].slot, lane, pack[:taken] + pack[taken + 1 :])
                    if not judge.fits(slot) or not any(smaller):
                        yield None
                        continue
                    changed = list(flow)
                    changed[source], changed[target] = judge.entry(smaller), judge.entry(slot)
                    yield changed


def _near(place: int, slots: int) -> Iterator[int]:
    """Other places within reach, in order."""
    for other in range(max(0, place - AHEAD), min(slots, place + AHEAD + 1)):
        if other != place:
            yield other


def together(one: Slot, other: Slot) -> Slot:
    """The packs of two slots, joined replica by replica, the widest of one with the narrowest of the other."""
    return tuple((*mine, *yours) for mine, yours in zip(one, reversed(other), strict=True))


def with_pack(slot: Slot, lane: int, pack: Pack) -> Slot:
    """The slot with another pack for one replica."""
    return (*slot[:lane], pack, *slot[lane + 1 :])
