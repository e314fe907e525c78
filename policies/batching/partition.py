"""The exact choice of bucket boundaries: which widths make the fewest computed tokens, or the least computed price.

Sequences are grouped by the candidate width they are rounded up to, so the dynamic programme of the paper (Eq. 4) runs
over U distinct candidates instead of n sequences: cost_j[i] = min over k < i of cost_{j-1}[k] + u_i (C_i - C_k), with
u the ascending candidates (or their prices, ascending too) and C the cumulated counts. Seen from candidate i, every
begin k is a line of slope -C_k, and a layer is the lower envelope of lines: the lower convex hull of the points
(C_k, cost_{j-1}[k]), touched by a tangent of slope u_i. One bucket more never makes a prefix dearer, so k >= i never
wins and every i may look at the same hull. From layer to layer the hull changes little: points above the chords of the
old one are out at once. Where a boundary is forced, no bucket may reach across it, and what lies between two such
boundaries has a hull of its own. O(R U) elements in some dozens of array operations a layer.
"""

from collections.abc import Iterator

import numpy as np

from lobra.batch import Array

NEAR = 1e-12  # of a cost: what rounding may hide; points so close above a chord are looked at exactly


def choose_boundaries(
    candidates: Array, counts: Array, number: int, *, prices: Array | None = None, forced: Array | None = None
) -> Array:
    """The boundaries, at most `number` of the candidates, that minimise padded tokens; ascending, the last included.

    candidates: [U] distinct widths, ascending; counts: [U] sequences (or probabilities) of each, above 0; prices: [U],
    not descending, what a sequence padded to a candidate costs instead of its tokens; forced: candidates that must be
    boundaries, fewer than `number`. Among equal choices the one whose last buckets are wider wins.
    """
    candidates = np.asarray(candidates)
    width = np.concatenate([[0.0], candidates if prices is None else prices])
    count = np.concatenate([[0.0], np.cumsum(counts, dtype=np.float64)])
    last = len(candidates)
    fences = np.zeros(0, dtype=np.int64) if forced is None else np.searchsorted(candidates, np.unique(forced)) + 1
    fences = np.concatenate([[0], fences[fences < last]])
    if len(fences) > number:
        raise ValueError(f"{len(fences) - 1} forced boundaries and the last one are more than {number}")
    costs = list(_layers(width, count, np.append(fences, last).tolist(), max(1, min(number, last) - 1)))
    ends = [last]
    for cost in reversed(costs[: number - 1]):
        end = ends[-1]
        low = int(fences[np.searchsorted(fences, end) - 1])
        ends.append(low + int(np.argmin(cost[low:end] - count[low:end] * width[end])))
        if not ends[-1]:
            break
    chosen: Array = candidates[[end - 1 for end in reversed(ends) if end]]
    return chosen


def _layers(width: Array, count: Array, fences: list[int], layers: int) -> Iterator[Array]:
    """The least cost of the first i candidates, [U + 1], with one bucket, two, ...; inf where a fence forbids it."""
    whole = width * count
    cost = np.where(np.arange(len(whole)) <= fences[1], whole, np.inf)
    yield cost
    fenced = np.isin(np.arange(len(whole)), fences) if len(fences) > 2 else None
    hull = np.zeros(1, dtype=np.int64)
    for layer in range(1, layers):
        reach = fences[min(layer, len(fences) - 1)]  # so far a bucket may have ended; the next ends a fence further
        hull = _lower_hull(count[: reach + 1], cost[: reach + 1], hull, fenced)
        x, y = count[hull], cost[hull]
        slopes = (y[1:] - y[:-1]) / (x[1:] - x[:-1])
        limits = fences[: layer + 2]
        corners = np.searchsorted(hull, limits).tolist()
        touched = [
            first + slopes[first:last].searchsorted(width[low + 1 : high + 1])
            for low, high, first, last in zip(limits[:-1], limits[1:], corners[:-1], corners[1:], strict=True)
        ]
        at = touched[0] if len(touched) == 1 else np.concatenate(touched)
        inside = slice(1, limits[-1] + 1)
        cost = np.full(len(whole), np.inf)
        cost[0] = 0.0
        cost[inside] = whole[inside] + (y[at] - x[at] * width[inside])
        yield cost


def _lower_hull(x: Array, y: Array, guess: Array, fenced: Array | None) -> Array:
    """Positions of the corners of the lower convex hulls between fenced points, x ascending; guess: of ones like them.

    Points behind the last one of the guess are all looked at.
    """
    if guess[-1] < len(x) - 1:
        guess = np.append(guess, np.arange(guess[-1] + 1, len(x)))
    if len(guess) < len(x):
        under = y * (1 - NEAR) < np.interp(x, x[guess], y[guess])
        under[guess] = True
        guess = np.flatnonzero(under)
    return _corners(x, y, guess, fenced)


def _corners(x: Array, y: Array, place: Array, fenced: Array | None) -> Array:
    """These positions without those on or above a chord of their neighbours, until there is none but fenced ones."""
    x, y = x[place], y[place]
    while len(place) > 2:
        right, up = x[1:] - x[:-1], y[1:] - y[:-1]
        corner = np.empty(len(place), dtype=bool)
        corner[0] = corner[-1] = True
        np.less(up[:-1] * right[1:], up[1:] * right[:-1], out=corner[1:-1])
        if fenced is not None:
            corner |= fenced[place]
        if corner.all():
            break
        x, y, place = x[corner], y[corner], place[corner]
    return place
