"""Two ways to draw a batch from a tenant's lengths: independently, or with the data set's own proportions.

iid: every sequence is drawn on its own; a batch varies as much as chance makes it.

stratified: the data are sorted into bins by powers of two (1, 2, 3-4, 5-8, 9-16, ...), and every batch carries the
data set's share of each bin, to less than one sequence. So does the loader of the paper's released code (arXiv
2509.01193); it makes batches more alike than chance would, and so flatters plans that are made once for all steps.
Within a bin a length is random. A bin that deserves a fraction of a sequence gets one in that fraction of the batches.
"""

from typing import Literal, get_args

import numpy as np

from lobra.batch import Array
from lobra.errors import BadInput
from workloads.strict_yaml import nearest
from workloads.table import LengthTable

Sampler = Literal["iid", "stratified"]


def check_sampler(name: str) -> Sampler:
    """The name, if it is one of a sampler."""
    for sampler in get_args(Sampler):
        if sampler == name:
            return sampler  # type: ignore[no-any-return]  # get_args does not know the type of its answer
    raise BadInput(f"sampler is {name!r}; {nearest(name, get_args(Sampler))}")


def bin_ends(longest: int) -> Array:
    """Last length of each power-of-two bin, the bin of `longest` being the last; int64 [bins]."""
    return 1 << np.arange(int(longest - 1).bit_length() + 1)


def draw(table: LengthTable, generator: np.random.Generator, count: int, sampler: Sampler) -> Array:
    """Lengths of one batch, int64 [count]."""
    if sampler == "iid":
        return table.sample(generator, count)
    edges = np.append(0.0, table.at_most(bin_ends(table.longest)))
    ticks = (np.arange(count) + generator.random()) / count  # systematic: a bin of share p gets p * count, up or down
    chosen = np.searchsorted(edges[1:-1], ticks, side="right")
    low, high = edges[chosen], edges[chosen + 1]
    uniforms = np.minimum(low + (high - low) * generator.random(count), np.nextafter(high, 0.0))
    return generator.permutation(table.quantile(uniforms))


def walk(lengths: Array, generator: np.random.Generator, sampler: Sampler) -> Array:
    """An order of all rows of a data set, each once: what an epoch visits; lengths [n] to positions [n]."""
    order = generator.permutation(len(lengths))
    if sampler == "iid":
        return order
    bins = np.searchsorted(bin_ends(int(lengths.max())), lengths[order])
    by_bin = np.argsort(bins, kind="stable")
    sizes = np.bincount(bins)
    place = np.empty(len(order))  # each bin is spread evenly over the epoch, from a random start
    place[by_bin] = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    place = (place + generator.random(len(sizes))[bins]) / sizes[bins]
    return order[np.argsort(place, kind="stable")]
