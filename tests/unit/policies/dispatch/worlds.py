"""Loads, buckets and plain formulas for tests of dispatch; written without the code they judge."""

import itertools
import math
from dataclasses import dataclass

import numpy as np

import toys
from lobra.batch import Bucket
from lobra.rates import Loads
from policies.dispatch.fleet import Fleet


@dataclass(frozen=True)
class Talking(toys.ToyCost):
    """Members of a group talk: a token costs a tenth more for everyone there is to talk to."""

    def _per_layer(self, tp: int, shards: int) -> tuple[float, float, float, float, float]:
        floor, fixed, run, token, square = toys.ToyCost._per_layer(self, tp, shards)
        return floor, fixed, run, token * (1 + 0.1 * (shards - 1)), square


def loads(capacity, fixed, each, floor=0.0, stages=1, longest=None):
    return Loads(np.array(capacity), np.array(fixed, float), np.array(each, float), floor, stages, longest)


def plain_seconds(kind, counts):
    """One machine's seconds: micro-batches of even size one by one, then their sum and the bubble."""
    times = []
    for capacity, fixed, each, count in zip(kind.capacity, kind.fixed, kind.each, counts, strict=True):
        if count and capacity < 1:
            return math.inf
        number = math.ceil(count / capacity) if count else 0
        sizes = [count // number + (part < count % number) for part in range(number)]
        times += [max(kind.floor, fixed + each * size) for size in sizes]
    longest = kind.longest if kind.longest is not None and times else max(times, default=0.0)
    return sum(times) + (kind.stages - 1) * longest


def plain_makespan(fleet, counts):
    return max(plain_seconds(fleet.loads[kind], row) for kind, row in zip(fleet.kind, counts.tolist(), strict=True))


def ways(count, machines):
    """Every way to deal a count to machines."""
    if machines == 1:
        yield (count,)
        return
    for first in range(count + 1):
        for rest in ways(count - first, machines - 1):
            yield (first, *rest)


def optimum(fleet, counts):
    """The least makespan of all dispatches, by trying every one; tables of prices by the plain formula."""
    machines, best = len(fleet.kind), math.inf
    price = {}
    choices = [list(ways(count, machines)) for count in counts]
    for dealt in itertools.product(*choices):
        worst = 0.0
        for machine, row in enumerate(zip(*dealt, strict=True)):
            key = (int(fleet.kind[machine]), row)
            if key not in price:
                price[key] = plain_seconds(fleet.loads[key[0]], row)
            worst = max(worst, price[key])
            if worst >= best:
                break
        best = min(best, worst)
    return best


def random_fleet(random, machines=3, buckets=3, pipelines=True):
    """Machines of random kinds; the last holds everything, others perhaps not the widest bucket."""
    kinds = []
    for machine in range(machines):
        capacity = np.sort(random.integers(1, 6, buckets))[::-1].copy()
        if machine < machines - 1 and random.random() < 0.5:
            capacity[-1] = 0
        fixed, each = random.uniform(0.1, 1.0, buckets), np.sort(random.uniform(0.2, 2.0, buckets))
        stages = int(random.integers(1, 4)) if pipelines else 1
        kinds.append(loads(capacity, fixed, each, float(random.choice([0.0, 1.0])), stages))
    return Fleet(tuple(kinds), np.arange(machines))


def buckets(*parts, tenants=3):
    """Buckets from (width, count); lengths just below the width, tenants in turn."""
    made = []
    for width, count in parts:
        owners = np.sort(np.arange(count) % tenants)
        made.append(Bucket(width, toys.batch(*[width - n % 5 for n in range(count)], tenants=owners)))
    return tuple(made)


def held(assignment):
    """(replica, width, index) of every sequence, sorted."""
    return sorted(
        (part.width, int(index)) for share in assignment.shares for part in share for index in part.sequences.index
    )


def table(assignment, widths):
    """Counts [R, J] of an assignment."""
    return [
        [sum(part.count for part in share if part.width == width) for width in widths] for share in assignment.shares
    ]
