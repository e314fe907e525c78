"""Sequences into bins of tokens: as few bins as possible, or a given number of equally costly ones.

Best-fit decreasing puts each sequence, longest first, into the fullest bin that still holds it; its bins exceed
ceil(tokens / room) by a few in thousands on realistic lengths. Bins are kept by the room they have left, and equal
lengths are placed together, so the work grows with the distinct lengths and rooms, not with the bins. Where bins hold
only a few sequences each, it leaves one bin too many; filling bin after bin by the best pair finds it (after the
minimum bin slack of Gupta and Ho, 1999, cut down to pairs). Longest processing time gives each sequence, costliest
first, to the cheapest bin (Graham 1969).
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush, heapreplace

import numpy as np

from lobra.batch import Array

FEW = 2048  # sequences up to which placing equal lengths together does not pay
SHIFT, LOW = 12, (1 << 12) - 1  # a bin's number is its low bits: FEW bins at most
OWN = 0.9  # of a bin, filled by one tenant: emptier ones cost more than the adapter runs that they save
HARDLY = 512  # part of a bin that is not worth looking for a better second
TRIES = 8  # bins that `balanced` asks for room before it gives up; the cheapest bin nearly always is the emptiest


def best_fit(lengths: Sequence[int] | Array, room: int) -> list[int]:
    """The bin of each length, bins numbered as they are opened; lengths descending, none above `room`."""
    if len(lengths) <= FEW:
        return _one_by_one(np.asarray(lengths).tolist(), room)
    numbers: list[int] = []  # bins that took sequences, in turn,
    amounts: list[int] = []  # and how many
    by_room: dict[int, list[int]] = {}  # room left -> bins with exactly that room, in the order they got there
    rooms: list[int] = []  # its keys, ascending
    opened = 0
    for length, many in _runs(np.asarray(lengths)):
        waiting = many
        while waiting:
            at = bisect_left(rooms, length)
            if at < len(rooms):
                left = rooms[at]
                bins = by_room[left]
            else:
                left = room
                bins = by_room[room] = list(range(opened, opened + -(-waiting // (room // length))))
                rooms.append(room)
                opened += len(bins)
            each = left // length  # having taken one, a bin is still the fullest that can hold the next
            full = waiting // each
            if full > 1 and len(bins) > 1:
                taken, bins[:full] = bins[:full], []
                amount = each
            else:
                taken, amount = [bins.pop(0)], min(each, waiting)
            if not bins:
                del by_room[left], rooms[at]
            numbers += taken
            amounts += [amount] * len(taken)
            waiting -= amount * len(taken)
            left -= amount * length
            if left in by_room:
                by_room[left] += taken
            elif left:
                insort(rooms, left)
                by_room[left] = taken
    return np.repeat(numbers, amounts).tolist()


def _one_by_one(lengths: list[int], room: int) -> list[int]:
    """The same for few lengths, most of them distinct; among equally full bins the first opened."""
    free: list[int] = []  # (room left, number) of bins as one integer, ascending
    placed: list[int] = []
    opened = 0
    for length in lengths:
        wanted = length << SHIFT
        at = bisect_left(free, wanted)
        if at < len(free):
            left = free.pop(at) - wanted
            placed.append(left & LOW)
        else:
            left = ((room - length) << SHIFT) + opened
            placed.append(opened)
            opened += 1
        if left > LOW:
            insort(free, left)
    return placed


def by_pairs(lengths: Sequence[int], room: int) -> list[int]:
    """The bin of each length where bins are filled one after another; lengths descending, none above `room`.

    The longest that is left opens a bin. While as long a one as fits would leave room for another like it, it goes in;
    then the longer of the two that together leave least free (or the one, where no two leave less), and both where
    hardly anything is left. Looking for two takes a step a sequence: a microsecond a sequence for a hundred in bins of
    four.
    """
    left, numbers = list(lengths[::-1]), list(range(len(lengths) - 1, -1, -1))
    placed = [0] * len(left)
    hardly, opened = room // HARDLY, 0
    while left:
        free = room - left.pop()
        placed[numbers.pop()] = opened
        while left and left[0] <= free:
            longer = bisect_right(left, free) - 1
            other = -1
            if left[longer] < free < 2 * left[longer]:
                longer, other = _best_pair(left, longer, free)
            free -= left.pop(longer)
            placed[numbers.pop(longer)] = opened
            if other >= 0 and free - left[other] < hardly:
                free -= left.pop(other)
                placed[numbers.pop(other)] = opened
        opened += 1
    return placed


def _best_pair(ascending: list[int], high: int, free: int) -> tuple[int, int]:
    """The positions up to `high`, the longer first, of the two that leave least of `free`; -1 where one leaves less."""
    longer, shorter, most = high, -1, ascending[high]
    low, long = 0, most
    while low < high:
        both = ascending[low] + long
        if both > free:
            high -= 1
            long = ascending[high]
            continue
        if both > most:
            longer, shorter, most = high, low, both
            if both == free:
                break
        low += 1
    return longer, shorter


def _runs(lengths: Array) -> Iterator[tuple[int, int]]:
    """Lengths that differ from their neighbours, in order, and how often each stands there."""
    starts = np.flatnonzero(np.diff(lengths, prepend=0))
    return zip(lengths[starts].tolist(), np.diff(starts, append=len(lengths)).tolist(), strict=True)


def balanced(lengths: Sequence[int], costs: Sequence[float], number: int, room: int) -> list[int] | None:
    """The bin of each length so that `number` bins cost about the same, or None where that does not come out.

    lengths and costs: one each a sequence, costliest first.
    """
    heap = [(0.0, place) for place in range(number)]
    heapify(heap)
    left = [room] * number
    placed: list[int] = []
    for length, cost in zip(lengths, costs, strict=True):
        passed: list[tuple[float, int]] = []
        while heap and left[heap[0][1]] < length and len(passed) < TRIES:
            passed.append(heappop(heap))
        if not heap or left[heap[0][1]] < length:
            return None
        load, place = heap[0]
        heapreplace(heap, (load + cost, place))
        left[place] -= length
        placed.append(place)
        for entry in passed:
            heappush(heap, entry)
    return placed


def by_tenant(lengths: Sequence[int], tenants: Sequence[int], room: int) -> list[int]:
    """Best fit where tenants have bins of their own; those that stay emptier than OWN are packed again together.

    lengths: descending, none above `room`. More bins than by best fit, but fewer adapters in them; 2,048 sequences at
    most.
    """
    free: dict[int, list[int]] = {}  # as above, of every tenant
    own: list[int] = []
    loads: list[int] = []
    for length, tenant in zip(lengths, tenants, strict=True):
        bins, wanted = free.setdefault(tenant, []), length << SHIFT
        at = bisect_left(bins, wanted)
        if at < len(bins):
            left = bins.pop(at) - wanted
            number = left & LOW
            loads[number] += length
        else:
            number = len(loads)
            left = ((room - length) << SHIFT) + number
            loads.append(length)
        own.append(number)
        if left > LOW:
            insort(bins, left)
    kept = [number for number, load in enumerate(loads) if load >= OWN * room]
    numbers = dict(zip(kept, range(len(kept)), strict=True))
    mixed = iter(
        _one_by_one([length for length, number in zip(lengths, own, strict=True) if number not in numbers], room)
    )
    return [numbers[number] if number in numbers else len(kept) + next(mixed) for number in own]


def best_fit_runs(lengths: Sequence[int] | Array, tenants: Array, room: int, multiple: int) -> list[int]:
    """Best fit where a bin's tokens of each tenant are rounded up to a multiple; lengths descending, none above `room`.

    A sequence that rounding would lift above the room stays alone. Every sequence looks at all bins, O(n k): about ten
    microseconds each for hundreds of bins.
    """
    lengths, (owners, owner) = np.asarray(lengths), np.unique(tenants, return_inverse=True)
    tokens = np.zeros((len(owners), len(lengths)), dtype=np.int64)  # of each tenant in each bin, not rounded
    used = np.zeros(len(lengths), dtype=np.int64)
    placed: list[int] = []
    opened = 0
    for length, tenant in zip(lengths.tolist(), owner.tolist(), strict=True):
        mine = tokens[tenant, :opened]
        after = used[:opened] + (-(-(mine + length) // multiple) + (-mine // multiple)) * multiple
        fitting = np.where(after <= room, after, -1)
        number = int(fitting.argmax()) if opened else 0
        if not opened or fitting[number] < 0:
            number, opened = opened, opened + 1
            used[number] = -(-length // multiple) * multiple  # above the room: nothing joins it
        else:
            used[number] = fitting[number]
        tokens[tenant, number] += length
        placed.append(number)
    return placed
