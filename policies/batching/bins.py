"""Sequences into bins of tokens: as few bins as possible, or a given number of equally costly ones.

Best-fit decreasing puts each sequence, longest first, into the fullest bin that still holds it; its bins exceed
ceil(tokens / room) by a few in thousands on realistic lengths. Bins are kept by the room they have left, and equal
lengths are placed together, so the work grows with the distinct lengths and rooms, not with the bins. Longest
processing time gives each sequence, costliest first, to the cheapest bin (Graham 1969).
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace
from itertools import groupby

TRIES = 8  # bins that `balanced` asks for room before it gives up; the cheapest bin nearly always is the emptiest


def best_fit(lengths: Sequence[int], room: int) -> list[int]:
    """The bin of each length, bins numbered as they are opened; lengths descending, none above `room`."""
    placed: list[int] = []
    by_room: dict[int, list[int]] = {}  # room left -> bins with exactly that room, in the order they got there
    rooms: list[int] = []  # its keys, ascending
    opened = 0

    def keep(left: int, bins: list[int]) -> None:
        if not bins or not left:
            return
        if left not in by_room:
            insort(rooms, left)
        by_room.setdefault(left, []).extend(bins)

    for length, run in groupby(lengths):
        waiting = sum(1 for _ in run)
        while waiting:
            at = bisect_left(rooms, length)
            if at < len(rooms):
                left = rooms.pop(at)
                bins = by_room.pop(left)
            else:
                left = room
                bins = list(range(opened, opened + -(-waiting // (room // length))))
                opened += len(bins)
            each = left // length  # having taken one, a bin is still the fullest that can hold the next
            full = min(len(bins), waiting // each)
            for number in bins[:full]:
                placed.extend([number] * each)
            waiting -= full * each
            keep(left - each * length, bins[:full])
            if waiting and full < len(bins):
                placed.extend([bins[full]] * waiting)
                keep(left - waiting * length, [bins[full]])
                waiting, full = 0, full + 1
            keep(left, bins[full:])
    return placed


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
